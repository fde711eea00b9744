"""Bulk puts: objects of a bucket into a table that exists (reference 1.3).

A bulk operation is a job of the kind "bulk", named by its id. It writes items as PutItem does, a
hundred in a commit, so indexes, streams and expiry times follow, and other writers go on. A record
may carry a condition; such records are written one by one.

How far it has come is in the same commit as the items:

    catalog record ("bulk-progress", id) = {"object": number, "row": next record in it, counters,
                                            "errors", "conditions": bytes of the two reports}

so after a crash every record is written once. Reports grow in `<database>/imports/<id>.*.jsonl`
and go to the output bucket at the end:

    {prefix}/AWSDynamoDB/{id}/manifest-summary.json
    {prefix}/AWSDynamoDB/{id}/errors/{name}.json.gz
    {prefix}/AWSDynamoDB/{id}/condition-check-failures/{name}.json.gz

Thread safety: any thread.
"""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Iterator
from typing import Any, Final

import msgpack
import orjson

from dynalsm import values
from dynalsm._core import files
from dynalsm.expressions import ExpressionError, Placeholders, bind_condition
from dynalsm.model import buckets, jobs, sources
from dynalsm.model.backup_file import Stopped
from dynalsm.model.buckets import Bucket, joined
from dynalsm.model.catalog import record_key
from dynalsm.model.entries import IndexKeyProblem
from dynalsm.model.formats import Condition, CsvOptions, ObjectProblem, Row
from dynalsm.model.handles import TableHandle
from dynalsm.model.imports import DIRECTORY
from dynalsm.model.item_collections import CollectionTooLarge
from dynalsm.model.jobs import (
    CANCELLED,
    COMPLETED,
    COMPLETED_WITH_ERRORS,
    FAILED,
    Job,
    Kind,
)
from dynalsm.model.keys import KeyProblem
from dynalsm.model.sources import NoObjects, Source
from dynalsm.model.writes import ActionProblem, ItemTooLarge, Put, StaleHandle

PROGRESS: Final = "bulk-progress"
CHUNK_ITEMS: Final = 100
CHUNK_BYTES: Final = 1 << 20
PACE_SECONDS: Final = 0.1  # longest sleep before it is asked whether to stop
ERROR: Final = "ERROR"
CONDITION_FAILURE: Final = "CONDITION_CHECK_FAILURE"
# Report file -> folder below the output prefix.
_REPORTS = {"errors": "errors", "conditions": "condition-check-failures"}
_KINDS = {"errors": ERROR, "conditions": CONDITION_FAILURE}
_PROBLEMS = (
    ValueError,
    KeyProblem,
    ItemTooLarge,
    CollectionTooLarge,
    ExpressionError,
    IndexKeyProblem,
)


def start(database: Any, record: dict[str, Any]) -> Job:
    """Start a bulk put; `record` has "arn", "table" (id), "input", "output", "max_units"."""
    return jobs.of(database).start(KIND, record["arn"].rpartition("/")[2], record)


def is_running(database: Any, table_id: str) -> bool:
    """Return whether a bulk operation writes to the table with this id."""
    found = jobs.of(database).records(KIND)
    return any(
        record["table"] == table_id and record["status"] in jobs.UNFINISHED for _, record in found
    )


def _run(database: Any, job: Job) -> None:
    wanted = job.record["input"]
    try:
        bucket = buckets.find(database.settings, wanted["S3Bucket"])
        output = buckets.find(database.settings, job.record["output"]["S3Bucket"])
        source = Source(
            bucket,
            wanted.get("S3KeyPrefix") or "",
            wanted["InputFormat"],
            wanted.get("InputCompressionType") or "NONE",
            CsvOptions(),
        )
    except (buckets.NoBucket, buckets.NoRoot):
        _end(database, job, FAILED, ["S3NoSuchBucket", "The specified S3 bucket does not exist"])
        return
    except NoObjects as problem:
        _end(database, job, FAILED, ["S3NoSuchKey", str(problem)])
        return
    with _Load(database, job, source) as load:
        try:
            load.run()
        except Stopped:
            if not job.cancelled.is_set():
                raise
            load.save()
    load.report(output)
    if job.cancelled.is_set():
        _end(database, job, CANCELLED, ["Cancelled", "The operation was cancelled"])
    else:
        _end(database, job, COMPLETED_WITH_ERRORS if load.state["failed"] else COMPLETED, None)
    load.remove_reports()


def _end(database: Any, job: Job, status: str, failure: list[str] | None) -> None:
    job.finish(status, failure=failure)
    database.catalog.write(PROGRESS, job.name, None)


def _fail(database: Any, job: Job, error: Exception) -> None:
    _end(database, job, FAILED, ["InternalError", str(error)])


def _fresh() -> dict[str, Any]:
    return {
        **dict.fromkeys(("object", "row", "processed", "failed", "bytes", "done_bytes"), 0),
        **dict.fromkeys(("errors", "conditions"), 0),
        "usage": {"table": 0, "LSI": {}, "GSI": {}},
    }


class _Load:
    """The work of one operation. `state` is the progress record."""

    def __init__(self, database: Any, job: Job, source: Source) -> None:
        self._database = database
        self._job = job
        self._source = source
        self._total_bytes = source.size_bytes
        self._handle = self._newest()
        self.state: dict[str, Any] = database.catalog.read(PROGRESS, job.name) or _fresh()
        self._chunk: list[Put] = []
        self._chunk_bytes = 0
        self._keys: set[bytes] = set()
        # Write units used, against `max_units` a second.
        self._units = 0.0
        self._since = time.monotonic()
        directory = os.path.join(database.path, DIRECTORY)
        files.make_directory(directory)
        self._paths = {
            name: os.path.join(directory, f"{job.name}.{name}.jsonl") for name in _REPORTS
        }
        self._files: dict[str, Any] = {}

    def __enter__(self) -> _Load:
        for name, path in self._paths.items():
            self._files[name] = open(path, "ab", opener=buckets.private)
            # What a crash let the report run ahead of the items is said again.
            self._files[name].truncate(min(self.state[name], os.path.getsize(path)))
        return self

    def __exit__(self, *exc: object) -> None:
        for file in self._files.values():
            file.close()

    def _newest(self) -> TableHandle:
        handle: TableHandle = self._database.catalog.find_id(self._job.record["table"])
        return handle

    def run(self) -> None:
        """Write all records that are left. Raises: Stopped."""
        self._show()
        for number in range(self.state["object"], len(self._source.objects)):
            first = self.state["row"]
            each = self._source.objects[number]
            try:
                for row in self._source.rows(each):
                    if row.index >= first:
                        self._take(each.key, row)
            except (ObjectProblem, OSError) as problem:
                index = problem.index if isinstance(problem, ObjectProblem) else 0
                self._flush()
                self._note(each.key, index, str(problem))
                self.state["failed"] += 1
            self._flush()
            self.state["done_bytes"] += self.state["bytes"]
            self.state.update(object=number + 1, row=0, bytes=0)
        self.save()

    def _take(self, key: str, row: Row) -> None:
        """Add one record to the chunk, or write it by itself."""
        self._job.check()
        try:
            if row.problem is not None:
                raise row.problem
            write = self._put(row)
        except _PROBLEMS as problem:
            self._flush()
            self._refuse(key, row, problem)
            return
        if write.condition is not None or write.key in self._keys:
            self._flush()
        self._chunk.append(write)
        self._keys.add(write.key)
        self._chunk_bytes += len(row.item)
        self.state["processed"] += 1
        self.state.update(row=row.index + 1, bytes=row.end_bytes)
        if write.condition is not None:
            self._put_alone(key, row)
        elif len(self._chunk) >= CHUNK_ITEMS or self._chunk_bytes >= CHUNK_BYTES:
            self._flush()

    def _put(self, row: Row) -> Put:
        handle = self._handle
        key = handle.keys.encode(row.item)
        return Put(handle, key, row.item, _bound(row.condition))

    def _put_alone(self, key: str, row: Row) -> None:
        try:
            (written,) = self._flush()
        except ActionProblem as problem:
            self._drop()
            self.state["failed"] += 1
            self._note(key, row.index, sources.explain(problem.problem))
            return
        if written.is_failed:
            existing = written.old_item
            line = {"Item": orjson.Fragment(values.json_item_text(row.item))}
            if existing is not None:
                line["ExistingItem"] = orjson.Fragment(values.json_item_text(existing))
            self._write_report("conditions", key, row.index, line)

    def _flush(self) -> list[Put]:
        """Write the chunk, and in the same commit how far that is; returns what was written."""
        if not self._chunk:
            return []
        try:
            seqno = self._commit(self._chunk)
        except ActionProblem:
            if len(self._chunk) == 1 and self._chunk[0].condition is not None:
                raise
            self._write_singly()
            return []
        writes = self._chunk
        self._drop()
        self._count(writes)
        self._database.finish(seqno)
        self._show()
        self._pace()
        return writes

    def _commit(self, writes: list[Put], *, is_last: bool = True) -> int:
        """Write items as one commit, with the progress when nothing before it is left undone."""
        extra = self._stage if is_last else None
        while True:
            try:
                seqno: int = self._database.writes.run_all(writes, extra=extra)
                return seqno
            except StaleHandle:
                self._handle = self._newest()
                for position, old in enumerate(writes):
                    item = old.new_item
                    assert item is not None
                    writes[position] = Put(self._handle, old.key, item, old.condition)

    def _write_singly(self) -> None:
        """Find the item that keeps a chunk from being written (a full item collection)."""
        writes = self._chunk
        self._drop()
        for write in writes:
            item = write.new_item
            is_last = write is writes[-1]
            try:
                self._database.finish(self._commit([write], is_last=is_last))
            except ActionProblem as problem:
                self.state["failed"] += 1
                line: dict[str, Any] = {"errorMessages": [sources.explain(problem.problem)]}
                if item is not None:
                    line["Item"] = orjson.Fragment(values.json_item_text(item))
                self._write_report("errors", "", -1, line)
            else:
                self._count([write])

    def _drop(self) -> None:
        self._chunk, self._chunk_bytes = [], 0
        self._keys = set()

    def _stage(self, batch: Any) -> None:
        key = record_key(PROGRESS, self._job.name)
        batch.put(self._database.catalog.tree, key, msgpack.packb(self.state))

    def save(self) -> None:
        """Keep the progress when there is nothing to write with it."""
        self._database.catalog.write(PROGRESS, self._job.name, self.state)
        self._show()

    # Counting.

    def _count(self, writes: list[Put]) -> None:
        usage = self.state["usage"]
        for write in writes:
            if write.is_failed:
                continue
            usage["table"] += write.new_size
            self._units += write.tally().total_units
            for index, _, new in write.index_changes or ():
                if new is not None:
                    sizes = usage.setdefault(index.kind, {})
                    size_bytes = index.keys.stored_size(new[1])
                    sizes[index.name] = sizes.get(index.name, 0) + size_bytes

    def _show(self) -> None:
        self._job.progress = {
            "processed": self.state["processed"],
            "failed": self.state["failed"],
            "bytes": self.state["done_bytes"] + self.state["bytes"],
            "total_bytes": self._total_bytes,
            "usage": self.state["usage"],
        }

    def _pace(self) -> None:
        """Wait as long as `max_units` a second asks for."""
        limit = self._job.record.get("max_units")
        if limit:
            due = self._since + self._units / limit
            while time.monotonic() < due and not self._job.should_stop():
                self._job.cancelled.wait(min(PACE_SECONDS, due - time.monotonic()))

    # Reports.

    def _refuse(self, key: str, row: Row, problem: Exception) -> None:
        self.state["failed"] += 1
        self.state["processed"] += 1
        self.state.update(row=row.index + 1, bytes=row.end_bytes)
        self._note(key, row.index, sources.explain(problem))

    def _note(self, key: str, index: int, text: str) -> None:
        self._write_report("errors", key, index, {"errorMessages": [text]})

    def _write_report(self, name: str, key: str, index: int, line: dict[str, Any]) -> None:
        pointer = {"bucket": self._job.record["input"]["S3Bucket"], "key": key, "itemIndex": index}
        whole = {
            "itemS3Pointer": pointer,
            "bulkOperationArn": self._job.record["arn"],
            **line,
        }
        file = self._files[name]
        file.write(orjson.dumps(whole) + b"\n")
        file.flush()
        self.state[name] = file.tell()

    def report(self, output: Bucket) -> None:
        """Write the reports that were asked for, and the manifest, to the output bucket."""
        wanted = self._job.record["output"]
        prefix = wanted.get("S3KeyPrefix")
        folder = joined(prefix, f"AWSDynamoDB/{self._job.name}")
        written = {}
        for name, path in self._paths.items():
            if self.state[name] and _KINDS[name] in wanted["OutputType"]:
                key = f"{folder}/{_REPORTS[name]}/{self._job.name}.json.gz"
                with open(path, "rb") as file:
                    output.put(key, gzip.compress(file.read(), 1))
                written[_KINDS[name]] = [key]
        summary = {
            "bulkOperationArn": self._job.record["arn"],
            "processedItemCount": self.state["processed"],
            "failedItemCount": self.state["failed"],
            "outputFiles": written,
        }
        output.put(f"{folder}/manifest-summary.json", orjson.dumps(summary))

    def remove_reports(self) -> None:
        """Remove the files that the reports were gathered in."""
        for path in self._paths.values():
            files.remove_file(path, missing_ok=True)


def _bound(condition: Condition | None) -> Any:
    """Raises: ExpressionError."""
    if condition is None:
        return None
    placeholders = Placeholders(condition.names, condition.values)
    bound = bind_condition(condition.expression, placeholders, "ConditionExpression")
    placeholders.check_unused()
    return bound


def summaries(database: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (id, record) of all operations that are still shown."""
    yield from jobs.of(database).records(KIND)


KIND: Final = Kind("bulk", _run, _fail)
