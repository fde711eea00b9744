# Sources composed: many sources merged into one, and the walk a user sees at a snapshot.
#
# Thread safety: one thread at a time.

from libc.stdint cimport uint8_t, uint64_t

from dynalsm._core.coding cimport Slice
from dynalsm._core.memtable cimport RangeList
from dynalsm._core.source cimport Source
from dynalsm._core.status cimport Failure


# Merges `count` sources (their states move into the merge, which closes them) in internal order.
# On failure (no memory) the children are closed.
cdef int merge_source(Source* children, int count, Source* out, Failure* failure) noexcept nogil


# A growable copy of bytes.
cdef struct Copy:
    uint8_t* data            # owned
    size_t size
    size_t capacity


cdef int copy_bytes(Copy* copy, Slice bytes) noexcept nogil      # OK or NO_MEMORY
cdef void copy_free(Copy* copy) noexcept nogil


# What a user sees: one live entry per key, at a snapshot, between bounds, in both directions.
# Invariant: when status is OK, (key, value) is the entry; forward, `merged` stands on it (the value
# is borrowed from there); backward, `merged` stands before its oldest version and key and value are
# copies.
cdef struct Scan:
    int status
    Slice key
    Slice value
    Source merged            # owned
    uint64_t snapshot        # seqno
    RangeList ranges         # owned: deleted ranges of all parts
    bint forward             # direction of the last move
    bint has_lower
    bint has_upper
    Copy lower               # inclusive
    Copy upper               # exclusive
    Copy saved_key
    Copy saved_value


# Takes over `merged` and `ranges`; copies the bounds (data NULL: none).
cdef int scan_init(
    Scan* scan, Source* merged, RangeList* ranges, uint64_t snapshot, Slice lower, Slice upper,
    Failure* failure
) noexcept nogil
cdef void scan_close(Scan* scan) noexcept nogil
cdef void scan_first(Scan* scan, bint may_block, Failure* failure) noexcept nogil
cdef void scan_last(Scan* scan, bint may_block, Failure* failure) noexcept nogil
# First key >= key; last key <= key; both inside the bounds.
cdef void scan_seek(Scan* scan, Slice key, bint may_block, Failure* failure) noexcept nogil
cdef void scan_seek_back(Scan* scan, Slice key, bint may_block, Failure* failure) noexcept nogil
cdef void scan_next(Scan* scan, bint may_block, Failure* failure) noexcept nogil
cdef void scan_prev(Scan* scan, bint may_block, Failure* failure) noexcept nogil
