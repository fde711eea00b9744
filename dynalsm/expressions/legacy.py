"""The parameters that expressions replaced, compiled to the same objects.

Expected, QueryFilter and ScanFilter become a Condition, KeyConditions a KeyCondition,
AttributeUpdates an Update, AttributesToGet a Projection. Attribute values in the input are
internal values already; a member that is absent in the request is absent in the mapping.

Thread safety: pure functions.
Invariants: (1) attribute names are literal: dots and brackets in them mean nothing;
(2) every message is complete, as there is no expression to name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from dynalsm.expressions import error
from dynalsm.expressions.ast import (
    Action,
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
)
from dynalsm.expressions.bind import Condition
from dynalsm.expressions.error import ExpressionError
from dynalsm.expressions.evaluate import MISSING, Item, Values, type_tag
from dynalsm.expressions.keycondition import KeyCondition
from dynalsm.expressions.placeholders import name_problem
from dynalsm.expressions.projection import Projection
from dynalsm.expressions.update import (
    KEEP,
    REMOVE,
    Effect,
    Set,
    Update,
    add,
    compile_update,
)

_INVALID: Final = "One or more parameter values were invalid: "
_TYPE_MISMATCH: Final = "Type mismatch for attribute to update"

# Operator -> (least, most) number of values; None: no upper bound.
_COUNTS: Final[dict[str, tuple[int, int | None]]] = {
    "NULL": (0, 0),
    "NOT_NULL": (0, 0),
    "EQ": (1, 1),
    "NE": (1, 1),
    "LE": (1, 1),
    "LT": (1, 1),
    "GE": (1, 1),
    "GT": (1, 1),
    "CONTAINS": (1, 1),
    "NOT_CONTAINS": (1, 1),
    "BEGINS_WITH": (1, 1),
    "BETWEEN": (2, 2),
    "IN": (1, None),
}
_SCALARS: Final = frozenset(("S", "N", "B"))
_TEXT: Final = frozenset(("S", "B"))
# Operators whose values may not have just any type.
_TYPES: Final = {
    **dict.fromkeys(
        ("LE", "LT", "GE", "GT", "CONTAINS", "NOT_CONTAINS", "IN", "BETWEEN"), _SCALARS
    ),
    "BEGINS_WITH": _TEXT,
}
_COMPARATORS: Final = {"EQ": "=", "NE": "<>", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
_KEY_OPERATORS: Final = {**_COMPARATORS, "BETWEEN": "BETWEEN", "BEGINS_WITH": "begins_with"}


def _invalid(message: str) -> ExpressionError:
    return ExpressionError(_INVALID + message, error.PARAMETER)


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        why = name_problem(name)
        if why is not None:
            raise _invalid(why)


def bind_expected(
    expected: Mapping[str, Mapping[str, Any]] | None, conditional_operator: str | None = None
) -> Condition | None:
    """Compile Expected; None when it is absent or empty. Raises: ExpressionError."""
    _check_conditional_operator(expected, conditional_operator)
    if not expected:
        return None
    _check_names(expected)
    terms = [_expected_term(name, condition) for name, condition in expected.items()]
    return _joined(terms, conditional_operator)


def bind_filter(
    conditions: Mapping[str, Mapping[str, Any]] | None, conditional_operator: str | None = None
) -> Condition | None:
    """Compile QueryFilter or ScanFilter; None when it is absent or empty."""
    _check_conditional_operator(conditions, conditional_operator)
    if not conditions:
        return None
    _check_names(conditions)
    for condition in conditions.values():
        _check_condition(condition["ComparisonOperator"], _values(condition))
    terms = [
        _term(name, condition["ComparisonOperator"], _values(condition))
        for name, condition in conditions.items()
    ]
    return _joined(terms, conditional_operator)


def bind_key_conditions(conditions: Mapping[str, Mapping[str, Any]]) -> KeyCondition:
    """Compile KeyConditions; what no index can serve is refused by `resolve`."""
    if not conditions:
        raise ExpressionError("Conditions can be of length 1 or 2 only", error.PARAMETER)
    clauses = {}
    for name, condition in conditions.items():
        operator, values = condition["ComparisonOperator"], _values(condition)
        _check_condition(operator, values)
        clauses[name] = (_KEY_OPERATORS.get(operator, operator), values)
    return KeyCondition(clauses)


def bind_attributes_to_get(names: Sequence[str]) -> Projection:
    """Compile AttributesToGet. Raises: ExpressionError for a name given twice."""
    _check_names(names)
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise _invalid(f"Duplicate value in attribute name: {name}")
        seen.add(name)
    return Projection.from_paths(tuple((name,) for name in names))


def bind_attribute_updates(updates: Mapping[str, Mapping[str, Any]]) -> Update:
    """Compile AttributeUpdates. Raises: ExpressionError."""
    _check_names(updates)
    actions = []
    for name, update in updates.items():
        action = update.get("Action") or "PUT"
        if "Value" not in update:
            if action != "DELETE":
                raise _invalid("Only DELETE action is allowed when no attribute value is specified")
            actions.append(Action("REMOVE", Path((name,)), None))
            continue
        value = update["Value"]
        tag = type_tag(value)
        if action == "DELETE" and tag not in ("SS", "NS", "BS"):
            raise _invalid(f"DELETE action with value is not supported for the type {tag}")
        if action == "ADD" and tag not in ("N", "L", "SS", "NS", "BS"):
            raise _invalid(f"ADD action is not supported for the type {tag}")
        section = "SET" if action == "PUT" else action
        actions.append(Action(section, Path((name,)), Constant(value)))
    return Update(compile_update(tuple(actions), _compile_update), ())


def _check_conditional_operator(
    conditions: Mapping[str, Any] | None, conditional_operator: str | None
) -> None:
    if conditional_operator is None:
        return
    if not conditions:
        raise ExpressionError(
            "ConditionalOperator cannot be used without Filter or Expected", error.PARAMETER
        )
    if len(conditions) < 2:
        raise ExpressionError(
            "ConditionalOperator can only be used when Filter or Expected has two or more elements",
            error.PARAMETER,
        )


def _joined(terms: list[ConditionNode], conditional_operator: str | None) -> Condition:
    if len(terms) == 1:
        return Condition.from_tree(terms[0])
    join = Or if conditional_operator == "OR" else And
    flat: list[ConditionNode] = []
    for term in terms:
        flat.extend(term.terms if isinstance(term, And) and join is And else (term,))
    return Condition.from_tree(join(tuple(flat)))


def _values(condition: Mapping[str, Any]) -> list[Any]:
    return list(condition.get("AttributeValueList") or ())


def _expected_term(name: str, condition: Mapping[str, Any]) -> ConditionNode:
    where = f" for Attribute: {name}"
    has_value = "Value" in condition
    if has_value and "AttributeValueList" in condition:
        raise _invalid("Value and AttributeValueList cannot be used together" + where)
    operator = condition.get("ComparisonOperator")
    if operator is not None:
        if condition.get("Exists") is not None:
            raise _invalid("Exists and ComparisonOperator cannot be used together" + where)
        if not has_value and "AttributeValueList" not in condition and _COUNTS[operator][0]:
            raise _invalid(
                f"Value or AttributeValueList must be used with ComparisonOperator: {operator}"
                + where
            )
        values = [condition["Value"]] if has_value else _values(condition)
        _check_condition(operator, values)
        return _term(name, operator, values)
    if "AttributeValueList" in condition:
        raise _invalid("AttributeValueList can only be used with a ComparisonOperator" + where)
    return _existence(name, condition, where)


def _existence(name: str, condition: Mapping[str, Any], where: str) -> ConditionNode:
    exists = condition.get("Exists")
    has_value = "Value" in condition
    if exists is False:
        if has_value:
            raise _invalid("Value cannot be used when Exists is false" + where)
        return _term(name, "NULL", [])
    if not has_value:
        word = "null" if exists is None else "true"
        raise _invalid(f"Value must be provided when Exists is {word}" + where)
    return _term(name, "EQ", [condition["Value"]])


def _check_condition(operator: str, values: list[Any]) -> None:
    """Check count, then equal types, then suitable types, then the order of BETWEEN's bounds."""
    least, most = _COUNTS[operator]
    if len(values) < least or (most is not None and len(values) > most):
        raise _invalid(f"Invalid number of argument(s) for the {operator} ComparisonOperator")
    tags = [type_tag(value) for value in values]
    if any(tag != tags[0] for tag in tags):
        raise _invalid("AttributeValues inside AttributeValueList must be of same type")
    allowed = _TYPES.get(operator)
    if allowed is not None and tags[0] not in allowed:
        raise _invalid(
            f"ComparisonOperator {operator} is not valid for {tags[0]} AttributeValue type"
        )
    if operator == "BETWEEN" and values[0] > values[1]:
        raise ExpressionError(
            "The BETWEEN condition was provided a range where the lower bound is greater than the "
            "upper bound",
            error.PARAMETER,
        )


def _term(name: str, operator: str, values: list[Any]) -> ConditionNode:
    path = Path((name,))
    constants = tuple(map(Constant, values))
    if operator in _COMPARATORS:
        return Compare(_COMPARATORS[operator], path, constants[0])
    if operator == "BETWEEN":
        return Between(path, constants[0], constants[1])
    if operator == "IN":
        return In(path, constants)
    if operator == "NULL":
        return Call("attribute_not_exists", (path,))
    if operator == "NOT_NULL":
        return Call("attribute_exists", (path,))
    if operator == "BEGINS_WITH":
        return Call("begins_with", (path, constants[0]))
    contains = Call("contains", (path, constants[0]))
    if operator == "CONTAINS":
        return contains
    # NOT_CONTAINS is false for a missing attribute, unlike NE (observed: scylladb).
    return And((Call("attribute_exists", (path,)), Not(contains)))


def _compile_update(action: Action) -> Effect:
    """Compile one AttributeUpdates action; ADD knows lists here, and errors read differently."""
    name = action.path.steps[0]
    section = action.section
    if section == "REMOVE":
        return lambda item, values: REMOVE
    assert isinstance(action.value, Constant)
    operand = action.value.value
    if section == "SET":
        return lambda item, values: Set(operand)

    def change(item: Item, values: Values) -> Any:
        current = item.get(name, MISSING)
        if current is not MISSING and type_tag(current) != type_tag(operand):
            raise ExpressionError(_TYPE_MISMATCH, error.RUNTIME)
        if section == "ADD":
            return Set(operand if current is MISSING else _sum(current, operand))
        if current is MISSING:
            return KEEP
        rest = current - operand
        return Set(rest) if rest else REMOVE

    return change


def _sum(current: Any, operand: Any) -> Any:
    if isinstance(current, Decimal):
        return add(current, operand)
    return current | operand if isinstance(current, frozenset) else current + operand
