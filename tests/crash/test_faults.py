"""File operations that fail: EIO, a full disk, no descriptors left, short writes.

faults.py says what must hold. Here every so many operations of a workload fail, once and for ever;
`python -m tests.crash faults` fails each of them.
"""

from __future__ import annotations

import errno
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dynalsm import errors
from dynalsm._core import Engine, seam
from tests.crash.faults import CHANGES, KINDS, SPACE_KINDS, WAYS, Fault, Run
from tests.crash.workload import KEY, TINY
from tests.support.scratch import scratch_directory


@pytest.fixture
def work() -> Iterator[str]:
    with scratch_directory() as path:
        yield path
    seam.clear_fault()


@pytest.mark.parametrize(("errnum", "for_ever", "short"), WAYS)
def test_nothing_is_lost_when_an_operation_fails(
    work: str, errnum: int, for_ever: bool, short: bool
) -> None:
    for seed in range(2):
        run = Run(work, seed, 25)
        total = run.count(KINDS[errnum])
        for nth in range(1 + seed * 3, total + 1, 11):
            run.check(Fault(nth, errnum, for_ever, short, KINDS[errnum]))


@pytest.mark.parametrize(("errnum", "for_ever", "short"), WAYS)
def test_nothing_is_lost_of_an_encrypted_database(
    work: str, errnum: int, for_ever: bool, short: bool
) -> None:
    run = Run(work, 3, 25, encryption_key=KEY)
    total = run.count(KINDS[errnum])
    for nth in range(2, total + 1, 13):
        run.check(Fault(nth, errnum, for_ever, short, KINDS[errnum]))


def test_reads_go_on_while_nothing_can_be_changed(work: str) -> None:
    # With faults that spare reading, a read that fails would be raised by the workload.
    run = Run(work, 5, 25)
    total = run.count(CHANGES) - 10  # without those of the close at the end
    for nth in range(1, total + 1, 13):
        workload = run.check(Fault(nth, errno.EIO, True, False, CHANGES), strict_reads=True)
        assert workload.failures


# ---- failures that are final ----

FINAL = {
    "log": ("sync", ".wal"),
    "SSTable": ("sync", ".sst"),
    "manifest": ("sync", "MANIFEST-"),
    "directory of a partition": ("dirsync", "/data/000001/"),
    "directory of the logs": ("dirsync", "/wal"),
    "write of an SSTable": ("write", ".sst"),
    "write of the manifest": ("write", "MANIFEST-"),
}


@pytest.mark.parametrize("what", FINAL)
def test_a_failed_change_refuses_all_writes_until_the_reopen(tmp_path: Path, what: str) -> None:
    kind, place = FINAL[what]
    path = str(tmp_path / "db")
    engine = Engine.open(path, background=False)
    tree = engine.create_tree("t")
    tree.put(b"before", b"1", sync=what != "directory of the logs")
    seam.set_fault(kind, 1, errno.EIO, path=place)
    try:
        with pytest.raises(errors.StorageIOError) as caught:
            tree.put(b"unsure", b"2", sync=True)
            engine.flush()
    finally:
        seam.clear_fault()
    assert caught.value.is_final
    assert place.strip("/") in str(caught.value.path)
    for refused in (
        lambda: tree.put(b"after", b"3"),
        engine.flush,
        engine.compact,
        engine.resume,
        lambda: engine.create_tree("u"),
        lambda: engine.drop_tree("t"),
    ):
        with pytest.raises(errors.PoisonedError, match="no write is accepted any more"):
            refused()
    assert tree.get(b"before") == b"1"
    assert [key for key, _ in tree.cursor()] == [b"before", b"unsure"]
    assert "Input/output error" in engine.stats()["failures"]["writes"]
    engine.close()
    engine = Engine.open(path)
    assert engine.tree("t").get(b"before") == b"1"
    engine.tree("t").put(b"after", b"3")
    engine.close()


def test_waiting_threads_are_told_of_a_failed_sync(tmp_path: Path) -> None:
    # One of them syncs for all; the failure must reach each, and none may be told that all is well.
    engine = Engine.open(str(tmp_path / "db"))
    tree = engine.create_tree("t")
    tree.put(b"a", b"1")
    seam.set_fault("sync", 1, errno.EIO, path=".wal", for_ever=True)
    told: list[type[Exception] | None] = []

    def write(number: int) -> None:
        try:
            tree.put(b"%d" % number, b"1")
        except errors.StorageError as error:
            told.append(type(error))
        else:
            told.append(None)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        seam.clear_fault()
    assert len(told) == 8
    assert set(told) <= {errors.StorageIOError, errors.PoisonedError}
    assert errors.StorageIOError in told
    engine.close()


@pytest.mark.parametrize("writes_again", [True, False])
def test_a_failed_background_sync_reaches_the_next_write_or_the_close(
    tmp_path: Path, writes_again: bool
) -> None:
    path = str(tmp_path / "db")
    engine = Engine.open(path, durability="interval", sync_interval_seconds=0.01)
    tree = engine.create_tree("t")
    seam.set_fault("sync", 1, errno.EIO, path=".wal")
    try:
        tree.put(b"a", b"1")
        wait_until(lambda: "writes" in engine.stats()["failures"])
    finally:
        seam.clear_fault()
    if writes_again:
        with pytest.raises(errors.PoisonedError):
            tree.put(b"b", b"2")
    with pytest.raises(errors.PoisonedError):
        engine.close()
    assert engine.closed
    Engine.open(path).close()


# ---- failures that pass ----


def wait_until(condition: Any, seconds: float = 20.0) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it did not happen"
        time.sleep(0.005)


def fill(engine: Engine, count: int) -> errors.StorageError | None:
    """Write until something fails, at most `count` times."""
    tree = engine.tree("t")
    for number in range(count):
        try:
            tree.put(b"%06d" % number, b"x" * 500)
        except errors.StorageError as error:
            return error
    return None


@pytest.mark.parametrize("resumes", [False, True])
def test_a_full_disk_heals_by_itself(tmp_path: Path, resumes: bool) -> None:
    # Writers are told once the memtables are full; when there is room again, the background finds
    # out by itself, or at once when asked to.
    options = {**TINY, "write_buffer_bytes": 100_000, "background": True}
    engine = Engine.open(str(tmp_path / "db"), durability="os", **options)
    tree = engine.create_tree("t")
    tree.put(b"before", b"1")
    seam.set_fault(SPACE_KINDS, 1, errno.ENOSPC, for_ever=True, path="/db/data")
    try:
        assert isinstance(fill(engine, 10_000), errors.NoSpaceError)
        assert "No space left" in engine.stats()["failures"]["flush"]
        assert tree.get(b"before") == b"1"
    finally:
        seam.clear_fault()
    if resumes:
        engine.resume()
    else:
        wait_until(lambda: "flush" not in engine.stats()["failures"])
    assert fill(engine, 1_000) is None
    wait_until(lambda: not engine.stats()["failures"])
    engine.flush()
    # What the failed attempts had written is gone.
    wait_until(lambda: engine.compact() is None and orphans(engine) == set())
    engine.close()


def orphans(engine: Engine) -> set[str]:
    """Tables on disk that belong to no version."""
    found = {path.name for path in (Path(engine.path) / "data").rglob("*.sst")}
    for name in engine.tree_names():
        for part in engine.tree(name).partitions():
            found -= set(part["files"])
    return found


def test_failed_manifest_edits_leave_no_tables_behind(tmp_path: Path) -> None:
    # The manifest may name them until the next one is begun; then they go.
    engine = Engine.open(str(tmp_path / "db"), background=False)
    tree = engine.create_tree("t")
    for number in range(4):
        tree.put(b"key%d" % number, b"value")
        seam.set_fault("sync", 1, errno.ENOSPC, path="MANIFEST-")
        try:
            with pytest.raises(errors.NoSpaceError):
                engine.flush()
        finally:
            seam.clear_fault()
        assert len(orphans(engine)) == 1
        engine.flush()
        assert orphans(engine) == set()
    seam.set_fault("sync", 1, errno.ENOSPC, path="MANIFEST-")
    try:
        with pytest.raises(errors.NoSpaceError):
            engine.compact()
    finally:
        seam.clear_fault()
    assert len(orphans(engine)) == 1
    engine.resume()
    assert orphans(engine) == set()
    engine.compact()
    assert [key for key, _ in tree.cursor()] == [b"key%d" % number for number in range(4)]
    engine.close()


def test_no_descriptors_for_the_directory_of_the_logs_is_no_failed_sync(tmp_path: Path) -> None:
    engine = Engine.open(str(tmp_path / "db"), background=False)
    tree = engine.create_tree("t")
    tree.put(b"a", b"0")
    seam.set_fault("dirsync", 1, errno.EMFILE, path="/wal")
    try:
        engine.rotate()  # a new log, whose name is not durable yet
        with pytest.raises(errors.StorageIOError):
            tree.put(b"a", b"1")
    finally:
        seam.clear_fault()
    tree.put(b"b", b"2")
    assert engine.durable_seqno == engine.last_seqno == 3
    engine.close()


def test_a_damaged_file_does_not_keep_other_partitions_from_being_merged(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    options = {**TINY, "durability": "os", "memory_bytes": 4 << 20}
    engine = Engine.open(path, **options)
    good, bad = engine.create_tree("good"), engine.create_tree("bad")
    for number in range(6):
        for tree in (good, bad):
            tree.put(b"key", random.Random(number).randbytes(2000))
        engine.flush()
    victim = next((Path(path) / "data" / f"{bad.tree_id:06d}").rglob("*.sst"))
    engine.close()
    with open(victim, "r+b") as file:
        file.seek(1000)
        file.write(b"\xff\xfe\xfd")
    engine = Engine.open(path, **{**options, "background": True})
    good = engine.tree("good")
    wait_until(lambda: not good.stats()["levels"][0]["files"])
    wait_until(lambda: "compaction" in engine.stats()["failures"])
    assert str(victim) in engine.stats()["failures"]["compaction"]
    good.put(b"more", b"1", sync=True)
    engine.close()
