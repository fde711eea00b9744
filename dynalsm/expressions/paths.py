"""Sets of document paths as trees: overlap checks, and projections in document shape.

A path tree maps each first step to LEAF (the path ends here) or to the tree of what follows.

Thread safety: trees are not changed after build_tree returns.
Invariant: below one step all keys are str, or all are int (a conflict otherwise).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dynalsm.expressions import error
from dynalsm.expressions.ast import Steps, path_text
from dynalsm.expressions.error import Refusal
from dynalsm.expressions.evaluate import MISSING

PathTree = dict[Any, Any]

LEAF: Final = None


def build_tree(paths: Sequence[Steps]) -> PathTree:
    """Join paths to one tree. Raises: Refusal when two overlap or, failing that, conflict."""
    tree: PathTree = {}
    conflicting: Steps | None = None
    for number, path in enumerate(paths):
        node = tree
        last = len(path) - 1
        for depth, step in enumerate(path):
            if node and conflicting is None and type(next(iter(node))) is not type(step):
                conflicting = path
            if depth == last:
                if step in node:
                    raise _overlap(paths, number)
                node[step] = LEAF
            else:
                below = node.setdefault(step, {})
                if below is LEAF:
                    raise _overlap(paths, number)
                node = below
    if conflicting is not None:
        raise _conflict(paths, conflicting)
    return tree


def _overlap(paths: Sequence[Steps], number: int) -> Refusal:
    second = paths[number]
    for first in paths[:number]:
        common = min(len(first), len(second))
        if first[:common] == second[:common]:
            break
    return _clash("overlap", first, second)


def _conflict(paths: Sequence[Steps], second: Steps) -> Refusal:
    for first in paths:
        for a, b in zip(first, second, strict=False):
            if type(a) is not type(b):
                return _clash("conflict", first, second)
            if a != b:
                break
    raise AssertionError("build_tree found a conflict that is not there")


def _clash(verb: str, first: Steps, second: Steps) -> Refusal:
    return Refusal(
        f"Two document paths {verb} with each other; must remove or rewrite one of these paths; "
        f"path one: {path_text(first)}, path two: {path_text(second)}",
        error.PATHS,
    )


def project(item: Mapping[str, Any], tree: PathTree) -> dict[str, Any]:
    """Return what the tree selects of an item, in the item's shape; nothing selected is {}."""
    result: dict[str, Any] = {}
    for name, below in tree.items():
        value = item.get(name, MISSING)
        if value is not MISSING and below is not LEAF:
            value = _project_value(value, below)
        if value is not MISSING:
            result[name] = value
    return result


def _project_value(value: Any, tree: PathTree) -> Any:
    """Project below an attribute; lists are compacted in index order (observed: dynoxide)."""
    if type(next(iter(tree))) is str:
        if type(value) is not dict:
            return MISSING
        members = project(value, tree)
        return members or MISSING
    if type(value) is not list:
        return MISSING
    elements = []
    for index in sorted(tree):
        if index >= len(value):
            break
        below = tree[index]
        element = value[index] if below is LEAF else _project_value(value[index], below)
        if element is not MISSING:
            elements.append(element)
    return elements or MISSING
