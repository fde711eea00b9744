"""Writers that are killed: a process that forks them, and the two kinds of writers.

A Nursery is a child process that has everything imported; on request it forks a writer, which opens
the database and writes with several threads until somebody kills it. What a thread has
acknowledged, it notes in a file of its own; the page cache keeps that when the writer dies.

An `EngineActor` writes batches over several trees; an `items.Actor` writes to a table. Both are
deterministic, so the process that checks knows what the first n operations leave.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import pkgutil
import random
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dynalsm._core import Engine
from tests.crash.items import Actor, check_items, open_items
from tests.crash.workload import KEY
from tests.support.processes import environment

ROOT = Path(__file__).resolve().parents[2]
COUNT = struct.Struct("<Q")

OPTIONS = {
    "memory_bytes": 4 << 20,
    "write_buffer_bytes": 15_000,
    "block_bytes": 256,
    "target_file_bytes": 8_000,
    "partition_limit_bytes": 60_000,
    "max_open_files": 16,
}
TREES = {"counters": False, "log": False, "raw": False, "hash": True}


class EngineActor:
    """One thread's batches. Each counts itself, logs itself, and changes some keys of its own."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.prefix = name.encode()
        self.rng = random.Random(f"{name} {seed}")
        self.count = 0
        self.data: dict[tuple[str, bytes], bytes] = {}

    def next_batch(self) -> list[tuple[Any, ...]]:
        """Make up the next batch: (method of Batch, tree, arguments...)."""
        rng = self.rng
        self.count += 1
        number = b"%d" % self.count
        entries: list[tuple[Any, ...]] = [
            ("put", "counters", self.prefix, number),
            ("put_stamped", "log", self.prefix + b"-", b"", number),
        ]
        for _ in range(rng.choice([1, 2, 2, 10])):
            name = rng.choice(["raw", "hash"])
            key = self.key(name)
            dice = rng.random()
            if dice < 0.7:
                value = rng.randbytes(20) * rng.choice([1, 1, 5, 40])
                entries.append(("put", name, key, value))
                self.data[name, key] = value
            elif dice < 0.9:
                entries.append(("delete", name, key))
                self.data.pop((name, key), None)
            else:
                # In the hash tree the keys of all actors lie between each other.
                lower, upper = sorted((key, self.key(name)))
                if name == "hash":
                    lower, upper = key, key + b"\xff"
                if lower < upper:
                    entries.append(("delete_range", name, lower, upper))
                    for place in [each for each in self.data if each[0] == name]:
                        if lower <= place[1] < upper:
                            del self.data[place]
        return entries

    def key(self, name: str) -> bytes:
        number = self.rng.randrange(100)
        if name == "raw":
            return self.prefix + b"%03d" % number
        return bytes([number * 2]) + self.prefix.ljust(7, b"\0")

    def run_one(self, engine: Engine) -> None:
        """The next batch; returns when it is acknowledged."""
        batch = engine.batch()
        for method, name, *arguments in self.next_batch():
            getattr(batch, method)(engine.tree(name), *arguments)
        engine.write(batch)


def check_engine(engine: Engine, bounds: list[tuple[EngineActor, int]]) -> list[int]:
    """Each actor's batches are there up to some number, not below its bound, and wholly.

    The actors are moved to what was found. Returns: the numbers."""
    found = {
        name: dict(engine.tree(name).cursor()) if name in engine.tree_names() else {}
        for name in TREES
    }
    counts = []
    for actor, least in bounds:
        count = int(found["counters"].pop(actor.prefix, b"0"))
        # One batch may be done and not yet noted.
        assert least <= count <= least + 1, f"{actor.name}: {least} acknowledged, {count} found"
        while actor.count < count:
            actor.next_batch()
        logged = take(found["log"], actor.prefix + b"-")
        assert list(logged.values()) == [b"%d" % number for number in range(1, count + 1)]
        data = {
            (name, key): value
            for name, place in (("raw", 0), ("hash", 1))
            for key, value in take(found[name], actor.prefix, place).items()
        }
        assert data == actor.data, f"{actor.name}: not what the first {count} batches leave"
        counts.append(count)
    assert not any(found.values()), "keys of nobody"
    for name in engine.tree_names():
        tree = engine.tree(name)
        assert list(tree.cursor(reverse=True)) == list(tree.cursor())[::-1]
    return counts


def take(entries: dict[bytes, bytes], prefix: bytes, place: int = 0) -> dict[bytes, bytes]:
    """Take the entries whose keys hold the prefix at that place out of the dict."""
    taken = {key: value for key, value in entries.items() if key.startswith(prefix, place)}
    for key in taken:
        del entries[key]
    return taken


# ---- the writer ----


def write_until_killed(job: dict[str, Any]) -> None:
    """Open the database and let every actor write."""
    actors = pickle.loads(Path(job["actors"]).read_bytes())
    key = KEY if job["is_encrypted"] else None
    if job["kind"] == "items":
        database = open_items(job["path"], durability=job["durability"], encryption_key=key)
        bothers: list[Callable[[], Any]] = [database.flush, database.compact]
        if key is not None:
            bothers.append(database.rotate_data_key)
        target: Any = database
    else:
        engine = Engine.open(
            job["path"], durability=job["durability"], encryption_key=key, **OPTIONS
        )
        for name, hashed in TREES.items():
            if name not in engine.tree_names():
                engine.create_tree(name, hashed=hashed)
        target = engine
        bothers = [engine.flush, engine.compact, lambda: bother_trees(engine)]
        bothers += [lambda: check_snapshot(engine), lambda: bother_checkpoint(engine, key)]
        if key is not None:
            bothers.append(engine.rotate_data_key)
    threads = [
        threading.Thread(target=write_forever, args=(actor, target, f"{job['notes']}-{number}"))
        for number, actor in enumerate(actors)
    ]
    for thread in threads:
        thread.start()
    chance = random.Random(job["seed"])
    while True:
        time.sleep(chance.uniform(0, 0.02))
        chance.choice(bothers)()


def write_forever(actor: Any, target: Any, notes: str) -> None:
    note = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        while True:
            actor.run_one(target)
            os.write(note, COUNT.pack(actor.count))
    except BaseException:
        fail()


def bother_trees(engine: Engine) -> None:
    """Trees come and go beside the writers."""
    if "passing" in engine.tree_names():
        engine.drop_tree("passing")
    else:
        tree = engine.create_tree("passing", hashed=True)
        for number in range(20):
            tree.put(bytes([number * 12]) * 8, b"x" * 200, sync=False)


def bother_checkpoint(engine: Engine, key: bytes | None) -> None:
    """A checkpoint is a database of its own: whole batches only."""
    target = f"{engine.path}-copy-{os.getpid()}"
    engine.checkpoint(target)
    copy = Engine.open(target, encryption_key=key, **OPTIONS, background=False)
    check_whole(copy, None)
    copy.close()
    shutil.rmtree(target, ignore_errors=True)


def check_snapshot(engine: Engine) -> None:
    """At any moment the counters agree with the log."""
    with engine.snapshot() as snapshot:
        check_whole(engine, snapshot)


def check_whole(engine: Engine, snapshot: Any) -> None:
    logged: dict[bytes, list[bytes]] = {}
    for key, value in engine.tree("log").cursor(snapshot=snapshot):
        logged.setdefault(key.partition(b"-")[0], []).append(value)
    counters = dict(engine.tree("counters").cursor(snapshot=snapshot))
    assert set(counters) == set(logged)
    for name, numbers in logged.items():
        assert numbers == [b"%d" % number for number in range(1, int(counters[name]) + 1)]


def fail() -> None:
    """End the process at once, and say why."""
    with open(os.environ["DYNALSM_KILL_COMPLAINTS"], "a") as file:
        traceback.print_exc(file=file)
    os._exit(1)


# ---- the nursery ----


def nursery() -> None:
    """Fork a writer for each line of JSON on stdin, say its pid; a line "wait" waits for it."""
    pid = 0
    for line in sys.stdin:
        if line == "wait\n":
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
            continue
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os.environ["DYNALSM_KILL_COMPLAINTS"] = job["complaints"]
            try:
                pkgutil.resolve_name(job.get("run", "tests.crash.kill:write_until_killed"))(job)
            except BaseException:
                fail()
        print(pid, flush=True)


class Nursery:
    """Starts writers and kills them. Use it as a context manager."""

    def __init__(self, work: str) -> None:
        self.work = work
        self.complaints = os.path.join(work, "complaints")

    def __enter__(self) -> Nursery:
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from tests.crash.kill import nursery; nursery()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**environment(), "PYTHONPATH": f"{environment()['PYTHONPATH']}:{ROOT}"},
        )
        return self

    def __exit__(self, *exc: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=20)
        self.process.kill()
        self.process.wait()

    def run(self, job: dict[str, Any], seconds: float) -> None:
        """Start a writer and kill it after so long. AssertionError when it failed by itself."""
        pid = self.start(job)
        time.sleep(seconds)
        self.kill(pid)

    def start(self, job: dict[str, Any]) -> int:
        """Start a writer; `run` in the job names another function than the one here.

        Returns: its pid. It must be killed before another one is started.
        """
        return int(self._ask(json.dumps({**job, "complaints": self.complaints})))

    def kill(self, pid: int) -> None:
        """Kill the writer and wait for its end. AssertionError when it failed by itself."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        status = int(self._ask("wait"))
        if status != -signal.SIGKILL:
            complaints = Path(self.complaints)
            text = complaints.read_text() if complaints.exists() else "no complaint"
            raise AssertionError(f"the writer ended with {status}: {text}")

    def _ask(self, line: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()


class Campaign:
    """Rounds of writing, killing and checking in one database after the other."""

    # A database is used for so many rounds: its history is checked whole each time.
    ROUNDS_EACH = 8
    ACTORS = 4

    def __init__(
        self, work: str, kind: str, seed: int, encryption_key: bytes | None = None
    ) -> None:
        self.work, self.kind, self.seed, self.key = work, kind, seed, encryption_key
        self.chance = random.Random(f"{kind} {seed}")
        self.kills = self.recoveries = self.operations = 0
        self.rounds = 0
        self.actors: list[Any] = []
        self.path = ""

    def begin(self) -> None:
        """A new database."""
        if self.path:
            shutil.rmtree(self.path, ignore_errors=True)
        self.path = os.path.join(self.work, f"db{self.rounds}")
        make: Any = Actor if self.kind == "items" else EngineActor
        self.actors = [
            make(f"w{number}", self.seed * 1000 + self.rounds) for number in range(self.ACTORS)
        ]
        self.durability = self.chance.choice(["commit", "os", "interval"])

    def round(self, nursery: Nursery) -> None:
        """Write and kill once, kill some recoveries, check."""
        if self.rounds % self.ROUNDS_EACH == 0:
            self.begin()
        self.rounds += 1
        before = [actor.count for actor in self.actors]
        job = self.job()
        nursery.run(job, self.chance.uniform(0.03, 0.25))
        self.kills += 1
        least = [self.noted(job, number) or before[number] for number in range(len(before))]
        for _ in range(self.chance.choice([0, 0, 1, 2])):
            # No actors: this process opens, recovers, and flushes and compacts what it finds.
            nursery.run({**job, "actors": self.pickled([])}, self.chance.uniform(0, 0.03))
            self.recoveries += 1
        self.check(least)
        self.operations += sum(actor.count for actor in self.actors) - sum(before)
        for leftover in Path(self.work).glob("*-copy-*"):
            shutil.rmtree(leftover, ignore_errors=True)

    def job(self) -> dict[str, Any]:
        notes = os.path.join(self.work, f"notes{self.rounds}")
        for number in range(len(self.actors)):
            Path(f"{notes}-{number}").unlink(missing_ok=True)
        return {
            "kind": self.kind,
            "path": self.path,
            "durability": self.durability,
            "actors": self.pickled(self.actors),
            "notes": notes,
            "seed": self.rounds,
            "is_encrypted": self.key is not None,
        }

    def pickled(self, actors: list[Any]) -> str:
        path = os.path.join(self.work, f"actors{len(actors)}")
        Path(path).write_bytes(pickle.dumps(actors))
        return path

    @staticmethod
    def noted(job: dict[str, Any], number: int) -> int:
        """How many operations the writer's thread had acknowledged."""
        path = Path(f"{job['notes']}-{number}")
        data = path.read_bytes() if path.exists() else b""
        path.unlink(missing_ok=True)
        return COUNT.unpack_from(data, len(data) // 8 * 8 - 8)[0] if len(data) >= 8 else 0

    def check(self, least: list[int]) -> None:
        """Open what is left; move the actors to what is there."""
        if not os.path.isdir(self.path):
            assert not any(least)
            return
        if self.kind == "engine":
            engine = Engine.open(self.path, encryption_key=self.key, **OPTIONS)
            try:
                check_engine(engine, list(zip(self.actors, least, strict=True)))
            finally:
                engine.close()
            return
        database = open_items(self.path, encryption_key=self.key)
        try:
            for actor, count in zip(self.actors, least, strict=True):
                actor.skip(count)
            ahead = [pickle.loads(pickle.dumps(actor)) for actor in self.actors]
            for actor in ahead:
                actor.skip(actor.count + 1)
            bounds = [(actor, count, count + 1) for actor, count in zip(ahead, least, strict=True)]
            for number, count in enumerate(check_items(database, bounds)):
                self.actors[number].skip(count)
        finally:
            database.close()
