"""Moving tables to another database: copy, changes, what happens in between, and after a stop."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dynalsm
from dynalsm import errors, replicate
from dynalsm.database import Database
from dynalsm.replicate import POSITION_TABLE, Progress, ReplicationError, compare, position
from dynalsm.replicate import shards as shards_module
from dynalsm.replicate import table as table_module
from dynalsm.replicate.writing import Writer
from tests.faces.conftest import MUSIC, fill
from tests.support.databases import memory_database
from tests.support.processes import ServeProcess, environment, run_cli

KEY = {"Artist": "The Acme Band", "SongTitle": "song 000"}


@pytest.fixture
def target() -> Iterator[Database]:
    with memory_database() as database:
        yield database


def songs(database: Database, table: str = "Music") -> list[dict[str, Any]]:
    key = ("Artist", "SongTitle")
    return sorted(database.Table(table).scan_items(), key=lambda item: [item[n] for n in key])


def test_a_table_arrives_whole(db: Database, target: Database) -> None:
    """Items of every type, indexes, expiry; sets and long numbers are the same on both sides."""
    music = db.create_table(**MUSIC)
    fill(music, 60)
    odd = {"Artist": "a", "SongTitle": "b", "S": {"x", "y"}, "B": b"\0\xff", "L": [1, {"m": None}]}
    music.put_item(Item=odd)
    db.client.update_time_to_live(
        TableName="Music", TimeToLiveSpecification={"Enabled": True, "AttributeName": "gone"}
    )
    [report] = replicate.run(db, target)
    assert (report.table, report.phase, report.items) == ("Music", "done", 61)
    assert songs(target) == songs(db)
    assert compare(db, target, "Music").is_equal
    here = db.client.describe_table(TableName="Music")["Table"]
    there = target.client.describe_table(TableName="Music")["Table"]
    for member in ("KeySchema", "AttributeDefinitions", "BillingModeSummary"):
        assert sorted(here[member], key=str) == sorted(there[member], key=str)
    assert [index["IndexName"] for index in there["LocalSecondaryIndexes"]] == ["ByYear"]
    expiry = target.client.describe_time_to_live(TableName="Music")["TimeToLiveDescription"]
    assert expiry == {"TimeToLiveStatus": "ENABLED", "AttributeName": "gone"}


def test_provisioned_tables_and_global_indexes(db: Database, target: Database) -> None:
    units = {"ReadCapacityUnits": 3, "WriteCapacityUnits": 4}
    db.client.create_table(
        TableName="Paid",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "x", "AttributeType": "N"},
        ],
        ProvisionedThroughput=units,
        GlobalSecondaryIndexes=[
            {
                "IndexName": "by-x",
                "KeySchema": [{"AttributeName": "x", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["y"]},
                "ProvisionedThroughput": units,
            }
        ],
    )
    replicate.run(db, target)
    there = target.client.describe_table(TableName="Paid")["Table"]
    [index] = there["GlobalSecondaryIndexes"]
    assert index["Projection"]["NonKeyAttributes"] == ["y"]
    for described in (there, index):
        assert {name: described["ProvisionedThroughput"][name] for name in units} == units


def test_changes_follow_and_a_second_run_goes_on(db: Database, target: Database) -> None:
    music = db.create_table(**MUSIC)
    fill(music, 10)
    replicate.run(db, target)
    music.put_item(Item={**KEY, "Year": 1})
    music.put_item(Item={**KEY, "Year": 2})
    music.delete_item(Key={**KEY, "SongTitle": "song 001"})
    [report] = replicate.run(db, target)
    assert (report.items, report.phase) == (10, "done")
    assert songs(target) == songs(db)
    [report] = replicate.run(db, target)
    assert report.changes == 13  # the ten of the first run are in the copy and in the stream


def test_changes_of_the_time_before_are_not_applied(
    db: Database, target: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream reaches back a day; what is older than the copy need not be written again."""
    written: list[Any] = []
    music = db.create_table(**MUSIC)
    fill(music, 3)
    monkeypatch.setattr(table_module, "CLOCK_SLACK_SECONDS", -5.0)
    replicate.run(db, target)
    monkeypatch.setattr(Writer, "write", lambda self, requests: written.extend(requests))
    music.put_item(Item={**KEY, "Year": 5})
    replicate.run(db, target)
    assert written == []


def test_writes_go_on_during_the_copy(disk_db: Database, target: Database) -> None:
    """Whatever the copy saw of an item, the stream brings it to its last state."""
    db = disk_db
    music = db.create_table(**MUSIC)
    fill(music, 200)
    done = threading.Event()

    def write() -> None:
        chance = random.Random(1)
        while not done.is_set():
            number = chance.randrange(250)
            key = {"Artist": "The Acme Band", "SongTitle": f"song {number:03d}"}
            if chance.random() < 0.3:
                music.delete_item(Key=key)
            else:
                music.put_item(Item={**key, "Year": chance.randrange(10**6)})
            time.sleep(0.001)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        replicate.run(db, target, workers=2, progress=lambda _: time.sleep(0.01))
    finally:
        done.set()
        writer.join()
    replicate.run(db, target)
    assert compare(db, target, "Music").is_equal
    assert songs(target) == songs(db)


def test_follow_until_told_to_stop(db: Database, target: Database) -> None:
    music = db.create_table(**MUSIC)
    stop, caught_up, seen = threading.Event(), threading.Event(), []

    def tell(progress: Progress) -> None:
        seen.append(progress)
        if progress.phase == "done":
            caught_up.set()

    running = threading.Thread(
        target=replicate.run,
        args=(db, target),
        kwargs={"follow": True, "progress": tell, "stop": stop},
    )
    running.start()
    assert caught_up.wait(30)
    caught_up.clear()
    fill(music, 5)
    assert caught_up.wait(30)
    stop.set()
    running.join(30)
    assert not running.is_alive()
    assert len(songs(target)) == 5
    assert [one.phase for one in seen][-1] == "done"
    assert any(one.phase == "changes" for one in seen)


def test_the_last_changes_are_saved_soon(
    db: Database, target: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The position of what came last does not wait for the next change, or for a minute."""
    music = db.create_table(**MUSIC)
    replication = replicate.Replication(db, target, "Music")
    replication.start()
    replication.copy()
    monkeypatch.setattr(table_module, "SAVE_SECONDS", 1e9)
    fill(music, 3)
    assert replication.step() == 3
    monkeypatch.setattr(table_module, "SAVE_SECONDS", 0.0)
    assert replication.step() == 0
    saved = target.Table(POSITION_TABLE).get_item(Key={"id": f"{db.path}|Music"})["Item"]
    assert saved["changes"] == 3


class Killed(BaseException):
    """As sudden as a kill: nothing is done on the way out."""


@pytest.mark.parametrize("calls", [1, 2, 5, 9, 14])
def test_stopped_anywhere_and_gone_on(
    tmp_path: Path, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The N-th write to the target fails for ever; a new run finishes, without copying anew."""
    monkeypatch.setattr(table_module, "SAVE_SECONDS", 0.0)
    with memory_database(limit_page_bytes=500) as source, memory_database() as target:
        music = source.create_table(**MUSIC)
        fill(music, 100)
        real, left = target.call, calls

        def failing(operation: str, request: Any, form: Any = None) -> Any:
            nonlocal left
            if operation in ("BatchWriteItem", "PutItem"):
                left -= 1
                if left <= 0:
                    raise Killed
            return real(operation, request) if form is None else real(operation, request, form)

        monkeypatch.setattr(target, "call", failing)
        with pytest.raises(Killed):
            replicate.run(source, target, workers=2)
        monkeypatch.setattr(target, "call", real)
        music.delete_item(Key=KEY)
        music.put_item(Item={**KEY, "SongTitle": "later"})
        [report] = replicate.run(source, target, workers=2)
        assert songs(target) == songs(source)
        assert compare(source, target, "Music").is_equal
        assert report.items <= 100


CHILD = """
import sys, time
from dynalsm import replicate
from dynalsm.replicate import table
table.SAVE_SECONDS = 0.0

def tell(progress):
    print(f"{progress}\\n", end="", flush=True)  # one write a line: several workers print
    time.sleep(.02)

replicate.run(sys.argv[1], sys.argv[2], progress=tell)
"""


def test_killed_between_servers_and_gone_on(tmp_path: Path) -> None:
    """Two servers, kill -9 of the replicating process in its copy, writes meanwhile."""
    pytest.importorskip("boto3")
    with (
        ServeProcess(tmp_path / "a", "--durability", "os") as source,
        ServeProcess(tmp_path / "b", "--durability", "os") as target,
        dynalsm.open(source.url) as here,
        dynalsm.open(target.url) as there,
    ):
        here.create_table(**MUSIC)
        for number in range(40):
            text = "x" * 350_000  # a page of a scan is three items
            item = {"Artist": f"{number}", "SongTitle": "t", "Text": text}
            here.Table("Music").put_item(Item=item)
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, source.url, target.url],
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
            cwd=tempfile.gettempdir(),
        )
        assert child.stdout is not None
        for _ in range(3):
            assert "copy" in child.stdout.readline()
        child.kill()
        child.communicate()
        partly = there.Table("Music").scan(Select="COUNT")["Count"]
        assert partly < 40
        here.Table("Music").delete_item(Key={"Artist": "0", "SongTitle": "t"})
        here.Table("Music").put_item(Item={"Artist": "1", "SongTitle": "t", "Text": "new"})
        [report] = replicate.run(here, there)
        assert compare(here, there, "Music").is_equal
        assert report.items <= 40


# What cannot go on, and says so.


def test_items_that_are_there_already_are_not_touched(db: Database, target: Database) -> None:
    fill(db.create_table(**MUSIC), 2)
    other = target.create_table(**MUSIC)
    other.put_item(Item={"Artist": "mine", "SongTitle": "t"})
    with pytest.raises(ReplicationError, match="has items already"):
        replicate.run(db, target)
    replicate.run(db, target, restart=True)
    found = compare(db, target, "Music")
    assert (found.missing, found.extra, found.is_equal) == (0, 1, False)
    assert found.keys == [{"Artist": {"S": "mine"}, "SongTitle": {"S": "t"}}]


def test_comparison_tells_what_differs(db: Database, target: Database) -> None:
    music = db.create_table(**MUSIC)
    fill(music, 3)
    replicate.run(db, target)
    other = target.Table("Music")
    other.put_item(Item={**KEY, "Year": 7})
    other.delete_item(Key={**KEY, "SongTitle": "song 001"})
    found = compare(db, target, "Music")
    assert (found.items, found.different, found.missing, found.extra) == (3, 1, 1, 0)


def test_another_key(db: Database, target: Database) -> None:
    db.create_table(**MUSIC)
    target.create_table(
        TableName="Music",
        KeySchema=[{"AttributeName": "Artist", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "Artist", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    with pytest.raises(ReplicationError, match="another key"):
        replicate.run(db, target)


def test_no_such_table(db: Database, target: Database) -> None:
    with pytest.raises(ReplicationError, match="has no table Missing"):
        replicate.run(db, target, tables=["Missing"])


def test_a_stream_without_new_images(db: Database, target: Database) -> None:
    view = {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
    db.create_table(**{**MUSIC, "StreamSpecification": view})
    with pytest.raises(ReplicationError, match="KEYS_ONLY"):
        replicate.run(db, target)
    [report] = replicate.run(db, target, copy_only=True)
    assert report.phase == "copy"
    with pytest.raises(ReplicationError, match="copy without a stream"):
        replicate.run(db, target)


def test_a_table_or_stream_made_anew(db: Database, target: Database) -> None:
    music = db.create_table(**MUSIC)
    replicate.run(db, target)
    music.update(StreamSpecification={"StreamEnabled": False})
    music.update(StreamSpecification=MUSIC["StreamSpecification"])
    with pytest.raises(ReplicationError, match="stream was made anew"):
        replicate.run(db, target)
    music.delete()
    db.create_table(**MUSIC)
    with pytest.raises(ReplicationError, match="table was made anew"):
        replicate.run(db, target)
    replicate.run(db, target, restart=True)


def test_a_position_too_old_to_trust(
    db: Database, target: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.create_table(**MUSIC)
    replicate.run(db, target)
    monkeypatch.setattr(shards_module, "TRUST_SECONDS", -1.0)
    with pytest.raises(ReplicationError, match="some may be lost"):
        replicate.run(db, target)


def test_a_trimmed_record_is_no_loss_while_the_position_is_fresh(target: Database) -> None:
    """The last record is gone with time, and nothing has come since: the next one is found."""
    now = [time.time()]
    with memory_database(clock=lambda: now[0]) as source:
        music = source.create_table(**MUSIC)
        fill(music, 1)
        replicate.run(source, target)
        now[0] += 25 * 3600
        music.put_item(Item={**KEY, "Year": 1234})
        replicate.run(source, target)
        assert songs(target) == songs(source)


def test_an_unreadable_position(db: Database, target: Database) -> None:
    db.create_table(**MUSIC)
    replicate.run(db, target)
    name = f"{db.path}|Music"
    target.Table(POSITION_TABLE).put_item(Item={"id": name, "table_id": "x"})
    with pytest.raises(ReplicationError, match="start again with restart"):
        replicate.run(db, target)


def test_position_survives_packing() -> None:
    packed = position.Position(
        "a|b", "id", "arn", 1, 2, [position.BEGINNING, {"pk": {"B": b"\0"}}, None],
        {"shard": "100", "done": ""}, 7, 8,
    )  # fmt: skip
    assert position.unpack(packed.pack()) == packed


def test_an_item_that_the_target_refuses_is_named(db: Database) -> None:
    fill(db.create_table(**MUSIC), 3)
    big = {"Artist": "big", "SongTitle": "one", "Text": "x" * 2000}
    db.Table("Music").put_item(Item=big)
    with (
        memory_database(limit_item_bytes=1000) as target,
        pytest.raises(ReplicationError, match=r"refuses an item of Music.*'big'"),
    ):
        replicate.run(db, target)


def test_a_busy_target_is_asked_again(
    db: Database, target: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Throttling and unprocessed items are waited for; after long enough it is given up."""
    fill(db.create_table(**MUSIC), 30)
    real, count = target.call, 0

    def busy(operation: str, request: Any) -> Any:
        nonlocal count
        if operation == "BatchWriteItem":
            count += 1
            if count % 3 == 1:
                raise errors.API_ERRORS["ProvisionedThroughputExceededException"]("slow down")
            if count % 3 == 2:
                return {"UnprocessedItems": request["RequestItems"]}
        return real(operation, request)

    monkeypatch.setattr(target, "call", busy)
    replicate.run(db, target)
    monkeypatch.setattr(target, "call", real)
    assert songs(target) == songs(db)


def test_a_target_that_stays_away_is_given_up(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("boto3")
    from dynalsm.replicate import writing

    db.create_table(**MUSIC)
    monkeypatch.setattr(writing.Patience.__init__, "__defaults__", (0.1,))
    with (
        dynalsm.open("http://127.0.0.1:9") as nobody,
        pytest.raises(ReplicationError, match="given up after trying again"),
    ):
        replicate.run(db, nobody)


def test_workers_are_counted(db: Database, target: Database) -> None:
    db.create_table(**MUSIC)
    with pytest.raises(ValueError, match="at least 1"):
        replicate.run(db, target, workers=0)


# The command.


def test_the_command(tmp_path: Path) -> None:
    source, target = tmp_path / "a.db", tmp_path / "b.db"
    with dynalsm.open(source, durability="os") as database:
        fill(database.create_table(**MUSIC), 30)
    done = run_cli("replicate", source, target, "--check")
    assert (done.returncode, done.stderr.count("\n") > 0) == (0, True), done.stderr
    assert "Music: 30 items copied" in done.stdout
    assert "caught up" in done.stdout
    assert "30 items compared, 0 missing, 0 different, 0 only in the target" in done.stdout
    with dynalsm.open(target, durability="os") as database:
        database.Table("Music").put_item(Item={"Artist": "mine", "SongTitle": "t"})
    done = run_cli("replicate", source, target, "--table", "Music", "--check")
    assert done.returncode == 1
    assert "1 only in the target" in done.stdout
    assert '{"Artist":{"S":"mine"},"SongTitle":{"S":"t"}}' in done.stdout


def test_mistakes_of_the_command(tmp_path: Path) -> None:
    done = run_cli("replicate", tmp_path / "missing.db", tmp_path / "b.db")
    assert done.returncode == 1
    assert "no database here" in done.stderr
    with dynalsm.open(tmp_path / "a.db", durability="os"):
        done = run_cli("replicate", tmp_path / "a.db", tmp_path / "b.db")
    assert "give the URL" in done.stderr
    done = run_cli("replicate", tmp_path / "a.db", tmp_path / "no" / "b.db")
    assert "there is no directory" in done.stderr
