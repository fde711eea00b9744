# The open cursors and snapshots of an engine. See chain.pyx.

from cpython.object cimport PyObject


cdef class Chain:
    cdef PyObject* newest            # borrowed

    cdef int close_all(self) except -1


cdef class Handle:
    cdef Chain chain
    cdef bint is_open
    cdef PyObject* newer             # borrowed
    cdef PyObject* older             # borrowed

    cdef void hang_on(self, Chain chain) noexcept    # is_open from here on
    cdef void take_off(self) noexcept                # and no longer. REQUIRES: is_open
