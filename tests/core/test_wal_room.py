"""Zeros written ahead of a log's records: when, where, and that nothing rests on them."""

from __future__ import annotations

import errno
import os
import random
import threading

import pytest

from dynalsm import errors
from dynalsm._core import seam, wal
from tests.crash.power import Disk, write_state

OFTEN = 16  # syncs, before a log counts as one that is synced often
UNIT = 16 << 10
AHEAD = 256 << 10
SMALL = b"\x5a" * 100


@pytest.fixture
def path(tmp_path):
    yield str(tmp_path / "000000000007.wal")
    seam.clear_fault()
    seam.stop_recording()


def append(writer, payload):
    writer.append(payload, writer.size)  # numbers that grow


def append_synced(writer, count, payload=SMALL):
    for _ in range(count):
        append(writer, payload)
        writer.sync()


def zeros_of(entries):
    """The (offset, size) of what was written as zeros."""
    return [
        (offset, len(data))
        for kind, _, _, offset, data in entries
        if kind == "write" and not any(data)
    ]


def recorded(writer, count, payload=SMALL):
    seam.start_recording()
    append_synced(writer, count, payload)
    return seam.stop_recording()


def is_whole(path, payloads):
    log = wal.read_log(path)
    return ([each.payload for each in log.records], log.torn) == (payloads, False)


def test_a_log_that_is_synced_often_has_zeros_ahead(path):
    # In units, each behind the one before, all behind the last record; and the file reaches there.
    writer = wal.LogWriter(path, 7)
    zeros = zeros_of(recorded(writer, OFTEN))
    assert zeros == [(UNIT * (index + 1), UNIT) for index in range(len(zeros))]
    assert writer.size + AHEAD <= writer.ready < writer.size + AHEAD + UNIT
    assert os.path.getsize(path) == writer.allocated >= writer.ready
    assert is_whole(path, [SMALL] * OFTEN)


def test_a_log_that_is_seldom_synced_has_none(path):
    writer = wal.LogWriter(path, 7)
    assert zeros_of(recorded(writer, OFTEN - 1)) == []
    for _ in range(1000):
        append(writer, SMALL)
    assert writer.ready == (writer.size + UNIT - 1) // UNIT * UNIT


def test_large_records_are_not_written_twice(path):
    assert zeros_of(recorded(wal.LogWriter(path, 7), 2 * OFTEN, bytes([7]) * (32 << 10))) == []


def test_zeros_are_written_by_the_quarter_of_a_mebibyte(path):
    # Most syncs cover records and nothing else.
    writer = wal.LogWriter(path, 7)
    append_synced(writer, OFTEN)
    payload, count = bytes([7]) * 10_000, 100
    entries = recorded(writer, count, payload)
    turns = "".join("z" if not any(entry[4] or b"x") else entry[0][0] for entry in entries)
    turns = [turn for turn in turns.replace("a", "").split("s") if "z" in turn]
    assert len(turns) == count * 10_032 // AHEAD + 1
    assert all(turn.lstrip("z") in ("", "w") for turn in turns)
    written = sum(size for _, size in zeros_of(entries))
    assert count * 10_032 - AHEAD < written < count * 10_032 + 2 * AHEAD
    assert is_whole(path, [SMALL] * OFTEN + [payload] * count)


def test_records_that_are_synced_often_go_by_pwrite_until_they_are_not(path):
    writer = wal.LogWriter(path, 7)
    assert writer.is_mapped
    append_synced(writer, OFTEN)
    assert {entry[0] for entry in recorded(writer, 3)} == {"write", "sync"}
    seam.start_recording()
    for _ in range(1000):
        append(writer, SMALL)
    kinds = [entry[0] for entry in seam.stop_recording()]
    assert kinds[0] == "write"
    assert kinds[-1] == "map_write"
    assert is_whole(path, [SMALL] * (OFTEN + 1003))


@pytest.mark.parametrize("kind", ["write", "allocate"])
@pytest.mark.parametrize("short", [False, True])
def test_a_disk_that_is_full_of_zeros_still_takes_records(path, kind, short):
    # Reserving for zeros, or writing them, finds no space: the log goes on without, quietly.
    writer = wal.LogWriter(path, 7)
    append_synced(writer, OFTEN - 1)
    append(writer, SMALL)
    seam.set_fault(kind, errnum=errno.ENOSPC, short_write=short, for_ever=kind == "allocate")
    writer.sync()
    assert seam.operation_count() == 1 + (kind == "allocate")
    count = (writer.allocated - writer.size) // 136
    for _ in range(count):
        append(writer, SMALL)
    writer.sync()
    if kind == "allocate":
        with pytest.raises(errors.NoSpaceError):
            append(writer, SMALL)
    assert is_whole(path, [SMALL] * (OFTEN + count))
    seam.clear_fault()
    assert zeros_of(recorded(writer, 100, bytes([7]) * 4000)) == []


def test_remains_of_a_failed_record_are_cut_off_with_the_zeros(path):
    writer = wal.LogWriter(path, 7)
    append_synced(writer, OFTEN)
    seam.set_fault("write", short_write=True)
    with pytest.raises(errors.StorageIOError):
        append(writer, b"\xff" * 1000)
    append(writer, SMALL)
    writer.sync()
    append_synced(writer, 100, b"\xfe" * 5000)
    assert is_whole(path, [SMALL] * (OFTEN + 1) + [b"\xfe" * 5000] * 100)


def test_finish_cuts_the_zeros_off_and_no_more_come(path):
    writer = wal.LogWriter(path, 7)
    append_synced(writer, OFTEN)
    writer.finish(1 << 40)
    writer.sync()
    assert os.path.getsize(path) == writer.size == writer.ready
    assert wal.read_log(path).clean_end


def test_zeros_never_meet_a_record_of_a_faster_thread(path):
    # One thread appends as fast as it can, beyond all that is cleared; another one clears.
    writer = wal.LogWriter(path, 7)
    append_synced(writer, OFTEN, b"x")
    rng = random.Random(5)
    sizes = [1] * 50 + [90] * 50 + [3000, 20_000]
    payloads = [rng.randbytes(rng.choice(sizes)) for _ in range(8000)]
    done = threading.Event()

    def sync():
        while not done.is_set():
            writer.sync()

    thread = threading.Thread(target=sync)
    thread.start()
    for payload in payloads:
        append(writer, payload)
    done.set()
    thread.join()
    assert is_whole(path, [b"x"] * OFTEN + payloads)


def test_what_a_power_cut_makes_of_zeros_and_records_is_read_as_before(path):
    # Zeros and records that were not synced arrive in any order, or not at all, sector by sector.
    root = os.path.dirname(path)
    seam.start_recording()
    writer = wal.LogWriter(path, 7)
    payloads = [bytes([1 + index % 250]) * (1 + index * 37 % 3000) for index in range(400)]
    synced = 0
    bounds = []  # recorded operations so far -> payloads that must be there
    for index, payload in enumerate(payloads):
        writer.append(payload, index + 1)
        if index < 64 or index % 3 == 0:
            writer.sync()
            synced = index + 1
        bounds.append(synced)
    entries = seam.stop_recording()
    assert len(zeros_of(entries)) > 20
    check_cuts(root, path, entries, payloads)


def check_cuts(root, path, entries, payloads):
    rng = random.Random(11)
    disk = Disk(root, {})
    name, sure, last = os.path.basename(path), 0, 0
    target = root + "-state"
    for entry in entries:
        disk.apply(entry)
        kind, _, _, _, data = entry
        last += kind in {"write", "map_write"} and any(data) and is_header(data)
        if kind == "sync":
            sure = last - 1  # but for the log's header
        if rng.random() < 0.15:
            write_state(disk.crash(rng, "ext4"), target)
            if os.path.exists(os.path.join(target, name)):
                found = [each.payload for each in wal.read_log(os.path.join(target, name)).records]
                assert found == payloads[: len(found)]
                assert len(found) >= sure


def is_header(data):
    return data[:8] == b"DLSMWAL1" or data[8:12] == b"\x07\0\0\0"
