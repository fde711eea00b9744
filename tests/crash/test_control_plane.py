"""kill -9 in the middle of the control plane: the next open finds every table whole or not there.

A child process changes tables as fast as it can until it is killed; then the database is opened
here, what was left unfinished is finished, and everything must fit together.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import dynalsm
from dynalsm.model import backfill, streams, ttl

ROUNDS = 6
ROOT = Path(__file__).resolve().parents[2]

CHILD = """
import random, sys
import dynalsm
from tests.crash.test_control_plane import change
db = dynalsm.open(sys.argv[1], durability="os")
chance = random.Random(int(sys.argv[2]))
print("ready", flush=True)
while True:
    change(db, chance)
"""

TABLES = ("one", "two")


def change(db: Any, chance: random.Random) -> None:
    """Make one change of the control plane or a few of items."""
    name = chance.choice(TABLES)
    try:
        kind = chance.randrange(11)
        if kind == 0:
            db.call("DeleteTable", {"TableName": name})
        elif kind == 1:
            create(db, name)
        elif kind == 2:
            wanted = {"Enabled": chance.random() < 0.5, "AttributeName": "n"}
            db.call("UpdateTimeToLive", {"TableName": name, "TimeToLiveSpecification": wanted})
        elif kind == 3:
            wanted = {"StreamEnabled": chance.random() < 0.5}
            if wanted["StreamEnabled"]:
                wanted["StreamViewType"] = "NEW_AND_OLD_IMAGES"
            db.call("UpdateTable", {"TableName": name, "StreamSpecification": wanted})
        elif kind in (4, 5):
            change_index(db, name, creates=kind == 4)
        elif kind == 6:
            roll(db, name)
        elif kind == 7:
            for _ in range(10):
                write(db, name, chance, expires=int(time.time()) - chance.randrange(100))
            ttl.sweep(db)
        else:
            for _ in range(20):
                write(db, name, chance)
    except dynalsm.errors.ApiError:
        pass  # the table is (not) there, the stream is (not) on


def roll(db: Any, name: str) -> None:
    """Close the shards of a table's stream and open others; drop those that are old."""
    with db.catalog.mutex:
        handle = db.catalog.get(name)
        if handle is not None and handle.changelog is not None:
            streams.next_generation(db.catalog, handle)
    db.settings.stream_retention_seconds = 0.05
    streams.trim(db.catalog)


def create(db: Any, name: str) -> None:
    db.call(
        "CreateTable",
        {
            "TableName": name,
            "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
            "BillingMode": "PAY_PER_REQUEST",
            "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"},
        },
    )


def change_index(db: Any, name: str, *, creates: bool) -> None:
    index = {
        "IndexName": "by-x",
        "KeySchema": [{"AttributeName": "x", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "ALL"},
    }
    action = {"Create": index} if creates else {"Delete": {"IndexName": "by-x"}}
    db.call(
        "UpdateTable",
        {
            "TableName": name,
            "AttributeDefinitions": [{"AttributeName": "x", "AttributeType": "S"}],
            "GlobalSecondaryIndexUpdates": [action],
        },
    )


def write(db: Any, name: str, chance: random.Random, expires: int = 2**33) -> None:
    key = {"pk": {"S": f"key{chance.randrange(50)}"}}
    if chance.random() < 0.3:
        db.call("DeleteItem", {"TableName": name, "Key": key})
    else:
        item = {**key, "x": {"S": str(chance.randrange(5))}, "n": {"N": str(expires)}}
        db.call("PutItem", {"TableName": name, "Item": item})


def check(db: Any) -> None:
    """Finish what is unfinished; then trees, indexes, expiry times and counters must agree."""
    for thread in list(db._threads):
        if not thread.name.startswith("dynalsm-housekeeping"):
            thread.join()
    ttl.sweep(db)
    wanted = {"catalog"}
    for log in db.catalog.logs():
        wanted.add(log.tree_name)
        handle = db.catalog.find_id(log.table_id)
        is_used = handle is not None and handle.schema.changelog == log.label
        assert is_used == (log.closed_at is None)
    for name in db.catalog.names():
        handle = db.catalog.get(name)
        items = scan(handle.tree, handle.keys)
        wanted.add(handle.tree.name)
        assert (handle.statistics.items, handle.statistics.is_exact) == (len(items), True)
        for index in handle.indexes.values():
            wanted.add(index.tree.name)
            assert index.is_readable
            expected = dict(filter(None, map(index.keys.entry, items.values())))
            assert dict(index.tree.cursor()) == expected
            assert index.statistics.items == len(expected)
        if handle.expiry is not None:
            wanted.add(handle.expiry.name)
            assert ttl.UNFILLED not in handle.schema.extras
            now = time.time()
            seconds = [ttl.expiry_second(item, "n") or 0 for item in items.values()]
            assert all(second > now for second in seconds)
            assert set(handle.expiry.cursor(values=False)) == {
                ttl.expiry_second(item, "n").to_bytes(8, "big") + key for key, item in items.items()
            }
    assert set(db.engine.tree_names()) == wanted
    assert list(db.catalog.records(backfill.RECORD)) == []


def scan(tree: Any, keys: Any) -> dict[bytes, bytes]:
    return {key: keys.join(key, stored) for key, stored in tree.cursor()}


@pytest.mark.parametrize("seed", [1])
def test_killed_while_tables_change(tmp_path: Path, seed: int) -> None:
    path = str(tmp_path / "db")
    chance = random.Random(seed)
    for round_ in range(ROUNDS):
        arguments = [sys.executable, "-c", CHILD, path, str(seed * 100 + round_)]
        with subprocess.Popen(
            arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            if child.stdout.readline() != "ready\n":
                pytest.fail(child.stderr.read())
            time.sleep(chance.uniform(0.02, 0.3))
            child.kill()
            assert child.stderr.read() == ""
        # What expires is deleted by check() alone, so that nothing moves while it compares.
        with dynalsm.open(path, ttl_sweep_seconds=1e6) as db:
            check(db)
