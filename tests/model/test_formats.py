"""Formats of exports and imports: what is written is read back; Ion as others write it."""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import struct
from decimal import Decimal
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from dynalsm import values
from dynalsm.model import formats
from dynalsm.model.formats import (
    CSV,
    DYNAMODB_JSON,
    GZIP,
    ION,
    NONE,
    ZSTD,
    CsvOptions,
    ObjectProblem,
    Row,
    dynamodb_json,
    ion_items,
    ion_reader,
)
from dynalsm.model.formats.ion_binary import MARK
from dynalsm.model.formats.ion_reader import IonProblem, parse
from tests.values import strategies

WRITERS = {DYNAMODB_JSON: dynamodb_json, ION: ion_items}


def read(content: bytes, kind: str, compression: str = NONE, **csv: Any) -> list[Row]:
    return list(formats.read(io.BytesIO(content), kind, compression, CsvOptions(**csv)))


def items(rows: list[Row]) -> list[Any]:
    return [row.problem or values.decode_item(row.item) for row in rows]


@pytest.mark.parametrize("kind", list(WRITERS))
@given(item=strategies.items)
def test_every_item_is_read_back(kind: str, item: dict[str, Any]) -> None:
    encoded = values.encode_item(item)
    line = WRITERS[kind].item_line(encoded)
    assert line.count(b"\n") == 1
    (row,) = read(line, kind)
    assert row.problem is None
    assert row.item == encoded


@given(item=strategies.items)
def test_amazons_reader_reads_our_ion(item: dict[str, Any]) -> None:
    """The library from PyPI sees the values that went in."""
    ion = pytest.importorskip("amazon.ion.simpleion")
    text = ion_items.item_line(values.encode_item(item)).decode()
    read_back = plain(ion.loads(text))
    assert read_back == {"Item": comparable(item)}


@given(item=strategies.items)
def test_our_reader_reads_amazons_ion(item: dict[str, Any]) -> None:
    """What the library writes, prettily or not, is the item that went in."""
    ion = pytest.importorskip("amazon.ion.simpleion")
    value = {"Item": to_ion(item)}
    for indent in (None, "  "):
        text = ion.dumps(value, binary=False, indent=indent)
        (row,) = read(text.encode(), ION)
        assert row.problem is None, text
        assert values.decode_item(row.item) == item


@given(items=st.lists(strategies.items, min_size=1, max_size=4))
def test_our_reader_reads_amazons_binary_ion(items: list[dict[str, Any]]) -> None:
    ion = pytest.importorskip("amazon.ion.simpleion")
    content = b"".join(ion.dumps({"Item": to_ion(item)}, binary=True) for item in items)
    rows = read(content, ION)
    assert [row.problem for row in rows] == [None] * len(items)
    assert [values.decode_item(row.item) for row in rows] == items
    assert rows[-1].end_bytes == len(content)


def sized(head: bytes, body: bytes) -> bytes:
    return head + bytes((0x80 | len(body),)) + body


def binary(*parts: bytes) -> bytes:
    """An object of a symbol table (10 Item, 11 p, 12 n, 13 s, 14 $dynamodb_SS) and records."""
    names = b"".join(bytes((0x80 | len(name),)) + name for name in NAMES)
    table = sized(b"\xde", b"\x87" + sized(b"\xbe", names))
    return MARK + sized(b"\xee", b"\x81\x83" + table) + b"".join(parts)


NAMES = (b"Item", b"p", b"n", b"s", b"$dynamodb_SS")


def record(*members: bytes) -> bytes:
    return sized(b"\xde", b"\x8a" + sized(b"\xde", b"".join(members)))


P = b"\x8b\x81a"  # p: "a"


def test_binary_ion_by_the_book() -> None:
    """Padding, nulls, numbers of every kind, annotated sets, a table that goes on."""
    members = (
        P,
        b"\x8c\x52\xc1\x0f",  # n: 15d-1
        b"\x8d\xe5\x81\x8e\xb2\x81x",  # s: $dynamodb_SS::["x"]
    )
    more = sized(b"\xee", b"\x81\x83" + sized(b"\xde", b"\x86\x71\x03\x87\xb2\x81q"))
    content = binary(
        record(*members),
        b"\x02\0\0",  # padding
        record(P, b"\x8c\x0f", b"\x8d\x01\0"),  # n: null, and padding with a name
        record(P, b"\x8c\x21\x07", b"\x8d\x31\x07"),
        record(P, b"\x8c\x48" + struct.pack(">d", 2.5), b"\x8d\x40"),
        record(P, b"\x8c\x50", b"\x8d\x53\xc2\x81\x2c"),
        more,
        record(P, b"\x8f\x11"),
    )
    rows = read(content, ION)
    assert [row.problem for row in rows] == [None] * 6
    assert [values.decode_item(row.item) for row in rows] == [
        {"p": "a", "n": Decimal("1.5"), "s": frozenset({"x"})},
        {"p": "a", "n": None},
        {"p": "a", "n": Decimal(7), "s": Decimal(-7)},
        {"p": "a", "n": Decimal("2.5"), "s": Decimal(0)},
        {"p": "a", "n": Decimal(0), "s": Decimal("-3")},
        {"p": "a", "q": True},
    ]


@pytest.mark.parametrize(
    ("member", "text"),
    [
        (b"\x8c\x60", "timestamp"),
        (b"\x8c\x71\x0b", "symbol"),
        (b"\x8c\x90", "clob"),
        (b"\x8c\xc0", "s-expression"),
        (b"\x8c\x1f", "null of a type"),
        (b"\x8c\x12", "0 or 1"),
        (b"\xff\x11", "not defined"),
        (P, "twice"),
        (b"\x8c\x81\xff", "utf-8"),
        (b"\x8c\x44\x7f\xc0\0\0", "nan"),
        (b"\x8c\xb2\x82x", "longer"),
        (b"\x8c\xe5\x81\x8e\xb2\x21\x07", "one type"),
        (b"\x8c\xf0", "type 15"),
    ],
)
def test_a_bad_binary_record_costs_only_itself(member: bytes, text: str) -> None:
    bad, good = read(binary(record(P, member), record(P)), ION)
    assert bad.problem is not None
    assert text.lower() in str(bad.problem).lower()
    assert values.decode_item(good.item) == {"p": "a"}


def test_shared_symbol_tables_are_refused() -> None:
    imports = sized(b"\xde", b"\x86\xb2\xd1\x80" + b"\x87\xb0")
    bad = read(MARK + sized(b"\xee", b"\x81\x83" + imports), ION)
    assert "shared symbol tables" in str(bad[0].problem)


def test_damaged_binary_ion_is_told() -> None:
    """Whatever bytes change, reading ends in rows, problems of rows, or one of the object."""
    chance = random.Random(5)
    whole = binary(*(record(P, b"\x8c\x52\xc1\x0f") for _ in range(5)))
    for _ in range(2000):
        content = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            content[chance.randrange(4, len(content))] = chance.randrange(256)
        try:
            read(bytes(content), ION)
        except ObjectProblem:
            continue


def comparable(value: Any) -> Any:
    """An internal value as `plain` shows it: sets as a pair of annotation and sorted members."""
    if isinstance(value, frozenset):
        kind = {str: "SS", Decimal: "NS", bytes: "BS"}[type(next(iter(value)))]
        return (f"$dynamodb_{kind}", sorted(value))
    if isinstance(value, dict):
        return {name: comparable(each) for name, each in value.items()}
    if isinstance(value, list):
        return [comparable(each) for each in value]
    return value


def plain(value: Any) -> Any:
    annotations = [each.text for each in getattr(value, "ion_annotations", ())]
    kind = getattr(value, "ion_type", None)
    if kind is not None and kind.name == "NULL":
        return None
    if isinstance(value, Decimal):
        return Decimal(value)
    if kind is not None and kind.name == "BOOL":
        return bool(value)
    if isinstance(value, (str, bytes)):
        return type(value)(value) if isinstance(value, bytes) else str(value)
    if hasattr(value, "items"):
        return {name: plain(each) for name, each in value.items()}
    members = [plain(each) for each in value]
    return (annotations[0], sorted(members)) if annotations else members


def to_ion(value: Any) -> Any:
    if isinstance(value, frozenset):
        from amazon.ion.core import IonType
        from amazon.ion.simple_types import IonPyList

        (kind,) = {{str: "SS", Decimal: "NS", bytes: "BS"}[type(each)] for each in value}
        return IonPyList.from_value(IonType.LIST, list(value), (f"$dynamodb_{kind}",))
    if isinstance(value, dict):
        return {name: to_ion(each) for name, each in value.items()}
    if isinstance(value, list):
        return [to_ion(each) for each in value]
    return value


def test_the_text_of_an_item() -> None:
    """As in AWS's documentation: decimals have a point, names are symbols."""
    item = {
        "Authors": frozenset({"Author1", "Author2"}),
        "Id": Decimal(103),
        "Price": Decimal("2.50"),
        "InPublication": False,
        "a b": b"hi",
        "null": None,
        "L": [Decimal(10) ** 20, {"x": 'q"\n'}],
    }
    assert ion_items.item_line(values.encode_item(item)) == (
        b'$ion_1_0 {Item:{Authors:$dynamodb_SS::["Author1","Author2"],Id:103.,InPublication:false,'
        b"L:[100000000000000000000.,{x:\"q\\\"\\n\"}],Price:2.5,'a b':{{aGk=}},'null':null}}\n"
    )
    assert json.loads(dynamodb_json.item_line(values.encode_item({"a": Decimal(1)}))) == {
        "Item": {"a": {"N": "1"}}
    }


def test_the_text_of_a_change() -> None:
    keys, old, new = (values.encode_item({"p": "k", **more}) for more in ({}, {"a": "1"}, {}))
    assert dynamodb_json.change_line(keys, old, new, 12) == (
        b'{"Metadata":{"WriteTimestampMicros":{"N":"12"}},"Keys":{"p":{"S":"k"}},'
        b'"OldImage":{"a":{"S":"1"},"p":{"S":"k"}},"NewImage":{"p":{"S":"k"}}}\n'
    )
    assert ion_items.change_line(keys, None, new, 12) == (
        b'$ion_1_0 {Metadata:{WriteTimestampMicros:12.},Keys:{p:"k"},NewImage:{p:"k"}}\n'
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1_000", Decimal(1000)),
        ("-0x1F", Decimal(-31)),
        ("0b101", Decimal(5)),
        ("12.5d-1", Decimal("1.25")),
        ("12.e2", Decimal(1200)),
        ("'''long ''' /* and */ '''er'''", "long er"),
        ("'''two\r\nlines'''", "two\nlines"),
        (
            r'"\x41\u00e9\U0001F600\ud83d\ude00\t\
"',
            "Aé😀😀\t",
        ),
        ("{{ aGVs\n bG8= }}", b"hello"),
        ("null.string", None),
        ("some::annotation::[1, 2,]", [Decimal(1), Decimal(2)]),
        ("$dynamodb_NS::[1,2.]", frozenset({Decimal(1), Decimal(2)})),
        ("'$dynamodb_BS'::[{{}}]", frozenset({b""})),
        ("{'a\\'b': 1, \"c\": true, d // comment\n : {}}", {"a'b": 1, "c": True, "d": {}}),
    ],
)
def test_ion_that_others_write(text: str, value: Any) -> None:
    assert parse(text) == [value]
    assert parse(f"$ion_1_0 {text}") == [value]


@pytest.mark.parametrize(
    "text",
    [
        "symbol",
        "2020-01-01T",
        '{{"clob"}}',
        "(1 2)",
        "{a:1 b:2}",
        "{a:1, a:2}",
        "[1 2]",
        '$dynamodb_SS::["a", 1]',
        '$dynamodb_SS::["a", "a"]',
        "{{%%}}",
        "1.2.3",
        "nan",
        r'"\q"',
        r'"\ud83d"',
        "[" * 100,
        "9e999",
    ],
)
def test_what_is_no_attribute_value_in_ion(text: str) -> None:
    with pytest.raises((IonProblem, values.ValueProblem)):
        parse(text)


def test_ion_records_over_several_lines_and_several_in_one() -> None:
    content = b"""$ion_1_0
{
  Item: {
    p: "a",  // }
    m: {
      x: 1
    }
  }
} {Item:{p:"b"}}
nonsense
{Item:{p:"c"}} {Other:{}}

{Item:{p:"d"}}"""
    rows = read(content, ION)
    found = items(rows)
    assert [row.index for row in rows] == list(range(6))
    assert [found[number]["p"] for number in (0, 1, 3, 5)] == ["a", "b", "c", "d"]
    assert isinstance(found[2], IonProblem)
    assert "no member" in str(found[4])


def test_objects_that_break_off() -> None:
    for content, text in (
        (b'{Item:{p:"a"}}\n{Item:{p:', "does not end"),
        (b"\xe0\x01\x00\xea\xd4", "does not end"),
        (b"\xe0\x01\x00\xea\xde", "does not end"),
        (b"\xe0\x01\x00\xea\xe0\x02\x00\xea", "unknown version"),
        (b"\xe0\x01\x00\xea\xde\x7f\x7f\x7f\xff", "exceeds"),
        (b"\xe0\x01\x00\xea\xde\0\0\0\0\0\0", "exceeds"),
    ):
        with pytest.raises(ObjectProblem, match=text):
            read(content, ION)
    whole = gzip.compress(b'{"Item":{"p":{"S":"a"}}}\n' * 3)
    with pytest.raises(ObjectProblem, match="cannot be read"):
        read(whole[:-10], DYNAMODB_JSON, GZIP)
    with pytest.raises(ObjectProblem, match="cannot be read"):
        read(b"not compressed", DYNAMODB_JSON, ZSTD)


def test_compressed_objects_of_several_parts() -> None:
    """Members of gzip and frames of zstd follow each other, as tools that append make them."""
    lines = [b'{"Item":{"p":{"S":"a"}}}\n', b'{"Item":{"p":{"S":"b"}}}']
    for compression, compress in ((GZIP, gzip.compress), (ZSTD, zstandard.compress)):
        content = b"".join(map(compress, lines))
        assert items(read(content, DYNAMODB_JSON, compression)) == [{"p": "a"}, {"p": "b"}]
    assert read(b"", DYNAMODB_JSON, GZIP) == read(b"", DYNAMODB_JSON, ZSTD) == []


def test_json_records_that_are_no_items() -> None:
    rows = read(b'\n{"Item":{"p":{"S":1}}}\nnope\n[]\n{"Item":{"p":{"N":"x"}}}\n', DYNAMODB_JSON)
    assert [row.index for row in rows] == [0, 1, 2, 3]
    assert all(row.problem is not None for row in rows)
    assert "no JSON" in str(rows[1].problem)


def test_conditions_come_with_records() -> None:
    record = {
        "Item": {"p": {"S": "a"}},
        "ConditionExpression": "#n = :v",
        "ExpressionAttributeNames": {"#n": "x"},
        "ExpressionAttributeValues": {":v": {"N": "1.0"}},
    }
    ion = (
        b'{Item:{p:"a"},ConditionExpression:"#n = :v",ExpressionAttributeNames:{\'#n\':"x"},'
        b"ExpressionAttributeValues:{':v':1.0}}"
    )
    for kind, content in ((DYNAMODB_JSON, json.dumps(record).encode()), (ION, ion)):
        (row,) = read(content, kind)
        assert row.condition == formats.Condition("#n = :v", {"#n": "x"}, {":v": Decimal(1)})


# CSV.


def test_csv_with_a_header_line() -> None:
    content = '\ufeffp,s,"a ""b"""\r\nx,1.50,"two\nlines"\r\n\r\ny,2,\r\nz,3\r\n'.encode()
    found = items(read(content, CSV, types={"p": "S", "s": "N"}))
    assert found == [
        {"p": "x", "s": Decimal("1.5"), 'a "b"': "two\nlines"},
        {"p": "y", "s": Decimal(2), 'a "b"': ""},
        {"p": "z", "s": Decimal(3)},
    ]


def test_csv_with_a_given_header_and_delimiter() -> None:
    content = b"x\taGk=\ny\t!\nz\taGk=\tmore\n"
    rows = read(content, CSV, delimiter="\t", header=("p", "b"), types={"b": "B"})
    assert items(rows[:1]) == [{"p": "x", "b": b"hi"}]
    assert "no base64" in str(rows[1].problem)
    assert re.search("3 fields.*2", str(rows[2].problem))


def test_csv_that_is_none() -> None:
    with pytest.raises(ObjectProblem, match="UTF-8"):
        read(b"p\n\xff\n", CSV)
    with pytest.raises(ObjectProblem, match="twice"):
        read(b"p,p\n1,2\n", CSV)


def test_csv_whose_quotes_do_not_match() -> None:
    rows = read(b'p,q\nw,1\n"x"y,2\nz,3\n"v,4\nu,5\n', CSV)
    assert items([row for row in rows if not row.problem]) == [
        {"p": "w", "q": "1"},
        {"p": "z", "q": "3"},
    ]
    problems = [str(row.problem) for row in rows if row.problem]
    assert ["expected after" in problems[0], "unexpected end" in problems[1]] == [True, True]
    assert len(problems) == 2
    with pytest.raises(ObjectProblem, match="unexpected end"):
        read(b'"p,q\nw,1\n', CSV)


def test_depth_is_limited() -> None:
    deep = "[" * (ion_reader.DEPTH_MAX + 2) + "]" * (ion_reader.DEPTH_MAX + 2)
    with pytest.raises(IonProblem, match="deeper"):
        parse(deep)
    (row,) = read(f"{{Item:{{p:{'[' * 33 + ']' * 33}}}}}".encode(), ION)
    assert isinstance(row.problem, values.ValueProblem)


def test_conditions_beside_items_that_are_none() -> None:
    # Each is the fault of one record, not of the whole load.
    item = '"Item":{"p":{"S":"x"}},"ConditionExpression":'
    lines = [
        f'{{{item}1}}', f'{{{item}"p = :v","ExpressionAttributeValues":[1]}}',
        f'{{{item}"#p = p","ExpressionAttributeNames":{{"#p":1}}}}', f'{{{item}"p = p"}}',
    ]  # fmt: skip
    rows = read("\n".join(lines).encode(), DYNAMODB_JSON)
    assert [str(row.problem) for row in rows] == [
        "ConditionExpression is no text", "ExpressionAttributeValues is no map of values",
        "ExpressionAttributeNames is no map of names", "None",
    ]  # fmt: skip
    (row,) = read(b'$ion_1_0 {Item:{p:"x"},ConditionExpression:[1]}\n', ION)
    assert str(row.problem) == "ConditionExpression is no text"


def test_numbers_of_ion_with_more_digits_than_any_attribute() -> None:
    # Python refuses to print integers of more than 4,300 digits, in an error of its own.
    (row,) = read(b"{Item:{p:0x" + b"f" * 6000 + b"}}\n", ION)
    assert isinstance(row.problem, IonProblem)
    for kind, body in ((b"\x2e", b"\xff" * 100), (b"\x5e", b"\x01" * 20), (b"\x5e", b"\x80" * 99)):
        (row,) = read(binary(record(b"\x8b" + sized(kind, body))), ION)
        assert isinstance(row.problem, IonProblem), row
    (row,) = read(binary(record(b"\x8b" + sized(b"\x2e", bytes(90) + b"\x05"))), ION)
    assert values.decode_item(row.item) == {"p": 5}
    (row,) = read(binary(b"\xde\x8c\x8a\xde\x89" + bytes(9)), ION)  # a field's number never ends
    assert isinstance(row.problem, IonProblem)
