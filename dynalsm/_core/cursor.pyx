# A walk over a tree in key order, buffered: entries cross into Python in runs.
#
# The cursor stands in a gap between two entries (as plyvel's iterators do): `next_entry` returns
# the entry behind the gap and steps over it, `prev_entry` the one before it. Entries are fetched
# ahead in runs that grow while the walk goes on in one direction; turning round drops the run.
#
# The GIL is kept while a short run comes from memory; once a block had to be read from a file, and
# for long runs, it is released around the whole run.
# Thread safety: a cursor is used by one thread at a time: whoever is in a method has put himself
# into `user`, and a second one is refused. Cursors are independent of each other.
# Invariants: (1) the snapshot seqno is registered with the engine while the cursor is open;
#             (2) the gap is before buffer[next] (forward) or behind it (backward); with an empty
#                 rest of the buffer it is described by `edge` and `edge_key`.

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from dynalsm import errors

from dynalsm._core.chain cimport Handle
from dynalsm._core.coding cimport Slice, slice_equal, slice_of
from dynalsm._core.commit cimport snapshot_drop, snapshot_hold, snapshot_take
from dynalsm._core.debug cimport scribble
from dynalsm._core.engine cimport Engine, Snapshot, Tree
from dynalsm._core.merge cimport (
    Scan,
    copy_bytes,
    copy_free,
    scan_close,
    scan_first,
    scan_last,
    scan_next,
    scan_prev,
    scan_seek,
    scan_seek_back,
)
from dynalsm._core.partition cimport Partition, partition_scan, set_route
from dynalsm._core.sync cimport (
    atomic_load,
    atomic_store,
    claim,
    pthread_mutex_lock,
    pthread_mutex_unlock,
    sleep_ns,
    this_thread,
)
from dynalsm._core.status cimport (
    END,
    NO_MEMORY,
    OK,
    WOULD_BLOCK,
    Failure,
    fail,
    failure_clear,
    raise_failure,
)


cdef enum:
    FIRST_RUN = 4            # entries fetched ahead at first
    LAST_RUN = 512
    RUN_BYTES = 256 * 1024   # a run ends behind the entry that reaches this
    HELD_RUN = 32            # longer runs release the GIL
    # Room of a first buffer: what a short range takes, so that it grows once or never.
    FIRST_PLACES = 32
    FIRST_BYTES = 8 * 1024
    BUSY_NS = 50000          # how often close() of the engine looks whether a cursor is free


@cython.final
@cython.no_gc_clear
cdef class Cursor(Handle):
    """An ordered walk over one tree at one snapshot. Made by Tree.cursor."""

    def __init__(
        self, Tree tree not None, lower, upper, bint reverse, Snapshot snapshot, bint keys,
        bint values, bint fill_cache
    ):
        if lower is not None and not isinstance(lower, bytes):
            raise TypeError(f"lower is bytes or None, not {type(lower).__name__}")
        if upper is not None and not isinstance(upper, bytes):
            raise TypeError(f"upper is bytes or None, not {type(upper).__name__}")
        self.enter()
        try:
            self.rest()
            self.tree = tree
            self.lower = lower
            self.upper = upper
            self.reverse = reverse
            self.with_keys = keys
            self.with_values = values
            self.fill_cache = fill_cache
            self.edge = EDGE_END if reverse else EDGE_START
            self.run = FIRST_RUN
            hold(self, snapshot)
        finally:
            self.leave()

    def __dealloc__(self):
        self.release()
        free(self.places)
        copy_free(&self.edge_key)
        copy_free(&self.buffer)

    cdef void release(self) noexcept:
        if self.has_scan:
            scan_close(&self.scan)
            self.has_scan = False
        if self.take_off():
            snapshot_drop(self.engine.core, self.seqno)
            pthread_mutex_lock(&self.engine.core.snapshot_mutex)
            self.parts.walkers -= 1
            pthread_mutex_unlock(&self.engine.core.snapshot_mutex)

    cdef void rest(self) noexcept:
        """Closed, and nothing buffered."""
        self.release()
        self.place_count = 0
        self.next_place = 0

    def close(self):
        """Let go of the snapshot and the files. Idempotent."""
        self.enter()
        self.rest()
        self.leave()

    cdef int end(self) except -1:
        cdef bint is_mine = False
        while not claim(&self.user):
            # Further up the stack of this very thread, where a finalizer came between: it builds
            # an entry from the buffer, which stays, and finds the cursor closed afterwards.
            is_mine = atomic_load(&self.user) == this_thread()
            if is_mine:
                break
            with nogil:
                sleep_ns(BUSY_NS)
        self.rest()
        if not is_mine:
            self.leave()
        return 0

    cdef int enter(self) except -1:
        if not claim(&self.user):
            raise errors.StorageError(
                "another thread is using the cursor: give each thread one of its own",
                path=None if self.engine is None else self.engine.path,
            )
        return 0

    cdef void leave(self) noexcept:
        atomic_store(&self.user, 0)

    @property
    def closed(self):
        """Whether the cursor (or its database) is closed."""
        return not self.is_open

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def __iter__(self):
        return self

    def __next__(self):
        entry = self.take(not self.reverse)
        if entry is None:
            raise StopIteration
        return entry

    def next_entry(self):
        """The entry behind the gap, stepping over it; None at the end."""
        return self.take(True)

    def prev_entry(self):
        """The entry before the gap, stepping back over it; None at the start."""
        return self.take(False)

    def next_chunk(self, Py_ssize_t limit_items, Py_ssize_t limit_bytes=0):
        """Up to so many entries in the cursor's direction, at least one if there is any.

        limit_bytes > 0: stop behind the entry that reaches it (keys and values counted)."""
        cdef list chunk = []
        cdef bint forward = not self.reverse
        cdef size_t used = 0
        cdef Place* place
        self.enter()
        try:
            while <Py_ssize_t>len(chunk) < limit_items:
                if self.next_place >= self.place_count or self.buffer_forward != forward:
                    if not self.fetch(forward, limit_items - len(chunk)):
                        break
                place = &self.places[self.next_place]
                used += place.key_size + place.value_size
                self.next_place += 1
                chunk.append(self.build(place))
                if limit_bytes > 0 and <Py_ssize_t>used >= limit_bytes:
                    break
        finally:
            self.leave()
        return chunk

    cdef bint step(self, size_t wanted, Slice* key, Slice* value) except -1:
        cdef Place* place
        self.enter()
        try:
            if self.next_place >= self.place_count or self.buffer_forward == self.reverse:
                if not self.fetch(not self.reverse, wanted):
                    return False
            place = &self.places[self.next_place]
            key[0] = slice_of(self.buffer.data + place.key_offset, place.key_size)
            value[0] = slice_of(key.data + place.key_size, place.value_size)
            self.next_place += 1
        finally:
            self.leave()
        return True

    # --------------------------------------------------------------------------- where it stands

    def seek(self, bytes key not None):
        """Forward: go on at the first key >= key; a reverse cursor: at the last key <= key."""
        self.move(EDGE_BEHIND if self.reverse else EDGE_BEFORE, key)

    def seek_before(self, bytes key not None):
        """To the gap just before `key`."""
        self.move(EDGE_BEFORE, key)

    def seek_behind(self, bytes key not None):
        """To the gap just behind `key`."""
        self.move(EDGE_BEHIND, key)

    def seek_start(self):
        """To the gap before the first entry."""
        self.move(EDGE_START, b"")

    def seek_end(self):
        """To the gap behind the last entry."""
        self.move(EDGE_END, b"")

    cdef int move(self, Edge edge, bytes key) except -1:
        self.enter()
        try:
            if not self.is_open:
                raise errors.ClosedError("the cursor is closed", path=self.engine.path)
            self.edge = edge
            if copy_bytes(&self.edge_key, slice_of(PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))):
                raise MemoryError()
            self.place_count = 0
            self.next_place = 0
            self.is_placed = False
            self.is_spent = False
            self.run = FIRST_RUN
        finally:
            self.leave()
        return 0

    # --------------------------------------------------------------------------------- the buffer

    cdef object take(self, bint forward):
        cdef Place* place
        self.enter()
        try:
            if self.next_place >= self.place_count or self.buffer_forward != forward:
                if not self.fetch(forward, self.run):
                    return None
                if self.run < LAST_RUN:
                    self.run *= 2
            place = &self.places[self.next_place]
            self.next_place += 1
            return self.build(place)
        finally:
            self.leave()

    cdef object build(self, const Place* place):
        cdef const char* data = <const char*>self.buffer.data + place.key_offset
        cdef tuple pair
        cdef object key, value
        if not self.with_values:
            return PyBytes_FromStringAndSize(data, place.key_size)
        value = PyBytes_FromStringAndSize(data + place.key_size, place.value_size)
        if not self.with_keys:
            return value
        key = PyBytes_FromStringAndSize(data, place.key_size)
        pair = PyTuple_New(2)
        Py_INCREF(key)
        PyTuple_SET_ITEM(pair, 0, key)
        Py_INCREF(value)
        PyTuple_SET_ITEM(pair, 1, value)
        return pair

    cdef int note_edge(self) except -1:
        """Describe the gap by the last entry handed out, before the buffer is dropped."""
        cdef Place* place
        if self.next_place == 0:
            return 0                     # nothing of this buffer was handed out: edge still holds
        place = &self.places[self.next_place - 1]
        if copy_bytes(
            &self.edge_key, slice_of(self.buffer.data + place.key_offset, place.key_size)
        ):
            raise MemoryError()
        self.edge = EDGE_BEHIND if self.buffer_forward else EDGE_BEFORE
        return 0

    cdef bint fetch(self, bint forward, size_t wanted) except -1:
        """Fill the buffer with up to `wanted` entries in that direction; whether there is one."""
        cdef Failure failure
        cdef int status
        cdef bint rest = self.next_place < self.place_count
        if not self.is_open:
            raise errors.ClosedError("the cursor is closed", path=self.engine.path)
        if self.is_spent and self.buffer_forward == forward and not rest:
            return False                 # as it was at the snapshot, so it remains
        self.note_edge()
        if rest or self.scan_forward != forward:
            self.is_placed = False       # the scan stands at the buffer's far end
        self.place_count = 0
        self.next_place = 0
        scribble(self.buffer.data, self.buffer.capacity)
        self.buffer.size = 0
        self.buffer_forward = forward
        self.is_spent = False
        if wanted < 1:
            wanted = 1
        self.engine.enter()
        try:
            failure_clear(&failure)
            status = WOULD_BLOCK
            if not self.is_cold and wanted <= HELD_RUN:
                status = self.fill(forward, wanted, False, &failure)
                if status == WOULD_BLOCK:
                    self.is_cold = True
                    self.is_placed = False
            if status == WOULD_BLOCK:
                if self.place_count:     # a part came from memory: hand that out first
                    self.tree.check_alive()
                    return True
                with nogil:
                    status = self.fill(forward, wanted, True, &failure)
            if status != OK and status != END:
                self.is_placed = False
                raise_failure(&failure)
            self.is_spent = status == END
            # A drop lets entries go at once, so the walk may have missed some.
            self.tree.check_alive()
        finally:
            self.engine.leave()
        return self.place_count > 0

    cdef int fill(
        self, bint forward, size_t wanted, bint may_block, Failure* failure
    ) noexcept nogil:
        """Append entries to the buffer; OK, END, WOULD_BLOCK (some may be there) or an error."""
        cdef int status
        cdef Scan* scan = &self.scan
        if not self.is_placed:
            status = self.place(forward, may_block, failure)
        elif forward:
            scan_next(scan, may_block, failure)
            status = self.go_on(True, may_block, failure)
        else:
            scan_prev(scan, may_block, failure)
            status = self.go_on(False, may_block, failure)
        while status == OK:
            self.is_placed = True
            self.scan_forward = forward
            if self.keep(scan.key, scan.value):
                return fail(failure, NO_MEMORY, "no memory for entries", NULL, -1, 0)
            if self.place_count >= wanted or self.buffer.size >= RUN_BYTES:
                return OK
            if forward:
                scan_next(scan, may_block, failure)
            else:
                scan_prev(scan, may_block, failure)
            status = scan.status
            if status != OK:
                status = self.go_on(forward, may_block, failure)
        if status == END:
            self.is_placed = False
        return status

    cdef int keep(self, Slice key, Slice value) noexcept nogil:
        cdef size_t capacity
        cdef Place* places
        cdef uint8_t* data
        cdef Place* place
        if self.place_count == self.place_capacity:
            capacity = self.place_capacity * 2 if self.place_capacity else FIRST_PLACES
            places = <Place*>realloc(self.places, capacity * sizeof(Place))
            if places == NULL:
                return NO_MEMORY
            self.places = places
            self.place_capacity = capacity
        if self.buffer.size + key.size + value.size > self.buffer.capacity:
            capacity = self.buffer.capacity * 2
            if capacity < self.buffer.size + key.size + value.size + FIRST_BYTES:
                capacity = self.buffer.size + key.size + value.size + FIRST_BYTES
            data = <uint8_t*>realloc(self.buffer.data, capacity)
            if data == NULL:
                return NO_MEMORY
            self.buffer.data = data
            self.buffer.capacity = capacity
        place = &self.places[self.place_count]
        place.key_offset = self.buffer.size
        place.key_size = key.size
        place.value_size = value.size
        memcpy(self.buffer.data + self.buffer.size, key.data, key.size)
        self.buffer.size += key.size
        memcpy(self.buffer.data + self.buffer.size, value.data, value.size)
        self.buffer.size += value.size
        self.place_count += 1
        return OK

    # ------------------------------------------------------------------------------ the partitions

    cdef Slice bound(self, bytes bound) noexcept nogil:
        if bound is None:
            return slice_of(NULL, 0)
        return slice_of(bytes_data(bound), bytes_size(bound))

    cdef int open_part(self, int part, Failure* failure) noexcept nogil:
        cdef int status
        if self.has_scan and self.part == part:
            return OK
        if self.has_scan:
            scan_close(&self.scan)
            self.has_scan = False
        status = partition_scan(
            self.parts.items[part], self.seqno, self.bound(self.lower),
            self.bound(self.upper), self.fill_cache, &self.scan, failure
        )
        if status == OK:
            self.has_scan = True
            self.part = part
        return status

    cdef int part_of(self, Slice key) noexcept nogil:
        cdef Partition* wanted = set_route(self.parts, key)
        cdef int part = 0
        while self.parts.items[part] != wanted:
            part += 1
        return part

    cdef int place(self, bint forward, bint may_block, Failure* failure) noexcept nogil:
        """Move the scan to the first entry in that direction from the gap `edge` describes."""
        cdef Slice key = slice_of(self.edge_key.data, self.edge_key.size)
        cdef Scan* scan = &self.scan
        cdef int status
        cdef int part
        if self.edge == EDGE_START:
            if not forward:
                return END
            part = self.part_of(self.bound(self.lower)) if self.lower is not None else 0
        elif self.edge == EDGE_END:
            if forward:
                return END
            part = self.parts.count - 1
            if self.upper is not None:
                part = self.part_of(self.bound(self.upper))
        else:
            part = self.part_of(key)
        status = self.open_part(part, failure)
        if status:
            return status
        if forward:
            if self.edge == EDGE_START:
                scan_first(scan, may_block, failure)
            else:
                scan_seek(scan, key, may_block, failure)
                if (
                    scan.status == OK and self.edge == EDGE_BEHIND
                    and slice_equal(scan.key, key)
                ):
                    scan_next(scan, may_block, failure)
        elif self.edge == EDGE_END:
            scan_last(scan, may_block, failure)
        else:
            scan_seek_back(scan, key, may_block, failure)
            if scan.status == OK and self.edge == EDGE_BEFORE and slice_equal(scan.key, key):
                scan_prev(scan, may_block, failure)
        return self.go_on(forward, may_block, failure)

    cdef int go_on(self, bint forward, bint may_block, Failure* failure) noexcept nogil:
        """At the end of a partition: on to the next one that has an entry."""
        cdef int status
        cdef int part
        while self.scan.status == END:
            part = self.part + 1 if forward else self.part - 1
            if part < 0 or part >= self.parts.count or self.is_beyond(part, forward):
                return END
            status = self.open_part(part, failure)
            if status:
                return status
            if forward:
                scan_first(&self.scan, may_block, failure)
            else:
                scan_last(&self.scan, may_block, failure)
        return self.scan.status

    cdef bint is_beyond(self, int part, bint forward) noexcept nogil:
        """Whether the whole partition lies outside the bounds."""
        if forward:
            return self.upper is not None and self.part_of(self.bound(self.upper)) < part
        return self.lower is not None and self.part_of(self.bound(self.lower)) > part


cdef int hold(Cursor cursor, Snapshot snapshot) except -1:
    """Register the cursor's snapshot and hang it on its engine."""
    cdef Engine engine = cursor.tree.engine
    cursor.engine = engine
    engine.enter()
    try:
        if snapshot is not None:
            snapshot.check(engine)
            cursor.seqno = snapshot.seqno
            if snapshot_hold(engine.core, cursor.seqno):
                raise MemoryError()
            if not snapshot.is_open:     # closed just before: nobody held it for a moment
                snapshot_drop(engine.core, cursor.seqno)
                snapshot.check(engine)
        else:
            cursor.seqno = snapshot_take(engine.core)
            if cursor.seqno == <uint64_t>-1:
                raise MemoryError()
        pthread_mutex_lock(&engine.core.snapshot_mutex)
        cursor.parts = cursor.tree.core.parts
        cursor.parts.walkers += 1
        pthread_mutex_unlock(&engine.core.snapshot_mutex)
        cursor.hang_on(engine.chain)
    finally:
        engine.leave()
    return 0


cdef Cursor open_cursor(Tree tree, bytes lower, bytes upper, bint reverse, Snapshot snapshot):
    cdef Cursor cursor = Cursor.__new__(Cursor)
    cursor.tree = tree
    cursor.lower = lower
    cursor.upper = upper
    cursor.reverse = reverse
    cursor.with_keys = True
    cursor.with_values = True
    cursor.fill_cache = True
    cursor.edge = EDGE_END if reverse else EDGE_START
    cursor.run = FIRST_RUN
    hold(cursor, snapshot)
    return cursor


cdef extern from "Python.h":
    # Plain field reads: allowed without the GIL on an object that somebody holds.
    const char* bytes_data "PyBytes_AS_STRING"(object value) noexcept nogil
    Py_ssize_t bytes_size "PyBytes_GET_SIZE"(object value) noexcept nogil
