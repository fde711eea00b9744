# What close() of an engine has to end: its open cursors and snapshots, linked to each other.
#
# Opening one costs a few stores; a set of weak references cost more than reading twenty entries.
# Thread safety: guarded by the GIL, which is not let go of in here.
# Invariants: (1) the chain keeps nobody alive: whoever is closed or freed takes himself off;
#             (2) an object in the chain has not been freed, so a reference to it may be taken.

cimport cython
from cpython.object cimport PyObject


@cython.final
cdef class Chain:
    """Open handles, newest first."""

    cdef int close_all(self) except -1:
        while self.newest != NULL:
            (<Handle>self.newest).close()
        return 0


# __dealloc__ of the classes below needs what they refer to: the collector of cycles must not
# clear them.
@cython.no_gc_clear
cdef class Handle:
    """A cursor or a snapshot. `close` of those below takes them off."""

    cdef void hang_on(self, Chain chain) noexcept:
        self.chain = chain
        self.is_open = True
        self.newer = NULL
        self.older = chain.newest
        if self.older != NULL:
            (<Handle>self.older).newer = <PyObject*>self
        chain.newest = <PyObject*>self

    cdef void take_off(self) noexcept:
        self.is_open = False
        if self.newer != NULL:
            (<Handle>self.newer).older = self.older
        else:
            self.chain.newest = self.older
        if self.older != NULL:
            (<Handle>self.older).newer = self.newer

    def close(self):
        """Let go of what is held. Idempotent."""
        raise NotImplementedError
