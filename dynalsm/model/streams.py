"""Starting, stopping and rolling what a table records: its stream, and the history others need.

A change is always: make the new changelog durable, publish the schema that names it, close the
old one. Callers hold `catalog.mutex`, except for `roll` and `trim`.
"""

from __future__ import annotations

import dataclasses
import datetime

from dynalsm.model import changelog
from dynalsm.model.catalog import Catalog, TableHandle
from dynalsm.model.changelog import ChangelogRecord
from dynalsm.model.schema import ACTIVE, StreamSpec, TableSchema

HIDDEN_VIEW = "NEW_AND_OLD_IMAGES"
PITR_DAYS = 35  # the default window
# Changes get their time a little before they are committed, so maybe before a base that lacks them.
BASE_SLACK_SECONDS = 3600.0
# A changelog is followed by another at least so often within the time that records are kept.
GENERATIONS = 12
# More would not be read by more readers, and each costs a range of every read.
SHARDS_MAX = 256


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
    """Return whether somebody needs both images of every change, whatever the stream shows.

    Point-in-time recovery (extras "pitr") and streaming destinations (extras "kinesis") do.
    """
    return bool(schema.extras.get("pitr")) or any(
        destination["status"] == ACTIVE
        for destination in (schema.extras.get("kinesis") or {}).values()
    )


def change_history(catalog: Catalog, schema: TableSchema) -> TableHandle:
    """Publish a schema whose extras changed, with a changelog that has what they need.

    Starts a hidden changelog, or lets the stream's keep images, or ends a hidden one that nobody
    needs any more.
    """
    wanted = keeps_history(schema)
    current = next(
        (
            log
            for log in catalog.logs()
            if (log.table_id, log.label) == (schema.id, schema.changelog)
        ),
        None,
    )
    if current is None:
        if wanted:
            schema = with_hidden(catalog, schema)
    elif not current.is_stream:
        if not wanted:
            schema = dataclasses.replace(schema, changelog=None)
    elif current.keeps_images != wanted:
        catalog.update_log(dataclasses.replace(current, keeps_images=wanted))
    handle = catalog.get(schema.name)
    assert handle is not None
    return _switch(catalog, handle, schema)


def with_hidden(catalog: Catalog, schema: TableSchema) -> TableSchema:
    """Make a hidden changelog and return the schema that records to it."""
    record = _new_record(catalog, schema, HIDDEN_VIEW, is_stream=False)
    catalog.create_log(record)
    return dataclasses.replace(schema, changelog=record.label)


def retention_seconds(catalog: Catalog, record: ChangelogRecord) -> float:
    """Return how long the records of a changelog are kept."""
    seconds = catalog.settings.stream_retention_seconds
    handle = catalog.find_id(record.table_id)
    pitr = handle.schema.extras.get("pitr") if handle is not None else None
    if pitr and record.keeps_images:
        days = pitr.get("days", PITR_DAYS) if isinstance(pitr, dict) else PITR_DAYS
        seconds = max(seconds, days * 86_400.0)
        # The oldest base needs every change since it was made (model/pitr.py).
        oldest = catalog.read("pitr", f"{record.table_id}/bases")
        if oldest:
            age_seconds = catalog.settings.clock() - oldest[0][1] / 1000
            seconds = max(seconds, age_seconds + BASE_SLACK_SECONDS)
    return seconds


def roll(catalog: Catalog) -> None:
    """Go over to new changelogs where the present ones are old or large, or have too few shards.

    What is old then goes by whole files, and readers may share the shards of a grown table.
    """
    for name in catalog.names():
        handle = catalog.get(name)
        if handle is not None and handle.changelog is not None and _is_due(catalog, handle):
            with catalog.mutex:
                now = catalog.get(name)
                if now is not None and now.schema.changelog == handle.schema.changelog:
                    next_generation(catalog, now)


def next_generation(catalog: Catalog, handle: TableHandle) -> TableHandle:
    """Close the changelog of a table that has one, and record to the next generation of it.

    Each shard of the next one holds the whole hash range of one before, or a part of it.
    """
    record = _current(catalog, handle)
    # The shards' ids tell the time of their creation, so it must grow by a millisecond.
    created_at = max(catalog.settings.clock(), (int(record.created_at * 1000) + 1.5) / 1000)
    following = dataclasses.replace(
        record,
        label=f"{record.stream}{changelog.GENERATION_MARK}{record.generation + 1}",
        shards=_wanted_shards(handle, record),
        created_at=created_at,
        start_seqno=catalog.engine.last_seqno + 1,
        trimmed=(),
    )
    catalog.create_log(following)
    schema = dataclasses.replace(handle.schema, changelog=following.label)
    return _switch(catalog, handle, schema)


def _is_due(catalog: Catalog, handle: TableHandle) -> bool:
    record = _current(catalog, handle)
    tree = catalog.open_log(record).tree
    if not tree.cursor(values=False).next_chunk(1):
        return False  # nothing to close
    settings = catalog.settings
    # Where more is kept (for recovery), fewer and larger generations do.
    lives_seconds = max(
        settings.stream_roll_seconds,
        retention_seconds(catalog, record) / GENERATIONS,
    )
    return (
        settings.clock() - record.created_at >= lives_seconds
        or tree.approximate_size() >= settings.stream_roll_bytes
        or _wanted_shards(handle, record) > record.shards
    )


def _wanted_shards(handle: TableHandle, record: ChangelogRecord) -> int:
    """Return the number of shards for a table's partitions: the present one, or a double of it."""
    shards = record.shards
    if record.is_stream:
        partitions = len(handle.tree.partitions())
        while shards < partitions and shards * 2 <= SHARDS_MAX:
            shards *= 2
    return shards


def _current(catalog: Catalog, handle: TableHandle) -> ChangelogRecord:
    """REQUIRES: the table records to a changelog."""
    assert handle.changelog is not None
    return catalog.log(handle.changelog.record)


def trim(catalog: Catalog) -> None:
    """Delete records that are too old, and changelogs that were closed too long ago."""
    now = catalog.settings.clock()
    for record in catalog.logs():
        keep = retention_seconds(catalog, record)
        if record.closed_at is not None and record.closed_at + keep < now:
            catalog.drop_log(record)
            continue
        if record.closed_at is not None:
            continue  # it goes as a whole
        trimmed = changelog.trim(catalog.engine, catalog.open_log(record), now, keep)
        if trimmed is not None:
            with catalog.mutex:
                catalog.update_log(dataclasses.replace(catalog.log(record), trimmed=trimmed))


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
    taken = {record.stream for record in catalog.logs() if record.table == table}
    milliseconds = int(now * 1000)
    while True:
        moment = datetime.datetime.fromtimestamp(milliseconds // 1000, datetime.UTC)
        label = f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}"
        if not is_stream:
            label = f"hidden-{label}"
        if label not in taken:
            return label
        milliseconds += 1
