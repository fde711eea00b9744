"""Requests that are ill formed: types first, then member constraints; the shapes are AWS's.

Exact texts of reference 12 and 13.1.
"""

from __future__ import annotations

from typing import Any

import pytest

from dynalsm import errors
from dynalsm.api import OPERATIONS, _generate_shapes, dispatch, shape_data
from dynalsm.api import validate as validation
from dynalsm.api.checkers import CHECKERS
from dynalsm.api.shapes import SHAPES, input_of
from dynalsm.model.settings import Settings
from tests.support.databases import memory_database
from tests.support.store import Store

VALID_GET = {"TableName": "Music", "Key": {"pk": {"S": "x"}}}


def check(operation: str, request: Any, **settings: Any) -> Any:
    return validation.validate(operation, request, Settings(**settings))


def message(operation: str, request: Any, code: str = "ValidationException", **more: Any) -> str:
    with pytest.raises(errors.API_ERRORS[code]) as caught:
        check(operation, request, **more)
    return caught.value.message


# Shapes.


def test_all_operations_have_a_shape_and_a_module() -> None:
    assert set(shape_data.OPERATIONS) == set(OPERATIONS)
    assert len(OPERATIONS) == 66
    for name in OPERATIONS:
        CHECKERS[name]


def test_shapes_agree_with_botocore() -> None:
    """Every shape that the installed botocore knows as well says the same, or we are newer."""
    pytest.importorskip("botocore")
    facts = _generate_shapes.facts(_generate_shapes.load_models(None))
    for name, (service, structure) in facts["OPERATIONS"].items():
        assert shape_data.OPERATIONS[name] == (service, structure)
    for name, text in facts["STRUCTURES"].items():
        theirs, ours = set(text.split()), set(shape_data.STRUCTURES[name].split())
        # Members that newer models made optional, or added.
        optional = {member.rstrip("*") for member in ours}
        assert theirs <= ours or {member.rstrip("*") for member in theirs} <= optional, name
    for table in ("LISTS", "MAPS", "NUMBERS", "PLAIN"):
        for name, row in facts[table].items():
            assert getattr(shape_data, table).get(name, row) == row, name
    for name, row in facts["STRINGS"].items():
        mine = shape_data.STRINGS.get(name)
        if mine is not None:
            assert set(row[3].split()) <= set(mine[3].split()), name


# The fast path.


def test_valid_request_is_passed_through() -> None:
    settings = Settings()
    validation.validate("GetItem", VALID_GET, settings)  # the name becomes known
    assert CHECKERS["GetItem"](VALID_GET, settings.table_names)
    assert validation.validate("GetItem", VALID_GET, settings) is VALID_GET


def test_known_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "MAX_KNOWN_NAMES", 3)
    settings = Settings()
    for number in range(10):
        validation.validate("DescribeTable", {"TableName": f"table{number}"}, settings)
    assert len(settings.table_names) <= 3


def test_null_members_count_as_absent_and_unknown_ones_are_ignored() -> None:
    request = {**VALID_GET, "ConsistentRead": None, "Unknown": 1}
    assert check("GetItem", request) == VALID_GET


def test_request_is_never_changed() -> None:
    request = {"TableName": "Music", "Limit": 3.7, "ConsistentRead": "true"}
    before = dict(request)
    assert check("Scan", request) == {"TableName": "Music", "Limit": 3, "ConsistentRead": True}
    assert request == before


def test_subclasses_are_accepted() -> None:
    class Text(str):
        pass

    class Map(dict):  # type: ignore[type-arg]
        pass

    assert check("GetItem", Map(TableName=Text("Music"), Key=Map(pk={"S": "x"})))


# Types.

STRUCTURE = "Start of structure or map found where not expected"
TYPES = [
    ("Scan", {"TableName": True}, "TRUE_VALUE cannot be converted to String"),
    ("Scan", {"TableName": 5}, "NUMBER_VALUE cannot be converted to String"),
    ("Scan", {"TableName": 5.5}, "DECIMAL_VALUE cannot be converted to String"),
    ("Scan", {"TableName": []}, "Unrecognized collection type class java.lang.String"),
    ("Scan", {"TableName": {}}, STRUCTURE),
    ("Scan", {"Limit": "5"}, "STRING_VALUE cannot be converted to Integer"),
    ("Scan", {"Limit": True}, "TRUE_VALUE cannot be converted to Integer"),
    ("Scan", {"Limit": [1]}, "Unrecognized collection type class java.lang.Integer"),
    ("Scan", {"Limit": {}}, STRUCTURE),
    ("Scan", {"Limit": 2**31}, "NUMBER_VALUE cannot be converted to Integer"),
    ("Scan", {"Limit": 10**30}, "NUMBER_VALUE cannot be converted to Integer"),
    ("Scan", {"Limit": -(10**30)}, "NUMBER_VALUE cannot be converted to Integer"),
    ("Scan", {"Limit": 1e300}, "DECIMAL_VALUE cannot be converted to Integer"),
    ("Query", {"TableName": "abc", "Limit": 2**31}, "NUMBER_VALUE cannot be converted to Integer"),
    ("Scan", {"ConsistentRead": 1}, "NUMBER_VALUE cannot be converted to Boolean"),
    ("Scan", {"ConsistentRead": 1.5}, "DECIMAL_VALUE cannot be converted to Boolean"),
    ("Scan", {"ConsistentRead": "maybe"}, "Unexpected token received from parser"),
    ("Scan", {"AttributesToGet": "a"}, "Unexpected field type"),
    ("Scan", {"AttributesToGet": {}}, STRUCTURE),
    ("GetItem", {"Key": "a"}, "Unexpected field type"),
    (
        "GetItem",
        {"Key": []},
        "Unrecognized collection type java.util.Map<java.lang.String, "
        "com.amazonaws.dynamodb.v20120810.AttributeValue>",
    ),
    (
        "GetItem",
        {"ExpressionAttributeNames": []},
        "Unrecognized collection type java.util.Map<java.lang.String, java.lang.String>",
    ),
    ("CreateTable", {"ProvisionedThroughput": 1}, "Unexpected field type"),
    (
        "CreateTable",
        {"ProvisionedThroughput": []},
        "Unrecognized collection type class com.amazonaws.dynamodb.v20120810.ProvisionedThroughput",
    ),
    ("CreateTable", {"KeySchema": ["x"]}, "Unexpected value type in payload"),
    (
        "CreateTable",
        {"ProvisionedThroughput": {"ReadCapacityUnits": "1"}},
        "STRING_VALUE cannot be converted to Long",
    ),
    ("BatchGetItem", {"RequestItems": {"a": {"Keys": ["x"]}}}, "class sun.reflect.generics"),
]


@pytest.mark.parametrize(("operation", "request_", "text"), TYPES)
def test_types(operation: str, request_: Any, text: str) -> None:
    assert message(operation, request_, "SerializationException").startswith(text)


def test_types_come_before_constraints() -> None:
    request = {"ReturnConsumedCapacity": "x", "ConsistentRead": 1}
    assert message("GetItem", request, "SerializationException")


VALUE_TYPES = [
    ("GetItem", {"Key": {"a": 5}}, "Unexpected value type in payload"),
    ("PutItem", {"TableName": "nowhere", "Item": {"a": {"S": 5}}}, "NUMBER_VALUE cannot be"),
    ("PutItem", {"Expected": {"a": {"Value": "x"}}}, "Unexpected field type"),
    ("UpdateItem", {"AttributeUpdates": {"a": {"Value": [1]}}}, "Unrecognized collection type"),
    ("BatchWriteItem", {"RequestItems": {"": [{"PutRequest": {"Item": {"a": {"L": [{"N": 1}]}}}}]}},
     "NUMBER_VALUE cannot be converted to String"),
    ("Scan", {"TableName": "nowhere", "Limit": 0, "ExclusiveStartKey": {"a": {"SS": "x"}}},
     "Unexpected field type"),
    ("TransactWriteItems", {"TransactItems": [{"Update": {"ExpressionAttributeValues":
     {":a": {"M": 7}}}}]}, "Unexpected field type"),
    ("ExecuteStatement", {"Statement": "", "Parameters": [{"BOOL": 1}]}, "NUMBER_VALUE cannot be"),
    ("BatchWriteItem", {"RequestItems": []},
     "Unrecognized collection type java.util.Map<java.lang.String, java.util.List<com.amazonaws."
     "dynamodb.v20120810.WriteRequest>>"),
]  # fmt: skip


@pytest.mark.parametrize(("operation", "request_", "text"), VALUE_TYPES)
def test_types_of_values_come_before_everything_else(
    store: Store, operation: str, request_: Any, text: str
) -> None:
    # Neither a missing member nor a missing table hides a value of a wrong type.
    error = store.refused(operation, "SerializationException", **request_)
    assert error.message.startswith(text)


# Constraints.


def test_all_failing_members_are_reported() -> None:
    request = {"TableName": "a b", "AttributesToGet": [], "ReturnConsumedCapacity": "x"}
    assert message("GetItem", request) == (
        "4 validation errors detected: "
        "Value 'a b' at 'tableName' failed to satisfy constraint: Member must satisfy regular "
        "expression pattern: [a-zA-Z0-9_.-]+; "
        "Value null at 'key' failed to satisfy constraint: Member must not be null; "
        "Value '[]' at 'attributesToGet' failed to satisfy constraint: Member must have length "
        "greater than or equal to 1; "
        "Value 'x' at 'returnConsumedCapacity' failed to satisfy constraint: Member must satisfy "
        "enum value set: [INDEXES, TOTAL, NONE]"
    )


def test_the_newer_wording_stops_at_the_first_and_echoes_nothing() -> None:
    request = {"TableName": "a b", "AttributesToGet": []}
    assert message("GetItem", request, wording="2026") == (
        "1 validation error detected: Value at 'TableName' failed to satisfy constraint: Member "
        "must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"
    )


def test_at_most_ten_are_reported() -> None:
    keys = [{"AttributeName": "", "KeyType": ""} for _ in range(8)]
    index = {"IndexName": "abc", "KeySchema": keys, "Projection": {}}
    request = {"TableName": "Music", "GlobalSecondaryIndexes": [index]}
    assert message("CreateTable", request).startswith("10 validation errors detected: ")


CONSTRAINTS = [
    ("Scan", {"Limit": 0}, "Value '0' at 'limit' failed to satisfy constraint: Member must have "
     "value greater than or equal to 1"),
    ("Scan", {"Segment": 1000000}, "Value '1000000' at 'segment' failed to satisfy constraint: "
     "Member must have value less than or equal to 999999"),
    ("Query", {"Select": "x"}, "[SPECIFIC_ATTRIBUTES, COUNT, ALL_ATTRIBUTES, "
     "ALL_PROJECTED_ATTRIBUTES]"),
    ("Query", {"ConditionalOperator": "x"}, "[OR, AND]"),
    ("UpdateItem", {"ReturnValues": "x"}, "[ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW]"),
    ("Query", {"QueryFilter": {"a": {"ComparisonOperator": "x"}}},
     "Value 'x' at 'queryFilter.a.member.comparisonOperator'"),
    ("Query", {"QueryFilter": {"a": {}}},
     "Value null at 'queryFilter.a.member.comparisonOperator'"),
    ("TransactWriteItems", {"TransactItems": [{"Put": {"TableName": "abc"}}]},
     "Value null at 'transactItems.1.member.put.item'"),
    ("TransactWriteItems", {"ClientRequestToken": "x" * 37}, "less than or equal to 36"),
    ("TransactGetItems", {"TransactItems": []}, "Value '[]' at 'transactItems'"),
    ("BatchGetItem", {"RequestItems": {"abc": {"Keys": []}}},
     "Value '[]' at 'requestItems.abc.member.keys'"),
    ("BatchWriteItem", {"RequestItems": {"abc": []}},
     "Value '{abc=[]}' at 'requestItems' failed to satisfy constraint: Map value must satisfy "
     "constraint: [Member must have length less than or equal to 25, Member must have length "
     "greater than or equal to 1]"),
    ("BatchWriteItem", {"RequestItems": {"a b": [{"DeleteRequest": {"Key": {}}}]}},
     "at 'requestItems' failed to satisfy constraint: Map keys must satisfy constraint: [Member "
     "must have length less than or equal to 255, Member must have length greater than or equal "
     "to 3, Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+]"),
    ("ExecuteStatement", {"Statement": ""}, "Value '' at 'statement'"),
]  # fmt: skip


@pytest.mark.parametrize(("operation", "request_", "text"), CONSTRAINTS)
def test_constraints(operation: str, request_: Any, text: str) -> None:
    shape = input_of(operation)
    request = {"TableName": "Music", "Key": {}, "TransactItems": [{}], "RequestItems": {}}
    request = {name: value for name, value in request.items() if name in shape.members}
    assert text in message(operation, {**request, **request_})


def test_checkers_and_explanation_agree() -> None:
    """What a checker accepts, the slow walk accepts; what the walk refuses, no checker accepts."""
    for operation, request, _ in [*TYPES, *CONSTRAINTS]:
        try:
            accepted = CHECKERS[operation](request, {"Music": "Music", "abc": "abc"})
        except (TypeError, AttributeError):
            accepted = False
        assert not accepted, (operation, request)


@pytest.mark.parametrize("name", sorted(shape_data.STRINGS))
def test_patterns_are_valid_in_python(name: str) -> None:
    SHAPES[name].matches("x")


# Table names and ARNs.

ARN = "arn:aws:dynamodb:us-east-1:123456789012:table/Music"


def test_arns() -> None:
    settings = Settings()
    validation.validate("GetItem", {**VALID_GET, "TableName": ARN}, settings)
    assert settings.table_names == {ARN: "Music"}
    for operation in ("GetItem", "DescribeTable"):
        request = {**VALID_GET, "TableName": ARN.replace("123456789012", "000000000000")}
        assert "is not authorized to perform" in message(
            operation, request, "AccessDeniedException"
        )
        request = {**VALID_GET, "TableName": ARN.replace("us-east-1", "eu-west-1")}
        assert "Invalid AWS region in" in message(operation, request)
        request = {**VALID_GET, "TableName": "arn:aws:dynamodb:nonsense"}
        assert "Invalid resource Arn" in message(operation, request)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (None, "Value null at 'tableName' failed to satisfy constraint: Member must not be null"),
        ("", "Value '' at 'tableName' failed to satisfy constraint: Member must have length gr"),
        ("xx", "Member must have length greater than or equal to 3"),
        ("n" * 256, "Member must have length less than or equal to 255"),
        ("x@y", "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"),
    ],
)
def test_names_in_the_data_plane(name: Any, text: str) -> None:
    assert text in message("GetItem", {"TableName": name, "Key": {}})


def test_names_in_the_control_plane() -> None:
    for operation in ("DescribeTable", "DeleteTable", "UpdateTable", "DescribeTimeToLive"):
        assert message(operation, {}) == (
            "The parameter 'TableName' is required but was not present in the request"
        )
        assert message(operation, {"TableName": "ab"}) == (
            "TableName must be at least 3 characters long and at most 255 characters long"
        )
    assert message("DescribeTable", {"TableName": "ab"}, wording="2026") == (
        "1 validation error detected: Value at 'TableName' failed to satisfy constraint: Member "
        "must have length greater than or equal to 3"
    )


# Dispatch.


def test_unknown_operation() -> None:
    with memory_database() as db, pytest.raises(errors.UnknownOperationException):
        dispatch(db, "MakeCoffee", {})


def test_errors_name_the_operation() -> None:
    with memory_database() as db:
        with pytest.raises(errors.ValidationException) as caught:
            dispatch(db, "GetItem", {})
        assert caught.value.operation == "GetItem"
        assert "when calling the GetItem operation" in str(caught.value)
