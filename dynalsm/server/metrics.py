"""`GET /metrics`: what the server and its engine do, in the format that Prometheus reads.

Counting is ours and costs well under a microsecond a request; prometheus_client only writes the
text when somebody asks for it.

Thread safety: any thread may count and render.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from dynalsm.database import Database

# Seconds; from a hit in memory to a page that a disk has to be asked for many times.
BUCKETS = (0.00001, 0.00003, 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


class Counts:
    """What is counted of one operation. Guarded by the mutex of its Metrics."""

    __slots__ = ("buckets", "seconds", "statuses")

    def __init__(self) -> None:
        self.statuses: dict[int, int] = {}
        self.seconds = 0.0
        self.buckets = [0] * (len(BUCKETS) + 1)


class Metrics:
    """The counters of one server."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._mutex = threading.Lock()
        self._counts: dict[str, Counts] = {}
        self._waits = Counts()  # of commits, for the disk; in the place of statuses: nothing

    def count(self, operation: str, status: int, seconds: float) -> None:
        """Note one request that was answered."""
        with self._mutex:
            counts = self._counts.get(operation)
            if counts is None:
                counts = self._counts[operation] = Counts()
            counts.statuses[status] = counts.statuses.get(status, 0) + 1
            counts.seconds += seconds
            counts.buckets[bisect_left(BUCKETS, seconds)] += 1

    def count_waits(self, waits: Iterable[float]) -> None:
        """Note how long (seconds) replies were held until the disk had their commits."""
        with self._mutex:
            for seconds in waits:
                self._waits.seconds += seconds
                self._waits.buckets[bisect_left(BUCKETS, seconds)] += 1

    def totals(self) -> dict[str, Any]:
        """Return what was counted so far, buckets not yet summed up."""
        with self._mutex:
            return {
                "requests": {
                    operation: {
                        "count": sum(counts.statuses.values()),
                        "failed": sum(n for status, n in counts.statuses.items() if status >= 400),
                        "seconds": counts.seconds,
                        "buckets": list(counts.buckets),
                    }
                    for operation, counts in self._counts.items()
                },
                "commit_waits": {
                    "seconds": self._waits.seconds,
                    "buckets": list(self._waits.buckets),
                },
            }

    def render(self) -> bytes:
        """Return the page. Raises: ModuleNotFoundError without prometheus_client."""
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return bytes(generate_latest(registry))

    def collect(self) -> Iterator[Metric]:
        """Yield every metric; prometheus_client calls this."""
        yield from self._requests()
        figures = self._database.engine.stats()
        trees = figures.pop("trees", {})
        figures["failures"] = len(figures.get("failures", ()))
        yield from _figures("dynalsm_engine", figures)
        yield from self._trees(trees)

    def _requests(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

        requests = CounterMetricFamily(
            "dynalsm_requests", "Requests answered", labels=["operation", "status"]
        )
        durations = HistogramMetricFamily(
            "dynalsm_request_seconds", "Time to run an operation", labels=["operation"]
        )
        waits = HistogramMetricFamily(
            "dynalsm_commit_wait_seconds", "Time that replies waited for the disk"
        )
        with self._mutex:
            for operation, counts in self._counts.items():
                for status, number in counts.statuses.items():
                    requests.add_metric([operation, str(status)], number)
                durations.add_metric([operation], _summed_up(counts.buckets), counts.seconds)
            waits.add_metric([], _summed_up(self._waits.buckets), self._waits.seconds)
        yield requests
        yield durations
        yield waits

    def _trees(self, trees: dict[str, dict[str, Any]]) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        labels = tree_labels(self._database)
        for figure in ("disk_bytes", "memtable_bytes", "entries", "partitions"):
            gauge = GaugeMetricFamily(
                f"dynalsm_tree_{figure}", f"{figure} of a tree", labels=["table", "part"]
            )
            for name, tree in trees.items():
                if figure in tree:
                    gauge.add_metric([*labels.get(name, (name, ""))], tree[figure])
            yield gauge


def _summed_up(buckets: list[int]) -> list[tuple[str, int]]:
    """Return buckets as Prometheus wants them: (bound, how many were at most so long)."""
    total, summed = 0, []
    for bound, number in zip((*map(str, BUCKETS), "+Inf"), buckets, strict=True):
        total += number
        summed.append((bound, total))
    return summed


def tree_labels(database: Database) -> dict[str, tuple[str, str]]:
    """Return what people call each tree: (table, index name, "changes", "expiry" or "")."""
    labels: dict[str, tuple[str, str]] = {}
    for name in database.catalog.names():
        table = database.catalog.get(name)
        if table is None:
            continue
        labels[table.tree.name] = (name, "")
        for index in table.indexes.values():
            labels[index.tree.name] = (name, index.name)
        if table.changelog is not None:
            labels[table.changelog.tree.name] = (name, "changes")
        if table.expiry is not None:
            labels[table.expiry.name] = (name, "expiry")
    return labels


def _figures(prefix: str, figures: dict[str, Any]) -> Iterator[Metric]:
    """Yield every number of a nested dict as a gauge; names are the path to it."""
    from prometheus_client.core import GaugeMetricFamily

    for name, value in figures.items():
        if isinstance(value, dict):
            yield from _figures(f"{prefix}_{name}", value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield GaugeMetricFamily(f"{prefix}_{name}", f"engine: {name}", value=value)
