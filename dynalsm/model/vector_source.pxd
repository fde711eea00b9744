# What a vector index takes out of items. See vector_source.pyx.
#
# Thread safety: a VectorSource does not change after construction.

from dynalsm.values.codec cimport Node
from dynalsm.values.number cimport Number

cdef enum:
    MAX_SEARCH_ATTRIBUTES = 20   # limits: one HASH and 18 INLINE_FILTER attributes, and the vector

# One attribute that the index looks at.
cdef struct Wanted:
    const char* name             # borrowed from VectorSource._names
    size_t name_size
    int tag                      # what it must be


cdef class VectorSource:
    cdef readonly str attribute
    cdef readonly int dimensions
    cdef readonly tuple filters          # names of the INLINE_FILTER attributes
    cdef readonly str hash_name          # of the HASH attribute, or None
    cdef list _names                     # of bytes; what Wanted.name borrows
    # The vector, then the search schema in its order.
    cdef Wanted _wanted[MAX_SEARCH_ATTRIBUTES]
    cdef int _count
    cdef int _hash                       # index of the HASH attribute in _wanted; 0: there is none

    cdef int want(self, name, int tag) except -1

    # The item with its vector as the index keeps it, or None when it is not in the index.
    cdef bytes indexed(self, bytes item)

    # Find all wanted attributes of an item; tag is TAG_BAD where it has none.
    cdef int find(self, bytes item, Node* found) except -1

    cdef int check_search(self, int at, const Node* found) except -1
    cdef bytes floats(self, const Node* vector, const unsigned char* end)


# The float nearest to a decimal number (ties to even); an infinity beyond the range.
cdef float float_of_number(const Number* number) noexcept nogil
