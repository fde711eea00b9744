"""Client tokens outlive the process, and only transactions that were committed have one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dynalsm import errors
from dynalsm.database import open_path
from dynalsm.model.transactions import TokenMismatch, TokenRunning, Tokens
from tests.support.store import N, S, table

INCREMENT: list[Any] = [
    {
        "Update": {
            "TableName": "counters",
            "Key": {"p": S("x")},
            "UpdateExpression": "ADD n :one",
            "ExpressionAttributeValues": {":one": N(1)},
        }
    }
]


def test_token_survives_a_reopen(tmp_path: Path) -> None:
    request = {"TransactItems": INCREMENT, "ClientRequestToken": "token"}
    with open_path(tmp_path / "db") as database:
        database.call("CreateTable", table("counters", "p", "p:S"))
        database.call("TransactWriteItems", request)
    with open_path(tmp_path / "db") as database:
        database.call("TransactWriteItems", request)
        key = {"TableName": "counters", "Key": {"p": S("x")}}
        assert database.call("GetItem", key)["Item"]["n"] == N(1)
        with pytest.raises(errors.IdempotentParameterMismatchException):
            database.call(
                "TransactWriteItems",
                {
                    **request,
                    "TransactItems": INCREMENT * 1
                    + [{"Delete": {"TableName": "counters", "Key": {"p": S("y")}}}],
                },
            )


def test_begin_and_end(store_alone: Any) -> None:
    database = store_alone.database
    tokens = Tokens(database.catalog.tree, database.settings)
    assert tokens.begin("write", "t", b"1") is None
    with pytest.raises(TokenRunning):
        tokens.begin("write", "t", b"1")
    with pytest.raises(TokenMismatch):
        tokens.begin("write", "t", b"2")
    # Another kind of operation has tokens of its own.
    assert tokens.begin("statement", "t", b"2") is None
    tokens.end("write", "t")
    assert tokens.begin("write", "t", b"2") is None
    batch = database.engine.batch()
    tokens.stage(batch, "write", "t", b"2", [("table", 4)])
    database.engine.commit(batch)
    tokens.end("write", "t")
    assert tokens.begin("write", "t", b"2") == [("table", 4)]
    with pytest.raises(TokenMismatch):
        tokens.begin("write", "t", b"1")
