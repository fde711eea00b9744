"""A random single-threaded workload on the engine, in step with the plain model.

`Workload` drives an Engine and a MemoryEngine together and knows at each moment what has been
acknowledged; checks.py holds what a crash left against that.

A step that fails with a StorageError is allowed when `tolerates` is set: then the model follows
what the engine shows (all of the commit or nothing), and what is left open (a change of trees)
is settled at the next reopen.
"""

from __future__ import annotations

import contextlib
import copy
import os
import random
import shutil
from collections.abc import Callable
from typing import Any

from dynalsm import errors
from dynalsm._core import Engine, split
from tests.crash.checks import (
    Acknowledged,
    World,
    difference,
    find_world,
    with_doubtful,
    with_tree,
)
from tests.support.memory_engine import _DELETED, MemoryEngine, MemoryTree

# So small that a few hundred commits flush, compact and split many times.
TINY = {
    "memory_bytes": 4 << 20,
    "write_buffer_bytes": 6_000,
    "block_bytes": 256,
    "target_file_bytes": 3_000,
    "partition_limit_bytes": 8_000,
    "max_open_files": 8,
    "background": False,
}
# Of runs on an encrypted database.
KEY = bytes(range(32))
PREFIXES = [bytes([first]) * 8 for first in (0x00, 0x3F, 0x40, 0x80, 0xFF)]
NAMES = ["raw", "hash", "raw2", "hash2", "h3"]


def ignore(_: Acknowledged) -> None:
    pass


class Workload:
    """See the module's docstring. Deterministic for a seed (without background threads)."""

    def __init__(self, path: str, seed: int, *, tolerates: bool = False, **options: Any) -> None:
        self.path = path
        self.rng = random.Random(seed)
        self.tolerates = self.tolerates_reads = tolerates
        self.options = {**TINY, **options}
        self.model = MemoryEngine()
        self.worlds: list[World] = [{}]
        self.boundaries = [0]
        self.acknowledged = Acknowledged()
        self.on_acknowledge: Callable[[Acknowledged], None] = ignore
        self.snapshots: list[tuple[Any, Any]] = []
        self.failures: list[errors.StorageError | MemoryError] = []
        # Trees that a failed change may have made, dropped or loaded: not touched until a reopen
        # has shown what is there. Name -> the tree as it may be instead (None: it may be gone).
        self.doubtful: dict[str, MemoryTree | None] = {}
        self.doubtful_seqnos: set[int] = set()
        self.has_crashed = False
        self.ingested = 0
        self.engine: Engine | None = None

    # ---- running ----

    def run(self, steps: int) -> None:
        """Open, do so many random steps, close."""
        self.open()
        for _ in range(steps):
            self.step()
        self.close()

    def step(self) -> None:
        """One random step; opens the engine first if it is not open."""
        if self.engine is None:
            self.open()
            if self.engine is None:
                return
        dice = self.rng.random()
        for share, action in (
            (0.64, self.write),
            (0.67, self.flush),
            (0.70, self.compact),
            (0.72, self.split),
            (0.77, self.create_tree),
            (0.80, self.drop_tree),
            (0.83, self.ingest),
            (0.86, self.take_snapshot),
            (0.88, self.drop_snapshots),
            (0.95, self.read),
            (0.96, self.checkpoint),
            (1.00, self.reopen),
        ):
            if dice < share:
                action()
                return

    def attempt(self, action: Callable[[], Any]) -> bool:
        """Run it; False when it failed and may."""
        try:
            action()
        except (errors.StorageError, MemoryError) as error:
            if not self.tolerates:
                raise
            self.failures.append(error)
            return False
        return True

    @property
    def live(self) -> Engine:
        """The open engine."""
        assert self.engine is not None
        return self.engine

    # ---- opening and closing ----

    def open(self) -> None:
        def opens() -> None:
            self.engine = Engine.open(self.path, **self.options)

        if self.attempt(opens):
            self.follow()

    def follow(self) -> None:
        """After an open: take over what was left open, and compare everything."""
        engine = self.live
        seqno = engine.last_seqno
        if seqno in self.doubtful_seqnos and seqno > self.model.last_seqno:
            self.model.last_seqno = seqno
            self.boundaries.append(seqno)
        self.doubtful_seqnos.clear()
        assert self.acknowledged.seqno <= seqno <= self.model.last_seqno, (
            self.acknowledged.seqno,
            seqno,
            self.model.last_seqno,
        )
        assert seqno in self.boundaries, "half a commit"
        if self.has_crashed:
            self.follow_crash(seqno)
        self.settle_doubtful(seqno)
        self.forget_after(seqno)
        self.acknowledge(seqno)  # what recovery has shown is durable
        self.read()

    def follow_crash(self, seqno: int) -> None:
        """Which of the worlds that may be there is there."""
        self.has_crashed = False
        least = self.acknowledged.worlds
        number = find_world(self.live, self.worlds[least : least + 2], seqno)
        del self.worlds[least + number + 1 :]
        self.model._trees = dict(self.worlds[-1])

    def settle_doubtful(self, seqno: int) -> None:
        """Which of the failed changes have come about."""
        if not self.doubtful:
            return
        before = self.model._trees
        possible = with_doubtful([before], self.doubtful)
        number = find_world(self.live, possible, seqno)
        self.doubtful.clear()
        if possible[number] != before:
            self.model._trees = possible[number]
            self.worlds.append(dict(possible[number]))

    def forget_after(self, seqno: int) -> None:
        """Commits that failed and are gone: the model forgets them."""
        self.model.last_seqno = seqno
        self.boundaries = [each for each in self.boundaries if each <= seqno]
        for tree in {id(t): t for world in self.worlds for t in world.values()}.values():
            for versions in tree._versions.values():
                versions[:] = [each for each in versions if each[0] <= seqno]

    def resumed(self, least: Acknowledged) -> Workload:
        """A copy that goes on after a crash, at which so much had been acknowledged."""
        assert self.engine is None
        assert not self.snapshots
        self.on_acknowledge = ignore
        fresh = copy.deepcopy(self, {id(_DELETED): _DELETED})
        fresh.acknowledged = Acknowledged(least.seqno, least.worlds)
        fresh.has_crashed = True
        return fresh

    def close(self) -> None:
        engine = self.engine
        if engine is None:
            return
        self.drop_snapshots()
        self.engine = None
        seqno = engine.last_seqno
        # A close that works has made everything durable, unless writes were refused before.
        if self.attempt(engine.close) and engine.durable_seqno >= seqno:
            self.acknowledge(seqno)
        assert engine.closed

    def abandon(self) -> None:
        """Close the engine somehow, so that it does nothing more to the directory."""
        if self.engine is not None:
            with contextlib.suppress(errors.StorageError):
                self.engine.close()
            self.engine = None

    def reopen(self) -> None:
        if "encryption_key" in self.options and self.rng.random() < 0.5:
            self.attempt(self.live.rotate_data_key)
        self.close()
        self.open()

    # ---- commits ----

    def usable(self) -> list[str]:
        """Names of the trees that are not in doubt."""
        return sorted(set(self.model._trees) - set(self.doubtful))

    def write(self) -> None:
        names = self.usable()
        if not names:
            self.create_tree()
            return
        engine, rng = self.live, self.rng
        batch, twin = engine.batch(), self.model.batch()
        for _ in range(rng.choice([1, 1, 2, 5, 20])):
            name = rng.choice(names)
            self.add_entry(batch, twin, engine.tree(name), self.model.tree(name))
        if not len(batch):
            return
        sync = rng.choice([None, None, True, False])
        waits = sync is True or (sync is None and engine.durability == "commit")
        before = engine.last_seqno
        assert before == self.model.last_seqno
        seqno = before + len(batch)
        done = self.attempt(lambda: engine.write(batch, sync=sync))
        after = engine.last_seqno
        assert after in ((seqno,) if done else (before, seqno)), (before, seqno, after)
        if after == seqno:
            assert self.model.commit(twin) == seqno
            self.boundaries.append(seqno)
        if done and waits:
            assert engine.durable_seqno >= seqno
            self.acknowledge(seqno)

    def key(self, hashed: bool) -> bytes:
        rng = self.rng
        key = b"%d" % rng.randrange(150)
        if rng.random() < 0.2:
            key += rng.randbytes(rng.randrange(4))
        return rng.choice(PREFIXES) + key if hashed else key

    def value(self) -> bytes:
        rng = self.rng
        size = rng.choice([0, 5, 40, 40, 40, 300, 5000])
        return rng.randbytes(min(size, 40)) * max(1, size // 40) if size else b""

    def add_entry(self, batch: Any, twin: Any, tree: Any, model: MemoryTree) -> None:
        rng = self.rng
        key, dice = self.key(model.hashed), rng.random()
        if dice < 0.68:
            value = self.value()
            batch.put(tree, key, value)
            twin.put(model, key, value)
        elif dice < 0.88:
            batch.delete(tree, key)
            twin.delete(model, key)
        elif dice < 0.95:
            batch.put_stamped(tree, key, b"sfx", b"v")
            twin.put_stamped(model, key, b"sfx", b"v")
        else:
            lower, upper = sorted((key, self.key(model.hashed)))
            if lower < upper:
                batch.delete_range(tree, lower, upper)
                twin.delete_range(model, lower, upper)

    def acknowledge(self, seqno: int) -> None:
        """Everything up to `seqno`, and the world as it is, may be relied on."""
        worlds = len(self.worlds) - 1
        if seqno > self.acknowledged.seqno or worlds > self.acknowledged.worlds:
            self.acknowledged = Acknowledged(max(seqno, self.acknowledged.seqno), worlds)
            self.on_acknowledge(self.acknowledged)

    # ---- changes of the world ----

    def create_tree(self) -> None:
        name = self.rng.choice(NAMES)
        if name in self.model._trees or name in self.doubtful:
            return
        engine, hashed = self.live, name.startswith("h")
        parts = self.rng.choice([1, 2, 4]) if hashed else 1
        self.change_world(
            name,
            MemoryTree(self.model, name, hashed),
            lambda: engine.create_tree(name, hashed=hashed, partitions=parts),
        )

    def drop_tree(self) -> None:
        names = self.usable()
        if len(names) > 1:
            engine, name = self.live, self.rng.choice(names)
            self.change_world(name, None, lambda: engine.drop_tree(name))

    def change_world(
        self, name: str, tree: MemoryTree | None, action: Callable[[], Any], moves: int = 0
    ) -> None:
        """Run what replaces one tree by `tree`; `moves`: it takes so many sequence numbers."""
        after = with_tree(self.model._trees, name, tree)
        before = self.live.last_seqno
        if moves:
            self.boundaries.append(before + moves)
        self.worlds.append(after)  # before it is done: a crash may leave it
        done = self.attempt(action)
        self.model.last_seqno = self.live.last_seqno
        assert self.model.last_seqno - before in ((moves,) if done else (0, moves))
        if done:
            self.drop_snapshots()
            self.model._trees = after
            self.acknowledge(self.model.last_seqno if moves else 0)
        else:
            self.worlds.pop()
            self.doubtful[name] = tree
            if moves and self.model.last_seqno == before:
                self.boundaries.pop()
                # An ingest's commit is a few zero bytes: a failed write of them is none.
                self.doubtful_seqnos = {before + moves}
            assert set(self.live.tree_names()) == set(self.model._trees)

    def ingest(self) -> None:
        names = self.usable()
        if not names:
            return
        engine, name = self.live, self.rng.choice(names)
        old = self.model.tree(name)
        new = MemoryTree(self.model, name, old.hashed)
        new._versions = {key: list(versions) for key, versions in old._versions.items()}
        new._sorted = list(old._sorted)
        self.ingested += 1
        keys = sorted({self.key(old.hashed) for _ in range(self.rng.choice([1, 5, 60]))})
        entries = [(key, b"ingested %d" % self.ingested) for key in keys]
        for key, value in entries:
            new._apply(engine.last_seqno + 1, key, value)
        self.change_world(name, new, lambda: engine.ingest(engine.tree(name), entries), moves=1)

    # ---- the rest ----

    def flush(self) -> None:
        seqno = self.live.last_seqno
        if self.attempt(self.live.flush):
            self.acknowledge(seqno)

    def compact(self) -> None:
        self.attempt(self.live.compact)

    def split(self) -> None:
        self.attempt(lambda: split.split_once(self.live))
        self.attempt(lambda: split.release_retired(self.live))

    def checkpoint(self) -> None:
        target = self.path + "-checkpoint"
        shutil.rmtree(target, ignore_errors=True)
        engine, seqno = self.live, self.live.last_seqno
        if not self.attempt(lambda: engine.checkpoint(target)):
            return
        try:
            copied = Engine.open(target, **self.options)
            assert copied.last_seqno == seqno
            find_world(copied, [self.model._trees], seqno)
            copied.close()
        except errors.StorageIOError:
            if not self.tolerates:
                raise
        shutil.rmtree(target)
        assert os.path.isdir(self.path)

    def take_snapshot(self) -> None:
        if len(self.snapshots) < 3:
            self.snapshots.append((self.live.snapshot(), self.model.snapshot()))

    def drop_snapshots(self) -> None:
        for snapshot, _ in self.snapshots:
            snapshot.close()
        self.snapshots.clear()

    def read(self) -> None:
        if self.tolerates_reads:
            self.attempt(self.compare)
        else:
            self.compare()

    def compare(self) -> None:
        """Everything readable agrees with the model, now and at the snapshots."""
        names = set(self.live.tree_names())
        assert names == set(self.model._trees), (names, sorted(self.model._trees))
        for name, model in self.model._trees.items():
            tree = self.live.tree(name)
            compare_tree(tree, model, self.rng)
            for snapshot, twin in self.snapshots:
                wanted = list(model.cursor(snapshot=twin))
                found = list(tree.cursor(snapshot=snapshot))
                assert found == wanted, difference(tree, found, wanted)


def compare_tree(tree: Any, model: MemoryTree, rng: random.Random) -> None:
    """Scans both ways and some gets."""
    wanted = list(model.cursor())
    found = tree.cursor().next_chunk(1 << 30)
    assert found == wanted, difference(tree, found, wanted)
    backwards = tree.cursor(reverse=True).next_chunk(1 << 30)[::-1]
    assert backwards == wanted, difference(tree, backwards, wanted)
    for key in rng.sample(model._sorted, min(12, len(model._sorted))):
        assert tree.get(key) == model.get(key), (tree.name, key)
