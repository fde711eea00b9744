"""Random writes to a table with indexes and a stream, and what must hold after any crash.

An `Actor` is one writer: a deterministic sequence of operations on keys of its own, with the model
of what they leave. Many actors may write to one table at once. `check_items` holds an opened
database against them: for each actor the table shows exactly its first n operations, n between what
was acknowledged and what was begun; the stream has exactly the records of these n; and every index
holds what the items say.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from dynalsm import errors
from dynalsm.database import Database, open_path
from dynalsm.values import decode_wire_item
from tests.support.store import N, S, index, table

NAME = "crash"
Item = dict[str, Any]
Key = tuple[str, str]
Change = tuple[Key, Item | None, Item | None]

# So small that flush and compaction run all the time.
TINY = {
    "memory_bytes": 8 << 20,
    "write_buffer_bytes": 20_000,
    "block_bytes": 512,
    "target_file_bytes": 8_000,
    "hash_partitions": 2,
}


def open_items(path: str, **options: Any) -> Database:
    """Open the database and make the table if it is not there."""
    database = open_path(path, **{**TINY, "stream_shards": 2, **options})
    if database.catalog.get(NAME) is None:
        database.call(
            "CreateTable",
            table(
                NAME,
                "p s",
                "p:S s:N l:S g:S h:N",
                LocalSecondaryIndexes=[index("by-l", "p", "l")],
                GlobalSecondaryIndexes=[
                    index("by-g", "g"),
                    index("by-gh", "g", "h", projection="INCLUDE", include=["n"]),
                ],
                StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
            ),
        )
    return database


class Actor:
    """One writer. `changes[i]` is what its operation i does; `items` is the model at the end."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.rng = random.Random(f"{name} {seed}")
        self.items: dict[Key, Item] = {}
        self.changes: list[list[Change]] = []

    @property
    def count(self) -> int:
        """How many operations were made up so far."""
        return len(self.changes)

    def next_operation(self) -> tuple[str, Item, bool]:
        """Make up the next operation: its name, its request, and whether it must succeed."""
        rng = self.rng
        keys = rng.sample([(p, s) for p in range(3) for s in range(5)], rng.choice([1, 1, 1, 3]))
        changes: list[Change] = []
        actions = []
        for p, s in keys:
            key = (f"{self.name}-{p}", str(s))
            action, request, new = self.make_up(key)
            actions.append({action: {"TableName": NAME, **request}})
            old = self.items.get(key)
            if new != old:
                changes.append((key, old, new))
        must_succeed = True
        if rng.random() < 0.05:  # a condition that does not hold: nothing may change
            must_succeed, changes = False, []
            request = next(iter(actions[0].values()))
            request["ConditionExpression"] = "attribute_exists(nothing)"
        self.changes.append(changes)
        for key, _, new in changes:
            self.items.pop(key, None)
            if new is not None:
                self.items[key] = new
        if len(actions) > 1:
            return "TransactWriteItems", {"TransactItems": actions}, must_succeed
        action, request = next(iter(actions[0].items()))
        return f"{action}Item", request, must_succeed

    def make_up(self, key: Key) -> tuple[str, Item, Item | None]:
        """One action on one item: its name, its request, and the item afterwards."""
        rng = self.rng
        names = {"p": S(key[0]), "s": N(key[1])}
        old = self.items.get(key)
        dice = rng.random()
        if dice < 0.2:
            return "Delete", {"Key": names}, None
        if dice < 0.6 or old is None:
            item = {**names, "n": N(rng.randrange(100)), "a": S("x" * rng.choice([0, 20, 400]))}
            for name in "lg":
                if rng.random() < 0.6:
                    item[name] = S(f"{self.name}{rng.randrange(4)}")
            if rng.random() < 0.5:
                item["h"] = N(rng.randrange(3))
            return "Put", {"Item": item}, item
        new = dict(old)
        if dice < 0.8:
            new["n"] = N(int(old["n"]["N"]) + 1)
            new["g"] = S(f"{self.name}{rng.randrange(4)}")
            request = {
                "UpdateExpression": "SET g = :g ADD n :one",
                "ExpressionAttributeValues": {":g": new["g"], ":one": N(1)},
            }
        else:
            for name in "lh":
                new.pop(name, None)
            request = {"UpdateExpression": "REMOVE l, h"}
        return "Update", {"Key": names, **request}, new

    def run_one(self, database: Database) -> None:
        """The next operation; returns when it is acknowledged."""
        operation, request, must_succeed = self.next_operation()
        try:
            database.call(operation, request)
        except (
            errors.API_ERRORS["ConditionalCheckFailedException"],
            errors.API_ERRORS["TransactionCanceledException"],
        ):
            assert not must_succeed
        else:
            assert must_succeed

    def skip(self, count: int) -> None:
        """Make up operations without running them, until there are so many."""
        while self.count < count:
            self.next_operation()

    def items_after(self, count: int) -> dict[Key, Item]:
        """The items after the first `count` operations."""
        items: dict[Key, Item] = {}
        for changes in self.changes[:count]:
            for key, _, new in changes:
                items.pop(key, None)
                if new is not None:
                    items[key] = new
        return items

    def stream_after(self, count: int) -> dict[Key, list[tuple[Item | None, Item | None]]]:
        """The stream records of the first `count` operations, by item."""
        records: dict[Key, list[tuple[Item | None, Item | None]]] = {}
        for changes in self.changes[:count]:
            for key, old, new in changes:
                records.setdefault(key, []).append((old, new))
        return records


def rewind(actor: Actor, seed: int, count: int) -> Actor:
    """A fresh actor that has made up the first `count` operations."""
    fresh = Actor(actor.name, seed)
    fresh.skip(count)
    return fresh


def check_items(database: Database, bounds: Sequence[tuple[Actor, int, int]]) -> list[int]:
    """See the module's docstring. bounds: (actor, acknowledged, begun).

    Returns: for each actor, how many of its operations are there."""
    handle = database.catalog.get(NAME)
    assert handle is not None, "the table is gone"
    stored = {key: handle.keys.join(key, value) for key, value in handle.tree.cursor()}
    for name, opened in handle.indexes.items():
        wanted = dict(filter(None, map(opened.keys.entry, stored.values())))
        found = dict(opened.tree.cursor())
        assert found == wanted, f"index {name} does not agree with the table"
    items: dict[str, dict[Key, Item]] = {}
    for item in map(decode_wire_item, stored.values()):
        key = (item["p"]["S"], item["s"]["N"])
        items.setdefault(key[0].rpartition("-")[0], {})[key] = item
    streams = read_stream(database)
    counts = []
    for actor, least, most in bounds:
        found = (items.pop(actor.name, {}), streams.pop(actor.name, {}))
        count = next(
            (
                number
                for number in range(most, least - 1, -1)
                if (actor.items_after(number), actor.stream_after(number)) == found
            ),
            None,
        )
        assert count is not None, explain(actor, least, most, *found)
        counts.append(count)
    assert not items, f"items of nobody: {items}"
    assert not streams, f"stream records of nobody: {streams}"
    return counts


def explain(actor: Actor, least: int, most: int, items: Any, stream: Any) -> str:
    fits = [n for n in range(actor.count + 1) if actor.items_after(n) == items]
    streams = [n for n in range(actor.count + 1) if actor.stream_after(n) == stream]
    return (
        f"actor {actor.name}: between {least} and {most} operations expected; "
        f"the items are those after {fits[:5]}, the stream is that after {streams[:5]}"
    )


def read_stream(database: Database) -> dict[str, dict[Key, list[Any]]]:
    """All records of the table's stream: actor -> item -> [(old, new), ...]."""
    found: dict[str, dict[Key, list[Any]]] = {}
    arn = database.call("DescribeTable", {"TableName": NAME})["Table"]["LatestStreamArn"]
    described = database.call("DescribeStream", {"StreamArn": arn})["StreamDescription"]
    for shard in described["Shards"]:
        iterator = database.call(
            "GetShardIterator",
            {
                "StreamArn": arn,
                "ShardId": shard["ShardId"],
                "ShardIteratorType": "TRIM_HORIZON",
            },
        )["ShardIterator"]
        last = ""
        while iterator:
            reply = database.call("GetRecords", {"ShardIterator": iterator})
            if not reply["Records"]:
                break
            for record in reply["Records"]:
                change = record["dynamodb"]
                assert change["SequenceNumber"] > last, "the stream goes back"
                last = change["SequenceNumber"]
                key = (change["Keys"]["p"]["S"], change["Keys"]["s"]["N"])
                found.setdefault(key[0].rpartition("-")[0], {}).setdefault(key, []).append(
                    (change.get("OldImage"), change.get("NewImage"))
                )
            iterator = reply.get("NextShardIterator")
    return found
