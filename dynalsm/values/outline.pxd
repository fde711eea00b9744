# Outline: the names of a map seen before. See outline.pyx.

from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

cdef enum:
    OUTLINE_MAX = 48             # names; maps with more are read without

# Where a place in a document keeps the outline of the last map it held.
cdef struct Hint:
    PyObject* outline            # owned reference to an Outline, or NULL
    uint32_t misses

cdef struct OutlineName:
    uint64_t word                # the first eight bytes of the encoded name, masked
    uint64_t mask
    const uint8_t* data          # the encoded name, header included; in the outline's memory
    size_t size
    int part                     # index of the attribute that stands outside the map, or -1
    Hint child                   # of the maps that the attribute holds


cdef class Outline:
    cdef size_t count
    cdef OutlineName* names      # owned
    cdef uint8_t* memory         # owned; what names[].data borrows
    cdef list texts              # the names as str
    cdef dict template           # name -> None
    # Where the values lie behind a template's copy's ma_keys; stride 0: use PyDict_SetItem.
    cdef Py_ssize_t offset
    cdef Py_ssize_t stride

    # A dict of these names and `count` values, whose references it takes over.
    cdef dict fill(self, PyObject** values)


# Keep the outline of a map that was read without one, now and then. `names` are all of its names
# in order; parts[i] says which outside attribute the i-th is, or -1.
cdef int note_names(Hint* hint, list names, const int* parts) except -1

cdef void release_hint(Hint* hint) noexcept


# Whether the encoded name stands at p.
cdef inline bint stands_at(
    const OutlineName* name, const uint8_t* p, const uint8_t* end
) noexcept nogil:
    cdef uint64_t word
    if end - p >= 8:
        memcpy(&word, p, 8)
        if (word ^ name.word) & name.mask:
            return False
        if name.size <= 8:
            return True
        return <size_t>(end - p) >= name.size and memcmp(p + 8, name.data + 8, name.size - 8) == 0
    return <size_t>(end - p) >= name.size and memcmp(p, name.data, name.size) == 0
