# What close() of an engine has to end: its open cursors and snapshots, linked to each other.
#
# Opening one costs a few stores; a set of weak references cost more than reading twenty entries.
# Thread safety: all, by a mutex of the chain's own; it is taken last, and alone.
# Invariants: (1) the chain keeps nobody alive: whoever is closed or freed takes himself off;
#             (2) what is in the chain has not been freed, for who is being freed waits for the
#                 mutex to take himself off; so its reference count may be looked at under it.

cimport cython
from cpython.object cimport PyObject

from dynalsm._core.sync cimport (
    pthread_mutex_destroy,
    pthread_mutex_init,
    pthread_mutex_lock,
    pthread_mutex_unlock,
    sleep_ns,
)

cdef extern from *:
    """
    /* A reference to an object that another thread may be about to free; 0: it is. With the GIL
       nobody is: from the last reference to __dealloc__ it is not let go of. */
    #ifdef Py_GIL_DISABLED
    #define dynalsm_try_reference(object) PyUnstable_TryIncRef(object)
    #define dynalsm_allow_reference(object) PyUnstable_EnableTryIncRef(object)
    #else
    static inline int dynalsm_try_reference(PyObject* object) { Py_INCREF(object); return 1; }
    #define dynalsm_allow_reference(object) ((void)(object))
    #endif
    /* The reference becomes the caller's. */
    static inline PyObject* dynalsm_owned(PyObject* object) { return object; }
    """
    bint try_reference "dynalsm_try_reference"(PyObject* object)
    void allow_reference "dynalsm_allow_reference"(PyObject* object)
    object owned "dynalsm_owned"(PyObject* object)

cdef enum:
    FREEING_NS = 50000       # another thread is between the last reference and take_off


@cython.final
cdef class Chain:
    """Open handles, newest first."""

    def __cinit__(self):
        if pthread_mutex_init(&self.mutex, NULL):
            raise MemoryError()

    def __dealloc__(self):
        pthread_mutex_destroy(&self.mutex)

    cdef int close_all(self) except -1:
        cdef object handle
        while True:
            handle = self.first()
            if handle is None:
                return 0
            (<Handle>handle).end()

    cdef object first(self):
        """The newest, or None."""
        cdef PyObject* found
        while True:
            pthread_mutex_lock(&self.mutex)
            found = self.newest
            if found == NULL or try_reference(found):
                pthread_mutex_unlock(&self.mutex)
                return None if found == NULL else owned(found)
            pthread_mutex_unlock(&self.mutex)
            with nogil:
                sleep_ns(FREEING_NS)


# __dealloc__ of the classes below needs what they refer to: the collector of cycles must not
# clear them.
@cython.no_gc_clear
cdef class Handle:
    """A cursor or a snapshot. `close` of those below takes them off."""

    cdef void hang_on(self, Chain chain) noexcept:
        self.chain = chain
        allow_reference(<PyObject*>self)
        pthread_mutex_lock(&chain.mutex)
        self.is_open = True
        self.newer = NULL
        self.older = chain.newest
        if self.older != NULL:
            (<Handle>self.older).newer = <PyObject*>self
        chain.newest = <PyObject*>self
        pthread_mutex_unlock(&chain.mutex)

    cdef bint take_off(self) noexcept:
        cdef bint was_open
        if self.chain is None:
            return False
        pthread_mutex_lock(&self.chain.mutex)
        was_open = self.is_open
        if was_open:
            self.is_open = False
            if self.newer != NULL:
                (<Handle>self.newer).older = self.older
            else:
                self.chain.newest = self.older
            if self.older != NULL:
                (<Handle>self.older).newer = self.newer
        pthread_mutex_unlock(&self.chain.mutex)
        return was_open

    cdef int end(self) except -1:
        self.close()
        return 0

    def close(self):
        """Let go of what is held. Idempotent."""
        raise NotImplementedError
