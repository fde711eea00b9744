"""Short ways to bind and run an expression in a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from dynalsm.expressions import (
    Condition,
    ExpressionError,
    Placeholders,
    Update,
    bind_condition,
    bind_update,
)


def number(value: int | str) -> Any:
    """Return a number as expressions see it."""
    from decimal import Decimal

    return Decimal(value)


def condition(
    text: str,
    values: Mapping[str, Any] | None = None,
    names: Mapping[str, str] | None = None,
    kind: str = "ConditionExpression",
) -> Condition:
    return bind_condition(text, Placeholders(names, values), kind)


def holds(
    text: str,
    item: Mapping[str, Any],
    values: Mapping[str, Any] | None = None,
    names: Mapping[str, str] | None = None,
) -> bool:
    return condition(text, values, names).evaluate(item)


def update(
    text: str,
    values: Mapping[str, Any] | None = None,
    names: Mapping[str, str] | None = None,
) -> Update:
    return bind_update(text, Placeholders(names, values))


def refused(action: Callable[[], Any]) -> ExpressionError:
    """Return the error an action ends with."""
    with pytest.raises(ExpressionError) as caught:
        action()
    assert str(caught.value) == caught.value.message
    return caught.value


def why(action: Callable[[], Any]) -> str:
    return refused(action).message
