"""Index creation and deletion beside running writers: the index always equals its table."""

from __future__ import annotations

import random
import threading
from typing import Any

from dynalsm.database import Database
from dynalsm.model import backfill
from dynalsm.model.settings import Settings
from tests.support.memory_engine import MemoryBatch, MemoryEngine

KEYS = [f"key{number}" for number in range(40)]


class LockedEngine(MemoryEngine):
    """A MemoryEngine whose commits may come from many threads."""

    def __init__(self) -> None:
        super().__init__()
        self._mutex = threading.Lock()

    def commit(self, batch: MemoryBatch) -> int:
        with self._mutex:
            return super().commit(batch)


def make(db: Database) -> None:
    db.call(
        "CreateTable",
        {
            "TableName": "Music",
            "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
            "BillingMode": "PAY_PER_REQUEST",
        },
    )


def create_index(db: Database) -> None:
    index = {
        "IndexName": "by-x",
        "KeySchema": [{"AttributeName": "x", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "ALL"},
    }
    db.call(
        "UpdateTable",
        {
            "TableName": "Music",
            "AttributeDefinitions": [{"AttributeName": "x", "AttributeType": "S"}],
            "GlobalSecondaryIndexUpdates": [{"Create": index}],
        },
    )


def delete_index(db: Database) -> None:
    actions = [{"Delete": {"IndexName": "by-x"}}]
    db.call("UpdateTable", {"TableName": "Music", "GlobalSecondaryIndexUpdates": actions})


def scan(db: Database, **more: Any) -> dict[str, Any]:
    items: dict[str, Any] = {}
    request: dict[str, Any] = {"TableName": "Music", **more}
    while True:
        page = db.call("Scan", request)
        for item in page["Items"]:
            assert item["pk"]["S"] not in items, "one item, two index entries"
            items[item["pk"]["S"]] = item
        if "LastEvaluatedKey" not in page:
            return items
        request["ExclusiveStartKey"] = page["LastEvaluatedKey"]


class Writers:
    """Threads that put, change and delete items until told to stop."""

    def __init__(self, db: Database, seed: int) -> None:
        self._db = db
        self._stop = threading.Event()
        self.failures: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._run, args=(random.Random(seed * 10 + number),))
            for number in range(3)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, chance: random.Random) -> None:
        try:
            while not self._stop.is_set():
                write_one(self._db, chance)
        except BaseException as error:
            self.failures.append(error)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        assert self.failures == []


def write_one(db: Database, chance: random.Random) -> None:
    key = {"pk": {"S": chance.choice(KEYS)}}
    kind = chance.randrange(4)
    if kind == 0:
        db.call("DeleteItem", {"TableName": "Music", "Key": key})
    elif kind == 1:
        item = {**key, "other": {"N": str(chance.randrange(100))}}  # leaves the index
        db.call("PutItem", {"TableName": "Music", "Item": item})
    else:
        item = {**key, "x": {"S": f"x{chance.randrange(8)}"}}
        db.call("PutItem", {"TableName": "Music", "Item": item})


def test_index_equals_its_table_whatever_runs_beside(monkeypatch: Any) -> None:
    """Several times: create the index under load, compare, delete it under load."""
    from dynalsm.model import indexes

    monkeypatch.setattr(indexes, "BACKFILL_CHUNK_ITEMS", 3)  # many chunks, many races
    seed = 7
    with Database(LockedEngine(), Settings()) as db:  # type: ignore[arg-type]
        make(db)
        chance = random.Random(seed)
        for _ in range(100):
            write_one(db, chance)
        for round_ in range(4):
            writers = Writers(db, seed + round_)
            create_index(db)
            backfill.wait(db, "Music", "by-x")
            writers.stop()
            table, index = scan(db), scan(db, IndexName="by-x")
            assert index == {pk: item for pk, item in table.items() if "x" in item}
            handle = db.catalog.get("Music")
            assert handle is not None
            assert handle.statistics.items == len(table)
            assert handle.indexes["by-x"].statistics.items == len(index)
            writers = Writers(db, seed + 100 + round_)
            delete_index(db)
            writers.stop()
            assert "t/" + handle.schema.id + "/g/by-x" not in db.engine.tree_names()


def test_cancelled_backfill_stops_before_the_tree_goes(monkeypatch: Any) -> None:
    from dynalsm.model import indexes

    monkeypatch.setattr(indexes, "BACKFILL_CHUNK_ITEMS", 1)
    monkeypatch.setattr(backfill, "SAVE_EVERY_CHUNKS", 1)
    with Database(LockedEngine(), Settings()) as db:  # type: ignore[arg-type]
        make(db)
        chance = random.Random(1)
        for _ in range(100):
            write_one(db, chance)
        for _ in range(5):
            create_index(db)
            delete_index(db)
        assert not [name for name in db.engine.tree_names() if "/g/" in name]
        assert [name for name, _ in db.catalog.records(backfill.RECORD)] == []
