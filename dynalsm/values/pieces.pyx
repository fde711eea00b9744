"""What all encoders are made of: maps, lists, sets and numbers, written canonically.

Equal values give equal bytes: names and set members are sorted, headers are the shortest.
Thread safety: pure functions; arguments must not be changed by another thread meanwhile.
"""

from cpython.dict cimport PyDict_Next, PyDict_Size
from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint8_t
from libc.stdlib cimport free, malloc

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

from dynalsm.limits import ATTRIBUTE_NAME_MAX_BYTES
from dynalsm.values.problems import ValueProblem

cdef extern from "Python.h":
    PyObject* PyList_GET_ITEM_BORROWED "PyList_GET_ITEM" (object items, Py_ssize_t index)
    void PyErr_Clear()

cdef enum:
    LOCAL_SPANS = 24             # entries of a map or set that need no malloc
    FOUR_GIB = 0xFFFFFFFF

cdef object PROBLEM = ValueProblem

if MAX_NAME_BYTES != ATTRIBUTE_NAME_MAX_BYTES:
    raise ImportError("dynalsm.limits and dynalsm.values disagree on the size of names")


cdef int raise_problem(str kind) except -1:
    PyErr_Clear()                # what made it fail is told better by the problem
    raise PROBLEM(kind)


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


# ---- one call -----------------------------------------------------------------------------------

cdef int set_options(Options* options, int depth_limit, int form) except -1:
    options.depth_limit = depth_limit if depth_limit < MAX_DEPTH else MAX_DEPTH - 1
    options.form = form
    return 0


cdef bytes encode_one(Encoder encoder, object value, int depth_limit, int form):
    cdef Options options
    cdef Buffer out
    set_options(&options, depth_limit, form)
    buffer_init(&out)
    try:
        encoder(&out, value, 1, &options)
        return buffer_bytes(&out)
    finally:
        buffer_free(&out)


cdef bytes encode_map(Encoder encoder, object item, int depth_limit, int form):
    cdef Options options
    cdef Buffer out
    set_options(&options, depth_limit, form)
    buffer_init(&out)
    try:
        put_map(&out, item, 1, &options, encoder, True)
        return buffer_bytes(&out)
    finally:
        buffer_free(&out)
