"""The changelog: every change of an item, in commit order, written in the same batch as the change.

A table's records go to one changelog at a time, the one its schema names (TableSchema.changelog):
that of its stream, or a hidden one while only point-in-time recovery needs it. Each changelog is
a tree of its own, so that a stream outlives its being disabled, and its table.

A stream is a row of changelogs, its *generations*: the table goes over to a new one now and then
(model/streams.py, `roll`), and an old one goes with all its files when its last record is too old.
Generation n > 0 has the label of the first one with "~n" behind it.

Tree "s/<table id>/<label>"; key and value of a record:

    key    shard (2 bytes, big-endian) · engine sequence number (8 bytes, big-endian)
    value  msgpack array: kind (0 INSERT, 1 MODIFY, 2 REMOVE), time (ms since 1970),
           encoded key attributes, encoded old image | nil, encoded new image | nil, by TTL (bool)

Invariants: (1) the records of one item are in one shard, in commit order; (2) a record is written
only when the item changed; (3) images are whole items, and are stored when the view or
point-in-time recovery needs them.

Records are written by change_records.pyx; what stands here keeps and reads them.

Thread safety: everything may be called from any thread.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import msgpack

from dynalsm.model import records
from dynalsm.model.change_records import Changelog

__all__ = [
    "INSERT",
    "KIND_NAMES",
    "MODIFY",
    "REMOVE",
    "VIEWS",
    "Change",
    "Changelog",
    "ChangelogRecord",
    "Page",
    "first_seqno",
    "read",
    "readable_seqno",
    "seqno_at",
    "trim",
    "unpack_record",
]

INSERT, MODIFY, REMOVE = 0, 1, 2
KIND_NAMES = ("INSERT", "MODIFY", "REMOVE")
GENERATION_MARK = "~"
VIEWS = ("KEYS_ONLY", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES")


@dataclass(frozen=True)
class ChangelogRecord:
    """The catalog's record of one changelog. A hidden one (is_stream False) has no ARN."""

    table: str
    table_id: str
    label: str
    view: str
    shards: int
    created_at: float
    start_seqno: int
    is_stream: bool = True
    keeps_images: bool = False
    closed_at: float | None = None
    end_seqno: int | None = None
    # Per shard: records below this number have been deleted. Empty: none have.
    trimmed: tuple[int, ...] = ()
    # The table's KeySchema, for DescribeStream after it is gone.
    key_schema: tuple[tuple[str, str], ...] = ()

    @property
    def stream(self) -> str:
        """The label that all generations share: the stream's."""
        return self.label.partition(GENERATION_MARK)[0]

    @property
    def generation(self) -> int:
        """How many generations came before this one."""
        return int(self.label.partition(GENERATION_MARK)[2] or 0)

    @property
    def tree_name(self) -> str:
        """The tree that holds the records."""
        return f"s/{self.table_id}/{self.label}"

    def pack(self) -> bytes:
        """Return the record as msgpack."""
        packed: bytes = msgpack.packb(dataclasses.asdict(self))
        return packed


def unpack_record(packed: bytes) -> ChangelogRecord:
    """Return the record that `pack` wrote. Raises: CorruptionError."""
    what = "the record of a changelog"
    return records.build(ChangelogRecord, records.unpack(packed, what), what)


# Reading.


@dataclass(frozen=True)
class Change:
    """One record as stored. Images are None where the view does not keep them."""

    seqno: int
    kind: int
    milliseconds: int
    keys: bytes
    old_item: bytes | None
    new_item: bytes | None
    by_ttl: bool


@dataclass(frozen=True)
class Page:
    """A stretch of one shard, and the sequence number to go on from."""

    changes: list[Change]
    next_seqno: int
    # Nothing readable is left behind it for now.
    is_end: bool


def readable_seqno(engine: Any) -> int:
    """Return the newest sequence number that readers of a changelog may see.

    With durability "commit" that is the durable one: nobody must act on a change that a power cut
    can still undo.
    """
    if engine.durability == "commit" and not engine.read_only:
        seqno: int = engine.durable_seqno
    else:
        seqno = engine.last_seqno
    return seqno


def read(
    changelog: Changelog, shard: int, seqno: int, readable: int, limit_items: int, limit_bytes: int
) -> Page:
    """Return the records of a shard from `seqno` on, up to `readable`.

    At least one record comes if there is any, however large it is.
    """
    if seqno > readable:
        return Page([], seqno, True)
    lower, upper = _key(shard, seqno), _key(shard, readable + 1)
    with changelog.tree.cursor(lower, upper) as cursor:
        entries = cursor.next_chunk(limit_items, limit_bytes)
        changes = [_change(key, value) for key, value in entries]
        is_end = not changes or not cursor.next_chunk(1)
    return Page(changes, readable + 1 if is_end else changes[-1].seqno + 1, is_end)


def seqno_at(changelog: Changelog, shard: int, milliseconds: int, readable: int) -> int:
    """Return the sequence number of the first record made at `milliseconds` or later.

    `readable + 1` when there is none. Searches by halves, because times grow along a shard.
    """
    with changelog.tree.cursor(_key(shard, 0), _key(shard, readable + 1)) as cursor:
        first = _first(cursor)
        if first is None or first.milliseconds >= milliseconds:
            return readable + 1 if first is None else first.seqno
        low, high = first.seqno + 1, readable + 1
        # Invariant: records below `low` are too old, records from `high` on are not.
        while low < high:
            middle = (low + high) // 2
            cursor.seek(_key(shard, middle))
            found = _first(cursor)
            if found is None or found.seqno >= high or found.milliseconds >= milliseconds:
                high = middle
            else:
                low = found.seqno + 1
        cursor.seek(_key(shard, low))
        found = _first(cursor)
        return readable + 1 if found is None else found.seqno


def first_seqno(changelog: Changelog, shard: int, now: float, readable: int, keep: float) -> int:
    """Return where a shard begins: what is older than `keep` seconds counts as gone."""
    record = changelog.record
    start = seqno_at(changelog, shard, int((now - keep) * 1000), readable)
    if _has_records(changelog, shard, start):
        return start
    return record.trimmed[shard] if record.trimmed else record.start_seqno


def trim(engine: Any, changelog: Changelog, now: float, keep: float) -> tuple[int, ...] | None:
    """Delete records older than `keep` seconds.

    Returns the new value of `ChangelogRecord.trimmed`, to be made durable by the caller, or None
    when nothing was old enough.
    """
    record = changelog.record
    readable = readable_seqno(engine)
    batch = engine.batch()
    trimmed = list(record.trimmed or (record.start_seqno,) * record.shards)
    for shard in range(record.shards):
        start = seqno_at(changelog, shard, int((now - keep) * 1000), readable)
        if _has_records(changelog, shard, start):
            batch.delete_range(changelog.tree, _key(shard, 0), _key(shard, start))
            trimmed[shard] = start
    if not len(batch):
        return None
    engine.commit(batch)
    return tuple(trimmed)


def _has_records(changelog: Changelog, shard: int, before: int) -> bool:
    """Return whether a shard has records below `before`."""
    with changelog.tree.cursor(_key(shard, 0), _key(shard, before), values=False) as cursor:
        return bool(cursor.next_chunk(1))


def shard_range(shard: int, seqno: int) -> tuple[bytes, bytes]:
    """Return (lower, upper) of a shard's records from `seqno` on."""
    return _key(shard, seqno), _key(shard + 1, 0)


def _key(shard: int, seqno: int) -> bytes:
    return shard.to_bytes(2) + seqno.to_bytes(8)


def _first(cursor: Any) -> Change | None:
    entries = cursor.next_chunk(1)
    return _change(*entries[0]) if entries else None


# kind, milliseconds, keys, old item, new item, by_ttl
_CHANGE_TYPES = {
    (int, int, bytes, old, new, bool) for old in (bytes, type(None)) for new in (bytes, type(None))
}


def _change(key: bytes, value: bytes) -> Change:
    fields = records.unpack(value, "a stream record")
    if type(fields) is not list or tuple(map(type, fields)) not in _CHANGE_TYPES or len(key) != 10:
        raise records.damaged("a stream record", "it has other parts")
    return Change(int.from_bytes(key[2:10]), *fields)
