"""Every wording that more than one operation uses, so that a text changes in one place.

Texts follow DynamoDB to the letter where they were observed (reference 0.1, 12-14); the few that
were not are written in the same style. Words of one operation only live beside its checks.
"""

from __future__ import annotations

INVALID = "One or more parameter values were invalid: "
IN_USE = "Attempt to change a resource which is still in use: "
NOT_FOUND = "Requested resource not found"
NAME_PATTERN = "[a-zA-Z0-9_.-]+"

# Member constraints (reference 13.1).
NOT_NULL = "Member must not be null"


def at_least(count: int) -> str:
    """Length, lower side."""
    return f"Member must have length greater than or equal to {count}"


def at_most(count: int) -> str:
    """Length, upper side."""
    return f"Member must have length less than or equal to {count}"


def value_at_least(bound: int) -> str:
    """Range, lower side."""
    return f"Member must have value greater than or equal to {bound}"


def value_at_most(bound: int) -> str:
    """Range, upper side."""
    return f"Member must have value less than or equal to {bound}"


def pattern(text: str) -> str:
    """Pattern."""
    return f"Member must satisfy regular expression pattern: {text}"


def enum(values: str) -> str:
    """Enumeration."""
    return f"Member must satisfy enum value set: [{values}]"


# Table names (reference 13.2).
TABLE_NAME_REQUIRED = "The parameter 'TableName' is required but was not present in the request"
TABLE_NAME_LENGTH = "TableName must be at least 3 characters long and at most 255 characters long"


def being_created(name: str) -> str:
    """Control plane: a table that is being restored or imported."""
    return f"{IN_USE}Table is being created: {name}"


def being_deleted(name: str) -> str:
    """Control plane: a table that is shown as being deleted."""
    return f"{IN_USE}Table is being deleted: {name}"


def table_not_found(name: str) -> str:
    """Control plane: an unknown table."""
    return f"{NOT_FOUND}: Table: {name} not found"


def resource_not_found(arn: str) -> str:
    """Tags and policies: an unknown table or stream."""
    return f"{NOT_FOUND}: ResourceArn: {arn} not found"


def stream_not_found(arn: str) -> str:
    """Streams: a well-formed ARN of no stream."""
    return f"{NOT_FOUND}: Stream: {arn} not found"


def index_not_found(index: str, table: str) -> str:
    """UpdateTable: an unknown index."""
    return f"{NOT_FOUND}: Index {index} for table {table}"


def access_denied(account: str, operation: str, arn: str) -> str:
    """A resource of another account."""
    return (
        f"User: arn:aws:iam::{account}:root is not authorized to perform: dynamodb:{operation} "
        f"on resource: {arn} because no resource-based policy allows the dynamodb:{operation} "
        "action"
    )


def unsupported(what: str) -> str:
    """A member or operation that has no meaning on one machine (reference appendix C)."""
    return f"{what} is not supported by dynalsm"


# Keys in items and Key parameters (reference 13.5).
KEY_SCHEMA_MISMATCH = "The provided key element does not match the schema"


def key_missing(name: str) -> str:
    """An item without one of its key attributes."""
    return f"{INVALID}Missing the key {name} in the item"


def key_type(name: str, expected: str, actual: str) -> str:
    """An item whose key attribute has another type."""
    return f"{INVALID}Type mismatch for key {name} expected: {expected} actual: {actual}"


def key_empty(name: str, kind: str) -> str:
    """An empty key attribute; `kind` is S or B."""
    return (
        "One or more parameter values are not valid. The AttributeValue for a key attribute "
        f"cannot contain an empty {'binary' if kind == 'B' else 'string'} value. Key: {name}"
    )
