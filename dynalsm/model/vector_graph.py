"""A graph of near neighbours (HNSW, by usearch) over the rows of a group of vectors.

The graph is a hint where to look; whoever searches compares what it finds exactly. It holds rows
by their numbers, 0 to `rows`, apart from the `odd` ones: vectors so long or so short that the
arithmetic inside the graph, in 32 bits or less, would go wrong. Those are compared one by one.

A graph does not change. `extended` makes a new one that also knows the rows added since, while
searches go on with the old one.

Parameters were chosen by bench/vectors.py (docs/performance.md). Vectors are kept with 16
bits an element (bfloat16): half the memory, the same recall, since the order is found exactly.

Thread safety: any thread. usearch gives each search a workspace by its number, so one at a time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Final

CONNECTIVITY: Final = 16  # neighbours of a node
EXPANSION_ADD: Final = 128  # candidates looked at when a row is added
EXPANSION_SEARCH: Final = 512  # and in a search; also how many rows a search returns
ADD_ROWS: Final = 1024  # rows added at once: between two looks at whether to stop
# Squared lengths outside are odd: products of two such vectors leave the range of 32-bit floats.
MIN_SQUARES: Final = 1e-30
MAX_SQUARES: Final = 1e30

_METRICS: Final = {"COSINE": "cos", "EUCLIDEAN": "l2sq", "DOT_PRODUCT": "ip"}


class Unavailable(Exception):
    """usearch is not installed."""


def load_library() -> Any:
    """Return usearch's Index class, or None when it is not installed."""
    try:
        from usearch.index import Index
    except ImportError:
        return None
    return Index


class Graph:
    """The graph of rows 0 to `rows`."""

    def __init__(self, dimensions: int, distance: str) -> None:
        """Make an empty graph. Raises: Unavailable."""
        index_class = load_library()
        if index_class is None:
            raise Unavailable
        self._dimensions = dimensions
        self._index = index_class(
            ndim=dimensions,
            metric=_METRICS[distance],
            dtype="bf16",
            connectivity=CONNECTIVITY,
            expansion_add=EXPANSION_ADD,
            expansion_search=EXPANSION_SEARCH,
        )
        self._mutex = threading.Lock()
        self.rows = 0
        self.odd: list[int] = []

    @property
    def size_bytes(self) -> int:
        """The memory it takes, about."""
        return int(self._index.memory_usage)

    def extended(
        self,
        upto: int,
        gather: Callable[[list[int]], tuple[list[int], bytes]],
        should_stop: Callable[[], bool],
    ) -> Graph | None:
        """Return a graph of the rows up to `upto`; None when it was stopped.

        `gather(rows)` returns those that are not odd, and their floats.
        """
        import numpy

        graph = Graph.__new__(Graph)
        graph._dimensions = self._dimensions
        graph._index = self._index.copy()
        graph._index.expansion_search = EXPANSION_SEARCH
        graph._mutex = threading.Lock()
        graph.odd = list(self.odd)
        threads = max(1, (os.cpu_count() or 1) // 2)
        for start in range(self.rows, upto, ADD_ROWS):
            if should_stop():
                return None
            rows = list(range(start, min(start + ADD_ROWS, upto)))
            even, floats = gather(rows)
            graph.odd += sorted(set(rows) - set(even))
            if even:
                matrix = numpy.frombuffer(floats, numpy.float32).reshape(len(even), -1)
                keys = numpy.array(even, numpy.uint64)
                graph._index.add(keys, matrix, threads=threads)
        graph.rows = upto
        return graph

    def near(self, floats: bytes) -> list[int]:
        """Return rows near to a vector, EXPANSION_SEARCH of them at most."""
        import numpy

        vector = numpy.frombuffer(floats, numpy.float32)
        with self._mutex:
            found = self._index.search(vector, EXPANSION_SEARCH, threads=1)
        rows: list[int] = found.keys.tolist()
        return rows
