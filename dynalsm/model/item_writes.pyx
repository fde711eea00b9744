"""Writes: what is asked of one item, and what became of it.

A write is an object of one of four kinds: `Put`, `Delete`, `Update` and `Check`. The pipeline
(write_path.pyx) gives it the old image and asks it to decide; what follows from the change it
stages itself: index entries, the stream record, the entry of its expiry time.

Images stay as they are stored: conditions are judged and updates applied on those bytes
(expressions/compiled.pyx, changes.pyx). A whole item is made when something needs one: an index, a
stream, a reply, or an update that only closures can apply.

Thread safety: a write object belongs to one thread.
"""

from cpython.bytes cimport PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint64_t

from dynalsm.expressions.changes cimport Changer
from dynalsm.expressions.compiled cimport Judge
from dynalsm.model.batches cimport batch_delete, batch_put
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
from dynalsm.model.key_parts cimport end_of, start_of
from dynalsm.model.keys cimport Record, size_of_stored
from dynalsm.model.stored cimport MAX_HEAD, with_head
from dynalsm.values.buffer cimport Buffer, buffer_free, buffer_init
from dynalsm.values.codec cimport scalar_size

from dynalsm.model import ttl
from dynalsm.model.capacity import Tally, write_units
from dynalsm.model.entries import units, vector_bytes
from dynalsm.values import ItemView, encode_value, merge, without

cdef dict NO_ITEM = {}
cdef bytes NO_ATTRIBUTES = b"\x80"        # an encoded item without any
cdef object maintain_expiry = ttl.maintain


class ItemTooLarge(Exception):
    """The new image is larger than the limit, or is with its local index entries."""


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
        cdef Judge judge
        if self.condition is None:
            return False
        judge = judge_of_condition(self.condition)
        if judge is None:
            item = NO_ITEM if self.old_stored is None else ItemView(self.old_image())
            return not self.condition.evaluate(item)
        if self.old_stored is None:
            return not judge.judge(start_of(NO_ATTRIBUTES), end_of(NO_ATTRIBUTES), NULL, 0)
        return not holds_of_stored(judge, self.handle, self.key, self.old_stored)

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
    cdef Put write = Put.__new__(Put)
    write.handle = handle
    write.key = key
    write.condition = condition
    prepare_put(write, item)
    return write


cdef Delete new_delete(TableHandle handle, bytes key, object condition):
    cdef Delete write = Delete.__new__(Delete)
    write.handle = handle
    write.key = key
    write.condition = condition
    return write


cdef Check new_check(TableHandle handle, bytes key, object condition):
    cdef Check write = Check.__new__(Check)
    write.handle = handle
    write.key = key
    write.condition = condition
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
        self._update = update
        if update is not None:
            self._changer = update.changer()

    @property
    def update(self):
        """The bound update, or None."""
        if self._update is None and self._template is not None:
            self._update = self._template.bound(self._given)
        return self._update

    cpdef decide(self):
        if self.is_refused() or (self.must_exist and self.old_stored is None):
            self.is_failed = True
            return
        if not self.apply_encoded() and not self.apply_decoded():
            return
        if self.new_stored == self.old_stored:
            self.new_stored = self.old_stored
            return
        self.is_change = True
        if self.handle.written_indexes:
            self._entries = updated_entries(self.handle, self.old_image(), self.new_image())
        check_size(self.handle, self.new_stored, self._entries)

    cdef bint apply_encoded(self) except -1:
        """Find what is stored from what was. Returns: whether that was possible.

        An item that is about to be made has its key attributes already (observed: dynalite).
        """
        cdef Record record
        cdef Buffer out
        cdef Buffer room
        cdef size_t count = 0
        cdef int64_t growth = 0
        if self._changer is None or (
            self.old_stored is None and self._changer.program.only_removes
        ):
            return False
        buffer_init(&out)
        buffer_init(&room)
        try:
            open_image(self.handle, self.key, self.old_stored, &record, &room)
            out.size = MAX_HEAD
            if not self._changer.apply(
                record.map_start, record.end, record.parts, record.part_count, &out, &count,
                &growth
            ):
                return False
            self.new_stored = with_head(&out, <uint64_t>(<int64_t>record.item_size + growth), count)
            return True
        finally:
            buffer_free(&room)
            buffer_free(&out)

    cdef bint apply_decoded(self) except -1:
        """Find the new image by closures. Returns: False when there is no item, and none is made.

        Raises: what is wrong with the update of this item.
        """
        cdef bytes item = self.old_image()
        update = self.update
        if item is None:
            if update is not None and update.only_removes:
                update.apply(None)
                return False
            item = self.handle.keys.key_item(self.key)
        if update is not None:
            item = with_result(item, update.apply(ItemView(item)))
        self._new_item = item
        self.new_stored = self.handle.keys.stored_of(item)
        return True


cdef Update new_update(
    TableHandle handle, bytes key, object template, tuple given, Changer changer, object condition
):
    cdef Update write = Update.__new__(Update)
    write.handle = handle
    write.key = key
    write.condition = condition
    write._template = template
    write._given = given
    write._changer = changer
    return write


cdef bytes with_result(bytes item, object result):
    """An encoded item with what an update assigned and removed."""
    if result.removed:
        item = without(item, result.removed)
    if result.assigned:
        item = merge(
            item, {name: encode_value(value) for name, value in result.assigned.items()}
        )
    return item


# ---- stored images ------------------------------------------------------------------------------

cdef Judge judge_of_condition(object condition):
    """What judges encoded items; None when only `evaluate` can."""
    return <Judge>condition if type(condition) is Judge else getattr(condition, "judge", None)


cdef bint holds_of_stored(Judge judge, TableHandle handle, bytes key, bytes stored) except -1:
    cdef Record record
    cdef Buffer room
    buffer_init(&room)
    try:
        open_image(handle, key, stored, &record, &room)
        return judge.judge(record.map_start, record.end, record.parts, record.part_count)
    finally:
        buffer_free(&room)


cdef int open_image(
    TableHandle handle, bytes key, bytes stored, Record* out, Buffer* room
) except -1:
    """Take an image apart; of no image, what the item will have when it is made: its key."""
    cdef int i
    if stored is not None:
        return handle.keys.open_record(
            start_of(key), <size_t>PyBytes_GET_SIZE(key),
            start_of(stored), <size_t>PyBytes_GET_SIZE(stored), out, room
        )
    out.map_start = start_of(NO_ATTRIBUTES)
    out.end = end_of(NO_ATTRIBUTES)
    out.part_count = len(handle.keys.names)
    handle.keys.open_key(start_of(key), <size_t>PyBytes_GET_SIZE(key), out.parts, room)
    out.item_size = 0
    for i in range(out.part_count):
        out.item_size += out.parts[i].name_size + <uint64_t>scalar_size(&out.parts[i].value)
    return 0
