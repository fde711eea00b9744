"""GetItem, PutItem, UpdateItem and DeleteItem.

Each function goes through the checks of reference 13.3 in order, builds one write (or reads one
item), runs it, waits for the disk once, and shapes the reply. The plain call, without any optional
member, takes the straight way through the same code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dynalsm import values
from dynalsm.api import parameters, refusals, replies, straight, straight_writes, write_plans
from dynalsm.api.names import data_table
from dynalsm.api.parameters import Parameters
from dynalsm.api.registry import operation
from dynalsm.expressions.ast import Arithmetic, Call, Constant, Slot
from dynalsm.expressions.evaluate import type_tag
from dynalsm.model import ttl
from dynalsm.model.capacity import Tally, read_units
from dynalsm.model.catalog import TableHandle
from dynalsm.model.settings import Settings
from dynalsm.model.throttle import READ, WRITE
from dynalsm.model.writes import Delete, Put, StaleHandle, Update, Write
from dynalsm.values import Form

Request = Mapping[str, Any]
Reply = dict[str, Any]

GET: Final = Parameters("GetItem", "ProjectionExpression", "AttributesToGet")
PUT: Final = Parameters("PutItem", "ConditionExpression", "Expected ConditionalOperator")
DELETE: Final = Parameters("DeleteItem", "ConditionExpression", "Expected ConditionalOperator")
UPDATE: Final = Parameters(
    "UpdateItem",
    "UpdateExpression ConditionExpression",
    "AttributeUpdates Expected ConditionalOperator",
)


@operation("GetItem", straight.get_item)
def get_item(database: Any, request: Request, form: Form) -> Reply:
    """Return one item by its key."""
    wording = database.settings.wording
    projection = None
    if len(request) > 2 and GET.has_any(request):
        GET.check_mixing(request, wording)
        key_item = form.encode_item(request["Key"])
        projection = parameters.attributes_to_get(request)
        bound = GET.bind(request, form, database.settings)
        projection = bound.projection or projection
    else:
        key_item = form.encode_item(request["Key"])
    handle = data_table(database, request["TableName"])
    if projection is not None:
        check_key_paths(handle, projection.paths)
    keys = handle.keys
    key = keys.encode_key(key_item)
    if database.writes.is_watched:
        replies.admit(database, handle, READ, key=key)
    stored = ttl.shown(database.settings, handle, key, handle.tree.get(key))
    is_consistent = request.get("ConsistentRead")
    if is_consistent and database.must_wait:
        replies.settle(database, database.writes.seqno_near(key))
    reply: Reply = {}
    if stored is not None:
        if projection is None:
            reply["Item"] = keys.decode(key, stored, form.kind)
        else:
            reply["Item"] = replies.projected(keys.join(key, stored), projection, form)
    mode = request.get("ReturnConsumedCapacity")
    if mode is not None or database.writes.throttle is not None:
        size = 0 if stored is None else keys.stored_size(stored)
        tally = Tally(read_units(size, bool(is_consistent)))
        replies.report(database, reply, mode, handle, tally)
    return reply


@operation("PutItem", straight_writes.put_item)
def put_item(database: Any, request: Request, form: Form) -> Reply:
    """Write a whole item."""
    settings = database.settings
    wording = settings.wording
    has_expressions = len(request) > 2 and PUT.has_any(request)
    if has_expressions:
        PUT.check_mixing(request, wording)
    item = form.encode_item(request["Item"])
    _check_return_values("PutItem", request, wording)
    check_item_size(item, settings.limit_item_bytes)
    condition = _condition(PUT, request, form, settings) if has_expressions else None
    while True:
        handle = data_table(database, request["TableName"])
        write = Put(handle, handle.keys.encode(item), item, condition)
        if condition is not None:
            check_key_paths(handle, condition.paths)
        try:
            seqno = run(database, write)
            break
        except StaleHandle:
            continue
    database.finish(seqno)
    if condition is not None:
        write_plans.keep(PUT, request, form, settings, handle)
    return replies.of_write(request, form, write)


@operation("DeleteItem", straight_writes.delete_item)
def delete_item(database: Any, request: Request, form: Form) -> Reply:
    """Delete an item by its key; a missing one is no error."""
    wording = database.settings.wording
    has_expressions = len(request) > 2 and DELETE.has_any(request)
    if has_expressions:
        DELETE.check_mixing(request, wording)
    key_item = form.encode_item(request["Key"])
    _check_return_values("DeleteItem", request, wording)
    condition = _condition(DELETE, request, form, database.settings) if has_expressions else None
    while True:
        handle = data_table(database, request["TableName"])
        write = Delete(handle, handle.keys.encode_key(key_item), condition)
        if condition is not None:
            check_key_paths(handle, condition.paths)
        try:
            seqno = run(database, write)
            break
        except StaleHandle:
            continue
    database.finish(seqno)
    write_plans.keep(DELETE, request, form, database.settings, handle)
    return replies.of_write(request, form, write)


@operation("UpdateItem", straight_writes.update_item)
def update_item(database: Any, request: Request, form: Form) -> Reply:
    """Change attributes of an item, or create it."""
    wording = database.settings.wording
    UPDATE.check_mixing(request, wording)
    key_item = form.encode_item(request["Key"])
    update = parameters.attribute_updates(request, form)
    condition = parameters.expected(request, form)
    bound = UPDATE.bind(request, form, database.settings)
    update = bound.update or update
    condition = bound.condition or condition
    while True:
        handle = data_table(database, request["TableName"])
        key = handle.keys.encode_key(key_item)
        check_update(handle, update)
        if condition is not None:
            check_key_paths(handle, condition.paths)
        write = Update(handle, key, update, condition)
        try:
            seqno = run(database, write)
            break
        except StaleHandle:
            continue
    database.finish(seqno)
    write_plans.keep(UPDATE, request, form, database.settings, handle)
    return replies.of_write(request, form, write)


def run(database: Any, write: Write) -> int:
    """Run one write within the table's throughput, if that is enforced; count its key."""
    service = database.writes
    if not service.is_watched:
        seqno: int = service.run(write)
        return seqno
    replies.admit(database, write.handle, WRITE, key=write.key)
    seqno = service.run(write)
    if service.throttle is not None:
        service.throttle.charge(write.handle, WRITE, write.tally())
    return seqno


def _check_return_values(name: str, request: Request, wording: str) -> None:
    returns = request.get("ReturnValues")
    if returns is not None and returns not in ("NONE", "ALL_OLD"):
        raise refusals.refuse_worded(name, wording, refusals.RETURN_VALUES)


def check_item_size(item: bytes, limit_bytes: int) -> None:
    """Refuse an encoded item that no table could take."""
    # An encoded byte counts for at most four bytes of DynamoDB's size.
    if len(item) * 4 > limit_bytes and values.item_size(item) > limit_bytes:
        raise refusals.refuse(refusals.ITEM_TOO_LARGE)


def _condition(kind: Parameters, request: Request, form: Form, settings: Settings) -> Any:
    older = parameters.expected(request, form)
    return kind.bind(request, form, settings).condition or older


def check_key_paths(handle: TableHandle, paths: Any) -> None:
    """Refuse paths that go below a key attribute of the table or an index."""
    nested = parameters.first_nested(paths)
    if not nested:
        return
    for name in handle.keys.names:
        if name in nested:
            raise refusals.nested_key_path(name, in_index=False)
    for index in handle.indexes.values():
        for name in index.schema.key_names:
            if name in nested:
                raise refusals.nested_key_path(name, in_index=True)


def check_update(handle: TableHandle, update: Any) -> None:
    """Refuse what an update may never do to this table, whatever the item."""
    if update is None:
        return
    attributes = update.attributes
    for name in handle.keys.names:
        if name in attributes:
            raise refusals.cannot_update_key(name)
    for index in handle.written_indexes:
        for name in index.schema.key_names:
            if name in attributes:
                _check_static_type(handle, index.name, name, update)
    check_key_paths(handle, update.paths)


def _check_static_type(handle: TableHandle, index: str, name: str, update: Any) -> None:
    """Refuse a value whose type is known to be wrong for an index key (reference 7.3)."""
    expected = handle.schema.attributes[name]
    for action in update.actions:
        if action.path.steps == (name,):
            actual = _static_type(action.value, update.values)
            if actual is not None and actual != expected:
                raise refusals.refuse(refusals.index_key_type(name, expected, actual, index))


def _static_type(node: Any, given: tuple[Any, ...]) -> str | None:
    """Return the type of an action's value as far as it is known without an item."""
    if isinstance(node, Constant):
        return type_tag(node.value)
    if isinstance(node, Slot):
        return type_tag(given[node.index])
    if isinstance(node, Arithmetic):
        return "N"
    if isinstance(node, Call) and node.function == "list_append":
        return "L"
    return None
