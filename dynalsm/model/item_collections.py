"""The limit on item collections: one partition key of a table with local indexes, at most 10 GB.

Sizes are estimates of the engine, so they are looked at only now and then: one growing write in
CHECK_EVERY looks at its own collection. A collection found too large is remembered, and then every
write that would make one of its items larger looks again.

Thread safety: every method may be called from any thread; a lost race costs one more look.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from dynalsm import values
from dynalsm.limits import ITEM_COLLECTION_MAX_BYTES

if TYPE_CHECKING:
    from dynalsm.model.catalog import TableHandle

CHECK_EVERY: Final = 256
_MAX_REMEMBERED: Final = 10_000


class CollectionTooLarge(Exception):
    """A write would make an item collection larger that has reached its limit."""


class Collections:
    """Which item collections of one database have reached their limit."""

    def __init__(self) -> None:
        self._count = itertools.count(1)
        # (table id, encoded partition key) of collections that were too large when last seen.
        self._full: dict[tuple[str, bytes], None] = {}

    def check(self, handle: TableHandle, key: bytes) -> None:
        """Refuse a write that makes an item larger. Raises: CollectionTooLarge.

        Call it only for tables with local indexes.
        """
        is_due = next(self._count) % CHECK_EVERY == 0
        if not self._full and not is_due:
            return
        value = partition_value(handle, key)
        name = (handle.schema.id, value)
        if name not in self._full and not is_due:
            return
        if collection_bytes(handle, value) < ITEM_COLLECTION_MAX_BYTES:
            self._full.pop(name, None)
            return
        if len(self._full) < _MAX_REMEMBERED:
            self._full[name] = None
        raise CollectionTooLarge


def has_local_indexes(handle: TableHandle) -> bool:
    """Return whether the table's partitions are item collections."""
    return any(index.kind == "LSI" for index in handle.indexes.values())


def partition_value(handle: TableHandle, key: bytes) -> bytes:
    """Return the encoded partition key value behind a tree key of the table."""
    value = values.get_attribute(handle.keys.key_item(key), handle.keys.names[0])
    assert value is not None
    return value


def collection_bytes(handle: TableHandle, value: bytes) -> int:
    """Return the estimated size of a collection: the partition in the table and local indexes."""
    size_bytes = 0
    sources: list[Any] = [index for index in handle.indexes.values() if index.kind == "LSI"]
    for source in (handle, *sources):
        lower, upper = source.keys.sort_range(source.keys.partition_prefix(value))
        size_bytes += source.tree.approximate_size(lower, upper)
    return size_bytes
