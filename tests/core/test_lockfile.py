"""The lock of a database directory, within and between processes."""

import errno
import fcntl
import os
import select
import subprocess
import sys
import threading

import pytest

from dynalsm import errors
from dynalsm._core import lockfile, seam
from dynalsm._core.lockfile import DirectoryLock


@pytest.fixture(autouse=True)
def quiet_seam():
    yield
    seam.clear_fault()


@pytest.fixture
def directory(tmp_path):
    return str(tmp_path)


class Holder:
    """A process that holds a lock until it is told to go on (a line) or killed."""

    def __init__(self, directory, shared=False, code=""):
        program = (
            "import os, sys\n"
            "from dynalsm._core.lockfile import DirectoryLock\n"
            f"lock = DirectoryLock({directory!r}, shared={shared})\n"
            "print('held', flush=True)\n"
            "sys.stdin.readline()\n"
            f"{code}\n"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.read() == "held"

    def read(self):
        assert select.select([self.process.stdout], [], [], 20)[0]
        return self.process.stdout.readline().strip()

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def is_locked(directory):
    """Whether a fresh open of LOCK finds it locked, asked without our own registry."""
    with open(os.path.join(directory, lockfile.LOCK)) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def test_writer_holds_the_lock_and_leaves_its_pid(directory):
    with DirectoryLock(directory) as lock:
        assert lock.held
        assert is_locked(directory)
        assert lockfile.writer_pid(directory) == os.getpid()
        with open(os.path.join(directory, lockfile.LOCK), "rb") as file:
            assert file.read() == b"%-20d\n" % os.getpid()
    assert not lock.held
    assert not is_locked(directory)


def test_release_is_idempotent_and_the_lock_can_be_taken_again(directory):
    lock = DirectoryLock(directory)
    lock.release()
    lock.release()
    again = DirectoryLock(directory)
    lock.release()
    assert is_locked(directory)
    again.release()


def test_second_writer_in_the_process_is_refused_by_any_path(directory, tmp_path_factory):
    other = tmp_path_factory.mktemp("links") / "link"
    other.symlink_to(directory)
    with DirectoryLock(directory):
        for path in (directory, directory + "/.", str(other)):
            with pytest.raises(errors.LockedError, match="in this process") as caught:
                DirectoryLock(path)
            assert caught.value.pid == os.getpid()
    DirectoryLock(str(other)).release()


def test_writer_in_another_process_is_named(directory):
    with Holder(directory) as holder:
        with pytest.raises(errors.LockedError) as caught:
            DirectoryLock(directory)
        assert caught.value.pid == holder.process.pid
        assert str(holder.process.pid) in str(caught.value)
        assert caught.value.path == directory


def test_death_of_the_writer_frees_the_lock(directory):
    with Holder(directory) as holder:
        holder.process.kill()
        holder.process.wait()
        DirectoryLock(directory).release()


def test_unreadable_pid_is_no_pid(directory):
    with Holder(directory):
        with open(os.path.join(directory, lockfile.LOCK), "wb") as file:
            file.write(b"what?" * 9)
        with pytest.raises(errors.LockedError, match="another process") as caught:
            DirectoryLock(directory)
        assert caught.value.pid is None


def test_readers_beside_a_writer_and_each_other(directory):
    with (
        DirectoryLock(directory) as writer,
        DirectoryLock(directory, shared=True) as first,
        DirectoryLock(directory, shared=True),
    ):
        assert first.held
        assert writer.has_readers()
    with DirectoryLock(directory, shared=True), DirectoryLock(directory) as writer:
        assert writer.has_readers()


def test_writer_knows_when_the_last_reader_is_gone(directory):
    with DirectoryLock(directory) as writer:
        assert not writer.has_readers()
        reader = DirectoryLock(directory, shared=True)
        assert writer.has_readers()
        reader.release()
        assert not writer.has_readers()
        # Asking leaves no lock behind that a reader would wait for.
        DirectoryLock(directory, shared=True).release()
    assert not writer.has_readers()


def test_readers_of_other_processes_count(directory):
    with DirectoryLock(directory) as writer:
        with Holder(directory, shared=True):
            assert writer.has_readers()
        assert not writer.has_readers()


def test_reader_of_a_directory_nobody_can_write(directory):
    # No lock file and no right to make one: nominal, as there can be no writer.
    seam.set_fault("open", 2, errno.EROFS, path=lockfile.READERS)
    with DirectoryLock(directory, shared=True) as reader:
        assert reader.held
    assert os.listdir(directory) == []


def test_missing_directory_is_an_error(directory):
    for shared in (False, True):
        with pytest.raises(errors.StorageIOError) as caught:
            DirectoryLock(directory + "/missing", shared=shared)
        assert caught.value.errno == errno.ENOENT


@pytest.mark.parametrize("nth", range(1, 6))
def test_failed_operation_leaves_no_lock(directory, nth):
    seam.set_fault(("open", "write"), nth, errno.EMFILE)
    try:
        DirectoryLock(directory).release()
        assert seam.operation_count() < nth
    except errors.StorageIOError as error:
        assert error.errno == errno.EMFILE
    seam.clear_fault()
    DirectoryLock(directory).release()


def test_replaced_lock_file_is_not_mistaken_for_the_lock(directory, monkeypatch):
    # Somebody removes LOCK between our open and our flock: the lock must be on the new file.
    path = os.path.join(directory, lockfile.LOCK)
    flock = fcntl.flock
    calls = []

    def remove_then_flock(file, operation):
        if not calls:
            os.unlink(path)
        calls.append(operation)
        flock(file, operation)

    monkeypatch.setattr(lockfile.fcntl, "flock", remove_then_flock)
    with DirectoryLock(directory):
        monkeypatch.undo()
        assert is_locked(directory)


def test_lock_is_not_inherited_through_exec(directory):
    lock = DirectoryLock(directory)
    sleeper = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    lock.release()
    try:
        DirectoryLock(directory).release()
    finally:
        sleeper.kill()
        sleeper.communicate()


def in_child(function):
    child = os.fork()
    if child == 0:
        try:
            os._exit(function() or 0)
        except BaseException:
            os._exit(99)
    return os.waitpid(child, 0)[1]


def test_forked_child_does_not_free_the_lock(directory):
    with DirectoryLock(directory) as lock, DirectoryLock(directory, shared=True) as reader:

        def child():
            held = lock.held or reader.held
            lock.release()
            reader.release()
            return held

        assert in_child(child) == 0
        assert is_locked(directory)
        assert lock.held and lock.has_readers()


def test_forked_child_is_refused_like_any_process(directory):
    parent = os.getpid()
    with DirectoryLock(directory):

        def child():
            try:
                DirectoryLock(directory)
            except errors.LockedError as error:
                return 0 if error.pid == parent else 2
            return 1

        assert in_child(child) == 0


def test_forked_child_does_not_keep_the_lock_of_a_dead_parent(directory):
    code = (
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    print(os.getpid(), flush=True)\n"
        "    import time\n"
        "    time.sleep(30)\n"
        "    os._exit(0)\n"
        "sys.stdin.readline()\n"
    )
    with Holder(directory, code=code) as holder:
        holder.go_on()
        child = int(holder.read())
        try:
            assert is_locked(directory)
            holder.process.kill()
            holder.process.wait()
            DirectoryLock(directory).release()
            os.kill(child, 0)
        finally:
            os.kill(child, 9)


def test_only_one_of_many_threads_gets_the_lock(directory):
    start = threading.Barrier(8)
    got, refused = [], []

    def work():
        start.wait()
        try:
            got.append(DirectoryLock(directory))
        except errors.LockedError:
            refused.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(got), len(refused)) == (1, 7)
    got[0].release()
