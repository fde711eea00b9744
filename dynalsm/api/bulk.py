"""Bulk put operations: a load into a table that exists, in the background (reference 1.3)."""

from __future__ import annotations

from typing import Any

from dynalsm import errors
from dynalsm.api import arns, messages, names, tokens
from dynalsm.api.registry import Reply, Request, operation
from dynalsm.api.transfers import check_bucket, failure_of
from dynalsm.model import backup, bulk, jobs, records
from dynalsm.model.schema import ACTIVE

LIST_LIMIT = 10
_BAD_ARN = "Invalid Bulk Operation ARN"


@operation("StartBulkPutItems")
def start_bulk_put_items(database: Any, request: Request, _form: Any) -> Reply:
    """Begin to put what lies in a bucket into a table."""
    source = request["InputS3Configuration"]
    given = request["OutputS3Configuration"].items()
    # The bucket of the results may be left out: they go where the input came from.
    output = {"S3Bucket": source["S3Bucket"]} | {k: v for k, v in given if v is not None}
    check_bucket(database, source["S3Bucket"], None)
    check_bucket(database, output["S3Bucket"], output.get("S3KeyPrefix"))
    try:
        known = tokens.find(database, bulk.KIND, request)
    except tokens.Mismatch:
        raise errors.IdempotentParameterMismatchException(
            "The client token was used with other parameters"
        ) from None
    if known is not None:
        return {"BulkOperationDescription": _described(known)}
    with database.catalog.mutex:
        handle = names.control_table(database, request["TableName"])
        if any(index.schema.status != ACTIVE for index in handle.indexes.values()):
            _in_use(f"Can't put items in bulk when an index is being created. Table: {handle.name}")
        if bulk.is_running(database, handle.schema.id):
            _in_use(f"A bulk operation is in progress. Table: {handle.name}")
        arn = f"{handle.arn}/bulk-operation/{backup.new_id(database.settings.clock())}"
        record = {
            "arn": arn,
            "table": handle.schema.id,
            "table_name": handle.name,
            "input": dict(source),
            "output": output,
            "max_units": request.get("MaxWriteRequestUnits"),
            "tier": request.get("PerformanceTier") or "STANDARD",
            "token": tokens.token_of(request),
            "digest": tokens.digest(request),
        }
        job = bulk.start(database, record)
    reply = {"BulkOperationDescription": _described(job.record)}
    jobs.of(database).wait(job)
    return reply


@operation("DescribeBulkOperation")
@records.trusting("a record of a bulk operation")
def describe_bulk_operation(database: Any, request: Request, _form: Any) -> Reply:
    """Describe a bulk operation."""
    return {"BulkOperationDescription": _described(_record(database, request))}


@operation("ListBulkOperations")
@records.trusting("a record of a bulk operation")
def list_bulk_operations(database: Any, request: Request, _form: Any) -> Reply:
    """List the operations of the last 90 days, newest first."""
    found = sorted(bulk.summaries(database), reverse=True)
    page, token = arns.page(
        found,
        request.get("NextToken"),
        request.get("MaxResults") or LIST_LIMIT,
        lambda entry: entry[0],
        descending=True,
    )
    reply: Reply = {"BulkOperationsSummaryList": [_summary(record) for _, record in page]}
    if token is not None:
        reply["NextToken"] = token
    return reply


@operation("CancelBulkOperation")
def cancel_bulk_operation(database: Any, request: Request, _form: Any) -> Reply:
    """Stop a bulk operation; what it has put stays. One that is over stays as it is."""
    record = _record(database, request)
    jobs.of(database).cancel(bulk.KIND, record["arn"].rpartition("/")[2])
    return {"BulkOperationDescription": _described(_record(database, request))}


@records.trusting("a record of a bulk operation")
def _record(database: Any, request: Request) -> dict[str, Any]:
    arn = request["BulkOperationArn"]
    part = arns.parse(database.settings, arn, "bulk-operation", _BAD_ARN)
    record = jobs.of(database).record(bulk.KIND, part.id)
    if record is None or record["arn"] != arn:
        raise errors.API_ERRORS["ResourceNotFoundException"](
            f"{messages.NOT_FOUND}: BulkOperation: {arn} not found"
        )
    return record


def _in_use(text: str) -> None:
    raise errors.API_ERRORS["ResourceInUseException"](messages.IN_USE + text)


def _summary(record: dict[str, Any]) -> dict[str, Any]:
    summary = {
        "BulkOperationArn": record["arn"],
        "BulkOperationStatus": record["status"],
        "StartTime": record["started_at"],
    }
    if "ended_at" in record:
        summary["EndTime"] = record["ended_at"]
    return summary


def _described(record: dict[str, Any]) -> dict[str, Any]:
    """Return a BulkOperationDescription."""
    described = {
        **_summary(record),
        "TableDetails": [{"TableName": record["table_name"], "TableId": record["table"]}],
        "ClientToken": record["token"],
        "InputS3Configuration": record["input"],
        "OutputS3Configuration": record["output"],
        "ProcessedItemCount": record.get("processed", 0),
        "ProcessedInputBytes": record.get("bytes", 0),
        "FailedItemCount": record.get("failed", 0),
        "PerformanceTier": record["tier"],
        "BulkOperationUsage": [_usage(record)],
    }
    optional = {
        "TotalInputBytes": record.get("total_bytes"),
        "MaxWriteRequestUnits": record["max_units"],
        **failure_of(record),
    }
    described.update({name: value for name, value in optional.items() if value is not None})
    return described


def _usage(record: dict[str, Any]) -> dict[str, Any]:
    usage = record.get("usage") or {"table": 0}
    local, global_ = usage.get("LSI") or {}, usage.get("GSI") or {}
    vectors = usage.get("VECTOR") or {}
    described: dict[str, Any] = {
        "TableName": record["table_name"],
        "BulkPutBytes": sum((usage["table"], *local.values(), *global_.values())),
        "Table": {"BulkPutBytes": usage["table"]},
    }
    for member, sizes in (("LocalSecondaryIndexes", local), ("GlobalSecondaryIndexes", global_)):
        if sizes:
            described[member] = {name: {"BulkPutBytes": size} for name, size in sizes.items()}
    if vectors:
        described["VectorIndexes"] = {
            name: {"BulkPutVectorBytes": size} for name, size in vectors.items()
        }
    return described
