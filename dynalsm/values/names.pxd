# Sorting names and set members by their bytes. Header only.
#
# A Span is a borrowed run of bytes, with the Python object it lies in when that must be kept alive.
# Thread safety: none; an array of spans belongs to one call.

from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memcmp

cdef enum:
    INSERTION_SORT_LIMIT = 24    # above it, qsort does fewer comparisons

cdef struct Span:
    const uint8_t* data          # borrowed from owner
    size_t size
    uint64_t prefix              # the first eight bytes, big-endian, zeros behind the end
    PyObject* owner              # owned reference, or NULL
    PyObject* value              # owned reference: the map's value, or NULL


cdef inline uint64_t prefix_of(const uint8_t* data, size_t size) noexcept nogil:
    cdef uint64_t prefix = 0
    cdef size_t i
    if size >= 8:
        return (
            <uint64_t>data[0] << 56 | <uint64_t>data[1] << 48 | <uint64_t>data[2] << 40
            | <uint64_t>data[3] << 32 | <uint64_t>data[4] << 24 | <uint64_t>data[5] << 16
            | <uint64_t>data[6] << 8 | <uint64_t>data[7]
        )
    for i in range(size):
        prefix |= <uint64_t>data[i] << (56 - 8 * i)
    return prefix


cdef inline void set_span(Span* span, const uint8_t* data, size_t size) noexcept nogil:
    span.data = data
    span.size = size
    span.prefix = prefix_of(data, size)
    span.owner = NULL
    span.value = NULL


cdef inline int compare_spans(const Span* a, const Span* b) noexcept nogil:
    cdef int order
    if a.prefix != b.prefix:
        return 1 if a.prefix > b.prefix else -1
    order = memcmp(a.data, b.data, a.size if a.size < b.size else b.size)
    if order == 0:
        return (a.size > b.size) - (a.size < b.size)
    return order


cdef inline int compare_spans_for_qsort(const void* a, const void* b) noexcept nogil:
    return compare_spans(<const Span*>a, <const Span*>b)


# Sort in place. Returns: whether two spans are equal. The sorted case costs one pass.
cdef inline bint sort_spans(Span* spans, size_t count) noexcept nogil:
    cdef size_t i
    cdef size_t j
    cdef Span moving
    cdef bint is_sorted = True
    cdef bint has_equal = False
    cdef int order
    for i in range(1, count):
        order = compare_spans(&spans[i - 1], &spans[i])
        has_equal |= order == 0
        if order > 0:
            is_sorted = False
            break
    if is_sorted:
        return has_equal
    if count > INSERTION_SORT_LIMIT:
        qsort(spans, count, sizeof(Span), compare_spans_for_qsort)
    else:
        for i in range(1, count):
            if compare_spans(&spans[i - 1], &spans[i]) <= 0:
                continue
            moving = spans[i]
            j = i
            while j > 0 and compare_spans(&spans[j - 1], &moving) > 0:
                spans[j] = spans[j - 1]
                j -= 1
            spans[j] = moving
    for i in range(1, count):
        if compare_spans(&spans[i - 1], &spans[i]) == 0:
            return True
    return False


cdef inline void release_spans(Span* spans, size_t count) noexcept:
    cdef size_t i
    for i in range(count):
        Py_XDECREF(spans[i].owner)
        Py_XDECREF(spans[i].value)
