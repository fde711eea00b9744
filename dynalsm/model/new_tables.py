"""Tables that come into being with their items: restored, imported.

A new table is *pending* until everything is in it: its name is taken and it can be described as
CREATING, but nobody reads or writes it, and no catalog record names it. So whatever a crash leaves
of it is swept at the next open, and whoever was making it starts over.

    new = NewTable(catalog, schema)
    new.load(chunks)           # entries in tree order, once, first
    new.put(pairs)             # any order; later ones win
    new.publish(schema)        # indexes, counters; then the table is there

Thread safety: a NewTable belongs to one thread.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol

from dynalsm.model import indexes
from dynalsm.model.backup_file import Entry, Stopped

if TYPE_CHECKING:
    from dynalsm.model.catalog import Catalog, IndexHandle, TableHandle
    from dynalsm.model.schema import TableSchema

BATCH_BYTES: Final = 1 << 20
CHUNK_ITEMS: Final = 1024


class Target(Protocol):
    """Something that is filled with a table's entries."""

    def load(self, chunks: Iterable[list[Entry]]) -> None:
        """Load entries in tree order, once, first."""

    def put(self, pairs: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Put (tree key, stored value) pairs; None deletes."""


def _never() -> bool:
    return False


class NewTable:
    """A pending table and its trees."""

    def __init__(
        self, catalog: Catalog, schema: TableSchema, should_stop: Callable[[], bool] = _never
    ) -> None:
        """Take the name and make the trees. Raises: KeyError when the name is taken."""
        self._catalog = catalog
        self._engine = catalog.engine
        self.should_stop = should_stop
        self.handle: TableHandle = catalog.prepare(schema)
        self._is_published = False

    def load(self, chunks: Iterable[list[Entry]]) -> None:
        """Load entries in tree order into the empty table. Raises: Stopped."""
        load_sorted(self._engine, self.handle.tree, _checked(chunks, self.should_stop))

    def put(self, pairs: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Put (tree key, stored value) pairs, None deletes. Raises: Stopped."""
        apply(self._engine, self.handle.tree, pairs, self.should_stop)

    def publish(self, schema: TableSchema) -> TableHandle:
        """Build the indexes, count, and make the table visible. Raises: Stopped."""
        self._fill()
        self._is_published = True
        return self._catalog.publish(self.handle, schema)

    def abandon(self) -> None:
        """Drop everything; the name is free again.

        Does nothing once `publish` has begun to make the table durable: whether it is, only the
        next open can tell.
        """
        if not self._is_published:
            self._catalog.abandon(self.handle)

    def _fill(self) -> None:
        """Read the table once: count its items and add their index entries."""
        handle = self.handle
        with handle.tree.cursor() as cursor:
            while chunk := cursor.next_chunk(CHUNK_ITEMS, BATCH_BYTES):
                if self.should_stop():
                    raise Stopped
                size_bytes = sum(handle.keys.stored_size(stored) for _, stored in chunk)
                handle.statistics.add(self._engine.last_seqno, len(chunk), size_bytes)
                if handle.written_indexes:
                    items = [handle.keys.join(key, stored) for key, stored in chunk]
                    for index in handle.written_indexes:
                        self._add_entries(index, items)

    def _add_entries(self, index: IndexHandle, items: list[bytes]) -> None:
        """Add what an index holds of some items; one that it cannot take has no entry."""
        batch = self._engine.batch()
        size_bytes = 0
        for item in items:
            entry = indexes.entry_or_none(index, item)
            if entry is not None:
                batch.put(index.tree, *entry)
                size_bytes += index.keys.stored_size(entry[1])
        if len(batch):
            seqno = self._engine.commit(batch)
            index.statistics.add(seqno, len(batch), size_bytes)


class ScratchTree:
    """A tree without a table, for as long as a block runs. A crash leaves it to be swept."""

    def __init__(self, engine: Any, should_stop: Callable[[], bool] = _never) -> None:
        self._engine = engine
        self._should_stop = should_stop
        self.tree = engine.create_tree(f"t/{uuid.uuid4()}", hashed=True)

    def load(self, chunks: Iterable[list[Entry]]) -> None:
        """Load entries in tree order, once, first. Raises: Stopped."""
        load_sorted(self._engine, self.tree, _checked(chunks, self._should_stop))

    def put(self, pairs: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Put (tree key, stored value) pairs, None deletes. Raises: Stopped."""
        apply(self._engine, self.tree, pairs, self._should_stop)

    def __enter__(self) -> ScratchTree:
        return self

    def __exit__(self, *exc: object) -> None:
        self._engine.drop_tree(self.tree.name)


def _checked(
    chunks: Iterable[list[Entry]], should_stop: Callable[[], bool]
) -> Iterator[list[Entry]]:
    for chunk in chunks:
        if should_stop():
            raise Stopped
        yield chunk


def load_sorted(engine: Any, tree: Any, chunks: Iterable[list[Entry]]) -> None:
    """Load entries in ascending order into an empty tree, past the log where the engine can."""
    if hasattr(engine, "ingest"):
        engine.ingest(tree, (entry for chunk in chunks for entry in chunk))
        return
    for chunk in chunks:
        apply(engine, tree, chunk)


def apply(
    engine: Any,
    tree: Any,
    pairs: Iterable[tuple[bytes, bytes | None]],
    should_stop: Callable[[], bool] = _never,
) -> None:
    """Put (key, value) pairs into a tree in batches, None deletes. Raises: Stopped."""
    batch = engine.batch()
    for key, value in pairs:
        if value is None:
            batch.delete(tree, key)
        else:
            batch.put(tree, key, value)
        if batch.size_bytes >= BATCH_BYTES:
            if should_stop():
                raise Stopped
            engine.commit(batch)
            batch = engine.batch()
    if len(batch):
        engine.commit(batch)
