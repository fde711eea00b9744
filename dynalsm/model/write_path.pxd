# The write pipeline, compiled. See write_path.pyx.

from libc.stdint cimport int64_t, uint64_t

from dynalsm._core.engine cimport Batch
from dynalsm.model.handles cimport TableHandle
from dynalsm.model.stripes cimport StripeSet, Stripes


# One item and what to do with it.
cdef class Write:
    cdef readonly TableHandle handle
    cdef readonly bytes key
    cdef public object condition
    cdef public bint by_ttl
    cdef public bytes old_stored     # None: no item
    cdef public bytes new_stored
    cdef public list index_changes   # of the commit; None: no index was touched
    cdef public bint is_change
    cdef public bint is_failed
    cdef bytes _old_item             # None: not joined yet, or no item
    cdef bytes _new_item
    cdef list _entries               # index entries of the new image

    cpdef decide(self)
    cdef bytes old_image(self)
    cdef bytes new_image(self)
    cdef bint is_refused(self) except -1
    cdef int stage(self, object batch, object now) except -1
    cdef int count(self, uint64_t seqno) except -1
    cdef int64_t billed_size(self) except -1


cdef class Put(Write):
    pass


cdef class Delete(Write):
    pass


cdef class Check(Write):
    pass


cdef class Update(Write):
    cdef public object update        # a bound update, or None
    cdef public bint must_exist

    cdef bytes apply(self, bytes old_item)


# Where items change.
cdef class WritePath:
    cdef readonly object engine
    cdef object _catalog
    cdef object _clock
    cdef object _collections
    cdef Stripes _stripes
    cdef Batch _spare                # empty; None while a write uses it

    cdef int check_current(self, TableHandle handle) except -1
    cdef object take_batch(self)
    cdef void give_batch(self, object batch) noexcept
    cdef int check_collection(self, Write write) except -1
    cdef int read_old_images(self, list writes) except -1
    cdef uint64_t known_seqno(self, int stripe) except? 0
    cdef uint64_t known_seqno_of_all(self, const StripeSet* stripes) except? 0
    cdef uint64_t commit_under_locks(self, const StripeSet* stripes, object batch) except? 0


cdef Put new_put(TableHandle handle, bytes key, bytes item, object condition)
