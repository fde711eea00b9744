"""A hot item behind a cache: the change stream throws out what changed, so it is hardly ever stale.

Cache-aside: a reader looks into the cache, then into the table, and keeps what it found. Here a
thread follows the table's stream and drops the keys that it sees, whoever changed them: another
thread, a batch, a transaction, the expiry of an item.

Run it:  python examples/hot_key.py
"""

from __future__ import annotations

import tempfile
import threading
import time
from typing import Any

import dynalsm


class CachedTable:
    """Reads of one table, cached by key; belongs to the process that has the database open."""

    def __init__(self, table: dynalsm.Table, key_name: str) -> None:
        self._table = table
        self._key_name = key_name
        self._cached: dict[Any, dict[str, Any] | None] = {}
        self._marks: dict[Any, int] = {}  # how often a key was dropped: a slow reader notices
        self._lock = threading.Lock()
        self.hits = self.misses = 0
        # LATEST means from here on, so nothing falls between the first read and the first change.
        changes = table.changes(start="LATEST", follow_seconds=None)
        threading.Thread(target=self._follow, args=(changes,), daemon=True).start()

    def get(self, key: Any) -> dict[str, Any] | None:
        """Return the item, or None."""
        with self._lock:
            if key in self._cached:
                self.hits += 1
                return self._cached[key]
            mark = self._marks.get(key, 0)
            self.misses += 1
        item = self._table.get_item(Key={self._key_name: key}, ConsistentRead=True).get("Item")
        with self._lock:
            # What changed while it was being read is not kept.
            if self._marks.get(key, 0) == mark:
                self._cached[key] = item
        return item

    def _follow(self, changes: Any) -> None:
        try:
            for change in changes:
                key = change.keys[self._key_name]
                with self._lock:
                    self._marks[key] = self._marks.get(key, 0) + 1
                    self._cached.pop(key, None)
        except dynalsm.errors.ClosedError:
            pass  # the database is closed, and the cache with it


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, dynalsm.open(f"{directory}/shop.db") as db:
        table = db.create_table(
            TableName="Products",
            KeySchema=[{"AttributeName": "Sku", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "Sku", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"},
        )
        table.put_item(Item={"Sku": "hot", "Price": 10})
        cache = CachedTable(table, "Sku")
        for _ in range(10_000):
            cache.get("hot")
        print(f"{cache.hits:,} hits, {cache.misses:,} misses")
        assert cache.misses < 10
        table.put_item(Item={"Sku": "hot", "Price": 12})
        started = time.perf_counter()
        while (item := cache.get("hot")) is None or item["Price"] != 12:
            assert time.perf_counter() - started < 10
        print(f"the new price was seen {(time.perf_counter() - started) * 1000:.1f} ms later")


if __name__ == "__main__":
    main()
