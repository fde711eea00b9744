"""Stored values: what lies under a tree key.

::

    0x01 (record version) · varint DynamoDB size of the whole item · encoded map of the attributes
    that the tree key does not hold

The varint is little-endian, seven bits a byte, the top bit set on all but the last. The size is
kept so that pages and capacities are counted without decoding. Thread safety: pure functions.
"""

from cpython.bytes cimport PyBytes_GET_SIZE
from cython cimport final
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from dynalsm.model.key_parts cimport (
    copy_of,
    damaged,
    end_of,
    start_of,
)
from dynalsm.values.buffer cimport (
    Buffer,
    buffer_free,
    buffer_init,
    buffer_put,
    buffer_reserve,
    write_bin_header,
    write_ext_header,
    write_map_header,
    write_str_header,
)
from dynalsm.values.codec cimport (
    EXT_N,
    TAG_B,
    TAG_M,
    TAG_S,
    Node,
    Part,
    compare_bytes,
    read_node,
    size_value,
    skip_node,
)

cdef enum:
    RECORD_VERSION = 1
    MAX_VARINT = 10
    MAX_MAP_HEADER = 5

if MAX_HEAD != 1 + MAX_VARINT + MAX_MAP_HEADER:
    raise ImportError("stored.pxd is mistaken about MAX_HEAD")


cdef inline int write_varint(uint8_t* out, uint64_t value) noexcept nogil:
    cdef int size = 0
    while value >= 0x80:
        out[size] = <uint8_t>(value | 0x80)
        value >>= 7
        size += 1
    out[size] = <uint8_t>value
    return size + 1


cdef const uint8_t* read_head(
    const uint8_t* stored, const uint8_t* end, uint64_t* item_size
) except NULL:
    cdef const uint8_t* p = stored
    cdef int shift = 0
    if p == end or p[0] != RECORD_VERSION:
        damaged()
    p += 1
    item_size[0] = 0
    while True:
        if p == end or shift > 63:
            damaged()
        item_size[0] |= <uint64_t>(p[0] & 0x7F) << shift
        if p[0] < 0x80:
            break
        shift += 7
        p += 1
    return p + 1


@final
cdef class NameSet:
    """Attribute names sorted by their bytes, for walking along an item's names."""

    def __init__(self, names):
        self.names = tuple(sorted({name.encode() for name in names}))


cdef bytes store(bytes item, NameSet drop, NameSet keep):
    cdef Buffer out
    cdef Node node
    cdef Node key
    cdef const uint8_t* p
    cdef const uint8_t* after = NULL
    cdef const uint8_t* run      # start of the stored pairs that were not copied yet
    cdef const uint8_t* end = end_of(item)
    cdef size_t _
    cdef Py_ssize_t at_drop = 0
    cdef Py_ssize_t at_keep = 0
    cdef bint is_dropped
    cdef bint is_kept
    cdef size_t count = 0
    cdef uint64_t item_size = 0
    cdef int64_t value_size
    if read_node(start_of(item), end, &node) < 0 or node.tag != TAG_M:
        damaged()
    p = node.body
    run = p
    buffer_init(&out)
    try:
        out.size = MAX_HEAD
        for _ in range(node.size):
            if read_node(p, end, &key) < 0 or key.tag != TAG_S:
                damaged()
            is_dropped = advance(drop.names, &at_drop, &key)
            is_kept = True if keep is None else advance(keep.names, &at_keep, &key)
            value_size = size_value(key.body + key.size, end, &after)
            if value_size < 0:
                damaged()
            if is_dropped or is_kept:
                item_size += key.size + <uint64_t>value_size
            if is_kept and not is_dropped:
                count += 1
            else:
                buffer_put(&out, run, p - run)
                run = after
            p = after
        if p != end:
            damaged()
        buffer_put(&out, run, end - run)
        return with_head(&out, item_size, count)
    finally:
        buffer_free(&out)


cdef bytes with_head(Buffer* out, uint64_t item_size, size_t count):
    cdef uint8_t head[MAX_HEAD]
    cdef int size = 1
    head[0] = RECORD_VERSION
    size += write_varint(head + size, item_size)
    size += write_map_header(head + size, count)
    memcpy(out.data + MAX_HEAD - size, head, size)
    return copy_of(out.data + MAX_HEAD - size, out.size - MAX_HEAD + size)


cdef inline bint advance(tuple names, Py_ssize_t* at, const Node* key) except -1:
    """Move along sorted names up to the key's. Returns: whether it is there."""
    cdef bytes name
    cdef int order
    while at[0] < len(names):
        name = <bytes>names[at[0]]
        order = compare_bytes(
            start_of(name), <size_t>PyBytes_GET_SIZE(name), key.body, key.size
        )
        if order >= 0:
            return order == 0
        at[0] += 1
    return False


cdef int put_part(Buffer* out, const Part* part) except -1:
    """Write a name and its key value as a pair of an encoded map."""
    cdef size_t size = part.value.size
    cdef uint8_t* p = buffer_reserve(out, part.name_size + size + 12)
    cdef uint8_t* start = p
    p += write_str_header(p, part.name_size)
    memcpy(p, part.name, part.name_size)
    p += part.name_size
    if part.value.tag == TAG_S:
        p += write_str_header(p, size)
    elif part.value.tag == TAG_B:
        p += write_bin_header(p, size)
    else:
        p += write_ext_header(p, size, EXT_N)
    memcpy(p, part.value.body, size)
    p += size
    out.size += p - start
    return 0


cdef bytes joined(
    const Part* parts, int count, const uint8_t* map_start, const uint8_t* end
):
    cdef Buffer out
    cdef Node node
    cdef Node key
    cdef Node value
    cdef const uint8_t* p
    cdef const uint8_t* after
    cdef const uint8_t* copied
    cdef size_t _
    cdef int at = 0
    cdef int order
    if read_node(map_start, end, &node) < 0 or node.tag != TAG_M:
        damaged()
    buffer_init(&out)
    try:
        out.size += write_map_header(buffer_reserve(&out, MAX_MAP_HEADER), node.size + count)
        p = node.body
        copied = p
        for _ in range(node.size):
            if at == count:
                break
            if read_node(p, end, &key) < 0 or key.tag != TAG_S:
                damaged()
            while at < count:
                order = compare_bytes(parts[at].name, parts[at].name_size, key.body, key.size)
                if order == 0:
                    damaged()
                if order > 0:
                    break
                buffer_put(&out, copied, p - copied)
                copied = p
                put_part(&out, &parts[at])
                at += 1
            if read_node(key.body + key.size, end, &value) < 0:
                damaged()
            after = skip_node(&value, end)
            if after == NULL:
                damaged()
            p = after
        # What is behind the last key attribute is copied unread; decoding checks it.
        if at < count:
            buffer_put(&out, copied, p - copied)
            copied = p
            while at < count:
                put_part(&out, &parts[at])
                at += 1
        buffer_put(&out, copied, end - copied)
        return copy_of(out.data, out.size)
    finally:
        buffer_free(&out)
