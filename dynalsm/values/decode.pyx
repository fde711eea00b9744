"""Bytes to values: internal, wire and native Python objects.

Everything read is checked: damaged bytes give ValueError, never a crash. Names of attributes come
from a small cache, as do short numbers, because items repeat them. The layout is in
docs/format-items.md. Thread safety: the caches are guarded by the GIL; everything else is pure.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_SetItem
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.unicode cimport PyUnicode_DecodeASCII, PyUnicode_DecodeUTF8
from libc.stdint cimport uint64_t
from libc.string cimport memcmp

from dynalsm.values.codec cimport (
    TAG_B,
    TAG_BOOL,
    TAG_L,
    TAG_M,
    TAG_N,
    TAG_NS,
    TAG_NULL,
    TAG_S,
    TAG_SS,
    Node,
)
from dynalsm.values.names cimport prefix_of
from dynalsm.values.number cimport MAX_NUMBER_TEXT, Number, number_to_decimal, number_to_text
from dynalsm.values.reader cimport (
    Reader,
    check_read_depth,
    close_reader,
    damaged,
    next_item,
    next_node,
    open_reader,
    read_number,
)

from dynalsm.values.binary import Binary

cdef enum:
    NAME_SLOTS = 2048            # of the name cache; a power of two
    MAX_CACHED_NAME = 64
    NUMBER_SLOTS = 2048
    MAX_CACHED_NUMBER = 8
    MAX_ROOM = 256               # of a new dict; a damaged count must not cost memory

ctypedef object (*Decoder)(Reader* reader, int depth)

cdef object BINARY = Binary
cdef object NEW_BYTES = bytes.__new__

# Guarded by the GIL. Direct-mapped: a new name takes the place of the old one. Names are ASCII.
cdef PyObject* name_cache[NAME_SLOTS]
# Decimals by number bytes of up to eight bytes (which tell their own length).
cdef PyObject* number_cache[NUMBER_SLOTS]
cdef uint64_t number_keys[NUMBER_SLOTS]

cdef extern from *:
    # Cython's own name for a dict with room, on interpreters that have such a thing.
    dict new_dict_with_room "__Pyx_PyDict_NewPresized" (Py_ssize_t room)

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    void* PyUnicode_DATA(object text)


# ---- leaves -------------------------------------------------------------------------------------

cdef inline object text_of(const Node* node):
    return PyUnicode_DecodeUTF8(<const char*>node.body, <Py_ssize_t>node.size, NULL)


cdef inline bytes bytes_of(const Node* node):
    return PyBytes_FromStringAndSize(<const char*>node.body, <Py_ssize_t>node.size)


cdef inline object binary_of(const Node* node):
    return NEW_BYTES(BINARY, bytes_of(node))


cdef inline uint64_t mix(uint64_t value) noexcept nogil:
    value = (value ^ value >> 32) * <uint64_t>0x9E3779B97F4A7C15
    return value >> 40


cdef object read_name(Reader* reader):
    """Read a map's name, from the cache when it is there."""
    cdef Node node
    cdef uint64_t slot
    next_node(reader, &node)
    if node.tag != TAG_S:
        damaged()
    if node.size > MAX_CACHED_NAME or node.size == 0:
        return text_of(&node)
    slot = prefix_of(node.body, node.size)
    if node.size > 8:
        slot ^= prefix_of(node.body + node.size - 8, 8) * 31
    slot = mix(slot + node.size) & (NAME_SLOTS - 1)
    if name_cache[slot] != NULL:
        cached = <object>name_cache[slot]
        if (
            <size_t>PyUnicode_GET_LENGTH(cached) == node.size
            and memcmp(PyUnicode_DATA(cached), node.body, node.size) == 0
        ):
            return cached
    name = text_of(&node)
    if PyUnicode_IS_COMPACT_ASCII(name):
        hash(name)
        Py_INCREF(name)
        if name_cache[slot] != NULL:
            old = <object>name_cache[slot]
            name_cache[slot] = <PyObject*>name
            Py_DECREF(old)
        else:
            name_cache[slot] = <PyObject*>name
    return name


cdef object decimal_of(const Node* node):
    """The Decimal of an N node, from the cache when it is there."""
    cdef Number number
    cdef uint64_t key
    cdef uint64_t slot
    if node.size > MAX_CACHED_NUMBER:
        read_number(node, &number)
        return number_to_decimal(&number)
    key = prefix_of(node.body, node.size)
    slot = mix(key) & (NUMBER_SLOTS - 1)
    if number_cache[slot] != NULL and number_keys[slot] == key and node.size:
        return <object>number_cache[slot]
    read_number(node, &number)
    value = number_to_decimal(&number)
    Py_INCREF(value)
    if number_cache[slot] != NULL:
        old = <object>number_cache[slot]
        number_cache[slot] = <PyObject*>value
        number_keys[slot] = key
        Py_DECREF(old)
    else:
        number_cache[slot] = <PyObject*>value
        number_keys[slot] = key
    return value


cdef object number_text_of(const Node* node):
    cdef Number number
    cdef char text[MAX_NUMBER_TEXT]
    read_number(node, &number)
    return PyUnicode_DecodeASCII(text, number_to_text(&number, text), NULL)


# ---- containers ---------------------------------------------------------------------------------

cdef dict read_map(Reader* reader, size_t count, int depth, Decoder decoder):
    cdef dict result = new_dict_with_room(<Py_ssize_t>(count if count < MAX_ROOM else MAX_ROOM))
    check_read_depth(depth)
    while count:
        name = read_name(reader)
        value = decoder(reader, depth)
        PyDict_SetItem(result, name, value)
        count -= 1
    return result


cdef list read_list(Reader* reader, size_t count, int depth, Decoder decoder):
    cdef list result
    check_read_depth(depth)
    result = []
    while count:
        result.append(decoder(reader, depth))
        count -= 1
    return result


ctypedef object (*Leaf)(const Node* node)


cdef list read_members(const Node* node, int tag, Leaf leaf):
    """The members of a set node, whose tag must be `tag`."""
    cdef Reader reader
    cdef Node member
    cdef list members = []
    reader.p = node.body
    reader.end = node.body + node.size
    if node.size == 0:
        damaged()
    while reader.p < reader.end:
        next_node(&reader, &member)
        if member.tag != tag:
            damaged()
        members.append(leaf(&member))
    return members


cdef object text_leaf(const Node* node):
    return text_of(node)


cdef object bytes_leaf(const Node* node):
    return bytes_of(node)


cdef object binary_leaf(const Node* node):
    return binary_of(node)


cdef object read_internal(Reader* reader, int depth):
    cdef Node node
    next_node(reader, &node)
    if node.tag == TAG_S:
        return text_of(&node)
    if node.tag == TAG_N:
        return decimal_of(&node)
    if node.tag == TAG_BOOL:
        return True if node.truth else False
    if node.tag == TAG_NULL:
        return None
    if node.tag == TAG_M:
        return read_map(reader, node.size, depth + 1, read_internal)
    if node.tag == TAG_L:
        return read_list(reader, node.size, depth + 1, read_internal)
    if node.tag == TAG_B:
        return bytes_of(&node)
    if node.tag == TAG_SS:
        return frozenset(read_members(&node, TAG_S, text_leaf))
    if node.tag == TAG_NS:
        return frozenset(read_members(&node, TAG_N, decimal_of))
    return frozenset(read_members(&node, TAG_B, bytes_leaf))


cdef object read_native(Reader* reader, int depth):
    cdef Node node
    next_node(reader, &node)
    if node.tag == TAG_S:
        return text_of(&node)
    if node.tag == TAG_N:
        return decimal_of(&node)
    if node.tag == TAG_BOOL:
        return True if node.truth else False
    if node.tag == TAG_NULL:
        return None
    if node.tag == TAG_M:
        return read_map(reader, node.size, depth + 1, read_native)
    if node.tag == TAG_L:
        return read_list(reader, node.size, depth + 1, read_native)
    if node.tag == TAG_B:
        return binary_of(&node)
    if node.tag == TAG_SS:
        return set(read_members(&node, TAG_S, text_leaf))
    if node.tag == TAG_NS:
        return set(read_members(&node, TAG_N, decimal_of))
    return set(read_members(&node, TAG_B, binary_leaf))


cdef object read_wire(Reader* reader, int depth):
    cdef Node node
    next_node(reader, &node)
    if node.tag == TAG_S:
        return {"S": text_of(&node)}
    if node.tag == TAG_N:
        return {"N": number_text_of(&node)}
    if node.tag == TAG_BOOL:
        return {"BOOL": True if node.truth else False}
    if node.tag == TAG_NULL:
        return {"NULL": True}
    if node.tag == TAG_M:
        return {"M": read_map(reader, node.size, depth + 1, read_wire)}
    if node.tag == TAG_L:
        return {"L": read_list(reader, node.size, depth + 1, read_wire)}
    if node.tag == TAG_B:
        return {"B": bytes_of(&node)}
    if node.tag == TAG_SS:
        return {"SS": read_members(&node, TAG_S, text_leaf)}
    if node.tag == TAG_NS:
        return {"NS": read_members(&node, TAG_N, number_text_of)}
    return {"BS": read_members(&node, TAG_B, bytes_leaf)}


# ---- the Python functions -----------------------------------------------------------------------

cdef object decode_whole(bytes data, Decoder decoder):
    cdef Reader reader
    open_reader(&reader, data)
    value = decoder(&reader, 1)
    close_reader(&reader)
    return value


cdef dict decode_whole_item(bytes data, Decoder decoder):
    cdef Reader reader
    cdef Node node
    open_reader(&reader, data)
    next_item(&reader, &node)
    item = read_map(&reader, node.size, 1, decoder)
    close_reader(&reader)
    return item


def decode_value(bytes data not None):
    """Return the internal value of encoded bytes."""
    return decode_whole(data, read_internal)


def decode_item(bytes data not None):
    """Return the internal values of an encoded item by attribute name."""
    return decode_whole_item(data, read_internal)


def decode_wire(bytes data not None):
    """Return the typed dict ({"S": "x"}) of encoded bytes, with bytes for B."""
    return decode_whole(data, read_wire)


def decode_wire_item(bytes data not None):
    """Return the typed dicts of an encoded item by attribute name, with bytes for B."""
    return decode_whole_item(data, read_wire)


def decode_native(bytes data not None):
    """Return the value as boto3's resource interface gives it (Decimal, Binary, set, ...)."""
    return decode_whole(data, read_native)


def decode_native_item(bytes data not None):
    """Return the values of an encoded item as boto3's resource interface gives them."""
    return decode_whole_item(data, read_native)
