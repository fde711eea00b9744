# Key values as they mostly come, read from Python objects without encoding them. Header only.
#
# What is not plain (odd types, texts that are not ASCII, numbers that need a closer look) is left
# to the encoders, which also say what is wrong with it. Thread safety: with the GIL.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Size
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t

from dynalsm.values.codec cimport TAG_B, TAG_N, TAG_S, Node
from dynalsm.values.decode cimport AS_NATIVE, AS_WIRE
from dynalsm.values.number cimport (
    NUMBER_OK,
    Number,
    number_from_layout,
    number_from_object,
    number_from_text,
    number_to_bytes,
)

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    void* PyUnicode_DATA(object text)


# Read a key value of the type `tag`, as `form` (of decode.pxd) shows it. `room` takes number bytes;
# others stay where they are, borrowed from `value`. Returns: 1 with *out set, or 0: not plain.
cdef inline int plain_node(object value, int tag, int form, uint8_t* room, Node* out) except -1:
    cdef Number number
    cdef PyObject* member
    cdef int code
    out.tag = tag
    if form != AS_NATIVE:
        if type(value) is not dict or PyDict_Size(value) != 1:
            return 0
        member = PyDict_GetItemWithError(
            value, "S" if tag == TAG_S else "N" if tag == TAG_N else "B"
        )
        if member == NULL:
            return 0
        value = <object>member
    if tag == TAG_B:
        if type(value) is not bytes or (form != AS_NATIVE and form != AS_WIRE):
            return 0
        out.body = <const uint8_t*>PyBytes_AS_STRING(value)
        out.size = <size_t>PyBytes_GET_SIZE(value)
        return 1
    if tag == TAG_S or form != AS_NATIVE:
        if type(value) is not str or not PyUnicode_IS_COMPACT_ASCII(value):
            return 0
        out.body = <const uint8_t*>PyUnicode_DATA(value)
        out.size = <size_t>PyUnicode_GET_LENGTH(value)
        if tag == TAG_S:
            return 1
        code = number_from_text(<const char*>out.body, <Py_ssize_t>out.size, &number)
    elif type(value) is int:
        code = number_from_object(value, &number)
    else:
        code = number_from_layout(value, &number)
        if code != NUMBER_OK or number.count == 0:
            return 0
    if code != NUMBER_OK or number.exponent < -100 or number.exponent > 36:
        return 0
    out.body = room
    out.size = <size_t>number_to_bytes(&number, room)
    return 1
