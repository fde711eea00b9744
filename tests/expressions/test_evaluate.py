"""What conditions mean: types, missing attributes, every operator and function."""

from __future__ import annotations

from decimal import Decimal

import pytest

from dynalsm.expressions import MISSING, Condition, compare, equal, fetch, type_tag
from dynalsm.expressions.ast import Call, Compare, Constant, Path
from dynalsm.expressions.evaluate import size
from tests.expressions.helpers import condition, holds, number

ITEM = {
    "pk": "x",
    "n": number(5),
    "s": "abc",
    "b": b"\x00\x80",
    "l": [number(1), "a", [number(3)], frozenset(("p", "q"))],
    "m": {"k": number(1)},
    "m2": {"k": number(2)},
    "ss": frozenset(("a", "b")),
    "ns": frozenset((number(1), number(2))),
    "bs": frozenset((b"a", b"b")),
    "t": True,
    "f": False,
    "nul": None,
}
# One value of every type; no two are equal.
EVERY_TYPE = [
    "1",
    number(1),
    b"1",
    True,
    None,
    [number(1)],
    {"1": number(1)},
    frozenset(("1",)),
    frozenset((number(1),)),
    frozenset((b"1",)),
    False,
    [],
    {},
    "",
    b"",
]
VALUES = {
    ":n": number(9), ":one": number(1), ":five": number(5), ":zero": number(0), ":s": "q",
    ":str5": "5", ":a": "a", ":bc": "bc", ":k": "k", ":NULL": "NULL", ":SS": "SS",
    ":b": b"\x80", ":list": [number(3)], ":set": frozenset(("q", "p")), ":true": True,
    ":null": None,
}  # fmt: skip


def judge(text: str) -> bool:
    used = {name: value for name, value in VALUES.items() if name in text.replace(",", " ")}
    return holds(text, ITEM, used or None)


@pytest.mark.parametrize(
    "text",
    [
        "zz <> :n", "zz <> yy", "n <> :s", "attribute_exists(nul)", "attribute_type(nul, :NULL)",
        "attribute_type(ss, :SS)", "contains(l, :one)", "contains(ss, :a)", "contains(ns, :one)",
        "contains(s, :bc)", "contains(b, :b)", "contains(l, :list)", "contains(l, :set)",
        "size(m) = :one", "size(l) < n", "NOT zz = :n", "l[0] < n", "m.k = l[0]", "t = :true",
        "nul = :null", "n BETWEEN :zero AND :n", "n BETWEEN :five AND :five", "l[2] = :list",
        "n IN (:s, :five)", "n IN (n2, :five)", "attribute_not_exists(zz)", "s >= s2 OR s < :s",
        "attribute_not_exists(m.k.j)", "attribute_not_exists(l[9])", "attribute_not_exists(n[0])",
        "attribute_not_exists(l.k)", "begins_with(s, :a)", "begins_with(:str5, :str5)",
        "attribute_type(:one, :NULL) OR size(:s) = :one", "NOT contains(m, :k)", "f <> t",
    ],
)  # fmt: skip
def test_true(text):
    assert judge(text) is True


@pytest.mark.parametrize(
    "text",
    [
        "zz = yy", "zz = :n", "zz < n", "n < zz", "n = :str5", "s < n", "m < m2", "t < f",
        "contains(m, :k)", "contains(n, :five)", "contains(zz, :a)", "contains(ss, :one)",
        "contains(ns, :s)", "contains(s, :one)", "contains(ss, zz)", "contains(l, zz)",
        "size(n) > :zero", "size(t) >= :zero", "size(nul) >= :zero", "size(zz) >= :zero",
        "size(s) = :s", "begins_with(n, s)", "begins_with(s, n)", "begins_with(zz, s)",
        "begins_with(s, b)", "zz IN (:a)", "zz IN (yy)", "n BETWEEN s AND s2", "zz BETWEEN s AND n",
        "n BETWEEN :zero AND zz", "attribute_exists(zz)", "attribute_exists(m.j)",
        "attribute_type(zz, :NULL)", "attribute_type(n, :SS)", "t = :one", "f = :zero",
        "nul = zz", "NOT zz <> n", "size(n) = n",
    ],
)  # fmt: skip
def test_false(text):
    assert judge(text) is False


# A size that does not exist is unequal to everything, like a missing attribute.
def test_missing_size_is_unequal():
    assert judge("size(n) <> :one") is True
    assert judge("NOT size(zz) = :one") is True


def test_values_of_different_types_are_never_equal_or_ordered():
    for i, a in enumerate(EVERY_TYPE):
        for j, b in enumerate(EVERY_TYPE):
            assert equal(a, b) is (i == j)
            assert equal([a], [b]) is (i == j)
            assert equal({"x": a}, {"x": b}) is (i == j)
            if type(a) is not type(b):
                assert compare(a, b) is None
        assert equal(a, MISSING) is False and equal(MISSING, a) is False
    assert equal(MISSING, MISSING) is False


# True is not 1 and "a" is not b"a", however deep; numbers are equal by value, sets in any order.
def test_equality_is_deep_and_typed():
    assert not equal([True, {"x": [False]}], [number(1), {"x": [number(0)]}])
    assert not equal({"x": {"y": [b"a"]}}, {"x": {"y": ["a"]}})
    assert equal([Decimal("1.50"), {"x": Decimal("1E+2")}], [Decimal("1.5"), {"x": number(100)}])
    assert equal({"a": frozenset((Decimal("1.0"),))}, {"a": frozenset((number(1),))})
    assert not equal(frozenset((number(1),)), frozenset(("1",)))
    assert not equal([number(1)], [number(1), number(1)])
    assert not equal({"a": number(1)}, {"b": number(1)})


@pytest.mark.parametrize(
    ("small", "large"),
    [
        ("", "a"), ("a", "aa"), ("Z", "a"), ("\uffff", "\U00010000"), (b"", b"\x00"),
        (b"\x7f", b"\x80"), (number(-1), Decimal("0.5")), (number("1E-130"), number("1E125")),
    ],
)  # fmt: skip
def test_order(small, large):
    assert (compare(small, large), compare(large, small), compare(small, small)) == (-1, 1, 0)
    item = {"a": small, "b": large}
    for text, expected in [
        ("a < b", 1),
        ("a <= b", 1),
        ("a > b", 0),
        ("a >= b", 0),
        ("b BETWEEN a AND b", 1),
        ("a BETWEEN b AND c", 0),
    ]:
        assert holds(text, item) is bool(expected)
    assert holds("a < :v", item, {":v": large}) and holds("a <= :v", item, {":v": small})
    assert not holds("a < :v", item, {":v": small})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", 0), ("é€", 2), ("\U0001f600", 2), ("a\uffff", 2), (b"abc", 3), ([None, None], 2),
        ({}, 0), (frozenset("ab"), 2),
    ],
)  # fmt: skip
def test_size(value, expected):
    assert size(value) == expected
    assert type(size(value)) is Decimal


@pytest.mark.parametrize("value", [number(1), True, None, MISSING])
def test_no_size(value):
    assert size(value) is MISSING


def test_type_tags():
    tags = [type_tag(value) for value in EVERY_TYPE[:10]]
    assert tags == ["S", "N", "B", "BOOL", "NULL", "L", "M", "SS", "NS", "BS"]


def test_fetch():
    assert fetch(ITEM, ("l", 2, 0)) == 3
    assert fetch(ITEM, ("m", "k")) == 1
    for steps in [("zz",), ("l", 4), ("l", "k"), ("m", 0), ("s", 0), ("nul", "x"), ("ss", 0)]:
        assert fetch(ITEM, steps) is MISSING
    assert fetch(ITEM, ("nul",)) is None


# A condition may be built from a tree; constants stand where an expression has :values.
def test_condition_from_tree():
    tree = Compare("=", Path(("m", "k")), Constant(number(1)))
    made = Condition.from_tree(tree)
    assert made.evaluate(ITEM) and not made.evaluate({})
    assert made.paths == (("m", "k"),) and made.attributes == {"m"}
    exists = Condition.from_tree(Call("attribute_exists", (Path(("a.b",)),)))
    assert exists.evaluate({"a.b": None}) and not exists.evaluate({"a": {"b": None}})


def test_paths_and_attributes():
    made = condition(
        "a = :v AND NOT (#n.x[2] < b OR size(a) IN (c.d, :v))", {":v": number(1)}, {"#n": "q.r"}
    )
    assert made.paths == (("a",), ("q.r", "x", 2), ("b",), ("c", "d"))
    assert made.attributes == {"a", "q.r", "b", "c"}


# 149 levels of parentheses are legal; judging them must not need much stack.
def test_deep_condition_evaluates():
    text = "a<b or (a<b and (" * 74 + "a<b" + "))" * 74
    assert holds(text, {"a": number(1), "b": number(2)}) is True
    assert holds(text, {"a": number(2), "b": number(1)}) is False
    flat = "NOT (" * 100 + "a<b OR a=b" + ")" * 100
    assert holds(flat, {"a": number(1), "b": number(2)}) is True


def test_same_condition_with_other_values_shares_its_tree():
    one = condition("a = :v AND b > :w", {":v": number(1), ":w": "x"})
    two = condition("a = :v AND b > :w", {":v": "y", ":w": number(0)})
    assert one.tree is two.tree and one.values != two.values
    item = {"a": number(1), "b": "z"}
    assert one.evaluate(item) and not two.evaluate(item)
