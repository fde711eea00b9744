"""What names and values make wrong in an expression, found in DynamoDB's order.

These checks run only when a template is built or a request is about to be refused, so they are
written for order and clarity, not for speed.

Thread safety: pure functions.
Invariant: nothing here looks at an item.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from dynalsm.expressions import error
from dynalsm.expressions.ast import (
    And,
    Between,
    Call,
    Compare,
    ConditionNode,
    Constant,
    In,
    NameRef,
    Not,
    Operand,
    Or,
    Path,
    Slot,
    Steps,
    ValueRef,
    path_text,
)
from dynalsm.expressions.error import Refusal
from dynalsm.expressions.evaluate import MISSING, TYPE_TAGS, type_tag
from dynalsm.expressions.grammar import CONDITION_FUNCTIONS


class Scope:
    """The names and values of a request, as the ordered checks see them."""

    __slots__ = ("names", "slots", "values")

    def __init__(
        self,
        names: Mapping[str, str],
        values: Mapping[str, Any],
        slots: tuple[Any, ...] = (),
    ) -> None:
        self.names = names
        self.values = values
        self.slots = slots  # of a tree that is bound already; () while they are unknown

    def require_name(self, ref: str) -> str:
        name = self.names.get(ref)
        if name is None:
            raise Refusal(
                "An expression attribute name used in the document path is not defined; "
                f"attribute name: {ref}",
                error.PLACEHOLDER,
            )
        return name

    def require_value(self, ref: str) -> Any:
        if ref not in self.values:
            raise Refusal(
                "An expression attribute value used in expression is not defined; "
                f"attribute value: {ref}",
                error.PLACEHOLDER,
            )
        return self.values[ref]

    def steps(self, path: Path) -> Steps:
        return tuple(
            self.require_name(step.text) if type(step) is NameRef else step for step in path.steps
        )

    def constant(self, node: Any) -> Any:
        """The value of an operand that is the same for every item, else MISSING."""
        if isinstance(node, ValueRef):
            return self.values[node.name]
        if isinstance(node, Slot):
            return self.slots[node.index] if self.slots else MISSING
        return node.value if isinstance(node, Constant) else MISSING

    def static_type(self, node: Any) -> str | None:
        """The type of an operand as far as it is known without an item."""
        if isinstance(node, Call):
            return "N" if node.function == "size" else None
        value = self.constant(node)
        return None if value is MISSING else type_tag(value)


def check_condition(tree: ConditionNode, scope: Scope) -> None:
    """Refuse what names and values make wrong: condition by condition, in written order."""
    for leaf in leaves(tree):
        _check_references(leaf, scope)
        calls = list(calls_of(leaf))
        for call in calls:
            _check_operand_count(call)
        for call in calls:
            if len(call.arguments) == 2:
                _check_distinct(call.function, call.arguments[0], call.arguments[1], scope)
        if isinstance(leaf, Compare):
            _check_distinct(leaf.operator, leaf.left, leaf.right, scope)
        for call in calls:
            _check_call_types(call, scope)
        _check_types(leaf, scope)


def leaves(tree: ConditionNode) -> Iterator[ConditionNode]:
    """Yield the conditions below AND, OR and NOT, in written order."""
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, (And, Or)):
            stack.extend(reversed(node.terms))
        elif isinstance(node, Not):
            stack.append(node.operand)
        else:
            yield node


def operands(leaf: Any) -> tuple[Operand, ...]:
    """Return the direct operands of a leaf condition or call, in written order."""
    if isinstance(leaf, Compare):
        return (leaf.left, leaf.right)
    if isinstance(leaf, Between):
        return (leaf.operand, leaf.lower, leaf.upper)
    if isinstance(leaf, In):
        return (leaf.operand, *leaf.options)
    if isinstance(leaf, Call):
        return leaf.arguments
    return ()


def _check_references(node: Any, scope: Scope) -> None:
    for operand in operands(node):
        if isinstance(operand, Path):
            scope.steps(operand)
        elif isinstance(operand, ValueRef):
            scope.require_value(operand.name)
        else:
            _check_references(operand, scope)


def calls_of(node: Any) -> Iterator[Call]:
    """Yield the calls at and below a node, inner ones first."""
    for operand in operands(node):
        if isinstance(operand, Call):
            yield from calls_of(operand)
    if isinstance(node, Call):
        yield node


def _check_operand_count(call: Call) -> None:
    if CONDITION_FUNCTIONS[call.function] != len(call.arguments):
        raise Refusal(
            "Incorrect number of operands for operator or function; operator or function: "
            f"{call.function}, number of operands: {len(call.arguments)}",
            error.FUNCTION,
        )


def _check_distinct(name: str, left: Operand, right: Operand, scope: Scope) -> None:
    if isinstance(left, Path) and isinstance(right, Path):
        steps = scope.steps(left)
        if steps == scope.steps(right):
            raise Refusal(
                "The first operand must be distinct from the remaining operands for this operator "
                f"or function; operator: {name}, first operand: {path_text(steps)}",
                error.DISTINCT,
            )


def incorrect_type(name: str, tag: str) -> Refusal:
    """The refusal of a constant whose type an operator or function cannot take."""
    return Refusal(
        "Incorrect operand type for operator or function; operator or function: "
        f"{name}, operand type: {tag}",
        error.OPERAND,
    )


def path_required(function: str) -> Refusal:
    """The refusal of a value where only a path may stand."""
    return Refusal(
        "Operator or function requires a document path; operator or function: " + function,
        error.OPERAND,
    )


def _check_call_types(call: Call, scope: Scope) -> None:
    function = call.function
    if function in ("attribute_exists", "attribute_not_exists"):
        if not isinstance(call.arguments[0], Path):
            raise path_required(function)
    elif function == "begins_with":
        for argument in call.arguments:
            tag = scope.static_type(argument)
            if tag is not None and tag not in ("S", "B"):
                raise incorrect_type(function, tag)
    elif function == "attribute_type":
        wanted = call.arguments[1]
        if isinstance(wanted, Slot) and not scope.slots:
            return
        tag = scope.static_type(wanted)
        if tag != "S":
            raise incorrect_type(function, tag or "{NS,SS,L,BS,N,M,B,BOOL,NULL,S}")
        name = scope.constant(wanted)
        if name not in TYPE_TAGS:
            raise Refusal(
                f"Invalid attribute type name found; type: {name}, "
                "valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}",
                error.OPERAND,
            )
    elif function == "size":
        tag = scope.static_type(call.arguments[0])
        if tag in ("N", "BOOL", "NULL"):
            raise incorrect_type(function, tag)


def _check_types(leaf: ConditionNode, scope: Scope) -> None:
    if isinstance(leaf, Compare) and leaf.operator not in ("=", "<>"):
        _check_ordered(leaf.operator, operands(leaf), scope)
    elif isinstance(leaf, Between):
        _check_ordered("BETWEEN", operands(leaf), scope)
        lower, upper = scope.constant(leaf.lower), scope.constant(leaf.upper)
        if lower is not MISSING and upper is not MISSING:
            _check_range(lower, upper)


def _check_ordered(name: str, nodes: tuple[Operand, ...], scope: Scope) -> None:
    for node in nodes:
        tag = scope.static_type(node)
        if tag is not None and tag not in ("S", "N", "B"):
            raise incorrect_type(name, tag)


def _check_range(lower: Any, upper: Any) -> None:
    if type(lower) is not type(upper):
        what = "same data type for lower and upper bounds"
    elif lower > upper:
        what = "upper bound to be greater than or equal to lower bound"
    else:
        return
    raise Refusal(
        f"The BETWEEN operator requires {what}; lower bound operand: AttributeValue: "
        f"{{{value_text(lower)}}}, upper bound operand: AttributeValue: {{{value_text(upper)}}}",
        error.OPERAND,
    )


def value_text(value: Any) -> str:
    """Print an S, N or B as error messages do: `N:5`."""
    if isinstance(value, Decimal):
        return f"N:{value:f}"
    if isinstance(value, bytes):
        return f"B:{base64.b64encode(value).decode()}"
    return f"S:{value}"
