"""Tree keys: the order-preserving bytes under which items and index entries are stored.

::

    table   hash64(pk) 8 B · len(pk) 2 B · pk · sk
    LSI     hash64(pk) 8 B · len(pk) 2 B · pk · escaped(index sk) · sk
    GSI     hash64(hash part) 8 B · (len 2 B · value) of each hash attribute · escaped(each range
            attribute) · len(pk) 2 B · pk · sk

Integers are big-endian. S and B stand as their bytes, N as its number bytes. Escaped: 0x00 becomes
0x00 0xFF and 0x00 0x01 ends it; numbers know their own end and stay as they are. Stored values:
0x01 (record version) · varint DynamoDB size of the whole item · encoded map without the attributes
that the tree key holds. docs/format-items.md has examples. Immutable after construction, hence
thread-safe.

1. Byte order of tree keys within one hash and partition key is the order of the sort key(s).
2. key → tree key → key gives back the canonical encoding.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cython cimport final
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from dynalsm._core.hashing cimport hash64
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
    TAG_BAD,
    TAG_M,
    TAG_N,
    TAG_S,
    Node,
    compare_bytes,
    find_attribute,
    load_big16,
    read_node,
    scalar_size,
    size_value,
    skip_node,
)
from dynalsm.values.number cimport number_length

from dynalsm.limits import PARTITION_KEY_MAX_BYTES, SORT_KEY_MAX_BYTES

cdef enum:
    MAX_PARTITION = 2048         # bytes; limits.PARTITION_KEY_MAX_BYTES
    MAX_SORT = 1024              # limits.SORT_KEY_MAX_BYTES
    HASH_BYTES = 8
    RECORD_VERSION = 1
    MAX_VARINT = 10
    MAX_MAP_HEADER = 5
    MAX_KEY_ATTRIBUTES = 10      # 4 + 4 of a multi-attribute index, 2 of its table
    ESCAPE = 0x00
    ESCAPED_ZERO = 0xFF
    TERMINATOR = 0x01

if (MAX_PARTITION, MAX_SORT) != (PARTITION_KEY_MAX_BYTES, SORT_KEY_MAX_BYTES):
    raise ImportError("dynalsm.limits and dynalsm.model.keys disagree on the sizes of keys")

cdef tuple TAG_NAMES = ("", "S", "N", "B", "BOOL", "NULL", "L", "M", "SS", "NS", "BS")
# What the last attribute of a key may be compared with.
RANGE_OPERATORS = frozenset({"=", "<", "<=", ">", ">=", "BETWEEN", "begins_with"})

INVALID = "One or more parameter values were invalid: "
SCHEMA_TEXT = "The provided key element does not match the schema"


class KeyProblem(ValueError):
    """A key attribute that cannot be a key.

    `kind` is "missing", "type", "empty", "too_long" or "schema" (the key map does not hold exactly
    the key attributes with the right types). `role` is "HASH" or "RANGE"; `size` is in bytes.
    str() is DynamoDB's text for keys of a table.
    """

    def __init__(
        self, kind, attribute="", expected="", actual="", size=0, role="HASH"
    ):
        super().__init__(kind, attribute, expected, actual, size, role)
        self.kind = kind
        self.attribute = attribute
        self.expected = expected
        self.actual = actual
        self.size = size
        self.role = role

    def __str__(self):
        if self.kind == "missing":
            return f"{INVALID}Missing the key {self.attribute} in the item"
        if self.kind == "type":
            return (
                f"{INVALID}Type mismatch for key {self.attribute} "
                f"expected: {self.expected} actual: {self.actual}"
            )
        if self.kind == "empty":
            what = "binary" if self.expected == "B" else "string"
            return (
                "One or more parameter values are not valid. The AttributeValue for a key "
                f"attribute cannot contain an empty {what} value. Key: {self.attribute}"
            )
        if self.kind == "too_long":
            if self.role == "HASH":
                # The missing space is DynamoDB's.
                return (
                    f"{INVALID}Size of hashkey has exceeded the maximum size limit of2048 bytes"
                )
            return (
                f"{INVALID}Aggregated size of all range keys has exceeded the size limit of "
                "1024 bytes"
            )
        return SCHEMA_TEXT


# One attribute of a key.
cdef struct KeyAttribute:
    const uint8_t* name          # borrowed from the KeySchema that holds the struct
    size_t name_size
    int tag                      # TAG_S, TAG_N or TAG_B
    bint is_hash


cdef int damaged() except -1:
    raise ValueError("damaged tree key or stored item")


cdef inline const uint8_t* start_of(bytes data) noexcept:
    return <const uint8_t*>PyBytes_AS_STRING(data)


cdef inline const uint8_t* end_of(bytes data) noexcept:
    return <const uint8_t*>PyBytes_AS_STRING(data) + PyBytes_GET_SIZE(data)


cdef inline bytes copy_of(const uint8_t* data, size_t size):
    return PyBytes_FromStringAndSize(<const char*>data, <Py_ssize_t>size)


cdef object name_of(const KeyAttribute* attribute):
    return (<const char*>attribute.name)[:attribute.name_size].decode("utf-8")


cdef int raise_key_problem(
    str kind, const KeyAttribute* attribute, int actual, size_t size
) except -1:
    raise KeyProblem(
        kind,
        name_of(attribute),
        TAG_NAMES[attribute.tag],
        TAG_NAMES[actual],
        size,
        "HASH" if attribute.is_hash else "RANGE",
    )


cdef int check_key_value(const KeyAttribute* attribute, const Node* node) except -1:
    """Check type and size of a key attribute's value."""
    if node.tag != attribute.tag:
        return raise_key_problem("type", attribute, node.tag, 0)
    if node.size == 0:
        return raise_key_problem("empty", attribute, node.tag, 0)
    if node.size > <size_t>(MAX_PARTITION if attribute.is_hash else MAX_SORT):
        return raise_key_problem("too_long", attribute, node.tag, node.size)
    return 0


cdef int read_operand(const KeyAttribute* attribute, bytes operand, Node* node) except -1:
    """Read an encoded value that a key attribute is compared with."""
    if read_node(start_of(operand), end_of(operand), node) < 0:
        return damaged()
    if node.tag != attribute.tag:
        return raise_key_problem("type", attribute, node.tag, 0)
    if node.body + node.size != end_of(operand):
        return damaged()
    return 0


# ---- parts of tree keys -------------------------------------------------------------------------

cdef inline int put_length_prefixed(Buffer* out, const uint8_t* data, size_t size) except -1:
    cdef uint8_t* p = buffer_reserve(out, size + 2)
    p[0] = <uint8_t>(size >> 8)
    p[1] = <uint8_t>size
    memcpy(p + 2, data, size)
    out.size += size + 2
    return 0


cdef inline void write_hash(uint8_t* out, uint64_t value) noexcept nogil:
    cdef int i
    for i in range(HASH_BYTES):
        out[i] = <uint8_t>(value >> (56 - 8 * i))


cdef int put_escaped(Buffer* out, const Node* node, bint terminate) except -1:
    """Write an S or B value escaped, an N value as it is."""
    cdef const uint8_t* p = node.body
    cdef const uint8_t* end = node.body + node.size
    cdef const uint8_t* zero
    if node.tag == TAG_N:
        return buffer_put(out, p, node.size)
    buffer_reserve(out, 2 * node.size + 2)
    while p < end:
        zero = <const uint8_t*>memchr(p, ESCAPE, end - p)
        if zero == NULL:
            buffer_put(out, p, end - p)
            break
        buffer_put(out, p, zero + 1 - p)
        out.data[out.size] = ESCAPED_ZERO
        out.size += 1
        p = zero + 1
    if terminate:
        out.data[out.size] = ESCAPE
        out.data[out.size + 1] = TERMINATOR
        out.size += 2
    return 0


cdef int take_length_prefixed(const uint8_t** p, const uint8_t* end, Node* out) except -1:
    cdef size_t size
    out.body = p[0]
    out.size = 0
    if end - p[0] < 2:
        return damaged()
    size = load_big16(p[0])
    out.body = p[0] + 2
    out.size = size
    if <size_t>(end - out.body) < size:
        return damaged()
    p[0] = out.body + size
    return 0


cdef int take_escaped(const uint8_t** p, const uint8_t* end, int tag, Buffer* room) except -1:
    """Step over an escaped value, appending its plain bytes to `room`."""
    cdef const uint8_t* at = p[0]
    cdef const uint8_t* zero
    cdef int length
    if tag == TAG_N:
        length = number_length(at, end - at)
        if length < 0:
            return damaged()
        buffer_put(room, at, length)
        p[0] = at + length
        return 0
    while True:
        zero = <const uint8_t*>memchr(at, ESCAPE, end - at)
        if zero == NULL or end - zero < 2:
            return damaged()
        buffer_put(room, at, zero - at)
        at = zero + 2
        if zero[1] == TERMINATOR:
            p[0] = at
            return 0
        if zero[1] != ESCAPED_ZERO:
            return damaged()
        buffer_reserve(room, 1)[0] = 0
        room.size += 1


cdef bytes next_prefix(const uint8_t* data, size_t size):
    """The smallest byte string above all that start with these bytes; None when there is none."""
    cdef bytes result
    while size and data[size - 1] == 0xFF:
        size -= 1
    if size == 0:
        return None
    result = copy_of(data, size)
    # A fresh object that nobody else has seen yet.
    (<uint8_t*>PyBytes_AS_STRING(result))[size - 1] += 1
    return result


# ---- stored values ------------------------------------------------------------------------------

cdef inline int write_varint(uint8_t* out, uint64_t value) noexcept nogil:
    cdef int size = 0
    while value >= 0x80:
        out[size] = <uint8_t>(value | 0x80)
        value >>= 7
        size += 1
    out[size] = <uint8_t>value
    return size + 1


cdef int read_stored(bytes stored, uint64_t* item_size, const uint8_t** map_start) except -1:
    """Read what stands before a stored map: version and size."""
    cdef const uint8_t* p = start_of(stored)
    cdef const uint8_t* end = end_of(stored)
    cdef int shift = 0
    if p == end or p[0] != RECORD_VERSION:
        return damaged()
    p += 1
    item_size[0] = 0
    while True:
        if p == end or shift > 63:
            return damaged()
        item_size[0] |= <uint64_t>(p[0] & 0x7F) << shift
        if p[0] < 0x80:
            break
        shift += 7
        p += 1
    map_start[0] = p + 1
    return 0


@final
cdef class NameSet:
    """Attribute names sorted by their bytes, for walking along an item's names."""

    cdef tuple names             # of bytes, sorted; keeps what a walk borrows

    def __init__(self, names):
        self.names = tuple(sorted({name.encode() for name in names}))


cdef bytes store(bytes item, NameSet drop, NameSet keep):
    """Make the stored value of an item: without the names in `drop`; with a `keep` list, only the
    names in either list count (for size) and only those of `keep` are stored."""
    cdef Buffer out
    cdef Node node
    cdef Node key
    cdef Node value
    cdef const uint8_t* p
    cdef const uint8_t* after
    cdef const uint8_t* end = end_of(item)
    cdef size_t i
    cdef Py_ssize_t at_drop = 0
    cdef Py_ssize_t at_keep = 0
    cdef bint is_dropped
    cdef bint is_kept
    cdef size_t count = 0
    cdef uint64_t item_size = 0
    cdef int64_t one
    cdef uint8_t head[1 + MAX_VARINT + MAX_MAP_HEADER]
    cdef int head_size
    if read_node(start_of(item), end, &node) < 0 or node.tag != TAG_M:
        damaged()
    p = node.body
    buffer_init(&out)
    try:
        out.size = sizeof(head)
        for i in range(node.size):
            if read_node(p, end, &key) < 0 or key.tag != TAG_S:
                damaged()
            is_dropped = advance(drop.names, &at_drop, &key)
            is_kept = True if keep is None else advance(keep.names, &at_keep, &key)
            after = NULL
            one = size_value(key.body + key.size, end, &after)
            if one < 0:
                damaged()
            if is_dropped or is_kept:
                item_size += key.size + one
            if is_kept and not is_dropped:
                buffer_put(&out, p, after - p)
                count += 1
            p = after
        if p != end:
            damaged()
        head[0] = RECORD_VERSION
        head_size = 1 + write_varint(head + 1, item_size)
        head_size += write_map_header(head + head_size, count)
        memcpy(out.data + sizeof(head) - head_size, head, head_size)
        return copy_of(
            out.data + sizeof(head) - head_size, out.size - sizeof(head) + head_size
        )
    finally:
        buffer_free(&out)


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


cdef int put_key_attribute(
    Buffer* out, const KeyAttribute* attribute, const uint8_t* data, size_t size
) except -1:
    """Write a name and its key value as a pair of an encoded map."""
    cdef uint8_t* p = buffer_reserve(out, attribute.name_size + size + 12)
    cdef uint8_t* start = p
    p += write_str_header(p, attribute.name_size)
    memcpy(p, attribute.name, attribute.name_size)
    p += attribute.name_size
    if attribute.tag == TAG_S:
        p += write_str_header(p, size)
    elif attribute.tag == TAG_B:
        p += write_bin_header(p, size)
    else:
        p += write_ext_header(p, size, EXT_N)
    memcpy(p, data, size)
    p += size
    out.size += p - start
    return 0


# A value found in a tree key: where its plain bytes are.
cdef struct KeyPart:
    const uint8_t* data          # borrowed: from the tree key, or from the call's buffer
    size_t size


cdef bytes joined(
    const KeyAttribute** attributes, const KeyPart* parts, int count, const uint8_t* map_start,
    const uint8_t* end
):
    """Merge key attributes (sorted by name) into a stored map."""
    cdef Buffer out
    cdef Node node
    cdef Node key
    cdef Node value
    cdef const uint8_t* p
    cdef const uint8_t* after
    cdef const uint8_t* copied
    cdef size_t i
    cdef int at = 0
    cdef int order
    if read_node(map_start, end, &node) < 0 or node.tag != TAG_M:
        damaged()
    buffer_init(&out)
    try:
        out.size += write_map_header(buffer_reserve(&out, MAX_MAP_HEADER), node.size + count)
        p = node.body
        copied = p
        for i in range(node.size):
            if at == count:
                break
            if read_node(p, end, &key) < 0 or key.tag != TAG_S:
                damaged()
            while at < count:
                order = compare_bytes(
                    attributes[at].name, attributes[at].name_size, key.body, key.size
                )
                if order == 0:
                    damaged()
                if order > 0:
                    break
                buffer_put(&out, copied, p - copied)
                copied = p
                put_key_attribute(&out, attributes[at], parts[at].data, parts[at].size)
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
                put_key_attribute(&out, attributes[at], parts[at].data, parts[at].size)
                at += 1
        buffer_put(&out, copied, end - copied)
        return copy_of(out.data, out.size)
    finally:
        buffer_free(&out)


cdef class KeySchema:
    """Key attributes with their names held; the base of TableKeys and IndexKeys."""

    cdef list _names             # of bytes; what KeyAttribute.name borrows
    cdef KeyAttribute attributes[MAX_KEY_ATTRIBUTES]
    cdef int count

    cdef int add(self, name, type_name, bint is_hash) except -1:
        cdef bytes encoded = name.encode()
        if type_name not in ("S", "N", "B"):
            raise ValueError(f"key attributes are S, N or B, not {type_name!r}")
        if self.count == MAX_KEY_ATTRIBUTES:
            raise ValueError("too many key attributes")
        self._names.append(encoded)
        self.attributes[self.count].name = start_of(encoded)
        self.attributes[self.count].name_size = len(encoded)
        self.attributes[self.count].tag = TAG_NAMES.index(type_name)
        self.attributes[self.count].is_hash = is_hash
        self.count += 1
        return 0

    cdef int by_name(self, int start, int stop, int* order) except -1:
        """Indices of attributes[start:stop] sorted by name, one for each name. Returns: how many."""
        cdef int count = 0
        cdef dict first = {}
        for i in range(start, stop):
            first.setdefault(self._names[i], i)
        for name in sorted(first):
            order[count] = first[name]
            count += 1
        return count


cdef int find_key_value(
    const KeyAttribute* attribute, bytes item, Node* out
) except -1:
    """Returns: whether the item has the attribute."""
    cdef int found = find_attribute(
        start_of(item), end_of(item), attribute.name, attribute.name_size, out
    )
    if found < 0:
        return damaged()
    return found


cdef int check_map_shape(KeySchema schema, bytes key, int* order, int count) except -1:
    """Raise "schema" unless the encoded map holds exactly these attributes, of the right types."""
    cdef Node node
    cdef Node value
    cdef int i
    if read_node(start_of(key), end_of(key), &node) < 0:
        return damaged()
    if node.tag != TAG_M or node.size != <size_t>count:
        raise KeyProblem("schema")
    for i in range(count):
        if not find_key_value(&schema.attributes[order[i]], key, &value):
            raise KeyProblem("schema", name_of(&schema.attributes[order[i]]))
        if value.tag != schema.attributes[order[i]].tag:
            raise KeyProblem("schema", name_of(&schema.attributes[order[i]]))
    return 0


cdef tuple hash_bounds(segment, total):
    """Bounds of one of `total` equal parts of the hash space; None above the last."""
    if not 0 <= segment < total:
        raise ValueError("segment must be in [0, total)")
    lower = -(-(segment << 64) // total)
    upper = -(-((segment + 1) << 64) // total)
    return (
        lower.to_bytes(HASH_BYTES, "big"),
        None if segment + 1 == total else upper.to_bytes(HASH_BYTES, "big"),
    )


def segment_of(bytes tree_key not None, total):
    """Return the parallel-scan segment (of `total`) that a tree key belongs to."""
    if len(tree_key) < HASH_BYTES:
        damaged()
    return int.from_bytes(tree_key[:HASH_BYTES], "big") * total >> 64


# ---- table keys ---------------------------------------------------------------------------------

@final
cdef class TableKeys(KeySchema):
    """The tree keys and stored values of one table."""

    cdef readonly tuple names
    cdef NameSet _dropped
    cdef int _order[2]           # the attributes' indices, sorted by name

    def __init__(self, partition_name, partition_type, sort_name=None, sort_type=None):
        self._names = []
        self.count = 0
        self.add(partition_name, partition_type, True)
        self.names = (partition_name,)
        if sort_name is not None:
            self.add(sort_name, sort_type, False)
            self.names = (partition_name, sort_name)
        self._dropped = NameSet(self.names)
        if self.by_name(0, self.count, self._order) != self.count:
            raise ValueError("partition key and sort key have the same name")

    cdef bytes tree_key(self, bytes item):
        cdef Node pk
        cdef Node sk
        cdef bytes result
        cdef uint8_t* p
        sk.body = NULL
        sk.size = 0
        if not find_key_value(&self.attributes[0], item, &pk):
            raise_key_problem("missing", &self.attributes[0], TAG_BAD, 0)
        check_key_value(&self.attributes[0], &pk)
        if self.count == 2:
            if not find_key_value(&self.attributes[1], item, &sk):
                raise_key_problem("missing", &self.attributes[1], TAG_BAD, 0)
            check_key_value(&self.attributes[1], &sk)
        result = PyBytes_FromStringAndSize(NULL, HASH_BYTES + 2 + pk.size + sk.size)
        p = <uint8_t*>PyBytes_AS_STRING(result)
        write_hash(p, hash64(pk.body, pk.size))
        p[8] = <uint8_t>(pk.size >> 8)
        p[9] = <uint8_t>pk.size
        memcpy(p + 10, pk.body, pk.size)
        if sk.size:
            memcpy(p + 10 + pk.size, sk.body, sk.size)
        return result

    cdef int split(self, bytes tree_key, KeyPart* parts) except -1:
        """Find partition key and sort key in a tree key."""
        cdef const uint8_t* p = start_of(tree_key) + HASH_BYTES
        cdef const uint8_t* end = end_of(tree_key)
        cdef Node pk
        if PyBytes_GET_SIZE(tree_key) < HASH_BYTES:
            return damaged()
        take_length_prefixed(&p, end, &pk)
        parts[0].data = pk.body
        parts[0].size = pk.size
        parts[1].data = p
        parts[1].size = end - p
        if self.count == 1 and p != end:
            return damaged()
        return 0

    cdef bytes with_map(self, bytes tree_key, const uint8_t* map_start, const uint8_t* end):
        cdef KeyPart parts[2]
        cdef KeyPart sorted_parts[2]
        cdef const KeyAttribute* attributes[2]
        cdef int i
        self.split(tree_key, parts)
        for i in range(self.count):
            attributes[i] = &self.attributes[self._order[i]]
            sorted_parts[i] = parts[self._order[i]]
        return joined(attributes, sorted_parts, self.count, map_start, end)

    def encode(self, bytes item not None):
        """Return the tree key of an encoded item or key map; KeyProblem if it can have none."""
        return self.tree_key(item)

    def encode_key(self, bytes key not None):
        """Return the tree key of an encoded map of exactly the key attributes."""
        check_map_shape(self, key, self._order, self.count)
        return self.tree_key(key)

    def strip(self, bytes item not None):
        """Return the stored value of an encoded item."""
        return store(item, self._dropped, None)

    def record(self, bytes item not None):
        """Return (tree key, stored value) of an encoded item."""
        return self.tree_key(item), store(item, self._dropped, None)

    def join(self, bytes tree_key not None, bytes stored not None):
        """Return the encoded item of a tree key and its stored value."""
        cdef uint64_t size = 0
        cdef const uint8_t* map_start = NULL
        read_stored(stored, &size, &map_start)
        return self.with_map(tree_key, map_start, end_of(stored))

    def key_item(self, bytes tree_key not None):
        """Return the encoded map of just the key attributes."""
        cdef uint8_t empty = 0x80
        return self.with_map(tree_key, &empty, &empty + 1)

    def stored_size(self, bytes stored not None):
        """Return DynamoDB's size of the whole item in bytes, from its stored value."""
        cdef uint64_t size = 0
        cdef const uint8_t* map_start = NULL
        read_stored(stored, &size, &map_start)
        return size

    def partition_prefix(self, bytes partition_value not None):
        """Return what all tree keys of one partition key start with."""
        cdef Node pk
        cdef bytes result
        cdef uint8_t* p
        read_operand(&self.attributes[0], partition_value, &pk)
        check_key_value(&self.attributes[0], &pk)
        result = PyBytes_FromStringAndSize(NULL, HASH_BYTES + 2 + pk.size)
        p = <uint8_t*>PyBytes_AS_STRING(result)
        write_hash(p, hash64(pk.body, pk.size))
        p[8] = <uint8_t>(pk.size >> 8)
        p[9] = <uint8_t>pk.size
        memcpy(p + 10, pk.body, pk.size)
        return result

    def sort_range(self, bytes prefix not None, op=None, operands=(), equalities=()):
        """Return (lower, upper) of the tree keys of a partition that satisfy a sort condition.

        lower is inclusive, upper exclusive. `op` is "=", "<", "<=", ">", ">=", "BETWEEN",
        "begins_with" or None; operands are encoded values. `equalities` exists for the sake of
        IndexKeys: at most one, the same as "=".
        """
        if equalities:
            if len(equalities) > 1 or op is not None:
                raise ValueError("a table has one sort attribute")
            op, operands = "=", equalities
        if op is None:
            return prefix, next_prefix(start_of(prefix), len(prefix))
        if self.count == 1:
            raise ValueError("the table has no sort key")
        return table_range(&self.attributes[1], prefix, op, operands)

    def hash_range(self, segment, total):
        """Return (lower, upper) of one segment of a parallel scan; upper is None at the end."""
        return hash_bounds(segment, total)


cdef tuple checked_operands(
    const KeyAttribute* attribute, str op, object operands, bint* is_prefix
):
    """Check number, types and sizes of operands; the sort key bytes they stand for."""
    cdef Node node
    cdef list result = []
    if op not in RANGE_OPERATORS:
        raise ValueError(f"unknown operator {op!r}")
    if len(operands) != (2 if op == "BETWEEN" else 1):
        raise ValueError(f"wrong number of operands for {op}: {len(operands)}")
    is_prefix[0] = op == "begins_with"
    if is_prefix[0] and attribute.tag == TAG_N:
        raise_key_problem("type", attribute, TAG_N, 0)
    for operand in operands:
        read_operand(attribute, operand, &node)
        if node.size == 0 and op == "=":
            raise_key_problem("empty", attribute, node.tag, 0)
        if node.size > MAX_SORT:
            raise_key_problem("too_long", attribute, node.tag, node.size)
        result.append(copy_of(node.body, node.size))
    return tuple(result)


cdef tuple table_range(const KeyAttribute* attribute, bytes prefix, str op, object operands):
    """The range of a sort key that is the raw end of its tree keys."""
    cdef bint is_prefix = False
    cdef tuple values = checked_operands(attribute, op, operands, &is_prefix)
    cdef bytes low = prefix + values[0]
    cdef bytes end = next_prefix(start_of(prefix), len(prefix))
    # Nothing lies between a byte string and itself followed by a zero.
    if op == "=":
        return low, low + b"\0"
    if op == "<":
        return prefix, low
    if op == "<=":
        return prefix, low + b"\0"
    if op == ">":
        return low + b"\0", end
    if op == ">=":
        return low, end
    if op == "BETWEEN":
        return low, prefix + values[1] + b"\0"
    return low, next_prefix(start_of(low), len(low))


# ---- index keys ---------------------------------------------------------------------------------

@final
cdef class IndexKeys(KeySchema):
    """The tree keys and stored values of one local or global secondary index.

    `names` are the key attributes of the index, then those of its table that are not among them:
    what a LastEvaluatedKey holds.
    """

    cdef readonly tuple names
    cdef readonly str kind
    cdef readonly TableKeys table
    cdef bint _is_local
    cdef int _hashes             # attributes[0:_hashes] are the index's hash attributes
    cdef int _ranges             # then so many range attributes, then those of the table
    cdef int _order[MAX_KEY_ATTRIBUTES]
    cdef int _order_count
    cdef NameSet _dropped        # every name the tree key holds
    cdef NameSet _kept           # None: all attributes are projected

    def __init__(self, kind, TableKeys table not None, hash_attributes, range_attributes, projection):
        if kind not in ("LSI", "GSI"):
            raise ValueError(f"unknown kind of index {kind!r}")
        if not 1 <= len(hash_attributes) <= 4 or len(range_attributes) > 4:
            raise ValueError("an index has 1 to 4 hash and 0 to 4 range attributes")
        self.kind = kind
        self.table = table
        self._is_local = kind == "LSI"
        self._names = []
        self.count = 0
        if self._is_local and (
            hash_attributes[0][0] != table.names[0]
            or len(hash_attributes) > 1
            or len(range_attributes) != 1
            or table.count != 2
        ):
            raise ValueError("an LSI has its table's partition key and one other sort key")
        self._hashes = len(hash_attributes)
        self._ranges = len(range_attributes)
        for name, type_name in hash_attributes:
            self.add(name, type_name, True)
        for name, type_name in range_attributes:
            self.add(name, type_name, False)
        for i, name in enumerate(table.names):
            self.add(name, TAG_NAMES[table.attributes[i].tag], i == 0)
        self._order_count = self.by_name(0, self.count, self._order)
        self.names = tuple(dict.fromkeys(name.decode() for name in self._names))
        self._dropped = NameSet(self.names)
        projection_type, included = projection
        if projection_type == "ALL":
            self._kept = None
        elif projection_type in ("KEYS_ONLY", "INCLUDE"):
            self._kept = NameSet(included if projection_type == "INCLUDE" else ())
        else:
            raise ValueError(f"unknown projection {projection_type!r}")

    cdef int collect(self, bytes item, Node* values) except -1:
        """Find and check all index key attributes. Returns: whether none is missing.

        Types and sizes are checked even when another attribute is missing.
        """
        cdef bint is_whole = True
        cdef int i
        for i in range(self._hashes + self._ranges):
            if find_key_value(&self.attributes[i], item, &values[i]):
                check_key_value(&self.attributes[i], &values[i])
            else:
                is_whole = False
        return is_whole

    cdef int put_table_key(self, Buffer* out, bytes item, bint with_partition) except -1:
        cdef Node value
        cdef int first = self._hashes + self._ranges
        cdef int i
        for i in range(first, self.count):
            if not find_key_value(&self.attributes[i], item, &value):
                return raise_key_problem("missing", &self.attributes[i], TAG_BAD, 0)
            check_key_value(&self.attributes[i], &value)
            if i > first:
                buffer_put(out, value.body, value.size)
            elif with_partition:
                put_length_prefixed(out, value.body, value.size)
        return 0

    cdef int put_hash_part(self, Buffer* out, const Node* values) except -1:
        """Write the hash and the hash attributes."""
        cdef int i
        buffer_reserve(out, HASH_BYTES)
        out.size = HASH_BYTES
        for i in range(self._hashes):
            put_length_prefixed(out, values[i].body, values[i].size)
        if self._is_local:
            # As in the table, so that an index entry falls into its item's partition.
            write_hash(out.data, hash64(values[0].body, values[0].size))
        else:
            write_hash(out.data, hash64(out.data + HASH_BYTES, out.size - HASH_BYTES))
        return 0

    cdef bytes tree_key(self, bytes item):
        """The tree key of an item, or None when it is not in the index."""
        cdef Node values[MAX_KEY_ATTRIBUTES]
        cdef Buffer out
        cdef int i
        if not self.collect(item, values):
            return None
        buffer_init(&out)
        try:
            self.put_hash_part(&out, values)
            for i in range(self._hashes, self._hashes + self._ranges):
                put_escaped(&out, &values[i], True)
            self.put_table_key(&out, item, not self._is_local)
            return copy_of(out.data, out.size)
        finally:
            buffer_free(&out)

    cdef int split(self, bytes tree_key, KeyPart* parts, Buffer* room) except -1:
        """Find the values of all attributes in a tree key; unescaped ones go into `room`."""
        cdef const uint8_t* p = start_of(tree_key) + HASH_BYTES
        cdef const uint8_t* end = end_of(tree_key)
        cdef Node value
        cdef size_t starts[MAX_KEY_ATTRIBUTES]
        cdef int first = self._hashes + self._ranges
        cdef int i
        if PyBytes_GET_SIZE(tree_key) < HASH_BYTES:
            return damaged()
        for i in range(self._hashes):
            take_length_prefixed(&p, end, &value)
            parts[i].data = value.body
            parts[i].size = value.size
        for i in range(self._hashes, first):
            starts[i] = room.size
            take_escaped(&p, end, self.attributes[i].tag, room)
            parts[i].size = room.size - starts[i]
        for i in range(self._hashes, first):
            parts[i].data = room.data + starts[i]
        if self._is_local:
            parts[first] = parts[0]
        else:
            take_length_prefixed(&p, end, &value)
            parts[first].data = value.body
            parts[first].size = value.size
        if self.count == first + 2:
            parts[first + 1].data = p
            parts[first + 1].size = end - p
        elif p != end:
            return damaged()
        return 0

    cdef bytes with_map(self, bytes tree_key, const uint8_t* map_start, const uint8_t* end):
        cdef KeyPart parts[MAX_KEY_ATTRIBUTES]
        cdef KeyPart sorted_parts[MAX_KEY_ATTRIBUTES]
        cdef const KeyAttribute* attributes[MAX_KEY_ATTRIBUTES]
        cdef Buffer room
        cdef int i
        buffer_init(&room)
        try:
            self.split(tree_key, parts, &room)
            for i in range(self._order_count):
                attributes[i] = &self.attributes[self._order[i]]
                sorted_parts[i] = parts[self._order[i]]
            return joined(attributes, sorted_parts, self._order_count, map_start, end)
        finally:
            buffer_free(&room)

    def encode(self, bytes item not None):
        """Return the tree key of an encoded item, or None when the item is not in the index."""
        return self.tree_key(item)

    def encode_key(self, bytes key not None):
        """Return the tree key of an encoded map of exactly `names` (an ExclusiveStartKey)."""
        check_map_shape(self, key, self._order, self._order_count)
        return self.tree_key(key)

    def entry(self, bytes item not None):
        """Return (tree key, stored value) of an encoded item, or None when it is not in the index.

        Raises: KeyProblem for an index key attribute of the wrong type, empty or too long.
        """
        tree_key = self.tree_key(item)
        if tree_key is None:
            return None
        return tree_key, store(item, self._dropped, self._kept)

    def join(self, bytes tree_key not None, bytes stored not None):
        """Return the encoded projected item of a tree key and its stored value."""
        cdef uint64_t size = 0
        cdef const uint8_t* map_start = NULL
        read_stored(stored, &size, &map_start)
        return self.with_map(tree_key, map_start, end_of(stored))

    def key_item(self, bytes tree_key not None):
        """Return the encoded map of `names`: index key and table key."""
        cdef uint8_t empty = 0x80
        return self.with_map(tree_key, &empty, &empty + 1)

    def table_key(self, bytes tree_key not None):
        """Return the table's tree key of the item that an index entry belongs to."""
        cdef KeyPart parts[MAX_KEY_ATTRIBUTES]
        cdef Buffer room
        cdef Buffer out
        cdef int first = self._hashes + self._ranges
        buffer_init(&room)
        buffer_init(&out)
        try:
            self.split(tree_key, parts, &room)
            write_hash(buffer_reserve(&out, HASH_BYTES), hash64(parts[first].data, parts[first].size))
            out.size = HASH_BYTES
            put_length_prefixed(&out, parts[first].data, parts[first].size)
            if self.count == first + 2:
                buffer_put(&out, parts[first + 1].data, parts[first + 1].size)
            return copy_of(out.data, out.size)
        finally:
            buffer_free(&room)
            buffer_free(&out)

    def stored_size(self, bytes stored not None):
        """Return DynamoDB's size of the projected item in bytes, from its stored value."""
        return self.table.stored_size(stored)

    def partition_prefix(self, *values):
        """Return what all tree keys of one partition start with: one encoded value for each hash
        attribute."""
        cdef Node nodes[MAX_KEY_ATTRIBUTES]
        cdef Buffer out
        if len(values) != self._hashes:
            raise ValueError(f"the index has {self._hashes} hash attributes, not {len(values)}")
        for i, value in enumerate(values):
            read_operand(&self.attributes[i], value, &nodes[i])
            check_key_value(&self.attributes[i], &nodes[i])
        buffer_init(&out)
        try:
            self.put_hash_part(&out, nodes)
            return copy_of(out.data, out.size)
        finally:
            buffer_free(&out)

    def sort_range(self, bytes prefix not None, op=None, operands=(), equalities=()):
        """Return (lower, upper) of the tree keys of a partition that satisfy a sort condition.

        `equalities` are encoded values of the leading range attributes; `op` and operands (as in
        TableKeys.sort_range) apply to the range attribute after them.
        """
        cdef bytes base
        cdef int at = self._hashes + <int>len(equalities)
        if len(equalities) + (op is not None) > self._ranges:
            raise ValueError(f"the index has {self._ranges} range attributes")
        base = prefix
        for i, value in enumerate(equalities):
            base += escaped_operand(&self.attributes[self._hashes + i], "=", value)
        if op is None:
            return base, next_prefix(start_of(base), len(base))
        return index_range(&self.attributes[at], base, op, operands)

    def hash_range(self, segment, total):
        """Return (lower, upper) of one segment of a parallel scan; upper is None at the end."""
        return hash_bounds(segment, total)


cdef bytes escaped_operand(const KeyAttribute* attribute, str op, bytes operand):
    """The escaped bytes an operand stands for, ended unless they are a prefix."""
    cdef bint is_prefix = False
    cdef Node node
    cdef Buffer out
    checked_operands(attribute, op, (operand,), &is_prefix)
    read_operand(attribute, operand, &node)
    buffer_init(&out)
    try:
        put_escaped(&out, &node, not is_prefix)
        return copy_of(out.data, out.size)
    finally:
        buffer_free(&out)


cdef tuple index_range(const KeyAttribute* attribute, bytes base, str op, object operands):
    """The range of a range attribute that is followed by other parts in its tree keys."""
    cdef bint is_prefix = False
    cdef bytes low
    cdef bytes high
    checked_operands(attribute, op, operands, &is_prefix)
    low = base + escaped_operand(attribute, "begins_with" if is_prefix else "<", operands[0])
    end = next_prefix(start_of(base), len(base))
    # Every key with this value starts with `low`, which no other value's bytes start with.
    after = next_prefix(start_of(low), len(low))
    if op in ("=", "begins_with"):
        return low, after
    if op == "<":
        return base, low
    if op == "<=":
        return base, after
    if op == ">":
        return after, end
    if op == ">=":
        return low, end
    high = base + escaped_operand(attribute, "<", operands[1])
    return low, next_prefix(start_of(high), len(high))
