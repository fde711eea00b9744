"""Parts of replies that several data operations share.

Pure functions over open handles; callable from any thread.
"""

from __future__ import annotations

from typing import Any, Final

from dynalsm import values
from dynalsm.api.refusals import throttled
from dynalsm.model.capacity import Tally
from dynalsm.model.catalog import TableHandle
from dynalsm.model.item_collections import collection_bytes, has_local_indexes, partition_value
from dynalsm.model.throttle import READ, Throttled
from dynalsm.values import Form

_GIB: Final = 1 << 30


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
