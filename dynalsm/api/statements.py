"""ExecuteStatement, BatchExecuteStatement and ExecuteTransaction: PartiQL (reference 11).

Statements are bound by expressions.partiql, planned by model.statements, and run through the same
reads and writes as the other operations.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgpack

from dynalsm import errors, values
from dynalsm.api import refusals, replies, transact
from dynalsm.api.batch import add_write_reports
from dynalsm.api.items import check_item_size, check_update
from dynalsm.api.names import data_table
from dynalsm.api.refusals import PROBLEMS, refuse, translate
from dynalsm.api.registry import operation
from dynalsm.expressions.partiql import (
    Exists,
    Insert,
    Select,
    Update,
    bind_statement,
)
from dynalsm.model import writes
from dynalsm.model.capacity import TRANSACTION_FACTOR, Tally, read_units
from dynalsm.model.catalog import TableHandle
from dynalsm.model.reads import Page, get_item
from dynalsm.model.statements import (
    Position,
    SelectPlan,
    find_full_key,
    full_key,
    write_of,
)
from dynalsm.model.writes import StaleHandle, Write
from dynalsm.values import Form

Request = Mapping[str, Any]
Reply = dict[str, Any]

_EXECUTE: Final = "ExecuteStatement"
_BATCH: Final = "BatchExecuteStatement"
_TRANSACTION: Final = "ExecuteTransaction"

DUPLICATE: Final = "Duplicate primary key exists in table"
TOKEN_INVALID: Final = "Invalid NextToken"
TOKEN_MISMATCH: Final = "NextToken does not match request"
ONLY_IN_TRANSACTIONS: Final = "EXISTS is supported in ExecuteTransaction only"
MIXED: Final = "{} API does not support both read and write operations in the same request."
SELECT_NEEDS_KEY: Final = (
    "Select statements within {} must specify the primary key in the where clause."
)
EXISTS_NEEDS_MORE: Final = "EXISTS() must contain a single item read with additional condition"
NO_RETURNING: Final = "RETURNING clause is not supported in ExecuteTransaction."

# Error names -> codes of BatchExecuteStatement.
_CODES: Final = {
    "ConditionalCheckFailedException": "ConditionalCheckFailed",
    "DuplicateItemException": "DuplicateItem",
    "ItemCollectionSizeLimitExceededException": "ItemCollectionSizeLimitExceeded",
    "ProvisionedThroughputExceededException": "ProvisionedThroughputExceeded",
    "RequestLimitExceeded": "RequestLimitExceeded",
    "ResourceNotFoundException": "ResourceNotFound",
    "ThrottlingException": "ThrottlingError",
    "TransactionConflictException": "TransactionConflict",
    "ValidationException": "ValidationError",
}


def _bind(member: Request, form: Form) -> Any:
    """Bind the statement of a request or member. Raises: ExpressionError, ValueProblem."""
    given = member.get("Parameters") or ()
    return bind_statement(
        member["Statement"], [values.decode_value(form.encode_value(value)) for value in given]
    )


# ExecuteStatement.


@operation(_EXECUTE)
def execute_statement(database: Any, request: Request, form: Form) -> Reply:
    """Run one statement; a SELECT answers page by page."""
    try:
        statement = _bind(request, form)
        if isinstance(statement, Exists):
            raise refuse(ONLY_IN_TRANSACTIONS)
        if isinstance(statement, Select):
            return _select(database, request, statement, form)
        write, seqno = _run_write(database, statement)
    except PROBLEMS as problem:
        raise _translate(problem) from None
    database.finish(seqno)
    _check_outcome(write, statement, request, form)
    reply: Reply = {"Items": _returned(write, statement, form)}
    _add_report(reply, request, write.handle, write.tally())
    return reply


def _translate(problem: Exception, *, in_update: bool = False) -> errors.ApiError:
    return translate("UpdateItem" if in_update else "PutItem", "classic", problem)


def _table_of(statement: Any) -> str:
    name: str = statement.select.table if isinstance(statement, Exists) else statement.table
    return name


def _make_write(database: Any, statement: Any) -> Write:
    handle = data_table(
        database, statement.select.table if isinstance(statement, Exists) else statement.table
    )
    if isinstance(statement, Insert):
        check_item_size(values.encode_item(statement.item))
    elif isinstance(statement, Update):
        check_update(handle, statement.update)
    return write_of(handle, statement)


def _run_write(database: Any, statement: Any) -> tuple[Write, int]:
    while True:
        write = _make_write(database, statement)
        try:
            return write, database.writes.run(write)
        except StaleHandle:
            continue
        except PROBLEMS as problem:
            raise _translate(problem, in_update=isinstance(statement, Update)) from None


def _check_outcome(write: Write, statement: Any, member: Request, form: Form) -> None:
    """Raise what a failed write answers with."""
    if not write.is_failed:
        return
    if isinstance(statement, Insert):
        raise errors.API_ERRORS["DuplicateItemException"](DUPLICATE)
    old = None
    if member.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD":
        old = write.old_item
    raise refusals.condition_failed(None if old is None else form.decode_item(old))


def _returned(write: Write, statement: Any, form: Form) -> list[Any]:
    """Return what RETURNING asks for, as a list of at most one item."""
    returning = getattr(statement, "returning", None)
    if returning is None:
        return []
    which, image = returning
    item = write.old_item if image == "OLD" else write.new_item
    if item is None:
        return []
    if which == "ALL":
        return [form.decode_item(item)]
    view = values.ItemView(item)
    update = statement.update
    parts = update.updated_old(view) if image == "OLD" else update.updated_new(view)
    return [form.decode_item(values.encode_item(parts))] if parts else []


def _add_report(reply: Reply, request: Request, handle: TableHandle, tally: Tally) -> None:
    mode = request.get("ReturnConsumedCapacity")
    if mode is not None and mode != "NONE":
        reply["ConsumedCapacity"] = tally.report(mode, handle.name)


# SELECT.


def _select(database: Any, request: Request, select: Select, form: Form) -> Reply:
    handle = data_table(database, select.table)
    consistent = bool(request.get("ConsistentRead"))
    plan = SelectPlan(handle, select, consistent)
    digest = _digest(request, form)
    position: Position = (0, b"")
    if request.get("NextToken") is not None:
        position = _read_token(request["NextToken"], digest, plan)
    with database.engine.snapshot() as snapshot:
        page, following = plan.read(position, request.get("Limit"), snapshot)
        if consistent and database.must_wait:
            replies.settle(database, snapshot.seqno)
    reply: Reply = {"Items": [_selected(item, select, form) for item in page.items]}
    if following is not None:
        reply["NextToken"] = _write_token(digest, following)
        if following[1]:
            last = plan.source.keys.key_item(following[1])
            reply["LastEvaluatedKey"] = form.decode_item(last)
    _add_report(reply, request, handle, _select_tally(plan, page, consistent))
    return reply


def _selected(item: bytes, select: Select, form: Form) -> Any:
    if select.paths is None:
        return form.decode_item(item)
    parts = select.project(values.ItemView(item))
    return form.decode_item(values.encode_item(parts))


def _select_tally(plan: SelectPlan, page: Page, consistent: bool) -> Tally:
    units = read_units(page.size_bytes, consistent)
    if plan.index is None:
        return Tally(units)
    tally = Tally(sum(read_units(size, consistent) for size in page.fetched_sizes))
    tally.add_index(plan.index.kind == "LSI", plan.index.name, units)
    return tally


def _digest(request: Request, form: Form) -> bytes:
    """Return what binds a NextToken to its statement and parameters."""
    given = [form.encode_value(value) for value in request.get("Parameters") or ()]
    return hashlib.blake2b(msgpack.packb([request["Statement"], given]), digest_size=12).digest()


def _write_token(digest: bytes, position: Position) -> str:
    return base64.urlsafe_b64encode(digest + msgpack.packb(position)).decode()


def _read_token(token: str, digest: bytes, plan: SelectPlan) -> Position:
    try:
        packed = base64.b64decode(token, altchars=b"-_", validate=True)
        number, last_key = msgpack.unpackb(packed[len(digest) :])
    except (ValueError, TypeError, binascii.Error, msgpack.UnpackException):
        raise refuse(TOKEN_INVALID) from None
    if packed[: len(digest)] != digest:
        raise refuse(TOKEN_MISMATCH)
    if not isinstance(number, int) or not isinstance(last_key, bytes):
        raise refuse(TOKEN_INVALID)
    if not 0 <= number < len(plan.ranges):
        raise refuse(TOKEN_MISMATCH)
    return number, last_key


# BatchExecuteStatement.


class _Member:
    """One statement of a batch: bound, or the error it was refused with."""

    __slots__ = ("error", "handle", "request", "response", "statement", "tally")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.statement: Any = None
        self.error: errors.ApiError | None = None
        self.handle: TableHandle | None = None
        self.tally: Tally | None = None
        self.response: Reply = {}


@operation(_BATCH)
def batch_execute_statement(database: Any, request: Request, form: Form) -> Reply:
    """Run up to 25 statements, each for itself: all reads, or all writes."""
    members = [_Member(member) for member in request["Statements"]]
    for member in members:
        try:
            member.statement = _bind(member.request, form)
        except PROBLEMS as problem:
            member.error = _translate(problem)
    bound = [member.statement for member in members if member.error is None]
    _refuse_mixed(bound, _BATCH)
    _refuse_repeated(database, bound)
    seqno = 0
    for member in members:
        if member.error is None:
            seqno = max(seqno, _run_member(database, member, form))
    if seqno:
        replies.settle(database, seqno)
    reply: Reply = {"Responses": [_response(member, form) for member in members]}
    mode = request.get("ReturnConsumedCapacity")
    if mode is not None and mode != "NONE":
        reply["ConsumedCapacity"] = _batch_report(members, mode)
    return reply


def _is_read(statement: Any) -> bool:
    return isinstance(statement, Select)


def _refuse_mixed(statements: Sequence[Any], name: str) -> None:
    if len({_is_read(statement) for statement in statements}) > 1:
        raise refuse(MIXED.format(name))


def _refuse_repeated(database: Any, statements: Sequence[Any]) -> None:
    """Refuse a batch that names an item twice; what has no single item fails by itself later."""
    seen = set()
    for statement in statements:
        try:
            handle = data_table(database, _table_of(statement))
            if isinstance(statement, Insert):
                key = handle.keys.encode(values.encode_item(statement.item))
            else:
                key = full_key(handle, getattr(statement, "select", statement))
        except (*PROBLEMS, errors.ApiError):
            continue
        if (handle.name, key) in seen:
            raise refuse(refusals.DUPLICATE_KEYS)
        seen.add((handle.name, key))


def _run_member(database: Any, member: _Member, form: Form) -> int:
    """Run one statement of a batch; what goes wrong stays with it."""
    statement = member.statement
    try:
        if isinstance(statement, Exists):
            raise refuse(ONLY_IN_TRANSACTIONS)
        if isinstance(statement, Select):
            return _run_read_member(database, member, form)
        write, seqno = _run_write(database, statement)
        member.handle = write.handle
        member.tally = write.tally()
        _check_outcome(write, statement, {}, form)
        returned = _returned(write, statement, form)
        if returned:
            member.response["Item"] = returned[0]
        return seqno
    except PROBLEMS as problem:
        member.error = _translate(problem)
    except errors.ApiError as error:
        member.error = error
    return 0


def _run_read_member(database: Any, member: _Member, form: Form) -> int:
    select = member.statement
    handle = data_table(database, select.table)
    key = None if select.index is not None else find_full_key(handle, select)
    if key is None:
        raise refuse(SELECT_NEEDS_KEY.format(_BATCH))
    consistent = bool(member.request.get("ConsistentRead"))
    item = get_item(handle, key)
    member.handle = handle
    member.tally = Tally(read_units(0 if item is None else values.item_size(item), consistent))
    if item is not None and select.where.evaluate(values.ItemView(item)):
        member.response["Item"] = _selected(item, select, form)
    return database.writes.seqno_near(key) if consistent and database.must_wait else 0


def _response(member: _Member, form: Form) -> Reply:
    reply = member.response
    if member.handle is not None:
        reply["TableName"] = member.handle.name
    if member.error is not None:
        code = _CODES.get(member.error.code, "InternalServerError")
        reply["Error"] = {"Code": code, "Message": member.error.message}
    return reply


def _batch_report(members: list[_Member], mode: str) -> list[Reply]:
    tallies: dict[str, Tally] = {}
    for member in members:
        if member.handle is None or member.tally is None:
            continue
        total = tallies.setdefault(member.handle.name, Tally())
        total.table_units += member.tally.table_units
        for is_local, arms in ((True, member.tally.lsi_units), (False, member.tally.gsi_units)):
            for name, units in (arms or {}).items():
                total.add_index(is_local, name, units)
    return [tally.report(mode, name) for name, tally in tallies.items()]


# ExecuteTransaction.


@operation(_TRANSACTION)
def execute_transaction(database: Any, request: Request, form: Form) -> Reply:
    """Run up to 100 statements at once: all reads, or all writes."""
    members = request["TransactStatements"]
    statements = []
    for position, member in enumerate(members):
        try:
            statements.append(_bind(member, form))
        except PROBLEMS as problem:
            raise _member_error(position, _translate(problem).message) from None
    _refuse_mixed(statements, _TRANSACTION)
    for position, statement in enumerate(statements):
        if getattr(statement, "returning", None) is not None:
            raise _member_error(position, NO_RETURNING)
    if _is_read(statements[0]):
        return _transact_reads(database, request, statements, form)
    reply = transact.run_with_token(
        database,
        request,
        "statement",
        lambda: _transaction_digest(members, form),
        lambda extra: _transact_writes(database, request, statements, form, extra),
    )
    reply["Responses"] = [{} for _ in members]
    return reply


def _member_error(position: int, text: str) -> errors.ApiError:
    return refuse(f"Validation failed in TransactStatements[{position}]: {text}")


def _transaction_digest(members: Sequence[Request], form: Form) -> bytes:
    parts = [
        [
            member["Statement"],
            [form.encode_value(value) for value in member.get("Parameters") or ()],
            member.get("ReturnValuesOnConditionCheckFailure"),
        ]
        for member in members
    ]
    return hashlib.blake2b(msgpack.packb(parts), digest_size=16).digest()


def _transact_reads(database: Any, request: Request, statements: list[Any], form: Form) -> Reply:
    handles = [data_table(database, statement.table) for statement in statements]
    keys = []
    for position, (handle, select) in enumerate(zip(handles, statements, strict=True)):
        try:
            key = None if select.index is not None else find_full_key(handle, select)
        except PROBLEMS as problem:
            raise _member_error(position, _translate(problem).message) from None
        if key is None:
            raise _member_error(position, SELECT_NEEDS_KEY.format(_TRANSACTION))
        keys.append(key)
    transact.refuse_duplicates(
        [(handle.name, key) for handle, key in zip(handles, keys, strict=True)]
    )
    items = transact.read_at_once(database, handles, keys)
    responses: list[Reply] = []
    for item, select in zip(items, statements, strict=True):
        found = item is not None and select.where.evaluate(values.ItemView(item))
        responses.append({"Item": _selected(item, select, form)} if found and item else {})
    reply: Reply = {"Responses": responses}
    transact.add_read_report(reply, request, handles, items)
    return reply


def _transact_writes(
    database: Any,
    request: Request,
    statements: list[Any],
    form: Form,
    extra: Callable[[Any, Sequence[Write]], None] | None,
) -> Reply:
    while True:
        planned = _plan_writes(database, statements)
        try:
            seqno = transact.run_writes(database, planned, extra)
            break
        except StaleHandle:
            continue
    database.finish(seqno)
    if any(write.is_failed for write in planned):
        transact.cancel(_failed_reasons(request, statements, planned, form))
    reply: Reply = {}
    add_write_reports(reply, request, planned, form, TRANSACTION_FACTOR, "WriteCapacityUnits")
    return reply


def _plan_writes(database: Any, statements: list[Any]) -> list[writes.Write]:
    planned: list[writes.Write] = []
    for position, statement in enumerate(statements):
        try:
            if isinstance(statement, Exists) and not _tests_more_than_the_key(database, statement):
                raise _member_error(position, EXISTS_NEEDS_MORE)
            planned.append(_make_write(database, statement))
        except PROBLEMS as problem:
            transact.refuse_action(
                len(statements), position, problem, in_item=isinstance(statement, Insert)
            )
    transact.refuse_duplicates([(write.handle.name, write.key) for write in planned])
    return planned


def _tests_more_than_the_key(database: Any, statement: Exists) -> bool:
    select = statement.select
    handle = data_table(database, select.table)
    if select.where is None or select.index is not None:
        return False
    names = handle.keys.names
    is_single = find_full_key(handle, select) is not None
    return is_single and bool(select.where.attributes - set(names))


def _failed_reasons(
    request: Request, statements: list[Any], planned: Sequence[Write], form: Form
) -> list[Reply]:
    reasons = []
    members = request["TransactStatements"]
    for member, statement, write in zip(members, statements, planned, strict=True):
        if not write.is_failed:
            reasons.append({"Code": "None"})
        elif isinstance(statement, Insert):
            reasons.append({"Code": "DuplicateItem", "Message": DUPLICATE})
        else:
            reason: Reply = {
                "Code": "ConditionalCheckFailed",
                "Message": refusals.CONDITION_FAILED,
            }
            wanted = member.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD"
            if wanted and write.old_item is not None:
                reason["Item"] = form.decode_item(write.old_item)
            reasons.append(reason)
    return reasons
