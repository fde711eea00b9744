"""Databases that an earlier build wrote must open, be sound, and hold what is written beside them.

They lie in tests/golden as archives; tests/golden/make.py made them. When one of these fails after
a change, databases of users no longer open either.
"""

from __future__ import annotations

import json
import struct
import tarfile
from pathlib import Path
from typing import Any

import crc32c
import pytest

import dynalsm
from dynalsm import errors
from dynalsm._core import Engine
from dynalsm._core.verify import verify
from dynalsm.database import Database
from tests.format.database import read_database
from tests.golden.content import HERE, NOW, TABLE, engine_content, items, restored, table_content

ENGINES = ["engine", "cut_off"]
HEADER = struct.Struct("<8sIIIIQI")  # magic, format, min_reader, min_writer, flags, number, 0


def unpack(name: str, path: Path) -> tuple[Path, dict[str, Any]]:
    """The golden database in a new directory, and what must be in it."""
    with tarfile.open(HERE / f"{name}.tar.gz") as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(path, filter="data")
        else:
            archive.extractall(path)
    expected: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    return path, expected


def open_table(path: Path, now: float = NOW, **options: Any) -> Database:
    return dynalsm.open(
        path, create=False, clock=lambda: now, stream_shards=2, job_wait_seconds=60.0, **options
    )


def files(path: Path) -> dict[str, bytes]:
    """Every file but the locks, which are made by looking."""
    return {
        str(one.relative_to(path)): one.read_bytes()
        for one in path.rglob("*")
        if one.is_file() and not one.name.startswith("LOCK")
    }


# ------------------------------------------------------------------------------------- the engine


@pytest.mark.parametrize("name", ENGINES)
def test_engine_is_as_it_was(name: str, tmp_path: Path) -> None:
    path, expected = unpack(name, tmp_path / "db")
    assert sum(len(tree["entries"]) for tree in expected.values()) > 90
    assert verify(path).problems == []
    engine = Engine.open(path, create_if_missing=False, background=False)
    try:
        assert engine_content(engine) == expected
        levels = engine.tree("plain").partitions()[0]["levels"]
        assert sum(len(level) > 0 for level in levels) > 1  # it still is what it was made for
        assert engine.replayed_logs == 1
        engine.compact()
        assert engine_content(engine) == expected
    finally:
        engine.close()
    assert verify(path).problems == []


@pytest.mark.parametrize("name", ENGINES)
def test_engine_can_be_read_by_the_documents_alone(name: str, tmp_path: Path) -> None:
    path, expected = unpack(name, tmp_path / "db")
    assert read_database(path) == {
        tree: {bytes.fromhex(key): bytes.fromhex(value) for key, value in content["entries"]}
        for tree, content in expected.items()
    }


@pytest.mark.parametrize("name", ENGINES)
def test_engine_takes_writes(name: str, tmp_path: Path) -> None:
    path, expected = unpack(name, tmp_path / "db")
    engine = Engine.open(path, create_if_missing=False)
    for tree in ("plain", "hashed"):
        engine.tree(tree).put(b"\xff" * 9, b"new")
        engine.tree(tree).delete(bytes.fromhex(expected[tree]["entries"][0][0]))
        expected[tree]["entries"] = [*expected[tree]["entries"][1:], ["ff" * 9, b"new".hex()]]
    engine.create_tree("another").put(b"k", b"v")
    expected["another"] = {"hashed": False, "entries": [[b"k".hex(), b"v".hex()]]}
    engine.close()
    again = Engine.open(path, create_if_missing=False)
    found = engine_content(again)
    again.close()
    assert found == expected
    assert verify(path).problems == []


# --------------------------------------------------------------------------------------- a table


def test_table_is_as_it_was(tmp_path: Path) -> None:
    path, expected = unpack("table", tmp_path / "db")
    copy = expected.pop("restored")
    kinds = {kind for item in expected["items"] for kind in item["value"]}
    assert kinds == set("S N B BOOL NULL SS NS BS L M".split())
    assert verify(path).problems == []
    with open_table(path) as database:
        assert table_content(database) == expected
        assert database.verify() == []
        assert restored(database) == copy
        assert items(database, TABLE) == expected["items"]
        assert database.verify() == []
    assert verify(path).problems == []


def test_table_takes_writes(tmp_path: Path) -> None:
    path, expected = unpack("table", tmp_path / "db")
    item = {"p": {"S": "a"}, "s": {"N": "99"}, "value": {"S": "new"}, "g": {"S": "red"}}
    item["h"] = {"N": "1000"}
    with open_table(path) as database:
        database.call("PutItem", {"TableName": TABLE, "Item": item})
    with open_table(path) as database:
        found = table_content(database)
        assert database.verify() == []
    assert [one for one in found["items"] if one not in expected["items"]] == [item]
    assert len(found["items"]) == found["item_count"] == len(expected["items"]) + 1
    assert found["by-g of red"] == [*expected["by-g of red"], item]
    assert found["stream"][:-1] == expected["stream"]
    assert (found["stream"][-1]["eventName"], found["stream"][-1]["NewImage"]) == ("INSERT", item)


def test_items_of_the_table_expire_as_they_were_told(tmp_path: Path) -> None:
    path, expected = unpack("table", tmp_path / "db")
    lasting = [item for item in expected["items"] if "expires" not in item]
    assert 0 < len(lasting) < len(expected["items"])
    with open_table(path, now=NOW + 5000, hide_expired=True) as database:
        assert items(database, TABLE) == lasting


# ------------------------------------------------------------------------------- a newer version


def mark_newer(path: Path, *, min_reader: int, min_writer: int) -> None:
    """Say in the manifest that a later version of the format is needed."""
    manifest = path / (path / "CURRENT").read_text().splitlines()[0].split()[0]
    data = manifest.read_bytes()
    magic, _, _, _, flags, number, zero = HEADER.unpack_from(data)
    head = HEADER.pack(magic, 2, min_reader, min_writer, flags, number, zero)
    rest = data[HEADER.size + 4 :]
    manifest.write_bytes(head + struct.pack("<I", crc32c.crc32c(head)) + rest)


@pytest.mark.parametrize("read_only", [False, True])
def test_what_needs_a_newer_reader_is_refused_and_left_alone(
    read_only: bool, tmp_path: Path
) -> None:
    path, _ = unpack("cut_off", tmp_path / "db")
    mark_newer(path, min_reader=2, min_writer=2)
    before = files(path)
    with pytest.raises(errors.FormatError, match="newer version"):
        Engine.open(path, read_only=read_only)
    with pytest.raises(errors.FormatError, match="newer version"):
        dynalsm.open(path, read_only=read_only)
    with pytest.raises(errors.FormatError, match="newer version"):
        verify(path)
    assert files(path) == before


def test_what_needs_a_newer_writer_can_only_be_read(tmp_path: Path) -> None:
    path, expected = unpack("cut_off", tmp_path / "db")
    mark_newer(path, min_reader=1, min_writer=2)
    before = files(path)
    with pytest.raises(errors.FormatError, match="newer version"):
        Engine.open(path)
    assert files(path) == before
    engine = Engine.open(path, read_only=True)
    try:
        assert engine_content(engine) == expected
        with pytest.raises(errors.StorageError):
            engine.tree("plain").put(b"k", b"v")
    finally:
        engine.close()
    assert files(path) == before
