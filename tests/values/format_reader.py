"""A reader of item bytes written from docs/format-items.md alone, in plain Python.

It shares no code with dynalsm. Values come out as (tag, value) pairs: numbers as Decimal, sets as
sorted lists of members, maps as dicts in the order they are stored in.
"""

from __future__ import annotations

import itertools
from decimal import Context, Decimal
from typing import Any

import msgpack

WIDE = Context(prec=400)
SET_TAGS = {2: "SS", 3: "NS", 4: "BS"}


def read_number(data: bytes) -> tuple[Decimal, int]:
    """Return the number at the start of data, and its length."""
    if data[0] == 0x80:
        return Decimal(0), 1
    negative = data[0] < 0x80
    plain = bytes(0xFF - byte for byte in data) if negative else data
    position = 1
    if plain[0] in (0xFF, 0x81):
        exponent = plain[1] - 130
        position = 2
    else:
        exponent = plain[0] - 0xC0
    digits = ""
    while True:
        digits += f"{plain[position] // 2:02d}"
        position += 1
        if plain[position - 1] % 2 == 0:
            break
    number = WIDE.scaleb(Decimal(int(digits)), exponent - len(digits) + 1)
    return (WIDE.minus(number) if negative else number), position


def read_value(data: bytes) -> tuple[str, Any]:
    """Return the typed value of an encoded value."""
    return _typed(msgpack.unpackb(data, object_pairs_hook=_pairs, strict_map_key=False))


def read_item(data: bytes) -> dict[str, tuple[str, Any]]:
    """Return the typed values of an encoded item."""
    tag, pairs = read_value(data)
    assert tag == "M"
    return pairs


class _Pairs(list):
    """The pairs of a map, told apart from an array."""


def _pairs(pairs: list[tuple[Any, Any]]) -> _Pairs:
    return _Pairs(pairs)


def _typed(value: Any) -> tuple[str, Any]:
    if value is None:
        return "NULL", None
    if isinstance(value, bool):
        return "BOOL", value
    if isinstance(value, str):
        return "S", value
    if isinstance(value, bytes):
        return "B", value
    if isinstance(value, _Pairs):
        names = [name.encode() for name, _ in value]
        assert names == sorted(set(names))
        return "M", {name: _typed(member) for name, member in value}
    if isinstance(value, list):
        return "L", [_typed(member) for member in value]
    assert isinstance(value, msgpack.ExtType)
    if value.code == 1:
        number, length = read_number(value.data)
        assert length == len(value.data)
        return "N", number
    members = msgpack.Unpacker(max_buffer_size=len(value.data) + 1)
    members.feed(value.data)
    found = [_typed(member)[1] for member in members]
    assert found
    ordered = [member.encode() if isinstance(member, str) else member for member in found]
    assert all(a < b for a, b in itertools.pairwise(ordered))
    return SET_TAGS[value.code], found
