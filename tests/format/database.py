"""A reader of whole databases in plain Python, from docs/format.md and the pages it names.

Slow, complete, and without dynalsm.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.format import log, sstable
from tests.format.encryption import Keys

Range = tuple[bytes, bytes | None, int]


@dataclass
class Part:
    lower: int
    tables: list[list[Any]] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)


@dataclass
class State:
    trees: dict[int, str] = field(default_factory=dict)
    parts: dict[tuple[int, int], Part] = field(default_factory=dict)
    log: int = 0
    flushed: int = 0


def apply_edit(state: State, edit: dict[str, Any]) -> None:
    state.log = edit.get("log", state.log)
    state.flushed = edit.get("flushed", state.flushed)
    for tree_id, name, _hashed, parts in edit.get("trees", []) + (
        [edit["tree"]] if "tree" in edit else []
    ):
        state.trees[tree_id] = name
        for part_id, lower in parts:
            state.parts[tree_id, part_id] = Part(lower)
    if "untree" in edit:
        del state.trees[edit["untree"]]
        for place in [place for place in state.parts if place[0] == edit["untree"]]:
            del state.parts[place]
    if "split" in edit:
        tree_id, part_id, halves = edit["split"]
        old = state.parts.pop((tree_id, part_id))
        for half, lower in halves:
            state.parts[tree_id, half] = Part(lower, [], list(old.ranges))
    for tree_id, part_id, number in edit.get("drop", []):
        part = state.parts[tree_id, part_id]
        part.tables = [table for table in part.tables if table[3] != number]
    for table in edit.get("add", []):
        state.parts[table[0], table[1]].tables.append(table)
    for tree_id, part_id, ranges in edit.get("ranges", []):
        state.parts[tree_id, part_id].ranges = [tuple(each) for each in ranges]


def read_state(directory: Path, keys: Keys | None = None) -> State:
    state = State()
    for edit in log.read_manifest(directory / log.read_current(directory), keys):
        apply_edit(state, edit)
    return state


def read_database(directory: Path, master: bytes | None = None) -> dict[str, dict[bytes, bytes]]:
    """Every tree as a dict of its live entries."""
    keys = None if master is None else Keys(directory, master)
    state = read_state(directory, keys)
    versions: dict[int, list[tuple[bytes, int, int, bytes]]] = {tree: [] for tree in state.trees}
    ranges: dict[int, list[Range]] = {tree: [] for tree in state.trees}
    for (tree_id, part_id), part in state.parts.items():
        ranges[tree_id] += part.ranges
        for table in part.tables:
            name = f"data/{tree_id:06d}/{part_id:06d}/{table[3]:012d}.sst"
            data = (directory / name).read_bytes()
            assert len(data) == table[4]
            entries = list(sstable.SSTable(data, keys).entries())
            assert len(entries) == table[6]
            assert [entries[0][0], entries[-1][0]] == table[11:13]
            for key, tag, value in entries:
                versions[tree_id].append((key, tag >> 8, tag & 0xFF, value))
    for path in sorted((directory / "wal").glob("*.wal")):
        if int(path.stem) < state.log:
            continue
        for record in log.read_log(path, keys):
            for seqno, kind, tree_id, key, value in log.read_entries(record):
                if seqno <= state.flushed or tree_id not in state.trees:
                    continue
                if kind == 3:
                    ranges[tree_id].append((key, value or None, seqno))
                else:
                    versions[tree_id].append((key, seqno, kind, value))
    return {name: live(versions[tree_id], ranges[tree_id]) for tree_id, name in state.trees.items()}


def live(versions: list[tuple[bytes, int, int, bytes]], ranges: list[Range]) -> dict[bytes, bytes]:
    """What a reader of the newest state sees."""
    found: dict[bytes, bytes] = {}
    seen: set[bytes] = set()
    for key, seqno, kind, value in sorted(versions, key=lambda each: (each[0], -each[1])):
        if key in seen:
            continue
        seen.add(key)
        covered = any(
            lower <= key and (upper is None or key < upper) and seqno < deleted
            for lower, upper, deleted in ranges
        )
        if kind == 1 and not covered:
            found[key] = value
    return found
