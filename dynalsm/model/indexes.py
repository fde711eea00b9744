"""Filling a new index with the entries of the items that are older than it.

What an entry is, and what a write means for it: entries.pyx.

Thread safety: `backfill` locks the items it touches, and may run beside writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dynalsm.model.entries import entry_or_none

if TYPE_CHECKING:
    from dynalsm.model.handles import IndexHandle, TableHandle
    from dynalsm.model.writes import Writes

__all__ = ["backfill", "entry_or_none"]

BACKFILL_CHUNK_ITEMS = 256
BACKFILL_CHUNK_BYTES = 1 << 20


def backfill(
    writes: Writes,
    handle: TableHandle,
    index: IndexHandle,
    should_stop: Callable[[], bool] = lambda: False,
    start: bytes | None = None,
    save: Callable[[bytes], None] = lambda key: None,
) -> bool:
    """Add the entries of all items that are older than the index; safe beside running writes.

    `handle` is a published handle that maintains the index already. Each item is looked at again
    under its lock, so an entry never overtakes a newer write. Items that the index cannot take
    are skipped. Begins at the tree key `start`; `save` is called with the last key done after
    every chunk. Returns False when `should_stop` ended it early.
    """
    with handle.tree.cursor(start, values=False) as cursor:
        while keys := cursor.next_chunk(BACKFILL_CHUNK_ITEMS, BACKFILL_CHUNK_BYTES):
            if should_stop():
                return False
            _backfill_chunk(writes, handle, index, keys)
            save(keys[-1])
    return True


def _backfill_chunk(
    writes: Writes, handle: TableHandle, index: IndexHandle, keys: list[bytes]
) -> None:
    with writes.locked(keys):
        batch = writes.engine.batch()
        added_items = added_bytes = 0
        for key, stored in zip(keys, handle.tree.multi_get(keys), strict=True):
            if stored is None:
                continue
            entry = entry_or_none(index, handle.keys.join(key, stored))
            if entry is None or index.tree.get(entry[0]) is not None:
                continue  # written since the index exists: already counted
            batch.put(index.tree, entry[0], entry[1])
            added_items += 1
            added_bytes += index.keys.stored_size(entry[1])
        if added_items:
            seqno = writes.commit_locked(keys, batch)
            index.statistics.add(seqno, added_items, added_bytes)
