# The straight way of writes, for that of transactions. See straight_writes.pyx.

from cpython.object cimport PyObject

from dynalsm.api.plan_values cimport PlanValues
from dynalsm.expressions.changes cimport ChangeProgram
from dynalsm.expressions.compiled cimport Judge, Program
from dynalsm.model.handles cimport TableHandle
from dynalsm.model.item_writes cimport Write

cdef enum:
    # An encoded byte counts for at most four bytes of DynamoDB's size.
    SIZE_FACTOR = 4

cdef frozenset OLD_VALUES        # what ReturnValuesOnConditionCheckFailure may be


cdef class WritePlan:
    cdef PlanValues values
    cdef Program condition           # or None
    cdef tuple condition_slots
    cdef object template             # of the update; or None
    cdef ChangeProgram changes       # None: only closures can apply the update
    cdef tuple change_slots

    cdef Judge judge(self, list values)
    cdef Write update_of(self, TableHandle handle, bytes key, list values, Judge judge)


cdef class Taken:
    cdef bytes encoded               # the item or key
    cdef WritePlan plan              # or None
    cdef list values                 # of the plan, encoded


# Whether a member is absent, or text among `allowed`.
cdef bint is_one_of(dict request, str name, frozenset allowed, Py_ssize_t* found) except -1

# The value of the only pair of a dict, and its name; None when there are others.
cdef object only_pair(dict source, PyObject** name)

# A write as its members ask for it; None when it needs a closer look. Raises: likewise. `taken`, if
# not None, learns what was read.
cdef Write made_write(
    str kind, TableHandle handle, dict request, int form, object limit_bytes, Taken taken,
    Py_ssize_t* found
)
