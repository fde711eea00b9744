# CRC-32C (Castagnoli), by the CPU's instruction where there is one, by tables elsewhere.

from libc.stdint cimport uint32_t

# Extends `crc` (0 at the start) by the bytes; the same value as the crc32c package gives.
cdef uint32_t crc32c(uint32_t crc, const void* data, size_t size) noexcept nogil
