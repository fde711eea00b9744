"""LevelDB's properties as text, from the engine's statistics. Pure functions; thread-safe."""

from __future__ import annotations

import json
import re
from typing import Any

from dynalsm._core import Engine, Tree

MIB = 1 << 20


def get_property(engine: Engine, tree: Tree, name: bytes) -> bytes | None:
    """The value of a property, or None for an unknown one. Raises TypeError, ClosedError.

    Properties of levels and files are about `tree`."""
    if not isinstance(name, bytes):
        raise TypeError(f"a property's name is bytes, not {type(name).__name__}")
    partitions = tree.partitions()
    if name == b"leveldb.stats":
        return _stats_text(tree.stats()).encode()
    if name == b"leveldb.sstables":
        return _files_text(partitions).encode()
    if name == b"leveldb.approximate-memory-usage":
        memory = engine.stats()["memory"]
        return str(sum(size for part, size in memory.items() if part != "budget")).encode()
    if name == b"dynalsm.stats":
        return json.dumps(engine.stats()).encode()
    if found := re.fullmatch(rb"leveldb\.num-files-at-level(\d+)", name):
        level = int(found[1])
        if level < len(partitions[0]["levels"]):
            return str(sum(len(each["levels"][level]) for each in partitions)).encode()
    return None


def _stats_text(statistics: dict[str, Any]) -> str:
    lines = ["Level  Files  Size(MB)", "-" * 23]
    for number, level in enumerate(statistics["levels"]):
        if level["files"]:
            lines.append(f"{number:5d} {level['files']:6d} {level['bytes'] / MIB:9.1f}")
    return "\n".join(lines) + "\n"


def _files_text(partitions: list[dict[str, Any]]) -> str:
    lines = []
    for level in range(len(partitions[0]["levels"])):
        lines.append(f"--- level {level} ---")
        for partition in partitions:
            for file in partition["levels"][level]:
                lines.append(f" {file['file']}:{file['bytes']}[{file['entries']} entries]")
    return "\n".join(lines) + "\n"
