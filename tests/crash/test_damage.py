"""A sample of the damage that `python -m tests.crash damage` does to every byte."""

from __future__ import annotations

import logging
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from dynalsm import errors, kv
from dynalsm._core import Engine
from dynalsm._core.repair import LOST, repair, salvage_records
from dynalsm._core.verify import verify
from tests.crash.damage import OPTIONS, Sample, check_damage, damages, make, read_all
from tests.crash.workload import KEY

SEED = 11


@pytest.mark.parametrize("is_closed", [True, False])
def test_damage_is_told_found_and_repaired(
    tmp_path: Path, is_closed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    for key in (None, KEY):
        sample = make(tmp_path / "db", is_closed=is_closed, encryption_key=key)
        outcomes: Counter[str] = Counter()
        for name, damage in damages(sample, random.Random(SEED), 4):
            outcome = check_damage(sample, name, damage, tmp_path / "work")
            if not name.startswith("KEYS"):  # there are two of these
                outcomes[outcome] += 1
        assert outcomes["refused"] > 8 * outcomes["right"]
        shutil.rmtree(tmp_path / "db")


def test_a_sound_database_is_left_alone(tmp_path: Path) -> None:
    sample = make(tmp_path / "db", is_closed=True)
    before = {path: path.read_bytes() for path in sample.files()}
    done = repair(sample.path)
    assert (done.problems, done.lost, done.lost_directory, done.saved) == ([], [], None, 0)
    assert {path: path.read_bytes() for path in sample.files()} == before
    report = verify(sample.path)
    assert report.is_sound
    assert report.entries >= sum(map(len, sample.content.values()))
    assert report.tables == sum(path.suffix == ".sst" for path in sample.files())
    assert report.logs == 2


def test_verify_beside_a_writer(tmp_path: Path) -> None:
    engine = Engine.open(str(tmp_path / "db"), **OPTIONS)
    tree = engine.create_tree("t")
    for number in range(500):
        tree.put(b"%d" % number, b"v" * 50)
    engine.flush()
    seen: list[int] = []
    report = verify(tmp_path / "db", seen.append)
    assert report.is_sound
    assert 0 < seen[-1] <= report.bytes
    engine.close()


def test_what_is_no_database(tmp_path: Path) -> None:
    for tool in (verify, repair):
        with pytest.raises(errors.FormatError, match="no database"):
            tool(tmp_path / "missing")
    with pytest.raises(errors.FormatError, match="no database"):
        verify(tmp_path)


def _flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0x10
    path.write_bytes(data)


def _with_a_damaged_record(tmp_path: Path) -> tuple[Sample, Path]:
    """The second of all records of the oldest log."""
    sample = make(tmp_path / "db", is_closed=True)
    log = min(path for path in sample.files() if path.suffix == ".wal")
    records = list(salvage_records(str(log), int(log.stem)))
    _flip(log, log.read_bytes().index(records[1][2]))
    return sample, log


def test_damaged_log_strict_and_salvaged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sample, log = _with_a_damaged_record(tmp_path)
    with pytest.raises(errors.CorruptionError) as caught:
        Engine.open(str(sample.path), **OPTIONS)
    assert caught.value.path == str(log)
    assert caught.value.offset is not None
    Engine.open(str(sample.path), recovery="salvage", **OPTIONS).close()
    assert str(log) in caplog.text
    assert "lost: commits" in caplog.text
    found = read_all(sample.path)
    lost = sum(
        found[name].get(key) != value
        for name, pairs in sample.content.items()
        for key, value in pairs.items()
    )
    assert lost <= 1
    assert list((sample.path / LOST).rglob("*.wal"))
    caplog.clear()
    Engine.open(str(sample.path), recovery="salvage", **OPTIONS).close()
    assert caplog.text == ""


def test_sequence_numbers_go_on_after_a_repair(tmp_path: Path) -> None:
    sample, _log = _with_a_damaged_record(tmp_path)
    before = max(
        first + count - 1
        for path in sample.files()
        if path.suffix == ".wal"
        for first, count, _ in salvage_records(str(path), int(path.stem))
    )
    repair(sample.path)
    engine = Engine.open(str(sample.path), **OPTIONS)
    assert engine.last_seqno == before
    assert engine.tree("plain").put(b"new", b"value") == before + 1
    engine.close()


def test_repair_needs_the_lock(tmp_path: Path) -> None:
    engine = Engine.open(str(tmp_path / "db"), **OPTIONS)
    with pytest.raises(errors.LockedError):
        repair(tmp_path / "db")
    engine.close()


def test_lost_edits_are_made_up_for_from_the_tables(tmp_path: Path) -> None:
    """The manifest breaks behind its base: every table that is there is merged in."""
    sample = make(tmp_path / "db", is_closed=False)
    (manifest,) = sample.path.glob("MANIFEST-*")
    data = manifest.read_bytes()
    place = data.index(b"\xa7flushed", data.index(b"\xa4tree"))
    _flip(manifest, place)
    with pytest.raises(errors.CorruptionError):
        read_all(sample.path)
    done = repair(sample.path)
    assert any("edits of MANIFEST" in loss for loss in done.lost)
    found = read_all(sample.path, read_only=False)
    for name, pairs in sample.content.items():
        assert pairs.items() <= found[name].items()


def test_kv_repair_and_destroy(tmp_path: Path) -> None:
    path = tmp_path / "kv"
    with kv.DB(path, create_if_missing=True) as db:
        for number in range(100):
            db.put(b"%d" % number, b"v")
        db.compact_range()
        db.put(b"more", b"v")
    (table,) = path.rglob("*.sst")
    shutil.copyfile(table, tmp_path / "table")
    _flip(table, 40)
    with kv.DB(path) as db, pytest.raises(kv.CorruptionError):
        db.get(b"1")
    kv.repair_db(path)
    with kv.DB(path) as db:
        assert db.get(b"more") == b"v"
    kv.destroy_db(path)
    assert not path.exists()
