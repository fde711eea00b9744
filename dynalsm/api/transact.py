"""TransactWriteItems and TransactGetItems.

A transaction of writes is bound and checked action by action, then run as one commit under the
locks of all its items; a transaction of reads reads one snapshot. What is wrong with the request
itself is a ValidationException; what is wrong with one action against its table or item cancels
the transaction, with one reason per action (reference 6.4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

from dynalsm import errors, values
from dynalsm.api import refusals, replies, straight_transactions, transactions, write_plans
from dynalsm.api.batch import add_write_reports
from dynalsm.api.items import check_item_size, check_key_paths, check_update
from dynalsm.api.names import data_table
from dynalsm.api.parameters import NAMES, VALUES, Bound, Parameters
from dynalsm.api.refusals import PROBLEMS, refuse, translate
from dynalsm.api.registry import operation
from dynalsm.model import ttl
from dynalsm.model.capacity import TRANSACTION_FACTOR, Tally, read_units
from dynalsm.model.catalog import TableHandle
from dynalsm.model.entries import IndexKeyProblem
from dynalsm.model.keys import KeyProblem
from dynalsm.model.reads import get_item
from dynalsm.model.settings import Settings
from dynalsm.model.throttle import READ
from dynalsm.model.writes import (
    Check,
    Delete,
    Put,
    StaleHandle,
    Update,
    Write,
)
from dynalsm.values import Form

Request = Mapping[str, Any]
Reply = dict[str, Any]
Reasons = list[dict[str, Any]]

_OPERATION: Final = "TransactWriteItems"
_GET_OPERATION: Final = "TransactGetItems"
TRANSACT_GET: Final = Parameters(_GET_OPERATION, "ProjectionExpression")
_CONDITION: Final = Parameters(_OPERATION, "ConditionExpression")
_UPDATE: Final = Parameters(_OPERATION, "UpdateExpression ConditionExpression")

DUPLICATE_ITEM: Final = "Transaction request cannot include multiple operations on one item"
# Members of other names are none, as everywhere.
_KINDS: Final = ("ConditionCheck", "Put", "Delete", "Update")
ONE_ACTION: Final = "TransactItems can only contain one of Check, Put, Update or Delete"
PAYLOAD_TOO_LARGE: Final = "Transaction payload size cannot exceed 4 MB"


class _Action:
    """One action of a TransactWriteItems: its kind, its members, and what was made of them."""

    __slots__ = ("bound", "encoded", "form", "kind", "members")

    def __init__(self, kind: str, members: Request, form: Form) -> None:
        self.kind = kind
        self.members = members
        self.form = form
        self.encoded = b""
        self.bound = Bound()

    def prepare(self, settings: Settings) -> None:
        """Encode the item or key and bind the expressions."""
        members = self.members
        parameters = _UPDATE if self.kind == "Update" else _CONDITION
        parameters.check_mixing(members, settings.wording)
        if self.kind == "Put":
            self.encoded = self.form.encode_item(members["Item"])
            check_item_size(self.encoded, settings.limit_item_bytes)
        else:
            self.encoded = self.form.encode_item(members["Key"])
        self.bound = parameters.bind(members, self.form, settings)

    def tree_key(self, handle: TableHandle) -> bytes:
        """Return the tree key. Raises: KeyProblem."""
        keys = handle.keys
        return keys.encode(self.encoded) if self.kind == "Put" else keys.encode_key(self.encoded)

    def write(self, handle: TableHandle) -> Write:
        """Return the write. Raises: what is wrong with it against its table."""
        key, bound = self.tree_key(handle), self.bound
        if bound.condition is not None:
            check_key_paths(handle, bound.condition.paths)
        if self.kind == "Put":
            return Put(handle, key, self.encoded, bound.condition)
        if self.kind == "Delete":
            return Delete(handle, key, bound.condition)
        if self.kind == "ConditionCheck":
            return Check(handle, key, bound.condition)
        check_update(handle, bound.update)
        return Update(handle, key, bound.update, bound.condition)

    @property
    def payload_bytes(self) -> int:
        """The part of the transaction's size limit that the action takes."""
        given = self.members.get(VALUES) or {}
        encode = self.form.encode_value
        return values.item_size(self.encoded) + sum(
            values.value_size(encode(value)) for value in given.values()
        )

    def digest_parts(self) -> list[Any]:
        """Return everything that makes two actions the same, in one order."""
        members, encode = self.members, self.form.encode_value
        given = members.get(VALUES) or {}
        return [
            self.kind,
            members["TableName"],
            self.encoded,
            members.get("UpdateExpression"),
            members.get("ConditionExpression"),
            sorted((members.get(NAMES) or {}).items()),
            sorted((name, encode(value)) for name, value in given.items()),
            members.get("ReturnValuesOnConditionCheckFailure"),
        ]


@operation(_OPERATION, straight_transactions.transact_write_items)
def transact_write_items(database: Any, request: Request, form: Form) -> Reply:
    """Write up to 100 items, all or nothing."""
    actions = _prepare(request["TransactItems"], form, database.settings)
    return transactions.run_with_token(
        database,
        request,
        "write",
        lambda: transactions.digest_of([action.digest_parts() for action in actions]),
        lambda extra: _run(database, request, actions, form, extra),
    )


def _prepare(items: Sequence[Request], form: Form, settings: Settings) -> list[_Action]:
    actions = []
    for item in items:
        given = [(kind, item[kind]) for kind in _KINDS if item.get(kind) is not None]
        if len(given) != 1:
            raise refuse(ONE_ACTION)
        actions.append(_Action(*given[0], form))
    for action in actions:
        action.prepare(settings)
    if sum(action.payload_bytes for action in actions) > settings.limit_transaction_bytes:
        raise refuse(PAYLOAD_TOO_LARGE)
    return actions


def _run(
    database: Any,
    request: Request,
    actions: list[_Action],
    form: Form,
    extra: Callable[[Any, Sequence[Write]], None] | None,
) -> Reply:
    while True:
        writes = _make_writes(database, actions)
        try:
            seqno = transactions.run_writes(database, writes, extra)
            break
        except StaleHandle:
            continue
    database.finish(seqno)
    if any(write.is_failed for write in writes):
        members = [action.members for action in actions]
        transactions.cancel_failed(members, writes, form)
    settings = database.settings
    for action, write in zip(actions, writes, strict=True):
        parameters = _UPDATE if action.kind == "Update" else _CONDITION
        write_plans.keep(parameters, action.members, form, settings, write.handle)
    reply: Reply = {}
    add_write_reports(reply, request, writes, form, TRANSACTION_FACTOR, "WriteCapacityUnits")
    return reply


def _make_writes(database: Any, actions: list[_Action]) -> list[Write]:
    """Check actions against their tables: duplicates, tables, then each action in turn."""
    handles: list[TableHandle | None] = []
    missing: errors.ApiError | None = None
    for action in actions:
        try:
            handles.append(data_table(database, action.members["TableName"]))
        except errors.ApiError as error:
            handles.append(None)
            missing = missing or error
    refuse_duplicates(
        [
            None if handle is None else _identity(action.tree_key, handle)
            for action, handle in zip(actions, handles, strict=True)
        ]
    )
    if missing is not None:
        raise missing
    writes = []
    for position, (action, handle) in enumerate(zip(actions, handles, strict=True)):
        assert handle is not None
        try:
            writes.append(action.write(handle))
        except (*PROBLEMS, errors.ApiError) as problem:
            refuse_action(len(actions), position, problem, in_item=action.kind == "Put")
    return writes


def _identity(tree_key: Callable[[TableHandle], bytes], handle: TableHandle) -> Any:
    try:
        return handle.name, tree_key(handle)
    except KeyProblem:
        return None


def refuse_duplicates(identities: Sequence[Any]) -> None:
    """Refuse a transaction that names an item twice; None stands for no item."""
    known = [identity for identity in identities if identity is not None]
    if len(set(known)) != len(known):
        raise refuse(DUPLICATE_ITEM)


def refuse_action(count: int, position: int, problem: Exception, *, in_item: bool) -> NoReturn:
    """Refuse the request, or cancel the transaction, for what is wrong with one action.

    Empty keys and items that are too large are errors of the request (observed: scylladb).
    """
    if isinstance(problem, KeyProblem):
        text = refusals.key_text(problem, in_item=in_item)
        if problem.kind == "empty":
            raise refuse(text) from None
    elif isinstance(problem, IndexKeyProblem):
        text = refusals.index_key_text(problem, in_update=False)
        if problem.problem.kind == "empty":
            raise refuse(text) from None
    else:
        error = translate(_OPERATION, "classic", problem)
        if error.message == refusals.ITEM_TOO_LARGE:
            raise error from None
        text = error.message
    transactions.cancel_one(count, position, "ValidationError", text)


# Reading.


@operation(_GET_OPERATION)
def transact_get_items(database: Any, request: Request, form: Form) -> Reply:
    """Read up to 100 items as they were at one moment."""
    wording = database.settings.wording
    gets = [item["Get"] for item in request["TransactItems"]]
    encoded = []
    projections = []
    for get in gets:
        TRANSACT_GET.check_mixing(get, wording)
        encoded.append(form.encode_item(get["Key"]))
        projections.append(TRANSACT_GET.bind(get, form, database.settings).projection)
    handles = [data_table(database, get["TableName"]) for get in gets]
    keys = _read_keys(handles, encoded, projections)
    items = read_at_once(database, handles, keys)
    reply: Reply = {
        "Responses": [
            _response(item, projection, form)
            for item, projection in zip(items, projections, strict=True)
        ]
    }
    add_read_report(database, reply, request, handles, items)
    return reply


def _read_keys(
    handles: list[TableHandle], encoded: list[bytes], projections: list[Any]
) -> list[bytes]:
    keys = []
    for position, (handle, key) in enumerate(zip(handles, encoded, strict=True)):
        try:
            keys.append(handle.keys.encode_key(key))
            if projections[position] is not None:
                check_key_paths(handle, projections[position].paths)
        except (KeyProblem, errors.ApiError) as problem:
            refuse_action(len(handles), position, problem, in_item=False)
    refuse_duplicates([(handle.name, key) for handle, key in zip(handles, keys, strict=True)])
    return keys


def read_at_once(
    database: Any, handles: Sequence[TableHandle], keys: Sequence[bytes]
) -> list[bytes | None]:
    """Return items of one snapshot, once all of it is durable."""
    transactions.admit_all(database, handles, READ)
    insights = database.writes.insights
    if insights.is_on:
        for handle, key in zip(handles, keys, strict=True):
            insights.note(handle, key)
    with database.engine.snapshot() as snapshot:
        items = [
            ttl.shown_item(database.settings, handle, get_item(handle, key, snapshot))
            for handle, key in zip(handles, keys, strict=True)
        ]
        if database.must_wait:
            replies.settle(database, snapshot.seqno)
    limit = database.settings.limit_transaction_bytes
    if sum(map(values.item_size, filter(None, items))) > limit:
        raise refuse(PAYLOAD_TOO_LARGE)
    return items


def _response(item: bytes | None, projection: Any, form: Form) -> Reply:
    """One entry; without Item when there is nothing to show (observed: dynoxide)."""
    if item is None:
        return {}
    if projection is None:
        return {"Item": form.decode_item(item)}
    view = values.ItemView(item)
    if not projection.apply(view):
        return {}
    return {"Item": replies.projected(item, projection, form)}


def add_read_report(
    database: Any,
    reply: Reply,
    request: Request,
    handles: Sequence[TableHandle],
    items: Sequence[bytes | None],
) -> None:
    """Charge a transactional read; add its ConsumedCapacity, one entry per table, if wanted."""
    mode = request.get("ReturnConsumedCapacity")
    throttle = database.writes.throttle
    if throttle is None and (mode is None or mode == "NONE"):
        return
    tallies: dict[str, Tally] = {}
    for handle, item in zip(handles, items, strict=True):
        size = 0 if item is None else values.item_size(item)
        tally = tallies.setdefault(handle.name, Tally())
        units = TRANSACTION_FACTOR * read_units(size, consistent=True)
        tally.table_units += units
        if throttle is not None:
            throttle.charge(handle, READ, Tally(units))
    if mode is None or mode == "NONE":
        return
    reply["ConsumedCapacity"] = [
        tally.report(mode, name, "ReadCapacityUnits") for name, tally in tallies.items()
    ]
