"""Directories that stand in for S3 buckets: `Settings.bucket_root`/<bucket>/<key>.

A key is a path below the bucket with "/" between its parts. Names come from requests, so a key
that is no plain path (empty parts, ".", "..", NUL) is refused: nothing can be reached outside the
root but what its owner linked into it.

Thread safety: a Bucket holds no state of its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final

from dynalsm._core import files
from dynalsm.model.settings import Settings

# As S3Bucket in the service model.
_NAME = re.compile(r"[a-z0-9A-Z]+[.\-\w]*[a-z0-9A-Z]+", re.A)
# Longest name of a file that common file systems take.
PART_MAX_BYTES: Final = 255


def private(path: str, flags: int) -> int:
    """Open a file for its owner alone, whatever the umask; an opener for open()."""
    return os.open(path, flags, 0o600)


class NoRoot(Exception):
    """The database was opened without `bucket_root`."""


class NoBucket(Exception):
    """There is no directory of this name under the root."""


class BadKey(ValueError):
    """A key or prefix that is no plain path."""


class Bucket:
    """One directory. Files are made and read by key."""

    def __init__(self, root: str) -> None:
        self.root = root

    def path(self, key: str) -> str:
        """Return where the object of a key is. Raises: BadKey."""
        parts = key.split("/")
        for part in parts:
            if part in ("", ".", "..") or "\0" in part or len(os.fsencode(part)) > PART_MAX_BYTES:
                raise BadKey(f"The key {key!r} is no plain path")
        return os.path.join(self.root, *parts)

    def make(self, key: str) -> str:
        """Make the directories that lead to a key; returns the object's path. Raises: BadKey."""
        path = self.path(key)
        missing = []
        directory = os.path.dirname(path)
        while not os.path.isdir(directory):
            missing.append(directory)
            directory = os.path.dirname(directory)
        for each in reversed(missing):
            files.make_directory(each)
        return path

    def put(self, key: str, content: bytes) -> None:
        """Write a small object whole and durably."""
        files.write_file_atomically(self.make(key), content)

    def keys(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield (key, size) of the objects whose key begins with `prefix`, in key order."""
        found = []
        for directory, _, names in os.walk(self._start(prefix)):
            for name in names:
                path = os.path.join(directory, name)
                key = os.path.relpath(path, self.root).replace(os.sep, "/")
                if key.startswith(prefix):
                    found.append((key, os.path.getsize(path)))
        yield from sorted(found)

    def _start(self, prefix: str) -> str:
        """Return the directory that holds every key with this prefix."""
        directory = prefix.rpartition("/")[0]
        try:
            return self.path(directory) if directory else self.root
        except BadKey:
            return self.root  # where no key begins like that


def find(settings: Settings, name: str) -> Bucket:
    """Return a bucket. Raises: NoRoot, NoBucket."""
    if settings.bucket_root is None:
        raise NoRoot
    path = os.path.join(settings.bucket_root, name)
    if not _NAME.fullmatch(name) or not os.path.isdir(path):
        raise NoBucket
    return Bucket(path)


def joined(prefix: str | None, key: str) -> str:
    """Return the key below a prefix; a slash at the prefix's end makes no difference."""
    return f"{prefix.rstrip('/')}/{key}" if prefix else key
