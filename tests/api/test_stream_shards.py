"""Shards that close and have children: rolling by age, size and partitions; what readers see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dynalsm
from dynalsm import errors
from dynalsm.database import Database
from dynalsm.model import kinesis, streams
from tests.api.test_streams import (
    Clock,
    delete,
    describe,
    iterator,
    make,
    put,
    read_all,
    set_stream,
    shard_of,
)
from tests.support.databases import memory_database
from tests.support.memory_engine import MemoryTree

HOUR = 3600.0
NOT_FOUND = errors.API_ERRORS["ResourceNotFoundException"]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def db(clock: Clock) -> Any:
    with memory_database(clock=clock, job_wait_seconds=60.0) as database:
        yield database


def roll(db: Database, clock: Clock, hours: float = 4) -> None:
    clock.now += hours * HOUR
    streams.roll(db.catalog)
    streams.trim(db.catalog)


def drain(db: Database, arn: str, shard: str, kind: str = "TRIM_HORIZON") -> tuple[list[str], bool]:
    """What a shard's records say of n, and whether it has an end."""
    token: str | None = iterator(db, arn, shard, kind)
    seen: list[str] = []
    while token is not None:
        reply = db.call("GetRecords", {"ShardIterator": token, "Limit": 2})
        seen += [record["dynamodb"]["NewImage"]["n"]["N"] for record in reply["Records"]]
        token = reply.get("NextShardIterator")
        if not reply["Records"]:
            break
    return seen, token is None


def test_a_shard_closes_after_hours_and_has_a_child(db: Database, clock: Clock) -> None:
    arn = make(db)
    for number in range(3):
        put(db, "a", n=number)
    old = shard_of(db, arn, "a")
    roll(db, clock)
    for number in range(3, 6):
        put(db, "a", n=number)
    described = describe(db, arn)
    assert described["StreamStatus"] == "ENABLED"
    assert described["CreationRequestDateTime"] == 1_700_000_000
    shards = described["Shards"]
    ids = [shard["ShardId"] for shard in shards]
    assert ids == sorted(ids)
    assert len(set(ids)) == 8
    parents, children = shards[:4], shards[4:]
    assert [child["ParentShardId"] for child in children] == ids[:4]
    assert all("ParentShardId" not in shard for shard in parents)
    for shard in parents:
        numbers = shard["SequenceNumberRange"]
        assert int(numbers["EndingSequenceNumber"]) >= int(numbers["StartingSequenceNumber"])
    assert all("EndingSequenceNumber" not in s["SequenceNumberRange"] for s in children)
    [child] = [shard["ShardId"] for shard in children if shard["ParentShardId"] == old]
    assert drain(db, arn, old) == (["0", "1", "2"], True)
    assert drain(db, arn, child) == (["3", "4", "5"], False)


def test_iterators_on_a_closed_shard(db: Database, clock: Clock) -> None:
    arn = make(db)
    for number in range(3):
        put(db, "a", n=number)
    old, records = shard_of(db, arn, "a"), read_all(db, arn)
    live = iterator(db, arn, old, "LATEST")
    roll(db, clock, 0)
    clock.now += 4 * HOUR
    db.settings.iterator_lifetime_seconds = 1e9
    streams.roll(db.catalog)
    # An iterator made before the end, and one made after it, tell that nothing will come.
    for token in (live, iterator(db, arn, old, "LATEST")):
        assert db.call("GetRecords", {"ShardIterator": token}) == {"Records": []}
    number = records[1]["dynamodb"]["SequenceNumber"]
    for kind, expected in (("AT_SEQUENCE_NUMBER", 2), ("AFTER_SEQUENCE_NUMBER", 1)):
        token = iterator(db, arn, old, kind, SequenceNumber=number)
        reply = db.call("GetRecords", {"ShardIterator": token})
        assert (len(reply["Records"]), "NextShardIterator" in reply) == (expected, False)
    last = describe(db, arn)["Shards"][0]["SequenceNumberRange"]["EndingSequenceNumber"]
    token = iterator(db, arn, old, "AFTER_SEQUENCE_NUMBER", SequenceNumber=last)
    assert db.call("GetRecords", {"ShardIterator": token}) == {"Records": []}


def test_an_end_that_is_not_durable_yet_is_no_end(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers see durable records only; a shard must not end for them before its last one."""
    from dynalsm.model import changelog

    arn = make(db)
    put(db, "a", n=1)
    before = db.engine.last_seqno
    put(db, "a", n=2)
    shard = shard_of(db, arn, "a")
    roll(db, clock)
    monkeypatch.setattr(changelog, "readable_seqno", lambda _: before)
    assert drain(db, arn, shard) == (["1"], False)
    monkeypatch.undo()
    assert drain(db, arn, shard) == (["1", "2"], True)


def test_children_of_a_shard(db: Database, clock: Clock) -> None:
    arn = make(db)
    put(db, "a", n=1)
    roll(db, clock)
    first, *_, last = [shard["ShardId"] for shard in describe(db, arn)["Shards"]]
    wanted = {"Type": "CHILD_SHARDS", "ShardId": first}
    [child] = describe(db, arn, ShardFilter=wanted)["Shards"]
    assert child["ParentShardId"] == first
    assert describe(db, arn, ShardFilter={**wanted, "ShardId": last})["Shards"] == []


def test_shards_split_with_the_partitions(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five partitions ask for eight shards: each shard has two children, and items stay in line."""
    arn = make(db)
    keys = [f"key{number}" for number in range(40)]
    for pk in keys:
        put(db, pk, n=1)
    monkeypatch.setattr(MemoryTree, "partitions", lambda _: [{}] * 5)
    streams.roll(db.catalog)
    for pk in keys:
        put(db, pk, n=2)
    shards = describe(db, arn)["Shards"]
    parents = [shard["ShardId"] for shard in shards[:4]]
    assert [s["ParentShardId"] for s in shards[4:]] == [p for p in parents for _ in range(2)]
    home: dict[str, str] = {}
    for shard in shards:
        token = iterator(db, arn, shard["ShardId"], "TRIM_HORIZON")
        for record in db.call("GetRecords", {"ShardIterator": token})["Records"]:
            body = record["dynamodb"]
            pk = body["Keys"]["pk"]["S"]
            if body["NewImage"]["n"]["N"] == "1":
                home[pk] = shard["ShardId"]
            else:
                assert shard["ParentShardId"] == home.pop(pk)
    assert home == {}
    streams.roll(db.catalog)
    assert len(describe(db, arn)["Shards"]) == 12  # enough now


def test_large_changelogs_roll_and_idle_ones_do_not(db: Database, clock: Clock) -> None:
    arn = make(db)
    roll(db, clock, 100)
    assert len(describe(db, arn)["Shards"]) == 4
    put(db, "a", n=1)
    roll(db, clock, 0)  # from the beginning of the table it is old enough
    assert len(describe(db, arn)["Shards"]) == 8
    db.settings.stream_roll_bytes = 1
    put(db, "a", n=2)
    streams.roll(db.catalog)
    assert len(describe(db, arn)["Shards"]) == 12


def test_old_shards_go_with_their_tree(db: Database, clock: Clock) -> None:
    arn = make(db)
    put(db, "a", n=1)
    old = shard_of(db, arn, "a")
    number = read_all(db, arn)[0]["dynamodb"]["SequenceNumber"]
    token = iterator(db, arn, old, "TRIM_HORIZON")
    roll(db, clock)
    put(db, "a", n=2)
    statement = '{"Effect": "Allow", "Principal": "*", "Action": "dynamodb:*", "Resource": "*"}'
    text = f'{{"Version": "2012-10-17", "Statement": [{statement}]}}'
    policy = {"ResourceArn": arn, "Policy": text}
    db.call("PutResourcePolicy", policy)
    trees = {name for name in db.engine.tree_names() if name.startswith("s/")}
    clock.now += 24 * HOUR + 1
    db.settings.iterator_lifetime_seconds = 1e9
    shards = describe(db, arn)["Shards"]
    assert len(shards) == 4  # for readers at once
    assert all("ParentShardId" not in shard for shard in shards)
    streams.trim(db.catalog)
    left = {name for name in db.engine.tree_names() if name.startswith("s/")}
    assert (len(trees), len(left)) == (2, 1)
    with pytest.raises(NOT_FOUND, match="Shard does not exist"):
        iterator(db, arn, old, "AT_SEQUENCE_NUMBER", SequenceNumber=number)
    with pytest.raises(errors.API_ERRORS["TrimmedDataAccessException"]):
        db.call("GetRecords", {"ShardIterator": token})
    assert db.call("GetResourcePolicy", {"ResourceArn": arn})["Policy"] == policy["Policy"]
    assert [one["StreamArn"] for one in db.call("ListStreams", {})["Streams"]] == [arn]


def test_disabling_closes_every_generation(db: Database, clock: Clock) -> None:
    arn = make(db)
    put(db, "a", n=1)
    roll(db, clock)
    put(db, "a", n=2)
    set_stream(db, None)
    described = describe(db, arn)
    assert described["StreamStatus"] == "DISABLED"
    assert all("EndingSequenceNumber" in s["SequenceNumberRange"] for s in described["Shards"])
    assert len(read_all(db, arn)) == 2
    again = set_stream(db, "NEW_IMAGE")["LatestStreamArn"]
    assert again != arn
    assert len(db.call("ListStreams", {})["Streams"]) == 2
    clock.now += 24 * HOUR + 1
    streams.trim(db.catalog)
    with pytest.raises(NOT_FOUND):
        describe(db, arn)
    assert len(db.catalog.logs()) == 1


def test_followers_go_on_to_the_children(db: Database, clock: Clock) -> None:
    make(db)
    put(db, "a", n=1)
    put(db, "b", n=1)
    table = db.Table("Music")
    walk = table.changes(start="TRIM_HORIZON", follow_seconds=0.2)
    first = next(walk)
    roll(db, clock, 4)
    db.settings.iterator_lifetime_seconds = 1e9
    for number in range(2, 5):
        put(db, "a", n=number)
        roll(db, clock)
    delete(db, "a")
    numbers = [first, *walk]
    of_a = [change for change in numbers if change.keys["pk"] == "a"]
    assert [int(change.new_image["n"]) for change in of_a[:-1] if change.new_image] == [1, 2, 3, 4]
    assert of_a[-1].event_name == "REMOVE"
    assert len(numbers) == 6
    # From any change on, over generations that ended before it and after it.
    for position, change in enumerate(numbers):
        later = list(table.changes(start=change.sequence_number, follow_seconds=0))
        assert len(later) == len(numbers) - position - 1


def test_recovery_and_destinations_go_on_over_generations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What reads the changelog in the background sees each change once, rolled or not."""
    clock = Clock()
    sink = tmp_path / "sink.jsonl"
    arn = "arn:aws:kinesis:us-east-1:123456789012:stream/out"
    monkeypatch.setattr(kinesis, "start_copying", lambda _: None)  # the test copies

    with dynalsm.open(
        tmp_path / "db", durability="os", clock=clock, kinesis_sinks={arn: str(sink)},
        job_wait_seconds=60.0,
    ) as db:  # fmt: skip
        make(db, None)
        db.call(
            "UpdateContinuousBackups",
            {
                "TableName": "Music",
                "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
            },
        )
        db.call("EnableKinesisStreamingDestination", {"TableName": "Music", "StreamArn": arn})
        moments = []
        for number in range(4):
            clock.now += 60
            put(db, "a", n=number)
            moments.append(clock.now)
            roll(db, clock, 24 * 3)  # a twelfth of the 35 days that recovery keeps
        assert len(db.catalog.logs()) == 5
        while kinesis.copy(db):
            pass
        assert sink.read_text().count("\n") == 4
        db.call(
            "RestoreTableToPointInTime",
            {
                "SourceTableName": "Music",
                "TargetTableName": "Then",
                "RestoreDateTime": moments[1] + 1,
            },
        )
        db.client.get_waiter("table_exists").wait(TableName="Then")
        assert [item["n"] for item in db.Table("Then").scan_items()] == [1]


def test_generations_survive_a_reopen(tmp_path: Path) -> None:
    clock = Clock()
    with dynalsm.open(tmp_path / "db", durability="os", clock=clock) as db:
        arn = make(db)
        put(db, "a", n=1)
        roll(db, clock)
        put(db, "a", n=2)
    with dynalsm.open(tmp_path / "db", durability="os", clock=clock) as db:
        put(db, "a", n=3)
        assert len(describe(db, arn)["Shards"]) == 8
        numbers = [record["dynamodb"]["NewImage"]["n"]["N"] for record in read_all(db, arn)]
        assert numbers == ["1", "2", "3"]
        assert [log.generation for log in db.catalog.logs() if log.closed_at is None] == [1]
