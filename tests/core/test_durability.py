"""Threads that wait for the disk together: all are answered, whatever happens to the sync."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dynalsm import errors
from dynalsm._core import Engine, jobs, seam
from dynalsm._core._testing import wait_and_call_nobody

THREADS = 8
PUTS = 60


@pytest.fixture(autouse=True)
def no_faults() -> Iterator[None]:
    yield
    seam.clear_fault()


def in_threads(work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def put_all(engine: Engine, number: int, done: list[tuple[int, int]]) -> None:
    tree = engine.tree("t")
    for turn in range(PUTS):
        batch = engine.batch()
        batch.put(tree, b"%d-%d" % (number, turn), b"v" * 100)
        engine.write(batch, sync=True)
        done.append((number, turn))


def test_every_waiter_is_answered_and_syncs_are_shared(tmp_path: Path) -> None:
    # Beside them: a thread that syncs whatever there is, and flushes, which remove old logs.
    engine = Engine.open(tmp_path / "e", durability="commit", write_buffer_bytes=64 << 10)
    engine.create_tree("t")
    done: list[tuple[int, int]] = []

    def work(number: int) -> None:
        if number == 0:
            for _ in range(5):
                engine.flush()
        elif number == 1:
            for _ in range(20):
                jobs.sync_now(engine)
        else:
            put_all(engine, number, done)

    seam.set_fault("sync", 0)  # only counts
    in_threads(work)
    assert len(done) == len(set(done)) == (THREADS - 2) * PUTS
    assert engine.durable_seqno == engine.last_seqno
    assert 0 < engine.mean_sync_seconds < 60
    engine.close()


@pytest.mark.parametrize("nth", [1, 2, 7])
def test_a_failed_sync_reaches_everybody_who_waits(tmp_path: Path, nth: int) -> None:
    engine = Engine.open(tmp_path / "e", durability="commit")
    engine.create_tree("t")
    done: list[tuple[int, int]] = []
    refused: list[BaseException] = []

    def work(number: int) -> None:
        try:
            put_all(engine, number, done)
        except errors.StorageError as error:
            refused.append(error)

    seam.set_fault("sync", nth, errnum=errno.EIO, path=".wal")
    in_threads(work)
    assert len(refused) == THREADS
    assert all(isinstance(each, errors.PoisonedError | errors.StorageIOError) for each in refused)
    with pytest.raises(errors.PoisonedError):
        jobs.sync_now(engine)
    seam.clear_fault()
    engine.close()
    # What was acknowledged is there.
    again = Engine.open(tmp_path / "e", durability="commit")
    tree = again.tree("t")
    assert all(tree.get(b"%d-%d" % each) == b"v" * 100 for each in done)
    again.close()


def test_a_directory_that_cannot_be_opened_just_now_fails_one_waiter_only(tmp_path: Path) -> None:
    # The directory of the logs is synced with the first sync after a rotation.
    engine = Engine.open(tmp_path / "e", durability="os", background=False)
    tree = engine.create_tree("t")
    tree.put(b"a", b"1")
    engine.flush()
    tree.put(b"b", b"2")
    seam.set_fault("dirsync", errnum=errno.EMFILE, path="wal")
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            engine.wait_durable(engine.last_seqno)
        except errors.StorageIOError as error:
            failed.append(error)

    in_threads(work)
    assert len(failed) <= 1
    assert engine.durable_seqno == engine.last_seqno
    engine.close()


def test_nobody_sleeps_for_ever_behind_one_who_never_has_the_gil_again(tmp_path: Path) -> None:
    # At the end of the interpreter, threads just stop when they ask for the GIL.
    engine = Engine.open(tmp_path / "e", durability="commit")
    tree = engine.create_tree("t")
    done: list[int] = []

    def work(number: int) -> None:
        for turn in range(3):
            batch = engine.batch()
            batch.put(tree, b"%d-%d" % (number, turn), b"v")
            wait_and_call_nobody(engine, engine.commit(batch))
            done.append(number)

    in_threads(work)
    assert sorted(done) == sorted([*range(THREADS)] * 3)
    engine.close()
