# The pieces of tree keys: key attributes, their checks, escaping, ranges. See keys.pyx.
#
# Thread safety: a KeySchema does not change after construction; Buffers belong to one call.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy

from dynalsm.values.buffer cimport Buffer, buffer_reserve
from dynalsm.values.codec cimport Node

cdef enum:
    HASH_BYTES = 8
    MAX_KEY_ATTRIBUTES = 10      # 4 + 4 of a multi-attribute index, 2 of its table

# One attribute of a key.
cdef struct KeyAttribute:
    const uint8_t* name          # borrowed from the KeySchema that holds the struct
    size_t name_size
    int tag                      # TAG_S, TAG_N or TAG_B
    bint is_hash

# A value found in a tree key: where its plain bytes are.
cdef struct KeyPart:
    const uint8_t* data          # borrowed: from the tree key, or from the call's buffer
    size_t size


# Key attributes with their names held; the base of TableKeys and IndexKeys.
cdef class KeySchema:
    cdef list _names             # of bytes; what KeyAttribute.name borrows
    cdef KeyAttribute attributes[MAX_KEY_ATTRIBUTES]
    cdef int count

    cdef int add(self, name, type_name, bint is_hash) except -1

    # Indices of all attributes sorted by name, one for each name. Returns: how many.
    cdef int by_name(self, int* order) except -1

    # Raise "schema" unless the encoded map holds exactly these attributes, of the right types.
    cdef int check_map(self, bytes key, const int* order, int count) except -1


cdef int damaged() except -1
cdef int raise_key_problem(
    str kind, const KeyAttribute* attribute, int actual, size_t size
) except -1

# Check type and size of a key attribute's value.
cdef int check_key_value(const KeyAttribute* attribute, const Node* node) except -1

# Read an encoded value that a key attribute is compared with.
cdef int read_operand(const KeyAttribute* attribute, bytes operand, Node* node) except -1

# Returns: whether the item has the attribute.
cdef int find_key_value(const KeyAttribute* attribute, bytes item, Node* out) except -1

# Write an S or B value escaped, an N value as it is.
cdef int put_escaped(Buffer* out, const Node* node, bint terminate) except -1

# Step over the part at *p, checking bounds.
cdef int take_length_prefixed(const uint8_t** p, const uint8_t* end, KeyPart* out) except -1

# Step over an escaped value, appending its plain bytes to `room`.
cdef int take_escaped(const uint8_t** p, const uint8_t* end, int tag, Buffer* room) except -1

# The smallest byte string above all that start with these bytes; None when there is none.
cdef bytes next_prefix(bytes prefix)

# The range of a sort key that is the raw end of its tree keys.
cdef tuple table_range(const KeyAttribute* attribute, bytes prefix, str op, object operands)

# The range of a range attribute that is followed by other parts in its tree keys.
cdef tuple index_range(const KeyAttribute* attribute, bytes base, str op, object operands)

# The escaped bytes an operand of "=" (or of another operator) stands for.
cdef bytes escaped_operand(const KeyAttribute* attribute, str op, bytes operand)


cdef inline const uint8_t* start_of(bytes data) noexcept:
    return <const uint8_t*>PyBytes_AS_STRING(data)


cdef inline const uint8_t* end_of(bytes data) noexcept:
    return <const uint8_t*>PyBytes_AS_STRING(data) + PyBytes_GET_SIZE(data)


cdef inline bytes copy_of(const uint8_t* data, size_t size):
    return PyBytes_FromStringAndSize(<const char*>data, <Py_ssize_t>size)


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
