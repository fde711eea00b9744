"""Values to bytes: the canonical encoding, from four kinds of Python objects.

=========  ====================================================================================
internal   what expressions work on: str, Decimal, bytes, bool, None, list, dict, frozenset
wire       typed dicts with bytes: {"S": "x"}, {"B": b"..."} (boto3's client)
json       typed dicts with base64 text, as parsed from a JSON request
native     what boto3's resource takes: Decimal and int, Binary, set, ... (float refused)
=========  ====================================================================================

Text and numbers go straight into a C buffer; no Python object is made on the way. The layout is
in docs/format-items.md. Thread safety: pure functions; arguments must not be changed by another
thread meanwhile.

1. Equal values give equal bytes: names and set members are sorted, headers are the shortest.
2. Nesting is checked before descending: `depth_limit` levels, the outermost value being level 1.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from decimal import Clamped, Context, Decimal, Inexact, Overflow, Rounded, Underflow

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Next, PyDict_Size
from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp

from dynalsm.values.buffer cimport (
    Buffer,
    buffer_bytes,
    buffer_free,
    buffer_init,
    buffer_put,
    buffer_reserve,
    write_array_header,
    write_bin_header,
    write_ext_header,
    write_map_header,
    write_str_header,
)
from dynalsm.values.codec cimport EXT_BS, EXT_N, EXT_NS, EXT_SS, MAX_DEPTH
from dynalsm.values.names cimport Span, release_spans, set_span, sort_spans
from dynalsm.values.number cimport (
    MAX_NUMBER_BYTES,
    NUMBER_OK,
    Number,
    number_from_object,
    number_from_text,
    number_to_bytes,
    raise_number_problem,
)

from dynalsm.values import shape
from dynalsm.values.problems import SerializationProblem, ValueProblem

cdef extern from "Python.h":
    # NULL with an error set when the text has lone surrogates; declared without "except" so that
    # the error can be replaced cheaply.
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size)
    PyObject* PyList_GET_ITEM_BORROWED "PyList_GET_ITEM" (object items, Py_ssize_t index)
    void PyErr_Clear()

cdef enum:
    LOCAL_SPANS = 24             # entries of a map or set that need no malloc
    MAX_NAME_BYTES = 65535
    MAX_HEADER_BYTES = 6
    FOUR_GIB = 0xFFFFFFFF

# Where typed dicts come from.
cdef enum:
    FORM_WIRE = 0
    FORM_JSON = 1

cdef struct Options:
    int depth_limit
    int form

ctypedef int (*Encoder)(Buffer* out, object value, int depth, const Options* options) except -1

# The numbers boto3's TypeSerializer takes, and how it refuses the others.
NATIVE_CONTEXT = Context(
    Emin=-128, Emax=126, prec=38, traps=[Clamped, Overflow, Inexact, Rounded, Underflow]
)
cdef object DECIMAL = Decimal
cdef object PROBLEM = ValueProblem
cdef object BASE64_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
cdef uint8_t BASE64_VALUES[256]


cdef void fill_base64_values() noexcept:
    cdef int i
    for i in range(256):
        BASE64_VALUES[i] = 0xFF
    for i, code in enumerate(BASE64_ALPHABET):
        BASE64_VALUES[<int>code] = <uint8_t>i


fill_base64_values()


# ---- pieces that all forms share ----------------------------------------------------------------

cdef inline const uint8_t* utf8_of(object text, size_t* size) except NULL:
    """The UTF-8 of a str, borrowed from it."""
    cdef Py_ssize_t length = 0
    cdef const char* data = PyUnicode_AsUTF8AndSize(text, &length)
    if data == NULL:
        PyErr_Clear()
        raise PROBLEM("not_unicode")
    if length > FOUR_GIB:
        raise PROBLEM("too_large")
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
    if size > FOUR_GIB:
        raise PROBLEM("too_large")
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


cdef int put_number_text(Buffer* out, object text) except -1:
    cdef Number number
    cdef size_t size = 0
    cdef const uint8_t* data = utf8_of(text, &size)
    cdef int code = number_from_text(<const char*>data, <Py_ssize_t>size, &number)
    if code != NUMBER_OK:
        return raise_number_problem(code, text)
    return put_number(out, &number)


cdef int put_number_object(Buffer* out, object value) except -1:
    cdef Number number
    cdef int code = number_from_object(value, &number)
    if code != NUMBER_OK:
        return raise_number_problem(code, value)
    return put_number(out, &number)


cdef inline int check_depth(int depth, const Options* options) except -1:
    if depth > options.depth_limit:
        raise PROBLEM("nesting")
    return 0


cdef int put_map(
    Buffer* out, object source, int depth, const Options* options, Encoder encoder, bint is_item
) except -1:
    """Write a dict as a map sorted by name; its values are at level `depth`."""
    cdef Span local[LOCAL_SPANS]
    cdef Span* spans = local
    cdef size_t capacity = <size_t>PyDict_Size(source)
    cdef size_t count = 0
    cdef size_t i
    cdef PyObject* name
    cdef PyObject* value
    cdef Py_ssize_t position = 0
    cdef const uint8_t* data
    cdef size_t size = 0
    if capacity > LOCAL_SPANS:
        spans = <Span*>malloc(capacity * sizeof(Span))
        if spans == NULL:
            raise MemoryError()
    try:
        # The references keep names and values alive even if encoding one of them runs Python code
        # that changes the dict.
        while count < capacity and PyDict_Next(source, &position, &name, &value):
            if not isinstance(<object>name, str):
                raise_name_type(<object>name)
            data = utf8_of(<object>name, &size)
            if size > MAX_NAME_BYTES:
                raise PROBLEM("name_too_long")
            if size == 0 and is_item:
                raise PROBLEM("empty_name")
            set_span(&spans[count], data, size)
            Py_INCREF(<object>name)
            Py_INCREF(<object>value)
            spans[count].owner = name
            spans[count].value = value
            count += 1
        sort_spans(spans, count)
        out.size += write_map_header(buffer_reserve(out, MAX_HEADER_BYTES), count)
        for i in range(count):
            put_str(out, spans[i].data, spans[i].size)
            encoder(out, <object>spans[i].value, depth, options)
    finally:
        release_spans(spans, count)
        if spans != local:
            free(spans)
    return 0


cdef int put_list(
    Buffer* out, object source, int depth, const Options* options, Encoder encoder
) except -1:
    """Write a list or tuple; its elements are at level `depth`."""
    cdef list items = source if isinstance(source, list) else list(source)
    cdef Py_ssize_t count = PyList_GET_SIZE(items)
    cdef Py_ssize_t i
    if count > FOUR_GIB:
        raise PROBLEM("too_large")
    out.size += write_array_header(buffer_reserve(out, MAX_HEADER_BYTES), count)
    for i in range(count):
        if i >= PyList_GET_SIZE(items):
            raise RuntimeError("list changed size during encoding")
        value = <object>PyList_GET_ITEM_BORROWED(items, i)
        encoder(out, value, depth, options)
    return 0


def raise_name_type(name):
    raise TypeError(
        f"Invalid type for attribute name: {name!r}, type: {type(name)}, "
        "valid types: <class 'str'>"
    )


# ---- sets ---------------------------------------------------------------------------------------

cdef int put_set(Buffer* out, uint8_t ext, list members) except -1:
    """Write a set whose members are all str (SS), bytes (BS), or str, int, Decimal (NS)."""
    cdef Span local[LOCAL_SPANS]
    cdef Span* spans = local
    cdef uint8_t* numbers = NULL
    cdef size_t count = <size_t>PyList_GET_SIZE(members)
    cdef size_t filled = 0
    if count == 0:
        raise PROBLEM("empty_set", set_tag(ext))
    try:
        if count > LOCAL_SPANS:
            spans = <Span*>malloc(count * sizeof(Span))
            if spans == NULL:
                raise MemoryError()
        if ext == EXT_NS:
            numbers = <uint8_t*>malloc(count * MAX_NUMBER_BYTES)
            if numbers == NULL:
                raise MemoryError()
        for member in members:
            if filled == count:
                break
            fill_member(&spans[filled], member, ext, numbers + filled * MAX_NUMBER_BYTES)
            filled += 1
        if sort_spans(spans, filled):
            raise_duplicate(ext, members)
        put_sorted_set(out, ext, spans, filled)
    finally:
        free(numbers)
        if spans != local:
            free(spans)
    return 0


cdef int fill_member(Span* span, object member, uint8_t ext, uint8_t* number_room) except -1:
    """Set the span to the bytes a member sorts by; they live in the member or in number_room."""
    cdef Number number
    cdef const uint8_t* data
    cdef size_t size = 0
    cdef int code
    if ext == EXT_SS:
        data = utf8_of(member, &size)
        set_span(span, data, size)
    elif ext == EXT_BS:
        size = <size_t>PyBytes_GET_SIZE(member)
        set_span(span, <const uint8_t*>PyBytes_AS_STRING(member), size)
    else:
        if isinstance(member, str):
            data = utf8_of(member, &size)
            code = number_from_text(<const char*>data, <Py_ssize_t>size, &number)
        else:
            code = number_from_object(member, &number)
        if code != NUMBER_OK:
            return raise_number_problem(code, member)
        set_span(span, number_room, number_to_bytes(&number, number_room))
    return 0


cdef int put_sorted_set(Buffer* out, uint8_t ext, Span* spans, size_t count) except -1:
    cdef uint8_t header[MAX_HEADER_BYTES]
    cdef size_t total = 0
    cdef size_t i
    for i in range(count):
        total += member_header(header, ext, spans[i].size) + spans[i].size
    if total > FOUR_GIB:
        raise PROBLEM("too_large")
    buffer_reserve(out, total + MAX_HEADER_BYTES)
    out.size += write_ext_header(out.data + out.size, total, ext)
    for i in range(count):
        out.size += member_header(out.data + out.size, ext, spans[i].size)
        buffer_put(out, spans[i].data, spans[i].size)
    return 0


cdef inline int member_header(uint8_t* out, uint8_t ext, size_t size) noexcept nogil:
    if ext == EXT_SS:
        return write_str_header(out, size)
    if ext == EXT_BS:
        return write_bin_header(out, size)
    return write_ext_header(out, size, EXT_N)


cdef object set_tag(uint8_t ext):
    return "SS" if ext == EXT_SS else "NS" if ext == EXT_NS else "BS"


cdef int raise_duplicate(uint8_t ext, list members) except -1:
    """Raise the duplicate problem with both wordings' member lists."""
    import base64

    tag = set_tag(ext)
    if ext == EXT_BS:
        sent = [base64.b64encode(member).decode("ascii") for member in members]
    else:
        sent = [str(member) for member in members]
    first_repeat = []
    last = None
    for text in sorted(sent):
        first_repeat.append(text)
        if text == last:
            break
        last = text
    raise PROBLEM("duplicate", tag, sent, first_repeat)


# ---- wire and JSON ------------------------------------------------------------------------------

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
        raise PROBLEM("no_type")
    tag = utf8_of(tag_object, &size)
    if size == 1:
        return put_one_letter(out, tag[0], data, value, depth, options)
    if size == 2 and tag[1] == c'S':
        return put_typed_set(out, tag[0], data, value, options)
    if size == 4 and memcmp(tag, b"BOOL", 4) == 0:
        return put_byte(out, 0xC3 if boolean_of(data) else 0xC2)
    if size == 4 and memcmp(tag, b"NULL", 4) == 0:
        if not boolean_of(data):
            raise PROBLEM("null_false")
        return put_byte(out, 0xC0)
    raise PROBLEM("no_type")


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
        raise PROBLEM("no_type")
    return raise_shape(value, options)


cdef int put_typed_set(
    Buffer* out, uint8_t tag, object data, object value, const Options* options
) except -1:
    cdef uint8_t ext
    if tag == c'S':
        ext = EXT_SS
    elif tag == c'N':
        ext = EXT_NS
    elif tag == c'B':
        ext = EXT_BS
    else:
        raise PROBLEM("no_type")
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
        raise PROBLEM("no_type")
    if len(found) > 1:
        raise PROBLEM("many_types")
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
    raise PROBLEM("no_type")


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


# ---- internal -----------------------------------------------------------------------------------

cdef int put_internal(Buffer* out, object value, int depth, const Options* options) except -1:
    check_depth(depth, options)
    if isinstance(value, str):
        return put_text(out, value)
    if type(value) is DECIMAL:
        return put_number_object(out, value)
    if value is None:
        return put_byte(out, 0xC0)
    if isinstance(value, bool):
        return put_byte(out, 0xC3 if value else 0xC2)
    if isinstance(value, dict):
        return put_map(out, value, depth + 1, options, put_internal, False)
    if isinstance(value, list):
        return put_list(out, value, depth + 1, options, put_internal)
    if isinstance(value, (bytes, bytearray)):
        return put_bytes_like(out, value)
    if isinstance(value, (frozenset, set)):
        return put_internal_set(out, list(value))
    if isinstance(value, (int, Decimal)):
        return put_number_object(out, value)
    if isinstance(value, tuple):
        return put_list(out, value, depth + 1, options, put_internal)
    if isinstance(value, Mapping):
        return put_map(out, dict(value), depth + 1, options, put_internal, False)
    raise TypeError(f"no attribute value: {type(value)}")


cdef int put_internal_set(Buffer* out, list members) except -1:
    if not members:
        raise PROBLEM("empty_set", "SS")
    first = members[0]
    if isinstance(first, str):
        return put_set(out, EXT_SS, checked_members(members, str))
    if isinstance(first, bytes):
        return put_set(out, EXT_BS, checked_members(members, bytes))
    return put_set(out, EXT_NS, checked_members(members, (int, Decimal)))


cdef list checked_members(list members, kind):
    for member in members:
        if not isinstance(member, kind):
            raise TypeError(f"mixed types in a set: {type(member)}")
    return members


# ---- native -------------------------------------------------------------------------------------

cdef int put_native(Buffer* out, object value, int depth, const Options* options) except -1:
    """Write what boto3's TypeSerializer accepts, by the same order of type tests."""
    check_depth(depth, options)
    # The exact types first; they are nearly all there is.
    if type(value) is str:
        return put_text(out, value)
    if type(value) is int or type(value) is DECIMAL:
        return put_native_number(out, value)
    if type(value) is dict:
        return put_map(out, value, depth + 1, options, put_native, False)
    if value is None:
        return put_byte(out, 0xC0)
    if isinstance(value, bool):
        return put_byte(out, 0xC3 if value else 0xC2)
    if is_native_number(value):
        return put_native_number(out, value)
    if isinstance(value, str):
        return put_text(out, value)
    if is_native_binary(value):
        return put_bytes_like(out, native_bytes(value))
    if isinstance(value, AbstractSet):
        if put_native_set(out, value):
            return 0
    elif isinstance(value, Mapping):
        return put_map(
            out,
            value if isinstance(value, dict) else dict(value),
            depth + 1,
            options,
            put_native,
            False,
        )
    elif isinstance(value, (list, tuple)):
        return put_list(out, value, depth + 1, options, put_native)
    raise TypeError(f'Unsupported type "{type(value)}" for value "{value}"')


cdef bint is_native_number(object value) except -1:
    if isinstance(value, (int, Decimal)):
        return True
    if isinstance(value, float):
        raise TypeError("Float types are not supported. Use Decimal types instead.")
    return False


cdef bint is_native_binary(object value) except -1:
    if isinstance(value, (bytes, bytearray)):
        return True
    # boto3's Binary, without importing boto3.
    return type(value).__name__ == "Binary" and isinstance(
        getattr(value, "value", None), (bytes, bytearray)
    )


cdef object native_bytes(object value):
    return value if isinstance(value, (bytes, bytearray)) else value.value


cdef int put_native_number(Buffer* out, object value) except -1:
    cdef Number number
    cdef int code = number_from_object(value, &number)
    if code != NUMBER_OK or number.count == 0 or number.exponent < -100 or number.exponent > 36:
        # Rare: let the context boto3 uses decide, it refuses what has more than 38 digits as
        # written, infinities and the like, with its own exceptions.
        check_native_number(value)
    if code != NUMBER_OK:
        return raise_number_problem(code, value)
    return put_number(out, &number)


cdef int check_native_number(object value) except -1:
    text = str(NATIVE_CONTEXT.create_decimal(value))
    if text.lstrip("-").startswith(("Infinity", "NaN", "sNaN")):
        raise TypeError("Infinity and NaN not supported")
    return 0


cdef int put_native_set(Buffer* out, object value) except -1:
    """Write a set of one element type. Returns: 1, or 0 when boto3 would not take it."""
    cdef list members = list(value)
    if all([is_native_number(member) for member in members]):
        for member in members:
            check_native_number(member)
        put_set(out, EXT_NS, members)
        return 1
    if all([isinstance(member, str) for member in members]):
        put_set(out, EXT_SS, members)
        return 1
    if all([is_native_binary(member) for member in members]):
        put_set(out, EXT_BS, [bytes(native_bytes(member)) for member in members])
        return 1
    return 0


# ---- the Python functions -----------------------------------------------------------------------

cdef int set_options(Options* options, int depth_limit, int form) except -1:
    options.depth_limit = depth_limit if depth_limit < MAX_DEPTH else MAX_DEPTH
    options.form = form
    return 0


cdef bytes run(Encoder encoder, object value, int depth_limit, int form):
    cdef Options options
    cdef Buffer out
    set_options(&options, depth_limit, form)
    buffer_init(&out)
    try:
        encoder(&out, value, 1, &options)
        return buffer_bytes(&out)
    finally:
        buffer_free(&out)


cdef bytes run_item(Encoder encoder, object item, int depth_limit, int form):
    cdef Options options
    cdef Buffer out
    set_options(&options, depth_limit, form)
    buffer_init(&out)
    try:
        put_map(&out, item, 1, &options, encoder, True)
        return buffer_bytes(&out)
    finally:
        buffer_free(&out)


cdef bytes run_typed(object value, int depth_limit, int form):
    try:
        return run(put_typed, value, depth_limit, form)
    except ValueProblem:
        # A wrong type anywhere is reported before a wrong value (reference 0.2).
        shape.check_shape(value, is_json=form == FORM_JSON)
        raise


cdef bytes run_typed_item(object item, int depth_limit, int form):
    if not isinstance(item, dict):
        shape.check_item_shape(item, is_json=form == FORM_JSON)
        raise SerializationProblem(shape.UNEXPECTED_FIELD)
    try:
        return run_item(put_typed, item, depth_limit, form)
    except ValueProblem:
        shape.check_item_shape(item, is_json=form == FORM_JSON)
        raise


def encode_value(value, int depth_limit=32):
    """Encode an internal value."""
    return run(put_internal, value, depth_limit, FORM_WIRE)


def encode_item(item, int depth_limit=32):
    """Encode a mapping of attribute name to internal value."""
    if not isinstance(item, dict):
        item = dict(item)
    return run_item(put_internal, item, depth_limit, FORM_WIRE)


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


def encode_native(value, int depth_limit=32):
    """Encode a value of boto3's resource interface; TypeError for what boto3 refuses."""
    return run(put_native, value, depth_limit, FORM_WIRE)


def encode_native_item(item, int depth_limit=32):
    """Encode a mapping of attribute name to a value of boto3's resource interface."""
    if not isinstance(item, dict):
        if not isinstance(item, Mapping):
            raise TypeError(f'Unsupported type "{type(item)}" for value "{item}"')
        item = dict(item)
    return run_item(put_native, item, depth_limit, FORM_WIRE)
