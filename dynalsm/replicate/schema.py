"""The target's table: made like the source's, or checked against it."""

from __future__ import annotations

import threading
import time
from typing import Any

from dynalsm import errors
from dynalsm.database import Database
from dynalsm.replicate.position import KEY, POSITION_TABLE
from dynalsm.replicate.writing import ReplicationError, call

WAIT_SECONDS = 600.0
POLL_SECONDS = 0.1
# Members of an index's description that its definition has too.
INDEX_MEMBERS = ("IndexName", "KeySchema", "Projection")
VECTOR_MEMBERS = (
    "IndexName",
    "VectorAttribute",
    "Dimensions",
    "DistanceFunction",
    "Projection",
    "SearchSchema",
)
VIEWS_WITH_NEW_IMAGES = ("NEW_IMAGE", "NEW_AND_OLD_IMAGES")


def describe(database: Database, table: str, stop: threading.Event) -> dict[str, Any] | None:
    """Return a table's description, None when there is no such table."""
    try:
        reply = call(database, "DescribeTable", {"TableName": table}, stop)
    except errors.ApiError as problem:
        if problem.code != "ResourceNotFoundException":
            raise
        return None
    description: dict[str, Any] = reply["Table"]
    return description


def wait_until_active(database: Database, table: str, stop: threading.Event) -> dict[str, Any]:
    """Return a table's description once it is ACTIVE. Raises: ReplicationError after a while."""
    end = time.monotonic() + WAIT_SECONDS
    while True:
        described = describe(database, table, stop)
        if described is not None and described["TableStatus"] == "ACTIVE":
            return described
        if time.monotonic() > end or stop.wait(POLL_SECONDS):
            raise ReplicationError(f"{database.path}: table {table} does not become active")


def create_position_table(target: Database, stop: threading.Event) -> None:
    """Make the table with positions, if it is missing."""
    if describe(target, POSITION_TABLE, stop) is None:
        request = {
            "TableName": POSITION_TABLE,
            "AttributeDefinitions": [{"AttributeName": KEY, "AttributeType": "S"}],
            "KeySchema": [{"AttributeName": KEY, "KeyType": "HASH"}],
            "BillingMode": "PAY_PER_REQUEST",
        }
        call(target, "CreateTable", request, stop)
    wait_until_active(target, POSITION_TABLE, stop)


def prepare_target(
    source: Database, target: Database, described: dict[str, Any], stop: threading.Event
) -> bool:
    """Make the target's table like the source's; return whether it was made.

    Raises: ReplicationError when there is one with another key.
    """
    table = described["TableName"]
    present = describe(target, table, stop)
    if present is not None:
        if _keys(present) != _keys(described):
            raise ReplicationError(
                f"{target.path}: table {table} has another key: {_keys(present)}, "
                f"not {_keys(described)}"
            )
        return False
    call(target, "CreateTable", definition(described), stop)
    wait_until_active(target, table, stop)
    _copy_time_to_live(source, target, table, stop)
    return True


def definition(described: dict[str, Any]) -> dict[str, Any]:
    """Return the CreateTable request that makes a table like a described one.

    Streams, tags, policies and deletion protection are matters of each side.
    """
    billing = described.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED")
    request: dict[str, Any] = {
        "TableName": described["TableName"],
        "AttributeDefinitions": described["AttributeDefinitions"],
        "KeySchema": described["KeySchema"],
        "BillingMode": billing,
    }
    if billing == "PROVISIONED":
        request["ProvisionedThroughput"] = _throughput(described)
    for kind in ("LocalSecondaryIndexes", "GlobalSecondaryIndexes"):
        indexes = [
            {name: index[name] for name in INDEX_MEMBERS} for index in described.get(kind, [])
        ]
        if kind == "GlobalSecondaryIndexes" and billing == "PROVISIONED":
            for index, old in zip(indexes, described.get(kind, []), strict=True):
                index["ProvisionedThroughput"] = _throughput(old)
        if indexes:
            request[kind] = indexes
    if described.get("VectorIndexes"):
        request["VectorIndexes"] = [
            {name: index[name] for name in VECTOR_MEMBERS if name in index}
            for index in described["VectorIndexes"]
        ]
    return request


def _throughput(described: dict[str, Any]) -> dict[str, int]:
    found = described["ProvisionedThroughput"]
    return {name: int(found[name]) for name in ("ReadCapacityUnits", "WriteCapacityUnits")}


def _keys(described: dict[str, Any]) -> str:
    kinds = {
        one["AttributeName"]: one["AttributeType"] for one in described["AttributeDefinitions"]
    }
    return ", ".join(
        f"{one['AttributeName']} ({one['KeyType']}, {kinds[one['AttributeName']]})"
        for one in described["KeySchema"]
    )


def _copy_time_to_live(
    source: Database, target: Database, table: str, stop: threading.Event
) -> None:
    try:
        found = call(source, "DescribeTimeToLive", {"TableName": table}, stop)
    except errors.ApiError:
        return  # a server that does not know the operation has no expiry to copy
    setting = found["TimeToLiveDescription"]
    if setting.get("TimeToLiveStatus") in ("ENABLED", "ENABLING"):
        wanted = {"Enabled": True, "AttributeName": setting["AttributeName"]}
        try:
            call(
                target,
                "UpdateTimeToLive",
                {"TableName": table, "TimeToLiveSpecification": wanted},
                stop,
            )
        except errors.ApiError as problem:
            raise ReplicationError(
                f"{target.path}: time to live of {table} cannot be turned on: {problem.message}"
            ) from problem


def prepare_stream(
    source: Database, described: dict[str, Any], stop: threading.Event
) -> dict[str, Any]:
    """Turn the source's stream on if it is off; return the description with LatestStreamArn.

    Raises: ReplicationError when there is a stream that leaves new images out.
    """
    table = described["TableName"]
    stream = described.get("StreamSpecification", {})
    if not stream.get("StreamEnabled"):
        wanted = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
        request = {"TableName": table, "StreamSpecification": wanted}
        try:
            call(source, "UpdateTable", request, stop)
        except errors.ApiError as problem:
            raise ReplicationError(
                f"{source.path}: the stream of {table} cannot be turned on ({problem.message}); "
                "without one, replicate with copy_only (--copy-only)"
            ) from problem
        described = wait_until_active(source, table, stop)
    elif stream["StreamViewType"] not in VIEWS_WITH_NEW_IMAGES:
        raise ReplicationError(
            f"{source.path}: the stream of {table} shows {stream['StreamViewType']}; it must "
            "show NEW_IMAGE or NEW_AND_OLD_IMAGES: turn it off and let replicate turn it on"
        )
    if "LatestStreamArn" not in described:
        raise ReplicationError(
            f"{source.path} has no streams; replicate with copy_only (--copy-only)"
        )
    _wait_for_stream(source, described["LatestStreamArn"], stop)
    return described


def _wait_for_stream(source: Database, arn: str, stop: threading.Event) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while True:
        found = call(source, "DescribeStream", {"StreamArn": arn}, stop)["StreamDescription"]
        if found.get("StreamStatus", "ENABLED") == "ENABLED":
            return
        if time.monotonic() > end or stop.wait(POLL_SECONDS):
            raise ReplicationError(f"{source.path}: stream {arn} does not become ENABLED")
