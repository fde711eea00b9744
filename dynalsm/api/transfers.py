"""Exports and imports (reference 10.4, 10.5, 13.8).

A bucket is a directory below `Settings.bucket_root`; without that setting both are refused. The
work goes on in the background (model/exports.py, model/imports.py); small tables are done when the
call returns, although the reply says IN_PROGRESS.
"""

from __future__ import annotations

from typing import Any, NoReturn

from dynalsm import errors, limits
from dynalsm.api import arns, names, tables, tokens
from dynalsm.api.backups import check_recoverable
from dynalsm.api.registry import Reply, Request, operation
from dynalsm.api.table_checks import fail
from dynalsm.model import backup, buckets, exports, imports, jobs, pitr, records
from dynalsm.model import schema as schemas
from dynalsm.model.catalog import TableHandle
from dynalsm.model.exports import FULL, INCREMENTAL, Selection
from dynalsm.model.formats import CSV, NONE
from dynalsm.model.jobs import IN_PROGRESS

LIST_LIMIT = 25
DUPLICATE = "Duplicate request detected: the client token was used with other parameters"
WINDOW_MIN_SECONDS = 15 * 60
WINDOW_MAX_SECONDS = 24 * 3600
AES256 = "AES256"


# Exports.


@operation("ExportTableToPointInTime")
def export_table_to_point_in_time(database: Any, request: Request, form: Any) -> Reply:
    """Write a table, or what changed in it, into a bucket."""
    name = arns.parse_table(database.settings, request["TableArn"], "tableArn is not a valid ARN")
    known = _known(database, exports.KIND, request, "ExportConflictException")
    if known is not None:
        return {"ExportDescription": _export(known)}
    handle = database.catalog.get(name)
    if handle is None:
        _refuse("TableNotFoundException", f"Table not found: {name}")
    check_bucket(database, request["S3Bucket"], request.get("S3Prefix"))
    if request.get("S3SseKmsKeyId") and request.get("S3SseAlgorithm") != "KMS":
        fail("Invalid Request: KMS Key Id is not supported for this encryption type")
    selected = _selected(handle, request, form)
    check_recoverable(handle)
    _check_running(database, exports.KIND, limits.EXPORTS_MAX, "export")
    pitr.ensure_base(database, handle)
    pitr.settle(database)
    record = {**_export_record(database, handle, request), "filter": selected}
    snapshot = None
    try:
        moment, snapshot = _moment(database, handle, request)
        job = exports.start(database, {**record, **moment}, snapshot)
    except BaseException:
        if snapshot is not None:
            snapshot.close()
        raise
    reply = {"ExportDescription": _export(job.record)}
    jobs.of(database).wait(job)
    return reply


@operation("DescribeExport")
@records.trusting("a record of an export")
def describe_export(database: Any, request: Request, _form: Any) -> Reply:
    """Describe an export."""
    arn = request["ExportArn"]
    part = arns.parse(database.settings, arn, "export", "Invalid Export ARN")
    record = jobs.of(database).record(exports.KIND, part.id)
    if record is None or record["arn"] != arn:
        _refuse("ExportNotFoundException", f"Export not found: {arn}")
    return {"ExportDescription": _export(record)}


@operation("ListExports")
@records.trusting("a record of an export")
def list_exports(database: Any, request: Request, _form: Any) -> Reply:
    """List the exports of the last 90 days by ARN."""
    found = _records(database, exports.KIND, request)
    page, token = arns.page(
        found, request.get("NextToken"), request.get("MaxResults") or LIST_LIMIT, _by_arn
    )
    reply: Reply = {
        "ExportSummaries": [
            {
                "ExportArn": record["arn"],
                "ExportStatus": record["status"],
                "ExportType": record["type"],
            }
            for record in page
        ]
    }
    if token is not None:
        reply["NextToken"] = token
    return reply


def _export_record(database: Any, handle: TableHandle, request: Request) -> dict[str, Any]:
    """Return the parts of an export's record that do not depend on time."""
    settings = database.settings
    return {
        "arn": f"{handle.arn}/export/{backup.new_id(settings.clock())}",
        "table": handle.schema.id,
        "table_arn": handle.arn,
        "bucket": request["S3Bucket"],
        "owner": request.get("S3BucketOwner"),
        "prefix": request.get("S3Prefix"),
        "sse": request.get("S3SseAlgorithm") or AES256,
        "sse_key": request.get("S3SseKmsKeyId"),
        "format": request.get("ExportFormat") or "DYNAMODB_JSON",
        "type": request.get("ExportType") or FULL,
        "is_type_given": request.get("ExportType") is not None,
        "token": tokens.token_of(request),
        "digest": tokens.digest(request),
    }


def _moment(database: Any, handle: TableHandle, request: Request) -> tuple[dict[str, Any], Any]:
    """Return (what the record says about time, a snapshot for a full export of this moment)."""
    now = database.settings.clock()
    if request.get("ExportType") == INCREMENTAL:
        return _window(database, handle, request, now), None
    wanted = names.seconds(request.get("ExportTime"))
    if wanted is not None and wanted < now:
        return {"export_time": wanted, "seqno": _seqno_at(database, handle, wanted)}, None
    if wanted is not None and wanted > now:
        _refuse("InvalidExportTimeException", "ExportTime must not be in the future")
    snapshot = database.engine.snapshot()
    database.finish(snapshot.seqno)
    return {"export_time": now, "seqno": snapshot.seqno}, snapshot


def _seqno_at(database: Any, handle: TableHandle, moment: float) -> int:
    try:
        return pitr.seqno_at(database, handle, moment)
    except pitr.NotRestorable:
        _refuse(
            "InvalidExportTimeException",
            "The time to export is outside of the window of point in time recovery",
        )


def _window(database: Any, handle: TableHandle, request: Request, now: float) -> dict[str, Any]:
    """Return the window [from, to) of an incremental export."""
    wanted = request.get("IncrementalExportSpecification") or {}
    begin = names.seconds(wanted.get("ExportFromTime"))
    if begin is None:
        fail("Invalid Request: ExportFromTime must be provided in IncrementalExportSpecification")
    end = names.seconds(wanted.get("ExportToTime"))
    end = now if end is None else end
    if end > now:
        _refuse("InvalidExportTimeException", "ExportToTime must not be in the future")
    for limit, is_wrong in (
        ("less than 15 minutes", end - begin < WINDOW_MIN_SECONDS),
        ("greater than 24 hours", end - begin > WINDOW_MAX_SECONDS),
    ):
        if is_wrong:
            _refuse(
                "InvalidExportTimeException",
                f"Difference between export from time and export to time is {limit}",
            )
    _seqno_at(database, handle, begin)
    return {
        "from_time": begin,
        "from_seqno": pitr.seqno_before(database, handle, int(begin * 1000)),
        "export_time": end,
        "seqno": pitr.seqno_before(database, handle, int(end * 1000)),
        "view": wanted.get("ExportViewType") or "NEW_AND_OLD_IMAGES",
    }


def _selected(handle: TableHandle, request: Request, form: Any) -> dict[str, Any] | None:
    """Return FilterSpecification as exports.Selection takes it. Raises: ExpressionError."""
    wanted = request.get("FilterSpecification")
    if not wanted:
        return None
    selected = {
        name: value for name, value in wanted.items() if name != "ExpressionAttributeValues"
    }
    given = wanted.get("ExpressionAttributeValues")
    if given is not None:
        selected["values"] = {name: form.encode_value(value) for name, value in given.items()}
    Selection(handle, selected)
    return selected


def _export(record: dict[str, Any]) -> dict[str, Any]:
    """Return an ExportDescription."""
    described = {
        "ExportArn": record["arn"],
        "ExportStatus": record["status"],
        "StartTime": record["started_at"],
        "TableArn": record["table_arn"],
        "TableId": record["table"],
        "ClientToken": record["token"],
        "S3Bucket": record["bucket"],
        "S3SseAlgorithm": record["sse"],
        "ExportFormat": record["format"],
    }
    if record["type"] == INCREMENTAL:
        described["IncrementalExportSpecification"] = {
            "ExportFromTime": record["from_time"],
            "ExportToTime": record["export_time"],
            "ExportViewType": record["view"],
        }
    else:
        described["ExportTime"] = record["export_time"]
    if record["is_type_given"]:
        described["ExportType"] = record["type"]
    optional = {
        "S3BucketOwner": record["owner"],
        "S3Prefix": record["prefix"],
        "S3SseKmsKeyId": record["sse_key"],
        "EndTime": record.get("ended_at"),
        "ExportManifest": record.get("manifest"),
        "BilledSizeBytes": record.get("size_bytes"),
        "ItemCount": record.get("items"),
        **failure_of(record),
    }
    described.update({name: value for name, value in optional.items() if value is not None})
    return described


# Imports.


@operation("ImportTable")
def import_table(database: Any, request: Request, _form: Any) -> Reply:
    """Make a new table of what lies in a bucket."""
    known = _known(database, imports.KIND, request, "ImportConflictException")
    if known is not None:
        return {"ImportTableDescription": _import(database, known)}
    source = request["S3BucketSource"]
    check_bucket(database, source["S3Bucket"], None)
    options = request.get("InputFormatOptions") or {}
    if options.get("Csv") is not None and request["InputFormat"] != CSV:
        fail(
            "Invalid Request: Unsupported InputFormatOptions for the given input format: "
            f"{request['InputFormat']}."
        )
    schema = tables.schema_of(request["TableCreationParameters"], database.settings)
    _check_running(database, imports.KIND, limits.IMPORTS_MAX, "import")
    arn = database.settings.table_arn(schema.name)
    record = {
        "arn": f"{arn}/import/{backup.new_id(database.settings.clock())}",
        "table": schema.id,
        "table_arn": arn,
        "schema": schemas.pack(schema),
        "bucket": source["S3Bucket"],
        "prefix": source.get("S3KeyPrefix") or "",
        "format": request["InputFormat"],
        "compression": request.get("InputCompressionType") or NONE,
        "csv": options.get("Csv") or {},
        "request": {name: value for name, value in request.items() if value is not None},
        "token": tokens.token_of(request),
        "digest": tokens.digest(request),
    }
    with database.catalog.mutex:
        tables.refuse_existing(database, schema.name)
        job = imports.start(database, record)
    reply = {"ImportTableDescription": _import(database, job.record)}
    jobs.of(database).wait(job)
    return reply


@operation("DescribeImport")
@records.trusting("a record of an import")
def describe_import(database: Any, request: Request, _form: Any) -> Reply:
    """Describe an import."""
    arn = request["ImportArn"]
    part = arns.parse(database.settings, arn, "import", "Invalid Import ARN")
    record = jobs.of(database).record(imports.KIND, part.id)
    if record is None or record["arn"] != arn:
        _refuse("ImportNotFoundException", f"Import not found: {arn}")
    return {"ImportTableDescription": _import(database, record)}


@operation("ListImports")
@records.trusting("a record of an import")
def list_imports(database: Any, request: Request, _form: Any) -> Reply:
    """List the imports of the last 90 days by ARN."""
    found = _records(database, imports.KIND, request)
    page, token = arns.page(
        found, request.get("NextToken"), request.get("PageSize") or LIST_LIMIT, _by_arn
    )
    reply: Reply = {"ImportSummaryList": [_import_summary(database, record) for record in page]}
    if token is not None:
        reply["NextToken"] = token
    return reply


def _import_summary(database: Any, record: dict[str, Any]) -> dict[str, Any]:
    summary = {
        "ImportArn": record["arn"],
        "ImportStatus": record["status"],
        "TableArn": record["table_arn"],
        "S3BucketSource": record["request"]["S3BucketSource"],
        "CloudWatchLogGroupArn": imports.error_log(database, record["arn"].rpartition("/")[2]),
        "InputFormat": record["format"],
        "StartTime": record["started_at"],
    }
    if "ended_at" in record:
        summary["EndTime"] = record["ended_at"]
    return summary


def _import(database: Any, record: dict[str, Any]) -> dict[str, Any]:
    """Return an ImportTableDescription."""
    request = record["request"]
    described = {
        **_import_summary(database, record),
        "TableId": record["table"],
        "ClientToken": record["token"],
        "ErrorCount": record.get("errors", 0),
        "InputCompressionType": record["compression"],
        "TableCreationParameters": request["TableCreationParameters"],
        "ProcessedSizeBytes": record.get("bytes", 0),
        "ProcessedItemCount": record.get("processed", 0),
        "ImportedItemCount": record.get("imported", 0),
    }
    if "InputFormatOptions" in request:
        described["InputFormatOptions"] = request["InputFormatOptions"]
    failure = failure_of(record)
    described.update({name: value for name, value in failure.items() if value is not None})
    return described


# Both.


def check_bucket(database: Any, name: str, prefix: str | None) -> None:
    """Refuse buckets when nothing stands in for S3, and prefixes that are no plain path."""
    try:
        found = buckets.find(database.settings, name)
    except buckets.NoRoot:
        fail(
            "S3Bucket is not supported by dynalsm until a directory stands in for S3: open the "
            "database with bucket_root"
        )
    except buckets.NoBucket:
        return  # told by the operation's status, as on AWS
    try:
        found.path(buckets.joined(prefix, "x"))
    except buckets.BadKey:
        fail(f"Invalid Request: S3Prefix is no plain path: {prefix}")


def failure_of(record: dict[str, Any]) -> dict[str, str | None]:
    """Return FailureCode and FailureMessage of a job's record, None when it did not fail."""
    code, text = record.get("failure") or (None, None)
    return {"FailureCode": code, "FailureMessage": text}


def _known(database: Any, kind: Any, request: Request, conflict: str) -> dict[str, Any] | None:
    try:
        return tokens.find(database, kind, request)
    except tokens.Mismatch:
        _refuse(conflict, DUPLICATE)


@records.trusting("a record of an export or import")
def _check_running(database: Any, kind: Any, most: int, what: str) -> None:
    running = [
        record for _, record in jobs.of(database).records(kind) if record["status"] == IN_PROGRESS
    ]
    if len(running) >= most:
        _refuse(
            "LimitExceededException",
            f"Subscriber limit exceeded: Only {most} {what} operations can be done simultaneously",
        )


def _records(database: Any, kind: Any, request: Request) -> list[dict[str, Any]]:
    """Return the records of a kind in order of their ARNs, of all tables or of one."""
    wanted = request.get("TableArn")
    if wanted is not None:
        name = arns.parse_table(database.settings, wanted, "Invalid Request: Table ARN is invalid.")
        wanted = database.settings.table_arn(name)
    found = [record for _, record in jobs.of(database).records(kind)]
    return sorted(
        (record for record in found if wanted in (None, record["table_arn"])), key=_by_arn
    )


def _by_arn(record: dict[str, Any]) -> str:
    arn: str = record["arn"]
    return arn


def _refuse(code: str, text: str) -> NoReturn:
    raise errors.API_ERRORS[code](text)
