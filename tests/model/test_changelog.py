"""The changelog's records, its search by time, trimming, and what history keeps."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from dynalsm.database import Database
from dynalsm.model import changelog, streams
from dynalsm.model.changelog import Changelog, ChangelogRecord
from tests.support.databases import memory_database
from tests.support.memory_engine import MemoryEngine


class Log:
    """A changelog with one shard, filled with records of given times in ms."""

    def __init__(self, *times: int, shards: int = 1) -> None:
        self.engine = MemoryEngine()
        self.record = ChangelogRecord("Music", "id", "label", "KEYS_ONLY", shards, 0.0, 1)
        self.tree = self.engine.create_tree(self.record.tree_name)
        self.log = Changelog(self.record, self.tree)
        for time in times:
            self.add(time)

    def add(self, time: int, shard: int = 0) -> int:
        import msgpack

        batch = self.engine.batch()
        value = msgpack.packb((changelog.INSERT, time, b"k", None, None, False))
        batch.put_stamped(self.tree, shard.to_bytes(2, "big"), b"", value)
        return self.engine.commit(batch)

    def seqno_at(self, time: int, readable: int | None = None) -> int:
        readable = self.engine.last_seqno if readable is None else readable
        return changelog.seqno_at(self.log, 0, time, readable)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 100])
def test_search_by_time(count: int) -> None:
    log = Log(*(time * 10 for time in range(count)))
    for time in range(-5, count * 10 + 10, 5):
        expected = min(max(0, -(-time // 10)), count)
        assert log.seqno_at(time) == expected + 1


def test_search_by_time_with_equal_times_and_gaps() -> None:
    log = Log(5, 5, 5)
    log.engine.last_seqno += 1000  # other trees' commits
    sixth = log.add(9)
    assert log.seqno_at(5) == 1
    assert log.seqno_at(6) == sixth
    assert log.seqno_at(10) == sixth + 1


def test_search_stops_at_what_is_readable() -> None:
    log = Log(1, 2, 3, 4)
    assert log.seqno_at(4, readable=2) == 3


def test_read_in_stretches() -> None:
    log = Log(*range(5))
    page = changelog.read(log.log, 0, 1, 5, 2, 0)
    assert [change.seqno for change in page.changes] == [1, 2]
    assert (page.next_seqno, page.is_end) == (3, False)
    page = changelog.read(log.log, 0, 3, 5, 3, 0)
    assert (len(page.changes), page.next_seqno, page.is_end) == (3, 6, True)
    page = changelog.read(log.log, 0, 6, 5, 3, 0)
    assert (page.changes, page.next_seqno, page.is_end) == ([], 6, True)


def test_shards_do_not_mix() -> None:
    log = Log(shards=2)
    numbers = [log.add(1, shard) for shard in (0, 1, 0, 1)]
    for shard in (0, 1):
        page = changelog.read(log.log, shard, 0, 100, 10, 0)
        assert [change.seqno for change in page.changes] == numbers[shard::2]


def test_trim_tells_where_each_shard_begins() -> None:
    log = Log(shards=2)
    log.add(1000, 0)
    log.add(1000, 1)
    late = log.add(9000, 0)
    trimmed = changelog.trim(log.engine, log.log, 10.0, 5.0)
    assert trimmed == (late, log.engine.last_seqno + 1 - 2)
    assert len(list(log.tree.cursor())) == 1
    record = dataclasses.replace(log.record, trimmed=trimmed)
    again = Changelog(record, log.tree)
    assert changelog.trim(log.engine, again, 10.0, 5.0) is None
    assert changelog.first_seqno(again, 0, 10.0, 100, 5.0) == late


def test_record_survives_packing() -> None:
    record = ChangelogRecord(
        "Music", "id", "label", "KEYS_ONLY", 4, 1.0, 5, closed_at=2.0, end_seqno=9,
        trimmed=(1, 2, 3, 4), key_schema=(("pk", "HASH"), ("sk", "RANGE")),
    )  # fmt: skip
    assert changelog.unpack_record(record.pack()) == record


def test_readers_see_only_what_is_durable() -> None:
    class Engine(MemoryEngine):
        durable_seqno = 3  # type: ignore[assignment]

    engine = Engine(durability="commit")
    engine.last_seqno = 7
    assert changelog.readable_seqno(engine) == 3
    engine.durability = "os"
    assert changelog.readable_seqno(engine) == 7


# History for point-in-time recovery.


@pytest.fixture
def db() -> Any:
    with memory_database() as database:
        database.call(
            "CreateTable",
            {
                "TableName": "Music",
                "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
                "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
                "BillingMode": "PAY_PER_REQUEST",
            },
        )
        yield database


def put(db: Database, number: int) -> None:
    item = {"pk": {"S": "a"}, "n": {"N": str(number)}}
    db.call("PutItem", {"TableName": "Music", "Item": item})


def keep_history(db: Database, wanted: bool) -> None:
    schema = db.catalog.get("Music").schema
    with db.catalog.mutex:
        streams.change_history(
            db.catalog, schema.with_extra("pitr", {"days": 35} if wanted else None)
        )


def history(db: Database) -> list[tuple[bytes | None, bytes | None]]:
    """The images of every change in all changelogs of the table, oldest first."""
    table_id = db.catalog.get("Music").schema.id
    images = []
    for record in sorted(db.catalog.logs(), key=lambda log: log.start_seqno):
        if record.table_id == table_id:
            log = db.catalog.open_log(record)
            for shard in range(record.shards):
                page = changelog.read(log, shard, 0, db.engine.last_seqno, 1000, 0)
                images += [(change.old_item, change.new_item) for change in page.changes]
    return images


def test_history_is_hidden_and_whole(db: Database) -> None:
    keep_history(db, True)
    put(db, 1)
    put(db, 2)
    [(_, first), (old, _)] = history(db)
    assert first == old
    assert db.call("ListStreams", {}) == {"Streams": []}
    assert "LatestStreamArn" not in db.call("DescribeTable", {"TableName": "Music"})["Table"]
    keep_history(db, False)
    put(db, 3)
    assert len(history(db)) == 2


def set_stream(db: Database, view: str | None) -> None:
    wanted: dict[str, Any] = {"StreamEnabled": view is not None}
    if view is not None:
        wanted["StreamViewType"] = view
    db.call("UpdateTable", {"TableName": "Music", "StreamSpecification": wanted})


def test_history_goes_on_through_a_stream(db: Database) -> None:
    """Each change is recorded once, with both images, whichever changelog takes it."""
    keep_history(db, True)
    put(db, 1)
    set_stream(db, "KEYS_ONLY")
    put(db, 2)
    set_stream(db, None)
    put(db, 3)
    images = history(db)
    assert len(images) == 3
    assert images[0][1] == images[1][0]
    assert images[1][1] == images[2][0]
    [stream] = db.call("ListStreams", {})["Streams"]
    shards = db.call("DescribeStream", {"StreamArn": stream["StreamArn"]})
    assert shards["StreamDescription"]["StreamStatus"] == "DISABLED"


def test_stream_that_history_needs_keeps_images(db: Database) -> None:
    set_stream(db, "KEYS_ONLY")
    put(db, 1)
    keep_history(db, True)
    put(db, 2)
    keep_history(db, False)
    put(db, 3)
    assert [new is not None for _, new in history(db)] == [False, True, False]


def test_history_lives_as_long_as_recovery_needs(db: Database) -> None:
    keep_history(db, True)
    record = db.catalog.logs()[0]
    assert streams.retention_seconds(db.catalog, record) == 35 * 86_400
    keep_history(db, False)
    assert streams.retention_seconds(db.catalog, record) == 86_400
