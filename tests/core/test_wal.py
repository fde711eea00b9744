"""The write-ahead log: writing, reading, every kind of damage, every failing operation."""

import errno
import itertools
import os
import random
import struct
import subprocess
import sys
import threading

import crc32c
import pytest

from dynalsm import errors
from dynalsm._core import seam, wal

HEADER = 64
RECORD = 32
OLDER_SYNCED = 1 << 63
SEED = 77


@pytest.fixture(autouse=True)
def quiet_seam():
    yield
    seam.clear_fault()
    seam.stop_recording()


@pytest.fixture(params=[True, False], ids=["mapped", "pwrite"])
def mapped(request):
    return request.param


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "000000000007.wal")


def make_log(path, payloads, *, synced_after=(), finish=False, mapped=True, number=7):
    """Write a log; sync after the records with these indexes. Returns: the records' offsets."""
    writer = wal.LogWriter(path, number, 6, 640, 99, mapped=mapped)
    offsets = []
    for index, payload in enumerate(payloads):
        offsets.append(writer.size)
        writer.append(payload, 100 + index)
        if index in synced_after:
            writer.sync()
    offsets.append(writer.size)
    if finish:
        writer.finish(100 + len(payloads))
    writer.close()
    return offsets


def put(path, data):
    # A new file each time: ext4 writes a file out at once when it replaces what was truncated.
    if os.path.exists(path):
        os.unlink(path)
    with open(path, "wb") as file:
        file.write(data)


def payloads_of(log):
    return [record.payload for record in log.records]


def record_bytes(number, offset, payload, seqno, count, synced):
    """Build a record as docs/format-log.md describes it."""
    fields = struct.pack("<IIQQ", number, count, seqno, synced)
    crc = crc32c.crc32c(struct.pack("<QI", offset, len(payload)) + fields + payload)
    padding = bytes(-len(payload) % 8)
    return struct.pack("<II", len(payload), crc) + fields + payload + padding


SMALL = [b"a", b"bb" * 20, b"c" * 7, b"d" * 8, b"\0" * 9, b"f" * 30]


# ---- writing and reading ----


def test_reads_what_was_appended(path, mapped):
    writer = wal.LogWriter(path, 7, 6, 640, 99, mapped=mapped)
    assert writer.is_mapped is mapped
    writer.append(b"one", 100, 2)
    writer.older_synced = True
    writer.append(b"\0" * 16, 102, 1)
    log = wal.read_log(path)
    assert log[:4] == (7, 6, 640, 99)
    assert log.records == [
        wal.Record(HEADER, 100, 2, b"one"),
        wal.Record(HEADER + RECORD + 8, 102, 1, b"\0" * 16),
    ]
    assert log.end == writer.size == HEADER + 2 * RECORD + 24
    assert (log.clean_end, log.torn, log.older_synced) == (False, False, True)


def test_bytes_are_those_of_the_format_page(path, mapped):
    writer = wal.LogWriter(path, 1 << 40 | 5, 6, 640, 99, mapped=mapped)
    writer.append(b"first", 1)
    writer.sync()
    writer.older_synced = True
    writer.append(b"second!!", 2, 3)
    writer.finish(5)
    head = struct.pack("<8sIIQQQQI", b"DLSMWAL1", 1, 0, 1 << 40 | 5, 6, 640, 99, 0)
    expected = head + struct.pack("<I", crc32c.crc32c(head)) + b"1LAWMSLD"
    expected += record_bytes(5, 64, b"first", 1, 1, 0)
    expected += record_bytes(5, 104, b"second!!", 2, 3, 104 | OLDER_SYNCED)
    expected += record_bytes(5, 144, b"", 5, 0, 144 | OLDER_SYNCED)
    with open(path, "rb") as file:
        assert file.read() == expected


def test_empty_log(path, mapped):
    make_log(path, [], mapped=mapped)
    log = wal.read_log(path)
    assert (log.number, log.records, log.end, log.torn) == (7, [], HEADER, False)


def test_clean_end_is_seen_and_cuts_off_the_preallocated_tail(path, mapped):
    offsets = make_log(path, SMALL, finish=True, mapped=mapped)
    assert os.path.getsize(path) == offsets[-1] + RECORD
    log = wal.read_log(path)
    assert payloads_of(log) == SMALL
    assert (log.clean_end, log.torn) == (True, False)


def test_finish_without_mark_cuts_off_only(path, mapped):
    writer = wal.LogWriter(path, 7, mapped=mapped)
    writer.append(b"x", 1)
    writer.finish(mark=False)
    assert writer.synced == writer.size == os.path.getsize(path)
    log = wal.read_log(path)
    assert (payloads_of(log), log.clean_end, log.torn) == ([b"x"], False, False)


def test_finish_again_changes_nothing_and_append_is_refused(path, mapped):
    writer = wal.LogWriter(path, 7, mapped=mapped)
    writer.finish(1)
    size = writer.size
    writer.finish(1)
    assert writer.size == size == os.path.getsize(path)
    with pytest.raises(errors.ClosedError):
        writer.append(b"x", 1)
    writer.sync()


def test_closed_writer_refuses(path):
    writer = wal.LogWriter(path, 7)
    writer.close()
    writer.close()
    for use in (writer.sync, writer.finish, lambda: writer.append(b"x", 1), lambda: writer.size):
        with pytest.raises(errors.ClosedError):
            use()


def test_empty_records_are_refused(path):
    writer = wal.LogWriter(path, 7)
    with pytest.raises(ValueError):
        writer.append(b"", 1)
    with pytest.raises(ValueError):
        writer.append(b"x", 1, 0)


def test_number_zero_is_refused(path):
    with pytest.raises(ValueError):
        wal.LogWriter(path, 0)


def test_a_log_is_never_written_over(path):
    make_log(path, SMALL)
    with pytest.raises(errors.StorageIOError) as caught:
        wal.LogWriter(path, 7)
    assert caught.value.errno == errno.EEXIST
    assert payloads_of(wal.read_log(path)) == SMALL


def test_preallocation_starts_small_and_doubles(path, mapped):
    writer = wal.LogWriter(path, 7, mapped=mapped)
    assert writer.allocated == os.path.getsize(path) == 64 << 10
    steps = [writer.allocated]
    for index in range(300):
        writer.append(bytes(4000), index + 1)
        if writer.allocated != steps[-1]:
            steps.append(writer.allocated)
    assert steps == [(64 << 10) << power for power in range(6)]


def test_preallocation_grows_by_sixteen_mebibytes_at_most(path, mapped):
    writer = wal.LogWriter(path, 7, mapped=mapped)
    chunk = bytes(4 << 20)
    steps = [writer.allocated]
    for index in range(20):
        writer.append(chunk, index + 1)
        steps.append(writer.allocated)
    assert max(after - before for before, after in itertools.pairwise(steps)) == 16 << 20


@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 65_503, 65_504, 65_505, 1 << 20])
def test_sizes_around_every_way_of_writing(path, mapped, size):
    data = random.Random(size).randbytes(size)
    make_log(path, [data, b"x", data], mapped=mapped)
    assert payloads_of(wal.read_log(path)) == [data, b"x", data]


@pytest.mark.slow
def test_behind_the_mapped_window(path):
    # The window is 256 MiB; what comes behind it goes by pwrite, into the same file.
    writer = wal.LogWriter(path, 7)
    big = bytes(100 << 20)
    for index in range(3):
        writer.append(big, 2 * index + 1)
        writer.append(b"small", 2 * index + 2)
    writer.append(b"last", 20)
    log = wal.read_log(path)
    assert [len(payload) for payload in payloads_of(log)] == [100 << 20, 5] * 3 + [4]


@pytest.mark.slow
def test_record_of_one_gibibyte(path, mapped):
    big = bytes(1 << 30)
    make_log(path, [b"before", big, b"after"], mapped=mapped)
    log = wal.read_log(path)
    assert [len(payload) for payload in payloads_of(log)] == [6, 1 << 30, 5]


def test_random_logs_round_trip(path, mapped):
    rng = random.Random(SEED)
    payloads = [rng.randbytes(rng.choice([1, 5, 130, 5000])) for _ in range(500)]
    make_log(path, payloads, mapped=mapped, synced_after={10, 200}, finish=True)
    assert payloads_of(wal.read_log(path)) == payloads


# ---- durability ----


def test_sync_advances_to_what_was_appended(path, mapped):
    writer = wal.LogWriter(path, 7, mapped=mapped)
    assert writer.synced == 0
    writer.append(b"x", 1)
    writer.sync()
    assert writer.synced == writer.size
    writer.append(b"y", 2)
    assert writer.synced < writer.size


def test_sync_with_nothing_new_costs_nothing(path, mapped):
    writer = wal.LogWriter(path, 7, mapped=mapped)
    writer.sync()
    seam.set_fault("sync", 0)
    writer.sync()
    assert seam.operation_count() == 0


def test_failed_sync_is_final(path, mapped):
    writer = wal.LogWriter(path, 7, mapped=mapped)
    writer.append(b"x", 1)
    writer.sync()
    writer.append(b"y", 2)
    seam.set_fault("sync", errnum=errno.EIO)
    with pytest.raises(errors.StorageIOError):
        writer.sync()
    seam.clear_fault()
    for use in (writer.sync, writer.finish, lambda: writer.append(b"z", 3)):
        with pytest.raises(errors.PoisonedError):
            use()
    assert writer.synced < writer.size
    assert payloads_of(wal.read_log(path)) == [b"x", b"y"]


def test_failed_sync_at_the_end_is_final_too(path, mapped):
    writer = wal.LogWriter(path, 7, mapped=mapped)
    writer.append(b"x", 1)
    seam.set_fault("sync", 2)
    with pytest.raises(errors.StorageIOError):
        writer.finish(2)
    seam.clear_fault()
    with pytest.raises(errors.PoisonedError):
        writer.finish(2)


def test_syncs_beside_appends(path, mapped):
    writer = wal.LogWriter(path, 7, mapped=mapped)
    claimed = []
    stop = threading.Event()

    def sync_again_and_again():
        while not stop.is_set():
            writer.sync()
            claimed.append(writer.synced)

    threads = [threading.Thread(target=sync_again_and_again) for _ in range(2)]
    for thread in threads:
        thread.start()
    for index in range(2000):
        writer.append(b"x" * (index % 300 + 1), index + 1)
    stop.set()
    for thread in threads:
        thread.join()
    writer.sync()
    log = wal.read_log(path)
    assert len(log.records) == 2000
    ends = {HEADER, log.end} | {record.offset for record in log.records}
    assert set(claimed) <= ends
    assert writer.synced == log.end


def test_appended_records_survive_the_death_of_the_process(path, mapped):
    code = (
        "import os, signal, sys\n"
        "from dynalsm._core import wal\n"
        f"writer = wal.LogWriter({path!r}, 7, mapped={mapped})\n"
        "for index in range(1000):\n"
        "    writer.append(b'%d' % index, index + 1)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -9
    log = wal.read_log(path)
    assert payloads_of(log) == [b"%d" % index for index in range(1000)]
    assert log.torn is False


def test_forked_child_cannot_reach_the_mapping(path):
    # The child has no mapping: a store there would end it, not change the parent's log.
    writer = wal.LogWriter(path, 7)
    assert writer.is_mapped
    with open("/proc/self/maps") as maps:
        assert any(path in line for line in maps)
    child = os.fork()
    if child == 0:
        with open("/proc/self/maps") as maps:
            os._exit(any(path in line for line in maps))
    assert os.waitpid(child, 0)[1] == 0


# ---- cut off and damaged logs ----


def read_or_damage(path):
    try:
        return wal.read_log(path)
    except errors.CorruptionError as error:
        assert error.path == path
        assert error.offset is not None
        return error


@pytest.mark.parametrize("finish", [False, True])
def test_cut_at_every_byte_gives_a_prefix(path, tmp_path, finish):
    offsets = make_log(path, SMALL, synced_after={1, 3}, finish=finish)
    with open(path, "rb") as file:
        whole = file.read()[: offsets[-1] + RECORD]
    copy = str(tmp_path / "copy")
    # A record is whole as soon as its payload is; the zeros behind it may be missing.
    needed = [
        offset + RECORD + len(payload) for offset, payload in zip(offsets, SMALL, strict=False)
    ]
    for size in range(len(whole) + 1):
        put(copy, whole[:size])
        log = read_or_damage(copy)
        assert not isinstance(log, errors.CorruptionError), size
        count = sum(end <= size for end in needed)
        assert payloads_of(log) == SMALL[:count], size
        assert log.number == (7 if size >= HEADER else 0)
        assert log.clean_end == (finish and size == len(whole))


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
@pytest.mark.parametrize("finish", [False, True])
def test_flip_of_every_byte_is_found(path, tmp_path, finish, mask):
    offsets = make_log(path, SMALL, synced_after={1, 3}, finish=finish)
    with open(path, "rb") as file:
        whole = file.read()
    proven = len(SMALL) if finish else 4  # records before a sync that a later record names
    copy = str(tmp_path / "copy")
    for position in range(offsets[-1] + (RECORD if finish else 8)):
        data = bytearray(whole)
        data[position] ^= mask
        put(copy, data)
        result = read_or_damage(copy)
        index = sum(offset <= position for offset in offsets) - 1
        if position < HEADER:
            assert isinstance(result, errors.CorruptionError), position
        elif index < proven:
            assert isinstance(result, errors.CorruptionError), position
            assert result.offset == offsets[index], position
        else:
            assert payloads_of(result) == SMALL[:index], position
            assert result.torn, position


def test_damage_and_cut_together_never_give_wrong_data(path, tmp_path):
    rng = random.Random(SEED)
    make_log(path, SMALL, synced_after={2})
    with open(path, "rb") as file:
        whole = file.read()[:700]
    copy = str(tmp_path / "copy")
    for _ in range(2000):
        data = bytearray(whole[: rng.randrange(len(whole))])
        for _ in range(rng.randrange(4)):
            if data:
                data[rng.randrange(len(data))] = rng.choice([0, 0xFF, rng.randrange(256)])
        put(copy, data)
        result = read_or_damage(copy)
        if not isinstance(result, errors.CorruptionError):
            found = payloads_of(result)
            assert found == SMALL[: len(found)], SEED


def test_zeroed_page_before_an_unsynced_record_is_a_torn_end(path):
    # Power loss: the page of the second record was never written, that of the third was.
    payloads = [b"a" * 100, b"b" * 8000, b"c" * 100]
    offsets = make_log(path, payloads, synced_after={0})
    with open(path, "r+b") as file:
        file.seek(4096)
        file.write(bytes(4096))
    log = wal.read_log(path)
    assert payloads_of(log) == payloads[:1]
    assert log.torn and log.end == offsets[1]


def test_zeroed_record_before_a_record_that_proves_it_is_damage(path):
    payloads = [b"a" * 100, b"b" * 100, b"c" * 100]
    offsets = make_log(path, payloads, synced_after={1})
    with open(path, "r+b") as file:
        file.seek(offsets[1])
        file.write(bytes(offsets[2] - offsets[1]))
    with pytest.raises(errors.CorruptionError, match="a later one proves") as caught:
        wal.read_log(path)
    assert caught.value.offset == offsets[1]


def test_proof_lies_behind_records_that_prove_nothing(path):
    # Records 1 to 9 say "synced up to record 1", only the last says more.
    payloads = [bytes([index]) * 50 for index in range(12)]
    offsets = make_log(path, payloads, synced_after={0, 10})
    for index, is_proven in ((1, True), (10, True), (11, False)):
        with open(path, "r+b") as file:
            file.seek(offsets[index] + 40)
            byte = file.read(1)
            file.seek(offsets[index] + 40)
            file.write(bytes([byte[0] ^ 1]))
        result = read_or_damage(path)
        assert isinstance(result, errors.CorruptionError) is is_proven, index
        with open(path, "r+b") as file:
            file.seek(offsets[index] + 40)
            file.write(byte)


def test_unsynced_tail_with_a_hole_is_a_torn_end_however_much_follows(path):
    payloads = [bytes([index]) * 50 for index in range(50)]
    offsets = make_log(path, payloads)
    with open(path, "r+b") as file:
        file.seek(offsets[3])
        file.write(b"\xff")
    log = wal.read_log(path)
    assert payloads_of(log) == payloads[:3]
    assert log.torn


def test_garbage_in_the_preallocated_tail_is_a_torn_end(path):
    offsets = make_log(path, SMALL, synced_after={5})
    with open(path, "r+b") as file:
        file.seek(offsets[-1] + 1000)
        file.write(b"garbage")
    log = wal.read_log(path)
    assert payloads_of(log) == SMALL
    assert log.torn


@pytest.mark.parametrize("behind", [0, 1, 7, 8, 5000])
def test_bytes_behind_the_clean_end_are_damage(path, behind):
    offsets = make_log(path, SMALL, finish=True)
    end = offsets[-1] + RECORD
    with open(path, "r+b") as file:
        file.seek(end + behind)
        file.write(b"x")
    with pytest.raises(errors.CorruptionError, match="follow the clean end") as caught:
        wal.read_log(path)
    assert caught.value.offset == end + behind


def test_zeros_behind_the_clean_end_are_a_crash_while_closing(path):
    offsets = make_log(path, SMALL, finish=True)
    with open(path, "r+b") as file:
        file.truncate(offsets[-1] + RECORD + 5000)
    assert wal.read_log(path).clean_end is True


def test_sequence_numbers_that_go_back_are_damage(path):
    writer = wal.LogWriter(path, 7)
    writer.append(b"x", 10, 5)
    writer.append(b"y", 14)
    with pytest.raises(errors.CorruptionError, match="go back") as caught:
        wal.read_log(path)
    assert caught.value.offset == HEADER + RECORD + 8


def test_records_of_another_log_are_not_taken(path, tmp_path):
    # As a file system may leave them when it gives blocks of a removed log to a new one.
    other = str(tmp_path / "other")
    make_log(path, SMALL[:1])
    offsets = make_log(other, SMALL, number=8)
    with open(other, "rb") as file:
        file.seek(offsets[1])
        rest = file.read(500)
    with open(path, "r+b") as file:
        file.seek(offsets[1])
        file.write(rest)
    log = wal.read_log(path)
    assert payloads_of(log) == SMALL[:1]
    assert log.torn


def test_a_log_stored_in_a_log_is_not_taken_for_its_records(path, tmp_path):
    # Copies of valid records inside a payload are valid nowhere but at their own place.
    other = str(tmp_path / "other")
    make_log(other, [b"inner"] * 20, synced_after=set(range(20)))
    with open(other, "rb") as file:
        inner = file.read(1800)
    offsets = make_log(path, [b"x" * 40, b"." * 24 + inner])
    with open(path, "r+b") as file:
        file.seek(offsets[1])
        file.write(b"\xff" * 4)
    log = wal.read_log(path)
    assert payloads_of(log) == [b"x" * 40]
    assert log.torn


def test_judging_a_long_hostile_tail_takes_linear_time(path):
    # Every eight bytes of the tail look like the header of a record that reaches to the end.
    size = 8 << 20
    head = make_log(path, [b"a"])[-1]
    with open(path, "r+b") as file:
        file.seek(head)
        unit = struct.pack("<IIIIQQ", 1 << 22, 7, 7, 1, 7, 7)
        file.write(b"\xff" * 8 + unit * (size // len(unit)))
    hostile = wal.read_log(path)
    assert payloads_of(hostile) == [b"a"]
    assert hostile.torn


def test_reader_beside_a_busy_writer_never_sees_damage(path, mapped):
    # What a reader has not seen of one record may be proven by the next, which it has seen.
    writer = wal.LogWriter(path, 7, mapped=mapped)
    stop = threading.Event()
    count = 0

    def append_and_sync():
        nonlocal count
        while not stop.is_set():
            writer.append(b"x" * (count % 5000 + 1), count + 1)
            count += 1
            if count % 3 == 0:
                writer.sync()

    thread = threading.Thread(target=append_and_sync)
    thread.start()
    try:
        for _ in range(60):
            before = count
            log = wal.read_log(path)
            assert len(log.records) >= before
    finally:
        stop.set()
        thread.join()
    writer.finish(count + 1)
    assert len(wal.read_log(path).records) == count


# ---- headers ----


@pytest.mark.parametrize("size", [0, 1, 63, 64, 1 << 16])
def test_log_without_a_byte_written_was_never_born(path, size):
    with open(path, "wb") as file:
        file.truncate(size)
    log = wal.read_log(path)
    assert (log.number, log.records, log.torn) == (0, [], False)


@pytest.mark.parametrize("kept", [slice(0, 1), slice(0, 40), slice(0, 63), slice(8, 64)])
def test_header_cut_off_in_writing_is_a_log_never_born(path, kept):
    make_log(path, [])
    with open(path, "r+b") as file:
        header = bytearray(file.read(64))
        part = header[kept]
        header[:] = bytes(64)
        header[kept] = part
        file.seek(0)
        file.write(header)
    log = wal.read_log(path)
    assert (log.number, log.records, log.torn) == (0, [], True)


def test_lost_header_page_of_a_log_that_was_never_synced(path):
    # Its records reached the disk, the page of its header did not: nothing was promised.
    make_log(path, [b"x" * 5000, b"y"])
    with open(path, "r+b") as file:
        file.write(bytes(4096))
    log = wal.read_log(path)
    assert (log.number, log.records, log.torn) == (0, [], True)


def test_lost_header_of_a_log_that_was_synced_is_damage(path):
    make_log(path, [b"x" * 5000, b"y"], synced_after={0})
    with open(path, "r+b") as file:
        file.write(bytes(4096))
    with pytest.raises(errors.CorruptionError, match="header") as caught:
        wal.read_log(path)
    assert caught.value.offset == 0


def test_unknown_format_is_refused(path):
    head = struct.pack("<8sIIQQQQI", b"DLSMWAL1", 2, 0, 7, 6, 0, 0, 0)
    with open(path, "wb") as file:
        file.write(head + struct.pack("<I", crc32c.crc32c(head)) + b"1LAWMSLD")
    with pytest.raises(errors.CorruptionError, match="format"):
        wal.read_log(path)


def test_missing_log_is_an_error(path):
    with pytest.raises(errors.StorageIOError) as caught:
        wal.read_log(path)
    assert caught.value.errno == errno.ENOENT


@pytest.mark.parametrize("nth", [1, 2])
def test_read_error_is_an_error(path, nth):
    make_log(path, SMALL)
    seam.set_fault("read", nth)
    with pytest.raises(errors.StorageIOError):
        wal.read_log(path)


# ---- failing operations ----


@pytest.mark.parametrize("kind", ["open", "allocate", "write", "map_write"])
@pytest.mark.parametrize("errnum", [errno.EIO, errno.ENOSPC])
def test_failed_creation_leaves_no_file(path, mapped, kind, errnum):
    seam.set_fault(kind, errnum=errnum, for_ever=True)
    if kind == ("write" if mapped else "map_write"):
        wal.LogWriter(path, 7, mapped=mapped).close()  # that way does not use it
        return
    with pytest.raises(errors.StorageIOError):
        wal.LogWriter(path, 7, mapped=mapped)
    seam.clear_fault()
    assert not os.path.exists(path)
    wal.LogWriter(path, 7, mapped=mapped).close()


def test_without_preallocation_pwrite_serves(path):
    seam.set_fault("allocate", errnum=errno.EOPNOTSUPP, for_ever=True)
    writer = wal.LogWriter(path, 7)
    assert writer.is_mapped is False
    for index, payload in enumerate(SMALL):
        writer.append(payload, 100 + index)
    # The file ends with the last record.
    assert os.path.getsize(path) == writer.size
    assert payloads_of(wal.read_log(path)) == SMALL
    writer.finish(106)
    assert wal.read_log(path).clean_end


def test_without_a_mapping_pwrite_serves(path):
    seam.set_fault("map", errnum=errno.ENOMEM)
    writer = wal.LogWriter(path, 7)
    assert writer.is_mapped is False
    writer.append(b"x", 1)
    assert payloads_of(wal.read_log(path)) == [b"x"]


def test_full_disk_at_growth_leaves_the_log_usable(path, mapped):
    writer = wal.LogWriter(path, 7, mapped=mapped)
    seam.set_fault("allocate", errnum=errno.ENOSPC, for_ever=True)
    payload = b"p" * 1000
    count = 0
    with pytest.raises(errors.NoSpaceError):
        while True:
            writer.append(payload, count + 1)
            count += 1
    size = writer.size
    assert count == ((64 << 10) - HEADER) // (RECORD + 1000)
    with pytest.raises(errors.NoSpaceError):
        writer.append(payload, count + 1)
    assert writer.size == size
    # A smaller one still fits, what is there can be synced, and later the same append works.
    writer.append(b"s" * 8, count + 1)
    writer.sync()
    seam.clear_fault()
    writer.append(payload, count + 2)
    log = wal.read_log(path)
    assert payloads_of(log) == [payload] * count + [b"s" * 8, payload]


def test_nearly_full_disk_takes_what_is_needed_and_no_more(path):
    # The generous step fails once, the exact one works.
    writer = wal.LogWriter(path, 7)
    seam.set_fault("allocate", errnum=errno.ENOSPC)
    writer.append(bytes(70_000), 1)
    assert writer.allocated == (HEADER + RECORD + 70_000 + 4095) // 4096 * 4096


def test_failed_growth_gives_the_blocks_back(path):
    writer = wal.LogWriter(path, 7)
    seam.set_fault("allocate", errnum=errno.ENOSPC, for_ever=True)
    seam.start_recording()
    with pytest.raises(errors.NoSpaceError):
        writer.append(bytes(70_000), 1)
    assert [entry[0] for entry in seam.stop_recording()] == ["truncate"]
    assert os.path.getsize(path) == 64 << 10


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("size", [100, 5000, 100_000])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_failed_store_can_be_tried_again(path, mapped, short, size, nth):
    writer = wal.LogWriter(path, 7, mapped=mapped)
    writer.append(b"before", 1)
    before = writer.size
    seam.set_fault(("write", "map_write"), nth, errnum=errno.EIO, short_write=short)
    try:
        writer.append(b"\xff" * size, 2)
        assert seam.operation_count() < nth
        failed = False
    except errors.StorageIOError:
        failed = True
        assert writer.size == before
        # What is left of it is no record, and not where the next one expects zeros.
        assert payloads_of(wal.read_log(path)) == [b"before"]
    seam.clear_fault()
    expected = [b"before"] if failed else [b"before", b"\xff" * size]
    writer.append(b"next", 3)
    writer.append(b"after", 4)
    log = wal.read_log(path)
    assert payloads_of(log) == [*expected, b"next", b"after"]
    assert log.torn is False
    writer.finish(5)
    assert wal.read_log(path).clean_end


def test_remains_of_a_failed_append_must_go_before_the_next(path, mapped):
    writer = wal.LogWriter(path, 7, mapped=mapped)
    writer.append(b"a", 1)
    seam.set_fault(("write", "map_write"), short_write=True)
    with pytest.raises(errors.StorageIOError):
        writer.append(b"\xff" * 1000, 2)
    seam.set_fault("truncate")
    with pytest.raises(errors.StorageIOError):
        writer.append(b"b", 2)
    writer.append(b"b", 2)
    log = wal.read_log(path)
    assert (payloads_of(log), log.torn) == ([b"a", b"b"], False)


@pytest.mark.parametrize("kind", ["truncate", "allocate"])
def test_finish_can_be_tried_again(path, mapped, kind):
    writer = wal.LogWriter(path, 7, mapped=mapped)
    # Fill the first step to the last byte, so that the end record needs another.
    writer.append(bytes((64 << 10) - HEADER - RECORD), 1)
    seam.set_fault(kind, errnum=errno.ENOSPC, for_ever=True)
    with pytest.raises(errors.NoSpaceError):
        writer.finish(2)
    seam.clear_fault()
    assert writer.synced >= 64 << 10
    writer.finish(2)
    log = wal.read_log(path)
    assert (len(log.records), log.clean_end) == (1, True)
    assert os.path.getsize(path) == writer.size == (64 << 10) + RECORD


def test_every_operation_failing_once_or_for_ever(tmp_path, mapped):
    """Whatever fails, the log reads back as what was acknowledged, in order, and no more."""

    def run(path):
        acknowledged = []
        try:
            writer = wal.LogWriter(path, 7, mapped=mapped)
        except errors.StorageError:
            return acknowledged
        for index in range(12):
            payload = bytes([index + 1]) * (9000 if index % 3 == 0 else 50)
            try:
                writer.append(payload, index + 1)
                acknowledged.append(payload)
                if index % 4 == 3:
                    writer.sync()
            except errors.StorageError:
                pass
        try:
            writer.finish(20)
        except errors.StorageError:
            pass
        writer.close()
        return acknowledged

    seam.set_fault(nth=0)
    run(str(tmp_path / "counted"))
    total = seam.operation_count()
    assert total > 20
    for for_ever in (False, True):
        for short in (False, True):
            for errnum in (errno.EIO, errno.ENOSPC):
                for nth in range(1, total + 1):
                    path = str(tmp_path / f"{for_ever}{short}{errnum}-{nth}")
                    seam.set_fault(nth=nth, errnum=errnum, short_write=short, for_ever=for_ever)
                    acknowledged = run(path)
                    seam.clear_fault()
                    if not os.path.exists(path):
                        assert acknowledged == []
                        continue
                    log = wal.read_log(path)
                    assert payloads_of(log) == acknowledged, (nth, errnum, short, for_ever)


# ---- power loss ----


def states_after_power_loss(recorded, path, rng):
    """Contents the strict model allows at a random point: synced bytes, and any unsynced pages."""
    point = rng.randrange(len(recorded) + 1)
    durable, current, exists = b"", bytearray(), False
    for kind, name, _, offset, data in recorded[:point]:
        assert name == path
        if kind == "create":
            exists = True
        elif kind == "allocate":
            current.extend(bytes(max(0, offset - len(current))))
        elif kind == "truncate":
            del current[offset:]
            current.extend(bytes(offset - len(current)))
        elif kind in {"write", "map_write"}:
            current.extend(bytes(max(0, offset + len(data) - len(current))))
            current[offset : offset + len(data)] = data
        elif kind == "sync":
            durable = bytes(current)
    if not exists:
        return None, 0
    size = rng.choice([len(durable), len(current), rng.randint(0, len(current))])
    size = max(size, min(len(durable), len(current)))
    state = bytearray(durable[:size].ljust(size, b"\0"))
    # Sectors are written whole or not at all; now and then, in order up to some byte.
    unit = rng.choice([512, 4096])
    if rng.random() < 0.2:
        cut = rng.randrange(size + 1)
        return current[:cut].ljust(size, b"\0") if cut > len(durable) else state, point
    for start in range(0, size, unit):
        if rng.random() < 0.5:
            state[start : start + unit] = current[start : start + unit][: size - start]
    return bytes(state), point


def test_power_loss_keeps_what_was_synced_and_gives_a_prefix(path, tmp_path, mapped):
    rng = random.Random(SEED)
    copy = str(tmp_path / "copy")
    for round_ in range(12):
        if os.path.exists(path):
            os.unlink(path)
        seam.start_recording()
        writer = wal.LogWriter(path, 7, mapped=mapped)
        payloads, synced_at = [], []
        for index in range(rng.randrange(1, 25)):
            payloads.append(rng.randbytes(rng.choice([10, 100, 600, 6000])))
            writer.append(payloads[-1], index + 1)
            if rng.random() < 0.3:
                writer.sync()
                synced_at.append(len(payloads))
        if rng.random() < 0.5:
            writer.finish(len(payloads) + 1)
            synced_at.append(len(payloads))
        writer.close()
        recorded = seam.stop_recording()
        syncs = [place for place, entry in enumerate(recorded) if entry[0] == "sync"]
        for _ in range(60):
            state, point = states_after_power_loss(recorded, path, rng)
            if state is None:
                continue
            put(copy, state)
            log = wal.read_log(copy)
            found = payloads_of(log)
            assert found == payloads[: len(found)], (SEED, round_)
            done = sum(place < point for place in syncs)
            expected = synced_at[min(done, len(synced_at)) - 1] if done else 0
            assert len(found) >= expected, (SEED, round_, point)
