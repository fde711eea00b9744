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
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Size
from cpython.object cimport PyObject
from cython cimport final
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy

from dynalsm._core.hashing cimport hash64
from dynalsm.model.key_parts cimport (
    HASH_BYTES,
    MAX_KEY_ATTRIBUTES,
    KeyAttribute,
    KeyPart,
    KeySchema,
    check_key_value,
    copy_of,
    damaged,
    end_of,
    escaped_operand,
    find_key_value,
    index_range,
    next_prefix,
    put_escaped,
    put_length_prefixed,
    raise_key_problem,
    read_operand,
    start_of,
    table_range,
    take_escaped,
    take_length_prefixed,
    write_hash,
)
from dynalsm.model.plain_keys cimport plain_node
from dynalsm.model.stored cimport NameSet, joined, read_head, store
from dynalsm.values.buffer cimport Buffer, buffer_free, buffer_init, buffer_put, buffer_reserve
from dynalsm.values.codec cimport TAG_BAD, Node, Part
from dynalsm.values.decode cimport AS_JSON, HINTS, decode_record
from dynalsm.values.json_writer cimport put_json_record
from dynalsm.values.number cimport MAX_NUMBER_BYTES
from dynalsm.values.outline cimport release_hint

from orjson import Fragment

from dynalsm.model.key_parts import RANGE_OPERATORS, KeyProblem

__all__ = ["RANGE_OPERATORS", "IndexKeys", "KeyProblem", "TableKeys", "segment_of"]

cdef object FRAGMENT = Fragment
cdef tuple TAG_NAMES = ("", "S", "N", "B", "BOOL", "NULL", "L", "M", "SS", "NS", "BS")


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


cdef uint64_t size_of_stored(bytes stored) except? 0xFFFFFFFFFFFFFFFF:
    cdef uint64_t size = 0
    read_head(start_of(stored), end_of(stored), &size)
    return size


cdef class StoredKeys(KeySchema):
    """What the keys of tables and indexes have in common: reading back what was stored."""

    def __dealloc__(self):
        cdef int i
        for i in range(HINTS):
            release_hint(&self._hints[i])

    cdef int finish(self) except -1:
        cdef const KeyAttribute* attribute
        cdef int i
        self._order_count = self.by_name(self._order)
        self.names = tuple(dict.fromkeys([name.decode() for name in self._names]))
        self._dropped = NameSet(self.names)
        self._texts = [self._names[self._order[i]].decode() for i in range(self._order_count)]
        for i in range(self._order_count):
            attribute = &self.attributes[self._order[i]]
            self._parts[i].name = attribute.name
            self._parts[i].name_size = attribute.name_size
            self._parts[i].text = <PyObject*>self._texts[i]
            self._parts[i].value.tag = attribute.tag
        return 0

    cdef bytes tree_key(self, bytes item):
        raise NotImplementedError

    cdef bytes prefix_of(self, list values):
        raise NotImplementedError

    cdef tuple range_of(self, bytes prefix, str op, list operands, list equalities):
        raise NotImplementedError

    cdef int split(
        self, const uint8_t* key, size_t key_size, KeyPart* parts, Buffer* room
    ) except -1:
        raise NotImplementedError

    cdef int open_key(
        self, const uint8_t* key, size_t key_size, Part* out, Buffer* room
    ) except -1:
        cdef KeyPart parts[MAX_KEY_ATTRIBUTES]
        cdef int i
        self.split(key, key_size, parts, room)
        for i in range(self._order_count):
            out[i] = self._parts[i]
            out[i].value.body = parts[self._order[i]].data
            out[i].value.size = parts[self._order[i]].size
        return 0

    cdef int open_record(
        self, const uint8_t* key, size_t key_size, const uint8_t* stored, size_t stored_size,
        Record* out, Buffer* room
    ) except -1:
        out.end = stored + stored_size
        out.map_start = read_head(stored, out.end, &out.item_size)
        out.part_count = self._order_count
        return self.open_key(key, key_size, out.parts, room)

    cdef object decoded(self, const Record* record, int form):
        cdef Buffer out
        if form != AS_JSON:
            return decode_record(
                record.map_start, record.end, record.parts, record.part_count, form, self._hints
            )
        buffer_init(&out)
        try:
            put_json_record(
                &out, record.map_start, record.end, record.parts, record.part_count
            )
            return FRAGMENT(copy_of(out.data, out.size))
        finally:
            buffer_free(&out)

    cdef bytes encoded(self, const Record* record):
        return joined(record.parts, record.part_count, record.map_start, record.end)

    cdef bytes with_map(self, bytes tree_key, const uint8_t* map_start, const uint8_t* end):
        cdef Part parts[MAX_KEY_ATTRIBUTES]
        cdef Buffer room
        buffer_init(&room)
        try:
            self.open_key(start_of(tree_key), <size_t>PyBytes_GET_SIZE(tree_key), parts, &room)
            return joined(parts, self._order_count, map_start, end)
        finally:
            buffer_free(&room)

    cdef bytes whole(self, bytes tree_key, bytes stored):
        cdef uint64_t size = 0
        cdef const uint8_t* map_start = read_head(start_of(stored), end_of(stored), &size)
        return self.with_map(tree_key, map_start, end_of(stored))

    def join(self, bytes tree_key not None, bytes stored not None):
        """Return the encoded item (of an index: the projected item) that was stored."""
        return self.whole(tree_key, stored)

    cpdef object decode(self, bytes tree_key, bytes stored, int form):
        """Return the item that was stored, as forms.Form.kind says: what its decode_item makes of
        join(tree_key, stored)."""
        cdef Record record
        cdef Buffer room
        if tree_key is None or stored is None:
            raise TypeError("a tree key and a stored value are bytes")
        buffer_init(&room)
        try:
            self.open_record(
                start_of(tree_key), <size_t>PyBytes_GET_SIZE(tree_key),
                start_of(stored), <size_t>PyBytes_GET_SIZE(stored), &record, &room
            )
            return self.decoded(&record, form)
        finally:
            buffer_free(&room)

    def key_item(self, bytes tree_key not None):
        """Return the encoded map of just `names`."""
        cdef uint8_t empty = 0x80
        return self.with_map(tree_key, &empty, &empty + 1)

    def stored_size(self, bytes stored not None):
        """Return DynamoDB's size in bytes of what was stored under a key, key included."""
        return size_of_stored(stored)

    def sort_range(self, bytes prefix not None, op=None, operands=(), equalities=()):
        """Return (lower, upper) of the tree keys of a partition that satisfy a sort condition.

        lower is inclusive, upper exclusive. `op` is "=", "<", "<=", ">", ">=", "BETWEEN",
        "begins_with" or None; operands are encoded values. `equalities` are encoded values of the
        leading range attributes, `op` applies to the one after them; in a table, which has one,
        an equality is the same as "=".
        """
        return self.range_of(prefix, op, list(operands), list(equalities))

    def hash_range(self, segment, total):
        """Return (lower, upper) of one segment of a parallel scan; upper is None at the end."""
        return hash_bounds(segment, total)


# ---- table keys ---------------------------------------------------------------------------------

@final
cdef class TableKeys(StoredKeys):
    """The tree keys and stored values of one table. `names` are its key attributes."""

    def __init__(self, partition_name, partition_type, sort_name=None, sort_type=None):
        self.add(partition_name, partition_type, True)
        if sort_name is not None:
            self.add(sort_name, sort_type, False)
        self.finish()
        if self._order_count != self.count:
            raise ValueError("partition key and sort key have the same name")

    cdef bytes tree_key(self, bytes item):
        cdef Node pk
        cdef Node sk
        sk.body = NULL
        sk.size = 0
        if not find_key_value(&self.attributes[0], item, &pk):
            raise_key_problem("missing", &self.attributes[0], TAG_BAD, 0)
        if self.count == 2 and not find_key_value(&self.attributes[1], item, &sk):
            check_key_value(&self.attributes[0], &pk)
            raise_key_problem("missing", &self.attributes[1], TAG_BAD, 0)
        return self.key_of_nodes(&pk, &sk)

    cdef bytes plain_key(self, dict key, int form):
        cdef Node nodes[2]
        cdef uint8_t rooms[2][MAX_NUMBER_BYTES]
        cdef PyObject* value
        cdef int i
        if PyDict_Size(key) != self.count:
            return None
        nodes[1].body = NULL
        nodes[1].size = 0
        for i in range(self.count):
            value = PyDict_GetItemWithError(key, self.names[i])
            if value == NULL or not plain_node(
                <object>value, self.attributes[i].tag, form, rooms[i], &nodes[i]
            ):
                return None
        return self.key_of_nodes(&nodes[0], &nodes[1])

    cdef bytes key_of_nodes(self, const Node* pk, const Node* sk):
        """The tree key of two values; `sk` has no bytes if the table has no sort key."""
        cdef bytes result
        cdef uint8_t* p
        check_key_value(&self.attributes[0], pk)
        if self.count == 2:
            check_key_value(&self.attributes[1], sk)
        result = PyBytes_FromStringAndSize(NULL, HASH_BYTES + 2 + pk.size + sk.size)
        p = <uint8_t*>PyBytes_AS_STRING(result)
        write_hash(p, hash64(pk.body, pk.size))
        p[8] = <uint8_t>(pk.size >> 8)
        p[9] = <uint8_t>pk.size
        memcpy(p + 10, pk.body, pk.size)
        if sk.size:
            memcpy(p + 10 + pk.size, sk.body, sk.size)
        return result

    cdef int split(
        self, const uint8_t* key, size_t key_size, KeyPart* parts, Buffer* room
    ) except -1:
        cdef const uint8_t* p = key + HASH_BYTES
        cdef const uint8_t* end = key + key_size
        if key_size < HASH_BYTES:
            return damaged()
        take_length_prefixed(&p, end, &parts[0])
        parts[1].data = p
        parts[1].size = end - p
        if self.count == 1 and p != end:
            return damaged()
        return 0

    def encode(self, bytes item not None):
        """Return the tree key of an encoded item or key map; KeyProblem if it can have none."""
        return self.tree_key(item)

    def encode_key(self, bytes key not None):
        """Return the tree key of an encoded map of exactly the key attributes."""
        self.check_key(key)
        return self.tree_key(key)

    cdef int check_key(self, bytes key) except -1:
        return self.check_map(key, self._order, self._order_count)

    cdef bytes stored_of(self, bytes item):
        return store(item, self._dropped, None)

    def strip(self, bytes item not None):
        """Return the stored value of an encoded item."""
        return store(item, self._dropped, None)

    def record(self, bytes item not None):
        """Return (tree key, stored value) of an encoded item."""
        return self.tree_key(item), store(item, self._dropped, None)

    cdef bytes prefix_of(self, list values):
        cdef Node pk
        cdef bytes result
        cdef uint8_t* p
        read_operand(&self.attributes[0], values[0], &pk)
        check_key_value(&self.attributes[0], &pk)
        result = PyBytes_FromStringAndSize(NULL, HASH_BYTES + 2 + pk.size)
        p = <uint8_t*>PyBytes_AS_STRING(result)
        write_hash(p, hash64(pk.body, pk.size))
        p[8] = <uint8_t>(pk.size >> 8)
        p[9] = <uint8_t>pk.size
        memcpy(p + 10, pk.body, pk.size)
        return result

    cdef tuple range_of(self, bytes prefix, str op, list operands, list equalities):
        if equalities:
            if len(equalities) > 1 or op is not None:
                raise ValueError("a table has one sort attribute")
            op, operands = "=", equalities
        if op is None:
            return prefix, next_prefix(prefix)
        if self.count == 1:
            raise ValueError("the table has no sort key")
        return table_range(&self.attributes[1], prefix, op, operands)

    def partition_prefix(self, bytes partition_value not None):
        """Return what all tree keys of one partition key start with."""
        return self.prefix_of([partition_value])


# ---- index keys ---------------------------------------------------------------------------------

@final
cdef class IndexKeys(StoredKeys):
    """The tree keys and stored values of one local or global secondary index.

    `names` are the key attributes of the index, then those of its table that are not among them:
    what a LastEvaluatedKey holds.
    """

    def __init__(
        self, kind, TableKeys table not None, hash_attributes, range_attributes, projection
    ):
        if kind not in ("LSI", "GSI"):
            raise ValueError(f"unknown kind of index {kind!r}")
        if not 1 <= len(hash_attributes) <= 4 or len(range_attributes) > 4:
            raise ValueError("an index has 1 to 4 hash and 0 to 4 range attributes")
        self.kind = kind
        self.table = table
        self._is_local = kind == "LSI"
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
        self.finish()
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

    cdef int split(
        self, const uint8_t* key, size_t key_size, KeyPart* parts, Buffer* room
    ) except -1:
        cdef const uint8_t* p = key + HASH_BYTES
        cdef const uint8_t* end = key + key_size
        cdef size_t starts[MAX_KEY_ATTRIBUTES]
        cdef int first = self._hashes + self._ranges
        cdef int i
        if key_size < HASH_BYTES:
            return damaged()
        for i in range(self._hashes):
            take_length_prefixed(&p, end, &parts[i])
        for i in range(self._hashes, first):
            starts[i] = room.size
            take_escaped(&p, end, self.attributes[i].tag, room)
            parts[i].size = room.size - starts[i]
        for i in range(self._hashes, first):
            parts[i].data = room.data + starts[i]
        if self._is_local:
            parts[first] = parts[0]
        else:
            take_length_prefixed(&p, end, &parts[first])
        if self.count == first + 2:
            parts[first + 1].data = p
            parts[first + 1].size = end - p
        elif p != end:
            return damaged()
        return 0

    def encode(self, bytes item not None):
        """Return the tree key of an encoded item, or None when the item is not in the index."""
        return self.tree_key(item)

    def encode_key(self, bytes key not None):
        """Return the tree key of an encoded map of exactly `names` (an ExclusiveStartKey)."""
        self.check_map(key, self._order, self._order_count)
        return self.tree_key(key)

    def entry(self, bytes item not None):
        """Return (tree key, stored value) of an encoded item, or None when it is not in the index.

        Raises: KeyProblem for an index key attribute of the wrong type, empty or too long.
        """
        return self.entry_of(item)

    cdef tuple entry_of(self, bytes item):
        cdef bytes tree_key = self.tree_key(item)
        if tree_key is None:
            return None
        return tree_key, store(item, self._dropped, self._kept)

    cdef bytes table_key_of(self, const uint8_t* key, size_t key_size):
        cdef KeyPart parts[MAX_KEY_ATTRIBUTES]
        cdef Buffer room
        cdef Buffer out
        cdef int first = self._hashes + self._ranges
        buffer_init(&room)
        buffer_init(&out)
        try:
            self.split(key, key_size, parts, &room)
            write_hash(
                buffer_reserve(&out, HASH_BYTES), hash64(parts[first].data, parts[first].size)
            )
            out.size = HASH_BYTES
            put_length_prefixed(&out, parts[first].data, parts[first].size)
            if self.count == first + 2:
                buffer_put(&out, parts[first + 1].data, parts[first + 1].size)
            return copy_of(out.data, out.size)
        finally:
            buffer_free(&room)
            buffer_free(&out)

    def table_key(self, bytes tree_key not None):
        """Return the table's tree key of the item that an index entry belongs to."""
        return self.table_key_of(start_of(tree_key), <size_t>PyBytes_GET_SIZE(tree_key))

    cdef bytes prefix_of(self, list values):
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

    cdef tuple range_of(self, bytes prefix, str op, list operands, list equalities):
        cdef bytes base
        cdef int at = self._hashes + <int>len(equalities)
        if len(equalities) + (op is not None) > self._ranges:
            raise ValueError(f"the index has {self._ranges} range attributes")
        base = prefix
        for i, value in enumerate(equalities):
            base += escaped_operand(&self.attributes[self._hashes + i], "=", value)
        if op is None:
            return base, next_prefix(base)
        return index_range(&self.attributes[at], base, op, operands)

    def partition_prefix(self, *values):
        """Return what all tree keys of one partition start with: one encoded value for each hash
        attribute."""
        return self.prefix_of(list(values))
