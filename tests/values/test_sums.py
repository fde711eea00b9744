"""Sums on digits are those of Decimal."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dynalsm import values
from dynalsm.values import ValueProblem
from dynalsm.values.sums import exact_sum
from tests.values.strategies import numbers

# Numbers that meet: few digits at neighbouring exponents.
near = st.builds(
    lambda sign, digits, exponent: Decimal(f"{sign}{digits}E{exponent}"),
    st.sampled_from(["", "-"]),
    st.integers(0, 10**5),
    st.integers(-3, 3),
)
# Where the range ends.
edges = st.builds(
    lambda sign, digits, exponent: Decimal(f"{sign}{digits}").scaleb(exponent),
    st.sampled_from(["", "-"]),
    st.integers(1, 10**6),
    st.sampled_from([-167, -136, -135, -130, 118, 119]),
).filter(lambda number: -130 <= number.adjusted() <= 125)


def outcome(run: object, *arguments: object) -> object:
    try:
        result = run(*arguments)  # type: ignore[operator]
    except ValueProblem as problem:
        return problem.kind
    return result.as_tuple()


@given(st.one_of(numbers, near, edges), st.one_of(numbers, near, edges))
@example(Decimal("9" * 38), Decimal(1))
@example(Decimal("9" * 38), Decimal("-1E-130"))
@example(Decimal("1E+125"), Decimal("9E+125"))
@example(Decimal("1.5E-130"), Decimal("-1E-130"))
@example(Decimal("1.5E-130"), Decimal("-1.5E-130"))
@example(Decimal("1E+125"), Decimal("-1E+125"))
@example(Decimal(0), Decimal("-7"))
@example(Decimal("-7"), Decimal(0))
@example(Decimal("12"), Decimal("120"))
def test_agrees_with_decimal(a: Decimal, b: Decimal) -> None:
    assert outcome(exact_sum, a, b) == outcome(values.add, a, b)
    assert outcome(exact_sum, a, b, True) == outcome(values.subtract, a, b)


@pytest.mark.parametrize("text", ["1E+126", "1E-131", "NaN"])
def test_what_is_no_number(text: str) -> None:
    for pair in ((Decimal(text), Decimal(1)), (Decimal(1), Decimal(text))):
        with pytest.raises(ValueProblem):
            exact_sum(*pair)
