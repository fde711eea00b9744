"""A plain-Python stand-in for `dynalsm._core`: the same surface over sorted lists, in memory.

It is the slow, obvious model that the engine is compared with, and what the upper layers can be
tested on alone. Not thread-safe, nothing is durable. Every version of every key is kept, so a
snapshot is only a sequence number.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from typing import Any

_DELETED = object()


class MemorySnapshot:
    def __init__(self, seqno: int) -> None:
        self.seqno = seqno

    def close(self) -> None:
        pass

    def __enter__(self) -> MemorySnapshot:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class MemoryBatch:
    def __init__(self) -> None:
        self.entries: list[tuple[Any, ...]] = []
        self.size_bytes = 0

    def _add(self, *entry: Any) -> None:
        self.entries.append(entry)
        self.size_bytes += sum(len(part) for part in entry if isinstance(part, bytes))

    def put(self, tree: MemoryTree, key: bytes, value: bytes) -> None:
        self._add("put", tree, key, value)

    def put_stamped(self, tree: MemoryTree, prefix: bytes, suffix: bytes, value: bytes) -> None:
        self._add("stamped", tree, prefix, suffix, value)

    def delete(self, tree: MemoryTree, key: bytes) -> None:
        self._add("delete", tree, key)

    def delete_range(self, tree: MemoryTree, lower: bytes | None, upper: bytes | None) -> None:
        self._add("delete_range", tree, lower, upper)

    def clear(self) -> None:
        self.entries.clear()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self.entries)


class MemoryCursor:
    def __init__(self, entries: list[tuple[bytes, bytes]], reverse: bool, keys: bool, values: bool):
        self._entries = entries[::-1] if reverse else entries
        self._reverse = reverse
        self._keys, self._values = keys, values
        self._position = 0

    def __iter__(self) -> MemoryCursor:
        return self

    def __next__(self) -> Any:
        if self._position >= len(self._entries):
            raise StopIteration
        entry = self._entries[self._position]
        self._position += 1
        if self._keys and self._values:
            return entry
        return entry[0] if self._keys else entry[1]

    def next_chunk(self, limit_items: int, limit_bytes: int = 0) -> list[Any]:
        chunk: list[Any] = []
        used = 0
        while len(chunk) < limit_items and self._position < len(self._entries):
            if chunk and limit_bytes and used >= limit_bytes:
                break
            used += sum(map(len, self._entries[self._position]))
            chunk.append(next(self))
        return chunk

    def seek(self, key: bytes) -> None:
        for position, (found, _) in enumerate(self._entries):
            if (found <= key) if self._reverse else (found >= key):
                self._position = position
                return
        self._position = len(self._entries)

    def close(self) -> None:
        self._entries = []

    def __enter__(self) -> MemoryCursor:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class MemoryTree:
    def __init__(self, engine: MemoryEngine, name: str, hashed: bool) -> None:
        self.engine, self.name, self.hashed = engine, name, hashed
        self._versions: dict[bytes, list[tuple[int, Any]]] = {}
        self._sorted: list[bytes] = []

    def _apply(self, seqno: int, key: bytes, value: Any) -> None:
        if key not in self._versions:
            bisect.insort(self._sorted, key)
        self._versions.setdefault(key, []).append((seqno, value))

    def _at(self, key: bytes, seqno: int) -> bytes | None:
        for found, value in reversed(self._versions.get(key, [])):
            if found <= seqno:
                return None if value is _DELETED else value
        return None

    def _seqno(self, snapshot: MemorySnapshot | None) -> int:
        return self.engine.last_seqno if snapshot is None else snapshot.seqno

    def get(self, key: bytes, snapshot: MemorySnapshot | None = None) -> bytes | None:
        return self._at(key, self._seqno(snapshot))

    def multi_get(
        self, keys: Iterable[bytes], snapshot: MemorySnapshot | None = None
    ) -> list[bytes | None]:
        return [self.get(key, snapshot) for key in keys]

    def put(self, key: bytes, value: bytes, sync: bool | None = None) -> int:
        batch = MemoryBatch()
        batch.put(self, key, value)
        return self.engine.write(batch, sync=sync)

    def delete(self, key: bytes, sync: bool | None = None) -> int:
        batch = MemoryBatch()
        batch.delete(self, key)
        return self.engine.write(batch, sync=sync)

    def _keys_between(self, lower: bytes | None, upper: bytes | None) -> list[bytes]:
        start = 0 if lower is None else bisect.bisect_left(self._sorted, lower)
        end = len(self._sorted) if upper is None else bisect.bisect_left(self._sorted, upper)
        return self._sorted[start:end]

    def cursor(
        self,
        lower: bytes | None = None,
        upper: bytes | None = None,
        *,
        reverse: bool = False,
        snapshot: MemorySnapshot | None = None,
        keys: bool = True,
        values: bool = True,
    ) -> MemoryCursor:
        seqno = self._seqno(snapshot)
        entries = [
            (key, value)
            for key in self._keys_between(lower, upper)
            if (value := self._at(key, seqno)) is not None
        ]
        return MemoryCursor(entries, reverse, keys, values)

    def approximate_size(self, lower: bytes | None = None, upper: bytes | None = None) -> int:
        return sum(len(k) + len(v) for k, v in self.cursor(lower, upper))

    def partitions(self) -> list[dict[str, Any]]:
        figures = {"bytes": self.approximate_size(), "memtable_bytes": 0, "deletions": 0}
        entries = len(list(self.cursor()))
        return [{"lower": 0, "upper": 2**64, "files": [], "entries": entries, **figures}]


class MemoryEngine:
    """`Engine` without a disk."""

    def __init__(self, path: str = ":memory:", durability: str = "commit") -> None:
        self.path, self.durability = path, durability
        self.closed = self.read_only = False
        self.last_seqno = 0
        self._trees: dict[str, MemoryTree] = {}

    @staticmethod
    def open(path: str, *, durability: str = "commit", **_options: Any) -> MemoryEngine:
        return MemoryEngine(str(path), durability)

    @property
    def durable_seqno(self) -> int:
        return self.last_seqno

    def create_tree(self, name: str, *, hashed: bool = False, partitions: int = 1) -> MemoryTree:
        if name in self._trees:
            raise ValueError(f"tree {name!r} exists")
        self._trees[name] = MemoryTree(self, name, hashed)
        return self._trees[name]

    def tree(self, name: str) -> MemoryTree:
        return self._trees[name]

    def tree_names(self) -> list[str]:
        return sorted(self._trees)

    def drop_tree(self, name: str) -> None:
        del self._trees[name]

    def batch(self) -> MemoryBatch:
        return MemoryBatch()

    def commit(self, batch: MemoryBatch) -> int:
        seqno = self.last_seqno
        for kind, tree, *rest in batch.entries:
            seqno += 1
            if kind == "put":
                tree._apply(seqno, *rest)
            elif kind == "stamped":
                prefix, suffix, value = rest
                tree._apply(seqno, prefix + seqno.to_bytes(8, "big") + suffix, value)
            elif kind == "delete":
                tree._apply(seqno, rest[0], _DELETED)
            else:
                for key in tree._keys_between(*rest):
                    tree._apply(seqno, key, _DELETED)
        self.last_seqno = seqno
        return seqno

    def write(self, batch: MemoryBatch, *, sync: bool | None = None) -> int:
        return self.commit(batch)

    def wait_durable(self, seqno: int) -> None:
        pass

    def snapshot(self) -> MemorySnapshot:
        return MemorySnapshot(self.last_seqno)

    def flush(self) -> None:
        pass

    def compact(
        self, tree: MemoryTree | None = None, lower: bytes | None = None, upper: bytes | None = None
    ) -> None:
        pass

    def stats(self) -> dict[str, Any]:
        return {"trees": len(self._trees)}

    def close(self) -> None:
        self.closed = True
