"""Read a stream from a position, shard by shard, parents before their children.

Thread safety: a Reader belongs to one thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dynalsm import errors
from dynalsm.database import Database
from dynalsm.replicate.position import Position
from dynalsm.replicate.writing import ReplicationError, call

DONE = ""
# A stream that was read to its end so long ago may have lost records (they live for 24 hours).
TRUST_SECONDS = 23 * 3600.0
# AWS allows ten DescribeStream a second, for all readers together.
DESCRIBE_SECONDS = 1.0
# Empty pages in a row before a shard counts as read to its end for now; on AWS some come between.
EMPTY_PAGES = 3


@dataclass(frozen=True)
class Page:
    """Records of one shard, and the sequence number of the last one."""

    shard: str
    records: list[dict[str, Any]]
    is_last: bool  # nothing more for now


class Reader:
    """A stream from a position on. It moves nothing: `advance` does, after the page is applied."""

    def __init__(self, source: Database, position: Position, stop: threading.Event) -> None:
        self._source = source
        self._position = position
        self._stop = stop
        self._iterators: dict[str, str | None] = {}
        self._shards: list[dict[str, Any]] = []
        self._described_at = -DESCRIBE_SECONDS

    def pages(self, until_seconds: float) -> Iterator[Page]:
        """Yield what there is, a page at a time; `advance` must follow each.

        A shard ends for now with a record that is newer than `until_seconds`: writers may be
        faster than we are.
        """
        for shard in self._open_shards():
            shard_id = shard["ShardId"]
            empty = 0
            while empty < EMPTY_PAGES and self._position.shards.get(shard_id) != DONE:
                if self._stop.is_set():
                    return
                reply = self._get(shard_id)
                following = reply.get("NextShardIterator")
                self._iterators[shard_id] = following
                records = reply["Records"]
                empty = 0 if records else empty + 1
                yield Page(shard_id, records, following is None)
                if records and seconds_of(records[-1]) > until_seconds:
                    break

    def advance(self, page: Page) -> None:
        """Note that a page has been applied."""
        with self._position.lock:
            if page.is_last:
                self._position.shards[page.shard] = DONE
                self._iterators.pop(page.shard, None)
                self._described_at = -DESCRIBE_SECONDS  # it has children perhaps
            elif page.records:
                last = page.records[-1]["dynamodb"]["SequenceNumber"]
                self._position.shards[page.shard] = last

    def check_age(self) -> None:
        """Raises: ReplicationError when records may have been trimmed before they were read."""
        age_seconds = time.time() - self._position.polled / 1000
        if age_seconds > TRUST_SECONDS:
            raise ReplicationError(
                f"{self._position.name}: the stream was last read to its end "
                f"{age_seconds / 3600:.0f} hours ago, and keeps changes for 24: some may be lost; "
                "start again with restart"
            )

    def _open_shards(self) -> list[dict[str, Any]]:
        """Return the shards that may be read: not done, and no parent left to read."""
        now = time.monotonic()
        if now - self._described_at >= DESCRIBE_SECONDS:
            self._shards = self._describe()
            self._described_at = now
            known = {shard["ShardId"] for shard in self._shards}
            with self._position.lock:
                # What is not described any more has been trimmed as a whole, after its end.
                for shard_id in set(self._position.shards) - known:
                    del self._position.shards[shard_id]
        known = {shard["ShardId"] for shard in self._shards}
        done = {shard_id for shard_id, at in self._position.shards.items() if at == DONE}
        return [
            shard
            for shard in self._shards
            if shard["ShardId"] not in done
            and (shard.get("ParentShardId") not in known or shard.get("ParentShardId") in done)
        ]

    def _describe(self) -> list[dict[str, Any]]:
        shards: list[dict[str, Any]] = []
        request: dict[str, Any] = {"StreamArn": self._position.stream}
        while True:
            reply = call(self._source, "DescribeStream", request, self._stop)
            page = reply["StreamDescription"]
            shards += page["Shards"]
            if not page.get("LastEvaluatedShardId"):
                return shards
            request["ExclusiveStartShardId"] = page["LastEvaluatedShardId"]

    def _get(self, shard_id: str) -> dict[str, Any]:
        while True:
            iterator = self._iterators.get(shard_id) or self._iterator(shard_id)
            try:
                return call(self._source, "GetRecords", {"ShardIterator": iterator}, self._stop)
            except errors.ApiError as problem:
                # Both say that the token is too old; the position is not, see check_age.
                if problem.code not in ("ExpiredIteratorException", "TrimmedDataAccessException"):
                    raise
                if shard_id not in self._iterators:
                    raise
                del self._iterators[shard_id]

    def _iterator(self, shard_id: str) -> str:
        seqno = self._position.shards.get(shard_id)
        request = {"StreamArn": self._position.stream, "ShardId": shard_id}
        if seqno is not None:
            after = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": seqno}
            try:
                reply = call(self._source, "GetShardIterator", request | after, self._stop)
                return str(reply["ShardIterator"])
            except errors.ApiError as problem:
                # The record itself is gone; all after it are there, because check_age passed.
                if problem.code != "TrimmedDataAccessException":
                    raise
        start = {"ShardIteratorType": "TRIM_HORIZON"}
        reply = call(self._source, "GetShardIterator", request | start, self._stop)
        return str(reply["ShardIterator"])


def seconds_of(record: dict[str, Any]) -> float:
    """Return when a record's change was made; whole seconds."""
    moment = record["dynamodb"]["ApproximateCreationDateTime"]
    return moment if isinstance(moment, (int, float)) else float(moment.timestamp())
