"""A read-only open beside a busy writer: it sees whole states, and keeps seeing its own.

What went wrong: a log that was flushed and removed, or a table that was merged and removed, between
the reading of the manifest and its own made the open fail (or, a log, be left out); entries of a
tree made in between were left out; and a table whose descriptor had been given up could not be
opened again after the writer had removed the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dynalsm import errors
from dynalsm._core import Engine
from dynalsm._core.manifest import Manifest


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Engine]:
    engine = Engine.open(str(tmp_path / "db"), background=False, durability="os")
    engine.create_tree("t")
    yield engine
    engine.close()


def overtake(monkeypatch: pytest.MonkeyPatch, *steps: Callable[[], Any]) -> list[int]:
    """Let the writer do one step after each reading of the manifest. Returns: the readings."""
    load = Manifest.load
    waiting = list(steps)
    readings: list[int] = []

    def load_and_go_on(*arguments: Any) -> Any:
        loaded = load(*arguments)
        readings.append(1)
        if waiting:
            waiting.pop(0)()
        return loaded

    monkeypatch.setattr(Manifest, "load", staticmethod(load_and_go_on))
    return readings


def read(path: str) -> dict[str, dict[bytes, bytes]]:
    reader = Engine.open(path, read_only=True, background=False)
    try:
        return {name: dict(reader.tree(name).cursor()) for name in reader.tree_names()}
    finally:
        reader.close()


def test_a_log_that_goes_is_read_as_a_table(
    writer: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.tree("t").put(b"a", b"1")
    overtake(monkeypatch, writer.flush)
    assert read(writer.path) == {"t": {b"a": b"1"}}


def test_a_table_that_goes_is_read_where_it_went(
    writer: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        writer.tree("t").put(b"%d" % number, b"1")
        writer.flush()
    overtake(monkeypatch, writer.compact)
    assert read(writer.path) == {"t": {b"0": b"1", b"1": b"1", b"2": b"1"}}


def test_a_tree_that_comes_is_there_with_its_entries(
    writer: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add() -> None:
        batch = writer.batch()
        batch.put(writer.create_tree("u"), b"b", b"2")
        batch.put(writer.tree("t"), b"a", b"names u")
        writer.write(batch)

    overtake(monkeypatch, add)
    assert read(writer.path) == {"t": {b"a": b"names u"}, "u": {b"b": b"2"}}


def test_a_tree_that_comes_and_goes_leaves_nothing_behind(
    writer: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry that names it was still there when the log was read."""

    def come() -> None:
        batch = writer.batch()
        batch.put(writer.create_tree("u"), b"b", b"2")
        batch.put(writer.tree("t"), b"a", b"names u")
        writer.write(batch)

    def go() -> None:
        writer.tree("t").delete(b"a")
        writer.drop_tree("u")

    load = Manifest.load
    steps: list[Any] = [None, come, go]  # before the first reading, after it, before the second

    def load_at_the_moment(*arguments: Any) -> Any:
        if len(steps) % 2:
            (steps.pop(0) or int)()
        loaded = load(*arguments)
        if len(steps) == 2:
            steps.pop(0)()
        return loaded

    monkeypatch.setattr(Manifest, "load", staticmethod(load_at_the_moment))
    assert read(writer.path) == {"t": {}}


def test_a_reader_that_is_overtaken_for_ever_says_so(
    writer: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def go_on() -> None:
        writer.tree("t").put(b"a", b"1")
        writer.flush()
        writer.create_tree(f"t{len(readings)}")

    readings = overtake(monkeypatch, *[go_on] * 1000)
    with pytest.raises(errors.StorageError):
        read(writer.path)
    assert len(readings) >= 50
    monkeypatch.undo()
    assert read(writer.path)["t"] == {b"a": b"1"}


def test_a_reader_reads_what_the_writer_has_removed(writer: Engine) -> None:
    """Even when it may hardly keep descriptors open."""
    tree = writer.tree("t")
    for number in range(5):
        tree.put(b"%d" % number, b"1" * 100)
        writer.flush()
    reader = Engine.open(writer.path, read_only=True, background=False, max_open_files=1)
    writer.compact()
    tree.put(b"9", b"1")
    for _ in range(2):
        assert dict(reader.tree("t").cursor()) == {b"%d" % n: b"1" * 100 for n in range(5)}
    reader.close()
