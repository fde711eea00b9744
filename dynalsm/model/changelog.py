"""The changelog: every change of an item, in commit order, written in the same batch as the change.

A table's records go to one changelog at a time, the one its schema names (TableSchema.changelog):
that of its stream, or a hidden one while only point-in-time recovery needs it. Each changelog is
a tree of its own, so that a stream outlives its being disabled, and its table.

Tree "s/<table id>/<label>"; key and value of a record:

    key    shard (2 bytes, big-endian) · engine sequence number (8 bytes, big-endian)
    value  msgpack array: kind (0 INSERT, 1 MODIFY, 2 REMOVE), time (ms since 1970),
           encoded key attributes, encoded old image | nil, encoded new image | nil, by TTL (bool)

Invariants: (1) the records of one item are in one shard, in commit order; (2) a record is written
only when the item changed; (3) images are whole items, and are stored when the view or
point-in-time recovery needs them.

Thread safety: `append` is called under the lock of the item; everything else from any thread.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgpack

if TYPE_CHECKING:
    from dynalsm.model.catalog import TableHandle

INSERT, MODIFY, REMOVE = 0, 1, 2
KIND_NAMES = ("INSERT", "MODIFY", "REMOVE")
VIEWS = ("KEYS_ONLY", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES")
_OLD_VIEWS = ("OLD_IMAGE", "NEW_AND_OLD_IMAGES")
_NEW_VIEWS = ("NEW_IMAGE", "NEW_AND_OLD_IMAGES")


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
    # AttributeDefinitions and KeySchema of the table, for DescribeStream after it is gone.
    key_schema: tuple[tuple[str, str], ...] = ()

    @property
    def tree_name(self) -> str:
        """The tree that holds the records."""
        return f"s/{self.table_id}/{self.label}"

    def pack(self) -> bytes:
        """Return the record as msgpack."""
        packed: bytes = msgpack.packb(dataclasses.asdict(self))
        return packed


def unpack_record(packed: bytes) -> ChangelogRecord:
    """Return the record that `pack` wrote."""
    fields = msgpack.unpackb(packed)
    fields["key_schema"] = tuple(tuple(pair) for pair in fields["key_schema"])
    return ChangelogRecord(**fields)


class Changelog:
    """A changelog that is open for writing or reading: its record and its tree."""

    __slots__ = ("keeps_new", "keeps_old", "record", "tree")

    def __init__(self, record: ChangelogRecord, tree: Any) -> None:
        self.record = record
        self.tree = tree
        self.keeps_old = record.keeps_images or record.view in _OLD_VIEWS
        self.keeps_new = record.keeps_images or record.view in _NEW_VIEWS


def append(
    batch: Any,
    handle: TableHandle,
    tree_key: bytes,
    old_item: bytes | None,
    new_item: bytes | None,
    now: float,
    ttl: bool = False,
) -> bool:
    """Add the record of one item's change to `batch`, when the table keeps any.

    `old_item` and `new_item` are whole encoded items, None when there is none; `tree_key` is the
    item's key in the table's tree. Returns whether a record was added.
    REQUIRES: the item is locked until the batch has been committed.
    """
    changelog = handle.changelog
    if changelog is None or old_item == new_item:
        return False
    kind = INSERT if old_item is None else REMOVE if new_item is None else MODIFY
    value = msgpack.packb(
        (
            kind,
            int(now * 1000),
            handle.keys.key_item(tree_key),
            old_item if changelog.keeps_old else None,
            new_item if changelog.keeps_new else None,
            ttl,
        )
    )
    # The top two bytes of the partition-key hash, scaled to the number of shards.
    shard = (int.from_bytes(tree_key[:2]) * changelog.record.shards) >> 16
    batch.put_stamped(changelog.tree, shard.to_bytes(2), b"", value)
    return True
