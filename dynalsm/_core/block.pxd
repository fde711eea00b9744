# Prefix-compressed block of entries: builder and in-place cursor (a block is searched as it lies).
#
# Entry: shared varint | unshared varint | value size varint | tag varint | key suffix | value
# (shared: bytes in common with the key before; 0 at a restart). After the entries: restart offsets
# u32 each, then their count u32. tag = seqno << 8 | kind.
# Every length is checked against the block's end: damaged bytes give CORRUPTION, never a stray read.

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from dynalsm._core.coding cimport Slice


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
cdef int block_builder_add(BlockBuilder* builder, Slice key, uint64_t tag, Slice value) noexcept nogil
cdef size_t block_builder_bytes(BlockBuilder* builder) noexcept nogil
cdef int block_builder_finish(BlockBuilder* builder) noexcept nogil     # appends restarts and count


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


# All moves return OK, END or CORRUPTION (NO_MEMORY for want of key space).
cdef void block_cursor_init(BlockCursor* cursor) noexcept nogil
cdef void block_cursor_free(BlockCursor* cursor) noexcept nogil
cdef int block_cursor_open(BlockCursor* cursor, const uint8_t* data, size_t size) noexcept nogil
cdef int block_cursor_first(BlockCursor* cursor) noexcept nogil
cdef int block_cursor_last(BlockCursor* cursor) noexcept nogil
cdef int block_cursor_next(BlockCursor* cursor) noexcept nogil
cdef int block_cursor_prev(BlockCursor* cursor) noexcept nogil
cdef int block_cursor_seek(BlockCursor* cursor, Slice key, uint64_t tag) noexcept nogil
cdef int block_cursor_seek_back(BlockCursor* cursor, Slice key, uint64_t tag) noexcept nogil
