"""UpdateExpression: every action on every kind of target, errors that only the item shows."""

from __future__ import annotations

from copy import deepcopy

import pytest

from dynalsm.expressions import error
from tests.expressions.helpers import number, refused, update, why

BASE = {
    "pk": "x",
    "a": number(1),
    "l": [number(10), number(20), number(30)],
    "m": {"k": number(1), "deep": {"l": ["p", "q"]}},
    "ss": frozenset(("a",)),
    "ns": frozenset((number(1), number(2))),
    "s": "text",
}

INVALID_PATH = "The document path provided in the update expression is invalid for update"
NO_ATTRIBUTE = "The provided expression refers to an attribute that does not exist in the item"
WRONG_TYPE = "An operand in the update expression has an incorrect data type"

VALUES = {
    ":zero": number(0), ":one": number(1), ":two": number(2), ":v": "v", ":w": "w",
    ":list": ["x"], ":map": {"y": number(1)}, ":a": frozenset(("a",)), ":b": frozenset(("b",)),
    ":n": frozenset((number(2), number(3))), ":empty": [], ":nul": None,
}  # fmt: skip


def bound(text: str):
    words = text.replace(",", " ").replace(")", " ").replace("(", " ").split()
    return update(text, {k: v for k, v in VALUES.items() if k in words} or None)


def changes(text: str, item=BASE) -> dict:
    """Return what differs from the item; None for attributes that are gone."""
    before = deepcopy(item)
    result = bound(text).apply(item)
    assert item == before, "the old item was changed"
    new = result.item
    old = item or {}
    changed = {k: v for k, v in new.items() if k not in old or old[k] != v}
    return changed | {k: None for k in old if k not in new}


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("SET a = :two, b = a", {"a": number(2), "b": number(1)}),
        ("SET a = b, b = a", NO_ATTRIBUTE),
        ("REMOVE a SET b = a", {"a": None, "b": number(1)}),
        ("SET c = :map", {"c": {"y": number(1)}}),
        ("SET a = a", {}),
        ("SET a = m.deep.l[1]", {"a": "q"}),
        ("SET m.k = :v", {"m": {"k": "v", "deep": {"l": ["p", "q"]}}}),
        ("SET m.fresh = l[0], m.deep.l[0] = :v",
         {"m": {"k": number(1), "fresh": number(10), "deep": {"l": ["v", "q"]}}}),
        ("SET l[0] = :v, l[2] = :w", {"l": ["v", number(20), "w"]}),
        ("SET l[7] = :v", {"l": [number(10), number(20), number(30), "v"]}),
        ("SET l[9] = :v, l[7] = :w", {"l": [number(10), number(20), number(30), "w", "v"]}),
        ("REMOVE l[0], l[1]", {"l": [number(30)]}),
        ("REMOVE l[1] SET l[0] = :v", {"l": ["v", number(30)]}),
        ("SET l[2] = :v REMOVE l[0]", {"l": [number(20), "v"]}),
        ("REMOVE l[0] SET l[5] = :v", {"l": [number(20), number(30), "v"]}),
        ("REMOVE l[0], l[1], l[2]", {"l": []}),
        ("REMOVE l[17]", {}),
        ("REMOVE m.k, m.deep.l[0]", {"m": {"deep": {"l": ["q"]}}}),
        ("REMOVE m.k, m.deep", {"m": {}}),
        ("REMOVE m.absent, absent", {}),
        ("REMOVE a", {"a": None}),
        # Arithmetic and functions.
        ("SET c = a + :two", {"c": number(3)}),
        ("SET c = :two - a", {"c": number(1)}),
        ("SET c = if_not_exists(c, :zero) + :one", {"c": number(1)}),
        ("SET a = if_not_exists(a, :zero) + :one", {"a": number(2)}),
        ("SET c = if_not_exists(zz, if_not_exists(a, :v))", {"c": number(1)}),
        ("SET c = if_not_exists(a, zz)", {"c": number(1)}),
        ("SET c = list_append(l, :list)", {"c": [number(10), number(20), number(30), "x"]}),
        ("SET c = list_append(:list, l)", {"c": ["x", number(10), number(20), number(30)]}),
        ("SET c = list_append(if_not_exists(c, :empty), :list)", {"c": ["x"]}),
        ("SET l[0] = l[1] + l[2]", {"l": [number(50), number(20), number(30)]}),
        # ADD and DELETE.
        ("ADD c :one", {"c": number(1)}),
        ("ADD a :two", {"a": number(3)}),
        ("ADD ss :b", {"ss": frozenset("ab")}),
        ("ADD ns :n", {"ns": frozenset(map(number, (1, 2, 3)))}),
        ("ADD c :b", {"c": frozenset("b")}),
        ("ADD m.k :one, m.fresh :b, l[1] :two",
         {"m": {"k": number(2), "fresh": frozenset("b"), "deep": {"l": ["p", "q"]}},
          "l": [number(10), number(22), number(30)]}),
        ("ADD l[9] :two", {"l": [number(10), number(20), number(30), number(2)]}),
        ("DELETE ss :a", {"ss": None}),
        ("DELETE ns :n", {"ns": frozenset((number(1),))}),
        ("DELETE ss :b", {}),
        ("DELETE zz :b, m.absent :b", {}),
    ],
)  # fmt: skip
def test_update(text, result):
    if isinstance(result, str):
        assert why(lambda: changes(text)) == result
    else:
        assert changes(text) == result


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SET m.z.y = :v", INVALID_PATH),
        ("SET zz.y = :v", INVALID_PATH),
        ("SET a.y = :v", INVALID_PATH),
        ("SET a[0] = :v", INVALID_PATH),
        ("SET l.y = :v", INVALID_PATH),
        ("SET m[0] = :v", INVALID_PATH),
        ("SET l[9].y = :v", INVALID_PATH),
        ("SET m.k.j.i = :v", INVALID_PATH),
        ("REMOVE zz.y", INVALID_PATH),
        ("REMOVE s[0]", INVALID_PATH),
        ("REMOVE l[9].y", INVALID_PATH),
        ("ADD zz.y :one", INVALID_PATH),
        ("DELETE zz.y :a", INVALID_PATH),
        ("SET c = zz", NO_ATTRIBUTE),
        ("SET c = m.absent", NO_ATTRIBUTE),
        ("SET c = l[9]", NO_ATTRIBUTE),
        ("SET c = c + :one", NO_ATTRIBUTE),
        ("SET c = list_append(zz, :list)", NO_ATTRIBUTE),
        ("SET c = if_not_exists(zz, yy)", NO_ATTRIBUTE),
        ("SET c = s + :one", WRONG_TYPE),
        ("SET c = a - ss", WRONG_TYPE),
        ("SET c = list_append(:list, s)", WRONG_TYPE),
        ("SET c = list_append(l, ns)", WRONG_TYPE),
        ("SET c = if_not_exists(s, :zero) + :one", WRONG_TYPE),
        ("SET c = list_append(l, l) + :one", WRONG_TYPE),
        ("ADD a :b", WRONG_TYPE),
        ("ADD s :one", WRONG_TYPE),
        ("ADD ss :n", WRONG_TYPE),
        ("ADD l :b", WRONG_TYPE),
        ("ADD ss :one", WRONG_TYPE),
        ("DELETE ss :n", WRONG_TYPE),
        ("DELETE a :n", WRONG_TYPE),
        ("DELETE l :n", WRONG_TYPE),
    ],
)
def test_errors_of_the_item(text, message):
    caught = refused(lambda: changes(text))
    assert (caught.message, caught.kind) == (message, error.RUNTIME)


# Several actions fail: the first in the text counts for values; paths are judged after them.
def test_first_error_in_the_text_counts():
    assert why(lambda: changes("SET b = zz, c = s + :one")) == NO_ATTRIBUTE
    assert why(lambda: changes("SET b = s + :one, c = zz")) == WRONG_TYPE
    assert why(lambda: changes("SET zz.y = :v, c = s + :one")) == WRONG_TYPE


@pytest.mark.parametrize(
    ("text", "values", "message"),
    [
        ("SET a = :v + :w", {":v": "9e125", ":w": "9e125"}, "Number overflow"),
        ("SET a = :v + :w", {":v": "1e50", ":w": "1"}, "Number overflow"),
        ("SET a = :v - :w", {":v": "-9e125", ":w": "9e125"}, "Number overflow"),
        ("SET a = :v - :w", {":v": "1.5e-130", ":w": "1e-130"}, "Number underflow"),
        ("ADD n :v", {":v": "1e50"}, "Number overflow"),
    ],
)
def test_arithmetic_is_exact_or_refused(text, values, message):
    made = update(text, {k: number(v) for k, v in values.items()})
    caught = refused(lambda: made.apply({"n": number(1)}))
    assert message in caught.message and caught.kind == error.RUNTIME


@pytest.mark.parametrize(
    ("a", "b", "total"),
    [
        ("0.1", "0.2", "0.3"),
        ("99999999999999999999999999999999999999", "1", "1e38"),
        ("1e125", "1e124", "1.1e125"),
        ("1", "-1", "0"),
        ("12345678901234567890123456789012345678", "0", "12345678901234567890123456789012345678"),
    ],
)
def test_arithmetic(a, b, total):
    made = update("SET c = :a + :b", {":a": number(a), ":b": number(b)})
    sum_ = made.apply({}).item["c"]
    assert sum_ == number(total)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ADD a :v", "operator: ADD, operand type: STRING"),
        ("ADD a :list", "operator: ADD, operand type: LIST"),
        ("ADD a :map", "operator: ADD, operand type: MAP"),
        ("ADD a :nul", "operator: ADD, operand type: NULL"),
        ("DELETE a :one", "operator: DELETE, operand type: NUMBER"),
        ("SET c = :v + :one", "operator or function: +, operand type: S"),
        ("SET c = a - :list", "operator or function: -, operand type: L"),
        ("SET c = list_append(:one, l)", "operator or function: list_append, operand type: N"),
        ("SET c = if_not_exists(:one, :v)", "document path; operator or function: if_not_exists"),
        ("SET c = if_not_exists(if_not_exists(a, b), :v)", "requires a document path"),
        ("SET c = list_append(l)", "function: list_append, number of operands: 1"),
        ("SET c = if_not_exists(a, b, c)", "function: if_not_exists, number of operands: 3"),
        ("SET m.k = :v, m = :w", "path one: [m, k], path two: [m]"),
        ("SET m.k = :v, m[0] = :w", "conflict with each other"),
        ("REMOVE a SET a = :v", "path one: [a], path two: [a]"),
        ("ADD a :one DELETE a :b", "overlap with each other"),
    ],
)
def test_static_faults(text, message):
    caught = refused(lambda: bound(text))
    assert caught.message.startswith("Invalid UpdateExpression: ") and message in caught.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SET a = :u, #u = b", "attribute name: #u"),
        ("SET a = :u, a = b", "attribute value: :u"),
        ("SET m.k = :v, m[0] = b, a = b, a = c ADD s :w", "overlap"),
        ("SET m.k = :v, m[0] = b ADD s :w", "conflict"),
        ("SET a = list_append(:v, b) ADD s :w", "operator: ADD"),
        ("SET a = if_not_exists(:u)", "attribute value: :u"),
    ],
)
def test_order_of_faults(text, message):
    values = {k: v for k, v in VALUES.items() if k in (":v", ":w")}
    assert message in why(lambda: update(text, values))


def test_the_same_text_with_other_values():
    for value, expected in [(number(1), number(2)), (number(5), number(6))]:
        assert update("ADD a :x", {":x": value}).apply(BASE).item["a"] == expected
    assert "STRING" in why(lambda: update("ADD a :x", {":x": "s"}))
    assert update("ADD a :x", {":x": number(1)}).apply(BASE).item["a"] == number(2)


# A missing item: results only, nothing for updates that can only take away.
@pytest.mark.parametrize(
    ("text", "only_removes", "result"),
    [
        ("SET a = :v", False, {"a": "v"}),
        ("ADD a :one", False, {"a": number(1)}),
        ("SET a = if_not_exists(pk, :v)", False, {"a": "v"}),
        ("REMOVE a", True, {}),
        ("REMOVE x.y, z[0]", True, {}),
        ("DELETE a :a", True, {}),
        ("REMOVE b SET a = :v", False, {"a": "v"}),
        ("SET x.y = :v", False, INVALID_PATH),
        ("SET a = pk", False, NO_ATTRIBUTE),
    ],
)
def test_missing_item(text, only_removes, result):
    made = bound(text)
    assert made.only_removes is only_removes
    if isinstance(result, str):
        assert why(lambda: made.apply(None)) == result
    else:
        assert made.apply(None).item == result


def test_result_by_attribute():
    result = bound("SET m.k = :v, c = :w REMOVE a, zz").apply(BASE)
    assert result.assigned == {"m": {"k": "v", "deep": {"l": ["p", "q"]}}, "c": "w"}
    assert result.removed == {"a", "zz"}
    assert result.assigned["m"]["deep"] is BASE["m"]["deep"]  # unchanged parts are shared


def test_what_an_update_knows():
    made = bound("SET m.k = l[0], b = if_not_exists(c, d) + e REMOVE a")
    assert made.targets == (("m", "k"), ("b",), ("a",))
    assert set(made.paths) == {("m", "k"), ("b",), ("a",), ("l", 0), ("c",), ("d",), ("e",)}
    assert made.attributes == {"m", "b", "a"}


# ReturnValues: targets only, in document shape, looked up literally in the old and new item.
@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("SET s = :v, c = :w", {"s": "text"}, {"s": "v", "c": "w"}),
        ("SET a = a", {"a": number(1)}, {"a": number(1)}),
        ("REMOVE a", {"a": number(1)}, {}),
        ("REMOVE a SET c = :v", {"a": number(1)}, {"c": "v"}),
        ("SET m.deep.l[1] = :v, m.k = :w",
         {"m": {"k": number(1), "deep": {"l": ["q"]}}}, {"m": {"k": "w", "deep": {"l": ["v"]}}}),
        ("SET m.fresh = :v", {}, {"m": {"fresh": "v"}}),
        ("SET l[100] = :v", {}, {}),
        ("REMOVE l[1]", {"l": [number(20)]}, {"l": [number(30)]}),
        ("DELETE ss :a", {"ss": frozenset("a")}, {}),
    ],
)  # fmt: skip
def test_returned_values(text, old, new):
    made = bound(text)
    assert made.updated_old(BASE) == old
    assert made.updated_new(made.apply(BASE).item) == new
    assert made.updated_old(None) == {} and made.updated_new(None) == {}


# 227 nested calls fit into 4096 bytes and must neither be refused nor exhaust the stack.
def test_deeply_nested_functions():
    text = "SET a=" + "if_not_exists(z," * 224 + "b" + ")" * 224
    assert update(text).apply({"b": "found"}).item["a"] == "found"
