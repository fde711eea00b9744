"""The exceptions of the byte-key store: plyvel's names over the storage errors of `dynalsm.errors`.

`Error` is everything the engine raises, `IOError` is also the built-in OSError, a closed object
raises RuntimeError, all as in plyvel. What plyvel has no name for keeps its own class, so that it
can be told apart: ReadOnlyError, StorageLimitError, ForkedProcessError, ...
"""

from __future__ import annotations

from dynalsm import errors
from dynalsm.errors import (
    ClosedError,
    CorruptionError,
    EncryptionError,
    ForkedProcessError,
    FormatError,
    NoSpaceError,
    PoisonedError,
    ReadOnlyError,
    StorageLimitError,
)

Error = errors.StorageError
IOError = errors.StorageIOError


class LockedError(errors.LockedError, IOError):
    """Another process, or another handle in this one, has the database open for writing.

    plyvel reports this as IOError; `pid` is the holder's process id when it is known.
    """

    def __init__(self, message: str, *, path: str | None = None, pid: int | None = None) -> None:
        IOError.__init__(self, message, path=path)
        self.pid = pid


class IteratorInvalidError(Error):
    """A raw iterator stands on no entry."""

    def __init__(self, message: str = "the iterator stands on no entry") -> None:
        super().__init__(message)


class UnsupportedError(Error, NotImplementedError):
    """plyvel has this, and it has no meaning here (custom comparators)."""


__all__ = [
    "ClosedError",
    "CorruptionError",
    "EncryptionError",
    "Error",
    "ForkedProcessError",
    "FormatError",
    "IOError",
    "IteratorInvalidError",
    "LockedError",
    "NoSpaceError",
    "PoisonedError",
    "ReadOnlyError",
    "StorageLimitError",
    "UnsupportedError",
]
