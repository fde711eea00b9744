"""Builders for condition expressions: `Key("pk").eq("a") & Attr("n").gt(3)`.

The surface is that of boto3.dynamodb.conditions, so that code moves either way by changing one
import; boto3's own objects are accepted wherever these are, told by what they offer
(`get_expression`), without boto3 being imported.

    text, names, values = build(Attr("price").lt(10) & Attr("tags").contains("new"))

Thread safety: conditions are immutable; a ConditionExpressionBuilder belongs to one request.
Invariant: a condition never holds placeholders, only attribute names and values; numbering them
is the builder's work, in the order they stand in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

__all__ = ["Attr", "ConditionBase", "ConditionExpressionBuilder", "Key", "build"]

# A bracketed list index, kept as it is, or one name of a path.
_PATH_PART = re.compile(r"\[[^\]]*\]|[^.\[\]]+")


class NeedsConditionError(TypeError):
    """Something that is no condition was given where one is needed."""


class NeedsKeyConditionError(TypeError):
    """A key condition mentions an attribute that was not written as Key(...)."""


class OperationNotSupportedError(TypeError):
    """`&`, `|` or `~` on something that is no condition."""


class ConditionBase:
    """A condition: an operator and its operands (attributes, conditions, plain values)."""

    expression_format: ClassVar[str] = ""
    expression_operator: ClassVar[str] = ""
    has_grouped_values: ClassVar[bool] = False

    def __init__(self, *values: Any) -> None:
        self._values = values

    def __and__(self, other: Any) -> And:
        return And(self, _condition(other, "AND"))

    def __or__(self, other: Any) -> Or:
        return Or(self, _condition(other, "OR"))

    def __invert__(self) -> Not:
        return Not(self)

    def get_expression(self) -> dict[str, Any]:
        """Return format, operator and operands, the form all builders read."""
        return {
            "format": self.expression_format,
            "operator": self.expression_operator,
            "values": self._values,
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._values == other._values

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._values))})"


def _condition(value: Any, operator: str) -> Any:
    if not is_condition(value):
        raise OperationNotSupportedError(f"{operator} operation cannot be applied to {value!r}")
    return value


def is_condition(value: Any) -> bool:
    """Tell whether a value is a condition of this module or of boto3."""
    return hasattr(value, "get_expression") and hasattr(value, "has_grouped_values")


class AttributeBase:
    """Something that can be compared: an attribute, or its size."""

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"the name of an attribute is a text, not {name!r}")
        self.name = name

    def __and__(self, value: Any) -> Any:
        raise OperationNotSupportedError(f"AND operation cannot be applied to {self!r}")

    def __or__(self, value: Any) -> Any:
        raise OperationNotSupportedError(f"OR operation cannot be applied to {self!r}")

    def __invert__(self) -> Any:
        raise OperationNotSupportedError(f"NOT operation cannot be applied to {self!r}")

    def eq(self, value: Any) -> Equals:
        """True when the attribute equals the value."""
        return Equals(self, value)

    def lt(self, value: Any) -> LessThan:
        """True when the attribute is less than the value."""
        return LessThan(self, value)

    def lte(self, value: Any) -> LessThanEquals:
        """True when the attribute is at most the value."""
        return LessThanEquals(self, value)

    def gt(self, value: Any) -> GreaterThan:
        """True when the attribute is greater than the value."""
        return GreaterThan(self, value)

    def gte(self, value: Any) -> GreaterThanEquals:
        """True when the attribute is at least the value."""
        return GreaterThanEquals(self, value)

    def begins_with(self, value: Any) -> BeginsWith:
        """True when the attribute starts with the value (str or bytes)."""
        return BeginsWith(self, value)

    def between(self, low_value: Any, high_value: Any) -> Between:
        """True when the attribute lies between the bounds, both included."""
        return Between(self, low_value, high_value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.name == other.name

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class ConditionAttributeBase(ConditionBase, AttributeBase):
    """A function of an attribute that can be compared in turn; only Size."""

    def __init__(self, *values: Any) -> None:
        ConditionBase.__init__(self, *values)
        AttributeBase.__init__(self, values[0].name)

    def __eq__(self, other: object) -> bool:
        return ConditionBase.__eq__(self, other) and AttributeBase.__eq__(self, other)

    __hash__ = None


class ComparisonCondition(ConditionBase):
    expression_format = "{0} {operator} {1}"


class Equals(ComparisonCondition):
    expression_operator = "="


class NotEquals(ComparisonCondition):
    expression_operator = "<>"


class LessThan(ComparisonCondition):
    expression_operator = "<"


class LessThanEquals(ComparisonCondition):
    expression_operator = "<="


class GreaterThan(ComparisonCondition):
    expression_operator = ">"


class GreaterThanEquals(ComparisonCondition):
    expression_operator = ">="


class In(ComparisonCondition):
    expression_operator = "IN"
    has_grouped_values = True


class Between(ConditionBase):
    expression_operator = "BETWEEN"
    expression_format = "{0} {operator} {1} AND {2}"


class _Function(ConditionBase):
    expression_format = "{operator}({0}, {1})"


class _Predicate(ConditionBase):
    expression_format = "{operator}({0})"


class BeginsWith(_Function):
    expression_operator = "begins_with"


class Contains(_Function):
    expression_operator = "contains"


class AttributeType(_Function):
    expression_operator = "attribute_type"


class AttributeExists(_Predicate):
    expression_operator = "attribute_exists"


class AttributeNotExists(_Predicate):
    expression_operator = "attribute_not_exists"


class Size(ConditionAttributeBase):
    expression_operator = "size"
    expression_format = "{operator}({0})"


class And(ConditionBase):
    expression_operator = "AND"
    expression_format = "({0} {operator} {1})"


class Or(ConditionBase):
    expression_operator = "OR"
    expression_format = "({0} {operator} {1})"


class Not(ConditionBase):
    expression_operator = "NOT"
    expression_format = "({operator} {0})"


class Key(AttributeBase):
    """A key attribute, for KeyConditionExpression (and anywhere an Attr may stand)."""


class Attr(AttributeBase):
    """An attribute or a path (`a.b[0]`), for conditions and filters."""

    def ne(self, value: Any) -> NotEquals:
        """True when the attribute differs from the value, or is missing."""
        return NotEquals(self, value)

    def is_in(self, value: Any) -> In:
        """True when the attribute equals one of the values. Raises: TypeError for one value."""
        if not isinstance(value, Iterable):
            raise TypeError(f"is_in takes several values, as a list, not {value!r}")
        return In(self, value)

    def exists(self) -> AttributeExists:
        """True when there is such an attribute."""
        return AttributeExists(self)

    def not_exists(self) -> AttributeNotExists:
        """True when there is no such attribute."""
        return AttributeNotExists(self)

    def contains(self, value: Any) -> Contains:
        """True for a substring, a member of a set, or an element of a list."""
        return Contains(self, value)

    def size(self) -> Size:
        """The size of the attribute, to be compared: `Attr("a").size().gt(3)`."""
        return Size(self)

    def attribute_type(self, value: str) -> AttributeType:
        """True when the attribute has the type ("S", "N", "SS", ...)."""
        return AttributeType(self, value)


class BuiltConditionExpression(NamedTuple):
    """A condition as a request wants it."""

    condition_expression: str
    attribute_name_placeholders: dict[str, str]
    attribute_value_placeholders: dict[str, Any]


class ConditionExpressionBuilder:
    """Turns conditions into texts; numbering goes on from one condition to the next."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start numbering at 0 again."""
        self._name_count = 0
        self._value_count = 0

    def build_expression(
        self, condition: Any, is_key_condition: bool = False
    ) -> BuiltConditionExpression:
        """Return text, names and values; a key condition may only mention Key(...)."""
        if not is_condition(condition):
            raise NeedsConditionError(
                f"Expecting a condition object, got {condition!r} of type {type(condition)}"
            )
        built = BuiltConditionExpression("", {}, {})
        return built._replace(condition_expression=self._text(condition, built, is_key_condition))

    def _text(self, condition: Any, built: BuiltConditionExpression, is_key: bool) -> str:
        expression = condition.get_expression()
        parts = []
        for value in expression["values"]:
            if is_condition(value):
                parts.append(self._text(value, built, is_key))
            elif _is_attribute(value):
                if is_key and not _is_key(value):
                    raise NeedsKeyConditionError(
                        f"Attribute object {value.name} is of type {type(value)}; a key "
                        "condition only takes attributes of type Key"
                    )
                parts.append(self._name(value.name, built))
            elif condition.has_grouped_values:
                parts.append("(" + ", ".join(self._value(each, built) for each in value) + ")")
            else:
                parts.append(self._value(value, built))
        return str(expression["format"].format(*parts, operator=expression["operator"]))

    def _name(self, name: str, built: BuiltConditionExpression) -> str:
        """Replace every name of a path by a placeholder; dots and indexes stay."""

        def replace(match: re.Match[str]) -> str:
            part = match.group()
            if part[0] == "[":
                return part
            placeholder = f"#n{self._name_count}"
            self._name_count += 1
            built.attribute_name_placeholders[placeholder] = part
            return placeholder

        return _PATH_PART.sub(replace, name)

    def _value(self, value: Any, built: BuiltConditionExpression) -> str:
        placeholder = f":v{self._value_count}"
        self._value_count += 1
        built.attribute_value_placeholders[placeholder] = value
        return placeholder


def _is_attribute(value: Any) -> bool:
    """Tell attributes (ours and boto3's) from values: they can be compared by name."""
    return isinstance(value, AttributeBase) or (
        hasattr(value, "begins_with") and hasattr(value, "between") and hasattr(value, "name")
    )


def _is_key(value: Any) -> bool:
    return isinstance(value, Key) or type(value).__name__ == "Key"


def build(
    condition: Any, *, is_key_condition: bool = False
) -> tuple[str, dict[str, str], dict[str, Any]]:
    """Return (text, names, values) of a condition of this module or of boto3.

    Values are returned as they were given; placeholders are `#n0`, `:v0` and so on.
    """
    return tuple(ConditionExpressionBuilder().build_expression(condition, is_key_condition))  # type: ignore[return-value]
