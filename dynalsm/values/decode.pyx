"""Bytes to values: internal, wire and native Python objects.

Everything read is checked: damaged bytes give CorruptionError, not a crash. Short texts and numbers
come from small caches, because items repeat them, and maps with known names from their outlines.
The layout is in docs/format-items.md. Thread safety: caches and hints are guarded by the GIL;
everything else is pure.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_SetItem
from cpython.list cimport PyList_New
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.unicode cimport PyUnicode_DecodeASCII, PyUnicode_DecodeUTF8
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from dynalsm.values.codec cimport (
    EXT_N,
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
from dynalsm.values.names cimport prefix_of
from dynalsm.values.number cimport MAX_NUMBER_TEXT, Number, number_to_decimal, number_to_text
from dynalsm.values.outline cimport OUTLINE_MAX, Hint, Outline, OutlineName, note_names, stands_at
from dynalsm.values.reader cimport (
    Reader,
    check_read_depth,
    close_reader,
    damaged,
    next_item,
    next_node,
    read_number,
)
from dynalsm.values.shared_sets cimport (
    SET_SLOTS,
    SharedSet,
    is_shared_set,
    share_set,
    shared_set_at,
)

from dynalsm.values.binary import Binary

cdef enum:
    CACHE_BITS = 11              # of each cache
    CACHE_SLOTS = 1 << CACHE_BITS
    MAX_CACHED = 15              # bytes of a text or number
    FIXEXT2 = 0xD5               # the header of an extension value of two bytes
    FIRST_LEAD = 0xBF            # number bytes of 0.1 and more
    SMALL_LEADS = 4
    NAME_SLOTS = 1024            # of the cache of longer names
    MAX_CACHED_NAME = 64
    MAX_ROOM = 256               # of a new dict or list; a damaged count must not cost memory
    HINT_DEPTH = 4               # maps nested deeper are read without outlines

# A decoded object by the up to fifteen bytes it was made of: `low` the first eight, `high` the
# others with the number of bytes on top. Direct-mapped: a new object takes the place of the old.
cdef struct Cached:
    uint64_t low
    uint64_t high
    PyObject* object             # owned

# Guarded by the GIL.
cdef Cached text_cache[CACHE_SLOTS]
cdef Cached number_cache[CACHE_SLOTS]       # Decimals
cdef PyObject* small_decimals[SMALL_LEADS * 128]    # of two bytes: 0.1 to 990, mostly 1 to 99
cdef Cached number_text_cache[CACHE_SLOTS]
cdef PyObject* name_cache[NAME_SLOTS]       # names of more than MAX_CACHED bytes, all ASCII
cdef SharedSet shared_sets[SET_SLOTS]
cdef Hint item_hints[HINTS]                 # of items that come as whole maps

cdef uint64_t ASCII_MASK = <uint64_t>0x8080808080808080
# Of the first eight and the next seven of so many bytes.
cdef uint64_t LOW_MASKS[MAX_CACHED + 1]
cdef uint64_t HIGH_MASKS[MAX_CACHED + 1]


cdef void fill_masks() noexcept:
    cdef int size
    for size in range(MAX_CACHED + 1):
        LOW_MASKS[size] = <uint64_t>-1 if size >= 8 else (<uint64_t>1 << (8 * size)) - 1
        HIGH_MASKS[size] = 0 if size <= 8 else (<uint64_t>1 << (8 * (size - 8))) - 1


fill_masks()

# Of forms.Form.
KINDS = {
    "ENCODED": AS_ENCODED,
    "INTERNAL": AS_INTERNAL,
    "NATIVE": AS_NATIVE,
    "WIRE": AS_WIRE,
    "JSON": AS_JSON,
}

cdef object BINARY = Binary
cdef object NEW_BYTES = bytes.__new__

cdef extern from *:
    # Cython's own name for a dict with room, on interpreters that have such a thing.
    dict new_dict_with_room "__Pyx_PyDict_NewPresized" (Py_ssize_t room)

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    void* PyUnicode_DATA(object text)
    void* data_of_text "PyUnicode_DATA" (PyObject* text)
    PyObject* PyUnicode_New(Py_ssize_t size, Py_UCS4 largest) except NULL
    object PySet_New(PyObject* members)
    object PyFrozenSet_New(PyObject* members)
    void put_in_list "PyList_SET_ITEM" (list target, Py_ssize_t i, PyObject* value)
    int PySet_Add(object members, object member) except -1


# ---- the caches ---------------------------------------------------------------------------------

cdef inline uint64_t load_word(const uint8_t* p) noexcept nogil:
    cdef uint64_t word
    memcpy(&word, p, 8)
    return word


cdef inline void load_short(
    const uint8_t* p, size_t size, uint64_t* low, uint64_t* high
) noexcept nogil:
    """Load up to fifteen bytes and their number, reading no others."""
    cdef uint32_t first
    cdef uint32_t last
    high[0] = <uint64_t>size << 56
    if size > 8:
        low[0] = load_word(p)
        high[0] |= load_word(p + size - 8) >> 8 * (16 - size)
    elif size == 8:
        low[0] = load_word(p)
    elif size >= 4:
        memcpy(&first, p, 4)
        memcpy(&last, p + size - 4, 4)
        low[0] = first | <uint64_t>last << 8 * (size - 4)
    elif size:
        low[0] = (
            p[0] | <uint64_t>p[size >> 1] << 8 * (size >> 1)
            | <uint64_t>p[size - 1] << 8 * (size - 1)
        )
    else:
        low[0] = 0


cdef inline Cached* cached_at(Cached* cache, uint64_t low, uint64_t high) noexcept nogil:
    low = (low ^ (high >> 29 | high << 35)) * <uint64_t>0x9E3779B97F4A7C15
    return &cache[low >> (64 - CACHE_BITS)]


cdef int remember(Cached* place, uint64_t low, uint64_t high, object value) except -1:
    cdef PyObject* old = place.object
    Py_INCREF(value)
    place.object = <PyObject*>value
    place.low = low
    place.high = high
    if old != NULL:
        Py_DECREF(<object>old)
    return 0


# ---- leaves -------------------------------------------------------------------------------------

cdef inline bint is_ascii(const uint8_t* p, size_t size) noexcept nogil:
    """REQUIRES: at least eight bytes."""
    cdef const uint8_t* last = p + size - 8
    cdef uint64_t seen = load_word(last)
    while p < last:
        seen |= load_word(p)
        p += 8
    return seen & ASCII_MASK == 0


cdef inline PyObject* owned(object value) noexcept:
    """Another reference."""
    Py_INCREF(value)
    return <PyObject*>value


cdef inline object given(PyObject* value):
    """The object of a reference that is given up."""
    held = <object>value
    Py_DECREF(held)
    return held


cdef str decoded(const uint8_t* p, size_t size):
    """The str of UTF-8 text, or CorruptionError."""
    try:
        return PyUnicode_DecodeUTF8(<const char*>p, <Py_ssize_t>size, NULL)
    except UnicodeDecodeError:
        damaged()


# Those named take_... return a new reference, which goes into its place as it is.

cdef inline PyObject* take_ascii(const uint8_t* p, size_t size) except NULL:
    cdef PyObject* text = PyUnicode_New(<Py_ssize_t>size, 127)
    memcpy(data_of_text(text), p, size)
    return text


cdef inline PyObject* take_long_text(const uint8_t* p, size_t size) except NULL:
    """The str of more than MAX_CACHED bytes of UTF-8."""
    if is_ascii(p, size):
        return take_ascii(p, size)
    return owned(decoded(p, size))


cdef PyObject* take_new_text(
    Cached* place, uint64_t low, uint64_t high, const uint8_t* p, size_t size
) except NULL:
    """The str of a short text that is not in the cache, which remembers it."""
    # Texts of one byte and none exist once in the interpreter.
    if (low | high) & ASCII_MASK == 0 and size > 1:
        text = given(take_ascii(p, size))
    else:
        text = decoded(p, size)
    remember(place, low, high, text)
    return owned(text)


cdef inline PyObject* take_short_text(
    uint64_t low, uint64_t high, const uint8_t* p, size_t size
) except NULL:
    """The str of up to MAX_CACHED bytes of UTF-8, loaded as load_short does."""
    cdef Cached* place = cached_at(text_cache, low, high)
    if place.high == high and place.low == low and place.object != NULL:
        return owned(<object>place.object)
    return take_new_text(place, low, high, p, size)


cdef inline object text_of(const uint8_t* p, size_t size):
    """The str of UTF-8 text."""
    cdef uint64_t low
    cdef uint64_t high
    if size > MAX_CACHED:
        return given(take_long_text(p, size))
    load_short(p, size, &low, &high)
    return given(take_short_text(low, high, p, size))


cdef inline bytes bytes_of(const Node* node):
    return PyBytes_FromStringAndSize(<const char*>node.body, <Py_ssize_t>node.size)


cdef inline object binary_of(const Node* node):
    return NEW_BYTES(BINARY, bytes_of(node))


cdef object long_name(const uint8_t* p, size_t size):
    """The str of a name of 16 to 64 bytes, from the cache when it is there."""
    cdef uint64_t slot = prefix_of(p, size) ^ prefix_of(p + size - 8, 8) * 31
    slot = ((slot ^ slot >> 32) + size) * <uint64_t>0x9E3779B97F4A7C15 >> 40 & (NAME_SLOTS - 1)
    if name_cache[slot] != NULL:
        cached = <object>name_cache[slot]
        if (
            <size_t>PyUnicode_GET_LENGTH(cached) == size
            and memcmp(PyUnicode_DATA(cached), p, size) == 0
        ):
            return cached
    name = decoded(p, size)
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


cdef object read_name(Reader* reader, Node* node):
    """Read a map's name."""
    next_node(reader, node)
    if node.tag != TAG_S:
        damaged()
    if node.size > MAX_CACHED and node.size <= MAX_CACHED_NAME:
        return long_name(node.body, node.size)
    return text_of(node.body, node.size)


cdef inline object decimal_of(const Node* node):
    """The Decimal of an N node."""
    cdef int small
    if node.size == 2:
        small = small_number(node.body)
        if small >= 0 and small_decimals[small] != NULL:
            return <object>small_decimals[small]
    return other_decimal(node)


cdef inline int small_number(const uint8_t* p) noexcept nogil:
    """The place of a number of two bytes and one to three digits before the point, or -1."""
    cdef int exponent = <int>p[0] - FIRST_LEAD
    if exponent < 0 or exponent >= SMALL_LEADS or p[1] & 1:
        return -1  # (an odd second byte says that more follow: damaged)
    return exponent * 128 + (p[1] >> 1)


cdef object other_decimal(const Node* node):
    cdef Number number
    cdef uint64_t low = 0
    cdef uint64_t high = 0
    cdef Cached* place = NULL
    if node.size <= MAX_CACHED:
        load_short(node.body, node.size, &low, &high)
        place = cached_at(number_cache, low, high)
        if place.high == high and place.low == low and place.object != NULL:
            return <object>place.object
    read_number(node, &number)
    value = number_to_decimal(&number)
    if node.size == 2 and small_number(node.body) >= 0:
        Py_INCREF(value)
        small_decimals[small_number(node.body)] = <PyObject*>value
    elif place != NULL:
        remember(place, low, high, value)
    return value


cdef object number_text_of(const Node* node):
    """The canonical text of an N node."""
    cdef Number number
    cdef char text[MAX_NUMBER_TEXT]
    cdef uint64_t low = 0
    cdef uint64_t high = 0
    cdef Cached* place = NULL
    if node.size <= MAX_CACHED:
        load_short(node.body, node.size, &low, &high)
        place = cached_at(number_text_cache, low, high)
        if place.high == high and place.low == low and place.object != NULL:
            return <object>place.object
    read_number(node, &number)
    value = PyUnicode_DecodeASCII(text, number_to_text(&number, text), NULL)
    if place != NULL:
        remember(place, low, high, value)
    return value


# ---- maps ---------------------------------------------------------------------------------------

cdef dict read_map(
    Reader* reader, size_t stored, int depth, int form, Hint* hint, const Part* parts,
    int part_count
):
    """Read the pairs of a map whose header was read; parts are further attributes of it."""
    cdef PyObject* values[OUTLINE_MAX]
    cdef size_t count = stored + <size_t>part_count
    cdef size_t done = 0
    cdef int part = 0
    cdef Outline outline
    cdef OutlineName* name
    cdef size_t i
    cdef dict result
    check_read_depth(depth)
    if hint == NULL or hint.outline == NULL or (<Outline>hint.outline).count != count:
        return read_pairs(reader, stored, depth, form, hint, parts, part_count, None, 0)
    outline = <Outline>hint.outline
    try:
        while done < count:
            name = &outline.names[done]
            if name.part >= 0:
                values[done] = owned(part_value(&parts[name.part], form))
                part += 1
            elif stands_at(name, reader.p, reader.end):
                reader.p += name.size
                values[done] = take_value(reader, depth, form, &name.child)
            else:
                break
            done += 1
        if done == count:
            done = 0
            return outline.fill(values)
        # The name that was not expected may come before the parts read last.
        while done and outline.names[done - 1].part >= 0:
            done -= 1
            part -= 1
            Py_DECREF(<object>values[done])
        result = {}
        for i in range(done):
            PyDict_SetItem(result, outline.texts[i], <object>values[i])
    finally:
        for i in range(done):
            Py_DECREF(<object>values[i])
    return read_pairs(
        reader, stored + <size_t>part - done, depth, form, hint, parts, part_count, result, part
    )


cdef dict read_pairs(
    Reader* reader, size_t stored, int depth, int form, Hint* hint, const Part* parts,
    int part_count, dict result, int part
):
    """Read pairs name by name, after those that `result` has; `part` parts are among them."""
    cdef Node name
    cdef size_t total = stored + <size_t>part_count
    cdef int order
    if result is None:
        result = new_dict_with_room(<Py_ssize_t>(total if total < MAX_ROOM else MAX_ROOM))
    while stored:
        text = read_name(reader, &name)
        while part < part_count:
            order = compare_bytes(parts[part].name, parts[part].name_size, name.body, name.size)
            if order > 0:
                break
            if order == 0:
                damaged()
            PyDict_SetItem(result, <object>parts[part].text, part_value(&parts[part], form))
            part += 1
        value = read_value(reader, depth, form, NULL)
        PyDict_SetItem(result, text, value)
        stored -= 1
    while part < part_count:
        PyDict_SetItem(result, <object>parts[part].text, part_value(&parts[part], form))
        part += 1
    if hint != NULL and depth <= HINT_DEPTH and 0 < len(result) <= OUTLINE_MAX:
        learn(hint, result, parts, part_count)
    return result


cdef int learn(Hint* hint, dict result, const Part* parts, int part_count) except -1:
    """Note the names of a map for the next one; its parts, if any, are all among them."""
    cdef int numbers[OUTLINE_MAX]
    cdef list names = list(result)
    cdef int part = 0
    cdef Py_ssize_t i
    for i in range(len(names)):
        numbers[i] = -1
        if part < part_count and names[i] == <object>parts[part].text:
            numbers[i] = part
            part += 1
    if part == part_count:
        note_names(hint, names, numbers)
    return 0


cdef object part_value(const Part* part, int form):
    cdef const Node* node = &part.value
    if form == AS_WIRE:
        if node.tag == TAG_S:
            return {"S": text_of(node.body, node.size)}
        if node.tag == TAG_N:
            return {"N": number_text_of(node)}
        return {"B": bytes_of(node)}
    if node.tag == TAG_S:
        return text_of(node.body, node.size)
    if node.tag == TAG_N:
        return decimal_of(node)
    return binary_of(node) if form == AS_NATIVE else bytes_of(node)


# ---- lists and sets -----------------------------------------------------------------------------

cdef list read_list(Reader* reader, size_t count, int depth, int form, Hint* hint):
    """Read the elements of a list; all maps among them share one hint."""
    cdef list result
    cdef size_t i
    cdef size_t _
    check_read_depth(depth)
    if count > MAX_ROOM:
        result = []
        for _ in range(count):
            result.append(read_value(reader, depth, form, hint))
        return result
    result = PyList_New(<Py_ssize_t>count)
    for i in range(count):
        put_in_list(result, <Py_ssize_t>i, take_value(reader, depth, form, hint))
    return result


cdef inline object member_of(const Node* node, int form):
    if node.tag == TAG_S:
        return text_of(node.body, node.size)
    if node.tag == TAG_N:
        return number_text_of(node) if form == AS_WIRE else decimal_of(node)
    return binary_of(node) if form == AS_NATIVE else bytes_of(node)


cdef object read_set(const Node* node, int tag, int form):
    """The members of a set node, whose tag must be `tag`: a set, a frozenset or a list."""
    cdef SharedSet* place
    if form == AS_WIRE:
        return read_members(node, tag, form)
    place = shared_set_at(shared_sets, node, tag)
    if place == NULL:
        return read_members(node, tag, form)
    if not is_shared_set(place, node, tag):
        share_set(place, node, tag, read_members(node, tag, AS_INTERNAL))
    return PySet_New(place.members) if form == AS_NATIVE else <object>place.members


cdef object read_members(const Node* node, int tag, int form):
    cdef Reader reader
    cdef Node member
    cdef object members
    reader.p = node.body
    reader.end = node.body + node.size
    if node.size == 0:
        damaged()
    if form == AS_WIRE:
        members = []
    elif form == AS_NATIVE:
        members = PySet_New(NULL)
    else:
        members = PyFrozenSet_New(NULL)
    while reader.p < reader.end:
        next_node(&reader, &member)
        if member.tag != tag:
            damaged()
        value = member_of(&member, form)
        if form == AS_WIRE:
            (<list>members).append(value)
        else:
            PySet_Add(members, value)    # a fresh frozenset may be filled
    return members


# ---- values -------------------------------------------------------------------------------------

cdef inline PyObject* take_value(Reader* reader, int depth, int form, Hint* hint) except NULL:
    """Read a value; what most attributes are is tried first, by the first byte."""
    cdef const uint8_t* p = reader.p
    cdef size_t size
    cdef int small
    # A header of two bytes and MAX_CACHED others may be read.
    if form != AS_WIRE and reader.end - p > MAX_CACHED + 2:
        size = p[0] & 0x1F
        if p[0] >> 4 == 0xA:     # a text of up to 15 bytes
            reader.p = p + 1 + size
            return take_short_text(
                load_word(p + 1) & LOW_MASKS[size],
                load_word(p + 9) & HIGH_MASKS[size] | <uint64_t>size << 56,
                p + 1, size
            )
        if p[0] == FIXEXT2 and p[1] == EXT_N:
            small = small_number(p + 2)
            if small >= 0 and small_decimals[small] != NULL:
                reader.p = p + 4
                return owned(<object>small_decimals[small])
        if p[0] >> 4 == 0xB and <size_t>(reader.end - p) > size:
            reader.p = p + 1 + size
            return take_long_text(p + 1, size)
    return owned(read_value(reader, depth, form, hint))


cdef object read_value(Reader* reader, int depth, int form, Hint* hint):
    cdef Node node
    next_node(reader, &node)
    if form == AS_WIRE:
        return read_typed(reader, &node, depth, hint)
    if node.tag == TAG_S:
        return text_of(node.body, node.size)
    if node.tag == TAG_N:
        return decimal_of(&node)
    if node.tag == TAG_BOOL:
        return True if node.truth else False
    if node.tag == TAG_NULL:
        return None
    if node.tag == TAG_M:
        return read_map(reader, node.size, depth + 1, form, hint, NULL, 0)
    if node.tag == TAG_L:
        return read_list(reader, node.size, depth + 1, form, hint)
    if node.tag == TAG_B:
        return binary_of(&node) if form == AS_NATIVE else bytes_of(&node)
    if node.tag == TAG_SS:
        return read_set(&node, TAG_S, form)
    if node.tag == TAG_NS:
        return read_set(&node, TAG_N, form)
    return read_set(&node, TAG_B, form)


cdef object read_typed(Reader* reader, const Node* node, int depth, Hint* hint):
    """The wire form of a value whose header was read."""
    if node.tag == TAG_S:
        return {"S": text_of(node.body, node.size)}
    if node.tag == TAG_N:
        return {"N": number_text_of(node)}
    if node.tag == TAG_BOOL:
        return {"BOOL": True if node.truth else False}
    if node.tag == TAG_NULL:
        return {"NULL": True}
    if node.tag == TAG_M:
        return {"M": read_map(reader, node.size, depth + 1, AS_WIRE, hint, NULL, 0)}
    if node.tag == TAG_L:
        return {"L": read_list(reader, node.size, depth + 1, AS_WIRE, hint)}
    if node.tag == TAG_B:
        return {"B": bytes_of(node)}
    if node.tag == TAG_SS:
        return {"SS": read_set(node, TAG_S, AS_WIRE)}
    if node.tag == TAG_NS:
        return {"NS": read_set(node, TAG_N, AS_WIRE)}
    return {"BS": read_set(node, TAG_B, AS_WIRE)}


# ---- whole items and values ---------------------------------------------------------------------

cdef dict decode_record(
    const uint8_t* p, const uint8_t* end, const Part* parts, int count, int form, Hint* hints
):
    cdef Reader reader
    cdef Node node
    cdef uint64_t choice
    cdef dict item
    reader.p = p
    reader.end = end
    next_item(&reader, &node)
    # Items of different kinds differ in the number of attributes or the name of the first.
    choice = node.size
    if end - reader.p >= 8:
        choice ^= load_word(reader.p)
    choice = choice * <uint64_t>0x9E3779B97F4A7C15 >> 60 & (HINTS - 1)
    item = read_map(&reader, node.size, 1, form, &hints[choice], parts, count)
    close_reader(&reader)
    return item


cdef object decode_between(const uint8_t* p, const uint8_t* end, int form):
    cdef Reader reader
    reader.p = p
    reader.end = end
    value = read_value(&reader, 1, form, NULL)
    close_reader(&reader)
    return value


cdef inline object decode_whole(bytes data, int form):
    cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(data)
    return decode_between(p, p + PyBytes_GET_SIZE(data), form)


cdef inline dict decode_whole_item(bytes data, int form):
    cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(data)
    return decode_record(p, p + PyBytes_GET_SIZE(data), NULL, 0, form, item_hints)


def decode_value(bytes data not None):
    """Return the internal value of encoded bytes."""
    return decode_whole(data, AS_INTERNAL)


def decode_item(bytes data not None):
    """Return the internal values of an encoded item by attribute name."""
    return decode_whole_item(data, AS_INTERNAL)


def decode_wire(bytes data not None):
    """Return the typed dict ({"S": "x"}) of encoded bytes, with bytes for B."""
    return decode_whole(data, AS_WIRE)


def decode_wire_item(bytes data not None):
    """Return the typed dicts of an encoded item by attribute name, with bytes for B."""
    return decode_whole_item(data, AS_WIRE)


def decode_native(bytes data not None):
    """Return the value as boto3's resource interface gives it (Decimal, Binary, set, ...)."""
    return decode_whole(data, AS_NATIVE)


def decode_native_item(bytes data not None):
    """Return the values of an encoded item as boto3's resource interface gives them."""
    return decode_whole_item(data, AS_NATIVE)
