"""The write pipeline: lock, read the old image, decide, commit what follows in one batch.

A write (item_writes.pyx) says which item and what is asked of it; running it fills in what
happened. `WritePath.run` runs one, `run_all` several as one atomic commit:

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

from cython cimport critical_section, final
from libc.stdint cimport uint64_t

from dynalsm._core.engine cimport Batch, Tree
from dynalsm.model.batches cimport batch_commit
from dynalsm.model.handles cimport TableHandle
from dynalsm.model.item_writes cimport Write, size_or_zero
from dynalsm.model.stripes cimport (
    PENDING,
    StripeSet,
    Stripes,
    add_stripe,
    clear_stripes,
    stripe_of,
)

from dynalsm.model.item_collections import CollectionTooLarge

cdef enum:
    # A batch that has grown beyond this is not kept for the next write.
    SPARE_MAX_BYTES = 1 << 16
    # So many items are read one by one; for more, one snapshot and overlapping fetches pay off.
    SINGLE_READS = 8


class StaleHandle(Exception):
    """The table changed since its handle was taken: take a new one and start over."""


class ActionProblem(Exception):
    """The write at `position` of several cannot be done; `problem` says why."""

    def __init__(self, position, problem):
        super().__init__(position, problem)
        self.position = position
        self.problem = problem


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
        return self.run_one(write)

    cdef uint64_t run_one(self, Write write) except? 0:
        cdef TableHandle handle = write.handle
        cdef Stripes stripes = self._stripes
        cdef int stripe = stripe_of(write.key)
        cdef uint64_t seqno
        stripes.take(stripe)
        try:
            self.check_current(handle)
            write.old_stored = find_stored(handle, write.key)
            write.decide()
            if not write.is_change:
                return self.known_seqno(stripe)
            self.check_collection(write)
            batch = self.take_batch()
            write.stage(batch, None if handle.changelog is None else self._clock())
            stripes.note(stripe, PENDING)
            seqno = batch_commit(self.engine, batch)
            stripes.note(stripe, seqno)
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
        return self.run_group(list(writes), extra, -1.0 if timeout is None else timeout)

    cdef uint64_t run_group(
        self, list writes, object extra, double timeout_seconds
    ) except? 0:
        cdef StripeSet stripes
        cdef Write write
        cdef uint64_t seqno
        cdef bint is_failed
        clear_stripes(&stripes)
        for write in writes:
            add_stripe(&stripes, stripe_of(write.key))
        self._stripes.take_all(&stripes, timeout_seconds)
        try:
            self.read_old_images(writes)
            is_failed = decide_all(writes)
            self.check_collections(writes)
            if is_failed:
                return self.known_seqno_of_all(&stripes)
            batch = self.take_batch()
            stage_all(writes, batch, self._clock())
            if extra is not None:
                extra(batch)
            if not len(batch):
                self.give_batch(batch)
                return self.known_seqno_of_all(&stripes)
            seqno = self.commit_under_locks(&stripes, batch)
        finally:
            self._stripes.release_all(&stripes)
        self.give_batch(batch)
        for write in writes:
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

    cdef int check_collections(self, list writes) except -1:
        """Refuse what would make a full item collection larger. Raises: ActionProblem."""
        cdef Write write
        cdef Py_ssize_t position = 0
        for write in writes:
            if write.is_change and write.handle.has_local_indexes:
                try:
                    self.check_collection(write)
                except CollectionTooLarge as problem:
                    raise ActionProblem(position, problem) from problem
            position += 1
        return 0

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
                write.old_stored = find_stored(write.handle, write.key)
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
        cdef Batch batch
        with critical_section(self):     # nothing, where the GIL is held
            batch = self._spare
            self._spare = None
        return self.engine.batch() if batch is None else batch

    cdef void give_batch(self, object batch) noexcept:
        """Take back a batch that was committed; one that was not may hold anything."""
        cdef Batch used
        if type(batch) is Batch:
            used = <Batch>batch
            if used.capacity <= SPARE_MAX_BYTES:
                used.size = 0
                used.count = 0
                used.stamp_count = 0
                with critical_section(self):
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


cdef inline bytes find_stored(TableHandle handle, bytes key):
    if type(handle.tree) is Tree:
        return (<Tree>handle.tree).find(key, None, True)
    return handle.tree.get(key)


cdef bint decide_all(list writes) except -1:
    """Returns: whether the condition of a write was false. Raises: ActionProblem."""
    cdef Write write
    cdef Py_ssize_t position = 0
    cdef bint is_failed = False
    for write in writes:
        try:
            write.decide()
        except Exception as problem:
            raise ActionProblem(position, problem) from problem
        is_failed |= write.is_failed
        position += 1
    return is_failed


cdef int stage_all(list writes, object batch, object now) except -1:
    """`now` is one moment for all: no point in time lies between them."""
    cdef Write write
    for write in writes:
        if write.is_change:
            write.stage(batch, now)
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
