# Builds blocks, entry by entry (see block.pxd for the layout). Used by one thread.

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from dynalsm._core.coding cimport Slice


cdef struct BlockBuilder:
    uint8_t* data                # owned
    size_t size
    size_t capacity
    uint32_t* offsets            # owned
    uint8_t* hash_bytes          # owned, as many as offsets
    uint32_t offset_capacity
    uint32_t entries
    uint32_t interval_shift
    uint8_t* first_key           # owned: of the group
    size_t first_key_size
    size_t first_key_capacity


# The interval is rounded up to a power of two.
cdef int block_builder_init(BlockBuilder* builder, uint32_t interval) noexcept nogil
cdef void block_builder_free(BlockBuilder* builder) noexcept nogil
cdef void block_builder_reset(BlockBuilder* builder) noexcept nogil
# NO_MEMORY also when the block would pass 2 GiB (nothing added).
cdef int block_builder_add(
    BlockBuilder* builder, Slice key, uint64_t tag, Slice value
) noexcept nogil
# As block_builder_add, for callers who have hash64(key).
cdef int block_builder_add_hashed(
    BlockBuilder* builder, Slice key, uint64_t key_hash, uint64_t tag, Slice value
) noexcept nogil
# Size of the finished block.
cdef size_t block_builder_bytes(BlockBuilder* builder) noexcept nogil
# Appends what follows the entries.
cdef int block_builder_finish(BlockBuilder* builder) noexcept nogil
