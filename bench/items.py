"""Item operations in process: dynalsm beside JSON documents in sqlite3.

    python bench/items.py [--items 20000] [--rounds 3] [--only put,get] [--json FILE]

Every workload runs on each engine in turn, several rounds; the figure is the median rate. Equal
durability: the plain rows survive a killed process (dynalsm durability="os"; sqlite WAL,
synchronous=NORMAL), the "+sync" rows a power cut (durability="commit"; synchronous=FULL). The item
is about 520 bytes of DynamoDB JSON with ten attributes of seven types.

sqlite-json is what one writes instead of a DynamoDB-shaped store: one table of (pk, sk, document),
tables for the indexes and the stream kept by the same transaction, conditions checked in Python.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import dynalsm

Item = dict[str, Any]


def make_item(number: int) -> Item:
    """One item; 20 of them share a partition key."""
    return {
        "pk": f"user#{number // 20:06d}",
        "sk": number % 20,
        "name": f"Person {number} of the city",
        "email": f"u{number}@example.com",
        "age": number % 90,
        "score": Decimal("12.75"),
        "tags": {"red", "green", f"t{number % 7}"},
        "address": {"street": f"Main Street {number % 100}", "city": "Springfield", "zip": 12345},
        "visits": [1, 2, 3, "x"],
        "active": True,
        "bio": "lorem ipsum dolor sit amet " * 4,
    }


class Dynalsm:
    """The engine under test, through the boto3-shaped Table."""

    name = "dynalsm"

    def __init__(self, directory: str, sync: bool) -> None:
        self.db = dynalsm.open(directory, durability="commit" if sync else "os")
        key = [
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ]
        types = [
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "N"},
        ]
        self.plain = self.db.create_table(
            TableName="Plain",
            KeySchema=key,
            AttributeDefinitions=types,
            BillingMode="PAY_PER_REQUEST",
        )
        self.indexed = self.db.create_table(
            TableName="Indexed",
            KeySchema=key,
            AttributeDefinitions=[
                *types,
                {"AttributeName": "email", "AttributeType": "S"},
                {"AttributeName": "age", "AttributeType": "N"},
            ],
            BillingMode="PAY_PER_REQUEST",
            StreamSpecification={
                "StreamEnabled": True,
                "StreamViewType": "NEW_AND_OLD_IMAGES",
            },
            GlobalSecondaryIndexes=[
                {
                    "IndexName": name,
                    "KeySchema": [{"AttributeName": name, "KeyType": "HASH"}],
                    "Projection": {"ProjectionType": "ALL"},
                }
                for name in ("email", "age")
            ],
        )

    def put(self, item: Item) -> None:
        self.plain.put_item(Item=item)

    def get(self, pk: str, sk: int) -> Item:
        return self.plain.get_item(Key={"pk": pk, "sk": sk})["Item"]

    def update(self, pk: str, sk: int) -> None:
        self.plain.update_item(
            Key={"pk": pk, "sk": sk},
            UpdateExpression="SET age = age + :one, score = :score",
            ConditionExpression="active = :yes AND age < :limit",
            ExpressionAttributeValues={
                ":one": 1,
                ":score": Decimal("1.5"),
                ":yes": True,
                ":limit": 1000000,
            },
        )

    def query(self, pk: str) -> list[Item]:
        return self.plain.query(
            KeyConditionExpression="pk = :pk AND sk BETWEEN :low AND :high",
            FilterExpression="age < :limit",
            ExpressionAttributeValues={":pk": pk, ":low": 0, ":high": 19, ":limit": 1000000},
        )["Items"]

    def put_indexed(self, item: Item) -> None:
        self.indexed.put_item(Item=item)

    def batch(self, items: list[Any]) -> None:
        """Through the typed client, as with boto3."""
        self.db.client.batch_write_item(
            RequestItems={"Plain": [{"PutRequest": {"Item": item}} for item in items]}
        )

    def transact(self, items: list[Any]) -> None:
        self.db.client.transact_write_items(
            TransactItems=[{"Put": {"TableName": "Plain", "Item": item}} for item in items]
        )

    def scan(self, age: int) -> int:
        """Filter everything; returns the number of items looked at."""
        seen = 0
        more: dict[str, Any] = {}
        while True:
            page = self.plain.scan(
                FilterExpression="age = :age", ExpressionAttributeValues={":age": age}, **more
            )
            seen += page["ScannedCount"]
            if "LastEvaluatedKey" not in page:
                return seen
            more = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    def close(self) -> None:
        self.db.close()


def wire(item: Item) -> dict[str, Any]:
    """The item in the typed form of the low-level client."""
    from dynalsm import values

    return values.decode_wire_item(values.encode_native_item(item))


def to_json(item: Item) -> str:
    return json.dumps(item, default=lambda v: sorted(v) if isinstance(v, set) else str(v))


class SqliteJson:
    """JSON documents in sqlite3."""

    name = "sqlite-json"

    def __init__(self, directory: str, sync: bool) -> None:
        os.makedirs(directory, exist_ok=True)
        self.path = os.path.join(directory, "items.db")
        self.sync = sync
        self.local = threading.local()
        db = self.db
        db.executescript(
            """
            CREATE TABLE plain (pk TEXT, sk INTEGER, doc TEXT, PRIMARY KEY (pk, sk)) WITHOUT ROWID;
            CREATE TABLE indexed (pk TEXT, sk INTEGER, doc TEXT, PRIMARY KEY (pk, sk))
                WITHOUT ROWID;
            CREATE TABLE by_email (email TEXT, pk TEXT, sk INTEGER, doc TEXT,
                PRIMARY KEY (email, pk, sk)) WITHOUT ROWID;
            CREATE TABLE by_age (age INTEGER, pk TEXT, sk INTEGER, doc TEXT,
                PRIMARY KEY (age, pk, sk)) WITHOUT ROWID;
            CREATE TABLE stream (seq INTEGER PRIMARY KEY, old TEXT, new TEXT);
            """
        )

    @property
    def db(self) -> sqlite3.Connection:
        """One connection a thread."""
        if not hasattr(self.local, "db"):
            self.local.db = sqlite3.connect(self.path, isolation_level=None, timeout=60)
            self.local.db.execute("PRAGMA journal_mode=WAL")
            self.local.db.execute(f"PRAGMA synchronous={'FULL' if self.sync else 'NORMAL'}")
        return self.local.db

    def put(self, item: Item) -> None:
        self.db.execute(
            "INSERT OR REPLACE INTO plain VALUES (?, ?, ?)",
            (item["pk"], item["sk"], to_json(item)),
        )

    def get(self, pk: str, sk: int) -> Item:
        row = self.db.execute("SELECT doc FROM plain WHERE pk = ? AND sk = ?", (pk, sk)).fetchone()
        return json.loads(row[0])

    def update(self, pk: str, sk: int) -> None:
        db = self.db
        db.execute("BEGIN IMMEDIATE")
        item = self.get(pk, sk)
        if not (item["active"] is True and item["age"] < 1000000):
            db.execute("ROLLBACK")
            raise ValueError("condition")
        item["age"] += 1
        item["score"] = "1.5"
        db.execute("UPDATE plain SET doc = ? WHERE pk = ? AND sk = ?", (to_json(item), pk, sk))
        db.execute("COMMIT")

    def query(self, pk: str) -> list[Item]:
        rows = self.db.execute(
            "SELECT doc FROM plain WHERE pk = ? AND sk BETWEEN 0 AND 19 ORDER BY sk", (pk,)
        )
        return [item for (doc,) in rows if (item := json.loads(doc))["age"] < 1000000]

    def put_indexed(self, item: Item) -> None:
        db = self.db
        key = (item["pk"], item["sk"])
        doc = to_json(item)
        db.execute("BEGIN IMMEDIATE")
        row = db.execute("SELECT doc FROM indexed WHERE pk = ? AND sk = ?", key).fetchone()
        if row:
            old = json.loads(row[0])
            db.execute("DELETE FROM by_email WHERE email=? AND pk=? AND sk=?", (old["email"], *key))
            db.execute("DELETE FROM by_age WHERE age=? AND pk=? AND sk=?", (old["age"], *key))
        db.execute("INSERT OR REPLACE INTO indexed VALUES (?, ?, ?)", (*key, doc))
        db.execute("INSERT INTO by_email VALUES (?, ?, ?, ?)", (item["email"], *key, doc))
        db.execute("INSERT INTO by_age VALUES (?, ?, ?, ?)", (item["age"], *key, doc))
        db.execute("INSERT INTO stream (old, new) VALUES (?, ?)", (row and row[0], doc))
        db.execute("COMMIT")

    def batch(self, items: list[Item]) -> None:
        # As BatchWriteItem: 25 independent writes that share one commit.
        self.db.execute("BEGIN IMMEDIATE")
        for item in items:
            self.put(item)
        self.db.execute("COMMIT")

    transact = batch

    def scan(self, age: int) -> int:
        seen = 0
        for (doc,) in self.db.execute("SELECT doc FROM plain"):
            seen += 1
            if json.loads(doc)["age"] == age:
                pass
        return seen

    def close(self) -> None:
        self.db.close()


Workload = Callable[[Any, list[Item], list[Any]], int]


def w_put(engine: Any, items: list[Item], _wired: list[Any]) -> int:
    for item in items:
        engine.put(item)
    return len(items)


def w_get(engine: Any, items: list[Item], _wired: list[Any]) -> int:
    for item in items:
        engine.get(item["pk"], item["sk"])
    return len(items)


def w_update(engine: Any, items: list[Item], _wired: list[Any]) -> int:
    for item in items:
        engine.update(item["pk"], item["sk"])
    return len(items)


def w_query(engine: Any, items: list[Item], _wired: list[Any]) -> int:
    for item in items[::20]:
        assert len(engine.query(item["pk"])) == 20
    return len(items[::20])


def w_put_indexed(engine: Any, items: list[Item], _wired: list[Any]) -> int:
    for item in items:
        engine.put_indexed(item)
    return len(items)


def grouped(engine: Any, items: list[Item], wired: list[Any], size: int) -> list[list[Any]]:
    source = wired if isinstance(engine, Dynalsm) else items
    return [source[start : start + size] for start in range(0, len(source) - size + 1, size)]


def w_batch(engine: Any, items: list[Item], wired: list[Any]) -> int:
    groups = grouped(engine, items, wired, 25)
    for group in groups:
        engine.batch(group)
    return len(groups)


def w_transact(engine: Any, items: list[Item], wired: list[Any]) -> int:
    groups = grouped(engine, items, wired, 4)
    for group in groups:
        engine.transact(group)
    return len(groups)


def w_scan(engine: Any, items: list[Item], _wired: list[Any]) -> int:
    return sum(engine.scan(age) for age in range(3))


def w_put_threads(engine: Any, items: list[Item], wired: list[Any]) -> int:
    threads = [
        threading.Thread(target=w_put, args=(engine, items[start::8], wired)) for start in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(items)


# name -> (workload, durable, share of --items, needs the plain table loaded)
WORKLOADS: dict[str, tuple[Workload, bool, float, bool]] = {
    "put_item": (w_put, False, 1.0, False),
    "get_item": (w_get, False, 1.0, True),
    "update_cond": (w_update, False, 0.5, True),
    "query20": (w_query, False, 1.0, True),
    "scan_filter": (w_scan, False, 1.0, True),
    "put_2gsi_stream": (w_put_indexed, False, 0.5, False),
    "batch_write25": (w_batch, False, 1.0, False),
    "transact_write4": (w_transact, False, 0.5, False),
    "put_item+sync": (w_put, True, 0.05, False),
    "update_cond+sync": (w_update, True, 0.05, True),
    "put_2gsi_stream+sync": (w_put_indexed, True, 0.05, False),
    "batch_write25+sync": (w_batch, True, 0.25, False),
    "transact_write4+sync": (w_transact, True, 0.1, False),
    "put_item_8threads+sync": (w_put_threads, True, 0.2, False),
}

ENGINES: list[type[Any]] = [Dynalsm, SqliteJson]


def run_once(engine_type: type[Any], name: str, items: list[Item], wired: list[Any]) -> float:
    """Requests (scan: items) per second of one workload on a fresh database."""
    workload, sync, share, loaded = WORKLOADS[name]
    count = max(100, int(len(items) * share))
    directory = tempfile.mkdtemp(prefix="bench-items-")
    try:
        engine = engine_type(os.path.join(directory, "db"), sync)
        if loaded:
            groups = grouped(engine, items[:count], wired[:count], 20)
            for group in groups:
                engine.batch(group)
            count = len(groups) * 20
        start = time.perf_counter()
        done = workload(engine, items[:count], wired[:count])
        rate = done / (time.perf_counter() - start)
        engine.close()
        return rate
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=20000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", default="")
    arguments = parser.parse_args()
    names = [n for n in arguments.only.split(",") if n] or list(WORKLOADS)
    items = [make_item(number) for number in range(arguments.items)]
    wired = [wire(item) for item in items]
    rates: dict[str, dict[str, list[float]]] = {
        name: {engine.name: [] for engine in ENGINES} for name in names
    }
    for _ in range(arguments.rounds):
        for name in names:
            for engine in ENGINES:
                rates[name][engine.name].append(run_once(engine, name, items, wired))
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, ", end="")
    print(f"Python {platform.python_version()}, {arguments.items} items, medians of ", end="")
    print(f"{arguments.rounds} rounds")
    print("| workload | dynalsm (1/s) | sqlite-json (1/s) | ratio |")
    print("| --- | ---: | ---: | ---: |")
    for name in names:
        ours, theirs = (statistics.median(rates[name][engine.name]) for engine in ENGINES)
        print(f"| {name} | {ours:,.0f} | {theirs:,.0f} | {ours / theirs:.1f} x |")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"rates": rates, "items": arguments.items}, file, indent=1)


if __name__ == "__main__":
    main()
