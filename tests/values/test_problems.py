"""What is refused, and the exact texts: reference 2.1, 12 and 13.6, in both wordings."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from dynalsm import values
from dynalsm.values import SerializationProblem, ValueProblem, shape

INVALID = "One or more parameter values were invalid: "
EMPTY = "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"
MANY = (
    "Supplied AttributeValue has more than one datatypes set, "
    "must contain exactly one of the supported datatypes"
)
OVERFLOW = (
    "Number overflow. Attempting to store a number with magnitude larger than supported range"
)
UNDERFLOW = (
    "Number underflow. Attempting to store a number with magnitude smaller than supported range"
)
NOT_NUMERIC = "The parameter cannot be converted to a numeric value"
NESTING = (
    "Nesting Levels have exceeded supported limits: "
    "Attributes in the item have nested levels beyond supported limit"
)
# (typed value, kind, classic wording, current wording)
REFUSED: list[tuple[Any, str, str, str]] = [
    ({"N": "abc"}, "number_format", f"{NOT_NUMERIC}: abc", f"{NOT_NUMERIC}: abc"),
    ({"N": ""}, "number_format", NOT_NUMERIC, f"{NOT_NUMERIC}: "),
    ({"NS": ["1", "x"]}, "number_format", f"{NOT_NUMERIC}: x", f"{NOT_NUMERIC}: x"),
    ({"N": "1e126"}, "number_overflow", OVERFLOW, OVERFLOW),
    # The classic layer adds digits and exponent in 32 bits.
    ({"N": "1e2147483647"}, "number_overflow", UNDERFLOW, OVERFLOW),
    ({"N": "-1E+2147483647"}, "number_overflow", UNDERFLOW, OVERFLOW),
    ({"N": "1e2147483646"}, "number_overflow", OVERFLOW, OVERFLOW),
    ({"N": "1e2147483648"}, "number_overflow", OVERFLOW, OVERFLOW),
    ({"N": "1e-131"}, "number_underflow", UNDERFLOW, UNDERFLOW),
    (
        {"N": "1" * 39},
        "number_precision",
        "Attempting to store more than 38 significant digits in a Number",
        "Attempting to store more than 38 significant digits in a Number",
    ),
    (
        {"SS": ["b", "a", "b"]},
        "duplicate",
        INVALID + "Input collection [b, a, b] contains duplicates.",
        INVALID + 'Input collection ["a", "b", "b"] contains duplicates.',
    ),
    (
        {"SS": ["d", "b", "c", "b", "a"]},
        "duplicate",
        INVALID + "Input collection [d, b, c, b, a] contains duplicates.",
        INVALID + 'Input collection ["a", "b", "b"] contains duplicates.',
    ),
    (
        {"NS": ["1", "2", "1.0"]},
        "duplicate",
        "Input collection contains duplicates",
        INVALID + "Input collection contains duplicates.",
    ),
    (
        {"BS": ["/w==", "AA==", "AA=="]},
        "duplicate",
        INVALID + "Input collection [/w==, AA==, AA==]of type BS contains duplicates.",
        INVALID + 'Input collection ["/w==","AA==","AA=="]of type BS contains duplicates.',
    ),
    (
        {"SS": []},
        "empty_set",
        INVALID + "An string set  may not be empty",
        INVALID + "An string set  may not be empty",
    ),
    (
        {"NS": []},
        "empty_set",
        INVALID + "An number set  may not be empty",
        INVALID + "An number set  may not be empty",
    ),
    (
        {"BS": []},
        "empty_set",
        INVALID + "Binary sets should not be empty",
        INVALID + "Binary sets should not be empty",
    ),
    (
        {"NULL": False},
        "null_false",
        INVALID + "Null attribute value types must have the value of true",
        INVALID + "Null attribute value types must have the value of true",
    ),
    ({}, "no_type", EMPTY, EMPTY),
    ({"X": "1"}, "no_type", EMPTY, EMPTY),
    ({"L": [None]}, "no_type", EMPTY, EMPTY),
    ({"M": {"a": {}}}, "no_type", EMPTY, EMPTY),
    ({"SS": ["a", None]}, "no_type", EMPTY, EMPTY),
    ({"S": "a", "N": "1"}, "many_types", MANY, MANY),
    # observed (dynalite): what is wrong with a number comes before what is wrong with the whole.
    ({"S": "a", "N": "b"}, "number_format", f"{NOT_NUMERIC}: b", f"{NOT_NUMERIC}: b"),
    ({"B": "", "NS": ["1e200"]}, "number_overflow", OVERFLOW, OVERFLOW),
]


@pytest.mark.parametrize(("value", "kind", "classic", "current"), REFUSED, ids=repr)
def test_texts(value: Any, kind: str, classic: str, current: str) -> None:
    for refused in (
        lambda: values.encode_json(value),
        lambda: values.encode_json_item({"a": value}),
        # At every depth.
        lambda: values.encode_json({"M": {"a": {"L": [{"S": "x"}, value]}}}),
    ):
        with pytest.raises(ValueProblem) as caught:
            refused()
        problem = caught.value
        assert (problem.kind, str(problem), problem.current) == (kind, classic, current)
        assert problem.is_bare == (kind in ("no_type", "many_types"))
        copy = pickle.loads(pickle.dumps(problem))
        assert (copy.kind, str(copy), copy.detail) == (kind, classic, problem.detail)


ATTRIBUTE_VALUE = "com.amazonaws.dynamodb.v20120810.AttributeValue"
STRUCTURE = "Start of structure or map found where not expected"
VALUE_LIST = f"Unrecognized collection type class {ATTRIBUTE_VALUE}"
MAP_LIST = f"Unrecognized collection type java.util.Map<java.lang.String, {ATTRIBUTE_VALUE}>"
NOT_BLOB = "only base-64-encoded strings are convertible to bytes"
WRONG_SHAPES: list[tuple[Any, str]] = [
    ({"S": True}, "TRUE_VALUE cannot be converted to String"),
    ({"S": False}, "FALSE_VALUE cannot be converted to String"),
    ({"S": 1}, "NUMBER_VALUE cannot be converted to String"),
    ({"S": 1.5}, "DECIMAL_VALUE cannot be converted to String"),
    ({"S": []}, "Unrecognized collection type class java.lang.String"),
    ({"S": {}}, STRUCTURE),
    ({"N": 1}, "NUMBER_VALUE cannot be converted to String"),
    ({"N": [1]}, "Unrecognized collection type class java.lang.String"),
    ({"B": 1}, NOT_BLOB),
    ({"B": True}, NOT_BLOB),
    ({"B": []}, "Unrecognized collection type class java.nio.ByteBuffer"),
    ({"B": {}}, STRUCTURE),
    ({"B": "abc"}, "Base64 encoded length is expected a multiple of 4 bytes but found: 3"),
    ({"B": "ab=="}, "Invalid last non-pad Base64 character dectected"),
    ({"B": "abd="}, "Invalid last non-pad Base64 character dectected"),
    ({"B": "a c="}, "Invalid base 64 character: ' '"),
    ({"B": "ab=c"}, "Invalid base 64 character: '='"),
    ({"B": "=bc="}, "Invalid base 64 character: '='"),
    ({"B": "=bx="}, "Invalid last non-pad Base64 character dectected"),
    ({"B": "===="}, "Invalid base 64 character: '='"),
    ({"B": "éabc"}, "Invalid base 64 character: 'é'"),
    ({"BOOL": 1}, "NUMBER_VALUE cannot be converted to Boolean"),
    ({"BOOL": 1.5}, "DECIMAL_VALUE cannot be converted to Boolean"),
    ({"BOOL": "maybe"}, "Unexpected token received from parser"),
    ({"BOOL": []}, "Unrecognized collection type class java.lang.Boolean"),
    ({"BOOL": {}}, STRUCTURE),
    ({"NULL": "maybe"}, "Unexpected token received from parser"),
    ({"NULL": 0}, "NUMBER_VALUE cannot be converted to Boolean"),
    ({"L": "a"}, "Unexpected field type"),
    ({"L": {}}, STRUCTURE),
    ({"L": ["a"]}, "Unexpected value type in payload"),
    ({"L": [[]]}, VALUE_LIST),
    ({"M": "a"}, "Unexpected field type"),
    ({"M": []}, MAP_LIST),
    ({"M": {"a": "b"}}, "Unexpected value type in payload"),
    ({"M": {"a": []}}, VALUE_LIST),
    ({"SS": "a"}, "Unexpected field type"),
    ({"SS": {}}, STRUCTURE),
    ({"SS": [1]}, "NUMBER_VALUE cannot be converted to String"),
    ({"NS": [1]}, "NUMBER_VALUE cannot be converted to String"),
    ({"NS": ["1", {}]}, STRUCTURE),
    ({"BS": [1]}, NOT_BLOB),
    ({"BS": ["a"]}, "Base64 encoded length is expected a multiple of 4 bytes but found: 1"),
    ("a", "Unexpected value type in payload"),
    (1, "Unexpected value type in payload"),
    ([], VALUE_LIST),
]


@pytest.mark.parametrize(("value", "text"), WRONG_SHAPES, ids=repr)
def test_wrong_json_types(value: Any, text: str) -> None:
    for refused in (
        lambda: values.encode_json(value),
        lambda: values.encode_json_item({"a": value}),
        # A wrong type is reported before a wrong value that stands in front of it.
        lambda: values.encode_json_item({"a": {"N": "x"}, "b": {"L": [{}, value]}}),
    ):
        with pytest.raises(SerializationProblem) as caught:
            refused()
        assert str(caught.value) == text
    with pytest.raises(SerializationProblem):
        values.check_shape(value)


@pytest.mark.parametrize(("value", "text"), WRONG_SHAPES, ids=repr)
def test_wrong_types_in_process(value: Any, text: str) -> None:
    if isinstance(value, dict) and isinstance(value.get("B", value.get("BS", [None])), (str, list)):
        return  # text is a blob in process
    with pytest.raises(SerializationProblem) as caught:
        values.encode_wire(value)
    assert str(caught.value) == text


def test_wrong_items() -> None:
    for encode in (values.encode_json_item, values.encode_wire_item):
        for item, text in (
            (1, "Unexpected field type"),
            ([], MAP_LIST),
            ("a", "Unexpected field type"),
        ):
            with pytest.raises(SerializationProblem) as caught:
                encode(item)
            assert str(caught.value) == text


def test_booleans_that_are_text() -> None:
    for text in ("true", "TRUE", "1", "yes"):
        assert values.encode_json({"BOOL": text}) == values.encode_value(True)
        assert values.encode_json({"NULL": text}) == values.encode_value(None)
    for text in ("false", "0", "no"):
        assert values.encode_json({"BOOL": text}) == values.encode_value(False)
        with pytest.raises(ValueProblem):
            values.encode_json({"NULL": text})


def test_shapes_that_are_right() -> None:
    right = {"a": {"M": {"b": {"L": [{"S": "x"}, {"NULL": True}, {"BS": ["AA=="]}]}}}, "n": None}
    values.check_item_shape(right)
    values.check_shape({"S": "a", "N": "1", "X": object()})
    values.check_shape({"B": b"x"}, is_json=False)
    with pytest.raises(SerializationProblem):
        values.check_shape({"B": b"x"})
    assert shape.boolean_of(True) is True


# ---- names ----


def test_attribute_names() -> None:
    encoders = (values.encode_json_item, values.encode_wire_item)
    for encode in encoders:
        with pytest.raises(ValueProblem) as caught:
            encode({"": {"S": "a"}})
        assert caught.value.kind == "empty_name"
        assert str(caught.value).endswith("Empty attribute name")
        longest = "é" * 32767 + "x"  # 65,535 bytes
        assert values.attribute_names(encode({longest: {"S": "a"}})) == [longest]
        with pytest.raises(ValueProblem) as caught:
            encode({longest + "x": {"S": "a"}})
        assert caught.value.kind == "name_too_long"
        # Inside a map, too; there the empty name is no problem.
        with pytest.raises(ValueProblem):
            encode({"m": {"M": {"x" * 65536: {"S": "a"}}}})
        encode({"m": {"M": {"": {"S": "a"}}}})
    with pytest.raises(ValueProblem):
        values.encode_item({"": None})
    with pytest.raises(ValueProblem):
        values.encode_native_item({"": None})


def test_text_that_is_no_unicode() -> None:
    for value in ({"S": "\ud800"}, {"SS": ["a", "\udfff"]}, {"M": {"\ud800": {"S": "a"}}}):
        with pytest.raises(ValueProblem) as caught:
            values.encode_wire(value)
        assert caught.value.kind == "not_unicode"
    with pytest.raises(ValueProblem):
        values.encode_native({"\ud800": 1})
    # No exception is left pending behind the problem's back.
    assert values.encode_wire({"S": "a"}) == b"\xa1a"


# ---- nesting ----


def wrapped(levels: int, kind: str, inner: Any) -> Any:
    for _ in range(levels):
        inner = {"M": {"a": inner}} if kind == "M" else {"L": [inner]}
    return inner


def wrapped_native(levels: int, kind: str, inner: Any) -> Any:
    for _ in range(levels):
        inner = {"a": inner} if kind == "M" else [inner]
    return inner


@pytest.mark.parametrize("kind", ["M", "L"])
def test_nesting(kind: str) -> None:
    # 31 containers around a scalar are accepted, 32 are not.
    leaf = {"S": "x"}
    data = values.encode_json_item({"a": wrapped(31, kind, leaf)})
    assert data == values.encode_native_item({"a": wrapped_native(31, kind, "x")})
    assert data == values.encode_item({"a": wrapped_native(31, kind, "x")})
    assert values.decode_wire_item(data)["a"] == wrapped(31, kind, leaf)
    for refused in (
        lambda: values.encode_json_item({"a": wrapped(32, kind, leaf)}),
        lambda: values.encode_wire(wrapped(32, kind, leaf)),
        lambda: values.encode_native_item({"a": wrapped_native(32, kind, "x")}),
        lambda: values.encode_item({"a": wrapped_native(32, kind, "x")}),
        lambda: values.encode_value(wrapped_native(2, kind, "x"), 2),
    ):
        with pytest.raises(ValueProblem) as caught:
            refused()
        assert (caught.value.kind, str(caught.value)) == ("nesting", NESTING)
    # An empty container counts as a level, as a scalar does.
    values.encode_wire(wrapped(31, kind, {"M": {}}))
    with pytest.raises(ValueProblem):
        values.encode_wire(wrapped(32, kind, {"M": {}}))


@pytest.mark.parametrize("kind", ["M", "L"])
def test_more_levels_when_asked_for(kind: str) -> None:
    deep = wrapped_native(126, kind, {})
    data = values.encode_value(deep, 1000)
    assert values.decode_value(data) == deep
    assert values.value_size(data) == values.value_size(values.encode_native(deep, 1000))
    assert values.json_text(data)
    with pytest.raises(ValueProblem):
        values.encode_value(wrapped_native(127, kind, {}), 1000)


@pytest.mark.parametrize("kind", ["M", "L"])
def test_hostile_nesting(kind: str) -> None:
    # 20,000 levels: a clean error in every direction, no recursion.
    deep = wrapped(20_000, kind, {"N": "not a number"})
    for encode in (values.encode_json, values.encode_wire):
        with pytest.raises(ValueProblem) as caught:
            encode(deep, 10**6)
        assert caught.value.kind == "nesting"
    with pytest.raises(ValueProblem):
        values.encode_json_item({"a": deep})
    # The type check goes all the way down, without recursion.
    with pytest.raises(SerializationProblem):
        values.encode_json(wrapped(20_000, kind, "no dict"))
    native = wrapped_native(20_000, kind, "x")
    for encode in (values.encode_native, values.encode_value):
        with pytest.raises(ValueProblem):
            encode(native)
    data = (b"\x91" if kind == "L" else b"\x81\xa1a") * 20_000 + b"\xc0"
    for decode in (values.decode_value, values.decode_native, values.decode_wire, values.json_text):
        with pytest.raises(ValueError, match="too deep"):
            decode(data)
    item = b"\x81\xa1a" + data
    for decode in (values.decode_item, values.json_item_text, values.decode_wire_item):
        with pytest.raises(ValueError, match="too deep"):
            decode(item)
    # What does not recurse needs no limit.
    assert values.value_size(data) == (20_000 * 4 if kind == "L" else 20_000 * 5) + 1
    assert values.type_of(values.get_attribute(item, "a") or b"") == kind
    assert values.select(item, ["a"]) == item
    with pytest.raises(ValueError, match="too deep"):
        values.ItemView(item)["a"]
