"""`db.client` and `db.streams`: every operation as a method, in the shape of boto3's clients.

Methods take and return typed values (`{"S": "..."}`, bytes for B) and are generated from
`dynalsm.api.OPERATIONS`; nothing is serialised on the way. Errors are `dynalsm.errors` classes with
DynamoDB's names, also reachable as `client.exceptions.ConditionalCheckFailedException`.

Thread safety: a client holds no state of its own and may be shared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, cast

from dynalsm import errors
from dynalsm.api import shape_data, shapes
from dynalsm.api.registry import OPERATIONS
from dynalsm.api.shapes import snake_case
from dynalsm.paging import PageNames, Paginator, Waiter

if TYPE_CHECKING:
    from dynalsm.database import Database
    from dynalsm.type_defs import DynamoDBMethods, StreamsMethods
else:  # the operations are added below; their types are for type checkers alone

    class DynamoDBMethods:
        """Stand where the types of the operations are for a type checker."""

    class StreamsMethods:
        """Stand where the types of the operations are for a type checker."""


Reply = dict[str, Any]
# Given the status of a table, or None where there is none.
Reached = Callable[[str | None], bool]

STREAMS = "dynamodbstreams"
# What Query and Scan pages carry; numbers are summed over pages.
_ITEM_RESULTS = ("Items", "Count", "ScannedCount")


class ParamValidationError(errors.Error, TypeError):
    """A call has a parameter that the operation does not know (botocore's error of this name)."""

    def __init__(self, report: str) -> None:
        super().__init__(f"Parameter validation failed:\n{report}")


class Exceptions:
    """The error classes by name: `client.exceptions.ResourceNotFoundException`."""

    ClientError = errors.ApiError

    def __getattr__(self, name: str) -> type[errors.ApiError]:
        try:
            return errors.API_ERRORS[name]
        except KeyError:
            raise AttributeError(
                f"{name} is no error of DynamoDB; there are: {', '.join(sorted(errors.API_ERRORS))}"
            ) from None

    def from_code(self, code: str) -> type[errors.ApiError]:
        """Return the class of an error code, or the base class."""
        return errors.API_ERRORS.get(code, errors.ApiError)


EXCEPTIONS = Exceptions()


def known_members(operation: str) -> frozenset[str]:
    """Return the names of an operation's request members."""
    return frozenset(shapes.input_of(operation).members)


def reject_unknown(known: frozenset[str], given: Mapping[str, Any]) -> None:
    """Raise botocore's complaint about the parameters that the operation does not have."""
    report = "\n".join(
        f'Unknown parameter in input: "{name}", must be one of: {", ".join(sorted(known))}'
        for name in given
        if name not in known
    )
    raise ParamValidationError(report)


def response_metadata() -> Reply:
    """Return what boto3 tells about the HTTP response; here there was none, and no request id."""
    return {"RequestId": "", "HTTPStatusCode": 200, "HTTPHeaders": {}, "RetryAttempts": 0}


def with_datetimes(operation: str, reply: Reply) -> Reply:
    """Return a reply with its epoch seconds as datetimes, as botocore's parser makes them.

    Dicts and lists that hold none are shared with the reply given, which stays as it is.
    """
    paths = _time_paths(operation)
    return cast("Reply", _convert_times(reply, paths)) if paths else reply


@cache
def _time_paths(operation: str) -> dict[str, Any]:
    """Return the operation's timestamps as a tree of member names; a leaf is {}."""
    tree: dict[str, Any] = {}
    for path in shape_data.TIMESTAMPS.get(operation, ()):
        node = tree
        for name in path.replace("[]", "").replace("{}", "").split("."):
            node = node.setdefault(name, {})
    return tree


def _convert_times(value: Any, paths: dict[str, Any]) -> Any:
    if not paths:
        return datetime.fromtimestamp(value, UTC).astimezone()
    if isinstance(value, list):
        return [_convert_times(element, paths) for element in value]
    changed = dict(value)
    for name, inner in paths.items():
        if changed.get(name) is not None:
            changed[name] = _convert_times(changed[name], inner)
    return changed


class BaseClient:
    """What both clients share; the operations themselves are added below."""

    exceptions = EXCEPTIONS
    _paginators: ClassVar[dict[str, PageNames]] = {}
    _waiters: ClassVar[dict[str, Reached]] = {}

    def __init__(self, database: Database) -> None:
        self._database = database
        self._call = database.call

    def can_paginate(self, operation_name: str) -> bool:
        """Say whether get_paginator() knows the operation (by its method name)."""
        return operation_name in self._paginators

    def get_paginator(self, operation_name: str) -> Paginator:
        """Return a paginator that follows the operation's pages: "query", "scan", ..."""
        names = self.page_names_of(operation_name)
        return Paginator(getattr(self, operation_name), names)

    @classmethod
    def page_names_of(cls, operation_name: str) -> PageNames:
        """Return how an operation (by its method name) speaks of its pages. Raises: ValueError."""
        if operation_name not in cls._paginators:
            raise ValueError(
                f"{operation_name} has no pages; there are: {', '.join(sorted(cls._paginators))}"
            )
        return cls._paginators[operation_name]

    @property
    def waiter_names(self) -> list[str]:
        """The names that get_waiter() takes."""
        return sorted(self._waiters)

    def get_waiter(self, waiter_name: str) -> Waiter:
        """Return a waiter: "table_exists" or "table_not_exists"."""
        return Waiter(waiter_name, self, self.is_reached_of(waiter_name))

    @classmethod
    def is_reached_of(cls, waiter_name: str) -> Reached:
        """Return what decides whether a waiter's state is reached. Raises: ValueError."""
        if waiter_name not in cls._waiters:
            raise ValueError(
                f"there is no waiter {waiter_name}; there are: {', '.join(sorted(cls._waiters))}"
            )
        return cls._waiters[waiter_name]

    def close(self) -> None:
        """Do nothing: the database owns everything that has to be closed."""


def _table_exists(status: str | None) -> bool:
    return status == "ACTIVE"


def _table_not_exists(status: str | None) -> bool:
    return status is None


class DynamoDBClient(DynamoDBMethods, BaseClient):
    """The "dynamodb" client: `db.client.put_item(TableName=..., Item={"pk": {"S": "x"}})`."""

    _paginators: ClassVar[dict[str, PageNames]] = {
        "query": PageNames("ExclusiveStartKey", "LastEvaluatedKey", "Limit", _ITEM_RESULTS),
        "scan": PageNames("ExclusiveStartKey", "LastEvaluatedKey", "Limit", _ITEM_RESULTS),
        "list_tables": PageNames(
            "ExclusiveStartTableName", "LastEvaluatedTableName", "Limit", ("TableNames",)
        ),
        "list_backups": PageNames(
            "ExclusiveStartBackupArn", "LastEvaluatedBackupArn", "Limit", ("BackupSummaries",)
        ),
        "list_tags_of_resource": PageNames("NextToken", "NextToken", None, ("Tags",)),
    }
    _waiters: ClassVar[dict[str, Reached]] = {
        "table_exists": _table_exists,
        "table_not_exists": _table_not_exists,
    }


class StreamsClient(StreamsMethods, BaseClient):
    """The "dynamodbstreams" client: `db.streams.get_records(ShardIterator=...)`."""

    _paginators: ClassVar[dict[str, PageNames]] = {
        "list_streams": PageNames(
            "ExclusiveStartStreamArn", "LastEvaluatedStreamArn", "Limit", ("Streams",)
        ),
    }


def _method(name: str) -> Callable[..., Reply]:
    known = known_members(name)
    has_times = name in shape_data.TIMESTAMPS

    def method(self: BaseClient, /, **params: Any) -> Reply:
        if not known.issuperset(params):
            reject_unknown(known, params)
        reply = self._call(name, params)
        if has_times:
            reply = with_datetimes(name, reply)
        reply["ResponseMetadata"] = response_metadata()
        return reply

    method.__doc__ = f"Run {name}. Parameters: {', '.join(sorted(known)) or 'none'}."
    return method


def _add_operations() -> None:
    for name in OPERATIONS:
        owner = StreamsClient if shapes.service_of(name) == STREAMS else DynamoDBClient
        method = _method(name)
        method.__name__ = snake_case(name)
        method.__qualname__ = f"{owner.__name__}.{method.__name__}"
        setattr(owner, method.__name__, method)


_add_operations()
