# What all encoders are made of: writing strings, numbers, maps, lists and sets into a Buffer.
#
# Thread safety: a Buffer belongs to one call; the GIL is held throughout.

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t

from dynalsm.values.buffer cimport (
    Buffer,
    buffer_put,
    buffer_reserve,
    write_bin_header,
    write_ext_header,
    write_str_header,
)
from dynalsm.values.codec cimport EXT_N
from dynalsm.values.number cimport MAX_NUMBER_BYTES, Number, number_to_bytes

cdef extern from "Python.h":
    # NULL with an error set when the text has lone surrogates; declared without "except" so that
    # the error can be replaced cheaply.
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size)

cdef enum:
    MAX_HEADER_BYTES = 6
    MAX_NAME_BYTES = 65535       # limits.ATTRIBUTE_NAME_MAX_BYTES

# Where typed dicts come from.
cdef enum:
    FORM_WIRE = 0
    FORM_JSON = 1

cdef struct Options:
    int depth_limit
    int form

# Writes one value that stands at level `depth`.
ctypedef int (*Encoder)(Buffer* out, object value, int depth, const Options* options) except -1

# Raise the ValueProblem of this kind.
cdef int raise_problem(str kind) except -1

# Write a dict as a map sorted by name; its values are at level `depth`. With is_item, its names
# may not be empty.
cdef int put_map(
    Buffer* out, object source, int depth, const Options* options, Encoder encoder, bint is_item
) except -1

# Write a list or tuple; its elements are at level `depth`.
cdef int put_list(
    Buffer* out, object source, int depth, const Options* options, Encoder encoder
) except -1

# Write a set whose members are all str (SS), bytes (BS), or str, int, Decimal (NS).
cdef int put_set(Buffer* out, uint8_t ext, list members) except -1

cdef int put_number_text(Buffer* out, object text) except -1
cdef int put_number_object(Buffer* out, object value) except -1

# Encode one value, or one item, with a fresh buffer.
cdef bytes encode_one(Encoder encoder, object value, int depth_limit, int form)
cdef bytes encode_map(Encoder encoder, object item, int depth_limit, int form)


# The UTF-8 of a str, borrowed from it.
cdef inline const uint8_t* utf8_of(object text, size_t* size) except NULL:
    cdef Py_ssize_t length = 0
    cdef const char* data = PyUnicode_AsUTF8AndSize(text, &length)
    if data == NULL:
        raise_problem("not_unicode")
    if length > <Py_ssize_t>0xFFFFFFFF:
        raise_problem("too_large")
    size[0] = <size_t>length
    return <const uint8_t*>data


cdef inline int put_byte(Buffer* out, uint8_t value) except -1:
    buffer_reserve(out, 1)[0] = value
    out.size += 1
    return 0


cdef inline int put_str(Buffer* out, const uint8_t* data, size_t size) except -1:
    cdef uint8_t* p = buffer_reserve(out, size + MAX_HEADER_BYTES)
    out.size += write_str_header(p, size)
    return buffer_put(out, data, size)


cdef inline int put_text(Buffer* out, object text) except -1:
    cdef size_t size = 0
    cdef const uint8_t* data = utf8_of(text, &size)
    return put_str(out, data, size)


cdef inline int put_bin(Buffer* out, const uint8_t* data, size_t size) except -1:
    cdef uint8_t* p
    if size > <size_t>0xFFFFFFFF:
        raise_problem("too_large")
    p = buffer_reserve(out, size + MAX_HEADER_BYTES)
    out.size += write_bin_header(p, size)
    return buffer_put(out, data, size)


cdef inline int put_bytes_like(Buffer* out, object data) except -1:
    if isinstance(data, bytes):
        return put_bin(
            out, <const uint8_t*>PyBytes_AS_STRING(data), <size_t>PyBytes_GET_SIZE(data)
        )
    if isinstance(data, bytearray):
        return put_bin(
            out, <const uint8_t*>PyByteArray_AS_STRING(data), <size_t>PyByteArray_GET_SIZE(data)
        )
    return put_bytes_like(out, bytes(data))


cdef inline int put_number(Buffer* out, const Number* number) except -1:
    cdef uint8_t data[MAX_NUMBER_BYTES]
    cdef int size = number_to_bytes(number, data)
    cdef uint8_t* p = buffer_reserve(out, size + MAX_HEADER_BYTES)
    out.size += write_ext_header(p, size, EXT_N)
    return buffer_put(out, data, size)


cdef inline int check_depth(int depth, const Options* options) except -1:
    if depth > options.depth_limit:
        return raise_problem("nesting")
    return 0
