"""Restoring a table: from a backup, or to a moment of another table with point-in-time recovery.

A restore is a job of the kind "restore", named by the table it makes:

    {"schema": the new table's, "backup": id}             from a backup of this database, or
    {"schema": ..., "file": path}                         from a backup file that lies anywhere, or
    {"schema": ..., "table": source's id, "seqno": n}     the source as it was at a sequence number

The table is pending (model/new_tables.py) until everything is there. A restore that a crash or
close() cut off starts over when the database is opened again.

Thread safety: any thread.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from dynalsm import errors
from dynalsm.model import backup, jobs, pitr
from dynalsm.model import schema as schemas
from dynalsm.model.backup_file import BackupFile
from dynalsm.model.backup_tables import BackupTables, open_backup
from dynalsm.model.handles import TableHandle
from dynalsm.model.jobs import IN_PROGRESS, Job, Kind
from dynalsm.model.new_tables import NewTable
from dynalsm.model.schema import ACTIVE, TableSchema


def restored_schema(source: TableSchema, **changes: Any) -> TableSchema:
    """Return the schema of a table restored from one like `source`.

    Tags, streams, policies, TTL, deletion protection and continuous backups do not come along
    (reference 10.2). `changes` has the name, the id, the time and what the caller overrides.
    """
    schema = dataclasses.replace(
        source,
        stream=None,
        changelog=None,
        tags={},
        ttl_attribute=None,
        ttl_changed_at=0.0,
        deletion_protection=False,
        policy=None,
        extras={},
        **changes,
    )
    used = schema.used_attributes()
    kept = {name: kind for name, kind in schema.attributes.items() if name in used}
    indexes = tuple(dataclasses.replace(index, status=ACTIVE) for index in schema.indexes)
    return dataclasses.replace(schema, attributes=kept, indexes=indexes)


def start(database: Any, schema: TableSchema, **source: Any) -> Job:
    """Start the restore of a table; `source` as in the record (head of this file).

    The name is taken on return. Raises: KeyError when it was taken before.
    REQUIRES: catalog.mutex not held.
    """
    new = _prepare(database, schema)
    record = {"schema": schemas.pack(schema), **source}
    return jobs.of(database).start(KIND, schema.name, record, new)


def from_file(database: Any, path: str, target: str) -> Job:
    """Restore a backup file that lies anywhere. Raises: KeyError when the name is taken."""
    found = backup.read(path, backup.keys_of(database))
    summary = {
        "SourceBackupArn": found.arn,
        "SourceTableArn": found.table_arn,
        "RestoreDateTime": found.created_at,
    }
    return start(database, _plain(database, found.schema, target, summary), file=path)


def to_seqno(database: Any, source: TableHandle, target: str, seqno: int) -> Job:
    """Restore a table as it was at a sequence number, of a stream record for example.

    Raises: pitr.NotRestorable; KeyError when the name is taken.
    """
    pitr.check_seqno(database, source, seqno)
    summary = {"SourceTableArn": source.arn, "RestoreDateTime": database.settings.clock()}
    schema = _plain(database, source.schema, target, summary)
    return start(database, schema, table=source.schema.id, seqno=seqno)


def _plain(database: Any, source: TableSchema, name: str, summary: dict[str, Any]) -> TableSchema:
    """Return the schema of a restored table that differs in nothing it need not."""
    return restored_schema(
        source,
        name=name,
        id=str(uuid.uuid4()),
        created_at=database.settings.clock(),
        restored=summary,
    )


def _prepare(database: Any, schema: TableSchema) -> NewTable:
    summary = {**(schema.restored or {}), "RestoreInProgress": True}
    return NewTable(database.catalog, dataclasses.replace(schema, restored=summary))


def _begin_again(database: Any, record: dict[str, Any]) -> NewTable | None:
    """Take the name again; None when a crash came just after the table was there."""
    schema = schemas.unpack(record["schema"])
    is_there = database.catalog.find_id(schema.id) is not None
    return None if is_there else _prepare(database, schema)


def _run(database: Any, job: Job) -> None:
    new: NewTable | None = job.held
    if new is None:
        job.forget()
        return
    schema = schemas.unpack(job.record["schema"])
    new.should_stop = job.should_stop
    try:
        _load(database, job.record, new)
        summary = {**(schema.restored or {}), "RestoreInProgress": False}
        new.publish(dataclasses.replace(schema, restored=summary))
    except BaseException:
        new.abandon()
        raise
    job.forget()


def _load(database: Any, record: dict[str, Any], new: NewTable) -> None:
    if "table" in record:
        source = database.catalog.find_id(record["table"])
        if source is None:
            raise errors.StorageError("the table to restore from was deleted")
        with pitr.reading(database, record["table"]):
            pitr.build(database, source, new, record["seqno"])
        return
    with _opened(database, record) as file:
        new.load(file.chunks())


@contextmanager
def _opened(database: Any, record: dict[str, Any]) -> Iterator[BackupFile | BackupTables]:
    if "file" in record:
        keys = backup.keys_of(database)
        with open_backup(record["file"], keys, allows_plain=True) as file:
            yield file
        return
    kept = backup.of(database)
    file = kept.open(record["backup"])
    try:
        yield file
    finally:
        kept.release(record["backup"], file)


def _fail(_database: Any, job: Job, _error: Exception) -> None:
    job.forget()


def count_running(database: Any) -> int:
    """Return how many restores are under way."""
    return sum(record["status"] == IN_PROGRESS for _, record in jobs.of(database).records(KIND))


KIND: Final = Kind("restore", _run, _fail, _begin_again)
