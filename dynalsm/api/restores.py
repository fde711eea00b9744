"""Restoring a table from a backup, or to a point in time (reference 10.2, 10.3, 13.8).

The new table is CREATING until everything is in it; small ones are done when the call returns,
although the reply says CREATING.
"""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from typing import Any, NoReturn

from dynalsm.api import arns, describe, messages, names, table_checks, tables, vector_checks
from dynalsm.api.backups import check_recoverable, find_backup, named_table, refuse
from dynalsm.api.registry import Reply, Request, operation
from dynalsm.api.table_checks import fail
from dynalsm.model import backup, jobs, pitr, restore
from dynalsm.model.catalog import TableHandle
from dynalsm.model.schema import (
    PAY_PER_REQUEST,
    PROVISIONED,
    IndexSchema,
    TableSchema,
    Throughput,
)

RESTORES_MAX = 50


@operation("RestoreTableFromBackup")
def restore_table_fromfind_backup(database: Any, request: Request, _form: Any) -> Reply:
    """Make a new table with what a backup holds."""
    found = find_backup(database, request["BackupArn"])
    if found.status != backup.AVAILABLE:
        refuse("BackupInUseException", f"Backup is being created: {found.arn}")
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


def _source(database: Any, request: Request) -> TableHandle:
    arn, name = request.get("SourceTableArn"), request.get("SourceTableName")
    if (arn is None) == (name is None):
        fail("Must provide exactly one of: sourceTableArn, sourceTableName")
    if name is None:
        name = arns.parse_table(
            database.settings, str(arn), "Invalid Request: Table ARN is invalid."
        )
    return named_table(database, name)


def _refuse_moment(database: Any, source: TableHandle) -> NoReturn:
    window = pitr.window(database, source)
    if window is None:
        text = "The first base of point in time recovery is still being made"
    else:
        text = (
            "RestoreDateTime must be between EarliestRestorableDateTime "
            f"{_iso(window.earliest)} and LatestRestorableDateTime {_iso(window.latest)}"
        )
    refuse("InvalidRestoreTimeException", text)


def _iso(seconds: float) -> str:
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%dT%H:%M:%S}Z"


def _start(database: Any, schema: TableSchema, **source: Any) -> Reply:
    settings = database.settings
    if restore.count_running(database) >= RESTORES_MAX:
        refuse(
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
        refuse("TableAlreadyExistsException", f"Table already exists: {name}")
    if name in database.catalog.pending:
        refuse("TableInUseException", messages.being_created(name))
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
        f"Invalid Request: Index {name} does not match a secondary index that existed in the "
        "source table and cannot be created during the restore operation"
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
