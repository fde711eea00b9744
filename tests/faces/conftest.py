"""Databases for the tests of the faces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dynalsm
from dynalsm.database import Database
from dynalsm.resource import Table
from tests.support.databases import memory_database

MUSIC: dict[str, Any] = {
    "TableName": "Music",
    "KeySchema": [
        {"AttributeName": "Artist", "KeyType": "HASH"},
        {"AttributeName": "SongTitle", "KeyType": "RANGE"},
    ],
    "AttributeDefinitions": [
        {"AttributeName": "Artist", "AttributeType": "S"},
        {"AttributeName": "SongTitle", "AttributeType": "S"},
        {"AttributeName": "Year", "AttributeType": "N"},
    ],
    "LocalSecondaryIndexes": [
        {
            "IndexName": "ByYear",
            "KeySchema": [
                {"AttributeName": "Artist", "KeyType": "HASH"},
                {"AttributeName": "Year", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "ALL"},
        }
    ],
    "BillingMode": "PAY_PER_REQUEST",
    "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
}


@pytest.fixture
def db() -> Iterator[Database]:
    """A database without a disk."""
    with memory_database() as database:
        yield database


@pytest.fixture
def disk_db(tmp_path: Path) -> Iterator[Database]:
    """A database in a directory."""
    with dynalsm.open(tmp_path / "test.db", durability="os") as database:
        yield database


@pytest.fixture
def music(db: Database) -> Table:
    """The Music table, empty."""
    return db.create_table(**MUSIC)


def fill(table: Any, count: int, artist: str = "The Acme Band") -> None:
    """Put songs named "song 000", "song 001", ..."""
    for number in range(count):
        table.put_item(
            Item={"Artist": artist, "SongTitle": f"song {number:03d}", "Year": 1990 + number % 20}
        )
