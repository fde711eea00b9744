"""Whether every index says what its table says; and making it so.

An index entry is written by the same commit as its item, so a difference means damage: a repair
that had to leave out a part of one of the two, or a fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dynalsm.model.catalog import Catalog
from dynalsm.model.entries import entry_or_none
from dynalsm.model.handles import IndexHandle, TableHandle

CHUNK_ITEMS = 1000
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Difference:
    """One key of an index that is not as the table has it."""

    table: str
    index: str
    what: str  # "missing", "stale" or "different"
    key: bytes  # in the index's tree
    wanted: bytes | None  # the value it should have; None: it should not be there

    def __str__(self) -> str:
        return f"index {self.index} of table {self.table}: an entry is {self.what} ({self.key!r})"


def differences(catalog: Catalog, snapshot: Any) -> Iterator[Difference]:
    """Yield what is wrong in the indexes of all tables, at one snapshot.

    Indexes that are still being filled are left out."""
    for name in catalog.names():
        handle = catalog.get(name)
        if handle is not None:
            for index in handle.indexes.values():
                if index.is_readable:
                    yield from _differences_of(handle, index, snapshot)


def _differences_of(handle: TableHandle, index: IndexHandle, snapshot: Any) -> Iterator[Difference]:
    def difference(what: str, key: bytes, wanted: bytes | None) -> Difference:
        return Difference(handle.name, index.name, what, key, wanted)

    present = 0
    for chunk in _chunks(handle.tree, snapshot):
        entries = [entry_or_none(index, handle.keys.join(key, stored)) for key, stored in chunk]
        wanted = [entry for entry in entries if entry is not None]
        found = index.tree.multi_get([key for key, _ in wanted], snapshot)
        present += sum(there is not None for there in found)
        for (key, value), there in zip(wanted, found, strict=True):
            if there != value:
                yield difference("missing" if there is None else "different", key, value)
    if sum(len(chunk) for chunk in _chunks(index.tree, snapshot)) <= present:
        return
    # There are entries that no item has: find them. The keys of all are held in memory meanwhile.
    known = {
        entry[0]
        for chunk in _chunks(handle.tree, snapshot)
        for key, stored in chunk
        if (entry := entry_or_none(index, handle.keys.join(key, stored))) is not None
    }
    for chunk in _chunks(index.tree, snapshot):
        for key, _value in chunk:
            if key not in known:
                yield difference("stale", key, None)


def _chunks(tree: Any, snapshot: Any) -> Iterator[list[tuple[bytes, bytes]]]:
    with tree.cursor(snapshot=snapshot, fill_cache=False) as cursor:
        while chunk := cursor.next_chunk(CHUNK_ITEMS, CHUNK_BYTES):
            yield chunk


def mend(engine: Any, catalog: Catalog) -> list[Difference]:
    """Make all indexes agree with their tables. REQUIRES: nobody else writes.

    Returns: what was changed."""
    with engine.snapshot() as snapshot:
        found = list(differences(catalog, snapshot))
    batch = engine.batch()
    for difference in found:
        handle = catalog.get(difference.table)
        assert handle is not None
        tree = handle.indexes[difference.index].tree
        if difference.wanted is None:
            batch.delete(tree, difference.key)
        else:
            batch.put(tree, difference.key, difference.wanted)
        if batch.size_bytes > CHUNK_BYTES:
            engine.write(batch, sync=True)
            batch.clear()
    engine.write(batch, sync=True)
    return found
