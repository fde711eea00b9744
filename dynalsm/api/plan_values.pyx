"""The values that requests of one plan differ in: which names they have and what they may be.

A plan is kept for requests that have the same expressions, names and tables. What the long way
checks about their values is repeated here as conditions on types and places; values that break one
are no longer beyond doubt, and the long way tells what is wrong with them.

Thread safety: a PlanValues does not change after construction.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Size
from cpython.object cimport PyObject
from cython cimport final
from libc.stdint cimport uint8_t, uint32_t

from dynalsm.api.requests cimport encoded
from dynalsm.values.codec cimport Node, compare_bytes, read_node

from dynalsm.expressions.evaluate import TYPE_TAGS

cdef enum:
    # Values of this size count at most four times as much; with names it is below 2 MB.
    LARGE_BYTES = 480 * 1024

cdef tuple TAG_NAMES = ("", "S", "N", "B", "BOOL", "NULL", "L", "M", "SS", "NS", "BS")


@final
cdef class PlanValues:
    """Values are told by their place in `names`.

    `types` are pairs of a value and the types that it may have, `ranges` the bounds of a BETWEEN,
    `tags` values that must name a type, `filled` texts and binaries of at least a byte.
    """

    def __init__(self, names, *, types=(), ranges=(), tags=(), filled=()):
        cdef int i
        if len(names) > MAX_SLOTS:
            raise ValueError("too many values for a plan")
        self.names = tuple(names)
        self.count = len(names)
        for i in range(self.count):
            self.masks[i] = <uint32_t>-1
        for slot, allowed in types:
            self.masks[slot] &= mask_of(allowed)
        for slot in filled:
            self.is_filled[slot] = True
        self.ranges = tuple(ranges)
        self.tags = tuple(tags)

    cdef list take(self, dict given, int form):
        cdef Node nodes[MAX_SLOTS]
        cdef list values = []
        cdef bytes value
        cdef PyObject* found
        cdef int i
        cdef Py_ssize_t size = 0
        cdef int low
        cdef int high
        if PyDict_Size(given) != self.count:
            return None
        for i in range(self.count):
            found = PyDict_GetItemWithError(given, self.names[i])
            if found == NULL:
                return None
            try:
                value = encoded(<object>found, form)
            except (ValueError, TypeError):
                return None
            read_node(start_of(value), start_of(value) + PyBytes_GET_SIZE(value), &nodes[i])
            if not self.masks[i] >> nodes[i].tag & 1:
                return None
            if self.is_filled[i] and nodes[i].size == 0:
                return None
            values.append(value)
            size += PyBytes_GET_SIZE(value)
        if size > LARGE_BYTES:
            return None          # perhaps over the limit of all substitutions
        for low, high in self.ranges:
            if nodes[low].tag != nodes[high].tag or compare_bytes(
                nodes[low].body, nodes[low].size, nodes[high].body, nodes[high].size
            ) > 0:
                return None
        for i in self.tags:
            if (<const char*>nodes[i].body)[:nodes[i].size].decode() not in TYPE_TAGS:
                return None
        return values


cdef list chosen(list values, tuple places):
    cdef list found = []
    cdef Py_ssize_t place
    for place in places:
        found.append(values[place])
    return found


cdef inline const uint8_t* start_of(bytes data) noexcept:
    return <const uint8_t*>PyBytes_AS_STRING(data)


cdef uint32_t mask_of(names) except? 0:
    cdef uint32_t mask = 0
    for name in names:
        mask |= <uint32_t>1 << <int>TAG_NAMES.index(name)
    return mask
