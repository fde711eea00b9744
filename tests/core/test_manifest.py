"""The manifest and CURRENT: writing, every cut and damage, every failing operation, power loss."""

import errno
import os
import random
import shutil
import struct
from pathlib import Path

import crc32c
import msgpack
import pytest

from dynalsm import errors
from dynalsm._core import files, manifest, seam, wal
from dynalsm._core.manifest import Manifest, manifest_name

HEADER = 40
FRAME = 16
SEED = 31

BASE = {"trees": [], "next": 1}
EDITS = [BASE, {"add": 1}, {"add": 2, "name": "x" * 50}, {"drop": b"\0\xff"}, {"done": True}]


@pytest.fixture(autouse=True)
def quiet_seam():
    yield
    seam.clear_fault()
    seam.stop_recording()


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "db"
    path.mkdir()
    return str(path)


def create(directory, edits=EDITS, number=1):
    made = Manifest.create(directory, number, edits[0])
    for edit in edits[1:]:
        made.append(edit)
    return made


def path_of(directory, number=1):
    return os.path.join(directory, manifest_name(number))


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def put(path, data):
    if os.path.exists(path):
        os.unlink(path)
    with open(path, "wb") as file:
        file.write(data)


def frame(number, offset, synced, payload):
    """Build a frame as docs/format-log.md describes it."""
    sealed = struct.pack("<QQIQ", number, offset, len(payload), synced)
    crc = crc32c.crc32c(sealed + payload)
    return struct.pack("<IIQ", len(payload), crc, synced) + payload + bytes(-len(payload) % 8)


def frame_starts(data, number=1):
    """Return [(offset, is_mark)] of a whole manifest."""
    found, offset = [], HEADER
    while offset < len(data):
        length = struct.unpack_from("<I", data, offset)[0]
        found.append((offset, length == 0))
        offset += FRAME + (length + 7) // 8 * 8
    return found


# ---- writing and reading ----


def test_loads_what_was_appended(directory):
    made = create(directory)
    assert made.path == path_of(directory)
    loaded = Manifest.load(directory)
    assert loaded.edits == EDITS
    assert (loaded.number, loaded.path, loaded.end) == (1, made.path, made.size)
    assert (loaded.torn, loaded.from_current) == (False, True)


def test_bytes_are_those_of_the_format_page(directory):
    made = Manifest.create(directory, 12, {"a": 1})
    made.append({"b": b"22"})
    made.close()
    head = struct.pack("<8sIIIIQI", b"DLSMMAN1", 1, 1, 1, 0, 12, 0)
    expected = head + struct.pack("<I", crc32c.crc32c(head))
    synced = 0
    for edit in ({"a": 1}, {"b": b"22"}):
        expected += frame(12, len(expected), synced, msgpack.packb(edit))
        synced = len(expected)
        expected += frame(12, synced, synced, b"")
    assert contents(path_of(directory, 12)) == expected
    name = b"MANIFEST-000012"
    assert contents(os.path.join(directory, "CURRENT")) == b"%s %08x\n" % (
        name,
        crc32c.crc32c(name),
    )


def test_new_directory_holds_no_database(directory):
    assert Manifest.load(directory) is None
    put(os.path.join(directory, "README"), b"not ours")
    assert Manifest.load(directory) is None


def test_missing_directory_is_an_error(directory):
    with pytest.raises(errors.StorageIOError) as caught:
        Manifest.load(directory + "/missing")
    assert caught.value.errno == errno.ENOENT


def test_create_refuses_where_there_is_a_database(directory):
    create(directory).close()
    with pytest.raises(errors.StorageError, match="already"):
        Manifest.create(directory, 2, BASE)


def test_creation_is_durable_in_this_order(directory):
    seam.start_recording()
    Manifest.create(directory, 1, BASE)
    steps = [(entry[0], os.path.basename(entry[1])) for entry in seam.stop_recording()]
    assert steps == [
        ("create", "MANIFEST-000001"),
        ("write", "MANIFEST-000001"),
        ("sync", "MANIFEST-000001"),
        ("dirsync", "db"),
        ("create", "CURRENT.tmp"),
        ("write", "CURRENT.tmp"),
        ("sync", "CURRENT.tmp"),
        ("rename", "CURRENT.tmp"),
        ("dirsync", "db"),
        ("write", "MANIFEST-000001"),      # the mark
    ]  # fmt: skip


def test_one_sync_for_an_edit(directory):
    made = create(directory)
    seam.set_fault("sync", 0)
    made.append({"one": 1})
    assert seam.operation_count() == 1
    made.append({"two": 2}, sync=False)
    made.append({"three": 3}, sync=False)
    assert seam.operation_count() == 1
    made.sync()
    made.sync()
    assert seam.operation_count() == 2
    assert Manifest.load(directory).edits == [*EDITS, {"one": 1}, {"two": 2}, {"three": 3}]


def test_edit_that_msgpack_cannot_carry_changes_nothing(directory):
    made = create(directory)
    with pytest.raises(TypeError):
        made.append({"x": object()})
    made.append({"fine": 1})
    assert Manifest.load(directory).edits == [*EDITS, {"fine": 1}]


def test_resume_goes_on_appending(directory):
    create(directory).close()
    loaded = Manifest.load(directory)
    resumed = Manifest.resume(directory, loaded)
    resumed.append({"more": 1})
    resumed.close()
    resumed.close()
    assert Manifest.load(directory).edits == [*EDITS, {"more": 1}]


def test_large_edit(directory):
    edit = {"files": [{"id": i, "smallest": bytes(50)} for i in range(5000)]}
    create(directory, [BASE, edit]).close()
    assert Manifest.load(directory).edits == [BASE, edit]


# ---- rolling ----


def test_roll_goes_over_to_a_new_manifest(directory):
    made = create(directory)
    made.roll(5, {"base": 5})
    made.append({"after": 1})
    assert (made.number, made.path) == (5, path_of(directory, 5))
    assert Manifest.load(directory).edits == [{"base": 5}, {"after": 1}]
    # The one before stays until the next roll.
    assert os.path.exists(path_of(directory, 1))
    made.roll(6, {"base": 6})
    names = files.list_directory(directory)
    assert manifest.manifest_numbers(names) == [5, 6]
    with pytest.raises(ValueError):
        made.roll(6, BASE)


def test_roll_is_due_by_size_and_by_growth(directory):
    made = create(directory, [BASE])
    edit = {"pad": bytes(100_000)}
    while made.size <= 1 << 20:
        assert not made.should_roll
        made.append(edit, sync=False)
    assert made.should_roll
    # A manifest that is large because its base is does not roll at every edit.
    made.roll(2, {"base": bytes(1 << 20)})
    while made.size <= 4 * made.base_end:
        assert not made.should_roll
        made.append({"pad": bytes(1 << 19)}, sync=False)
    assert made.should_roll


def test_roll_cures_a_failed_append(directory):
    made = create(directory)
    seam.set_fault("write", errnum=errno.ENOSPC, short_write=True)
    with pytest.raises(errors.NoSpaceError):
        made.append({"lost": 1})
    seam.clear_fault()
    assert made.is_poisoned
    for use in (lambda: made.append({"x": 1}), made.sync):
        with pytest.raises(errors.PoisonedError):
            use()
    # What failed is not there.
    assert Manifest.load(directory).edits == EDITS
    made.roll(2, {"base": 2})
    made.append({"x": 1})
    assert not made.is_poisoned
    assert Manifest.load(directory).edits == [{"base": 2}, {"x": 1}]


def test_failed_sync_poisons(directory):
    made = create(directory)
    seam.set_fault("sync")
    with pytest.raises(errors.StorageIOError):
        made.append({"lost": 1})
    seam.clear_fault()
    with pytest.raises(errors.PoisonedError):
        made.append({"x": 1})
    assert Manifest.load(directory).edits == EDITS


def test_failed_mark_does_not_undo_the_edit(directory):
    made = create(directory)
    seam.set_fault("write", 2, short_write=True)
    made.append({"kept": 1})
    seam.clear_fault()
    assert made.is_poisoned
    assert Manifest.load(directory).edits == [*EDITS, {"kept": 1}]


# Operations of a roll: open, write, sync, dirsync of the manifest, then those of CURRENT.
@pytest.mark.parametrize("for_ever", [False, True])
@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("nth", range(1, 25))
def test_roll_failing_anywhere_leaves_one_state_or_the_other(directory, nth, short, for_ever):
    made = create(directory)
    seam.set_fault(nth=nth, errnum=errno.ENOSPC, short_write=short, for_ever=for_ever)
    try:
        made.roll(2, {"base": 2})
        rolled = True
    except errors.StorageError:
        rolled = False
    seam.clear_fault()
    loaded = Manifest.load(directory)
    assert loaded.edits in (EDITS, [{"base": 2}])
    if rolled:
        assert loaded.edits == [{"base": 2}]
    # It either takes edits that will be found, or refuses them until a roll works.
    try:
        made.append({"more": 1})
        assert Manifest.load(directory).edits[-1] == {"more": 1}
    except errors.PoisonedError:
        assert made.is_poisoned
    made.roll(3, {"base": 3})
    made.append({"more": 3})
    assert Manifest.load(directory).edits == [{"base": 3}, {"more": 3}]


def test_creation_failing_anywhere_can_be_done_again(directory):
    seam.set_fault(nth=0)
    Manifest.create(directory, 1, BASE).close()
    total = seam.operation_count()
    for nth in range(1, total + 1):
        for for_ever in (False, True):
            shutil.rmtree(directory)
            os.mkdir(directory)
            seam.set_fault(nth=nth, for_ever=for_ever)
            try:
                Manifest.create(directory, 1, BASE).close()
            except errors.StorageError:
                pass
            seam.clear_fault()
            loaded = Manifest.load(directory)
            if loaded is None:
                Manifest.create(directory, 1, BASE).close()
                loaded = Manifest.load(directory)
            assert loaded.edits == [BASE], (nth, for_ever)


@pytest.mark.parametrize("nth", range(1, 8))
def test_load_error_is_an_error(directory, nth):
    create(directory).close()
    seam.set_fault(("open", "read"), nth)
    try:
        assert Manifest.load(directory).edits == EDITS
        assert seam.operation_count() < nth
    except errors.StorageIOError as error:
        assert error.errno == errno.EIO


# ---- cut off and damaged manifests ----


def load_or_damage(directory):
    try:
        return Manifest.load(directory)
    except errors.CorruptionError as error:
        assert error.path is not None and error.path.startswith(directory)
        return error


def test_cut_at_every_byte_loses_whole_edits_only(directory):
    create(directory).close()
    path = path_of(directory)
    whole = contents(path)
    ends = [
        offset + FRAME + len(msgpack.packb(edit))
        for (offset, _), edit in zip(
            [start for start in frame_starts(whole) if not start[1]], EDITS, strict=True
        )
    ]
    for size in range(len(whole) + 1):
        put(path, whole[:size])
        result = load_or_damage(directory)
        count = sum(end <= size for end in ends)
        if count == 0:
            # CURRENT promises a base.
            assert isinstance(result, errors.CorruptionError), size
        else:
            assert result.edits == EDITS[:count], size


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_flip_of_every_byte_is_found(directory, mask):
    create(directory).close()
    path = path_of(directory)
    whole = contents(path)
    starts = frame_starts(whole)
    for position in range(len(whole)):
        data = bytearray(whole)
        data[position] ^= mask
        put(path, data)
        result = load_or_damage(directory)
        if position >= starts[-1][0]:
            # The last mark: it proved the last edit, which is still there.
            assert result.edits == EDITS and result.torn, position
            continue
        assert isinstance(result, errors.CorruptionError), position
        assert result.path == path
        at = [0, *(offset for offset, _ in starts)]
        assert result.offset in {max(o for o in at if o <= position), 24}, position


def test_torn_end_is_cut_off_by_resume(directory):
    made = create(directory)
    made.append({"torn": "x" * 100}, sync=False)
    made.close()
    path = path_of(directory)
    whole = contents(path)
    for cut in (len(whole) - 10, len(whole) - 60, len(whole) - 110):
        put(path, whole[:cut])
        loaded = Manifest.load(directory)
        assert loaded.torn and loaded.edits == EDITS
        resumed = Manifest.resume(directory, loaded)
        resumed.append({"next": 1})
        resumed.close()
        loaded = Manifest.load(directory)
        assert loaded.edits == [*EDITS, {"next": 1}] and not loaded.torn


def test_unsynced_edits_with_a_hole_are_a_torn_end(directory):
    # Power loss may keep the second of two unsynced edits and lose the first.
    made = create(directory)
    start = made.size
    made.append({"first": 1}, sync=False)
    middle = made.size
    made.append({"second": 2}, sync=False)
    made.close()
    path = path_of(directory)
    data = bytearray(contents(path))
    data[start:middle] = bytes(middle - start)
    put(path, data)
    loaded = Manifest.load(directory)
    assert (loaded.edits, loaded.torn, loaded.end) == (EDITS, True, start)


def test_zeros_behind_the_end_are_no_damage(directory):
    create(directory).close()
    with open(path_of(directory), "ab") as file:
        file.write(bytes(5000))
    loaded = Manifest.load(directory)
    assert (loaded.edits, loaded.torn) == (EDITS, False)
    resumed = Manifest.resume(directory, loaded)
    resumed.append({"next": 1})
    assert Manifest.load(directory).edits == [*EDITS, {"next": 1}]


def test_frame_is_valid_at_its_own_place_in_its_own_file_only(directory):
    create(directory).close()
    data = contents(path_of(directory))
    (first, _), (second, _) = [start for start in frame_starts(data) if not start[1]][1:3]
    copied = data[first : first + FRAME + 8]
    put(path_of(directory), data + copied)
    loaded = Manifest.load(directory)
    assert loaded.edits == EDITS and loaded.torn
    assert second > first


@pytest.mark.parametrize("payload", [b"\xc1", b"\x93", msgpack.packb([1]), msgpack.packb(7)])
def test_whole_frame_that_is_no_edit_is_damage(directory, payload):
    made = create(directory)
    end = made.size
    made.close()
    with open(path_of(directory), "ab") as file:
        file.write(frame(1, end, end, payload))
    result = load_or_damage(directory)
    assert isinstance(result, errors.CorruptionError)
    assert result.offset == end


def header(number=1, format_=1, min_reader=1, min_writer=1, flags=0):
    head = struct.pack("<8sIIIIQI", b"DLSMMAN1", format_, min_reader, min_writer, flags, number, 0)
    return head + struct.pack("<I", crc32c.crc32c(head))


def rewrite_header(directory, **fields):
    path = path_of(directory)
    put(path, header(**fields) + contents(path)[HEADER:])


def test_newer_format_that_old_readers_may_read(directory):
    create(directory).close()
    rewrite_header(directory, format_=9, min_writer=9)
    loaded = Manifest.load(directory)
    assert loaded.edits == EDITS
    with pytest.raises(errors.FormatError, match="needed to write"):
        Manifest.resume(directory, loaded)


def test_newer_format_that_old_readers_must_not_read(directory):
    create(directory).close()
    rewrite_header(directory, format_=2, min_reader=9, min_writer=9)
    with pytest.raises(errors.FormatError, match="needed to read"):
        Manifest.load(directory)


@pytest.mark.parametrize("fields", [{"format_": 0}, {"flags": 2}])
def test_unknown_format_is_refused(directory, fields):
    create(directory).close()
    rewrite_header(directory, **fields)
    with pytest.raises(errors.FormatError):
        Manifest.load(directory)


def test_manifest_of_another_number_is_damage(directory):
    create(directory).close()
    rewrite_header(directory, number=2)
    with pytest.raises(errors.CorruptionError, match="number 2"):
        Manifest.load(directory)


# ---- CURRENT ----


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"MANIFEST-000001",
        b"MANIFEST-000001 00000000\n",
        b"MANIFEST-000001\n",
        b"garbage",
        bytes(25),
    ],
)
def test_damaged_current_is_replaced_by_the_manifest_that_proves_itself(directory, text):
    create(directory).close()
    put(os.path.join(directory, "CURRENT"), text)
    loaded = Manifest.load(directory)
    assert (loaded.edits, loaded.from_current) == (EDITS, False)
    Manifest.resume(directory, loaded).close()
    assert Manifest.load(directory).from_current


def test_flip_of_every_byte_of_current_is_found(directory):
    create(directory).close()
    path = os.path.join(directory, "CURRENT")
    whole = contents(path)
    for position in range(len(whole)):
        for mask in (1, 2, 0x80):
            data = bytearray(whole)
            data[position] ^= mask
            put(path, data)
            loaded = load_or_damage(directory)
            assert loaded.edits == EDITS and not loaded.from_current, position


def test_lost_current_takes_the_newest_manifest_that_was_current(directory):
    made = create(directory)
    made.roll(2, {"base": 2})
    made.close()
    # An orphan: a roll that never came to switch CURRENT.
    shutil.copy(path_of(directory, 2), path_of(directory, 3))
    data = header(3) + frame(3, HEADER, 0, msgpack.packb({"base": 3}))
    put(path_of(directory, 3), data)
    os.unlink(os.path.join(directory, "CURRENT"))
    assert Manifest.load(directory).edits == [{"base": 2}]


def test_lost_current_and_no_proof_is_damage(directory):
    # A database whose manifests hold nothing but a base each: which one counted?
    for number in (1, 2):
        data = header(number) + frame(number, HEADER, 0, msgpack.packb(BASE))
        put(path_of(directory, number), data)
    with pytest.raises(errors.CorruptionError, match="CURRENT is missing"):
        Manifest.load(directory)


def test_lost_current_with_a_damaged_manifest_that_was_current_is_damage(directory):
    made = create(directory)
    made.roll(2, {"base": 2})
    made.append({"after": 1})
    made.close()
    os.unlink(os.path.join(directory, "CURRENT"))
    data = bytearray(contents(path_of(directory, 2)))
    data[HEADER + FRAME] ^= 1
    put(path_of(directory, 2), data)
    with pytest.raises(errors.CorruptionError) as caught:
        Manifest.load(directory)
    assert caught.value.path == path_of(directory, 2)


def test_damaged_current_is_never_an_empty_directory(directory):
    put(os.path.join(directory, "CURRENT"), b"garbage")
    with pytest.raises(errors.CorruptionError, match="CURRENT is damaged"):
        Manifest.load(directory)


def test_current_that_names_a_missing_manifest_is_damage(directory):
    made = create(directory)
    made.roll(2, {"base": 2})
    made.close()
    os.unlink(path_of(directory, 2))
    with pytest.raises(errors.CorruptionError, match="is missing"):
        Manifest.load(directory)


def test_current_that_went_back_is_damage(directory):
    path = os.path.join(directory, "CURRENT")
    made = create(directory)
    before = contents(path)
    made.roll(2, {"base": 2})
    made.close()
    put(path, before)
    with pytest.raises(errors.CorruptionError, match="2 has been current since"):
        Manifest.load(directory)


@pytest.mark.parametrize("kept", [0, 20, HEADER, HEADER + 10, None])
def test_creation_that_was_cut_off_is_an_empty_directory(directory, kept):
    data = header() + frame(1, HEADER, 0, msgpack.packb(BASE))
    put(path_of(directory), data[:kept] if kept is not None else data)
    put(os.path.join(directory, "CURRENT.tmp"), b"MANI")
    os.mkdir(os.path.join(directory, "wal"))
    wal.LogWriter(os.path.join(directory, "wal", "000000000002.wal"), 2).close()
    assert Manifest.load(directory) is None
    Manifest.create(directory, 1, BASE).close()
    assert Manifest.load(directory).edits == [BASE]


@pytest.mark.parametrize("name", ["data/000001/000001/000000000009.sst", "wal/000000000003.wal"])
@pytest.mark.parametrize("with_manifest", [False, True])
def test_directory_with_data_is_never_taken_for_empty(directory, name, with_manifest):
    if with_manifest:
        put(path_of(directory), header() + frame(1, HEADER, 0, msgpack.packb(BASE)))
    path = os.path.join(directory, name)
    os.makedirs(os.path.dirname(path))
    if name.endswith(".wal"):
        writer = wal.LogWriter(path, 3)
        writer.append(b"x", 1)
        writer.close()
    else:
        put(path, b"")
    with pytest.raises(errors.CorruptionError, match="CURRENT is missing"):
        Manifest.load(directory)


def test_creation_over_what_was_cut_off_starts_clean(directory):
    put(path_of(directory, 4), header(4))
    Manifest.create(directory, 1, BASE).close()
    assert manifest.manifest_numbers(files.list_directory(directory)) == [1]


# ---- beside a writer ----


def test_reader_that_loses_a_race_with_rolls_tries_again(directory, monkeypatch):
    made = create(directory)
    read = manifest._read_manifest
    races = []

    def roll_twice_first(where, number, keys):
        if not races:
            races.append(number)
            made.roll(2, {"base": 2})
            made.roll(3, {"base": 3})  # removes what the reader is about to open
        return read(where, number, keys)

    monkeypatch.setattr(manifest, "_read_manifest", roll_twice_first)
    assert Manifest.load(directory).edits == [{"base": 3}]
    assert races == [1]


def test_reader_beside_a_switch_of_current(directory, monkeypatch):
    # The new manifest is listed, CURRENT still names the old one, and then the switch happens.
    made = create(directory)
    was_current = manifest._was_current
    put(path_of(directory, 2), b"")

    def switch_first(where, number, keys):
        if made.number == 1:
            made.roll(2, {"base": 2})
        return was_current(where, number, keys)

    monkeypatch.setattr(manifest, "_was_current", switch_first)
    assert Manifest.load(directory).edits == [{"base": 2}]


# ---- power loss ----


class Disk:
    """A strict model: bytes last after a sync of the file, names after a sync of the directory."""

    def __init__(self):
        self.names = {}  # name -> inode
        self.durable_names = {}
        self.current = {}  # inode -> bytearray
        self.durable = {}
        self.pending = {}  # inode -> [(offset, data)] since the last sync
        self.name_operations = []

    def apply(self, kind, path, path2, offset, data):
        name = os.path.basename(path)
        if kind == "create":
            inode = len(self.current)
            self.names[name] = inode
            self.current[inode], self.durable[inode] = bytearray(), b""
            self.pending[inode] = []
            self.name_operations.append((name, inode))
        elif kind == "write":
            inode = self.names[name]
            content = self.current[inode]
            content.extend(bytes(max(0, offset + len(data) - len(content))))
            content[offset : offset + len(data)] = data
            self.pending[inode].append((offset, data))
        elif kind == "truncate":
            inode = self.names[name]
            del self.current[inode][offset:]
            self.pending[inode].append((offset, None))
        elif kind == "sync":
            inode = self.names[name]
            self.durable[inode] = bytes(self.current[inode])
            self.pending[inode] = []
        elif kind == "rename":
            inode = self.names.pop(name)
            self.names[os.path.basename(path2)] = inode
            self.name_operations.append((os.path.basename(path2), inode, name))
        elif kind == "remove":
            del self.names[name]
            self.name_operations.append((name, None))
        elif kind == "dirsync":
            self.durable_names = dict(self.names)
            self.name_operations = []
        else:
            raise AssertionError(kind)

    def state(self, rng):
        """One state a power cut here may leave: {name: bytes}."""
        names = dict(self.durable_names)
        for operation in self.name_operations:
            if rng.random() < 0.5:
                if len(operation) == 3:
                    names.pop(operation[2], None)
                if operation[1] is None:
                    names.pop(operation[0], None)
                else:
                    names[operation[0]] = operation[1]
        result = {}
        for name, inode in names.items():
            content = bytearray(self.durable[inode])
            for offset, data in self.pending[inode]:
                choice = rng.random()
                if choice < 0.4:
                    continue
                if data is None:
                    del content[offset:]
                    continue
                kept = data if choice < 0.8 else data[: rng.randrange(len(data) + 1)]
                content.extend(bytes(max(0, offset + len(data) - len(content))))
                content[offset : offset + len(kept)] = kept
            result[name] = bytes(content)
        return result


def run_workload(directory, rng):
    """Create, append, roll. Returns: the states acknowledged, as (recorded length, edits)."""
    acknowledged = []
    made = Manifest.create(directory, 1, BASE)
    live = [BASE]
    acknowledged.append((seam_length(), list(live)))
    for step in range(rng.randrange(1, 12)):
        if rng.random() < 0.2:
            live = [{"base": len(live), "of": live[-1]}]
            made.roll(made.number + 1, live[0])
            acknowledged.append((seam_length(), list(live)))
        else:
            sync = rng.random() < 0.7
            live.append({"step": step, "pad": "x" * rng.randrange(60)})
            made.append(live[-1], sync=sync)
            if sync:
                acknowledged.append((seam_length(), list(live)))
    made.close()
    return acknowledged


_recorded = []


def seam_length():
    _recorded.extend(seam.stop_recording())
    seam.start_recording()
    return len(_recorded)


def test_power_loss_keeps_every_acknowledged_edit(directory, tmp_path):
    rng = random.Random(SEED)
    after = str(tmp_path / "after")
    states = 0
    for round_ in range(15):
        shutil.rmtree(directory)
        os.mkdir(directory)
        _recorded.clear()
        seam.start_recording()
        acknowledged = run_workload(directory, rng)
        seam_length()
        seam.stop_recording()
        # Appended and not acknowledged edits may be there too, in order.
        disk = Disk()
        for point in range(len(_recorded) + 1):
            if point:
                disk.apply(*_recorded[point - 1])
            for _ in range(3):
                shutil.rmtree(after, ignore_errors=True)
                os.mkdir(after)
                for name, data in disk.state(rng).items():
                    put(os.path.join(after, name), data)
                loaded = Manifest.load(after)
                states += 1
                promised = [edits for length, edits in acknowledged if length <= point]
                if loaded is None:
                    assert not promised, (SEED, round_, point)
                    continue
                if promised:
                    check_not_older(loaded.edits, promised[-1], acknowledged)
    assert states > 500


def check_not_older(edits, promised, acknowledged):
    if edits[0] == promised[0]:
        assert edits[: len(promised)] == promised
    else:
        # Only a roll that came after may have another base.
        bases = [state[0] for _, state in acknowledged]
        later = bases[bases.index(promised[0]) :]
        assert edits[0] in later or edits[0].get("of") is not None


def test_directory_that_holds_a_database_deeper_down_is_not_a_damaged_one(tmp_path: Path) -> None:
    # The parent of a database, opened by mistake: no CURRENT is missing here.
    from dynalsm._core import Engine

    Engine.open(tmp_path / "project" / "shop.db").close()
    assert Manifest.load(str(tmp_path / "project")) is None
    with pytest.raises(errors.FormatError, match="choose an empty directory"):
        Engine.open(tmp_path / "project")
