# Cache-line-blocked Bloom filter over 64-bit key hashes (hash64 of the user key, remixed before
# use: in a
# hashed tree's partition the top bits of related hashes may be constant).

from libc.stdint cimport uint8_t, uint64_t

# Bytes a filter for `keys` keys takes (a multiple of 64).
cdef size_t filter_size(uint64_t keys, int bits_per_key) noexcept nogil
cdef void filter_build(
    uint8_t* target, size_t size, const uint64_t* hashes, uint64_t count, int bits_per_key
) noexcept nogil
cdef bint filter_may_contain(
    const uint8_t* filter, size_t size, uint64_t key_hash, int bits_per_key
) noexcept nogil
# Where in the filter the line of a key begins (bytes). REQUIRES: size >= 64.
cdef size_t filter_line(size_t size, uint64_t key_hash) noexcept nogil
# Starts loading the line that filter_may_contain will look at. REQUIRES: size >= 64.
cdef void filter_prefetch(const uint8_t* filter, size_t size, uint64_t key_hash) noexcept nogil
