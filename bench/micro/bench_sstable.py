"""SSTables, blocks, filter and cache, without the engine: nanoseconds of this thread's CPU time.

Run: python bench/micro/bench_sstable.py [--keys 1000000] [--value-bytes 100]
Each figure is the best of several rounds, measured inside the core: no Python call is in it.
"uniform" keys are those of a hashed tree (8 hash bytes, then the partition key); "decimal" ones are
text with long common beginnings, as key-value stores are usually benchmarked with.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from dynalsm._core import _testing as core

NONE, ZSTD = 0, 1
SAMPLE = 200_000
ROUNDS = 5


def uniform_keys(count: int, source: random.Random) -> list[bytes]:
    return sorted(source.randbytes(8) + b"\x00\x08user%04d" % (i % 10_000) for i in range(count))


def decimal_keys(count: int, _: random.Random) -> list[bytes]:
    return [b"%016d" % i for i in range(count)]


def best(measure: Callable[[], float]) -> float:
    return min(measure() for _ in range(ROUNDS))


def report(what: str, value: float, unit: str = "ns") -> None:
    print(f"  {what:<44} {value:>10.1f} {unit}")


def build(path: Path, keys: list[bytes], value_bytes: int, codec: int) -> dict[str, int]:
    """Write the table and report how fast. Values are half random, half text: zstd finds work."""
    pool = random.Random(2).randbytes(4096).hex().encode()
    entries = [
        (key, (i + 1) << 8 | 1, pool[i % 4096 : i % 4096 + value_bytes])
        for i, key in enumerate(keys)
    ]
    writer = core.SSTableWriter(str(path), codec=codec)
    spent = writer.add_many(entries)
    start = time.perf_counter()
    info = writer.finish()
    finish = time.perf_counter() - start
    name = "zstd" if codec else "none"
    report(f"build, codec {name}: an entry", spent / len(keys))
    report(f"build, codec {name}", info["raw_bytes"] / spent * 1e3, "MB/s")
    report(f"finish (filter, index, fdatasync), codec {name}", finish * 1e3, "ms")
    report(f"file, codec {name}", info["file_bytes"] / info["raw_bytes"], "x raw")
    return info


def measure_opening(path: Path) -> None:
    start = time.perf_counter()
    table = core.SSTable(str(path))
    opened = time.perf_counter()
    table.load()
    report("open", (opened - start) * 1e6, "us")
    report("load index and filter", (time.perf_counter() - opened) * 1e6, "us")
    report("blocks", table.block_count, "")
    report("resident bytes a block", table.memory_bytes / table.block_count, "B")


def measure_cached(path: Path, keys: list[bytes], source: random.Random) -> None:
    table = core.SSTable(str(path), cache=core.BlockCache(4 << 30))
    walk = table.source()
    report("next, block read from the page cache", walk.time_walk()[0])
    report("next, cached", best(lambda: walk.time_walk()[0]))
    report("prev, cached", best(lambda: walk.time_walk(True)[0]))
    sample = source.choices(keys, k=SAMPLE)
    absent = [key[:-1] + b"x" for key in sample]
    report("get, present, cached", best(lambda: table.time_gets(sample, 1)[0]))
    report("get, present, 100 hot keys", best(lambda: table.time_gets(sample[:100], 500)[0]))
    report("get, absent", best(lambda: table.time_gets(absent, 1)[0]))
    report("get, present, in groups of 100", best(lambda: table.time_get_many(sample, 100)))
    report("seek, cached", best(lambda: walk.time_seeks(sample[:50_000])))


def measure_uncached(path: Path, keys: list[bytes], source: random.Random, name: str) -> None:
    table = core.SSTable(str(path), cache=core.BlockCache(1 << 20))
    walk = table.source(fill_cache=False, readahead=True)
    report(f"next, reading ahead, {name}", best(lambda: walk.time_walk()[0]))
    sample = source.choices(keys, k=20_000)
    report(f"get, present, not cached, {name}", best(lambda: table.time_gets(sample, 1)[0]))
    start = time.thread_time()
    table.verify()
    report(f"verify, {name}", (time.thread_time() - start) / len(keys) * 1e9)


def measure_cache(count: int, source: random.Random) -> None:
    cache = core.BlockCache(4 << 30)
    offsets = [4096 * i for i in range(count)]
    for offset in offsets:
        cache.add(1, offset, b"x" * 64).close()
    source.shuffle(offsets)
    rounds = SAMPLE // count
    for by_hint, what in ((False, "find"), (True, "pin by hint")):

        def measure(by_hint: bool = by_hint) -> float:
            return cache.time_hits(1, offsets, rounds, by_hint)

        report(f"{what} and release, {count} blocks", best(measure))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--value-bytes", type=int, default=100)
    chosen = parser.parse_args()
    source = random.Random(1)
    print("cache")
    for count in (1000, 100_000):
        measure_cache(count, source)
    for kind, make in (("uniform", uniform_keys), ("decimal", decimal_keys)):
        keys = make(chosen.keys, source)
        print(f"{kind}: {len(keys)} keys of 16-22 bytes, values of {chosen.value_bytes} bytes")
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "table"
            for codec, name in ((ZSTD, "zstd"), (NONE, "none")):
                build(path, keys, chosen.value_bytes, codec)
                measure_uncached(path, keys, source, name)
            measure_opening(path)
            measure_cached(path, keys, source)


if __name__ == "__main__":
    main()
