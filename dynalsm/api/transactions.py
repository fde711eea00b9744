"""What all transactions of writes have in common: client tokens, running them, cancelling them.

TransactWriteItems goes through here on its long and on its straight way, and so do transactions of
PartiQL statements.

Thread safety: may be called from any thread.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

import msgpack

from dynalsm import errors
from dynalsm.api import refusals
from dynalsm.api.batch import charge_writes
from dynalsm.api.refusals import PROBLEMS, translate
from dynalsm.model.capacity import TRANSACTION_FACTOR, Tally, read_units
from dynalsm.model.catalog import TableHandle
from dynalsm.model.item_collections import CollectionTooLarge
from dynalsm.model.throttle import WRITE, Throttled
from dynalsm.model.transactions import TokenMismatch, TokenRunning, Units
from dynalsm.model.writes import CONFLICT_SECONDS, ActionProblem, LockTimeout, Write
from dynalsm.values import Form

Request = Mapping[str, Any]
Reply = dict[str, Any]
Reasons = list[dict[str, Any]]

MISMATCH: Final = (
    "The request uses the same client token as a previous, but non-identical request. Do not reuse "
    "a client token with different requests, unless the requests are identical."
)


def digest_of(parts: Sequence[Any]) -> bytes:
    """Return the digest by which a token knows its transaction again."""
    return hashlib.blake2b(msgpack.packb(parts), digest_size=16).digest()


def run_with_token(
    database: Any,
    request: Request,
    kind: str,
    digest_of: Callable[[], bytes],
    run: Callable[[Callable[[Any, Sequence[Write]], None] | None], Reply],
) -> Reply:
    """Run a transaction once for its ClientRequestToken; without one, just run it.

    `run` gets a function that adds the token's record to the engine batch, or None.
    """
    token = request.get("ClientRequestToken")
    if token is None:
        return run(None)
    tokens, digest = database.writes.tokens, digest_of()
    try:
        used = tokens.begin(kind, token, digest)
    except TokenMismatch:
        raise errors.IdempotentParameterMismatchException(MISMATCH) from None
    except TokenRunning:
        raise errors.TransactionInProgressException(
            "Transaction token is in use by a running transaction"
        ) from None
    if used is not None:
        return _replay(database, request, used)
    try:
        return run(
            lambda batch, writes: tokens.stage(batch, kind, token, digest, _replay_units(writes))
        )
    finally:
        tokens.end(kind, token)


def _replay_units(writes: Sequence[Write]) -> Units:
    units: dict[str, int] = {}
    for write in writes:
        size = max(write.old_size, write.new_size)
        read = TRANSACTION_FACTOR * int(read_units(size, consistent=True))
        units[write.handle.name] = units.get(write.handle.name, 0) + read
    return list(units.items())


def _replay(database: Any, request: Request, units: Units) -> Reply:
    """Answer a transaction that was carried out before."""
    database.finish(database.engine.last_seqno)
    mode = request.get("ReturnConsumedCapacity")
    if mode is None or mode == "NONE":
        return {}
    return {
        "ConsumedCapacity": [
            Tally(count).report(mode, table, "ReadCapacityUnits") for table, count in units
        ]
    }


def run_writes(
    database: Any,
    writes: Sequence[Write],
    extra: Callable[[Any, Sequence[Write]], None] | None,
) -> int:
    """Run the writes of a transaction; cancel it for what goes wrong on the way."""
    stage = None if extra is None else (lambda batch: extra(batch, writes))
    admit_all(database, [write.handle for write in writes], WRITE)
    try:
        seqno: int = database.writes.run_all(writes, extra=stage, timeout=CONFLICT_SECONDS)
    except (ActionProblem, LockTimeout) as problem:
        give_up(problem, len(writes))
    charge_writes(database, writes, TRANSACTION_FACTOR)
    return seqno


def give_up(problem: ActionProblem | LockTimeout, count: int) -> NoReturn:
    """Cancel a transaction of `count` actions for what went wrong while it ran."""
    if isinstance(problem, LockTimeout):
        cancel([_reason("TransactionConflict", refusals.TRANSACTION_ONGOING)] * count)
    if not isinstance(problem.problem, PROBLEMS):
        raise problem.problem from None
    text = translate("UpdateItem", "classic", problem.problem).message
    is_large = isinstance(problem.problem, CollectionTooLarge)
    code = "ItemCollectionSizeLimitExceeded" if is_large else "ValidationError"
    cancel_one(count, problem.position, code, text)


def admit_all(database: Any, handles: Sequence[TableHandle], way: str) -> None:
    """Cancel a transaction when the throughput of one of its tables is used up."""
    throttle = database.writes.throttle
    if throttle is None:
        return
    reasons = []
    for handle in handles:
        try:
            throttle.admit(handle, way)
            reasons.append(_reason("None"))
        except Throttled as problem:
            code = "ProvisionedThroughputExceeded" if problem.is_provisioned else "ThrottlingError"
            reasons.append(_reason(code, refusals.throttled(problem).message))
    if any(len(reason) > 1 for reason in reasons):
        cancel(reasons)


def _reason(code: str, text: str = "") -> dict[str, Any]:
    return {"Code": code, "Message": text} if text else {"Code": code}


def cancel_one(count: int, position: int, code: str, text: str) -> NoReturn:
    """Cancel a transaction of `count` actions because of one of them."""
    reasons = [_reason("None") for _ in range(count)]
    reasons[position] = _reason(code, text)
    cancel(reasons)


def cancel(reasons: Reasons) -> NoReturn:
    """Cancel a transaction. Raises: TransactionCanceledException, always."""
    codes = ", ".join(reason["Code"] for reason in reasons)
    raise errors.TransactionCanceledException(
        f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]",
        CancellationReasons=reasons,
    )


def cancel_failed(members: Sequence[Request], writes: Sequence[Write], form: Form) -> NoReturn:
    """Cancel a transaction for its false conditions; `members` are those of its actions.

    Raises: TransactionCanceledException, always.
    """
    reasons = []
    for given, write in zip(members, writes, strict=True):
        if not write.is_failed:
            reasons.append(_reason("None"))
            continue
        reason = _reason("ConditionalCheckFailed", refusals.CONDITION_FAILED)
        wanted = given.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD"
        if wanted and write.old_item is not None:
            reason["Item"] = form.decode_item(write.old_item)
        reasons.append(reason)
    cancel(reasons)
