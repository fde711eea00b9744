"""A checkpoint opens as a database of its own and holds what was committed before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynalsm import errors
from dynalsm._core import Engine


def test_copy_is_whole_and_independent(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path / "db", durability="os")
    tree = engine.create_tree("h", hashed=True)
    for number in range(1000):
        tree.put(bytes([number % 256]) * 8 + b"%d" % number, b"v")
    engine.checkpoint(tmp_path / "copy")
    expected = dict(tree.cursor())
    tree.put(b"after", b"1")
    engine.compact()
    engine.close()
    copy = Engine.open(tmp_path / "copy")
    assert dict(copy.tree("h").cursor()) == expected
    copy.tree("h").put(b"own", b"2")
    copy.close()
    again = Engine.open(tmp_path / "copy")
    assert again.tree("h").get(b"own") == b"2"
    again.close()


def test_existing_directory_is_refused(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path / "db", durability="os")
    (tmp_path / "copy").mkdir()
    with pytest.raises(errors.StorageError, match="exists"):
        engine.checkpoint(tmp_path / "copy")
    engine.close()
