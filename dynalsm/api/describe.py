"""A table as replies show it: TableDescription and its parts (reference 14.2).

Members that do not apply are absent, never empty. Item counts and sizes are live.
"""

from __future__ import annotations

from typing import Any

from dynalsm.api.table_checks import default_warm
from dynalsm.model.catalog import IndexHandle, TableHandle
from dynalsm.model.schema import (
    ACTIVE,
    CREATING,
    DELETING,
    PAY_PER_REQUEST,
    Ceiling,
    IndexSchema,
    TableSchema,
    Throughput,
    Warm,
)

SECONDS_PER_DAY = 86_400


def table_description(handle: TableHandle, now: float, status: str = ACTIVE) -> dict[str, Any]:
    """Return the whole TableDescription."""
    schema = handle.schema
    described: dict[str, Any] = {
        "AttributeDefinitions": [
            {"AttributeName": name, "AttributeType": kind}
            for name, kind in schema.attributes.items()
        ],
        "TableName": schema.name,
        "KeySchema": key_schema(schema),
        "TableStatus": status,
        "CreationDateTime": schema.created_at,
        **_sizes(handle, now),
    }
    if schema.table_class is not None:
        described["TableClassSummary"] = {"TableClass": schema.table_class}
        if schema.table_class_changed_at is not None:
            described["TableClassSummary"]["LastUpdateDateTime"] = schema.table_class_changed_at
    if schema.sse_key is not None:
        described["SSEDescription"] = sse(schema.sse_key)
    if schema.ceiling is not None:
        described["OnDemandThroughput"] = ceiling(schema.ceiling)
    warm = schema.warm or default_warm(schema.billing, schema.throughput)
    described["WarmThroughput"] = _warm(warm)
    if schema.stream is not None:
        _add_stream(described, handle)
    if schema.restored is not None:
        described["RestoreSummary"] = dict(schema.restored)
    _add_indexes(described, handle, now, status)
    return described


def deleted_description(handle: TableHandle, now: float) -> dict[str, Any]:
    """Return what DeleteTable answers: no schema, no indexes (reference 14.1, observed)."""
    return {"TableName": handle.name, "TableStatus": DELETING, **_sizes(handle, now)}


def key_schema(schema: TableSchema | IndexSchema) -> list[dict[str, str]]:
    """Return a KeySchema."""
    if isinstance(schema, IndexSchema):
        hashes, ranges = schema.hash_key, schema.range_key
    else:
        hashes, ranges = schema.key_names[:1], schema.key_names[1:]
    return [{"AttributeName": name, "KeyType": "HASH"} for name in hashes] + [
        {"AttributeName": name, "KeyType": "RANGE"} for name in ranges
    ]


def projection(schema: IndexSchema) -> dict[str, Any]:
    """Return a Projection."""
    described: dict[str, Any] = {"ProjectionType": schema.projection.kind}
    if schema.projection.attributes:
        described["NonKeyAttributes"] = list(schema.projection.attributes)
    return described


def throughput(units: Throughput, now: float) -> dict[str, Any]:
    """Return a ProvisionedThroughputDescription."""
    is_today = units.decreases_day == int(now // SECONDS_PER_DAY)
    described: dict[str, Any] = {
        "NumberOfDecreasesToday": units.decreases if is_today else 0,
        "ReadCapacityUnits": units.read_units,
        "WriteCapacityUnits": units.write_units,
    }
    if units.increased_at is not None:
        described["LastIncreaseDateTime"] = units.increased_at
    if units.decreased_at is not None:
        described["LastDecreaseDateTime"] = units.decreased_at
    return described


def stream_arn(table_arn: str, label: str) -> str:
    """Return the ARN of a table's stream."""
    return f"{table_arn}/stream/{label}"


def _sizes(handle: TableHandle, now: float) -> dict[str, Any]:
    """Return the members that a deleted table still has."""
    schema = handle.schema
    described: dict[str, Any] = {
        "ProvisionedThroughput": throughput(schema.throughput, now),
        "TableSizeBytes": handle.statistics.bytes,
        "ItemCount": handle.statistics.items,
        "TableArn": handle.arn,
        "TableId": schema.id,
        "DeletionProtectionEnabled": schema.deletion_protection,
    }
    if schema.on_demand_since is not None:
        described["BillingModeSummary"] = {
            "BillingMode": schema.billing,
            "LastUpdateToPayPerRequestDateTime": schema.on_demand_since,
        }
    return described


def _add_stream(described: dict[str, Any], handle: TableHandle) -> None:
    stream = handle.schema.stream
    assert stream is not None
    if stream.enabled:
        described["StreamSpecification"] = {"StreamEnabled": True, "StreamViewType": stream.view}
    # These two stay after the stream has been disabled (observed).
    described["LatestStreamLabel"] = stream.label
    described["LatestStreamArn"] = stream_arn(handle.arn, stream.label)


def _add_indexes(described: dict[str, Any], handle: TableHandle, now: float, status: str) -> None:
    local = [_index(handle, index) for index in handle.indexes.values() if index.kind == "LSI"]
    if local:
        described["LocalSecondaryIndexes"] = local
    made_with_table = status == CREATING
    vectors = [
        vector_index(handle, index, made_with_table)
        for index in handle.indexes.values()
        if index.kind == "VECTOR"
    ]
    if vectors:
        described["VectorIndexes"] = vectors
    global_ = [
        _global_index(handle, index, now, made_with_table)
        for index in handle.indexes.values()
        if index.kind == "GSI"
    ]
    if global_:
        described["GlobalSecondaryIndexes"] = global_


def vector_index(
    handle: TableHandle, index: IndexHandle, made_with_table: bool = False
) -> dict[str, Any]:
    """Return a VectorIndexDescription."""
    described = {**vector_definition(index.schema), **_index_sizes(handle, index)}
    described["IndexStatus"] = CREATING if made_with_table else index.schema.status
    if index.schema.status == CREATING:
        described["Backfilling"] = True
    return described


def vector_definition(schema: IndexSchema) -> dict[str, Any]:
    """Return what CreateTable was told about a vector index."""
    spec = schema.vector
    assert spec is not None
    described: dict[str, Any] = {
        "IndexName": schema.name,
        "VectorAttribute": {"AttributeName": spec.attribute},
        "Dimensions": spec.dimensions,
        "DistanceFunction": spec.distance,
        "Projection": projection(schema),
    }
    if spec.search_schema:
        described["SearchSchema"] = [
            {"AttributeName": name, "SearchSchemaElementType": role}
            for name, role in spec.search_schema
        ]
    return described


def _index(handle: TableHandle, index: IndexHandle) -> dict[str, Any]:
    return {
        "IndexName": index.name,
        "KeySchema": key_schema(index.schema),
        "Projection": projection(index.schema),
        **_index_sizes(handle, index),
    }


def _index_sizes(handle: TableHandle, index: IndexHandle) -> dict[str, Any]:
    return {
        "IndexSizeBytes": index.statistics.bytes,
        "ItemCount": index.statistics.items,
        "IndexArn": f"{handle.arn}/index/{index.name}",
    }


def _global_index(
    handle: TableHandle, index: IndexHandle, now: float, made_with_table: bool
) -> dict[str, Any]:
    schema, billing = index.schema, handle.schema.billing
    described = _index(handle, index)
    described["IndexStatus"] = CREATING if made_with_table else schema.status
    if schema.status == CREATING:
        described["Backfilling"] = True
    units = schema.throughput or Throughput()
    described["ProvisionedThroughput"] = throughput(units, now)
    if schema.ceiling is not None:
        described["OnDemandThroughput"] = ceiling(schema.ceiling)
    if billing == PAY_PER_REQUEST:
        warm = schema.warm or default_warm(billing, None)
    else:
        warm = schema.warm or default_warm(billing, units)
    described["WarmThroughput"] = _warm(warm)
    return described


def ceiling(units: Ceiling) -> dict[str, int]:
    """Return an OnDemandThroughput."""
    return {
        "MaxReadRequestUnits": -1 if units.read_units is None else units.read_units,
        "MaxWriteRequestUnits": -1 if units.write_units is None else units.write_units,
    }


def sse(key: str) -> dict[str, str]:
    """Return an SSEDescription."""
    return {"Status": "ENABLED", "SSEType": "KMS", "KMSMasterKeyArn": key}


def _warm(warm: Warm) -> dict[str, Any]:
    return {
        "ReadUnitsPerSecond": warm.read_units,
        "WriteUnitsPerSecond": warm.write_units,
        "Status": ACTIVE,
    }
