"""Typed dicts to bytes: {"S": "x"}, {"L": [...]} as clients of the low-level API send them.

Two forms: wire has bytes for B (boto3's client, in process), JSON has base64 text (requests over
HTTP). Every rule of attribute values is checked; what is wrong raises ValueProblem, a wrong JSON
type raises SerializationProblem, and that first, wherever in the object it is (reference 0.2).
Thread safety: pure functions; arguments must not be changed by another thread meanwhile.
"""

from cpython.dict cimport PyDict_Next, PyDict_Size
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp

from dynalsm.values.buffer cimport Buffer, buffer_bytes, buffer_free, buffer_init, buffer_reserve
from dynalsm.values.codec cimport EXT_BS, EXT_NS, EXT_SS
from dynalsm.values.pieces cimport (
    FORM_JSON,
    FORM_WIRE,
    Options,
    check_depth,
    encode_map,
    encode_one,
    put_byte,
    put_bytes_like,
    put_list,
    put_map,
    put_number_text,
    put_set,
    put_text,
    raise_problem,
    utf8_of,
)

from dynalsm.values import shape
from dynalsm.values.problems import SerializationProblem, ValueProblem

cdef object BASE64_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
cdef uint8_t BASE64_VALUES[256]


cdef void fill_base64_values() noexcept:
    cdef int i
    for i in range(256):
        BASE64_VALUES[i] = 0xFF
    for i, code in enumerate(BASE64_ALPHABET):
        BASE64_VALUES[<int>code] = <uint8_t>i


fill_base64_values()


cdef int put_typed(Buffer* out, object value, int depth, const Options* options) except -1:
    """Write a typed dict such as {"S": "x"}."""
    cdef PyObject* key = NULL
    cdef PyObject* member = NULL
    cdef Py_ssize_t position = 0
    cdef size_t size = 0
    cdef const uint8_t* tag
    check_depth(depth, options)
    if not isinstance(value, dict):
        return raise_shape(value, options)
    if PyDict_Size(value) == 1 and PyDict_Next(value, &position, &key, &member):
        tag_object, data = <object>key, <object>member
    else:
        tag_object, data = only_member(value)
    if data is None or not isinstance(tag_object, str):
        raise_problem("no_type")
    tag = utf8_of(tag_object, &size)
    if size == 1:
        return put_one_letter(out, tag[0], data, value, depth, options)
    if size == 2 and tag[1] == c'S':
        return put_typed_set(out, tag[0], data, value, options)
    if size == 4 and memcmp(tag, b"BOOL", 4) == 0:
        return put_byte(out, 0xC3 if boolean_of(data) else 0xC2)
    if size == 4 and memcmp(tag, b"NULL", 4) == 0:
        if not boolean_of(data):
            raise_problem("null_false")
        return put_byte(out, 0xC0)
    raise_problem("no_type")


cdef inline int put_one_letter(
    Buffer* out, uint8_t tag, object data, object value, int depth, const Options* options
) except -1:
    if tag == c'S':
        if isinstance(data, str):
            return put_text(out, data)
    elif tag == c'N':
        if isinstance(data, str):
            return put_number_text(out, data)
    elif tag == c'B':
        return put_bytes_like(out, blob_of(data, value, options))
    elif tag == c'L':
        if isinstance(data, (list, tuple)):
            return put_list(out, data, depth + 1, options, put_typed)
    elif tag == c'M':
        if isinstance(data, dict):
            return put_map(out, data, depth + 1, options, put_typed, False)
    else:
        raise_problem("no_type")
    return raise_shape(value, options)


cdef int put_typed_set(
    Buffer* out, uint8_t tag, object data, object value, const Options* options
) except -1:
    cdef uint8_t ext = EXT_SS
    if tag == c'N':
        ext = EXT_NS
    elif tag == c'B':
        ext = EXT_BS
    elif tag != c'S':
        return raise_problem("no_type")
    if not isinstance(data, (list, tuple)):
        return raise_shape(value, options)
    members = list(data)
    if ext == EXT_BS:
        members = [bytes(blob_of(member, value, options)) for member in members]
    else:
        for member in members:
            if not isinstance(member, str):
                return raise_shape(value, options)
    return put_set(out, ext, members)


cdef tuple only_member(dict value):
    """The one member of a typed dict that counts: unknown tags and null members are dropped."""
    found = [
        (tag, data)
        for tag, data in value.items()
        if data is not None and tag in ("S", "N", "B", "BOOL", "NULL", "L", "M", "SS", "NS", "BS")
    ]
    if not found:
        raise_problem("no_type")
    if len(found) > 1:
        # observed (dynalite): numbers are looked at first.
        for tag, data in found:
            if tag in ("N", "NS"):
                encode_one(put_typed, {tag: data}, 1, FORM_WIRE)
        raise_problem("many_types")
    return found[0]


cdef inline bint boolean_of(object data) except -1:
    if data is True:
        return True
    if data is False:
        return False
    return shape.boolean_of(data)


cdef object blob_of(object data, object value, const Options* options):
    """The bytes of a B member."""
    if options.form == FORM_JSON:
        if isinstance(data, str):
            return base64_bytes(data)
    elif isinstance(data, (bytes, bytearray, memoryview)):
        return data
    elif isinstance(data, str):
        return data.encode()
    elif isinstance(getattr(data, "value", None), (bytes, bytearray)):
        return data.value
    raise_shape(value, options)


cdef int raise_shape(object value, const Options* options) except -1:
    """Raise what the slow, wording checker finds in a value that the fast path refused."""
    shape.check_shape(value, is_json=options.form == FORM_JSON)
    # It found nothing: a null where a value must be.
    raise_problem("no_type")


cdef bytes base64_bytes(object text):
    """Decode base64 with padding, strictly."""
    cdef size_t size = 0
    cdef const uint8_t* data = utf8_of(text, &size)
    cdef Buffer out
    cdef uint8_t* p
    cdef size_t padding = 0
    cdef size_t whole
    cdef size_t i
    cdef uint32_t word
    cdef uint8_t bad = 0
    if size % 4:
        return bad_base64(text)
    if size == 0:
        return b""
    padding = (data[size - 1] == c'=') + (data[size - 1] == c'=' and data[size - 2] == c'=')
    whole = size - 4 if padding else size
    buffer_init(&out)
    try:
        p = buffer_reserve(&out, size // 4 * 3)
        for i in range(0, whole, 4):
            bad |= (
                BASE64_VALUES[data[i]] | BASE64_VALUES[data[i + 1]]
                | BASE64_VALUES[data[i + 2]] | BASE64_VALUES[data[i + 3]]
            )
            word = (
                <uint32_t>BASE64_VALUES[data[i]] << 18 | <uint32_t>BASE64_VALUES[data[i + 1]] << 12
                | <uint32_t>BASE64_VALUES[data[i + 2]] << 6 | BASE64_VALUES[data[i + 3]]
            )
            p[0] = <uint8_t>(word >> 16)
            p[1] = <uint8_t>(word >> 8)
            p[2] = <uint8_t>word
            p += 3
        if padding:
            bad |= BASE64_VALUES[data[whole]] | BASE64_VALUES[data[whole + 1]]
            word = (
                <uint32_t>BASE64_VALUES[data[whole]] << 18
                | <uint32_t>BASE64_VALUES[data[whole + 1]] << 12
            )
            if padding == 1:
                bad |= BASE64_VALUES[data[whole + 2]]
                word |= <uint32_t>BASE64_VALUES[data[whole + 2]] << 6
                p[1] = <uint8_t>(word >> 8)
            p[0] = <uint8_t>(word >> 16)
            # Bits behind the last whole byte must be zero.
            bad |= 0x80 if word & (0xFF if padding == 1 else 0xFFFF) else 0
        if bad & 0x80:
            return bad_base64(text)
        out.size = size // 4 * 3 - padding
        return buffer_bytes(&out)
    finally:
        buffer_free(&out)


cdef bytes bad_base64(object text):
    shape.check_shape({"B": text}, is_json=True)
    raise SerializationProblem("Invalid base 64 text")


cdef bytes run_typed(object value, int depth_limit, int form):
    try:
        return encode_one(put_typed, value, depth_limit, form)
    except ValueProblem:
        # A wrong type anywhere is reported before a wrong value (reference 0.2).
        shape.check_shape(value, is_json=form == FORM_JSON)
        raise


cdef bytes run_typed_item(object item, int depth_limit, int form):
    if not isinstance(item, dict):
        shape.check_item_shape(item, is_json=form == FORM_JSON)
        raise SerializationProblem(shape.UNEXPECTED_FIELD)
    try:
        return encode_map(put_typed, item, depth_limit, form)
    except ValueProblem:
        shape.check_item_shape(item, is_json=form == FORM_JSON)
        raise


def encode_wire(value, int depth_limit=32):
    """Encode a typed dict ({"S": "x"}) with bytes for B, checking all rules of its type."""
    return run_typed(value, depth_limit, FORM_WIRE)


def encode_wire_item(item, int depth_limit=32):
    """Encode a dict of attribute name to typed dict, with bytes for B."""
    return run_typed_item(item, depth_limit, FORM_WIRE)


def encode_json(value, int depth_limit=32):
    """Encode a typed dict ({"S": "x"}) with base64 text for B, as parsed from JSON."""
    return run_typed(value, depth_limit, FORM_JSON)


def encode_json_item(item, int depth_limit=32):
    """Encode a dict of attribute name to typed dict, with base64 text for B."""
    return run_typed_item(item, depth_limit, FORM_JSON)
