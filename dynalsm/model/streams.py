"""Starting and stopping the stream of a table.

A change of what a table records is always: make the new changelog durable, publish the schema
that names it, close the old one. Callers hold `catalog.mutex`.
"""

from __future__ import annotations

import dataclasses
import datetime

from dynalsm.model.catalog import Catalog, TableHandle
from dynalsm.model.changelog import ChangelogRecord
from dynalsm.model.schema import StreamSpec, TableSchema

HIDDEN_VIEW = "NEW_AND_OLD_IMAGES"


def with_stream(catalog: Catalog, schema: TableSchema, view: str) -> TableSchema:
    """Make a stream's changelog and return the schema that records to it."""
    record = _new_record(catalog, schema, view, is_stream=True)
    catalog.create_log(record)
    return dataclasses.replace(
        schema, stream=StreamSpec(record.label, view), changelog=record.label
    )


def start(catalog: Catalog, handle: TableHandle, view: str) -> TableHandle:
    """Enable a stream on an open table."""
    return _switch(catalog, handle, with_stream(catalog, handle.schema, view))


def stop(catalog: Catalog, handle: TableHandle) -> TableHandle:
    """Disable the stream of an open table; it stays readable until its records are too old."""
    schema = handle.schema
    assert schema.stream is not None
    stream = dataclasses.replace(schema.stream, enabled=False)
    schema = dataclasses.replace(schema, stream=stream, changelog=None)
    if keeps_history(schema):
        schema = with_hidden(catalog, schema)
    return _switch(catalog, handle, schema)


def keeps_history(schema: TableSchema) -> bool:
    """Return whether point-in-time recovery needs a changelog with both images."""
    return bool(schema.extras.get("pitr"))


def with_hidden(catalog: Catalog, schema: TableSchema) -> TableSchema:
    """Make a hidden changelog and return the schema that records to it."""
    record = _new_record(catalog, schema, HIDDEN_VIEW, is_stream=False)
    catalog.create_log(record)
    return dataclasses.replace(schema, changelog=record.label)


def _switch(catalog: Catalog, handle: TableHandle, schema: TableSchema) -> TableHandle:
    changed = catalog.replace(schema)
    old = handle.schema.changelog
    if old is not None and old != schema.changelog:
        catalog.close_log(schema.id, old)
    return changed


def _new_record(
    catalog: Catalog, schema: TableSchema, view: str, *, is_stream: bool
) -> ChangelogRecord:
    settings = catalog.settings
    now = settings.clock()
    return ChangelogRecord(
        table=schema.name,
        table_id=schema.id,
        label=_new_label(catalog, schema.name, now, is_stream=is_stream),
        view=view,
        shards=settings.stream_shards if is_stream else 1,
        created_at=now,
        start_seqno=catalog.engine.last_seqno + 1,
        is_stream=is_stream,
        keeps_images=keeps_history(schema),
        key_schema=tuple(
            zip(schema.key_names, ("HASH", "RANGE")[: len(schema.key_names)], strict=True)
        ),
    )


def _new_label(catalog: Catalog, table: str, now: float, *, is_stream: bool) -> str:
    """Return the creation time to the millisecond, moved on until no stream has it."""
    taken = {record.label for record in catalog.logs() if record.table == table}
    milliseconds = int(now * 1000)
    while True:
        moment = datetime.datetime.fromtimestamp(milliseconds // 1000, datetime.UTC)
        label = f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}"
        if not is_stream:
            label = f"hidden-{label}"
        if label not in taken:
            return label
        milliseconds += 1
