"""SearchVectors through the faces: the resource's table, and HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dynalsm.conditions import Attr
from dynalsm.database import open_path
from tests.support.databases import memory_database
from tests.support.processes import ServeProcess
from tests.support.store import S
from tests.support.vectors import NAME, numbers, put, vector_index, vector_table


def test_the_resource_takes_numbers_and_conditions() -> None:
    with memory_database() as db:
        db.call("CreateTable", vector_table(vector_index("near", hash="t")))
        table = db.Table(NAME)
        table.put_item(Item={"p": "a", "t": "x", "e": [1, Decimal("0.5"), 0], "z": {1, 2}})
        reply = table.search_vectors(
            IndexName="near",
            SearchVector=[1, Decimal("0.5"), 0],
            TopK=3,
            SearchConditionExpression=Attr("t").eq("x"),
        )
        assert reply["SearchResults"] == [
            {"Item": {"p": "a", "t": "x", "z": {Decimal(1), Decimal(2)}}, "Score": 0.0}
        ]
        with pytest.raises(TypeError):
            table.search_vectors(IndexName="near", SearchVector=[0.5, 1, 1], TopK=1)


def post(url: str, operation: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(
        url,
        json.dumps(body).encode(),
        {
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": f"DynamoDB_20120810.{operation}",
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_over_http(tmp_path: Path) -> None:
    with open_path(tmp_path / "db") as db:
        db.call("CreateTable", vector_table(vector_index("near", "EUCLIDEAN")))
        put(db, "a", (1, 0, 0), b={"B": b"\x00\xff"})
    body = {
        "TableName": NAME,
        "IndexName": "near",
        "SearchVector": numbers(1, 2, 0),
        "TopK": 1,
        "ReturnConsumedCapacity": "TOTAL",
    }
    with ServeProcess(tmp_path / "db") as server:
        assert post(server.url, "SearchVectors", body) == (
            200,
            {
                "SearchResults": [{"Item": {"p": S("a"), "b": {"B": "AP8="}}, "Score": 2.0}],
                "ConsumedCapacity": {"VectorSearchRequestBytes": 1024.0},
            },
        )
        status, error = post(server.url, "SearchVectors", {**body, "IndexName": None})
        assert status == 400
        assert error["__type"].endswith("#SerializationException")
        text = "invalid type: null, expected a string at line 1 column 41"
        assert text in (error.get("message"), error.get("Message"))
