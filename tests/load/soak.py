"""The soak: the mixed load embedded and over HTTP at the same time, each with two threads."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.load.measure import MIB, BoundBroken, Latencies, Report, Samples, Ticker, write_json
from tests.support.processes import environment

P99_SECONDS = 0.25
LONGEST_SECONDS = 5.0
# Single calls that do the work of many, or wait for a flush of everything.
HEAVY = ("checkpoint", "come_and_go", "reconnect", "scan", "batch_write")
# A process may still take in what it caches after half of the time; a leak of one object for each
# operation would be far more.
GROWTH_BYTES = 24 * MIB
MORE_DESCRIPTORS = 40
END_SECONDS = 60.0


@contextlib.contextmanager
def process(*arguments: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """`python -m tests.load.mix ...`, killed if it outlives the block."""
    started = subprocess.Popen(
        [sys.executable, "-m", "tests.load.mix", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        **options,
    )
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
            started.communicate()


def soak(work: Path, seconds: float, *, interval: float = 10.0, threads: int = 2) -> Report:
    """Run the soak in a directory; the report still has to be checked."""
    report = Report(f"soak of {seconds:.0f} s, {threads} threads embedded and {threads} over HTTP")
    common = [f"--seconds={seconds}", f"--threads={threads}"]
    paths = {name: str(work / name) for name in ("embedded", "served")}
    outs = {name: str(work / f"{name}.json") for name in ("embedded", "served", "client")}
    with contextlib.ExitStack() as stack:
        ticker = stack.enter_context(Ticker())
        server = stack.enter_context(
            process("serve", paths["served"], outs["served"], stdout=subprocess.PIPE)
        )
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        client = stack.enter_context(process("run", url, outs["client"], *common, "--seed=2"))
        embedded = stack.enter_context(process("run", paths["embedded"], outs["embedded"], *common))
        samples = {
            "embedded": Samples(paths["embedded"], embedded.pid),
            "served": Samples(paths["served"], server.pid),
        }
        watch([embedded, client], samples, interval)
        for name, each in (("embedded", embedded), ("client", client)):
            end(name, each, seconds)
        server.send_signal(signal.SIGTERM)
        end("server", server, seconds)
        gaps = ticker.gaps()
    series = {name: each.taken for name, each in samples.items()}
    write_json(work / "samples.json", {"series": series, "gaps": gaps})
    tell(report, outs, samples, gaps)
    return report


def watch(
    running: list[subprocess.Popen[str]], samples: dict[str, Samples], interval: float
) -> None:
    """Look at the processes now and then, as long as all of them run."""
    time.sleep(min(interval, 1.0))
    while all(each.poll() is None for each in running):
        for each in samples.values():
            each.take()
        time.sleep(interval)


def end(name: str, each: subprocess.Popen[str], seconds: float) -> None:
    """Wait for a process; raises when it failed, or does not end."""
    try:
        _, complaints = each.communicate(timeout=END_SECONDS + seconds)
    except subprocess.TimeoutExpired:
        os.kill(each.pid, signal.SIGABRT)
        raise BoundBroken(f"{name} did not end") from None
    if each.returncode:
        raise BoundBroken(f"{name} ended with {each.returncode}: {complaints[-3000:]}")
    if complaints.strip():
        raise BoundBroken(f"{name} complained: {complaints[-3000:]}")


def tell(
    report: Report,
    outs: dict[str, str],
    samples: dict[str, Samples],
    gaps: list[tuple[float, float]],
) -> None:
    """Put everything into the report."""
    found = {name: json.loads(Path(path).read_text()) for name, path in outs.items()}
    report.say("processes could not run for", f"{sum(b - a for a, b in gaps):.1f} s")
    for title, place in (("embedded", "embedded"), ("over HTTP", "client")):
        light, heavy = Latencies(), Latencies()
        for name, each in found[place]["latencies"].items():
            (heavy if name in HEAVY else light).merge(Latencies.from_json(each))
        for kind, times, factor in (("", light, 1), (", heavy", heavy, 8)):
            report.latencies(
                title + kind,
                times,
                gaps,
                p99_seconds=P99_SECONDS * factor,
                longest_seconds=LONGEST_SECONDS,
            )
    for name, stats in (("embedded", found["embedded"]["stats"]), ("served", found["served"])):
        report.samples(
            name,
            samples[name],
            memory_growth_bytes=GROWTH_BYTES,
            more_descriptors=MORE_DESCRIPTORS,
        )
        report.stalls(name, stats["stalls"], most_seconds=1.0)
        report.say(f"{name}: failures", stats["failures"] or "none")
        if stats["failures"]:
            report.broken.append(f"{name}: background work failed: {stats['failures']}")
    report.bound("closing took", found["embedded"]["close_seconds"], 10.0, "s")
