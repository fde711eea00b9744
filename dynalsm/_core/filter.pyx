# Cache-line-blocked Bloom filter (see filter.pxd for the contracts).
#
# On disk it is what it is in memory: lines of 64 bytes. A key picks one line and `probes` bits of
# it:
#   x = key_hash * 0x9E3779B97F4A7C15;  x ^= x >> 32
#   line = ((x * 0xD6E8FEB86659FD93 mod 2^64) >> 32) * lines >> 32
#   b = x * 0xC4CEB9FE1A85EC53; probe i (0..6) is bits 9i..9i+8 of b ^ (b >> 29)
#   probes 7..13 come in the same way from b * 0xC4CEB9FE1A85EC53
# Bit n of a line is bit n % 8 of its byte n // 8. All arithmetic is modulo 2^64.
# The line and the bits come from different products, and every bit of both depends on all of the
# hash: the false-positive rate holds when keys share their top hash bits.
# Thread safety: pure functions.

from libc.string cimport memset

from dynalsm._core.coding cimport prefetch


cdef enum:
    LINE_BYTES = 64
    LINE_BITS = 512
    PROBES_MAX = 14
    PROBES_PER_WORD = 7

cdef extern from *:
    """
    #define DYNALSM_SPREAD 0x9E3779B97F4A7C15ull
    #define DYNALSM_LINE_FACTOR 0xD6E8FEB86659FD93ull
    #define DYNALSM_BIT_FACTOR 0xC4CEB9FE1A85EC53ull
    #define DYNALSM_LINES_MAX 0xFFFFFFFFull
    """
    uint64_t SPREAD "DYNALSM_SPREAD"
    uint64_t LINE_FACTOR "DYNALSM_LINE_FACTOR"
    uint64_t BIT_FACTOR "DYNALSM_BIT_FACTOR"
    uint64_t LINES_MAX "DYNALSM_LINES_MAX"


cdef inline int probes_for(int bits_per_key) noexcept nogil:
    """0.6 per bit: a little under ln 2, since the lines fill unevenly."""
    cdef int probes = (bits_per_key * 6 + 5) // 10
    if probes < 1:
        return 1
    return probes if probes < PROBES_MAX else PROBES_MAX


cdef inline uint64_t spread(uint64_t key_hash) noexcept nogil:
    cdef uint64_t x = key_hash * SPREAD
    return x ^ (x >> 32)


cdef inline uint64_t line_of(uint64_t x, uint64_t lines) noexcept nogil:
    return (((x * LINE_FACTOR) >> 32) * lines) >> 32


cdef inline uint64_t folded(uint64_t bits) noexcept nogil:
    return bits ^ (bits >> 29)


cdef size_t filter_size(uint64_t keys, int bits_per_key) noexcept nogil:
    cdef uint64_t lines
    if keys == 0 or bits_per_key <= 0:
        return 0
    lines = (keys * <uint64_t>bits_per_key + LINE_BITS - 1) // LINE_BITS
    return <size_t>(lines if lines < LINES_MAX else LINES_MAX) * LINE_BYTES


cdef void filter_build(
    uint8_t* target, size_t size, const uint64_t* hashes, uint64_t count, int bits_per_key
) noexcept nogil:
    cdef uint64_t lines = size // LINE_BYTES
    cdef int probes = probes_for(bits_per_key)
    cdef uint64_t i, x, product, bits
    cdef uint8_t* line
    cdef int probe
    memset(target, 0, size)
    if lines == 0:
        return
    for i in range(count):
        x = spread(hashes[i])
        line = target + line_of(x, lines) * LINE_BYTES
        product = x * BIT_FACTOR
        bits = folded(product)
        for probe in range(probes):
            if probe == PROBES_PER_WORD:
                bits = folded(product * BIT_FACTOR)
            line[(bits & 511) >> 3] |= <uint8_t>(1 << (bits & 7))
            bits >>= 9


cdef bint filter_may_contain(
    const uint8_t* filter, size_t size, uint64_t key_hash, int bits_per_key
) noexcept nogil:
    cdef uint64_t lines = size // LINE_BYTES
    cdef int probes = probes_for(bits_per_key)
    cdef uint64_t x, product, bits
    cdef const uint8_t* line
    cdef int probe
    cdef int found = 1
    if lines == 0:
        return True
    x = spread(key_hash)
    line = filter + line_of(x, lines) * LINE_BYTES
    product = x * BIT_FACTOR
    bits = folded(product)
    for probe in range(probes):
        if probe == PROBES_PER_WORD:
            bits = folded(product * BIT_FACTOR)
        found &= line[(bits & 511) >> 3] >> (bits & 7)
        bits >>= 9
    return found & 1


cdef size_t filter_line(size_t size, uint64_t key_hash) noexcept nogil:
    return line_of(spread(key_hash), size // LINE_BYTES) * LINE_BYTES


cdef void filter_prefetch(const uint8_t* filter, size_t size, uint64_t key_hash) noexcept nogil:
    prefetch(filter + line_of(spread(key_hash), size // LINE_BYTES) * LINE_BYTES)
