# Buffer: bytes that grow while a value is encoded. Header only.
#
# It starts on memory of the caller's stack frame and moves to the heap when that is full.
# Thread safety: none; one buffer belongs to one call. Every buffer_init is followed by
# buffer_free in a finally clause.

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

cdef enum:
    LOCAL_BYTES = 1024

cdef struct Buffer:
    uint8_t* data                # local, or heap; heap memory is owned
    size_t size
    size_t capacity
    bint is_heap
    uint8_t local[LOCAL_BYTES]


cdef inline void buffer_init(Buffer* buffer) noexcept nogil:
    buffer.data = buffer.local
    buffer.size = 0
    buffer.capacity = LOCAL_BYTES
    buffer.is_heap = False


cdef inline void buffer_free(Buffer* buffer) noexcept nogil:
    if buffer.is_heap:
        free(buffer.data)
        buffer.is_heap = False


cdef inline int buffer_grow(Buffer* buffer, size_t more) except -1:
    cdef size_t capacity = buffer.capacity * 2
    cdef uint8_t* data
    if capacity < buffer.size + more:
        capacity = buffer.size + more
    if buffer.is_heap:
        data = <uint8_t*>realloc(buffer.data, capacity)
    else:
        data = <uint8_t*>malloc(capacity)
        if data != NULL:
            memcpy(data, buffer.data, buffer.size)
    if data == NULL:
        raise MemoryError()
    buffer.data = data
    buffer.capacity = capacity
    buffer.is_heap = True
    return 0


# Make room for `more` bytes. Returns: where they go, valid until the buffer grows again.
cdef inline uint8_t* buffer_reserve(Buffer* buffer, size_t more) except NULL:
    if buffer.capacity - buffer.size < more:
        buffer_grow(buffer, more)
    return buffer.data + buffer.size


cdef inline int buffer_put(Buffer* buffer, const void* data, size_t size) except -1:
    cdef uint8_t* out = buffer_reserve(buffer, size)
    memcpy(out, data, size)
    buffer.size += size
    return 0


cdef inline bytes buffer_bytes(const Buffer* buffer):
    return PyBytes_FromStringAndSize(<const char*>buffer.data, <Py_ssize_t>buffer.size)


# msgpack headers, always the shortest form. REQUIRES: room for 6 bytes. Returns: bytes written.
cdef inline int write_big16(uint8_t* out, size_t value) noexcept nogil:
    out[0] = <uint8_t>(value >> 8)
    out[1] = <uint8_t>value
    return 2


cdef inline int write_big32(uint8_t* out, size_t value) noexcept nogil:
    out[0] = <uint8_t>(value >> 24)
    out[1] = <uint8_t>(value >> 16)
    out[2] = <uint8_t>(value >> 8)
    out[3] = <uint8_t>value
    return 4


cdef inline int write_str_header(uint8_t* out, size_t size) noexcept nogil:
    if size < 32:
        out[0] = <uint8_t>(0xA0 | size)
        return 1
    if size < 256:
        out[0] = 0xD9
        out[1] = <uint8_t>size
        return 2
    if size < 65536:
        out[0] = 0xDA
        return 1 + write_big16(out + 1, size)
    out[0] = 0xDB
    return 1 + write_big32(out + 1, size)


cdef inline int write_bin_header(uint8_t* out, size_t size) noexcept nogil:
    if size < 256:
        out[0] = 0xC4
        out[1] = <uint8_t>size
        return 2
    if size < 65536:
        out[0] = 0xC5
        return 1 + write_big16(out + 1, size)
    out[0] = 0xC6
    return 1 + write_big32(out + 1, size)


# `base` is 0x90 for arrays (with 0xDC, 0xDD) and 0x80 for maps (0xDE, 0xDF).
cdef inline int write_container_header(
    uint8_t* out, size_t count, uint8_t base, uint8_t base16
) noexcept nogil:
    if count < 16:
        out[0] = <uint8_t>(base | count)
        return 1
    if count < 65536:
        out[0] = base16
        return 1 + write_big16(out + 1, count)
    out[0] = base16 + 1
    return 1 + write_big32(out + 1, count)


cdef inline int write_array_header(uint8_t* out, size_t count) noexcept nogil:
    return write_container_header(out, count, 0x90, 0xDC)


cdef inline int write_map_header(uint8_t* out, size_t count) noexcept nogil:
    return write_container_header(out, count, 0x80, 0xDE)


cdef inline int write_ext_header(uint8_t* out, size_t size, uint8_t ext) noexcept nogil:
    cdef int written
    if size == 1 or size == 2 or size == 4 or size == 8 or size == 16:
        # 0xD4 to 0xD8 by the power of two.
        out[0] = <uint8_t>(
            0xD4 + (size >= 2) + (size >= 4) + (size >= 8) + (size >= 16)
        )
        written = 1
    elif size < 256:
        out[0] = 0xC7
        out[1] = <uint8_t>size
        written = 2
    elif size < 65536:
        out[0] = 0xC8
        written = 1 + write_big16(out + 1, size)
    else:
        out[0] = 0xC9
        written = 1 + write_big32(out + 1, size)
    out[written] = ext
    return written + 1
