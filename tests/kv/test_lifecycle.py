"""Ends and beginnings: forgotten databases, exits, forks, threads, locks; no crash and no hang."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from dynalsm import kv


def run_script(text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_program_for_plyvel_runs(tmp_path: Path) -> None:
    program = """
import sys
import dynalsm.kv as plyvel
db = plyvel.DB(sys.argv[1], create_if_missing=True)
db.put(b'key', b'value', sync=True)
sub = db.prefixed_db(b'sub-')
with sub.write_batch(transaction=True) as wb:
    wb.put(b'1', b'one')
for key, value in db:
    print(key, value)
try:
    plyvel.DB(sys.argv[1])
except plyvel.IOError as exc:
    print('locked')
db.close()
print(plyvel.__version__ > '', plyvel.__leveldb_version__)
"""
    done = run_script(program, str(tmp_path / "db"))
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "b'key' b'value'",
        "b'sub-1' b'one'",
        "locked",
        "True 1.23",
    ]


def test_a_forgotten_database_is_closed(path: str) -> None:
    db = kv.DB(path, create_if_missing=True)
    db.put(b"a", b"1")
    del db
    assert kv.DB(path).get(b"a") == b"1"
    assert kv.DB(path).get(b"a") == b"1"


@pytest.mark.parametrize("what", ["iterator", "raw_iterator", "snapshot", "write_batch", "space"])
def test_whatever_is_made_from_a_database_keeps_it_open(path: str, what: str) -> None:
    db = kv.DB(path, create_if_missing=True)
    db.put(b"a", b"1")
    made: Any = db.keyspace("space") if what == "space" else getattr(db, what)()
    del db
    with pytest.raises(kv.LockedError):
        kv.DB(path)
    if what == "iterator":
        assert next(made) == (b"a", b"1")
    del made
    kv.DB(path).close()


@pytest.mark.parametrize(
    "ending", ["pass", "sys.exit(0)", "raise SystemExit", "os.kill(os.getpid(), 15)"]
)
def test_the_interpreter_may_exit_with_everything_open(path: str, ending: str) -> None:
    program = f"""
import os, sys, threading
from dynalsm import kv
db = kv.DB(sys.argv[1], create_if_missing=True)
db.put(b'a', b'1')
iterator = db.iterator(); next(iterator)
snapshot = db.snapshot()
batch = db.write_batch(); batch.put(b'b', b'2')
threading.Thread(target=lambda: [db.put(b'c', b'3') for _ in iter(int, 1)], daemon=True).start()
{ending}
"""
    done = run_script(program, path)
    assert done.returncode in (0, -15)
    assert "Fatal" not in done.stderr and "Segmentation" not in done.stderr
    with kv.DB(path) as db:
        assert db.get(b"a") == b"1"
        assert db.get(b"b") is None


def test_a_forked_child_is_refused_and_the_parent_goes_on(db: kv.DB) -> None:
    db.put(b"a", b"1")
    iterator = db.iterator()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for call in (
                lambda: db.get(b"a"),
                lambda: db.put(b"b", b""),
                lambda: next(iterator),
                db.snapshot,
            ):
                try:
                    call()
                    break
                except kv.ForkedProcessError:
                    continue
            else:
                code = 0
            db.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    db.put(b"b", b"2")
    assert list(db) == [(b"a", b"1"), (b"b", b"2")]
    assert next(iterator) == (b"a", b"1")


def test_a_second_writer_is_told_who_holds_the_lock(db: kv.DB, path: str) -> None:
    with pytest.raises(kv.LockedError) as caught:
        kv.DB(path)
    assert isinstance(caught.value, OSError)
    assert caught.value.pid == os.getpid()
    other = run_script("import sys\nfrom dynalsm import kv\nkv.DB(sys.argv[1])", path)
    assert f"process {os.getpid()}" in other.stderr


def test_a_refused_open_leaves_nothing_behind(tmp_path: Path) -> None:
    refused: list[dict[str, Any]] = [
        {},
        {"create_if_missing": True, "compression": "lzma"},
        {"create_if_missing": True, "durability": "sometimes"},
        {"create_if_missing": True, "write_buffer_size": -1},
        {"create_if_missing": True, "comparator": max, "comparator_name": b"max"},
    ]
    for arguments in refused:
        with pytest.raises((kv.Error, ValueError)):
            kv.DB(tmp_path / "none", **arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_with_other_files_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear")
    with pytest.raises(kv.Error):
        kv.DB(tmp_path, create_if_missing=True)
    assert (tmp_path / "letter.txt").read_text() == "Dear"


def test_close_from_one_thread_while_others_work(path: str) -> None:
    db = kv.DB(path, create_if_missing=True, write_buffer_size=1 << 16)
    with db.write_batch() as batch:
        for number in range(2000):
            batch.put(b"%05d" % number, b"x" * 100)
    db.flush()
    started = threading.Barrier(7)
    failures: list[BaseException] = []

    def work(action: Any) -> None:
        started.wait()
        try:
            while True:
                action()
        except RuntimeError:  # closed
            pass
        except BaseException as error:
            failures.append(error)

    def write_batch() -> None:
        with db.write_batch() as batch:
            batch.put(b"b", b"x")

    actions = [
        lambda: db.get(b"00500"),
        lambda: db.put(b"00501", b"y"),
        lambda: sum(1 for _ in db.iterator()),
        lambda: sum(len(chunk) for chunk in db.iterator(reverse=True).chunks(100)),
        write_batch,
        lambda: db.snapshot().multi_get([b"00001", b"00002"]),
    ]
    threads = [threading.Thread(target=work, args=(action,), daemon=True) for action in actions]
    for thread in threads:
        thread.start()
    started.wait()
    db.put(b"c", b"1", sync=True)
    db.close()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert failures == []


def test_one_iterator_in_two_threads_never_crashes(db: kv.DB) -> None:
    # Each entry once, or a RuntimeError: never a torn buffer.
    with db.write_batch() as batch:
        for number in range(20_000):
            batch.put(b"%06d" % number, b"%06d" % number)
    db.flush()
    iterator = db.iterator()
    seen: list[Any] = []

    def walk() -> None:
        while True:
            try:
                seen.extend(iterator.next_chunk(100))
            except RuntimeError:
                continue
            if len(seen) >= 20_000:
                return

    threads = [threading.Thread(target=walk, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert sorted(key for key, _ in seen) == [b"%06d" % number for number in range(20_000)]
    assert all(key == value for key, value in seen)


def test_names_may_be_str_bytes_and_paths(tmp_path: Path) -> None:
    for number, kind in enumerate((str, os.fsencode, Path)):
        name = kind(tmp_path / f"ünïcødé {number}")  # type: ignore[operator]
        with kv.DB(name, create_if_missing=True) as db:
            assert db.name == name
            assert repr(name) in repr(db)
        assert "(closed)" in repr(db)


def test_a_directory_may_hold_tables_and_a_store(path: str) -> None:
    import dynalsm

    with dynalsm.open(path) as tables:
        assert tables.tables == []
    with pytest.raises(kv.Error, match="no byte-key store"):
        kv.DB(path)
    with kv.DB(path, create_if_missing=True) as db:
        db.put(b"a", b"1")
    with dynalsm.open(path) as tables:
        assert tables.tables == []
    with kv.DB(path) as db:
        assert list(db) == [(b"a", b"1")]
