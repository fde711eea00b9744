"""The two clients on an event loop: every operation as a coroutine, in boto3's client shape.

Thread safety: a client belongs to the loop of its database.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, ClassVar, cast

from dynalsm import errors
from dynalsm.api import shape_data, shapes
from dynalsm.api.registry import OPERATIONS
from dynalsm.api.shapes import snake_case
from dynalsm.client import (
    STREAMS,
    BaseClient,
    DynamoDBClient,
    StreamsClient,
    known_members,
    reject_unknown,
    response_metadata,
    with_datetimes,
)
from dynalsm.paging import PageNames, PageWalk, WaiterError, set_page_size, waiter_schedule

if TYPE_CHECKING:
    from dynalsm.aio import AsyncDatabase
    from dynalsm.client import Reached
    from dynalsm.type_defs import AsyncDynamoDBMethods, AsyncStreamsMethods
else:  # the operations are added below; their types are for type checkers alone

    class AsyncDynamoDBMethods:
        """Stand where the types of the operations are for a type checker."""

    class AsyncStreamsMethods:
        """Stand where the types of the operations are for a type checker."""


Reply = dict[str, Any]


class AsyncClient:
    """What both clients share; the operations themselves are added below."""

    exceptions = BaseClient.exceptions
    _shape: ClassVar[type[BaseClient]] = BaseClient

    def __init__(self, database: AsyncDatabase) -> None:
        self._call = database.call

    def can_paginate(self, operation_name: str) -> bool:
        """Say whether get_paginator() knows the operation (by its method name)."""
        return operation_name in self._shape._paginators

    def get_paginator(self, operation_name: str) -> AsyncPaginator:
        """Return a paginator: `async for page in client.get_paginator("query").paginate(...)`."""
        return AsyncPaginator(
            getattr(self, operation_name), self._shape.page_names_of(operation_name)
        )

    def get_waiter(self, waiter_name: str) -> AsyncWaiter:
        """Return a waiter: "table_exists" or "table_not_exists"."""
        return AsyncWaiter(waiter_name, self, self._shape.is_reached_of(waiter_name))


class AsyncDynamoDBClient(AsyncDynamoDBMethods, AsyncClient):
    """`await db.client.put_item(TableName=..., Item={"pk": {"S": "x"}})`: boto3's client shape."""

    _shape = DynamoDBClient


class AsyncStreamsClient(AsyncStreamsMethods, AsyncClient):
    """`await db.streams.get_records(ShardIterator=...)`."""

    _shape = StreamsClient


def _method(name: str) -> Callable[..., Any]:
    known = known_members(name)
    has_times = name in shape_data.TIMESTAMPS

    async def method(self: AsyncClient, /, **params: Any) -> Reply:
        if not known.issuperset(params):
            reject_unknown(known, params)
        reply = await self._call(name, params)
        if has_times:
            reply = with_datetimes(name, reply)
        reply["ResponseMetadata"] = response_metadata()
        return reply

    method.__doc__ = f"Run {name}. Parameters: {', '.join(sorted(known)) or 'none'}."
    return method


def _add_operations() -> None:
    for name in OPERATIONS:
        owner = AsyncStreamsClient if shapes.service_of(name) == STREAMS else AsyncDynamoDBClient
        method = _method(name)
        method.__name__ = snake_case(name)
        method.__qualname__ = f"{owner.__name__}.{method.__name__}"
        setattr(owner, method.__name__, method)


_add_operations()


class AsyncPaginator:
    """Follows the pages of one operation."""

    def __init__(self, method: Callable[..., Any], names: PageNames) -> None:
        self._method = method
        self._names = names

    async def paginate(
        self, PaginationConfig: dict[str, Any] | None = None, **params: Any
    ) -> AsyncIterator[Reply]:
        """Yield the replies. PaginationConfig: MaxItems, PageSize, StartingToken."""
        config = PaginationConfig or {}
        set_page_size(params, self._names, config)
        walk = PageWalk(params, self._names, config)
        while (request := walk.next_request()) is not None:
            yield walk.take(await self._method(**request))


class AsyncWaiter:
    """Asks again and again until a state is reached."""

    def __init__(self, name: str, client: Any, reached: Reached) -> None:
        self.name = name
        self._client = client
        self._reached = reached

    async def wait(self, WaiterConfig: dict[str, Any] | None = None, **params: Any) -> None:
        """Return when the state is reached. WaiterConfig: Delay (seconds), MaxAttempts."""
        delay_seconds, attempts = waiter_schedule(WaiterConfig or {})
        for attempt in range(attempts):
            if attempt:
                await asyncio.sleep(delay_seconds)
            if self._reached(await self._status(params)):
                return
        raise WaiterError(f"Waiter {self.name} failed: Max attempts exceeded")

    async def _status(self, params: dict[str, Any]) -> str | None:
        try:
            reply = await self._client.describe_table(**params)
        except errors.API_ERRORS["ResourceNotFoundException"]:
            return None
        return cast("str", reply["Table"]["TableStatus"])
