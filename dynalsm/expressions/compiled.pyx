"""Conditions judged on encoded bytes: a bound tree becomes a short program, run in C.

Nothing is decoded: equal values have equal bytes, and the order of S, N and B values is that of
their bytes (docs/format-items.md). The closures of evaluate.py say what every condition means;
tests hold this module against them, and what it does not know is left to them.

A program is a list of steps. Each test sets the answer; AND and OR are jumps over the terms that no
longer matter, so nothing recurses while an item is judged.

Thread safety: a Program and a Judge do not change after construction.
1. A missing value has the tag TAG_BAD; it equals nothing and is not ordered.
2. Every jump goes forward.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cython cimport final
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp

from dynalsm.values.codec cimport (
    TAG_B,
    TAG_BAD,
    TAG_BOOL,
    TAG_BS,
    TAG_L,
    TAG_M,
    TAG_N,
    TAG_NS,
    TAG_NULL,
    TAG_S,
    TAG_SS,
    Node,
    Part,
    compare_bytes,
    count_members,
    find_in_list,
    find_in_map,
    is_container,
    read_node,
    skip_node,
    utf16_units,
)
from dynalsm.values.number cimport Number, number_from_int64, number_to_bytes

from dynalsm.expressions.ast import And, Between, Call, Compare, Constant, In, Not, Or, Path, Slot
from dynalsm.values.encode_python import encode_value

cdef extern from "string.h" nogil:
    void* memmem(const void* big, size_t big_size, const void* small, size_t small_size)

cdef tuple TAG_NAMES = (
    b"", b"S", b"N", b"B", b"BOOL", b"NULL", b"L", b"M", b"SS", b"NS", b"BS"
)
cdef dict ORDERINGS = {
    "<": OP_LESS, "<=": OP_LESS_EQUAL, ">": OP_GREATER, ">=": OP_GREATER_EQUAL
}
cdef dict CALLS = {
    "attribute_type": OP_TYPE, "begins_with": OP_BEGINS_WITH, "contains": OP_CONTAINS
}


class _Unknown(Exception):
    """A tree holds what only closures can judge."""


# ---- trees to programs --------------------------------------------------------------------------

@final
cdef class Program:
    """A condition tree as instructions; belongs to the tree, not to a request."""

    def __dealloc__(self):
        free(self.steps)
        free(self.operands)
        free(self.path_steps)

    cdef int take(self, list steps, list operands, list path_steps) except -1:
        cdef bytes name
        cdef int i
        self.steps = <Step*>calloc(len(steps) + 1, sizeof(Step))
        self.operands = <Operand*>calloc(len(operands) + 1, sizeof(Operand))
        self.path_steps = <PathStep*>calloc(len(path_steps) + 1, sizeof(PathStep))
        if self.steps == NULL or self.operands == NULL or self.path_steps == NULL:
            raise MemoryError()
        self.step_count = len(steps)
        self.operand_count = len(operands)
        self.path_step_count = len(path_steps)
        for i in range(self.step_count):
            op, first, count, target = steps[i]
            self.steps[i] = Step(op, first, count, target)
        for i in range(self.operand_count):
            slot, first, count, is_size = operands[i]
            self.operands[i] = Operand(slot, first, count, is_size)
        self.held = path_steps
        for i in range(self.path_step_count):
            if isinstance(path_steps[i], int):
                self.path_steps[i].index = path_steps[i]
            else:
                name = path_steps[i]
                self.path_steps[i].name = <const uint8_t*>PyBytes_AS_STRING(name)
                self.path_steps[i].name_size = <size_t>PyBytes_GET_SIZE(name)
        return 0


class _Writer:
    """Collects the steps and operands of one program."""

    def __init__(self, slot_count):
        self.slot_count = slot_count
        self.steps = []
        self.operands = []
        self.path_steps = []
        self.constants = []

    def condition(self, node):
        """Write the steps that set the answer to whether `node` holds."""
        kind = type(node)
        if kind is And or kind is Or:
            self.joined(node.terms, OP_UNLESS if kind is And else OP_IF)
        elif kind is Not:
            self.condition(node.operand)
            self.step(OP_NOT)
        elif kind is Compare:
            self.comparison(node)
        elif kind is Between:
            self.step(OP_BETWEEN, node.operand, node.lower, node.upper)
        elif kind is In:
            self.step(OP_IN, node.operand, *node.options)
        elif kind is Call:
            self.call(node)
        else:
            raise _Unknown(node)

    def joined(self, terms, jump):
        """Write terms of which later ones matter only if none before has decided."""
        jumps = []
        for i, term in enumerate(terms):
            if i:
                jumps.append(len(self.steps))
                self.step(jump)
            self.condition(term)
        for place in jumps:
            self.steps[place][3] = len(self.steps)

    def comparison(self, node):
        if node.operator in ("=", "<>"):
            self.step(OP_EQUAL, node.left, node.right)
            if node.operator == "<>":
                self.step(OP_NOT)
        else:
            self.step(ORDERINGS[node.operator], node.left, node.right)

    def call(self, node):
        function = node.function
        if function in ("attribute_exists", "attribute_not_exists"):
            self.step(OP_EXISTS, node.arguments[0])
            if function == "attribute_not_exists":
                self.step(OP_NOT)
        elif function in CALLS:
            self.step(CALLS[function], *node.arguments)
        else:
            raise _Unknown(node)

    def step(self, op, *operands):
        first = len(self.operands)
        for operand in operands:
            self.operands.append(self.operand(operand, False))
        self.steps.append([op, first, len(operands), 0])

    def operand(self, node, is_size):
        kind = type(node)
        if kind is Path:
            first = len(self.path_steps)
            self.path_steps += [
                step.encode() if isinstance(step, str) else step for step in node.steps
            ]
            return -1, first, len(node.steps), is_size
        if kind is Slot:
            return node.index, 0, 0, is_size
        if kind is Constant:
            self.constants.append(encode_value(node.value))
            return self.slot_count + len(self.constants) - 1, 0, 0, is_size
        if kind is Call and node.function == "size" and not is_size:
            return self.operand(node.arguments[0], True)
        raise _Unknown(node)


def compile_program(tree, int slot_count):
    """Return the program of a bound tree; None when only closures can judge it.

    `slot_count` is how many values a request gives.
    """
    cdef Program program = Program.__new__(Program)
    writer = _Writer(slot_count)
    try:
        writer.condition(tree)
    except (_Unknown, ValueError):
        return None              # ValueError: names or constants that no item can hold
    program.take(writer.steps, writer.operands, writer.path_steps)
    program.constants = tuple(writer.constants)
    program.slot_count = slot_count
    return program


# ---- operands -----------------------------------------------------------------------------------

cdef inline void set_missing(Found* out) noexcept nogil:
    out.node.tag = TAG_BAD


cdef int find_first(
    const PathStep* step, const Node* item, const uint8_t* end, const Part* parts, int count,
    Node* out
) noexcept nogil:
    """Find an attribute in a map or beside it. Returns: 1, 0 or BAD_BYTES."""
    cdef int i
    for i in range(count):
        if (
            parts[i].name_size == step.name_size
            and memcmp(parts[i].name, step.name, step.name_size) == 0
        ):
            out[0] = parts[i].value
            return 1
    return find_in_map(item, end, step.name, step.name_size, out)


cdef int fetch_path(
    const PathStep* steps, int step_count, const Node* item, const uint8_t* end,
    const Part* parts, int count, Found* out
) noexcept nogil:
    """Returns: 0, or BAD_BYTES."""
    cdef Node node
    cdef int found = find_first(steps, item, end, parts, count, &out.node)
    cdef int i
    out.end = end
    for i in range(1, step_count):
        if found <= 0:
            break
        node = out.node
        found = 0
        if steps[i].name != NULL:
            if node.tag == TAG_M:
                found = find_in_map(&node, end, steps[i].name, steps[i].name_size, &out.node)
        elif node.tag == TAG_L:
            found = find_in_list(&node, end, steps[i].index, &out.node)
    if found == 0:
        set_missing(out)
    return BAD_BYTES if found < 0 else 0


cdef int take_size(Found* out) noexcept nogil:
    """Replace a value by its size, or by nothing if it has none. Returns: 0, or BAD_BYTES."""
    cdef Number number
    cdef int64_t size
    if out.node.tag == TAG_S:
        size = <int64_t>utf16_units(out.node.body, out.node.size)
    elif out.node.tag == TAG_B or is_container(&out.node):
        size = <int64_t>out.node.size
    elif out.node.tag == TAG_SS or out.node.tag == TAG_NS or out.node.tag == TAG_BS:
        size = count_members(&out.node)
        if size < 0:
            return BAD_BYTES
    else:
        set_missing(out)
        return 0
    number_from_int64(size, &number)
    out.node.tag = TAG_N
    out.node.size = <size_t>number_to_bytes(&number, out.number)
    out.node.body = out.number
    out.node.start = NULL
    return 0


cdef inline int size_bytes(const Found* value, const uint8_t** start, size_t* size) noexcept nogil:
    """The bytes by which a value is compared with one of the same type."""
    cdef const uint8_t* after
    start[0] = value.node.body
    size[0] = value.node.size
    if is_container(&value.node):
        after = skip_node(&value.node, value.end)
        if after == NULL:
            return BAD_BYTES
        start[0] = value.node.start
        size[0] = <size_t>(after - value.node.start)
    return 0


# ---- tests; they return 1, 0 or BAD_BYTES --------------------------------------------------------

cdef int are_equal(const Found* a, const Found* b) noexcept nogil:
    cdef const uint8_t* a_start = NULL
    cdef const uint8_t* b_start = NULL
    cdef size_t a_size = 0
    cdef size_t b_size = 0
    if a.node.tag != b.node.tag or a.node.tag == TAG_BAD:
        return 0
    if a.node.tag == TAG_BOOL:
        return a.node.truth == b.node.truth
    if a.node.tag == TAG_NULL:
        return 1
    if a.node.size != b.node.size:   # the number of elements, of containers
        return 0
    if size_bytes(a, &a_start, &a_size) < 0 or size_bytes(b, &b_start, &b_size) < 0:
        return BAD_BYTES
    return a_size == b_size and memcmp(a_start, b_start, a_size) == 0


cdef inline bint are_ordered(const Found* a, const Found* b) noexcept nogil:
    return a.node.tag == b.node.tag and (
        a.node.tag == TAG_S or a.node.tag == TAG_N or a.node.tag == TAG_B
    )


cdef inline int order_of(const Found* a, const Found* b) noexcept nogil:
    return compare_bytes(a.node.body, a.node.size, b.node.body, b.node.size)


cdef int is_ordered_as(int op, const Found* a, const Found* b) noexcept nogil:
    cdef int order
    if not are_ordered(a, b):
        return 0
    order = order_of(a, b)
    if op == OP_LESS:
        return order < 0
    if op == OP_LESS_EQUAL:
        return order <= 0
    if op == OP_GREATER:
        return order > 0
    return order >= 0


cdef int begins_with(const Found* text, const Found* prefix) noexcept nogil:
    if text.node.tag != prefix.node.tag:
        return 0
    if text.node.tag != TAG_S and text.node.tag != TAG_B:
        return 0
    return text.node.size >= prefix.node.size and (
        memcmp(text.node.body, prefix.node.body, prefix.node.size) == 0
    )


cdef int contains(const Found* container, const Found* member) noexcept nogil:
    cdef const Node* node = &container.node
    cdef Found element
    cdef const uint8_t* p = node.body
    cdef const uint8_t* end = container.end
    cdef size_t rest = node.size
    cdef int equal
    if node.tag == TAG_S or node.tag == TAG_B:
        if member.node.tag != node.tag:
            return 0
        return member.node.size == 0 or (
            memmem(node.body, node.size, member.node.body, member.node.size) != NULL
        )
    if node.tag == TAG_SS or node.tag == TAG_NS or node.tag == TAG_BS:
        end = p + node.size
    elif node.tag != TAG_L:
        return 0
    element.end = end
    while (rest if node.tag == TAG_L else <size_t>(end - p)) != 0:
        if read_node(p, end, &element.node) < 0:
            return BAD_BYTES
        equal = are_equal(&element, member)
        if equal:
            return equal
        p = skip_node(&element.node, end)
        if p == NULL:
            return BAD_BYTES
        rest -= 1
    return 0


cdef int is_of_type(const Found* value, const Found* name) noexcept:
    cdef bytes tag
    if value.node.tag == TAG_BAD or name.node.tag != TAG_S:
        return 0
    tag = TAG_NAMES[value.node.tag]
    return compare_bytes(
        <const uint8_t*>PyBytes_AS_STRING(tag), <size_t>PyBytes_GET_SIZE(tag),
        name.node.body, name.node.size
    ) == 0


# ---- judging ------------------------------------------------------------------------------------

cdef int damaged() except -1:
    from dynalsm.errors import CorruptionError

    raise CorruptionError("damaged encoded value")


@final
cdef class Judge:
    """A program with the encoded values of one request."""

    def __init__(self, Program program not None, values):
        self.take_values(program, tuple(values))

    cdef int take_values(self, Program program, tuple values) except -1:
        cdef bytes value
        cdef Found* slot
        cdef Py_ssize_t i
        if len(values) != program.slot_count or self.slots != NULL:
            raise ValueError(f"{program.slot_count} values are needed, once")
        if program.constants:
            values += program.constants
        self.program = program
        self.values = values
        self.slots = <Found*>malloc((len(values) + 1) * sizeof(Found))
        if self.slots == NULL:
            raise MemoryError()
        for i in range(len(values)):
            value = <bytes?>values[i]
            slot = &self.slots[i]
            slot.end = <const uint8_t*>PyBytes_AS_STRING(value) + PyBytes_GET_SIZE(value)
            if read_node(<const uint8_t*>PyBytes_AS_STRING(value), slot.end, &slot.node) < 0:
                damaged()
        return 0

    def __dealloc__(self):
        free(self.slots)

    cdef inline const Found* operand(
        self, int number, const Node* item, const uint8_t* end, const Part* parts, int count,
        Found* room
    ) noexcept:
        """Find an operand; in `room` unless it is a value. Returns: NULL for bad bytes."""
        cdef const Operand* operand = &self.program.operands[number]
        if operand.slot >= 0:
            if not operand.is_size:
                return &self.slots[operand.slot]
            room[0] = self.slots[operand.slot]
        elif fetch_path(
            &self.program.path_steps[operand.first], operand.count, item, end, parts, count, room
        ) < 0:
            return NULL
        if operand.is_size and take_size(room) < 0:
            return NULL
        return room

    cdef int test(
        self, const Step* step, const Node* item, const uint8_t* end, const Part* parts, int count
    ) noexcept:
        """Run a step that has operands. Returns: 1, 0 or BAD_BYTES."""
        cdef Found rooms[3]
        cdef const Found* found[3]
        cdef int i
        cdef int answer
        if step.op == OP_IN:
            return self.is_among(step, item, end, parts, count)
        for i in range(step.count):
            found[i] = self.operand(step.first + i, item, end, parts, count, &rooms[i])
            if found[i] == NULL:
                return BAD_BYTES
        if step.op == OP_EQUAL:
            return are_equal(found[0], found[1])
        if step.op <= OP_GREATER_EQUAL:
            return is_ordered_as(step.op, found[0], found[1])
        if step.op == OP_BETWEEN:
            answer = is_ordered_as(OP_GREATER_EQUAL, found[0], found[1])
            return answer and is_ordered_as(OP_LESS_EQUAL, found[0], found[2])
        if step.op == OP_EXISTS:
            return found[0].node.tag != TAG_BAD
        if step.op == OP_BEGINS_WITH:
            return begins_with(found[0], found[1])
        if step.op == OP_CONTAINS:
            return contains(found[0], found[1])
        return is_of_type(found[0], found[1])

    cdef int is_among(
        self, const Step* step, const Node* item, const uint8_t* end, const Part* parts, int count
    ) noexcept:
        cdef Found rooms[2]
        cdef const Found* wanted
        cdef const Found* option
        cdef int i
        cdef int answer
        wanted = self.operand(step.first, item, end, parts, count, &rooms[0])
        if wanted == NULL:
            return BAD_BYTES
        for i in range(1, step.count):
            option = self.operand(step.first + i, item, end, parts, count, &rooms[1])
            answer = BAD_BYTES if option == NULL else are_equal(wanted, option)
            if answer:
                return answer
        return 0

    cdef bint judge(
        self, const uint8_t* p, const uint8_t* end, const Part* parts, int count
    ) except -1:
        cdef Program program = self.program
        cdef const Step* step
        cdef Node item
        cdef int at = 0
        cdef int answer = 0
        if read_node(p, end, &item) < 0 or item.tag != TAG_M:
            damaged()
        while at < program.step_count:
            step = &program.steps[at]
            at += 1
            if step.op == OP_NOT:
                answer = not answer
            elif step.op == OP_UNLESS:
                if not answer:
                    at = step.target
            elif step.op == OP_IF:
                if answer:
                    at = step.target
            else:
                answer = self.test(step, &item, end, parts, count)
                if answer < 0:
                    damaged()
        return answer

    def holds(self, bytes item not None):
        """Judge an encoded item."""
        cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(item)
        return self.judge(p, p + PyBytes_GET_SIZE(item), NULL, 0)


cdef Judge judge_of(Program program, list values, tuple slots):
    cdef Judge judge = Judge.__new__(Judge)
    judge.take_values(program, tuple([values[i] for i in slots]))
    return judge
