# Prefix-compressed block of entries: builder and in-place cursor (a block is searched as it lies).
#
# Entry: shared varint | unshared varint | value size varint | tag varint | key suffix | value
# (shared: bytes in common with the key before, exactly; 0 at a restart). After the entries: restart
# offsets u32 each, then their count u32. tag = seqno << 8 | kind.
# A restart comes after at most `interval` entries or RESTART_BYTES bytes: what a point get has to
# walk stays short with large values too, where prefixes save nothing.
# Every length is checked against the block's end: damaged bytes give CORRUPTION, never a stray read.
# Thread safety: a finished block is immutable; a builder or cursor belongs to one thread.

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from dynalsm._core.coding cimport Slice


cdef enum:
    RESTART_INTERVAL_MAX = 256     # format limit: a reader may refuse longer runs
    RESTART_BYTES = 512


cdef struct BlockBuilder:
    uint8_t* data                # owned
    size_t size
    size_t capacity
    uint32_t* restarts           # owned
    uint32_t restart_count
    uint32_t restart_capacity
    uint32_t interval
    uint32_t since_restart
    uint32_t entries
    uint8_t* last_key            # owned
    size_t last_key_size
    size_t last_key_capacity


cdef int block_builder_init(BlockBuilder* builder, uint32_t interval) noexcept nogil
cdef void block_builder_free(BlockBuilder* builder) noexcept nogil
cdef void block_builder_reset(BlockBuilder* builder) noexcept nogil
# NO_MEMORY also when the block would pass 2 GiB (nothing added).
cdef int block_builder_add(BlockBuilder* builder, Slice key, uint64_t tag, Slice value) noexcept nogil
cdef size_t block_builder_bytes(BlockBuilder* builder) noexcept nogil
cdef int block_builder_finish(BlockBuilder* builder) noexcept nogil     # appends restarts and count


# An entry of a group that was decoded for walking backwards.
cdef struct GroupEntry:
    size_t position
    size_t next_position
    size_t key_offset            # in group_keys
    size_t key_size
    uint64_t tag
    Slice value


cdef struct BlockCursor:
    const uint8_t* data          # borrowed: the block's bytes
    size_t size
    size_t entries_end           # where the restart array starts
    uint32_t restart_count
    size_t position              # of the current entry
    size_t next_position
    uint8_t* key_buffer          # owned: keys are rebuilt here
    size_t key_capacity
    Slice key                    # the current entry
    uint64_t tag
    Slice value
    # Moving backwards decodes a whole restart group once; `group_index` is the current entry in it.
    GroupEntry* group            # owned
    uint32_t group_capacity
    uint32_t group_index
    bint in_group                # the current entry is group[group_index]; key lies in group_keys
    uint8_t* group_keys          # owned
    size_t group_keys_capacity


# All moves return OK, END or CORRUPTION (NO_MEMORY for want of key space). END leaves the cursor
# where it was (next, prev) or nowhere (first, last, seeks: move again before reading it).
cdef void block_cursor_init(BlockCursor* cursor) noexcept nogil
cdef void block_cursor_free(BlockCursor* cursor) noexcept nogil
cdef int block_cursor_open(BlockCursor* cursor, const uint8_t* data, size_t size) noexcept nogil
cdef int block_cursor_first(BlockCursor* cursor) noexcept nogil
cdef int block_cursor_last(BlockCursor* cursor) noexcept nogil
cdef int block_cursor_next(BlockCursor* cursor) noexcept nogil
cdef int block_cursor_prev(BlockCursor* cursor) noexcept nogil
cdef int block_cursor_seek(BlockCursor* cursor, Slice key, uint64_t tag) noexcept nogil
cdef int block_cursor_seek_back(BlockCursor* cursor, Slice key, uint64_t tag) noexcept nogil

# Point get without copying a key: the first entry at or after (key, tag).
# Returns: OK when it has this very key, NOT_FOUND when it has another, END when all entries of the
# block come before (key, tag), or CORRUPTION. tag and value are borrowed from the block.
cdef int block_get(
    const uint8_t* data, size_t size, Slice key, uint64_t tag, uint64_t* found_tag, Slice* value
) noexcept nogil
