"""Follow a table's stream: `for change in table.changes(): ...`.

Built on the four stream operations alone, so it works on any DynamoDB endpoint as well.

Order: records of one item come in commit order; records of several shards are merged by sequence
number, and a shard's children start when it has ended.

Thread safety: a follower belongs to one thread.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dynalsm import errors
from dynalsm.values.forms import NATIVE

if TYPE_CHECKING:
    from dynalsm.database import Database

PAGE_ITEMS = 1000  # the most that one GetRecords gives
FAR_BEHIND = 1 << 128  # sorts after every sequence number
PLACES = ("TRIM_HORIZON", "LATEST")  # where a walk may start, beside after a change


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one item, with plain Python values.

    `new_image` and `old_image` are None where the item did not exist or the stream's view type
    leaves them out. `sequence_number` goes into `changes(start=...)` to go on after this change.
    """

    event_name: str  # INSERT, MODIFY or REMOVE
    keys: dict[str, Any]
    new_image: dict[str, Any] | None
    old_image: dict[str, Any] | None
    sequence_number: str
    created_seconds: float
    shard_id: str
    record: dict[str, Any] = field(repr=False)

    @property
    def is_expiry(self) -> bool:
        """Whether the item was deleted because its time to live had passed."""
        identity = self.record.get("userIdentity") or {}
        return bool(identity.get("Type", identity.get("type")) == "Service")


@dataclass(slots=True)
class _Shard:
    """One shard that is being read."""

    shard_id: str
    iterator: str | None
    waiting: deque[dict[str, Any]] = field(default_factory=deque)

    def next_seqno(self) -> int:
        if not self.waiting:
            return FAR_BEHIND
        return int(self.waiting[0]["dynamodb"]["SequenceNumber"])


def _is_behind(start: str, ending: str) -> bool:
    """Return whether a shard that ended at `ending` has nothing for a follower from `start` on."""
    return start == "LATEST" or (start not in PLACES and int(ending) <= int(start))


def follow(
    database: Database, table_name: str, start: str, follow_seconds: float | None
) -> Iterator[Change]:
    """Yield the changes of a table; `Table.changes` describes the arguments."""
    return follower(database, table_name, start, follow_seconds).run()


def follower(
    database: Database, table_name: str, start: str, follow_seconds: float | None = None
) -> Follower:
    """Start to follow a table's stream. Raises: ResourceNotFoundException when it has none."""
    _check_start(start)
    if follow_seconds is not None and not isinstance(follow_seconds, (int, float)):
        raise errors.ValidationException(
            f"follow_seconds is a number of seconds or None, not {follow_seconds!r}"
        )
    description = database.call("DescribeTable", {"TableName": table_name})["Table"]
    stream = description.get("LatestStreamArn")
    if stream is None:
        raise errors.API_ERRORS["ResourceNotFoundException"](
            f"Table {table_name} has no stream: create or update it with StreamSpecification="
            '{"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}'
        )
    return Follower(database, stream, start, follow_seconds)


def _check_start(start: Any) -> None:
    # ASCII digits only: int() would take "1_0" and other scripts' digits as well.
    if isinstance(start, str) and (start in PLACES or re.fullmatch(r"[0-9]{1,40}", start)):
        return
    raise errors.ValidationException(
        f"start is {', '.join(PLACES)} or the sequence_number of a change, not {start!r:.60}"
    )


class Follower:
    """One walk along a stream; `run` waits on its thread, `step` never does."""

    def __init__(
        self, database: Database, stream: str, start: str, follow_seconds: float | None
    ) -> None:
        self._database = database
        self._call = database.call
        self._stream = stream
        self._start = start
        self._follow_seconds = follow_seconds
        self._shards: list[_Shard] = []
        self._seen: set[str] = set()
        self._ended: set[str] = set()
        # LATEST means now, not the moment of the first next(): the shards are opened here.
        self._open_shards(start)

    def run(self) -> Iterator[Change]:
        last_news = time.monotonic()
        while True:
            mark = self._database.change_mark()
            self._fill()
            found = False
            while (change := self._take()) is not None:
                found = True
                yield change
            if found:
                last_news = time.monotonic()
                continue
            if self._open_shards("TRIM_HORIZON"):
                continue
            if not self._wait(mark, last_news):
                return

    def step(self) -> list[Change] | None:
        """Return changes that are there, [] when there are none now, None at the stream's end."""
        while True:
            self._fill()
            found: list[Change] = []
            while len(found) < PAGE_ITEMS and (change := self._take()) is not None:
                found.append(change)
            if found or not self._open_shards("TRIM_HORIZON"):
                return found if found or self._shards else None

    def _wait(self, mark: int, last_news: float) -> bool:
        """Wait for a commit after `mark`. Returns False when the patience is over."""
        if not self._shards:
            return False  # the stream has ended: nothing can come any more
        if self._follow_seconds is None:
            self._database.wait_for_change(mark, None)
            return True
        left_seconds = last_news + self._follow_seconds - time.monotonic()
        if left_seconds <= 0:
            return False
        self._database.wait_for_change(mark, left_seconds)
        return True

    def _open_shards(self, start: str) -> bool:
        """Start on shards that are new and whose parents have been read to their end."""
        described = self._describe()
        known = {shard["ShardId"] for shard in described}
        opened = False
        for shard in described:
            shard_id, parent = shard["ShardId"], shard.get("ParentShardId")
            if shard_id in self._seen:
                continue
            ending = shard["SequenceNumberRange"].get("EndingSequenceNumber")
            if ending is not None and _is_behind(start, ending):
                self._seen.add(shard_id)
                self._ended.add(shard_id)
                continue
            if parent in known and parent not in self._ended:
                continue
            self._seen.add(shard_id)
            self._shards.append(_Shard(shard_id, self._iterator(shard, start)))
            opened = True
        return opened

    def _describe(self) -> list[dict[str, Any]]:
        shards: list[dict[str, Any]] = []
        request: dict[str, Any] = {"StreamArn": self._stream}
        while True:
            page = self._call("DescribeStream", request)["StreamDescription"]
            shards += page["Shards"]
            if "LastEvaluatedShardId" not in page:
                return shards
            request["ExclusiveStartShardId"] = page["LastEvaluatedShardId"]

    def _iterator(self, shard: dict[str, Any], start: str) -> str:
        request = {"StreamArn": self._stream, "ShardId": shard["ShardId"]}
        if start in PLACES:
            request["ShardIteratorType"] = start
        elif int(start) < int(shard["SequenceNumberRange"]["StartingSequenceNumber"]):
            request["ShardIteratorType"] = "TRIM_HORIZON"
        else:
            request["ShardIteratorType"] = "AFTER_SEQUENCE_NUMBER"
            request["SequenceNumber"] = start
        iterator: str = self._call("GetShardIterator", request)["ShardIterator"]
        return iterator

    def _fill(self) -> None:
        """Read the next page of every shard that has nothing waiting."""
        for shard in list(self._shards):
            if not shard.waiting:
                self._read(shard)

    def _read(self, shard: _Shard) -> None:
        if shard.iterator is not None:
            request = {"ShardIterator": shard.iterator, "Limit": PAGE_ITEMS}
            reply = self._call("GetRecords", request, NATIVE)
            shard.iterator = reply.get("NextShardIterator")
            shard.waiting.extend(reply["Records"])
        if shard.iterator is None and not shard.waiting:
            self._shards.remove(shard)
            self._ended.add(shard.shard_id)

    def _take(self) -> Change | None:
        """Return the oldest change that waits, or None."""
        if not self._shards:
            return None
        shard = min(self._shards, key=_Shard.next_seqno)
        if not shard.waiting:
            return None
        record = shard.waiting.popleft()
        if not shard.waiting:
            self._read(shard)
        return _change(record, shard.shard_id)


def _change(record: dict[str, Any], shard_id: str) -> Change:
    body = record["dynamodb"]
    created = body["ApproximateCreationDateTime"]
    return Change(
        event_name=record["eventName"],
        keys=body["Keys"],
        new_image=body.get("NewImage"),
        old_image=body.get("OldImage"),
        sequence_number=body["SequenceNumber"],
        created_seconds=created.timestamp() if hasattr(created, "timestamp") else float(created),
        shard_id=shard_id,
        record=record,
    )
