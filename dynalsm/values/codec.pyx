"""Work on encoded items without decoding them: find, size, cut, join, and the lazy ItemView.

What is read in C by other modules is in codec.pxd. The layout is in docs/format-items.md.
Thread safety: functions are pure; an ItemView may be read by several threads under the GIL.
"""

from collections.abc import Mapping

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport Py_INCREF
from cpython.object cimport PyObject
from cython cimport final
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc

from dynalsm.errors import CorruptionError

from dynalsm.values.buffer cimport (
    Buffer,
    buffer_free,
    buffer_init,
    buffer_put,
    buffer_reserve,
    write_map_header,
    write_str_header,
)
from dynalsm.values.decode cimport AS_INTERNAL, decode_between
from dynalsm.values.names cimport Span, compare_spans, release_spans, set_span, sort_spans

cdef extern from "Python.h":
    # NULL with an error set when the text has lone surrogates; such names exist in no item.
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size)
    void PyErr_Clear()

cdef enum:
    MAX_MAP_HEADER = 5

cdef tuple TAG_NAMES = ("", "S", "N", "B", "BOOL", "NULL", "L", "M", "SS", "NS", "BS")


cdef int damaged() except -1:
    raise CorruptionError("damaged encoded value")


cdef inline const uint8_t* start_of(bytes data) noexcept:
    return <const uint8_t*>PyBytes_AS_STRING(data)


cdef inline const uint8_t* end_of(bytes data) noexcept:
    return <const uint8_t*>PyBytes_AS_STRING(data) + PyBytes_GET_SIZE(data)


cdef inline bytes copy_between(const uint8_t* start, const uint8_t* end):
    return PyBytes_FromStringAndSize(<const char*>start, end - start)


cdef int find_by_name(bytes item, object name, Node* out) except -1:
    """Returns: 1 with *out set, or 0."""
    cdef Py_ssize_t size = 0
    cdef const char* text = PyUnicode_AsUTF8AndSize(name, &size)
    cdef int found
    if text == NULL:
        PyErr_Clear()
        return 0
    found = find_attribute(start_of(item), end_of(item), <const uint8_t*>text, <size_t>size, out)
    if found < 0:
        return damaged()
    return found


cdef bytes copy_node(const Node* node, const uint8_t* end):
    cdef const uint8_t* after = skip_node(node, end)
    if after == NULL:
        damaged()
    return copy_between(node.start, after)


def type_of(bytes value not None):
    """Return the type tag of an encoded value: "S", "N", "B", "BOOL", "NULL", "L", "M", "SS", …"""
    cdef int tag = type_tag(start_of(value), end_of(value))
    if tag == TAG_BAD:
        damaged()
    return TAG_NAMES[tag]


def value_size(bytes value not None):
    """Return DynamoDB's size of an encoded value in bytes."""
    cdef const uint8_t* after = NULL
    cdef int64_t size = size_value(start_of(value), end_of(value), &after)
    if size < 0 or after != end_of(value):
        damaged()
    return size


def item_size(bytes item not None):
    """Return DynamoDB's size of an encoded item in bytes: names and values."""
    cdef int64_t size = size_item(start_of(item), end_of(item))
    if size < 0:
        damaged()
    return size


def get_attribute(bytes item not None, str name not None):
    """Return the encoded value of an attribute of an encoded item, or None."""
    cdef Node node
    if not find_by_name(item, name, &node):
        return None
    return copy_node(&node, end_of(item))


def attribute_names(bytes item not None):
    """Return the names of an encoded item's attributes, sorted by their UTF-8 bytes."""
    cdef Node node
    cdef Node key
    cdef const uint8_t* last = NULL
    cdef size_t last_size = 0
    cdef const uint8_t* p
    cdef const uint8_t* end = end_of(item)
    cdef size_t _
    cdef list names = []
    read_item(item, &node)
    p = node.body
    for _ in range(node.size):
        p = next_pair(p, end, &key)
        # Searching relies on the order.
        if last != NULL and compare_bytes(last, last_size, key.body, key.size) >= 0:
            damaged()
        last = key.body
        last_size = key.size
        try:
            names.append((<const char*>key.body)[:key.size].decode("utf-8"))
        except UnicodeDecodeError:
            damaged()
    return names


def _probe(str what, bytes value not None, argument):
    """Call one of the C functions of codec.pxd that no Python function needs (for tests)."""
    cdef Node node
    cdef Node other
    cdef const uint8_t* end = end_of(value)
    cdef int found
    if read_node(start_of(value), end, &node) < 0:
        damaged()
    if what == "utf16_units":
        return utf16_units(node.body, node.size)
    if what == "count_members":
        return count_members(&node)
    if what == "contains_value":
        return contains_value(&node, end, start_of(argument), <size_t>len(argument))
    if what == "find_in_list":
        found = find_in_list(&node, end, argument, &other)
        return copy_node(&other, end) if found == 1 else found
    if what == "compare_scalars":
        if read_node(start_of(argument), end_of(argument), &other) < 0:
            damaged()
        return compare_scalars(&node, &other)
    raise ValueError(f"unknown probe {what!r}")


cdef int read_item(bytes item, Node* node) except -1:
    if read_node(start_of(item), end_of(item), node) < 0 or node.tag != TAG_M:
        return damaged()
    return 0


cdef const uint8_t* next_pair(const uint8_t* p, const uint8_t* end, Node* key) except NULL:
    """Read the name at p. Returns: the end of the value behind it."""
    cdef const uint8_t* after
    if read_node(p, end, key) < 0 or key.tag != TAG_S:
        damaged()
    after = skip_value(key.body + key.size, end)
    if after == NULL:
        damaged()
    return after


# ---- cutting and joining ------------------------------------------------------------------------

cdef class _NameList:
    """Names (with encoded values, perhaps) sorted by their bytes; owns what the spans borrow."""

    cdef Span* spans             # owned
    cdef size_t count

    def __cinit__(self, source):
        cdef list entries = list(source.items()) if isinstance(source, dict) else list(source)
        cdef Py_ssize_t size = 0
        cdef const char* text
        self.count = 0
        self.spans = <Span*>malloc((len(entries) + 1) * sizeof(Span))
        if self.spans == NULL:
            raise MemoryError()
        for entry in entries:
            name, value = entry if isinstance(source, dict) else (entry, None)
            if not isinstance(name, str):
                raise TypeError(f"attribute names are str, not {type(name)}")
            text = PyUnicode_AsUTF8AndSize(name, &size)
            if text == NULL:
                PyErr_Clear()
                if value is not None:
                    raise ValueError("a name is not valid Unicode")
                continue
            set_span(&self.spans[self.count], <const uint8_t*>text, <size_t>size)
            Py_INCREF(name)
            self.spans[self.count].owner = <PyObject*>name
            if value is not None:
                check_whole(value)
                Py_INCREF(value)
                self.spans[self.count].value = <PyObject*>value
            self.count += 1
        sort_spans(self.spans, self.count)

    def __dealloc__(self):
        if self.spans != NULL:
            release_spans(self.spans, self.count)
            free(self.spans)


cdef int check_whole(object value) except -1:
    if not isinstance(value, bytes):
        raise TypeError(f"encoded values are bytes, not {type(value)}")
    if skip_value(start_of(value), end_of(value)) != end_of(value):
        return damaged()
    return 0


cdef bytes close_map(Buffer* out, size_t count):
    """Put the header in front of pairs that were written MAX_MAP_HEADER bytes into the buffer."""
    cdef uint8_t header[MAX_MAP_HEADER]
    cdef int size = write_map_header(header, count)
    cdef int i
    for i in range(size):
        out.data[MAX_MAP_HEADER - size + i] = header[i]
    return copy_between(out.data + MAX_MAP_HEADER - size, out.data + out.size)


cdef int put_named(Buffer* out, const Span* span) except -1:
    """Write a name and the encoded value that the span holds."""
    cdef bytes value = <bytes>span.value
    out.size += write_str_header(buffer_reserve(out, 6), span.size)
    buffer_put(out, span.data, span.size)
    return buffer_put(out, PyBytes_AS_STRING(value), <size_t>PyBytes_GET_SIZE(value))


cdef bytes filtered(bytes item, _NameList names, bint keep):
    """The item with only the named attributes (keep), or with only the others."""
    cdef Buffer out
    cdef Node node
    cdef Node key
    cdef Span span
    cdef const uint8_t* p = NULL
    cdef const uint8_t* after
    cdef const uint8_t* end = end_of(item)
    cdef size_t _
    cdef size_t at = 0
    cdef size_t count = 0
    cdef bint is_named
    read_item(item, &node)
    p = node.body
    buffer_init(&out)
    try:
        out.size = MAX_MAP_HEADER
        for _ in range(node.size):
            after = next_pair(p, end, &key)
            set_span(&span, key.body, key.size)
            while at < names.count and compare_spans(&names.spans[at], &span) < 0:
                at += 1
            is_named = at < names.count and compare_spans(&names.spans[at], &span) == 0
            if is_named == keep:
                buffer_put(&out, p, after - p)
                count += 1
            p = after
        return close_map(&out, count)
    finally:
        buffer_free(&out)


def without(bytes item not None, names):
    """Return the encoded item without the named attributes."""
    return filtered(item, _NameList(names), False)


def select(bytes item not None, names):
    """Return the encoded item with only the named attributes."""
    return filtered(item, _NameList(names), True)


def merge(bytes item not None, dict attributes not None):
    """Return the encoded item with attributes (name -> encoded value) set or replaced."""
    cdef _NameList names = _NameList(attributes)
    cdef Buffer out
    cdef Node node
    cdef Node key
    cdef Span span
    cdef const uint8_t* p = NULL
    cdef const uint8_t* after
    cdef const uint8_t* end = end_of(item)
    cdef size_t _
    cdef size_t at = 0
    cdef size_t count = 0
    read_item(item, &node)
    for at in range(names.count):
        if names.spans[at].value == NULL:
            raise TypeError("encoded values are bytes, not None")
    p = node.body
    at = 0
    buffer_init(&out)
    try:
        out.size = MAX_MAP_HEADER
        for _ in range(node.size):
            after = next_pair(p, end, &key)
            set_span(&span, key.body, key.size)
            while at < names.count and compare_spans(&names.spans[at], &span) < 0:
                put_named(&out, &names.spans[at])
                at += 1
                count += 1
            if at == names.count or compare_spans(&names.spans[at], &span) != 0:
                buffer_put(&out, p, after - p)
                count += 1
            p = after
        while at < names.count:
            put_named(&out, &names.spans[at])
            at += 1
            count += 1
        return close_map(&out, count)
    finally:
        buffer_free(&out)


def item_from_pairs(dict attributes not None):
    """Return the encoded item of attributes given as name -> encoded value."""
    return merge(b"\x80", attributes)


# ---- ItemView -----------------------------------------------------------------------------------

@final
cdef class ItemView:
    """A read-only mapping over an encoded item that decodes an attribute when it is asked for.

    Values are internal values. They are cached: a list or dict handed out is the same each time,
    and must not be changed. `encoded` is the item's bytes.
    """

    cdef readonly bytes encoded
    cdef dict _cache             # name -> value, or None while nothing was asked for

    def __init__(self, bytes encoded not None):
        self.encoded = encoded

    cdef object lookup(self, object name, object default):
        cdef Node node
        cdef bytes data = self.encoded
        cdef const uint8_t* after
        if self._cache is not None and name in self._cache:
            return self._cache[name]
        if not isinstance(name, str) or not find_by_name(data, name, &node):
            return default
        after = skip_node(&node, end_of(data))
        if after == NULL:
            damaged()
        value = decode_between(node.start, after, AS_INTERNAL)
        if self._cache is None:
            self._cache = {}
        self._cache[name] = value
        return value

    def __getitem__(self, name):
        value = self.lookup(name, MISSING)
        if value is MISSING:
            raise KeyError(name)
        return value

    def get(self, name, default=None):
        """Return the value of an attribute, or the default."""
        return self.lookup(name, default)

    def __contains__(self, name):
        cdef Node node
        return isinstance(name, str) and find_by_name(self.encoded, name, &node) == 1

    def __len__(self):
        cdef Node node
        read_item(self.encoded, &node)
        return node.size

    def __iter__(self):
        return iter(attribute_names(self.encoded))

    def keys(self):
        """Return the names of the attributes."""
        return attribute_names(self.encoded)

    def values(self):
        """Return the internal values of all attributes."""
        return [self.lookup(name, None) for name in attribute_names(self.encoded)]

    def items(self):
        """Return (name, internal value) of all attributes."""
        return [(name, self.lookup(name, None)) for name in attribute_names(self.encoded)]

    def __eq__(self, other):
        if isinstance(other, ItemView):
            return self.encoded == (<ItemView>other).encoded
        if isinstance(other, Mapping):
            return dict(self.items()) == dict(other)
        return NotImplemented

    def __repr__(self):
        return f"ItemView({dict(self.items())!r})"


cdef object MISSING = object()
Mapping.register(ItemView)
