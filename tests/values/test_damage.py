"""Bytes on disk may be wrong: readers give CorruptionError, no crash, hang or huge allocation.

A read beyond the end would mostly go unnoticed here; these tests are also what an address-sanitizer
build runs (DYNALSM_SANITIZE=address in setup.py)."""

from __future__ import annotations

import contextlib
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dynalsm import errors, values
from dynalsm.model.keys import IndexKeys, TableKeys
from tests.values import strategies as some

ITEM = values.encode_item(
    {
        "pk": "partition",
        "sk": Decimal("12.5"),
        "l": ["x" * 40, b"\x00" * 300, {"a": None, "b": True}],
        "ns": frozenset(map(Decimal, range(20))),
        "ss": frozenset({"", "é", "z" * 32}),
        "bs": frozenset({b"", b"ab"}),
        "m": {str(i): Decimal(i) for i in range(20)},
        "t": "\U0001f600 text",
    }
)
TABLE = TableKeys("pk", "S", "sk", "N")
LOCAL = IndexKeys("LSI", TABLE, [("pk", "S")], [("t", "S")], ("ALL", ()))
GLOBAL = IndexKeys("GSI", TABLE, [("t", "S")], [("sk", "N"), ("pk", "S")], ("INCLUDE", ["m"]))
READERS = [
    *[values.decode_value, values.decode_native, values.decode_wire, values.json_text],
    *[values.decode_item, values.decode_native_item, values.decode_wire_item],
    *[values.json_item_text, values.item_size, values.value_size, values.type_of],
    *[values.attribute_names, values.decode_number],
    lambda data: dict(values.ItemView(data)),
    lambda data: values.ItemView(data).get("m"),
    lambda data: values.get_attribute(data, "m"),
    lambda data: values.select(data, ["m", "pk"]),
    lambda data: values.without(data, ["m", "pk"]),
    lambda data: values.merge(data, {"k": b"\xc0"}),
    lambda data: values.merge(b"\x80", {"k": data}),
    *[TABLE.encode, TABLE.encode_key, TABLE.strip, TABLE.record, TABLE.key_item],
    *[TABLE.stored_size, TABLE.partition_prefix],
    *[LOCAL.entry, LOCAL.key_item, LOCAL.table_key, LOCAL.encode_key],
    *[GLOBAL.entry, GLOBAL.key_item, GLOBAL.table_key, GLOBAL.encode_key, GLOBAL.partition_prefix],
    lambda data: TABLE.join(data, data),
    lambda data: TABLE.join(TABLE.encode(ITEM), data),
    lambda data: GLOBAL.join(GLOBAL.encode(ITEM) or b"", data),
    lambda data: TABLE.sort_range(b"prefix", "BETWEEN", [data, data]),
    lambda data: GLOBAL.sort_range(b"prefix", "begins_with", [data], [data]),
]


def read_all(data: bytes) -> None:
    for read in READERS:
        with contextlib.suppress(errors.CorruptionError, ValueError):  # the second: of numbers
            read(data)  # type: ignore[operator]


@given(st.binary(max_size=60))
@example(b"")
@example(b"\xdf\xff\xff\xff\xff")
@example(b"\xdd\xff\xff\xff\xff" + b"\xc0" * 50)
@example(b"\xdb\xff\xff\xff\xff")
@example(b"\xc9\xff\xff\xff\xff\x01")
@example(b"\xc6\xff\xff\xff\xff")
@example(b"\xc7\x00\x02")
@example(b"\xc7\x00\x01")
@example(b"\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x80")
def test_any_bytes(data: bytes) -> None:
    read_all(data)


def test_every_cut_of_an_item() -> None:
    for size in range(len(ITEM)):
        cut = ITEM[:size]
        for read in READERS[:4]:
            with pytest.raises(errors.CorruptionError):
                read(cut)  # type: ignore[operator]
        read_all(cut)
    for read in READERS[:10]:
        with pytest.raises(errors.CorruptionError, match="damaged"):
            read(ITEM + b"\xc0")  # type: ignore[operator]


def test_every_byte_of_an_item_changed() -> None:
    for position in range(len(ITEM)):
        for change in (0x01, 0x80, 0xFF, 0x40):
            read_all(ITEM[:position] + bytes([ITEM[position] ^ change]) + ITEM[position + 1 :])


def test_every_byte_of_keys_and_records_changed() -> None:
    for keys in (TABLE, LOCAL, GLOBAL):
        entry = (keys.encode(ITEM), TABLE.strip(ITEM)) if keys is TABLE else keys.entry(ITEM)
        assert entry is not None
        for which in (0, 1):
            data = entry[which]
            assert data is not None
            for position in range(len(data)):
                for change in (0x01, 0x80, 0xFF):
                    bad = bytes([data[position] ^ change])
                    damaged = data[:position] + bad + data[position + 1 :]
                    pair: Any = (damaged, entry[1]) if which == 0 else (entry[0], damaged)
                    with contextlib.suppress(errors.CorruptionError):
                        values.decode_item(keys.join(*pair))
                    with contextlib.suppress(errors.CorruptionError):
                        keys.key_item(pair[0])
            for size in range(len(data)):
                pair = (data[:size], entry[1]) if which == 0 else (entry[0], data[:size])
                with contextlib.suppress(errors.CorruptionError):
                    values.decode_item(keys.join(*pair))


@given(some.values, st.data())
def test_changed_values(value: Any, draw: Any) -> None:
    data = bytearray(values.encode_value(value))
    for _ in range(draw.draw(st.integers(1, 3))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    read_all(bytes(data))


def test_huge_counts_cost_nothing() -> None:
    # A count of four thousand million elements in a few bytes must not be believed.
    for head in (b"\xdd", b"\xdf"):
        for body in (b"", b"\xc0" * 100, b"\xa0\xc0" * 100):
            with pytest.raises(errors.CorruptionError, match="damaged"):
                values.decode_value(head + b"\xff\xff\xff\xf0" + body)


@pytest.mark.parametrize(
    "text",
    [
        *[
            b"\x80",
            b"\xc3",
            b"\xc0\x80",
            b"\xc1\xbf",
            b"\xe0\x80\x80",
            b"\xe0\x9f\xbf",
            b"\xed\xa0\x80",
        ],
        *[
            b"\xed\xbf\xbf",
            b"\xf0\x80\x80\x80",
            b"\xf0\x8f\xbf\xbf",
            b"\xf4\x90\x80\x80",
            b"\xf5\x80\x80\x80",
        ],
        *[b"\xff", b"\xe2\x82", b"\xf0\x9f\x98", b"\xe2\x28\xa1", b"abcdefgh\x80", b"abcdefg\xc3"],
    ],
)
def test_ill_formed_utf8_is_refused_by_all_readers(text: bytes) -> None:
    data = bytes([0xA0 | len(text)]) + text
    for read in (values.decode_value, values.decode_native, values.decode_wire, values.json_text):
        with pytest.raises(errors.CorruptionError):
            read(data)
        with pytest.raises(errors.CorruptionError):
            read(b"\x81" + data + b"\xc0")


def test_sets_hold_only_their_own_type() -> None:
    for ext, member in (
        (2, b"\xc4\x01a"),
        (3, b"\xa1a"),
        (4, b"\xa1a"),
        (2, b"\xc0"),
        (3, b"\x90"),
    ):
        data = bytes([0xC7, len(member), ext]) + member
        for read in (values.decode_value, values.decode_wire, values.json_text):
            with pytest.raises(errors.CorruptionError, match="damaged"):
                read(data)


def test_other_msgpack_types_are_refused() -> None:
    for data in (
        b"\x05",
        b"\xe0",
        b"\xcc\x05",
        b"\xcb" + bytes(8),
        b"\xc1",
        b"\xd4\x05\x00",
        b"\xd6\xff" + bytes(4),
    ):
        for read in (values.decode_value, values.type_of, values.value_size, values.json_text):
            with pytest.raises(errors.CorruptionError, match="damaged"):
                read(data)
    for data in (b"\x81\x05\xc0", b"\x81\xc0\xc0", b"\x81\xc4\x01a\xc0"):
        for read in (values.decode_item, values.attribute_names, values.json_item_text):
            with pytest.raises(errors.CorruptionError, match="damaged"):
                read(data)


def test_a_number_that_does_not_end_is_no_number_that_was_read_before() -> None:
    # The second byte's lowest bit was not looked at where Decimals of small numbers are kept.
    assert values.decode_value(values.encode_value(Decimal(17))) == 17
    whole = values.encode_value(Decimal(17))
    for read in (values.decode_value, values.decode_native, values.decode_wire, values.json_text):
        read(whole)
        with pytest.raises(errors.CorruptionError, match="damaged"):
            read(whole[:-1] + bytes([whole[-1] | 1]))
