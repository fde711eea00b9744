"""Numbers as 32-bit floats and back: the nearest float, the shortest number."""

from __future__ import annotations

import math
import random
import struct
from decimal import Decimal
from fractions import Fraction

import pytest

from dynalsm import errors, values
from dynalsm.model.keys import KeyProblem
from dynalsm.model.vector_source import VectorSource, query_floats, vector_value

FLOAT_MAX = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]


def as_float(number: Decimal) -> float | None:
    floats = query_floats([values.encode_value(number)])
    return None if floats is None else struct.unpack("<f", floats)[0]


def neighbours(value: float) -> list[float]:
    """The floats next to it, the one with the larger magnitude last."""
    bits = struct.unpack("<I", struct.pack("<f", abs(value)))[0]
    steps = (-1, 1) if bits else (1,)
    around = [struct.unpack("<f", struct.pack("<I", bits + step))[0] for step in steps]
    return [math.copysign(each, value) for each in around if each <= FLOAT_MAX]


def assert_nearest(number: Decimal) -> None:
    found = as_float(number)
    assert found is not None
    exact = Fraction(number)
    error = abs(Fraction(found) - exact)
    for other in neighbours(found):
        distance = abs(Fraction(other) - exact)
        assert error <= distance, number
        if error == distance:
            assert struct.unpack("<i", struct.pack("<f", found))[0] % 2 == 0, number


def random_number(chance: random.Random) -> Decimal:
    digits = chance.choice((1, 3, 7, 9, 15, 17, 19, 20, 38))
    exponent = chance.choice((-38, -45, -60, -10, 0, 10, 30)) + chance.randrange(-3, 3)
    sign = chance.choice("-+")
    return Decimal(f"{sign}{chance.randrange(1, 10**digits)}E{exponent - digits}")


def test_random_numbers_become_the_nearest_float() -> None:
    seed = random.randrange(10**6)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(3000):
        assert_nearest(random_number(chance))


def test_numbers_next_to_the_middle_of_two_floats() -> None:
    """Where rounding first to a double and then to a float goes wrong."""
    chance = random.Random(8)
    for _ in range(500):
        low = struct.unpack("<f", struct.pack("<f", chance.uniform(0.5, 8)))[0]
        middle = (Fraction(low) + Fraction(neighbours(low)[-1])) / 2
        power = middle.denominator.bit_length() - 1
        exact = Decimal(middle.numerator * 5**power).scaleb(-power)
        for nudge in (-1, 0, 1):
            assert_nearest((exact + nudge * Decimal("1E-30")).normalize())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0.0),
        ("16777217", 16777216.0),  # the first integer that is no float; ties to even
        ("16777219", 16777220.0),
        ("1.000000059604644775390625", 1.0),
        ("1E-45", 1.401298464324817e-45),  # the smallest float
        ("7E-46", 0.0),  # less than half of it
        ("1E-130", 0.0),
        ("3.4028235E38", FLOAT_MAX),
        ("3.4028235677973366E+38", FLOAT_MAX),  # just below the middle to the next power of two
        ("3.402823567797337E+38", None),
        ("-1E39", None),
        ("9.99E125", None),
    ],
)
def test_edges(text: str, value: float | None) -> None:
    assert as_float(Decimal(text)) == value


def test_floats_come_back_as_the_shortest_numbers() -> None:
    seed = random.randrange(10**6)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(3000):
        packed = struct.pack("<I", chance.getrandbits(32))
        value = struct.unpack("<f", packed)[0]
        if not math.isfinite(value):
            continue
        [number] = values.decode_value(vector_value(packed))
        assert as_float(number) == value
        digits = len(number.normalize().as_tuple().digits)
        if digits > 1:
            assert as_float(Decimal(f"{value:.{digits - 2}e}")) != value


def test_well_known_numbers() -> None:
    for text in ("0.1", "0.3", "1", "-2.5", "16777216", "3.4028235E+38", "1E-45"):
        number = Decimal(text)
        packed = query_floats([values.encode_value(number)])
        assert packed is not None
        assert values.decode_value(vector_value(packed)) == [number]


SOURCE = VectorSource("e", 2, [("t", "HASH", "S"), ("c", "INLINE_FILTER", "N")])


def item(**attributes: object) -> bytes:
    return values.encode_native_item({"p": "a", **attributes})


def test_an_indexed_item_has_its_vector_as_bytes() -> None:
    assert SOURCE.index_item(item(e=[1, Decimal("0.5")], t="x")) == item(
        e=struct.pack("<2f", 1.0, 0.5), t="x"
    )


def test_items_that_are_not_in_the_index() -> None:
    for attributes in ({}, {"t": "x"}, {"e": [1, 2]}, {"e": [1, 2], "c": 3}):
        assert SOURCE.index_item(item(**attributes)) is None


@pytest.mark.parametrize(
    ("attributes", "kind", "name", "actual", "at"),
    [
        ({"e": "x"}, "vector_list", "e", "S", 0),
        ({"e": {"a": 1}}, "vector_list", "e", "M", 0),
        ({"e": {1, 2}}, "vector_list", "e", "NS", 0),
        ({"e": []}, "vector_size", "e", "0", 0),
        ({"e": [1, 2, 3]}, "vector_size", "e", "3", 0),
        ({"e": [1, None]}, "vector_element", "e", "NULL", 1),
        ({"e": [[1, 2], 2]}, "vector_element", "e", "L", 0),
        ({"e": [1, Decimal("-1E39")]}, "vector_range", "e", "-1" + 39 * "0", 1),
        ({"t": 1}, "search_type", "t", "N", 0),
        ({"t": None, "e": [1, 2]}, "search_type", "t", "NULL", 0),
        ({"c": "1"}, "search_type", "c", "S", 0),
        ({"t": ""}, "empty", "t", "S", 0),
        # The vector is looked at first.
        ({"t": 1, "e": "x"}, "vector_list", "e", "S", 0),
    ],
)
def test_what_cannot_be_indexed(
    attributes: dict[str, object], kind: str, name: str, actual: str, at: int
) -> None:
    with pytest.raises(KeyProblem) as caught:
        SOURCE.index_item(item(**attributes))
    problem = caught.value
    assert (problem.kind, problem.attribute, problem.actual, problem.size) == (
        kind,
        name,
        actual,
        at,
    )


def test_billing_counts_floats_for_numbers() -> None:
    """A list of two one-digit numbers has 3 + 2 * (1 + 2) bytes, the vector eight."""
    assert SOURCE.billed_difference(item(e=[1, 2])) == 8 - 9
    assert SOURCE.billed_difference(item(e="other")) == 0
    assert SOURCE.billed_difference(item()) == 0


def test_damaged_items_are_refused() -> None:
    whole = item(e=[1, 2], t="x")
    for cut in range(len(whole)):
        with pytest.raises((errors.CorruptionError, ValueError)):
            SOURCE.index_item(whole[:cut])
