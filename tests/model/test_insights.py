"""Contributor insights: the sketch, and what the operations count."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

from dynalsm import errors
from dynalsm.database import Database
from dynalsm.model import insights
from dynalsm.model.insights import Sketch, Windows
from tests.support.databases import memory_database


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def db(clock: Clock) -> Any:
    with memory_database(clock=clock) as database:
        database.create_table(
            TableName="Music",
            KeySchema=[
                {"AttributeName": "pk", "KeyType": "HASH"},
                {"AttributeName": "sk", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[
                {"AttributeName": "pk", "AttributeType": "S"},
                {"AttributeName": "sk", "AttributeType": "N"},
                {"AttributeName": "x", "AttributeType": "B"},
            ],
            GlobalSecondaryIndexes=[
                {
                    "IndexName": "by-x",
                    "KeySchema": [{"AttributeName": "x", "KeyType": "HASH"}],
                    "Projection": {"ProjectionType": "ALL"},
                }
            ],
            BillingMode="PAY_PER_REQUEST",
        )
        yield database


def turn(db: Database, action: str, **more: Any) -> None:
    call = {"TableName": "Music", "ContributorInsightsAction": action, **more}
    db.call("UpdateContributorInsights", call)


# The sketch.


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_sketch_is_as_good_as_it_says(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every heavy key is there, no count is too high, and none too low by more than `error`."""
    monkeypatch.setattr(insights, "SKETCH_KEYS", 20)
    chance = random.Random(seed)
    sketch, truth = Sketch(), Counter[insights.Key]()
    for _ in range(20_000):
        key = (b"%d" % int(chance.paretovariate(0.7)), b"")
        sketch.add(key)
        truth[key] += 1
    assert sketch.total == 20_000
    assert len(sketch.counts) <= 40
    assert sketch.error <= 20_000 / 20
    for key, count in truth.items():
        assert count - sketch.error <= sketch.counts.get(key, 0) <= count
        assert count <= 20_000 / 20 or key in sketch.counts


def test_windows_forget() -> None:
    windows = Windows(0.0)
    windows.add((b"old", b""), 0.0)
    windows.add((b"new", b""), 3601.0)
    assert [key for key, _, _ in windows.top(5, 3601.0)] == [(b"new", b""), (b"old", b"")]
    assert [key for key, _, _ in windows.top(5, 7202.0)] == [(b"new", b"")]
    assert windows.top(5, 20_000.0) == []


# What operations count.


def test_hot_keys_show(db: Database) -> None:
    music = db.Table("Music")
    turn(db, "ENABLE")
    for number in range(30):
        music.put_item(Item={"pk": f"cold{number}", "sk": number})
    for _ in range(5):
        music.get_item(Key={"pk": "hot", "sk": -7})
    for _ in range(3):
        music.query(
            KeyConditionExpression="pk = :p AND sk > :n",
            ExpressionAttributeValues={":p": "queried", ":n": 1},
            ScanIndexForward=False,
        )
    music.update_item(Key={"pk": "hot", "sk": Decimal("2.5")}, UpdateExpression="SET a = sk")
    music.delete_item(Key={"pk": "hot", "sk": 3})
    found = db.hot_keys("Music")
    assert found.partitions[:2] == [
        {"key": {"pk": "hot"}, "count": 7, "error": 0},
        {"key": {"pk": "queried"}, "count": 3, "error": 0},
    ]
    assert found.items[0] == {"key": {"pk": "hot", "sk": Decimal(-7)}, "count": 5, "error": 0}
    assert len(found.partitions) == insights.TOP_KEYS
    assert found.throttled_partitions == []


def test_batches_and_transactions_count(db: Database) -> None:
    turn(db, "ENABLE")
    item = {"pk": {"S": "a"}, "sk": {"N": "1"}}
    db.call("BatchWriteItem", {"RequestItems": {"Music": [{"PutRequest": {"Item": item}}]}})
    db.call("BatchGetItem", {"RequestItems": {"Music": {"Keys": [item]}}})
    db.call(
        "TransactWriteItems", {"TransactItems": [{"Put": {"TableName": "Music", "Item": item}}]}
    )
    get = {"Get": {"TableName": "Music", "Key": item}}
    db.call("TransactGetItems", {"TransactItems": [get]})
    [found] = db.hot_keys("Music").items
    assert (found["key"], found["count"]) == ({"pk": "a", "sk": 1}, 4)


def test_an_index_is_counted_by_itself(db: Database) -> None:
    turn(db, "ENABLE", IndexName="by-x")
    music = db.Table("Music")
    music.put_item(Item={"pk": "a", "sk": 1, "x": b"\xff"})
    for _ in range(2):
        music.query(
            IndexName="by-x",
            KeyConditionExpression="x = :x",
            ExpressionAttributeValues={":x": b"\xff"},
        )
    assert db.hot_keys("Music").partitions == []
    [found] = db.hot_keys("Music", "by-x").partitions
    assert found == {"key": {"x": b"\xff"}, "count": 2, "error": 0}


def test_the_reply_shows_them(db: Database) -> None:
    turn(db, "ENABLE")
    db.Table("Music").put_item(Item={"pk": "a", "sk": 1})
    reply = db.call("DescribeContributorInsights", {"TableName": "Music"})
    assert reply["TopContributors"]["Items"] == [
        {"Key": {"pk": {"S": "a"}, "sk": {"N": "1"}}, "Count": 1, "Error": 0}
    ]


def test_nothing_is_counted_when_off(db: Database) -> None:
    music = db.Table("Music")
    music.put_item(Item={"pk": "a", "sk": 1})
    assert not db.writes.is_watched
    turn(db, "ENABLE")
    music.put_item(Item={"pk": "a", "sk": 2})
    turn(db, "DISABLE")
    assert not db.writes.is_watched
    turn(db, "ENABLE")
    assert db.hot_keys("Music") == insights.HotKeys()


def test_throttled_keys(clock: Clock) -> None:
    with memory_database(clock=clock, enforce_throughput=True) as db:
        db.create_table(
            TableName="Music",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            ProvisionedThroughput={"ReadCapacityUnits": 1, "WriteCapacityUnits": 1},
        )
        turn(db, "ENABLE", ContributorInsightsMode="THROTTLED_KEYS")
        music = db.Table("Music")
        with pytest.raises(errors.API_ERRORS["ProvisionedThroughputExceededException"]):
            for _ in range(1000):
                music.put_item(Item={"pk": "hot"})
        found = db.hot_keys("Music")
        assert found.partitions == []
        assert found.throttled_partitions == [{"key": {"pk": "hot"}, "count": 1, "error": 0}]


def test_unknown_tables_and_indexes(db: Database) -> None:
    not_found = errors.API_ERRORS["ResourceNotFoundException"]
    with pytest.raises(not_found, match="no table Nothing"):
        db.hot_keys("Nothing")
    with pytest.raises(not_found, match="an index nothing"):
        db.hot_keys("Music", "nothing")
