"""`dynalsm verify`, `dynalsm repair`, and what Database offers of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dynalsm
from dynalsm.database import Database
from tests.support.processes import run_cli

TABLE = {
    "TableName": "Things",
    "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}],
    "AttributeDefinitions": [
        {"AttributeName": "p", "AttributeType": "S"},
        {"AttributeName": "g", "AttributeType": "S"},
    ],
    "BillingMode": "PAY_PER_REQUEST",
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "by-g",
            "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}],
            "Projection": {"ProjectionType": "ALL"},
        }
    ],
}


def make(path: Path) -> Database:
    database = dynalsm.open(path)
    table = database.create_table(**TABLE)
    for number in range(200):
        table.put_item(Item={"p": str(number), "g": str(number % 7), "v": "x" * 50})
    table.put_item(Item={"p": "without", "v": "y"})  # not in the index
    return database


def hurt_the_index(database: Database) -> None:
    """One entry is gone, one is too many, one says something else."""
    handle = database.catalog.get("Things")
    assert handle is not None
    tree = handle.indexes["by-g"].tree
    entries = list(tree.cursor())
    tree.delete(entries[0][0])
    tree.put(entries[1][0] + b"more", entries[1][1])
    tree.put(entries[2][0], entries[2][1][:-1] + b"?")


def test_indexes_are_held_against_their_tables(tmp_path: Path) -> None:
    with make(tmp_path / "db") as database:
        assert database.verify() == []
        hurt_the_index(database)
        found = database.index_differences()
        assert sorted(one.what for one in found) == ["different", "missing", "stale"]
        assert all("by-g of table Things" in text for text in database.verify())
        assert database.mend_indexes() == found
        assert database.verify() == []
        assert database.Table("Things").scan(IndexName="by-g")["Count"] == 200


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0x10
    path.write_bytes(data)


def test_the_commands_on_a_damaged_database(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with make(path) as database:
        database.flush()
    sound = run_cli("verify", path)
    assert sound.returncode == 0, sound.stderr
    assert "sound" in sound.stdout
    assert "nothing to repair" in run_cli("repair", path).stdout
    victim = max(path.rglob("*.sst"), key=lambda table: table.stat().st_size)
    flip(victim, 100)
    bad = run_cli("verify", path)
    assert bad.returncode == 1
    assert f"{victim} at byte" in bad.stdout.replace("\n", "")
    assert "1 problems" in bad.stdout
    told = json.loads(run_cli("verify", path, "--json").stdout)
    assert told["problems"][0]["path"] == str(victim)
    assert told["problems"][0]["offset"] is not None
    done = run_cli("repair", path)
    assert done.returncode == 0, done.stderr
    assert "lost: " in done.stdout
    assert list((path / "lost").rglob("*.sst"))
    assert run_cli("verify", path).returncode == 0
    with dynalsm.open(path) as database:
        count = database.Table("Things").scan()["Count"]
        assert 0 < count <= 201
        assert database.Table("Things").scan(IndexName="by-g")["Count"] in (count, count - 1)


def test_repair_tells_as_json(tmp_path: Path) -> None:
    with make(tmp_path / "db") as database:
        hurt_the_index(database)
    told = json.loads(run_cli("repair", tmp_path / "db", "--json").stdout)
    assert told["problems"] == told["lost"] == []
    assert told["mended_index_entries"] == 3


@pytest.mark.parametrize("command", ["verify", "repair"])
def test_what_is_no_database(tmp_path: Path, command: str) -> None:
    (tmp_path / "note").write_text("mine")
    for place in (tmp_path, tmp_path / "missing"):
        refused = run_cli(command, place)
        assert refused.returncode == 1
        assert "there is no database here" in refused.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["note"]
    refused = run_cli(command, "http://localhost:8000")
    assert refused.returncode == 1
    assert "needs a database directory" in refused.stderr


def test_repair_beside_a_writer_is_refused(tmp_path: Path) -> None:
    with make(tmp_path / "db"):
        assert run_cli("verify", tmp_path / "db").returncode == 0
        refused = run_cli("repair", tmp_path / "db")
    assert refused.returncode == 1
    assert "process" in refused.stderr
