# CRC-32C (see crc32c.pxd for the contract).
#
# Three ways to the same number, chosen once at import:
#   x86-64   the SSE4.2 instruction, three independent streams for long inputs: the instruction has
#            a latency of three cycles and a throughput of one;
#   AArch64  the CRC32 extension, when the compiler was told that the CPU has it;
#   else     eight tables of 256 entries, eight bytes a step ("slicing by 8").
# The streams are joined, and crc32c_shift works, by multiplication with powers of x modulo the
# polynomial, in the reflected representation (bit 31 is the coefficient of x**0).
#
# Thread safety: all state is written once, at import, before anybody can call.

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    #if defined(__x86_64__)
    #define DYNALSM_CRC_HARDWARE "sse4.2"
    #define DYNALSM_CRC_TARGET __attribute__((target("sse4.2")))
    #define DYNALSM_CRC_8(c, v) __builtin_ia32_crc32di((c), (v))
    #define DYNALSM_CRC_1(c, v) __builtin_ia32_crc32qi((uint32_t)(c), (v))
    static int dynalsm_crc_available(void) {
        __builtin_cpu_init();
        return __builtin_cpu_supports("sse4.2") != 0;
    }
    #elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
    #include <arm_acle.h>
    #define DYNALSM_CRC_HARDWARE "armv8"
    #define DYNALSM_CRC_TARGET
    #define DYNALSM_CRC_8(c, v) __crc32cd((uint32_t)(c), (v))
    #define DYNALSM_CRC_1(c, v) __crc32cb((uint32_t)(c), (v))
    static int dynalsm_crc_available(void) { return 1; }
    #endif

    #ifdef DYNALSM_CRC_HARDWARE
    static inline uint64_t dynalsm_crc_load(const uint8_t* p) {
        uint64_t v;
        memcpy(&v, p, 8);
        return v;
    }

    /* One stream. The register value goes in and comes out uninverted. */
    DYNALSM_CRC_TARGET
    static uint32_t dynalsm_crc_stream(uint32_t start, const uint8_t* p, size_t size) {
        uint64_t crc = start;
        const uint8_t* end = p + (size & ~(size_t)7);
        for (; p != end; p += 8) crc = DYNALSM_CRC_8(crc, dynalsm_crc_load(p));
        for (end = p + (size & 7); p != end; p++) crc = DYNALSM_CRC_1(crc, *p);
        return (uint32_t)crc;
    }

    /* Three adjacent lanes of `lane` bytes (a multiple of 8); the first starts from `start`. */
    DYNALSM_CRC_TARGET
    static void dynalsm_crc_lanes(uint32_t start, const uint8_t* p, size_t lane, uint32_t* out) {
        uint64_t a = start, b = 0, c = 0;
        const uint8_t* end = p + lane;
        for (; p != end; p += 8) {
            a = DYNALSM_CRC_8(a, dynalsm_crc_load(p));
            b = DYNALSM_CRC_8(b, dynalsm_crc_load(p + lane));
            c = DYNALSM_CRC_8(c, dynalsm_crc_load(p + 2 * lane));
        }
        out[0] = (uint32_t)a;
        out[1] = (uint32_t)b;
        out[2] = (uint32_t)c;
    }
    #else
    #define DYNALSM_CRC_HARDWARE "tables"
    static int dynalsm_crc_available(void) { return 0; }
    static uint32_t dynalsm_crc_stream(uint32_t start, const uint8_t* p, size_t size) {
        (void)p; (void)size; return start;
    }
    static void dynalsm_crc_lanes(uint32_t start, const uint8_t* p, size_t lane, uint32_t* out) {
        (void)start; (void)p; (void)lane; (void)out;
    }
    #endif
    """
    const char* HARDWARE_NAME "DYNALSM_CRC_HARDWARE"
    int hardware_available "dynalsm_crc_available"() noexcept nogil
    uint32_t hardware_stream "dynalsm_crc_stream"(
        uint32_t start, const uint8_t* data, size_t size) noexcept nogil
    void hardware_lanes "dynalsm_crc_lanes"(
        uint32_t start, const uint8_t* data, size_t lane, uint32_t* out) noexcept nogil

# The Castagnoli polynomial, reflected.
cdef uint32_t POLYNOMIAL = 0x82F63B78
# x**0 in the reflected representation.
cdef uint32_t ONE = 0x80000000

# Lane lengths of the three-stream loop: long ones for blocks, short ones for log records.
cdef enum:
    LONG_LANE = 4096
    SHORT_LANE = 256


# A register moved on by a fixed number of zero bytes, by the register's own four bytes.
cdef struct Move:
    uint32_t byte[4][256]


# Everything below is written by _prepare() at import and constant afterwards.
cdef uint32_t _tables[8][256]        # slicing by 8
cdef Move _long_lane
cdef Move _short_lane
cdef uint32_t _powers[8][256]        # x**(8 * digit * 256**place) modulo the polynomial
cdef bint _has_hardware


cdef uint32_t crc32c(uint32_t crc, const void* data, size_t size) noexcept nogil:
    cdef const uint8_t* source = <const uint8_t*>data
    if not _has_hardware:
        return crc_by_tables(crc, source, size)
    crc = ~crc
    if size >= 3 * SHORT_LANE:
        while size >= 3 * LONG_LANE:
            crc = three_lanes(crc, source, LONG_LANE, &_long_lane)
            source += 3 * LONG_LANE
            size -= 3 * LONG_LANE
        while size >= 3 * SHORT_LANE:
            crc = three_lanes(crc, source, SHORT_LANE, &_short_lane)
            source += 3 * SHORT_LANE
            size -= 3 * SHORT_LANE
    return ~hardware_stream(crc, source, size)


cdef uint32_t crc32c_shift(uint32_t crc, uint64_t size) noexcept nogil:
    cdef int place = 0
    while size:
        if size & 0xFF:
            crc = multiply(_powers[place][size & 0xFF], crc)
        size >>= 8
        place += 1
    return crc


cdef inline uint32_t three_lanes(
    uint32_t crc, const uint8_t* source, size_t lane, const Move* move
) noexcept nogil:
    cdef uint32_t parts[3]
    hardware_lanes(crc, source, lane, parts)
    return move_register(move, move_register(move, parts[0]) ^ parts[1]) ^ parts[2]


cdef inline uint32_t move_register(const Move* move, uint32_t crc) noexcept nogil:
    return (
        move.byte[0][crc & 0xFF]
        ^ move.byte[1][(crc >> 8) & 0xFF]
        ^ move.byte[2][(crc >> 16) & 0xFF]
        ^ move.byte[3][crc >> 24]
    )


cdef uint32_t crc_by_tables(uint32_t crc, const uint8_t* source, size_t size) noexcept nogil:
    cdef uint64_t low
    crc = ~crc
    while size >= 8:
        low = crc ^ (
            <uint64_t>source[0] | <uint64_t>source[1] << 8
            | <uint64_t>source[2] << 16 | <uint64_t>source[3] << 24
        )
        crc = (
            _tables[7][low & 0xFF] ^ _tables[6][(low >> 8) & 0xFF]
            ^ _tables[5][(low >> 16) & 0xFF] ^ _tables[4][low >> 24]
            ^ _tables[3][source[4]] ^ _tables[2][source[5]]
            ^ _tables[1][source[6]] ^ _tables[0][source[7]]
        )
        source += 8
        size -= 8
    while size:
        crc = _tables[0][(crc ^ source[0]) & 0xFF] ^ (crc >> 8)
        source += 1
        size -= 1
    return ~crc


# The product of two polynomials modulo the Castagnoli one.
cdef uint32_t multiply(uint32_t a, uint32_t b) noexcept nogil:
    cdef uint32_t product = 0
    cdef int bit
    for bit in range(31, -1, -1):
        product ^= b & (0 - ((a >> bit) & 1))
        b = (b >> 1) ^ (POLYNOMIAL & (0 - (b & 1)))
    return product


cdef void fill_lane(Move* move, uint64_t lane) noexcept nogil:
    cdef uint32_t power = crc32c_shift(ONE, lane)
    cdef uint32_t byte
    cdef int place
    for place in range(4):
        for byte in range(256):
            move.byte[place][byte] = multiply(power, byte << (8 * place))


cdef void _prepare() noexcept nogil:
    global _has_hardware
    cdef uint32_t crc, base = ONE >> 8
    cdef int index, step, place, _step
    for index in range(256):
        crc = index
        for _step in range(8):
            crc = (crc >> 1) ^ (POLYNOMIAL & (0 - (crc & 1)))
        _tables[0][index] = crc
    for step in range(1, 8):
        for index in range(256):
            crc = _tables[step - 1][index]
            _tables[step][index] = _tables[0][crc & 0xFF] ^ (crc >> 8)
    for place in range(8):
        _powers[place][0] = ONE
        for index in range(1, 256):
            _powers[place][index] = multiply(_powers[place][index - 1], base)
        base = multiply(_powers[place][255], base)
    _has_hardware = hardware_available()
    if _has_hardware:
        fill_lane(&_long_lane, LONG_LANE)
        fill_lane(&_short_lane, SHORT_LANE)


_prepare()

#: "sse4.2", "armv8" or "tables".
IMPLEMENTATION = HARDWARE_NAME.decode() if _has_hardware else "tables"


def checksum(data, unsigned int crc=0):
    """Return the CRC-32C of a bytes-like object, going on from `crc` (0 at the start)."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return crc32c(crc, view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


def checksum_by_tables(data, unsigned int crc=0):
    """Return what `checksum` returns, by the portable code (for tests)."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return crc_by_tables(crc, <const uint8_t*>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


def join(unsigned int first, unsigned int second, unsigned long long second_size):
    """Return the CRC-32C of A + B from crc(A), crc(B) and len(B)."""
    return crc32c_shift(first, second_size) ^ second


# The C function above has this name already; Python callers know it by the package's name too.
globals()["crc32c"] = checksum
