"""Filling new indexes in the background: starting, cancelling, and going on after a restart.

An index is CREATING from the moment its schema is durable until every older item has its entry;
new writes maintain it all the while (model/indexes.py does the work, item by item under the
item's lock). How far the filling has come is kept in the catalog every few thousand items:

    catalog record ("backfill", "<table id>/<index>") = tree key to go on from

The record follows the entries it speaks of in commit order, so it is never ahead of them. Filling
an item twice is harmless.

Thread safety: any thread. A filler takes the catalog's mutex to finish; so nobody may hold it
while waiting for a filler (`cancel` says so).
"""

from __future__ import annotations

import dataclasses
import threading
import weakref
from typing import Any

from dynalsm.model import indexes
from dynalsm.model.schema import ACTIVE, CREATING

RECORD = "backfill"
SAVE_EVERY_CHUNKS = 32


class _Filler:
    """One running backfill."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self.thread: threading.Thread | None = None


# Running fillers of every open database: {(table, index): filler}. Guarded by _mutex.
_running: weakref.WeakKeyDictionary[Any, dict[tuple[str, str], _Filler]] = (
    weakref.WeakKeyDictionary()
)
_mutex = threading.Lock()


def resume(database: Any) -> None:
    """Go on with what the last process left unfinished."""
    for table in database.catalog.names():
        for index in database.catalog.get(table).schema.indexes:
            if index.status == CREATING:
                start(database, table, index.name)


def start(database: Any, table: str, index: str) -> None:
    """Fill an index on a thread of its own."""
    filler = _Filler()
    with _mutex:
        _running.setdefault(database, {})[table, index] = filler
    filler.thread = database.spawn(
        f"backfill-{table}-{index}", lambda: _run(database, table, index, filler)
    )


def cancel(database: Any, table: str, index: str) -> None:
    """Stop filling an index and wait for its thread. REQUIRES: catalog.mutex not held."""
    with _mutex:
        filler = _running.get(database, {}).get((table, index))
    if filler is not None:
        filler.cancelled.set()
        if filler.thread is not None:
            filler.thread.join()


def forget(catalog: Any, table_id: str, index: str) -> None:
    """Drop what is kept about filling an index; call it before the index is deleted."""
    name = f"{table_id}/{index}"
    if catalog.read(RECORD, name) is not None:
        catalog.write(RECORD, name, None)


def wait(database: Any, table: str, index: str) -> None:
    """Wait until an index is filled. REQUIRES: catalog.mutex not held."""
    with _mutex:
        filler = _running.get(database, {}).get((table, index))
    if filler is not None and filler.thread is not None:
        filler.thread.join()


def _run(database: Any, table: str, index: str, filler: _Filler) -> None:
    try:
        handle = database.catalog.get(table)
        target = handle.indexes[index]
        name = f"{handle.schema.id}/{index}"

        def should_stop() -> bool:
            return filler.cancelled.is_set() or database.stopping.is_set()

        progress = _Progress(database.catalog, name)
        if indexes.backfill(
            database.writes, handle, target, should_stop, progress.start, progress.save
        ):
            _finish(database.catalog, table, index, name, filler)
    finally:
        with _mutex:
            _running.get(database, {}).pop((table, index), None)


class _Progress:
    """Where a filler is, kept from time to time. Belongs to the filler's thread."""

    def __init__(self, catalog: Any, name: str) -> None:
        self._catalog = catalog
        self._name = name
        self._chunks = 0
        self.start: bytes | None = catalog.read(RECORD, name)

    def save(self, key: bytes) -> None:
        """Note that every item up to `key` has been done."""
        self._chunks += 1
        if self._chunks % SAVE_EVERY_CHUNKS == 0:
            self._catalog.write(RECORD, self._name, key)


def _finish(catalog: Any, table: str, index: str, name: str, filler: _Filler) -> None:
    with catalog.mutex:
        handle = catalog.get(table)
        if filler.cancelled.is_set() or handle is None or index not in handle.indexes:
            return
        schema = handle.schema
        changed = tuple(
            dataclasses.replace(other, status=ACTIVE) if other.name == index else other
            for other in schema.indexes
        )
        catalog.replace(dataclasses.replace(schema, indexes=changed))
        catalog.write(RECORD, name, None)
