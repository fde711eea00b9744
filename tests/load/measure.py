"""What a load test looks at: latencies, resident memory, descriptors, files, stalls, and bounds.

A machine that does other work, or that somebody stops for a moment, must not fail a test: a
`Ticker`, a process that does nothing but sleep, notes when it could not run, and those gaps are
taken off the longest operations. Bounds stand for orders of magnitude, not for speed.

Figures of processes come from /proc and are None elsewhere; what depends on them is left out then.
"""

from __future__ import annotations

import bisect
import heapq
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

MIB = 1 << 20

# A bucket's upper end is a tenth above its lower one: quantiles are right to ten percent.
BUCKET_RATIO = 1.1
SHORTEST_SECONDS = 1e-6
BUCKETS = 200
# So many of the longest operations are kept with their times, to be held against the gaps.
LONGEST_KEPT = 500

TICK_SECONDS = 0.01
GAP_SECONDS = 0.03


class BoundBroken(AssertionError):
    """What was measured lies beyond a bound."""


class Latencies:
    """Times of operations, in a fixed amount of memory. Belongs to one thread."""

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.longest: list[tuple[float, float, str]] = []  # a heap: seconds, end, name

    def add(self, began: float, ended: float, name: str = "") -> None:
        """Count an operation; both times are of time.monotonic()."""
        seconds = ended - began
        place = int(math.log(max(seconds, SHORTEST_SECONDS) / SHORTEST_SECONDS, BUCKET_RATIO))
        self.counts[min(place, BUCKETS - 1)] += 1
        if len(self.longest) < LONGEST_KEPT:
            heapq.heappush(self.longest, (seconds, ended, name))
        elif seconds > self.longest[0][0]:
            heapq.heapreplace(self.longest, (seconds, ended, name))

    @contextmanager
    def timed(self, name: str = "") -> Iterator[None]:
        """Count what the block does as one operation."""
        began = time.monotonic()
        yield
        self.add(began, time.monotonic(), name)

    def merge(self, other: Latencies) -> None:
        """Add what another thread or process counted."""
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        self.longest = heapq.nlargest(LONGEST_KEPT, [*self.longest, *other.longest])
        heapq.heapify(self.longest)

    def to_json(self) -> Any:
        return {"counts": self.counts, "longest": self.longest}

    @classmethod
    def from_json(cls, value: Any) -> Latencies:
        made = cls()
        made.counts = value["counts"]
        made.longest = [(seconds, ended, name) for seconds, ended, name in value["longest"]]
        heapq.heapify(made.longest)
        return made

    @property
    def operations(self) -> int:
        return sum(self.counts)

    def quantile(self, share: float) -> float:
        """Seconds that so large a share of the operations did not take longer than."""
        wanted = share * self.operations
        seen = 0
        for place, count in enumerate(self.counts):
            seen += count
            if count and seen >= wanted:
                return SHORTEST_SECONDS * BUCKET_RATIO ** (place + 1)
        return 0.0

    def longest_outside(self, gaps: list[tuple[float, float]]) -> tuple[float, str]:
        """The longest operation once the gaps are taken off, and its name."""
        return max(
            (
                (seconds - overlap(gaps, ended - seconds, ended), name)
                for seconds, ended, name in self.longest
            ),
            default=(0.0, ""),
        )


def overlap(gaps: list[tuple[float, float]], began: float, ended: float) -> float:
    """How much of the time between the two moments lies in gaps (sorted, apart)."""
    place = max(0, bisect.bisect_left(gaps, (began, began)) - 1)
    total = 0.0
    while place < len(gaps) and gaps[place][0] < ended:
        total += max(0.0, min(ended, gaps[place][1]) - max(began, gaps[place][0]))
        place += 1
    return total


TICKER = f"""
import sys, time
before = time.monotonic()
while True:
    time.sleep({TICK_SECONDS})
    now = time.monotonic()
    if now - before > {GAP_SECONDS}:
        sys.stdout.write(f"{{before}} {{now}}\\n")
        sys.stdout.flush()
    before = now
"""


class Ticker:
    """A process beside the load that finds out when processes here could not run."""

    def __enter__(self) -> Ticker:
        self._file = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen([sys.executable, "-c", TICKER], stdout=self._file)
        return self

    def gaps(self) -> list[tuple[float, float]]:
        """Beginning and end of every gap so far, in order."""
        self._file.seek(0)
        lines = [line.split() for line in self._file.read().splitlines()]
        return [(float(line[0]), float(line[1])) for line in lines if len(line) == 2]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._file.close()


# ---- processes and directories ----


def resident_bytes(pid: int | str = "self") -> int | None:
    """Memory that belongs to the process alone (mapped files are not counted)."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    return None


def descriptors(pid: int | str = "self") -> int | None:
    """Open file descriptors of a process."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None


def files_and_bytes(path: str | Path) -> tuple[int, int]:
    """Files of a directory tree and what they take on disk (holes are not counted)."""
    files = size = 0
    for root, _, names in os.walk(path):
        for name in names:
            try:
                size += os.lstat(os.path.join(root, name)).st_blocks * 512
                files += 1
            except FileNotFoundError:  # a compaction was faster
                continue
    return files, size


class Samples:
    """Memory, descriptors and files of one process and one directory, over time."""

    def __init__(self, path: str | Path, pid: int | str = "self") -> None:
        self._path, self._pid = path, pid
        self.taken: list[dict[str, int | None]] = []

    def take(self) -> None:
        """Look now."""
        files, size = files_and_bytes(self._path)
        self.taken.append(
            {
                "memory": resident_bytes(self._pid),
                "descriptors": descriptors(self._pid),
                "files": files,
                "disk": size,
            }
        )

    def part(self, name: str, begin: float, end: float) -> list[int]:
        """The values between two shares of the time, such as 0.4 and 0.6."""
        count = len(self.taken)
        chosen = self.taken[int(begin * count) : max(int(begin * count) + 1, int(end * count))]
        return [value for sample in chosen if (value := sample[name]) is not None]

    def mean(self, name: str, begin: float, end: float) -> float | None:
        """The mean of such a part; None where the system does not tell."""
        values = self.part(name, begin, end)
        return sum(values) / len(values) if values else None

    def row(self, name: str, unit: int = 1) -> str:
        """First, middle and last value as text."""
        if not self.taken or self.taken[0][name] is None:
            return "not known"
        picked = [self.taken[0], self.taken[len(self.taken) // 2], self.taken[-1]]
        return " / ".join(f"{(sample[name] or 0) / unit:,.0f}" for sample in picked)


# ---- what is told ----


class Report:
    """A small table of what was measured, and the bounds that it breaks."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.rows: list[tuple[str, str]] = []
        self.broken: list[str] = []
        self._began = time.monotonic()

    def say(self, name: str, value: Any) -> None:
        """Add a line."""
        self.rows.append((name, f"{value:,}" if isinstance(value, int) else str(value)))

    def bound(self, name: str, value: float | None, most: float, unit: str = "") -> None:
        """Add a line, and a complaint when the value is above `most`."""
        if value is None:
            self.say(name, "not known here")
            return
        self.say(name, f"{value:,.4g} {unit}".rstrip() + f" (at most {most:,.4g})")
        if value > most:
            self.broken.append(f"{name}: {value:,.4g} {unit}, at most {most:,.4g} was allowed")

    def latencies(
        self,
        name: str,
        found: Latencies,
        gaps: list[tuple[float, float]],
        *,
        p99_seconds: float,
        longest_seconds: float,
    ) -> None:
        """Add the lines of one kind of operations."""
        self.say(f"{name}: operations", found.operations)
        self.say(f"{name}: p50", f"{found.quantile(0.5) * 1e3:.3g} ms")
        self.bound(f"{name}: p99", found.quantile(0.99) * 1e3, p99_seconds * 1e3, "ms")
        seconds, operation = found.longest_outside(gaps)
        self.bound(f"{name}: longest ({operation})", seconds * 1e3, longest_seconds * 1e3, "ms")

    def samples(
        self, name: str, samples: Samples, *, memory_growth_bytes: float, more_descriptors: int
    ) -> None:
        """Add memory, descriptors and files; from the middle to the end they must not grow."""
        for what, unit, text in (
            ("memory", MIB, "memory, MiB"),
            ("descriptors", 1, "descriptors"),
            ("files", 1, "files"),
            ("disk", MIB, "on disk, MiB"),
        ):
            self.say(f"{name}: {text} at begin / middle / end", samples.row(what, unit))
        middle, end = samples.mean("memory", 0.4, 0.6), samples.mean("memory", 0.9, 1.0)
        if middle is not None and end is not None:
            growth = (end - middle) / MIB
            most = memory_growth_bytes / MIB
            self.bound(f"{name}: memory grew from the middle on", growth, most, "MiB")
        fds = samples.part("descriptors", 0.4, 0.6), samples.part("descriptors", 0.9, 1.0)
        if fds[0] and fds[1]:
            more = max(fds[1]) - max(fds[0])
            self.bound(f"{name}: more descriptors", more, more_descriptors)

    def stalls(self, name: str, figures: dict[str, Any], *, most_seconds: float) -> None:
        """Add the engine's own account of stalls."""
        self.say(f"{name}: slowed down by pacing", f"{figures['slowdown_seconds']:.2f} s")
        self.say(f"{name}: stalls", int(figures["count"]))
        self.bound(f"{name}: in stalls", figures["seconds"], most_seconds, "s")

    def text(self) -> str:
        """The table."""
        width = max((len(name) for name, _ in self.rows), default=0)
        seconds = time.monotonic() - self._began
        lines = [f"{self.title} ({seconds:.1f} s, {time.strftime('%Y-%m-%d %H:%M')})"]
        return "\n".join(lines + [f"  {name:{width}}  {value}" for name, value in self.rows])

    def check(self) -> None:
        """Raise BoundBroken when a bound is."""
        if self.broken:
            raise BoundBroken("; ".join(self.broken))


def within(limit_seconds: float, what: Callable[[], Any]) -> float:
    """Run something and return how long it took. Raises BoundBroken when that is too long."""
    began = time.monotonic()
    what()
    seconds = time.monotonic() - began
    if seconds > limit_seconds:
        raise BoundBroken(f"{seconds:.1f} s instead of at most {limit_seconds:.1f} s")
    return seconds


def write_json(path: str | Path, value: Any) -> None:
    """Write a file in one go."""
    Path(path).write_text(json.dumps(value))
