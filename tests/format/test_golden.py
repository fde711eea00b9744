"""Databases that an earlier build wrote must open, be sound, and hold what is written beside them.

They lie in tests/golden as archives KIND-VERSION; tests/golden/make.py made them, and only that
writes there. When one of these fails after a change, databases of users no longer open either.
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
from dynalsm import errors, kv
from dynalsm._core import Engine
from dynalsm._core.verify import verify
from dynalsm.database import Database
from tests.format.database import read_database
from tests.format.log import read_entries, read_log
from tests.golden import make
from tests.golden.content import (
    HERE,
    KEY,
    NOW,
    TABLE,
    engine_content,
    items,
    keyspaces_content,
    restored,
    table_content,
)


def archives(*kinds: str) -> list[str]:
    """All golden databases of these kinds, whatever version made them."""
    names = sorted(path.name.removesuffix(".tar.gz") for path in HERE.glob("*.tar.gz"))
    return [name for name in names if name.split("-")[0] in kinds]


ENGINES = archives("engine", "cut_off")
ENCRYPTED = archives("encrypted")
KEYSPACES = archives("kv", "killed")
TABLES = archives("table")
NEWER = 1_000_000  # a version of the format that will never be
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


# ------------------------------------------------------------------------------------- encrypted


@pytest.mark.parametrize("name", ENCRYPTED)
def test_encrypted_engine_is_as_it_was(name: str, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    path, expected = unpack(name, tmp_path / "db")
    assert verify(path, encryption_key=KEY).problems == []
    engine = Engine.open(path, create_if_missing=False, background=False, encryption_key=KEY)
    try:
        assert engine_content(engine) == expected
        assert engine.keys is not None
        assert engine.keys.count == 2
        assert engine.replayed_logs == 1
        engine.tree("plain").put(b"\xff", b"new")
        engine.rotate_data_key()
    finally:
        engine.close()
    expected["plain"]["entries"].append(["ff", b"new".hex()])
    again = Engine.open(path, create_if_missing=False, encryption_key=KEY)
    found = engine_content(again)
    again.close()
    assert found == expected
    assert verify(path, encryption_key=KEY).problems == []


@pytest.mark.parametrize("name", ENCRYPTED)
def test_encrypted_engine_needs_its_last_key(name: str, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    path, _ = unpack(name, tmp_path / "db")
    before = files(path)
    for key in (None, bytes(32), b"another" + bytes(25)):  # the second one is that of before
        with pytest.raises(errors.EncryptionError):
            Engine.open(path, create_if_missing=False, encryption_key=key)
    assert files(path) == before


@pytest.mark.parametrize("name", ENCRYPTED)
def test_versions_before_encryption_refuse_it(name: str, tmp_path: Path) -> None:
    """Its manifest asks for a newer reader and writer than the first versions were."""
    path, _ = unpack(name, tmp_path / "db")
    manifest = path / (path / "CURRENT").read_text().splitlines()[0].split()[0]
    _, _, min_reader, min_writer, flags, _, _ = HEADER.unpack_from(manifest.read_bytes())
    assert (min_reader, min_writer, flags) == (2, 2, 1)


# --------------------------------------------------------------------------------- byte-key stores


@pytest.mark.parametrize("name", KEYSPACES)
def test_keyspaces_are_as_they_were(name: str, tmp_path: Path) -> None:
    path, expected = unpack(name, tmp_path / "db")
    assert set(expected) == {"", "users", "events/ü"}
    assert min(len(pairs) for pairs in expected.values()) > 20
    assert verify(path).problems == []
    with kv.DB(path) as database:
        assert keyspaces_content(database) == expected
        database.compact_range()
        assert keyspaces_content(database) == expected
    assert verify(path).problems == []


def test_the_log_of_the_killed_one_is_full(tmp_path: Path) -> None:
    """It is what it was made for: everything since the flush stands in its log alone."""
    path, _ = unpack("killed-0.1", tmp_path / "db")
    [log] = path.glob("wal/*.wal")
    records = list(read_log(log))
    assert len(records) > 60
    assert sum(1 for record in records for _ in read_entries(record)) > 180


@pytest.mark.parametrize("name", KEYSPACES)
def test_keyspaces_take_writes(name: str, tmp_path: Path) -> None:
    path, expected = unpack(name, tmp_path / "db")
    with kv.DB(path) as database:
        with database.write_batch() as batch:
            batch.put(b"\xff", b"new")
            batch.put(b"\xff", b"new", keyspace=database.keyspace("users"))
        database.keyspace("another").put(b"k", b"v")
        database.drop_keyspace("events/ü")
    for space in ("", "users"):
        expected[space].append(["ff", b"new".hex()])
    expected["another"] = [[b"k".hex(), b"v".hex()]]
    del expected["events/ü"]
    with kv.DB(path) as database:
        assert keyspaces_content(database) == expected


# --------------------------------------------------------------------------------------- a table


@pytest.mark.parametrize("name", TABLES)
def test_table_is_as_it_was(name: str, tmp_path: Path) -> None:
    path, expected = unpack(name, tmp_path / "db")
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


@pytest.mark.parametrize("name", TABLES)
def test_table_takes_writes(name: str, tmp_path: Path) -> None:
    path, expected = unpack(name, tmp_path / "db")
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


@pytest.mark.parametrize("name", TABLES)
def test_items_of_the_table_expire_as_they_were_told(name: str, tmp_path: Path) -> None:
    path, expected = unpack(name, tmp_path / "db")
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
    head = HEADER.pack(magic, NEWER, min_reader, min_writer, flags, number, zero)
    rest = data[HEADER.size + 4 :]
    manifest.write_bytes(head + struct.pack("<I", crc32c.crc32c(head)) + rest)


@pytest.mark.parametrize("read_only", [False, True])
def test_what_needs_a_newer_reader_is_refused_and_left_alone(
    read_only: bool, tmp_path: Path
) -> None:
    path, _ = unpack("cut_off-0.1", tmp_path / "db")
    mark_newer(path, min_reader=NEWER, min_writer=NEWER)
    before = files(path)
    with pytest.raises(errors.FormatError, match="newer version"):
        Engine.open(path, read_only=read_only)
    with pytest.raises(errors.FormatError, match="newer version"):
        dynalsm.open(path, read_only=read_only)
    with pytest.raises(errors.FormatError, match="newer version"):
        verify(path)
    assert files(path) == before


def test_what_needs_a_newer_writer_can_only_be_read(tmp_path: Path) -> None:
    path, expected = unpack("cut_off-0.1", tmp_path / "db")
    mark_newer(path, min_reader=1, min_writer=NEWER)
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


# ---------------------------------------------------------------------------- how they are made


def test_each_kind_is_there_and_none_is_made_anew_unasked(tmp_path: Path) -> None:
    assert {name.split("-")[0] for name in ENGINES + ENCRYPTED + KEYSPACES + TABLES} == set(
        make.KINDS
    )
    make.make("killed", "x", tmp_path, replace=False)
    path = tmp_path / "killed-x.tar.gz"
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="old ones"):
        make.make("killed", "x", tmp_path, replace=False)
    assert path.read_bytes() == before
    expected = json.loads((HERE / "killed-0.1.json").read_text(encoding="utf-8"))
    assert json.loads(path.with_name("killed-x.json").read_text(encoding="utf-8")) == expected
