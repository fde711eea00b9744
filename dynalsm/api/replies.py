"""Parts of replies that several data operations share.

Pure functions over open handles; callable from any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dynalsm import values
from dynalsm.api.refusals import condition_failed, throttled
from dynalsm.model.capacity import Tally
from dynalsm.model.catalog import TableHandle
from dynalsm.model.item_collections import collection_bytes, has_local_indexes, partition_value
from dynalsm.model.throttle import READ, Throttled
from dynalsm.model.writes import Update, Write
from dynalsm.values import Form

_GIB: Final = 1 << 30
_NOTHING: Final = values.encode_item({})


def settle(database: Any, seqno: int) -> None:
    """Wait until what a strongly consistent read saw is durable; usually it is already."""
    if seqno > database.engine.durable_seqno:
        database.finish(seqno)


def admit(
    database: Any,
    handle: TableHandle,
    way: str,
    index: Any = None,
    key: bytes | None = None,
    *,
    is_whole: bool = True,
) -> None:
    """Let an operation begin, unless throughput is enforced and used up; count its key.

    `key`: its tree key, or not whole that of a partition. Raises: ApiError.
    """
    throttle, insights = database.writes.throttle, database.writes.insights
    is_counted = insights.is_on and key is not None
    if throttle is not None:
        try:
            throttle.admit(handle, way, index)
        except Throttled as problem:
            if is_counted:
                insights.note(handle, key, index, is_throttled=True, is_whole=is_whole)
            raise throttled(problem) from None
    if is_counted:
        insights.note(handle, key, index, is_whole=is_whole)


def report(
    database: Any, reply: dict[str, Any], mode: str | None, handle: TableHandle, tally: Tally
) -> None:
    """Charge a read and add its ConsumedCapacity when it is wanted."""
    throttle = database.writes.throttle
    if throttle is not None:
        throttle.charge(handle, READ, tally)
    if mode is not None and mode != "NONE":
        reply["ConsumedCapacity"] = tally.report(mode, handle.name)


def projected(item: bytes, projection: Any, form: Form) -> Any:
    """Return the selected parts of an encoded item in the caller's form."""
    if projection.is_top_level:
        return form.decode_item(values.select(item, projection.attributes))
    parts = projection.apply(values.ItemView(item))
    return form.decode_item(values.encode_item(parts))


def partition_of(handle: TableHandle, key: bytes) -> bytes:
    """Return the encoded map of just the partition key behind a tree key."""
    return values.select(handle.keys.key_item(key), handle.keys.names[:1])


def item_collection(handle: TableHandle, key: bytes, form: Form) -> dict[str, Any] | None:
    """Return ItemCollectionMetrics for the partition of a tree key; None without local indexes."""
    if not has_local_indexes(handle):
        return None
    floor = float(collection_bytes(handle, partition_value(handle, key)) // _GIB)
    return {
        "ItemCollectionKey": form.decode_item(partition_of(handle, key)),
        "SizeEstimateRangeGB": [floor, floor + 1.0],
    }


def of_write(request: Mapping[str, Any], form: Form, write: Write) -> dict[str, Any]:
    """Return what a write of one item answers with. Raises: the failed condition."""
    get = request.get
    if write.is_failed:
        old = None
        if get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD":
            old = write.old_item
        raise condition_failed(None if old is None else form.decode_item(old))
    reply: dict[str, Any] = {}
    returns = get("ReturnValues")
    if returns is not None and returns != "NONE":
        attributes = _returned(returns, write)
        if attributes is not None:
            reply["Attributes"] = form.decode_item(attributes)
    mode = get("ReturnConsumedCapacity")
    if mode is not None and mode != "NONE":
        reply["ConsumedCapacity"] = write.tally().report(mode, write.handle.name)
    if get("ReturnItemCollectionMetrics") == "SIZE":
        metrics = item_collection(write.handle, write.key, form)
        if metrics is not None:
            reply["ItemCollectionMetrics"] = metrics
    return reply


def _returned(returns: str, write: Write) -> bytes | None:
    """Return the attributes that a write answers with, encoded; None for nothing."""
    if returns == "ALL_OLD":
        return write.old_item
    if returns == "ALL_NEW":
        return write.new_item
    item = write.new_item if returns == "UPDATED_NEW" else write.old_item
    if item is None or not isinstance(write, Update) or write.update is None:
        return None
    update = write.update
    if all(len(steps) == 1 for steps in update.targets):
        selected = values.select(item, update.attributes)
        return None if selected == _NOTHING else selected
    view = values.ItemView(item)
    found = update.updated_new(view) if returns == "UPDATED_NEW" else update.updated_old(view)
    return values.encode_item(found) if found else None
