"""What the data plane answers when the model refuses: one table of texts, one translator.

The layers below raise ExpressionError, ValueProblem, KeyProblem, IndexKeyProblem and ItemTooLarge;
`translate` makes the ApiError that a client sees. Which of the two wordings an operation uses
depends on the operation and on `settings.wording` (reference 0.1): with "2026" Put-, Update- and
DeleteItem wrap most texts in "1 validation error detected: ", and a few texts differ.

Pure functions; callable from any thread.
"""

from __future__ import annotations

from typing import Any, Final

from dynalsm import errors
from dynalsm.api import messages
from dynalsm.expressions import error as kinds
from dynalsm.expressions.error import ExpressionError
from dynalsm.model.entries import IndexKeyProblem
from dynalsm.model.item_collections import CollectionTooLarge
from dynalsm.model.keys import KeyProblem
from dynalsm.model.throttle import Throttled
from dynalsm.model.writes import ItemTooLarge
from dynalsm.values import SerializationProblem, ValueProblem

# What an operation function catches and hands to `translate`.
PROBLEMS: Final = (
    ExpressionError,
    ValueProblem,
    KeyProblem,
    IndexKeyProblem,
    ItemTooLarge,
    CollectionTooLarge,
)

ENVELOPE: Final = "1 validation error detected: "

# Operations on the 2026 layer (reference 0.1, October 2026), and those that wrap.
_CURRENT: Final = frozenset("PutItem UpdateItem DeleteItem GetItem BatchGetItem Query".split())
_WRAPPING: Final = frozenset("PutItem UpdateItem DeleteItem".split())
_WRAPPED_KINDS: Final = frozenset(
    {kinds.SYNTAX, kinds.LIMIT, kinds.PARENTHESES, kinds.DISTINCT, kinds.PLACEHOLDER}
)
# Operations whose keys come inside whole items.
_ITEM_OPERATIONS: Final = frozenset({"PutItem"})

CONDITION_FAILED: Final = "The conditional request failed"
ITEM_TOO_LARGE: Final = "Item size has exceeded the maximum allowed size"
UPDATED_ITEM_TOO_LARGE: Final = "Item size to update has exceeded the maximum allowed size"
COLLECTION_TOO_LARGE: Final = "Collection size exceeded."
DUPLICATE_KEYS: Final = "Provided list of item keys contains duplicates"
RETURN_VALUES: Final = "ReturnValues can only be ALL_OLD or NONE"
TRANSACTION_ONGOING: Final = "Transaction is ongoing for the item"
THROTTLED: Final = (
    "The level of configured provisioned throughput for the table was exceeded. Consider "
    "increasing your provisioning level with the UpdateTable API."
)
THROTTLED_ON_DEMAND: Final = (
    "Throughput exceeds the maximum OnDemandThroughput configured on table or index"
)

# Reads.
NO_KEY_CONDITION: Final = (
    "Either the KeyConditions or KeyConditionExpression parameter must be specified in the request."
)
CONSISTENT_GSI: Final = "Consistent reads are not supported on global secondary indexes"
STARTING_KEY: Final = "The provided starting key is invalid"
STARTING_KEY_SCHEMA: Final = f"{STARTING_KEY}: {messages.KEY_SCHEMA_MISMATCH}"
STARTING_KEY_OUTSIDE: Final = (
    "The provided starting key is outside query boundaries based on provided conditions"
)
STARTING_KEY_PREDICATE: Final = "The provided starting key does not match the range key predicate"
NOT_RESTARTABLE: Final = "The query can return at most one row and cannot be restarted"
PROJECTED_NEEDS_INDEX: Final = (
    "ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName"
)
SPECIFIC_NEEDS_PROJECTION: Final = (
    "Must specify the AttributesToGet or ProjectionExpression when choosing to get "
    "SPECIFIC_ATTRIBUTES"
)
TOTAL_SEGMENTS_MISSING: Final = (
    "The TotalSegments parameter is required but was not present in the request when Segment "
    "parameter is present"
)
SEGMENT_MISSING: Final = (
    "The Segment parameter is required but was not present in the request when parameter "
    "TotalSegments is present"
)


def refuse(text: str) -> errors.ValidationException:
    """Return the ValidationException with this text."""
    return errors.ValidationException(text)


def refuse_worded(operation: str, wording: str, text: str) -> errors.ValidationException:
    """Return a ValidationException that the 2026 layer wraps on some operations."""
    if wording != "classic" and operation in _WRAPPING:
        text = ENVELOPE + text
    return errors.ValidationException(text)


def is_current(operation: str, wording: str) -> bool:
    """Return whether the operation words its answers as the 2026 layer does."""
    return wording != "classic" and operation in _CURRENT


def translate(operation: str, wording: str, problem: Exception) -> errors.ApiError:
    """Return the ApiError for one of PROBLEMS (or an ApiError, which stays as it is)."""
    if isinstance(problem, errors.ApiError):
        return problem
    if isinstance(problem, SerializationProblem):
        return errors.SerializationException(str(problem))
    if isinstance(problem, ExpressionError):
        if problem.kind in _WRAPPED_KINDS:
            return refuse_worded(operation, wording, problem.message)
        return refuse(problem.message)
    if isinstance(problem, ValueProblem):
        return _value_problem(operation, wording, problem)
    if isinstance(problem, KeyProblem):
        return refuse(key_text(problem, in_item=operation in _ITEM_OPERATIONS))
    if isinstance(problem, IndexKeyProblem):
        return refuse(index_key_text(problem, in_update=operation == "UpdateItem"))
    if isinstance(problem, CollectionTooLarge):
        name = "ItemCollectionSizeLimitExceededException"
        return errors.API_ERRORS[name](COLLECTION_TOO_LARGE)
    assert isinstance(problem, ItemTooLarge)
    return refuse(UPDATED_ITEM_TOO_LARGE if operation == "UpdateItem" else ITEM_TOO_LARGE)


def _value_problem(operation: str, wording: str, problem: ValueProblem) -> errors.ApiError:
    if not is_current(operation, wording):
        return refuse(problem.classic)
    if problem.is_bare:
        return refuse(problem.current)
    return refuse_worded(operation, wording, problem.current)


def expression_value_text(operation: str, wording: str, name: str, problem: ValueProblem) -> str:
    """Return what is said about an invalid value in ExpressionAttributeValues."""
    if is_current(operation, wording):
        return problem.current
    inner = problem.classic
    return f"ExpressionAttributeValues contains invalid value: {inner} for key {name}"


def key_text(problem: KeyProblem, *, in_item: bool) -> str:
    """Return the text for a key that the table cannot take (reference 13.5)."""
    kind, name = problem.kind, problem.attribute
    if kind == "empty":
        return messages.key_empty(name, problem.actual)
    if kind == "too_long":
        return str(problem)
    if in_item and kind == "missing":
        return messages.key_missing(name)
    if in_item and kind == "type":
        return messages.key_type(name, problem.expected, problem.actual)
    return messages.KEY_SCHEMA_MISMATCH


def index_key_text(problem: IndexKeyProblem, *, in_update: bool) -> str:
    """Return the text for an attribute that an index cannot have as its key (reference 7.3)."""
    index, key = problem.index, problem.problem
    if key.kind in _VECTOR_TEXTS:
        return _vector_text(index.name, key)
    if key.kind == "empty":
        return _index_key_empty(index.name, key, in_update)
    if key.kind == "too_long":
        return str(key)
    if in_update:
        return (
            "The update expression attempted to update the secondary index key to unsupported type"
        )
    return index_key_type(key.attribute, key.expected, key.actual, index.name)


# Kinds of problems with vectors -> what is said (reference 1.2; the punctuation is as observed).
_VECTOR_TEXTS: Final = {
    "vector_list": "Invalid type for parameter {name}, Expected: 32-bit floating point number list",
    "vector_size": "Invalid size for parameter {name}, Expected: {expected}, Actual: {actual}",
    "vector_element": "Invalid type for parameter {name}[{at}], Expected: 32-bit floating point "
    "number, Actual: {actual}.",
    "vector_range": "Invalid value for parameter {name}[{at}], Value: {actual} is outside valid "
    "range [-3.4028235E38, 3.4028235E38].",
    "search_type": "Attribute '{name}' type mismatch. Expected: {expected}, Actual: {actual}.",
}


def _vector_text(index: str, key: KeyProblem) -> str:
    text = _VECTOR_TEXTS[key.kind].format(
        name=key.attribute, expected=key.expected, actual=key.actual, at=key.size
    )
    return f"One or more parameter values were invalid. {text} IndexName: {index}"


def index_key_type(name: str, expected: str, actual: str, index: str) -> str:
    """Return the text for an index key attribute of another type."""
    return (
        f"{messages.INVALID}Type mismatch for Index Key {name} Expected: {expected} "
        f"Actual: {actual} IndexName: {index}"
    )


def _index_key_empty(index: str, key: KeyProblem, in_update: bool) -> str:
    what = "binary" if key.actual == "B" else "string"
    empty = f"The AttributeValue for a key attribute cannot contain an empty {what} value."
    if in_update:
        return (
            "One or more parameter values are not valid. The update expression attempted to "
            f"update a secondary index key to a value that is not supported. {empty}"
        )
    return (
        "One or more parameter values are not valid. A value specified for a secondary index key "
        f"is not supported. {empty} IndexName: {index}, IndexKey: {key.attribute}"
    )


def throttled(problem: Throttled) -> errors.ApiError:
    """An empty token bucket (model/throttle.py)."""
    if problem.is_provisioned:
        return errors.API_ERRORS["ProvisionedThroughputExceededException"](THROTTLED)
    return errors.ThrottlingException(THROTTLED_ON_DEMAND)


def condition_failed(item: Any = None) -> errors.ApiError:
    """Return the error of a false condition; `item` is the stored one, if it was asked for."""
    members = {} if item is None else {"Item": item}
    return errors.API_ERRORS["ConditionalCheckFailedException"](CONDITION_FAILED, **members)


def cannot_update_key(name: str) -> errors.ApiError:
    """An update of a key attribute."""
    return refuse(
        f"{messages.INVALID}Cannot update attribute {name}. This attribute is part of the key"
    )


def nested_key_path(name: str, *, in_index: bool) -> errors.ApiError:
    """A path that goes below a key attribute."""
    return refuse(
        "Key attributes must be scalars; list random access '[]' and map lookup '.' are not "
        f"allowed: {'IndexKey' if in_index else 'Key'}: {name}"
    )


def unknown_index(name: str) -> errors.ApiError:
    """A read of an index that the table does not have."""
    return refuse(f"The table does not have the specified index: {name}")


def not_readable(operation: str) -> errors.ApiError:
    """Query or Scan of a vector index. (The text for Scan is that of PartiQL's SELECT.)"""
    return refuse(f"{operation} operation not supported on this index type.")


def select_all_of_gsi(name: str) -> errors.ApiError:
    """ALL_ATTRIBUTES of a global index that does not hold them."""
    return refuse(
        f"{messages.INVALID}Select type ALL_ATTRIBUTES is not supported for global secondary "
        f"index {name} because its projection type is not ALL"
    )


def not_projected(name: str, attributes: list[str]) -> errors.ApiError:
    """Attributes that a global index does not hold."""
    return refuse(
        f"{messages.INVALID}Global secondary index {name} does not project "
        f"[{', '.join(attributes)}]"
    )


def filter_on_key(parameter: str, name: str) -> errors.ApiError:
    """A filter that mentions a key attribute of what is queried."""
    return refuse(
        f"{parameter} can only contain non-primary key attributes: Primary key attribute: {name}"
    )
