"""The commands that move whole tables: backup, restore, recovery, export, import."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import dynalsm
from dynalsm.cli import output
from dynalsm.cli.app import run
from tests.faces.conftest import MUSIC, fill


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with the Music table and five songs."""
    path = tmp_path / "shop.db"
    with dynalsm.open(path, durability="os") as database:
        fill(database.create_table(**MUSIC), 5)
    return path


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output.console, "_width", 200)
    monkeypatch.setattr(output.errors_console, "_width", 200)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command that must succeed (or fail with `code`); returns what it printed."""

    def call(*arguments: str | Path, code: int = 0) -> str:
        ended = run([str(argument) for argument in arguments])
        printed = "".join(capsys.readouterr())
        assert ended == code, printed
        return printed

    return call


def items(path: Path, name: str) -> list[Any]:
    with dynalsm.open(path, read_only=True) as database:
        found = [*database.Table(name).scan_items()]
    return sorted(found, key=str)


def test_backup_list_restore_delete(path: Path, cli: Any) -> None:
    assert "no backups" in cli("backup", path)
    made = json.loads(cli("backup", path, "Music", "--name", "nightly", "--json"))
    assert (made["BackupName"], made["BackupStatus"]) == ("nightly", "AVAILABLE")
    listed = cli("backup", path, "--verify")
    backup_id = made["BackupArn"].rpartition("/")[2]
    assert backup_id in listed
    assert "5 items" in cli("restore", path, backup_id, "Again")
    assert items(path, "Again") == items(path, "Music")
    # The file alone is enough, in any database.
    (file,) = (path / "backups").glob("*.backup")
    other = path.parent / "other.db"
    with dynalsm.open(other):
        pass
    cli("restore", other, file, "Music")
    assert items(other, "Music") == items(path, "Music")
    cli("restore", path, made["BackupArn"], "Again", code=1)
    cli("backup", path, "--delete", backup_id)
    assert json.loads(cli("backup", path, "--json") or "[]") == []
    assert "dynalsm: " in cli("backup", path, "Nope", code=1)


def test_recovery_to_a_time_and_to_a_number(path: Path, cli: Any) -> None:
    assert cli("recovery", path, "Music").strip() == "Music: DISABLED"
    assert "Music: ENABLED, from 2" in cli("recovery", path, "Music", "--on", "--days", "2")
    before = items(path, "Music")
    with dynalsm.open(path) as database:
        number = database.engine.last_seqno
        for item in before:
            database.Table("Music").delete_item(
                Key={name: item[name] for name in ("Artist", "SongTitle")}
            )
    assert "0 items" in cli("restore", path, "Music", "Latest")
    assert "5 items" in cli("restore", path, "Music", "Old", "--sequence-number", number)
    assert items(path, "Old") == before
    # As a stream record writes it.
    cli("restore", path, "Music", "Same", "--sequence-number", f"1{number:020d}")
    assert "does not reach it" in cli(
        "restore", path, "Music", "Never", "--sequence-number", "1", code=1
    )
    assert "InvalidRestoreTimeException" in cli(
        "restore", path, "Music", "Never", "--at", "2001-01-01", code=1
    )
    assert "Music: DISABLED" in cli("recovery", path, "Music", "--off")


@pytest.mark.parametrize("kind", ["json", "ion"])
def test_export_and_import(path: Path, cli: Any, kind: str) -> None:
    out = path.parent / "out"
    assert "5 items" in cli("export", path, "Music", out, "--format", kind)
    (file,) = out.glob(f"AWSDynamoDB/*/data/*.{kind}.gz")
    assert len(gzip.decompress(file.read_bytes()).splitlines()) == 5
    keys = ["--key", "Artist:S", "--key", "SongTitle:S"]
    # The directory as a whole, and one file of it.
    assert "5 items imported" in cli("import", path, "Again", out, *keys)
    assert items(path, "Again") == items(path, "Music")
    cli("import", path.parent / "new.db", "Music", file, *keys)
    assert items(path.parent / "new.db", "Music") == items(path, "Music")
    assert "there is no table Nope" in cli("export", path, "Nope", out, code=1)
    refused = cli("export", path, "Music", out, "--format", "x", code=1)
    assert "--format is json, ion, lines, csv, parquet, not x" in refused


def test_import_of_csv(path: Path, cli: Any) -> None:
    file = path.parent / "songs.csv"
    file.write_text("A;1;x\nB;no;y\n")
    arguments = ["import", path, "Songs", file, "--key", "a:S", "--key", "n:N"]
    printed = cli(*arguments, "--header", "a,n,t", "--delimiter", ";", code=1)
    assert "1 items imported" in printed
    assert "1 errors" in printed
    assert "songs.csv record 2: " in printed
    assert items(path, "Songs") == [{"a": "A", "n": 1, "t": "x"}]
    assert "--key is an attribute and its type" in cli(
        "import", path, "More", file, "--key", "a", code=1
    )
    (path.parent / "songs.dat").write_text("x")
    assert "say --format" in cli(
        "import", path, "More", path.parent / "songs.dat", "--key", "a:S", code=1
    )
