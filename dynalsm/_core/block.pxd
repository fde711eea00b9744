# Block of entries that share key prefixes: point get and in-place cursor (a block is searched as it
# lies). block_builder.pxd builds them.
#
# Entry: shared varint | unshared varint | value size varint | tag varint | key suffix | value
# Entries come in groups of `interval` (a power of two): the first one of a group has its whole key
# (shared = 0), the others share exactly `shared` bytes with that first key, or have their whole key
# as well (shared = 0) when that would be fewer than 4. So any entry can be read from itself and the
# first of its group. tag = seqno << 8 | kind.
# After the entries: their offsets (u16 each; u32 when the entries take more than 64 KiB), then one
# byte of each key's hash64 (the highest), then a u32: count of entries in bits 0-23, log2 of the
# interval in bits 24-27, bit 28 when the offsets are u32; the rest is zero.
# A point get compares hash bytes first and then touches one entry and the first of its group: what
# counts is how many cache lines are fetched one after the other
# (docs/decisions/0006-one-fetch-per-step.md).
# Every length is checked against the block's end: damaged bytes give CORRUPTION, never a stray
# read.
# Thread safety: a finished block is immutable; a cursor belongs to one thread.

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from dynalsm._core.coding cimport Slice


# On disk: never change.
cdef enum:
    BLOCK_INTERVAL_SHIFT_MAX = 8
    BLOCK_ENTRIES_MAX = 0xFFFFFF
    BLOCK_WIDE_BIT = 1 << 28


cdef struct BlockCursor:
    const uint8_t* data          # borrowed: the block's bytes
    size_t size
    size_t entries_end           # where the offsets start
    uint32_t count               # of entries
    uint32_t interval_mask       # interval - 1
    bint is_wide                 # offsets are u32
    uint32_t index               # of the current entry
    size_t next_position
    uint8_t* key_buffer          # owned: keys are rebuilt here
    size_t key_capacity
    Slice key                    # the current entry
    uint64_t tag
    Slice value


# All moves return OK, END or CORRUPTION (NO_MEMORY for want of key space). END leaves the cursor
# where it was.
cdef void block_cursor_init(BlockCursor* cursor) noexcept nogil
cdef void block_cursor_free(BlockCursor* cursor) noexcept nogil
cdef int block_cursor_open(BlockCursor* cursor, const uint8_t* data, size_t size) noexcept nogil
cdef int block_cursor_first(BlockCursor* cursor) noexcept nogil
cdef int block_cursor_last(BlockCursor* cursor) noexcept nogil
cdef int block_cursor_next(BlockCursor* cursor) noexcept nogil
cdef int block_cursor_prev(BlockCursor* cursor) noexcept nogil
cdef int block_cursor_seek(BlockCursor* cursor, Slice key, uint64_t tag) noexcept nogil
cdef int block_cursor_seek_back(BlockCursor* cursor, Slice key, uint64_t tag) noexcept nogil

# Point get without copying a key: the newest entry of this very key with a tag <= `tag`.
# key_hash = hash64(key). Returns: OK, NOT_FOUND or CORRUPTION. *value is borrowed from the block.
cdef int block_get(
    const uint8_t* data, size_t size, Slice key, uint64_t key_hash, uint64_t tag,
    uint64_t* found_tag, Slice* value
) noexcept nogil
# Start loading what block_get looks at first, and what it looks at then.
cdef void block_prefetch(const uint8_t* data, size_t size) noexcept nogil
cdef void block_prefetch_entry(const uint8_t* data, size_t size, uint64_t key_hash) noexcept nogil
