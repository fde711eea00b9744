"""The expressions of a request: which may be combined, and how they are bound.

One `Parameters` object per operation knows its expression members and the older members they
replaced. An operation calls `check_mixing` first, then looks at its own values, then `bind`s
(reference 13.3: mixing; values; placeholders; expressions in the order Update, Condition,
KeyCondition, Filter, Projection; unused names, unused values).

Thread safety: Parameters objects are constants; a Bound belongs to one request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from dynalsm import errors
from dynalsm.api.refusals import expression_value_text, refuse_worded
from dynalsm.expressions import (
    ExpressionError,
    Placeholders,
    bind_attribute_updates,
    bind_attributes_to_get,
    bind_condition,
    bind_expected,
    bind_filter,
    bind_key_condition,
    bind_key_conditions,
    bind_projection,
    bind_search_condition,
    bind_update,
    check_placeholder_keys,
)
from dynalsm.expressions.error import KEY
from dynalsm.model.settings import Settings
from dynalsm.values import Form, ValueProblem, decode_value, value_size

NAMES: Final = "ExpressionAttributeNames"
VALUES: Final = "ExpressionAttributeValues"
# How much larger a value may count than its encoding: a null in a list is 1 byte and counts 2.
SIZE_FACTOR: Final = 4
# Older members that carry no condition of their own.
_OPERATOR: Final = "ConditionalOperator"

Request = Mapping[str, Any]


class Bound:
    """The bound expressions of one request; None for what it does not have."""

    __slots__ = (
        "condition", "filter", "key_condition", "projection", "search_condition", "update",
    )  # fmt: skip

    def __init__(self) -> None:
        self.update: Any = None
        self.condition: Any = None
        self.key_condition: Any = None
        self.filter: Any = None
        self.search_condition: Any = None
        self.projection: Any = None


NOTHING: Final = Bound()

# Member -> (binder, attribute of Bound), in the order in which they are looked at.
_BINDERS: Final[dict[str, tuple[Callable[..., Any], str]]] = {
    "UpdateExpression": (bind_update, "update"),
    "ConditionExpression": (bind_condition, "condition"),
    "KeyConditionExpression": (bind_key_condition, "key_condition"),
    "FilterExpression": (
        lambda text, placeholders: bind_condition(text, placeholders, "FilterExpression"),
        "filter",
    ),
    "SearchConditionExpression": (bind_search_condition, "search_condition"),
    "ProjectionExpression": (bind_projection, "projection"),
}


class Parameters:
    """The expression members of one operation and the older ones they replaced."""

    def __init__(self, operation: str, expressions: str, older: str = "") -> None:
        self.operation = operation
        # As AWS prints them.
        self.expressions = tuple(expressions.split())
        self.older = tuple(older.split())
        self._binders = tuple(
            (member, binder, attribute)
            for member, (binder, attribute) in _BINDERS.items()
            if member in self.expressions
        )
        self._all = frozenset((*self.expressions, *self.older, NAMES, VALUES))
        self._valued = tuple(name for name in self.expressions if name != "ProjectionExpression")

    def has_any(self, request: Request) -> bool:
        """Return whether the request uses any of these members at all."""
        return not self._all.isdisjoint(request)

    def check_mixing(self, request: Request, wording: str) -> None:
        """Refuse older members beside expressions, and placeholders without expressions."""
        get = request.get
        used = [name for name in self.expressions if get(name) is not None]
        if used:
            mixed = [name for name in self.older if get(name) is not None]
            if "KeyConditions" in mixed and get("KeyConditionExpression") is None:
                mixed.remove("KeyConditions")
            if mixed:
                raise refuse_worded(
                    self.operation,
                    wording,
                    "Can not use both expression and non-expression parameters in the same "
                    f"request: Non-expression parameters: {{{', '.join(mixed)}}} "
                    f"Expression parameters: {{{', '.join(used)}}}",
                )
        if get(NAMES) is not None and not used:
            raise refuse_worded(
                self.operation, wording, f"{NAMES} can only be specified when using expressions"
            )
        if get(VALUES) is not None and self._valued and not set(used) & set(self._valued):
            text = f"{VALUES} can only be specified when using expressions"
            if wording == "classic":
                verb = "are" if len(self._valued) > 1 else "is"
                text += f": {' and '.join(self._valued)} {verb} null"
            raise refuse_worded(self.operation, wording, text)

    def bind(self, request: Request, form: Form, settings: Settings) -> Bound:
        """Bind the expressions. Raises: ExpressionError, ValidationException."""
        get = request.get
        placeholders = self.placeholders(request, form, settings)
        bound = Bound()
        no_key: ExpressionError | None = None
        for member, binder, attribute in self._binders:
            text = get(member)
            if text is not None:
                try:
                    setattr(bound, attribute, binder(text, placeholders))
                except ExpressionError as problem:
                    if problem.kind != KEY:
                        raise
                    # It comes after all that is wrong with the expressions as such.
                    no_key = problem
                    bind_condition(text, placeholders, member)  # notes the placeholders as used
        placeholders.check_unused()
        if no_key is not None:
            raise no_key
        return bound

    def placeholders(self, request: Request, form: Form, settings: Settings) -> Placeholders:
        """Return the names and values of a request, checked in themselves."""
        names, given = request.get(NAMES), request.get(VALUES)
        limit_bytes = settings.limit_substitution_bytes
        if given is None:
            placeholders = Placeholders(names)
            if names is not None:
                self._check_sizes(names, {}, limit_bytes)
            return placeholders
        check_placeholder_keys(names, given)
        encoded = self._encoded(given, form, settings.wording)
        self._check_sizes(names or {}, encoded, limit_bytes)
        internal = {name: decode_value(value) for name, value in encoded.items()}
        return Placeholders(names, internal, encoded)

    def _check_sizes(
        self, names: Mapping[str, str], values: Mapping[str, bytes], limit_bytes: int
    ) -> None:
        """Refuse substitutions over 2 MB; texts as DynamoDB Local has them."""
        # Nearly always it is beyond doubt: a character has 4 bytes at the most, and the size that
        # counts is at most four times that of the encoded value.
        rough = sum(map(len, names)) + sum(map(len, names.values()))
        rough += sum(map(len, values)) + sum(map(len, values.values()))
        if rough * SIZE_FACTOR <= limit_bytes:
            return
        of_names = sum(map(size_of_text, names)) + sum(map(size_of_text, names.values()))
        of_values = sum(map(size_of_text, values)) + sum(map(value_size, values.values()))
        for what, size_bytes in ((NAMES, of_names), (VALUES, of_values)):
            if size_bytes > limit_bytes:
                raise errors.ValidationException(f"{what} exceeds max size")
        if of_names + of_values > limit_bytes:
            text = f"Combined size of {NAMES} and {VALUES} exceeds max size"
            raise errors.ValidationException(text)

    def _encoded(self, given: Request, form: Form, wording: str) -> dict[str, bytes]:
        encode = form.encode_value
        values = {}
        for name, value in given.items():
            try:
                values[name] = encode(value)
            except ValueProblem as problem:
                text = expression_value_text(self.operation, wording, name, problem)
                operation = "" if problem.is_bare else self.operation
                raise refuse_worded(operation, wording, text) from None
        return values


# Older members: values into internal ones, then the binders of expressions.legacy.


def _internal(value: Any, form: Form) -> Any:
    return decode_value(form.encode_value(value))


def _internal_condition(condition: Request, form: Form) -> dict[str, Any]:
    result = {name: member for name, member in condition.items() if member is not None}
    if "Value" in result:
        result["Value"] = _internal(result["Value"], form)
    if "AttributeValueList" in result:
        result["AttributeValueList"] = [
            _internal(value, form) for value in result["AttributeValueList"]
        ]
    return result


def _internal_conditions(conditions: Request | None, form: Form) -> Any:
    if conditions is None:
        return None
    return {name: _internal_condition(part, form) for name, part in conditions.items()}


def expected(request: Request, form: Form) -> Any:
    """Return the condition in Expected, or None."""
    conditions, operator = request.get("Expected"), request.get(_OPERATOR)
    if conditions is None and operator is None:
        return None
    return bind_expected(_internal_conditions(conditions, form), operator)


def attribute_updates(request: Request, form: Form) -> Any:
    """Return the update in AttributeUpdates, or None when there is none or it is empty."""
    updates = request.get("AttributeUpdates")
    return bind_attribute_updates(_internal_conditions(updates, form)) if updates else None


def older_filter(request: Request, member: str, form: Form) -> Any:
    """Return the condition in QueryFilter or ScanFilter, or None."""
    given = _internal_conditions(request.get(member), form)
    return bind_filter(given, request.get(_OPERATOR))


def key_conditions(request: Request, form: Form) -> Any:
    """Return the key condition in KeyConditions, or None."""
    given = _internal_conditions(request.get("KeyConditions"), form)
    return None if given is None else bind_key_conditions(given)


def attributes_to_get(request: Request) -> Any:
    """Return the projection in AttributesToGet, or None."""
    names = request.get("AttributesToGet")
    return None if names is None else bind_attributes_to_get(names)


def size_of_text(text: str) -> int:
    """Return the bytes of a text in UTF-8."""
    return len(text.encode("utf-8", "surrogatepass"))


def first_nested(paths: Any) -> dict[str, None]:
    """Return the attributes below which some path goes, in order."""
    return {path[0]: None for path in paths if len(path) > 1}
