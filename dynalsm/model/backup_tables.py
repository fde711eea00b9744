"""A backup by hard links: a directory with the engine's tables of one tree at one moment.

    <id>.backup/about    a file as backup_file.py makes them, without entries: the description, and
                         `items` and `size_bytes` in it
    <id>.backup/data/    a database of the engine that holds the one tree (_core/checkpoint.py)

In an encrypted database all of it is encrypted, under keys of that database that are not beside it.

The tables on disk never change, so a link is as good as a copy and costs nothing. The directory is
made under another name, synced and renamed, so it is whole or not there.

Thread safety: a writer call and a BackupTables belong to one thread.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from dynalsm import errors
from dynalsm._core import Engine, checkpoint, files, verify
from dynalsm._core.keyring import Keyring
from dynalsm.model import backup_file
from dynalsm.model.backup_file import PARTIAL_SUFFIX, BackupFile, Entry, Totals

if TYPE_CHECKING:
    from dynalsm.model.statistics import Statistics

ABOUT: Final = "about"
DATA: Final = "data"
# Reading a backup once, from its beginning to its end, needs little.
MEMORY_BYTES: Final = 16 << 20


def can_link(engine: Any) -> bool:
    """Return whether an engine has tables on disk to link to."""
    return isinstance(engine, Engine)


def write(
    engine: Engine, path: str, tree: str, description: dict[str, Any], statistics: Statistics
) -> None:
    """Make a backup of a tree as it is now; it is durable, under its own name, on return.

    Its `seqno` is that of the last commit in it: everything that was visible before the call is.
    """
    partial = path + PARTIAL_SUFFIX
    remove(partial)
    try:
        files.make_directory(partial, sync=False)
        engine.flush()
        totals = {"items": statistics.items, "size_bytes": statistics.bytes}
        data = os.path.join(partial, DATA)
        seqno = checkpoint.write(engine, data, trees={tree}, has_keys=False)
        about = {**description, **totals, "tree": tree, "seqno": seqno}
        backup_file.write(os.path.join(partial, ABOUT), about, (), len, keys=engine.keys)
        files.rename_file(partial, path)
    except BaseException:
        remove(partial)
        raise


def remove(path: str) -> None:
    """Remove a backup or what is left of one; nothing there is no error."""
    if os.path.isdir(path):
        if not path.endswith(PARTIAL_SUFFIX):
            # What a crash leaves of it must not look like a backup.
            files.rename_file(path, path + PARTIAL_SUFFIX)
            path += PARTIAL_SUFFIX
        shutil.rmtree(path)
    else:
        files.remove_file(path, missing_ok=True)


class BackupTables:
    """An open backup, with the surface of BackupFile."""

    def __init__(
        self, path: str, keys: Keyring | None = None, *, allows_plain: bool = False
    ) -> None:
        """As BackupFile's."""
        self.path = path
        self._data = os.path.join(path, DATA)
        self._engine: Engine | None = None
        with BackupFile(os.path.join(path, ABOUT), keys, allows_plain=allows_plain) as about:
            self.description = about.description
            self._keys = keys if about.is_encrypted else None
        self.totals = Totals(self.description["items"], self.description["size_bytes"])
        self.size_bytes = sum(
            os.path.getsize(os.path.join(directory, name))
            for directory, _, names in os.walk(path)
            for name in names
        )

    def chunks(self) -> Iterator[list[Entry]]:
        """Yield all entries in tree order. Raises: CorruptionError."""
        if self._engine is None:
            self._engine = Engine.open(
                self._data,
                create_if_missing=False,
                read_only=True,
                keys=self._keys,
                memory_bytes=MEMORY_BYTES,
            )
        tree = self._engine.tree(self.description["tree"])
        yield from backup_file.tree_chunks(tree, None)

    def verify(self) -> Totals:
        """Read and check every byte; returns the totals. Raises: CorruptionError."""
        for problem in verify.verify(self._data, keys=self._keys).problems:
            raise errors.CorruptionError(f"damaged backup: {problem}", path=self.path)
        return self.totals

    def close(self) -> None:
        """Close what is open; more calls do nothing."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def __enter__(self) -> BackupTables:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def is_backup(path: str) -> bool:
    """Return whether a backup of either kind lies at `path`."""
    return os.path.isfile(path) or os.path.isfile(os.path.join(path, ABOUT))


def open_backup(
    path: str, keys: Keyring | None = None, *, allows_plain: bool = False
) -> BackupFile | BackupTables:
    """Open a backup of either kind, with the keys of an encrypted database.

    allows_plain: it need not be encrypted although there are keys: it came from elsewhere.
    Raises: FormatError, CorruptionError, EncryptionError, StorageIOError.
    """
    kind = BackupTables if os.path.isdir(path) else BackupFile
    return kind(path, keys, allows_plain=allows_plain)
