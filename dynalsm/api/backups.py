"""Backups, and the switch of point-in-time recovery (reference 10.2, 10.3, 13.8).

What AWS does in minutes happens here within the call when the table is small; CreateBackup says
CREATING all the same, as AWS does, and so do descriptions while a large table is being copied.
Restoring: restores.py.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any, NoReturn

from dynalsm import errors
from dynalsm.api import arns, describe, messages, names
from dynalsm.api.registry import Reply, Request, operation
from dynalsm.api.table_checks import fail, invalid
from dynalsm.model import backup, pitr
from dynalsm.model.backup import Backup
from dynalsm.model.catalog import TableHandle
from dynalsm.model.schema import (
    PROVISIONED,
    IndexSchema,
    TableSchema,
    Throughput,
)

LIST_LIMIT = 100
RESTORES_MAX = 50
_BAD_ARN = "Invalid Backup ARN"


# Backups.


@operation("CreateBackup")
def createfind_backup(database: Any, request: Request, _form: Any) -> Reply:
    """Back up a table as it is at this moment."""
    handle = _table(database, request["TableName"])
    made = backup.of(database).create(handle, request["BackupName"])
    return {"BackupDetails": _details(made)}


@operation("DescribeBackup")
def describefind_backup(database: Any, request: Request, _form: Any) -> Reply:
    """Describe a backup and the table it was made of."""
    return {"BackupDescription": _description(find_backup(database, request["BackupArn"]))}


@operation("ListBackups")
def list_backups(database: Any, request: Request, _form: Any) -> Reply:
    """List backups, oldest first, those of deleted tables too."""
    found = _wanted(database, request)
    start = request.get("ExclusiveStartBackupArn")
    if start is not None:
        after = arns.parse(database.settings, start, "backup", _BAD_ARN).id
        found = [each for each in found if each.id > after]
    limit = request.get("Limit") or LIST_LIMIT
    reply: Reply = {"BackupSummaries": [_summary(each) for each in found[:limit]]}
    if limit < len(found):
        reply["LastEvaluatedBackupArn"] = found[limit - 1].arn
    return reply


@operation("DeleteBackup")
def deletefind_backup(database: Any, request: Request, _form: Any) -> Reply:
    """Delete a backup."""
    found = find_backup(database, request["BackupArn"])
    if found.kind == backup.SYSTEM:
        assert found.expires_at is not None
        expires = datetime.datetime.fromtimestamp(found.expires_at, datetime.UTC)
        fail(
            "Invalid Request: User is not allowed to delete the system backup with arn "
            f"{found.arn}. It will automatically expire on {expires:%Y-%m-%dT%H:%M:%S}Z"
        )
    try:
        backup.of(database).delete(found.id)
    except backup.BackupInUse:
        refuse("BackupInUseException", f"Backup is being used: {found.arn}")
    deleted = dataclasses.replace(found, status=backup.DELETED)
    return {"BackupDescription": _description(deleted)}


def _wanted(database: Any, request: Request) -> list[Backup]:
    """Return the backups that ListBackups asks for."""
    low = names.seconds(request.get("TimeRangeLowerBound"))
    high = names.seconds(request.get("TimeRangeUpperBound"))
    if low is not None and high is not None and low > high:
        invalid("Time range lower bound must be less than or equal to upper bound")
    table = request.get("TableName")
    name = None if table is None else names.plain_name(database.settings, table)
    kind = request.get("BackupType") or backup.USER
    return [
        each
        for each in backup.of(database).all()
        if name in (None, each.schema.name)
        and kind in ("ALL", each.kind)
        and (low is None or each.created_at >= low)
        and (high is None or each.created_at < high)
    ]


def find_backup(database: Any, arn: str) -> Backup:
    """Return a backup. Raises: ValidationException, BackupNotFoundException."""
    part = arns.parse(database.settings, arn, "backup", _BAD_ARN)
    found: Backup | None = backup.of(database).find(part.id)
    if found is None or found.arn != arn:
        refuse("BackupNotFoundException", f"Backup not found: {arn}")
    return found


def _table(database: Any, text: str) -> TableHandle:
    name = names.plain_name(database.settings, text)
    return named_table(database, name)


def named_table(database: Any, name: str) -> TableHandle:
    """Return a table. Raises: TableNotFoundException, TableInUseException."""
    is_pending = name in database.catalog.pending  # asked first: what is published is in both
    handle: TableHandle | None = database.catalog.get(name)
    if handle is None:
        if is_pending:
            refuse("TableInUseException", messages.being_created(name))
        refuse("TableNotFoundException", f"Table not found: {name}")
    return handle


def refuse(code: str, text: str) -> NoReturn:
    """Raise the error of this name."""
    raise errors.API_ERRORS[code](text)


# As replies show them.


def _details(shown: Backup) -> dict[str, Any]:
    details = {
        "BackupArn": shown.arn,
        "BackupName": shown.name,
        "BackupSizeBytes": shown.file_bytes,
        "BackupStatus": shown.status,
        "BackupType": shown.kind,
        "BackupCreationDateTime": shown.created_at,
    }
    if shown.expires_at is not None:
        details["BackupExpiryDateTime"] = shown.expires_at
    return details


def _summary(shown: Backup) -> dict[str, Any]:
    return {
        "TableName": shown.schema.name,
        "TableId": shown.schema.id,
        "TableArn": shown.table_arn,
        **_details(shown),
    }


def _description(shown: Backup) -> dict[str, Any]:
    schema = shown.schema
    table: dict[str, Any] = {
        "TableName": schema.name,
        "TableId": schema.id,
        "TableArn": shown.table_arn,
        "TableSizeBytes": shown.totals.size_bytes,
        "KeySchema": describe.key_schema(schema),
        "TableCreationDateTime": schema.created_at,
        "ProvisionedThroughput": _units(schema.throughput),
        "ItemCount": shown.totals.items,
        "BillingMode": schema.billing,
    }
    if schema.ceiling is not None:
        table["OnDemandThroughput"] = describe.ceiling(schema.ceiling)
    return {
        "BackupDetails": _details(shown),
        "SourceTableDetails": table,
        "SourceTableFeatureDetails": _features(schema),
    }


def _features(schema: TableSchema) -> dict[str, Any]:
    features: dict[str, Any] = {}
    for kind, member in (("LSI", "LocalSecondaryIndexes"), ("GSI", "GlobalSecondaryIndexes")):
        found = [_index(schema, index) for index in schema.indexes if index.kind == kind]
        if found:
            features[member] = found
    vectors = [describe.vector_definition(index) for index in schema.indexes if index.vector]
    if vectors:
        features["VectorIndexes"] = vectors
    if schema.stream is not None and schema.stream.enabled:
        features["StreamDescription"] = {
            "StreamEnabled": True,
            "StreamViewType": schema.stream.view,
        }
    features["TimeToLiveDescription"] = {"TimeToLiveStatus": "DISABLED"}
    if schema.ttl_attribute is not None:
        features["TimeToLiveDescription"] = {
            "TimeToLiveStatus": "ENABLED",
            "AttributeName": schema.ttl_attribute,
        }
    if schema.sse_key is not None:
        features["SSEDescription"] = describe.sse(schema.sse_key)
    return features


def _index(schema: TableSchema, index: IndexSchema) -> dict[str, Any]:
    described: dict[str, Any] = {
        "IndexName": index.name,
        "KeySchema": describe.key_schema(index),
        "Projection": describe.projection(index),
    }
    if index.kind == "GSI":
        if schema.billing == PROVISIONED:
            described["ProvisionedThroughput"] = _units(index.throughput or Throughput())
        if index.ceiling is not None:
            described["OnDemandThroughput"] = describe.ceiling(index.ceiling)
    return described


def _units(units: Throughput) -> dict[str, int]:
    return {"ReadCapacityUnits": units.read_units, "WriteCapacityUnits": units.write_units}


# Continuous backups.


@operation("DescribeContinuousBackups")
def describe_continuous_backups(database: Any, request: Request, _form: Any) -> Reply:
    """Say whether a table can be restored to a point in time, and to which."""
    return _continuous(database, _table(database, request["TableName"]))


@operation("UpdateContinuousBackups")
def update_continuous_backups(database: Any, request: Request, _form: Any) -> Reply:
    """Turn point-in-time recovery on or off, or change its window."""
    wanted = request["PointInTimeRecoverySpecification"]
    days = wanted.get("RecoveryPeriodInDays")
    enables = wanted["PointInTimeRecoveryEnabled"]
    if days is not None and not enables:
        fail(
            "Invalid Request: Cannot specify RecoveryPeriodInDays when disabling point-in-time "
            "recovery."
        )
    with database.catalog.mutex:
        handle = _table(database, request["TableName"])
        if enables:
            handle = pitr.switch_on(database, handle, days)
        elif pitr.setting(handle.schema) is not None:
            handle = pitr.switch_off(database, handle)
    if enables:
        pitr.ensure_base(database, handle)
    return _continuous(database, handle)


def check_recoverable(handle: TableHandle) -> None:
    """Raises: PointInTimeRecoveryUnavailableException."""
    if pitr.setting(handle.schema) is None:
        refuse(
            "PointInTimeRecoveryUnavailableException",
            f"Point in time recovery is not enabled for table '{handle.name}'",
        )


def _continuous(database: Any, handle: TableHandle) -> Reply:
    setting = pitr.setting(handle.schema)
    described: dict[str, Any] = {"PointInTimeRecoveryStatus": "DISABLED"}
    if setting is not None:
        described = {
            "PointInTimeRecoveryStatus": "ENABLED",
            "RecoveryPeriodInDays": setting["days"],
        }
        window = pitr.window(database, handle)
        if window is not None:
            described["EarliestRestorableDateTime"] = window.earliest
            described["LatestRestorableDateTime"] = window.latest
    return {
        "ContinuousBackupsDescription": {
            # AWS says ENABLED some seconds after any table was made, whatever can be restored;
            # observed (alternator) before that, and true here: DISABLED without recovery.
            "ContinuousBackupsStatus": described["PointInTimeRecoveryStatus"],
            "PointInTimeRecoveryDescription": described,
        }
    }
