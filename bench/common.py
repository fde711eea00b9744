"""What the benchmarks share: the machine's description, clocks, medians, tables.

Nothing here knows an engine.
"""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MIB = 1 << 20


def machine() -> dict[str, Any]:
    """Where and when the figures were measured."""
    return {
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_mib": _memory_mib(),
        "system": f"{platform.system()} {platform.release()}",
        "filesystem": _filesystem(os.getcwd()),
        "python": platform.python_version(),
        "load": [round(each, 2) for each in os.getloadavg()],
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "commit": _commit(),
    }


def machine_text(stamp: dict[str, Any]) -> str:
    """The description as one line of Markdown."""
    return (
        f"{stamp['cpu']}, {stamp['cores']} cores, {stamp['memory_mib']} MiB, {stamp['system']}, "
        f"{stamp['filesystem']}, Python {stamp['python']}, load {stamp['load'][0]} at the start, "
        f"commit {stamp['commit']}, {stamp['date']}"
    )


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory_mib() -> int:
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // MIB)


def _filesystem(path: str) -> str:
    try:
        text = subprocess.run(
            ["df", "-T", path], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        return text[-1].split()[1]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown file system"


def _commit() -> str:
    try:
        return subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


class Clock:
    """Time spent between start() and stop(), over several runs of the calling thread.

    `seconds` is wall time. `waited` is the part of it in which the thread was ready to run but had
    no core (Linux; else 0): on a machine that does other work besides, take it off.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.waited = 0.0
        self._began = (0.0, 0.0)

    def start(self) -> None:
        self._began = (_waited(), time.perf_counter())

    def stop(self) -> None:
        now = time.perf_counter()
        self.seconds += now - self._began[1]
        self.waited += max(0.0, _waited() - self._began[0])


def _waited() -> float:
    try:
        with open("/proc/thread-self/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


class Memory:
    """The most memory the process held since this object was made, above what it held then."""

    def __init__(self) -> None:
        try:
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:
            pass
        self._before = _status_kib("VmRSS")

    def peak_bytes(self) -> int | None:
        after = _status_kib("VmHWM")
        return None if after is None or self._before is None else (after - self._before) * 1024


def _status_kib(name: str) -> int | None:
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1])
    except OSError:
        pass
    return None


def written_bytes() -> int | None:
    """What the process has made the system write to disk so far (Linux)."""
    try:
        for line in Path("/proc/self/io").read_text().splitlines():
            if line.startswith("write_bytes:"):
                return int(line.split()[1])
    except OSError:
        pass
    return None


def settle(longest_seconds: float = 60.0) -> None:
    """Wait until the process's background threads have nothing left to do."""
    quiet = 0
    end = time.monotonic() + longest_seconds
    while quiet < 3 and time.monotonic() < end:
        before = time.process_time()
        time.sleep(0.1)
        quiet = quiet + 1 if time.process_time() - before < 0.005 else 0


def directory_bytes(path: str) -> int:
    """What the files take on disk (holes are not counted)."""
    total = 0
    for root, _, names in os.walk(path):
        for name in names:
            total += os.lstat(os.path.join(root, name)).st_blocks * 512
    return total


def fresh_directory(path: str) -> str:
    """The path of an empty directory; whatever was there is removed."""
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def rate_text(rate: float) -> str:
    """1234567 -> "1.23M"."""
    for limit, unit in ((1e6, "M"), (1e4, "k")):
        if rate >= limit:
            digits = rate / (1e6 if unit == "M" else 1e3)
            return f"{digits:.2f}{unit}" if unit == "M" else f"{digits:.1f}{unit}"
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.1f}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; every column but the first is aligned to the right."""
    lines = ["| " + " | ".join(header) + " |", "| --- |" + " ---: |" * (len(header) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)
