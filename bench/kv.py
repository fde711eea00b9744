"""dynalsm.kv beside plyvel (LevelDB), rocksdict (RocksDB), lmdb and sqlite3.

    python bench/kv.py --quick                        # a minute or two, for orientation
    python bench/kv.py                                # 1 M keys of 16 bytes, 100-byte values
    python bench/kv.py --value-size 1024
    python bench/kv.py --keys 10000000 --memory 64    # larger than every cache
    python bench/kv.py --only readrandom,ycsb_A --engines dynalsm,lmdb --json kv.json

Needs `pip install '.[bench]'`; engines that are not installed are left out. Each engine works in a
process of its own, one at a time: per round, every workload runs on one engine after the other.
Figures are medians over the rounds. bench/README.md says what each workload does and what is equal.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from common import MIB, machine, machine_text, median, rate_text, table
from kv_engines import ENGINES
from kv_workloads import WORKLOADS, Config, Place

OURS = "dynalsm"

# What is asked of dynalsm: its rate over the best peer's, at 100-byte and at larger values. None:
# reported only. Openings are times: at most so many times the best (or the milliseconds).
TARGETS: dict[str, tuple[float | None, float | None]] = {
    "fillseq": (1.3, 1.2),
    "fillrandom": (1.3, 1.2),
    "fillbatch100": (1.2, 1.2),
    "fillbatch1000": (1.2, 1.2),
    "overwrite": (1.3, 1.2),
    "deleterandom": (1.3, 1.2),
    "fillsync": (1.3, 1.3),
    "fillsync_8t": (2.0, 2.0),
    "readrandom": (1.0, 1.0),
    "readrandom_snap": (1.0, 1.0),
    "readrandom_2t": (1.0, 1.0),
    "readmissing": (1.2, 1.2),
    "multiget100": (1.5, 1.5),
    "readseq": (1.0, 1.0),
    "readreverse": (1.0, 1.0),
    "readchunks": (1.5, 1.5),
    "seekrandom10": (1.0, 1.0),
    "readwhilewriting": (1.2, 1.2),
    **{f"ycsb_{mix}": (1.0, 1.0) for mix in "ABCDEF"},
}
OPENINGS = ("reopen_clean", "reopen_unclean")
REOPEN_CLEAN_SECONDS = 0.003
REOPEN_UNCLEAN_TIMES_ROCKSDB = 1.5


def main() -> None:
    arguments = parse()
    config = Config(
        keys=arguments.keys,
        value_bytes=arguments.value_size,
        memory_bytes=arguments.memory * MIB,
        reads=arguments.reads or min(arguments.keys, 200_000),
        syncs=arguments.syncs,
    )
    stamp = machine()
    directory = tempfile.mkdtemp(prefix="dynalsm-bench-", dir=arguments.directory)
    try:
        results = run(arguments, config, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    text = report(results, arguments, config, stamp)
    print("\n" + text)
    if arguments.markdown:
        Path(arguments.markdown).write_text(text + "\n")
    if arguments.json:
        document = {
            "machine": stamp,
            "config": vars(config),
            "rounds": arguments.rounds,
            "versions": {name: ENGINES[name].version() for name in arguments.engines},
            "results": results,
        }
        Path(arguments.json).write_text(json.dumps(document, indent=1) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="20,000 keys, two rounds")
    parser.add_argument("--keys", type=int, help="keys in the store (1,000,000)")
    parser.add_argument("--value-size", type=int, default=100, help="bytes of a value (100)")
    parser.add_argument("--memory", type=int, default=256, help="budget of each engine, MiB (256)")
    parser.add_argument("--reads", type=int, help="operations of a read workload (200,000 at most)")
    parser.add_argument("--syncs", type=int, help="durable puts of fillsync (4,000)")
    parser.add_argument("--rounds", type=int, help="times everything is run (3)")
    parser.add_argument("--only", help="workloads, separated by commas: " + ", ".join(WORKLOADS))
    parser.add_argument("--engines", default=",".join(ENGINES), help="separated by commas")
    parser.add_argument("--directory", help="where the stores are made (the system's temporary)")
    parser.add_argument("--json", help="write everything that was measured to this file")
    parser.add_argument("--markdown", help="write the report to this file as well")
    parser.add_argument(
        "--busy",
        action="store_true",
        help="the machine does other work: take off the time threads waited for a core",
    )
    chosen = parser.parse_args()
    chosen.keys = chosen.keys or (20_000 if chosen.quick else 1_000_000)
    chosen.syncs = chosen.syncs or (400 if chosen.quick else 4_000)
    chosen.rounds = chosen.rounds or (2 if chosen.quick else 3)
    chosen.only = chosen.only.split(",") if chosen.only else list(WORKLOADS)
    if unknown := set(chosen.only) - set(WORKLOADS):
        parser.error(f"no such workload: {', '.join(sorted(unknown))}")
    chosen.engines = [name for name in chosen.engines.split(",") if is_installed(name)]
    return chosen


def is_installed(name: str) -> bool:
    if name not in ENGINES:
        raise SystemExit(f"no such engine: {name}")
    if importlib.util.find_spec(name) is None:
        print(f"{name} is not installed: left out", file=sys.stderr)
        return False
    return True


# ------------------------------------------------------------------------------------ the engines


class Child:
    """The process of one engine: runs workloads when told to."""

    def __init__(self, engine: str, directory: str, config: Config) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(
            target=serve, args=(other, engine, directory, config), daemon=True
        )
        self._process.start()
        other.close()

    def run(self, workload: str) -> dict[str, Any]:
        self._pipe.send(workload)
        try:
            answer: dict[str, Any] = self._pipe.recv()
        except EOFError:
            self._process.join()
            raise SystemExit(f"{workload}: the engine's process died") from None
        return answer

    def end(self) -> None:
        self._pipe.send(None)
        self._process.join()


def serve(pipe: Connection, engine: str, directory: str, config: Config) -> None:
    place = Place(engine, directory, config)
    gc.freeze()
    while name := pipe.recv():
        gc.collect()
        try:
            result = WORKLOADS[name](place)
        except Exception:
            pipe.send({"failed": traceback.format_exc()})
            continue
        pipe.send(
            {
                "operations": result.operations,
                "seconds": result.seconds,
                "waited": result.waited,
                **result.extras,
            }
        )


def run(arguments: argparse.Namespace, config: Config, directory: str) -> dict[str, Any]:
    """{workload: {engine: [one dict per round]}}"""
    children = {name: Child(name, directory, config) for name in arguments.engines}
    results: dict[str, Any] = {name: {} for name in arguments.only}
    began = time.monotonic()
    for number in range(arguments.rounds):
        for workload in arguments.only:
            order = list(children)
            # Nobody is always first or last.
            order = order[number % len(order) :] + order[: number % len(order)]
            for engine in order:
                answer = children[engine].run(workload)
                if "failed" in answer:
                    print(f"{workload} on {engine} failed:\n{answer['failed']}", file=sys.stderr)
                results[workload].setdefault(engine, []).append(answer)
            last = {name: results[workload][name][-1:] for name in arguments.engines}
            line = "  ".join(
                f"{name} {show(workload, value(workload, last[name], arguments.busy))}"
                for name in arguments.engines
            )
            spent = time.monotonic() - began
            print(f"[{spent:5.0f} s] round {number + 1} {workload}: {line}", file=sys.stderr)
    for child in children.values():
        child.end()
    return results


# ------------------------------------------------------------------------------------- the report


def value(workload: str, rounds: list[dict[str, Any]], busy: bool) -> float | None:
    """Operations a second, or the seconds of an opening: the median of the rounds."""
    figures = []
    for each in rounds:
        if "failed" in each:
            return None
        seconds = each["seconds"] - (each["waited"] if busy else 0.0)
        figures.append(seconds if workload in OPENINGS else each["operations"] / seconds)
    return median(figures)


def show(workload: str, figure: float | None) -> str:
    if figure is None:
        return "failed"
    return f"{figure * 1e3:.2f} ms" if workload in OPENINGS else rate_text(figure)


def report(
    results: dict[str, Any], arguments: argparse.Namespace, config: Config, stamp: dict[str, Any]
) -> str:
    engines = arguments.engines
    versions = ", ".join(f"{name} {ENGINES[name].version()}" for name in engines)
    parts = [
        f"{config.keys:,} keys of 16 bytes, values of {config.value_bytes} bytes, "
        f"{config.memory_bytes // MIB} MiB for each engine, median of {arguments.rounds} rounds, "
        f"operations a second (openings: milliseconds).",
        f"{machine_text(stamp)}. {versions}.",
        "",
    ]
    rows = []
    for workload, by_engine in results.items():
        figures = {name: value(workload, by_engine[name], arguments.busy) for name in engines}
        rows.append(
            [
                workload,
                *(show(workload, figures[name]) for name in engines),
                *verdict(workload, figures, config),
            ]
        )
    parts.append(table(["workload", *engines, "best peer", "ours / best", "asked"], rows))
    for title, extra in (("Space and memory after fillrandom", space), ("Slow puts", slow)):
        if lines := extra(results, engines):
            parts += ["", f"{title}:", "", lines]
    return "\n".join(parts)


def verdict(
    workload: str, figures: dict[str, float | None], config: Config
) -> tuple[str, str, str]:
    """The best peer, our ratio to it, and what was asked with whether it is met."""
    peers = {name: figure for name, figure in figures.items() if name != OURS and figure}
    ours = figures.get(OURS)
    if not peers or not ours:
        return "-", "-", "-"
    if workload in OPENINGS:
        best = min(peers, key=lambda name: peers[name])
        ratio = peers[best] / ours
        if workload == "reopen_clean":
            asked, is_met = f"{REOPEN_CLEAN_SECONDS * 1e3:.0f} ms", ours <= REOPEN_CLEAN_SECONDS
        elif "rocksdict" in peers:
            asked = f"{REOPEN_UNCLEAN_TIMES_ROCKSDB} x RocksDB's"
            is_met = ours <= REOPEN_UNCLEAN_TIMES_ROCKSDB * peers["rocksdict"]
        else:
            return best, f"{ratio:.2f}", "-"
        return best, f"{ratio:.2f}", f"{asked} {'yes' if is_met else 'NO'}"
    best = max(peers, key=lambda name: peers[name])
    ratio = ours / peers[best]
    target = TARGETS.get(workload, (None, None))[0 if config.value_bytes <= 100 else 1]
    if target is None:
        return best, f"{ratio:.2f}", "-"
    return best, f"{ratio:.2f}", f"{target} {'yes' if ratio >= target else 'NO'}"


def space(results: dict[str, Any], engines: list[str]) -> str:
    rows = []
    for name in engines:
        last = results.get("fillrandom", {}).get(name, [{}])[-1]
        if not last.get("user_bytes"):
            continue
        written, peak = last["written_bytes"], last["peak_memory_bytes"]
        rows.append(
            [
                name,
                f"{last['disk_bytes'] / MIB:.1f}",
                f"{last['disk_bytes'] / last['user_bytes']:.2f}",
                "-" if written is None else f"{written / last['user_bytes']:.2f}",
                "-" if peak is None else f"{peak / MIB:.0f}",
            ]
        )
    header = ["engine", "disk MiB", "disk / data", "written / data", "peak memory MiB"]
    return table(header, rows) if rows else ""


def slow(results: dict[str, Any], engines: list[str]) -> str:
    rows = []
    for name in engines:
        rounds = [each for each in results.get("stalls", {}).get(name, []) if "p99_us" in each]
        if rounds:
            rows.append(
                [name]
                + [
                    f"{median([each[figure] for each in rounds]):.1f}"
                    for figure in ("p50_us", "p99_us", "p999_us", "longest_ms")
                ]
            )
    header = ["engine", "p50 us", "p99 us", "p99.9 us", "longest ms"]
    return table(header, rows) if rows else ""


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    main()
