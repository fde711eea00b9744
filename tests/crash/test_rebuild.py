"""A database of which no manifest can be read: repair makes one of what the tables say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import dynalsm
from dynalsm import errors, kv
from dynalsm._core import Engine
from dynalsm._core import _testing as tables
from dynalsm._core.rebuild import Found
from dynalsm._core.repair import repair
from dynalsm._core.verify import verify
from tests.crash.damage import OPTIONS
from tests.support.store import N, S, index, table

KEY = bytes(range(32))


def remove(path: Path) -> None:
    for each in [*path.glob("MANIFEST-*"), path / "CURRENT"]:
        each.unlink()


def garble(path: Path) -> None:
    for each in path.glob("MANIFEST-*"):
        each.write_bytes(b"\x5a" * each.stat().st_size)


def fill(path: Path, key: bytes | None = None) -> None:
    """A table with indexes and two keyspaces; most of it in tables, some in a log."""
    with dynalsm.open(path, encryption_key=key) as database:
        made = table(
            "items", "p s", "p:S s:N l:S g:S",
            LocalSecondaryIndexes=[index("by-l", "p", "l")],
            GlobalSecondaryIndexes=[index("by-g", "g")],
        )  # fmt: skip
        database.call("CreateTable", made)
        for number in range(40):
            item = {"p": S(f"{number % 7}"), "s": N(number), "l": S("l"), "g": S("g")}
            database.call("PutItem", {"TableName": "items", "Item": item})
        gone = {"p": S("0"), "s": N(0)}
        database.call("DeleteItem", {"TableName": "items", "Key": gone})
    with kv.DB(path, encryption_key=key, create_if_missing=True) as db:
        db.put(b"plain", b"1")
        db.keyspace("other").put(b"key", b"2")
        db.compact_range()
        db.put(b"late", b"3")


def content(path: Path, key: bytes | None = None) -> dict[str, object]:
    with dynalsm.open(path, encryption_key=key) as database:
        found: dict[str, object] = {"tables": database.call("ListTables", {})["TableNames"]}
        for name in (None, "by-l", "by-g"):
            request = {"TableName": "items", **({"IndexName": name} if name else {})}
            items = database.call("Scan", request)["Items"]
            found[f"scan {name}"] = sorted(items, key=lambda item: int(item["s"]["N"]))
        found["differences"] = database.verify()
    with kv.DB(path, encryption_key=key) as db:
        found["spaces"] = db.keyspaces()
        found["kv"] = list(db), list(db.keyspace("other"))
    return found


@pytest.mark.parametrize("damage", [remove, garble])
@pytest.mark.parametrize("key", [None, KEY])
def test_everything_is_there_under_its_name(
    tmp_path: Path, damage: Callable[[Path], None], key: bytes | None
) -> None:
    path = tmp_path / "db"
    fill(path, key)
    before = content(path, key)
    damage(path)
    with pytest.raises(errors.StorageError):
        dynalsm.open(path, create=False, encryption_key=key)
    done = repair(path, encryption_key=key)
    assert any("all manifests" in loss for loss in done.lost)
    assert verify(path, encryption_key=key).is_sound
    assert content(path, key) == before


def test_names_are_encrypted(tmp_path: Path) -> None:
    fill(tmp_path / "db", KEY)
    for path in (tmp_path / "db").rglob("*.sst"):
        assert b"tree_name" not in path.read_bytes()


def test_partitions_and_what_is_only_in_a_log(tmp_path: Path) -> None:
    """Hashed trees keep their partitions; a tree that no table names keeps its data."""
    path = tmp_path / "db"
    engine = Engine.open(str(path), **OPTIONS)
    hashed = engine.create_tree("hashed", hashed=True, partitions=4)
    pairs = {(n << 56).to_bytes(8, "big") + b"k": b"%d" % n for n in range(256)}
    for pair in pairs.items():
        hashed.put(*pair)
    engine.flush()
    hashed.put(b"\x07late", b"v")
    hashed.delete(bytes(8) + b"k")
    engine.create_tree("unflushed").put(b"a", b"b")
    last = engine.last_seqno
    engine.close()
    remove(path)
    done = repair(path)
    assert any("'kv/lost-2'" in loss for loss in done.lost)
    engine = Engine.open(str(path), create_if_missing=False, **OPTIONS)
    assert engine.tree_names() == ["hashed", "kv/lost-2"]
    del pairs[bytes(8) + b"k"]
    assert dict(engine.tree("hashed").cursor()) == {**pairs, b"\x07late": b"v"}
    assert list(engine.tree("kv/lost-2").cursor()) == [(b"a", b"b")]
    assert engine.last_seqno == last
    assert len(engine.state.trees[1][3]) == 4
    engine.close()


def test_a_damaged_table_beside(tmp_path: Path) -> None:
    """What can be read of it is kept, in one partition with the others."""
    path = tmp_path / "db"
    engine = Engine.open(str(path), **OPTIONS)
    hashed = engine.create_tree("hashed", hashed=True, partitions=4)
    for number in range(256):
        hashed.put((number << 56).to_bytes(8, "big"), b"v")
    engine.flush()
    engine.close()
    garble(path)
    first = min(path.rglob("*.sst"))
    first.write_bytes(first.read_bytes()[:-100])
    done = repair(path)
    assert any(str(first) in loss for loss in done.lost)
    engine = Engine.open(str(path), create_if_missing=False, **OPTIONS)
    assert len(list(engine.tree("hashed").cursor())) >= 192
    assert len(engine.state.trees[1][3]) == 1
    engine.close()


def test_two_trees_of_one_name() -> None:
    """A tree that was dropped and made again: the newer one has the name."""
    found = Found({1: ("a", False), 2: ("a", False)}, {(1, 1): (0, 1), (2, 2): (0, 1)})
    state, homes, lost = found.state()
    assert list(state.trees) == [2]
    assert homes == {(2, 2): (2, 2)}
    assert "'a'" in lost[0]


def test_tables_without_names(tmp_path: Path) -> None:
    """As older versions wrote them: repair says that it cannot, and changes nothing."""
    place = tmp_path / "db" / "data" / "000001" / "000001"
    place.mkdir(parents=True)
    tables.write_table(str(place / "000000000001.sst"), [(b"k", 256 | 1, b"v")], tree_id=1)
    with pytest.raises(errors.CorruptionError, match="no table says which tree"):
        repair(tmp_path / "db")
    assert [each.name for each in (tmp_path / "db").iterdir() if each.is_dir()] == ["data"]
