"""BatchExecuteStatement and ExecuteTransaction: several PartiQL statements (reference 11.4).

A batch runs its statements one by one and reports each by itself; a transaction runs them as
TransactWriteItems and TransactGetItems do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from dynalsm import errors, values
from dynalsm.api import messages, refusals, replies, transact, transactions
from dynalsm.api.batch import add_write_reports
from dynalsm.api.names import data_table
from dynalsm.api.refusals import PROBLEMS, refuse
from dynalsm.api.registry import operation
from dynalsm.api.statements import (
    DUPLICATE,
    ONLY_IN_TRANSACTIONS,
    bind_member,
    check_outcome,
    make_write,
    returned,
    run_write,
    selected,
    table_of,
    translate_problem,
)
from dynalsm.expressions.partiql import Exists, Insert, Select
from dynalsm.model.capacity import TRANSACTION_FACTOR, Tally, read_units
from dynalsm.model.catalog import TableHandle
from dynalsm.model.reads import get_item
from dynalsm.model.statements import find_full_key, full_key
from dynalsm.model.throttle import READ
from dynalsm.model.writes import StaleHandle, Write
from dynalsm.values import Form

Request = Mapping[str, Any]
Reply = dict[str, Any]

_BATCH: Final = "BatchExecuteStatement"
_TRANSACTION: Final = "ExecuteTransaction"

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
            member.statement = bind_member(member.request, form)
        except PROBLEMS as problem:
            member.error = translate_problem(problem)
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
            handle = data_table(database, table_of(statement))
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
        write, seqno = run_write(database, statement)
        member.handle = write.handle
        member.tally = write.tally()
        check_outcome(write, statement, {}, form)
        rows = returned(write, statement, form)
        if rows:
            member.response["Item"] = rows[0]
        return seqno
    except PROBLEMS as problem:
        member.error = translate_problem(problem)
    except errors.ApiError as error:
        member.error = error
    except errors.TreeDroppedError:  # by a DeleteTable beside it
        member.error = errors.ResourceNotFoundException(messages.NOT_FOUND)
    return 0


def _run_read_member(database: Any, member: _Member, form: Form) -> int:
    select = member.statement
    handle = data_table(database, select.table)
    key = None if select.index is not None else find_full_key(handle, select)
    if key is None:
        raise refuse(SELECT_NEEDS_KEY.format(_BATCH))
    consistent = bool(member.request.get("ConsistentRead"))
    replies.admit(database, handle, READ, key=key)
    item = get_item(handle, key)
    member.handle = handle
    member.tally = Tally(read_units(0 if item is None else values.item_size(item), consistent))
    replies.report(database, {}, None, handle, member.tally)
    if item is not None and select.where.evaluate(values.ItemView(item)):
        member.response["Item"] = selected(item, select, form)
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
            statements.append(bind_member(member, form))
        except PROBLEMS as problem:
            raise _member_error(position, translate_problem(problem).message) from None
    _refuse_mixed(statements, _TRANSACTION)
    for position, statement in enumerate(statements):
        if getattr(statement, "returning", None) is not None:
            raise _member_error(position, NO_RETURNING)
    if _is_read(statements[0]):
        return _transact_reads(database, request, statements, form)
    reply = transactions.run_with_token(
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
    return transactions.digest_of(parts)


def _transact_reads(database: Any, request: Request, statements: list[Any], form: Form) -> Reply:
    handles = [data_table(database, statement.table) for statement in statements]
    keys = []
    for position, (handle, select) in enumerate(zip(handles, statements, strict=True)):
        try:
            key = None if select.index is not None else find_full_key(handle, select)
        except PROBLEMS as problem:
            raise _member_error(position, translate_problem(problem).message) from None
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
        responses.append({"Item": selected(item, select, form)} if found and item else {})
    reply: Reply = {"Responses": responses}
    transact.add_read_report(database, reply, request, handles, items)
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
            seqno = transactions.run_writes(database, planned, extra)
            break
        except StaleHandle:
            continue
    database.finish(seqno)
    if any(write.is_failed for write in planned):
        transactions.cancel(_failed_reasons(request, statements, planned, form))
    reply: Reply = {}
    add_write_reports(reply, request, planned, form, TRANSACTION_FACTOR, "WriteCapacityUnits")
    return reply


def _plan_writes(database: Any, statements: list[Any]) -> list[Write]:
    planned: list[Write] = []
    for position, statement in enumerate(statements):
        try:
            if isinstance(statement, Exists) and not _tests_more_than_the_key(database, statement):
                raise _member_error(position, EXISTS_NEEDS_MORE)
            planned.append(make_write(database, statement))
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
