"""GetItem: shape errors, validation, behaviour."""

from __future__ import annotations

import pytest

from dynalsm.values import NATIVE
from tests.support.store import BLOBS, NUMBERS, PAIRS, SIMPLE, B, N, S, Store

MISMATCH = "The provided key element does not match the schema"


def test_missing_members_are_named(store: Store) -> None:
    assert "Member must not be null" in store.refused("GetItem", TableName=SIMPLE).message


def test_unknown_table(store: Store) -> None:
    error = store.refused(
        "GetItem", "ResourceNotFoundException", TableName="nowhere", Key={"p": S("x")}
    )
    assert error.message == "Requested resource not found"


@pytest.mark.parametrize(
    "key",
    [
        {},
        {"q": S("x")},
        {"p": N(1)},
        {"p": S("x"), "s": S("y"), "t": S("z")},
        {"p": S("x")},
        {"p": S("x"), "s": N(1)},
    ],
)
def test_key_must_match_the_schema(store: Store, key: dict[str, object]) -> None:
    assert store.refused("GetItem", TableName=PAIRS, Key=key).message == MISMATCH


def test_empty_key_attribute(store: Store) -> None:
    text = "cannot contain an empty string value. Key: s"
    key = {"p": S("x"), "s": S("")}
    assert text in store.refused("GetItem", TableName=PAIRS, Key=key).message
    key = {"p": B(b""), "s": B(b"1")}
    assert "empty binary value. Key: p" in (
        store.refused("GetItem", TableName=BLOBS, Key=key).message
    )


def test_longest_keys_and_one_byte_more(store: Store) -> None:
    key = {"p": S("x" * 2048), "s": S("y" * 1024)}
    assert store("GetItem", TableName=PAIRS, Key=key) == {}
    key = {"p": S("x" * 2049), "s": S("y")}
    assert "limit of2048 bytes" in store.refused("GetItem", TableName=PAIRS, Key=key).message
    key = {"p": S("x"), "s": S("y" * 1025)}
    assert "1024 bytes" in store.refused("GetItem", TableName=PAIRS, Key=key).message


def test_mixing_and_unused_names(store: Store) -> None:
    key = {"p": S("x")}
    error = store.refused(
        "GetItem", TableName=SIMPLE, Key=key, AttributesToGet=["a"], ProjectionExpression="a"
    )
    assert error.message == (
        "Can not use both expression and non-expression parameters in the same request: "
        "Non-expression parameters: {AttributesToGet} Expression parameters: "
        "{ProjectionExpression}"
    )
    error = store.refused(
        "GetItem", TableName=SIMPLE, Key=key, ExpressionAttributeNames={"#a": "a"}
    )
    assert error.message == "ExpressionAttributeNames can only be specified when using expressions"
    error = store.refused(
        "GetItem",
        TableName=SIMPLE,
        Key=key,
        ProjectionExpression="b",
        ExpressionAttributeNames={"#a": "a"},
    )
    assert "unused in expressions: keys: {#a}" in error.message


def test_expressions_are_checked_before_the_table(store: Store) -> None:
    error = store.refused(
        "GetItem", TableName="nowhere", Key={"p": S("x")}, ProjectionExpression="a, a"
    )
    assert "overlap" in error.message
    error = store.refused(
        "GetItem", TableName="nowhere", Key={"p": S("x")}, AttributesToGet=["a", "a"]
    )
    assert "Duplicate value in attribute name: a" in error.message


def test_path_below_a_key(store: Store) -> None:
    error = store.refused(
        "GetItem", TableName=SIMPLE, Key={"p": S("x")}, ProjectionExpression="p.a"
    )
    assert error.message.endswith("are not allowed: Key: p")


def test_invalid_values_in_the_key(store: Store) -> None:
    error = store.refused("GetItem", TableName=NUMBERS, Key={"p": S("x"), "s": N("abc")})
    assert "cannot be converted to a numeric value: abc" in error.message
    error = store.refused("GetItem", TableName=SIMPLE, Key={"p": {"S": "a", "N": "1"}})
    assert "more than one datatypes" in error.message


def test_absent_item_is_an_empty_reply(store: Store) -> None:
    assert store("GetItem", TableName=SIMPLE, Key={"p": store.key()}) == {}


def test_number_keys_are_found_by_value(store: Store) -> None:
    p = store.key()
    store.put(NUMBERS, p=p, s=N("100"), a=S("x"))
    item = store.get(NUMBERS, p=p, s=N("1e2"))
    assert item == {"p": p, "s": N("100"), "a": S("x")}


def test_projection_keeps_the_shape(store: Store) -> None:
    p = store.key()
    store.put(
        SIMPLE,
        p=p,
        a={"M": {"b": {"L": [N(1), N(2), N(3)]}, "c": S("c")}},
        d=S("d"),
    )
    reply = store(
        "GetItem",
        TableName=SIMPLE,
        Key={"p": p},
        ProjectionExpression="#a.b[2], #a.b[0], d, nothing",
        ExpressionAttributeNames={"#a": "a"},
    )
    assert reply["Item"] == {"a": {"M": {"b": {"L": [N(1), N(3)]}}}, "d": S("d")}


def test_projection_of_nothing_is_an_empty_item(store: Store) -> None:
    p = store.key()
    store.put(SIMPLE, p=p)
    for projection in ({"ProjectionExpression": "zz"}, {"AttributesToGet": ["zz"]}):
        assert store("GetItem", TableName=SIMPLE, Key={"p": p}, **projection) == {"Item": {}}


def test_consumed_capacity(store: Store) -> None:
    p = store.key()

    def units(**more: object) -> float:
        reply = store(
            "GetItem", TableName=SIMPLE, Key={"p": p}, ReturnConsumedCapacity="TOTAL", **more
        )
        return reply["ConsumedCapacity"]["CapacityUnits"]

    assert (units(), units(ConsistentRead=True)) == (0.5, 1.0)
    # 4,096 bytes exactly, names included, then one more.
    fill = 4096 - len("p" + "a") - len(p["S"])
    store.put(SIMPLE, p=p, a=S("x" * fill))
    assert (units(), units(ConsistentRead=True)) == (0.5, 1.0)
    store.put(SIMPLE, p=p, a=S("x" * (fill + 1)))
    assert (units(), units(ConsistentRead=True)) == (1.0, 2.0)
    assert units(ProjectionExpression="p") == 1.0
    reply = store("GetItem", TableName=SIMPLE, Key={"p": p}, ReturnConsumedCapacity="INDEXES")
    assert reply["ConsumedCapacity"] == {
        "TableName": SIMPLE,
        "CapacityUnits": 1.0,
        "Table": {"CapacityUnits": 1.0},
    }


def test_native_form(store: Store) -> None:
    key = {"p": store.key()["S"]}
    store.database.call("PutItem", {"TableName": SIMPLE, "Item": {**key, "n": 5}}, NATIVE)
    reply = store.database.call("GetItem", {"TableName": SIMPLE, "Key": key}, NATIVE)
    assert reply["Item"] == {**key, "n": 5}


def test_table_by_arn(store: Store) -> None:
    p = store.key()
    store.put(SIMPLE, p=p)
    arn = store("DescribeTable", TableName=SIMPLE)["Table"]["TableArn"]
    assert store("GetItem", TableName=arn, Key={"p": p}) == {"Item": {"p": p}}
