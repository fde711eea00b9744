"""The straight way of writes: PutItem, UpdateItem, DeleteItem and the batches of them.

As in straight.pyx: what is looked at here is enough to be sure that a request is valid; everything
else answers None, and the long way (items.py, batch.py, transact.py) starts from the beginning. A
write with expressions goes straight when one with the same expressions, names and table has gone
the long way before; what that found out apart from the values is its plan (write_plans.py).

What goes wrong with an item (a false condition, an update that does not fit, a size) is raised here
as it is there, by the same functions of the layers below.

Thread safety: plans do not change; those of a handle are kept in a dict, guarded by the GIL.
"""

from cpython.bytes cimport PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Next, PyDict_Size
from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyObject
from cython cimport final
from dynalsm.api.plan_values cimport PlanValues, chosen
from dynalsm.api.requests cimport encoded_item, handle_named, handle_of, member, names_key
from dynalsm.expressions.changes cimport Changer, changer_of
from dynalsm.expressions.compiled cimport Judge, judge_of
from dynalsm.model.handles cimport TableHandle
from dynalsm.model.item_writes cimport (
    Write,
    new_check,
    new_delete,
    new_put,
    new_update,
)
from dynalsm.model.write_path cimport WritePath

from dynalsm.api.replies import of_write
from dynalsm.model.write_path import ActionProblem, StaleHandle

OLD_VALUES = frozenset(["NONE", "ALL_OLD"])
cdef frozenset ALL_VALUES = frozenset(["NONE", "ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"])


# ---- plans --------------------------------------------------------------------------------------

@final
cdef class WritePlan:
    """What the expressions of a write come to, apart from their values; belongs to a handle.

    `condition` and `update` are pairs: a program, or an update's template, and the places of its
    values among `values`.
    """

    def __init__(self, PlanValues values not None, *, condition=None, update=None):
        self.values = values
        self.condition, slots = condition or (None, ())
        self.condition_slots = tuple(slots)
        self.template, slots = update or (None, ())
        self.change_slots = tuple(slots)
        self.changes = None if self.template is None else self.template.program

    cdef Judge judge(self, list values):
        if self.condition is None:
            return None
        return judge_of(self.condition, values, self.condition_slots)

    cdef Write update_of(self, TableHandle handle, bytes key, list values, Judge judge):
        cdef Changer changer = None
        if self.changes is not None:
            changer = changer_of(self.changes, values, self.change_slots)
        return new_update(
            handle, key, self.template, tuple(chosen(values, self.change_slots)), changer, judge
        )


cdef tuple read_plan_key(dict request, Py_ssize_t* found):
    """What a plan for this request is kept under; None when it has no expressions, or odd ones."""
    cdef PyObject* update = member(request, "UpdateExpression", found)
    cdef PyObject* condition = member(request, "ConditionExpression", found)
    cdef PyObject* names = member(request, "ExpressionAttributeNames", found)
    cdef tuple spelled = None
    if update == NULL and condition == NULL:
        return None
    if update != NULL and type(<object>update) is not str:
        return None
    if condition != NULL and type(<object>condition) is not str:
        return None
    if names != NULL:
        spelled = names_key(<object>names)
        if spelled is None:
            return None
    return (
        None if update == NULL else <object>update,
        None if condition == NULL else <object>condition,
        spelled,
    )


def plan_key(request):
    """Return what a plan for this request is kept under; None when there can be none."""
    cdef Py_ssize_t found = 0
    return read_plan_key(<dict>request, &found) if type(request) is dict else None


cdef WritePlan plan_of(TableHandle handle, dict request, Py_ssize_t* found):
    cdef tuple key = read_plan_key(request, found)
    return None if key is None else handle.plans.get(key)


cdef list values_of(WritePlan plan, dict request, int form, Py_ssize_t* found):
    """The encoded values of a request; None when they do not do."""
    cdef PyObject* given = member(request, "ExpressionAttributeValues", found)
    if given == NULL:
        return plan.values.take({}, form)
    if type(<object>given) is not dict or PyDict_Size(<object>given) == 0:
        return None
    return plan.values.take(<dict>given, form)


@final
cdef class Taken:
    """What was read for one write, for those who need more than the write."""


# ---- one item -----------------------------------------------------------------------------------

cdef bint is_one_of(dict request, str name, frozenset allowed, Py_ssize_t* found) except -1:
    """Whether a member is absent, or text among `allowed`."""
    cdef PyObject* value = member(request, name, found)
    return value == NULL or (type(<object>value) is str and <object>value in allowed)


cdef bytes taken_item(dict request, int form, object limit_bytes, Py_ssize_t* found):
    """The encoded Item; None when it is not plain, or perhaps too large."""
    cdef PyObject* given = member(request, "Item", found)
    cdef bytes item
    if given == NULL or type(<object>given) is not dict:
        return None
    item = encoded_item(<dict>given, form)
    return item if PyBytes_GET_SIZE(item) * SIZE_FACTOR <= limit_bytes else None


cdef bytes taken_key(dict request, int form, Py_ssize_t* found):
    """The encoded Key; None when it is not plain."""
    cdef PyObject* given = member(request, "Key", found)
    if given == NULL or type(<object>given) is not dict:
        return None
    return encoded_item(<dict>given, form)


cdef Write made_write(
    str kind, TableHandle handle, dict request, int form, object limit_bytes, Taken taken,
    Py_ssize_t* found
):
    """A write as its members ask for it; None when it needs a closer look. Raises: likewise.

    `taken` learns what was read, if somebody wants to know.
    """
    cdef WritePlan plan = None
    cdef list values = None
    cdef bytes encoded
    cdef Py_ssize_t before
    if kind == "Put":
        encoded = taken_item(request, form, limit_bytes, found)
    else:
        encoded = taken_key(request, form, found)
    if encoded is None:
        return None
    if PyDict_Size(request) != found[0]:
        before = found[0]
        plan = plan_of(handle, request, found)
        if plan is not None:
            values = values_of(plan, request, form, found)
        if values is None and found[0] != before:
            return None          # expressions or values that need a closer look
    if taken is not None:
        taken.encoded = encoded
        taken.plan = plan
        taken.values = values
    return planned_write(kind, handle, encoded, plan, values)


cdef Write planned_write(
    str kind, TableHandle handle, bytes encoded, WritePlan plan, list values
):
    cdef Judge judge = None if plan is None else plan.judge(values)
    cdef bytes key
    if kind != "Put":
        handle.keys.check_key(encoded)
    key = handle.keys.tree_key(encoded)
    if kind == "Put":
        return new_put(handle, key, encoded, judge)
    if kind == "Delete":
        return new_delete(handle, key, judge)
    if plan is None:
        return None
    if kind == "Update" and plan.template is not None:
        return plan.update_of(handle, key, values, judge)
    return new_check(handle, key, judge) if kind == "ConditionCheck" else None


cdef object write_one(str kind, frozenset returns, database, request, form):
    cdef Py_ssize_t found = 0
    cdef Py_ssize_t plain = 0
    cdef TableHandle handle
    cdef Write write
    cdef WritePath path
    if type(request) is not dict:
        return None
    handle = handle_of(database, <dict>request, &found)
    if handle is None:
        return None
    try:
        write = made_write(
            kind, handle, <dict>request, form.kind, database.settings.limit_item_bytes, None, &found
        )
    except Exception:
        return None              # the long way finds it again, and says what it is
    if write is None:
        return None
    plain = found
    if PyDict_Size(request) != found and not (
        is_one_of(<dict>request, "ReturnValues", returns, &found)
        and is_one_of(
            <dict>request, "ReturnValuesOnConditionCheckFailure", OLD_VALUES, &found
        )
        and PyDict_Size(request) == found
    ):
        return None
    path = database.writes
    try:
        seqno = path.run_one(write)
    except StaleHandle:
        return None
    database.finish(seqno)
    return {} if found == plain and not write.is_failed else of_write(request, form, write)


def put_item(database, request, form):
    """Answer a PutItem; None when it has to take the long way."""
    return write_one("Put", OLD_VALUES, database, request, form)


def update_item(database, request, form):
    """Answer an UpdateItem that a plan is there for; None when it has to take the long way."""
    return write_one("Update", ALL_VALUES, database, request, form)


def delete_item(database, request, form):
    """Answer a DeleteItem; None when it has to take the long way."""
    return write_one("Delete", OLD_VALUES, database, request, form)


# ---- several items ------------------------------------------------------------------------------

cdef object only_pair(dict source, PyObject** name):
    """The value of the only pair of a dict; None when there are others."""
    cdef PyObject* value = NULL
    cdef Py_ssize_t position = 0
    if PyDict_Size(source) != 1 or not PyDict_Next(source, &position, name, &value):
        return None
    return <object>value


cdef Write made_request(TableHandle handle, object part, int form, object limit_bytes):
    """The write of one WriteRequest; None when it needs a closer look. Raises: likewise."""
    cdef PyObject* name = NULL
    cdef Py_ssize_t found = 0
    cdef object content
    cdef str kind
    if type(part) is not dict:
        return None
    content = only_pair(<dict>part, &name)
    if type(content) is not dict or PyDict_Size(content) != 1:
        return None
    if <object>name == "PutRequest":
        kind = "Put"
    elif <object>name == "DeleteRequest":
        kind = "Delete"
    else:
        return None
    return made_write(kind, handle, <dict>content, form, limit_bytes, None, &found)


cdef list made_requests(database, dict tables, form):
    """The writes of a BatchWriteItem; None when one of them needs a closer look."""
    cdef TableHandle handle
    cdef Write write
    cdef list writes = []
    cdef set keys = set()
    cdef object limit_bytes = database.settings.limit_item_bytes
    cdef Py_ssize_t rest = database.settings.limit_batch_write_items
    cdef int kind = form.kind
    for name, parts in tables.items():
        handle = handle_named(database, name)
        if handle is None or type(parts) is not list or not 0 < PyList_GET_SIZE(parts) <= rest:
            return None
        rest -= PyList_GET_SIZE(parts)
        for part in <list>parts:
            write = made_request(handle, part, kind, limit_bytes)
            if write is None:
                return None
            keys.add(write.key)
            writes.append(write)
    # Equal keys are refused in one table, and fine in two; the long way looks which it is.
    return writes if writes and len(keys) == len(writes) else None


def batch_write_item(database, request, form):
    """Answer a BatchWriteItem; None when it has to take the long way."""
    cdef Py_ssize_t found = 0
    cdef PyObject* tables
    cdef list writes
    cdef WritePath path
    if type(request) is not dict:
        return None
    tables = member(<dict>request, "RequestItems", &found)
    if tables == NULL or type(<object>tables) is not dict or PyDict_Size(request) != found:
        return None
    try:
        writes = made_requests(database, <dict>tables, form)
    except Exception:
        return None              # the long way finds it again, and says what it is
    if writes is None:
        return None
    path = database.writes
    try:
        seqno = path.run_group(writes, None, -1.0)
    except StaleHandle:
        return None
    except ActionProblem as problem:
        raise problem.problem from None
    database.finish(seqno)
    return {"UnprocessedItems": {}}
