"""ExecuteStatement: one PartiQL statement (reference 11); and what its batches share with it.

Statements are bound by expressions.partiql, planned by model.statements, and run through the same
reads and writes as the other operations.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgpack

from dynalsm import errors, values
from dynalsm.api import refusals, replies
from dynalsm.api.items import check_item_size, check_update, run
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
from dynalsm.model.capacity import Tally, read_units, scan_units
from dynalsm.model.reads import Page
from dynalsm.model.statements import (
    Position,
    SelectPlan,
    write_of,
)
from dynalsm.model.throttle import READ
from dynalsm.model.writes import StaleHandle, Write
from dynalsm.values import Form

Request = Mapping[str, Any]
Reply = dict[str, Any]

DUPLICATE: Final = "Duplicate primary key exists in table"
TOKEN_INVALID: Final = "Invalid NextToken"
TOKEN_MISMATCH: Final = "NextToken does not match request"
ONLY_IN_TRANSACTIONS: Final = "EXISTS is supported in ExecuteTransaction only"


def bind_member(member: Request, form: Form) -> Any:
    """Bind the statement of a request or member. Raises: ExpressionError, ValueProblem."""
    given = member.get("Parameters") or ()
    return bind_statement(
        member["Statement"], [values.decode_value(form.encode_value(value)) for value in given]
    )


# ExecuteStatement.


@operation("ExecuteStatement")
def execute_statement(database: Any, request: Request, form: Form) -> Reply:
    """Run one statement; a SELECT answers page by page."""
    try:
        statement = bind_member(request, form)
        if isinstance(statement, Exists):
            raise refuse(ONLY_IN_TRANSACTIONS)
        if isinstance(statement, Select):
            return _select(database, request, statement, form)
        write, seqno = run_write(database, statement)
    except PROBLEMS as problem:
        raise translate_problem(problem) from None
    database.finish(seqno)
    check_outcome(write, statement, request, form)
    reply: Reply = {"Items": returned(write, statement, form)}
    mode = request.get("ReturnConsumedCapacity")
    if mode is not None and mode != "NONE":
        reply["ConsumedCapacity"] = write.tally().report(mode, write.handle.name)
    return reply


def translate_problem(problem: Exception, *, in_update: bool = False) -> errors.ApiError:
    """Return the ApiError for one of PROBLEMS."""
    return translate("UpdateItem" if in_update else "PutItem", "classic", problem)


def table_of(statement: Any) -> str:
    """Return the table that a statement names."""
    name: str = statement.select.table if isinstance(statement, Exists) else statement.table
    return name


def make_write(database: Any, statement: Any) -> Write:
    """Return the write of a statement that is no SELECT. Raises: PROBLEMS, ApiError."""
    handle = data_table(database, table_of(statement))
    if isinstance(statement, Insert):
        limit_bytes = database.settings.limit_item_bytes
        check_item_size(values.encode_item(statement.item), limit_bytes)
    elif isinstance(statement, Update):
        check_update(handle, statement.update)
    return write_of(handle, statement)


def run_write(database: Any, statement: Any) -> tuple[Write, int]:
    """Run such a statement; returns the write and the number to wait for. Raises: ApiError."""
    while True:
        write = make_write(database, statement)
        try:
            return write, run(database, write)
        except StaleHandle:
            continue
        except PROBLEMS as problem:
            raise translate_problem(problem, in_update=isinstance(statement, Update)) from None


def check_outcome(write: Write, statement: Any, member: Request, form: Form) -> None:
    """Raise what a failed write answers with."""
    if not write.is_failed:
        return
    if isinstance(statement, Insert):
        raise errors.API_ERRORS["DuplicateItemException"](DUPLICATE)
    old = None
    if member.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD":
        old = write.old_item
    raise refusals.condition_failed(None if old is None else form.decode_item(old))


def returned(write: Write, statement: Any, form: Form) -> list[Any]:
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


# SELECT.


def _select(database: Any, request: Request, select: Select, form: Form) -> Reply:
    handle = data_table(database, select.table)
    consistent = bool(request.get("ConsistentRead"))
    plan = SelectPlan(handle, select, consistent)
    replies.admit(database, handle, READ, plan.index)
    digest = _digest(request, form)
    position: Position = (0, b"")
    if request.get("NextToken") is not None:
        position = _read_token(request["NextToken"], digest, plan)
    with database.engine.snapshot() as snapshot:
        page, following = plan.read(
            position, request.get("Limit"), snapshot, database.settings.limit_page_bytes
        )
        if consistent and database.must_wait:
            replies.settle(database, snapshot.seqno)
    reply: Reply = {"Items": [selected(item, select, form) for item in page.items]}
    if following is not None:
        reply["NextToken"] = _write_token(digest, following)
        if following[1]:
            last = plan.source.keys.key_item(following[1])
            reply["LastEvaluatedKey"] = form.decode_item(last)
    mode = request.get("ReturnConsumedCapacity")
    replies.report(database, reply, mode, handle, _select_tally(plan, position, page, consistent))
    return reply


def selected(item: bytes, select: Select, form: Form) -> Any:
    """Return what a SELECT shows of an encoded item, in the caller's form."""
    if select.paths is None:
        return form.decode_item(item)
    parts = select.project(values.ItemView(item))
    return form.decode_item(values.encode_item(parts))


def _select_tally(plan: SelectPlan, position: Position, page: Page, consistent: bool) -> Tally:
    if plan.index is None and plan.is_scan:
        bounds = (position[1] or None, None)
        schema = plan.handle.schema
        return Tally(scan_units(schema, page.size_bytes, consistent, bounds, page.last_key))
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
    lower, upper = plan.ranges[number]
    if last_key and not (lower or b"") <= last_key < (upper or b"\xff" * len(last_key) + b"\xff"):
        raise refuse(TOKEN_MISMATCH)
    return number, last_key
