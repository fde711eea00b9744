"""Contributor insights, and the Kinesis streaming destination of a table (reference 13.8).

Both are settings kept in the table's `extras` (model/insights.py counts the keys):

    "insights"  {index name, "" for the table: [mode, changed at, rule suffix (ms)]}
    "kinesis"   {stream ARN: {"status": ACTIVE | DISABLED, "precision": ..., "changed": seconds}}

A Kinesis stream is stood in for by a local file of JSON lines that `Settings.kinesis_sinks` names
(model/kinesis.py writes it); without one the destination is refused.
"""

from __future__ import annotations

import base64
from typing import Any, NoReturn

from dynalsm import errors, values
from dynalsm.api import messages, names
from dynalsm.api.registry import Reply, Request, operation
from dynalsm.api.table_checks import fail, invalid
from dynalsm.model import kinesis
from dynalsm.model.catalog import TableHandle
from dynalsm.model.insights import EXTRA as INSIGHTS
from dynalsm.model.schema import ACTIVE

DEFAULT_MODE = "ACCESSED_AND_THROTTLED_KEYS"
LIST_LIMIT = 100
_RULE_KINDS = {
    "ACCESSED_AND_THROTTLED_KEYS": ("C", "T"),
    "THROTTLED_KEYS": ("T",),
}


# Contributor insights.


@operation("UpdateContributorInsights")
def update_contributor_insights(database: Any, request: Request, _form: Any) -> Reply:
    """Turn contributor insights on or off for a table or one of its indexes."""
    enables = request["ContributorInsightsAction"] == "ENABLE"
    with database.catalog.mutex:
        handle = names.control_table(database, request["TableName"])
        index = _index_name(handle, request)
        insights = dict(handle.schema.extras.get(INSIGHTS) or {})
        now = database.settings.clock()
        mode = request.get("ContributorInsightsMode") or DEFAULT_MODE
        if enables:
            insights[index] = [mode, now, int(now * 1000)]
        elif index in insights:
            del insights[index]
        schema = (
            handle.schema.with_extra(INSIGHTS, insights or None)
            if (insights or INSIGHTS in handle.schema.extras)
            else handle.schema
        )
        if schema is not handle.schema:
            database.catalog.replace(schema)
            database.writes.watch()
    reply = _named(handle.name, index)
    reply["ContributorInsightsStatus"] = "ENABLING" if enables else "DISABLING"
    if enables:
        reply["ContributorInsightsMode"] = mode
    return reply


@operation("DescribeContributorInsights")
def describe_contributor_insights(database: Any, request: Request, form: Any) -> Reply:
    """Return whether contributor insights are on, and the names of their rules."""
    handle = names.control_table(database, request["TableName"])
    index = _index_name(handle, request)
    reply = _named(handle.name, index)
    setting = (handle.schema.extras.get(INSIGHTS) or {}).get(index)
    if setting is None:
        reply["ContributorInsightsStatus"] = "DISABLED"
        return reply
    mode, changed, suffix = setting
    keys = ["PK"]
    has_range = handle.indexes[index].schema.range_key if index else handle.schema.range_key
    if has_range:
        keys.append("SK")
    where = f"{handle.name}-{index}-{suffix}" if index else f"{handle.name}-{suffix}"
    reply["ContributorInsightsRuleList"] = [
        f"DynamoDBContributorInsights-{key}{kind}-{where}"
        for kind in _RULE_KINDS[mode]
        for key in keys
    ]
    reply["ContributorInsightsStatus"] = "ENABLED"
    reply["ContributorInsightsMode"] = mode
    reply["LastUpdateDateTime"] = changed
    reply["TopContributors"] = _top_contributors(database, handle, index, form)
    return reply


def _top_contributors(database: Any, handle: TableHandle, index: str, form: Any) -> dict[str, Any]:
    """Return the heaviest keys: an addition of ours, because there is no CloudWatch to show them.

    Clients that know DynamoDB's reply leave it out.
    """
    found = database.writes.insights.hot_keys(handle, handle.indexes[index] if index else None)
    return {
        member: [
            {
                "Key": {
                    name: form.decode_value(values.encode_value(value))
                    for name, value in entry["key"].items()
                },
                "Count": entry["count"],
                "Error": entry["error"],
            }
            for entry in entries
        ]
        for member, entries in (
            ("PartitionKeys", found.partitions),
            ("Items", found.items),
            ("ThrottledPartitionKeys", found.throttled_partitions),
            ("ThrottledItems", found.throttled_items),
        )
    }


@operation("ListContributorInsights")
def list_contributor_insights(database: Any, request: Request, _form: Any) -> Reply:
    """Return the tables and indexes that have contributor insights on, a page at a time."""
    catalog = database.catalog
    wanted = request.get("TableName")
    tables = catalog.names() if wanted is None else [names.control_table(database, wanted).name]
    found = []
    for table in tables:
        handle = catalog.get(table)
        insights = (handle.schema.extras.get(INSIGHTS) or {}) if handle is not None else {}
        for index in sorted(insights):
            summary = _named(table, index)
            summary["ContributorInsightsStatus"] = "ENABLED"
            summary["ContributorInsightsMode"] = insights[index][0]
            found.append(((table, index), summary))
    start = _from_token(request.get("NextToken"))
    found = [entry for entry in found if start is None or entry[0] > start]
    limit = max(1, request.get("MaxResults") or LIST_LIMIT)
    reply: Reply = {"ContributorInsightsSummaries": [entry[1] for entry in found[:limit]]}
    if limit < len(found):
        reply["NextToken"] = base64.b64encode("\0".join(found[limit - 1][0]).encode()).decode()
    return reply


def _from_token(token: str | None) -> tuple[str, str] | None:
    if token is None:
        return None
    try:
        table, index = base64.b64decode(token, validate=True).decode().split("\0")
    except ValueError:
        fail("Invalid NextToken")
    return table, index


def _index_name(handle: TableHandle, request: Request) -> str:
    index: str = request.get("IndexName") or ""
    if index and index not in handle.indexes:
        raise errors.API_ERRORS["ResourceNotFoundException"](
            f"{messages.NOT_FOUND}: Index: {index} not found for table: {handle.name}"
        )
    return index


def _named(table: str, index: str) -> Reply:
    return {"TableName": table, "IndexName": index} if index else {"TableName": table}


# Kinesis streaming destinations.


@operation("EnableKinesisStreamingDestination")
def enable_kinesis(database: Any, request: Request, _form: Any) -> Reply:
    """Start writing a table's changes to the local stand-in of a Kinesis stream."""
    arn = request["StreamArn"]
    configuration = request.get("EnableKinesisStreamingConfiguration") or {}
    precision = configuration.get("ApproximateCreationDateTimePrecision") or kinesis.MILLISECOND
    with database.catalog.mutex:
        handle = names.control_table(database, request["TableName"])
        if arn not in database.settings.kinesis_sinks:
            invalid(
                f"No local sink is configured for Kinesis stream {arn}: open the database with "
                "kinesis_sinks={StreamArn: path of a file}"
            )
        active = kinesis.destinations(handle.schema)
        if active.get(arn, {}).get("status") == ACTIVE:
            fail(
                "Table is not in a valid state to enable Kinesis Streaming Destination: "
                "EnableKinesisStreamingDestination must be DISABLED or ENABLE_FAILED to perform "
                "ENABLE operation."
            )
        kinesis.enable(database, handle, arn, precision)
    reply = _destination(handle.name, arn, "ENABLING")
    reply["EnableKinesisStreamingConfiguration"] = {
        "ApproximateCreationDateTimePrecision": precision
    }
    return reply


@operation("DisableKinesisStreamingDestination")
def disable_kinesis(database: Any, request: Request, _form: Any) -> Reply:
    """Stop writing a table's changes to a destination."""
    arn = request["StreamArn"]
    with database.catalog.mutex:
        handle = names.control_table(database, request["TableName"])
        if kinesis.destinations(handle.schema).get(arn, {}).get("status") != ACTIVE:
            fail(
                "Table is not in a valid state to disable Kinesis Streaming Destination: "
                "KinesisStreamingDestination must be ACTIVE to perform DISABLE operation."
            )
        kinesis.disable(database, handle, arn)
    return _destination(handle.name, arn, "DISABLING")


@operation("DescribeKinesisStreamingDestination")
def describe_kinesis(database: Any, request: Request, _form: Any) -> Reply:
    """Return the destinations of a table, past ones too."""
    handle = names.control_table(database, request["TableName"])
    return {
        "TableName": handle.name,
        "KinesisDataStreamDestinations": [
            {
                "StreamArn": arn,
                "DestinationStatus": destination["status"],
                "ApproximateCreationDateTimePrecision": destination["precision"],
            }
            for arn, destination in kinesis.destinations(handle.schema).items()
        ],
    }


@operation("UpdateKinesisStreamingDestination")
def update_kinesis(database: Any, request: Request, _form: Any) -> Reply:
    """Change the precision of the time in a destination's records."""
    arn = request["StreamArn"]
    configuration = request.get("UpdateKinesisStreamingConfiguration") or {}
    precision = configuration.get("ApproximateCreationDateTimePrecision")
    if precision is None:
        fail(
            "Streaming destination cannot be updated with given parameters: "
            "UpdateKinesisStreamingConfiguration cannot be null or contain only null values"
        )
    with database.catalog.mutex:
        handle = names.control_table(database, request["TableName"])
        current = kinesis.destinations(handle.schema).get(arn, {})
        if current.get("status") != ACTIVE:
            _not_active(handle, arn)
        if current["precision"] == precision:
            fail(
                f"Invalid Request: Precision is already set to the desired value of {precision} "
                f"for tableId: {handle.schema.id}, kdsArn: {arn}"
            )
        kinesis.set_precision(database, handle, arn, precision)
    reply = _destination(handle.name, arn, "UPDATING")
    reply["UpdateKinesisStreamingConfiguration"] = {
        "ApproximateCreationDateTimePrecision": precision
    }
    return reply


def _not_active(handle: TableHandle, arn: str) -> NoReturn:
    fail(
        "Table is not in a valid state to enable Kinesis Streaming Destination: Kinesis streaming "
        f"is not in ACTIVE state. Updates are only allowed in ACTIVE state. TableName: "
        f"{handle.name}, kdsArn: {arn}"
    )


def _destination(table: str, arn: str, status: str) -> Reply:
    return {"TableName": table, "StreamArn": arn, "DestinationStatus": status}
