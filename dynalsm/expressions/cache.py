"""A bounded cache with a cheap hit: CLOCK replacement over a dict.

A hit is one dict lookup and one attribute write, without a lock; only insertion locks.

Thread safety: get() from any thread at any time; put() is serialised by the cache's own mutex.
Invariants: (1) the sum of the costs is at most `capacity`; (2) an entry used since the hand last
passed it survives that pass.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class _Entry(Generic[V]):
    __slots__ = ("cost", "used", "value")

    def __init__(self, value: V, cost: int) -> None:
        self.value = value
        self.cost = cost
        self.used = False


class ClockCache(Generic[V]):
    """Maps hashable keys to values; every value has a cost, the total cost is bounded."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.cost = 0  # Guarded by _mutex.
        self._entries: dict[Hashable, _Entry[V]] = {}  # Written under _mutex, read without.
        self._mutex = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> V | None:
        """Return the value, or None."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        entry.used = True
        return entry.value

    def put(self, key: Hashable, value: V, cost: int) -> None:
        """Remember a value unless it alone is too big; evict others as needed."""
        if cost > self.capacity:
            return
        with self._mutex:
            old = self._entries.pop(key, None)
            if old is not None:
                self.cost -= old.cost
            while self.cost + cost > self.capacity:
                self._evict_locked()
            self._entries[key] = _Entry(value, cost)
            self.cost += cost

    def clear(self) -> None:
        """Forget everything."""
        with self._mutex:
            self._entries.clear()
            self.cost = 0

    def _evict_locked(self) -> None:
        """Drop the oldest entry not used since it was last looked at; used ones go to the back."""
        while True:
            key = next(iter(self._entries))
            entry = self._entries.pop(key)
            if not entry.used:
                self.cost -= entry.cost
                return
            entry.used = False
            self._entries[key] = entry
