"""DynamoDB's numbers: text, range, bytes, size, arithmetic. Vectors from the reference, A.1-A.3."""

from __future__ import annotations

import decimal
import itertools
import random
import re
from decimal import Context, Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynalsm import values
from dynalsm.values import ValueProblem
from dynalsm.values.number import _use_decimal_layout
from tests.values.format_reader import read_number
from tests.values.strategies import numbers

STORED = {
    "007": "7",
    "001.23": "1.23",
    "00": "0",
    "+3": "3",
    "+1.5": "1.5",
    "1.0": "1",
    "1.10": "1.1",
    "100.000": "100",
    "0.10": "0.1",
    "1e3": "1000",
    "1E+3": "1000",
    "1.0e3": "1000",
    "-3e2": "-300",
    "1.23e4": "12300",
    "1e-3": "0.001",
    "123e-2": "1.23",
    "1.23e-1": "0.123",
    "-0": "0",
    "-0.0": "0",
    "0e5": "0",
    "0e-5": "0",
    ".5": "0.5",
    "-.5": "-0.5",
    "5.": "5",
    "1e20": "100000000000000000000",
    "1e125": "1" + "0" * 125,
    "1e-20": "0.00000000000000000001",
    "1e-130": "0." + "0" * 129 + "1",
    "0042.1200": "42.12",
    "9" * 38: "9" * 38,
    "9" * 38 + "0": "9" * 38 + "0",
    "-" + "9" * 38 + "e88": "-" + "9" * 38 + "0" * 88,
    "0" * 5000 + "1" + "0" * 100: "1" + "0" * 100,
    "0." + "0" * 300 + "1e200": "0." + "0" * 100 + "1",
    "1" + "0" * 300 + "e-300": "1",
    "0e125": "0",
    "0.0e126": "0",
    "0e-130": "0",
}
OVERFLOW = ["1e126", "-1e126", "1e99999999999", "1e2147483648", "0e126", "9.9e9223372036854775807"]
UNDERFLOW = ["1e-131", "1e-99999999999", "-1e-131", "0e-131", "0.0e-130", "1e-9223372036854775808"]
NOT_NUMERIC = [
    *["abc", "", " 1", "1 ", "0x10", "1e", "1.2.3", "NaN", "Infinity", "-Infinity", "1_000"],
    *[
        "1e9223372036854775808",
        "1e-9223372036854775809",
        "1e+",
        "e5",
        ".",
        "-",
        "+",
        "+-1",
        "1e1.5",
    ],
    *["1,5", "१", "1\x00", "--1", "1e99999999999999999999999999", "\ud800", "1e0x1"],
]


@pytest.mark.parametrize("text", STORED)
def test_canonical_text(text: str) -> None:
    parsed = values.parse_number(text)
    assert values.number_text(parsed) == STORED[text]
    assert parsed == Decimal(STORED[text])
    assert values.decode_wire(values.encode_wire({"N": text})) == {"N": STORED[text]}


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (OVERFLOW, "number_overflow"),
        (UNDERFLOW, "number_underflow"),
        (NOT_NUMERIC, "number_format"),
        (["1" * 39, "1." + "1" * 38, "1" + "0" * 37 + "1"], "number_precision"),
        # The range is judged before the precision.
        (["1" * 39 + "e200"], "number_overflow"),
    ],
)
def test_refused_text(texts: list[str], kind: str) -> None:
    for text in texts:
        with pytest.raises(ValueProblem) as caught:
            values.parse_number(text)
        assert caught.value.kind == kind, text


def by_the_rules(text: str) -> str | Decimal:
    """What the reference says of a text: the number, or the kind of problem."""
    match = re.fullmatch(r"[+-]?([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?", text)
    if not match or not (match[1] or match[2]):
        return "number_format"
    integer, fraction, power = match[1], match[2] or "", int(match[3] or 0)
    if not -(2**63) <= power < 2**63:
        return "number_format"
    digits = (integer + fraction).lstrip("0")
    leading = power - len(fraction) + max(len(digits) - 1, 0)
    if leading > 125:
        return "number_overflow"
    if leading < -130:
        return "number_underflow"
    if len(digits.rstrip("0")) > 38:
        return "number_precision"
    value = Decimal(digits or "0").scaleb(power - len(fraction), Context(prec=999))
    return value.copy_negate() if text.startswith("-") else value


@given(
    st.one_of(
        st.text("0123456789.eE+-", max_size=12),
        st.from_regex(r"[+-]?[0-9]{0,45}(\.[0-9]{0,45})?([eE][+-]?[0-9]{1,4})?", fullmatch=True),
        st.from_regex(r"0{0,3}[1-9]0{0,140}(\.0{0,140}[0-9])?(e-?1[0-9]{2})?", fullmatch=True),
    )
)
@settings(max_examples=500)
def test_any_text_by_the_rules(text: str) -> None:
    try:
        outcome: str | Decimal = values.parse_number(text)
    except ValueProblem as problem:
        outcome = problem.kind
    assert outcome == by_the_rules(text)


def test_order_of_neighbours_at_every_exponent() -> None:
    # Where lead bytes, exponent bytes and lengths change; checked exhaustively.
    ladder = []
    for exponent in range(-130, 126):
        for digits in ("1", "1.0000000000000000000000000000000000001", "1.1", "5", "9.9"):
            ladder.append(Decimal(f"{digits}E{exponent}"))
    ladder = [number.copy_negate() for number in reversed(ladder)] + [Decimal(0)] + ladder
    encoded = [values.encode_number(number) for number in ladder]
    assert all(a < b for a, b in itertools.pairwise(encoded))


@given(numbers, numbers)
def test_byte_order_is_numeric_order(a: Decimal, b: Decimal) -> None:
    x, y = values.encode_number(a), values.encode_number(b)
    assert (x < y) == (a < b)
    assert (x == y) == (a == b)


@given(numbers, st.binary(max_size=5))
def test_bytes_are_read_back_and_tell_their_end(number: Decimal, tail: bytes) -> None:
    data = values.encode_number(number)
    assert values.decode_number(data) == number
    assert len(data) <= 21
    # By the page on formats, with other bytes behind.
    assert read_number(data + tail) == (number, len(data))


@given(st.binary(max_size=24))
def test_bytes_that_are_no_number_are_refused(data: bytes) -> None:
    try:
        number = values.decode_number(data)
    except ValueError:
        return
    assert values.encode_number(number) == data


@given(numbers)
def test_written_forms_do_not_matter(number: Decimal) -> None:
    text = values.number_text(number)
    plain = f"{number:f}"
    trimmed = plain.rstrip("0").rstrip(".") if "." in plain else plain
    assert text == ("0" if trimmed in ("-0", "") else trimmed)
    for written in (str(number), f"{number:E}", plain, "000" + plain.lstrip("-")):
        sign = "-" if number < 0 and not written.startswith("-") else ""
        assert values.encode_wire({"N": sign + written}) == values.encode_wire({"N": text})


@given(numbers)
def test_decimals_are_plain(number: Decimal) -> None:
    # As boto3 gives them: Decimal("1000"), not Decimal("1E+3"). boto3 cannot read more than 38
    # written digits; those come so that they can be written again.
    decoded = values.decode_value(values.encode_value(number))
    plain = Decimal(values.number_text(number))
    if len(plain.as_tuple().digits) > 38:
        plain = Context(prec=38).normalize(plain)
    assert decoded.as_tuple() == plain.as_tuple()
    assert hash(decoded) == hash(number)
    if number.adjusted() > -120:  # boto3 takes no digit behind 1E-165
        assert values.encode_native(decoded) == values.encode_value(number)


@given(st.integers(-(10**40), 10**40))
def test_ints_are_numbers(number: int) -> None:
    if len(str(abs(number)).rstrip("0")) > 38:
        with pytest.raises(ValueProblem):
            values.encode_value(number)
    else:
        assert values.encode_value(number) == values.encode_value(Decimal(number))


def test_ints_at_the_edges_of_64_bits() -> None:
    for number in (2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 2**64, 0, -1):
        assert values.decode_value(values.encode_value(number)) == number
    for number in (10**126, -(10**200), 10**5000):
        with pytest.raises(ValueProblem) as caught:
            values.encode_value(number)
        assert caught.value.kind == "number_overflow"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        *[("0", 1), ("1", 2), ("1E125", 2), ("0.0000001", 2), ("123456", 4), ("3.14159", 5)],
        *[("-1", 3), ("1200", 2), ("100.001", 5), ("12.5", 3), ("9" * 38, 20), ("-0.5", 3)],
    ],
)
def test_size(text: str, size: int) -> None:
    assert values.value_size(values.encode_wire({"N": text})) == size


@given(numbers)
def test_size_by_the_rule(number: Decimal) -> None:
    text = values.number_text(number).lstrip("-")
    integer, _, fraction = text.partition(".")
    if number == 0:
        integer = fraction = ""
    integer = integer.lstrip("0")
    if not integer:
        fraction = fraction.lstrip("0")
    if not fraction:
        integer = integer.rstrip("0")
    expected = 1 + (len(integer) + 1) // 2 + (len(fraction) + 1) // 2 + (number < 0)
    assert values.value_size(values.encode_value(number)) == expected


def test_arithmetic() -> None:
    d = Decimal
    assert values.add(d("0.1"), d("0.2")) == d("0.3")
    assert values.subtract(d("1e125"), d("1e125")) == 0
    assert str(values.add(d("1e3"), d(0))) == "1000"
    assert values.add(d("9" * 38), d(0)) == d("9" * 38)
    # 38 nines and one more: the sum has one significant digit.
    assert values.add(d("9" * 38), d(1)) == d("1e38")


@pytest.mark.parametrize(
    ("a", "b", "kind"),
    [
        ("9e125", "9e125", "number_overflow"),
        # Too many digits are called an overflow (observed).
        ("1e50", "1", "number_overflow"),
        ("1e125", "1e-130", "number_overflow"),
        ("1.1e-130", "-1e-130", "number_underflow"),
    ],
)
def test_arithmetic_beyond_the_range(a: str, b: str, kind: str) -> None:
    with pytest.raises(ValueProblem) as caught:
        values.add(Decimal(a), Decimal(b))
    assert caught.value.kind == kind
    with pytest.raises(ValueProblem) as caught:
        values.subtract(Decimal(a), -Decimal(b))
    assert caught.value.kind == kind


@given(numbers, numbers)
def test_arithmetic_is_exact(a: Decimal, b: Decimal) -> None:
    wide = decimal.Context(prec=400)
    try:
        total = values.add(a, b)
    except ValueProblem:
        exact = wide.add(a, b)
        assert len(exact.normalize(wide).as_tuple().digits) > 38 or not (
            -130 <= exact.adjusted() <= 125
        )
    else:
        assert total == wide.add(a, b)


def test_with_and_without_the_layout_of_decimal() -> None:
    # Where Decimal's inside is not as expected, everything goes through text: same results.
    seed = random.randrange(10**9)
    chooser = random.Random(seed)
    written = ["0", "-0", "0E-5", "0E+5", "1.000", "1E+37", "1E-130", "-0.00100", "NaN", "Infinity"]
    written += ["9" * 38, "9" * 39, "1" + "0" * 60, "1E+126", "1E-131", "-sNaN", "0E+126"]
    for _ in range(300):
        digits = str(chooser.randrange(10 ** chooser.randrange(1, 40)))
        written.append(f"{chooser.choice(['', '-'])}{digits}E{chooser.randrange(-170, 130)}")

    def outcome(text: str) -> object:
        try:
            data = values.encode_value(Decimal(text))
        except ValueProblem as problem:
            return problem.kind
        return data, values.decode_value(data).as_tuple()

    assert _use_decimal_layout(True), "the layout of Decimal has changed: speed is lost"
    fast = [outcome(text) for text in written]
    try:
        assert not _use_decimal_layout(False)
        slow = [outcome(text) for text in written]
    finally:
        _use_decimal_layout(True)
    assert fast == slow, seed
