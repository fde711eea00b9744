"""Exports: a table, or what changed in it, as files in a bucket, laid out as AWS does (10.4).

    {prefix}/AWSDynamoDB/{export id}/_started                     first
    {prefix}/AWSDynamoDB/{export id}/data/{name}.json.gz          full; .ion.gz for Ion
    {prefix}/AWSDynamoDB/data/{name}.json.gz                      incremental
    {prefix}/AWSDynamoDB/{export id}/manifest-files.json, .md5    one line per data file
    {prefix}/AWSDynamoDB/{export id}/manifest-summary.json, .md5  last: who finds it finds all

An export is a job of the kind "export", named by its id. It shows one sequence number; one that a
crash or close() cut off starts over and shows the same (data files have names that follow from the
id, so they are replaced). A full export reads a snapshot, or builds the state of an earlier moment
in a tree of its own; an incremental one reads the changelog.

Thread safety: any thread.
"""

from __future__ import annotations

import base64
import hashlib
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import ModuleType
from typing import Any, Final, NamedTuple

import orjson

from dynalsm import values
from dynalsm.expressions import Placeholders, bind_condition, bind_key_condition, bind_projection
from dynalsm.model import buckets, changelog, jobs, pitr
from dynalsm.model.backup import new_id
from dynalsm.model.backup_file import BLOCK_BYTES, BLOCK_ITEMS
from dynalsm.model.buckets import Bucket, joined
from dynalsm.model.catalog import TableHandle
from dynalsm.model.changelog import INSERT, REMOVE, Change, Changelog
from dynalsm.model.formats import ION, dynamodb_json, ion_items
from dynalsm.model.jobs import COMPLETED, FAILED, Job, Kind
from dynalsm.model.new_tables import ScratchTree

FULL: Final = "FULL_EXPORT"
INCREMENTAL: Final = "INCREMENTAL_EXPORT"
NEW_IMAGE: Final = "NEW_IMAGE"
# A data file is closed when so much text has gone into it.
FILE_BYTES: Final = 64 * 1024 * 1024
# Fast: text of items shrinks to a tenth either way.
GZIP_LEVEL: Final = 1
GZIP_WINDOW: Final = 31  # zlib's number for "with gzip's header"
NAME_CHARACTERS: Final = 26
_VERSIONS = {FULL: "2020-06-30", INCREMENTAL: "2023-08-01"}


class Totals(NamedTuple):
    """What an export wrote."""

    items: int
    size_bytes: int
    manifest: str


# What is exported.


class Selection:
    """Which items of a table an export has, and which parts of them (FilterSpecification).

    `wanted` has the expressions' texts under their API names, and "values": placeholder ->
    encoded value.
    """

    def __init__(self, handle: TableHandle, wanted: dict[str, Any] | None) -> None:
        """Raises: ExpressionError."""
        self.lower: bytes | None = None
        self.upper: bytes | None = None
        self.filter: Any = None
        self.projection: Any = None
        if wanted is None:
            return
        given = wanted.get("values")
        placeholders = Placeholders(
            wanted.get("ExpressionAttributeNames"),
            None
            if given is None
            else {name: values.decode_value(value) for name, value in given.items()},
        )
        if wanted.get("KeyConditionExpression") is not None:
            condition = bind_key_condition(wanted["KeyConditionExpression"], placeholders)
            self._set_range(handle, condition)
        if wanted.get("FilterExpression") is not None:
            text = wanted["FilterExpression"]
            self.filter = bind_condition(text, placeholders, "FilterExpression")
        if wanted.get("ProjectionExpression") is not None:
            self.projection = bind_projection(wanted["ProjectionExpression"], placeholders)
        placeholders.check_unused()

    def _set_range(self, handle: TableHandle, condition: Any) -> None:
        names = handle.keys.names
        resolved = condition.resolve(names[:1], names[1:], handle.schema.attributes)
        hash_values, equalities, last = resolved
        encode = values.encode_value
        prefix = handle.keys.partition_prefix(*map(encode, hash_values))
        operator, operands = last if last is not None else (None, ())
        self.lower, self.upper = handle.keys.sort_range(
            prefix, operator, list(map(encode, operands)), list(map(encode, equalities))
        )

    def holds(self, item: bytes | None) -> bool:
        """Return whether an item passes the filter."""
        if item is None:
            return False
        return self.filter is None or bool(self.filter.evaluate(values.ItemView(item)))

    def has_key(self, key: bytes) -> bool:
        """Return whether a tree key is in the range."""
        return self.lower is None or (
            key >= self.lower and (self.upper is None or key < self.upper)
        )

    def parts(self, item: bytes) -> bytes:
        """Return the selected parts of an item."""
        if self.projection is None:
            return item
        if self.projection.is_top_level:
            return values.select(item, self.projection.attributes)
        return values.encode_item(self.projection.apply(values.ItemView(item)))


@dataclass(frozen=True)
class Line:
    """One line of a data file, and the size of the item behind it."""

    text: bytes
    size_bytes: int


def _items(
    handle: TableHandle, tree: Any, snapshot: Any, selection: Selection, writer: ModuleType
) -> Iterator[Line]:
    join, size = handle.keys.join, handle.keys.stored_size
    bounds = (selection.lower, selection.upper)
    with tree.cursor(*bounds, snapshot=snapshot) as cursor:
        while chunk := cursor.next_chunk(BLOCK_ITEMS, BLOCK_BYTES):
            for key, stored in chunk:
                item = join(key, stored)
                if selection.holds(item):
                    yield Line(writer.item_line(selection.parts(item)), size(stored))


class _Touched(NamedTuple):
    """Where the first and the last change of an item in a window are: (log, shard, seqno)."""

    first: tuple[int, int, int]
    last: tuple[int, int, int]


def _changed_items(
    database: Any,
    handle: TableHandle,
    window: tuple[int, int],
    selection: Selection,
    writer: ModuleType,
    has_old_images: bool,
) -> Iterator[Line]:
    """Yield a line for each item that the window left different, or wrote to."""
    logs = pitr.logs(database, handle.schema.id)
    touched = _touched(handle, logs, window, selection)
    for key in sorted(touched):
        place = touched[key]
        first, last = _change(logs, place.first), _change(logs, place.last)
        old = None if first.kind == INSERT else first.old_item
        new = None if last.kind == REMOVE else last.new_item
        if (old is None and new is None) or not (selection.holds(old) or selection.holds(new)):
            continue
        text = writer.change_line(
            last.keys,
            selection.parts(old) if old is not None and has_old_images else None,
            selection.parts(new) if new is not None else None,
            last.milliseconds * 1000,
        )
        yield Line(text, values.item_size(new or last.keys))


def _touched(
    handle: TableHandle, logs: list[Changelog], window: tuple[int, int], selection: Selection
) -> dict[bytes, _Touched]:
    touched: dict[bytes, _Touched] = {}
    for number, log in enumerate(logs):
        for shard in range(log.record.shards):
            for change in pitr.shard_changes(log, shard, window[0] + 1, window[1]):
                key = handle.keys.encode(change.keys)
                if selection.has_key(key):
                    place = (number, shard, change.seqno)
                    before = touched.get(key)
                    touched[key] = _Touched(before.first if before else place, place)
    return touched


def _change(logs: list[Changelog], place: tuple[int, int, int]) -> Change:
    number, shard, seqno = place
    return changelog.read(logs[number], shard, seqno, seqno, 1, 0).changes[0]


# Writing.


class _DataFile:
    """A gzip file being written, with what the manifest says about it."""

    def __init__(self, bucket: Bucket, key: str) -> None:
        self.key = key
        self.items = 0
        self.text_bytes = 0
        self.md5 = hashlib.md5(usedforsecurity=False)
        self._packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, GZIP_WINDOW)
        self._file = open(  # noqa: SIM115 - closed by close()
            bucket.make(key), "wb", opener=buckets.private
        )

    def add(self, lines: list[bytes]) -> None:
        """Append lines."""
        text = b"".join(lines)
        self.items += len(lines)
        self.text_bytes += len(text)
        self._write(self._packer.compress(text))

    def close(self) -> dict[str, Any]:
        """Make the file durable; returns its line of the manifest."""
        with self._file:
            self._write(self._packer.flush())
            self._file.flush()
            os.fsync(self._file.fileno())
        digest = self.md5.digest()
        return {
            "itemCount": self.items,
            "md5Checksum": base64.b64encode(digest).decode(),
            # As S3 makes it of an upload in one part.
            "etag": hashlib.md5(digest, usedforsecurity=False).hexdigest() + "-1",
            "dataFileS3Key": self.key,
        }

    def abandon(self) -> None:
        """Close a file that will not be finished."""
        self._file.close()

    def _write(self, packed: bytes) -> None:
        self.md5.update(packed)
        self._file.write(packed)


def _write_lines(
    bucket: Bucket,
    folder: str,
    export_id: str,
    extension: str,
    lines: Iterator[Line],
    job: Job,
    tell: Callable[[int], None] | None,
) -> tuple[list[dict[str, Any]], int, int]:
    """Write the data files; returns (lines of the manifest, items, bytes)."""
    manifest = []
    items = size_bytes = 0
    file = _DataFile(bucket, _data_key(folder, export_id, 0, extension))
    pending: list[bytes] = []
    pending_bytes = 0
    try:
        for line in lines:
            items += 1
            size_bytes += line.size_bytes
            pending.append(line.text)
            pending_bytes += len(line.text)
            if pending_bytes >= BLOCK_BYTES:
                job.check()
                if tell is not None:
                    tell(items)
                file.add(pending)
                pending, pending_bytes = [], 0
                if file.text_bytes >= FILE_BYTES:
                    manifest.append(file.close())
                    key = _data_key(folder, export_id, len(manifest), extension)
                    file = _DataFile(bucket, key)
        file.add(pending)
        manifest.append(file.close())
    except BaseException:
        file.abandon()
        raise
    return manifest, items, size_bytes


def _data_key(folder: str, export_id: str, number: int, extension: str) -> str:
    digest = hashlib.sha256(f"{export_id}/{number}".encode()).digest()
    name = base64.b32encode(digest).decode().lower()[:NAME_CHARACTERS]
    return f"{folder}/{name}.{extension}"


def _write_manifest(bucket: Bucket, folder: str, name: str, content: bytes) -> None:
    digest = hashlib.md5(content, usedforsecurity=False).digest()
    bucket.put(f"{folder}/{name}.json", content)
    bucket.put(f"{folder}/{name}.md5", base64.b64encode(digest))


def write(
    database: Any,
    handle: TableHandle,
    bucket: Bucket,
    record: dict[str, Any],
    job: Job,
    tell: Callable[[int], None] | None = None,
) -> Totals:
    """Write everything an export consists of; `record` as in the catalog."""
    export_id = record["arn"].rpartition("/")[2]
    folder = joined(record["prefix"], f"AWSDynamoDB/{export_id}")
    bucket.put(f"{folder}/_started", b"")
    is_full = record["type"] == FULL
    writer = ion_items if record["format"] == ION else dynamodb_json
    data = f"{folder}/data" if is_full else joined(record["prefix"], "AWSDynamoDB/data")
    with _lines(database, handle, record, writer, job) as lines:
        entries, items, size_bytes = _write_lines(
            bucket, data, export_id, writer.EXTENSION, lines, job, tell
        )
    listed = b"".join(orjson.dumps(entry) + b"\n" for entry in entries)
    _write_manifest(bucket, folder, "manifest-files", listed)
    summary = _summary(database, handle, record, f"{folder}/manifest-files.json")
    summary["billedSizeBytes"] = size_bytes
    summary["itemCount"] = items
    summary["outputFormat"] = record["format"]
    if not is_full:
        summary["outputView"] = record["view"]
    summary["exportType"] = record["type"]
    _write_manifest(bucket, folder, "manifest-summary", orjson.dumps(summary))
    return Totals(items, size_bytes, f"{folder}/manifest-summary.json")


@contextmanager
def _lines(
    database: Any, handle: TableHandle, record: dict[str, Any], writer: ModuleType, job: Job
) -> Iterator[Iterator[Line]]:
    selection = Selection(handle, record["filter"])
    if record["type"] == INCREMENTAL:
        window = (record["from_seqno"], record["seqno"])
        has_old = record["view"] != NEW_IMAGE
        with pitr.reading(database, handle.schema.id):
            yield _changed_items(database, handle, window, selection, writer, has_old)
    elif job.held is not None:
        yield _items(handle, handle.tree, job.held, selection, writer)
    else:
        with ScratchTree(database.engine, job.should_stop) as scratch:
            with pitr.reading(database, handle.schema.id):
                pitr.build(database, handle, scratch, record["seqno"])
            yield _items(handle, scratch.tree, None, selection, writer)


def _summary(
    database: Any, handle: TableHandle, record: dict[str, Any], manifest: str
) -> dict[str, Any]:
    summary = {
        "version": _VERSIONS[record["type"]],
        "exportArn": record["arn"],
        "startTime": _iso(record["started_at"]),
        "endTime": _iso(database.settings.clock()),
        "tableArn": handle.arn,
        "tableId": handle.schema.id,
    }
    if record["type"] == FULL:
        summary["exportTime"] = _iso(record["export_time"])
    else:
        summary["exportFromTime"] = _iso(record["from_time"])
        summary["exportToTime"] = _iso(record["export_time"])
    return {
        **summary,
        "s3Bucket": record["bucket"],
        "s3Prefix": record["prefix"],
        "s3SseAlgorithm": record["sse"],
        "s3SseKmsKeyId": record["sse_key"],
        "manifestFilesS3Key": manifest,
    }


def _iso(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


# The job.


def start(database: Any, record: dict[str, Any], snapshot: Any) -> Job:
    """Start an export. `snapshot` is that of the record's number, None for an earlier moment."""
    return jobs.of(database).start(KIND, record["arn"].rpartition("/")[2], record, snapshot)


def write_now(
    database: Any,
    handle: TableHandle,
    bucket: Bucket,
    kind: str,
    moment: float | None = None,
    tell: Callable[[int], None] | None = None,
) -> Totals:
    """Write a full export while the caller waits; no record is kept of it.

    Without a moment it is of now, and the table needs no point-in-time recovery. `tell` is called
    now and then with how many items are written.
    Raises: pitr.NotRestorable.
    """
    now = database.settings.clock()
    record = {
        "arn": f"{handle.arn}/export/{new_id(now)}",
        "started_at": now,
        "export_time": now if moment is None else moment,
        "bucket": os.path.basename(bucket.root),
        **dict.fromkeys(("prefix", "filter", "sse_key")),
        "sse": "AES256",
        "format": kind,
        "type": FULL,
    }
    job = Job(jobs.of(database), KIND, "", record)
    if moment is not None:
        pitr.settle(database)
        record["seqno"] = pitr.seqno_at(database, handle, moment)
        return write(database, handle, bucket, record, job, tell)
    with database.engine.snapshot() as job.held:
        return write(database, handle, bucket, record, job, tell)


def _run(database: Any, job: Job) -> None:
    record = job.record
    try:
        handle = database.catalog.find_id(record["table"])
        try:
            bucket = buckets.find(database.settings, record["bucket"])
        except (buckets.NoBucket, buckets.NoRoot):
            text = "The specified S3 bucket does not exist"
            job.finish(FAILED, failure=["S3NoSuchBucket", text])
            return
        totals = write(database, handle, bucket, record, job)
        job.finish(
            COMPLETED,
            items=totals.items,
            size_bytes=totals.size_bytes,
            manifest=totals.manifest,
        )
    finally:
        if job.held is not None:
            job.held.close()


def _fail(_database: Any, job: Job, error: Exception) -> None:
    job.finish(FAILED, failure=["InternalError", str(error)])


KIND: Final = Kind("export", _run, _fail)
