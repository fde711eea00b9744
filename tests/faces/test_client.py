"""db.client and db.streams: boto3's client shape without boto3."""

from __future__ import annotations

from datetime import datetime

import pytest

from dynalsm import errors
from dynalsm.api.registry import OPERATIONS
from dynalsm.api.shapes import snake_case
from dynalsm.client import DynamoDBClient, ParamValidationError, StreamsClient
from dynalsm.database import Database
from dynalsm.paging import WaiterError
from dynalsm.resource import Table
from tests.faces.conftest import MUSIC, fill


def test_every_operation_is_a_method_of_one_client() -> None:
    for name in OPERATIONS:
        method = snake_case(name)
        assert hasattr(DynamoDBClient, method) != hasattr(StreamsClient, method)
    assert snake_case("RestoreTableToPointInTime") == "restore_table_to_point_in_time"
    assert "ConsistentRead" in str(DynamoDBClient.get_item.__doc__)


def test_the_names_are_boto3s() -> None:
    boto3 = pytest.importorskip("boto3")
    for service, ours in (("dynamodb", DynamoDBClient), ("dynamodbstreams", StreamsClient)):
        client = boto3.client(service, region_name="us-east-1")
        for method in client.meta.method_to_api_mapping:
            assert hasattr(ours, method), method


def test_wire_values_go_in_and_come_out(db: Database, music: Table) -> None:
    item = {"Artist": {"S": "a"}, "SongTitle": {"S": "t"}, "Cover": {"B": b"\x00\xff"}}
    reply = db.client.put_item(TableName="Music", Item=item)
    assert reply["ResponseMetadata"]["HTTPStatusCode"] == 200
    key = {"Artist": {"S": "a"}, "SongTitle": {"S": "t"}}
    assert db.client.get_item(TableName="Music", Key=key)["Item"] == item


def test_an_unknown_parameter_is_named_before_anything_runs(db: Database) -> None:
    with pytest.raises(ParamValidationError) as caught:
        db.client.get_item(TableName="Missing", Kez={})
    assert str(caught.value).startswith(
        'Parameter validation failed:\nUnknown parameter in input: "Kez", must be one of: '
    )
    assert "AttributesToGet, ConsistentRead, " in str(caught.value)


def test_errors_are_caught_by_name(db: Database) -> None:
    with pytest.raises(db.client.exceptions.ResourceNotFoundException) as caught:
        db.client.describe_table(TableName="Missing")
    assert caught.value.response["Error"]["Code"] == "ResourceNotFoundException"
    assert isinstance(caught.value, db.client.exceptions.ClientError)
    assert db.client.exceptions.from_code("ValidationException") is errors.ValidationException
    with pytest.raises(AttributeError, match="no error of DynamoDB"):
        _ = db.client.exceptions.NoSuchException


def test_times_are_datetimes_and_the_catalog_keeps_its_own(db: Database, music: Table) -> None:
    for _ in range(2):  # the second time would fail if the first had changed the catalog's dict
        created = db.client.describe_table(TableName="Music")["Table"]["CreationDateTime"]
        assert isinstance(created, datetime)
        assert created.tzinfo is not None
        assert abs(created.timestamp() - datetime.now().timestamp()) < 60


def test_paginator_follows_pages(db: Database, music: Table) -> None:
    fill(music, 10)
    pages = db.client.get_paginator("scan").paginate(
        TableName="Music", PaginationConfig={"PageSize": 3}
    )
    assert [len(page["Items"]) for page in pages] == [3, 3, 3, 1]
    whole = pages.build_full_result()
    assert len(whole["Items"]) == whole["Count"] == 10


@pytest.mark.parametrize("most", [1, 3, 4, 9, 10])
def test_paginator_goes_on_where_max_items_ended_it(db: Database, music: Table, most: int) -> None:
    fill(music, 10)
    paginator = db.client.get_paginator("scan")
    titles: list[str] = []
    token = None
    while True:
        config = {"PageSize": 3, "MaxItems": most, "StartingToken": token}
        pages = paginator.paginate(TableName="Music", PaginationConfig=config)
        found = [item["SongTitle"]["S"] for page in pages for item in page["Items"]]
        assert len(found) <= most
        titles += found
        token = pages.resume_token
        if token is None:
            break
    assert sorted(titles) == [f"song {number:03d}" for number in range(10)]


def test_a_bad_starting_token(db: Database, music: Table) -> None:
    pages = db.client.get_paginator("scan").paginate(
        TableName="Music", PaginationConfig={"StartingToken": "rubbish"}
    )
    with pytest.raises(ValueError, match="Bad starting token: rubbish"):
        list(pages)


def test_search_uses_jmespath(db: Database, music: Table) -> None:
    pytest.importorskip("jmespath")
    fill(music, 3)
    pages = db.client.get_paginator("scan").paginate(TableName="Music")
    assert list(pages.search("Items[].SongTitle.S")) == ["song 000", "song 001", "song 002"]


def test_only_what_has_pages_is_paginated(db: Database) -> None:
    assert db.client.can_paginate("query")
    assert not db.client.can_paginate("get_item")
    with pytest.raises(ValueError, match="get_item has no pages; there are: list_backups"):
        db.client.get_paginator("get_item")
    with pytest.raises(ValueError, match="nonsense has no pages; there are: list_backups"):
        db.client.get_paginator("nonsense")
    for name in ("PageSize", "MaxItems"):
        pages = db.client.get_paginator("list_tables")
        with pytest.raises(ValueError, match=f"{name} is a whole number, not 'many'"):
            list(pages.paginate(PaginationConfig={name: "many"}))


def test_waiters(db: Database) -> None:
    db.client.get_waiter("table_not_exists").wait(TableName="Music")
    exists = db.client.get_waiter("table_exists")
    with pytest.raises(WaiterError, match="Waiter table_exists failed: Max attempts exceeded"):
        exists.wait(TableName="Music", WaiterConfig={"Delay": 0.001, "MaxAttempts": 2})
    db.create_table(**MUSIC)
    exists.wait(TableName="Music")
    assert db.client.waiter_names == ["table_exists", "table_not_exists"]
    with pytest.raises(ValueError, match="there is no waiter nonsense"):
        db.client.get_waiter("nonsense")
