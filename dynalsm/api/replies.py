"""Parts of replies that several data operations share.

Pure functions over open handles; callable from any thread.
"""

from __future__ import annotations

from typing import Any, Final

from dynalsm import values
from dynalsm.model.catalog import TableHandle
from dynalsm.values import Form

_GIB: Final = 1 << 30


def settle(database: Any, seqno: int) -> None:
    """Wait until what a strongly consistent read saw is durable; usually it is already."""
    if seqno > database.engine.durable_seqno:
        database.finish(seqno)


def projected(item: bytes, projection: Any, form: Form) -> Any:
    """Return the selected parts of an encoded item in the caller's form."""
    if projection.is_top_level:
        return form.decode_item(values.select(item, projection.attributes))
    parts = projection.apply(values.ItemView(item))
    return form.decode_item(values.encode_item(parts))


def item_collection(handle: TableHandle, key: bytes, form: Form) -> dict[str, Any] | None:
    """Return ItemCollectionMetrics for the partition of a tree key; None without local indexes."""
    local = [index for index in handle.indexes.values() if index.kind == "LSI"]
    if not local:
        return None
    keys = handle.keys
    partition = values.select(keys.key_item(key), keys.names[:1])
    value = values.get_attribute(partition, keys.names[0])
    assert value is not None
    size_bytes = 0
    for part in (handle, *local):
        lower, upper = part.keys.sort_range(part.keys.partition_prefix(value), None, ())
        size_bytes += part.tree.approximate_size(lower, upper)
    floor = float(size_bytes // _GIB)
    return {
        "ItemCollectionKey": form.decode_item(partition),
        "SizeEstimateRangeGB": [floor, floor + 1.0],
    }
