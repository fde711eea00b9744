"""Programs over encoded bytes judge as the closures over internal values do."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dynalsm import errors, values
from dynalsm.expressions import Condition
from dynalsm.expressions.ast import And, Between, Call, Compare, Constant, In, Not, Or, Path, Slot
from dynalsm.expressions.compiled import Judge, compile_program
from dynalsm.expressions.evaluate import compile_condition
from tests.expressions.test_properties import items
from tests.expressions.test_properties import paths as path_steps
from tests.expressions.test_properties import values as some_values

paths = path_steps.map(Path)
SLOTS = 4
simple = st.one_of(paths, st.integers(0, SLOTS - 1).map(Slot), some_values.map(Constant))
operands = st.one_of(simple, simple.map(lambda operand: Call("size", (operand,))))
tags = st.sampled_from(["S", "N", "B", "BOOL", "NULL", "L", "M", "SS", "NS", "BS", "?"])
leaves = st.one_of(
    st.builds(Compare, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), operands, operands),
    st.builds(Between, operands, operands, operands),
    st.builds(In, operands, st.lists(operands, min_size=1, max_size=3).map(tuple)),
    st.builds(
        Call,
        st.sampled_from(["attribute_exists", "attribute_not_exists"]),
        st.tuples(operands),
    ),
    st.builds(Call, st.sampled_from(["begins_with", "contains"]), st.tuples(operands, operands)),
    st.builds(Call, st.just("attribute_type"), st.tuples(operands, tags.map(Constant))),
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(And, st.lists(inner, min_size=2, max_size=4).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=2, max_size=4).map(tuple)),
    ),
    max_leaves=8,
)
slots = st.lists(some_values, min_size=SLOTS, max_size=SLOTS).map(tuple)


def judge(tree: Any, given_values: tuple[Any, ...] = ()) -> Judge:
    program = compile_program(tree, len(given_values))
    assert program is not None
    return Judge(program, map(values.encode_value, given_values))


def assert_agree(tree: Any, item: dict[str, Any], given_values: tuple[Any, ...]) -> None:
    wanted = compile_condition(tree)(item, given_values)
    compiled = judge(tree, given_values)
    encoded = values.encode_item(item)
    assert compiled.holds(encoded) is wanted
    condition = Condition.from_tree(tree, given_values)
    assert condition.evaluate(item) is wanted
    assert condition.evaluate(values.ItemView(encoded)) is wanted


@settings(max_examples=400)
@given(trees, items, slots)
@example(Compare("=", Path(("a",)), Path(("a",))), {"a": [frozenset("ab")]}, (1,) * SLOTS)
@example(In(Path(("a",)), (Path(("a",)),)), {}, (None,) * SLOTS)
def test_agreement(tree: Any, item: dict[str, Any], given_values: tuple[Any, ...]) -> None:
    assert_agree(tree, item, given_values)


@given(leaves, items, slots)
def test_agreement_of_single_tests(
    tree: Any, item: dict[str, Any], given_values: tuple[Any, ...]
) -> None:
    assert_agree(tree, item, given_values)


# Pairs of equal, nearly equal and ordered values of every type.
VALUES: list[Any] = [
    *["", "a", "ab", "b", "é", "\uffff", "\U00010000", "x" * 300],
    *[b"", b"a", b"ab", b"\x80", b"\xff" * 300],
    *[Decimal(n) for n in ("0", "1", "-1", "1.5", "-1E-130", "9.9E125", "12345678901234567890")],
    *[True, False, None, [], {}, ["a"], [["a"]], [None, "a"], {"a": "b"}, {"a": {"b": []}}],
    *[frozenset("a"), frozenset("ab"), frozenset((b"a", b"")), frozenset((Decimal(1), Decimal(2)))],
]


@pytest.mark.parametrize("operator", ["=", "<>", "<", "<=", ">", ">=", "begins_with", "contains"])
def test_every_pair_of_values(operator: str) -> None:
    for left in VALUES:
        for right in VALUES:
            pair = (Path(("a",)), Path(("b", 0)))
            if operator in ("begins_with", "contains"):
                tree: Any = Call(operator, pair)
            else:
                tree = Compare(operator, *pair)
            assert_agree(tree, {"a": left, "b": [right]}, ())


def test_every_size_and_type() -> None:
    for value in [*VALUES, "\U0001f600" * 40]:
        size = Call("size", (Path(("a",)),))
        for number in (0, 1, 2, 3, 40, 80, 300):
            assert_agree(Compare("=", size, Slot(0)), {"a": value}, (Decimal(number),))
        for tag in ("S", "N", "B", "BOOL", "NULL", "L", "M", "SS", "NS", "BS", "", "SSS"):
            tree = Call("attribute_type", (Path(("a",)), Slot(0)))
            assert_agree(tree, {"a": value}, (tag,))


def test_long_conditions_do_not_recurse() -> None:
    tree: Any = Compare("=", Path(("a",)), Slot(0))
    for _ in range(300):
        tree = Not(tree)
    item = {"a": "x"}
    assert judge(tree, ("x",)).holds(values.encode_item(item))
    tree = Or(tuple(Compare("=", Path(("a",)), Constant(str(i))) for i in range(1000)))
    assert not judge(tree).holds(values.encode_item(item))


def test_what_is_left_to_closures() -> None:
    twice = Call("size", (Call("size", (Path(("a",)),)),))
    assert compile_program(Compare("=", twice, Slot(0)), 1) is None
    assert compile_program(Call("attribute_exists", (Path(("\ud800",)),)), 0) is None
    condition = Condition.from_tree(Compare("=", twice, Constant(Decimal(1))))
    assert condition.judge is None
    assert condition.evaluate(values.ItemView(values.encode_item({"a": "x"}))) is False
    # A value that no item can hold (too deep) equals none.
    deep: Any = []
    for _ in range(40):
        deep = [deep]
    condition = Condition.from_tree(Compare("=", Path(("a",)), Slot(0)), (deep,))
    assert condition.judge is None
    assert condition.evaluate(values.ItemView(values.encode_item({"a": []}))) is False


def test_a_judge_needs_all_values() -> None:
    program = compile_program(Compare("=", Path(("a",)), Slot(0)), 1)
    assert program is not None
    with pytest.raises(ValueError, match="1 values"):
        Judge(program, [])
    with pytest.raises(errors.CorruptionError, match="damaged"):
        Judge(program, [b""])
    with pytest.raises(TypeError):
        Judge(program, [None])  # type: ignore[list-item]


def test_damaged_items() -> None:
    # Never a crash; CorruptionError, or an answer that the damage did not touch.
    item = values.encode_item(
        {"a": [{"b": ["x", frozenset(("y", "z"))]}], "c": "text", "l": [Decimal(1), b"b", None]}
    )
    programs = [
        judge(Compare("=", Path(("a", 0, "b", 1)), Path(("a", 0, "b", 1)))),
        judge(Call("contains", (Path(("l",)), Constant("q")))),
        judge(Call("contains", (Path(("a", 0, "b", 1)), Constant("q")))),
        judge(Compare("<", Call("size", (Path(("a", 0, "b", 1)),)), Call("size", (Path(("c",)),)))),
        judge(In(Path(("a",)), (Path(("l",)), Path(("a",))))),
    ]
    for position in range(len(item)):
        for change in (0x01, 0x20, 0x80, 0xFF):
            bad = item[:position] + bytes([item[position] ^ change]) + item[position + 1 :]
            for program in programs:
                for data in (bad, item[:position]):
                    try:
                        program.holds(data)
                    except errors.CorruptionError as problem:
                        assert "damaged" in str(problem)
