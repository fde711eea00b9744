"""docs/format-encryption.md is enough to read an encrypted database, given its key."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidTag

import dynalsm
from dynalsm._core import Engine
from tests.format import backup
from tests.format.database import read_database
from tests.format.encryption import Keys
from tests.format.test_database_reader import SMALL, contents, write_some
from tests.support.store import N, S, table

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))


def test_the_page_is_enough(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path / "db", encryption_key=KEY, **SMALL)
    engine.create_tree("raw")
    engine.create_tree("hashed", hashed=True)
    for seed in range(3):
        write_some(engine, seed=seed)
        engine.flush()
        engine.keys.add_key()
    engine.compact(engine.tree("raw"))
    write_some(engine, seed=4)  # in the log
    expected = contents(engine)
    shutil.copytree(engine.path, tmp_path / "killed")
    engine.close()
    for path in (tmp_path / "db", tmp_path / "killed"):
        assert read_database(path, KEY) == expected
        assert len(Keys(path, KEY).keys) == 4
        assert Keys(path, KEY, "KEYS.copy").keys == Keys(path, KEY).keys


def test_after_the_keys_were_changed(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path / "db", encryption_key=KEY, **SMALL)
    engine.create_tree("raw")
    engine.create_tree("hashed", hashed=True)
    write_some(engine, seed=1)
    engine.rotate_data_key()
    engine.rotate_key(OTHER)
    expected = contents(engine)
    engine.close()
    with pytest.raises(InvalidTag):
        read_database(tmp_path / "db", KEY)
    assert read_database(tmp_path / "db", OTHER) == expected
    again = Engine.open(tmp_path / "db", encryption_key=OTHER, **SMALL)
    assert contents(again) == expected
    again.close()


def test_bases_of_recovery(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with dynalsm.open(path, encryption_key=KEY) as db:
        db.call("CreateTable", table("items", "p s", "p:S s:N"))
        for number in range(30):
            db.call("PutItem", {"TableName": "items", "Item": {"p": S("a"), "s": N(number)}})
        enabled = {"PointInTimeRecoveryEnabled": True}
        db.call(
            "UpdateContinuousBackups",
            {"TableName": "items", "PointInTimeRecoverySpecification": enabled},
        )
    (base,) = path.glob("backups/pitr/*/*.base")
    description, entries, totals = backup.read(base.read_bytes(), Keys(path, KEY))
    assert description["content"] == "base"
    assert len(entries) == totals["items"] == 30
