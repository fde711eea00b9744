"""CreateTable, DescribeTable, DeleteTable, ListTables. (UpdateTable: table_update.py.)

Control-plane calls hold the catalog's mutex while they check and change, so two of them never
interleave. A table is ready when CreateTable returns; its reply says CREATING, as AWS's does, and
the next DescribeTable says ACTIVE, so both waiters and plain scripts work. With
`table_delay_seconds` it stays CREATING so long, and a deleted one DELETING, for tests of waiters.
"""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from dynalsm import errors, limits
from dynalsm.api import describe, messages, names, table_checks, table_update, vector_checks
from dynalsm.api.registry import Reply, Request, operation
from dynalsm.model import streams
from dynalsm.model.catalog import TableHandle
from dynalsm.model.schema import ACTIVE, CREATING, PAY_PER_REQUEST, Policy, TableSchema
from dynalsm.model.settings import Settings


@operation("CreateTable")
def create_table(database: Any, request: Request, _form: Any) -> Reply:
    """Create a table with its indexes and its stream."""
    settings: Settings = database.settings
    schema = schema_of(request, settings)
    view = table_checks.stream_view(request)
    catalog = database.catalog
    with catalog.mutex:
        refuse_existing(database, schema.name)
        if view is not None:
            schema = streams.with_stream(catalog, schema, view)
        handle = catalog.create(schema)
        if settings.table_delay_seconds > 0:
            catalog.hide(handle)
            _later(database, lambda: catalog.show(handle))
    return {"TableDescription": describe.table_description(handle, settings.clock(), CREATING)}


@operation("DescribeTable")
def describe_table(database: Any, request: Request, _form: Any) -> Reply:
    """Describe a table."""
    now = database.settings.clock()
    name = names.plain_name(database.settings, request["TableName"])
    pending = database.catalog.pending.get(name)
    if pending is not None:
        return {"Table": describe.table_description(pending, now, CREATING)}
    deleted = database.catalog.deleting.get(name)
    if deleted is not None:
        return {"Table": describe.deleted_description(deleted, now)}
    handle = names.control_table(database, request["TableName"])
    return {"Table": describe.table_description(handle, now)}


@operation("UpdateTable")
def update_table(database: Any, request: Request, _form: Any) -> Reply:
    """Change a table's settings, or create or delete one index."""
    return {"TableDescription": table_update.update(database, request)}


@operation("DeleteTable")
def delete_table(database: Any, request: Request, _form: Any) -> Reply:
    """Delete a table; its stream stays readable."""
    # Not needed before: backups and jobs are loaded with it.
    from dynalsm.model import deletion

    catalog = database.catalog
    with catalog.mutex:
        deleted = catalog.deleting.get(names.plain_name(database.settings, request["TableName"]))
        if deleted is not None:  # to delete it again is no error
            return {
                "TableDescription": describe.deleted_description(deleted, database.settings.clock())
            }
        handle = names.control_table(database, request["TableName"])
        if handle.schema.deletion_protection:
            table_checks.fail(
                "Resource cannot be deleted as it is currently protected against deletion. "
                "Disable deletion protection first."
            )
        if _has_moving_index(handle):
            raise errors.API_ERRORS["ResourceInUseException"](
                messages.IN_USE
                + "Cannot delete table while indexes are being created, updated, or deleted."
            )
        if deletion.is_read(database, handle):
            raise errors.API_ERRORS["ResourceInUseException"](
                f"{messages.IN_USE}Table is being used: {handle.name}"
            )
        handle = catalog.drop(handle.name, lambda last: deletion.keep(database, last))
        deletion.forget(database, handle)
        if database.settings.table_delay_seconds > 0:
            catalog.keep_deleted(handle)
            _later(database, lambda: catalog.forget_deleted(handle))
    return {"TableDescription": describe.deleted_description(handle, database.settings.clock())}


@operation("ListTables")
def list_tables(database: Any, request: Request, _form: Any) -> Reply:
    """List table names in order, a page at a time."""
    catalog = database.catalog
    found = sorted({*catalog.names(), *catalog.pending, *catalog.deleting})
    start = request.get("ExclusiveStartTableName")
    first = 0 if start is None else bisect_right(found, names.plain_name(database.settings, start))
    limit = request.get("Limit") or limits.LIST_TABLES_MAX
    page = found[first : first + limit]
    reply: Reply = {"TableNames": page}
    if first + limit < len(found):
        reply["LastEvaluatedTableName"] = page[-1]
    return reply


def schema_of(request: Request, settings: Settings) -> TableSchema:
    """Return the schema of a CreateTable request, without its stream.

    Raises: ValidationException for the first check that fails.
    """
    table_checks.refuse_replicas(request)
    billing, throughput = table_checks.table_billing(request)
    definitions = table_checks.definitions_of(request)
    hash_key, range_key = table_checks.table_key(request, definitions)
    indexes = table_checks.local_indexes(request, hash_key, range_key, definitions)
    indexes += table_checks.global_indexes(request, billing, definitions, indexes, settings)
    key = (hash_key, range_key)
    indexes += vector_checks.vector_indexes(request, billing, definitions, key, indexes, settings)
    table_checks.check_counts(indexes, settings)
    table_checks.check_all_used(definitions, key, indexes)
    table_checks.stream_view(request)
    ceiling = table_checks.ceiling_of(request.get("OnDemandThroughput"), billing)
    warm = table_checks.warm_of(request.get("WarmThroughput"), billing, throughput)
    tags = table_checks.tags_of(request.get("Tags"))
    table_checks.check_tag_count(tags, settings)
    policy = request.get("ResourcePolicy")
    now = settings.clock()
    return TableSchema(
        name=names.plain_name(settings, request["TableName"]),
        id=str(uuid.uuid4()),
        created_at=now,
        attributes=definitions,
        hash_key=hash_key,
        range_key=range_key,
        indexes=tuple(indexes),
        billing=billing,
        on_demand_since=now if billing == PAY_PER_REQUEST else None,
        throughput=throughput,
        ceiling=ceiling,
        warm=warm,
        tags=tags,
        table_class=table_checks.table_class_of(request.get("TableClass")),
        sse_key=table_checks.sse_key(request.get("SSESpecification"), settings),
        deletion_protection=bool(request.get("DeletionProtectionEnabled")),
        policy=Policy(table_checks.policy_of(policy), str(uuid.uuid4())) if policy else None,
    )


def refuse_existing(database: Any, name: str) -> None:
    """Refuse a name that is taken, and one table too many. REQUIRES: the catalog's mutex."""
    if database.catalog.get(name) is not None or name in database.catalog.deleting:
        raise errors.API_ERRORS["ResourceInUseException"](f"Table already exists: {name}")
    if name in database.catalog.pending:
        raise errors.API_ERRORS["ResourceInUseException"](messages.being_created(name))
    if len(database.catalog.names()) >= database.settings.limit_tables:
        raise errors.API_ERRORS["LimitExceededException"](
            "Subscriber limit exceeded: There is a limit of "
            f"{database.settings.limit_tables} tables per subscriber"
        )


def _later(database: Any, change: Callable[[], None]) -> None:
    """Make a change when the table delay is over, or at close()."""
    seconds = database.settings.table_delay_seconds

    def wait() -> None:
        database.stopping.wait(seconds)
        change()

    database.spawn("table-delay", wait)


def _has_moving_index(handle: TableHandle) -> bool:
    return any(index.schema.status != ACTIVE for index in handle.indexes.values())
