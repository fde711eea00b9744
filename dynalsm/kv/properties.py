"""LevelDB's properties as text, from the engine's statistics. Pure functions; thread-safe."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from dynalsm._core import Engine

MIB = 1 << 20


def get_property(
    engine: Engine, tree_stats: Callable[[], dict[str, Any]], name: bytes
) -> bytes | None:
    """The value of a property, or None for an unknown one. Raises TypeError for a name not bytes.

    `tree_stats` gives the statistics of the tree that level properties are about."""
    if not isinstance(name, bytes):
        raise TypeError(f"a property's name is bytes, not {type(name).__name__}")
    if engine.closed:
        engine.snapshot()  # raises what a closed engine raises
    if name == b"dynalsm.stats":
        return json.dumps(engine.stats()).encode()
    if name == b"leveldb.stats":
        return _stats_text(tree_stats()).encode()
    if name == b"leveldb.sstables":
        return _files_text(engine).encode()
    if name == b"leveldb.approximate-memory-usage":
        memory = engine.stats()["memory"]
        return str(sum(size for part, size in memory.items() if part != "budget")).encode()
    if found := re.fullmatch(rb"leveldb\.num-files-at-level(\d+)", name):
        levels = tree_stats()["levels"]
        level = int(found[1])
        return str(levels[level]["files"]).encode() if level < len(levels) else None
    return None


def _stats_text(statistics: dict[str, Any]) -> str:
    lines = ["Level  Files  Size(MB)", "-" * 23]
    for number, level in enumerate(statistics["levels"]):
        if level["files"]:
            lines.append(f"{number:5d} {level['files']:6d} {level['bytes'] / MIB:9.1f}")
    return "\n".join(lines) + "\n"


def _files_text(engine: Engine) -> str:
    parts = engine.tree("kv").partitions()
    lines = []
    for number in range(len(parts[0]["levels"])):
        lines.append(f"--- level {number} ---")
        for part in parts:
            for file in part["levels"][number]:
                lines.append(f" {file['file']}:{file['bytes']}[{file['entries']} entries]")
    return "\n".join(lines) + "\n"
