"""Loads of one kind each: what they leave on disk, and that every answer is right.

Each takes a directory and a size, checks what it reads, and returns a report that still has to be
checked. Bounds are counts and bytes, so that a slow machine does not break them.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import dynalsm
from dynalsm.conditions import Key
from tests.load.measure import MIB, Report, descriptors, files_and_bytes

PAGE_ITEMS = 1000
# What a table that holds nothing any more may keep: its log, and what is written ahead of it.
EMPTY_BYTES = 24 * MIB
EMPTY_FILES = 40


def opened(path: Path) -> dynalsm.Database:
    return dynalsm.open(path, durability="os", memory_bytes=64 * MIB)


def create(database: dynalsm.Database) -> Any:
    """A table with a partition key and a number to sort by."""
    return database.create_table(
        TableName="Load",
        KeySchema=[
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "N"},
        ],
        BillingMode="PAY_PER_REQUEST",
    )


def fill(table: Any, items: int, text: str = "x" * 100) -> None:
    with table.batch_writer() as batch:
        for number in range(items):
            batch.put_item(Item={"pk": "one", "sk": number, "text": text})


def empty(table: Any, items: int) -> None:
    with table.batch_writer() as batch:
        for number in range(items):
            batch.delete_item(Key={"pk": "one", "sk": number})


def walk(table: Any, forward: bool) -> int:
    """Page through the partition; returns how many items came, which must be in order."""
    request: dict[str, Any] = {"KeyConditionExpression": Key("pk").eq("one")}
    request |= {"ScanIndexForward": forward, "Limit": PAGE_ITEMS}
    seen, last = 0, None
    while True:
        reply = table.query(**request)
        for item in reply["Items"]:
            number = int(item["sk"])
            assert last is None or (number > last) is forward, f"{number} after {last}"
            last = number
            seen += 1
        if "LastEvaluatedKey" not in reply:
            return seen
        request["ExclusiveStartKey"] = reply["LastEvaluatedKey"]


def tell_space(report: Report, database: dynalsm.Database, path: Path) -> None:
    """After a flush and a full compaction nothing is left of what was deleted."""
    database.flush()
    database.compact()
    files, size = files_and_bytes(path)
    report.bound("left on disk", size / MIB, EMPTY_BYTES / MIB, "MiB")
    report.bound("files left", files, EMPTY_FILES)


def partition(path: Path, items: int) -> Report:
    """Many items under one partition key: insert, query both ways in pages, delete."""
    report = Report(f"{items:,} items under one partition key, deleted again")
    with opened(path) as database:
        table = create(database)
        fill(table, items)
        for forward in (True, False):
            assert walk(table, forward) == items
        report.say("on disk when full, MiB", files_and_bytes(path)[1] // MIB)
        empty(table, items)
        # The walk goes over the marks of all deleted items.
        assert walk(table, True) == 0
        tell_space(report, database, path)
        assert walk(table, False) == 0
    return report


def queue(path: Path, items: int) -> Report:
    """Take the first, delete it, repeat: what is gone must not be walked over each time."""
    report = Report(f"a queue of {items:,} items")
    with opened(path) as database:
        table = create(database)
        fill(table, items)
        for number in range(items):
            first = table.query(KeyConditionExpression=Key("pk").eq("one"), Limit=1)["Items"]
            assert [int(item["sk"]) for item in first] == [number]
            table.delete_item(Key={"pk": "one", "sk": number})
        assert walk(table, True) == 0
        tell_space(report, database, path)
    return report


def settle() -> None:
    """Let the collector end what is closed.

    observed: a closed database and its engine are parts of cycles, and the engine's log stays open
    until they are found; the finalizers of the first collection leave work for a second one.
    """
    gc.collect()
    gc.collect()


def runs(path: Path, count: int) -> Report:
    """Open, write, close, again and again: files and descriptors do not pile up."""
    report = Report(f"{count:,} short runs")
    with opened(path) as database:
        create(database)
    settle()
    before = descriptors()
    for number in range(count):
        with opened(path) as database:
            database.Table("Load").put_item(Item={"pk": "one", "sk": number})
    settle()
    after = descriptors()
    if before is not None and after is not None:
        report.bound("more descriptors", after - before, 2)
    with opened(path) as database:
        assert walk(database.Table("Load"), True) == count
    report.bound("files left", files_and_bytes(path)[0], EMPTY_FILES)
    return report


def large(path: Path, items: int) -> Report:
    """Items of almost 400 KB."""
    report = Report(f"{items:,} items of 400 KB")
    text = "x" * (400 * 1024 - 100)
    with opened(path) as database:
        table = create(database)
        for number in range(items):
            table.put_item(Item={"pk": "one", "sk": number, "text": text})
        assert walk(table, True) == items
        empty(table, items)
        tell_space(report, database, path)
    return report


# Name: the case, its size in the long version, and in the tests.
CASES = {
    "partition": (partition, 1_000_000, 3000),
    "tombstones": (partition, 100_000, 1000),
    "queue": (queue, 100_000, 1000),
    "runs": (runs, 1000, 20),
    "large": (large, 2000, 20),
}
