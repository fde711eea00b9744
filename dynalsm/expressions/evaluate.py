"""Bound condition trees to closures, and the comparison of values they rest on.

A compiled condition is a function of (item, values): the item is any mapping of attribute names
to values, the values are those of the tree's slots. Nothing is looked up by name twice, nothing
is dispatched on node types while an item is judged.

Thread safety: compiled conditions hold no state.
Invariants: (1) a missing path is MISSING, never None (None is the NULL value); (2) values of
different types are never equal and never ordered, at any depth: `True` is not 1, `"a"` is not
`b"a"`; (3) evaluation never raises for any stored value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from dynalsm.expressions.ast import (
    And,
    Between,
    Call,
    Compare,
    ConditionNode,
    Constant,
    In,
    Not,
    Operand,
    Or,
    Path,
    Slot,
)

Item = Mapping[str, Any]
Values = tuple[Any, ...]
Fetch = Callable[[Item, Values], Any]
Test = Callable[[Item, Values], bool]


class _Missing:
    """The type of MISSING; falsy so that it can never pass for a found value."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()

ORDERED: Final = frozenset((str, Decimal, bytes))
_CONTAINERS: Final = frozenset((list, dict))
_TAGS: Final = {
    str: "S",
    Decimal: "N",
    bytes: "B",
    bool: "BOOL",
    type(None): "NULL",
    list: "L",
    dict: "M",
}
_SET_TAGS: Final = {str: "SS", Decimal: "NS", bytes: "BS"}
TYPE_TAGS: Final = frozenset(("S", "N", "B", "BOOL", "NULL", "L", "M", "SS", "NS", "BS"))


def type_tag(value: Any) -> str:
    """Return the DynamoDB type of an internal value: S, N, B, BOOL, NULL, L, M, SS, NS or BS."""
    tag = _TAGS.get(type(value))
    if tag is not None:
        return tag
    return _SET_TAGS[type(next(iter(value)))]


def equal(a: Any, b: Any) -> bool:
    """Compare two values (or MISSING) deeply; types count everywhere, MISSING equals nothing."""
    kind = type(a)
    if kind is not type(b) or a is MISSING:
        return False
    if kind is list:
        return len(a) == len(b) and all(map(equal, a, b))
    if kind is dict:
        if len(a) != len(b):
            return False
        return all(key in b and equal(value, b[key]) for key, value in a.items())
    return bool(a == b)


def compare(a: Any, b: Any) -> int | None:
    """Order two values: -1, 0 or 1; None unless both are S, both N or both B.

    S is ordered by code points (the order of its UTF-8 bytes), B by unsigned bytes, N by value.
    """
    if type(a) is not type(b) or type(a) not in ORDERED:
        return None
    return int(a > b) - int(a < b)


def contains(container: Any, member: Any) -> bool:
    """`contains`: substring, sub-bytes, member of a set, element of a list; maps never."""
    kind = type(container)
    if kind is str or kind is bytes:
        return type(member) is kind and member in container
    if kind is frozenset:
        return type(member) in _SET_TAGS and member in container
    if kind is list:
        return any(equal(element, member) for element in container)
    return False


def begins_with(text: Any, prefix: Any) -> bool:
    """`begins_with`: both S or both B, and a prefix."""
    kind = type(text)
    return (kind is str or kind is bytes) and type(prefix) is kind and text.startswith(prefix)


def size(value: Any) -> Any:
    """`size` as a number, MISSING where it has none.

    S counts UTF-16 code units (observed: dynoxide), B bytes, sets, lists and maps members.
    """
    kind = type(value)
    if kind is str:
        if value.isascii() or max(value, default="") <= "\uffff":
            return Decimal(len(value))
        return Decimal(len(value.encode("utf-16-le", "surrogatepass")) // 2)
    if kind is bytes or kind is frozenset or kind is list or kind is dict:
        return Decimal(len(value))
    return MISSING


def fetch(item: Item, steps: tuple[str | int, ...]) -> Any:
    """Return the value at a bound path, or MISSING."""
    value = item.get(steps[0], MISSING)  # type: ignore[arg-type]
    for step in steps[1:]:
        kind = type(value)
        if type(step) is str:
            if kind is not dict:
                return MISSING
            value = value.get(step, MISSING)
        elif kind is list and step < len(value):  # type: ignore[operator]
            value = value[step]
        else:
            return MISSING
    return value


def compile_operand(node: Operand) -> Fetch:
    """Return a function (item, values) -> value or MISSING."""
    if isinstance(node, Path):
        steps = node.steps
        if len(steps) == 1:
            name = steps[0]
            return lambda item, values: item.get(name, MISSING)
        return lambda item, values: fetch(item, steps)
    if isinstance(node, Slot):
        index = node.index
        return lambda item, values: values[index]
    if isinstance(node, Constant):
        constant = node.value
        return lambda item, values: constant
    assert isinstance(node, Call) and node.function == "size"
    argument = compile_operand(node.arguments[0])
    return lambda item, values: size(argument(item, values))


def compile_condition(node: ConditionNode) -> Test:
    """Return a function (item, values) -> bool."""
    return _COMPILERS[type(node)](node)


def _compile_compare(node: Compare) -> Test:
    if node.operator == "=":
        return _compile_equal(node)
    if node.operator == "<>":
        equals = _compile_equal(node)
        return lambda item, values: not equals(item, values)
    return _compile_ordering(_ORDERINGS[node.operator], node.left, node.right)


def _compile_equal(node: Compare) -> Test:
    if isinstance(node.left, Path) and isinstance(node.right, Slot) and len(node.left.steps) == 1:
        name, index = node.left.steps[0], node.right.index

        def attribute_equals(item: Item, values: Values) -> bool:
            a = item.get(name, MISSING)
            b = values[index]
            kind = type(b)
            if type(a) is not kind:
                return False
            return equal(a, b) if kind in _CONTAINERS else a == b

        return attribute_equals
    left, right = compile_operand(node.left), compile_operand(node.right)
    return lambda item, values: equal(left(item, values), right(item, values))


_ORDERINGS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _compile_ordering(
    holds: Callable[[Any, Any], bool], left_node: Operand, right_node: Operand
) -> Test:
    if isinstance(left_node, Path) and isinstance(right_node, Slot) and len(left_node.steps) == 1:
        name, index = left_node.steps[0], right_node.index

        def attribute_ordered(item: Item, values: Values) -> bool:
            a = item.get(name, MISSING)
            b = values[index]
            kind = type(b)
            return type(a) is kind and kind in ORDERED and holds(a, b)

        return attribute_ordered
    left, right = compile_operand(left_node), compile_operand(right_node)

    def ordered(item: Item, values: Values) -> bool:
        a = left(item, values)
        b = right(item, values)
        kind = type(a)
        return type(b) is kind and kind in ORDERED and holds(a, b)

    return ordered


def _compile_between(node: Between) -> Test:
    operand = compile_operand(node.operand)
    lower, upper = compile_operand(node.lower), compile_operand(node.upper)

    def between(item: Item, values: Values) -> bool:
        a = operand(item, values)
        kind = type(a)
        if kind not in ORDERED:
            return False
        low = lower(item, values)
        high = upper(item, values)
        return type(low) is kind and type(high) is kind and bool(low <= a <= high)

    return between


def _compile_in(node: In) -> Test:
    operand = compile_operand(node.operand)
    options = tuple(map(compile_operand, node.options))

    def among(item: Item, values: Values) -> bool:
        a = operand(item, values)
        return a is not MISSING and any(equal(a, option(item, values)) for option in options)

    return among


def _compile_not(node: Not) -> Test:
    test = compile_condition(node.operand)
    return lambda item, values: not test(item, values)


def _compile_and(node: And) -> Test:
    tests = tuple(map(compile_condition, node.terms))
    if len(tests) == 2:
        first, second = tests
        return lambda item, values: first(item, values) and second(item, values)

    def every(item: Item, values: Values) -> bool:
        for test in tests:  # noqa: SIM110 - a generator here costs more than the tests
            if not test(item, values):
                return False
        return True

    return every


def _compile_or(node: Or) -> Test:
    tests = tuple(map(compile_condition, node.terms))
    if len(tests) == 2:
        first, second = tests
        return lambda item, values: first(item, values) or second(item, values)

    def some(item: Item, values: Values) -> bool:
        for test in tests:  # noqa: SIM110 - a generator here costs more than the tests
            if test(item, values):
                return True
        return False

    return some


def _compile_call(node: Call) -> Test:
    function = node.function
    first = compile_operand(node.arguments[0])
    if function == "attribute_exists":
        return lambda item, values: first(item, values) is not MISSING
    if function == "attribute_not_exists":
        return lambda item, values: first(item, values) is MISSING
    second = compile_operand(node.arguments[1])
    if function == "attribute_type":

        def has_type(item: Item, values: Values) -> bool:
            value = first(item, values)
            return value is not MISSING and type_tag(value) == second(item, values)

        return has_type
    test = {"begins_with": begins_with, "contains": contains}[function]
    return lambda item, values: test(first(item, values), second(item, values))


_COMPILERS: Final[dict[type, Callable[[Any], Test]]] = {
    Compare: _compile_compare,
    Between: _compile_between,
    In: _compile_in,
    Not: _compile_not,
    And: _compile_and,
    Or: _compile_or,
    Call: _compile_call,
}
