# How many items a tree holds and how large they are. See statistics.pyx.

from libc.stdint cimport int64_t, uint64_t

from dynalsm._core.sync cimport pthread_mutex_t


cdef class Statistics:
    cdef pthread_mutex_t _mutex
    # Guarded by _mutex: changes by commits above _base_seqno, on top of the base.
    cdef int64_t _items
    cdef int64_t _bytes
    cdef uint64_t _base_seqno
    # What items and bytes answer until a recount has finished; None: the counters themselves.
    cdef tuple _shown
    cdef public bint is_exact

    cdef void count(self, uint64_t seqno, int64_t items, int64_t size_bytes) noexcept
