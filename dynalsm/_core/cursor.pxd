# A walk over a tree in key order, for compiled readers. See cursor.pyx.

from libc.stdint cimport uint64_t

from dynalsm._core.chain cimport Handle
from dynalsm._core.coding cimport Slice
from dynalsm._core.engine cimport Engine, Snapshot, Tree
from dynalsm._core.merge cimport Copy, Scan
from dynalsm._core.partition cimport PartitionSet
from dynalsm._core.status cimport Failure


cdef enum Edge:
    EDGE_START = 0       # before everything
    EDGE_END = 1         # behind everything
    EDGE_BEFORE = 2      # just before edge_key (which need not exist)
    EDGE_BEHIND = 3      # just behind edge_key


cdef struct Place:           # one buffered entry
    size_t key_offset
    size_t key_size
    size_t value_size        # the value follows the key


cdef class Cursor(Handle):
    cdef Tree tree
    cdef Engine engine
    cdef uint64_t seqno
    cdef bint reverse
    cdef bint with_keys
    cdef bint with_values
    cdef bint fill_cache
    cdef bint is_cold                # a file read was needed lately: release the GIL at once
    cdef uint64_t user               # atomic: the thread that is in a method; 0: none
    cdef bytes lower
    cdef bytes upper
    cdef Scan scan                   # over partition `part`, while has_scan
    cdef bint has_scan
    cdef bint is_placed              # the scan's position belongs to the end of the buffer
    cdef bint scan_forward           # the direction the scan was placed for
    cdef PartitionSet* parts         # its walkers count this cursor while it is open
    cdef int part
    cdef Edge edge
    cdef Copy edge_key
    cdef Place* places               # owned
    cdef size_t place_capacity
    cdef size_t place_count
    cdef size_t next_place
    cdef bint buffer_forward
    cdef bint is_spent               # nothing follows the buffer in its direction
    cdef Copy buffer                 # keys and values, one behind the other
    cdef size_t run

    # Step over the next entry in the cursor's direction, fetching up to `wanted` at once when none
    # is buffered. Returns: whether there is one. Key and value are borrowed: valid until the next
    # call, also when the cursor is closed meanwhile.
    cdef bint step(self, size_t wanted, Slice* key, Slice* value) except -1

    # Let go of the snapshot and the files.
    cdef void release(self) noexcept

    # Each method is between these two. Raises StorageError when another one is under way.
    cdef int enter(self) except -1
    cdef void leave(self) noexcept
    cdef void rest(self) noexcept
    cdef int move(self, Edge edge, bytes key) except -1
    cdef object take(self, bint forward)
    cdef object build(self, const Place* place)
    cdef int note_edge(self) except -1
    cdef bint fetch(self, bint forward, size_t wanted) except -1
    cdef int fill(
        self, bint forward, size_t wanted, bint may_block, Failure* failure
    ) noexcept nogil
    cdef int keep(self, Slice key, Slice value) noexcept nogil
    cdef Slice bound(self, bytes bound) noexcept nogil
    cdef int open_part(self, int part, Failure* failure) noexcept nogil
    cdef int part_of(self, Slice key) noexcept nogil
    cdef int place(self, bint forward, bint may_block, Failure* failure) noexcept nogil
    cdef int go_on(self, bint forward, bint may_block, Failure* failure) noexcept nogil
    cdef bint is_beyond(self, int part, bint forward) noexcept nogil


# A cursor over [lower, upper) at `snapshot` (None: now).
cdef Cursor open_cursor(Tree tree, bytes lower, bytes upper, bint reverse, Snapshot snapshot)
