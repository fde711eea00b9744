"""DeleteItem: shape errors, validation, behaviour."""

from __future__ import annotations

from tests.support.store import INDEXED, PAIRS, SIMPLE, N, S, Store


def test_key_must_match_the_schema(store: Store) -> None:
    error = store.refused("DeleteItem", TableName=PAIRS, Key={"p": S("x")})
    assert error.message == "The provided key element does not match the schema"


def test_return_values_are_limited(store: Store) -> None:
    error = store.refused("DeleteItem", TableName=SIMPLE, Key={"p": S("x")}, ReturnValues="ALL_NEW")
    assert error.message == "ReturnValues can only be ALL_OLD or NONE"


def test_unknown_table(store: Store) -> None:
    store.refused("DeleteItem", "ResourceNotFoundException", TableName="nix", Key={"p": S("x")})


def test_missing_item_is_no_error(store: Store) -> None:
    p = store.key()
    request = {"TableName": SIMPLE, "Key": {"p": p}}
    assert store("DeleteItem", **request) == {}
    assert store("DeleteItem", **request, ReturnValues="ALL_OLD") == {}
    reply = store("DeleteItem", **request, ReturnConsumedCapacity="TOTAL")
    assert reply["ConsumedCapacity"]["CapacityUnits"] == 1


def test_deletes_and_returns_the_old_item(store: Store) -> None:
    p = store.key()
    old = store.put(SIMPLE, p=p, a=N(1))
    reply = store("DeleteItem", TableName=SIMPLE, Key={"p": p}, ReturnValues="ALL_OLD")
    assert reply == {"Attributes": old}
    assert store.get(SIMPLE, p=p) is None


def test_condition(store: Store) -> None:
    p = store.key()
    old = store.put(SIMPLE, p=p, a=N(1))
    request = {
        "TableName": SIMPLE,
        "Key": {"p": p},
        "ConditionExpression": "a > :a",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    error = store.refused(
        "DeleteItem",
        "ConditionalCheckFailedException",
        **request,
        ExpressionAttributeValues={":a": N(1)},
    )
    assert error.response["Item"] == old
    store("DeleteItem", **request, ExpressionAttributeValues={":a": N(0)})
    assert store.get(SIMPLE, p=p) is None


def test_condition_on_a_missing_item(store: Store) -> None:
    request = {"TableName": SIMPLE, "Key": {"p": store.key()}}
    store.refused(
        "DeleteItem",
        "ConditionalCheckFailedException",
        **request,
        ConditionExpression="attribute_exists(p)",
    )
    store("DeleteItem", **request, Expected={"a": {"Exists": False}})


def test_leaves_the_indexes(store: Store) -> None:
    p = store.key()
    store.put(INDEXED, p=p, s=S("x"), l=S("l"), g=p, h=N(1), k=N(1))
    reply = store(
        "DeleteItem",
        TableName=INDEXED,
        Key={"p": p, "s": S("x")},
        ReturnConsumedCapacity="INDEXES",
        ReturnItemCollectionMetrics="SIZE",
    )
    capacity = reply["ConsumedCapacity"]
    assert capacity["CapacityUnits"] == 5
    assert set(capacity["LocalSecondaryIndexes"]) == {"by-l", "by-k"}
    assert set(capacity["GlobalSecondaryIndexes"]) == {"by-g", "by-gh"}
    assert reply["ItemCollectionMetrics"]["ItemCollectionKey"] == {"p": p}
    assert store.query(INDEXED, p, IndexName="by-l")["Count"] == 0
    found = store.query(INDEXED, p, IndexName="by-g", KeyConditionExpression="g = :p")
    assert found["Count"] == 0


def test_units_are_those_of_the_old_item(store: Store) -> None:
    p = store.key()
    store.put(SIMPLE, p=p, a=S("x" * 2100))
    reply = store("DeleteItem", TableName=SIMPLE, Key={"p": p}, ReturnConsumedCapacity="INDEXES")
    assert reply["ConsumedCapacity"] == {
        "TableName": SIMPLE,
        "CapacityUnits": 3.0,
        "Table": {"CapacityUnits": 3.0},
    }
