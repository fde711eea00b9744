"""Contributor insights: which keys are asked for most, and which are throttled.

Counted while a table (or an index of it) has the setting (TableSchema.extras, "insights":
{index name, "" for the table: [mode, changed at, rule suffix]}), in memory only: by partition key,
and for whole keys by partition and sort key, over the last one to two hours.

A Sketch keeps the heaviest keys in bounded memory (Misra and Gries, 1982): what it says of a key is
too low by `error` at most, and every key with more than `total / SKETCH_KEYS` is in it.

Thread safety: everything may be called from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgpack

from dynalsm import values

if TYPE_CHECKING:
    from dynalsm.model.catalog import Catalog, IndexHandle, TableHandle

EXTRA: Final = "insights"
THROTTLED_ONLY: Final = "THROTTLED_KEYS"
# A sketch holds at most twice as many keys; a key with a thousandth of all accesses is in it.
SKETCH_KEYS: Final = 1000
WINDOW_SECONDS: Final = 3600.0
TOP_KEYS: Final = 10
_HASH_BYTES = 8
_LENGTH_BYTES = 2
_NUMBER_EXTENSION = 1  # the msgpack extension type of numbers (docs/format-items.md)

Key = tuple[bytes, bytes]  # the partition key's bytes, and the sort key's or b""


class Sketch:
    """Counts of the heaviest keys."""

    __slots__ = ("counts", "error", "total")

    def __init__(self) -> None:
        self.counts: dict[Key, int] = {}
        self.error = 0
        self.total = 0

    def add(self, key: Key) -> None:
        """Count one access."""
        self.total += 1
        counts = self.counts
        counts[key] = counts.get(key, 0) + 1
        if len(counts) > 2 * SKETCH_KEYS:
            cut = sorted(counts.values(), reverse=True)[SKETCH_KEYS]
            self.error += cut
            self.counts = {key: count - cut for key, count in counts.items() if count > cut}


class Windows:
    """Two sketches: of the window that is running and of the one before."""

    __slots__ = ("_began", "_current", "_previous")

    def __init__(self, now: float) -> None:
        self._current = Sketch()
        self._previous = Sketch()
        self._began = now

    def add(self, key: Key, now: float) -> None:
        """Count one access."""
        self._turn(now)
        self._current.add(key)

    def top(self, count: int, now: float) -> list[tuple[Key, int, int]]:
        """Return (key, accesses, how many more they may be), most first."""
        self._turn(now)
        both = dict(self._previous.counts)
        for key, number in self._current.counts.items():
            both[key] = both.get(key, 0) + number
        error = self._previous.error + self._current.error
        heaviest = sorted(both.items(), key=lambda each: (-each[1], each[0]))[:count]
        return [(key, number, error) for key, number in heaviest]

    def _turn(self, now: float) -> None:
        passed = now - self._began
        if passed >= WINDOW_SECONDS:
            self._previous = self._current if passed < 2 * WINDOW_SECONDS else Sketch()
            self._current = Sketch()
            self._began = now


@dataclass
class _Watch:
    """What is counted of one table or index."""

    accessed: tuple[Windows, Windows]  # by partition key; by whole key
    throttled: tuple[Windows, Windows]


@dataclass
class HotKeys:
    """The heaviest keys of a table or an index. Each entry: the key's attributes, and a count."""

    partitions: list[dict[str, Any]] = field(default_factory=list)
    items: list[dict[str, Any]] = field(default_factory=list)
    throttled_partitions: list[dict[str, Any]] = field(default_factory=list)
    throttled_items: list[dict[str, Any]] = field(default_factory=list)


class Uncounted:
    """Stands where nothing is counted: in a snapshot."""

    is_on = False


class Insights:
    """The sketches of all tables of one database."""

    def __init__(self, catalog: Catalog, clock: Callable[[], float]) -> None:
        self._catalog = catalog
        self._clock = clock
        self._mutex = threading.Lock()
        self._watches: dict[tuple[str, str], _Watch] = {}  # Guarded by _mutex.
        # Whether any table has the setting; read without the mutex by every operation.
        self.is_on = False

    def refresh(self) -> None:
        """Take note of changed settings: what is not counted any more is forgotten."""
        wanted = {
            (handle.schema.id, index)
            for handle in filter(None, map(self._catalog.get, self._catalog.names()))
            for index in handle.schema.extras.get(EXTRA) or {}
        }
        with self._mutex:
            self._watches = {key: one for key, one in self._watches.items() if key in wanted}
            self.is_on = bool(wanted)

    def note(
        self,
        handle: TableHandle,
        key: bytes,
        index: IndexHandle | None = None,
        *,
        is_throttled: bool = False,
        is_whole: bool = True,
    ) -> None:
        """Count one access to an item (or, not whole, to a partition) by its tree key."""
        name = "" if index is None else index.name
        setting = (handle.schema.extras.get(EXTRA) or {}).get(name)
        if setting is None or (setting[0] == THROTTLED_ONLY and not is_throttled):
            return
        partition, sort = _split(key, _hash_count(handle, index))
        now = self._clock()
        with self._mutex:
            watch = self._watches.get((handle.schema.id, name))
            if watch is None:
                watch = _Watch((Windows(now), Windows(now)), (Windows(now), Windows(now)))
                self._watches[handle.schema.id, name] = watch
            by_partition, by_item = watch.throttled if is_throttled else watch.accessed
            by_partition.add((partition, b""), now)
            if is_whole and sort:
                by_item.add((partition, sort), now)

    def hot_keys(
        self, handle: TableHandle, index: IndexHandle | None = None, count: int = TOP_KEYS
    ) -> HotKeys:
        """Return the heaviest keys; empty where nothing is counted."""
        name = "" if index is None else index.name
        now = self._clock()
        found = HotKeys()
        with self._mutex:
            watch = self._watches.get((handle.schema.id, name))
            if watch is None:
                return found
            tops = [each.top(count, now) for each in (*watch.accessed, *watch.throttled)]
        shown = [[_shown(handle, index, *entry) for entry in top] for top in tops]
        return HotKeys(*shown)


def _hash_count(handle: TableHandle, index: IndexHandle | None) -> int:
    return 1 if index is None or index.kind != "GSI" else len(index.schema.hash_key)


def _split(key: bytes, hash_count: int) -> Key:
    """Return the partition key's part of a tree key, lengths included, and what follows."""
    end = _HASH_BYTES
    for _ in range(hash_count):
        size = int.from_bytes(key[end : end + _LENGTH_BYTES])
        end += _LENGTH_BYTES + size
    return key[_HASH_BYTES:end], key[end:]


def _shown(
    handle: TableHandle, index: IndexHandle | None, key: Key, count: int, error: int
) -> dict[str, Any]:
    schema = handle.schema
    kinds = schema.attributes
    names = [schema.hash_key]
    if index is not None and index.kind == "GSI":
        names = list(index.schema.hash_key)
    attributes: dict[str, Any] = {}
    place = 0
    for name in names:
        size = int.from_bytes(key[0][place : place + _LENGTH_BYTES])
        place += _LENGTH_BYTES
        attributes[name] = _value(key[0][place : place + size], kinds[name])
        place += size
    # Only items of the table itself are counted as a whole.
    if key[1] and schema.range_key is not None:
        attributes[schema.range_key] = _value(key[1], kinds[schema.range_key])
    return {"key": attributes, "count": count, "error": error}


def _value(raw: bytes, kind: str) -> Any:
    """Return a key attribute's value from its bytes in a tree key."""
    if kind == "S":
        return raw.decode()
    if kind == "B":
        return raw
    return values.decode_value(msgpack.packb(msgpack.ExtType(_NUMBER_EXTENSION, raw)))
