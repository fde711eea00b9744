"""The shape of every request: `SHAPES["GetItemInput"]`, `input_of("GetItem")`.

Shapes are resolved from shape_data.py on first use and never change afterwards, so any thread may
read them. Where AWS is stricter or speaks differently than its model, OBSERVED_MEMBERS and
OBSERVED_SHAPES say so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from dynalsm.api import shape_data

# Where AWS prints the members of an enum in an order of its own (reference 13.1, observed).
ENUM_PRINT_ORDER = {
    "ReturnConsumedCapacity": "INDEXES, TOTAL, NONE",
    "ReturnItemCollectionMetrics": "SIZE, NONE",
    "ReturnValue": "ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW",
    "Select": "SPECIFIC_ATTRIBUTES, COUNT, ALL_ATTRIBUTES, ALL_PROJECTED_ATTRIBUTES",
    "ComparisonOperator": "IN, NULL, BETWEEN, LT, NOT_CONTAINS, EQ, GT, NOT_NULL, NE, LE, "
    "BEGINS_WITH, GE, CONTAINS",
    "ConditionalOperator": "OR, AND",
    "KeyType": "HASH, RANGE",
    "ScalarAttributeType": "B, N, S",
    "ProjectionType": "ALL, INCLUDE, KEYS_ONLY",
    "BillingMode": "PROVISIONED, PAY_PER_REQUEST",
}

# (structure, member) -> shape, with "*" when required: what AWS enforces beyond its model.
OBSERVED_MEMBERS = {
    # The model lets replicas leave these out; dynalsm makes none (reference 13.4).
    ("CreateTableInput", "AttributeDefinitions"): "AttributeDefinitions*",
    ("CreateTableInput", "KeySchema"): "TableKeySchema*",
    ("LocalSecondaryIndex", "KeySchema"): "TableKeySchema*",
    ("GlobalSecondaryIndex", "KeySchema"): "IndexKeySchema*",
    ("CreateGlobalSecondaryIndexAction", "KeySchema"): "IndexKeySchema*",
    # Checked by hand, with a text of its own (reference 13.8).
    ("CreateTableInput", "TableClass"): "String",
    ("UpdateTableInput", "TableClass"): "String",
    # Documented limits of the streams API.
    ("GetRecordsInput", "Limit"): "GetRecordsLimit",
    ("DescribeStreamInput", "Limit"): "StreamsLimit",
    ("ListStreamsInput", "Limit"): "StreamsLimit",
    ("ShardFilter", "Type"): "ShardFilterType*",
    ("ShardFilter", "ShardId"): "ShardId*",
}

# Names whose value is a table name or ARN: format checks beyond the model (validate.table_name).
TABLE_NAME_SHAPES = ("TableArn", "TableName")
OPAQUE = "AttributeValue"

# Operations whose reply has no members: HTTP answers them with an empty body (observed).
WITHOUT_OUTPUT = frozenset({"TagResource", "UntagResource"})

# Java's spellings -> Python's; the second is Java's surrogate pairs, outside Python's strings.
_JAVA_CLASSES = {
    "\\p{Print}": "[\\x20-\\x7e]",
    "\\uD800\\uDC00-\\uDBFF\\uDFFF": "\\U00010000-\\U0010FFFF",
}


@dataclass(frozen=True)
class Shape:
    """One named type. `kind` is structure, list, map, string, integer, long, double, boolean,
    timestamp or value (an attribute value, a leaf here)."""

    name: str
    kind: str
    min: int | None = None
    max: int | None = None
    pattern: str | None = None
    enum: tuple[str, ...] = ()
    members: dict[str, Member] = field(default_factory=dict)
    key: str = ""
    element: str = ""

    @property
    def enum_text(self) -> str:
        """The enum as AWS prints it, without brackets."""
        return ENUM_PRINT_ORDER.get(self.name, ", ".join(self.enum))

    def matches(self, text: str) -> bool:
        """Return whether `text` satisfies the pattern."""
        return self.pattern is None or re.fullmatch(python_pattern(self.pattern), text) is not None


@dataclass(frozen=True)
class Member:
    """A member of a structure."""

    shape: str
    required: bool


def python_pattern(pattern: str) -> str:
    """Return a Java regular expression of the model in Python's syntax."""
    for java, python in _JAVA_CLASSES.items():
        pattern = pattern.replace(java, python)
    return pattern


OBSERVED_SHAPES = {
    "TableKeySchema": Shape("TableKeySchema", "list", 1, 2, element="KeySchemaElement"),
    "IndexKeySchema": Shape("IndexKeySchema", "list", 1, 8, element="KeySchemaElement"),
    "GetRecordsLimit": Shape("GetRecordsLimit", "integer", 1, 1000),
    "StreamsLimit": Shape("StreamsLimit", "integer", 1, 100),
}


class _Shapes(dict[str, Shape]):
    def __missing__(self, name: str) -> Shape:
        shape = self[name] = _resolve(name)
        return shape


def _resolve(name: str) -> Shape:
    if name == OPAQUE:
        return Shape(name, "value")
    if name in OBSERVED_SHAPES:
        return OBSERVED_SHAPES[name]
    if name in shape_data.STRUCTURES:
        members = {}
        for text in shape_data.STRUCTURES[name].split():
            member, _, target = text.partition(":")
            target = OBSERVED_MEMBERS.get((name, member), target)
            members[member] = Member(target.rstrip("*"), target.endswith("*"))
        return Shape(name, "structure", members=members)
    if name in shape_data.LISTS:
        element, low, high = shape_data.LISTS[name]
        return Shape(name, "list", low, high, element=element)
    if name in shape_data.MAPS:
        key, element, low, high = shape_data.MAPS[name]
        return Shape(name, "map", low, high, key=key, element=element)
    if name in shape_data.STRINGS:
        low, high, pattern, enum = shape_data.STRINGS[name]
        return Shape(name, "string", low, high, pattern, tuple(enum.split()))
    if name in shape_data.NUMBERS:
        kind, low, high = shape_data.NUMBERS[name]
        return Shape(name, kind, low, high)
    return Shape(name, shape_data.PLAIN[name])


SHAPES = _Shapes()


def snake_case(operation: str) -> str:
    """Return the method name of an operation: "PutItem" -> "put_item"."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", operation).lower()


def input_of(operation: str) -> Shape:
    """Return the request's structure. Raises: KeyError for an unknown operation."""
    return SHAPES[shape_data.OPERATIONS[operation][1]]


def service_of(operation: str) -> str:
    """Return "dynamodb" or "dynamodbstreams"."""
    return shape_data.OPERATIONS[operation][0]
