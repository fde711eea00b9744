"""Bytes to values: internal, wire and native Python objects, and DynamoDB JSON text.

Everything read is checked: damaged bytes give ValueError, never a crash. Names of attributes come
from a small cache, as do short numbers, because items repeat them. The layout is in
docs/format-items.md. Thread safety: the caches are guarded by the GIL; everything else is pure.
"""

from decimal import Decimal

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_SetItem
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.unicode cimport PyUnicode_DecodeASCII, PyUnicode_DecodeUTF8
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from dynalsm.values.buffer cimport (
    Buffer,
    buffer_bytes,
    buffer_free,
    buffer_init,
    buffer_put,
    buffer_reserve,
)
from dynalsm.values.codec cimport (
    MAX_DEPTH,
    TAG_B,
    TAG_BOOL,
    TAG_BS,
    TAG_L,
    TAG_M,
    TAG_N,
    TAG_NS,
    TAG_NULL,
    TAG_S,
    TAG_SS,
    Node,
    read_node,
)
from dynalsm.values.names cimport prefix_of
from dynalsm.values.number cimport (
    MAX_NUMBER_TEXT,
    Number,
    number_from_bytes,
    number_to_decimal,
    number_to_text,
)

from dynalsm.values.binary import Binary

cdef enum:
    NAME_SLOTS = 2048            # of the name cache; a power of two
    MAX_CACHED_NAME = 64
    NUMBER_SLOTS = 2048
    MAX_CACHED_NUMBER = 8

cdef struct Reader:
    const uint8_t* p
    const uint8_t* end

ctypedef object (*Decoder)(Reader* reader, int depth)

cdef object BINARY = Binary
cdef object NEW_BYTES = bytes.__new__

# Guarded by the GIL. Direct-mapped: a new name takes the place of the old one. Names are ASCII.
cdef PyObject* name_cache[NAME_SLOTS]
# Decimals by number bytes of up to eight bytes (which tell their own length).
cdef PyObject* number_cache[NUMBER_SLOTS]
cdef uint64_t number_keys[NUMBER_SLOTS]

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    void* PyUnicode_DATA(object text)


cdef int damaged() except -1:
    raise ValueError("damaged encoded value")


cdef inline int next_node(Reader* reader, Node* node) except -1:
    """Read a header and step over it, and over the body of what is no container."""
    if read_node(reader.p, reader.end, node) < 0:
        return damaged()
    reader.p = node.body
    if node.tag != TAG_L and node.tag != TAG_M:
        reader.p += node.size
    return 0


cdef inline int check_depth(int depth) except -1:
    if depth > MAX_DEPTH:
        raise ValueError("encoded value is nested too deep")
    return 0


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


cdef int read_number(const Node* node, Number* number) except -1:
    if number_from_bytes(node.body, node.size, number) != <int>node.size:
        damaged()
    return 0


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
    cdef dict result = {}
    check_depth(depth)
    while count:
        name = read_name(reader)
        value = decoder(reader, depth)
        PyDict_SetItem(result, name, value)
        count -= 1
    return result


cdef list read_list(Reader* reader, size_t count, int depth, Decoder decoder):
    cdef list result
    cdef size_t i
    check_depth(depth)
    if count <= 8:
        # Built whole, so that an error leaves no list with holes for the garbage collector.
        result = []
        for i in range(count):
            result.append(decoder(reader, depth))
        return result
    result = PyList_New(<Py_ssize_t>count)
    for i in range(count):
        value = decoder(reader, depth)
        Py_INCREF(value)
        PyList_SET_ITEM(result, <Py_ssize_t>i, value)
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


# ---- JSON text ----------------------------------------------------------------------------------

# How a byte of UTF-8 text is written: 0 as it is, 1 as \u00XX, 2 the start of a sequence that must
# be checked, else the letter behind the backslash.
cdef uint8_t ESCAPES[256]
cdef const char* HEX_DIGITS = b"0123456789abcdef"
cdef const char* BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


cdef void fill_escapes() noexcept:
    cdef int i
    for i in range(256):
        ESCAPES[i] = 1 if i < 0x20 else 2 if i >= 0x80 else 0
    ESCAPES[c'"'] = c'"'
    ESCAPES[c'\\'] = c'\\'
    ESCAPES[8] = c'b'
    ESCAPES[9] = c't'
    ESCAPES[10] = c'n'
    ESCAPES[12] = c'f'
    ESCAPES[13] = c'r'


fill_escapes()


cdef int utf8_length(const uint8_t* p, const uint8_t* end) noexcept nogil:
    """Length of the well-formed sequence of 2 to 4 bytes at p, or 0."""
    cdef Py_ssize_t room = end - p
    cdef uint8_t low = 0x80
    cdef uint8_t high = 0xBF
    cdef int length
    cdef int i
    if p[0] < 0xC2 or p[0] > 0xF4:
        return 0
    length = 2 if p[0] < 0xE0 else 3 if p[0] < 0xF0 else 4
    if room < length:
        return 0
    # No overlong forms, no surrogates, nothing above U+10FFFF.
    if p[0] == 0xE0:
        low = 0xA0
    elif p[0] == 0xED:
        high = 0x9F
    elif p[0] == 0xF0:
        low = 0x90
    elif p[0] == 0xF4:
        high = 0x8F
    if p[1] < low or p[1] > high:
        return 0
    for i in range(2, length):
        if p[i] & 0xC0 != 0x80:
            return 0
    return length


cdef int put_json_string(Buffer* out, const uint8_t* p, size_t size) except -1:
    """Write UTF-8 text as a JSON string; raise ValueError when it is not well-formed."""
    cdef const uint8_t* end = p + size
    cdef uint8_t* to = buffer_reserve(out, 6 * size + 2)
    cdef uint8_t escape
    cdef int length
    to[0] = c'"'
    to += 1
    while p < end:
        escape = ESCAPES[p[0]]
        if escape == 0:
            to[0] = p[0]
            to += 1
            p += 1
        elif escape == 2:
            length = utf8_length(p, end)
            if length == 0:
                damaged()
            memcpy(to, p, length)
            to += length
            p += length
        elif escape == 1:
            memcpy(to, b"\\u00", 4)
            to[4] = HEX_DIGITS[p[0] >> 4]
            to[5] = HEX_DIGITS[p[0] & 15]
            to += 6
            p += 1
        else:
            to[0] = c'\\'
            to[1] = escape
            to += 2
            p += 1
    to[0] = c'"'
    out.size = to + 1 - out.data
    return 0


cdef int put_json_base64(Buffer* out, const uint8_t* p, size_t size) except -1:
    cdef uint8_t* to = buffer_reserve(out, (size + 2) // 3 * 4 + 2)
    cdef uint32_t word
    to[0] = c'"'
    to += 1
    while size >= 3:
        word = <uint32_t>p[0] << 16 | <uint32_t>p[1] << 8 | p[2]
        to[0] = BASE64[word >> 18]
        to[1] = BASE64[word >> 12 & 63]
        to[2] = BASE64[word >> 6 & 63]
        to[3] = BASE64[word & 63]
        to += 4
        p += 3
        size -= 3
    if size:
        word = <uint32_t>p[0] << 16
        if size == 2:
            word |= <uint32_t>p[1] << 8
        to[0] = BASE64[word >> 18]
        to[1] = BASE64[word >> 12 & 63]
        to[2] = BASE64[word >> 6 & 63] if size == 2 else c'='
        to[3] = c'='
        to += 4
    to[0] = c'"'
    out.size = to + 1 - out.data
    return 0


cdef int put_json_number(Buffer* out, const Node* node) except -1:
    cdef Number number
    cdef uint8_t* to
    cdef int size
    read_number(node, &number)
    to = buffer_reserve(out, MAX_NUMBER_TEXT + 2)
    to[0] = c'"'
    size = number_to_text(&number, <char*>to + 1)
    to[size + 1] = c'"'
    out.size += size + 2
    return 0


cdef inline int put_literal(Buffer* out, const char* text, size_t size) except -1:
    return buffer_put(out, text, size)


cdef int put_json_leaf(Buffer* out, const Node* node) except -1:
    if node.tag == TAG_S:
        return put_json_string(out, node.body, node.size)
    if node.tag == TAG_N:
        return put_json_number(out, node)
    return put_json_base64(out, node.body, node.size)


cdef int put_json_members(Buffer* out, const Node* node, int tag) except -1:
    cdef Reader reader
    cdef Node member
    cdef bint is_first = True
    reader.p = node.body
    reader.end = node.body + node.size
    if node.size == 0:
        damaged()
    while reader.p < reader.end:
        next_node(&reader, &member)
        if member.tag != tag:
            damaged()
        buffer_reserve(out, 1)[0] = c'[' if is_first else c','
        out.size += 1
        put_json_leaf(out, &member)
        is_first = False
    return put_literal(out, b"]}", 2)


cdef int put_json_map(Buffer* out, Reader* reader, size_t count, int depth) except -1:
    """Write the pairs of a map whose header was read, braces included."""
    cdef Node name
    cdef size_t i
    check_depth(depth)
    put_literal(out, b"{", 1)
    for i in range(count):
        if i:
            put_literal(out, b",", 1)
        next_node(reader, &name)
        if name.tag != TAG_S:
            damaged()
        put_json_string(out, name.body, name.size)
        put_literal(out, b":", 1)
        put_json(out, reader, depth)
    return put_literal(out, b"}", 1)


cdef int put_json(Buffer* out, Reader* reader, int depth) except -1:
    cdef Node node
    cdef size_t i
    next_node(reader, &node)
    if node.tag == TAG_S:
        put_literal(out, b'{"S":', 5)
        put_json_string(out, node.body, node.size)
    elif node.tag == TAG_N:
        put_literal(out, b'{"N":', 5)
        put_json_number(out, &node)
    elif node.tag == TAG_B:
        put_literal(out, b'{"B":', 5)
        put_json_base64(out, node.body, node.size)
    elif node.tag == TAG_BOOL:
        if node.truth:
            return put_literal(out, b'{"BOOL":true}', 13)
        return put_literal(out, b'{"BOOL":false}', 14)
    elif node.tag == TAG_NULL:
        return put_literal(out, b'{"NULL":true}', 13)
    elif node.tag == TAG_M:
        put_literal(out, b'{"M":', 5)
        put_json_map(out, reader, node.size, depth + 1)
    elif node.tag == TAG_L:
        check_depth(depth + 1)
        put_literal(out, b'{"L":[', 6)
        for i in range(node.size):
            if i:
                put_literal(out, b",", 1)
            put_json(out, reader, depth + 1)
        put_literal(out, b"]", 1)
    elif node.tag == TAG_SS:
        put_literal(out, b'{"SS":', 6)
        return put_json_members(out, &node, TAG_S)
    elif node.tag == TAG_NS:
        put_literal(out, b'{"NS":', 6)
        return put_json_members(out, &node, TAG_N)
    else:
        put_literal(out, b'{"BS":', 6)
        return put_json_members(out, &node, TAG_B)
    return put_literal(out, b"}", 1)


# ---- the Python functions -----------------------------------------------------------------------

cdef inline void open_reader(Reader* reader, bytes data) noexcept:
    reader.p = <const uint8_t*>PyBytes_AS_STRING(data)
    reader.end = reader.p + PyBytes_GET_SIZE(data)


cdef object decode_whole(bytes data, Decoder decoder):
    cdef Reader reader
    open_reader(&reader, data)
    value = decoder(&reader, 1)
    if reader.p != reader.end:
        damaged()
    return value


cdef dict decode_whole_item(bytes data, Decoder decoder):
    cdef Reader reader
    cdef Node node
    open_reader(&reader, data)
    next_node(&reader, &node)
    if node.tag != TAG_M:
        damaged()
    item = read_map(&reader, node.size, 1, decoder)
    if reader.p != reader.end:
        damaged()
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


def json_text(bytes data not None):
    """Return the DynamoDB JSON text of an encoded value, as UTF-8."""
    cdef Reader reader
    cdef Buffer out
    open_reader(&reader, data)
    buffer_init(&out)
    try:
        put_json(&out, &reader, 1)
        if reader.p != reader.end:
            damaged()
        return buffer_bytes(&out)
    finally:
        buffer_free(&out)


def json_item_text(bytes data not None):
    """Return the DynamoDB JSON text of an encoded item, as UTF-8."""
    cdef Reader reader
    cdef Buffer out
    cdef Node node
    open_reader(&reader, data)
    buffer_init(&out)
    try:
        next_node(&reader, &node)
        if node.tag != TAG_M:
            damaged()
        put_json_map(&out, &reader, node.size, 1)
        if reader.p != reader.end:
            damaged()
        return buffer_bytes(&out)
    finally:
        buffer_free(&out)
