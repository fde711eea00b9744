"""Backups, restores and point-in-time recovery (reference 10.2, 10.3, 13.8).

What AWS does in minutes happens here within the call when the table is small; the replies say
CREATING all the same, as AWS's do, and so do descriptions while a large table is being copied.
"""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from typing import Any, NoReturn

from dynalsm import errors
from dynalsm.api import arns, describe, messages, names, table_checks, tables, vector_checks
from dynalsm.api.registry import Reply, Request, operation
from dynalsm.api.table_checks import fail, invalid
from dynalsm.model import backup, jobs, pitr, restore
from dynalsm.model.backup import Backup
from dynalsm.model.catalog import TableHandle
from dynalsm.model.schema import (
    PAY_PER_REQUEST,
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
def create_backup(database: Any, request: Request, _form: Any) -> Reply:
    """Back up a table as it is at this moment."""
    handle = _table(database, request["TableName"])
    made = backup.of(database).create(handle, request["BackupName"])
    return {"BackupDetails": _details(made)}


@operation("DescribeBackup")
def describe_backup(database: Any, request: Request, _form: Any) -> Reply:
    """Describe a backup and the table it was made of."""
    return {"BackupDescription": _description(_backup(database, request["BackupArn"]))}


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
def delete_backup(database: Any, request: Request, _form: Any) -> Reply:
    """Delete a backup."""
    found = _backup(database, request["BackupArn"])
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
        _refuse("BackupInUseException", f"Backup is being used: {found.arn}")
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


def _backup(database: Any, arn: str) -> Backup:
    part = arns.parse(database.settings, arn, "backup", _BAD_ARN)
    found: Backup | None = backup.of(database).find(part.id)
    if found is None or found.arn != arn:
        _refuse("BackupNotFoundException", f"Backup not found: {arn}")
    return found


def _table(database: Any, text: str) -> TableHandle:
    name = names.plain_name(database.settings, text)
    return _named_table(database, name)


def _named_table(database: Any, name: str) -> TableHandle:
    is_pending = name in database.catalog.pending  # asked first: what is published is in both
    handle: TableHandle | None = database.catalog.get(name)
    if handle is None:
        if is_pending:
            _refuse("TableInUseException", messages.being_created(name))
        _refuse("TableNotFoundException", f"Table not found: {name}")
    return handle


def _refuse(code: str, text: str) -> NoReturn:
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


# Restoring.


@operation("RestoreTableFromBackup")
def restore_table_from_backup(database: Any, request: Request, _form: Any) -> Reply:
    """Make a new table with what a backup holds."""
    found = _backup(database, request["BackupArn"])
    if found.status != backup.AVAILABLE:
        _refuse("BackupInUseException", f"Backup is being created: {found.arn}")
    schema = _restored(database, request, found.schema, found.table_arn, found.created_at)
    schema = dataclasses.replace(
        schema, restored={"SourceBackupArn": found.arn, **(schema.restored or {})}
    )
    return _start(database, schema, backup=found.id)


@operation("RestoreTableToPointInTime")
def restore_table_to_point_in_time(database: Any, request: Request, _form: Any) -> Reply:
    """Make a new table with what another one held at a moment."""
    source = _source(database, request)
    moment = names.seconds(request.get("RestoreDateTime"))
    wants_latest = bool(request.get("UseLatestRestorableTime"))
    if wants_latest == (moment is not None):
        fail(
            "Invalid Request: Either one of RestoreDateTime or UseLatestRestorableTime must be "
            "specified, but not both"
        )
    check_recoverable(source)
    pitr.ensure_base(database, source)
    pitr.settle(database)
    if moment is None:
        moment = database.settings.clock()
    try:
        seqno = pitr.seqno_at(database, source, moment)
    except pitr.NotRestorable:
        _refuse_moment(database, source)
    schema = _restored(database, request, source.schema, source.arn, moment)
    return _start(database, schema, table=source.schema.id, seqno=seqno)


def check_recoverable(handle: TableHandle) -> None:
    """Raises: PointInTimeRecoveryUnavailableException."""
    if pitr.setting(handle.schema) is None:
        _refuse(
            "PointInTimeRecoveryUnavailableException",
            f"Point in time recovery is not enabled for table '{handle.name}'",
        )


def _source(database: Any, request: Request) -> TableHandle:
    arn, name = request.get("SourceTableArn"), request.get("SourceTableName")
    if (arn is None) == (name is None):
        fail("Must provide exactly one of: sourceTableArn, sourceTableName")
    if name is None:
        name = arns.parse_table(
            database.settings, str(arn), "Invalid Request: Table ARN is invalid."
        )
    return _named_table(database, name)


def _refuse_moment(database: Any, source: TableHandle) -> NoReturn:
    window = pitr.window(database, source)
    if window is None:
        text = "The first base of point in time recovery is still being made"
    else:
        text = (
            "RestoreDateTime must be between EarliestRestorableDateTime "
            f"{_iso(window.earliest)} and LatestRestorableDateTime {_iso(window.latest)}"
        )
    _refuse("InvalidRestoreTimeException", text)


def _iso(seconds: float) -> str:
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%dT%H:%M:%S}Z"


def _start(database: Any, schema: TableSchema, **source: Any) -> Reply:
    settings = database.settings
    if restore.count_running(database) >= RESTORES_MAX:
        _refuse(
            "LimitExceededException",
            f"Subscriber limit exceeded: Only {RESTORES_MAX} restore operations can be done "
            "simultaneously",
        )
    with database.catalog.mutex:
        _refuse_existing(database, schema.name)
        job = restore.start(database, schema, **source)
        handle = database.catalog.pending[schema.name]
    reply = {"TableDescription": describe.table_description(handle, settings.clock(), "CREATING")}
    jobs.of(database).wait(job)
    return reply


def _refuse_existing(database: Any, name: str) -> None:
    """Refuse a target that is there or on its way. REQUIRES: the catalog's mutex."""
    if database.catalog.get(name) is not None:
        _refuse("TableAlreadyExistsException", f"Table already exists: {name}")
    if name in database.catalog.pending:
        _refuse("TableInUseException", messages.being_created(name))
    tables.refuse_existing(database, name)


def _restored(
    database: Any, request: Request, source: TableSchema, source_arn: str, moment: float
) -> TableSchema:
    """Return the schema of the new table with what the request overrides."""
    settings = database.settings
    billing, throughput = _billing(request, source)
    indexes = _indexes(request, source, billing, throughput)
    ceiling = source.ceiling if billing == PAY_PER_REQUEST else None
    changes: dict[str, Any] = {}
    if request.get("SSESpecificationOverride") is not None:
        changes["sse_key"] = table_checks.sse_key(request["SSESpecificationOverride"], settings)
    now = settings.clock()
    was_on_demand = source.on_demand_since if source.billing == PAY_PER_REQUEST else now
    return restore.restored_schema(
        source,
        name=request["TargetTableName"],
        id=str(uuid.uuid4()),
        created_at=now,
        billing=billing,
        throughput=throughput,
        on_demand_since=was_on_demand if billing == PAY_PER_REQUEST else None,
        indexes=tuple(indexes),
        ceiling=table_checks.ceiling_of(
            request.get("OnDemandThroughputOverride"), billing, current=ceiling
        ),
        restored={"SourceTableArn": source_arn, "RestoreDateTime": moment},
        **changes,
    )


def _billing(request: Request, source: TableSchema) -> tuple[str, Throughput]:
    billing = request.get("BillingModeOverride")
    wanted = request.get("ProvisionedThroughputOverride")
    if billing == PAY_PER_REQUEST and wanted:
        fail(
            "Invalid Request: Cannot override ProvisionedThroughput if BillingMode is overridden "
            "to PAY_PER_REQUEST"
        )
    if billing == PROVISIONED and not wanted:
        fail(
            "Invalid Request: Must override ProvisionedThroughput if BillingMode is overridden to "
            "PROVISIONED"
        )
    billing = billing or source.billing
    if billing == PAY_PER_REQUEST:
        if wanted:
            fail(
                "Invalid Request: Cannot override ProvisionedThroughput of a table whose "
                "BillingMode is PAY_PER_REQUEST"
            )
        return billing, Throughput()
    if wanted:
        return billing, table_checks.throughput_of(wanted)
    return billing, Throughput(source.throughput.read_units, source.throughput.write_units)


def _indexes(
    request: Request, source: TableSchema, billing: str, throughput: Throughput
) -> list[IndexSchema]:
    """Return the indexes to be restored: all, or those that the override lists name."""
    indexes: list[IndexSchema] = []
    for kind, member in (
        ("LSI", "LocalSecondaryIndexOverride"),
        ("GSI", "GlobalSecondaryIndexOverride"),
    ):
        known = [index for index in source.indexes if index.kind == kind]
        wanted = request.get(member)
        if wanted is None:
            indexes += known
        else:
            indexes += [_override(each, known, billing) for each in wanted]
    indexes += _vectors(request, source)
    if any(index.vector is not None for index in indexes):
        vector_checks.check_billing(billing)
    return [_with_units(index, billing, throughput) for index in indexes]


def _vectors(request: Request, source: TableSchema) -> list[IndexSchema]:
    """Return the vector indexes to be restored."""
    known = [index for index in source.indexes if index.vector is not None]
    wanted = request.get("VectorIndexOverride")
    if wanted is None:
        return known
    checked = [vector_checks.vector_index(each, source.attributes) for each in wanted]
    by_name = {index.name: index for index in known}
    for index in checked:
        other = by_name.get(index.name)
        if other is None or (index.vector, index.projection) != (other.vector, other.projection):
            _refuse_index(index.name)
    return [by_name[index.name] for index in checked]


def _override(wanted: Request, known: list[IndexSchema], billing: str) -> IndexSchema:
    name = wanted["IndexName"]
    key = [(part["AttributeName"], part["KeyType"]) for part in wanted["KeySchema"]]
    projection = table_checks.projection_of(wanted["Projection"])
    index = next((index for index in known if index.name == name), None)
    if index is None or _key(index) != key or projection != index.projection:
        _refuse_index(name)
    units = wanted.get("ProvisionedThroughput")
    if units and billing == PROVISIONED:
        return dataclasses.replace(index, throughput=table_checks.throughput_of(units, name))
    return index


def _refuse_index(name: str) -> NoReturn:
    fail(
        f"Invalid Request: Index {name} does not match a secondary index that existed in the source "
        "table and cannot be created during the restore operation"
    )


def _key(index: IndexSchema) -> list[tuple[str, str]]:
    return [(part["AttributeName"], part["KeyType"]) for part in describe.key_schema(index)]


def _with_units(index: IndexSchema, billing: str, throughput: Throughput) -> IndexSchema:
    """Give a global index the throughput that the billing mode asks for."""
    if index.kind != "GSI":
        return index
    if billing == PAY_PER_REQUEST:
        return dataclasses.replace(index, throughput=None)
    return dataclasses.replace(index, throughput=index.throughput or throughput, ceiling=None)


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
