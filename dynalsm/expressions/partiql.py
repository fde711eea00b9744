"""PartiQL statements: text and parameters to a statement ready to run.

    statement = bind_statement('SELECT * FROM "Music" WHERE Artist = ?', ["Acme"])

The where clause is a `Condition` like that of an expression, the changes of an UPDATE are an
`Update`, the item of an INSERT is a dict of internal values; running them is the data model's work.
Comparisons mean what they mean in condition expressions (observed: dynoxide, on every type).

Thread safety: statements are immutable; parsed texts are cached and shared.
Invariant: messages are complete, as they come from no expression parameter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dynalsm.expressions import error
from dynalsm.expressions.ast import (
    MAX_PATH_DEPTH,
    And,
    Compare,
    ConditionNode,
    Constant,
    In,
    Or,
    Path,
    Slot,
    Steps,
)
from dynalsm.expressions.bind import Condition, ConditionTemplate, template_of
from dynalsm.expressions.cache import ClockCache
from dynalsm.expressions.error import ExpressionError, Refusal
from dynalsm.expressions.evaluate import MISSING, fetch
from dynalsm.expressions.partiqlparser import (
    DeleteTree,
    ExistsTree,
    InsertTree,
    SelectTree,
    StatementParser,
    StatementTree,
    UpdateTree,
)
from dynalsm.expressions.static import Scope, check_condition
from dynalsm.expressions.update import Update as Changes
from dynalsm.expressions.update import UpdateTemplate, check_functions, compile_update

_CACHE_BYTES: Final = 16 << 20
_ENTRY_BYTES: Final = 4000  # measured: a parsed and compiled statement, plus _BYTES_PER_CHARACTER
_BYTES_PER_CHARACTER: Final = 60


@dataclass(frozen=True, slots=True)
class Select:
    """SELECT. `paths` is None for `*`; `order` lists (path, descending)."""

    table: str
    index: str | None
    paths: tuple[Steps, ...] | None
    where: Condition | None
    order: tuple[tuple[Steps, bool], ...]

    def project(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Return the selected values; each is named by the last name in its path."""
        if self.paths is None:
            return dict(item)
        result: dict[str, Any] = {}
        for path in self.paths:
            value = fetch(item, path)
            if value is not MISSING:
                result[_result_name(path)] = value
        return result


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT of one item."""

    table: str
    item: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Update:
    """UPDATE; no upsert. `returning` is None or for example ("MODIFIED", "NEW")."""

    table: str
    index: str | None
    update: Changes
    where: Condition | None
    returning: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE; `returning` is None or ("ALL", "OLD")."""

    table: str
    index: str | None
    where: Condition | None
    returning: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class Exists:
    """EXISTS(SELECT ...), the condition check of ExecuteTransaction."""

    select: Select


Statement = Select | Insert | Update | Delete | Exists


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What a text is, whatever its parameters."""

    tree: StatementTree
    parameters: int
    templates: tuple[Any, ...]
    where: ConditionTemplate | None
    update: UpdateTemplate | None


_cache: ClockCache[_Prepared] = ClockCache(_CACHE_BYTES)


def bind_statement(text: str, parameters: Sequence[Any] | None = None) -> Statement:
    """Parse a statement (once per text) and put its parameters in.

    Parameters are internal values; more than the statement has `?` are ignored (observed).
    Raises: ExpressionError.
    """
    given = tuple(parameters or ())
    try:
        prepared = _prepare(text)
        if len(given) < prepared.parameters:
            raise Refusal(
                "Number of parameters in request and statement don't match.", error.PARAMETER
            )
        values = given[: prepared.parameters]
        if prepared.templates:
            made = [_filled(template, values) for template in prepared.templates]
            values += tuple(reversed(made))  # the k-th template is values[-1 - k]
        return _bound(prepared.tree, prepared, values)
    except Refusal as refusal:
        raise ExpressionError(refusal.message, refusal.kind) from None


def _prepare(text: str) -> _Prepared:
    prepared = _cache.get(text)
    if prepared is None:
        parser = StatementParser(text)
        tree = parser.parse()
        where = tree.select.where if isinstance(tree, ExistsTree) else getattr(tree, "where", None)
        if where is not None:
            check_condition(where, Scope({}, {}))
        if isinstance(tree, UpdateTree):
            _check_functions(tree, Scope({}, {}))
        prepared = _Prepared(
            tree,
            parser.parameters,
            tuple(parser.templates),
            template_of(where) if where is not None else None,
            compile_update(tree.actions) if isinstance(tree, UpdateTree) else None,
        )
        _check_depths(prepared)
        _cache.put(text, prepared, _ENTRY_BYTES + _BYTES_PER_CHARACTER * len(text))
    return prepared


def _check_depths(prepared: _Prepared) -> None:
    paths: list[Steps] = []
    if prepared.where is not None:
        paths.extend(prepared.where.paths)
    if prepared.update is not None:
        paths.extend(prepared.update.paths)
    if isinstance(prepared.tree, SelectTree):
        paths.extend(prepared.tree.paths or ())
    deepest = max(map(len, paths), default=0)
    if deepest > MAX_PATH_DEPTH:
        raise Refusal(
            f"The document path has too many nesting levels; nesting levels: {deepest}",
            error.LIMIT,
        )


def _bound(tree: StatementTree, prepared: _Prepared, values: tuple[Any, ...]) -> Statement:
    if isinstance(tree, ExistsTree):
        return Exists(_select(tree.select, prepared, values))
    if isinstance(tree, SelectTree):
        return _select(tree, prepared, values)
    if isinstance(tree, InsertTree):
        return Insert(tree.table, _filled(tree.item, values))
    where = _where(prepared, values)
    if isinstance(tree, DeleteTree):
        return Delete(tree.table, tree.index, where, tree.returning)
    assert prepared.update is not None
    if not prepared.update.checks.hold(values):
        _check_functions(tree, Scope({}, {}, values))
    _check_sets(tree, values)
    changes = Changes(prepared.update, values)
    return Update(tree.table, tree.index, changes, where, tree.returning)


def _check_functions(tree: UpdateTree, scope: Scope) -> None:
    for action in tree.actions:
        if action.section == "SET":
            check_functions(action.value, scope)


def _check_sets(tree: UpdateTree, values: tuple[Any, ...]) -> None:
    """Refuse a parameter of set_add or set_delete that is no set."""
    for action in tree.actions:
        if action.section not in ("ADD", "DELETE") or not isinstance(action.value, Slot):
            continue
        if not isinstance(values[action.value.index], frozenset):
            name = "SET_ADD" if action.section == "ADD" else "SET_DELETE"
            raise Refusal(
                f"The second argument to {name} must be a value with type SET", error.OPERAND
            )


def _select(tree: SelectTree, prepared: _Prepared, values: tuple[Any, ...]) -> Select:
    return Select(tree.table, tree.index, tree.paths, _where(prepared, values), tree.order)


def _where(prepared: _Prepared, values: tuple[Any, ...]) -> Condition | None:
    template = prepared.where
    if template is None:
        return None
    if not template.checks.hold(values):
        check_condition(template.tree, Scope({}, {}, values))
    return Condition(template, values)


def _filled(template: Any, values: tuple[Any, ...]) -> Any:
    """Return a literal with the parameters in it; it shares nothing with other statements."""
    if isinstance(template, Slot):
        return values[template.index]
    if isinstance(template, dict):
        return {name: _filled(member, values) for name, member in template.items()}
    if isinstance(template, list):
        return [_filled(element, values) for element in template]
    return template


def _result_name(path: Steps) -> str:
    """Name a selected value: the last name of the path, with the indexes behind it."""
    last = max(place for place, step in enumerate(path) if isinstance(step, str))
    return str(path[last]) + "".join(f"[{step}]" for step in path[last + 1 :])


# What a where clause says about keys, for whoever plans the read.


def equalities(condition: Condition | None) -> dict[str, Any]:
    """Return the top-level attributes that the condition fixes by `=`, with their values."""
    found: dict[str, Any] = {}
    if condition is not None:
        tree = condition.tree
        for term in tree.terms if isinstance(tree, And) else (tree,):
            if isinstance(term, Compare) and term.operator == "=":
                fixed = _fixed(term, condition.values)
                if fixed is not None:
                    found.setdefault(*fixed)
    return found


def choices(condition: Condition | None, name: str) -> list[Any] | None:
    """Return the values that the condition allows an attribute to have, None for any.

    They come from `=`, IN, and ORs in which every branch has one of those.
    """
    if condition is None:
        return None
    return _choices(condition.tree, condition.values, name)


def _choices(node: ConditionNode, values: tuple[Any, ...], name: str) -> list[Any] | None:
    if isinstance(node, And):
        for term in node.terms:
            found = _choices(term, values, name)
            if found is not None:
                return found
        return None
    if isinstance(node, Or):
        branches = [_choices(term, values, name) for term in node.terms]
        if any(branch is None for branch in branches):
            return None
        return [value for branch in branches for value in branch or ()]
    if isinstance(node, Compare) and node.operator == "=":
        fixed = _fixed(node, values)
        return [fixed[1]] if fixed is not None and fixed[0] == name else None
    if isinstance(node, In) and node.operand == Path((name,)):
        options = [_value(option, values) for option in node.options]
        return None if any(option is MISSING for option in options) else options
    return None


def _fixed(node: Compare, values: tuple[Any, ...]) -> tuple[str, Any] | None:
    """Return (attribute, value) of `attribute = value`, whichever way round it is written."""
    for path, other in ((node.left, node.right), (node.right, node.left)):
        value = _value(other, values)
        if isinstance(path, Path) and len(path.steps) == 1 and value is not MISSING:
            return path.steps[0], value
    return None


def _value(node: Any, values: tuple[Any, ...]) -> Any:
    if isinstance(node, Slot):
        return values[node.index]
    return node.value if isinstance(node, Constant) else MISSING
