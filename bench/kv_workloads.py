"""The workloads of bench/kv.py: LevelDB's db_bench verbs and what they leave out, YCSB's A to F.

A workload gets a Place (an engine, its directories, the data) and returns a Result. Everything a
workload needs (keys, values, choices) is made before its clock starts; the same for every engine.
"""

from __future__ import annotations

import gc
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common import Clock, Memory, directory_bytes, fresh_directory, settle, written_bytes
from kv_engines import ENGINES, Pair, Store

KEY_BYTES = 16
VALUE_KINDS = 997  # so many different values; a prime, so that keys and values do not march in step
SLICE = 100_000  # keys are cut out of one buffer in runs of this many
YCSB_VALUE_BYTES = 1024
YCSB_RECORDS_MAX = 250_000
ZIPF_EXPONENT = 0.99  # YCSB's
SCAN_MAX = 100  # YCSB E: entries of one scan, at most


@dataclass
class Config:
    """What all engines and workloads have in common."""

    keys: int
    value_bytes: int
    memory_bytes: int
    reads: int
    syncs: int
    seed: int = 1


@dataclass
class Result:
    """`operations` in `seconds`; `extras` are figures beside the rate."""

    operations: int
    seconds: float
    waited: float = 0.0
    extras: dict[str, Any] = field(default_factory=dict)


def key_of(number: int) -> bytes:
    return b"%016d" % number


def make_values(size: int, seed: int) -> list[bytes]:
    """Values of which a compressor can save about half."""
    source = random.Random(seed)
    half = size // 2
    return [source.randbytes(size - half) + b"abcdefgh" * (half // 8 + 1) for _ in range(997)]


class Data:
    """Keys and values of a run; the same for every engine."""

    def __init__(self, config: Config) -> None:
        self.count = config.keys
        self.values = [
            value[: config.value_bytes] for value in make_values(config.value_bytes, config.seed)
        ]
        self._sorted = b"".join(map(key_of, range(self.count)))
        order = list(range(self.count))
        random.Random(config.seed).shuffle(order)
        self._shuffled = b"".join(map(key_of, order))

    def runs(self, in_order: bool = False) -> Iterator[list[bytes]]:
        """All keys, in runs."""
        source = self._sorted if in_order else self._shuffled
        step = SLICE * KEY_BYTES
        for low in range(0, len(source), step):
            high = min(low + step, len(source))
            yield [source[at : at + KEY_BYTES] for at in range(low, high, KEY_BYTES)]

    def some_keys(self, count: int, seed: int) -> list[bytes]:
        """Random existing keys, with repetition."""
        choose = random.Random(seed).randrange
        source = self._sorted
        chosen = [choose(self.count) * KEY_BYTES for _ in range(count)]
        return [source[at : at + KEY_BYTES] for at in chosen]

    def pairs(self, keys: list[bytes]) -> list[Pair]:
        values = self.values
        return [(key, values[number % VALUE_KINDS]) for number, key in enumerate(keys)]


class Place:
    """One engine in its own directory. Lives in a process of its own."""

    def __init__(self, engine: str, directory: str, config: Config) -> None:
        self.engine = ENGINES[engine]
        self.directory = os.path.join(directory, engine)
        self.config = config
        self.data = Data(config)
        self._loaded = os.path.join(self.directory, "loaded")

    def open(self, path: str, durable: bool = False) -> Store:
        return self.engine(path, self.config.memory_bytes, durable)

    def empty(self) -> str:
        return fresh_directory(os.path.join(self.directory, "work"))

    def loaded(self) -> str:
        """A directory with every key, stored in random order; made once, never changed."""
        if not os.path.exists(self._loaded):
            path = fresh_directory(self._loaded + ".new")
            store = self.open(path)
            for keys in self.data.runs():
                pairs = self.data.pairs(keys)
                for low in range(0, len(pairs), 100):
                    store.write_many(pairs[low : low + 100])
            settle()
            store.close()
            os.rename(path, self._loaded)
        return self._loaded

    def copy(self) -> str:
        """A copy of the loaded directory, to be changed."""
        path = os.path.join(self.directory, "work")
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.loaded(), path)
        return path

    def open_warm(self, path: str) -> Store:
        """Open, read everything once (caches are as full as they get), wait for quiet."""
        store = self.open(path)
        for _ in store.chunks(1000):
            pass
        for key in self.data.some_keys(min(self.config.reads, 20_000), 99):
            store.get(key)
        settle(5)
        return store


Workload = Callable[[Place], Result]
WORKLOADS: dict[str, Workload] = {}


def workload(name: str) -> Callable[[Workload], Workload]:
    def register(function: Workload) -> Workload:
        WORKLOADS[name] = function
        return function

    return register


def finish(clock: Clock, operations: int, **extras: Any) -> Result:
    return Result(operations, clock.seconds, clock.waited, extras)


# ---------------------------------------------------------------------------------------- writing


def fill(place: Place, in_order: bool) -> Result:
    """Single puts into an empty store; with disk, write volume and memory once it is quiet."""
    values = place.data.values
    memory, before = Memory(), written_bytes()
    store, clock, path = place.open(place.empty()), Clock(), os.path.join(place.directory, "work")
    put = store.put
    for keys in place.data.runs(in_order):
        pairs = place.data.pairs(keys)
        clock.start()
        for key, value in pairs:
            put(key, value)
        clock.stop()
    settle()
    peak = memory.peak_bytes()
    store.close()
    after = written_bytes()
    user = place.data.count * (KEY_BYTES + len(values[0]))
    extras = {
        "disk_bytes": directory_bytes(path),
        "user_bytes": user,
        "peak_memory_bytes": peak,
        "written_bytes": None if after is None or before is None else after - before,
    }
    return finish(clock, place.data.count, **extras)


@workload("fillseq")
def fillseq(place: Place) -> Result:
    return fill(place, True)


@workload("fillrandom")
def fillrandom(place: Place) -> Result:
    return fill(place, False)


def fill_batches(place: Place, size: int) -> Result:
    store, clock = place.open(place.empty()), Clock()
    for keys in place.data.runs():
        pairs = place.data.pairs(keys)
        batches = [pairs[low : low + size] for low in range(0, len(pairs), size)]
        clock.start()
        for batch in batches:
            store.write_many(batch)
        clock.stop()
    store.close()
    return finish(clock, place.data.count)


@workload("fillbatch100")
def fillbatch100(place: Place) -> Result:
    return fill_batches(place, 100)


@workload("fillbatch1000")
def fillbatch1000(place: Place) -> Result:
    return fill_batches(place, 1000)


@workload("bulkload")
def bulkload(place: Place) -> Result:
    """Sorted pairs, the quickest way the engine has; durable at the end."""
    store, clock = place.open(place.empty()), Clock()
    runs = [place.data.pairs(keys) for keys in place.data.runs(True)]
    clock.start()
    store.load_sorted(pair for run in runs for pair in run)
    clock.stop()
    store.close()
    return finish(clock, place.data.count)


@workload("overwrite")
def overwrite(place: Place) -> Result:
    store, clock = place.open(place.copy()), Clock()
    put = store.put
    for keys in place.data.runs():
        random.Random(7).shuffle(keys)
        pairs = place.data.pairs(keys)
        clock.start()
        for key, value in pairs:
            put(key, value)
        clock.stop()
    store.close()
    return finish(clock, place.data.count)


@workload("stalls")
def stalls(place: Place) -> Result:
    """Overwriting all keys twice, each put timed: how long the slow ones take."""
    store, clock = place.open(place.copy()), Clock()
    put, now = store.put, time.perf_counter_ns
    latencies: list[int] = []
    note = latencies.append
    for keys in (*place.data.runs(), *place.data.runs()):
        pairs = place.data.pairs(keys)
        clock.start()
        for key, value in pairs:
            began = now()
            put(key, value)
            note(now() - began)
        clock.stop()
    store.close()
    latencies.sort()
    count = len(latencies)
    extras = {
        "p50_us": latencies[count // 2] / 1e3,
        "p99_us": latencies[count * 99 // 100] / 1e3,
        "p999_us": latencies[count * 999 // 1000] / 1e3,
        "longest_ms": latencies[-1] / 1e6,
    }
    return finish(clock, count, **extras)


@workload("deleterandom")
def deleterandom(place: Place) -> Result:
    store, clock = place.open(place.copy()), Clock()
    delete = store.delete
    for keys in place.data.runs():
        clock.start()
        for key in keys:
            delete(key)
        clock.stop()
    store.close()
    return finish(clock, place.data.count)


@workload("fillsync")
def fillsync(place: Place) -> Result:
    return fill_synced(place, 1)


@workload("fillsync_8t")
def fillsync_8t(place: Place) -> Result:
    return fill_synced(place, 8)


def fill_synced(place: Place, threads: int) -> Result:
    """Every put on stable storage before the next one of its thread."""
    count = place.config.syncs
    store = place.open(place.empty(), durable=True)
    pairs = place.data.pairs([key_of(number) for number in range(count)])

    def write(session: Store, number: int) -> None:
        put = session.put
        for key, value in pairs[number::threads]:
            put(key, value)

    seconds = in_threads(store, [write] * threads)
    store.close()
    return Result(count, seconds)


def in_threads(store: Store, works: list[Callable[[Store, int], None]]) -> float:
    """Run the functions at once, each in a thread with its own session; the seconds they took."""
    gate = threading.Barrier(len(works) + 1)
    failures: list[BaseException] = []

    def run(work: Callable[[Store, int], None], number: int) -> None:
        session = store.session() if len(works) > 1 else store
        gate.wait()
        try:
            work(session, number)
        except BaseException as error:
            failures.append(error)

    threads = [
        threading.Thread(target=run, args=(work, number)) for number, work in enumerate(works)
    ]
    for thread in threads:
        thread.start()
    gate.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    if failures:
        raise failures[0]
    return seconds


# ---------------------------------------------------------------------------------------- reading


def read_all(get: Callable[[bytes], Any], keys: list[bytes]) -> None:
    for key in keys:
        if get(key) is None:
            raise AssertionError(f"{key!r} is missing")


@workload("readrandom")
def readrandom(place: Place) -> Result:
    store, clock = place.open_warm(place.loaded()), Clock()
    keys = place.data.some_keys(place.config.reads, 2)
    clock.start()
    read_all(store.get, keys)
    clock.stop()
    store.close()
    return finish(clock, len(keys))


@workload("readrandom_snap")
def readrandom_snap(place: Place) -> Result:
    store, clock = place.open_warm(place.loaded()), Clock()
    keys = place.data.some_keys(place.config.reads, 3)
    with store.snapshot() as get:
        clock.start()
        read_all(get, keys)
        clock.stop()
    store.close()
    return finish(clock, len(keys))


@workload("readrandom_2t")
def readrandom_2t(place: Place) -> Result:
    store = place.open_warm(place.loaded())
    keys = place.data.some_keys(place.config.reads, 4)
    seconds = in_threads(
        store, [lambda session, number: read_all(session.get, keys[number::2])] * 2
    )
    store.close()
    return Result(len(keys), seconds)


@workload("readmissing")
def readmissing(place: Place) -> Result:
    """Keys that are not there, between those that are."""
    store, clock = place.open_warm(place.loaded()), Clock()
    keys = [key[:-1] + b"." for key in place.data.some_keys(place.config.reads, 5)]
    get = store.get
    clock.start()
    for key in keys:
        if get(key) is not None:
            raise AssertionError(f"{key!r} is there")
    clock.stop()
    store.close()
    return finish(clock, len(keys))


@workload("multiget100")
def multiget100(place: Place) -> Result:
    store, clock = place.open_warm(place.loaded()), Clock()
    keys = place.data.some_keys(place.config.reads, 6)
    groups = [keys[low : low + 100] for low in range(0, len(keys), 100)]
    multi_get = store.multi_get
    clock.start()
    for group in groups:
        found = multi_get(group)
        if None in found:
            raise AssertionError("a key is missing")
    clock.stop()
    store.close()
    return finish(clock, len(keys))


def walk(place: Place, reverse: bool) -> Result:
    store, clock = place.open_warm(place.loaded()), Clock()
    count = 0
    clock.start()
    for _key, _value in store.scan(reverse):
        count += 1
    clock.stop()
    store.close()
    if count != place.data.count:
        raise AssertionError(f"{count} entries instead of {place.data.count}")
    return finish(clock, count)


@workload("readseq")
def readseq(place: Place) -> Result:
    return walk(place, False)


@workload("readreverse")
def readreverse(place: Place) -> Result:
    return walk(place, True)


@workload("readchunks")
def readchunks(place: Place) -> Result:
    """Everything in lists of 1000."""
    store, clock = place.open_warm(place.loaded()), Clock()
    count = 0
    clock.start()
    for chunk in store.chunks(1000):
        count += len(chunk)
    clock.stop()
    store.close()
    if count != place.data.count:
        raise AssertionError(f"{count} entries instead of {place.data.count}")
    return finish(clock, count)


@workload("seekrandom10")
def seekrandom10(place: Place) -> Result:
    """To a random key, and the ten entries from there."""
    store, clock = place.open_warm(place.loaded()), Clock()
    keys = place.data.some_keys(place.config.reads // 4, 8)
    seek = store.seeker()
    clock.start()
    for key in keys:
        seek(key, 10)
    clock.stop()
    del seek
    gc.collect()
    store.close()
    return finish(clock, len(keys))


@workload("readwhilewriting")
def readwhilewriting(place: Place) -> Result:
    """A thread reads, another overwrites as fast as it can: both together."""
    store = place.open_warm(place.copy())
    keys = place.data.some_keys(place.config.reads, 9)
    pairs = place.data.pairs(place.data.some_keys(place.config.reads, 10))
    is_done = threading.Event()
    writes = 0

    def read(session: Store, number: int) -> None:
        try:
            read_all(session.get, keys)
        finally:
            is_done.set()

    def write(session: Store, number: int) -> None:
        nonlocal writes
        put = session.put
        while not is_done.is_set():
            for key, value in pairs:
                put(key, value)
                writes += 1
                if is_done.is_set():
                    return

    seconds = in_threads(store, [read, write])
    store.close()
    return Result(
        len(keys) + writes,
        seconds,
        extras={"reads_per_second": len(keys) / seconds, "writes_per_second": writes / seconds},
    )


# ------------------------------------------------------------------------------------------- YCSB

READ, UPDATE, INSERT, SCAN, MODIFY = range(5)
MIXES: dict[str, dict[int, float]] = {
    "A": {READ: 0.5, UPDATE: 0.5},
    "B": {READ: 0.95, UPDATE: 0.05},
    "C": {READ: 1.0},
    "D": {READ: 0.95, INSERT: 0.05},
    "E": {SCAN: 0.95, INSERT: 0.05},
    "F": {READ: 0.5, MODIFY: 0.5},
}


def ycsb_key(number: int) -> bytes:
    """Record numbers scattered over the key space, as YCSB's hashed insert order does it."""
    return b"user%019d" % (number * 0x9E3779B97F4A7C15 % (1 << 63))


def ycsb_directory(place: Place) -> tuple[str, int]:
    """A fresh copy of a store with the records; made once for each engine."""
    count = min(place.config.keys, YCSB_RECORDS_MAX)
    source = os.path.join(place.directory, "ycsb")
    if not os.path.exists(source):
        store = place.open(fresh_directory(source + ".new"))
        values = make_values(YCSB_VALUE_BYTES, 2)
        pairs = [
            (ycsb_key(number), values[number % VALUE_KINDS][:YCSB_VALUE_BYTES])
            for number in range(count)
        ]
        random.Random(3).shuffle(pairs)
        for low in range(0, count, 100):
            store.write_many(pairs[low : low + 100])
        settle()
        store.close()
        os.rename(source + ".new", source)
    path = os.path.join(place.directory, "work")
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(source, path)
    return path, count


def ycsb_operations(mix: str, records: int, count: int) -> list[tuple[int, bytes, int]]:
    """(what, key, scan length) for every operation."""
    source = random.Random(mix)
    kinds = source.choices(list(MIXES[mix]), list(MIXES[mix].values()), k=count)
    total, cumulative = 0.0, []
    for rank in range(1, records + 1):
        total += rank**-ZIPF_EXPONENT
        cumulative.append(total)
    ranks = source.choices(range(records), cum_weights=cumulative, k=count)
    scatter = list(range(records))
    source.shuffle(scatter)
    operations = []
    newest = records
    for kind, rank in zip(kinds, ranks, strict=True):
        if kind == INSERT:
            number = newest
            newest += 1
        elif mix == "D":  # the newest records are read most
            number = newest - 1 - rank
        else:
            number = scatter[rank]
        operations.append((kind, ycsb_key(number), source.randint(1, SCAN_MAX)))
    return operations


def ycsb(place: Place, mix: str) -> Result:
    path, records = ycsb_directory(place)
    count = place.config.reads // 10 if mix == "E" else place.config.reads
    operations = ycsb_operations(mix, records, count)
    value = make_values(YCSB_VALUE_BYTES, 4)[0][:YCSB_VALUE_BYTES]
    store, clock = place.open(path), Clock()
    for _ in store.chunks(1000):
        pass
    settle(5)
    get, put = store.get, store.put
    clock.start()
    for kind, key, length in operations:
        if kind == READ:
            get(key)
        elif kind == SCAN:
            store.seeker()(key, length)
        elif kind == MODIFY:
            get(key)
            put(key, value)
        else:
            put(key, value)
    clock.stop()
    gc.collect()
    store.close()
    return finish(clock, count)


for _mix in MIXES:
    workload(f"ycsb_{_mix}")(lambda place, mix=_mix: ycsb(place, mix))  # type: ignore[misc]


# ---------------------------------------------------------------------------------------- opening


@workload("reopen_clean")
def reopen_clean(place: Place) -> Result:
    """Opening after an orderly close, up to the first value read."""
    path = place.copy()
    place.open(path).close()
    return time_opening(place, path, lambda: None)


@workload("reopen_unclean")
def reopen_unclean(place: Place) -> Result:
    """Opening after SIGKILL with most of a write buffer in the log, up to the first value read."""
    source = fresh_directory(os.path.join(place.directory, "killed"))
    count = min(
        place.config.keys,
        place.config.memory_bytes // 4 * 3 // 4 // (KEY_BYTES + place.config.value_bytes + 40),
    )
    script = (
        "import sys; sys.path[:0] = sys.argv[1].split(':')\n"
        "import kv_workloads; kv_workloads.fill_and_die(*sys.argv[2:])"
    )
    child = subprocess.run(
        [
            sys.executable,
            "-c",
            script,
            ":".join([str(Path(__file__).parent), *sys.path]),
            place.engine.name,
            source,
            str(place.config.memory_bytes),
            str(count),
            str(place.config.value_bytes),
        ],
        check=False,
    )
    if child.returncode != -signal.SIGKILL:
        raise AssertionError(f"the writer ended with {child.returncode}")
    path = os.path.join(place.directory, "work")

    def restore() -> None:
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(source, path)

    result = time_opening(place, path, restore, key_of(count - 1))
    result.extras["entries_in_log"] = count
    return result


def fill_and_die(engine: str, path: str, memory: str, count: str, value_bytes: str) -> None:
    """Body of the process that is killed: acknowledged puts, then SIGKILL."""
    store = ENGINES[engine](path, int(memory))
    values = make_values(int(value_bytes), 1)
    for number in range(int(count)):
        store.put(key_of(number), values[number % VALUE_KINDS][: int(value_bytes)])
    os.kill(os.getpid(), signal.SIGKILL)


def time_opening(
    place: Place, path: str, prepare: Callable[[], None], key: bytes | None = None
) -> Result:
    """Median of seven openings."""
    key = key or place.data.some_keys(1, 11)[0]
    times = []
    for _ in range(7):
        prepare()
        gc.collect()
        began = time.perf_counter()
        store = place.open(path)
        value = store.get(key)
        times.append(time.perf_counter() - began)
        store.close()
        if value is None:
            raise AssertionError(f"{key!r} is missing after opening")
    times.sort()
    return Result(1, times[len(times) // 2])
