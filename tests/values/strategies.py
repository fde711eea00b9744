"""Hypothesis strategies of attribute values, shared by the tests of this folder."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import settings
from hypothesis import strategies as st

# The machine may be busy with other things; time is measured in bench/ only.
settings.register_profile("values", deadline=None)
settings.load_profile("values")


def _number(digits: int, exponent: int, negative: bool) -> Decimal:
    size = len(str(digits))
    sign = "-" if negative else ""
    # `exponent` is that of the first digit.
    return Decimal(f"{sign}{digits}E{exponent - size + 1}")


# Every number DynamoDB can hold: any digits, the whole range of exponents, zero.
numbers = st.one_of(
    st.just(Decimal(0)),
    st.integers(-1000, 1000).map(Decimal),
    st.builds(
        _number,
        st.integers(1, 10**38 - 1),
        st.integers(-130, 125),
        st.booleans(),
    ),
)
texts = st.text(max_size=40)
names = st.text(min_size=1, max_size=20)
binaries = st.binary(max_size=40)
scalars = st.one_of(texts, numbers, binaries, st.booleans(), st.none())
sets = st.one_of(
    st.frozensets(texts, min_size=1, max_size=6),
    st.frozensets(numbers, min_size=1, max_size=6),
    st.frozensets(binaries, min_size=1, max_size=6),
)
# Internal values.
values = st.recursive(
    st.one_of(scalars, sets),
    lambda children: st.one_of(
        st.lists(children, max_size=5),
        st.dictionaries(st.text(max_size=10), children, max_size=5),
    ),
    max_leaves=10,
)
items = st.dictionaries(names, values, max_size=15)
