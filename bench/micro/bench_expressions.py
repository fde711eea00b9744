"""What an expression costs per request and per item.

    python -m pytest bench/micro/bench_expressions.py --benchmark-only

`parse` and `cold bind` are what a text costs the first time; `bind` is what every later request
with it pays (placeholders, template, value checks, unused check); `evaluate`, `apply` and
`project` are per item.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from dynalsm import values
from dynalsm.expressions import (
    Placeholders,
    bind,
    bind_condition,
    bind_key_condition,
    bind_projection,
    bind_update,
    parser,
)
from dynalsm.expressions.conditionparser import ConditionParser
from dynalsm.expressions.partiql import bind_statement

Run = Callable[[Callable[[], Any]], Any]

SIMPLE = "a = :v AND b > :w"
NAMED = "#a = :v AND #b > :w"
RICH = (
    "(#status IN (:new, :open) OR attribute_not_exists(closed)) AND size(tags) >= :n "
    "AND NOT begins_with(address.city, :prefix) AND scores[0] BETWEEN :low AND :high"
)
UPDATE = "SET a = a + :v, m.k = :w REMOVE l[0]"
ITEM: dict[str, Any] = {
    "pk": "customer#1",
    "a": Decimal(1),
    "b": "y",
    "status": "open",
    "tags": frozenset(("x", "y")),
    "address": {"city": "Oslo", "street": "Storgata"},
    "scores": [Decimal(5), Decimal(7)],
    "m": {"k": Decimal(1), "other": "text"},
    "l": ["p", "q"],
}
VALUES: dict[str, Any] = {":v": Decimal(1), ":w": "x"}
NAMES = {"#a": "a", "#b": "b"}
RICH_VALUES: dict[str, Any] = {
    ":new": "new",
    ":open": "open",
    ":n": Decimal(2),
    ":prefix": "B",
    ":low": Decimal(1),
    ":high": Decimal(9),
}
RICH_NAMES = {"#status": "status"}


def bound(text: str, names: dict[str, str] | None, given: dict[str, Any]) -> Any:
    placeholders = Placeholders(names, given)
    condition = bind_condition(text, placeholders)
    placeholders.check_unused()
    return condition


def forget() -> None:
    bind._templates.clear()
    parser._cache.clear()


@pytest.mark.parametrize("text", [SIMPLE, RICH], ids=["simple", "rich"])
def test_parse(benchmark: Run, text: str) -> None:
    benchmark(lambda: ConditionParser(text, "ConditionExpression").parse())


@pytest.mark.parametrize(
    ("text", "names", "given"),
    [(SIMPLE, None, VALUES), (NAMED, NAMES, VALUES), (RICH, RICH_NAMES, RICH_VALUES)],
    ids=["simple", "named", "rich"],
)
class TestCondition:
    def test_cold_bind(self, benchmark: Run, text: str, names: Any, given: Any) -> None:
        def cold() -> Any:
            forget()
            return bound(text, names, given)

        benchmark(cold)

    def test_bind(self, benchmark: Run, text: str, names: Any, given: Any) -> None:
        benchmark(lambda: bound(text, names, given))

    def test_evaluate(self, benchmark: Run, text: str, names: Any, given: Any) -> None:
        condition = bound(text, names, given)
        assert condition.evaluate(ITEM) is True
        benchmark(lambda: condition.evaluate(ITEM))

    # With an encoded item, as a filter sees it: the attributes it needs are decoded too.
    def test_evaluate_view(self, benchmark: Run, text: str, names: Any, given: Any) -> None:
        condition = bound(text, names, given)
        encoded = values.encode_item(ITEM)
        assert condition.evaluate(values.ItemView(encoded)) is True
        benchmark(lambda: condition.evaluate(values.ItemView(encoded)))

    # The same, told by closures: what `judge` replaces.
    def test_evaluate_view_by_closures(
        self, benchmark: Run, text: str, names: Any, given: Any
    ) -> None:
        condition = bound(text, names, given)
        encoded = values.encode_item(ITEM)
        test, given_values = condition.template.test, condition.values
        benchmark(lambda: test(values.ItemView(encoded), given_values))

    def test_judge(self, benchmark: Run, text: str, names: Any, given: Any) -> None:
        judge = bound(text, names, given).judge
        encoded = values.encode_item(ITEM)
        assert judge.holds(encoded) is True
        benchmark(lambda: judge.holds(encoded))

    def test_make_judge(self, benchmark: Run, text: str, names: Any, given: Any) -> None:
        condition = bound(text, names, given)
        encoded = tuple(map(values.encode_value, condition.values))
        benchmark(lambda: condition.template.judge(encoded))


def test_bind_update(benchmark: Run) -> None:
    benchmark(lambda: bind_update(UPDATE, Placeholders(None, VALUES)))


def test_apply_update(benchmark: Run) -> None:
    update = bind_update(UPDATE, Placeholders(None, VALUES))
    benchmark(lambda: update.apply(ITEM))


def test_bind_projection(benchmark: Run) -> None:
    benchmark(lambda: bind_projection("a, m.k, scores[0]", Placeholders()))


def test_project(benchmark: Run) -> None:
    projection = bind_projection("a, m.k, scores[0]", Placeholders())
    benchmark(lambda: projection.apply(ITEM))


def test_key_condition(benchmark: Run) -> None:
    given = {":p": "a", ":s": "b"}
    types = {"pk": "S", "sk": "S"}

    def resolve() -> Any:
        condition = bind_key_condition("pk = :p AND sk > :s", Placeholders(None, given))
        return condition.resolve(("pk",), ("sk",), types)

    benchmark(resolve)


def test_bind_statement(benchmark: Run) -> None:
    text = 'SELECT * FROM "Music" WHERE Artist = ? AND SongTitle > ?'
    benchmark(lambda: bind_statement(text, ["Acme", "A"]))
