"""Replication of one table: start, copy, then step by step the changes.

Thread safety: a Replication belongs to one thread; the threads of its copy share only the
position, under its lock, and the counters of `progress`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from dynalsm import errors
from dynalsm.database import Database
from dynalsm.replicate import schema
from dynalsm.replicate.position import BEGINNING, Position, Positions
from dynalsm.replicate.shards import Page, Reader, seconds_of
from dynalsm.replicate.writing import Item, ReplicationError, Writer, call

# The position is written at most so often; what came after it is done again after a crash.
SAVE_SECONDS = 1.0
# Without changes, so often: it keeps `polled` fresh.
IDLE_SAVE_SECONDS = 60.0
# Changes that are older than the start of the copy by more than this are in the copy. Streams
# tell whole seconds, and the clocks of two machines differ.
CLOCK_SLACK_SECONDS = 300.0


@dataclass(frozen=True)
class Progress:
    """How far the replication of a table is."""

    table: str
    phase: str  # "copy", "changes", or "done": caught up with the stream
    items: int  # copied
    changes: int  # records of the stream that were applied
    total_items: int  # of the source, as its description counts them (AWS: up to six hours old)
    lag_seconds: float  # age of the last change that was applied; 0 when there is no later one


class Replication:
    """One table on its way from a source to a target."""

    def __init__(
        self,
        source: Database,
        target: Database,
        table: str,
        *,
        workers: int = 4,
        progress: Callable[[Progress], None] | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        if workers < 1:
            raise ValueError(f"workers is at least 1, not {workers}")
        self.table = table
        self._source = source
        self._target = target
        self._workers = workers
        self._progress = progress
        self._stop = stop or threading.Event()
        self._positions = Positions(target, self._stop)
        self._writer = Writer(target, table, self._stop)
        self._saved_at = 0.0
        self._is_unsaved = False  # whether changes were applied that no saved position knows
        self._save_lock = threading.Lock()  # held while a position is on its way to the target
        self._phase = "copy"
        self._total_items = 0
        self._lag_seconds = 0.0
        self._position: Position
        self._reader: Reader

    # --- the start --------------------------------------------------------------------------

    def start(self, *, restart: bool = False, copy_only: bool = False) -> None:
        """Find the position, or begin: turn the stream on and make the target's table.

        Raises: ReplicationError when the target has items and no position, and when the position
        belongs to another table or stream.
        """
        described = schema.describe(self._source, self.table, self._stop)
        if described is None:
            raise ReplicationError(f"{self._source.path} has no table {self.table}")
        self._total_items = int(described.get("ItemCount", 0))
        schema.create_position_table(self._target, self._stop)
        name = f"{self._source.path}|{self.table}"
        position = None if restart else self._positions.load(name)
        if position is None:
            position = self._begin(name, described, restart=restart, copy_only=copy_only)
        else:
            _check_same(position, described, copy_only=copy_only)
        self._position = position
        self._reader = Reader(self._source, position, self._stop)

    def _begin(
        self, name: str, described: dict[str, Any], *, restart: bool, copy_only: bool
    ) -> Position:
        is_new = schema.prepare_target(self._source, self._target, described, self._stop)
        if not is_new and not restart and self._has_items():
            raise ReplicationError(
                f"{self._target.path}: table {self.table} has items already, and there is no "
                "position to go on from; restart (--restart) puts into it all the same"
            )
        if not copy_only:
            described = schema.prepare_stream(self._source, described, self._stop)
        now = int(time.time() * 1000)
        position = Position(
            name=name,
            table_id=_identity(described),
            stream="" if copy_only else described["LatestStreamArn"],
            started=now,
            polled=now,
            segments=[BEGINNING] * self._workers,
        )
        self._positions.save(position)
        return position

    def _has_items(self) -> bool:
        request = {"TableName": self.table, "Limit": 1}
        return bool(call(self._target, "Scan", request, self._stop)["Items"])

    # --- the copy ---------------------------------------------------------------------------

    def copy(self) -> None:
        """Copy what has not been copied, all segments at once; return when the last is done.

        Raises: ReplicationError, and what the source's or target's operations raise.
        """
        if self._position.is_copied:
            return
        segments = len(self._position.segments)
        self._phase = "copy"
        failed = threading.Event()
        with ThreadPoolExecutor(segments, "dynalsm-replicate") as pool:
            running = [
                pool.submit(self._copy_segment, segment, failed) for segment in range(segments)
            ]
        for each in running:
            each.result()
        self._positions.save(self._position)
        self._tell()

    def _copy_segment(self, segment: int, failed: threading.Event) -> None:
        try:
            position = self._position
            while (start := position.segments[segment]) is not None:
                if self._stop.is_set() or failed.is_set():
                    return
                count, following = self._copy_page(segment, start)
                with position.lock:
                    position.segments[segment] = following
                    position.items += count
                self._save_now_and_then(SAVE_SECONDS)
                self._tell()
        except BaseException:
            failed.set()
            raise

    def _copy_page(self, segment: int, start: Item) -> tuple[int, Item | None]:
        request: dict[str, Any] = {
            "TableName": self.table,
            "Segment": segment,
            "TotalSegments": len(self._position.segments),
            "ConsistentRead": True,
        }
        if start:
            request["ExclusiveStartKey"] = start
        page = call(self._source, "Scan", request, self._stop)
        self._writer.write({"PutRequest": {"Item": item}} for item in page["Items"])
        return len(page["Items"]), page.get("LastEvaluatedKey")

    # --- the changes ------------------------------------------------------------------------

    def step(self) -> int:
        """Apply every change made until now, and return how many records were read.

        REQUIRES: the copy is done. Raises: ReplicationError when changes may have been lost.
        """
        if not self._position.is_copied:
            return 0  # stopped in the middle of the copy
        self._reader.check_age()
        begun = time.time()
        records = 0
        try:
            for page in self._reader.pages(begun):
                self._apply(page)
                self._reader.advance(page)
                records += len(page.records)
                if page.records or page.is_last:
                    self._is_unsaved = True
                    self._phase = "changes"
                    self._save_now_and_then(SAVE_SECONDS)
                    self._tell()
        except errors.ApiError as problem:
            if problem.code in ("ResourceNotFoundException", "TrimmedDataAccessException"):
                raise ReplicationError(
                    f"{self._position.name}: the stream cannot be read on ({problem.message}); "
                    "start again with restart"
                ) from problem
            raise
        if not self._stop.is_set():
            self._caught_up(begun)
        return records

    def _caught_up(self, seconds: float) -> None:
        """Note that every change made until a moment has been applied."""
        self._position.polled = int(seconds * 1000)
        self._lag_seconds = 0.0
        if self._phase != "done":
            self._phase = "done"
            self._tell()
        self._save_now_and_then(SAVE_SECONDS if self._is_unsaved else IDLE_SAVE_SECONDS)

    def save(self) -> None:
        """Write the position; the next run goes on from it."""
        self._positions.save(self._position)

    def _apply(self, page: Page) -> None:
        """Bring the items of a page to their last image in it."""
        oldest = self._position.started / 1000 - CLOCK_SLACK_SECONDS
        last: dict[str, dict[str, Any]] = {}
        for record in page.records:
            body = record["dynamodb"]
            if seconds_of(record) < oldest:
                continue
            last[_key_text(body["Keys"])] = _request_of(record["eventName"], body)
        self._writer.write(last.values())
        with self._position.lock:
            self._position.changes += len(page.records)
        if page.records:
            newest = seconds_of(page.records[-1])
            self._lag_seconds = max(0.0, time.time() - newest)

    # --- what others see --------------------------------------------------------------------

    def report(self) -> Progress:
        """Return how far the table is."""
        position = self._position
        return Progress(
            self.table,
            self._phase,
            position.items,
            position.changes,
            self._total_items,
            self._lag_seconds,
        )

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(self.report())

    def _save_now_and_then(self, seconds: float) -> None:
        # One thread writes; what the others have done by then is in it, or in the next one.
        if time.monotonic() - self._saved_at < seconds:
            return
        if self._save_lock.acquire(blocking=False):
            try:
                self._is_unsaved = False
                self._positions.save(self._position)
                self._saved_at = time.monotonic()
            finally:
                self._save_lock.release()


def _identity(described: dict[str, Any]) -> str:
    """Return what tells a table from a later one of its name."""
    return str(described.get("TableId") or described["CreationDateTime"])


def _check_same(position: Position, described: dict[str, Any], *, copy_only: bool) -> None:
    """Raises: ReplicationError when a position does not belong to this table and its stream."""
    again = "; start again with restart"
    if position.table_id != _identity(described):
        raise ReplicationError(f"{position.name}: the table was made anew since{again}")
    if not copy_only and position.stream == "":
        raise ReplicationError(f"{position.name}: this was a copy without a stream{again}")
    if not copy_only and position.stream != described.get("LatestStreamArn"):
        raise ReplicationError(f"{position.name}: the stream was made anew since{again}")


def _request_of(event: str, body: dict[str, Any]) -> dict[str, Any]:
    if event == "REMOVE":
        return {"DeleteRequest": {"Key": body["Keys"]}}
    return {"PutRequest": {"Item": body["NewImage"]}}


def _key_text(keys: Item) -> str:
    return repr(sorted(keys.items()))
