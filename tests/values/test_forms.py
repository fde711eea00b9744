"""Wire, JSON and native forms: what goes in, what comes out, what is refused. Against boto3,
orjson and base64 as they are."""

from __future__ import annotations

import base64
import enum
from collections import OrderedDict, UserDict
from collections.abc import Mapping
from decimal import Decimal, Underflow
from typing import Any

import orjson
import pytest
from boto3.dynamodb.types import Binary as BotoBinary
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from hypothesis import given
from hypothesis import strategies as st

from dynalsm import values
from dynalsm.values import JSON, NATIVE, WIRE, Binary, SerializationProblem, ValueProblem
from tests.values import strategies as some


@given(some.items)
def test_every_form_comes_back_as_it_went_in(item: dict[str, Any]) -> None:
    data = values.encode_item(item)
    for form in (WIRE, NATIVE):
        try:
            form.encode_item(form.decode_item(data))
        except Underflow:  # boto3's rule: no digit behind 1E-165
            continue
        assert form.encode_item(form.decode_item(data)) == data
        for name, value in form.decode_item(data).items():
            assert form.decode_value(form.encode_value(value)) == value, name
    text = orjson.dumps(JSON.decode_item(data))
    assert values.encode_json_item(orjson.loads(text)) == data
    for name in item:
        one = values.get_attribute(data, name)
        assert one is not None
        assert JSON.encode_value(orjson.loads(orjson.dumps(JSON.decode_value(one)))) == one


def as_json(value: Any) -> Any:
    """Wire form to JSON form."""
    if isinstance(value, dict):
        return {name: as_json(member) for name, member in value.items()}
    if isinstance(value, list):
        return [as_json(member) for member in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


@given(some.items)
def test_json_text_is_that_of_the_wire_form(item: dict[str, Any]) -> None:
    data = values.encode_item(item)
    assert orjson.loads(values.json_item_text(data)) == as_json(values.decode_wire_item(data))
    # Byte for byte what orjson writes (one difference is allowed: DEL is no control character).
    assert values.json_item_text(data) == orjson.dumps(as_json(values.decode_wire_item(data)))


@given(st.text())
def test_json_strings(text: str) -> None:
    expected = b'{"S":' + orjson.dumps(text) + b"}"
    assert values.json_text(values.encode_value(text)) == expected


def test_json_escapes_of_every_character_at_every_offset() -> None:
    # Eight bytes are looked at together: each special character at each place of such a word.
    for code in [
        *range(0x100),
        0x7FF,
        0x800,
        0xD7FF,
        0xE000,
        0xFFFD,
        0xFFFF,
        0x10000,
        0x10FFFF,
    ]:
        for before in range(9):
            for after in (0, 7, 8):
                text = "x" * before + chr(code) + "y" * after
                expected = b'{"S":' + orjson.dumps(text) + b"}"
                assert values.json_text(values.encode_value(text)) == expected


@given(st.binary(max_size=200))
def test_base64(data: bytes) -> None:
    text = base64.b64encode(data).decode()
    assert values.encode_json({"B": text}) == values.encode_value(data)
    assert values.json_text(values.encode_value(data)) == b'{"B":"%s"}' % text.encode()


@given(st.text(alphabet="AQgw+/=_- \n", max_size=12))
def test_base64_is_strict(text: str) -> None:
    try:
        expected: bytes | None = base64.b64decode(text, validate=True)
        # Python forgives bits behind the end; DynamoDB does not.
        if base64.b64encode(expected or b"").decode() != text:
            expected = None
    except ValueError:
        expected = None
    if expected is None:
        with pytest.raises(SerializationProblem):
            values.encode_json({"B": text})
    else:
        assert values.encode_json({"B": text}) == values.encode_value(expected)


def test_wire_takes_what_botocore_takes() -> None:
    data = values.encode_value(b"ab")
    for blob in (
        b"ab",
        bytearray(b"ab"),
        memoryview(b"ab"),
        "ab",
        Binary(b"ab"),
        BotoBinary(b"ab"),
    ):
        assert values.encode_wire({"B": blob}) == data
    assert values.encode_wire({"BS": [b"b", bytearray(b"a")]}) == values.encode_value(
        frozenset({b"a", b"b"})
    )
    assert values.encode_wire({"L": ({"S": "a"},)}) == values.encode_value(["a"])
    assert values.encode_wire_item(OrderedDict(b={"S": "1"}, a={"S": "2"})) == values.encode_item(
        {"a": "2", "b": "1"}
    )


def test_unknown_tags_and_null_members_are_dropped() -> None:
    assert values.encode_json({"S": "a", "X": 1, "N": None}) == values.encode_value("a")
    for empty in ({}, {"X": "1"}, {"S": None}, {"S": None, "N": None}, {"ss": ["a"]}, {"": 1}):
        with pytest.raises(ValueProblem) as caught:
            values.encode_json(empty)
        assert caught.value.kind == "no_type"
    with pytest.raises(ValueProblem) as caught:
        values.encode_json({"S": "a", "N": "1", "X": 1})
    assert caught.value.kind == "many_types"


def test_requests_are_not_modified() -> None:
    item = {"b": {"L": [{"B": b"x"}]}, "a": {"SS": ["z", "a"]}}
    copy = {"b": {"L": [{"B": b"x"}]}, "a": {"SS": ["z", "a"]}}
    values.encode_wire_item(item)
    assert item == copy
    assert list(item) == ["b", "a"]


# ---- native: the same as boto3 ----


class Color(enum.IntEnum):
    RED = 3


class Name(enum.StrEnum):
    JANE = "jane"


class SubBinary(BotoBinary):
    pass


NATIVE_VALUES: list[Any] = [
    *["", "é", 0, -5, 10**37, Decimal("1.50"), Decimal("1E+3"), True, False, None],
    *[b"x", bytearray(b"x"), BotoBinary(b"x"), BotoBinary(bytearray(b"x")), SubBinary(b"x")],
    *[{"a"}, frozenset({1, Decimal(2)}), {b"x", b"y"}, {BotoBinary(b"x")}, {Binary(b"x")}, {True}],
    *[[], [1, "a"], (1, 2), {}, {"a": {"b": [None]}}, OrderedDict(b=1, a=2), UserDict(a=1)],
    *[
        Color.RED,
        Name.JANE,
        {Color.RED},
        {Name.JANE},
        {"a": {1, 2}}.values().mapping,
        {"k": 1}.keys(),
    ],
    *[Decimal("1E-130"), Decimal("9.99E+125"), Decimal("-0"), Decimal("0E-100"), Decimal("0E+38")],
    *[Decimal("1" * 38), Decimal("1E+37"), 123456789012345678901234567890],
]
NATIVE_REFUSED: list[Any] = [
    *[1.5, float("nan"), [1.5], {"a": 1.5}, {1.5}, {1, 1.5}, {"a", 1}, {"a", b"a"}, {None}],
    *[object(), memoryview(b"x"), 1j, range(3), {(1, 2)}, {"a": object()}, iter([])],
    *[Decimal("NaN"), Decimal("Infinity"), {Decimal("Infinity")}],
    *[10**40, 10**38, Decimal("1" * 39), Decimal("1." + "0" * 38), {10**40}, -(10**300)],
    *[
        Decimal("1E+127"),
        Decimal("0E+300"),
        Decimal("0E-400"),
        Decimal("1.1E-166"),
        Decimal("1E+400"),
    ],
]


@pytest.mark.parametrize("value", NATIVE_VALUES, ids=repr)
def test_native_takes_what_boto3_takes(value: Any) -> None:
    assert values.encode_native(value) == values.encode_wire(TypeSerializer().serialize(value))
    assert values.encode_native_item({"a": value}) == values.encode_wire_item(
        {"a": TypeSerializer().serialize(value)}
    )


@pytest.mark.parametrize("value", NATIVE_REFUSED, ids=repr)
def test_native_refuses_what_boto3_refuses(value: Any) -> None:
    with pytest.raises(Exception) as theirs:
        TypeSerializer().serialize(value)
    with pytest.raises(Exception) as ours:
        values.encode_native(value)
    assert type(ours.value) is type(theirs.value)
    if "object at" not in str(theirs.value) and "decimal" not in str(theirs.value):
        assert str(ours.value) == str(theirs.value)


def test_numbers_that_boto3_sends_and_dynamodb_refuses() -> None:
    for number, kind in ((Decimal("1E+126"), "overflow"), (Decimal("1E-131"), "underflow")):
        TypeSerializer().serialize(number)
        with pytest.raises(ValueProblem) as caught:
            values.encode_native(number)
        assert caught.value.kind == "number_" + kind
    with pytest.raises(ValueProblem) as caught:
        values.encode_native(set())
    assert str(caught.value).endswith("An number set  may not be empty")


@given(some.numbers)
def test_native_numbers_by_boto3(number: Decimal) -> None:
    try:
        expected = TypeSerializer().serialize(number)
    except Exception as problem:
        with pytest.raises(type(problem)):
            values.encode_native(number)
    else:
        assert values.encode_native(number) == values.encode_wire(expected)


def test_native_names_must_be_text() -> None:
    for bad in ({1: "a"}, {b"a": 1}, {None: 1}):
        with pytest.raises(TypeError, match="attribute name"):
            values.encode_native_item(bad)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="attribute name"):
            values.encode_native(bad)
    with pytest.raises(TypeError):
        values.encode_native_item(["a"])  # type: ignore[arg-type]


@given(some.items)
def test_native_comes_out_as_boto3_gives_it(item: dict[str, Any]) -> None:
    data = values.encode_item(item)
    ours = values.decode_native_item(data)
    wire = values.decode_wire_item(data)
    try:
        theirs = {name: TypeDeserializer().deserialize(value) for name, value in wire.items()}
    except Exception:
        # boto3 cannot read numbers of more than 38 written digits ("1E125" as DynamoDB sends it).
        return
    assert ours == theirs
    assert theirs == ours
    assert kinds(ours) == kinds(theirs)


def kinds(value: Any) -> Any:
    """The types inside a value; numbers with their written form."""
    if isinstance(value, Mapping):
        return {name: kinds(member) for name, member in value.items()}
    if isinstance(value, list):
        return [kinds(member) for member in value]
    if isinstance(value, set):
        return "set", {kinds(member) for member in value}
    return value.as_tuple() if isinstance(value, Decimal) else type(value).__name__


def test_dicts_that_change_while_they_are_encoded() -> None:
    # Encoding a foreign object may run Python code; what it does to the dict must not crash.
    victim: dict[str, Any] = {f"a{i}": i for i in range(40)}

    class Evil(BotoBinary):
        @property
        def value(self) -> bytes:  # type: ignore[override]
            victim.clear()
            return b"x"

        @value.setter
        def value(self, new: bytes) -> None:
            pass

    victim["a"] = Evil(b"x")
    decoded = values.decode_native_item(values.encode_native_item(victim))
    assert decoded["a"] == b"x"
    assert len(decoded) == 41
    items: list[Any] = ["a", None, "c", "d"]

    class EvilList(BotoBinary):
        @property
        def value(self) -> bytes:  # type: ignore[override]
            items.clear()
            return b"x"

        @value.setter
        def value(self, new: bytes) -> None:
            pass

    items[1] = EvilList(b"x")
    with pytest.raises(RuntimeError, match="changed size"):
        values.encode_native(items)


# ---- Binary ----


def test_binary_is_like_boto3s() -> None:
    ours, theirs = Binary(b"ab"), BotoBinary(b"ab")
    assert ours == theirs
    assert theirs == ours
    assert ours == b"ab"
    assert b"ab" == ours  # noqa: SIM300
    assert not ours != theirs  # noqa: SIM202
    assert ours != BotoBinary(b"ac")
    assert ours != "ab"
    assert hash(ours) == hash(theirs) == hash(b"ab")
    assert {ours, theirs, b"ab"} == {b"ab"}
    assert type(ours.value) is bytes
    assert bytes(ours) == ours.value == b"ab"
    assert repr(ours) == repr(theirs)
    assert TypeSerializer().serialize(ours) == {"B": b"ab"}
    for bad in ("ab", 3, None):
        with pytest.raises(TypeError) as mine:
            Binary(bad)  # type: ignore[arg-type]
        with pytest.raises(TypeError) as its:
            BotoBinary(bad)
        assert str(mine.value) == str(its.value)
