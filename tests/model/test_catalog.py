"""The catalog: what survives a restart, what a crash leaves, handles, counters."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from dynalsm import errors
from dynalsm.database import Database
from dynalsm.model import schema as schemas
from dynalsm.model import streams
from dynalsm.model.catalog import Catalog
from dynalsm.model.schema import (
    CREATING,
    Ceiling,
    IndexSchema,
    Policy,
    Projection,
    StreamSpec,
    TableSchema,
    Throughput,
    Warm,
)
from dynalsm.model.settings import Settings
from tests.support.memory_engine import MemoryEngine

INDEX = IndexSchema("by-x", "GSI", ("x",), (), Projection("INCLUDE", ("a",)))
LOCAL = IndexSchema("local", "LSI", ("pk",), ("x",))


def schema(name: str = "Music", **fields: Any) -> TableSchema:
    known = {"pk": "S", "sk": "N", "x": "S"}
    return TableSchema(name, f"id-{name}", 1.5, known, "pk", "sk", **fields)


def opened(engine: MemoryEngine) -> Catalog:
    return Catalog(engine, Settings())


def test_schema_survives_packing() -> None:
    full = schema(
        indexes=(
            dataclasses.replace(
                INDEX, throughput=Throughput(1, 2), ceiling=Ceiling(3), warm=Warm(4, 5)
            ),
            dataclasses.replace(LOCAL, status=CREATING),
        ),
        throughput=Throughput(1, 2, 3.0, 4.0, 5, 6),
        ceiling=Ceiling(None, 7),
        warm=Warm(8, 9),
        stream=StreamSpec("label", "KEYS_ONLY", False),
        tags={"a": "b"},
        ttl_attribute="expires",
        policy=Policy("{}", "1"),
        restored={"SourceTableArn": "arn"},
        extras={"pitr": {"days": 3}},
    )
    assert schemas.unpack(schemas.pack(full)) == full


def test_tables_survive_a_restart() -> None:
    engine = MemoryEngine()
    first = opened(engine)
    first.create(schema(indexes=(INDEX, LOCAL)))
    first.create(schema("Other"))
    first.replace(dataclasses.replace(schema("Other"), tags={"a": "b"}))
    second = opened(engine)
    assert second.names() == ["Music", "Other"]
    handle = second.get("Music")
    assert handle is not None
    assert handle.schema == schema(indexes=(INDEX, LOCAL))
    assert handle.tree.name == "t/id-Music"
    assert {index.tree.name for index in handle.written_indexes} == {
        "t/id-Music/g/by-x",
        "t/id-Music/l/local",
    }
    assert all(index.tree.hashed for index in handle.written_indexes)
    other = second.get("Other")
    assert other is not None
    assert other.schema.tags == {"a": "b"}


def test_dropped_table_is_gone_for_good() -> None:
    engine = MemoryEngine()
    catalog = opened(engine)
    catalog.create(schema(indexes=(INDEX,)))
    catalog.drop("Music")
    assert engine.tree_names() == ["catalog"]
    assert opened(engine).names() == []
    catalog.create(schema(indexes=(INDEX,)))


def test_name_taken() -> None:
    catalog = opened(MemoryEngine())
    catalog.create(schema())
    with pytest.raises(KeyError):
        catalog.create(schema())


def test_crash_before_the_record_of_a_new_table() -> None:
    """Trees are made first; without the record the next open drops them."""
    engine = MemoryEngine()
    opened(engine)
    engine.create_tree("t/half-made", hashed=True)
    engine.create_tree("s/half-made/label")
    engine.create_tree("kv/of-somebody-else")
    opened(engine)
    assert engine.tree_names() == ["catalog", "kv/of-somebody-else"]


def test_crash_between_the_record_and_the_trees_of_a_deleted_table() -> None:
    engine = MemoryEngine()
    catalog = opened(engine)
    catalog.create(schema(indexes=(INDEX,)))
    catalog.tree.delete(b"table\0Music")
    opened(engine)
    assert engine.tree_names() == ["catalog"]


def test_crash_while_an_index_is_deleted() -> None:
    """The schema without the index is durable, its tree is still there: it goes."""
    engine = MemoryEngine()
    catalog = opened(engine)
    catalog.create(schema(indexes=(INDEX,)))
    catalog.tree.put(b"table\0Music", schemas.pack(schema()))
    opened(engine)
    assert engine.tree_names() == ["catalog", "t/id-Music"]


def test_crash_between_a_stream_and_its_table() -> None:
    """A changelog that nothing records to is closed at open, or dropped if it was never used."""
    for is_used in (False, True):
        engine = MemoryEngine()
        catalog = opened(engine)
        started = streams.with_stream(catalog, schema(), "KEYS_ONLY")
        if is_used:
            engine.tree(f"s/id-Music/{started.changelog}").put(b"0000000001", b"record")
        [log] = opened(engine).logs() or [None]
        assert (log is not None) == is_used
        assert log is None or log.closed_at is not None


def test_failing_disk_leaves_the_table_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = MemoryEngine()
    catalog = opened(engine)
    handle = catalog.create(streams.with_stream(catalog, schema(), "KEYS_ONLY"))

    def fail(*arguments: object, **options: object) -> int:
        raise errors.NoSpaceError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(engine, "write", fail)
        for change in (
            lambda: catalog.drop("Music"),
            lambda: catalog.replace(dataclasses.replace(handle.schema, tags={"a": "b"})),
            lambda: streams.stop(catalog, handle),
        ):
            with pytest.raises(errors.NoSpaceError):
                change()
            assert catalog.get("Music") is handle
            assert catalog.logs()[0].closed_at is None
    catalog.drop("Music")
    assert catalog.logs()[0].closed_at is not None


def test_handles_do_not_change() -> None:
    catalog = opened(MemoryEngine())
    old = catalog.create(schema())
    waited = []
    catalog.barrier = lambda: waited.append(catalog.get("Music"))
    new = catalog.replace(dataclasses.replace(schema(), indexes=(INDEX,)))
    assert old.indexes == {}
    assert not catalog.is_current(old)
    assert catalog.is_current(new)
    assert new.statistics is old.statistics
    # Writers were waited for after the new handle could be seen.
    assert waited == [new]


def test_deleted_index_keeps_its_tree_until_writers_are_gone() -> None:
    engine = MemoryEngine()
    catalog = opened(engine)
    catalog.create(schema(indexes=(INDEX,)))
    seen = []
    catalog.barrier = lambda: seen.append("t/id-Music/g/by-x" in engine.tree_names())
    catalog.replace(schema())
    assert seen == [True]
    assert engine.tree_names() == ["catalog", "t/id-Music"]


def test_records_of_others() -> None:
    engine = MemoryEngine()
    catalog = opened(engine)
    catalog.write("backup", "b", {"size": 2})
    catalog.write("backup", "a", [1, None, b"x"])
    catalog.write("backups", "z", 1)
    assert opened(engine).read("backup", "a") == [1, None, b"x"]
    assert list(catalog.records("backup")) == [("a", [1, None, b"x"]), ("b", {"size": 2})]
    catalog.write("backup", "a", None)
    assert catalog.read("backup", "a") is None


def test_records_that_belong_to_a_table_go_with_it() -> None:
    catalog = opened(MemoryEngine())
    catalog.create(schema())
    catalog.create(schema("Music2"))
    for table in ("id-Music", "id-Music2"):
        catalog.write("backfill", f"{table}/by-x", b"key")
        catalog.write("kinesis", f"{table}/arn", ["label", [1]])
    catalog.drop("Music")
    for kind in ("backfill", "kinesis"):
        assert [name.partition("/")[0] for name, _ in catalog.records(kind)] == ["id-Music2"]


def test_newer_format_is_refused() -> None:
    engine = MemoryEngine()
    opened(engine).write("format", "catalog", 2)
    with pytest.raises(errors.FormatError, match="format 2"):
        opened(engine)


def test_catalog_that_reads_as_empty_drops_no_table() -> None:
    # Whatever made the catalog unreadable: its tables are not traces of a crash.
    engine = MemoryEngine()
    catalog = opened(engine)
    catalog.create(schema())
    for key in [key for key, _ in engine.tree("catalog").cursor()]:
        engine.tree("catalog").delete(key)
    before = engine.tree_names()
    with pytest.raises(errors.CorruptionError, match="lost its records"):
        opened(engine)
    assert engine.tree_names() == before


# Statistics.


def put(db: Database, pk: str) -> None:
    item = {"pk": {"S": pk}, "x": {"S": "1"}}
    db.call("PutItem", {"TableName": "Music", "Item": item})


def numbers(db: Database) -> tuple[int, int, int]:
    table = db.call("DescribeTable", {"TableName": "Music"})["Table"]
    index = table["GlobalSecondaryIndexes"][0]
    return table["ItemCount"], table["TableSizeBytes"], index["ItemCount"]


def make(db: Database) -> None:
    db.call(
        "CreateTable",
        {
            "TableName": "Music",
            "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
            "AttributeDefinitions": [
                {"AttributeName": name, "AttributeType": "S"} for name in ("pk", "x")
            ],
            "BillingMode": "PAY_PER_REQUEST",
            "GlobalSecondaryIndexes": [
                {
                    "IndexName": "by-x",
                    "KeySchema": [{"AttributeName": "x", "KeyType": "HASH"}],
                    "Projection": {"ProjectionType": "ALL"},
                }
            ],
        },
    )


def join_background(db: Database) -> None:
    for thread in list(db._threads):
        if thread.name == "dynalsm-recount":
            thread.join()


def test_counters_after_a_clean_close_need_no_recount() -> None:
    engine = MemoryEngine()
    with Database(engine, Settings()) as db:  # type: ignore[arg-type]
        make(db)
        put(db, "a")
    catalog = opened(engine)
    assert catalog.begin_recounts() == []
    handle = catalog.get("Music")
    assert handle is not None
    assert (handle.statistics.items, handle.indexes["by-x"].statistics.items) == (1, 1)


def test_counters_after_a_crash_are_taken_again() -> None:
    engine = MemoryEngine()
    db = Database(engine, Settings())  # type: ignore[arg-type]
    make(db)
    put(db, "a")
    db.catalog.save_statistics()
    put(db, "b")
    # No close: the next process counts; until then the last stored numbers are shown.
    catalog = opened(engine)
    work = catalog.begin_recounts()
    handle = catalog.get("Music")
    assert handle is not None
    assert (handle.statistics.items, handle.statistics.is_exact) == (1, False)
    for task in work:
        task()
    assert (handle.statistics.items, handle.statistics.is_exact) == (2, True)
    assert handle.indexes["by-x"].statistics.items == 2


def test_writes_during_a_recount_are_counted_once() -> None:
    engine = MemoryEngine()
    db = Database(engine, Settings())  # type: ignore[arg-type]
    make(db)
    put(db, "a")
    again = Database(engine, Settings())  # type: ignore[arg-type]
    put(again, "b")
    join_background(again)
    put(again, "c")
    assert numbers(again) == (3, 15, 3)
    again.close()


def test_read_only_catalog_changes_nothing() -> None:
    engine = MemoryEngine()
    opened(engine).create(schema())
    engine.create_tree("t/orphan", hashed=True)
    engine.read_only = True
    before = engine.last_seqno
    catalog = opened(engine)
    catalog.save_statistics(is_closing=True)
    assert catalog.names() == ["Music"]
    assert engine.last_seqno == before
    assert "t/orphan" in engine.tree_names()
