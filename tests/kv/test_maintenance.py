"""Properties, sizes, compaction, and the functions on closed directories."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dynalsm import kv


def fill(db: kv.DB, count: int = 2000) -> None:
    with db.write_batch() as batch:
        for number in range(count):
            batch.put(b"%06d" % number, b"%06d" % number * 20)


def test_properties(db: kv.DB) -> None:
    fill(db)
    assert db.get_property(b"leveldb.num-files-at-level0") == b"0"
    assert int(db.get_property(b"leveldb.approximate-memory-usage") or 0) > 2000 * 126
    db.flush()
    files = [db.get_property(b"leveldb.num-files-at-level%d" % level) for level in range(7)]
    assert sum(int(count or 0) for count in files) == 1
    assert db.get_property(b"leveldb.num-files-at-level99") is None
    assert db.get_property(b"leveldb.num-files-at-levelx") is None
    assert db.get_property(b"no-such-property") is None
    stats = db.get_property(b"leveldb.stats")
    assert stats is not None and stats.startswith(b"Level  Files  Size(MB)")
    tables = db.get_property(b"leveldb.sstables")
    assert tables is not None and b"--- level 0 ---" in tables and b"[2000 entries]" in tables


def test_approximate_sizes_grow_with_the_range(db: kv.DB) -> None:
    fill(db, 20_000)
    db.flush()
    half, whole, none, inverted = db.approximate_sizes(
        (b"", b"010000"), (b"", b"\xff"), (b"a", b"b"), (b"b", b"a")
    )
    assert none == inverted == 0
    assert 0 < half < whole
    assert 0.3 < half / whole < 0.7
    assert db.approximate_size(b"", b"\xff") == whole
    assert db.approximate_sizes() == []


def test_compaction_drops_what_is_deleted(db: kv.DB) -> None:
    fill(db)
    db.compact_range()
    before = db.approximate_size(b"", b"\xff")
    for number in range(2000):
        db.delete(b"%06d" % number)
    db.compact_range(start=b"", stop=b"x")
    db.compact_range(start=b"5")
    db.compact_range(stop=b"5")
    db.compact_range()
    assert db.approximate_size(b"", b"\xff") < before / 10
    assert list(db) == []


def test_destroy_removes_the_database_and_nothing_else(path: str) -> None:
    kv.destroy_db(path)  # none there: nothing to do
    with kv.DB(path, create_if_missing=True) as db:
        fill(db)
        db.flush()
        with pytest.raises(kv.IOError):
            kv.destroy_db(path)
        assert db.get(b"000001") is not None
    kv.destroy_db(path)
    assert not Path(path).exists()


def test_destroy_keeps_files_of_others(path: str) -> None:
    kv.DB(path, create_if_missing=True).close()
    (Path(path) / "letter.txt").write_text("Dear")
    kv.destroy_db(path)
    assert [each.name for each in Path(path).iterdir()] == ["letter.txt"]
    with pytest.raises(kv.Error, match="no database"):
        kv.destroy_db(path)
    assert (Path(path) / "letter.txt").exists()


def test_repair_of_a_whole_database_keeps_it(path: str) -> None:
    with kv.DB(path, create_if_missing=True) as db:
        fill(db)
        db.flush()
        db.put(b"a", b"1")
    kv.repair_db(path)
    kv.repair_db(path, paranoid_checks=True, write_buffer_size=1 << 20)
    with kv.DB(path) as db:
        assert len(list(db)) == 2001


def damaged_copy(path: str) -> tuple[Path, Path]:
    """A directory as a crash leaves it, with a bad sector in the middle of its log; and the log."""
    copy = Path(path).with_name("damaged")
    with kv.DB(path, create_if_missing=True) as db:
        for number in range(1000):
            db.put(b"%06d" % number, b"x" * 100, sync=number % 100 == 99)
        shutil.copytree(path, copy)
    log = max((copy / "wal").iterdir())
    content = bytearray(log.read_bytes())
    content[60_000:60_512] = bytes(512)
    log.write_bytes(content)
    return copy, log


def test_repair_saves_what_is_whole_of_a_damaged_log(path: str) -> None:
    copy = damaged_copy(path)[0]
    kv.repair_db(str(copy))
    with kv.DB(str(copy)) as db:
        saved = list(db.iterator(include_value=False))
    lost = {b"%06d" % number for number in range(1000)} - set(saved)
    assert 1 <= len(lost) <= 5  # those of the bad sector


def test_damage_is_told(path: str) -> None:
    copy, log = damaged_copy(path)
    with pytest.raises(kv.CorruptionError) as caught:
        kv.DB(str(copy))
    assert caught.value.path == str(log)
    assert caught.value.offset is not None and caught.value.offset <= 60_000


def test_repair_needs_a_closed_database(db: kv.DB, path: str, tmp_path: Path) -> None:
    with pytest.raises(kv.LockedError):
        kv.repair_db(path)
    with pytest.raises(kv.Error):
        kv.repair_db(tmp_path / "none")
