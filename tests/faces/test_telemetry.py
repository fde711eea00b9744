"""OpenTelemetry spans of operations, whatever face they come through."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import dynalsm
from dynalsm import aio, telemetry
from tests.faces.conftest import MUSIC
from tests.support.databases import memory_database

KEY = {"Artist": "a", "SongTitle": "b"}


@pytest.fixture
def exporter() -> Any:
    """What collects the spans, with the provider in `provider`."""
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    made: Any = InMemorySpanExporter()
    made.provider = TracerProvider()
    made.provider.add_span_processor(SimpleSpanProcessor(made))
    return made


def test_each_operation_has_a_span(exporter: Any) -> None:
    with memory_database() as db:
        telemetry.instrument(db, exporter.provider)
        music = db.create_table(**MUSIC)
        music.put_item(Item=KEY)
        with pytest.raises(dynalsm.errors.ValidationException):
            music.get_item(Key={"Artist": "a"})
        db.client.list_tables()
        with pytest.raises(ValueError, match="instrumented already"):
            telemetry.instrument(db)
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == [
        "CreateTable Music", "PutItem Music", "GetItem Music", "ListTables",
    ]  # fmt: skip
    assert dict(spans[1].attributes) == {
        "db.system.name": "aws.dynamodb",
        "db.operation.name": "PutItem",
        "db.collection.name": "Music",
    }
    assert spans[1].status.is_ok
    assert spans[2].attributes["error.type"] == "ValidationException"
    assert not spans[2].status.is_ok
    assert "db.collection.name" not in spans[3].attributes


def test_spans_come_through_boto3_the_loop_and_the_server(exporter: Any, tmp_path: Path) -> None:
    pytest.importorskip("boto3")
    pytest.importorskip("httptools")
    from dynalsm.server.run import ServerThread

    with dynalsm.open(tmp_path / "test.db", durability="os") as db:
        telemetry.instrument(db, exporter.provider)
        db.create_table(**MUSIC)
        exporter.clear()
        dynalsm.boto3_session(db).resource("dynamodb").Table("Music").put_item(Item=KEY)
        with ServerThread(db) as server, dynalsm.open(server.url) as remote:
            remote.Table("Music").put_item(Item=KEY)

        async def main() -> None:
            await aio.AsyncDatabase(db).Table("Music").put_item(Item=KEY)

        asyncio.run(main())
        names = [span.name for span in exporter.get_finished_spans()]
    assert names == ["PutItem Music"] * 3


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry", None)
    with (
        memory_database() as db,
        pytest.raises(ModuleNotFoundError, match=r"pip install 'dynalsm\[telemetry\]'"),
    ):
        telemetry.instrument(db)
