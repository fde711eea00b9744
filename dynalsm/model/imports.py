"""Imports: objects of a bucket into a new table (reference 10.5).

An import is a job of the kind "import", named by its id. Its table is pending until every object
has been read (model/new_tables.py). One that a crash or close() cut off starts over, with the same
table id. What is wrong with records is written, a JSON line each, to
`<database>/imports/<import id>.errors.jsonl`.

Records are validated as PutItem would; those that fail are skipped and counted. The last of
several with one key stays.

Thread safety: any thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import orjson

from dynalsm._core import files
from dynalsm.model import buckets, jobs, sources
from dynalsm.model import schema as schemas
from dynalsm.model.buckets import Bucket
from dynalsm.model.entries import IndexKeyProblem
from dynalsm.model.formats import CsvOptions, ObjectProblem, Row
from dynalsm.model.handles import TableHandle
from dynalsm.model.jobs import COMPLETED, FAILED, Job, Kind
from dynalsm.model.keys import KeyProblem
from dynalsm.model.new_tables import NewTable
from dynalsm.model.schema import TableSchema
from dynalsm.model.sources import NoObjects, Source
from dynalsm.model.writes import ItemTooLarge, Put

DIRECTORY: Final = "imports"
# The progress that DescribeImport shows is brought up to date every so many records.
PROGRESS_ITEMS: Final = 1000
ITEMS_FAILED: Final = [
    "ItemValidationError",
    "Some of the items failed validation checks and were not imported. Please check CloudWatch "
    "error logs for more details.",
]


def error_log(database: Any, import_id: str) -> str:
    """Return the path of an import's error log."""
    return os.path.join(database.path, DIRECTORY, f"{import_id}.errors.jsonl")


def start(database: Any, record: dict[str, Any]) -> Job:
    """Start an import; the table's name is taken on return. Raises: KeyError when it was before.

    `record` has "arn", "schema", "bucket", "prefix", "format", "compression", "csv" and what
    descriptions show.
    """
    new = _begin(database, record)
    return jobs.of(database).start(KIND, record["arn"].rpartition("/")[2], record, new)


def _begin(database: Any, record: dict[str, Any]) -> NewTable | None:
    """Take the table's name; None when there is no bucket, or a crash came at the very end."""
    schema = schemas.unpack(record["schema"])
    if database.catalog.find_id(schema.id) is not None or _bucket(database, record) is None:
        return None
    return NewTable(database.catalog, schema)


def _bucket(database: Any, record: dict[str, Any]) -> Bucket | None:
    try:
        return buckets.find(database.settings, record["bucket"])
    except (buckets.NoBucket, buckets.NoRoot):
        return None


def _run(database: Any, job: Job) -> None:
    new: NewTable | None = job.held
    schema = schemas.unpack(job.record["schema"])
    if new is None:
        if "loaded" in job.record and database.catalog.find_id(schema.id) is not None:
            _finish(job, job.record["loaded"])
        else:
            text = "The specified S3 bucket does not exist"
            job.finish(FAILED, failure=["S3NoSuchBucket", text])
        return
    new.should_stop = job.should_stop
    bucket = _bucket(database, job.record)
    assert bucket is not None
    try:
        source = _source(job.record, schema, bucket)
        with _open_log(database, job.name) as log:
            load = Load(job, new.handle, source, log)
            new.put(load.pairs())
        job.update(loaded=load.counts())
        new.publish(schema)
    except NoObjects as problem:
        new.abandon()
        job.finish(FAILED, failure=["S3NoSuchKey", str(problem)])
        return
    except BaseException:
        new.abandon()
        raise
    _finish(job, load.counts())


def _source(record: dict[str, Any], schema: TableSchema, bucket: Bucket) -> Source:
    """Raises: NoObjects."""
    options = CsvOptions(
        record["csv"].get("Delimiter") or ",",
        tuple(record["csv"].get("HeaderList") or ()),
        schema.attributes,
    )
    return Source(bucket, record["prefix"], record["format"], record["compression"], options)


def _open_log(database: Any, import_id: str) -> BinaryIO:
    files.make_directory(os.path.join(database.path, DIRECTORY))
    return open(error_log(database, import_id), "wb", opener=buckets.private)


def _finish(job: Job, counts: dict[str, int]) -> None:
    if counts["errors"]:
        job.finish(FAILED, failure=ITEMS_FAILED, **counts)
    else:
        job.finish(COMPLETED, **counts)


def _fail(_database: Any, job: Job, error: Exception) -> None:
    job.finish(FAILED, failure=["InternalError", str(error)])


class Load:
    """Reading the records of one import."""

    def __init__(self, job: Job, handle: TableHandle, source: Source, log: BinaryIO) -> None:
        self._job = job
        self._handle = handle
        self._source = source
        self._log = log
        self._processed = self._imported = self._errors = 0
        self._done_bytes = self._object_bytes = 0

    def counts(self) -> dict[str, int]:
        """Return what descriptions count."""
        return {
            "processed": self._processed,
            "imported": self._imported,
            "errors": self._errors,
            "bytes": self._done_bytes + self._object_bytes,
        }

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield (tree key, stored value) of every good record."""
        for each in self._source.objects:
            try:
                for row in self._source.rows(each):
                    self._object_bytes = row.end_bytes
                    self._processed += 1
                    pair = self._pair(each.key, row)
                    if pair is not None:
                        self._imported += 1
                        yield pair
                    if self._processed % PROGRESS_ITEMS == 0:
                        self._job.progress = self.counts()
            except (ObjectProblem, OSError) as problem:
                # The rest of the object is skipped, as on AWS.
                index = problem.index if isinstance(problem, ObjectProblem) else 0
                self._note(each.key, index, str(problem))
            self._done_bytes += self._object_bytes
            self._object_bytes = 0

    def _pair(self, key: str, row: Row) -> tuple[bytes, bytes] | None:
        try:
            if row.problem is not None:
                raise row.problem
            return checked(self._handle, row.item)
        except (ValueError, KeyProblem, ItemTooLarge, IndexKeyProblem) as problem:
            self._note(key, row.index, sources.explain(problem))
            return None

    def _note(self, key: str, index: int, text: str) -> None:
        self._errors += 1
        bucket = self._job.record["bucket"]
        line = {
            "itemS3Pointer": {"bucket": bucket, "key": key, "itemIndex": index},
            "importArn": self._job.record["arn"],
            "errorMessages": [text],
        }
        self._log.write(orjson.dumps(line) + b"\n")


def checked(handle: TableHandle, item: bytes) -> tuple[bytes, bytes]:
    """Return (tree key, stored value) of an item that the table can take.

    Raises: KeyProblem, IndexKeyProblem, ItemTooLarge.
    """
    key = handle.keys.encode(item)
    stored = Put(handle, key, item).new_stored
    assert stored is not None
    return key, stored


KIND: Final = Kind("import", _run, _fail, _begin)
