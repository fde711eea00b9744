"""UpdateItem: shape errors, validation, behaviour (expressions themselves: tests/expressions)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.store import INDEXED, PAIRS, SIMPLE, N, S, Store

INVALID = "One or more parameter values were invalid: "


def update(store: Store, p: Any, expression: str | None = None, **more: Any) -> dict[str, Any]:
    if expression is not None:
        more["UpdateExpression"] = expression
    return store("UpdateItem", TableName=SIMPLE, Key={"p": p}, **more)


def test_mixing_lists_both_kinds(store: Store) -> None:
    error = store.refused(
        "UpdateItem",
        TableName=SIMPLE,
        Key={"p": S("x")},
        UpdateExpression="SET a = b",
        AttributeUpdates={"a": {"Value": N(1)}},
    )
    assert "{AttributeUpdates} Expression parameters: {UpdateExpression}" in error.message


def test_values_without_expressions(store: Store) -> None:
    error = store.refused(
        "UpdateItem",
        TableName=SIMPLE,
        Key={"p": S("x")},
        ExpressionAttributeValues={":a": N(1)},
    )
    assert error.message.endswith("UpdateExpression and ConditionExpression are null")


def test_update_is_bound_before_the_condition(store: Store) -> None:
    error = store.refused(
        "UpdateItem",
        TableName=SIMPLE,
        Key={"p": S("x")},
        UpdateExpression="SET",
        ConditionExpression="((a = b))",
    )
    assert error.message.startswith("Invalid UpdateExpression: Syntax error")


@pytest.mark.parametrize("expression", ["SET s = :v", "REMOVE s", "ADD s :v", "SET s.a = :v"])
def test_key_attributes_cannot_be_updated(store: Store, expression: str) -> None:
    values = {} if "REMOVE" in expression else {"ExpressionAttributeValues": {":v": N(1)}}
    error = store.refused(
        "UpdateItem",
        TableName=PAIRS,
        Key={"p": S("x"), "s": S("y")},
        UpdateExpression=expression,
        **values,
    )
    assert error.message == (
        INVALID + "Cannot update attribute s. This attribute is part of the key"
    )


def test_index_key_of_wrong_type(store: Store) -> None:
    p = store.key()
    request = {"TableName": INDEXED, "Key": {"p": p, "s": S("x")}}
    error = store.refused(
        "UpdateItem",
        **request,
        UpdateExpression="SET l = :v",
        ExpressionAttributeValues={":v": N(1)},
    )
    assert error.message == (
        INVALID + "Type mismatch for Index Key l Expected: S Actual: N IndexName: by-l"
    )
    for expression in ("SET a = l[1], l = a + :v", "SET k.a = a ADD l :v"):
        error = store.refused(
            "UpdateItem",
            **request,
            UpdateExpression=expression,
            ExpressionAttributeValues={":v": N(1)},
        )
        assert "Index Key l Expected: S Actual: N IndexName: by-l" in error.message
    store.put(INDEXED, p=p, s=S("x"), a=N(1))
    error = store.refused("UpdateItem", **request, UpdateExpression="SET l = a")
    assert "secondary index key to unsupported type" in error.message
    error = store.refused(
        "UpdateItem",
        **request,
        UpdateExpression="SET l = :v",
        ExpressionAttributeValues={":v": S("")},
    )
    assert "attempted to update a secondary index key to a value that is not" in error.message
    assert store.get(INDEXED, p=p, s=S("x")) == {"p": p, "s": S("x"), "a": N(1)}


def test_path_below_an_index_key(store: Store) -> None:
    error = store.refused(
        "UpdateItem",
        TableName=INDEXED,
        Key={"p": S("x"), "s": S("y")},
        UpdateExpression="SET l.a = :v",
        ExpressionAttributeValues={":v": N(1)},
    )
    assert error.message.endswith("are not allowed: IndexKey: l")


def test_creates_a_missing_item(store: Store) -> None:
    p = store.key()
    assert update(store, p, "SET a = :a", ExpressionAttributeValues={":a": N(1)}) == {}
    assert store.get(SIMPLE, p=p) == {"p": p, "a": N(1)}


def test_a_new_item_has_its_keys_already(store: Store) -> None:
    """Values may be taken from the key attributes (observed: dynalite)."""
    p = store.key()
    reply = update(store, p, "SET a = if_not_exists(a, p), b = p", ReturnValues="UPDATED_NEW")
    assert reply == {"Attributes": {"a": p, "b": p}}
    q = store.key()
    store.refused("UpdateItem", TableName=SIMPLE, Key={"p": q}, UpdateExpression="SET b.a = p")
    assert store.get(SIMPLE, p=q) is None


def test_nothing_to_do_still_creates_the_item(store: Store) -> None:
    p = store.key()
    assert update(store, p, ReturnValues="ALL_NEW") == {"Attributes": {"p": p}}
    q = store.key()
    assert update(store, q, AttributeUpdates={}, ReturnValues="UPDATED_NEW") == {}
    assert store.get(SIMPLE, p=q) == {"p": q}


def test_removing_from_a_missing_item_creates_nothing(store: Store) -> None:
    p = store.key()
    assert update(store, p, "REMOVE a, b.c", ReturnValues="ALL_NEW") == {}
    update(store, p, "DELETE a :a", ExpressionAttributeValues={":a": {"SS": ["x"]}})
    assert store.get(SIMPLE, p=p) is None


def test_condition_is_judged_before_the_update(store: Store) -> None:
    """The condition fails first, even when the update could not be applied either."""
    p = store.key()
    old = store.put(SIMPLE, p=p, a=N(1))
    error = store.refused(
        "UpdateItem",
        "ConditionalCheckFailedException",
        TableName=SIMPLE,
        Key={"p": p},
        UpdateExpression="SET a = zz + :one",
        ConditionExpression="a > :one",
        ExpressionAttributeValues={":one": N(1)},
        ReturnValuesOnConditionCheckFailure="ALL_OLD",
    )
    assert error.response["Item"] == old


def test_runtime_errors(store: Store) -> None:
    p = store.key()
    old = store.put(SIMPLE, p=p, a=S("x"))
    for expression, text in (
        ("SET b = zz", "refers to an attribute that does not exist in the item"),
        ("SET zz.y = p", "document path provided in the update expression is invalid"),
        ("SET b = a + :one", "An operand in the update expression has an incorrect data type"),
    ):
        values = {"ExpressionAttributeValues": {":one": N(1)}} if ":one" in expression else {}
        error = store.refused(
            "UpdateItem", TableName=SIMPLE, Key={"p": p}, UpdateExpression=expression, **values
        )
        assert text in error.message
    assert store.get(SIMPLE, p=p) == old


def test_item_may_not_grow_too_large(store: Store) -> None:
    p = store.key()
    store.put(SIMPLE, p=p, a=S("x" * 300_000))
    error = store.refused(
        "UpdateItem",
        TableName=SIMPLE,
        Key={"p": p},
        UpdateExpression="SET b = :b",
        ExpressionAttributeValues={":b": S("y" * 200_000)},
    )
    assert error.message == "Item size to update has exceeded the maximum allowed size"


def test_return_values(store: Store) -> None:
    p = store.key()
    store.put(SIMPLE, p=p, a={"M": {"b": N(1), "c": N(2)}}, d=N(3))

    def step(returns: str, expression: str, **values: Any) -> Any:
        given = {f":{name}": value for name, value in values.items()}
        more = {"ExpressionAttributeValues": given} if given else {}
        return update(store, p, expression, ReturnValues=returns, **more).get("Attributes")

    assert step("NONE", "SET d = :d", d=N(4)) is None
    assert step("UPDATED_OLD", "SET d = :d", d=N(5)) == {"d": N(4)}
    assert step("UPDATED_NEW", "SET d = :d", d=N(5)) == {"d": N(5)}
    assert step("UPDATED_OLD", "SET a.b = :b", b=N(7)) == {"a": {"M": {"b": N(1)}}}
    assert step("UPDATED_NEW", "SET a.x = :x REMOVE d", x=N(8)) == {"a": {"M": {"x": N(8)}}}
    assert step("UPDATED_OLD", "SET e = :e", e=N(1)) is None
    assert step("UPDATED_NEW", "REMOVE e") is None
    whole = {"p": p, "a": {"M": {"b": N(7), "c": N(2), "x": N(8)}}}
    assert step("ALL_OLD", "SET f = :f", f=N(1)) == whole
    assert step("ALL_NEW", "REMOVE f") == whole


def test_updated_new_of_moved_list_elements(store: Store) -> None:
    p = store.key()
    store.put(SIMPLE, p=p, l={"L": [N(1), N(2), N(3)]})
    append = update(
        store,
        p,
        "SET l[100] = :v",
        ExpressionAttributeValues={":v": N(4)},
        ReturnValues="UPDATED_NEW",
    )
    assert append == {}
    shift = update(store, p, "REMOVE l[1]", ReturnValues="UPDATED_NEW")
    assert shift == {"Attributes": {"l": {"L": [N(3)]}}}
    assert store.get(SIMPLE, p=p) == {"p": p, "l": {"L": [N(1), N(3), N(4)]}}


def test_attribute_updates(store: Store) -> None:
    p = store.key()
    store.put(SIMPLE, p=p, n=N(1), gone=N(1), ss={"SS": ["a", "b"]}, l={"L": [N(1)]})
    update(
        store,
        p,
        AttributeUpdates={
            "n": {"Action": "ADD", "Value": N(2)},
            "gone": {"Action": "DELETE"},
            "ss": {"Action": "DELETE", "Value": {"SS": ["a"]}},
            "l": {"Action": "ADD", "Value": {"L": [N(2)]}},
            "new": {"Value": S("x")},
        },
    )
    assert store.get(SIMPLE, p=p) == {
        "p": p,
        "n": N(3),
        "ss": {"SS": ["b"]},
        "l": {"L": [N(1), N(2)]},
        "new": S("x"),
    }


def test_attribute_updates_with_expected(store: Store) -> None:
    p = store.key()
    store.put(SIMPLE, p=p, n=N(1))
    request = {"TableName": SIMPLE, "Key": {"p": p}}
    change = {"n": {"Value": N(2)}}
    store.refused(
        "UpdateItem",
        "ConditionalCheckFailedException",
        **request,
        AttributeUpdates=change,
        Expected={"n": {"Value": N(7)}},
    )
    store("UpdateItem", **request, AttributeUpdates=change, Expected={"n": {"Value": N(1)}})
    assert store.get(SIMPLE, p=p) == {"p": p, "n": N(2)}


def test_indexes_follow(store: Store) -> None:
    p = store.key()
    key = {"p": p, "s": S("x")}
    store.put(INDEXED, **key, l=S("a"), g=p)

    def local() -> list[Any]:
        return store.query(INDEXED, p, IndexName="by-l")["Items"]

    def change(expression: str, **values: Any) -> None:
        given = {f":{name}": value for name, value in values.items()}
        store(
            "UpdateItem",
            TableName=INDEXED,
            Key=key,
            UpdateExpression=expression,
            **({"ExpressionAttributeValues": given} if given else {}),
        )

    change("SET l = :l, a = :a", l=S("b"), a=N(1))
    assert local() == [{**key, "l": S("b"), "g": p, "a": N(1)}]
    change("REMOVE l")
    assert local() == []
    change("SET l = :l", l=S("c"))
    assert local() == [{**key, "l": S("c"), "g": p, "a": N(1)}]


def test_units(store: Store) -> None:
    p = store.key()

    def units(expression: str, **values: Any) -> float:
        given = {f":{name}": value for name, value in values.items()}
        more = {"ExpressionAttributeValues": given} if given else {}
        reply = update(store, p, expression, ReturnConsumedCapacity="TOTAL", **more)
        return reply["ConsumedCapacity"]["CapacityUnits"]

    assert units("REMOVE a") == 1
    assert units("SET a = :a", a=S("x" * 2100)) == 3
    assert units("SET b = :b", b=N(1)) == 3
    assert units("REMOVE a") == 3
    assert units("REMOVE a") == 1
