"""Searching vector indexes.

A search names a vector, the value of the index's HASH attribute if it has one, and values that
INLINE_FILTER attributes must have. What it returns is exact in every respect but one: above a
size, a graph says which vectors are worth comparing, and may miss some (vector_groups.py).

Scores belong to the entries they are returned with: the entries of the nearest vectors are read
from the tree, and when one does not say what memory did (it was changed a moment ago), the search
is made again. After a few tries, or when the vectors do not fit into memory, the tree itself is
walked. On equal scores the table's primary key decides, in ascending order.

Thread safety: any thread.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import weakref
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dynalsm.model.vector_groups import (
    CHUNK_BYTES,
    CHUNK_ITEMS,
    DEAD_ROWS,
    FLOAT_BYTES,
    Group,
    filter_values,
)
from dynalsm.model.vector_rows import VectorQuery, VectorRows, entry_rank

if TYPE_CHECKING:
    from dynalsm.model.handles import IndexHandle
    from dynalsm.model.settings import Settings

# Searches made again because of changes before the tree is walked.
TRIES: Final = 3
_HASH_BYTES: Final = 8
_WHOLE: Final = b""  # the prefix of the one group of an index without a HASH attribute


class Hit(NamedTuple):
    """One result: an entry of the index and its score."""

    key: bytes
    stored: bytes
    score: float


class Found(NamedTuple):
    """What a search found, best first, and how many bytes of the index it looked at."""

    hits: list[Hit]
    examined_bytes: int


class VectorMemory:
    """The memory that all vector indexes of a database may take together."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._mutex = threading.Lock()
        self._spaces: weakref.WeakSet[VectorSpace] = weakref.WeakSet()  # Guarded by _mutex.
        self._clock = itertools.count(1)

    @property
    def limit_bytes(self) -> int:
        """How much there is."""
        return self._settings.vector_memory_bytes

    def add(self, space: VectorSpace) -> None:
        """Count a space's groups from now on."""
        with self._mutex:
            self._spaces.add(space)

    def touch(self, group: Group) -> None:
        """Note that a group has been used."""
        group.used_at = next(self._clock)

    def make_room(self, group: Group, size_bytes: int) -> bool:
        """Let a group have so much memory, at the cost of those not used for longest."""
        if size_bytes > self.limit_bytes:
            return False
        with self._mutex:
            others = [
                (other.used_at, other.size_bytes, space, other)
                for space in self._spaces
                for other in space.groups()
                if other is not group
            ]
        excess = size_bytes + sum(each[1] for each in others) - self.limit_bytes
        for _, freed, space, other in sorted(others, key=lambda each: each[0]):
            if excess <= 0:
                break
            space.forget(other)
            excess -= freed
        return True


class VectorSpace:
    """What is in memory of one vector index."""

    def __init__(self, memory: VectorMemory, has_hash: bool) -> None:
        self._memory = memory
        self._has_hash = has_hash
        self._mutex = threading.Lock()
        # By prefix of the tree keys. Changes are guarded by _mutex; replaced, not changed in place.
        self._groups: dict[bytes, Group] = {}
        memory.add(self)

    def groups(self) -> Iterable[Group]:
        """Return the groups there are."""
        return self._groups.values()

    def note(self, old: tuple[bytes, bytes] | None, new: tuple[bytes, bytes] | None) -> None:
        """Note that a commit replaced an entry. Called by every write, after the commit."""
        if not self._groups:
            return
        if old is not None:
            self._note(old[0])
        if new is not None and (old is None or new[0] != old[0]):
            self._note(new[0])

    def _note(self, key: bytes) -> None:
        group = self._groups.get(self._prefix_of(key))
        if group is not None:
            group.dirty.append(key)
            if len(group.dirty) > DEAD_ROWS and group.is_worn:
                self.forget(group)

    def _prefix_of(self, key: bytes) -> bytes:
        if not self._has_hash:
            return _WHOLE
        size = int.from_bytes(key[_HASH_BYTES : _HASH_BYTES + 2], "big")
        return key[: _HASH_BYTES + 2 + size]

    def forget(self, group: Group) -> None:
        """Drop a group; the next search loads it again."""
        with self._mutex:
            self._groups = {key: each for key, each in self._groups.items() if each is not group}

    def clear(self) -> None:
        """Drop everything."""
        with self._mutex:
            self._groups = {}

    def group(self, index: IndexHandle, scope: Scope, engine: Any) -> Group | None:
        """Return the group of a scope, loaded and up to date; None when it does not fit."""
        group = self._groups.get(scope.prefix)
        if group is not None and group.is_worn:
            self.forget(group)
            group = None
        if group is None:
            if index.tree.approximate_size(scope.lower, scope.upper) > self._memory.limit_bytes:
                return None
            with self._mutex:
                group = self._groups.get(scope.prefix) or Group(index, (scope.lower, scope.upper))
                self._groups = {**self._groups, scope.prefix: group}
        self._memory.touch(group)
        with group.loading:
            if not group.is_loaded and not self._load(group, engine):
                return None
        group.refresh()
        return group

    def _load(self, group: Group, engine: Any) -> bool:
        # Commits after this snapshot note what they change: the group is registered already.
        try:
            with engine.snapshot() as snapshot:
                loaded = group.load(snapshot, lambda size: self._memory.make_room(group, size))
        except BaseException:
            self.forget(group)
            raise
        if not loaded:
            self.forget(group)
        return loaded


class Scope(NamedTuple):
    """The part of an index's tree that a search looks at."""

    prefix: bytes
    lower: bytes | None
    upper: bytes | None


def scope_of(index: IndexHandle, hash_value: bytes | None) -> Scope:
    """Return what belongs to an encoded value of the HASH attribute; None: the whole index."""
    if hash_value is None:
        return Scope(_WHOLE, None, None)
    prefix = index.keys.partition_prefix(hash_value)
    return Scope(prefix, *index.keys.sort_range(prefix))


def search(
    database: Any,
    index: IndexHandle,
    query: VectorQuery,
    limit: int,
    hash_value: bytes | None,
    wanted: Mapping[str, bytes],
) -> Found:
    """Return the `limit` entries nearest to a vector.

    `hash_value`: the encoded value of the HASH attribute, None when the index has none. `wanted`:
    INLINE_FILTER attribute -> encoded value that it must have.
    """
    scope = scope_of(index, hash_value)
    if index.space is not None:
        for _ in range(TRIES):
            group = index.space.group(index, scope, database.engine)
            if group is None:
                break
            found = _search_group(index, group, query, limit, wanted)
            if found is not None:
                _maintain(database, group)
                return found
    return search_tree(index, query, limit, scope, wanted)


def _search_group(
    index: IndexHandle, group: Group, query: VectorQuery, limit: int, wanted: Mapping[str, bytes]
) -> Found | None:
    """Search in memory; None when an entry found has changed meanwhile."""
    nearest = group.nearest(query, limit, wanted)
    best = nearest.found
    if len(best) > 1:
        best = sorted(best, key=lambda each: (each[0], _primary_key(index, each[1])))[:limit]
    name = _vector_name(index)
    hits = []
    stored = index.tree.multi_get([key for _, key in best])
    for (rank, key), entry in zip(best, stored, strict=True):
        if entry is None or entry_rank(query, entry, name) != rank:
            return None
        if not _has_values(index, key, entry, wanted):
            return None
        hits.append(Hit(key, entry, query.score(rank)))
    return Found(hits, nearest.examined_bytes)


def search_tree(
    index: IndexHandle,
    query: VectorQuery,
    limit: int,
    scope: Scope,
    wanted: Mapping[str, bytes],
) -> Found:
    """Search by walking the tree: exact, and at one moment, with next to no memory."""
    spec = index.schema.vector
    assert spec is not None
    rows = VectorRows(spec.dimensions, spec.attribute, 0)
    best: list[tuple[float, tuple[bytes, bytes], bytes, bytes]] = []
    count = 0
    with index.tree.cursor(scope.lower, scope.upper) as cursor:
        while chunk := cursor.next_chunk(CHUNK_ITEMS, CHUNK_BYTES):
            if wanted:
                chunk = [each for each in chunk if _has_values(index, each[0], each[1], wanted)]
            rows.clear()
            for _, stored in chunk:
                rows.add(stored)
            count += len(chunk)
            best += [
                (rank, _primary_key(index, chunk[row][0]), *chunk[row])
                for rank, row in rows.search(query, limit)
            ]
            best = heapq.nsmallest(limit, best)
    hits = [Hit(key, stored, query.score(rank)) for rank, _, key, stored in best]
    return Found(hits, count * spec.dimensions * FLOAT_BYTES)


def _vector_name(index: IndexHandle) -> bytes:
    assert index.vectors is not None
    return index.vectors.attribute.encode()


def _has_values(index: IndexHandle, key: bytes, stored: bytes, wanted: Mapping[str, bytes]) -> bool:
    if not wanted:
        return True
    assert index.vectors is not None
    found = zip(index.vectors.filters, filter_values(index, key, stored), strict=True)
    return all(wanted.get(name, value) == value for name, value in found)


def _primary_key(index: IndexHandle, key: bytes) -> tuple[bytes, bytes]:
    """Return the table's partition key and sort key of an entry, as bytes that sort."""
    return split_table_key(index.keys.table_key(key))


def split_table_key(table_key: bytes) -> tuple[bytes, bytes]:
    """Return (partition key, sort key) of a table's tree key."""
    start = _HASH_BYTES + 2
    end = start + int.from_bytes(table_key[_HASH_BYTES:start], "big")
    return table_key[start:end], table_key[end:]


def _maintain(database: Any, group: Group) -> None:
    """Let a graph be made or extended, if it is time."""
    if group.needs_graph and not group.is_building:
        database.spawn("vectors", lambda: group.build_graph(database.stopping.is_set))
