# Vectors in memory, and the exact search among them. See vector_rows.pyx.
#
# Thread safety: a VectorQuery does not change after construction. VectorRows has no lock of its
# own: whoever changes rows excludes everybody else, readers may be several.

from libc.stdint cimport int32_t, uint8_t


cdef class VectorQuery:
    cdef readonly bytes floats
    cdef readonly str distance       # COSINE, EUCLIDEAN or DOT_PRODUCT
    cdef readonly double squares     # sum of the squares of its elements
    cdef int _code

    # Replace dot products (or squared distances) by ranks: the smaller, the nearer.
    cdef void rank_all(
        self, double* values, const double* squares, const long long* rows, size_t count
    ) noexcept nogil


cdef class VectorRows:
    cdef readonly int dimensions
    cdef readonly Py_ssize_t count   # rows in use, dead ones among them
    cdef readonly Py_ssize_t dead
    cdef Py_ssize_t _capacity        # rows there is memory for
    cdef bytes _name                 # of the vector attribute
    cdef int _width                  # tags of a row
    cdef float* _floats              # owned: _capacity * dimensions
    cdef double* _squares            # owned: of each row
    cdef int32_t* _tags              # owned: _capacity * _width; the first is 0 for a dead row

    cdef int resize(self, Py_ssize_t capacity) except -1
    cdef int check(self, Py_ssize_t row) except -1
    cdef Py_ssize_t pick(self, const int32_t* wanted, long long* out) noexcept nogil
    cdef list best(
        self, VectorQuery query, const long long* rows, Py_ssize_t count, Py_ssize_t limit
    )


# Where the floats of a stored entry are.
cdef const uint8_t* floats_of(bytes stored, bytes name, int dimensions) except NULL
