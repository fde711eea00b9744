"""Maps whose names were seen before are read by their outline; only the clock may tell."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalsm import errors, values
from dynalsm.values.outline import Outline, _names_alive, _use_places


@pytest.fixture(params=["places", "lookups"])
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Once with values put into their places in dicts, once as interpreters may ask for."""
    in_use = _use_places(request.param == "places")
    assert in_use == (request.param == "places")
    forget()
    yield request.param
    _use_places(True)
    forget()


def forget() -> None:
    """Give every hint other outlines than a test has made."""
    for count in range(1, 20):
        for turn in range(40):
            values.decode_item(values.encode_item({f"{turn % 2}{i}": True for i in range(count)}))


def decoded(item: dict[str, Any]) -> dict[str, Any]:
    return values.decode_item(values.encode_item(item))


def test_the_interpreter_of_these_tests_has_places() -> None:
    if sys.implementation.name == "cpython":
        assert _use_places(True)


def test_the_same_names_again(way: str) -> None:
    for number in range(50):
        item = {"a": Decimal(number), "b": "x", "long name of an attribute": [str(number)]}
        assert decoded(item) == item
        assert list(decoded(item)) == sorted(item)


# Names that differ early, late, by length, by a byte behind the eighth; fewer and more of them.
@pytest.mark.parametrize(
    "other",
    [
        ["a", "b", "c"],
        ["b", "c", "d"],
        ["a", "b", "d"],
        ["a", "b"],
        ["a", "b", "c", "d"],
        ["aa", "b", "c"],
        ["a", "attribute 1", "attribute 2"],
        ["a", "attribute 1", "attribute 3"],
        ["a", "attribute 1", "attribute 22"],
        ["a", "attribute 1", "ä"],
        ["a", "", "b"],
    ],
)
def test_names_that_change(way: str, other: list[str]) -> None:
    for number in range(40):
        names = ["a", "attribute 1", "attribute 2"] if number % 3 else other
        inside = {name: Decimal(number + i) for i, name in enumerate(names)}
        nested = {"m": inside, "l": [inside, {"z": inside}]}
        for item in (nested, {"x" + name: inside for name in inside}):
            assert decoded(item) == item


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["a", "b", "name", "name2", "n" * 30, "é", "z" * 70]),
            st.one_of(
                st.integers(0, 3).map(Decimal),
                st.text(max_size=3),
                st.dictionaries(st.sampled_from("pqr"), st.booleans()),
            ),
        ),
        max_size=30,
    )
)
def test_any_sequence_of_items(items: list[dict[str, Any]]) -> None:
    for item in items:
        assert decoded(item) == item
        encoded = values.encode_item(item)
        assert values.encode_wire_item(values.decode_wire_item(encoded)) == encoded
        assert values.encode_native_item(values.decode_native_item(encoded)) == encoded


def test_dicts_are_independent(way: str) -> None:
    # They are copies of one template: changing one must not show in another.
    item = {"a": "x", "m": {"b": "y", "c": [True]}}
    first, second = [decoded(item) for _ in range(3)][1:]
    first["a"] = "changed"
    del first["m"]["b"]
    first["new"] = 1
    assert second == item == decoded(item)


def test_dicts_take_part_in_garbage_collection(way: str) -> None:
    class Canary:
        alive = True

        def __del__(self) -> None:
            Canary.alive = False

    for _ in range(3):
        item = decoded({"a": "x", "l": ["y"]})
    assert gc.is_tracked(item)
    item["l"].extend([item, Canary()])
    del item
    gc.collect()
    assert not Canary.alive


def test_references_are_counted_right(way: str) -> None:
    text = "a text of more than fifteen bytes"
    items = [decoded({"a": text, "n": None, "t": True}) for _ in range(10)]
    count = sys.getrefcount(items[-1]["a"])
    assert count == 2
    before = sys.getrefcount(None)
    for _ in range(1000):
        decoded({"a": text, "n": None, "t": True})
    assert abs(sys.getrefcount(None) - before) < 100


def test_a_value_that_is_damaged_after_names_that_are_not(way: str) -> None:
    good = values.encode_item({"a": "some text", "b": "more", "c": Decimal(5)})
    for _ in range(3):
        values.decode_item(good)
    for cut in range(1, len(good)):
        with pytest.raises(errors.CorruptionError, match="damaged"):
            values.decode_item(good[:cut])
    assert values.decode_item(good) == {"a": "some text", "b": "more", "c": Decimal(5)}


def test_many_names_are_read_without(way: str) -> None:
    for count in (47, 48, 49, 300):
        item = {f"{i:03d}": Decimal(i) for i in range(count)}
        for _ in range(3):
            assert decoded(item) == item


def test_outlines_keep_a_bounded_number_of_names() -> None:
    for number in range(3000):
        decoded({f"{number} {i}": {f"{number} {i} {k}": True for k in range(5)} for i in range(30)})
    assert 0 < _names_alive() <= 65536


def test_names_twice_make_no_outline() -> None:
    with pytest.raises(ValueError, match="twice"):
        Outline(["a", "a"])
