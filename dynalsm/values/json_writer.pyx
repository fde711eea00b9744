"""Encoded values to DynamoDB JSON text, without Python objects in between.

The text is what a JSON library would write for the wire form, with base64 for B. Damaged bytes,
ill-formed UTF-8 among them, give CorruptionError. Thread safety: pure functions.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from dynalsm.values.buffer cimport (
    Buffer,
    buffer_bytes,
    buffer_free,
    buffer_init,
    buffer_put,
    buffer_reserve,
)
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
    Part,
    compare_bytes,
)
from dynalsm.values.number cimport MAX_NUMBER_TEXT, Number, number_to_text
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


cdef inline bint is_plain_word(const uint8_t* p) noexcept nogil:
    """Whether eight bytes are all printable ASCII other than quote and backslash.

    May say no to bytes that are (a borrow runs through the subtraction), never yes to others.
    """
    cdef uint64_t word
    cdef uint64_t ones = <uint64_t>0x0101010101010101
    memcpy(&word, p, 8)
    return (
        word
        | (word - 0x20 * ones)
        | ((word ^ (0x22 * ones)) - ones)
        | ((word ^ (0x5C * ones)) - ones)
    ) & (0x80 * ones) == 0


cdef int put_json_string(Buffer* out, const uint8_t* p, size_t size) except -1:
    """Write UTF-8 text as a JSON string; raise ValueError when it is not well-formed."""
    cdef const uint8_t* end = p + size
    cdef const uint8_t* copied = p
    cdef uint8_t* to
    cdef uint8_t escape
    cdef int length
    # Room for text without escapes and both quotes.
    buffer_reserve(out, size + 2)[0] = c'"'
    out.size += 1
    while p < end:
        while end - p >= 8 and is_plain_word(p):
            p += 8
        if p == end:
            break
        escape = ESCAPES[p[0]]
        if escape == 0:
            p += 1
            continue
        if escape == 2:
            length = utf8_length(p, end)
            if length == 0:
                return damaged()
            p += length
            continue
        buffer_put(out, copied, p - copied)
        to = buffer_reserve(out, 6)
        if escape == 1:
            memcpy(to, b"\\u00", 4)
            to[4] = HEX_DIGITS[p[0] >> 4]
            to[5] = HEX_DIGITS[p[0] & 15]
            out.size += 6
        else:
            to[0] = c'\\'
            to[1] = escape
            out.size += 2
        p += 1
        copied = p
    buffer_put(out, copied, p - copied)
    buffer_reserve(out, 1)[0] = c'"'
    out.size += 1
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


cdef int put_json_map(
    Buffer* out, Reader* reader, size_t count, int depth, const Part* parts, int part_count
) except -1:
    """Write the pairs of a map whose header was read, and its parts, braces included."""
    cdef Node name
    cdef size_t i
    cdef int part = 0
    cdef int order
    check_read_depth(depth)
    put_literal(out, b"{", 1)
    for i in range(count):
        next_node(reader, &name)
        if name.tag != TAG_S:
            damaged()
        while part < part_count:
            order = compare_bytes(parts[part].name, parts[part].name_size, name.body, name.size)
            if order == 0:
                damaged()
            if order > 0:
                break
            put_part(out, &parts[part], i + <size_t>part == 0)
            part += 1
        if i + <size_t>part:
            put_literal(out, b",", 1)
        put_json_string(out, name.body, name.size)
        put_literal(out, b":", 1)
        put_json(out, reader, depth)
    while part < part_count:
        put_part(out, &parts[part], count + <size_t>part == 0)
        part += 1
    return put_literal(out, b"}", 1)


cdef int put_part(Buffer* out, const Part* part, bint is_first) except -1:
    """Write an attribute that stands outside the map."""
    if not is_first:
        put_literal(out, b",", 1)
    put_json_string(out, part.name, part.name_size)
    if part.value.tag == TAG_S:
        put_literal(out, b':{"S":', 6)
    elif part.value.tag == TAG_N:
        put_literal(out, b':{"N":', 6)
    else:
        put_literal(out, b':{"B":', 6)
    put_json_leaf(out, &part.value)
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
        put_json_map(out, reader, node.size, depth + 1, NULL, 0)
    elif node.tag == TAG_L:
        check_read_depth(depth + 1)
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


def json_text(bytes data not None):
    """Return the DynamoDB JSON text of an encoded value, as UTF-8."""
    cdef Reader reader
    cdef Buffer out
    open_reader(&reader, data)
    buffer_init(&out)
    try:
        put_json(&out, &reader, 1)
        close_reader(&reader)
        return buffer_bytes(&out)
    finally:
        buffer_free(&out)


cdef int put_json_record(
    Buffer* out, const uint8_t* p, const uint8_t* end, const Part* parts, int count
) except -1:
    cdef Reader reader
    cdef Node node
    reader.p = p
    reader.end = end
    next_item(&reader, &node)
    put_json_map(out, &reader, node.size, 1, parts, count)
    return close_reader(&reader)


def json_item_text(bytes data not None):
    """Return the DynamoDB JSON text of an encoded item, as UTF-8."""
    cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef Buffer out
    buffer_init(&out)
    try:
        put_json_record(&out, p, p + PyBytes_GET_SIZE(data), NULL, 0)
        return buffer_bytes(&out)
    finally:
        buffer_free(&out)
