# Updates applied to encoded items. See changes.pyx.

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t

from dynalsm.expressions.compiled cimport PathStep
from dynalsm.values.buffer cimport Buffer
from dynalsm.values.codec cimport Node, Part

cdef enum:
    MAX_CHANGES = 32             # attributes of one update; longer ones are left to update.py

cdef struct Term:                # where a value comes from
    int kind                     # a Kind of changes.pyx
    int first                    # the slot's number, or the first step of a path
    int count                    # of a path's steps
    int left                     # other terms
    int right

cdef struct Change:              # what happens to one attribute
    int section                  # a Section of changes.pyx
    PathStep target
    int term                     # -1: none

# An encoded value, wherever it was found or made.
cdef struct Value:
    const uint8_t* data          # borrowed from the item or a slot; NULL: in the room
    size_t offset                # in the room
    size_t size

# What an update reads, and where it makes new values.
cdef struct Scene:
    Node item
    const uint8_t* end           # of the item
    const Part* parts            # attributes that stand outside the item's map
    int part_count
    Buffer* room

cdef struct Outcome:
    int fate                     # a Fate of changes.pyx
    Value value


cdef class ChangeProgram:
    cdef Term* terms             # owned, as the other arrays
    cdef int term_count
    cdef Change* changes         # sorted by the bytes of their targets
    cdef int change_count
    cdef PathStep* path_steps
    cdef int path_step_count
    cdef list held               # bytes that path steps and targets borrow
    cdef readonly tuple constants    # encoded values of the slots behind those of a request
    cdef readonly int slot_count     # of a request
    cdef readonly bint only_removes  # nothing but REMOVE and DELETE

    cdef int take(self, writer) except -1


cdef class Changer:
    cdef ChangeProgram program
    cdef tuple values            # of bytes; what slots borrow

    cdef int take_values(self, ChangeProgram program, tuple values) except -1
    cdef int evaluate(self, int number, Scene* scene, Value* out) except -1
    cdef int calculated(self, const Term* term, Scene* scene, Value* out) except -1
    cdef int appended(self, const Term* term, Scene* scene, Value* out) except -1
    cdef int combined(
        self, const Change* change, Scene* scene, const Node* current, Outcome* out
    ) except -1
    cdef int outcome(self, const Change* change, Scene* scene, Outcome* out) except -1
    cdef int merge(
        self, const Outcome* outcomes, Scene* scene, Buffer* out, size_t* count, int64_t* growth
    ) except -1

    # Write the pairs of the changed map behind what `out` holds: of an item whose map fills
    # [p, end), with other attributes in `parts`, which stay as they are. count: pairs written.
    # growth: how much larger the item has become, in DynamoDB's bytes. Returns: whether it did;
    # False leaves the update, and all that may be wrong with it, to update.py.
    cdef bint apply(
        self, const uint8_t* p, const uint8_t* end, const Part* parts, int part_count,
        Buffer* out, size_t* count, int64_t* growth
    ) except -1


# The changer of a program whose slots are some of these encoded values.
cdef Changer changer_of(ChangeProgram program, list values, tuple slots)
