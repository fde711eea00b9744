"""YCSB's mixes over items, in process: dynalsm beside JSON documents in sqlite3.

    python bench/ycsb.py [--records 20000] [--operations 20000] [--rounds 3] [--mixes AB] [--sync]

A record is YCSB's: ten fields of 100 bytes. Records lie in groups of 1000 under one partition key,
in the order of their numbers, so that E's scans have an order to follow; requests choose records by
a zipfian distribution (0.99) scattered over all groups, in D the newest most.

| mix | what |
| --- | --- |
| A | 50 % reads, 50 % updates of one field |
| B | 95 % reads, 5 % updates |
| C | reads |
| D | 95 % reads of what is new, 5 % inserts |
| E | 95 % scans of up to 100 records, 5 % inserts |
| F | 50 % reads, 50 % reads that are followed by an update of the same record |

Each engine loads once a round and then runs all mixes in turn, each on what the last one left; a
figure is the median of the rounds. Durability is equal as in items.py: without --sync a write
survives the death of the process (dynalsm `os`; sqlite WAL, NORMAL), with it that of the machine
(`commit`; FULL). sqlite changes a field with its own json_set, the quickest way it has.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable
from typing import Any

from common import machine, machine_text, median, rate_text, table

import dynalsm

READ, UPDATE, INSERT, SCAN, MODIFY = range(5)
MIXES: dict[str, dict[int, float]] = {
    "A": {READ: 0.5, UPDATE: 0.5},
    "B": {READ: 0.95, UPDATE: 0.05},
    "C": {READ: 1.0},
    "D": {READ: 0.95, INSERT: 0.05},
    "E": {SCAN: 0.95, INSERT: 0.05},
    "F": {READ: 0.5, MODIFY: 0.5},
}
ZIPF_EXPONENT = 0.99
SCAN_MAX = 100  # records of one scan, at most
SCAN_SHARE = 10  # E does so many times fewer operations
GROUP_RECORDS = 1000
FIELDS = 10
FIELD_CHARACTERS = 100
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -"

Item = dict[str, Any]
# What to do, to which record, how many records or which field, the text of an update.
Operation = tuple[int, int, int, str]


def make_record(number: int, source: random.Random) -> Item:
    record: Item = {"group": f"user{number // GROUP_RECORDS:06d}", "number": number}
    for field in range(FIELDS):
        record[f"field{field}"] = "".join(source.choices(LETTERS, k=FIELD_CHARACTERS))
    return record


def make_operations(mix: str, records: int, count: int) -> list[Operation]:
    """The same for every engine. Inserts take the numbers behind the newest record."""
    source = random.Random(mix)
    kinds = source.choices(list(MIXES[mix]), list(MIXES[mix].values()), k=count)
    total, cumulative = 0.0, []
    for rank in range(1, records + 1):
        total += rank**-ZIPF_EXPONENT
        cumulative.append(total)
    ranks = source.choices(range(records), cum_weights=cumulative, k=count)
    scatter = list(range(records))
    source.shuffle(scatter)
    newest = records
    operations = []
    for kind, rank in zip(kinds, ranks, strict=True):
        number = newest - 1 - rank if mix == "D" else scatter[rank]
        if kind == INSERT:
            number = newest
            newest += 1
        size = source.randint(1, SCAN_MAX) if kind == SCAN else source.randrange(FIELDS)
        text = "".join(source.choices(LETTERS, k=FIELD_CHARACTERS)) if kind != READ else ""
        operations.append((kind, number, size, text))
    return operations


class Dynalsm:
    """The engine under test, through the boto3-shaped Table."""

    name = "dynalsm"

    def __init__(self, directory: str, sync: bool) -> None:
        self.db = dynalsm.open(directory, durability="commit" if sync else "os")
        self.table = self.db.create_table(
            TableName="usertable",
            KeySchema=[
                {"AttributeName": "group", "KeyType": "HASH"},
                {"AttributeName": "number", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[
                {"AttributeName": "group", "AttributeType": "S"},
                {"AttributeName": "number", "AttributeType": "N"},
            ],
            BillingMode="PAY_PER_REQUEST",
        )

    def load(self, records: list[Item]) -> None:
        with self.table.batch_writer() as batch:
            for record in records:
                batch.put_item(Item=record)

    def read(self, group: str, number: int) -> Item:
        item: Item = self.table.get_item(Key={"group": group, "number": number})["Item"]
        return item

    def update(self, group: str, number: int, field: str, text: str) -> None:
        self.table.update_item(
            Key={"group": group, "number": number},
            UpdateExpression=f"SET {field} = :text",
            ExpressionAttributeValues={":text": text},
        )

    def insert(self, record: Item) -> None:
        self.table.put_item(Item=record)

    def scan(self, group: str, number: int, count: int) -> list[Item]:
        items: list[Item] = self.table.query(
            KeyConditionExpression="#group = :group AND #number >= :number",
            ExpressionAttributeNames={"#group": "group", "#number": "number"},
            ExpressionAttributeValues={":group": group, ":number": number},
            Limit=count,
        )["Items"]
        return items

    def close(self) -> None:
        self.db.close()


class SqliteJson:
    """JSON documents in sqlite3, one table."""

    name = "sqlite-json"

    def __init__(self, directory: str, sync: bool) -> None:
        os.makedirs(directory, exist_ok=True)
        path = os.path.join(directory, "records.db")
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute(f"PRAGMA synchronous={'FULL' if sync else 'NORMAL'}")
        self.db.execute(
            "CREATE TABLE usertable (grp TEXT, number INTEGER, doc TEXT, "
            "PRIMARY KEY (grp, number)) WITHOUT ROWID"
        )

    def load(self, records: list[Item]) -> None:
        for start in range(0, len(records), 25):
            self.db.execute("BEGIN")
            for record in records[start : start + 25]:
                self.insert(record)
            self.db.execute("COMMIT")

    def read(self, group: str, number: int) -> Item:
        row = self.db.execute(
            "SELECT doc FROM usertable WHERE grp = ? AND number = ?", (group, number)
        ).fetchone()
        record: Item = json.loads(row[0])
        return record

    def update(self, group: str, number: int, field: str, text: str) -> None:
        self.db.execute(
            "UPDATE usertable SET doc = json_set(doc, ?, ?) WHERE grp = ? AND number = ?",
            (f"$.{field}", text, group, number),
        )

    def insert(self, record: Item) -> None:
        self.db.execute(
            "INSERT OR REPLACE INTO usertable VALUES (?, ?, ?)",
            (record["group"], record["number"], json.dumps(record)),
        )

    def scan(self, group: str, number: int, count: int) -> list[Item]:
        rows = self.db.execute(
            "SELECT doc FROM usertable WHERE grp = ? AND number >= ? ORDER BY number LIMIT ?",
            (group, number, count),
        )
        return [json.loads(doc) for (doc,) in rows]

    def close(self) -> None:
        self.db.close()


ENGINES: list[type[Any]] = [Dynalsm, SqliteJson]


def run_mix(engine: Any, operations: list[Operation], template: Item) -> float:
    """Run the operations; returns seconds."""
    actions = {READ: read, UPDATE: update, INSERT: insert, SCAN: scan, MODIFY: modify}
    start = time.perf_counter()
    for kind, number, size, text in operations:
        actions[kind](engine, f"user{number // GROUP_RECORDS:06d}", number, size, text, template)
    return time.perf_counter() - start


def read(engine: Any, group: str, number: int, _size: int, _text: str, _template: Item) -> None:
    engine.read(group, number)


def update(engine: Any, group: str, number: int, size: int, text: str, _template: Item) -> None:
    engine.update(group, number, f"field{size}", text)


def insert(engine: Any, group: str, number: int, size: int, text: str, template: Item) -> None:
    engine.insert({**template, "group": group, "number": number, f"field{size}": text})


def scan(engine: Any, group: str, number: int, size: int, _text: str, _template: Item) -> None:
    assert engine.scan(group, number, size)


def modify(engine: Any, group: str, number: int, size: int, text: str, _template: Item) -> None:
    record = engine.read(group, number)
    engine.update(group, number, f"field{size}", text[1:] + record[f"field{size}"][:1])


def run_round(
    engine_type: type[Any],
    sync: bool,
    records: list[Item],
    operations: dict[str, list[Operation]],
    note: Callable[[str, float], None],
) -> None:
    """Load an engine and run the mixes; `note` gets the rate of each."""
    directory = tempfile.mkdtemp(prefix="bench-ycsb-")
    try:
        engine = engine_type(os.path.join(directory, "db"), sync)
        start = time.perf_counter()
        engine.load(records)
        note("load", len(records) / (time.perf_counter() - start))
        for mix, chosen in operations.items():
            note(mix, len(chosen) / run_mix(engine, chosen, records[0]))
        engine.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def measure(
    records: int, operations: int, rounds: int, mixes: str, sync: bool
) -> dict[str, dict[str, float]]:
    """Return mix -> engine -> operations a second, medians of the rounds."""
    source = random.Random(1)
    loaded = [make_record(number, source) for number in range(records)]
    chosen = {
        mix: make_operations(mix, records, operations // (SCAN_SHARE if mix == "E" else 1))
        for mix in mixes
    }
    rates: dict[str, dict[str, list[float]]] = {}
    for _ in range(rounds):
        for engine in ENGINES:

            def note(mix: str, rate: float, name: str = engine.name) -> None:
                rates.setdefault(mix, {}).setdefault(name, []).append(rate)

            run_round(engine, sync, loaded, chosen, note)
    return {
        mix: {name: median(found) for name, found in by_engine.items()}
        for mix, by_engine in rates.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--operations", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mixes", default="ABCDEF")
    parser.add_argument("--sync", action="store_true", help="every write on stable storage")
    parser.add_argument("--json", default="", help="write the figures to this file")
    options = parser.parse_args()
    unknown = set(options.mixes) - set(MIXES)
    if unknown or min(options.records, options.operations, options.rounds) < 1:
        parser.error(f"mixes are some of {''.join(MIXES)}, counts are at least 1")
    stamp = machine()
    rates = measure(
        options.records, options.operations, options.rounds, options.mixes, options.sync
    )
    print(machine_text(stamp))
    print(f"{options.records} records, {options.operations} operations, ", end="")
    print(f"{'synced, ' if options.sync else ''}medians of {options.rounds} rounds\n")
    names = [engine.name for engine in ENGINES]
    rows = [
        [
            mix,
            *(rate_text(found[name]) for name in names),
            f"{found[names[0]] / found[names[1]]:.1f} x",
        ]
        for mix, found in rates.items()
    ]
    print(table(["mix", *(f"{name} (1/s)" for name in names), "ratio"], rows))
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"machine": stamp, "options": vars(options), "rates": rates}, file, indent=1)


if __name__ == "__main__":
    main()
