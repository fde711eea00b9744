"""The canonical encoding: round trips, canonical bytes, sizes, cutting and joining, ItemView."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalsm import errors, values
from dynalsm.values import ValueProblem
from dynalsm.values.codec import _probe
from tests.values import format_reader
from tests.values import strategies as some

PAGE = Path(__file__).parents[2] / "docs" / "format-items.md"


def tagged(value: Any) -> tuple[str, Any]:
    """The (tag, value) that the reader of the format page gives for an internal value."""
    if isinstance(value, dict):
        return "M", {name: tagged(member) for name, member in value.items()}
    if isinstance(value, list):
        return "L", [tagged(member) for member in value]
    if isinstance(value, frozenset):
        first = next(iter(value))
        tag = "SS" if isinstance(first, str) else "BS" if isinstance(first, bytes) else "NS"
        key = str.encode if tag == "SS" else None
        return tag, sorted(value, key=key)  # type: ignore[arg-type]
    if isinstance(value, bool):
        return "BOOL", value
    tags = {str: "S", Decimal: "N", bytes: "B", type(None): "NULL"}
    return tags[type(value)], value


def reference(value: Any) -> bytes:
    """The canonical encoding by the msgpack package; numbers come from encode_number."""
    tag, plain = tagged(value)
    if tag == "M":
        out = msgpack.Packer().pack_map_header(len(value))
        for name in sorted(value, key=str.encode):
            out += msgpack.packb(name) + reference(value[name])
        return out
    if tag == "L":
        return msgpack.Packer().pack_array_header(len(value)) + b"".join(map(reference, value))
    if tag == "N":
        return msgpack.packb(msgpack.ExtType(1, values.encode_number(value)))
    if tag in ("SS", "NS", "BS"):
        body = b"".join(map(reference, plain))
        return msgpack.packb(msgpack.ExtType({"SS": 2, "NS": 3, "BS": 4}[tag], body))
    return msgpack.packb(value)


def reference_size(value: Any) -> int:
    tag = tagged(value)[0]
    if tag == "M":
        return 3 + sum(
            1 + len(name.encode()) + reference_size(member) for name, member in value.items()
        )
    if tag == "L":
        return 3 + sum(1 + reference_size(member) for member in value)
    if tag in ("SS", "NS", "BS"):
        return sum(map(reference_size, value))
    if tag == "S":
        return len(value.encode())
    if tag == "B":
        return len(value)
    return values.value_size(values.encode_value(value)) if tag == "N" else 1


@given(some.values)
def test_round_trip_and_canonical_bytes(value: Any) -> None:
    data = values.encode_value(value)
    assert values.decode_value(data) == value
    assert data == reference(value)
    assert format_reader.read_value(data) == tagged(value)
    assert values.type_of(data) == tagged(value)[0]
    assert values.value_size(data) == reference_size(value)


@given(some.items)
def test_items(item: dict[str, Any]) -> None:
    data = values.encode_item(item)
    assert values.decode_item(data) == item
    assert values.item_size(data) == sum(
        len(name.encode()) + reference_size(value) for name, value in item.items()
    )
    assert values.attribute_names(data) == sorted(item, key=str.encode)
    assert format_reader.read_item(data) == {name: tagged(value) for name, value in item.items()}


@given(some.items, st.randoms())
def test_order_of_names_and_members_does_not_matter(item: dict[str, Any], random: Any) -> None:
    shuffled = list(item.items())
    random.shuffle(shuffled)
    assert values.encode_item(dict(shuffled)) == values.encode_item(item)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 23, 24, 25, 31, 32, 255, 256, 65535, 65536, 70000])
def test_headers_at_their_limits(size: int) -> None:
    for value in ("x" * size, b"x" * size, [None] * size, {f"{i:05}": True for i in range(size)}):
        data = values.encode_value(value)
        assert values.decode_value(data) == value
        assert data == reference(value)
    if size:
        members = frozenset(f"{i:05}" for i in range(size))
        for some_set in (
            members,
            frozenset(map(str.encode, members)),
            frozenset(map(Decimal, members)),
        ):
            data = values.encode_value(some_set)
            assert values.decode_value(data) == some_set
            assert data == reference(some_set)


def test_ext_headers_of_every_length() -> None:
    for size in range(300):
        data = values.encode_value(frozenset({b"x" * size}))
        assert data == reference(frozenset({b"x" * size}))


def test_names_sort_by_utf8_not_by_utf16() -> None:
    names = ["", "\uffff", "\U00010000", "z", "é", "a\0", "a", "ab", "a" * 9, "a" * 8 + "\0"]
    data = values.encode_value(dict.fromkeys(names))
    assert values.attribute_names(data) == sorted(names, key=str.encode)
    members = values.decode_wire(values.encode_wire({"SS": names}))["SS"]
    assert members == sorted(names, key=str.encode)


def test_sizes_of_the_reference() -> None:
    for item, size in (
        ({"pk": "a"}, 3),
        ({"pk": "a", "n": Decimal(123456)}, 8),
        ({"pk": "a", "l": ["xy", Decimal(1)]}, 13),
        ({"pk": "a", "m": {"k": True}}, 10),
        ({"pk": "a", "ss": frozenset({"ab", "c"})}, 8),
        ({"pk": "a", "z": None}, 5),
        ({"pk": "é"}, 4),
        ({"shirt-color": "R", "shirt-size": "M"}, 23),
        ({}, 0),
    ):
        assert values.item_size(values.encode_item(item)) == size


def test_examples_of_the_format_page() -> None:
    d = Decimal
    page = PAGE.read_text()
    for value in (
        *["", "é", b"\x00\xff", True, None, d(5), d("12.5"), ["a", d(1)], {"b": d(1), "a": "x"}],
        *[frozenset("ab"), frozenset({d("-0.5"), d(2), d(10)}), frozenset({b"", b"a"})],
    ):
        assert f"| `{values.encode_value(value).hex(' ')}` |" in page
    section = page[page.index("## 2.") : page.index("## 3.")]
    found = 0
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        for text, shown in itertools.pairwise(cells):
            if shown.startswith("`") and text[:1] in "-0123456789":
                assert values.encode_number(values.parse_number(text)).hex(" ") == shown.strip("`")
                found += 1
    assert found == 18


# ---- cutting and joining ----


@given(some.items, st.lists(some.names, max_size=5), st.randoms())
def test_cutting(item: dict[str, Any], extra: list[str], random: Any) -> None:
    data = values.encode_item(item)
    named = extra + [name for name in item if random.random() < 0.5]
    random.shuffle(named)
    kept = {name: item[name] for name in item if name in named}
    rest = {name: item[name] for name in item if name not in named}
    assert values.select(data, named) == values.encode_item(kept)
    assert values.without(data, iter(named)) == values.encode_item(rest)


@given(some.items, some.items)
def test_merging(item: dict[str, Any], more: dict[str, Any]) -> None:
    pairs = {name: values.encode_value(value) for name, value in more.items()}
    merged = values.merge(values.encode_item(item), pairs)
    assert merged == values.encode_item(item | more)
    assert values.item_from_pairs(pairs) == values.encode_item(more)


@given(some.items)
def test_get_attribute(item: dict[str, Any]) -> None:
    data = values.encode_item(item)
    for name, value in item.items():
        assert values.get_attribute(data, name) == values.encode_value(value)
        assert values.get_attribute(data, name + "x") == (
            values.encode_value(item[name + "x"]) if name + "x" in item else None
        )
    assert values.get_attribute(data, "\ud800") is None


def test_merge_refuses_what_is_no_encoded_value() -> None:
    for bad in (b"", b"\xa5abc", b"\xa1a\xa1b"):
        with pytest.raises(errors.CorruptionError, match="damaged"):
            values.merge(b"\x80", {"a": bad})
    with pytest.raises(TypeError):
        values.merge(b"\x80", {"a": "text"})  # type: ignore[dict-item]
    with pytest.raises(TypeError):
        values.merge(b"\x80", {"a": None})  # type: ignore[dict-item]
    with pytest.raises(TypeError):
        values.select(b"\x80", [1])  # type: ignore[list-item]


# ---- what only C callers use ----


@given(some.values, some.scalars)
def test_probes_of_containers(value: Any, other: Any) -> None:
    data = values.encode_value(value)
    if not isinstance(value, (list, frozenset)):
        return
    members = list(value)
    for member in [*members, other]:
        one = values.encode_value(member)
        is_in = one in [values.encode_value(candidate) for candidate in members]
        assert _probe("contains_value", data, one) == is_in
    if isinstance(value, frozenset):
        assert _probe("count_members", data, None) == len(value)
        assert _probe("find_in_list", data, 0) == -1
    else:
        for index, member in enumerate(members):
            assert _probe("find_in_list", data, index) == values.encode_value(member)
        assert _probe("find_in_list", data, len(members)) == 0


@given(some.texts, some.texts)
def test_probes_of_text(a: str, b: str) -> None:
    first, second = values.encode_value(a), values.encode_value(b)
    assert _probe("utf16_units", first, None) == len(a.encode("utf-16-le")) // 2
    compared = _probe("compare_scalars", first, second)
    assert (compared < 0) == (a.encode() < b.encode())
    assert (compared == 0) == (a == b)


def test_probes_of_damaged_bytes() -> None:
    # A list of two with one element, and a set with half a member.
    assert _probe("contains_value", b"\x92\xc0\x92", b"\xc3") == -1
    assert _probe("find_in_list", b"\x92\xa1\xa1", 1) == -1
    assert _probe("count_members", b"\xc7\x03\x02\xa1a\xa1", None) == -1


# ---- ItemView ----


@given(some.items)
def test_view_is_a_mapping_of_the_item(item: dict[str, Any]) -> None:
    view = values.ItemView(values.encode_item(item))
    assert isinstance(view, Mapping)
    assert dict(view) == item
    assert view == item
    assert view == values.ItemView(values.encode_item(item))
    assert len(view) == len(item)
    assert list(view) == list(view.keys()) == sorted(item, key=str.encode)
    assert dict(view.items()) == item
    assert len(view.values()) == len(item)
    assert values.encode_item(view) == view.encoded


def test_view_of_missing_attributes() -> None:
    view = values.ItemView(values.encode_item({"a": None, "b": ["x"]}))
    assert view["a"] is None
    assert "a" in view
    assert view.get("a", 1) is None
    assert view.get("z") is None
    assert view.get("z", 1) == 1
    assert "z" not in view
    assert 3 not in view
    assert view.get(3) is None  # type: ignore[call-overload]
    with pytest.raises(KeyError):
        view["z"]
    # Decoded once.
    assert view["b"] is view["b"]
    assert view != {"a": None}
    assert repr(view) == "ItemView({'a': None, 'b': ['x']})"


def test_names_and_numbers_come_from_caches_that_never_mix_up() -> None:
    # More names and numbers than the caches have slots, and names that differ only in the middle.
    item = {f"name-{i:05}-{'x' * (i % 70)}": Decimal(i) / 8 for i in range(9000)}
    data = values.encode_item(item)
    for _ in range(2):
        assert values.decode_item(data) == item
    first, second = (values.decode_item(values.encode_item({"abc": Decimal(7)})) for _ in range(2))
    assert next(iter(first)) is next(iter(second))


def test_encoders_of_internal_values_take_what_stands_for_them() -> None:
    assert values.encode_value(5) == values.encode_value(Decimal(5))
    assert values.encode_value({"b", "a"}) == values.encode_value(frozenset("ab"))
    assert values.encode_value((True,)) == values.encode_value([True])
    assert values.encode_value(bytearray(b"x")) == values.encode_value(b"x")
    view = values.ItemView(values.encode_item({"a": "b"}))
    assert values.encode_value([view]) == values.encode_value([{"a": "b"}])
    for bad in (1.5, object(), frozenset({"a", b"b"}), frozenset({None})):
        with pytest.raises(TypeError):
            values.encode_value(bad)
    with pytest.raises(TypeError):
        values.encode_value({1: "a"})
    with pytest.raises(ValueProblem):
        values.encode_value(frozenset())
