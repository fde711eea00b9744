"""Compare a table here and there, item by item, in both directions.

It tells the truth of a moment only while nobody writes: else items that are on their way differ.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dynalsm import values
from dynalsm.database import Database
from dynalsm.replicate.writing import Item, Patience, call

BATCH_KEYS = 100  # the most that one BatchGetItem takes
SHOWN_KEYS = 20


@dataclass(frozen=True)
class Comparison:
    """What a comparison found; the keys are the first few."""

    items: int  # of the source
    missing: int  # not in the target
    different: int
    extra: int  # only in the target
    keys: list[Item]

    @property
    def is_equal(self) -> bool:
        """Whether both sides have the same items."""
        return self.missing == self.different == self.extra == 0


def compare(source: Database, target: Database, table: str) -> Comparison:
    """Read a table on both sides and compare every item."""
    stop = threading.Event()
    described = call(source, "DescribeTable", {"TableName": table}, stop)["Table"]
    names = [each["AttributeName"] for each in described["KeySchema"]]
    items = missing = different = extra = 0
    keys: list[Item] = []
    for here in _pages(source, table, names, stop, whole=True):
        there = _get(target, table, [_key(item, names) for item in here], stop)
        found = {_packed(_key(item, names)): _packed(item) for item in there}
        for item in here:
            key = _key(item, names)
            other = found.get(_packed(key))
            items += 1
            if other == _packed(item):
                continue
            missing += other is None
            different += other is not None
            keys.append(key)
    for here in _pages(target, table, names, stop, whole=False):
        there = _get(source, table, here, stop)
        known = {_packed(_key(item, names)) for item in there}
        lonely = [key for key in here if _packed(key) not in known]
        extra += len(lonely)
        keys += lonely
    return Comparison(items, missing, different, extra, keys[:SHOWN_KEYS])


def _pages(
    database: Database, table: str, names: list[str], stop: threading.Event, *, whole: bool
) -> Iterator[list[Item]]:
    """Yield items, or only their keys, so many at a time."""
    request: dict[str, Any] = {"TableName": table, "ConsistentRead": True}
    if not whole:
        request["ProjectionExpression"] = ", ".join(f"#{n}" for n in range(len(names)))
        request["ExpressionAttributeNames"] = {f"#{n}": name for n, name in enumerate(names)}
    while True:
        page = call(database, "Scan", request, stop)
        yield from _chunks(page["Items"])
        if not page.get("LastEvaluatedKey"):
            return
        request["ExclusiveStartKey"] = page["LastEvaluatedKey"]


def _chunks(items: list[Item]) -> Iterator[list[Item]]:
    for start in range(0, len(items), BATCH_KEYS):
        yield items[start : start + BATCH_KEYS]


def _get(database: Database, table: str, keys: list[Item], stop: threading.Event) -> list[Item]:
    found: list[Item] = []
    patience = Patience(stop)
    while keys:
        request = {"RequestItems": {table: {"Keys": keys, "ConsistentRead": True}}}
        reply = call(database, "BatchGetItem", request, stop)
        found += reply["Responses"].get(table, [])
        keys = reply.get("UnprocessedKeys", {}).get(table, {}).get("Keys", [])
        if keys and not reply["Responses"].get(table):
            patience.wait(f"{database.path} leaves keys unprocessed")
    return found


def _key(item: Item, names: list[str]) -> Item:
    return {name: item[name] for name in names}


def _packed(item: Item) -> bytes:
    """Return bytes that are equal exactly when items are: sets have no order, numbers no form."""
    return values.encode_wire_item(item)
