# Borrowed byte ranges, fixed-width and variable-length integers. Header only, no state.
#
# Fields in files are little-endian; big-endian is used only where bytes are compared.

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    #error "dynalsm is built for little-endian machines"
    #endif
    static inline uint64_t dynalsm_bswap64(uint64_t v) { return __builtin_bswap64(v); }
    static inline int dynalsm_clz64(uint64_t v) { return v ? __builtin_clzll(v) : 64; }
    static inline void dynalsm_prefetch(const void* p) { __builtin_prefetch(p); }
    """
    uint64_t bswap64 "dynalsm_bswap64"(uint64_t value) noexcept nogil
    int clz64 "dynalsm_clz64"(uint64_t value) noexcept nogil
    void prefetch "dynalsm_prefetch"(const void* address) noexcept nogil


# Bytes somebody else owns: valid while the owner lives and does not move.
cdef struct Slice:
    const uint8_t* data
    size_t size


cdef inline Slice slice_of(const void* data, size_t size) noexcept nogil:
    cdef Slice result
    result.data = <const uint8_t*>data
    result.size = size
    return result


# Bytewise order; a proper prefix sorts first. Returns: <0, 0, >0.
cdef inline int slice_compare(Slice a, Slice b) noexcept nogil:
    cdef size_t shared = a.size if a.size < b.size else b.size
    cdef int order = memcmp(a.data, b.data, shared) if shared else 0
    if order:
        return order
    return (a.size > b.size) - (a.size < b.size)


cdef inline bint slice_equal(Slice a, Slice b) noexcept nogil:
    return a.size == b.size and (a.size == 0 or memcmp(a.data, b.data, a.size) == 0)


cdef inline void put_u32(uint8_t* target, uint32_t value) noexcept nogil:
    memcpy(target, &value, 4)


cdef inline void put_u64(uint8_t* target, uint64_t value) noexcept nogil:
    memcpy(target, &value, 8)


cdef inline uint32_t get_u32(const uint8_t* source) noexcept nogil:
    cdef uint32_t value
    memcpy(&value, source, 4)
    return value


cdef inline uint64_t get_u64(const uint8_t* source) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, source, 8)
    return value


cdef inline void put_u64_be(uint8_t* target, uint64_t value) noexcept nogil:
    value = bswap64(value)
    memcpy(target, &value, 8)


cdef inline uint64_t get_u64_be(const uint8_t* source) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, source, 8)
    return bswap64(value)


# The first eight bytes from `skip` on as a big-endian integer, short keys padded with zeros:
# a smaller prefix means a smaller key; equal prefixes decide nothing.
cdef inline uint64_t key_prefix(Slice key, size_t skip) noexcept nogil:
    cdef uint64_t value = 0
    cdef size_t left
    if key.size >= skip + 8:
        return get_u64_be(key.data + skip)
    if key.size > skip:
        left = key.size - skip
        memcpy(&value, key.data + skip, left)
        return bswap64(value)
    return 0


# LEB128, least significant group first. Returns: the byte behind the number.
cdef inline uint8_t* put_varint(uint8_t* target, uint64_t value) noexcept nogil:
    while value >= 0x80:
        target[0] = <uint8_t>(value | 0x80)
        target += 1
        value >>= 7
    target[0] = <uint8_t>value
    return target + 1


# Returns: the byte behind the number, or NULL when it does not end before `limit` or is too long.
cdef inline const uint8_t* get_varint(
    const uint8_t* source, const uint8_t* limit, uint64_t* value
) noexcept nogil:
    cdef uint64_t result = 0
    cdef int shift = 0
    cdef uint8_t byte
    if source < limit and source[0] < 0x80:
        value[0] = source[0]
        return source + 1
    while source < limit and shift < 64:
        byte = source[0]
        source += 1
        result |= (<uint64_t>(byte & 0x7F)) << shift
        if byte < 0x80:
            value[0] = result
            return source
        shift += 7
    return NULL


cdef inline int varint_size(uint64_t value) noexcept nogil:
    cdef int size = 1
    while value >= 0x80:
        value >>= 7
        size += 1
    return size
