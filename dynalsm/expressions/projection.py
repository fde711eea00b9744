"""ProjectionExpression: which parts of an item are returned.

Thread safety: a Projection is immutable.
Invariant: its paths neither overlap nor conflict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dynalsm.expressions.ast import Path, Steps
from dynalsm.expressions.bind import NO_CHECKS, Resolver, TypeChecks, bind_template
from dynalsm.expressions.parser import parse_projection
from dynalsm.expressions.paths import PathTree, build_tree, project
from dynalsm.expressions.placeholders import Placeholders
from dynalsm.expressions.static import Scope


@dataclass(frozen=True, slots=True)
class Projection:
    """A projection ready to use.

    `is_top_level` says that whole attributes are selected, so that encoded ones can be copied.
    """

    paths: tuple[Steps, ...]
    attributes: frozenset[str]
    tree: PathTree
    is_top_level: bool
    checks: TypeChecks = NO_CHECKS

    @classmethod
    def from_paths(cls, paths: tuple[Steps, ...]) -> Projection:
        """Make a projection of bound paths. Raises: Refusal when they overlap or conflict."""
        return cls(
            paths,
            frozenset(str(path[0]) for path in paths),
            build_tree(paths),
            all(len(path) == 1 for path in paths),
        )

    def apply(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Return the selected parts in the item's shape; {} when it has none of them."""
        return project(item, self.tree)


def bind_projection(
    text: str, placeholders: Placeholders, kind: str = "ProjectionExpression"
) -> Projection:
    """Bind a projection. Raises: ExpressionError."""
    return bind_template(text, placeholders, kind, parse_projection, _check, _build)[1]


def _check(paths: tuple[Path, ...], scope: Scope) -> None:
    build_tree([scope.steps(path) for path in paths])


def _build(paths: tuple[Path, ...], resolver: Resolver) -> Projection:
    return Projection.from_paths(tuple(resolver.path(path).steps for path in paths))
