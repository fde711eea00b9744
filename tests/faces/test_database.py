"""Database: opening, durability in one place, closing."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import dynalsm
from dynalsm import errors
from dynalsm.database import Database
from dynalsm.model.settings import Settings
from tests.faces.conftest import MUSIC
from tests.support.databases import memory_database
from tests.support.memory_engine import MemoryEngine


class CountingEngine(MemoryEngine):
    """Counts the waits for the disk and the closes."""

    def __init__(self, durability: str = "commit") -> None:
        super().__init__(durability=durability)
        self.waits: list[int] = []
        self.closes = 0

    def wait_durable(self, seqno: int) -> None:
        self.waits.append(seqno)

    def close(self) -> None:
        self.closes += 1
        super().close()


def counting_database(durability: str = "commit") -> tuple[Database, CountingEngine]:
    engine = CountingEngine(durability)
    database = Database(engine, Settings())  # type: ignore[arg-type]
    database.create_table(**MUSIC)
    engine.waits.clear()
    return database, engine


ITEM = {"Artist": "a", "SongTitle": "t"}


def test_a_write_waits_for_the_disk_once() -> None:
    database, engine = counting_database()
    database.Table("Music").put_item(Item=ITEM)
    assert engine.waits == [engine.last_seqno]


@pytest.mark.parametrize("durability", ["interval", "os"])
def test_weaker_durability_does_not_wait(durability: str) -> None:
    database, engine = counting_database(durability)
    database.Table("Music").put_item(Item=ITEM)
    assert engine.waits == []


def test_a_strongly_consistent_read_waits_and_an_eventual_one_does_not() -> None:
    database, engine = counting_database()
    table = database.Table("Music")
    table.put_item(Item=ITEM)
    engine.waits.clear()
    table.get_item(Key=ITEM)
    assert engine.waits == []
    table.get_item(Key=ITEM, ConsistentRead=True)
    assert len(engine.waits) <= 1


def test_a_hold_collects_what_one_thread_commits() -> None:
    database, engine = counting_database()
    hold = database.hold()
    table = database.Table("Music")
    for number in range(3):
        table.put_item(Item={**ITEM, "SongTitle": str(number)})
    assert engine.waits == []
    assert hold.take() == engine.last_seqno
    assert hold.take() == 0
    # Other threads wait as ever.
    thread = threading.Thread(target=lambda: table.put_item(Item={**ITEM, "SongTitle": "x"}))
    thread.start()
    thread.join()
    assert engine.waits == [engine.last_seqno]
    database.release_hold()
    table.put_item(Item={**ITEM, "SongTitle": "y"})
    assert len(engine.waits) == 2


def test_close_runs_once_and_stops_the_threads() -> None:
    database, engine = counting_database()
    seen = threading.Event()

    def work() -> None:
        seen.set()
        database.stopping.wait()

    thread = database.spawn("test", work)
    assert thread.name == "dynalsm-test"
    assert seen.wait(5)
    with database:
        pass
    database.close()
    assert engine.closes == 1
    assert not thread.is_alive()
    assert database.closed
    assert repr(database) == "<dynalsm.Database ':memory:' closed>"
    for ask in (database.stats, database.flush, database.compact, database.snapshot):
        with pytest.raises(errors.ClosedError, match="the database is closed"):
            ask()
    with pytest.raises(errors.ClosedError):
        database.spawn("late", work)
    table = database.Table("Music")
    for call in (
        lambda: table.get_item(Key=ITEM),
        lambda: table.put_item(Item=ITEM),
        table.scan,
        table.load,
        table.changes,
        database.client.list_tables,
        lambda: database.create_table(**MUSIC),
    ):
        with pytest.raises(errors.ClosedError, match="the database is closed"):
            call()


def test_settings_reach_the_arns() -> None:
    with memory_database(region="eu-west-1", account_id="999988887777") as database:
        table = database.create_table(**MUSIC)
        assert table.table_arn == "arn:aws:dynamodb:eu-west-1:999988887777:table/Music"


def test_tables_beyond_one_page() -> None:
    with memory_database() as database:
        for number in range(130):
            database.create_table(**{**MUSIC, "TableName": f"table{number:03d}"})
        assert [table.name for table in database.tables] == [
            f"table{number:03d}" for number in range(130)
        ]


def test_everything_public_is_there() -> None:
    for name in dynalsm.__all__:
        assert getattr(dynalsm, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = dynalsm.nonsense


def test_a_wrong_durability_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="durability is one of commit, interval, os, not 'fast'"):
        dynalsm.open(tmp_path / "x", durability="fast")


def test_a_file_is_no_database(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(errors.FormatError, match="this is a file; a database is a directory"):
        dynalsm.open(file)


def test_an_unknown_url_is_refused() -> None:
    url: Any = "ftp://host"
    with pytest.raises(ValueError, match="ftp://host is no endpoint"):
        dynalsm.open(url)
