"""Pages of a table or an index: the loop under Query and Scan.

An entry goes from the cursor's buffer to the reply in one pass: its key and value are taken apart,
its size is counted, the condition judges its bytes, and only what passes is decoded, straight into
the form of the reply. No Python object is made for anything else.

A page ends at `limit` evaluated items or once the evaluated items reach `limit_bytes`, whichever
comes first; the item that crosses the mark is still part of the page (observed: dynalite). There
is no look-ahead: a page that ended at a mark names its last key even when nothing follows.

Everything on one page comes from one snapshot of the engine. Sizes are DynamoDB's item sizes.

Thread safety: functions without state; a Page belongs to the caller.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cython cimport final
from libc.stdint cimport uint64_t

from dynalsm._core.coding cimport Slice, slice_of
from dynalsm._core.cursor cimport Cursor, open_cursor
from dynalsm._core.engine cimport Tree
from dynalsm.expressions.compiled cimport Judge
from dynalsm.model.keys cimport IndexKeys, Record, StoredKeys
from dynalsm.values.buffer cimport Buffer, buffer_free, buffer_init
from dynalsm.values.decode cimport AS_ENCODED

from dynalsm.limits import PAGE_MAX_BYTES
from dynalsm.values.codec import ItemView

cdef uint64_t DEFAULT_LIMIT_BYTES = PAGE_MAX_BYTES


cdef Page new_page(unsigned long long limit_bytes):
    cdef Page page = Page.__new__(Page)
    page.limit_bytes = limit_bytes
    return page


@final
cdef class Page:
    """What one page held.

    `items` are the items that the filter let through (empty when only counted).
    `last_key` is the tree key to go on after; None when the range is exhausted.
    `fetched_sizes` are the sizes of table items read for index entries.
    """

    def __cinit__(self, limit_bytes=None):
        self.limit_bytes = DEFAULT_LIMIT_BYTES if limit_bytes is None else limit_bytes
        self.items = []
        self.fetched_sizes = []


@final
cdef class Taker:
    """What is done with the entries of a page."""

    cdef int take(self, const Record* record) except -1:
        cdef Page page = self.page
        if self.judge is not None:
            if not self.judge.judge(
                record.map_start, record.end, record.parts, record.part_count
            ):
                return 0
        elif self.condition is not None:
            if not self.condition.evaluate(ItemView(self.keys.encoded(record))):
                return 0
        page.count += 1
        if self.wants_items:
            if self.form == AS_ENCODED:
                page.items.append(self.keys.encoded(record))
            else:
                page.items.append(self.keys.decoded(record, self.form))
        return 0


cdef inline Slice slice_of_bytes(bytes data) noexcept:
    return slice_of(PyBytes_AS_STRING(data), <size_t>PyBytes_GET_SIZE(data))


@final
cdef class Entries:
    """The entries of a range: of the engine's own cursor, or of one that stands in for it."""

    cdef Cursor cursor           # None: what follows
    cdef object other
    cdef list chunk              # of (key, value); what was handed out last is among them
    cdef Py_ssize_t at

    cdef int open(
        self, object tree, bytes lower, bytes upper, bint reverse, object snapshot
    ) except -1:
        if type(tree) is Tree:
            self.cursor = open_cursor(<Tree>tree, lower, upper, reverse, snapshot)
            return 0
        self.other = tree.cursor(lower, upper, reverse=reverse, snapshot=snapshot)
        if type(self.other) is Cursor:
            self.cursor = <Cursor>self.other
        else:
            self.chunk = []
        return 0

    cdef bint step(self, Py_ssize_t wanted, Slice* key, Slice* value) except -1:
        """Go to the next entry, which is borrowed until the next step; whether there is one."""
        cdef tuple entry
        if self.cursor is not None:
            return self.cursor.step(<size_t>wanted, key, value)
        if self.at == len(self.chunk):
            self.chunk = self.other.next_chunk(wanted)
            self.at = 0
            if not self.chunk:
                return False
        entry = self.chunk[self.at]
        key[0] = slice_of_bytes(<bytes?>entry[0])
        value[0] = slice_of_bytes(<bytes?>entry[1])
        self.at += 1
        return True

    cdef int close(self) except -1:
        if self.cursor is not None:
            self.cursor.close()
        else:
            self.other.close()
        return 0


def read_page(
    source, lower, upper, *, bint reverse=False, limit=None, condition=None,
    bint wants_items=True, fetch_from=None, snapshot=None, Page into=None, limit_bytes=None,
    int form=AS_ENCODED, Py_ssize_t chunk_items=CHUNK_ITEMS
):
    """Read one page of the range [lower, upper) of a table or index.

    `condition` filters whole items (after `fetch_from` has replaced index entries by the items
    of that table, which needs a `snapshot`). With `wants_items` False the page only counts.
    `into` is a page that another range has begun and this one goes on with. Items are encoded
    bytes unless `form` (of forms.Form.kind) says otherwise.
    """
    cdef Taker taker = Taker.__new__(Taker)
    taker.page = Page(limit_bytes) if into is None else into
    taker.keys = source.keys if fetch_from is None else fetch_from.keys
    taker.judge = None
    taker.condition = None
    if condition is not None:
        taker.judge = getattr(condition, "judge", None)
        if taker.judge is None:
            taker.condition = condition
    taker.form = form
    taker.wants_items = wants_items
    fill_page(
        taker, source.keys, source.tree, lower, upper, reverse, -1 if limit is None else limit,
        fetch_from, snapshot, chunk_items
    )
    return taker.page


cdef int fill_page(
    Taker taker, StoredKeys keys, object tree, bytes lower, bytes upper, bint reverse,
    Py_ssize_t limit, object table, object snapshot, Py_ssize_t chunk_items
) except -1:
    cdef Entries entries = Entries.__new__(Entries)
    cdef Page page = taker.page
    cdef list fetched = None if table is None else []
    cdef Record record
    cdef Buffer room
    cdef Slice key
    cdef Slice value
    cdef Py_ssize_t wanted = chunk_items if chunk_items < FIRST_ITEMS else FIRST_ITEMS
    page.last_key = None
    entries.open(tree, lower, upper, reverse, snapshot)
    buffer_init(&room)
    try:
        while limit < 0 or page.scanned < limit:
            if 0 <= limit < page.scanned + wanted:
                wanted = limit - page.scanned
            if not entries.step(wanted, &key, &value):
                break
            room.size = 0
            keys.open_record(key.data, key.size, value.data, value.size, &record, &room)
            page.size_bytes += record.item_size
            page.scanned += 1
            if page.scanned >= FIRST_ITEMS:
                wanted = chunk_items
            if table is not None:
                fetched.append((<IndexKeys?>keys).table_key_of(key.data, key.size))
                if len(fetched) >= chunk_items:
                    fetch(taker, table, fetched, snapshot)
                    fetched = []
            else:
                taker.take(&record)
            if page.size_bytes >= page.limit_bytes or page.scanned == limit:
                page.last_key = PyBytes_FromStringAndSize(<const char*>key.data, key.size)
                break
    finally:
        buffer_free(&room)
        entries.close()
    if fetched:
        fetch(taker, table, fetched, snapshot)
    return 0


cdef int fetch(Taker taker, object table, list keys, object snapshot) except -1:
    """Take the table's items behind index entries; both are of one snapshot, so all exist."""
    cdef Record record
    cdef Buffer room
    cdef bytes key
    cdef bytes stored
    cdef list found = table.tree.multi_get(keys, snapshot)
    cdef Py_ssize_t i
    buffer_init(&room)
    try:
        for i in range(len(keys)):
            stored = found[i]
            if stored is None:
                continue
            key = keys[i]
            room.size = 0
            taker.keys.open_record(
                slice_of_bytes(key).data, slice_of_bytes(key).size,
                slice_of_bytes(stored).data, slice_of_bytes(stored).size, &record, &room
            )
            taker.page.fetched_sizes.append(record.item_size)
            taker.take(&record)
    finally:
        buffer_free(&room)
    return 0


def _judge_entry(StoredKeys keys not None, Judge judge not None, bytes key, bytes stored):
    """Judge one entry as a page does (tests)."""
    cdef Record record
    cdef Buffer room
    buffer_init(&room)
    try:
        keys.open_record(
            slice_of_bytes(key).data, slice_of_bytes(key).size,
            slice_of_bytes(stored).data, slice_of_bytes(stored).size, &record, &room
        )
        return judge.judge(record.map_start, record.end, record.parts, record.part_count)
    finally:
        buffer_free(&room)
