"""The straight way of TransactWriteItems; see straight_writes.pyx.

Thread safety: may be called from any thread.
"""

from cpython.bytes cimport PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Size
from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyObject
from cython cimport final
from libc.stdint cimport int64_t, uint64_t

from dynalsm.api.requests cimport handle_of, member
from dynalsm.api.straight_writes cimport (
    OLD_VALUES,
    SIZE_FACTOR,
    Taken,
    is_one_of,
    made_write,
    only_pair,
)
from dynalsm.model.handles cimport TableHandle
from dynalsm.model.item_writes cimport Write
from dynalsm.model.write_path cimport WritePath

from dynalsm.api import transactions
from dynalsm.model.writes import ActionProblem, LockTimeout, StaleHandle

cdef enum:
    MAX_TOKEN = 36               # characters of a client token


@final
cdef class Action:
    """One action of a transaction: what was read of it, for its size, its digest and its reason."""

    cdef str kind
    cdef dict members
    cdef Taken taken

    cdef int64_t most_bytes(self):
        """What the action adds to the size of its transaction, or more."""
        cdef int64_t size = PyBytes_GET_SIZE(self.taken.encoded)
        if self.taken.values is not None:
            for value in self.taken.values:
                size += PyBytes_GET_SIZE(<bytes>value)
        return size * SIZE_FACTOR

    cdef list digest_parts(self):
        """The same as transact.py makes of the members."""
        get = self.members.get
        names = get("ExpressionAttributeNames")
        values = []
        if self.taken.values is not None:
            values = sorted(zip(self.taken.plan.values.names, self.taken.values))
        return [
            self.kind,
            get("TableName"),
            self.taken.encoded,
            get("UpdateExpression"),
            get("ConditionExpression"),
            sorted(names.items()) if names else [],
            values,
            get("ReturnValuesOnConditionCheckFailure"),
        ]


cdef Write made_action(database, object source, int form, object limit_bytes, Action action):
    """The write of one TransactWriteItem; None when it needs a closer look. Raises: likewise."""
    cdef PyObject* kind = NULL
    cdef Py_ssize_t found = 0
    cdef object content
    cdef TableHandle handle
    cdef Write write
    if type(source) is not dict:
        return None
    content = only_pair(<dict>source, &kind)
    if type(content) is not dict or type(<object>kind) is not str:
        return None
    handle = handle_of(database, <dict>content, &found)
    if handle is None:
        return None
    action.kind = <str><object>kind
    action.members = <dict>content
    action.taken = Taken.__new__(Taken)
    write = made_write(
        action.kind, handle, action.members, form, limit_bytes, action.taken, &found
    )
    if write is None or not is_one_of(
        action.members, "ReturnValuesOnConditionCheckFailure", OLD_VALUES, &found
    ):
        return None
    return write if PyDict_Size(content) == found else None


cdef list made_actions(database, list sources, form, list actions):
    """The writes of a TransactWriteItems; None when one of them needs a closer look."""
    cdef Write write
    cdef Action action
    cdef list writes = []
    cdef set keys = set()
    cdef object limit_bytes = database.settings.limit_item_bytes
    cdef int64_t size = 0
    cdef int kind = form.kind
    if not 0 < PyList_GET_SIZE(sources) <= database.settings.limit_transaction_items:
        return None
    for source in sources:
        action = Action.__new__(Action)
        write = made_action(database, source, kind, limit_bytes, action)
        if write is None:
            return None
        size += action.most_bytes()
        keys.add(write.key)
        actions.append(action)
        writes.append(write)
    if len(keys) != len(writes) or size > database.settings.limit_transaction_bytes:
        return None
    return writes


def transact_write_items(database, request, form):
    """Answer a TransactWriteItems; None when it has to take the long way."""
    cdef Py_ssize_t found = 0
    cdef PyObject* sources
    cdef PyObject* token
    cdef list writes
    cdef list actions = []
    if type(request) is not dict:
        return None
    sources = member(<dict>request, "TransactItems", &found)
    token = member(<dict>request, "ClientRequestToken", &found)
    if sources == NULL or type(<object>sources) is not list or PyDict_Size(request) != found:
        return None
    if token != NULL and not is_token(<object>token):
        return None
    try:
        writes = made_actions(database, <list><object>sources, form, actions)
    except Exception:
        return None              # the long way finds it again, and says what it is
    if writes is None:
        return None
    if token == NULL:
        return run_transaction(database, writes, actions, form, None)
    return transactions.run_with_token(
        database,
        request,
        "write",
        lambda: transactions.digest_of([(<Action>each).digest_parts() for each in actions]),
        lambda extra: run_transaction(database, writes, actions, form, extra),
    )


cdef bint is_token(object text) except -1:
    return type(text) is str and 0 < len(<str>text) <= MAX_TOKEN


cdef object run_transaction(database, list writes, list actions, form, extra):
    cdef WritePath path = database.writes
    cdef Write write
    cdef uint64_t seqno = 0
    try:
        seqno = path.run_group(
            writes, None if extra is None else (lambda batch: extra(batch, writes)),
            transactions.CONFLICT_SECONDS
        )
    except StaleHandle:
        return None
    except (ActionProblem, LockTimeout) as problem:
        transactions.give_up(problem, len(writes))
    database.finish(seqno)
    for write in writes:
        if write.is_failed:
            members = [(<Action>each).members for each in actions]
            transactions.cancel_failed(members, writes, form)
    return {}
