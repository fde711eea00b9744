"""Expressions of every kind, bound and evaluated over items.

An input is JSON: {"kind", "text", "names", "values", "items"}, values and items typed. Where there
are two ways to evaluate (closures over internal values, programs over encoded bytes), they must
agree.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dynalsm import values
from dynalsm.expressions import (
    Condition,
    ExpressionError,
    Placeholders,
    Update,
    bind_condition,
    bind_key_condition,
    bind_projection,
    bind_search_condition,
    bind_update,
)
from dynalsm.values import SerializationProblem, ValueProblem
from tests.fuzz.loop import Fault, told
from tests.fuzz.mutate import (
    LEAVES,
    dump,
    load,
    mutate,
    mutate_text,
    mutate_tree,
    typed_item,
    typed_value,
)

KINDS = ("condition", "filter", "key", "update", "projection", "search")
WORDS = [
    "AND", "OR", "NOT", "BETWEEN", "IN", "SET", "REMOVE", "ADD", "DELETE", "attribute_exists",
    "attribute_not_exists", "attribute_type", "begins_with", "contains", "size", "if_not_exists",
    "list_append", "a", "b", "c", "p", "s", "#a", "#b", "#p", ":v", ":w", ":n", ":t", "=", "<>",
    "<", "<=", ">", ">=", "+", "-", "(", ")", "[", "]", ",", ".", " ", "[0]", "[1]", "status",
    "a[4294967296]", "a.b", "and", "Set", "a =", ", b",
]  # fmt: skip
NAMES = {"#a": "a", "#b": "b", "#p": "p", "#x": "a.b"}

# What updates can be applied to: most random values are of the wrong type for most of them.
FITTING_ITEM = {
    "a": {"N": "5"},
    "b": {"L": [{"N": "1"}, {"S": "x"}, {"M": {"a": {"N": "7"}}}, {"L": []}]},
    "c": {"M": {"a": {"N": "9"}, "b": {"NS": ["1", "2"]}}},
    "l": {"SS": ["a", "b"]},
}
FITTING_VALUES = [
    {"N": "1"}, {"N": "-2.5"}, {"N": "1e100"}, {"L": [{"S": "y"}]}, {"SS": ["a", "z"]},
    {"NS": ["2", "3"]}, {"S": "a"}, {"BS": ["YQ=="]},
]  # fmt: skip


def fitting(rng: random.Random) -> dict[str, Any]:
    """A value, often one that an update can do something with."""
    return typed_value(rng) if rng.random() < 0.3 else rng.choice(FITTING_VALUES)


class Grammar:
    """Makes texts that mostly parse."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def pick(self, *ways: Callable[[], str]) -> str:
        return self.rng.choice(ways)()

    def path(self) -> str:
        parts = [self.rng.choice(["a", "b", "c", "p", "s", "l", "#a", "#b", "#p"])]
        while self.rng.random() < 0.3:
            parts.append(self.rng.choice([".a", ".b", ".#a", "[0]", "[1]", "[3]"]))
        return "".join(parts)

    def value(self) -> str:
        return self.rng.choice([":v", ":w", ":n", ":t"])

    def operand(self) -> str:
        return self.pick(self.path, self.path, self.value, lambda: f"size({self.path()})")

    def condition(self, depth: int = 3) -> str:
        if depth == 0 or self.rng.random() < 0.4:
            return self.leaf()
        one, two = self.condition(depth - 1), self.condition(depth - 1)
        return self.rng.choice([f"{one} AND {two}", f"{one} OR {two}", f"NOT {one}", f"({one})"])

    def leaf(self) -> str:
        one, two, three = self.operand(), self.operand(), self.operand()
        path, value = self.path(), self.value()
        return self.rng.choice([
            f"{one} {self.rng.choice(['=', '<>', '<', '<=', '>', '>='])} {two}",
            f"{one} BETWEEN {two} AND {three}", f"{one} IN ({two}, {three})",
            f"attribute_exists({path})", f"attribute_not_exists({path})",
            f"attribute_type({path}, {value})", f"begins_with({path}, {value})",
            f"contains({path}, {one})",
        ])  # fmt: skip

    def key(self) -> str:
        sort = self.rng.choice([
            "s = :v", "s < :n", "s BETWEEN :v AND :w", "begins_with(s, :v)", "s >= :w", ":v > s",
        ])  # fmt: skip
        return self.rng.choice([f"p = :v AND {sort}", f"{sort} AND #p = :v", "p = :v", f"({sort})"])

    def assigned(self) -> str:
        one, two = self.operand(), self.value()
        return self.rng.choice([
            one, two, f"{one} + {two}", f"{self.path()} - {two}", f"if_not_exists({one}, {two})",
            f"list_append({one}, {two})", f"if_not_exists({self.path()}, {one}) + {two}",
        ])  # fmt: skip

    def update(self) -> str:
        def listed(one: Callable[[], str]) -> str:
            return ", ".join(one() for _ in range(self.rng.choice([1, 1, 2, 3])))

        clauses = [
            "SET " + listed(lambda: f"{self.path()} = {self.assigned()}"),
            "REMOVE " + listed(self.path),
            "ADD " + listed(lambda: f"{self.path()} {self.value()}"),
            "DELETE " + listed(lambda: f"{self.path()} {self.value()}"),
        ]
        return " ".join(self.rng.sample(clauses, self.rng.choice([1, 1, 2, 4])))

    def text(self, kind: str) -> str:
        if kind == "update":
            return self.update()
        if kind == "projection":
            return ", ".join(self.path() for _ in range(self.rng.choice([1, 2, 5])))
        if kind == "key":
            return self.key()
        if kind == "search":
            return " AND ".join(f"{self.path()} = {self.value()}" for _ in range(2))
        return self.condition()


class Expressions:
    """See the module's docstring."""

    name = "expressions"
    may_log = False
    has_state = False

    def __init__(self, work: Path) -> None:
        """No files are needed."""

    def seeds(self) -> list[bytes]:
        rng = random.Random(5)
        return [self.fresh(rng, kind) for kind in KINDS for _ in range(30)]

    def fresh(self, rng: random.Random, kind: str) -> bytes:
        text = Grammar(rng).text(kind)
        given = {name: fitting(rng) for name in (":v", ":w", ":n") if name in text}
        if ":t" in text:
            given[":t"] = {"S": rng.choice(["S", "N", "L", "NS"])}
        names = {name: NAMES[name] for name in NAMES if name in text}
        items = [{**typed_item(rng), **FITTING_ITEM}, typed_item(rng), {"a": fitting(rng)}]
        whole = {"kind": kind, "text": text, "names": names, "values": given, "items": items}
        return dump(whole)

    def make(self, rng: random.Random, kept: Sequence[bytes]) -> bytes:
        if rng.random() < 0.35:
            return self.fresh(rng, rng.choice(KINDS))
        data = rng.choice(kept)
        whole = load(data)
        if rng.random() < 0.05 or not isinstance(whole, dict):
            return mutate(rng, data)
        way = rng.random()
        if way < 0.7 and isinstance(whole.get("text"), str):
            whole["text"] = mutate_text(rng, whole["text"], WORDS)
        elif way < 0.9:
            place = rng.choice(["names", "values", "items"])
            whole[place] = mutate_tree(rng, whole.get(place), LEAVES)
        else:
            whole["kind"] = rng.choice(KINDS)
        return dump(whole)

    def run(self, data: bytes) -> str:
        whole = load(data)
        if not has_shape(whole):
            return "no request"
        try:
            items = [values.encode_json_item(item) for item in whole["items"]]
            encoded = {name: values.encode_json(each) for name, each in whole["values"].items()}
            internal = {name: values.decode_value(each) for name, each in encoded.items()}
            given = Placeholders(whole["names"] or None, internal or None, encoded)
            outcome = self.evaluate(whole["kind"], whole["text"], given, items)
            given.check_unused()
        except (ExpressionError, ValueProblem, SerializationProblem) as error:
            return told(error)
        return outcome

    def evaluate(self, kind: str, text: str, given: Placeholders, items: list[bytes]) -> str:
        if kind == "key":
            types = {"p": "S", "s": "N", "a": "S"}
            condition = bind_key_condition(text, given)
            return f"key: {len(condition.resolve(['p'], ['s', 'a'], types))}"
        if kind == "search":
            return f"search: {len(bind_search_condition(text, given).by_attribute())}"
        if kind == "projection":
            projection = bind_projection(text, given)
            found = [projection.apply(values.ItemView(item)) for item in items]
            assert found == [projection.apply(values.decode_item(item)) for item in items]
            return f"projection: {len(found)}"
        if kind == "update":
            update = bind_update(text, given)
            return "update: " + " ".join(self.updated(update, item) for item in items)
        label = "FilterExpression" if kind == "filter" else "ConditionExpression"
        condition = bind_condition(text, given, label)
        return f"{label}: {[self.judged(condition, item) for item in items]}"

    def judged(self, condition: Condition, item: bytes) -> bool:
        plain = condition.evaluate(values.decode_item(item))
        if condition.evaluate(values.ItemView(item)) is not plain:
            raise Fault(f"the two ways to judge {item!r} disagree")
        return plain

    def updated(self, update: Update, item: bytes) -> str:
        changer = update.changer()
        quick = changer.changed(item) if changer is not None else None
        try:
            slow = values.encode_item(update.apply(values.decode_item(item)).item)
        except (ExpressionError, ValueProblem):
            if quick is not None:
                raise Fault(f"only one way updates {item!r}") from None
            raise
        if quick is not None:
            size = values.item_size(slow) - values.item_size(item)
            if quick != (slow, size):
                raise Fault(f"the two ways update {item!r} to {quick!r} and {slow!r}")
        update.updated_old(values.ItemView(item))
        update.updated_new(values.ItemView(slow))
        return "slow" if quick is None else "quick"

    def reset(self) -> None:
        """There is no state."""

    def close(self) -> None:
        """There are no files."""


def has_shape(whole: Any) -> bool:
    """Whether the members have the types that a request's shape asks for."""
    return (
        isinstance(whole, dict)
        and whole.get("kind") in KINDS
        and isinstance(whole.get("text"), str)
        and isinstance(whole.get("items"), list)
        and isinstance(whole.get("values"), dict)
        and isinstance(whole.get("names"), dict)
        and all(isinstance(name, str) for name in whole["names"].values())
    )
