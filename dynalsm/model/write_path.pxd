# The write pipeline, compiled. See write_path.pyx.

from libc.stdint cimport uint64_t

from dynalsm._core.engine cimport Batch
from dynalsm.model.handles cimport TableHandle
from dynalsm.model.item_writes cimport Write
from dynalsm.model.stripes cimport StripeSet, Stripes


# Where items change.
cdef class WritePath:
    cdef readonly object engine
    # Whether operations are admitted, counted or filtered one by one: not by the straight way.
    cdef public bint is_watched
    cdef object _catalog
    cdef object _clock
    cdef object _collections
    cdef Stripes _stripes
    cdef Batch _spare                # empty; None while a write uses it

    # Run one write. Returns: the sequence number to wait for. Raises: as run().
    cdef uint64_t run_one(self, Write write) except? 0

    # Run writes to different items as one commit; a negative timeout waits for ever. Returns and
    # raises: as run_all().
    cdef uint64_t run_group(self, list writes, object extra, double timeout_seconds) except? 0

    cdef int check_current(self, TableHandle handle) except -1
    cdef object take_batch(self)
    cdef void give_batch(self, object batch) noexcept
    cdef int check_collection(self, Write write) except -1
    cdef int check_collections(self, list writes) except -1
    cdef int read_old_images(self, list writes) except -1
    cdef uint64_t known_seqno(self, int stripe) except? 0
    cdef uint64_t known_seqno_of_all(self, const StripeSet* stripes) except? 0
    cdef uint64_t commit_under_locks(self, const StripeSet* stripes, object batch) except? 0
