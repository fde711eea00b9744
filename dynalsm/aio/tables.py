"""AsyncTable: one table on an event loop, with plain Python values, as dynalsm.resource.Table.

Thread safety: tables and batch writers belong to the loop of their database.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, cast

from dynalsm.changes import Change, follower
from dynalsm.client import known_members, reject_unknown, response_metadata
from dynalsm.resource import write_expressions
from dynalsm.values.forms import NATIVE

if TYPE_CHECKING:
    from dynalsm.aio import AsyncDatabase
    from dynalsm.changes import Follower

Reply = dict[str, Any]

REMOTE_POLL_SECONDS = 0.2  # followers of a stream ask an endpoint again this often
BATCH_LIMIT_ITEMS = 25  # of one BatchWriteItem


def _members(operation: str) -> frozenset[str]:
    return known_members(operation) - {"TableName"}


class AsyncTable:
    """One table with plain Python values: `db.Table("Music")`. Making the object asks nothing."""

    def __init__(self, database: AsyncDatabase, name: str) -> None:
        self._database = database
        self._call = database.call
        self.name = name

    def __repr__(self) -> str:
        return f"dynalsm.aio.AsyncTable(name={self.name!r})"

    async def get_item(self, **request: Any) -> Reply:
        """Return {"Item": {...}}, without "Item" when there is none; as Table.get_item."""
        return await self._run("GetItem", request)

    async def put_item(self, **request: Any) -> Reply:
        """Write a whole item in place of any with the same key; as Table.put_item."""
        return await self._run("PutItem", request)

    async def update_item(self, **request: Any) -> Reply:
        """Change attributes of one item, or create it; as Table.update_item."""
        return await self._run("UpdateItem", request)

    async def delete_item(self, **request: Any) -> Reply:
        """Delete one item; no error when there is none. Key={...}; ConditionExpression, ..."""
        return await self._run("DeleteItem", request)

    async def query(self, **request: Any) -> Reply:
        """Return one page of the items of one partition key; as Table.query."""
        return await self._run("Query", request)

    async def scan(self, **request: Any) -> Reply:
        """Return one page of the whole table; as Table.scan."""
        return await self._run("Scan", request)

    async def search_vectors(self, **request: Any) -> Reply:
        """Return the items whose vectors are nearest to a vector; as Table.search_vectors."""
        return await self._run("SearchVectors", request)

    def query_items(self, **request: Any) -> AsyncIterator[dict[str, Any]]:
        """Yield every item that query() finds, page after page: `async for item in ...`."""
        return self._all_items(self.query, request)

    def scan_items(self, **request: Any) -> AsyncIterator[dict[str, Any]]:
        """Yield every item that scan() finds, page after page: `async for item in ...`."""
        return self._all_items(self.scan, request)

    def batch_writer(self) -> AsyncBatchWriter:
        """Return an async context manager that puts and deletes in batches of 25."""
        return AsyncBatchWriter(self._database, self.name)

    def changes(
        self, start: str = "TRIM_HORIZON", *, follow_seconds: float | None = 0.0
    ) -> AsyncIterator[Change]:
        """Yield the table's stream records, oldest first: `async for change in ...`.

        The arguments are those of Table.changes. "LATEST" means from this call on; at an endpoint,
        from the first step on.
        """
        open_now = self._database.is_embedded
        started = follower(self._database.sync, self.name, start) if open_now else None
        return self._changes(started, start, follow_seconds)

    async def describe(self) -> dict[str, Any]:
        """Return the "Table" of DescribeTable."""
        reply = await self._database.client.describe_table(TableName=self.name)
        return cast("dict[str, Any]", reply["Table"])

    async def update(self, **request: Any) -> AsyncTable:
        """Change the table's settings or indexes (UpdateTable)."""
        await self._database.client.update_table(TableName=self.name, **request)
        return self

    async def delete(self) -> Reply:
        """Delete the table with its indexes; its stream stays readable for a day."""
        return cast("Reply", await self._database.client.delete_table(TableName=self.name))

    async def wait_until_exists(self, **config: Any) -> None:
        """Return when the table is ACTIVE."""
        waiter = self._database.client.get_waiter("table_exists")
        await waiter.wait(TableName=self.name, **config)

    async def wait_until_not_exists(self, **config: Any) -> None:
        """Return when the table is gone."""
        waiter = self._database.client.get_waiter("table_not_exists")
        await waiter.wait(TableName=self.name, **config)

    async def _run(self, operation: str, request: dict[str, Any]) -> Reply:
        known = _KNOWN[operation]
        if not known.issuperset(request):
            reject_unknown(known, request)
        request["TableName"] = self.name
        write_expressions(request)
        reply = await self._call(operation, request, NATIVE)
        reply["ResponseMetadata"] = response_metadata()
        return reply

    async def _all_items(
        self, read: Callable[..., Any], request: dict[str, Any]
    ) -> AsyncIterator[dict[str, Any]]:
        while True:
            reply = await read(**request)
            for item in reply.get("Items", ()):
                yield item
            if "LastEvaluatedKey" not in reply:
                return
            request["ExclusiveStartKey"] = reply["LastEvaluatedKey"]

    async def _changes(
        self, started: Follower | None, start: str, follow_seconds: float | None
    ) -> AsyncIterator[Change]:
        database = self._database
        news = _News(database)
        try:
            if started is None:
                started = await database.run(follower, database.sync, self.name, start)
            while True:
                news.clear()
                found = await database.run(started.step)
                if found is None:
                    return
                for change in found:
                    yield change
                if found:
                    news.renew()
                elif not await news.wait(follow_seconds):
                    return
        finally:
            news.end()


_KNOWN = {
    name: _members(name)
    for name in ("GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "Scan", "SearchVectors")
}


class _News:
    """Wakes one follower when there may be more to read."""

    def __init__(self, database: AsyncDatabase) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._is_told = False
        self.end = database.sync.listen(self._tell) if database.is_embedded else _do_nothing
        self._is_embedded = database.is_embedded
        self._since = self._loop.time()

    def renew(self) -> None:
        """Start the patience again: there was something."""
        self._since = self._loop.time()

    def clear(self) -> None:
        """Forget what was told: the follower is about to look."""
        self._event.clear()
        self._is_told = False

    async def wait(self, patience_seconds: float | None) -> bool:
        """Wait for news. Returns False when there were none for so long."""
        left_seconds = None
        if patience_seconds is not None:
            left_seconds = self._since + patience_seconds - self._loop.time()
            if left_seconds <= 0:
                return False
        if not self._is_embedded:
            await asyncio.sleep(min(REMOTE_POLL_SECONDS, left_seconds or REMOTE_POLL_SECONDS))
            return True
        try:
            await asyncio.wait_for(self._event.wait(), left_seconds)
        except TimeoutError:
            return False
        return True

    def _tell(self) -> None:
        """Called on any thread, at every commit."""
        if not self._is_told:
            self._is_told = True
            self._loop.call_soon_threadsafe(self._event.set)


def _do_nothing() -> None:
    pass


class AsyncBatchWriter:
    """Collects puts and deletes and sends them 25 at a time; leaving the block sends the rest."""

    def __init__(self, database: AsyncDatabase, table_name: str) -> None:
        self._call = database.call
        self._table_name = table_name
        self._waiting: list[dict[str, Any]] = []

    async def put_item(self, Item: dict[str, Any]) -> None:
        """Put an item with the next batch."""
        await self._add({"PutRequest": {"Item": Item}})

    async def delete_item(self, Key: dict[str, Any]) -> None:
        """Delete an item with the next batch."""
        await self._add({"DeleteRequest": {"Key": Key}})

    async def __aenter__(self) -> AsyncBatchWriter:
        return self

    async def __aexit__(self, *exc: object) -> None:
        while self._waiting:
            await self._send()

    async def _add(self, request: dict[str, Any]) -> None:
        self._waiting.append(request)
        if len(self._waiting) >= BATCH_LIMIT_ITEMS:
            await self._send()

    async def _send(self) -> None:
        batch, self._waiting = (
            self._waiting[:BATCH_LIMIT_ITEMS],
            self._waiting[BATCH_LIMIT_ITEMS:],
        )
        reply = await self._call(
            "BatchWriteItem", {"RequestItems": {self._table_name: batch}}, NATIVE
        )
        self._waiting += (reply.get("UnprocessedItems") or {}).get(self._table_name, ())
