"""The state of a database without a manifest, from what its tables say of themselves.

A table names its tree (docs/format-sstable.md, "Properties"), and its path says of which tree and
partition it is. What only a manifest says is lost: trees without tables, deleted ranges, and which
tables had been replaced already. So the tables of a partition must be merged by sequence number.

Where the keys of a tree's partitions do not overlap, the partitions stay; otherwise all its tables
go into one.

Thread safety: functions without shared state.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, field
from typing import Any

import msgpack

from dynalsm import errors
from dynalsm._core import _testing as tables
from dynalsm._core.keyring import Keyring
from dynalsm._core.names import TABLE, number_in
from dynalsm._core.state import Place, State

# A tree whose name is lost can be reached as a keyspace (dynalsm.kv's names begin so).
_NAMELESS = "kv/lost-"
_PREFIX_BYTES = 8


@dataclass
class Found:
    """What the tables of a directory say."""

    #: tree id -> (name, hashed)
    names: dict[int, tuple[str, bool]] = field(default_factory=dict)
    #: place -> the first and last prefix in it; None: one of its tables cannot say.
    spans: dict[Place, tuple[int, int] | None] = field(default_factory=dict)
    max_seqno: int = 0

    def state(self) -> tuple[State, dict[Place, Place], list[str]]:
        """Trees and partitions; where the tables of each place go; what is lost, in words."""
        state = State()
        lost: list[str] = []
        homes: dict[Place, Place] = {}
        owners = {name: tree for tree, (name, _) in sorted(self.names.items())}
        for tree in sorted({tree for tree, _ in self.spans}):
            if tree not in self.names:
                add_nameless(state, tree, lost, self._first_partition(tree))
                kept = [state.trees[tree][3][0]]
            else:
                name, hashed = self.names[tree]
                if owners[name] != tree:
                    lost.append(f"tree {tree}: it was called {name!r}, as a newer one is")
                    continue
                kept = self._partitions(tree) if hashed else [[self._first_partition(tree), 0]]
                state.apply({"tree": [tree, name, hashed, kept]})
            whole = {partition for partition, _ in kept}
            for _, partition in (place for place in self.spans if place[0] == tree):
                target = partition if partition in whole else kept[0][0]
                homes[tree, partition] = (tree, target)
        return state, homes, lost

    def _first_partition(self, tree: int) -> int:
        return min(partition for owner, partition in self.spans if owner == tree)

    def _partitions(self, tree: int) -> list[list[int]]:
        """[[id, lower], ...]: those the tables lie in, or one for all of them."""
        spans = [(span, place[1]) for place, span in self.spans.items() if place[0] == tree]
        known = sorted((span, partition) for span, partition in spans if span is not None)
        overlap = any(one[0][1] >= two[0][0] for one, two in itertools.pairwise(known))
        if len(known) < len(spans) or overlap:
            return [[self._first_partition(tree), 0]]
        return [
            [partition, 0 if index == 0 else span[0]]
            for index, (span, partition) in enumerate(known)
        ]


def table_files(directory: str) -> list[str]:
    """The paths of all tables below a database's directory, listed or not."""
    return sorted(
        os.path.join(root, name)
        for root, _names, names in os.walk(os.path.join(directory, "data"))
        for name in names
        if number_in(name, TABLE) is not None and _is_place(root)
    )


def place_of(path: str) -> Place:
    """Tree and partition of a table, by its path."""
    tree, partition = path.split(os.sep)[-3:-1]
    return int(tree), int(partition)


def read(paths: list[str], keys: Keyring | None) -> Found:
    """Ask every table. One that cannot be read says nothing; one of no other tree is believed."""
    found = Found()
    for path in paths:
        tree, partition = place_of(path)
        known = found.spans.get((tree, partition), (1 << 64, -1))
        said = _properties(path, keys)
        if said is None or said["tree_id"] != tree:
            found.spans[tree, partition] = None
            continue
        if isinstance(said.get("tree_name"), str):
            found.names[tree] = (said["tree_name"], bool(said.get("tree_hashed")))
        found.max_seqno = max(found.max_seqno, said["max_seqno"])
        found.spans[tree, partition] = known and (
            min(known[0], _prefix(said["smallest"])),
            max(known[1], _prefix(said["largest"])),
        )
    return found


def add_nameless(
    state: State, tree: int, lost: list[str], partition: int | None = None
) -> list[Any]:
    """Add a tree whose name nobody knows, under a made-up one."""
    name = f"{_NAMELESS}{tree}"
    lost.append(f"the name of tree {tree}: it is {name!r} now")
    record = [tree, name, False, [[partition or state.next_partition, 0]]]
    state.apply({"tree": record})
    return record


def _properties(path: str, keys: Keyring | None) -> dict[str, Any] | None:
    try:
        table = tables.SSTable(path, keys=keys)
        try:
            said = msgpack.unpackb(table.properties())
        finally:
            table.close()
        ok = all(type(said[name]) is int for name in ("tree_id", "max_seqno")) and all(
            type(said[name]) is bytes for name in ("smallest", "largest")
        )
    except (errors.CorruptionError, errors.EncryptionError, LookupError, TypeError, ValueError):
        return None
    return said if ok else None


def _prefix(key: bytes) -> int:
    return int.from_bytes(key[:_PREFIX_BYTES].ljust(_PREFIX_BYTES, b"\0"), "big")


def _is_place(directory: str) -> bool:
    """Whether a directory's name and its parent's are numbers of a partition and a tree."""
    return all(part.isascii() and part.isdecimal() for part in directory.split(os.sep)[-2:])
