# The open cursors and snapshots of an engine. See chain.pyx.

from cpython.object cimport PyObject

from dynalsm._core.sync cimport pthread_mutex_t


cdef class Chain:
    cdef pthread_mutex_t mutex
    cdef PyObject* newest            # borrowed. Guarded by mutex.

    # End all that are open. REQUIRES: no call to the engine is under way, and none will be.
    cdef int close_all(self) except -1
    cdef object first(self)


cdef class Handle:
    cdef Chain chain
    # Guarded by the chain's mutex, as is what follows. Read without it where a moment later would
    # do as well.
    cdef bint is_open
    cdef PyObject* newer             # borrowed
    cdef PyObject* older             # borrowed

    cdef void hang_on(self, Chain chain) noexcept    # is_open from here on
    # No longer. Returns: whether it was open, which one thread only is told.
    cdef bint take_off(self) noexcept
    # close(), and if another thread is inside: when it has come out.
    cdef int end(self) except -1
