"""Time to live: the index of expiry times, and the background deletion of what has expired.

While TTL is on, a table has a tree "x/<table id>" (`handle.expiry`) with one entry per item that
holds a number in the TTL attribute:

    key    expiry second (8 bytes, big-endian, rounded up) · the item's key in the table's tree
    value  empty

Invariant: an entry exists exactly for the items that can expire; writes keep it through `maintain`
in the same batch as the item. Values below zero or beyond year 9999 never expire and have none.
When TTL is turned on, the entries of older items are added in the background; until that is done
the schema's extras hold UNFILLED, and a database that is opened again starts over with it.

Sweeps come every second or so, and what they delete leaves markers in the tree for a while. So a
sweep begins where the last one ended (`handle.expiry_mark`), or at the earliest entry that was
added behind that. Marks are not locked: one that comes out too late is put right by the next full
sweep, which begins at the beginning.

An expired item is deleted by an ordinary conditional write, so a deletion never removes an item
whose expiry time has just been moved, maintains all indexes, and leaves a stream record.

Thread safety: `maintain` is called under the lock of the item; everything else from any thread.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING, Any

from dynalsm import errors, values
from dynalsm.values import ItemView

if TYPE_CHECKING:
    from dynalsm.model.catalog import TableHandle
    from dynalsm.model.settings import Settings

log = logging.getLogger("dynalsm")

UNFILLED = "ttl-unfilled"
LATEST_SECOND = 253_402_300_799  # 9999-12-31T23:59:59Z
# Items that expired longer ago than this are left alone (reference 10.1).
OLDEST_SECONDS = 5 * 365 * 86_400
CHUNK_ITEMS = 256


class Mark:
    """Before which second nothing is left to expire, as far as is known."""

    __slots__ = ("second",)

    def __init__(self) -> None:
        self.second = 0


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
        handle.expiry_mark.second = min(handle.expiry_mark.second, new)


def expiry_second(item: bytes | None, name: str) -> int | None:
    """Return when the item expires, in whole seconds rounded up; None: never."""
    if item is None:
        return None
    encoded = values.get_attribute(item, name)
    if encoded is None or values.type_of(encoded) != "N":
        return None
    number: Decimal = values.decode_value(encoded)
    if not 0 <= number <= LATEST_SECOND:
        return None
    return int(number.to_integral_value(ROUND_CEILING))


# Deleting.


class _Expired:
    """The condition of a deletion: the item is still expired at `now`."""

    def __init__(self, name: str, now: float) -> None:
        self._name = name
        self._now = now

    def evaluate(self, item: Mapping[str, Any]) -> bool:
        """Return whether the TTL attribute is a time in the past, but not too far."""
        value = item.get(self._name)
        if not isinstance(value, Decimal):
            return False
        return self._now - OLDEST_SECONDS <= value <= self._now


class Unexpired:
    """The filter of reads that leave out what has expired, before another one."""

    def __init__(self, name: str, now: float, further: Any) -> None:
        self._expired = _Expired(name, now)
        self._further = further

    def evaluate(self, item: Mapping[str, Any]) -> bool:
        """Return whether the item is shown."""
        if self._expired.evaluate(item):
            return False
        return self._further is None or bool(self._further.evaluate(item))


def read_filter(settings: Settings, handle: TableHandle, further: Any = None) -> Any:
    """Return the condition of items that a read shows: `further`, and what Settings asks for."""
    name = handle.schema.ttl_attribute
    if name is None or not settings.hide_expired:
        return further
    return Unexpired(name, settings.clock(), further)


def shown(
    settings: Settings, handle: TableHandle, key: bytes, stored: bytes | None
) -> bytes | None:
    """Return what a read by key shows of an item: itself, or None."""
    if stored is None or not settings.hide_expired:
        return stored
    item = shown_item(settings, handle, handle.keys.join(key, stored))
    return None if item is None else stored


def shown_item(settings: Settings, handle: TableHandle, item: bytes | None) -> bytes | None:
    """Like `shown`, of a whole encoded item."""
    condition = None if item is None else read_filter(settings, handle)
    if item is None or condition is None or condition.evaluate(ItemView(item)):
        return item
    return None


def sweep(database: Any, is_full: bool = True) -> int:
    """Delete what has expired, everything or only since the last sweep; returns how many items."""
    deleted = 0
    for name in database.catalog.names():
        handle = database.catalog.get(name)
        if handle is not None and handle.expiry is not None:
            try:
                deleted += _sweep_table(database, handle, is_full)
            except errors.TreeDroppedError:
                continue  # the table was deleted, or TTL turned off, under the sweep
            except errors.CorruptionError as error:
                if is_full:
                    log.error("items of %s do not expire: %s", name, error)
    return deleted


def _sweep_table(database: Any, handle: TableHandle, is_full: bool) -> int:
    now = database.settings.clock()
    mark = handle.expiry_mark
    lower = max(0, int(now - OLDEST_SECONDS), 0 if is_full else mark.second)
    upper = mark.second = int(now) + 1
    deleted = seqno = 0
    bounds = lower.to_bytes(8), upper.to_bytes(8)
    with handle.expiry.cursor(*bounds, values=False) as cursor:
        while not database.stopping.is_set() and (keys := cursor.next_chunk(CHUNK_ITEMS)):
            for key in keys:
                committed = _delete(database, handle.name, key[8:], now)
                if committed is not None:
                    deleted += 1
                    seqno = committed
            if seqno:
                database.finish(seqno)
    return deleted


def _delete(database: Any, table: str, tree_key: bytes, now: float) -> int | None:
    """Delete one item if it is expired; returns the commit's number when it was."""
    # Imported here: writes.py maintains this module's index.
    from dynalsm.model.writes import Delete, StaleHandle

    while True:
        handle = database.catalog.get(table)
        if handle is None or handle.schema.ttl_attribute is None:
            return None
        write = Delete(handle, tree_key, _Expired(handle.schema.ttl_attribute, now))
        write.by_ttl = True
        try:
            seqno: int = database.writes.run(write)
        except StaleHandle:
            continue
        return seqno if write.is_change else None


# Filling the index when TTL is turned on.


def resume(database: Any) -> None:
    """Go on with the filling that the last process left unfinished."""
    for name in database.catalog.names():
        if database.catalog.get(name).schema.extras.get(UNFILLED):
            start_filling(database, name)


def start_filling(database: Any, table: str) -> None:
    """Add the entries of all items of a table, on a thread."""
    database.spawn(f"ttl-{table}", lambda: _fill(database, table))


def _fill(database: Any, table: str) -> None:
    handle = database.catalog.get(table)
    if handle is None:
        return
    try:
        with handle.tree.cursor(values=False) as cursor:
            while keys := cursor.next_chunk(CHUNK_ITEMS):
                if database.stopping.is_set() or not _fill_chunk(database, handle, keys):
                    return
    except errors.StorageError:
        newest = database.catalog.get(table)
        if newest is None or newest.schema.id != handle.schema.id:
            return  # the table was deleted under the cursor
        raise
    with database.catalog.mutex:
        newest = database.catalog.get(table)
        if newest is not None and _is_same(newest, handle):
            database.catalog.replace(newest.schema.with_extra(UNFILLED, None))


def _is_same(newest: TableHandle, handle: TableHandle) -> bool:
    """Return whether TTL is still what it was when the filling began."""
    return (newest.schema.id, newest.schema.ttl_attribute, newest.schema.ttl_changed_at) == (
        handle.schema.id,
        handle.schema.ttl_attribute,
        handle.schema.ttl_changed_at,
    )


def _fill_chunk(database: Any, handle: TableHandle, keys: list[bytes]) -> bool:
    """Add the entries of some items; returns False when TTL has changed."""
    name = handle.schema.ttl_attribute
    with database.writes.locked(keys):
        newest = database.catalog.get(handle.name)
        if name is None or newest is None or not _is_same(newest, handle):
            return False
        batch = database.engine.batch()
        for key, stored in zip(keys, handle.tree.multi_get(keys), strict=True):
            if stored is None:
                continue
            second = expiry_second(handle.keys.join(key, stored), name)
            if second is not None:
                batch.put(newest.expiry, second.to_bytes(8) + key, b"")
        if len(batch):
            database.writes.commit_locked(keys, batch)
    return True
