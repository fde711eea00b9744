"""File operations and the fault seam."""

import errno
import os
import stat
import threading

import pytest

from dynalsm import errors
from dynalsm._core import files, seam

WRITE_FLAGS = os.O_RDWR | os.O_CREAT


@pytest.fixture(autouse=True)
def quiet_seam():
    yield
    seam.clear_fault()
    seam.stop_recording()


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "file")


@pytest.fixture
def file(path):
    with files.File(path, WRITE_FLAGS) as opened:
        yield opened


# ---- files ----


def test_write_then_read_back(file):
    file.write(b"hello world", 0)
    file.write(bytearray(b"W"), 6)
    assert file.read(11, 0) == b"hello World"
    assert file.read(0, 0) == b""
    assert file.size() == 11


def test_write_behind_the_end_leaves_zeros(file):
    file.write(b"x", 4)
    assert file.read(5, 0) == b"\0\0\0\0x"


def test_read_past_the_end_is_corruption_with_the_place(file, path):
    file.write(b"abc", 0)
    with pytest.raises(errors.CorruptionError, match="shorter than expected") as caught:
        file.read(4, 1)
    assert (caught.value.path, caught.value.offset) == (path, 3)


def test_missing_file_is_an_error_with_errno(tmp_path):
    with pytest.raises(errors.StorageIOError, match="cannot open") as caught:
        files.File(tmp_path / "missing")
    assert caught.value.errno == errno.ENOENT
    assert isinstance(caught.value, OSError)


def test_new_files_and_directories_are_private_to_the_owner(tmp_path):
    previous = os.umask(0)
    try:
        files.File(tmp_path / "file", WRITE_FLAGS).close()
        assert files.make_directory(tmp_path / "directory") is True
    finally:
        os.umask(previous)
    assert stat.S_IMODE(os.stat(tmp_path / "file").st_mode) == 0o600
    assert stat.S_IMODE(os.stat(tmp_path / "directory").st_mode) == 0o700


def test_descriptors_are_closed_on_exec(file):
    assert os.get_inheritable(file.fileno()) is False


def test_close_is_idempotent_and_ends_use(path):
    file = files.File(path, WRITE_FLAGS)
    assert file.closed is False
    file.close()
    file.close()
    assert file.closed is True
    for use in (file.size, file.fileno, file.sync, lambda: file.read(1, 0)):
        with pytest.raises(errors.ClosedError):
            use()


def test_truncate_and_allocate(file):
    file.write(b"abcdef", 0)
    file.truncate(3)
    file.allocate(0, 10)
    assert file.read(10, 0) == b"abc" + bytes(7)


def test_write_file_atomically_replaces_and_leaves_no_temporary(tmp_path):
    target = tmp_path / "CURRENT"
    files.write_file_atomically(target, b"one")
    files.write_file_atomically(str(target), b"two")
    assert files.read_file(target) == b"two"
    assert files.list_directory(tmp_path) == ["CURRENT"]


@pytest.mark.parametrize("kind", ["open", "write", "sync", "rename"])
def test_write_file_atomically_keeps_the_old_file_on_failure(tmp_path, kind):
    target = tmp_path / "CURRENT"
    files.write_file_atomically(target, b"one")
    seam.set_fault(kind, errnum=errno.EIO)
    with pytest.raises(errors.StorageIOError):
        files.write_file_atomically(target, b"two")
    seam.clear_fault()
    assert files.read_file(target) == b"one"
    assert files.list_directory(tmp_path) == ["CURRENT"]


def test_write_file_atomically_reports_a_failed_directory_sync(tmp_path):
    seam.set_fault("dirsync")
    with pytest.raises(errors.StorageIOError, match="cannot sync the directory"):
        files.write_file_atomically(tmp_path / "CURRENT", b"one")


def test_write_file_atomically_orders_sync_rename_directory_sync(tmp_path):
    target = str(tmp_path / "CURRENT")
    seam.start_recording()
    files.write_file_atomically(target, b"one")
    kinds = [entry[0] for entry in seam.stop_recording()]
    assert kinds == ["create", "write", "sync", "rename", "dirsync"]


def test_rename_syncs_both_directories(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "x").write_bytes(b"1")
    seam.start_recording()
    files.rename_file(tmp_path / "a" / "x", tmp_path / "b" / "y")
    recorded = seam.stop_recording()
    assert [entry[:3] for entry in recorded] == [
        ("rename", str(tmp_path / "a" / "x"), str(tmp_path / "b" / "y")),
        ("dirsync", str(tmp_path / "b"), None),
        ("dirsync", str(tmp_path / "a"), None),
    ]


def test_link_and_remove(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    files.link_file(tmp_path / "a", tmp_path / "b")
    files.remove_file(tmp_path / "a")
    assert files.list_directory(tmp_path) == ["b"]
    files.remove_file(tmp_path / "a", missing_ok=True)
    with pytest.raises(errors.StorageIOError) as caught:
        files.remove_file(tmp_path / "a")
    assert caught.value.errno == errno.ENOENT


def test_make_directory_that_exists(tmp_path):
    assert files.make_directory(tmp_path / "x") is True
    assert files.make_directory(tmp_path / "x") is False
    with pytest.raises(errors.StorageIOError):
        files.make_directory(tmp_path / "missing" / "x")


def test_list_directory_that_is_missing(tmp_path):
    with pytest.raises(errors.StorageIOError, match="cannot list") as caught:
        files.list_directory(tmp_path / "missing")
    assert caught.value.errno == errno.ENOENT


def test_paths_of_any_kind(tmp_path):
    name = os.fsencode(tmp_path) + b"/\xff\xfe"
    files.write_file_atomically(name, b"1")
    assert files.read_file(name) == b"1"
    with files.File(name) as opened:
        assert os.fsencode(opened.path) == name


# ---- faults ----

ACTIONS = {
    "open": lambda file, folder: files.File(folder / "other", WRITE_FLAGS),
    "read": lambda file, folder: file.read(1, 0),
    "write": lambda file, folder: file.write(b"abcd", 0),
    "sync": lambda file, folder: file.sync(),
    "allocate": lambda file, folder: file.allocate(0, 4096),
    "truncate": lambda file, folder: file.truncate(1),
    "rename": lambda file, folder: files.rename_file(file.path, folder / "other", sync=False),
    "link": lambda file, folder: files.link_file(file.path, folder / "other"),
    "remove": lambda file, folder: files.remove_file(file.path),
    "dirsync": lambda file, folder: files.sync_directory(folder),
    "mkdir": lambda file, folder: files.make_directory(folder / "new"),
}


@pytest.mark.parametrize("kind", ACTIONS)
@pytest.mark.parametrize("errnum", [errno.EIO, errno.ENOSPC, errno.EMFILE])
def test_each_kind_fails_as_told_and_works_again(file, tmp_path, kind, errnum):
    file.write(b"0123", 0)
    names = files.list_directory(tmp_path)
    seam.set_fault(kind, errnum=errnum)
    expected = errors.NoSpaceError if errnum == errno.ENOSPC else errors.StorageIOError
    with pytest.raises(expected) as caught:
        ACTIONS[kind](file, tmp_path)
    assert caught.value.errno == errnum
    assert caught.value.path is not None
    # Nothing was done, and the plan is used up.
    assert files.list_directory(tmp_path) == names
    assert file.read(4, 0) == b"0123"
    ACTIONS[kind](file, tmp_path)
    assert seam.operation_count() >= 2


def test_the_nth_matching_operation_fails(file):
    seam.set_fault("write", 3)
    file.write(b"1", 0)
    file.sync()
    file.write(b"2", 0)
    with pytest.raises(errors.StorageIOError):
        file.write(b"3", 0)
    file.write(b"4", 0)
    assert seam.operation_count() == 4


def test_for_ever_fails_from_the_nth_on(file):
    seam.set_fault(("write", "sync"), 2, for_ever=True)
    file.write(b"1", 0)
    for use in (file.sync, lambda: file.write(b"2", 0), file.sync):
        with pytest.raises(errors.StorageIOError):
            use()
    seam.clear_fault()
    file.sync()


def test_path_restricts_the_plan(tmp_path):
    seam.set_fault("write", path="second")
    with files.File(tmp_path / "first", WRITE_FLAGS) as first:
        first.write(b"1", 0)
    with (
        files.File(tmp_path / "second", WRITE_FLAGS) as second,
        pytest.raises(errors.StorageIOError),
    ):
        second.write(b"1", 0)
    assert seam.operation_count() == 1


def test_short_write_that_fails_leaves_half(file):
    seam.set_fault("write", errnum=errno.ENOSPC, short_write=True)
    with pytest.raises(errors.NoSpaceError):
        file.write(b"abcdef", 0)
    assert file.size() == 3


def test_short_write_is_gone_on_after(file):
    # write(2) may always write less: the caller never sees it.
    seam.set_fault("write", errnum=0, short_write=True, for_ever=True)
    for size in (1, 2, 3, 1000):
        file.write(b"a" * size, 0)
        assert file.read(size, 0) == b"a" * size


def test_counting_only(file):
    seam.set_fault(nth=0)
    file.write(b"1", 0)
    file.sync()
    file.sync()
    assert seam.operation_count() == 3
    assert seam.operation_count("sync") == 2
    assert seam.operation_count("rename") == 0


def test_unknown_kinds_are_refused():
    with pytest.raises(ValueError):
        seam.set_fault("fsync")
    with pytest.raises(ValueError):
        seam.operation_count("fsync")
    with pytest.raises(ValueError):
        seam.set_fault(path="x" * 2000)


# ---- recording ----


def test_recording_holds_every_change_in_order(tmp_path):
    path, other = str(tmp_path / "f"), str(tmp_path / "g")
    seam.start_recording()
    files.make_directory(tmp_path / "d")
    with files.File(path, WRITE_FLAGS) as file:
        file.allocate(0, 100)
        file.write(b"abc", 5)
        file.read(1, 0)
        file.sync()
        file.truncate(50)
    files.link_file(path, other)
    files.rename_file(path, other)
    files.remove_file(other)
    recorded = seam.stop_recording()
    assert recorded == [
        ("mkdir", str(tmp_path / "d"), None, 0, None),
        ("dirsync", str(tmp_path), None, 0, None),
        ("create", path, None, 0, None),
        ("allocate", path, None, 100, None),
        ("write", path, None, 5, b"abc"),
        ("sync", path, None, 0, None),
        ("truncate", path, None, 50, None),
        ("link", path, other, 0, None),
        ("rename", path, other, 0, None),
        ("dirsync", str(tmp_path), None, 0, None),
        ("remove", other, None, 0, None),
    ]


def test_opening_what_exists_is_recorded_only_when_it_truncates(path):
    files.File(path, WRITE_FLAGS).close()
    seam.start_recording()
    files.File(path, WRITE_FLAGS).close()
    files.File(path).close()
    assert seam.stop_recording() == []
    seam.start_recording()
    files.File(path, WRITE_FLAGS | os.O_TRUNC).close()
    assert seam.stop_recording() == [("truncate", path, None, 0, None)]


def test_failed_operations_are_recorded_as_far_as_they_went(file, path):
    seam.start_recording()
    seam.set_fault("write", errnum=errno.EIO, short_write=True)
    with pytest.raises(errors.StorageIOError):
        file.write(b"abcd", 0)
    for kind, use in (("sync", file.sync), ("truncate", lambda: file.truncate(0))):
        seam.set_fault(kind)
        with pytest.raises(errors.StorageIOError):
            use()
    assert seam.stop_recording() == [("write", path, None, 0, b"ab")]


def test_recordings_do_not_mix_and_stop_is_idempotent(file, path):
    seam.start_recording()
    file.write(b"1", 0)
    seam.start_recording()
    file.write(b"2", 0)
    assert seam.stop_recording() == [("write", path, None, 0, b"2")]
    assert seam.stop_recording() == []
    file.write(b"3", 0)
    assert seam.stop_recording() == []


def test_recording_of_several_threads_loses_nothing(tmp_path):
    def work(index):
        with files.File(tmp_path / f"f{index}", WRITE_FLAGS) as file:
            for offset in range(200):
                file.write(bytes([index]), offset)
                if offset % 50 == 0:
                    file.sync()

    seam.start_recording()
    threads = [threading.Thread(target=work, args=(index,)) for index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorded = seam.stop_recording()
    for index in range(3):
        mine = [entry for entry in recorded if entry[1].endswith(f"f{index}")]
        assert [entry[3] for entry in mine if entry[0] == "write"] == list(range(200))
        assert sum(entry[0] == "sync" for entry in mine) == 4
