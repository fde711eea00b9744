# CRC-32C (Castagnoli), by the CPU's instruction where there is one, by tables elsewhere.

from libc.stdint cimport uint32_t, uint64_t

# Extends `crc` (0 at the start) by the bytes; the same value as the crc32c package gives.
cdef uint32_t crc32c(uint32_t crc, const void* data, size_t size) noexcept nogil
# What `crc` contributes `size` bytes further on, in constant time:
#     crc(A + B) == crc32c_shift(crc(A), len(B)) ^ crc(B)
# so that checksums of many overlapping ranges can be had from a few checksums of prefixes.
cdef uint32_t crc32c_shift(uint32_t crc, uint64_t size) noexcept nogil
