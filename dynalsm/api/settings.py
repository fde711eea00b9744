"""Settings of a table and of the account: TTL, tags, resource policies, limits, endpoints.

Every change is one new schema in the catalog, made under its mutex (reference 10.1, 13.7, 13.8).
"""

from __future__ import annotations

import dataclasses
import re
import uuid
from typing import Any, NoReturn

from dynalsm import errors, limits
from dynalsm.api import messages, names, table_checks
from dynalsm.api.registry import Reply, Request, operation
from dynalsm.api.table_checks import fail, invalid
from dynalsm.model import ttl
from dynalsm.model.catalog import STREAM_POLICY, TableHandle
from dynalsm.model.schema import Policy, TableSchema
from dynalsm.model.settings import Settings

ENDPOINT_CACHE_MINUTES = 1440
_STREAM_RESOURCE = re.compile(r"table/([a-zA-Z0-9_.-]+)/stream/([^/]+)")
_TABLE_RESOURCE = re.compile(r"table/([a-zA-Z0-9_.-]+)")


# The account.


@operation("DescribeLimits")
def describe_limits(_database: Any, _request: Request, _form: Any) -> Reply:
    """Return the account's capacity quotas."""
    return {
        "AccountMaxReadCapacityUnits": limits.ACCOUNT_MAX_UNITS,
        "AccountMaxWriteCapacityUnits": limits.ACCOUNT_MAX_UNITS,
        "TableMaxReadCapacityUnits": limits.TABLE_MAX_UNITS,
        "TableMaxWriteCapacityUnits": limits.TABLE_MAX_UNITS,
    }


@operation("DescribeEndpoints")
def describe_endpoints(database: Any, _request: Request, _form: Any) -> Reply:
    """Return where this database answers."""
    settings: Settings = database.settings
    address = settings.endpoint or f"dynamodb.{settings.region}.amazonaws.com"
    return {"Endpoints": [{"Address": address, "CachePeriodInMinutes": ENDPOINT_CACHE_MINUTES}]}


# Time to live.


@operation("DescribeTimeToLive")
def describe_time_to_live(database: Any, request: Request, _form: Any) -> Reply:
    """Return whether TTL is on, and for which attribute."""
    name = names.control_table(database, request["TableName"]).schema.ttl_attribute
    described = {"TimeToLiveStatus": "DISABLED"}
    if name is not None:
        described = {"TimeToLiveStatus": "ENABLED", "AttributeName": name}
    return {"TimeToLiveDescription": described}


@operation("UpdateTimeToLive")
def update_time_to_live(database: Any, request: Request, _form: Any) -> Reply:
    """Turn TTL on or off."""
    wanted = request["TimeToLiveSpecification"]
    settings: Settings = database.settings
    with database.catalog.mutex:
        handle = names.control_table(database, request["TableName"])
        now = settings.clock()
        _check_ttl(handle.schema, wanted, now, settings)
        name = wanted["AttributeName"] if wanted["Enabled"] else None
        schema = dataclasses.replace(handle.schema, ttl_attribute=name, ttl_changed_at=now)
        if name is not None:
            schema = schema.with_extra(ttl.UNFILLED, True)
        database.catalog.replace(schema)
    if name is not None:
        ttl.start_filling(database, handle.name)
    specification = {"Enabled": wanted["Enabled"], "AttributeName": wanted["AttributeName"]}
    return {"TimeToLiveSpecification": specification}


def _check_ttl(schema: TableSchema, wanted: Request, now: float, settings: Settings) -> None:
    current = schema.ttl_attribute
    if wanted["Enabled"] and current == wanted["AttributeName"]:
        fail("TimeToLive is already enabled")
    if not wanted["Enabled"] and current is None:
        fail("TimeToLive is already disabled")
    if current is not None and current != wanted["AttributeName"]:
        fail(
            f"TimeToLive is active on a different AttributeName: current AttributeName is {current}"
        )
    if schema.ttl_changed_at and now - schema.ttl_changed_at < settings.ttl_change_interval_seconds:
        fail("Time to live has been modified multiple times within a fixed interval")


# Resources by ARN.


def resource(database: Any, arn: str, name: str) -> tuple[str, str | None]:
    """Return (table name, stream label or None) of a ResourceArn.

    Raises: the ValidationException that fits, AccessDeniedException for another account.
    """
    settings: Settings = database.settings
    if not arn.startswith("arn:"):
        invalid(f"ARNs must start with 'arn:': {arn}")
    parts = arn.split(":", 5)
    if len(parts) < 6 or parts[2] != "dynamodb":
        invalid(f"Provided Arn is not a DynamoDB resource arn: {arn}")
    _, _, _, region, account, path = parts
    table, stream = _TABLE_RESOURCE.fullmatch(path), _STREAM_RESOURCE.fullmatch(path)
    if table is None and stream is None:
        if _TABLE_RESOURCE.match(path):
            invalid(
                "Invalid resource arn provided, only table or stream is accepted. Provided "
                f"resource arn: {arn}"
            )
        invalid(f"Invalid resource Arn: {arn}")
    given = stream or table
    if region != settings.region or (
        given is not None and len(given[1]) < limits.NAME_MIN_CHARACTERS
    ):
        fail(f"Invalid TableArn: Invalid ResourceArn provided as input {arn}")
    if account != settings.account_id:
        raise errors.AccessDeniedException(messages.access_denied(settings.account_id, name, arn))
    if stream is not None:
        return stream[1], stream[2]
    assert table is not None
    return table[1], None


def _tagged_table(database: Any, arn: str, name: str) -> TableHandle:
    """Return the table of a ResourceArn; only tables have tags."""
    table, label = resource(database, arn, name)
    if label is not None:
        fail(f"Invalid TableArn: Invalid ResourceArn provided as input {arn}")
    handle: TableHandle | None = database.catalog.get(table)
    if handle is None:
        raise errors.API_ERRORS["ResourceNotFoundException"](messages.resource_not_found(arn))
    return handle


# Tags.


@operation("TagResource")
def tag_resource(database: Any, request: Request, _form: Any) -> Reply:
    """Add tags to a table, or change their values."""
    resource(database, request["ResourceArn"], "TagResource")
    if not request["Tags"]:
        fail("Atleast one Tag needs to be provided as Input.")
    tags = table_checks.tags_of(request["Tags"])
    with database.catalog.mutex:
        handle = _tagged_table(database, request["ResourceArn"], "TagResource")
        merged = {**handle.schema.tags, **tags}
        table_checks.check_tag_count(merged, database.settings)
        database.catalog.replace(dataclasses.replace(handle.schema, tags=merged))
    return {}


@operation("UntagResource")
def untag_resource(database: Any, request: Request, _form: Any) -> Reply:
    """Remove tags from a table; tags that it does not have are no error."""
    resource(database, request["ResourceArn"], "UntagResource")
    if not request["TagKeys"]:
        fail("Atleast one Tag Key needs to be provided as Input.")
    with database.catalog.mutex:
        handle = _tagged_table(database, request["ResourceArn"], "UntagResource")
        left = {
            key: value for key, value in handle.schema.tags.items() if key not in request["TagKeys"]
        }
        database.catalog.replace(dataclasses.replace(handle.schema, tags=left))
    return {}


@operation("ListTagsOfResource")
def list_tags_of_resource(database: Any, request: Request, _form: Any) -> Reply:
    """Return all tags of a table, on one page."""
    handle = _tagged_table(database, request["ResourceArn"], "ListTagsOfResource")
    return {"Tags": [{"Key": key, "Value": value} for key, value in handle.schema.tags.items()]}


# Resource policies: kept and returned; there is nobody here to hold them against.


@operation("PutResourcePolicy")
def put_resource_policy(database: Any, request: Request, _form: Any) -> Reply:
    """Attach a policy to a table or a stream."""
    arn, expected = request["ResourceArn"], request.get("ExpectedRevisionId")
    text = table_checks.policy_of(request["Policy"])
    with database.catalog.mutex:
        current = _policy(database, arn, "PutResourcePolicy")
        if expected == "NO_POLICY":
            if current is not None:
                _no_policy(f"Resource already has a policy: {arn}")
        elif expected is not None and (current is None or current.revision != expected):
            _no_policy(f"Resource-based policy with revision {expected} not found: {arn}")
        if current is not None and current.text == text:
            return {"RevisionId": current.revision}
        policy = Policy(text, str(uuid.uuid4()))
        _set_policy(database, arn, policy)
    return {"RevisionId": policy.revision}


@operation("GetResourcePolicy")
def get_resource_policy(database: Any, request: Request, _form: Any) -> Reply:
    """Return the policy of a table or a stream."""
    arn = request["ResourceArn"]
    policy = _policy(database, arn, "GetResourcePolicy")
    if policy is None:
        _no_policy(f"Resource-based policy not found for the provided ResourceArn: {arn}")
    return {"Policy": policy.text, "RevisionId": policy.revision}


@operation("DeleteResourcePolicy")
def delete_resource_policy(database: Any, request: Request, _form: Any) -> Reply:
    """Remove the policy of a table or a stream; none there is no error."""
    arn, expected = request["ResourceArn"], request.get("ExpectedRevisionId")
    with database.catalog.mutex:
        current = _policy(database, arn, "DeleteResourcePolicy")
        if expected is not None and (current is None or current.revision != expected):
            _no_policy(f"Resource-based policy with revision {expected} not found: {arn}")
        if current is None:
            return {}
        _set_policy(database, arn, None)
    return {"RevisionId": current.revision}


def _no_policy(text: str) -> NoReturn:
    raise errors.API_ERRORS["PolicyNotFoundException"](text)


def _policy(database: Any, arn: str, name: str) -> Policy | None:
    table, label = resource(database, arn, name)
    if label is None:
        return _tagged_table(database, arn, name).schema.policy
    if database.catalog.find_log(table, label) is None:
        raise errors.API_ERRORS["ResourceNotFoundException"](
            f"{messages.NOT_FOUND}: Stream: {label} not found for Table: {table}"
        )
    kept = database.catalog.read(STREAM_POLICY, arn)
    return None if kept is None else Policy(*kept)


def _set_policy(database: Any, arn: str, policy: Policy | None) -> None:
    table, label = resource(database, arn, "")
    catalog = database.catalog
    if label is None:
        catalog.replace(dataclasses.replace(catalog.get(table).schema, policy=policy))
    else:
        kept = None if policy is None else [policy.text, policy.revision]
        catalog.write(STREAM_POLICY, arn, kept)
