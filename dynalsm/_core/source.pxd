# One interface for everything that can be walked in key order: memtables, tables, merges.
#
# Entries are (user key, tag, value) with tag = seqno << 8 | kind. Internal order: user key
# ascending bytewise, then tag descending (the newest version of a key first).
# A Source is used by one thread at a time. key and value are borrowed: valid until the next
# move or close. After a move: status is OK (positioned), END (no entry there), WOULD_BLOCK (only
# with may_block=False: nothing moved; call seek again with may_block=True) or an error that
# *failure describes. An error is sticky until the next absolute move.

from libc.stdint cimport uint64_t

from dynalsm._core.coding cimport Slice
from dynalsm._core.status cimport Failure


# On disk: never renumber.
cdef enum Kind:
    KIND_DELETE = 0
    KIND_PUT = 1
    KIND_SINGLE_DELETE = 2   # reserved
    KIND_RANGE_DELETE = 3    # in logs only: key = lower bound, value = upper bound
    KIND_POINTER = 4         # reserved: value stored elsewhere
    KIND_PUT_EXPIRY = 5      # reserved: varint expiry second before the value
    KIND_PUT_STAMPED = 6     # in batches only: becomes KIND_PUT when the commit knows its seqno
    KIND_SEEK = 255          # sorts before every version of a key with the same seqno


ctypedef void (*MoveTo)(Source*, bint, Failure*) noexcept nogil
ctypedef void (*SeekTo)(Source*, Slice, uint64_t, bint, Failure*) noexcept nogil
ctypedef void (*CloseIt)(Source*) noexcept nogil


cdef struct SourceOps:
    MoveTo first
    MoveTo last
    SeekTo seek          # first entry at or after (key, tag)
    SeekTo seek_back     # last entry at or before (key, tag)
    MoveTo next          # REQUIRES: status OK
    MoveTo prev          # REQUIRES: status OK
    CloseIt close        # frees state; the Source itself belongs to the caller


cdef struct Source:
    int status
    uint64_t tag
    Slice key
    Slice value
    void* state          # owned by the implementation
    const SourceOps* ops
