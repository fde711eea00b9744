# Conditions judged on encoded bytes. See compiled.pyx.

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t

from dynalsm.values.codec cimport Node, Part

cdef enum:
    BAD_BYTES = -1

cdef enum Op:
    OP_EQUAL = 0
    OP_LESS = 1                  # the first operand is less, and so on
    OP_LESS_EQUAL = 2
    OP_GREATER = 3
    OP_GREATER_EQUAL = 4
    OP_BETWEEN = 5
    OP_IN = 6                    # the first operand is one of the others
    OP_EXISTS = 7
    OP_TYPE = 8
    OP_BEGINS_WITH = 9
    OP_CONTAINS = 10
    # These work on the answer so far and have no operands.
    OP_NOT = 11
    OP_UNLESS = 12               # go on at `target` if it is no
    OP_IF = 13                   # go on at `target` if it is yes

cdef struct Step:                # one instruction
    int op                       # an Op
    int first                    # of its operands
    int count
    int target                   # of a jump: index of a later step, or behind the last

cdef struct Operand:
    int slot                     # the value's number, or -1: a path
    int first                    # of the path's steps
    int count
    bint is_size                 # size(operand)

cdef struct PathStep:
    const uint8_t* name          # UTF-8, borrowed from Program.held; NULL: a list index
    size_t name_size
    size_t index

# A value, wherever it was found. Missing: tag TAG_BAD. Borrowed from an item or a slot.
cdef struct Found:
    Node node                    # start is NULL in a Part
    const uint8_t* end           # everything before it may be read
    uint8_t number[24]           # what node.body points to if it is a size


# Find what a path leads to in a map, or in `parts` beside it. Returns: 0, or BAD_BYTES.
cdef int fetch_path(
    const PathStep* steps, int step_count, const Node* item, const uint8_t* end,
    const Part* parts, int count, Found* out
) noexcept nogil


cdef class Program:
    cdef Step* steps             # owned, as the other arrays
    cdef int step_count
    cdef Operand* operands
    cdef int operand_count
    cdef PathStep* path_steps
    cdef int path_step_count
    cdef list held               # bytes that path steps borrow
    cdef readonly tuple constants    # encoded values of the slots behind those of a request
    cdef readonly int slot_count     # of a request

    # Copy what was written into the arrays.
    cdef int take(self, list steps, list operands, list path_steps) except -1


cdef class Judge:
    cdef Program program
    cdef tuple values            # of bytes; what slots borrow
    cdef Found* slots            # owned

    cdef int take_values(self, Program program, tuple values) except -1
    cdef const Found* operand(
        self, int number, const Node* item, const uint8_t* end, const Part* parts, int count,
        Found* room
    ) noexcept
    cdef int test(
        self, const Step* step, const Node* item, const uint8_t* end, const Part* parts, int count
    ) noexcept
    cdef int is_among(
        self, const Step* step, const Node* item, const uint8_t* end, const Part* parts, int count
    ) noexcept

    # Whether the condition holds for the item whose map fills [p, end), with `count` other
    # attributes. Raises ValueError when the bytes are damaged.
    cdef bint judge(
        self, const uint8_t* p, const uint8_t* end, const Part* parts, int count
    ) except -1


# The judge of a program whose slots are some of these encoded values.
cdef Judge judge_of(Program program, list values, tuple slots)
