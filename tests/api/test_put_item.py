"""PutItem: shape errors, validation, behaviour."""

from __future__ import annotations

import pytest

from dynalsm import errors
from tests.support.store import BLOBS, INDEXED, PAIRS, SIMPLE, B, N, S, Store

INVALID = "One or more parameter values were invalid: "


def test_return_values_are_limited(store: Store) -> None:
    item = {"p": store.key()}
    for returns in ("ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"):
        error = store.refused("PutItem", TableName=SIMPLE, Item=item, ReturnValues=returns)
        assert error.message == "ReturnValues can only be ALL_OLD or NONE"
    error = store.refused("PutItem", TableName=SIMPLE, Item=item, ReturnValues="none")
    assert "Member must satisfy enum value set" in error.message


def test_values_need_an_expression(store: Store) -> None:
    error = store.refused(
        "PutItem",
        TableName=SIMPLE,
        Item={"p": store.key()},
        ExpressionAttributeValues={":a": N(1)},
    )
    assert error.message == (
        "ExpressionAttributeValues can only be specified when using expressions: "
        "ConditionExpression is null"
    )


def test_invalid_expression_value_names_its_key(store: Store) -> None:
    error = store.refused(
        "PutItem",
        TableName=SIMPLE,
        Item={"p": store.key()},
        ConditionExpression="a = :a",
        ExpressionAttributeValues={":a": {"SS": []}},
    )
    assert error.message == (
        f"ExpressionAttributeValues contains invalid value: {INVALID}"
        "An string set  may not be empty for key :a"
    )


def test_earlier_layers_win(store: Store) -> None:
    """Attribute values come before expressions, expressions before the table."""
    bad_value = {"p": store.key(), "n": N("1x")}
    error = store.refused(
        "PutItem", TableName="nowhere", Item=bad_value, ConditionExpression="((a = b))"
    )
    assert "numeric value" in error.message
    error = store.refused(
        "PutItem", TableName="nowhere", Item={"q": S("x")}, ConditionExpression="((a = b))"
    )
    assert "redundant parentheses" in error.message
    store.refused("PutItem", "ResourceNotFoundException", TableName="nowhere", Item={"q": S("x")})


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ({"p": S("x")}, INVALID + "Missing the key s in the item"),
        ({"s": S("x")}, INVALID + "Missing the key p in the item"),
        ({"p": S("x"), "s": N(1)}, INVALID + "Type mismatch for key s expected: S actual: N"),
        ({"p": S(""), "s": S("x")}, "cannot contain an empty string value. Key: p"),
    ],
)
def test_keys_of_the_item(store: Store, item: dict[str, object], text: str) -> None:
    assert store.refused("PutItem", TableName=PAIRS, Item=item).message.endswith(text)


def test_largest_item_and_one_byte_more(store: Store) -> None:
    p = store.key()
    fill = 409_600 - len("p" + "a") - len(p["S"])
    store.put(SIMPLE, p=p, a=S("x" * fill))
    error = store.refused("PutItem", TableName=SIMPLE, Item={"p": p, "a": S("x" * (fill + 1))})
    assert error.message == "Item size has exceeded the maximum allowed size"


def test_local_index_entries_count_with_the_item(store: Store) -> None:
    """By-l holds the whole item again, so 200 KB are too much."""
    p = store.key()
    item = {"p": p, "s": S("x"), "l": S("y"), "a": S("z" * 204_800)}
    assert "Item size" in store.refused("PutItem", TableName=INDEXED, Item=item).message
    del item["l"]
    store("PutItem", TableName=INDEXED, Item=item)


def test_index_keys_are_typed(store: Store) -> None:
    item = {"p": store.key(), "s": S("x")}
    error = store.refused("PutItem", TableName=INDEXED, Item={**item, "g": N(1)})
    assert error.message == (
        INVALID + "Type mismatch for Index Key g Expected: S Actual: N IndexName: by-g"
    )
    error = store.refused("PutItem", TableName=INDEXED, Item={**item, "l": {"NULL": True}})
    assert "Index Key l Expected: S Actual: NULL IndexName: by-l" in error.message
    error = store.refused("PutItem", TableName=INDEXED, Item={**item, "l": S("")})
    assert error.message == (
        "One or more parameter values are not valid. A value specified for a secondary index key "
        "is not supported. The AttributeValue for a key attribute cannot contain an empty string "
        "value. IndexName: by-l, IndexKey: l"
    )
    assert store.get(INDEXED, **item) is None


def test_replaces_the_whole_item(store: Store) -> None:
    p = store.key()
    store.put(SIMPLE, p=p, a=N(1))
    new = store.put(SIMPLE, p=p, b=N(2))
    assert store.get(SIMPLE, p=p) == new


def test_returns_the_old_item_on_request(store: Store) -> None:
    p = store.key()
    old = {"p": p, "a": N(1)}
    request = {"TableName": SIMPLE, "ReturnValues": "ALL_OLD"}
    assert store("PutItem", Item=old, **request) == {}
    assert store("PutItem", Item={"p": p}, **request) == {"Attributes": old}
    assert store("PutItem", Item={"p": p}, TableName=SIMPLE, ReturnValues="NONE") == {}


def test_condition(store: Store) -> None:
    p = store.key()
    request = {"TableName": SIMPLE, "ConditionExpression": "attribute_not_exists(p)"}
    store("PutItem", Item={"p": p, "a": N(1)}, **request)
    error = store.refused(
        "PutItem", "ConditionalCheckFailedException", Item={"p": p, "a": N(2)}, **request
    )
    assert error.message == "The conditional request failed"
    assert "Item" not in error.response
    assert store.get(SIMPLE, p=p) == {"p": p, "a": N(1)}


def test_failed_condition_shows_the_item_on_request(store: Store) -> None:
    p = store.key()
    request = {
        "TableName": SIMPLE,
        "ConditionExpression": "a = :a",
        "ExpressionAttributeValues": {":a": N(7)},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    code = "ConditionalCheckFailedException"
    assert "Item" not in store.refused("PutItem", code, Item={"p": p}, **request).response
    old = store.put(SIMPLE, p=p, a=N(1))
    assert store.refused("PutItem", code, Item={"p": p}, **request).response["Item"] == old


def test_condition_does_not_see_the_new_item(store: Store) -> None:
    p = store.key()
    store.refused(
        "PutItem",
        "ConditionalCheckFailedException",
        TableName=SIMPLE,
        Item={"p": p},
        ConditionExpression="attribute_exists(p)",
    )
    store(
        "PutItem",
        TableName=SIMPLE,
        Item={"p": p},
        ConditionExpression="p <> :p",
        ExpressionAttributeValues={":p": p},
    )


def test_expected(store: Store) -> None:
    p = store.key()
    store("PutItem", TableName=SIMPLE, Item={"p": p}, Expected={"p": {"Exists": False}})
    request = {"TableName": SIMPLE, "Item": {"p": p, "a": N(1)}}
    wanted = {"a": {"AttributeValueList": [N(1)], "ComparisonOperator": "EQ"}}
    store.refused("PutItem", "ConditionalCheckFailedException", **request, Expected=wanted)
    both = {**wanted, "p": {"Value": p}}
    store("PutItem", **request, Expected=both, ConditionalOperator="OR")
    store("PutItem", **request, Expected=both)


def test_units(store: Store) -> None:
    p = store.key()

    def units(size: int) -> float:
        reply = store(
            "PutItem",
            TableName=SIMPLE,
            Item={"p": p, "a": S("x" * (size - 2 - len(p["S"])))},
            ReturnConsumedCapacity="TOTAL",
        )
        return reply["ConsumedCapacity"]["CapacityUnits"]

    # New, larger by a byte, then the larger of old and new counts; an equal put is charged too.
    assert [units(size) for size in (1024, 1025, 3072, 100, 100)] == [1, 2, 3, 3, 1]


def test_units_of_indexes(store: Store) -> None:
    p = store.key()

    def arms(**attributes: object) -> dict[str, object]:
        capacity = store(
            "PutItem",
            TableName=INDEXED,
            Item={"p": p, "s": S("x"), **attributes},
            ReturnConsumedCapacity="INDEXES",
        )["ConsumedCapacity"]
        found = {
            name: arm["CapacityUnits"]
            for member in ("LocalSecondaryIndexes", "GlobalSecondaryIndexes")
            for name, arm in capacity.get(member, {}).items()
        }
        total = capacity["Table"]["CapacityUnits"] + sum(found.values())
        assert capacity["CapacityUnits"] == total
        return found

    assert arms() == {}
    assert arms(l=S("a"), g=p) == {"by-l": 1, "by-g": 1}
    # A move costs both ends; the other index takes the changed attribute along.
    assert arms(l=S("b"), g=p) == {"by-l": 2, "by-g": 1}
    assert arms(l=S("b"), g=p) == {}
    assert arms(l=S("b"), g=p, a=N(1)) == {"by-l": 1, "by-g": 1}
    # INCLUDE and KEYS_ONLY entries that stay equal cost nothing.
    assert arms(l=S("b"), g=p, h=N(1), k=N(1)) == {"by-l": 1, "by-g": 1, "by-gh": 1, "by-k": 1}
    assert arms(l=S("b"), g=p, h=N(1), k=N(1), z=N(1)) == {"by-l": 1, "by-g": 1}
    assert arms() == {"by-l": 1, "by-g": 1, "by-gh": 1, "by-k": 1}


def test_item_collection_metrics_only_with_local_indexes(store: Store) -> None:
    p = store.key()
    wanted = {"ReturnItemCollectionMetrics": "SIZE"}
    assert store("PutItem", TableName=SIMPLE, Item={"p": p}, **wanted) == {}
    reply = store("PutItem", TableName=INDEXED, Item={"p": p, "s": S("x")}, **wanted)
    assert reply["ItemCollectionMetrics"] == {
        "ItemCollectionKey": {"p": p},
        "SizeEstimateRangeGB": [0.0, 1.0],
    }


def test_every_type_comes_back(store: Store) -> None:
    p = store.key()
    item = store.put(
        SIMPLE,
        p=p,
        s=S(""),
        n=N("-1.5"),
        b=B(b"\x00\xff"),
        t={"BOOL": True},
        u={"NULL": True},
        l={"L": [S("a"), {"L": []}, {"M": {}}]},
        m={"M": {"k": {"M": {"k": N(0)}}}},
        ss={"SS": ["", "b"]},
        ns={"NS": ["-1", "2"]},
        bs={"BS": [b"", b"\x01"]},
    )
    assert store.get(SIMPLE, p=p) == item


def test_binary_keys(store: Store) -> None:
    item = store.put(BLOBS, p=B(b"\x00\xff"), s=B(b"\x00"), a=N(1))
    assert store.get(BLOBS, p=B(b"\x00\xff"), s=B(b"\x00")) == item


def test_error_knows_its_operation(store: Store) -> None:
    with pytest.raises(errors.ValidationException) as caught:
        store("PutItem", TableName=SIMPLE, Item={})
    assert "when calling the PutItem operation" in str(caught.value)
