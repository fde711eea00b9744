"""Updates applied to encoded items: a bound update becomes a short program, run in C.

Nothing that does not change is decoded or even looked at. The closures of update.py say what every
update means; tests hold this module against them. What it does not know (targets below an
attribute), and every update that fails on its item, is left to them: they find what to tell.

All values are taken from the old item before anything is written.

Thread safety: a ChangeProgram and a Changer do not change after construction.
1. The changes of a program are sorted by the bytes of their attributes, and none is there twice.
2. A Value in the room is told by its offset, because the room moves when it grows.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cython cimport final
from libc.stdlib cimport calloc, free
from libc.string cimport memmove

from dynalsm.expressions.compiled cimport BAD_BYTES, Found, fetch_path
from dynalsm.values.buffer cimport (
    buffer_free,
    buffer_init,
    buffer_put,
    buffer_reserve,
    write_array_header,
    write_bin_header,
    write_ext_header,
    write_map_header,
    write_str_header,
)
from dynalsm.values.codec cimport (
    EXT_BS,
    EXT_N,
    EXT_NS,
    EXT_SS,
    TAG_B,
    TAG_BAD,
    TAG_BS,
    TAG_L,
    TAG_M,
    TAG_N,
    TAG_NS,
    TAG_S,
    TAG_SS,
    compare_bytes,
    read_node,
    size_value,
    skip_node,
    skip_value,
)
from dynalsm.values.number cimport (
    MAX_NUMBER_BYTES,
    NUMBER_OK,
    Number,
    number_from_bytes,
    number_to_bytes,
)
from dynalsm.values.sums cimport number_add

from dynalsm.expressions.ast import Arithmetic, Call, Constant, Path, Slot
from dynalsm.values.encode_python import encode_value

cdef enum Kind:
    KIND_SLOT = 0
    KIND_PATH = 1
    KIND_PLUS = 2
    KIND_MINUS = 3
    KIND_DEFAULT = 4             # if_not_exists: the left term, a path, or else the right one
    KIND_APPEND = 5

cdef enum Section:
    SECTION_SET = 0
    SECTION_REMOVE = 1
    SECTION_ADD = 2
    SECTION_DELETE = 3

cdef enum Fate:
    FATE_KEPT = 0
    FATE_REMOVED = 1
    FATE_ASSIGNED = 2

cdef enum:                       # what evaluating returns
    LEFT = 0                     # to update.py
    DONE = 1

cdef enum:
    MAX_HEADER_BYTES = 6
    MAX_TERM_DEPTH = 16          # of calls in calls; deeper ones are left to update.py

cdef dict SECTIONS = {
    "SET": SECTION_SET, "REMOVE": SECTION_REMOVE, "ADD": SECTION_ADD, "DELETE": SECTION_DELETE
}
cdef dict CALLS = {"if_not_exists": KIND_DEFAULT, "list_append": KIND_APPEND}


class _Unknown(Exception):
    """An update holds what only closures can apply."""


# ---- updates to programs ------------------------------------------------------------------------

@final
cdef class ChangeProgram:
    """An update as changes of attributes; belongs to its template, not to a request."""

    def __dealloc__(self):
        free(self.terms)
        free(self.changes)
        free(self.path_steps)

    cdef int take(self, writer) except -1:
        cdef int i
        self.terms = <Term*>calloc(len(writer.terms) + 1, sizeof(Term))
        self.changes = <Change*>calloc(len(writer.changes) + 1, sizeof(Change))
        self.path_steps = <PathStep*>calloc(len(writer.path_steps) + 1, sizeof(PathStep))
        if self.terms == NULL or self.changes == NULL or self.path_steps == NULL:
            raise MemoryError()
        self.term_count = len(writer.terms)
        self.change_count = len(writer.changes)
        self.path_step_count = len(writer.path_steps)
        for i in range(self.term_count):
            kind, first, count, left, right = writer.terms[i]
            self.terms[i] = Term(kind, first, count, left, right)
        for i in range(self.path_step_count):
            if isinstance(writer.path_steps[i], int):
                self.path_steps[i].index = writer.path_steps[i]
            else:
                point_to(&self.path_steps[i], writer.path_steps[i])
        for i in range(self.change_count):
            name, section, term = writer.changes[i]
            self.changes[i].section = section
            self.changes[i].term = term
            point_to(&self.changes[i].target, name)
        self.held = [writer.path_steps, writer.changes]
        return 0


cdef int point_to(PathStep* step, bytes name) except -1:
    step.name = <const uint8_t*>PyBytes_AS_STRING(name)
    step.name_size = <size_t>PyBytes_GET_SIZE(name)
    return 0


class _Writer:
    """Collects the changes and terms of one program."""

    def __init__(self, slot_count):
        self.slot_count = slot_count
        self.changes = []
        self.terms = []
        self.path_steps = []
        self.constants = []

    def action(self, action):
        """Write one action as a change."""
        if len(action.path.steps) != 1:
            raise _Unknown(action)
        section = SECTIONS[action.section]
        term = -1 if section == SECTION_REMOVE else self.term(action.value, 0)
        self.changes.append((action.path.steps[0].encode(), section, term))

    def term(self, node, depth):
        """Write where a value comes from; returns the term's number."""
        kind = type(node)
        if depth > MAX_TERM_DEPTH:
            raise _Unknown(node)
        if kind is Path:
            first = len(self.path_steps)
            self.path_steps += [
                step.encode() if isinstance(step, str) else step for step in node.steps
            ]
            return self.add(KIND_PATH, first, len(node.steps))
        if kind is Slot:
            return self.add(KIND_SLOT, node.index)
        if kind is Constant:
            self.constants.append(encode_value(node.value))
            return self.add(KIND_SLOT, self.slot_count + len(self.constants) - 1)
        if kind is Arithmetic:
            operands = node.left, node.right
            kind = KIND_PLUS if node.operator == "+" else KIND_MINUS
        elif kind is Call and node.function in CALLS:
            operands = node.arguments
            kind = CALLS[node.function]
        else:
            raise _Unknown(node)
        left, right = [self.term(operand, depth + 1) for operand in operands]
        return self.add(kind, 0, 0, left, right)

    def add(self, kind, first, count=0, left=-1, right=-1):
        self.terms.append((kind, first, count, left, right))
        return len(self.terms) - 1


def compile_changes(actions, int slot_count):
    """Return the program of bound actions; None when only closures can apply them.

    REQUIRES: no target overlaps another. `slot_count` is how many values a request gives.
    """
    cdef ChangeProgram program = ChangeProgram.__new__(ChangeProgram)
    writer = _Writer(slot_count)
    if not 0 < len(actions) <= MAX_CHANGES:
        return None
    try:
        for action in actions:
            writer.action(action)
    except (_Unknown, ValueError):
        return None              # ValueError: names or constants that no item can hold
    writer.changes.sort()
    program.take(writer)
    program.constants = tuple(writer.constants)
    program.slot_count = slot_count
    program.only_removes = all([action.section in ("REMOVE", "DELETE") for action in actions])
    return program


# ---- values -------------------------------------------------------------------------------------

cdef inline const uint8_t* start_of_value(const Value* value, const Scene* scene) noexcept:
    return value.data if value.data != NULL else scene.room.data + value.offset


cdef inline int read_value(const Value* value, const Scene* scene, Node* out) noexcept:
    cdef const uint8_t* start = start_of_value(value, scene)
    return read_node(start, start + value.size, out)


cdef inline void begin_value(Value* value, const Scene* scene) noexcept:
    """What is written to the room from now on is the value, up to end_value."""
    value.data = NULL
    value.offset = scene.room.size


cdef inline void end_value(Value* value, const Scene* scene) noexcept:
    value.size = scene.room.size - value.offset


cdef int borrow_found(const Found* found, Scene* scene, Value* out) except -1:
    """A value found in the item; a key attribute is written out."""
    cdef const uint8_t* after
    if found.node.start != NULL:
        after = skip_node(&found.node, found.end)
        if after == NULL:
            return LEFT
        out.data = found.node.start
        out.size = <size_t>(after - found.node.start)
        return DONE
    begin_value(out, scene)
    put_scalar(scene.room, &found.node)
    end_value(out, scene)
    return DONE


cdef int put_scalar(Buffer* out, const Node* node) except -1:
    """Write an S, N or B."""
    cdef uint8_t* p = buffer_reserve(out, MAX_HEADER_BYTES)
    if node.tag == TAG_S:
        out.size += write_str_header(p, node.size)
    elif node.tag == TAG_B:
        out.size += write_bin_header(p, node.size)
    else:
        out.size += write_ext_header(p, node.size, EXT_N)
    return buffer_put(out, node.body, node.size)


cdef int put_sum(const Node* a, const Node* b, bint is_minus, Scene* scene, Value* out) except -1:
    """Write a + b or a - b of two N values."""
    cdef Number left
    cdef Number right
    cdef Number result
    cdef uint8_t body[MAX_NUMBER_BYTES]
    cdef Node node
    if a.tag != TAG_N or b.tag != TAG_N:
        return LEFT
    if number_from_bytes(a.body, a.size, &left) < 0:
        return LEFT
    if number_from_bytes(b.body, b.size, &right) < 0:
        return LEFT
    if number_add(&left, &right, is_minus, &result) != NUMBER_OK:
        return LEFT
    node.tag = TAG_N
    node.body = body
    node.size = <size_t>number_to_bytes(&result, body)
    begin_value(out, scene)
    put_scalar(scene.room, &node)
    end_value(out, scene)
    return DONE


# ---- sets ---------------------------------------------------------------------------------------

cdef inline bint is_set(int tag) noexcept nogil:
    return tag == TAG_SS or tag == TAG_NS or tag == TAG_BS


cdef inline uint8_t ext_of_set(int tag) noexcept nogil:
    return EXT_SS if tag == TAG_SS else EXT_NS if tag == TAG_NS else EXT_BS


cdef int join_sets(const Node* a, const Node* b, bint is_union, Buffer* out) except -1:
    """Write the members of a and b, or those of a that are not in b. Both are sorted.

    Returns: DONE, or LEFT for damaged bytes.
    """
    cdef const uint8_t* p = a.body
    cdef const uint8_t* q = b.body
    cdef const uint8_t* p_end = a.body + a.size
    cdef const uint8_t* q_end = b.body + b.size
    cdef Node one = a[0]
    cdef Node other = b[0]
    cdef int order
    while p < p_end or q < q_end:
        order = 1                # which comes first: -1 the one of a, 1 that of b, 0 both
        if p < p_end:
            if read_node(p, p_end, &one) < 0:
                return LEFT
            order = -1
        if q < q_end:
            if read_node(q, q_end, &other) < 0:
                return LEFT
            if p < p_end:
                order = compare_bytes(one.body, one.size, other.body, other.size)
        if order < 0 or (order == 0 and is_union):
            buffer_put(out, one.start, one.body + one.size - one.start)
        elif order > 0 and is_union:
            buffer_put(out, other.start, other.body + other.size - other.start)
        if order <= 0:
            p = one.body + one.size
        if order >= 0:
            q = other.body + other.size
    return DONE


cdef int put_joined(
    const Node* a, const Node* b, bint is_union, Scene* scene, Value* out
) except -1:
    """Write the set of join_sets; one without members has no bytes at all."""
    cdef Buffer* room = scene.room
    cdef uint8_t* p
    cdef size_t start = room.size
    cdef size_t size
    cdef int header_size
    buffer_reserve(room, MAX_HEADER_BYTES)
    room.size += MAX_HEADER_BYTES
    if join_sets(a, b, is_union, room) == LEFT:
        return LEFT
    size = room.size - start - MAX_HEADER_BYTES
    if size > 0xFFFFFFFF:
        return LEFT
    out.data = NULL
    out.offset = start
    out.size = 0
    if size:
        p = room.data + start
        header_size = write_ext_header(p, size, ext_of_set(a.tag))
        memmove(p + header_size, p + MAX_HEADER_BYTES, size)
        out.size = size + header_size
    room.size = start + out.size
    return DONE


# ---- applying -----------------------------------------------------------------------------------

@final
cdef class Changer:
    """A program with the encoded values of one request."""

    def __init__(self, ChangeProgram program not None, values):
        self.take_values(program, tuple(values))

    cdef int take_values(self, ChangeProgram program, tuple values) except -1:
        if len(values) != program.slot_count:
            raise ValueError(f"{program.slot_count} values are needed")
        for value in values:
            if type(value) is not bytes:
                raise TypeError("encoded values are bytes")
        self.program = program
        self.values = values + program.constants if program.constants else values
        return 0

    cdef int evaluate(self, int number, Scene* scene, Value* out) except -1:
        """Find or make a value. Recursion is bounded by MAX_TERM_DEPTH."""
        cdef const Term* term = &self.program.terms[number]
        cdef const Term* path = term
        cdef Found found
        if term.kind == KIND_SLOT:
            out.data = <const uint8_t*>PyBytes_AS_STRING(self.values[term.first])
            out.size = <size_t>PyBytes_GET_SIZE(self.values[term.first])
            return DONE
        if term.kind == KIND_PLUS or term.kind == KIND_MINUS:
            return self.calculated(term, scene, out)
        if term.kind == KIND_APPEND:
            return self.appended(term, scene, out)
        if term.kind == KIND_DEFAULT:
            path = &self.program.terms[term.left]
            if path.kind != KIND_PATH:
                return LEFT
        if fetch_path(
            &self.program.path_steps[path.first], path.count, &scene.item, scene.end,
            scene.parts, scene.part_count, &found
        ) == BAD_BYTES:
            return LEFT
        if found.node.tag != TAG_BAD:
            return borrow_found(&found, scene, out)
        if term.kind == KIND_DEFAULT:
            return self.evaluate(term.right, scene, out)
        return LEFT

    cdef int calculated(self, const Term* term, Scene* scene, Value* out) except -1:
        cdef Value left
        cdef Value right
        cdef Node a
        cdef Node b
        if self.evaluate(term.left, scene, &left) == LEFT:
            return LEFT
        if self.evaluate(term.right, scene, &right) == LEFT:
            return LEFT
        buffer_reserve(scene.room, MAX_HEADER_BYTES + MAX_NUMBER_BYTES)  # so that it stands still
        if read_value(&left, scene, &a) < 0 or read_value(&right, scene, &b) < 0:
            return LEFT
        return put_sum(&a, &b, term.kind == KIND_MINUS, scene, out)

    cdef int appended(self, const Term* term, Scene* scene, Value* out) except -1:
        cdef Value left
        cdef Value right
        cdef Node a
        cdef Node b
        if self.evaluate(term.left, scene, &left) == LEFT:
            return LEFT
        if self.evaluate(term.right, scene, &right) == LEFT:
            return LEFT
        buffer_reserve(scene.room, MAX_HEADER_BYTES + left.size + right.size)
        if read_value(&left, scene, &a) < 0 or read_value(&right, scene, &b) < 0:
            return LEFT
        if a.tag != TAG_L or b.tag != TAG_L or a.size + b.size > 0xFFFFFFFF:
            return LEFT
        begin_value(out, scene)
        scene.room.size += write_array_header(
            scene.room.data + scene.room.size, a.size + b.size
        )
        buffer_put(scene.room, a.body, left.size - (a.body - a.start))
        buffer_put(scene.room, b.body, right.size - (b.body - b.start))
        end_value(out, scene)
        return DONE

    cdef int outcome(self, const Change* change, Scene* scene, Outcome* out) except -1:
        """What happens to one attribute."""
        cdef Found current
        cdef int i
        for i in range(scene.part_count):
            if compare_bytes(
                scene.parts[i].name, scene.parts[i].name_size,
                change.target.name, change.target.name_size
            ) == 0:
                return LEFT      # what stands outside the map cannot change
        if change.section == SECTION_REMOVE:
            out.fate = FATE_REMOVED
            return DONE
        if change.section != SECTION_SET:
            if fetch_path(
                &change.target, 1, &scene.item, scene.end, NULL, 0, &current
            ) == BAD_BYTES:
                return LEFT
            if current.node.tag != TAG_BAD:
                return self.combined(change, scene, &current.node, out)
            if change.section == SECTION_DELETE:
                out.fate = FATE_KEPT
                return DONE
        out.fate = FATE_ASSIGNED
        return self.evaluate(change.term, scene, &out.value)

    cdef int combined(
        self, const Change* change, Scene* scene, const Node* current, Outcome* out
    ) except -1:
        """ADD and DELETE of an attribute that is there."""
        cdef Value value
        cdef Node operand
        cdef int found
        if self.evaluate(change.term, scene, &value) == LEFT:
            return LEFT
        buffer_reserve(
            scene.room, 2 * MAX_HEADER_BYTES + MAX_NUMBER_BYTES + current.size + value.size
        )
        if read_value(&value, scene, &operand) < 0 or operand.tag != current.tag:
            return LEFT
        out.fate = FATE_ASSIGNED
        if is_set(current.tag):
            found = put_joined(
                current, &operand, change.section == SECTION_ADD, scene, &out.value
            )
            if found == DONE and out.value.size == 0:
                out.fate = FATE_REMOVED
            return found
        if change.section == SECTION_ADD:
            return put_sum(current, &operand, False, scene, &out.value)
        return LEFT

    cdef bint apply(
        self, const uint8_t* p, const uint8_t* end, const Part* parts, int part_count,
        Buffer* out, size_t* count, int64_t* growth
    ) except -1:
        cdef Outcome outcomes[MAX_CHANGES]
        cdef Buffer room
        cdef Scene scene
        cdef int i
        if read_node(p, end, &scene.item) < 0 or scene.item.tag != TAG_M:
            return False
        scene.end = end
        scene.parts = parts
        scene.part_count = part_count
        scene.room = &room
        buffer_init(&room)
        try:
            for i in range(self.program.change_count):
                if self.outcome(&self.program.changes[i], &scene, &outcomes[i]) == LEFT:
                    return False
            return self.merge(outcomes, &scene, out, count, growth) == DONE
        finally:
            buffer_free(&room)

    cdef int merge(
        self, const Outcome* outcomes, Scene* scene, Buffer* out, size_t* count, int64_t* growth
    ) except -1:
        """Write the old pairs with what became of them, and the new ones."""
        cdef const Change* change = self.program.changes
        cdef const Change* last = change + self.program.change_count
        cdef const uint8_t* p = scene.item.body
        cdef const uint8_t* copied = p       # everything before it was written, or is gone
        cdef size_t rest = scene.item.size
        cdef Node name
        cdef int order
        count[0] = rest
        growth[0] = 0
        while change < last:
            order = 1                        # behind all that are there
            if rest:
                if read_node(p, scene.end, &name) < 0 or name.tag != TAG_S:
                    return LEFT
                order = compare_bytes(
                    name.body, name.size, change.target.name, change.target.name_size
                )
                if order < 0:
                    p = skip_value(name.body + name.size, scene.end)
                    if p == NULL:
                        return LEFT
                    rest -= 1
                    continue
            if outcomes.fate == FATE_ASSIGNED or (order == 0 and outcomes.fate == FATE_REMOVED):
                buffer_put(out, copied, p - copied)
                copied = p
            if order == 0:
                p = behind_old(&name, outcomes, scene, count, growth)
                if p == NULL:
                    return LEFT
                rest -= 1
                if outcomes.fate != FATE_KEPT:
                    copied = p
            elif outcomes.fate == FATE_ASSIGNED:
                count[0] += 1
            if outcomes.fate == FATE_ASSIGNED:
                put_assigned(out, change, &outcomes.value, scene, growth)
            change += 1
            outcomes += 1
        buffer_put(out, copied, scene.end - copied)
        return DONE

    def changed(self, bytes item not None):
        """Return a changed encoded item, and by how many bytes it grew; None when it is left."""
        cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(item)
        cdef uint8_t header[MAX_HEADER_BYTES]
        cdef Buffer out
        cdef size_t count = 0
        cdef int64_t growth = 0
        buffer_init(&out)
        try:
            if not self.apply(p, p + PyBytes_GET_SIZE(item), NULL, 0, &out, &count, &growth):
                return None
            return PyBytes_FromStringAndSize(
                <const char*>header, write_map_header(header, count)
            ) + PyBytes_FromStringAndSize(<const char*>out.data, <Py_ssize_t>out.size), growth
        finally:
            buffer_free(&out)


cdef const uint8_t* behind_old(
    const Node* name, const Outcome* outcome, const Scene* scene, size_t* count, int64_t* growth
) noexcept:
    """Take an old value out of the account. Returns: what stands behind it, or NULL."""
    cdef const uint8_t* after = NULL
    cdef int64_t size
    if outcome.fate == FATE_KEPT:
        return skip_value(name.body + name.size, scene.end)
    size = size_value(name.body + name.size, scene.end, &after)
    if size < 0:
        return NULL
    growth[0] -= size + <int64_t>name.size
    if outcome.fate == FATE_REMOVED:
        count[0] -= 1
    return after


cdef int put_assigned(
    Buffer* out, const Change* change, const Value* value, const Scene* scene, int64_t* growth
) except -1:
    """Write a pair and count it in."""
    cdef const uint8_t* data = start_of_value(value, scene)
    cdef const uint8_t* after = NULL
    cdef int64_t size = size_value(data, data + value.size, &after)
    if size < 0:
        raise ValueError("damaged encoded value")
    growth[0] += size + <int64_t>change.target.name_size
    out.size += write_str_header(
        buffer_reserve(out, MAX_HEADER_BYTES), change.target.name_size
    )
    buffer_put(out, change.target.name, change.target.name_size)
    return buffer_put(out, data, value.size)


cdef Changer changer_of(ChangeProgram program, list values, tuple slots):
    cdef Changer changer = Changer.__new__(Changer)
    changer.take_values(program, tuple([values[i] for i in slots]))
    return changer
