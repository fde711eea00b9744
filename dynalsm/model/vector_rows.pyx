"""Vectors in memory, one after another, and the exact search among them.

A row is a vector with a few small numbers beside it, its *tags*: values of filter attributes, as
whoever fills the rows numbers them (0: the item has no such attribute). A search looks at the rows
whose tags are the wanted ones.

Scores (reference 1.2) are computed in 64-bit floats over the 32-bit elements, and end inside the
range of 32-bit floats:

    COSINE        1 - cos, from 0 to 2; exactly 1 when either vector is zero; smaller is nearer
    EUCLIDEAN     the length of the difference; smaller is nearer
    DOT_PRODUCT   the dot product; larger is nearer

Inside, vectors are ordered by *rank*, which is the score, negated for DOT_PRODUCT.

Thread safety: see vector_rows.pxd. The GIL is released while rows are compared.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cython cimport final
from libc.float cimport FLT_MAX
from libc.math cimport sqrt
from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from dynalsm.model.key_parts cimport damaged, end_of, start_of
from dynalsm.model.stored cimport read_head
from dynalsm.values.codec cimport TAG_B, Node, find_attribute

cdef extern from "vector_kernel.h" nogil:
    void vector_dots(
        const float* matrix, size_t dimensions, const float* query, const long long* rows,
        size_t count, double* out
    )
    void vector_gaps(
        const float* matrix, size_t dimensions, const float* query, const long long* rows,
        size_t count, double* out
    )

cdef enum:
    COSINE = 0
    EUCLIDEAN = 1
    DOT_PRODUCT = 2
    FLOAT_BYTES = 4
    MIN_CAPACITY = 64
    MAX_TAGS = 19                # the dead mark, and limits.VECTOR_MAX_FILTERS
    ANY_TAG = -1

cdef dict CODES = {"COSINE": COSINE, "EUCLIDEAN": EUCLIDEAN, "DOT_PRODUCT": DOT_PRODUCT}


cdef const uint8_t* floats_of(bytes stored, bytes name, int dimensions) except NULL:
    cdef uint64_t size = 0
    cdef Node node = Node(0, False, NULL, NULL, 0)
    cdef const uint8_t* end = end_of(stored)
    cdef const uint8_t* map_start = read_head(start_of(stored), end, &size)
    cdef int found = find_attribute(
        map_start, end, start_of(name), <size_t>PyBytes_GET_SIZE(name), &node
    )
    if found != 1 or node.tag != TAG_B or node.size != <size_t>(dimensions * FLOAT_BYTES):
        damaged()
    return node.body


def entry_floats(bytes stored not None, bytes name not None, int dimensions):
    """Return the vector in a stored entry as its bytes; `name`: its attribute, UTF-8."""
    return PyBytes_FromStringAndSize(
        <const char*>floats_of(stored, name, dimensions), dimensions * FLOAT_BYTES
    )


@final
cdef class VectorQuery:
    """A search vector and the distance that is asked for."""

    def __init__(self, bytes floats not None, str distance not None):
        self.floats = floats
        self.distance = distance
        self._code = CODES[distance]
        vector_dots(
            <const float*>PyBytes_AS_STRING(floats), len(floats) // FLOAT_BYTES,
            <const float*>PyBytes_AS_STRING(floats), NULL, 1, &self.squares
        )

    cdef void rank_all(
        self, double* values, const double* squares, const long long* rows, size_t count
    ) noexcept nogil:
        cdef double most = FLT_MAX
        cdef double value
        cdef double other
        cdef size_t i
        for i in range(count):
            value = values[i]
            if self._code == COSINE:
                other = squares[rows[i] if rows != NULL else <long long>i]
                # The root of a square is exact, so equal vectors are exactly 0 apart.
                if self.squares == 0.0 or other == 0.0:
                    value = 1.0
                else:
                    value = 1.0 - value / sqrt(self.squares * other)
                    value = 0.0 if value < 0.0 else 2.0 if value > 2.0 else value
            elif self._code == EUCLIDEAN:
                value = sqrt(value)
            else:
                value = -value
            values[i] = most if value > most else -most if value < -most else value

    def score(self, double rank):
        """Return the score that a rank stands for."""
        return (0.0 - rank) if self._code == DOT_PRODUCT else rank


@final
cdef class VectorRows:
    """Vectors of one length with their tags."""

    def __cinit__(self, int dimensions, str attribute not None, int tags):
        if not 0 <= tags < MAX_TAGS or dimensions < 1:
            raise ValueError("too many tags, or no dimensions")
        self.dimensions = dimensions
        self._name = attribute.encode()
        self._width = 1 + tags

    def __dealloc__(self):
        free(self._floats)
        free(self._squares)
        free(self._tags)

    cdef int resize(self, Py_ssize_t capacity) except -1:
        cdef void* floats
        cdef void* squares
        cdef void* tags
        floats = realloc(self._floats, capacity * self.dimensions * FLOAT_BYTES)
        if floats == NULL:
            raise MemoryError()
        self._floats = <float*>floats
        squares = realloc(self._squares, capacity * sizeof(double))
        if squares == NULL:
            raise MemoryError()
        self._squares = <double*>squares
        tags = realloc(self._tags, capacity * self._width * sizeof(int32_t))
        if tags == NULL:
            raise MemoryError()
        self._tags = <int32_t*>tags
        self._capacity = capacity
        return 0

    cdef int check(self, Py_ssize_t row) except -1:
        if not 0 <= row < self.count:
            raise IndexError(row)
        return 0

    @property
    def size_bytes(self):
        """The memory that the rows take."""
        return self._capacity * self.row_bytes

    @property
    def row_bytes(self):
        """The memory that one row takes."""
        return self.dimensions * FLOAT_BYTES + sizeof(double) + self._width * sizeof(int32_t)

    # Filling.

    def add(self, bytes stored not None, tags=()):
        """Append the vector of a stored entry; returns its row (dead, should this raise)."""
        if self.count == self._capacity:
            self.resize(max(MIN_CAPACITY, self._capacity + self._capacity // 2))
        self._tags[self.count * self._width] = 0
        self.count += 1
        self.dead += 1
        self.put(self.count - 1, stored, tags)
        return self.count - 1

    def put(self, Py_ssize_t row, bytes stored not None, tags=()):
        """Set a row to the vector of a stored entry."""
        cdef const uint8_t* source = floats_of(stored, self._name, self.dimensions)
        cdef float* floats
        cdef int32_t* own
        cdef int i
        self.check(row)
        if len(tags) != self._width - 1:
            raise ValueError("wrong number of tags")
        floats = self._floats + row * self.dimensions
        own = self._tags + row * self._width
        memcpy(floats, source, self.dimensions * FLOAT_BYTES)
        vector_dots(floats, self.dimensions, floats, NULL, 1, &self._squares[row])
        self.dead -= not own[0]
        own[0] = 1
        for i in range(1, self._width):
            own[i] = tags[i - 1]

    def kill(self, Py_ssize_t row):
        """Take a row out of all searches."""
        self.check(row)
        self.dead += self._tags[row * self._width]
        self._tags[row * self._width] = 0

    def clear(self):
        """Forget all rows, and keep their memory."""
        self.count = 0
        self.dead = 0

    def trim(self):
        """Give back memory that no row uses."""
        if self._capacity > self.count > 0:
            self.resize(self.count)

    # Reading.

    def squares(self, Py_ssize_t row):
        """Return the sum of the squares of a row's elements."""
        self.check(row)
        return self._squares[row]

    def gather(self, list rows not None):
        """Return the floats of some rows, one after another."""
        cdef Py_ssize_t size = self.dimensions * FLOAT_BYTES
        cdef bytes result = PyBytes_FromStringAndSize(NULL, len(rows) * size)
        cdef char* out = PyBytes_AS_STRING(result)
        for row in rows:
            self.check(row)
            memcpy(out, self._floats + <Py_ssize_t>row * self.dimensions, size)
            out += size
        return result

    cdef Py_ssize_t pick(self, const int32_t* wanted, long long* out) noexcept nogil:
        """Find the rows whose tags are the wanted ones. Returns: how many."""
        cdef Py_ssize_t count = 0
        cdef Py_ssize_t row
        cdef const int32_t* own = self._tags
        cdef int i
        for row in range(self.count):
            if own[0]:
                for i in range(1, self._width):
                    if wanted[i] != ANY_TAG and wanted[i] != own[i]:
                        break
                else:
                    out[count] = row
                    count += 1
            own += self._width
        return count

    def search(self, VectorQuery query not None, Py_ssize_t limit, tags=None):
        """Return (rank, row) of the `limit` nearest rows, in no order.

        All rows as far away as the last one are among them, so they may be more. `tags`: None, or
        for each tag the wanted number or -1 for any.
        """
        cdef int32_t[MAX_TAGS] wanted
        cdef long long* rows = NULL
        cdef Py_ssize_t count = self.count
        cdef int i
        if tags is None and not self.dead:
            return self.best(query, NULL, count, limit)
        for i in range(1, self._width):
            wanted[i] = ANY_TAG if tags is None else tags[i - 1]
        rows = <long long*>malloc((self.count + 1) * sizeof(long long))
        if rows == NULL:
            raise MemoryError()
        try:
            with nogil:
                count = self.pick(wanted, rows)
            return self.best(query, rows, count, limit)
        finally:
            free(rows)

    def count_matching(self, tags):
        """Return how many rows have these tags (-1: any)."""
        cdef int32_t[MAX_TAGS] wanted
        cdef long long* rows = <long long*>malloc((self.count + 1) * sizeof(long long))
        cdef int i
        if rows == NULL:
            raise MemoryError()
        for i in range(1, self._width):
            wanted[i] = tags[i - 1]
        try:
            return self.pick(wanted, rows)
        finally:
            free(rows)

    def matches(self, Py_ssize_t row, tags):
        """Return whether a row is alive and has these tags (None: whatever they are)."""
        cdef const int32_t* own
        cdef int i
        self.check(row)
        own = self._tags + row * self._width
        if not own[0]:
            return False
        if tags is not None:
            for i in range(1, self._width):
                if tags[i - 1] != ANY_TAG and tags[i - 1] != own[i]:
                    return False
        return True

    def search_among(self, VectorQuery query not None, Py_ssize_t limit, list among not None):
        """Return (rank, row) as `search` does, of these rows only. REQUIRES: they are alive."""
        cdef Py_ssize_t count = len(among)
        cdef long long* rows = <long long*>malloc((count + 1) * sizeof(long long))
        cdef Py_ssize_t i
        if rows == NULL:
            raise MemoryError()
        try:
            for i in range(count):
                rows[i] = among[i]
                self.check(<Py_ssize_t>rows[i])
            return self.best(query, rows, count, limit)
        finally:
            free(rows)

    cdef list best(
        self, VectorQuery query, const long long* rows, Py_ssize_t count, Py_ssize_t limit
    ):
        cdef const float* floats = <const float*>PyBytes_AS_STRING(query.floats)
        cdef double* ranks
        cdef double farthest = 0.0
        cdef list found = []
        cdef Py_ssize_t i
        if PyBytes_GET_SIZE(query.floats) != self.dimensions * FLOAT_BYTES:
            raise ValueError("the query has another number of dimensions")
        if count == 0 or limit < 1:
            return found
        ranks = <double*>malloc((count + limit) * sizeof(double))
        if ranks == NULL:
            raise MemoryError()
        try:
            with nogil:
                if query._code == EUCLIDEAN:
                    vector_gaps(self._floats, self.dimensions, floats, rows, count, ranks)
                else:
                    vector_dots(self._floats, self.dimensions, floats, rows, count, ranks)
                query.rank_all(ranks, self._squares, rows, count)
                farthest = nth_smallest(ranks, count, limit, ranks + count)
            for i in range(count):
                if ranks[i] <= farthest:
                    found.append((ranks[i], rows[i] if rows != NULL else i))
            return found
        finally:
            free(ranks)


cdef double nth_smallest(
    const double* values, Py_ssize_t count, Py_ssize_t n, double* heap
) noexcept nogil:
    """The n-th smallest value (or the largest, if they are fewer); `heap` has room for n."""
    cdef Py_ssize_t size = 0
    cdef Py_ssize_t at
    cdef Py_ssize_t child
    cdef Py_ssize_t i
    cdef double value
    for i in range(count):
        value = values[i]
        if size < n:
            at = size
            size += 1
            while at and heap[(at - 1) // 2] < value:
                heap[at] = heap[(at - 1) // 2]
                at = (at - 1) // 2
            heap[at] = value
        elif value < heap[0]:
            at = 0
            while True:
                child = 2 * at + 1
                if child >= size:
                    break
                if child + 1 < size and heap[child + 1] > heap[child]:
                    child += 1
                if heap[child] <= value:
                    break
                heap[at] = heap[child]
                at = child
            heap[at] = value
    return heap[0]


def entry_rank(VectorQuery query not None, bytes stored not None, bytes name not None):
    """Return the rank of a stored entry; `name`: its vector attribute, UTF-8."""
    cdef int dimensions = <int>(PyBytes_GET_SIZE(query.floats) // FLOAT_BYTES)
    cdef bytes floats = entry_floats(stored, name, dimensions)
    cdef const float* row = <const float*>PyBytes_AS_STRING(floats)
    cdef const float* wanted = <const float*>PyBytes_AS_STRING(query.floats)
    cdef double squares = 0.0
    cdef double rank = 0.0
    vector_dots(row, dimensions, row, NULL, 1, &squares)
    if query._code == EUCLIDEAN:
        vector_gaps(row, dimensions, wanted, NULL, 1, &rank)
    else:
        vector_dots(row, dimensions, wanted, NULL, 1, &rank)
    query.rank_all(&rank, &squares, NULL, 1)
    return rank
