"""Sorted input straight into tables: what is seen, where it lands, and what a refusal leaves."""

from __future__ import annotations

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
