"""`dynalsm.open("http://...")`: the Database surface over an endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("boto3")

import dynalsm
from dynalsm import errors
from dynalsm.conditions import Attr, Key
from dynalsm.database import Database
from dynalsm.remote import NotEmbeddedError, RemoteError
from dynalsm.server import ServerThread
from tests.faces.conftest import MUSIC, fill


@pytest.fixture
def remote(db: Database) -> Iterator[Database]:
    with ServerThread(db) as server, dynalsm.open(server.url) as database:
        yield database


def test_the_same_calls_give_the_same_answers(db: Database, remote: Database) -> None:
    table = remote.create_table(**MUSIC)
    item = {"Artist": "a", "SongTitle": "t", "Year": Decimal(1999), "Tags": {"x"}, "B": b"\xff"}
    table.put_item(Item=item, ConditionExpression=Attr("Artist").not_exists())
    key = {"Artist": "a", "SongTitle": "t"}
    assert table.get_item(Key=key)["Item"] == db.Table("Music").get_item(Key=key)["Item"] == item
    assert remote.tables == [remote.Table("Music")]
    assert table.item_count == 1
    assert table.creation_date_time == db.Table("Music").creation_date_time
    fill(table, 10)
    condition = Key("Artist").eq("The Acme Band")
    assert len(list(table.query_items(KeyConditionExpression=condition, Limit=3))) == 10
    typed = remote.client.get_item(TableName="Music", Key={k: {"S": v} for k, v in key.items()})
    assert typed["Item"]["Year"] == {"N": "1999"}


def test_errors_are_the_same_classes(remote: Database) -> None:
    table = remote.create_table(**MUSIC)
    key = {"Artist": "a", "SongTitle": "t"}
    table.put_item(Item={**key, "Year": 1})
    with pytest.raises(errors.API_ERRORS["ConditionalCheckFailedException"]) as caught:
        table.put_item(
            Item=key,
            ConditionExpression=Attr("Year").eq(2),
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    assert caught.value.members["Item"] == {**key, "Year": Decimal(1)}
    with pytest.raises(remote.client.exceptions.ResourceNotFoundException):
        remote.client.describe_table(TableName="Missing")


def test_changes_over_http(db: Database, remote: Database) -> None:
    table = remote.create_table(**MUSIC)
    fill(table, 3)
    local = [one.new_image for one in db.Table("Music").changes()]
    assert [one.new_image for one in table.changes()] == local
    assert len(local) == 3


def test_what_needs_an_engine_says_so(remote: Database) -> None:
    asks: list[Any] = [remote.stats, remote.flush, remote.compact, remote.snapshot]
    for ask in asks:
        with pytest.raises(NotEmbeddedError, match="is an endpoint"):
            ask()


def test_close_is_idempotent(remote: Database) -> None:
    remote.close()
    remote.close()
    with pytest.raises(errors.ClosedError):
        remote.client.list_tables()


def test_nobody_there() -> None:
    from botocore.config import Config

    config = Config(retries={"total_max_attempts": 1}, connect_timeout=1)
    with (
        dynalsm.open("http://127.0.0.1:9", config=config) as database,
        pytest.raises(RemoteError, match=r"http://127\.0\.0\.1:9: Could not connect"),
    ):
        _ = database.tables


def test_a_region_url_names_the_region() -> None:
    with dynalsm.open(
        "dynamodb://eu-west-1", aws_access_key_id="a", aws_secret_access_key="b"
    ) as database:
        assert database.settings.region == "eu-west-1"
        assert "eu-west-1" in str(database.client._database._wire["dynamodb"].meta.endpoint_url)  # type: ignore[attr-defined]
