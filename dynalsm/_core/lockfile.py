"""Locks of a database directory: one writer, any number of readers beside it.

Two files, both empty but for the writer's process id in the first; they are never removed:

    LOCK           flock, exclusive: the writer
    LOCK.readers   flock, shared: every read-only handle. The writer asks, before it removes files
                   for good, whether there are readers.

An flock belongs to the open file description, so it ends when the process dies, however it dies.
Descriptors are close-on-exec, and a forked child closes its copies at once without unlocking:
neither frees the parent's lock, nor keeps it when the parent is gone.

Thread safety: all functions. `_held` is guarded by `_mutex`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from types import TracebackType
from typing import Self

from dynalsm import errors
from dynalsm._core import files

LOCK = "LOCK"
READERS = "LOCK.readers"

# Left-justified, of one length for every process id.
_PID_TEXT = b"%-20d\n"

# How often a lock file that is replaced under our hands is opened again.
_ATTEMPTS = 10

# Reentrant: the collector may end a forgotten engine, and so a lock, in the middle of all this.
_mutex = threading.RLock()
# Locks held by this process. Guarded by _mutex. Writers by (st_dev, st_ino) of the directory.
_writers: dict[tuple[int, int], DirectoryLock] = {}
_held: set[DirectoryLock] = set()


class DirectoryLock:
    """The lock on a directory, held from construction until release().

    shared=False: the writer's. Raises LockedError when another process or handle has it.
    shared=True: a reader's; where the directory cannot be written and holds no lock file, there
    can be no writer either, and the lock is only nominal.
    """

    def __init__(self, directory: str, *, shared: bool = False) -> None:
        self.directory = directory
        self.shared = shared
        self._pid = os.getpid()
        self._file: files.File | None = None
        self._readers: files.File | None = None
        with _mutex:
            self._identity = _identity(directory)
            if shared:
                self._readers = _open_readers(directory)
                if self._readers is not None:
                    _lock_shared(self._readers)
            else:
                self._acquire_locked()
            _held.add(self)

    def _acquire_locked(self) -> None:
        if self._identity in _writers:
            raise errors.LockedError(
                "the database is open in this process already",
                path=self.directory,
                pid=os.getpid(),
            )
        self._file = _open_exclusively(self.directory)
        try:
            # Over the whole of what the last writer left, in one write: no mixture of two numbers,
            # and no truncation, after which ext4 would write the file out at once (1.5 ms).
            self._file.write(_PID_TEXT % self._pid, 0)
            self._readers = _open_readers(self.directory)
        except BaseException:
            self._file.close()
            raise
        _writers[self._identity] = self

    @property
    def held(self) -> bool:
        """Whether this process holds the lock through this object."""
        return self in _held

    def has_readers(self) -> bool:
        """Whether a read-only handle is open on the directory, in this process or another.

        REQUIRES: this is the writer's lock. A reader may come at any time after the answer.
        """
        if self._readers is None or self.shared or not self.held:
            return False
        try:
            fcntl.flock(self._readers.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(self._readers.fileno(), fcntl.LOCK_UN)
        return False

    def release(self) -> None:
        """Give the lock up. Again is allowed, and in a forked child it does nothing."""
        with _mutex:
            if self not in _held:
                return
            _held.discard(self)
            if _writers.get(self._identity) is self:
                del _writers[self._identity]
            self._close()

    def _close(self) -> None:
        # Closing is enough: LOCK_UN would free it for every process that shares the description.
        for file in (self._file, self._readers):
            if file is not None:
                file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


def writer_pid(directory: str) -> int | None:
    """Return the process id that the last writer left in LOCK, or None."""
    try:
        text = files.read_file(os.path.join(directory, LOCK))
    except errors.StorageError:
        return None
    return int(text) if text.strip().isdigit() else None


def _identity(directory: str) -> tuple[int, int]:
    try:
        status = os.stat(directory)
    except OSError as error:
        raise _io_error("cannot find the directory", directory, error) from error
    return status.st_dev, status.st_ino


def _open_exclusively(directory: str) -> files.File:
    path = os.path.join(directory, LOCK)
    for _ in range(_ATTEMPTS):
        file = files.File(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(path, file):
                return file
        except BlockingIOError:
            file.close()
            raise _locked(directory) from None
        except OSError as error:
            file.close()
            raise _io_error("cannot lock the directory", path, error) from error
        file.close()
    raise errors.LockedError("the lock file keeps being replaced", path=path)


def _is_still(path: str, file: files.File) -> bool:
    """Whether the path still leads to the file: somebody may have removed what we locked."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _lock_shared(file: files.File) -> None:
    # Waits only for a writer that is just asking whether there are readers.
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_SH)
    except OSError as error:
        file.close()
        raise _io_error("cannot lock the directory", file.path, error) from error


def _open_readers(directory: str) -> files.File | None:
    path = os.path.join(directory, READERS)
    try:
        return files.File(path, os.O_RDONLY)
    except errors.StorageIOError as error:
        if error.errno != errno.ENOENT:
            raise
    try:
        return files.File(path, os.O_RDONLY | os.O_CREAT)
    except errors.StorageIOError as error:
        if error.errno in {errno.EROFS, errno.EACCES, errno.EPERM}:
            return None
        raise


def _locked(directory: str) -> errors.LockedError:
    pid = writer_pid(directory)
    who = f"process {pid}" if pid is not None else "another process"
    return errors.LockedError(f"the database is open for writing in {who}", path=directory, pid=pid)


def _io_error(message: str, path: str, error: OSError) -> errors.StorageIOError:
    return errors.StorageIOError(f"{message}: {error.strerror}", path=path, errno=error.errno)


def _before_fork() -> None:
    _mutex.acquire()


def _after_fork_in_parent() -> None:
    _mutex.release()


def _after_fork_in_child() -> None:
    for lock in _held:
        lock._close()
    _held.clear()
    _writers.clear()
    _mutex.release()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
