"""Sorted input straight into tables: what is seen, where it lands, and what a refusal leaves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dynalsm import errors
from dynalsm._core import Engine

LAST = 6


def entries(count: int, value: bytes = b"new") -> list[tuple[bytes, bytes]]:
    return [(b"%06d" % number, value) for number in range(count)]


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = Engine.open(tmp_path / "db", durability="os", target_file_bytes=50_000)
    yield engine
    engine.close()


def test_empty_tree_lands_in_the_last_level(engine: Engine) -> None:
    tree = engine.create_tree("a")
    assert engine.ingest(tree, entries(10_000)) == 10_000
    levels = tree.partitions()[0]["levels"]
    assert [len(level) > 0 for level in levels] == [False] * LAST + [True]
    assert list(tree.cursor()) == entries(10_000)
    assert tree.get(b"000777") == b"new"


def test_survives_reopening(engine: Engine) -> None:
    tree = engine.create_tree("a")
    tree.put(b"zz", b"log")
    engine.ingest(tree, entries(100))
    tree.put(b"000005", b"later")
    engine.close()
    again = Engine.open(engine.path)
    found = dict(again.tree("a").cursor())
    again.close()
    assert found == {**dict(entries(100)), b"zz": b"log", b"000005": b"later"}


def test_newer_than_what_was_there_older_than_what_comes(engine: Engine) -> None:
    tree = engine.create_tree("a")
    tree.put(b"000001", b"old")
    tree.put(b"000003x", b"between")
    engine.ingest(tree, entries(5))
    assert tree.get(b"000001") == b"new"
    tree.delete(b"000002")
    left = [b"000000", b"000001", b"000003", b"000003x", b"000004"]
    assert [key for key, _ in tree.cursor()] == left
    engine.compact()
    assert tree.get(b"000001") == b"new"
    assert tree.get(b"000002") is None


def test_snapshot_taken_before_does_not_see_it(engine: Engine) -> None:
    tree = engine.create_tree("a")
    tree.put(b"000001", b"old")
    with engine.snapshot() as before:
        engine.ingest(tree, entries(5))
        assert list(tree.cursor(snapshot=before)) == [(b"000001", b"old")]


def test_hashed_tree_goes_to_its_partitions(engine: Engine) -> None:
    tree = engine.create_tree("h", hashed=True, partitions=4)
    rows = [(bytes([number]) * 8 + b"k", b"v") for number in range(256)]
    assert engine.ingest(tree, rows) == 256
    assert [part["entries"] for part in tree.partitions()] == [64] * 4
    assert list(tree.cursor()) == rows


@pytest.mark.parametrize("rows", [[(b"b", b""), (b"a", b"")], [(b"a", b""), (b"a", b"")]])
def test_order_is_checked_and_nothing_is_loaded(
    engine: Engine, rows: list[tuple[bytes, bytes]]
) -> None:
    tree = engine.create_tree("a")
    with pytest.raises(ValueError, match="does not follow"):
        engine.ingest(tree, rows)
    assert list(tree.cursor()) == []
    assert list(Path(engine.path).rglob("*.sst")) == []


def test_nothing_to_load(engine: Engine) -> None:
    assert engine.ingest(engine.create_tree("a"), []) == 0


def test_key_beyond_the_limit(engine: Engine) -> None:
    with pytest.raises(errors.StorageLimitError):
        engine.ingest(engine.create_tree("a"), [(b"x" * ((1 << 20) + 1), b"")])


def test_the_input_may_write_to_the_database_itself(tmp_path: Path) -> None:
    """Nothing that a writer could wait for is held while the caller's iterator runs."""
    engine = Engine.open(str(tmp_path / "db"), memory_bytes=1 << 20, durability="os")
    tree, other = engine.create_tree("a"), engine.create_tree("b")

    def pairs() -> Iterator[tuple[bytes, bytes]]:
        for number in range(1500):  # several write buffers' worth
            other.put(b"%06d" % number, b"x" * 1000)
            tree.put(b"%06d" % number, b"newer")
            yield b"%06d" % number, b"loaded"
            if number == 700:
                with pytest.raises(errors.StorageError, match="may not ask for a flush"):
                    engine.flush()

    assert engine.ingest(tree, pairs()) == 1500
    assert [value for _, value in tree.cursor()] == [b"newer"] * 1500
    assert len(list(other.cursor())) == 1500
    engine.close()


def test_a_writer_beside_the_ingest_wins(tmp_path: Path) -> None:
    """A key written after the ingest began is newer, whenever the memtable was sealed."""
    engine = Engine.open(str(tmp_path / "db"), memory_bytes=1 << 20, durability="os")
    tree = engine.create_tree("a")
    for turn in range(20):
        stop = threading.Event()
        last: dict[bytes, bytes] = {}

        def write(stop: threading.Event = stop, last: dict[bytes, bytes] = last) -> None:
            number = 0
            while not stop.is_set():
                key = b"%06d" % (number % 50)
                last[key] = b"%d" % number
                tree.put(key, last[key])
                number += 1

        writer = threading.Thread(target=write)
        writer.start()
        engine.ingest(tree, [(b"%06d" % number, b"turn %d" % turn) for number in range(50)])
        before = engine.last_seqno
        while engine.last_seqno < before + 60:
            pass
        stop.set()
        writer.join()
        assert dict(tree.cursor(b"000000", b"000050")) == last
    engine.close()
