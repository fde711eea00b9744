"""Updates of encoded items agree with the closures on internal values, or are left to them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dynalsm import errors, values
from dynalsm.expressions import ExpressionError, Placeholders, bind_update
from dynalsm.expressions.ast import Action, Arithmetic, Call, Constant, Path, Slot
from dynalsm.expressions.changes import Changer, compile_changes
from dynalsm.expressions.update import Update, compile_update
from tests.expressions.test_properties import NAMES, items
from tests.expressions.test_properties import paths as path_steps
from tests.expressions.test_properties import values as some_values

SLOTS = 4
sets = st.one_of(
    st.frozensets(st.sampled_from(["", "a", "ab", "b", "\uffff"]), min_size=1),
    st.frozensets(st.sampled_from([b"", b"a", b"\x80"]), min_size=1),
    st.frozensets(st.sampled_from([Decimal(n) for n in ("0", "-7", "1E+9", "12")]), min_size=1),
)
numbers = st.decimals(min_value=Decimal("-1E+40"), max_value=Decimal("1E+40"), places=3).map(
    lambda number: Decimal(str(number)[:36])
)
more_values = st.one_of(some_values, sets, numbers)
more_items = st.one_of(
    items, st.dictionaries(st.sampled_from([*NAMES, "k", "name"]), more_values, max_size=7)
)
paths = path_steps.map(Path)
simple = st.one_of(paths, st.integers(0, SLOTS - 1).map(Slot), more_values.map(Constant))
operands = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.builds(Call, st.just("if_not_exists"), st.tuples(paths, inner)),
        st.builds(Call, st.just("list_append"), st.tuples(inner, inner)),
    ),
    max_leaves=4,
)
terms = st.one_of(operands, st.builds(Arithmetic, st.sampled_from("+-"), operands, operands))
targets = st.sampled_from([*NAMES, "k", "name"]).map(lambda name: Path((name,)))
addable = st.one_of(sets, numbers).map(Constant)
actions = st.lists(
    st.one_of(
        st.builds(Action, st.just("SET"), targets, terms),
        st.builds(Action, st.just("REMOVE"), targets, st.none()),
        st.builds(Action, st.just("ADD"), targets, addable),
        st.builds(Action, st.just("DELETE"), targets, sets.map(Constant)),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda action: action.path,
).map(tuple)
slots = st.lists(more_values, min_size=SLOTS, max_size=SLOTS).map(tuple)


def changed(
    actions: tuple[Action, ...], item: dict[str, Any], given_values: tuple[Any, ...]
) -> tuple[bytes, int] | None:
    program = compile_changes(actions, len(given_values))
    assert program is not None
    return Changer(program, map(values.encode_value, given_values)).changed(
        values.encode_item(item)
    )


def assert_agree(
    actions: tuple[Action, ...], item: dict[str, Any], given_values: tuple[Any, ...]
) -> None:
    found = changed(actions, item, given_values)
    try:
        wanted = Update(compile_update(actions), given_values).apply(item).item
    except ExpressionError:
        assert found is None
        return
    assert found is not None
    encoded, growth = found
    assert encoded == values.encode_item(wanted)
    assert growth == values.item_size(encoded) - values.item_size(values.encode_item(item))


@settings(max_examples=400)
@given(actions, more_items, slots)
@example((Action("ADD", Path(("a",)), Constant(frozenset("b"))),), {"a": frozenset("a")}, ())
@example((Action("DELETE", Path(("a",)), Constant(frozenset("ab"))),), {"a": frozenset("a")}, ())
def test_agrees(
    actions: tuple[Action, ...], item: dict[str, Any], given_values: tuple[Any, ...]
) -> None:
    assert_agree(actions, item, given_values)


# Items whose every attribute fits most operators, so that more updates succeed.
@settings(max_examples=300)
@given(
    st.lists(
        st.one_of(
            st.builds(
                Action,
                st.just("SET"),
                targets,
                st.builds(
                    Arithmetic,
                    st.sampled_from("+-"),
                    st.one_of(targets, numbers.map(Constant)),
                    st.one_of(targets, numbers.map(Constant)),
                ),
            ),
            st.builds(Action, st.just("ADD"), targets, numbers.map(Constant)),
            st.builds(Action, st.just("REMOVE"), targets, st.none()),
        ),
        min_size=1,
        max_size=4,
        unique_by=lambda action: action.path,
    ).map(tuple),
    st.dictionaries(st.sampled_from([*NAMES, "k", "name"]), numbers, max_size=7),
)
def test_agrees_on_numbers(actions: tuple[Action, ...], item: dict[str, Any]) -> None:
    assert_agree(actions, item, ())


@settings(max_examples=300)
@given(
    st.lists(
        st.builds(Action, st.sampled_from(["ADD", "DELETE"]), targets, sets.map(Constant)),
        min_size=1,
        max_size=4,
        unique_by=lambda action: action.path,
    ).map(tuple),
    st.dictionaries(st.sampled_from([*NAMES, "k", "name"]), sets, max_size=7),
)
def test_agrees_on_sets(actions: tuple[Action, ...], item: dict[str, Any]) -> None:
    assert_agree(actions, item, ())


def bound(text: str, given_values: dict[str, Any]) -> Update:
    """Bind a text with those of the values that it mentions, encoded as well."""
    used = {name: value for name, value in given_values.items() if name in text}
    encoded = {name: values.encode_value(value) for name, value in used.items()}
    return bind_update(text, Placeholders(None, used or None, encoded))


BIG = {f"n{number:04}": "x" * (number % 300) for number in range(400)}


@pytest.mark.parametrize(
    "text",
    [
        "SET n0000 = :v",
        "SET n0399 = :v, n0001 = n0002, aa = :v, zz = n0300",
        "REMOVE n0000, n0399, n0200, zz",
        "SET big = list_append(:l, :l) REMOVE n0001",
    ],
)
def test_long_items(text: str) -> None:
    """Headers of two bytes, values and rooms beyond what a buffer starts with."""
    update = bound(text, {":v": "y" * 70_000, ":l": [Decimal(1)] * 10_000})
    changer = update.changer()
    assert changer is not None
    found = changer.changed(values.encode_item(BIG))
    assert found is not None
    assert found[0] == values.encode_item(update.apply(BIG).item)


@pytest.mark.parametrize(
    "text",
    [
        "SET a.b = :v",
        "REMOVE a[0]",
        "SET " + ", ".join(f"a{number} = :v" for number in range(33)),
        "SET a = " + "if_not_exists(a, " * 20 + ":v" + ")" * 20,
    ],
)
def test_what_is_left_to_closures(text: str) -> None:
    assert bound(text, {":v": Decimal(1)}).changer() is None


def test_values_of_both_kinds() -> None:
    """Encoded values alone are enough; without them there is no changer."""
    given_values = {":v": Decimal(1)}
    assert bind_update("SET a = :v", Placeholders(None, given_values)).changer() is None
    assert bind_update("REMOVE a", Placeholders(None, None)).changer() is not None
    update = bind_update("SET a = :v", Placeholders(None, given_values))
    again = update.template.bound((values.encode_value(Decimal(2)),))
    assert again.values == (Decimal(2),)
    assert again.apply({}).item == {"a": Decimal(2)}


def test_refuses_what_is_no_value() -> None:
    program = compile_changes((Action("SET", Path(("a",)), Slot(0)),), 1)
    assert program is not None
    with pytest.raises(ValueError, match="1 values are needed"):
        Changer(program, [])
    with pytest.raises(TypeError, match="bytes"):
        Changer(program, ["x"])  # type: ignore[list-item]


@pytest.mark.parametrize("text", ["SET b = :v", "REMOVE a", "ADD a :v", "DELETE s :s"])
def test_damaged_items_are_left(text: str) -> None:
    """Whatever is cut off: nothing is read behind the end, and no answer is made up."""
    update = bound(text, {":v": Decimal(1), ":s": frozenset("a")})
    item = values.encode_item({"a": Decimal(5), "b": ["x", {"y": None}], "s": frozenset("abc")})
    changer = update.changer()
    assert changer is not None
    for size in range(len(item)):
        found = changer.changed(item[:size])
        if found is not None:
            with pytest.raises(errors.CorruptionError, match="damaged"):
                values.item_size(found[0])
    assert changer.changed(b"\xa1a") is None
