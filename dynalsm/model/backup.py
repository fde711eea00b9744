"""Backups of tables: `<database>/backups/<id>.backup`, a directory with links to the table's files
(model/backup_tables.py), or one file (model/backup_file.py: an engine without files, and backups
of older versions).

A backup is what one moment of the engine shows, so it is consistent although writes go on. It
says everything about itself; there is no list elsewhere. So backups outlive their table, may be
copied to another place or database, and are not affected by anything that happens to the catalog.

A backup is being made (CREATING) until its file has its name; a crash before that leaves a partial
file, which the next open for writing removes. Backups of the kind SYSTEM are made when a table
with point-in-time recovery is deleted, and expire.

Thread safety: any thread; several processes may read.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dynalsm import errors
from dynalsm._core import files
from dynalsm.model import backup_file, backup_tables
from dynalsm.model import schema as schemas
from dynalsm.model.backup_file import PARTIAL_SUFFIX, BackupFile, Stopped, Totals
from dynalsm.model.backup_tables import BackupTables, open_backup

if TYPE_CHECKING:
    from dynalsm.model.catalog import TableHandle
    from dynalsm.model.schema import TableSchema

log = logging.getLogger("dynalsm")

DIRECTORY: Final = "backups"
SUFFIX: Final = ".backup"
CREATING: Final = "CREATING"
AVAILABLE: Final = "AVAILABLE"
DELETED: Final = "DELETED"
USER: Final = "USER"
SYSTEM: Final = "SYSTEM"
SYSTEM_KEEP_SECONDS: Final = 35 * 86_400  # reference 10.3
NOTHING: Final = Totals(0, 0)


@dataclass(frozen=True)
class Backup:
    """One backup as it is described. `totals` and `file_bytes` are known once it is AVAILABLE."""

    id: str
    name: str
    kind: str
    status: str
    created_at: float
    expires_at: float | None
    table_arn: str
    schema: TableSchema
    totals: Totals = NOTHING
    file_bytes: int = 0

    @property
    def arn(self) -> str:
        """The ARN of the backup."""
        return f"{self.table_arn}/backup/{self.id}"


class BackupInUse(Exception):
    """A table is being restored from the backup."""


class Backups:
    """The backups of one open database."""

    def __init__(self, database: Any) -> None:
        self._database = weakref.ref(database)
        self._settings = database.settings
        self._engine = database.engine
        self.keys = keys_of(database)
        self.directory = os.path.join(database.path, DIRECTORY)
        self._mutex = threading.Lock()
        # Guarded by _mutex.
        self._known: dict[str, Backup] = {}
        self._creating: dict[str, Backup] = {}
        self._readers: dict[str, int] = {}

    # Reading.

    def path(self, backup_id: str) -> str:
        """Return where the file of a backup is."""
        return os.path.join(self.directory, backup_id + SUFFIX)

    def find(self, backup_id: str) -> Backup | None:
        """Return the backup with this id, or None."""
        with self._mutex:
            if backup_id in self._creating:
                return self._creating[backup_id]
            return self._load(backup_id)

    def all(self) -> list[Backup]:
        """Return all backups, oldest first."""
        with self._mutex:
            found = dict(self._creating)
            for name in self._names():
                backup_id = name.removesuffix(SUFFIX)
                backup = self._load_whole(backup_id) if name.endswith(SUFFIX) else None
                if backup is not None:
                    found[backup_id] = backup
        return [found[each] for each in sorted(found)]

    def is_creating(self, table_id: str) -> bool:
        """Return whether a backup of the table with this id is under way."""
        with self._mutex:
            return any(backup.schema.id == table_id for backup in self._creating.values())

    def _names(self) -> list[str]:
        return files.list_directory(self.directory) if os.path.isdir(self.directory) else []

    def _load(self, backup_id: str) -> Backup | None:
        """Read the description of a finished backup. REQUIRES: _mutex held."""
        if not os.path.exists(self.path(backup_id)):
            self._known.pop(backup_id, None)
            return None
        if backup_id not in self._known:
            with open_backup(self.path(backup_id), self.keys) as file:
                self._known[backup_id] = _described(backup_id, file)
        return self._known[backup_id]

    def _load_whole(self, backup_id: str) -> Backup | None:
        """Like _load, but a damaged file does not keep the others from being listed."""
        try:
            return self._load(backup_id)
        except (errors.CorruptionError, errors.FormatError, errors.EncryptionError) as problem:
            log.warning("backup left out of the list: %s", problem)
            return None

    def open(self, backup_id: str) -> BackupFile | BackupTables:
        """Open a backup to restore from it; give it back with `release`."""
        with self._mutex:
            file = open_backup(self.path(backup_id), self.keys)
            self._readers[backup_id] = self._readers.get(backup_id, 0) + 1
        return file

    def release(self, backup_id: str, file: BackupFile | BackupTables) -> None:
        """Close what `open` opened."""
        file.close()
        with self._mutex:
            self._readers[backup_id] -= 1
            if not self._readers[backup_id]:
                del self._readers[backup_id]

    # Changing.

    def create(self, handle: TableHandle, name: str) -> Backup:
        """Begin a backup of the table as it is now; small ones are finished on return.

        Raises: what went wrong with a small one.
        """
        database = self._database()
        assert database is not None
        self._check_writable()
        snapshot = self._engine.snapshot()
        backup = self._new(handle, name, USER, None)
        work = _Work()
        with self._mutex:
            self._creating[backup.id] = backup

        def run() -> None:
            try:
                with snapshot:
                    database.finish(snapshot.seqno)
                    self._write(handle, backup, snapshot, database.stopping.is_set)
            except (Stopped, errors.StorageError, OSError) as error:
                work.error = error
            finally:
                with self._mutex:
                    del self._creating[backup.id]
                work.done.set()

        database.spawn(f"backup-{backup.id}", run)
        if work.done.wait(self._settings.job_wait_seconds) and work.error is not None:
            raise work.error
        return backup

    def create_system(self, handle: TableHandle) -> None:
        """Back up a table that is about to be deleted, while nobody writes to it."""
        name = f"{handle.name}$DeletedTableBackup"
        expires_at = self._settings.clock() + SYSTEM_KEEP_SECONDS
        with self._engine.snapshot() as snapshot:
            backup = self._new(handle, name, SYSTEM, expires_at)
            self._write(handle, backup, snapshot)

    def delete(self, backup_id: str) -> None:
        """Delete a finished backup. Raises: BackupInUse."""
        self._check_writable()
        with self._mutex:
            if backup_id in self._readers or backup_id in self._creating:
                raise BackupInUse
            backup_tables.remove(self.path(backup_id))
            files.sync_directory(self.directory)
            self._known.pop(backup_id, None)

    def sweep(self) -> None:
        """Remove what a crash left unfinished, and what has expired."""
        now = self._settings.clock()
        for name in self._names():
            with self._mutex:
                is_left = name.removesuffix(SUFFIX + PARTIAL_SUFFIX) not in self._creating
            if name.endswith(SUFFIX + PARTIAL_SUFFIX) and is_left:
                backup_tables.remove(os.path.join(self.directory, name))
        for backup in self.all():
            if backup.expires_at is not None and backup.expires_at <= now:
                try:
                    self.delete(backup.id)
                except BackupInUse:
                    continue  # the next sweep comes

    def _check_writable(self) -> None:
        """Raises: ReadOnlyError."""
        if self._engine.read_only:
            raise errors.ReadOnlyError("the database is open read-only", path=self.directory)

    def _new(self, handle: TableHandle, name: str, kind: str, expires_at: float | None) -> Backup:
        now = self._settings.clock()
        backup_id = new_id(now)
        return Backup(backup_id, name, kind, CREATING, now, expires_at, handle.arn, handle.schema)

    def _write(
        self, handle: TableHandle, backup: Backup, snapshot: Any, should_stop: Any = lambda: False
    ) -> None:
        files.make_directory(self.directory)
        description = {
            "content": "backup",
            "name": backup.name,
            "kind": backup.kind,
            "created_at": backup.created_at,
            "expires_at": backup.expires_at,
            "table_arn": backup.table_arn,
            "schema": schemas.pack(backup.schema),
            "seqno": snapshot.seqno,
        }
        if backup_tables.can_link(self._engine):
            path, tree = self.path(backup.id), handle.tree.name
            backup_tables.write(self._engine, path, tree, description, handle.statistics)
            return
        chunks = backup_file.tree_chunks(handle.tree, snapshot)
        backup_file.write(
            self.path(backup.id),
            description,
            chunks,
            handle.keys.stored_size,
            should_stop,
            keys=self.keys,
        )


class _Work:
    """How a backup in the background ended."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.error: Exception | None = None


def new_id(now: float) -> str:
    """Return an id as AWS makes them: the milliseconds, 14 digits, and 8 hexadecimal ones."""
    return f"{int(now * 1000):014d}-{secrets.token_hex(4)}"


def keys_of(database: Any) -> Any:
    """Return the keys of a database; None when it is not encrypted, or has no files at all."""
    return getattr(database.engine, "keys", None)


def read(path: str, keys: Any = None) -> Backup:
    """Return the description of a backup that lies anywhere, encrypted with `keys` or not."""
    with open_backup(path, keys, allows_plain=True) as file:
        return _described(os.path.basename(path).removesuffix(SUFFIX), file)


def _described(backup_id: str, file: BackupFile | BackupTables) -> Backup:
    fields = file.description
    return Backup(
        backup_id,
        fields["name"],
        fields["kind"],
        AVAILABLE,
        fields["created_at"],
        fields["expires_at"],
        fields["table_arn"],
        schemas.unpack(fields["schema"]),
        file.totals,
        file.size_bytes,
    )


# The backups of every open database. Guarded by _mutex.
_backups: weakref.WeakKeyDictionary[Any, Backups] = weakref.WeakKeyDictionary()
_mutex = threading.Lock()


def of(database: Any) -> Backups:
    """Return the backups of a database."""
    with _mutex:
        found = _backups.get(database)
        if found is None:
            found = _backups[database] = Backups(database)
        return found
