"""XXH64 with seed 0, written out from its published description (xxHash specification 0.2.0).

Four lanes of 64 bits eat 32-byte stripes; the rest goes in by 8, 4 and 1 bytes; an avalanche
ends it. Pure functions, thread-safe. The values are on disk: never change them.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef enum:
    STRIPE_BYTES = 32

# In C, because a Cython module variable is not a constant to the compiler.
cdef extern from *:
    """
    #define DYNALSM_PRIME_1 0x9E3779B185EBCA87ULL
    #define DYNALSM_PRIME_2 0xC2B2AE3D27D4EB4FULL
    #define DYNALSM_PRIME_3 0x165667B19E3779F9ULL
    #define DYNALSM_PRIME_4 0x85EBCA77C2B2AE63ULL
    #define DYNALSM_PRIME_5 0x27D4EB2F165667C5ULL
    """
    const uint64_t PRIME_1 "DYNALSM_PRIME_1"
    const uint64_t PRIME_2 "DYNALSM_PRIME_2"
    const uint64_t PRIME_3 "DYNALSM_PRIME_3"
    const uint64_t PRIME_4 "DYNALSM_PRIME_4"
    const uint64_t PRIME_5 "DYNALSM_PRIME_5"


# Little-endian loads from any address; compilers make one instruction of each.
cdef inline uint64_t load64(const uint8_t* p) noexcept nogil:
    return (
        <uint64_t>p[0] | <uint64_t>p[1] << 8 | <uint64_t>p[2] << 16 | <uint64_t>p[3] << 24
        | <uint64_t>p[4] << 32 | <uint64_t>p[5] << 40 | <uint64_t>p[6] << 48 | <uint64_t>p[7] << 56
    )


cdef inline uint32_t load32(const uint8_t* p) noexcept nogil:
    return <uint32_t>p[0] | <uint32_t>p[1] << 8 | <uint32_t>p[2] << 16 | <uint32_t>p[3] << 24


cdef inline uint64_t rotate(uint64_t value, int bits) noexcept nogil:
    return value << bits | value >> (64 - bits)


cdef inline uint64_t round64(uint64_t lane, uint64_t word) noexcept nogil:
    return rotate(lane + word * PRIME_2, 31) * PRIME_1


cdef inline uint64_t merge_lane(uint64_t mixed, uint64_t lane) noexcept nogil:
    return (mixed ^ round64(0, lane)) * PRIME_1 + PRIME_4


cdef uint64_t eat_stripes(const uint8_t* p, const uint8_t* last) noexcept nogil:
    """Mix whole stripes; `last` is the latest address at which a stripe may start."""
    cdef uint64_t a = PRIME_1 + PRIME_2
    cdef uint64_t b = PRIME_2
    cdef uint64_t c = 0
    cdef uint64_t d = 0 - PRIME_1
    cdef uint64_t mixed
    while p <= last:
        a = round64(a, load64(p))
        b = round64(b, load64(p + 8))
        c = round64(c, load64(p + 16))
        d = round64(d, load64(p + 24))
        p += STRIPE_BYTES
    mixed = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18)
    return merge_lane(merge_lane(merge_lane(merge_lane(mixed, a), b), c), d)


cdef uint64_t hash64(const uint8_t* data, size_t size) noexcept nogil:
    cdef uint64_t mixed = PRIME_5
    cdef size_t rest = size
    if size >= STRIPE_BYTES:
        mixed = eat_stripes(data, data + size - STRIPE_BYTES)
        data += size - size % STRIPE_BYTES
        rest = size % STRIPE_BYTES
    mixed += size
    while rest >= 8:
        mixed = rotate(mixed ^ round64(0, load64(data)), 27) * PRIME_1 + PRIME_4
        data += 8
        rest -= 8
    if rest >= 4:
        mixed = rotate(mixed ^ load32(data) * PRIME_1, 23) * PRIME_2 + PRIME_3
        data += 4
        rest -= 4
    while rest:
        mixed = rotate(mixed ^ data[0] * PRIME_5, 11) * PRIME_1
        data += 1
        rest -= 1
    mixed = (mixed ^ mixed >> 33) * PRIME_2
    mixed = (mixed ^ mixed >> 29) * PRIME_3
    return mixed ^ mixed >> 32


def _hash64_bytes(bytes data not None, size_t offset=0):
    """Return XXH64 (seed 0) of data[offset:], read in place."""
    cdef const uint8_t* start = data
    cdef size_t size = len(data)
    if offset > size:
        raise ValueError("offset beyond the end of the data")
    return hash64(start + offset, size - offset)


# The Python name is the C name; Cython cannot declare both under one.
_hash64_bytes.__name__ = _hash64_bytes.__qualname__ = "hash64"
globals()["hash64"] = _hash64_bytes
