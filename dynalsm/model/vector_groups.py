"""Groups: the vectors that one search can look at, in memory.

A group holds the vectors of a whole index, or of one value of its HASH attribute. It is loaded
from the index's tree when it is first searched, and kept up to date: every commit that changed an
entry notes the entry's key (`dirty`), and the next search reads those entries again. So the order
in which writers come to note their changes does not matter: what counts is what the tree holds.
A group registers itself before it is loaded; hence no change falls between the two.

Rows are only ever added: a changed vector gets a new row and its old one is dead. A group with too
many dead rows is dropped, and loaded anew by the next search.

Up to GRAPH_MIN_FLOATS numbers every vector is compared with the query. Above, a graph
(vector_graph.py) says which vectors to compare; it is made and extended in the background, and
rows that it does not know yet are compared as well.

Thread safety: `dirty` is a deque, appended to by writers without a lock. Everything else of a
group is guarded by its gate: searches share it, changes have it alone.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dynalsm import values
from dynalsm.model.vector_graph import (
    EXPANSION_SEARCH,
    MAX_SQUARES,
    MIN_SQUARES,
    Graph,
    Unavailable,
)
from dynalsm.model.vector_rows import VectorQuery, VectorRows

if TYPE_CHECKING:
    from dynalsm.model.handles import IndexHandle

# Numbers (rows times dimensions) above which a graph pays: comparing them all takes longer than a
# search of the graph with all that follows it. Measured: docs/performance.md.
GRAPH_MIN_FLOATS: Final = 6_000_000
# Rows that may be missing in the graph before it is extended: so many, or this part of all.
LOOSE_ROWS: Final = 2048
LOOSE_PART: Final = 1 / 32
# Dead rows that are too many: so many, and this part of all.
DEAD_ROWS: Final = 1024
DEAD_PART: Final = 1 / 3
CHUNK_ITEMS: Final = 512
CHUNK_BYTES: Final = 4 << 20
ANY: Final = -1
UNKNOWN: Final = -2  # a filter value that no row has
FLOAT_BYTES: Final = 4


class Nearest(NamedTuple):
    """What a search of a group found: (rank, tree key) in no order, and the bytes it looked at."""

    found: list[tuple[float, bytes]]
    examined_bytes: int


class Gate:
    """Lets many readers in, or one writer."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = 0  # Guarded by _changed.

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Be one of the readers."""
        with self._changed:
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be the only one."""
        with self._changed:
            while self._readers:
                self._changed.wait()
            yield


def filter_values(index: IndexHandle, key: bytes, stored: bytes) -> list[bytes | None]:
    """Return the encoded INLINE_FILTER values of an entry, None for a missing one."""
    assert index.vectors is not None
    names = index.vectors.filters
    if not names:
        return []
    item = index.keys.join(key, stored)
    return [values.get_attribute(item, name) for name in names]


class Group:
    """The vectors of one range of an index's tree."""

    def __init__(self, index: IndexHandle, bounds: tuple[bytes | None, bytes | None]) -> None:
        spec = index.schema.vector
        assert spec is not None and index.vectors is not None
        self._index = index
        self._bounds = bounds
        self._distance = spec.distance
        self._filters = index.vectors.filters
        # Tree keys of entries that have changed since they were read.
        self.dirty: deque[bytes] = deque()
        self.loading = threading.Lock()
        self.is_loaded = False  # Guarded by loading.
        self.used_at = 0  # by the memory's clock
        self._gate = Gate()
        # Guarded by _gate.
        self._rows = VectorRows(spec.dimensions, spec.attribute, len(self._filters))
        self._keys: list[bytes] = []  # of each row
        self._row_of: dict[bytes, int] = {}
        # Numbers of filter values: attribute by attribute, encoded value -> number from 1 on.
        self._numbers: list[dict[bytes, int]] = [{} for _ in self._filters]
        self._graph: Graph | None = None
        self._building = threading.Lock()  # held by the thread that makes the next graph

    @property
    def size_bytes(self) -> int:
        """The memory the group takes, about."""
        graph = self._graph
        keys = sum(map(len, self._keys[:1])) + 150  # a key as bytes, in a list and in a dict
        return (
            self._rows.size_bytes
            + keys * len(self._keys)
            + (graph.size_bytes if graph is not None else 0)
        )

    @property
    def is_worn(self) -> bool:
        """Whether so much has changed that loading it anew is better."""
        rows = self._rows
        return rows.dead > max(DEAD_ROWS, rows.count * DEAD_PART) or len(self.dirty) > max(
            DEAD_ROWS, rows.count
        )

    # Filling.

    def load(self, snapshot: Any, has_room: Any) -> bool:
        """Read all entries; False when `has_room(bytes)` said no. REQUIRES: loading is held."""
        with (
            self._gate.alone(),
            self._index.tree.cursor(*self._bounds, snapshot=snapshot) as cursor,
        ):
            while chunk := cursor.next_chunk(CHUNK_ITEMS, CHUNK_BYTES):
                for key, stored in chunk:
                    self._add(key, stored)
                if not has_room(self.size_bytes):
                    return False
            self._rows.trim()
        self.is_loaded = True
        return True

    def refresh(self) -> None:
        """Read again what has changed."""
        if not self.dirty:
            return
        with self._gate.alone():
            keys: dict[bytes, None] = {}
            while self.dirty:
                keys[self.dirty.popleft()] = None
            wanted = list(keys)
            for key, stored in zip(wanted, self._index.tree.multi_get(wanted), strict=True):
                row = self._row_of.pop(key, None)
                if row is not None:
                    self._rows.kill(row)
                if stored is not None:
                    self._add(key, stored)

    def _add(self, key: bytes, stored: bytes) -> None:
        self._keys.append(key)
        self._row_of[key] = self._rows.add(stored, self._tags(key, stored))

    def _tags(self, key: bytes, stored: bytes) -> Sequence[int]:
        if not self._filters:
            return ()
        found = filter_values(self._index, key, stored)
        return [
            0 if value is None else numbers.setdefault(value, len(numbers) + 1)
            for value, numbers in zip(found, self._numbers, strict=True)
        ]

    # Searching.

    def nearest(self, query: VectorQuery, limit: int, wanted: Mapping[str, bytes]) -> Nearest:
        """Return the nearest rows with these filter values, and all as near as the last one."""
        with self._gate.shared():
            tags = self._wanted_tags(wanted)
            found = None
            examined = self._rows.count
            if tags is None or UNKNOWN not in tags:
                found = self._near(query, limit, tags)
                if found is None:
                    found = self._rows.search(query, limit, tags)
                    if tags is not None:
                        examined = self._rows.count_matching(tags)
                else:
                    examined = EXPANSION_SEARCH + len(self._loose())
            size = examined * self._rows.dimensions * FLOAT_BYTES
            return Nearest([(rank, self._keys[row]) for rank, row in found or ()], size)

    def _wanted_tags(self, wanted: Mapping[str, bytes]) -> list[int] | None:
        if not wanted:
            return None
        return [
            numbers.get(wanted[name], UNKNOWN) if name in wanted else ANY
            for name, numbers in zip(self._filters, self._numbers, strict=True)
        ]

    def _near(
        self, query: VectorQuery, limit: int, tags: list[int] | None
    ) -> list[tuple[float, int]] | None:
        """Search with the graph; None when every row has to be looked at."""
        graph, rows = self._graph, self._rows
        if graph is None or not MIN_SQUARES < query.squares < MAX_SQUARES:
            return None
        if tags is not None:
            matching = rows.count_matching(tags)
            too_rare = matching * EXPANSION_SEARCH < 2 * limit * rows.count
            if too_rare or matching * rows.dimensions < GRAPH_MIN_FLOATS:
                return None
        near = [row for row in graph.near(query.floats) if rows.matches(row, tags)]
        if len(near) < limit:
            return None
        near += [row for row in self._loose() if rows.matches(row, tags)]
        return rows.search_among(query, limit, near)

    def _loose(self) -> list[int]:
        """Return the rows that the graph does not know."""
        graph = self._graph
        assert graph is not None
        return [*graph.odd, *range(graph.rows, self._rows.count)]

    # The graph.

    @property
    def is_building(self) -> bool:
        """Whether a thread makes the next graph just now."""
        return self._building.locked()

    @property
    def needs_graph(self) -> bool:
        """Whether a graph should be made or extended."""
        rows, graph = self._rows, self._graph
        if graph is None:
            return rows.count * rows.dimensions >= GRAPH_MIN_FLOATS
        return rows.count - graph.rows > max(LOOSE_ROWS, rows.count * LOOSE_PART)

    def build_graph(self, should_stop: Any) -> None:
        """Make or extend the graph, unless another thread does."""
        if not self._building.acquire(blocking=False):
            return
        try:
            with self._gate.shared():
                upto = self._rows.count
                graph = self._graph or Graph(self._rows.dimensions, self._distance)
            grown = graph.extended(upto, self._gather, should_stop)
            if grown is not None:
                with self._gate.alone():
                    self._graph = grown
        except Unavailable:
            pass
        finally:
            self._building.release()

    def _gather(self, rows: list[int]) -> tuple[list[int], bytes]:
        with self._gate.shared():
            even = [row for row in rows if MIN_SQUARES < self._rows.squares(row) < MAX_SQUARES]
            return even, self._rows.gather(even)
