"""The write pipeline: lock, read the old image, decide, commit what follows in one batch.

A write is an object of one of four kinds: `Put`, `Delete`, `Update` and `Check`. It says which
item and what is asked of it; running it fills in what happened. `WritePath.run` runs one,
`run_all` several as one atomic commit:

    lock the item's stripe -> read the old image -> condition -> new image
        -> index entries, stream record, expiry entry -> one engine batch -> commit -> unlock

Nobody waits for the disk here: `run` returns a sequence number, and whoever called it hands that
to `Database.finish`, with no lock held. When nothing was written the number is that of the last
commit near the item, because the answer rests on it.

Thread safety: a WritePath may be used from any thread; a write object belongs to one.
Invariants: (1) between reading an item and committing its change, its stripe is held; (2) a write
runs only with the newest handle of its table; (3) what the old image holds already is not written
again.
"""

from cython cimport final
from libc.stdint cimport int64_t, uint64_t

from dynalsm._core.engine cimport Batch
from dynalsm.model.batches cimport batch_commit, batch_delete, batch_put
from dynalsm.model.change_records cimport add_change_record
from dynalsm.model.entries cimport (
    billed_difference,
    count_changes,
    index_changes,
    local_entries_bytes,
    new_entries,
    stage_changes,
    updated_entries,
)
from dynalsm.model.handles cimport IndexHandle, TableHandle
from dynalsm.model.keys cimport size_of_stored
from dynalsm.model.stripes cimport (
    PENDING,
    StripeSet,
    Stripes,
    add_stripe,
    clear_stripes,
    stripe_of,
)

from dynalsm.model import ttl
from dynalsm.model.capacity import Tally, write_units
from dynalsm.model.entries import units, vector_bytes
from dynalsm.model.item_collections import CollectionTooLarge
from dynalsm.values import ItemView, encode_value, merge, without

cdef enum:
    # A batch that has grown beyond this is not kept for the next write.
    SPARE_MAX_BYTES = 1 << 16
    # So many items are read one by one; for more, one snapshot and overlapping fetches pay off.
    SINGLE_READS = 8

cdef dict NO_ITEM = {}
cdef object maintain_expiry = ttl.maintain


class StaleHandle(Exception):
    """The table changed since its handle was taken: take a new one and start over."""


class ItemTooLarge(Exception):
    """The new image is larger than the limit, or is with its local index entries."""


class ActionProblem(Exception):
    """The write at `position` of several cannot be done; `problem` says why."""

    def __init__(self, position, problem):
        super().__init__(position, problem)
        self.position = position
        self.problem = problem


# ---- writes -------------------------------------------------------------------------------------

cdef inline uint64_t size_or_zero(bytes stored) except? 0xFFFFFFFFFFFFFFFF:
    return size_of_stored(stored) if stored is not None else 0


cdef int check_size(TableHandle handle, bytes stored, list entries) except -1:
    cdef uint64_t size_bytes = size_of_stored(stored)
    if entries is not None and handle.has_local_indexes:
        size_bytes += local_entries_bytes(handle, entries)
    if size_bytes > handle.item_limit_bytes:
        raise ItemTooLarge
    return 0


cdef class Write:
    """One item and what to do with it. Subclasses implement `decide`.

    After a run: `is_failed` says that the condition was false, `is_change` that something was
    written; `old_stored` and `new_stored` are the images as stored (None: no item).
    """

    def __init__(self, TableHandle handle not None, bytes key not None, condition=None):
        self.handle = handle
        self.key = key
        self.condition = condition

    cpdef decide(self):
        """Find the new image from `old_stored`; set new_stored, is_change and is_failed."""
        raise NotImplementedError

    cdef bytes old_image(self):
        """The old image as a whole encoded item, or None."""
        if self._old_item is None and self.old_stored is not None:
            self._old_item = self.handle.keys.whole(self.key, self.old_stored)
        return self._old_item

    cdef bytes new_image(self):
        """The new image as a whole encoded item, or None."""
        if self._new_item is None and self.new_stored is not None:
            self._new_item = self.handle.keys.whole(self.key, self.new_stored)
        return self._new_item

    cdef bint is_refused(self) except -1:
        """Whether there is a condition and it is false of the old image (no item: an empty one)."""
        cdef bytes item
        if self.condition is None:
            return False
        item = self.old_image()
        return not self.condition.evaluate(NO_ITEM if item is None else ItemView(item))

    cdef int stage(self, object batch, object now) except -1:
        """Add the change, and all that follows from it, to a batch. `now`: for its record."""
        cdef TableHandle handle = self.handle
        cdef bytes old_item
        if self.new_stored is None:
            batch_delete(batch, handle.tree, self.key)
        else:
            batch_put(batch, handle.tree, self.key, self.new_stored)
        if not handle.written_indexes and handle.changelog is None and handle.expiry is None:
            return 0
        old_item = self.old_image()
        if handle.written_indexes:
            self.index_changes = index_changes(handle, old_item, self._entries)
            stage_changes(batch, self.index_changes)
        if handle.changelog is not None:
            add_change_record(
                batch, handle, self.key, old_item, self.new_image(), now, self.by_ttl
            )
        if handle.expiry is not None:
            maintain_expiry(batch, handle, self.key, old_item, self.new_image())
        return 0

    cdef int count(self, uint64_t seqno) except -1:
        """Report the committed change to the counters of the table and its indexes."""
        self.handle.statistics.count(
            seqno,
            <int64_t>(self.new_stored is not None) - <int64_t>(self.old_stored is not None),
            <int64_t>size_or_zero(self.new_stored) - <int64_t>size_or_zero(self.old_stored),
        )
        if self.index_changes is not None:
            count_changes(seqno, self.index_changes)
        return 0

    @property
    def old_item(self):
        """The old image as a whole encoded item, or None."""
        return self.old_image()

    @property
    def new_item(self):
        """The new image as a whole encoded item, or None."""
        return self.new_image()

    @property
    def old_size(self):
        """DynamoDB's size of the old image in bytes; 0 when there is none."""
        return size_or_zero(self.old_stored)

    @property
    def new_size(self):
        """DynamoDB's size of the new image in bytes; 0 when there is none."""
        return size_or_zero(self.new_stored)

    def tally(self, factor=1):
        """Return the units that the write consumes; `factor` applies to the table's arm only."""
        tally = Tally(factor * write_units(self.billed_size()))
        self.add_index_units(tally)
        return tally

    def add_index_units(self, tally):
        """Add the units of the touched indexes."""
        cdef IndexHandle index
        for change in self.index_changes or ():
            index = change[0]
            if index.vectors is not None:
                tally.add_vectors(index.name, vector_bytes(change))
            else:
                tally.add_index(index.is_local, index.name, units(change))

    cdef int64_t billed_size(self) except -1:
        """The size of the larger image, its vectors counted as the floats that they are billed as.
        """
        cdef int64_t old_size = <int64_t>size_or_zero(self.old_stored)
        cdef int64_t new_size = <int64_t>size_or_zero(self.new_stored)
        if self.handle.has_vectors:
            if self.old_stored is not None:
                old_size += billed_difference(self.handle, self.old_image())
            if self.new_stored is not None:
                new_size += billed_difference(self.handle, self.new_image())
        return max(old_size, new_size)


cdef class Put(Write):
    """Replace the whole item. `item` is complete and encoded; its keys have been checked."""

    def __init__(
        self, TableHandle handle not None, bytes key not None, bytes item not None, condition=None
    ):
        Write.__init__(self, handle, key, condition)
        prepare_put(self, item)

    cpdef decide(self):
        if self.is_refused():
            self.is_failed = True
        else:
            self.is_change = self.new_stored != self.old_stored


cdef int prepare_put(Put write, bytes item) except -1:
    cdef TableHandle handle = write.handle
    write._new_item = item
    write.new_stored = handle.keys.stored_of(item)
    if handle.written_indexes:
        write._entries = new_entries(handle, item)
    return check_size(handle, write.new_stored, write._entries)


cdef Put new_put(TableHandle handle, bytes key, bytes item, object condition):
    """A Put made without the detour over Python's call."""
    cdef Put write = Put.__new__(Put)
    write.handle = handle
    write.key = key
    write.condition = condition
    prepare_put(write, item)
    return write


cdef class Delete(Write):
    """Remove the item if it is there."""

    cpdef decide(self):
        if self.is_refused():
            self.is_failed = True
        else:
            self.is_change = self.old_stored is not None


cdef class Check(Write):
    """Change nothing, only test the condition (TransactWriteItems)."""

    cpdef decide(self):
        self.new_stored = self.old_stored
        self._new_item = None
        self.is_failed = self.is_refused()


cdef class Update(Write):
    """Change some attributes. `update` is a bound update; None only makes sure the item exists.

    With `must_exist` a missing item fails like a false condition (PartiQL's UPDATE).
    """

    def __init__(
        self, TableHandle handle not None, bytes key not None, update, condition=None
    ):
        Write.__init__(self, handle, key, condition)
        self.update = update

    cpdef decide(self):
        cdef TableHandle handle = self.handle
        cdef bytes old_item
        cdef bytes new_item
        if self.is_refused() or (self.must_exist and self.old_stored is None):
            self.is_failed = True
            return
        old_item = self.old_image()
        new_item = self.apply(old_item)
        if new_item is None:
            return
        if new_item == old_item:
            self.new_stored = self.old_stored
            return
        self._new_item = new_item
        self.new_stored = handle.keys.stored_of(new_item)
        self.is_change = True
        if handle.written_indexes:
            self._entries = updated_entries(handle, old_item, new_item)
        check_size(handle, self.new_stored, self._entries)

    cdef bytes apply(self, bytes old_item):
        """The new image; None when there is no item and the update makes none.

        An item that is about to be made has its key attributes already (observed: dynalite).
        """
        if old_item is None:
            if self.update is not None and self.update.only_removes:
                self.update.apply(None)
                return None
            old_item = self.handle.keys.key_item(self.key)
        if self.update is None:
            return old_item
        return with_result(old_item, self.update.apply(ItemView(old_item)))


cdef bytes with_result(bytes item, object result):
    """An encoded item with what an update assigned and removed."""
    if result.removed:
        item = without(item, result.removed)
    if result.assigned:
        item = merge(
            item, {name: encode_value(value) for name, value in result.assigned.items()}
        )
    return item


# ---- running them -------------------------------------------------------------------------------

cdef class WritePath:
    """Where items change. One per database; model/writes.py completes it."""

    def __init__(self, engine, catalog, clock, collections):
        self.engine = engine
        self._catalog = catalog
        self._clock = clock
        self._collections = collections
        self._stripes = Stripes()

    def run(self, Write write not None):
        """Run one write; returns the sequence number to wait for. Raises: StaleHandle.

        What `decide` raises (update errors, IndexKeyProblem, ItemTooLarge) passes through;
        nothing has been written then.
        """
        cdef TableHandle handle = write.handle
        cdef Stripes stripes = self._stripes
        cdef int stripe = stripe_of(write.key)
        cdef uint64_t seqno
        stripes.take(stripe)
        try:
            self.check_current(handle)
            write.old_stored = handle.tree.get(write.key)
            write.decide()
            if not write.is_change:
                return self.known_seqno(stripe)
            self.check_collection(write)
            batch = self.take_batch()
            write.stage(batch, None if handle.changelog is None else self._clock())
            stripes._last_seqnos[stripe] = PENDING
            seqno = batch_commit(self.engine, batch)
            stripes._last_seqnos[stripe] = seqno
        finally:
            stripes.release(stripe)
        self.give_batch(batch)
        write.count(seqno)
        return seqno

    def run_all(self, writes, *, extra=None, timeout=None):
        """Run writes to different items as one commit: all of them, or none when one fails.

        `decide` is called for every write in order, also after one has failed. `extra(batch)` may
        add entries of its own to the commit. Raises: StaleHandle; LockTimeout after `timeout`
        seconds; ActionProblem around what a `decide` raises. Nothing has been written then.
        """
        cdef list all_writes = list(writes)
        cdef StripeSet stripes
        cdef Write write
        cdef uint64_t seqno
        cdef bint is_failed = False
        clear_stripes(&stripes)
        for write in all_writes:
            add_stripe(&stripes, stripe_of(write.key))
        self._stripes.take_all(&stripes, -1.0 if timeout is None else timeout)
        try:
            self.read_old_images(all_writes)
            decide_all(all_writes)
            self.check_collections(all_writes)
            for write in all_writes:
                is_failed |= write.is_failed
            if is_failed:
                return self.known_seqno_of_all(&stripes)
            batch = self.take_batch()
            moment = self._clock()  # one for all: no point in time lies between them
            for write in all_writes:
                if write.is_change:
                    write.stage(batch, moment)
            if extra is not None:
                extra(batch)
            if not len(batch):
                self.give_batch(batch)
                return self.known_seqno_of_all(&stripes)
            seqno = self.commit_under_locks(&stripes, batch)
        finally:
            self._stripes.release_all(&stripes)
        self.give_batch(batch)
        for write in all_writes:
            if write.is_change:
                write.count(seqno)
        return seqno

    cdef int check_current(self, TableHandle handle) except -1:
        if not self._catalog.is_current(handle):
            raise StaleHandle
        return 0

    cdef int check_collection(self, Write write) except -1:
        """Raises: CollectionTooLarge."""
        if write.handle.has_local_indexes and (
            size_or_zero(write.new_stored) > size_or_zero(write.old_stored)
        ):
            self._collections.check(write.handle, write.key)
        return 0

    def check_collections(self, list writes):
        """Refuse what would make a full item collection larger. Raises: ActionProblem."""
        cdef Write write
        for position, write in enumerate(writes):
            if write.is_change and write.handle.has_local_indexes:
                try:
                    self.check_collection(write)
                except CollectionTooLarge as problem:
                    raise ActionProblem(position, problem) from problem

    cdef int read_old_images(self, list writes) except -1:
        cdef Write write
        cdef TableHandle handle = None
        cdef dict by_table
        for write in writes:
            if write.handle is not handle:
                handle = write.handle
                self.check_current(handle)
        if len(writes) <= SINGLE_READS:
            for write in writes:
                write.old_stored = write.handle.tree.get(write.key)
            return 0
        by_table = {}
        for write in writes:
            by_table.setdefault(id(write.handle), []).append(write)
        for group in by_table.values():
            write = group[0]
            stored = write.handle.tree.multi_get([(<Write>each).key for each in group])
            for write, old in zip(group, stored):
                write.old_stored = old
        return 0

    # The batch of the last write serves the next one, so that its memory is not made anew.

    cdef object take_batch(self):
        cdef Batch batch = self._spare
        if batch is None:
            return self.engine.batch()
        self._spare = None
        return batch

    cdef void give_batch(self, object batch) noexcept:
        """Take back a batch that was committed; one that was not may hold anything."""
        cdef Batch used
        if type(batch) is Batch:
            used = <Batch>batch
            if used.capacity <= SPARE_MAX_BYTES:
                used.size = 0
                used.count = 0
                used.stamp_count = 0
                self._spare = used

    # What readers and others need.

    def seqno_near(self, bytes key not None):
        """Return a sequence number that covers every visible commit to the item of this key.

        Call it after the item has been read.
        """
        return self.known_seqno(stripe_of(key))

    def locked(self, keys):
        """Return a context manager that holds the locks of items given by their tree keys."""
        cdef Held held = Held.__new__(Held)
        held.path = self
        for key in keys:
            add_stripe(&held.stripes, stripe_of(key))
        return held

    def commit_locked(self, keys, batch):
        """Commit a batch that changes what belongs to these items. REQUIRES: `locked(keys)`."""
        cdef StripeSet stripes
        clear_stripes(&stripes)
        for key in keys:
            add_stripe(&stripes, stripe_of(key))
        return self.commit_under_locks(&stripes, batch)

    def barrier(self):
        """Return when no write is under way that began before the call."""
        self._stripes.barrier()

    cdef uint64_t known_seqno(self, int stripe) except? 0:
        cdef uint64_t seqno = self._stripes.last_seqno(stripe)
        return self.engine.last_seqno if seqno == PENDING else seqno

    cdef uint64_t known_seqno_of_all(self, const StripeSet* stripes) except? 0:
        cdef uint64_t seqno = self._stripes.last_seqno_of_all(stripes)
        return self.engine.last_seqno if seqno == PENDING else seqno

    cdef uint64_t commit_under_locks(self, const StripeSet* stripes, object batch) except? 0:
        cdef uint64_t seqno
        self._stripes.note_all(stripes, PENDING)
        seqno = batch_commit(self.engine, batch)
        self._stripes.note_all(stripes, seqno)
        return seqno


cdef int decide_all(list writes) except -1:
    cdef Write write
    for position, write in enumerate(writes):
        try:
            write.decide()
        except Exception as problem:
            raise ActionProblem(position, problem) from problem
    return 0


@final
cdef class Held:
    """Holds the locks of some stripes inside a `with` block."""

    cdef WritePath path
    cdef StripeSet stripes

    def __enter__(self):
        self.path._stripes.take_all(&self.stripes, -1.0)

    def __exit__(self, *exc):
        self.path._stripes.release_all(&self.stripes)
