"""Expiry: which items, when, and what a deletion leaves behind."""

from __future__ import annotations

from typing import Any

import pytest

from dynalsm.database import Database
from dynalsm.model import ttl
from tests.support.databases import memory_database

NOW = 1_700_000_000
YEAR = 365 * 86_400


class Clock:
    def __init__(self) -> None:
        self.now = float(NOW)

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def db(clock: Clock) -> Any:
    with memory_database(clock=clock) as database:
        database.call(
            "CreateTable",
            {
                "TableName": "Music",
                "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
                "AttributeDefinitions": [
                    {"AttributeName": name, "AttributeType": "S"} for name in ("pk", "x")
                ],
                "BillingMode": "PAY_PER_REQUEST",
                "GlobalSecondaryIndexes": [
                    {
                        "IndexName": "by-x",
                        "KeySchema": [{"AttributeName": "x", "KeyType": "HASH"}],
                        "Projection": {"ProjectionType": "ALL"},
                    }
                ],
                "StreamSpecification": {
                    "StreamEnabled": True,
                    "StreamViewType": "NEW_AND_OLD_IMAGES",
                },
            },
        )
        yield database


def turn_on(db: Database) -> None:
    wanted = {"Enabled": True, "AttributeName": "expires"}
    db.call("UpdateTimeToLive", {"TableName": "Music", "TimeToLiveSpecification": wanted})
    for thread in list(db._threads):
        if thread.name == "dynalsm-ttl-Music":
            thread.join()


def put(db: Database, pk: str, expires: Any = None) -> None:
    item: dict[str, Any] = {"pk": {"S": pk}, "x": {"S": "1"}}
    if expires is not None:
        item["expires"] = expires if isinstance(expires, dict) else {"N": str(expires)}
    db.call("PutItem", {"TableName": "Music", "Item": item})


def left(db: Database, **more: Any) -> list[str]:
    items = db.call("Scan", {"TableName": "Music", **more})["Items"]
    return sorted(item["pk"]["S"] for item in items)


def test_which_items_expire(db: Database) -> None:
    turn_on(db)
    put(db, "past", NOW - 60)
    put(db, "now", NOW)
    put(db, "fraction", f"{NOW - 1}.5")
    put(db, "future", NOW + 60)
    put(db, "never")
    put(db, "text", {"S": str(NOW - 60)})
    put(db, "ancient", NOW - 6 * YEAR)
    put(db, "negative", -5)
    put(db, "huge", "1E100")
    assert ttl.sweep(db) == 3
    assert left(db) == ["ancient", "future", "huge", "negative", "never", "text"]
    assert left(db, IndexName="by-x") == left(db)


def test_expired_items_stay_readable_until_the_sweep(db: Database) -> None:
    turn_on(db)
    put(db, "past", NOW - 60)
    assert left(db) == ["past"]


def test_items_older_than_the_setting_expire_too(db: Database, clock: Clock) -> None:
    put(db, "early", NOW + 5)
    turn_on(db)
    assert ttl.UNFILLED not in db.catalog.get("Music").schema.extras
    clock.now += 10
    assert ttl.sweep(db) == 1


def test_changed_expiry_counts(db: Database, clock: Clock) -> None:
    turn_on(db)
    put(db, "moved", NOW + 10)
    put(db, "removed", NOW + 10)
    put(db, "moved", NOW + 100)
    put(db, "removed")
    clock.now += 20
    assert ttl.sweep(db) == 0
    clock.now += 100
    assert ttl.sweep(db) == 1
    assert left(db) == ["removed"]


def test_index_holds_exactly_what_can_expire(db: Database) -> None:
    turn_on(db)
    put(db, "a", NOW + 1)
    put(db, "b")
    put(db, "a", NOW + 2)
    tree = db.catalog.get("Music").expiry
    [(key, value)] = list(tree.cursor())
    assert (int.from_bytes(key[:8], "big"), value) == (NOW + 2, b"")
    db.call("DeleteItem", {"TableName": "Music", "Key": {"pk": {"S": "a"}}})
    assert list(tree.cursor()) == []


def test_item_that_was_saved_in_time_survives(db: Database, clock: Clock) -> None:
    """The deletion asks again under the item's lock: a stale entry deletes nothing."""
    turn_on(db)
    put(db, "a", NOW + 5)
    handle = db.catalog.get("Music")
    [key] = list(handle.expiry.cursor(values=False))
    put(db, "a", NOW + 500)
    clock.now += 10
    assert ttl._delete(db, "Music", key[8:], clock.now) is None
    assert left(db) == ["a"]


def test_deletion_leaves_a_record_with_the_service_as_identity(db: Database) -> None:
    turn_on(db)
    put(db, "a", NOW - 1)
    ttl.sweep(db)
    arn = db.call("DescribeTable", {"TableName": "Music"})["Table"]["LatestStreamArn"]
    records: list[Any] = []
    for shard in db.call("DescribeStream", {"StreamArn": arn})["StreamDescription"]["Shards"]:
        call = {"StreamArn": arn, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
        token = db.call("GetShardIterator", call)["ShardIterator"]
        records += db.call("GetRecords", {"ShardIterator": token})["Records"]
    insert, remove = records
    assert "userIdentity" not in insert
    assert remove["eventName"] == "REMOVE"
    assert remove["userIdentity"] == {
        "Type": "Service",
        "PrincipalId": "dynamodb.amazonaws.com",
    }
    assert remove["dynamodb"]["OldImage"]["pk"] == {"S": "a"}


def test_turned_off_nothing_expires(db: Database) -> None:
    turn_on(db)
    put(db, "a", NOW - 1)
    wanted = {"Enabled": False, "AttributeName": "expires"}
    db.call("UpdateTimeToLive", {"TableName": "Music", "TimeToLiveSpecification": wanted})
    assert ttl.sweep(db) == 0
    assert left(db) == ["a"]
    assert not any(name.startswith("x/") for name in db.engine.tree_names())
    turn_on(db)
    assert ttl.sweep(db) == 1


def test_quick_sweeps_begin_where_the_last_one_ended(db: Database, clock: Clock) -> None:
    turn_on(db)
    put(db, "a", NOW)
    assert ttl.sweep(db, is_full=False) == 1
    mark = db.catalog.get("Music").expiry_mark
    assert mark.second == NOW + 1
    put(db, "b", NOW + 1)
    put(db, "c", NOW + 9)
    assert ttl.sweep(db, is_full=False) == 0
    clock.now += 1.5
    assert ttl.sweep(db, is_full=False) == 1
    put(db, "late", NOW - 5)  # an entry behind the mark takes the mark back
    put(db, "later", NOW - 4)
    assert mark.second == NOW - 5
    assert ttl.sweep(db, is_full=False) == 2
    # A mark that is too late, as two threads may leave it, holds until the next full sweep.
    put(db, "lost", NOW - 5)
    mark.second = NOW + 2
    assert ttl.sweep(db, is_full=False) == 0
    assert ttl.sweep(db) == 1
    assert left(db) == ["c"]


def test_housekeeping_sweeps_by_itself(clock: Clock) -> None:
    import time

    with memory_database(clock=clock, ttl_sweep_seconds=0.01) as db:
        db.call(
            "CreateTable",
            {
                "TableName": "Music",
                "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
                "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
                "BillingMode": "PAY_PER_REQUEST",
            },
        )
        turn_on(db)
        put(db, "a", NOW - 1)
        deadline = time.monotonic() + 10
        while left(db) and time.monotonic() < deadline:
            time.sleep(0.005)
        assert left(db) == []


# Reads that leave out what has expired.


def test_expired_items_can_be_hidden_from_reads() -> None:
    """With hide_expired nothing that reads items shows one between its time and its deletion."""
    now = [1_700_000_000.0]
    with memory_database(
        clock=lambda: now[0], hide_expired=True, ttl_sweep_seconds=1e6
    ) as database:
        database.call(
            "CreateTable",
            {
                "TableName": "Music",
                "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
                "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
                "BillingMode": "PAY_PER_REQUEST",
            },
        )
        wanted = {"Enabled": True, "AttributeName": "gone"}
        database.call("UpdateTimeToLive", {"TableName": "Music", "TimeToLiveSpecification": wanted})
        for pk, second in (("old", 1_700_000_005), ("new", 1_700_000_500)):
            item = {"pk": {"S": pk}, "gone": {"N": str(second)}}
            database.call("PutItem", {"TableName": "Music", "Item": item})
        assert seen(database) == ["new", "old"] * 5
        now[0] += 10
        assert seen(database) == ["new"] * 5
        with database.snapshot() as then:
            assert "Item" not in then.Table("Music").get_item(Key={"pk": "old"})
        scanned = database.call("Scan", {"TableName": "Music"})
        assert (scanned["Count"], scanned["ScannedCount"]) == (1, 2)
        # A filter of the request's own still counts.
        scanned = database.call(
            "Scan",
            {
                "TableName": "Music",
                "FilterExpression": "pk = :p",
                "ExpressionAttributeValues": {":p": {"S": "other"}},
            },
        )
        assert scanned["Count"] == 0


def seen(database: Any) -> list[str]:
    """The keys that each way of reading shows: get, query, scan, batch, transaction."""
    keys = [{"pk": {"S": pk}} for pk in ("new", "old")]
    found: list[Any] = []
    for key in keys:
        for _ in range(2):  # the second one is the straight way, if it is open
            reply = database.call("GetItem", {"TableName": "Music", "Key": key})
        found.append([reply["Item"]] if "Item" in reply else [])
    got = found[0] + found[1]
    queried = []
    for key in keys:
        query = {
            "TableName": "Music",
            "KeyConditionExpression": "pk = :p",
            "ExpressionAttributeValues": {":p": key["pk"]},
        }
        for _ in range(2):
            reply = database.call("Query", query)
        queried += reply["Items"]
    scanned = database.call("Scan", {"TableName": "Music"})["Items"]
    scanned.sort(key=lambda item: item["pk"]["S"])
    batch = database.call("BatchGetItem", {"RequestItems": {"Music": {"Keys": keys}}})
    gets = [{"Get": {"TableName": "Music", "Key": key}} for key in keys]
    replies = database.call("TransactGetItems", {"TransactItems": gets})["Responses"]
    transacted = [reply["Item"] for reply in replies if "Item" in reply]
    ways = [got, queried, scanned, batch["Responses"]["Music"], transacted]
    return [item["pk"]["S"] for way in ways for item in way]
