"""The four stream operations through dispatch, over changes made by the data plane."""

from __future__ import annotations

from typing import Any

import pytest

from dynalsm import errors
from dynalsm.database import Database
from tests.api.test_tables import INVALID, definitions, key, request
from tests.support.databases import memory_database

NOT_FOUND = errors.API_ERRORS["ResourceNotFoundException"]


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
        yield database


def make(db: Database, view: str | None = "NEW_AND_OLD_IMAGES", table: str = "Music") -> str:
    """Create a table with a stream; returns the stream's ARN."""
    call = request(TableName=table, KeySchema=key("pk"), AttributeDefinitions=definitions(pk="S"))
    if view is not None:
        call["StreamSpecification"] = {"StreamEnabled": True, "StreamViewType": view}
    described = db.call("CreateTable", call)["TableDescription"]
    return str(described.get("LatestStreamArn", ""))


def set_stream(db: Database, view: str | None) -> dict[str, Any]:
    wanted: dict[str, Any] = {"StreamEnabled": view is not None}
    if view is not None:
        wanted["StreamViewType"] = view
    call = {"TableName": "Music", "StreamSpecification": wanted}
    described: dict[str, Any] = db.call("UpdateTable", call)["TableDescription"]
    return described


def put(db: Database, pk: str, **attributes: Any) -> None:
    item = {"pk": {"S": pk}, **{name: {"N": str(n)} for name, n in attributes.items()}}
    db.call("PutItem", {"TableName": "Music", "Item": item})


def delete(db: Database, pk: str) -> None:
    db.call("DeleteItem", {"TableName": "Music", "Key": {"pk": {"S": pk}}})


def describe(db: Database, arn: str, **more: Any) -> dict[str, Any]:
    described: dict[str, Any] = db.call("DescribeStream", {"StreamArn": arn, **more})
    return described["StreamDescription"]


def iterator(db: Database, arn: str, shard: str, kind: str, **more: Any) -> str:
    call = {"StreamArn": arn, "ShardId": shard, "ShardIteratorType": kind, **more}
    token: str = db.call("GetShardIterator", call)["ShardIterator"]
    return token


def read_all(db: Database, arn: str) -> list[dict[str, Any]]:
    """Every record of a stream, in the order of the sequence numbers."""
    records = []
    for shard in describe(db, arn)["Shards"]:
        token: str | None = iterator(db, arn, shard["ShardId"], "TRIM_HORIZON")
        while token:
            reply = db.call("GetRecords", {"ShardIterator": token})
            records += reply["Records"]
            token = reply.get("NextShardIterator") if reply["Records"] else None
    return sorted(records, key=lambda record: int(record["dynamodb"]["SequenceNumber"]))


def shard_of(db: Database, arn: str, pk: str) -> str:
    """The shard that holds the records of an item."""
    for shard in describe(db, arn)["Shards"]:
        token = iterator(db, arn, shard["ShardId"], "TRIM_HORIZON")
        for record in db.call("GetRecords", {"ShardIterator": token})["Records"]:
            if record["dynamodb"]["Keys"] == {"pk": {"S": pk}}:
                return str(shard["ShardId"])
    raise AssertionError(f"no record of {pk}")


# Records.


def test_records_of_the_life_of_an_item(db: Database) -> None:
    arn = make(db)
    put(db, "a", n=1)
    put(db, "a", n=2)
    delete(db, "a")
    insert, modify, remove = read_all(db, arn)
    assert (insert["eventName"], modify["eventName"]) == ("INSERT", "MODIFY")
    one = {"pk": {"S": "a"}, "n": {"N": "1"}}
    two = {"pk": {"S": "a"}, "n": {"N": "2"}}
    body = insert["dynamodb"]
    assert (body["Keys"], body["NewImage"]) == ({"pk": {"S": "a"}}, one)
    assert "OldImage" not in body
    assert (modify["dynamodb"]["OldImage"], modify["dynamodb"]["NewImage"]) == (one, two)
    assert remove["eventName"] == "REMOVE"
    assert remove["dynamodb"]["OldImage"] == two
    assert "NewImage" not in remove["dynamodb"]


def test_members_of_a_record(db: Database) -> None:
    arn = make(db)
    put(db, "a", n=1)
    [record] = read_all(db, arn)
    body = record.pop("dynamodb")
    assert len(record.pop("eventID")) == 32
    assert record == {
        "eventName": "INSERT",
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "us-east-1",
    }
    assert body["ApproximateCreationDateTime"] == 1_700_000_000
    assert body["StreamViewType"] == "NEW_AND_OLD_IMAGES"
    assert body["SequenceNumber"].isdecimal()
    assert 21 <= len(body["SequenceNumber"]) <= 40
    assert body["SizeBytes"] == 3 + 3 + 3  # keys; then the image: pk and its value, n and its value


IMAGES = {
    "KEYS_ONLY": set(),
    "NEW_IMAGE": {"NewImage"},
    "OLD_IMAGE": {"OldImage"},
    "NEW_AND_OLD_IMAGES": {"NewImage", "OldImage"},
}


@pytest.mark.parametrize("view", IMAGES)
def test_views(db: Database, view: str) -> None:
    arn = make(db, view)
    put(db, "a", n=1)
    put(db, "a", n=2)
    for record in read_all(db, arn)[1:]:
        assert {"NewImage", "OldImage"} & set(record["dynamodb"]) == IMAGES[view]
        assert record["dynamodb"]["StreamViewType"] == view


def test_an_item_that_does_not_change_leaves_no_record(db: Database) -> None:
    arn = make(db)
    put(db, "a", n=1)
    put(db, "a", n=1)
    delete(db, "missing")
    assert len(read_all(db, arn)) == 1


def test_one_item_stays_in_one_shard_in_order(db: Database) -> None:
    arn = make(db)
    for number in range(5):
        for pk in "abcdefgh":
            put(db, pk, n=number)
    seen: dict[str, list[str]] = {}
    for shard in describe(db, arn)["Shards"]:
        token = iterator(db, arn, shard["ShardId"], "TRIM_HORIZON")
        for record in db.call("GetRecords", {"ShardIterator": token})["Records"]:
            body = record["dynamodb"]
            seen.setdefault(body["Keys"]["pk"]["S"], []).append(body["NewImage"]["n"]["N"])
    assert seen == {pk: ["0", "1", "2", "3", "4"] for pk in "abcdefgh"}


# Iterators.


def test_pages_and_the_end_of_an_open_shard(db: Database) -> None:
    arn = make(db)
    for number in range(5):
        put(db, "a", n=number)
    token = iterator(db, arn, shard_of(db, arn, "a"), "TRIM_HORIZON")
    sizes = []
    for _ in range(4):
        reply = db.call("GetRecords", {"ShardIterator": token, "Limit": 2})
        sizes.append(len(reply["Records"]))
        token = reply["NextShardIterator"]
    assert sizes == [2, 2, 1, 0]
    put(db, "a", n=9)
    assert len(db.call("GetRecords", {"ShardIterator": token})["Records"]) == 1


def test_latest_begins_after_what_is_there(db: Database) -> None:
    arn = make(db)
    put(db, "a", n=1)
    token = iterator(db, arn, shard_of(db, arn, "a"), "LATEST")
    put(db, "a", n=2)
    [record] = db.call("GetRecords", {"ShardIterator": token})["Records"]
    assert record["dynamodb"]["NewImage"]["n"] == {"N": "2"}


def test_at_and_after_a_sequence_number(db: Database) -> None:
    arn = make(db)
    for number in range(3):
        put(db, "a", n=number)
    shard, records = shard_of(db, arn, "a"), read_all(db, arn)
    middle = records[1]["dynamodb"]["SequenceNumber"]
    for kind, expected in (("AT_SEQUENCE_NUMBER", 2), ("AFTER_SEQUENCE_NUMBER", 1)):
        token = iterator(db, arn, shard, kind, SequenceNumber=middle)
        assert len(db.call("GetRecords", {"ShardIterator": token})["Records"]) == expected


def test_starting_sequence_number_reads_everything(db: Database) -> None:
    arn = make(db)
    put(db, "a", n=1)
    found = 0
    for shard in describe(db, arn)["Shards"]:
        start = shard["SequenceNumberRange"]["StartingSequenceNumber"]
        token = iterator(db, arn, shard["ShardId"], "AT_SEQUENCE_NUMBER", SequenceNumber=start)
        found += len(db.call("GetRecords", {"ShardIterator": token})["Records"])
    assert found == 1


def test_at_timestamp(db: Database, clock: Clock) -> None:
    arn = make(db)
    for number in range(6):
        put(db, "a", n=number)
        clock.now += 10
    shard = shard_of(db, arn, "a")
    for moment, expected in ((0, 6), (1_700_000_030, 3), (1_700_000_031, 2), (1_800_000_000, 0)):
        token = iterator(db, arn, shard, "AT_TIMESTAMP", Timestamp=moment)
        assert len(db.call("GetRecords", {"ShardIterator": token})["Records"]) == expected


def test_iterator_expires(db: Database, clock: Clock) -> None:
    arn = make(db)
    shard = describe(db, arn)["Shards"][0]["ShardId"]
    token = iterator(db, arn, shard, "TRIM_HORIZON")
    clock.now += 15 * 60
    token = db.call("GetRecords", {"ShardIterator": token})["NextShardIterator"]
    clock.now += 15 * 60 + 1
    with pytest.raises(errors.API_ERRORS["ExpiredIteratorException"]):
        db.call("GetRecords", {"ShardIterator": token})


@pytest.mark.parametrize("token", ["nonsense", "arn:aws:x|1|AAAA", "a|1|!!", "|1|"])
def test_nonsense_iterators(db: Database, token: str) -> None:
    with pytest.raises(errors.ValidationException):
        db.call("GetRecords", {"ShardIterator": token})


def test_iterator_requests_that_are_refused(db: Database) -> None:
    arn = make(db)
    shard = describe(db, arn)["Shards"][0]["ShardId"]
    number = describe(db, arn)["Shards"][0]["SequenceNumberRange"]["StartingSequenceNumber"]
    for kind in ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"):
        with pytest.raises(errors.ValidationException, match=INVALID + "SequenceNumber must be"):
            iterator(db, arn, shard, kind)
    for kind in ("TRIM_HORIZON", "LATEST"):
        with pytest.raises(errors.ValidationException, match="must not be specified"):
            iterator(db, arn, shard, kind, SequenceNumber=number)
    with pytest.raises(errors.ValidationException, match="shardIteratorType"):
        iterator(db, arn, shard, "SOMEWHERE")
    with pytest.raises(errors.ValidationException, match="Invalid StreamArn"):
        iterator(db, "x" * 50, shard, "LATEST")
    with pytest.raises(errors.ValidationException, match="Invalid SequenceNumber"):
        iterator(db, arn, shard, "AT_SEQUENCE_NUMBER", SequenceNumber="x" * 30)
    with pytest.raises(NOT_FOUND, match="Shard does not exist"):
        iterator(db, arn, "shardId-00000001414562045508-2bac9cd2", "LATEST")
    with pytest.raises(NOT_FOUND, match=f"Stream: {arn}9 not found"):
        iterator(db, arn + "9", shard, "LATEST")
    with pytest.raises(errors.ValidationException, match="limit"):
        token = iterator(db, arn, shard, "LATEST")
        db.call("GetRecords", {"ShardIterator": token, "Limit": 1001})


# Age.


def test_old_records_are_trimmed(db: Database, clock: Clock) -> None:
    """After a day records are gone for readers at once, and from disk with the next trimming."""
    from dynalsm.model import streams

    arn = make(db)
    put(db, "a", n=1)
    shard, [old] = shard_of(db, arn, "a"), read_all(db, arn)
    number = old["dynamodb"]["SequenceNumber"]
    clock.now += 24 * 3600 - 1
    put(db, "a", n=2)
    assert len(read_all(db, arn)) == 2
    clock.now += 2
    lingering = iterator(db, arn, shard, "LATEST")
    for _ in range(2):
        assert [r["dynamodb"]["NewImage"]["n"]["N"] for r in read_all(db, arn)] == ["2"]
        with pytest.raises(errors.API_ERRORS["TrimmedDataAccessException"]):
            iterator(db, arn, shard, "AT_SEQUENCE_NUMBER", SequenceNumber=number)
        streams.trim(db.catalog)
    handle = db.catalog.get("Music")
    assert len(list(handle.changelog.tree.cursor())) == 1
    assert db.call("GetRecords", {"ShardIterator": lingering})["Records"] == []


def test_reader_that_falls_behind(db: Database, clock: Clock) -> None:
    arn = make(db)
    put(db, "a", n=1)
    shard = shard_of(db, arn, "a")
    token = iterator(db, arn, shard, "TRIM_HORIZON")
    token = db.call("GetRecords", {"ShardIterator": token})["NextShardIterator"]
    put(db, "a", n=2)
    put(db, "a", n=3)
    clock.now += 24 * 3600 + 1
    # An iterator is too old itself by then; make a fresh one at the old place.
    db.settings.iterator_lifetime_seconds = 1e9
    put(db, "a", n=4)
    with pytest.raises(errors.API_ERRORS["TrimmedDataAccessException"]):
        db.call("GetRecords", {"ShardIterator": token})


# Enabling, disabling, deleting.


def test_table_describes_its_stream(db: Database) -> None:
    make(db, None)
    assert "LatestStreamArn" not in db.call("DescribeTable", {"TableName": "Music"})["Table"]
    arn = set_stream(db, "KEYS_ONLY")["LatestStreamArn"]
    table = db.call("DescribeTable", {"TableName": "Music"})["Table"]
    assert table["StreamSpecification"] == {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
    assert arn == f"{table['TableArn']}/stream/{table['LatestStreamLabel']}"
    assert table["LatestStreamLabel"] == "2023-11-14T22:13:20.000"
    with pytest.raises(errors.ValidationException) as caught:
        set_stream(db, "NEW_IMAGE")
    assert caught.value.message == "Table already has an enabled stream: TableName: Music"


def test_disabled_stream_stays_readable(db: Database, clock: Clock) -> None:
    arn = make(db)
    put(db, "a", n=1)
    described = set_stream(db, None)
    assert "StreamSpecification" not in described
    assert described["LatestStreamArn"] == arn  # lingers (observed)
    put(db, "a", n=2)  # not recorded any more
    stream = describe(db, arn)
    assert stream["StreamStatus"] == "DISABLED"
    assert all("EndingSequenceNumber" in s["SequenceNumberRange"] for s in stream["Shards"])
    assert len(read_all(db, arn)) == 1
    token = iterator(db, arn, stream["Shards"][0]["ShardId"], "TRIM_HORIZON")
    assert "NextShardIterator" not in db.call("GetRecords", {"ShardIterator": token})
    again = set_stream(db, "KEYS_ONLY")["LatestStreamArn"]
    assert again != arn
    assert read_all(db, again) == []
    assert len(read_all(db, arn)) == 1
    arns = [s["StreamArn"] for s in db.call("ListStreams", {"TableName": "Music"})["Streams"]]
    assert arns == [arn, again]
    clock.now += 24 * 3600 + 1
    with pytest.raises(NOT_FOUND):
        describe(db, arn)
    assert describe(db, again)["StreamStatus"] == "ENABLED"


def test_stream_outlives_its_table(db: Database, clock: Clock) -> None:
    from dynalsm.model import streams

    arn = make(db)
    put(db, "a", n=1)
    db.call("DeleteTable", {"TableName": "Music"})
    assert describe(db, arn)["StreamStatus"] == "DISABLED"
    assert len(read_all(db, arn)) == 1
    assert make(db) != arn  # a table of the same name has a stream of its own
    assert len(read_all(db, arn)) == 1
    clock.now += 24 * 3600 + 1
    streams.trim(db.catalog)
    assert [name for name in db.engine.tree_names() if name.startswith("s/")] != []
    assert [log.label for log in db.catalog.logs()] == [db.catalog.get("Music").schema.changelog]


# Lists.


def test_list_streams_in_pages(db: Database) -> None:
    arns = [make(db, "KEYS_ONLY", table) for table in ("aaa", "bbb", "ccc")]
    seen, start = [], {}
    while True:
        reply = db.call("ListStreams", {"Limit": 2, **start})
        seen += [stream["StreamArn"] for stream in reply["Streams"]]
        if "LastEvaluatedStreamArn" not in reply:
            break
        assert reply["LastEvaluatedStreamArn"] == seen[-1]
        start = {"ExclusiveStartStreamArn": seen[-1]}
    assert seen == arns
    assert db.call("ListStreams", {"TableName": "bbb"})["Streams"] == [
        {"StreamArn": arns[1], "TableName": "bbb", "StreamLabel": arns[1].rpartition("/")[2]}
    ]
    assert db.call("ListStreams", {"TableName": "nothing"}) == {"Streams": []}


def test_list_streams_refuses(db: Database) -> None:
    for call, text in (
        ({"Limit": 0}, "Value '0' at 'limit'"),
        ({"Limit": 101}, "Value '101' at 'limit'"),
        ({"ExclusiveStartStreamArn": "x" * 40}, "Invalid StreamArn"),
        ({"TableName": "ab"}, "TableName must be at least 3 characters"),
    ):
        with pytest.raises(errors.ValidationException, match=text):
            db.call("ListStreams", call)


def test_describe_stream_in_pages(db: Database) -> None:
    arn = make(db)
    stream = describe(db, arn)
    assert stream["KeySchema"] == key("pk")
    assert stream["CreationRequestDateTime"] == 1_700_000_000
    ids = [shard["ShardId"] for shard in stream["Shards"]]
    assert len(ids) == 4
    assert ids == sorted(ids)
    assert all(28 <= len(shard) <= 65 for shard in ids)
    first = describe(db, arn, Limit=3)
    assert first["LastEvaluatedShardId"] == ids[2]
    rest = describe(db, arn, ExclusiveStartShardId=ids[2])
    assert [shard["ShardId"] for shard in rest["Shards"]] == ids[3:]
    assert describe(db, arn, ExclusiveStartShardId="z" * 40)["Shards"] == []


def test_shard_filter(db: Database) -> None:
    arn = make(db)
    shard = describe(db, arn)["Shards"][0]["ShardId"]
    wanted = {"Type": "CHILD_SHARDS", "ShardId": shard}
    assert describe(db, arn, ShardFilter=wanted)["Shards"] == []
    for bad in (
        {"Type": "foo", "ShardId": shard},
        {"Type": "CHILD_SHARDS", "ShardId": "qwerty"},
        {"Type": "CHILD_SHARDS"},
        {"ShardId": shard},
    ):
        with pytest.raises(errors.ValidationException, match="shardFilter"):
            describe(db, arn, ShardFilter=bad)


def test_unknown_streams(db: Database) -> None:
    arn = make(db)
    with pytest.raises(errors.ValidationException, match="Invalid StreamArn"):
        describe(db, "not an arn, but long enough to be one")
    for other in (
        arn.replace("Music", "Other"),
        arn.replace("123456789012", "999999999999"),
        arn.replace("us-east-1", "eu-west-1"),
    ):
        with pytest.raises(NOT_FOUND):
            describe(db, other)
