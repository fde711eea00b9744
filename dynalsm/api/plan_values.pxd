# The values of a plan. See plan_values.pyx.

from libc.stdint cimport uint32_t

cdef enum:
    MAX_SLOTS = 32               # values of a plan


cdef class PlanValues:
    cdef tuple names
    cdef int count
    cdef uint32_t masks[MAX_SLOTS]   # bit 1 << tag: the type is allowed
    cdef bint is_filled[MAX_SLOTS]   # S and B of at least a byte
    cdef tuple ranges
    cdef tuple tags

    # The encoded values in the order of their names; None when one does not do.
    cdef list take(self, dict given, int form)


# Some of the values, by their places.
cdef list chosen(list values, tuple places)
