"""Secondary index entries: what an item's change means for every index of its table.

An index entry is a pair (tree key, stored value) that `IndexKeys.entry` derives from the whole
item, so the entries that a change touches follow from the old and the new item alone. An item
without one of the key attributes has no entry (the index is sparse).

An attribute may hold what cannot be an index key only if it was there before the index was: such
an item has no entry, and it may be changed as long as that attribute is not.

Thread safety: pure functions, apart from `backfill`, which locks the items it touches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dynalsm import values
from dynalsm.model.capacity import index_write_units
from dynalsm.model.keys import KeyProblem

if TYPE_CHECKING:
    from dynalsm.model.catalog import IndexHandle, TableHandle
    from dynalsm.model.writes import Writes

Entry = tuple[bytes, bytes]
# (index, old entry, new entry) of an index that a change touches; None: no entry on that side.
IndexChange = tuple["IndexHandle", Entry | None, Entry | None]

BACKFILL_CHUNK_ITEMS = 256
BACKFILL_CHUNK_BYTES = 1 << 20


class IndexKeyProblem(Exception):
    """An attribute cannot be a key of `index`; `problem` is the KeyProblem that says why."""

    def __init__(self, index: IndexHandle, problem: KeyProblem) -> None:
        super().__init__(index, problem)
        self.index = index
        self.problem = problem


def new_entries(handle: TableHandle, item: bytes) -> list[Entry | None]:
    """Return the entries of an item, one for each of `handle.written_indexes`.

    Raises: IndexKeyProblem for the first index that cannot take the item.
    """
    entries = []
    for index in handle.written_indexes:
        try:
            entries.append(index.keys.entry(item))
        except KeyProblem as problem:
            raise IndexKeyProblem(index, problem) from None
    return entries


def updated_entries(
    handle: TableHandle, old_item: bytes | None, new_item: bytes
) -> list[Entry | None]:
    """Return the entries of an updated item; unchanged attributes cannot fail.

    Raises: IndexKeyProblem for a changed attribute that cannot be a key of its index.
    """
    entries = []
    for index in handle.written_indexes:
        try:
            entry = index.keys.entry(new_item)
        except KeyProblem as problem:
            if old_item is None or _has_changed(problem.attribute, old_item, new_item):
                raise IndexKeyProblem(index, problem) from None
            entry = None
        entries.append(entry)
    return entries


def entry_or_none(index: IndexHandle, item: bytes) -> Entry | None:
    """Return the entry of a stored item; an item that the index cannot take has none."""
    try:
        return index.keys.entry(item)
    except KeyProblem:
        return None


def _has_changed(name: str, old_item: bytes, new_item: bytes) -> bool:
    return values.get_attribute(old_item, name) != values.get_attribute(new_item, name)


def index_changes(
    handle: TableHandle, old_item: bytes | None, entries: list[Entry | None] | None
) -> list[IndexChange]:
    """Return what to change where. `entries`: those of the new item; None when it is deleted."""
    changes = []
    for position, index in enumerate(handle.written_indexes):
        new = entries[position] if entries is not None else None
        old = entry_or_none(index, old_item) if old_item is not None else None
        if old is not None and not index.is_readable and index.tree.get(old[0]) is None:
            old = None  # the backfill has not come to this item yet
        if old != new:
            changes.append((index, old, new))
    return changes


def stage(batch: Any, changes: list[IndexChange]) -> None:
    """Add the changes to an engine batch."""
    for index, old, new in changes:
        if old is not None and (new is None or old[0] != new[0]):
            batch.delete(index.tree, old[0])
        if new is not None:
            batch.put(index.tree, new[0], new[1])


def count(seqno: int, changes: list[IndexChange]) -> None:
    """Report the changes of a commit to the indexes' statistics."""
    for index, old, new in changes:
        stored_size = index.keys.stored_size
        index.statistics.add(
            seqno,
            (new is not None) - (old is not None),
            (stored_size(new[1]) if new else 0) - (stored_size(old[1]) if old else 0),
        )


def units(change: IndexChange) -> int:
    """Return the write units that one index change consumes."""
    index, old, new = change
    stored_size = index.keys.stored_size
    return index_write_units(
        stored_size(old[1]) if old else 0,
        stored_size(new[1]) if new else 0,
        old is not None and new is not None and old[0] == new[0],
        False,
    )


def local_entries_bytes(handle: TableHandle, entries: list[Entry | None]) -> int:
    """Return the size of an item's entries in local indexes, which count with the item."""
    return sum(
        index.keys.stored_size(entry[1])
        for index, entry in zip(handle.written_indexes, entries, strict=True)
        if entry is not None and index.kind == "LSI"
    )


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
