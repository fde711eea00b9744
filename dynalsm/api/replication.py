"""Operations about other regions. There are none here: lists are empty, changes are refused.

Version 2017 global tables are refused with AWS's own present text. Replica auto scaling has one
replica, this database's region, whose settings are kept and reported (reference 1.1).
"""

from __future__ import annotations

from typing import Any, NoReturn

from dynalsm import errors
from dynalsm.api import names
from dynalsm.api.messages import INVALID, unsupported
from dynalsm.api.registry import Reply, Request, operation
from dynalsm.api.table_checks import fail
from dynalsm.model.catalog import TableHandle
from dynalsm.model.schema import ACTIVE

OLD_GLOBAL_TABLES = (
    INVALID + "DynamoDB global tables version 2017.11.29 is not supported. We recommend using "
    "DynamoDB global tables version 2019.11.21, instead of version 2017.11.29 (Legacy)."
)
SCALING = "scaling"  # the table's extra: settings by where they apply
_TABLE_WRITES, _TABLE_READS = "table-writes", "table-reads"


@operation("CreateGlobalTable")
def create_global_table(_database: Any, _request: Request, _form: Any) -> Reply:
    """Refuse."""
    fail(OLD_GLOBAL_TABLES)


@operation("UpdateGlobalTable")
def update_global_table(_database: Any, _request: Request, _form: Any) -> Reply:
    """Refuse."""
    fail(OLD_GLOBAL_TABLES)


@operation("UpdateGlobalTableSettings")
def update_global_table_settings(_database: Any, request: Request, _form: Any) -> Reply:
    """Refuse: there is no such table."""
    _not_found(request)


@operation("DescribeGlobalTable")
def describe_global_table(_database: Any, request: Request, _form: Any) -> Reply:
    """Refuse: there is no such table."""
    _not_found(request)


@operation("DescribeGlobalTableSettings")
def describe_global_table_settings(_database: Any, request: Request, _form: Any) -> Reply:
    """Refuse: there is no such table."""
    _not_found(request)


@operation("ListGlobalTables")
def list_global_tables(_database: Any, _request: Request, _form: Any) -> Reply:
    """Return no tables."""
    return {"GlobalTables": []}


@operation("DescribeTableReplicaAutoScaling")
def describe_scaling(database: Any, request: Request, _form: Any) -> Reply:
    """Return the settings kept for this region."""
    handle = names.control_table(database, request["TableName"])
    return {"TableAutoScalingDescription": _described(database, handle, ACTIVE)}


@operation("UpdateTableReplicaAutoScaling")
def update_scaling(database: Any, request: Request, _form: Any) -> Reply:
    """Keep auto scaling settings; nothing scales, because nothing has to."""
    with database.catalog.mutex:
        handle = names.control_table(database, request["TableName"])
        settings = dict(handle.schema.extras.get(SCALING) or {})
        _merge(settings, _TABLE_WRITES, request.get("ProvisionedWriteCapacityAutoScalingUpdate"))
        for update in request.get("GlobalSecondaryIndexUpdates") or ():
            where = _index_place(handle, update.get("IndexName"), "writes")
            _merge(settings, where, update.get("ProvisionedWriteCapacityAutoScalingUpdate"))
        for replica in request.get("ReplicaUpdates") or ():
            _merge_replica(database, handle, settings, replica)
        if settings:
            handle = database.catalog.replace(handle.schema.with_extra(SCALING, settings))
    return {"TableAutoScalingDescription": _described(database, handle, "UPDATING")}


def _not_found(request: Request) -> NoReturn:
    raise errors.API_ERRORS["GlobalTableNotFoundException"](
        f"Global table with name: '{request['GlobalTableName']}' does not exist."
    )


def _merge_replica(
    database: Any, handle: TableHandle, settings: dict[str, Any], replica: Request
) -> None:
    if replica["RegionName"] != database.settings.region:
        fail(unsupported(f"A replica in {replica['RegionName']}"))
    reads = replica.get("ReplicaProvisionedReadCapacityAutoScalingUpdate")
    _merge(settings, _TABLE_READS, reads)
    for update in replica.get("ReplicaGlobalSecondaryIndexUpdates") or ():
        where = _index_place(handle, update.get("IndexName"), "reads")
        _merge(settings, where, update.get("ProvisionedReadCapacityAutoScalingUpdate"))


def _index_place(handle: TableHandle, index: str | None, kind: str) -> str:
    if index is None or index not in handle.indexes:
        raise errors.API_ERRORS["ResourceNotFoundException"](
            f"Requested resource not found: Index: {index} not found for table: {handle.name}"
        )
    return f"{index}-{kind}"


def _merge(settings: dict[str, Any], where: str, update: Request | None) -> None:
    """Merge one AutoScalingSettingsUpdate into what is kept."""
    if not update:
        return
    kept = dict(settings.get(where) or {})
    for member in ("MinimumUnits", "MaximumUnits", "AutoScalingDisabled", "AutoScalingRoleArn"):
        if update.get(member) is not None:
            kept[member] = update[member]
    policy = update.get("ScalingPolicyUpdate")
    if policy:
        target = policy["TargetTrackingScalingPolicyConfiguration"]
        kept["ScalingPolicies"] = [
            {
                "PolicyName": policy.get("PolicyName") or f"{where}-target-tracking",
                "TargetTrackingScalingPolicyConfiguration": dict(target),
            }
        ]
    settings[where] = kept


def _described(database: Any, handle: TableHandle, status: str) -> dict[str, Any]:
    settings = handle.schema.extras.get(SCALING) or {}
    replica: dict[str, Any] = {"RegionName": database.settings.region, "ReplicaStatus": ACTIVE}
    if _TABLE_READS in settings:
        replica["ReplicaProvisionedReadCapacityAutoScalingSettings"] = settings[_TABLE_READS]
    if _TABLE_WRITES in settings:
        replica["ReplicaProvisionedWriteCapacityAutoScalingSettings"] = settings[_TABLE_WRITES]
    indexes = []
    for index in handle.indexes.values():
        if index.kind != "GSI":
            continue
        described: dict[str, Any] = {"IndexName": index.name, "IndexStatus": index.schema.status}
        for kind in ("Read", "Write"):
            kept = settings.get(f"{index.name}-{kind.lower()}s")
            if kept is not None:
                described[f"Provisioned{kind}CapacityAutoScalingSettings"] = kept
        indexes.append(described)
    if indexes:
        replica["GlobalSecondaryIndexes"] = indexes
    return {"TableName": handle.name, "TableStatus": status, "Replicas": [replica]}
