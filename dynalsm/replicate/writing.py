"""Writes to the target: in batches, tried again while the target is busy or out of reach.

Thread safety: a Writer has no state but its settings; many threads may share it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from itertools import islice
from typing import Any

from dynalsm import errors
from dynalsm.database import Database

Item = dict[str, Any]  # typed values, as in boto3's client

BATCH_ITEMS = 25  # the most that one BatchWriteItem takes
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 10.0
# A target or source that has been out of reach for so long is given up; the position stays.
PATIENCE_SECONDS = 300.0
BUSY = {
    "InternalServerError",
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "ServiceUnavailable",
    "ThrottlingException",
}


class ReplicationError(errors.Error):
    """The replication cannot go on without losing something, or one side refuses it."""


class Patience:
    """Says how long to wait before the next attempt, and when to give up."""

    def __init__(self, stop: threading.Event, seconds: float = PATIENCE_SECONDS) -> None:
        self._stop = stop
        self._end = time.monotonic() + seconds
        self._pause_seconds = FIRST_PAUSE_SECONDS

    def wait(self, problem: Exception | str) -> None:
        """Wait a moment, longer each time. Raises: ReplicationError when it was too often."""
        if time.monotonic() > self._end or self._stop.wait(self._pause_seconds):
            reason = "stopped while" if self._stop.is_set() else "given up after"
            raise ReplicationError(f"{reason} trying again: {problem}")
        self._pause_seconds = min(self._pause_seconds * 2, LONGEST_PAUSE_SECONDS)


def is_passing(problem: Exception) -> bool:
    """Return whether a failure may be over in a moment: throttling, a network that is down."""
    if isinstance(problem, errors.ApiError):
        return problem.code in BUSY
    return type(problem).__name__ == "RemoteError"


def call(
    database: Database, operation: str, request: dict[str, Any], stop: threading.Event
) -> dict[str, Any]:
    """Run an operation, again while its failure may pass. Raises: ReplicationError."""
    patience = Patience(stop)
    while True:
        try:
            return database.call(operation, request)
        except errors.Error as problem:
            if not is_passing(problem):
                raise
            patience.wait(problem)


class Writer:
    """Puts and deletes items of one table of the target."""

    def __init__(self, target: Database, table: str, stop: threading.Event) -> None:
        self._target = target
        self._table = table
        self._stop = stop

    def write(self, requests: Iterable[dict[str, Any]]) -> None:
        """Write PutRequests and DeleteRequests of different items.

        Raises: ReplicationError, naming the item, when the target refuses one.
        """
        rest = iter(requests)
        while batch := list(islice(rest, BATCH_ITEMS)):
            self._write_batch(batch)

    def _write_batch(self, batch: list[dict[str, Any]]) -> None:
        patience = Patience(self._stop)
        while batch:
            request = {"RequestItems": {self._table: batch}}
            try:
                reply = call(self._target, "BatchWriteItem", request, self._stop)
            except errors.ApiError as problem:
                if problem.code != "ValidationException":
                    raise
                self._write_each(batch)
                return
            batch = reply.get("UnprocessedItems", {}).get(self._table, [])
            if batch:
                patience.wait(f"{self._target.path} leaves items unprocessed")

    def _write_each(self, batch: list[dict[str, Any]]) -> None:
        """Write one by one what was refused together, to find the item that is at fault."""
        for each in batch:
            [(kind, body)] = each.items()
            operation = "PutItem" if kind == "PutRequest" else "DeleteItem"
            try:
                call(self._target, operation, {"TableName": self._table, **body}, self._stop)
            except errors.ApiError as problem:
                raise ReplicationError(
                    f"{self._target.path} refuses an item of {self._table}: "
                    f"{problem.code}: {problem.message} Item: {_short(body)}"
                ) from problem


def _short(body: dict[str, Any]) -> str:
    text = repr(body)
    return text if len(text) <= 300 else text[:299] + "…"
