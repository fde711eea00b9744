"""Kinesis streaming destinations: a table's changes, appended to a local file as JSON lines.

`Settings.kinesis_sinks` maps the ARN of a Kinesis stream to the file that stands in for it. One
thread per database copies the changelogs of all tables that have a destination; what it has
copied is kept in the catalog:

    catalog record ("kinesis", "<table id>/<stream ARN>") = [changelog label, [seqno per shard]]

A line is appended and synced before the record moves, so after a crash lines may come twice but
are never lost (Kinesis promises no more either).

Thread safety: the control plane calls enable, disable and set_precision under the catalog's
mutex; `copy` belongs to the thread.
"""

from __future__ import annotations

import os
from typing import Any

import orjson

from dynalsm import values
from dynalsm.model import changelog, streams
from dynalsm.model.buckets import private
from dynalsm.model.catalog import TableHandle
from dynalsm.model.changelog import Change, ChangelogRecord
from dynalsm.model.schema import ACTIVE, TableSchema

EXTRA = "kinesis"
DISABLED = "DISABLED"
MILLISECOND = "MILLISECOND"
POLL_SECONDS = 0.2
CHUNK_ITEMS = 1000
CHUNK_BYTES = 1 << 20


def destinations(schema: TableSchema) -> dict[str, dict[str, Any]]:
    """Return stream ARN -> {"status", "precision"} of a table."""
    found: dict[str, dict[str, Any]] = schema.extras.get(EXTRA) or {}
    return found


def enable(database: Any, handle: TableHandle, arn: str, precision: str) -> None:
    """Start copying from the next change on."""
    _set(database, handle, arn, {"status": ACTIVE, "precision": precision})
    changed = database.catalog.get(handle.name)
    log = changed.changelog.record
    start = [database.engine.last_seqno + 1] * log.shards
    database.catalog.write(EXTRA, _record_name(changed, arn), [log.label, start])
    start_copying(database)


def disable(database: Any, handle: TableHandle, arn: str) -> None:
    """Stop copying."""
    _set(database, handle, arn, {**destinations(handle.schema)[arn], "status": DISABLED})


def set_precision(database: Any, handle: TableHandle, arn: str, precision: str) -> None:
    """Change the unit of the time in later lines."""
    _set(database, handle, arn, {**destinations(handle.schema)[arn], "precision": precision})


def _set(database: Any, handle: TableHandle, arn: str, destination: dict[str, Any]) -> None:
    changed = {**destinations(handle.schema), arn: destination}
    streams.change_history(database.catalog, handle.schema.with_extra(EXTRA, changed))


def _record_name(handle: TableHandle, arn: str) -> str:
    return f"{handle.schema.id}/{arn}"


# Copying.


def start_copying(database: Any) -> None:
    """Start the database's copying thread unless it runs already."""
    if not getattr(database, "copies_to_kinesis", False):
        database.copies_to_kinesis = True
        database.repeat("kinesis", POLL_SECONDS, copy)


def resume(database: Any) -> None:
    """Start copying when any table has an active destination."""
    for name in database.catalog.names():
        for destination in destinations(database.catalog.get(name).schema).values():
            if destination["status"] == ACTIVE:
                start_copying(database)
                return


def copy(database: Any) -> int:
    """Copy what is new to all active destinations; returns the number of lines."""
    lines = 0
    for name in database.catalog.names():
        handle = database.catalog.get(name)
        if handle is None:
            continue
        for arn, destination in destinations(handle.schema).items():
            if destination["status"] == ACTIVE and arn in database.settings.kinesis_sinks:
                lines += _copy_table(database, handle, arn, destination["precision"])
    return lines


def _copy_table(database: Any, handle: TableHandle, arn: str, precision: str) -> int:
    """Copy what is new of one table; a closed changelog is finished before the next begins."""
    name = _record_name(handle, arn)
    place = label, seqnos = database.catalog.read(EXTRA, name) or _beginning(handle)
    logs = sorted(
        (log for log in database.catalog.logs() if log.table_id == handle.schema.id),
        key=lambda log: log.start_seqno,
    )
    labels = [log.label for log in logs]
    readable = changelog.readable_seqno(database.engine)
    lines = 0
    for log in logs[labels.index(label) if label in labels else 0 :]:
        if log.label != label:
            label, seqnos = log.label, [0] * log.shards
        copied, seqnos = _copy_log(database, handle, arn, precision, log, seqnos)
        lines += copied
        # Of a changelog that was closed a moment ago the end may not be durable yet.
        if log.closed_at is None or copied or readable < (log.end_seqno or 0):
            break
    if lines or label != place[0]:
        database.catalog.write(EXTRA, name, [label, seqnos])
    return lines


def _beginning(handle: TableHandle) -> tuple[str, list[int]]:
    """Return where to begin when a crash came before `enable` had noted it."""
    assert handle.changelog is not None
    record = handle.changelog.record
    return record.label, [record.start_seqno] * record.shards


def _copy_log(
    database: Any,
    handle: TableHandle,
    arn: str,
    precision: str,
    log: ChangelogRecord,
    seqnos: list[int],
) -> tuple[int, list[int]]:
    """Append one stretch of every shard; returns (lines, where to go on)."""
    readable = changelog.readable_seqno(database.engine)
    opened = database.catalog.open_log(log)
    changes: list[Change] = []
    following = []
    for shard, seqno in enumerate(seqnos):
        page = changelog.read(opened, shard, seqno, readable, CHUNK_ITEMS, CHUNK_BYTES)
        following.append(page.next_seqno)
        changes += page.changes
    changes.sort(key=lambda change: change.seqno)
    if changes:
        lines = [_line(database, handle, change, precision) for change in changes]
        _append(database.settings.kinesis_sinks[arn], b"".join(lines))
    return len(changes), following


def _append(path: str, text: bytes) -> None:
    with open(path, "ab", opener=private) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _line(database: Any, handle: TableHandle, change: Change, precision: str) -> bytes:
    time = change.milliseconds * (1 if precision == MILLISECOND else 1000)
    body: dict[str, Any] = {
        "ApproximateCreationDateTime": time,
        "ApproximateCreationDateTimePrecision": precision,
        "Keys": orjson.Fragment(values.json_item_text(change.keys)),
    }
    size = values.item_size(change.keys)
    for member, image in (("NewImage", change.new_item), ("OldImage", change.old_item)):
        if image is not None:
            body[member] = orjson.Fragment(values.json_item_text(image))
            size += values.item_size(image)
    body["SizeBytes"] = size
    identity = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
    line = {
        "awsRegion": database.settings.region,
        "eventID": f"{handle.schema.id.replace('-', '')[:16]}{change.seqno:016x}",
        "eventName": changelog.KIND_NAMES[change.kind],
        "userIdentity": identity if change.by_ttl else None,
        "recordFormat": "application/json",
        "tableName": handle.name,
        "dynamodb": body,
        "eventSource": "aws:dynamodb",
    }
    return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
