"""Unmodified boto3 on the database: in process, and over HTTP. The same stories on both."""

from __future__ import annotations

import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

boto3 = pytest.importorskip("boto3")
from boto3.dynamodb.conditions import Attr, Key  # noqa: E402
from boto3.dynamodb.types import Binary  # noqa: E402
from botocore.config import Config  # noqa: E402
from botocore.exceptions import ClientError, ParamValidationError  # noqa: E402

import dynalsm  # noqa: E402
from dynalsm import errors  # noqa: E402
from dynalsm.database import Database  # noqa: E402
from dynalsm.server import ServerThread  # noqa: E402
from tests.faces.conftest import MUSIC, fill  # noqa: E402


class Served:
    """A boto3 session whose clients go to a URL."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.session = boto3.Session(
            aws_access_key_id="any", aws_secret_access_key="any", region_name="us-east-1"
        )

    def client(self, service: str) -> Any:
        return self.session.client(service, endpoint_url=self.url)

    def resource(self, service: str) -> Any:
        return self.session.resource(service, endpoint_url=self.url)


@pytest.fixture(params=["in process", "over HTTP"])
def session(request: pytest.FixtureRequest, db: Database) -> Iterator[Any]:
    if request.param == "in process":
        yield dynalsm.boto3_session(db)
    else:
        with ServerThread(db) as server:
            yield Served(server.url)


@pytest.fixture
def table(session: Any) -> Any:
    return session.resource("dynamodb").create_table(**MUSIC)


def test_the_session_is_boto3s(db: Database) -> None:
    session = dynalsm.boto3_session(db)
    assert isinstance(session, boto3.Session)
    assert session.region_name == "us-east-1"
    config = Config(region_name="eu-west-1", retries={"max_attempts": 1})
    client = session.client("dynamodb", config=config)
    assert client.list_tables()["TableNames"] == []


def test_sessions_share_what_botocore_has_read(db: Database) -> None:
    """A session for each test would otherwise parse botocore's models each time (30 ms)."""
    sessions = [dynalsm.boto3_session(db)._session for _ in range(2)]
    first, second = (session.get_component("data_loader") for session in sessions)
    assert first is second
    assert len(first.search_paths) == len(set(first.search_paths))


def test_control_plane_and_waiters(session: Any) -> None:
    client = session.client("dynamodb")
    created = client.create_table(**MUSIC)["TableDescription"]
    assert created["TableName"] == "Music"
    client.get_waiter("table_exists").wait(TableName="Music")
    described = client.describe_table(TableName="Music")["Table"]
    assert described["TableStatus"] == "ACTIVE"
    assert abs(described["CreationDateTime"].timestamp() - time.time()) < 60
    assert client.list_tables()["TableNames"] == ["Music"]
    client.delete_table(TableName="Music")
    client.get_waiter("table_not_exists").wait(TableName="Music")


def test_resource_values(table: Any) -> None:
    item = {
        "Artist": "a",
        "SongTitle": "t",
        "N": Decimal("1.50"),
        "Bytes": Binary(b"\x00\xff"),
        "Set": {"x", "y"},
        "Numbers": {Decimal(1), Decimal(2)},
        "Map": {"List": [None, True, {"Deep": "é"}]},
    }
    table.put_item(Item=item)
    found = table.get_item(Key={"Artist": "a", "SongTitle": "t"}, ConsistentRead=True)["Item"]
    assert found == item
    table.load()
    assert table.table_status == "ACTIVE"


def test_client_values(session: Any, table: Any) -> None:
    client = session.client("dynamodb")
    item = {
        "Artist": {"S": "a"},
        "SongTitle": {"S": "t"},
        "B": {"B": b"\x00\xff"},
        "BS": {"BS": [b"a", b"b"]},
        "Null": {"NULL": True},
        "M": {"M": {"k": {"N": "7"}}},
    }
    client.put_item(TableName="Music", Item=item)
    key = {"Artist": {"S": "a"}, "SongTitle": {"S": "t"}}
    assert client.get_item(TableName="Music", Key=key)["Item"] == item


def test_query_scan_and_paginators(session: Any, table: Any) -> None:
    fill(table, 20)
    found = table.query(
        KeyConditionExpression=Key("Artist").eq("The Acme Band") & Key("SongTitle").lt("song 010"),
        FilterExpression=Attr("Year").gt(1995),
        ScanIndexForward=False,
    )["Items"]
    assert [item["SongTitle"] for item in found] == [f"song 00{n}" for n in (9, 8, 7, 6)]
    by_year = table.query(
        IndexName="ByYear", KeyConditionExpression=Key("Artist").eq("The Acme Band"), Limit=2
    )
    assert [int(item["Year"]) for item in by_year["Items"]] == [1990, 1991]
    pages = (
        session.client("dynamodb")
        .get_paginator("scan")
        .paginate(TableName="Music", PaginationConfig={"PageSize": 6})
    )
    assert [len(page["Items"]) for page in pages] == [6, 6, 6, 2]


def test_update_condition_and_counter(table: Any) -> None:
    key = {"Artist": "a", "SongTitle": "t"}
    for count in (1, 2):
        reply = table.update_item(
            Key=key,
            UpdateExpression="ADD Plays :one",
            ExpressionAttributeValues={":one": 1},
            ReturnValues="UPDATED_NEW",
        )
        assert reply["Attributes"] == {"Plays": Decimal(count)}
    with pytest.raises(table.meta.client.exceptions.ConditionalCheckFailedException) as caught:
        table.put_item(
            Item=key,
            ConditionExpression=Attr("Plays").gt(5),
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    response = caught.value.response
    assert response["Error"]["Message"] == "The conditional request failed"
    assert response["Item"]["Plays"] == {"N": "2"}


def test_batches(session: Any, table: Any) -> None:
    with table.batch_writer() as batch:
        for number in range(60):
            batch.put_item(Item={"Artist": "a", "SongTitle": f"{number:03d}"})
    keys = [{"Artist": "a", "SongTitle": f"{number:03d}"} for number in range(70)]
    reply = session.resource("dynamodb").batch_get_item(RequestItems={"Music": {"Keys": keys}})
    assert len(reply["Responses"]["Music"]) == 60
    assert not reply["UnprocessedKeys"]


def test_transactions(session: Any, table: Any) -> None:
    client = session.client("dynamodb")

    def put(title: str) -> dict[str, Any]:
        item = {"Artist": {"S": "a"}, "SongTitle": {"S": title}}
        condition = "attribute_not_exists(Artist)"
        return {"Put": {"TableName": "Music", "Item": item, "ConditionExpression": condition}}

    client.transact_write_items(TransactItems=[put("one"), put("two")])
    with pytest.raises(client.exceptions.TransactionCanceledException) as caught:
        client.transact_write_items(TransactItems=[put("three"), put("two")])
    reasons = caught.value.response["CancellationReasons"]
    assert [reason["Code"] for reason in reasons] == ["None", "ConditionalCheckFailed"]
    assert table.scan()["Count"] == 2


def test_streams(session: Any, table: Any) -> None:
    fill(table, 3)
    streams = session.client("dynamodbstreams")
    arn = streams.list_streams(TableName="Music")["Streams"][0]["StreamArn"]
    names = []
    for shard in streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]:
        iterator = streams.get_shard_iterator(
            StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        names += [
            one["eventName"] for one in streams.get_records(ShardIterator=iterator)["Records"]
        ]
    assert names == ["INSERT"] * 3


def test_errors_are_of_the_right_class(session: Any) -> None:
    client = session.client("dynamodb")
    with pytest.raises(client.exceptions.ResourceNotFoundException) as caught:
        client.describe_table(TableName="Missing")
    assert isinstance(caught.value, ClientError)
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    with pytest.raises(ClientError) as refused:
        client.get_item(TableName="x" * 300, Key={"a": {"S": "b"}})
    assert refused.value.response["Error"]["Code"] == "ValidationException"
    with pytest.raises(ParamValidationError):
        client.get_item(TableName="Music", Nonsense=1)


def test_a_mistake_of_ours_is_a_500_and_retried(db: Database) -> None:
    session = dynalsm.boto3_session(db)
    client = session.client("dynamodb", config=Config(retries={"total_max_attempts": 1}))
    service = client._endpoint.http_session._service

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    service._call = broken
    with pytest.raises(ClientError) as caught:
        client.list_tables()
    assert caught.value.response["Error"]["Code"] == "InternalServerError"


def test_a_closed_database_is_not_asked_again(db: Database) -> None:
    """Answers of 500 are retried by botocore, ten times in half a minute: this is none."""
    session = dynalsm.boto3_session(db)
    client = session.client("dynamodb")
    table = session.resource("dynamodb").create_table(**MUSIC)
    tried = []
    client.meta.events.register("before-send.dynamodb", lambda **given: tried.append(given))
    db.close()
    for call in (client.list_tables, table.scan, session.client("dynamodb").list_tables):
        with pytest.raises(errors.ClosedError, match="the database is closed"):
            call()
    assert len(tried) == 1


def test_large_items_over_http(db: Database) -> None:
    """A reply of 1 MB and a request of several, through every buffer on the way."""
    table = db.create_table(**MUSIC)
    with ServerThread(db) as server:
        remote = Served(server.url).resource("dynamodb").Table("Music")
        text = "x" * 390_000
        with remote.batch_writer() as batch:
            for number in range(8):
                batch.put_item(Item={"Artist": "a", "SongTitle": str(number), "Text": text})
        assert table.item_count == 8
        page = remote.query(KeyConditionExpression=Key("Artist").eq("a"))
        assert page["Items"][0]["Text"] == text
        assert "LastEvaluatedKey" in page
