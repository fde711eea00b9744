"""What a vector index takes out of items: the vector as 32-bit floats, checked and converted.

Items hold vectors as lists of numbers with all their digits. An index keeps the float nearest to
each (round to nearest, ties to even): its entry is that of an item whose vector attribute is
binary, the floats one after another, little-endian. A vector in an entry thus counts as its name
and four bytes a dimension, as AWS counts it (reference 1.2).

What cannot be indexed raises a KeyProblem of one of these kinds; refusals.py has the texts:

    vector_list      the vector attribute is no list
    vector_size      it has another number of elements (actual, size)
    vector_element   element `size` is of type `actual`
    vector_range     element `size` is the number `actual`, which no float is near to
    search_type      an attribute of the search schema has another type
    empty            the HASH attribute is an empty string or binary value

Thread safety: a VectorSource does not change after construction; functions are pure.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cython cimport final
from libc.math cimport fabs, isinf
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport strtof
from libc.string cimport memcmp, memcpy

from dynalsm.model.key_parts cimport copy_of, damaged, end_of, start_of
from dynalsm.values.buffer cimport (
    Buffer,
    buffer_free,
    buffer_init,
    buffer_reserve,
    write_array_header,
    write_ext_header,
)
from dynalsm.values.codec cimport (
    EXT_N,
    TAG_BAD,
    TAG_L,
    TAG_M,
    TAG_N,
    TAG_S,
    Node,
    read_node,
    size_value,
    skip_node,
)
from dynalsm.values.number cimport (
    MAX_NUMBER_BYTES,
    MAX_NUMBER_TEXT,
    Number,
    number_from_bytes,
    number_from_text,
    number_to_bytes,
    number_to_text,
)

from dynalsm.model.keys import KeyProblem
from dynalsm.values import encode_value, merge

cdef tuple TAG_NAMES = ("", "S", "N", "B", "BOOL", "NULL", "L", "M", "SS", "NS", "BS")

cdef enum:
    FLOAT_BYTES = 4
    MAX_WORD_DIGITS = 19         # so many decimal digits fit a uint64_t
    POWER_COUNT = 65
    MIN_FLOAT_DIGITS = 6         # FLT_DIG: so many digits survive a float that is not tiny
    MAX_FLOAT_DIGITS = 9         # so many always name one
    # Of a double: what float_of_number may be off by, in units of the last bit (it is 2 at most).
    SAFE_DISTANCE = 8

# Of a double: the 29 bits that a float has no room for, and where they say "exactly half way".
cdef int64_t LOST_BITS = 0x1FFFFFFF
cdef int64_t HALF_WAY = 0x10000000
cdef double MIN_NORMAL = 1.1754943508222875e-38  # below it floats have fewer bits
cdef double MAX_SURE = 3.4e38

cdef double[POWER_COUNT] POWERS
for _power in range(POWER_COUNT):
    POWERS[_power] = float(10**_power)


# ---- numbers and floats -------------------------------------------------------------------------

cdef float float_of_number(const Number* number) noexcept nogil:
    cdef uint64_t mantissa = 0
    cdef int64_t bits
    cdef double value
    cdef int taken = number.count if number.count < MAX_WORD_DIGITS else MAX_WORD_DIGITS
    cdef int power = number.exponent - taken + 1     # of the last digit taken
    cdef int i
    if number.count == 0:
        return 0.0
    if -POWER_COUNT < power < POWER_COUNT:
        for i in range(taken):
            mantissa = mantissa * 10 + number.digits[i]
        # Each step rounds once, so this double is two units off at most. The float nearest to it
        # is the one nearest to the number, unless the middle between two floats is that near.
        value = <double>mantissa
        value = value * POWERS[power] if power >= 0 else value / POWERS[-power]
        memcpy(&bits, &value, sizeof(bits))
        bits = (bits & LOST_BITS) - HALF_WAY
        if MIN_NORMAL <= value <= MAX_SURE and (bits > SAFE_DISTANCE or bits < -SAFE_DISTANCE):
            return -<float>value if number.negative else <float>value
    return float_by_text(number)


cdef float float_by_text(const Number* number) noexcept nogil:
    """The same through the C library, which rounds once. No point: locales differ about it."""
    cdef int power = number.exponent - number.count + 1
    cdef char[64] text
    cdef float value
    cdef int i
    for i in range(number.count):
        text[i] = <char>(c'0' + number.digits[i])
    snprintf(text + number.count, 16, "e%d", power)
    value = strtof(text, NULL)
    return -value if number.negative else value


cdef int number_of_float(float value, Number* out) noexcept nogil:
    """The shortest decimal number that names a float. Returns: a NUMBER_ code."""
    cdef char[40] text
    cdef int precision = 1 if fabs(value) < MIN_NORMAL else MIN_FLOAT_DIGITS
    for precision in range(precision, MAX_FLOAT_DIGITS + 1):
        snprintf(text, 40, "%.*e", precision - 1, <double>value)
        if strtof(text, NULL) == value:
            break
    precision = 0
    while text[precision]:
        if text[precision] == c',':
            text[precision] = c'.'      # some locales
        precision += 1
    return number_from_text(text, precision, out)


def vector_value(bytes floats not None):
    """Return a vector of an index as an encoded list of numbers: the shortest ones."""
    cdef Buffer out
    cdef Number number
    cdef uint8_t[MAX_NUMBER_BYTES] data
    cdef float value = 0.0
    cdef Py_ssize_t count = PyBytes_GET_SIZE(floats) // FLOAT_BYTES
    cdef Py_ssize_t at
    cdef uint8_t* p
    cdef int size
    buffer_init(&out)
    try:
        out.size = write_array_header(buffer_reserve(&out, 8), <size_t>count)
        for at in range(count):
            memcpy(&value, PyBytes_AS_STRING(floats) + at * FLOAT_BYTES, FLOAT_BYTES)
            if number_of_float(value, &number) != 0:
                damaged()
            size = number_to_bytes(&number, data)
            p = buffer_reserve(&out, <size_t>size + 8)
            out.size += write_ext_header(p, <size_t>size, EXT_N)
            memcpy(out.data + out.size, data, size)
            out.size += <size_t>size
        return copy_of(out.data, out.size)
    finally:
        buffer_free(&out)


def query_floats(list elements not None):
    """Return a search vector, given as encoded values, as floats; None when one is no float."""
    cdef bytes result = PyBytes_FromStringAndSize(NULL, len(elements) * FLOAT_BYTES)
    cdef Node node
    cdef Py_ssize_t at = 0
    cdef float value = 0.0
    for element in elements:
        if read_node(start_of(<bytes?>element), end_of(<bytes>element), &node) < 0:
            damaged()
        if node.tag != TAG_N or not float_of_node(&node, &value):
            return None
        memcpy(PyBytes_AS_STRING(result) + at, &value, FLOAT_BYTES)
        at += FLOAT_BYTES
    return result


cdef inline bint float_of_node(const Node* node, float* out) except -1:
    """Returns: whether the number is inside the range of floats."""
    cdef Number number
    if number_from_bytes(node.body, node.size, &number) != <int>node.size:
        return damaged()
    out[0] = float_of_number(&number)
    return not isinf(out[0])


# ---- items --------------------------------------------------------------------------------------

@final
cdef class VectorSource:
    """What one index takes out of items: its vector attribute and its search schema."""

    def __init__(self, str attribute not None, int dimensions, search_schema):
        """`search_schema`: (attribute name, HASH or INLINE_FILTER, S or N or B) in its order."""
        self.attribute = attribute
        self.dimensions = dimensions
        self._names = []
        self.hash_name = None
        self.filters = tuple([name for name, role, _ in search_schema if role != "HASH"])
        self.want(attribute, TAG_L)
        for name, role, type_name in search_schema:
            if role == "HASH":
                self.hash_name = name
                self._hash = self._count
            self.want(name, TAG_NAMES.index(type_name))

    cdef int want(self, name, int tag) except -1:
        """Look for one more attribute; part of construction."""
        cdef bytes encoded = name.encode()
        if self._count == MAX_SEARCH_ATTRIBUTES:
            raise ValueError("too many attributes in a search schema")
        self._names.append(encoded)
        self._wanted[self._count].name = PyBytes_AS_STRING(encoded)
        self._wanted[self._count].name_size = <size_t>PyBytes_GET_SIZE(encoded)
        self._wanted[self._count].tag = tag
        self._count += 1
        return 0

    cdef int find(self, bytes item, Node* found) except -1:
        cdef Node map_node
        cdef Node key
        cdef Node value
        cdef const uint8_t* p
        cdef const uint8_t* end = end_of(item)
        cdef size_t _
        cdef int i
        for i in range(self._count):
            found[i].tag = TAG_BAD
        if read_node(start_of(item), end, &map_node) < 0 or map_node.tag != TAG_M:
            return damaged()
        p = map_node.body
        for _ in range(map_node.size):
            if read_node(p, end, &key) < 0 or key.tag != TAG_S:
                return damaged()
            if read_node(key.body + key.size, end, &value) < 0:
                return damaged()
            for i in range(self._count):
                if key.size == self._wanted[i].name_size and (
                    memcmp(key.body, self._wanted[i].name, key.size) == 0
                ):
                    found[i] = value
            p = skip_node(&value, end)
            if p == NULL:
                return damaged()
        return 0

    cdef int check_search(self, int at, const Node* found) except -1:
        """Check an attribute of the search schema that the item has."""
        cdef str name = (<bytes>self._names[at]).decode()
        if found.tag != self._wanted[at].tag:
            raise KeyProblem(
                "search_type", name, TAG_NAMES[self._wanted[at].tag], TAG_NAMES[found.tag]
            )
        if at == self._hash and found.size == 0:
            raise KeyProblem("empty", name, TAG_NAMES[found.tag], TAG_NAMES[found.tag])
        return 0

    cdef bytes indexed(self, bytes item):
        cdef Node found[MAX_SEARCH_ATTRIBUTES]
        cdef bytes floats = None
        cdef int i
        self.find(item, found)
        if found[0].tag != TAG_BAD:
            floats = self.floats(&found[0], end_of(item))
        for i in range(1, self._count):
            if found[i].tag != TAG_BAD:
                self.check_search(i, &found[i])
        if floats is None or (self._hash and found[self._hash].tag == TAG_BAD):
            return None
        return merge(item, {self.attribute: encode_value(floats)})

    cdef bytes floats(self, const Node* vector, const uint8_t* end):
        """The vector of an item as floats. Raises: KeyProblem."""
        cdef bytes result
        cdef Node node
        cdef const uint8_t* p = vector.body
        cdef float value = 0.0
        cdef size_t i
        if vector.tag != TAG_L:
            raise KeyProblem("vector_list", self.attribute, "L", TAG_NAMES[vector.tag])
        if vector.size != <size_t>self.dimensions:
            raise KeyProblem(
                "vector_size", self.attribute, str(self.dimensions), str(vector.size)
            )
        result = PyBytes_FromStringAndSize(NULL, self.dimensions * FLOAT_BYTES)
        for i in range(vector.size):
            if read_node(p, end, &node) < 0:
                damaged()
            if node.tag != TAG_N:
                raise KeyProblem("vector_element", self.attribute, "N", TAG_NAMES[node.tag], i)
            if not float_of_node(&node, &value):
                raise KeyProblem("vector_range", self.attribute, "N", text_of(&node), i)
            memcpy(PyBytes_AS_STRING(result) + i * FLOAT_BYTES, &value, FLOAT_BYTES)
            p = node.body + node.size
        return result

    def index_item(self, bytes item not None):
        """Return an item as its index entry is made of, or None when it is not in the index.

        Raises: KeyProblem.
        """
        return self.indexed(item)

    def billed_difference(self, bytes item not None):
        """Return by how many bytes an item is billed as larger than it is when it is written.
        Writes are billed with the vector at four bytes a dimension (observed, reference 1.2).
        """
        cdef Node found[MAX_SEARCH_ATTRIBUTES]
        cdef const uint8_t* after = NULL
        cdef int64_t size_bytes
        self.find(item, found)
        if found[0].tag != TAG_L or found[0].size != <size_t>self.dimensions:
            return 0
        size_bytes = size_value(found[0].start, end_of(item), &after)
        return self.dimensions * FLOAT_BYTES - size_bytes


cdef str text_of(const Node* node):
    """A number as people read it."""
    cdef Number number
    cdef char[MAX_NUMBER_TEXT] text
    number_from_bytes(node.body, node.size, &number)
    return text[:number_to_text(&number, text)].decode()
