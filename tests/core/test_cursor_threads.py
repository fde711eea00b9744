"""One cursor and several threads: right entries or a clear refusal, never a crash."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dynalsm import errors
from dynalsm._core import Engine


def test_threads_that_share_a_cursor(tmp_path: Path) -> None:
    engine = Engine.open(str(tmp_path / "db"), durability="os", memory_bytes=1 << 20)
    tree = engine.create_tree("t")
    for number in range(20_000):
        tree.put(b"%06d" % number, b"v" * 200)
    engine.compact()
    seen: list[bytes] = []
    refusals: list[errors.StorageError] = []
    for _ in range(5):
        cursor = tree.cursor(values=False)

        def walk(cursor: object = cursor) -> None:
            while True:
                try:
                    chunk = cursor.next_chunk(700)  # type: ignore[attr-defined]
                except errors.StorageError as error:
                    refusals.append(error)
                    continue
                if not chunk:
                    return
                seen.extend(chunk)

        threads = [threading.Thread(target=walk) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        cursor.close()
    assert sorted(seen) == sorted([b"%06d" % number for number in range(20_000)] * 5)
    assert all("another thread" in str(error) for error in refusals)
    engine.close()


def test_what_the_collector_runs_uses_the_cursor(tmp_path: Path) -> None:
    # Building entries may start the collector, and so run anything: also what uses the same
    # cursor, or closes the engine under it. (From Python 3.12 on it comes after the method.)
    engine = Engine.open(str(tmp_path / "db"), durability="os", background=False)
    tree = engine.create_tree("t")
    for number in range(200):
        tree.put(b"%03d" % number, b"v")
    cursor = tree.cursor()
    refused: list[str] = []

    def run_inside(act: Callable[[], object]) -> list[tuple[bytes, bytes]]:
        collections = 0

        def collecting(phase: str, _info: object) -> None:
            nonlocal collections
            collections += phase == "start"
            if phase == "start" and collections == 5:  # the first ones are before the method
                try:
                    act()
                except errors.StorageError as error:
                    refused.append(str(error))

        before = gc.get_threshold()
        hoard = [(number, number) for number in range(2100)]  # none are left of those in store
        gc.callbacks.append(collecting)
        gc.set_threshold(1)
        try:
            return cursor.next_chunk(40)
        finally:
            gc.set_threshold(*before)
            gc.callbacks.remove(collecting)
            hoard.clear()

    acts: list[Callable[[], object]] = [lambda: next(cursor), lambda: cursor.seek(b"150")]
    acts += [cursor.close, cursor.seek_start]
    seen = [entry for act in acts for entry in run_inside(act)]
    if sys.version_info < (3, 12):
        assert seen == [(b"%03d" % number, b"v") for number in range(160)]
        assert len(refused) == 4 and all("is using the cursor" in text for text in refused)
        with pytest.raises(errors.ClosedError):
            run_inside(engine.close)
        assert engine.closed
    engine.close()
    assert cursor.closed


def test_threads_that_close_one_snapshot(tmp_path: Path) -> None:
    # It is let go of once: another one of the same moment stays held.
    engine = Engine.open(str(tmp_path / "db"), durability="os", background=False)
    tree = engine.create_tree("t")
    for _ in range(20):
        tree.put(b"k", b"old")
        kept, closed = engine.snapshot(), engine.snapshot()
        started = threading.Barrier(4)

        def close(snapshot: Any = closed, started: threading.Barrier = started) -> None:
            started.wait()
            snapshot.close()

        threads = [threading.Thread(target=close) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        tree.put(b"k", b"new")
        engine.compact()
        assert tree.get(b"k", kept) == b"old"
        with pytest.raises(errors.ClosedError):
            tree.get(b"k", closed)
        kept.close()
    engine.close()


def test_the_engine_closes_under_walking_threads(tmp_path: Path) -> None:
    engine = Engine.open(str(tmp_path / "db"), durability="os", memory_bytes=1 << 20)
    tree = engine.create_tree("t")
    for number in range(5_000):
        tree.put(b"%06d" % number, b"v" * 200)
    engine.compact()
    ended: list[Exception] = []
    walking = threading.Barrier(5)

    def walk() -> None:
        cursor, shared = tree.cursor(), engine.snapshot()
        walking.wait()
        try:
            while True:
                for key, _ in cursor:
                    assert tree.get(key, shared) == b"v" * 200
                cursor.seek_start()
        except errors.ClosedError as error:
            ended.append(error)

    threads = [threading.Thread(target=walk) for _ in range(4)]
    for thread in threads:
        thread.start()
    walking.wait()
    engine.close()
    for thread in threads:
        thread.join()
    assert len(ended) == 4
