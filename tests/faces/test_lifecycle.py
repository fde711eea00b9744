"""The life of a Database: forgotten, forked, interrupted, left open at the end, elsewhere."""

from __future__ import annotations

import errno
import gc
import logging
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dynalsm
from dynalsm import Database, errors
from dynalsm._core import seam
from tests.faces.conftest import MUSIC
from tests.support.processes import environment

KEY = {"Artist": {"S": "a"}, "SongTitle": {"S": "t"}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


def fill(database: Database, count: int = 1) -> None:
    database.call("CreateTable", MUSIC)
    for number in range(count):
        item = {**KEY, "SongTitle": {"S": str(number)}}
        database.call("PutItem", {"TableName": "Music", "Item": item})


def in_child(work: Callable[[], bool]) -> None:
    """Run `work` in a child of a fork; it must return True."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if work() else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def refuses(call: Callable[[], Any]) -> bool:
    try:
        call()
    except errors.ForkedProcessError:
        return True
    return False


def run_script(program: str, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, str(path)],
        capture_output=True, text=True, timeout=60, check=False, env=environment(),
    )  # fmt: skip


def test_a_forgotten_database_is_closed(path: Path) -> None:
    database = dynalsm.open(path)
    fill(database)
    ended = weakref.ref(database)
    threads = list(database._threads)
    with pytest.warns(ResourceWarning, match=r"shop\.db.* was not closed"):
        del database
        gc.collect()
    assert ended() is None
    assert [thread for thread in threads if thread.is_alive()] == []
    with dynalsm.open(path) as again:
        assert again.Table("Music").item_count == 1  # stored by a clean close: nothing is counted


def test_a_forgotten_database_does_not_keep_its_own_process_out(path: Path) -> None:
    gc.disable()  # nobody collects it before it stands in the way
    try:
        fill(dynalsm.open(path))
        with pytest.warns(ResourceWarning):
            dynalsm.open(path).close()
    finally:
        gc.enable()


MAKERS: dict[str, Callable[[Database], Any]] = {
    "client": lambda database: database.client,
    "streams": lambda database: database.streams,
    "table": lambda database: database.Table("Music"),
    "session": lambda database: dynalsm.boto3_session(database).client("dynamodb"),
    "snapshot": Database.snapshot,
}


@pytest.mark.parametrize("what", MAKERS)
def test_whatever_is_made_from_a_database_keeps_it_open(path: Path, what: str) -> None:
    database = dynalsm.open(path)
    fill(database)
    made: Any = MAKERS[what](database)
    ended = weakref.ref(database)
    del database
    gc.collect()
    assert ended() is not None
    with pytest.raises(errors.LockedError):
        dynalsm.open(path)
    ended().close()  # type: ignore[union-attr]
    assert made is not None


@pytest.mark.parametrize("ending", ["pass", "sys.exit(0)", "1 / 0"])
def test_the_interpreter_may_exit_with_everything_open(path: Path, ending: str) -> None:
    program = f"""
import sys, threading
import dynalsm
db = dynalsm.open(sys.argv[1], durability="interval", sync_interval_seconds=1000.0)
db.create_table(TableName="Music", BillingMode="PAY_PER_REQUEST",
    KeySchema=[{{"AttributeName": "a", "KeyType": "HASH"}}],
    AttributeDefinitions=[{{"AttributeName": "a", "AttributeType": "S"}}],
    StreamSpecification={{"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}})
music = db.Table("Music")
music.put_item(Item={{"a": "x"}})
def write():
    for number in iter(int, 1):
        music.put_item(Item={{"a": "y"}})
threading.Thread(target=write, daemon=True).start()
threading.Thread(target=lambda: list(music.changes(follow_seconds=None)), daemon=True).start()
snapshot = db.snapshot()
{ending}
"""
    done = run_script(program, path)
    assert done.returncode == (1 if "/" in ending else 0), done.stderr
    assert "Fatal" not in done.stderr and "could not be ended" not in done.stderr
    with dynalsm.open(path) as database:
        assert database.Table("Music").get_item(Key={"a": "x"})["Item"] == {"a": "x"}


def test_a_forked_child_is_refused_and_the_parent_goes_on(path: Path) -> None:
    with dynalsm.open(path) as database:
        fill(database)
        request = {"TableName": "Music"}
        snapshot = database.snapshot()

        def child() -> bool:
            refused = [
                refuses(call)
                for call in (
                    lambda: database.call("ListTables", {}),
                    database.client.list_tables,
                    lambda: database.call("DescribeTable", request),
                    lambda: database.call("Scan", request),
                    lambda: database.call("GetItem", {**request, "Key": KEY}),
                    lambda: database.call("PutItem", {**request, "Item": KEY}),
                    lambda: database.Table("Music").item_count,
                    lambda: snapshot.Table("Music").scan(),
                    lambda: list(database.Table("Music").changes()),
                    database.snapshot,
                    database.stats,
                    database.flush,
                )
            ]
            database.close()
            return all(refused)

        in_child(child)
        snapshot.close()
        database.call("PutItem", {"TableName": "Music", "Item": KEY})
        assert database.call("Scan", request)["Count"] == 2


def test_a_fork_beside_a_thread_that_closes(path: Path) -> None:
    # The child must not wait for a lock that no thread of its own will ever let go.
    database = dynalsm.open(path)
    with database._close_lock:
        in_child(lambda: database.close() is None)
    database.close()


def test_an_interrupted_close_lets_go(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = dynalsm.open(path)
    fill(database)

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(database.catalog, "save_statistics", interrupt)
    with pytest.raises(KeyboardInterrupt):
        database.close()
    database.close()
    with dynalsm.open(path) as again:
        assert again.call("Scan", {"TableName": "Music"})["Count"] == 1


def test_a_relative_path_outlives_chdir(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    with dynalsm.open(path.name, memory_bytes=1 << 20) as database:
        monkeypatch.chdir("/")
        fill(database, 20)
        database.flush()
        database.compact()
        arn = database.call("DescribeTable", {"TableName": "Music"})["Table"]["TableArn"]
        database.call("CreateBackup", {"TableName": arn, "BackupName": "one"})
        assert database.verify() == []
    with dynalsm.open(path) as database:
        assert len(database.call("ListBackups", {})["BackupSummaries"]) == 1


def test_the_same_directory_by_another_path(path: Path) -> None:
    other = path.with_name("link")
    with dynalsm.open(path):
        other.symlink_to(path)
        with pytest.raises(errors.LockedError, match="in this process already") as caught:
            dynalsm.open(other)
        assert caught.value.pid == os.getpid()


def test_a_refused_open_leaves_nothing_behind(path: Path) -> None:
    for options in ({"durability": "x"}, {"memory_bytes": -1}, {"limits": {"x": 1}}, {"no": 1}):
        with pytest.raises((ValueError, TypeError)):
            dynalsm.open(path, **options)
    with pytest.raises(errors.FormatError):
        dynalsm.open(path, create=False)
    with pytest.raises(errors.FormatError):
        dynalsm.open(path, read_only=True)
    assert not path.exists()


def test_a_read_only_handle_estimates_what_nobody_has_counted(path: Path) -> None:
    with dynalsm.open(path) as database:
        fill(database, 50)
        with dynalsm.open(path, read_only=True) as view:
            assert view.Table("Music").item_count == 50
            database.flush()
        with dynalsm.open(path, read_only=True) as view:
            assert view.Table("Music").item_count == 50
    with dynalsm.open(path, read_only=True) as view:
        assert view.Table("Music").item_count == 50


def test_resume_after_a_full_disk(path: Path) -> None:
    with dynalsm.open(path, durability="os") as database:
        fill(database, 5)
        seam.set_fault("write", 1, errno.ENOSPC, for_ever=True, path="/shop.db/data")
        try:
            for attempt in (database.flush, database.resume, database.resume):
                with pytest.raises(errors.NoSpaceError) as caught:
                    attempt()
                assert str(caught.value).count("No space left") == 1
                assert str(caught.value).count("[") == 1
        finally:
            seam.clear_fault()
        database.resume()
        assert database.call("Scan", {"TableName": "Music"})["Count"] == 5


def test_work_in_the_background_that_fails_is_tried_again(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with dynalsm.open(path) as database:
        runs: list[int] = []
        is_over = threading.Event()

        def work(_: Database) -> None:
            runs.append(1)
            if len(runs) == 1:
                raise ValueError("once")
            is_over.set()

        with caplog.at_level(logging.ERROR, "dynalsm"):
            database.repeat("work", 0.001, work)
            assert is_over.wait(30)
        assert "once" in caplog.text
