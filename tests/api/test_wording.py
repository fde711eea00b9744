"""The two generations of DynamoDB's texts (reference 0.1, 13.6): exact wording lives here."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.databases import memory_database
from tests.support.store import SIMPLE, N, S, Store

INVALID = "One or more parameter values were invalid: "
ENVELOPE = "1 validation error detected: "
WORDINGS = ("classic", "2026")


@pytest.fixture(scope="module", params=WORDINGS)
def wording(request: Any) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def store(wording: str) -> Store:
    return Store(memory_database(wording=wording))


def wrap(wording: str, text: str) -> str:
    """What Put-, Update- and DeleteItem say in the newer wording."""
    return text if wording == "classic" else ENVELOPE + text


@pytest.mark.parametrize(
    ("value", "classic", "current"),
    [
        (N("abc"), "The parameter cannot be converted to a numeric value: abc", None),
        (
            N(""),
            "The parameter cannot be converted to a numeric value",
            "The parameter cannot be converted to a numeric value: ",
        ),
        (
            {"SS": ["b", "a", "b"]},
            INVALID + "Input collection [b, a, b] contains duplicates.",
            INVALID + 'Input collection ["a", "b", "b"] contains duplicates.',
        ),
        (
            {"NS": ["1", "1.0"]},
            "Input collection contains duplicates",
            INVALID + "Input collection contains duplicates.",
        ),
        ({"NS": []}, INVALID + "An number set  may not be empty", None),
        (
            {"NULL": False},
            INVALID + "Null attribute value types must have the value of true",
            None,
        ),
        (
            N("1" * 39),
            "Attempting to store more than 38 significant digits in a Number",
            None,
        ),
    ],
)
def test_attribute_values(
    store: Store, wording: str, value: Any, classic: str, current: str | None
) -> None:
    text = classic if wording == "classic" else current or classic
    item = {"p": S("x"), "a": value}
    put = store.refused("PutItem", TableName=SIMPLE, Item=item)
    assert put.message == wrap(wording, text)
    get = store.refused("GetItem", TableName=SIMPLE, Key=item)
    assert get.message == text
    batch = store.refused("BatchWriteItem", RequestItems={SIMPLE: [{"PutRequest": {"Item": item}}]})
    assert batch.message == classic


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            {},
            "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes",
        ),
        (
            {"S": "a", "N": "1"},
            "Supplied AttributeValue has more than one datatypes set, must contain exactly one "
            "of the supported datatypes",
        ),
    ],
)
def test_tags_are_never_wrapped(store: Store, value: Any, text: str) -> None:
    item = {"p": S("x"), "a": value}
    assert store.refused("PutItem", TableName=SIMPLE, Item=item).message == text


def test_expression_values(store: Store, wording: str) -> None:
    request = {
        "TableName": SIMPLE,
        "Key": {"p": S("x")},
        "UpdateExpression": "SET a = :a",
        "ExpressionAttributeValues": {":a": N("x")},
    }
    inner = "The parameter cannot be converted to a numeric value: x"
    message = store.refused("UpdateItem", **request).message
    if wording == "classic":
        assert message == (f"ExpressionAttributeValues contains invalid value: {inner} for key :a")
    else:
        assert message == ENVELOPE + inner


def test_wrapped_and_bare_texts(store: Store, wording: str) -> None:
    def put(**more: Any) -> str:
        item = more.pop("Item", {"p": S("x")})
        return store.refused("PutItem", TableName=SIMPLE, Item=item, **more).message

    assert put(ReturnValues="ALL_NEW") == wrap(wording, "ReturnValues can only be ALL_OLD or NONE")
    assert put(ConditionExpression="((a = b))").startswith(
        wrap(wording, "Invalid ConditionExpression: The expression has redundant parentheses")
    )
    assert put(ConditionExpression="a = a").startswith(
        wrap(wording, "Invalid ConditionExpression: The first operand must be distinct")
    )
    values = {"ExpressionAttributeValues": {":a": N(1)}}
    suffix = ": ConditionExpression is null" if wording == "classic" else ""
    assert put(**values) == wrap(
        wording, f"ExpressionAttributeValues can only be specified when using expressions{suffix}"
    )
    assert put(Item={"p": N(1)}) == INVALID + "Type mismatch for key p expected: S actual: N"
    assert put(Item={"p": S("x"), "a": S("y" * 409_600)}) == (
        "Item size has exceeded the maximum allowed size"
    )


def test_query_is_bare_in_both(store: Store) -> None:
    error = store.refused(
        "Query",
        TableName=SIMPLE,
        KeyConditionExpression="((p = :p))",
        ExpressionAttributeValues={":p": S("x")},
    )
    assert error.message.startswith("Invalid KeyConditionExpression: The expression has redundant")


@pytest.mark.parametrize("operation", ["BatchGetItem", "BatchWriteItem"])
def test_a_batch_of_nothing(store: Store, wording: str, operation: str) -> None:
    message = store.refused(operation, RequestItems={}).message
    if wording == "classic":
        assert message == f"The requestItems parameter is required for {operation}"
    else:
        assert message == (
            "1 validation error detected: Value at 'RequestItems' failed to satisfy constraint: "
            "Member must have length greater than or equal to 1"
        )
