# Writes: what is asked of one item. See item_writes.pyx.

from libc.stdint cimport int64_t, uint64_t

from dynalsm.expressions.changes cimport Changer
from dynalsm.model.handles cimport TableHandle
from dynalsm.model.keys cimport size_of_stored


# DynamoDB's size of an image in bytes; 0 when there is none.
cdef inline uint64_t size_or_zero(bytes stored) except? 0xFFFFFFFFFFFFFFFF:
    return size_of_stored(stored) if stored is not None else 0


# One item and what to do with it.
cdef class Write:
    cdef readonly TableHandle handle
    cdef readonly bytes key
    cdef public object condition     # a Judge, or what has `evaluate`; or None
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
    cdef object _update              # a bound update, or None
    cdef object _template            # what _update is made of when somebody asks for it, with
    cdef tuple _given                # these encoded values
    cdef Changer _changer            # None: only closures can apply it
    cdef public bint must_exist

    cdef bint apply_encoded(self) except -1
    cdef bint apply_decoded(self) except -1


# The same objects, made without the detour over Python's call. REQUIRES of a Put: the key is that
# of the item. Raises: IndexKeyProblem, ItemTooLarge.
cdef Put new_put(TableHandle handle, bytes key, bytes item, object condition)
cdef Delete new_delete(TableHandle handle, bytes key, object condition)
cdef Check new_check(TableHandle handle, bytes key, object condition)

# An update of these encoded values; `changer` applies it, or is None.
cdef Update new_update(
    TableHandle handle, bytes key, object template, tuple given, Changer changer, object condition
)
