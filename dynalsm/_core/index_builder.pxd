# Builds the payload of an index section (sstable_index.pxd), block by block. Used by one thread.

from libc.stdint cimport uint32_t, uint64_t

from dynalsm._core.coding cimport Slice
from dynalsm._core.sstable_format cimport Bytes


# What is noted of a block besides its separator.
cdef struct BlockPlace:
    size_t separator_end             # in separators
    uint32_t stored_size
    uint32_t raw_size


cdef struct IndexBuilder:
    Bytes separators                 # encoded, end to end
    Bytes last_separator             # the last one, whole
    BlockPlace* places               # owned
    size_t count                     # blocks added
    size_t capacity
    size_t stored_count              # blocks whose stored size is known


# All zero is an empty builder. Functions that return int: OK or NO_MEMORY.
cdef void index_builder_free(IndexBuilder* builder) noexcept nogil
# Adds a block that ends with (last, last_tag); `next` is the key the next block begins with, or
# NULL.
cdef int index_builder_add(
    IndexBuilder* builder, Slice last, uint64_t last_tag, const Slice* next, size_t raw_size
) noexcept nogil
# Notes the stored size of the first block for which it is not known yet.
cdef void index_builder_stored(IndexBuilder* builder, size_t stored_size) noexcept nogil
# REQUIRES: all stored sizes are known.
cdef int index_builder_encode(const IndexBuilder* builder, Bytes* payload) noexcept nogil
