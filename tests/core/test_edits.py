"""Edits of the manifest, payloads of logs and names of files that make no sense are refused.

Their checksums are right: no checksum says that what was written had a meaning.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from dynalsm import errors
from dynalsm._core import Engine
from dynalsm._core import edits as rules
from dynalsm._core.manifest import Manifest
from dynalsm._core.names import LOG, TABLE, log_numbers, number_in
from dynalsm._core.repair import entries_of_payload, repair
from dynalsm._core.state import State
from dynalsm._core.verify import verify

FILE = [1, 1, 0, 7, 400, 1 << 63, 2, 0, 1, 2, 90, b"a", b"b", 0]
BASE: dict[str, Any] = {
    "format": 1, "hash": "xxh64", "next": 9, "next_tree": 3, "next_partition": 4, "log": 2,
    "flushed": 2, "closed": [], "begun": 0,
    "trees": [[1, "raw", False, [[1, 0]]], [2, "cut", True, [[2, 0], [3, 1 << 63]]]],
    "add": [FILE], "ranges": [[1, 1, [[b"a", None, 1]]]],
}  # fmt: skip


def changed(place: list[Any], value: Any) -> dict[str, Any]:
    """The base with something else in a place."""
    edit = copy.deepcopy(BASE)
    inner: Any = edit
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    return edit


def test_what_the_engine_writes_passes() -> None:
    state = State.replay(
        [copy.deepcopy(BASE), {"split": [2, 3, [[4, 1 << 63], [5, 3 << 62]]]}], "p"
    )
    assert state.trees[2][3] == [[2, 0], [4, 1 << 63], [5, 3 << 62]]
    assert State.replay([state.base()], "p").base() == state.base()
    rules.check({"a member of later": object()})


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        (["next"], -1, "no number"),
        (["next"], True, "no number"),
        (["next"], 1 << 63, "no number"),
        (["flushed"], 1 << 56, "no number"),
        (["next_tree"], 1 << 27, "no number"),  # an array with as many places would be made
        (["hash"], 5, "no text"),
        (["closed"], [1], "no list of 2"),
        (["closed"], [1, "x"], "no number"),
        (["trees"], {}, "no list"),
        (["trees", 0], [1, "raw", False], "no list of 4"),
        (["trees", 0, 0], 2, "exists"),
        (["trees", 0, 1], "cut", "exists"),
        (["trees", 0, 2], 1, "not true or false"),
        (["trees", 0, 3], [], "does not cut"),
        (["trees", 0, 3], [[1, 5]], "does not cut"),
        (["trees", 0, 3], [[1, 0], [9, 5]], "not hashed"),
        (["trees", 1, 3], [[2, 0], [2, 5]], "twice"),
        (["trees", 1, 3], [[2, 0], [3, 1 << 64]], "no number"),
        (["add", 0, 0], 9, "KeyError"),
        (["add", 0, 2], 7, "no number from 0 to 6"),
        (["add", 0, 3], "../../x", "no number"),  # these numbers become a path
        (["add", 0, 11], "a", "no key"),
        (["add", 0, 11], b"z", "ends before"),
        (["ranges", 0, 1], 8, "KeyError"),
        (["ranges", 0, 2, 0], [b"a", None], "no list of 3"),
        (["ranges", 0, 2, 0, 1], "z", "no key"),
        (["drop"], [[1, 1, 99]], "99"),
        (["untree"], 77, "77"),
        (["split"], [2, 9, [[4, 0]]], "no partition 9"),
        (["split"], [2, 2, [[4, 5]]], "does not cut"),
        (["split"], [2, 2, [[3, 0]]], "already"),
    ],
)
def test_each_member_is_checked(place: list[Any], value: Any, told: str) -> None:
    with pytest.raises(errors.CorruptionError, match=told):
        State.replay([changed(place, value)], "p")


def test_a_tree_may_take_the_name_of_one_that_was_dropped() -> None:
    state = State.replay(
        [copy.deepcopy(BASE), {"untree": 1}, {"tree": [3, "raw", False, [[4, 0]]]}], "p"
    )
    assert [tree[1] for tree in state.trees.values()] == ["cut", "raw"]


def test_an_edit_that_is_none() -> None:
    with pytest.raises(errors.CorruptionError, match="is no edit"):
        State.replay([copy.deepcopy(BASE), ["x"]], "p")  # type: ignore[list-item]


def test_a_newer_format_is_said_before_anything_is_understood() -> None:
    with pytest.raises(errors.FormatError, match="format 2"):
        State.replay([{"format": 2, "trees": "of another kind"}], "p")


def test_a_database_with_such_an_edit_is_told_verified_and_repaired(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    with_tree = Engine.open(path)
    with_tree.create_tree("t").put(b"k", b"v")
    with_tree.close()
    loaded = Manifest.load(path)
    assert loaded is not None
    manifest = Manifest.resume(path, loaded)
    manifest.append({"tree": [5, "t", False, [[9, 0]]]})
    manifest.close()
    with pytest.raises(errors.CorruptionError, match="contradicts") as caught:
        Engine.open(path)
    assert caught.value.path is not None
    assert [problem.path for problem in verify(path).problems] == [caught.value.path]
    assert "MANIFEST" in repair(path).lost[0]
    engine = Engine.open(path)
    assert engine.tree("t").get(b"k") == b"v"
    engine.close()


@pytest.mark.parametrize(
    ("payload", "count", "told"),
    [
        (b"\x01\x05\x01k", 1, "does not end"),
        (b"\x01\x05\x09k", 1, "passes the end"),
        (b"\x01\x05\x01k\x09v", 1, "passes the end"),
        (b"\x07\x05\x01k\x01v", 1, "kind 7"),
        (b"\x01\x05\x01k\x01v", 2, "missing"),
        (b"\x01\x05\x01k\x01v!", 1, "behind"),
        (b"\x01" + b"\xff" * 30, 1, "does not end"),
    ],
)
def test_payloads_that_are_no_commits(payload: bytes, count: int, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        list(entries_of_payload(payload, count))


def test_a_payload() -> None:
    packed = b"\x01\x05\x01k\x01v\x00\x05\x02ab\x03\x05\x01a\x01b"
    assert list(entries_of_payload(packed, 3)) == [
        (1, 5, b"k", b"v"),
        (0, 5, b"ab", b""),
        (3, 5, b"a", b"b"),
    ]


def test_names_that_are_no_numbers(tmp_path: Path) -> None:
    assert number_in("000000000012.wal", LOG) == 12
    assert number_in("1234567890123.sst", TABLE) == 1234567890123
    strangers = ["12.wal", "x.wal", ".wal", "-00000000001.wal", "000000000001.wal~", "٠" * 12]
    strangers += ["000000000001.sst", "9" * 40 + ".wal", "0000000000012.wal"]
    for name in strangers:
        assert number_in(name, LOG) is None, name
        (tmp_path / name).touch()
    (tmp_path / "000000000003.wal").touch()
    (tmp_path / "000000000002.wal").touch()
    assert log_numbers(str(tmp_path)) == [2, 3]
    assert log_numbers(str(tmp_path), 3) == [3]


def test_strangers_in_the_directories_are_nothing_to_read(tmp_path: Path) -> None:
    path = tmp_path / "db"
    engine = Engine.open(str(path))
    engine.create_tree("t").put(b"k", b"v")
    engine.flush()
    engine.close()
    strangers = [path / "wal" / "notes.wal", path / "data" / "mine" / "a.sst"]
    strangers += [path / "data" / "x" / "y" / "000000000001.sst", path / "MANIFEST-old"]
    for stranger in strangers:
        stranger.parent.mkdir(parents=True, exist_ok=True)
        stranger.write_bytes(b"not of this database")
    manifest = next(each for each in path.glob("MANIFEST-0*"))
    data = bytearray(manifest.read_bytes())
    data[-30] ^= 1
    manifest.write_bytes(data)
    repair(path)
    engine = Engine.open(str(path))
    assert engine.tree("t").get(b"k") == b"v"
    engine.flush()
    engine.close()
    # Below data/ everything is ours, and an open sweeps what no manifest names.
    assert [stranger.exists() for stranger in strangers] == [True, False, False, True]
