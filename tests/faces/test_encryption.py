"""Encryption at rest through every face: what opens, what is refused, and what is on the disk."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

import dynalsm
from dynalsm import Database, errors, kv
from dynalsm._core.verify import verify
from tests.faces.conftest import MUSIC
from tests.support.processes import ServeProcess, run_cli

KEY, OTHER = bytes(range(32)), bytes(range(100, 132))
# Texts that no file may show: names, keys, values, in tables, indexes, streams and tokens.
SECRETS = b"Artist SongTitle Music Tangerine Phaedra Moog tag-value ByYear".split()


def fill(database: Database, first: int = 0, count: int = 30) -> None:
    for number in range(first, first + count):
        item = {
            "Artist": {"S": "Tangerine"},
            "SongTitle": {"S": f"Phaedra {number:04}"},
            "Year": {"N": "1974"},
            "Instruments": {"SS": ["Moog", "Mellotron"]},
            "Text": {"S": "Moog " * 20},
        }
        database.call("PutItem", {"TableName": "Music", "Item": item})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An encrypted database with tables, logs, a backup, a base and a stream."""
    path = tmp_path / "shop.db"
    with dynalsm.open(path, encryption_key=KEY, bucket_root=str(tmp_path)) as db:
        stream = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
        tags = [{"Key": "tag-key", "Value": "tag-value"}]
        db.call("CreateTable", {**MUSIC, "StreamSpecification": stream, "Tags": tags})
        fill(db)
        db.flush()
        db.compact()
        fill(db, 30, 10)
        db.call("CreateBackup", {"TableName": "Music", "BackupName": "Tangerine"})
        recovery = {"PointInTimeRecoveryEnabled": True}
        db.call(
            "UpdateContinuousBackups",
            {"TableName": "Music", "PointInTimeRecoverySpecification": recovery},
        )
        fill(db, 40, 5)
        put = {"TableName": "Music", "Item": {"Artist": {"S": "Moog"}, "SongTitle": {"S": "t"}}}
        actions = {"ClientRequestToken": "Tangerine-token", "TransactItems": [{"Put": put}]}
        db.call("TransactWriteItems", actions)
    return path


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    file = tmp_path / "key"
    file.write_text(KEY.hex())
    file.chmod(0o600)
    return file


def count(path: Path, **options: Any) -> int:
    with dynalsm.open(path, **options) as db:
        return int(db.call("Scan", {"TableName": "Music", "Select": "COUNT"})["Count"])


def unpacked(data: bytes) -> bytes:
    """The file, and whatever in it is a frame of zstd."""
    found = [data]
    at = data.find(zstandard.FRAME_HEADER)
    while at >= 0:
        try:
            found.append(zstandard.ZstdDecompressor().decompress(data[at:], 1 << 22))
        except zstandard.ZstdError:
            pass
        at = data.find(zstandard.FRAME_HEADER, at + 1)
    return b"".join(found)


def files(path: Path) -> list[Path]:
    return sorted(each for each in path.rglob("*") if each.is_file())


def shown(path: Path) -> dict[bytes, str]:
    """The secrets that can be read in the files, and where."""
    return {
        secret: str(file.relative_to(path))
        for file in files(path)
        for secret in SECRETS
        if secret in unpacked(file.read_bytes())
    }


def test_nothing_can_be_read_on_the_disk(path: Path, tmp_path: Path) -> None:
    assert {each.suffix for each in files(path)} >= {".sst", ".wal", ".base", ".copy"}
    assert shown(path) == {}
    with dynalsm.open(path, encryption_key=KEY) as db:
        db.checkpoint(tmp_path / "copy")
        fill(db, 100, 200)
        assert shown(path) == {}  # while it is open
        assert shown(tmp_path / "copy") == {}
    # The test of the test.
    with dynalsm.open(tmp_path / "plain") as db:
        db.call("CreateTable", MUSIC)
        fill(db)
        db.flush()
        assert set(shown(tmp_path / "plain")) >= {b"Artist", b"Tangerine", b"Moog"}


def test_with_its_key_it_is_as_any_database(path: Path, tmp_path: Path, key_file: Path) -> None:
    for given in (KEY, bytearray(KEY), key_file, str(key_file), lambda: KEY):
        assert count(path, encryption_key=given) == 46
    with (
        dynalsm.open(path, encryption_key=KEY, bucket_root=str(tmp_path)) as db,
        dynalsm.open(path, encryption_key=KEY, read_only=True) as view,
    ):
        assert db.verify() == []
        assert view.Table("Music").item_count == 46
        db.checkpoint(tmp_path / "copy")
        (backup,) = db.call("ListBackups", {})["BackupSummaries"]
        db.call(
            "RestoreTableFromBackup",
            {"TargetTableName": "Again", "BackupArn": backup["BackupArn"]},
        )
        db.call(
            "RestoreTableToPointInTime",
            {
                "SourceTableName": "Music",
                "TargetTableName": "Later",
                "UseLatestRestorableTime": True,
            },
        )
        db.client.get_waiter("table_exists").wait(TableName="Again")
        db.client.get_waiter("table_exists").wait(TableName="Later")
        assert db.call("Scan", {"TableName": "Again"})["Count"] == 40
        assert db.call("Scan", {"TableName": "Later"})["Count"] == 46
        assert len(list(db.Table("Music").changes(start="TRIM_HORIZON"))) == 46
    assert count(tmp_path / "copy", encryption_key=KEY) == 46


WRONG: dict[str, Any] = {
    "no key": {},
    "another key": {"encryption_key": OTHER},
    "a short key": {"encryption_key": b"short"},
    "no key file": {"encryption_key": "/nonexistent/key"},
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("read_only", [False, True])
def test_a_wrong_key_is_refused_and_nothing_changes(path: Path, what: str, read_only: bool) -> None:
    before = {file: file.read_bytes() for file in files(path)}
    with pytest.raises((errors.EncryptionError, ValueError)) as caught:
        dynalsm.open(path, read_only=read_only, **WRONG[what])
    assert str(caught.value)
    after = {file: file.read_bytes() for file in files(path) if not file.name.startswith("LOCK")}
    assert after.items() <= before.items()
    assert count(path, encryption_key=KEY) == 46


def test_a_plain_database_and_a_key(tmp_path: Path) -> None:
    with dynalsm.open(tmp_path / "plain") as db:
        db.call("CreateTable", MUSIC)
        fill(db)
    with pytest.raises(errors.EncryptionError, match="is not encrypted"):
        dynalsm.open(tmp_path / "plain", encryption_key=KEY)
    assert not list((tmp_path / "plain").glob("KEYS*"))
    assert count(tmp_path / "plain") == 30


def test_keys_of_another_database(path: Path, tmp_path: Path) -> None:
    with dynalsm.open(tmp_path / "other", encryption_key=KEY) as db:
        db.call("CreateTable", MUSIC)
    for name in ("KEYS", "KEYS.copy"):
        shutil.copy(tmp_path / "other" / name, path / name)
    with pytest.raises(errors.EncryptionError, match="not in KEYS"):
        dynalsm.open(path, encryption_key=KEY)


def test_lost_keys(path: Path, tmp_path: Path) -> None:
    shutil.copytree(path, tmp_path / "one")
    (tmp_path / "one" / "KEYS").unlink()
    assert count(tmp_path / "one", encryption_key=KEY) == 46
    kept = {(tmp_path / "one" / name).read_bytes() for name in ("KEYS", "KEYS.copy")}
    assert len(kept) == 1  # made again, both
    for name in ("KEYS", "KEYS.copy"):
        (path / name).unlink()
    with pytest.raises(errors.EncryptionError, match="KEYS is missing"):
        dynalsm.open(path, encryption_key=KEY)


def test_a_plain_file_in_the_place_of_a_sealed_one(path: Path, tmp_path: Path) -> None:
    """Who can write to the directory cannot make the database read what he made."""
    with dynalsm.open(tmp_path / "plain") as db:
        db.call("CreateTable", MUSIC)
        fill(db)
        db.flush()
    (table, *_) = [file for file in files(tmp_path / "plain") if file.suffix == ".sst"]
    target = max(path.glob("data/*/*/*.sst"), key=lambda file: file.stat().st_size)
    target.write_bytes(table.read_bytes())
    with pytest.raises(errors.StorageError), dynalsm.open(path, encryption_key=KEY) as db:
        db.call("Scan", {"TableName": "Music"})
    report = verify(path, encryption_key=KEY)
    assert not report.is_sound


def test_changing_the_keys(path: Path) -> None:
    with dynalsm.open(path, encryption_key=KEY) as db:
        db.rotate_key(OTHER)
        assert db.stats()["encryption"]["data_keys"] == 1
        db.rotate_data_key()
        assert db.stats()["encryption"] == {"data_keys": 2, "old_key_files": 0}
        fill(db, 200, 5)
        with dynalsm.open(path, encryption_key=OTHER, read_only=True) as view:
            assert view.call("Scan", {"TableName": "Music"})["Count"] == 51
    with pytest.raises(errors.EncryptionError, match="not the database's encryption key"):
        dynalsm.open(path, encryption_key=KEY)
    assert count(path, encryption_key=OTHER) == 51
    with dynalsm.open(path, encryption_key=OTHER) as db:  # backups keep the data keys they have
        (backup,) = db.call("ListBackups", {})["BackupSummaries"]
        db.call(
            "RestoreTableFromBackup",
            {"TargetTableName": "Again", "BackupArn": backup["BackupArn"]},
        )
        db.client.get_waiter("table_exists").wait(TableName="Again")
        assert db.call("Scan", {"TableName": "Again"})["Count"] == 40


def test_only_an_encrypted_database_has_keys_to_change(tmp_path: Path) -> None:
    with dynalsm.open(tmp_path / "plain") as db:
        for change in (lambda: db.rotate_key(KEY), db.rotate_data_key):
            with pytest.raises(errors.EncryptionError, match="is not encrypted"):
                change()


def test_keys_are_in_no_message_and_no_log(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    texts = []
    with caplog.at_level(logging.DEBUG), dynalsm.open(path, encryption_key=KEY) as db:
        texts += [repr(db), repr(db.engine), repr(db.engine.keys), repr(db.stats())]
        db.rotate_data_key()
    for given in (OTHER, OTHER[:5]):
        with pytest.raises(Exception) as caught:
            dynalsm.open(path, encryption_key=given)
        texts.append(repr(caught.value))
    texts.append(caplog.text)
    for text in texts:
        for key in (KEY, OTHER):
            assert key.hex() not in text
            assert repr(key)[2:20] not in text


def test_a_store_of_bytes(tmp_path: Path, key_file: Path) -> None:
    path = str(tmp_path / "kv")
    with kv.DB(path, create_if_missing=True, encryption_key=key_file) as db:
        db.put(b"Tangerine", b"Phaedra")
        db.flush()
        db.put(b"Moog", b"Phaedra")
    assert shown(tmp_path / "kv") == {}
    for wrong in (None, OTHER):
        with pytest.raises(kv.EncryptionError):
            kv.DB(path, encryption_key=wrong)
    with pytest.raises(kv.EncryptionError):
        kv.repair_db(path)
    kv.repair_db(path, encryption_key=KEY)
    with kv.DB(path, encryption_key=KEY) as db:
        assert list(db) == [(b"Moog", b"Phaedra"), (b"Tangerine", b"Phaedra")]
    kv.destroy_db(path)
    assert not os.path.exists(path)


def test_without_the_package(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers", None)
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(errors.EncryptionError, match=r"pip install 'dynalsm\[encryption\]'"):
        dynalsm.open(path, encryption_key=KEY)


# ------------------------------------------------------------------------------- command line


def cli(key_file: Path | None, *arguments: str | Path) -> Any:
    given = [] if key_file is None else ["--encryption-key-file", key_file]
    return run_cli(*given, *arguments)


def test_commands(path: Path, tmp_path: Path, key_file: Path) -> None:
    refused = cli(None, "tables", path)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("dynalsm: the database is encrypted: give its key")
    done = cli(key_file, "tables", path)
    assert done.returncode == 0
    assert "Music" in done.stdout
    for command in (
        ("get", path, "Music", '{"Artist": "Moog", "SongTitle": "t"}'),
        ("scan", path, "Music", "--limit", "2"),
        ("sql", path, "-c", "SELECT SongTitle FROM Music WHERE Artist = 'Moog'"),
        ("stats", path),
        ("verify", path),
        ("repair", path),
        ("compact", path),
        ("backup", path, "Music"),
        ("checkpoint", path, tmp_path / "copy"),
        ("export", path, "Music", tmp_path / "songs.jsonl"),
        ("import", tmp_path / "new.db", "Music", tmp_path / "songs.jsonl", "--key", "Artist:S",
         "--key", "SongTitle:S"),
    ):  # fmt: skip
        done = cli(key_file, *command)
        assert done.returncode == 0, (command, done.stderr)
        assert KEY.hex() not in done.stdout + done.stderr
    assert shown(path) == shown(tmp_path / "copy") == shown(tmp_path / "new.db") == {}
    assert count(tmp_path / "new.db", encryption_key=KEY) == 46


def test_a_server(path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNALSM_ENCRYPTION_KEY_FILE", str(key_file))
    with ServeProcess(path) as server, dynalsm.open(server.url) as remote:
        assert remote.Table("Music").scan(Select="COUNT")["Count"] == 46
        remote.Table("Music").put_item(Item={"Artist": "Moog", "SongTitle": "served"})
    assert count(path, encryption_key=KEY) == 47
    assert shown(path) == {}


def test_changing_keys_by_command(path: Path, tmp_path: Path, key_file: Path) -> None:
    made = run_cli("new-key", tmp_path / "new")
    assert made.returncode == 0
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600
    again = run_cli("new-key", tmp_path / "new")
    assert again.returncode == 1
    assert "exists" in again.stderr
    assert cli(key_file, "rotate-key", path).returncode == 1  # says what to give
    done = cli(key_file, "rotate-key", path, "--new-key-file", tmp_path / "new", "--data")
    assert done.returncode == 0, done.stderr
    assert cli(key_file, "tables", path).returncode == 1
    assert cli(tmp_path / "new", "tables", path).returncode == 0
    assert "data keys" not in cli(tmp_path / "new", "verify", path).stderr
    key_file.chmod(0o644)
    loose = cli(key_file, "tables", path)
    assert (loose.returncode, "chmod 600" in loose.stderr) == (1, True)


MOMENTS: dict[str, Callable[[Database], Any]] = {
    "rotate_data_key": lambda db: db.rotate_data_key(),
    "compact": lambda db: db.compact(),
}


@pytest.mark.parametrize("what", MOMENTS)
def test_a_full_disk_while_everything_is_written_anew(path: Path, what: str) -> None:
    import errno

    from dynalsm._core import seam

    with dynalsm.open(path, encryption_key=KEY, durability="os") as db:
        fill(db, 300, 50)
        seam.set_fault("write", 1, errno.ENOSPC, for_ever=True, path="/shop.db/data")
        try:
            with pytest.raises(errors.NoSpaceError):
                MOMENTS[what](db)
            assert db.call("Scan", {"TableName": "Music", "Select": "COUNT"})["Count"] == 96
        finally:
            seam.clear_fault()
        db.resume()
        if what == "rotate_data_key":
            db.rotate_data_key(resume=True)
            assert db.stats()["encryption"]["old_key_files"] == 0
        else:
            MOMENTS[what](db)
    assert count(path, encryption_key=KEY) == 96
