"""Time to live: the index of expiry times, and the background deletion of what has expired.

While TTL is on, a table has a tree "x/<table id>" (`handle.expiry`) with one entry per item that
holds a number in the TTL attribute:

    key    expiry second (8 bytes, big-endian, rounded up) · the item's key in the table's tree
    value  empty

Invariant: an entry exists exactly for the items that can expire; writes keep it through `maintain`
in the same batch as the item. Values below zero or beyond year 9999 never expire and have none.

Thread safety: `maintain` is called under the lock of the item.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING, Any

from dynalsm import values

if TYPE_CHECKING:
    from dynalsm.model.catalog import TableHandle

LATEST_SECOND = 253_402_300_799  # 9999-12-31T23:59:59Z


def maintain(
    batch: Any,
    handle: TableHandle,
    tree_key: bytes,
    old_item: bytes | None,
    new_item: bytes | None,
) -> None:
    """Move an item's entry from its old to its new expiry time.

    Call it for every change of an item while `handle.expiry` is not None.
    REQUIRES: the item is locked until the batch has been committed.
    """
    name = handle.schema.ttl_attribute
    if name is None:
        return
    old, new = expiry_second(old_item, name), expiry_second(new_item, name)
    if old == new:
        return
    if old is not None:
        batch.delete(handle.expiry, old.to_bytes(8) + tree_key)
    if new is not None:
        batch.put(handle.expiry, new.to_bytes(8) + tree_key, b"")


def expiry_second(item: bytes | None, name: str) -> int | None:
    """Return when the item expires, in whole seconds rounded up; None: never."""
    if item is None:
        return None
    encoded = values.get_attribute(item, name)
    if encoded is None or values.type_of(encoded) != "N":
        return None
    number: Decimal = values.decode_value(encoded)
    second = int(number.to_integral_value(ROUND_CEILING))
    return second if 0 <= second <= LATEST_SECOND else None
