"""How far a replication is: one item per source table, in a table of the target.

::

    id        "<source path>|<table>"          (S, the key)
    table_id  of the source table              a new table of the same name is another one
    stream    ARN of its stream, or ""
    started   when the copy began, ms since 1970; older changes are in the copy
    polled    when the stream had last been read to its end, ms since 1970 (at first: started)
    segments  list: what is left of each segment of the copy: its start key, NULL for the
              beginning, BOOL true when it is done
    shards    map shard id -> last sequence number that was applied, "" when the shard is done
    items, changes   how many, for people

Thread safety: the fields belong to whoever holds `lock`; save() takes it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from dynalsm import errors
from dynalsm.database import Database
from dynalsm.replicate.writing import Item, ReplicationError, call

POSITION_TABLE = "dynalsm-replication"
KEY = "id"
BEGINNING: Item = {}


@dataclass
class Position:
    """A position that is being moved on."""

    name: str
    table_id: str
    stream: str
    started: int
    polled: int
    # Start key of each segment; BEGINNING, and None when it is done.
    segments: list[Item | None]
    shards: dict[str, str] = field(default_factory=dict)
    items: int = 0
    changes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @property
    def is_copied(self) -> bool:
        """Whether every segment has been copied."""
        return all(segment is None for segment in self.segments)

    def pack(self) -> Item:
        """Return the item."""
        return {
            KEY: {"S": self.name},
            "table_id": {"S": self.table_id},
            "stream": {"S": self.stream},
            "started": {"N": str(self.started)},
            "polled": {"N": str(self.polled)},
            "segments": {"L": [_pack_segment(segment) for segment in self.segments]},
            "shards": {"M": {name: {"S": seqno} for name, seqno in self.shards.items()}},
            "items": {"N": str(self.items)},
            "changes": {"N": str(self.changes)},
        }


def unpack(item: Item) -> Position:
    """Return the position that an item holds. Raises: ReplicationError when it holds none."""
    try:
        return Position(
            name=item[KEY]["S"],
            table_id=item["table_id"]["S"],
            stream=item["stream"]["S"],
            started=int(item["started"]["N"]),
            polled=int(item["polled"]["N"]),
            segments=[_unpack_segment(segment) for segment in item["segments"]["L"]],
            shards={name: seqno["S"] for name, seqno in item["shards"]["M"].items()},
            items=int(item["items"]["N"]),
            changes=int(item["changes"]["N"]),
        )
    except (KeyError, TypeError, ValueError) as problem:
        raise ReplicationError(
            f"the position in {POSITION_TABLE} is not readable ({problem!r}); start again with "
            "restart"
        ) from None


def _pack_segment(segment: Item | None) -> dict[str, Any]:
    if segment is None:
        return {"BOOL": True}
    return {"M": segment} if segment else {"NULL": True}


def _unpack_segment(value: dict[str, Any]) -> Item | None:
    if "BOOL" in value:
        return None
    key: Item = value.get("M", BEGINNING)
    return key


class Positions:
    """The table with positions."""

    def __init__(self, target: Database, stop: threading.Event) -> None:
        self._target = target
        self._stop = stop

    def load(self, name: str) -> Position | None:
        """Return the position with this name, None when there is none."""
        request = {"TableName": POSITION_TABLE, "Key": {KEY: {"S": name}}, "ConsistentRead": True}
        try:
            item = call(self._target, "GetItem", request, self._stop).get("Item")
        except errors.ApiError as problem:
            if problem.code != "ResourceNotFoundException":
                raise
            return None
        return None if item is None else unpack(item)

    def save(self, position: Position) -> None:
        """Write a position. REQUIRES: all that it says is done has been acknowledged."""
        with position.lock:
            request = {"TableName": POSITION_TABLE, "Item": position.pack()}
            call(self._target, "PutItem", request, self._stop)
