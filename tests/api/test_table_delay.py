"""`table_delay_seconds`: tables that stay CREATING and DELETING for a while."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dynalsm
from dynalsm import errors
from dynalsm.database import Database

TABLE: dict[str, Any] = {
    "TableName": "Music",
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}
LONG = 3600.0
ITEM = {"TableName": "Music", "Item": {"pk": {"S": "a"}}}


def opened(path: Path, delay_seconds: float) -> Database:
    return dynalsm.open(path / "test.db", durability="os", table_delay_seconds=delay_seconds)


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Database]:
    """A database whose tables are never ready by themselves."""
    with opened(tmp_path, LONG) as database:
        yield database


def status(database: Database) -> str:
    reply = database.client.describe_table(TableName="Music")
    return str(reply["Table"]["TableStatus"])


def test_a_table_that_is_being_created(slow: Database) -> None:
    client = slow.client
    assert client.create_table(**TABLE)["TableDescription"]["TableStatus"] == "CREATING"
    assert status(slow) == "CREATING"
    assert client.list_tables()["TableNames"] == ["Music"]
    with pytest.raises(errors.ResourceNotFoundException, match="Requested resource not found"):
        client.put_item(**ITEM)
    for change in (
        lambda: client.create_table(**TABLE),
        lambda: client.update_table(TableName="Music", DeletionProtectionEnabled=True),
        lambda: client.delete_table(TableName="Music"),
    ):
        with pytest.raises(errors.ResourceInUseException, match="Table is being created: Music"):
            change()


def test_it_is_durable_meanwhile(tmp_path: Path) -> None:
    with opened(tmp_path, LONG) as database:
        database.create_table(**TABLE)
    with opened(tmp_path, LONG) as database:
        assert status(database) == "ACTIVE"
        database.client.put_item(**ITEM)


def test_a_table_that_is_being_deleted(tmp_path: Path) -> None:
    with opened(tmp_path, 0) as database:
        database.create_table(**TABLE)
        assert status(database) == "ACTIVE"
    with opened(tmp_path, LONG) as database:
        client = database.client
        assert client.delete_table(TableName="Music")["TableDescription"]["TableStatus"] == (
            "DELETING"
        )
        assert status(database) == "DELETING"
        assert client.list_tables()["TableNames"] == ["Music"]
        client.delete_table(TableName="Music")  # again is no error
        with pytest.raises(errors.ResourceNotFoundException):
            client.put_item(**ITEM)
        with pytest.raises(errors.ResourceInUseException, match="Table already exists: Music"):
            client.create_table(**TABLE)
        with pytest.raises(errors.ResourceInUseException, match="Table is being deleted: Music"):
            client.update_table(TableName="Music", DeletionProtectionEnabled=True)
    with opened(tmp_path, LONG) as database:
        assert database.tables == []


def test_waiters_wait(tmp_path: Path) -> None:
    with opened(tmp_path, 0.1) as database:
        client = database.client
        table = database.create_table(**TABLE)
        assert status(database) == "CREATING"
        table.wait_until_exists(WaiterConfig={"Delay": 0.01})
        client.put_item(**ITEM)
        table.delete()
        assert status(database) == "DELETING"
        table.wait_until_not_exists(WaiterConfig={"Delay": 0.01})
        assert client.list_tables()["TableNames"] == []
        client.create_table(**TABLE)
