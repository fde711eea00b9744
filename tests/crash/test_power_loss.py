"""Power loss: whatever the disk kept, the next open finds what was promised.

A workload is recorded at the seam below all file operations; its disk is rebuilt as a power cut may
leave it (power.py says how), and each state is opened and compared with the model: acknowledged
commits are there, and what is there is a prefix of the commits. The long version with the figures
of docs/reliability.md is `python -m tests.crash power`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.cuts import (
    Recording,
    Violation,
    check_recording,
    choose_points,
    cuts,
    record,
    record_items,
    record_recovery,
)
from tests.crash.power import KEPT, LOST, Disk, Entry, Node, read_state, write_state
from tests.crash.workload import KEY
from tests.support.scratch import scratch_directory

DURABILITIES = ("commit", "os", "interval")


@pytest.fixture
def work() -> Iterator[str]:
    with scratch_directory() as path:
        yield path


# ---- the disk model itself ----


def crash(disk: Disk, choice: str, model: str = "strict") -> dict[str, bytes | None]:
    return disk.crash(random.Random(1), model, choice)


def test_unsynced_bytes_and_names_may_be_lost() -> None:
    disk = Disk("/r", {})
    disk.apply(("create", "/r/a", None, 0, None))
    disk.apply(("write", "/r/a", None, 0, b"abc"))
    assert crash(disk, LOST) == {}
    assert crash(disk, KEPT) == {"a": b"abc"}
    disk.apply(("sync", "/r/a", None, 0, None))
    assert crash(disk, LOST) == {}  # the strict model: its name was not synced
    assert crash(disk, LOST, "ext4") == {"a": b"abc"}
    disk.apply(("dirsync", "/r", None, 0, None))
    assert crash(disk, LOST) == {"a": b"abc"}


def test_a_rename_is_atomic_and_a_removed_file_may_come_back() -> None:
    disk = Disk("/r", {"old": b"1", "new": b"2"})
    disk.apply(("rename", "/r/old", "/r/new", 0, None))
    seen = {
        tuple(sorted(disk.crash(random.Random(seed), "strict", "mixed").items()))
        for seed in range(50)
    }
    assert seen == {(("new", b"2"), ("old", b"1")), (("new", b"1"),)}
    disk.apply(("remove", "/r/new", None, 0, None))
    assert crash(disk, LOST) == {"old": b"1", "new": b"2"}
    disk.apply(("dirsync", "/r", None, 0, None))
    assert crash(disk, LOST) == {}


def test_a_directory_whose_name_is_lost_is_lost_with_all_in_it() -> None:
    disk = Disk("/r", {})
    disk.apply(("mkdir", "/r/d", None, 0, None))
    disk.apply(("create", "/r/d/a", None, 0, None))
    disk.apply(("dirsync", "/r/d", None, 0, None))
    assert crash(disk, LOST) == {}
    disk.apply(("dirsync", "/r", None, 0, None))
    assert crash(disk, LOST) == {"d": None, "d/a": b""}


def test_a_synced_byte_is_never_changed_and_an_unsynced_sector_has_one_of_its_versions() -> None:
    node = Node()
    node.write(0, b"a" * 1024)
    node.sync()
    node.write(512, b"b" * 512)
    node.write(512, b"c" * 1024)
    for choice in ("mixed", "torn"):
        for seed in range(100):
            content = node.crash(random.Random(seed), choice, 512)
            assert content[:512] == b"a" * 512
            assert content[512:1024] in (b"a" * 512, b"b" * 512, b"c" * 512)
            rest = content[1024:]
            assert rest in (bytes(len(rest)), b"c" * len(rest))


def test_a_state_can_be_written_and_read(tmp_path: Path) -> None:
    state = {"d": None, "d/e": None, "d/e/f": b"1", "g": b""}
    write_state(state, str(tmp_path / "x"))
    assert read_state(str(tmp_path / "x")) == state


# ---- the engine ----


@pytest.mark.parametrize("seed", range(6))
def test_what_a_power_cut_leaves_is_a_prefix_with_all_that_was_acknowledged(
    work: str, seed: int
) -> None:
    rng = random.Random(seed)
    recording = record(work, seed, 60, durability=DURABILITIES[seed % 3], background=seed % 2 == 1)
    if DURABILITIES[seed % 3] == "commit":  # then the log is synced often: zeros are written ahead
        assert any(map(is_zeros, recording.entries))
    assert check_recording(recording, rng, work + "/state", points=60, states=8) > 300


def is_zeros(entry: Entry) -> bool:
    kind, path, _, _, data = entry
    return kind == "write" and path.endswith(".wal") and not any(data or b"x")


@pytest.mark.parametrize("seed", range(3))
def test_recoveries_that_are_cut_off_themselves(work: str, seed: int) -> None:
    # The first crash takes the process or the power; then the recovery (and some more writes) is
    # cut off by the power. What a killed process had not made durable may be lost then, but for
    # what the recovery has shown.
    rng = random.Random(seed)
    recording = record(work, seed, 30, durability=DURABILITIES[seed % 3])
    states = 0
    for cut in cuts(recording, choose_points(rng, len(recording.entries), 15)):
        again = record_recovery(work, recording, cut, rng, rng.choice([0, 0, 8]))
        states += check_recording(again, rng, work + "/state", points=15, states=4)
    assert states > 500


@pytest.mark.parametrize("seed", range(2))
def test_items_indexes_and_stream_agree_after_a_power_cut(work: str, seed: int) -> None:
    rng = random.Random(seed)
    recording = record_items(work, seed, 40, durability=DURABILITIES[seed % 2], background=False)
    assert check_recording(recording, rng, work + "/state", points=25, states=4) >= 100


@pytest.mark.parametrize("seed", range(3))
def test_an_encrypted_database_whose_keys_change(work: str, seed: int) -> None:
    rng = random.Random(seed)
    options = {"durability": DURABILITIES[seed], "background": False, "encryption_key": KEY}
    recording = record(work, seed, 60, **options)
    assert sum(entry[1].endswith("/KEYS.tmp") for entry in recording.entries) > 3  # rotations
    assert check_recording(recording, rng, work + "/state", points=40, states=6) > 200
    items = record_items(work, seed, 25, **options)
    assert check_recording(items, rng, work + "/state", points=15, states=4) >= 50


# ---- the test of the test ----

# Each of the syncs that the engine does, as a program that forgot it would be recorded.
FORGOTTEN = {
    "log": ("sync", r"\.wal$"),
    "directory of the logs": ("dirsync", r"/wal$"),
    "SSTable": ("sync", r"\.sst$"),
    "directory of a partition": ("dirsync", r"/data/\d+/\d+$"),
    "directory of a tree": ("dirsync", r"/data/\d+$"),
    "directory of the trees": ("dirsync", r"/data$"),
    "manifest": ("sync", r"/MANIFEST-\d+$"),
    "CURRENT": ("sync", r"/CURRENT"),
    "directory of the database": ("dirsync", r"/db$"),
    "parent of the database": ("dirsync", ""),
}


@pytest.mark.parametrize("what", FORGOTTEN)
def test_a_forgotten_sync_is_found(work: str, what: str) -> None:
    kind, pattern = FORGOTTEN[what]
    if what.startswith("parent"):
        pattern = re.escape(work) + "$"
    for seed in range(20):
        recording: Recording = record(work, seed, 30)
        entries = [
            each
            for each in recording.entries
            if not (each[0] == kind and re.search(pattern, each[1]))
        ]
        assert len(entries) < len(recording.entries)
        try:
            check_recording(
                recording,
                random.Random(seed),
                work + "/state",
                points=60,
                states=8,
                entries=entries,
            )
        except Violation:
            return
    raise AssertionError("nothing was found missing")
