"""Backup files: docs/format-backup.md is all that is needed to read one; damage is always found."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import dynalsm
from dynalsm import errors
from dynalsm.model import backup, backup_file, pitr
from dynalsm.model import schema as schemas
from dynalsm.model.backup_file import BackupFile, Stopped, Totals
from tests.format import backup as page
from tests.format.database import read_database
from tests.format.log import Damage
from tests.support.store import N, S, table


def write(path: Path, entries: list[tuple[bytes, bytes]], block: int = 10, **more: Any) -> Totals:
    chunks = [entries[first : first + block] for first in range(0, len(entries), block)]
    return backup_file.write(str(path), {"content": "backup"}, chunks, len, **more)


def test_the_page_is_enough(tmp_path: Path) -> None:
    with dynalsm.open(tmp_path / "db", durability="os") as db:
        db.call("CreateTable", table("Music", "p s", "p:S s:N"))
        specification = {"PointInTimeRecoveryEnabled": True}
        for number in range(2000):
            item = {"p": S("p"), "s": N(number), "data": S("x" * 200)}
            db.call("PutItem", {"TableName": "Music", "Item": item})
        call = {"TableName": "Music", "PointInTimeRecoverySpecification": specification}
        db.call("UpdateContinuousBackups", call)
        reply = db.call("CreateBackup", {"TableName": "Music", "BackupName": "nightly"})
        made = backup.of(db).path(reply["BackupDetails"]["BackupArn"].rpartition("/")[2])
        handle = db.catalog.get("Music")
        (base,) = pitr.bases(db.catalog, handle.schema.id)
        description, entries, _ = page.read((Path(made) / "about").read_bytes())
        assert entries == []
        assert description["items"] == 2000
        assert description["size_bytes"] == handle.statistics.bytes
        assert description["tree"] == handle.tree.name
        assert description["seqno"] <= db.engine.last_seqno
        held = read_database(Path(made) / "data")
        assert held == {handle.tree.name: dict(handle.tree.cursor())}
        assert (description["content"], description["kind"]) == ("backup", "USER")
        assert (description["name"], description["expires_at"]) == ("nightly", None)
        assert schemas.unpack(description["schema"]).name == "Music"
        path = Path(pitr._base_path(db, handle.schema.id, base))
        description, entries, _ = page.read(path.read_bytes())
        assert (description["content"], description["seqno"]) == ("base", base.seqno)
        assert description["milliseconds"] == base.milliseconds
        assert len(entries) == 2000


@pytest.mark.parametrize("count", [0, 1, 10, 11, 95])
def test_both_readers_agree(tmp_path: Path, count: int) -> None:
    entries = [(b"%04d" % number, b"v" * number) for number in range(count)]
    totals = write(tmp_path / "a", entries)
    assert totals == Totals(count, sum(range(count)))
    with BackupFile(str(tmp_path / "a")) as file:
        assert [entry for chunk in file.chunks() for entry in chunk] == entries
        assert file.verify() == file.totals == totals
        assert file.description == {"content": "backup"}
    assert page.read((tmp_path / "a").read_bytes())[1] == entries


def test_every_damaged_byte_is_found(tmp_path: Path) -> None:
    write(tmp_path / "a", [(b"%04d" % number, bytes([number])) for number in range(25)])
    whole = (tmp_path / "a").read_bytes()
    for place in range(len(whole)):
        broken = bytearray(whole)
        broken[place] ^= 0x40
        assert_damaged(tmp_path / "b", bytes(broken))
    for size in range(len(whole)):
        assert_damaged(tmp_path / "b", whole[:size])
    assert_damaged(tmp_path / "b", whole + b"\x00")


def test_garbage_is_no_backup(tmp_path: Path) -> None:
    chance = random.Random(1)
    for size in (0, 7, 63, 64, 200, 5000):
        assert_damaged(tmp_path / "b", chance.randbytes(size))
        assert_damaged(tmp_path / "b", backup_file.MAGIC + chance.randbytes(size))


def assert_damaged(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises((errors.CorruptionError, errors.FormatError)), BackupFile(str(path)) as file:
        file.verify()
    with pytest.raises((Damage, Exception)):
        page.read(content)


def test_blocks_that_change_places_are_found(tmp_path: Path) -> None:
    """Each is whole, but not at its place: the checksum covers the offset."""
    write(tmp_path / "a", [(b"%04d" % number, b"v") for number in range(20)])
    whole = (tmp_path / "a").read_bytes()
    first = 64 + int.from_bytes(whole[20:24], "little")
    size = 16 + int.from_bytes(whole[first : first + 4], "little")
    blocks = whole[first : first + size], whole[first + size : first + 2 * size]
    swapped = whole[:first] + blocks[1] + blocks[0] + whole[first + 2 * size :]
    assert len(swapped) == len(whole)
    assert swapped != whole
    assert_damaged(tmp_path / "b", swapped)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a", [])
    content = bytearray((tmp_path / "a").read_bytes())
    content[12] = 2
    content[60:64] = backup_file.crc32c(bytes(content[:60])).to_bytes(4, "little")
    (tmp_path / "a").write_bytes(bytes(content))
    with pytest.raises(errors.FormatError, match="needs a reader of format 2"):
        BackupFile(str(tmp_path / "a"))


def test_a_write_that_stops_or_fails_leaves_nothing(tmp_path: Path) -> None:
    entries = [(b"a", b"b")]
    with pytest.raises(Stopped):
        write(tmp_path / "a", entries, should_stop=lambda: True)

    def broken() -> Any:
        yield entries
        raise errors.StorageError("no")

    with pytest.raises(errors.StorageError):
        backup_file.write(str(tmp_path / "a"), {}, broken(), len)
    assert list(tmp_path.iterdir()) == []
