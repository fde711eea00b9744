"""SearchConditionExpression: which entries of a vector index a search looks at.

The text is parsed and checked like any condition; then it must be an AND of equalities between an
attribute and a value, one for each attribute. (AWS refuses every other operator, for HASH and for
INLINE_FILTER attributes; observed.)

Thread safety: a SearchCondition is immutable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from dynalsm.expressions import error
from dynalsm.expressions.ast import (
    And,
    Compare,
    ConditionNode,
    Constant,
    Path,
    Slot,
    Steps,
)
from dynalsm.expressions.bind import Resolver, TypeChecks, bind_template, condition_template
from dynalsm.expressions.error import ExpressionError
from dynalsm.expressions.parser import parse_condition
from dynalsm.expressions.placeholders import Placeholders
from dynalsm.expressions.static import check_condition

LABEL: Final = "SearchConditionExpression"


def _refused(message: str) -> ExpressionError:
    return ExpressionError(f"Invalid {LABEL}: {message}", error.KEY)


@dataclass(frozen=True, slots=True)
class SearchCondition:
    """Equalities in written order: (path, value)."""

    equalities: tuple[tuple[Steps, Any], ...]

    def by_attribute(self) -> dict[str, Any]:
        """Return the values by attribute name.

        Raises: ExpressionError for a nested attribute, and for one that is named twice.
        """
        found: dict[str, Any] = {}
        if any(len(path) > 1 for path, _ in self.equalities):
            raise _refused(f"{LABEL} cannot have conditions on nested attributes")
        for path, value in self.equalities:
            name = str(path[0])
            if name in found:
                raise _refused(f"{LABEL} must only contain one condition per attribute")
            found[name] = value
        return found


@dataclass(frozen=True, slots=True)
class _Template:
    """A search condition whose names are resolved."""

    equalities: tuple[tuple[Steps, Slot | Constant], ...]
    paths: tuple[Steps, ...]
    checks: TypeChecks


def bind_search_condition(
    text: str, placeholders: Placeholders, kind: str = LABEL
) -> SearchCondition:
    """Bind a search condition. Raises: ExpressionError."""
    _, template, values = bind_template(
        text, placeholders, kind, parse_condition, check_condition, _template
    )
    return SearchCondition(
        tuple(
            (path, values[node.index] if isinstance(node, Slot) else node.value)
            for path, node in template.equalities
        )
    )


def _template(tree: ConditionNode, resolver: Resolver) -> _Template:
    template = condition_template(tree, resolver)
    return _Template(_equalities(template.tree), template.paths, template.checks)


def _equalities(tree: ConditionNode) -> tuple[tuple[Steps, Any], ...]:
    found = []
    for term in tree.terms if isinstance(tree, And) else (tree,):
        if not isinstance(term, Compare) or term.operator != "=":
            raise _comparator()
        sides = (term.left, term.right)
        paths = [side for side in sides if isinstance(side, Path)]
        others = [side for side in sides if isinstance(side, Slot | Constant)]
        if len(paths) != 1 or len(others) != 1:
            raise _comparator()
        found.append((paths[0].steps, others[0]))
    return tuple(found)


def _comparator() -> ExpressionError:
    return _refused(f"Invalid comparator used in {LABEL}")
