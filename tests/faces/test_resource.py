"""Table: boto3's resource shape with plain Python values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from dynalsm import errors
from dynalsm.client import ParamValidationError
from dynalsm.conditions import Attr, Key
from dynalsm.database import Database
from dynalsm.resource import BatchWriter, Table, write_expressions
from tests.faces.conftest import MUSIC, fill

KEY = {"Artist": "The Acme Band", "SongTitle": "Still In Love"}
ITEM: dict[str, Any] = {
    **KEY,
    "Year": Decimal(1999),
    "Tags": {"rock", "live"},
    "Price": Decimal("9.99"),
    "Tracks": [{"No": Decimal(1), "Bonus": None}, True],
    "Cover": b"\x00\xff",
}


def test_an_item_comes_back_as_it_went_in(music: Table) -> None:
    music.put_item(Item=ITEM)
    reply = music.get_item(Key=KEY, ConsistentRead=True)
    assert reply["Item"] == ITEM
    assert reply["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert "Item" not in music.get_item(Key={**KEY, "SongTitle": "Missing"})


def test_the_callers_dicts_are_left_alone(music: Table) -> None:
    key, item, condition = dict(KEY), dict(ITEM), Attr("Artist").not_exists()
    names: dict[str, str] = {}
    music.put_item(Item=item, ConditionExpression=condition, ExpressionAttributeNames=names)
    music.get_item(Key=key)
    assert (key, item, names) == (KEY, ITEM, {})


def test_conditions_may_be_objects(music: Table) -> None:
    music.put_item(Item=ITEM, ConditionExpression=Attr("Artist").not_exists())
    with pytest.raises(errors.API_ERRORS["ConditionalCheckFailedException"]):
        music.put_item(Item=ITEM, ConditionExpression=Attr("Artist").not_exists())
    music.update_item(
        Key=KEY,
        UpdateExpression="SET #v0 = :v0",
        ConditionExpression=Attr("Year").eq(1999),
        ExpressionAttributeNames={"#v0": "Label"},
        ExpressionAttributeValues={":v0": "indie"},
    )
    assert music.get_item(Key=KEY)["Item"]["Label"] == "indie"
    with pytest.raises(errors.API_ERRORS["ConditionalCheckFailedException"]):
        music.delete_item(Key=KEY, ConditionExpression=Attr("Year").lt(1999))
    old = music.delete_item(Key=KEY, ReturnValues="ALL_OLD")["Attributes"]
    assert old["Label"] == "indie"


def test_query_with_key_and_filter_objects(music: Table) -> None:
    fill(music, 20)
    reply = music.query(
        KeyConditionExpression=Key("Artist").eq("The Acme Band")
        & Key("SongTitle").between("song 005", "song 014"),
        FilterExpression=Attr("Year").gte(2000),
        ScanIndexForward=False,
    )
    assert [item["SongTitle"] for item in reply["Items"]] == [
        f"song {number:03d}" for number in range(14, 9, -1)
    ]
    assert (reply["Count"], reply["ScannedCount"]) == (5, 10)


def test_boto3s_condition_objects_are_taken_too(music: Table) -> None:
    conditions = pytest.importorskip("boto3.dynamodb.conditions")
    fill(music, 3)
    found = music.query(
        KeyConditionExpression=conditions.Key("Artist").eq("The Acme Band")
        & conditions.Key("SongTitle").begins_with("song 00"),
        FilterExpression=conditions.Attr("Year").ne(1991),
    )["Items"]
    assert [item["SongTitle"] for item in found] == ["song 000", "song 002"]


def test_placeholders_of_objects_stay_apart_from_the_callers() -> None:
    request: dict[str, Any] = {
        "KeyConditionExpression": Key("a").eq(1),
        "FilterExpression": Attr("b").eq(2) | Attr("c.d[0]").exists(),
        "ProjectionExpression": "#n0",
        "ExpressionAttributeNames": {"#n0": "mine"},
    }
    names = request["ExpressionAttributeNames"]
    write_expressions(request)
    assert names == {"#n0": "mine"}
    written = request["ExpressionAttributeNames"]
    assert written["#n0"] == "mine"
    assert sorted(written.values()) == ["a", "b", "c", "d", "mine"]
    assert sorted(request["ExpressionAttributeValues"].values()) == [1, 2]
    for placeholder in [*written, *request["ExpressionAttributeValues"]]:
        uses = [name for name in request if name.endswith("Expression")]
        assert sum(placeholder in str(request[name]) for name in uses) >= 1


def test_all_pages_are_read(music: Table) -> None:
    fill(music, 25)
    condition = Key("Artist").eq("The Acme Band")
    found = list(music.query_items(KeyConditionExpression=condition, Limit=7))
    assert len(found) == 25
    assert len(list(music.scan_items(Limit=4))) == 25


def test_a_parameter_of_another_method_is_refused(music: Table) -> None:
    with pytest.raises(ParamValidationError, match='"Item"'):
        music.get_item(Key=KEY, Item={})
    with pytest.raises(ParamValidationError, match='"TableName"'):
        music.put_item(Item=ITEM, TableName="Other")


def test_floats_are_refused_as_boto3_does(music: Table) -> None:
    with pytest.raises(TypeError, match="Float types are not supported"):
        music.put_item(Item={**KEY, "Price": 9.99})


def test_attributes_of_the_table(music: Table) -> None:
    assert (music.name, music.table_name, music.table_status) == ("Music", "Music", "ACTIVE")
    assert music.key_schema == MUSIC["KeySchema"]
    assert music.item_count == 0
    fill(music, 2)
    assert music.item_count == 2  # never stale
    assert music.table_size_bytes > 0
    assert music.creation_date_time.tzinfo is not None
    assert music.table_arn.endswith(":table/Music")
    assert music.local_secondary_indexes[0]["IndexName"] == "ByYear"
    assert music.global_secondary_indexes is None
    assert music.stream_specification["StreamEnabled"] is True
    assert {"table_arn", "global_secondary_indexes"} <= set(dir(music))
    with pytest.raises(AttributeError, match="'Table' object has no attribute 'nonsense'"):
        _ = music.nonsense


def test_a_table_that_does_not_exist(db: Database) -> None:
    table = db.Table("Missing")  # asks nothing
    for ask in (table.load, table.reload, lambda: table.item_count):
        with pytest.raises(errors.API_ERRORS["ResourceNotFoundException"]):
            ask()


def test_delete_and_wait(db: Database, music: Table) -> None:
    music.delete()
    music.wait_until_not_exists()
    assert db.tables == []
    db.create_table(**MUSIC).wait_until_exists()
    assert db.tables == [db.Table("Music")]
    assert repr(db.Table("Music")) == "dynalsm.Table(name='Music')"


def test_batch_writer_sends_25_at_a_time(db: Database, music: Table) -> None:
    with music.batch_writer() as batch:
        for number in range(60):
            batch.put_item(Item={"Artist": "a", "SongTitle": f"{number:03d}"})
        batch.delete_item(Key={"Artist": "a", "SongTitle": "000"})
    assert music.item_count == 59


class Refusing:
    """A database that takes one request of every batch and hands the others back."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.taken: list[Any] = []

    def call(self, operation: str, request: dict[str, Any], form: Any) -> dict[str, Any]:
        assert operation == "BatchWriteItem"
        batch = request["RequestItems"]["T"]
        self.batches.append(len(batch))
        self.taken.append(batch[0])
        left = batch[1:]
        return {"UnprocessedItems": {"T": left} if left else {}}


def test_batch_writer_sends_the_unprocessed_again() -> None:
    database = Refusing()
    with BatchWriter(database, "T", None) as batch:  # type: ignore[arg-type]
        for number in range(30):
            batch.put_item(Item={"k": number})
    taken = sorted(one["PutRequest"]["Item"]["k"] for one in database.taken)
    assert taken == list(range(30))
    assert max(database.batches) == 25


def test_batch_writer_keeps_the_last_of_equal_keys() -> None:
    database = Refusing()
    with BatchWriter(database, "T", ["k"]) as batch:  # type: ignore[arg-type]
        batch.put_item(Item={"k": 1, "v": 1})
        batch.put_item(Item={"k": 2, "v": 2})
        batch.put_item(Item={"k": 1, "v": 3})
        batch.delete_item(Key={"k": 2})
    assert database.taken == [
        {"PutRequest": {"Item": {"k": 1, "v": 3}}},
        {"DeleteRequest": {"Key": {"k": 2}}},
    ]


def test_batch_writer_sends_the_rest_after_an_exception() -> None:
    database = Refusing()
    with pytest.raises(KeyError), BatchWriter(database, "T", None) as batch:  # type: ignore[arg-type]
        batch.put_item(Item={"k": 1})
        raise KeyError
    assert len(database.taken) == 1
