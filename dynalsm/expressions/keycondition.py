"""KeyConditionExpression: the key range a Query reads.

The text is parsed and checked like any condition; then it must be an AND of at most one condition
per attribute (first pass, without a table), and the conditions must fit the key schema of the
table or index (second pass, `resolve`).

Thread safety: a KeyCondition is immutable.
Invariant: every clause has one of the operators = < <= > >= BETWEEN begins_with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dynalsm.expressions import error
from dynalsm.expressions.ast import (
    And,
    Between,
    Call,
    Compare,
    ConditionNode,
    Constant,
    In,
    Not,
    Or,
    Path,
    Slot,
    Steps,
)
from dynalsm.expressions.bind import Resolver, TypeChecks, bind_template, condition_template
from dynalsm.expressions.error import ExpressionError
from dynalsm.expressions.evaluate import type_tag
from dynalsm.expressions.parser import parse_condition
from dynalsm.expressions.placeholders import Placeholders
from dynalsm.expressions.static import check_condition, operands

LABEL: Final = "KeyConditionExpression"

OPERATORS: Final = frozenset(("=", "<", "<=", ">", ">=", "BETWEEN", "begins_with"))
_MIRRORED: Final = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

Clause = tuple[str, list[Any]]
Resolved = tuple[list[Any], list[Any], Clause | None]


def _refused(message: str, prefix: str = "") -> ExpressionError:
    return ExpressionError(prefix + message, error.KEY)


@dataclass(frozen=True, slots=True)
class KeyCondition:
    """Conditions by attribute: `{attribute: (operator, [operands])}`, in written order."""

    clauses: dict[str, Clause]

    @property
    def attributes(self) -> frozenset[str]:
        return frozenset(self.clauses)

    def resolve(
        self,
        hash_names: Sequence[str],
        range_names: Sequence[str],
        types: Mapping[str, str],
    ) -> Resolved:
        """Fit the clauses to a key schema.

        Returns: (hash values, values of the leading range attributes with equality, the condition
        on the next range attribute as (operator, operands) or None).
        Raises: ExpressionError with the message for the first thing that does not fit.
        """
        clauses = self.clauses
        known = len(hash_names) + len(range_names)
        if len(clauses) > known == 1:  # observed: scylladb, on an index with a hash key only
            raise _refused("Query key condition not supported")
        if len(clauses) > known:
            raise _refused(
                f"The number of query conditions ({len(clauses)}) exceeds the number of key "
                f"attributes defined in the schema ({known})"
            )
        for name in hash_names:
            self._check_hash(name, hash_names, types)
        extra = len(clauses) - len(hash_names)
        for name in range_names:
            if name in clauses:
                _check_clause(name, clauses[name], types[name])
                extra -= 1
        if extra > 0:
            missing = next((n for n in range_names if n not in clauses), hash_names[0])
            raise _refused(f"Query condition missed key schema element: {missing}")
        values = [clauses[name][1][0] for name in hash_names]
        return values, *_range(clauses, range_names)

    def _check_hash(self, name: str, hash_names: Sequence[str], types: Mapping[str, str]) -> None:
        clause = self.clauses.get(name)
        if clause is not None:
            _check_clause(name, clause, types[name])
        if clause is not None and clause[0] == "=":
            return
        if len(hash_names) > 1:
            raise _refused(
                f"HASH key attributes {name} must have equality conditions specified in the query"
            )
        if clause is None:
            raise _refused(f"Query condition missed key schema element: {name}")
        raise _refused("Query key condition not supported")


def _check_clause(name: str, clause: Clause, wanted: str) -> None:
    operator, values = clause
    if operator not in OPERATORS:  # only legacy KeyConditions can bring others
        raise _refused("Attempted conditional constraint is not an indexable operation")
    for value in values:
        if type_tag(value) != wanted:
            raise _refused(
                "One or more parameter values were invalid: Condition parameter type does not "
                "match schema type"
            )
    for value in values:
        if not value and wanted in ("S", "B"):
            what = "string" if wanted == "S" else "binary"
            raise _refused(
                "One or more parameter values are not valid. The AttributeValue for a key "
                f"attribute cannot contain an empty {what} value. Key: {name}"
            )


def _range(
    clauses: dict[str, Clause], range_names: Sequence[str]
) -> tuple[list[Any], Clause | None]:
    """Split the range conditions: equalities on a prefix of the attributes, then one condition."""
    equalities: list[Any] = []
    last: Clause | None = None
    open_names: list[str] = []  # attributes so far without an equality
    for name in range_names:
        clause = clauses.get(name)
        if clause is None:
            open_names.append(name)
            continue
        if open_names:
            raise _refused(
                f"RANGE key attributes {', '.join(open_names)} must have equality conditions "
                "specified in the query because a condition is present on key attribute "
                f"{name}"
            )
        if clause[0] == "=":
            equalities.append(clause[1][0])
        else:
            open_names.append(name)
            last = clause
    return equalities, last


@dataclass(frozen=True, slots=True)
class KeyTemplate:
    """A key condition whose names are resolved: per clause name, operator, operand nodes."""

    clauses: tuple[tuple[str, str, tuple[Slot | Constant, ...]], ...]
    paths: tuple[Steps, ...]
    checks: TypeChecks


def bind_key_condition(text: str, placeholders: Placeholders, kind: str = LABEL) -> KeyCondition:
    """Bind a key condition. Raises: ExpressionError."""
    _, template, values = bind_template(
        text, placeholders, kind, parse_condition, check_condition, _template
    )
    return _with_values(template.clauses, values)


def key_condition_with_slots(
    text: str, placeholders: Placeholders
) -> tuple[tuple[str, ...], KeyTemplate]:
    """Return the names of a key condition's values, in the order of its slots, and its template."""
    parsed, template, _ = bind_template(
        text, placeholders, LABEL, parse_condition, check_condition, _template
    )
    return parsed.values, template


def key_condition_of(tree: ConditionNode, values: tuple[Any, ...] = ()) -> KeyCondition:
    """Restrict a bound condition to what a key condition may be. Raises: ExpressionError."""
    return _with_values(_clauses(tree), values)


def _with_values(
    clauses: tuple[tuple[str, str, tuple[Slot | Constant, ...]], ...], values: tuple[Any, ...]
) -> KeyCondition:
    return KeyCondition(
        {
            name: (
                operator,
                [values[node.index] if isinstance(node, Slot) else node.value for node in nodes],
            )
            for name, operator, nodes in clauses
        }
    )


def _template(tree: ConditionNode, resolver: Resolver) -> KeyTemplate:
    template = condition_template(tree, resolver)
    return KeyTemplate(_clauses(template.tree), template.paths, template.checks)


def _clauses(tree: ConditionNode) -> tuple[tuple[str, str, tuple[Any, ...]], ...]:
    clauses: dict[str, tuple[str, tuple[Any, ...]]] = {}
    for term in tree.terms if isinstance(tree, And) else (tree,):
        operator = _operator(term)
        nodes = operands(term)
        name, position = _attribute(nodes)
        if name in clauses:
            raise _refused(
                "KeyConditionExpressions must only contain one condition per key",
                f"Invalid {LABEL}: ",
            )
        if position:
            operator = _MIRRORED[operator]
        clauses[name] = (operator, nodes[:position] + nodes[position + 1 :])
    return tuple((name, *clause) for name, clause in clauses.items())


def _operator(term: Any) -> str:
    """Return a clause's operator, or refuse one that no key can use."""
    if isinstance(term, (Or, Not, In)):
        word = {Or: "OR", Not: "NOT", In: "IN"}[type(term)]
        raise _refused(f"Invalid operator used in {LABEL}: {word}")
    if isinstance(term, Compare):
        if term.operator == "<>":
            raise _refused(f"Invalid operator used in {LABEL}: <>")
        return term.operator
    if isinstance(term, Call) and term.function != "begins_with":
        raise _refused(f"Invalid operator used in {LABEL}: {term.function}")
    operator = "BETWEEN" if isinstance(term, Between) else "begins_with"
    if not isinstance(operands(term)[0], Path):
        if isinstance(operands(term)[0], Call):
            raise _nested()
        raise _refused(
            f"Invalid condition in {LABEL}: {operator} operator must have the key attribute as "
            "its first operand"
        )
    return operator


def _nested() -> ExpressionError:
    return _refused("KeyConditionExpressions cannot contain nested operations")


def _attribute(nodes: tuple[Any, ...]) -> tuple[str, int]:
    """Find the one attribute of a clause and where it stands."""
    found: tuple[str, int] | None = None
    for position, node in enumerate(nodes):
        if isinstance(node, Call):
            raise _nested()
        if isinstance(node, Path):
            if found is not None:
                raise _refused(
                    f"Invalid condition in {LABEL}: Multiple attribute names used in one condition"
                )
            if len(node.steps) > 1:
                raise _refused(
                    "KeyConditionExpressions cannot have conditions on nested attributes",
                    f"Invalid {LABEL}: ",
                )
            found = (node.steps[0], position)
    if found is None:
        raise _refused(f"Invalid condition in {LABEL}: No key attribute specified")
    return found
