"""What leaves the event loop: waits for the disk, and operations that take milliseconds.

Thread safety: a SyncThread takes orders from any thread; Pages may be used by several threads, as
its notes are only set and removed and a lost one costs one slow turn of the loop.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from dynalsm import errors
from dynalsm.server.wire import Job

if TYPE_CHECKING:
    import asyncio

    from dynalsm.database import Database

Entry = TypeVar("Entry")
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)

log = logging.getLogger("dynalsm.server")

# Control operations sync directories, so they always run on a worker.
LONG_OPERATIONS = frozenset(
    "CreateTable DeleteTable UpdateTable CreateBackup DeleteBackup RestoreTableFromBackup "
    "RestoreTableToPointInTime ExportTableToPointInTime ImportTable StartBulkPutItems "
    "SearchVectors UpdateContinuousBackups".split()
)
# These may read one item or 1 MB: a worker takes them where they were slow the last time.
PAGE_OPERATIONS = frozenset(
    "Query Scan BatchGetItem ExecuteStatement BatchExecuteStatement ExecuteTransaction "
    "TransactGetItems GetRecords".split()
)
SHORT_PAGE_ITEMS = 25  # pages with such a Limit are never slow
SLOW_SECONDS = 0.001
SLOW_LIMIT_ENTRIES = 1000
# A disk whose syncs took no longer of late is waited for on the spot. Handing the wait to a
# thread and back costs 100 microseconds at one connection.
FAST_SYNC_SECONDS = 0.0005


class SyncThread:
    """Waits for the disk in order, one wait at a time, so that the loop never does for long."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._orders: queue.SimpleQueue[tuple[int, Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="dynalsm-sync", daemon=True)
        self._thread.start()

    def submit(self, seqno: int, done: Any) -> None:
        """Call done(None) on the sync thread when `seqno` is durable, or done(error)."""
        self._orders.put((seqno, done))

    @property
    def is_fast(self) -> bool:
        """Whether waiting on the spot is shorter than asking the thread."""
        return self._database.engine.mean_sync_seconds <= FAST_SYNC_SECONDS

    def wait(self, seqno: int) -> Exception | None:
        """Wait here until `seqno` is durable; returns the error if there is one."""
        try:
            self._database.engine.wait_durable(seqno)
            self._database.wake_followers()
        except errors.StorageError as error:
            return error
        except Exception as error:  # a mistake of ours: it must not leave the replies hanging
            log.exception("waiting for the disk failed")
            return error
        return None

    def stop(self) -> None:
        """Finish what was submitted and end the thread."""
        self._orders.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (order := self._orders.get()) is not None:
            seqno, done = order
            done(self.wait(seqno))


class Turns(Generic[Entry]):
    """One wait for the disk for everything that one turn of an event loop committed.

    While the disk works, the commits of the turns that follow gather for the next wait. With
    may_block, the loop waits itself while the disk is fast. Belongs to the loop's thread.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        syncer: SyncThread,
        release: Callable[[list[Entry], Exception | None], None],
        may_block: bool = False,
    ) -> None:
        self._loop = loop
        self._syncer = syncer
        self._release = release
        self._may_block = may_block
        self._turn: list[Entry] = []
        self._seqno = 0
        self._is_syncing = False
        self.waits = 0  # that are under way: 0 or 1

    def add(self, entry: Entry, seqno: int) -> None:
        """Hand `entry` to release(), with the error if there is one, when `seqno` is durable."""
        self._turn.append(entry)
        self._seqno = max(self._seqno, seqno)
        if not self._is_syncing:
            self._is_syncing = True
            # Runs after everything that is ready in this turn, so all of it shares the wait.
            self._loop.call_soon(self._end)

    def _end(self) -> None:
        turn, seqno = self._turn, self._seqno
        self._turn, self._seqno = [], 0
        if not turn:
            self._is_syncing = False
            return
        if self._may_block and self._syncer.is_fast:
            # What the release lets in, pipelined requests say, has a turn of its own.
            self._loop.call_soon(self._end)
            self._release(turn, self._syncer.wait(seqno))
            return
        self.waits += 1
        self._syncer.submit(
            seqno, lambda error: self._loop.call_soon_threadsafe(self._done, turn, error)
        )

    def _done(self, turn: list[Entry], error: Exception | None) -> None:
        self.waits -= 1
        self._release(turn, error)
        self._end()


class Runner(Protocol[Result_co]):
    """What runs a job: the service of a server, or a database."""

    def run(self, job: Job, /) -> Result_co: ...


class Pages:
    """Remembers which reads took long, so that the next of their kind goes to a worker.

    A kind is (operation, table, index).
    """

    def __init__(self) -> None:
        self._slow: set[tuple[str, Any, Any]] = set()

    def is_slow(self, job: Job) -> bool:
        """Say whether a job belongs on a worker."""
        if job.operation not in PAGE_OPERATIONS:
            return job.operation in LONG_OPERATIONS
        limit = job.parameters.get("Limit")
        if isinstance(limit, int) and limit <= SHORT_PAGE_ITEMS:
            return False
        return _kind(job) in self._slow

    def run(self, job: Job, service: Runner[Result]) -> Result:
        """Run a job, and remember how long a page took."""
        if job.operation not in PAGE_OPERATIONS:
            return service.run(job)
        started = time.perf_counter()
        reply = service.run(job)
        if time.perf_counter() - started > SLOW_SECONDS:
            if len(self._slow) >= SLOW_LIMIT_ENTRIES:
                self._slow.clear()
            self._slow.add(_kind(job))
        else:
            self._slow.discard(_kind(job))
        return reply


def _kind(job: Job) -> tuple[str, Any, Any]:
    table, index = job.parameters.get("TableName"), job.parameters.get("IndexName")
    return (
        job.operation,
        table if isinstance(table, str) else None,
        index if isinstance(index, str) else None,
    )
