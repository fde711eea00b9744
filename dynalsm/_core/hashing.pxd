# hash64: the one hash of dynalsm (partition of a key, filters). It is XXH64 with seed 0.
#
# Frozen for ever: its values are on disk (the first eight bytes of every key in a hashed tree).
# Thread safety: pure functions. No alignment is required of the input, and the host's byte order
# does not change the result.

from libc.stdint cimport uint8_t, uint64_t

# XXH64 (seed 0) of `size` bytes. REQUIRES: data is readable for size bytes (may be NULL when 0).
cdef uint64_t hash64(const uint8_t* data, size_t size) noexcept nogil
