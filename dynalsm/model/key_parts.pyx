"""The pieces of tree keys: key attributes, their checks, escaping, ranges of sort keys.

The layout is described in keys.pyx and docs/format-items.md. Thread safety: functions are pure, a
KeySchema does not change after construction.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t
from libc.string cimport memchr, memcpy

from dynalsm.values.buffer cimport Buffer, buffer_free, buffer_init, buffer_put, buffer_reserve
from dynalsm.values.codec cimport TAG_M, TAG_N, Node, find_attribute, load_big16, read_node
from dynalsm.values.number cimport number_length

from dynalsm.errors import CorruptionError
from dynalsm.limits import PARTITION_KEY_MAX_BYTES, SORT_KEY_MAX_BYTES

cdef enum:
    MAX_PARTITION = 2048         # bytes; limits.PARTITION_KEY_MAX_BYTES
    MAX_SORT = 1024              # limits.SORT_KEY_MAX_BYTES
    ESCAPE = 0x00
    ESCAPED_ZERO = 0xFF
    TERMINATOR = 0x01

if (MAX_PARTITION, MAX_SORT) != (PARTITION_KEY_MAX_BYTES, SORT_KEY_MAX_BYTES):
    raise ImportError("dynalsm.limits and dynalsm.model disagree on the sizes of keys")

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


cdef int damaged() except -1:
    raise CorruptionError("damaged tree key or stored item")


cdef class KeySchema:
    """Key attributes with their names held; the base of TableKeys and IndexKeys."""

    def __cinit__(self):
        self._names = []
        self.count = 0

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

    cdef int by_name(self, int* order) except -1:
        cdef int count = 0
        cdef dict first = {}
        for i in range(self.count):
            first.setdefault(self._names[i], i)
        for name in sorted(first):
            order[count] = first[name]
            count += 1
        return count

    cdef int check_map(self, bytes key, const int* order, int count) except -1:
        cdef Node node
        cdef Node value
        cdef int i
        if read_node(start_of(key), end_of(key), &node) < 0:
            return damaged()
        if node.tag != TAG_M or node.size != <size_t>count:
            raise KeyProblem("schema")
        for i in range(count):
            if not find_key_value(&self.attributes[order[i]], key, &value) or (
                value.tag != self.attributes[order[i]].tag
            ):
                raise KeyProblem("schema", name_of(&self.attributes[order[i]]))
        return 0


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


# ---- parts of tree keys -------------------------------------------------------------------------

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


cdef int take_length_prefixed(const uint8_t** p, const uint8_t* end, KeyPart* out) except -1:
    cdef size_t size
    out.data = p[0]
    out.size = 0
    if end - p[0] < 2:
        return damaged()
    size = load_big16(p[0])
    out.data = p[0] + 2
    out.size = size
    if <size_t>(end - out.data) < size:
        return damaged()
    p[0] = out.data + size
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


cdef bytes next_prefix(bytes prefix):
    cdef const uint8_t* data = start_of(prefix)
    cdef size_t size = <size_t>PyBytes_GET_SIZE(prefix)
    cdef bytes result
    cdef uint8_t* out
    while size and data[size - 1] == 0xFF:
        size -= 1
    if size == 0:
        return None
    # Allocated here, hence not one of the interpreter's shared single bytes.
    result = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)
    out = <uint8_t*>PyBytes_AS_STRING(result)
    memcpy(out, data, size)
    out[size - 1] += 1
    return result


# ---- ranges -------------------------------------------------------------------------------------

cdef bytes glued(bytes prefix, const Node* node, bint with_zero):
    """A prefix, an operand's key bytes, and perhaps a zero: the next key after the two."""
    cdef size_t prefix_size = <size_t>PyBytes_GET_SIZE(prefix)
    cdef bytes result = PyBytes_FromStringAndSize(
        NULL, <Py_ssize_t>(prefix_size + node.size + with_zero)
    )
    cdef uint8_t* out = <uint8_t*>PyBytes_AS_STRING(result)
    memcpy(out, start_of(prefix), prefix_size)
    memcpy(out + prefix_size, node.body, node.size)
    if with_zero:
        out[prefix_size + node.size] = 0
    return result


cdef int read_operands(
    const KeyAttribute* attribute, str op, object operands, Node* nodes
) except -1:
    """Check number, types and sizes of one or two operands."""
    cdef int i = 0
    if op not in RANGE_OPERATORS:
        raise ValueError(f"unknown operator {op!r}")
    if len(operands) != (2 if op == "BETWEEN" else 1):
        raise ValueError(f"wrong number of operands for {op}: {len(operands)}")
    if attribute.tag == TAG_N and op == "begins_with":
        raise_key_problem("type", attribute, TAG_N, 0)
    for operand in operands:
        read_operand(attribute, operand, &nodes[i])
        if nodes[i].size == 0 and op == "=":
            raise_key_problem("empty", attribute, nodes[i].tag, 0)
        if nodes[i].size > MAX_SORT:
            raise_key_problem("too_long", attribute, nodes[i].tag, nodes[i].size)
        i += 1
    return 0


cdef tuple table_range(const KeyAttribute* attribute, bytes prefix, str op, object operands):
    """The range of a sort key that is the raw end of its tree keys."""
    cdef Node nodes[2]
    cdef bytes low
    read_operands(attribute, op, operands, nodes)
    # Nothing lies between a byte string and itself followed by a zero.
    if op == "BETWEEN":
        low = glued(prefix, &nodes[0], False)
        # An empty range when the bounds are the wrong way round.
        return low, max(low, glued(prefix, &nodes[1], True))
    if op == "=":
        return glued(prefix, &nodes[0], False), glued(prefix, &nodes[0], True)
    if op == "<":
        return prefix, glued(prefix, &nodes[0], False)
    if op == "<=":
        return prefix, glued(prefix, &nodes[0], True)
    if op == ">":
        return glued(prefix, &nodes[0], True), next_prefix(prefix)
    low = glued(prefix, &nodes[0], False)
    return low, next_prefix(prefix) if op == ">=" else next_prefix(low)


cdef bytes escaped_operand(const KeyAttribute* attribute, str op, bytes operand):
    """The escaped bytes an operand stands for, ended unless they are a prefix."""
    cdef Node node
    cdef Buffer out
    read_operands(attribute, op, (operand,), &node)
    buffer_init(&out)
    try:
        put_escaped(&out, &node, op != "begins_with")
        return copy_of(out.data, out.size)
    finally:
        buffer_free(&out)


cdef tuple index_range(const KeyAttribute* attribute, bytes base, str op, object operands):
    """The range of a range attribute that is followed by other parts in its tree keys."""
    cdef Node nodes[2]
    cdef bytes low
    cdef bytes high
    read_operands(attribute, op, operands, nodes)
    low = base + escaped_operand(
        attribute, "begins_with" if op == "begins_with" else "<", operands[0]
    )
    # Every key with this value starts with `low`, which no other value's bytes start with.
    after = next_prefix(low)
    if op in ("=", "begins_with"):
        return low, after
    if op == "<":
        return base, low
    if op == "<=":
        return base, after
    if op == ">":
        return after, next_prefix(base)
    if op == ">=":
        return low, next_prefix(base)
    high = next_prefix(base + escaped_operand(attribute, "<", operands[1]))
    return low, max(low, high)
