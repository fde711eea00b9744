"""dynalsm on an event loop: `async with aio.open("shop.db") as db: await db.Table("Music")...`.

The surface is that of `dynalsm.open`, with `await` before what does something. As in the server,
short operations run on the loop's own thread (they take microseconds), long ones on a few worker
threads; and everything that one turn of the loop commits shares one wait for the disk, on one
thread, however many tasks are waiting. An address (`http://host:port`, `dynamodb://region`) works
as well: its requests run on a bounded pool of threads.

Thread safety: an AsyncDatabase belongs to the loop that opened it. The Database under it (`sync`)
may be used from other threads meanwhile.

Invariants: (1) no reply, and no refusal, is seen before all that it depends on is as durable as the
database promises; (2) close() ends the threads after the tasks under way have their replies.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import dynalsm
from dynalsm import errors
from dynalsm.aio.clients import AsyncDynamoDBClient, AsyncStreamsClient
from dynalsm.aio.tables import AsyncTable
from dynalsm.server.offload import Pages, SyncThread, Turns
from dynalsm.server.wire import Job
from dynalsm.values.forms import WIRE

if TYPE_CHECKING:
    from dynalsm.database import Database

__all__ = ["AsyncDatabase", "AsyncTable", "open"]

Reply = dict[str, Any]
Result = TypeVar("Result")

WORKERS = 4  # for operations that take milliseconds
REMOTE_WORKERS = 32  # requests to an endpoint that may be under way at once


def open(path: str | os.PathLike[str], **options: Any) -> Opening:
    """Open a directory or an address, as `dynalsm.open` does, for the running event loop.

        async with aio.open("shop.db") as db: ...
        db = await aio.open("shop.db")          # and `await db.close()` at the end

    Raises (when awaited): as dynalsm.open.
    """
    return Opening(path, options)


class Opening:
    """A database about to be opened: await it, or use it in `async with`."""

    def __init__(self, path: str | os.PathLike[str], options: dict[str, Any]) -> None:
        self._path = path
        self._options = options
        self._database: AsyncDatabase | None = None

    def __await__(self) -> Generator[Any, None, AsyncDatabase]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncDatabase:
        self._database = await self._open()
        return self._database

    async def __aexit__(self, *exc: object) -> None:
        if self._database is not None:
            await self._database.close()

    async def _open(self) -> AsyncDatabase:
        # Recovery reads the log: not on the loop.
        options = self._options
        if isinstance(self._path, str) and "://" in self._path and "config" not in options:
            options = {**options, "config": _remote_config()}
        return AsyncDatabase(await asyncio.to_thread(dynalsm.open, self._path, **options))


def _remote_config() -> Any:
    from botocore.config import Config

    return Config(retries={"mode": "standard"}, max_pool_connections=REMOTE_WORKERS)


class AsyncDatabase:
    """A Database on the running event loop; `sync` is the Database itself."""

    def __init__(self, database: Database) -> None:
        self.sync = database
        self._loop = asyncio.get_running_loop()
        self.is_embedded = hasattr(database, "engine")
        self._must_wait = self.is_embedded and database.must_wait
        self._pages = Pages()
        self._runner = _Runner(database)
        self._workers = ThreadPoolExecutor(
            WORKERS if self.is_embedded else REMOTE_WORKERS, thread_name_prefix="dynalsm-aio"
        )
        self._syncer: SyncThread | None = None
        self._turns: Turns[asyncio.Future[None]]
        if self._must_wait:
            self._syncer = SyncThread(database)
            self._turns = Turns(self._loop, self._syncer, _release)
        self._closing: asyncio.Future[None] | None = None
        self.client = AsyncDynamoDBClient(self)
        self.streams = AsyncStreamsClient(self)

    # --- every operation --------------------------------------------------------------------

    async def call(self, operation: str, request: dict[str, Any], form: Any = WIRE) -> Reply:
        """Run one operation. Raises: errors.ApiError, errors.StorageError."""
        if not self.is_embedded:
            return await self.run(self.sync.call, operation, request, form)
        if self._closing is not None:
            raise errors.ClosedError("the database is closed", path=self.sync.path)
        job = Job(operation, request, 0)
        if self._pages.is_slow(job):
            return await self.run(self.sync.call, operation, request, form)
        self._runner.form = form
        outcome, seqno = self._pages.run(job, self._runner)
        if self._must_wait and seqno > 0 and seqno > self.sync.engine.durable_seqno:
            await self._durable(seqno)
        if isinstance(outcome, errors.ApiError):
            raise outcome
        return outcome

    def _durable(self, seqno: int) -> asyncio.Future[None]:
        waiting: asyncio.Future[None] = self._loop.create_future()
        self._turns.add(waiting, seqno)
        return waiting

    async def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Run a function on one of the worker threads; it may use `sync`."""
        if self._closing is not None:
            raise errors.ClosedError("the database is closed", path=self.sync.path)
        return await self._loop.run_in_executor(self._workers, function, *arguments)

    # --- tables -----------------------------------------------------------------------------

    async def create_table(self, **request: Any) -> AsyncTable:
        """Create a table (boto3's CreateTable members) and return it; it is ready to use."""
        await self.call("CreateTable", request)
        return AsyncTable(self, request["TableName"])

    def Table(self, name: str) -> AsyncTable:
        """Return the table of this name without asking whether it exists."""
        return AsyncTable(self, name)

    async def tables(self) -> list[AsyncTable]:
        """Every table, in the order of the names."""
        names: list[str] = []
        async for page in self.client.get_paginator("list_tables").paginate():
            names += page["TableNames"]
        return [AsyncTable(self, name) for name in names]

    # --- the engine -------------------------------------------------------------------------

    async def stats(self) -> dict[str, Any]:
        """Return the engine's figures as a dict."""
        return await self.run(self.sync.stats)

    async def flush(self) -> None:
        """Write all memtables to SSTables."""
        await self.run(self.sync.flush)

    async def compact(self) -> None:
        """Merge every tree down to its last level."""
        await self.run(self.sync.compact)

    # --- the end ----------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._closing is not None

    async def close(self) -> None:
        """Let what is under way end, then close the database; more calls wait for the first."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._end())
        await asyncio.shield(self._closing)

    async def _end(self) -> None:
        if self._must_wait and not self.sync.closed:
            # In line behind everybody who waits for the disk already.
            try:
                await self._durable(self.sync.engine.last_seqno)
            except errors.StorageError:
                pass  # those who wait have been told; closing goes on
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        # Followers wake up and see that the database is closing.
        self.sync.stopping.set()
        if self.is_embedded:
            self.sync.wake_followers()
        self._workers.shutdown(wait=True)
        if self._syncer is not None:
            self._syncer.stop()
        self.sync.close()

    async def __aenter__(self) -> AsyncDatabase:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<dynalsm.aio.AsyncDatabase {self.sync.path!r}{' closed' if self.closed else ''}>"


class _Runner:
    """Runs jobs on the loop's thread without waiting for the disk."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.form: Any = WIRE

    def run(self, job: Job) -> tuple[Reply | errors.ApiError, int]:
        return self._database.call_held(job.operation, job.parameters, self.form)


def _release(turn: list[asyncio.Future[None]], error: Exception | None) -> None:
    for waiting in turn:
        if waiting.done():
            continue  # its task was cancelled
        if error is None:
            waiting.set_result(None)
        else:
            waiting.set_exception(error)
