"""A database with a few tables that many tests share, and short ways to call it.

Tests keep apart by using partition keys of their own (`store.key()`).
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from dynalsm import errors
from dynalsm.database import Database
from tests.support.databases import memory_database

SIMPLE, PAIRS, NUMBERS, BLOBS, INDEXED = "simple", "pairs", "numbers", "blobs", "indexed"

_names = itertools.count()


def S(text: str) -> dict[str, Any]:
    return {"S": text}


def N(number: Any) -> dict[str, Any]:
    return {"N": str(number)}


def B(content: bytes) -> dict[str, Any]:
    return {"B": content}


def key_schema(*names: str) -> list[dict[str, str]]:
    kinds = ("HASH", "RANGE")
    return [
        {"AttributeName": name, "KeyType": kind} for name, kind in zip(names, kinds, strict=False)
    ]


def index(name: str, *names: str, projection: str = "ALL", include: Any = None) -> dict[str, Any]:
    shape: dict[str, Any] = {"ProjectionType": projection}
    if include:
        shape["NonKeyAttributes"] = include
    return {"IndexName": name, "KeySchema": key_schema(*names), "Projection": shape}


def table(name: str, keys: str, types: str, **more: Any) -> dict[str, Any]:
    """A CreateTable request; `keys` "p s", `types` "p:S s:N"."""
    return {
        "TableName": name,
        "KeySchema": key_schema(*keys.split()),
        "AttributeDefinitions": [
            {"AttributeName": part.partition(":")[0], "AttributeType": part.partition(":")[2]}
            for part in types.split()
        ],
        "BillingMode": "PAY_PER_REQUEST",
        **more,
    }


def shared_tables() -> list[dict[str, Any]]:
    """The tables of a Store: key p (and s); INDEXED has two local and two global indexes."""
    return [
        table(SIMPLE, "p", "p:S"),
        table(PAIRS, "p s", "p:S s:S"),
        table(NUMBERS, "p s", "p:S s:N"),
        table(BLOBS, "p s", "p:B s:B"),
        table(
            INDEXED,
            "p s",
            "p:S s:S l:S k:N g:S h:N",
            LocalSecondaryIndexes=[
                index("by-l", "p", "l"),
                index("by-k", "p", "k", projection="KEYS_ONLY"),
            ],
            GlobalSecondaryIndexes=[
                index("by-g", "g"),
                index("by-gh", "g", "h", projection="INCLUDE", include=["a"]),
            ],
        ),
    ]


class Store:
    """An open database with the shared tables. `store("GetItem", ...)` runs an operation."""

    def __init__(self, database: Database | None = None) -> None:
        self.database = database or memory_database()
        for request in shared_tables():
            self("CreateTable", **request)

    def __call__(self, operation: str, **request: Any) -> dict[str, Any]:
        return self.database.call(operation, request)

    def refused(
        self, operation: str, code: str = "ValidationException", **request: Any
    ) -> errors.ApiError:
        """Run an operation that must fail with `code`; returns the error."""
        with pytest.raises(errors.ApiError) as caught:
            self(operation, **request)
        assert caught.value.code == code, caught.value
        return caught.value

    @staticmethod
    def key() -> dict[str, Any]:
        """A partition key that no other test uses."""
        return S(f"key {next(_names)}")

    def put(self, name: str, **attributes: Any) -> dict[str, Any]:
        """Put an item of typed values and return it."""
        self("PutItem", TableName=name, Item=attributes)
        return attributes

    def get(self, name: str, **key: Any) -> dict[str, Any] | None:
        """Return the item with this key, or None."""
        return self("GetItem", TableName=name, Key=key, ConsistentRead=True).get("Item")

    def all_pages(self, operation: str, **request: Any) -> list[dict[str, Any]]:
        """Follow LastEvaluatedKey to the end; returns all items."""
        items: list[dict[str, Any]] = []
        while True:
            reply = self(operation, **request)
            items += reply.get("Items", [])
            if "LastEvaluatedKey" not in reply:
                return items
            request["ExclusiveStartKey"] = reply["LastEvaluatedKey"]

    def query(self, name: str, p: Any, **more: Any) -> dict[str, Any]:
        """Query one partition by the attribute p."""
        given = more.pop("ExpressionAttributeValues", {})
        return self(
            "Query",
            TableName=name,
            KeyConditionExpression=more.pop("KeyConditionExpression", "p = :p"),
            ExpressionAttributeValues={":p": p, **given},
            **more,
        )
