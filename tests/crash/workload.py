"""A random single-threaded workload on the engine, in step with the plain model.

`Workload` drives an Engine and a MemoryEngine together and knows at each moment what has been
acknowledged; `check_state` opens a directory that a crash left and holds it against that: every
acknowledged commit is there, what is there is exactly the first so many commits, and the trees
are those that were created and not dropped.

A step that fails with a StorageError is allowed when `tolerates` is set: then the model follows
what the engine shows (all of the commit or nothing), and what is left open (a change of trees)
is settled at the next reopen.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

from dynalsm import errors
from dynalsm._core import Engine
from tests.support.memory_engine import _DELETED, MemoryEngine, MemoryTree

# So small that a few hundred commits flush and compact many times.
TINY = {
    "memory_bytes": 4 << 20,
    "write_buffer_bytes": 6_000,
    "block_bytes": 256,
    "target_file_bytes": 3_000,
    "max_open_files": 8,
    "background": False,
}
PREFIXES = [bytes([first]) * 8 for first in (0x00, 0x3F, 0x40, 0x80, 0xFF)]


class Trees:
    """Which trees there are after each change of trees, in order."""

    def __init__(self) -> None:
        self.after: list[dict[str, MemoryTree]] = [{}]

    def add(self, names: dict[str, MemoryTree]) -> None:
        self.after.append(dict(names))


class Acknowledged:
    """What the caller may rely on: a lower bound for what a crash leaves."""

    def __init__(self, seqno: int = 0, trees: int = 0) -> None:
        self.seqno = seqno  # every commit up to here is durable
        self.trees = trees  # so many changes of trees are durable

    def pack(self) -> bytes:
        return json.dumps([self.seqno, self.trees]).encode()

    @classmethod
    def unpack(cls, data: bytes) -> Acknowledged:
        return cls(*json.loads(data))


def ignore(_: Acknowledged) -> None:
    pass


class Workload:
    """See the module's docstring. Deterministic for a seed (without background threads)."""

    def __init__(self, path: str, seed: int, *, tolerates: bool = False, **options: Any) -> None:
        self.path = path
        self.rng = random.Random(seed)
        self.tolerates = tolerates
        self.options = {**TINY, **options}
        self.model = MemoryEngine()
        self.trees = Trees()
        self.boundaries = [0]
        self.acknowledged = Acknowledged()
        self.on_acknowledge: Callable[[Acknowledged], None] = ignore
        self.snapshots: list[tuple[Any, Any]] = []
        self.failures: list[errors.StorageError | MemoryError] = []
        # Changes of trees whose outcome is not known: name -> "create" or "drop".
        self.doubtful: dict[str, str] = {}
        self.has_crashed = False
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
            (0.66, self.write),
            (0.70, self.flush),
            (0.73, self.compact),
            (0.78, self.create_tree),
            (0.81, self.drop_tree),
            (0.85, self.take_snapshot),
            (0.88, self.drop_snapshots),
            (0.96, self.read),
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

    def open(self) -> None:
        def opens() -> None:
            self.engine = Engine.open(self.path, **self.options)

        if self.attempt(opens):
            self.follow()

    def follow(self) -> None:
        """After an open: take over what was left open, and compare everything."""
        assert self.engine is not None
        names = set(self.engine.tree_names())
        if self.has_crashed:
            self.follow_crash(names)
        for name, change in self.doubtful.items():
            if change == "create" and name in names:
                self.model.create_tree(name, hashed=name.startswith("h"))
            elif change == "drop" and name not in names:
                self.model.drop_tree(name)
        if self.doubtful:
            self.doubtful.clear()
            self.trees.add(self.model._trees)
        seqno = self.engine.last_seqno
        assert self.acknowledged.seqno <= seqno <= self.model.last_seqno, (
            self.acknowledged.seqno,
            seqno,
            self.model.last_seqno,
        )
        assert seqno in self.boundaries, "half a commit"
        self.forget_after(seqno)
        self.acknowledge(seqno)  # what recovery has shown is durable
        self.compare()

    def resumed(self, least: Acknowledged) -> Workload:
        """A copy that goes on after a crash, at which so much had been acknowledged."""
        assert self.engine is None
        assert not self.snapshots
        self.on_acknowledge = ignore
        fresh = copy.deepcopy(self, {id(_DELETED): _DELETED})
        fresh.acknowledged = Acknowledged(least.seqno, least.trees)
        fresh.has_crashed = True
        return fresh

    def follow_crash(self, names: set[str]) -> None:
        """Which of the trees that may be there are there."""
        self.has_crashed = False
        least = self.acknowledged.trees
        for number in (least, least + 1):
            if number < len(self.trees.after) and set(self.trees.after[number]) == names:
                del self.trees.after[number + 1 :]
                self.model._trees = dict(self.trees.after[number])
                return
        raise AssertionError(f"the trees are {sorted(names)}")

    def forget_after(self, seqno: int) -> None:
        """Commits that failed and are gone: the model forgets them."""
        self.model.last_seqno = seqno
        self.boundaries = [each for each in self.boundaries if each <= seqno]
        for tree in {id(t): t for names in self.trees.after for t in names.values()}.values():
            for versions in tree._versions.values():
                versions[:] = [each for each in versions if each[0] <= seqno]

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

    # ---- steps ----

    def write(self) -> None:
        assert self.engine is not None
        if not self.model._trees:
            self.create_tree()
            return
        rng = self.rng
        batch, twin = self.engine.batch(), self.model.batch()
        for _ in range(rng.choice([1, 1, 2, 5, 20])):
            name = rng.choice(sorted(self.model._trees))
            self.add_entry(batch, twin, self.engine.tree(name), self.model.tree(name))
        if not len(batch):
            return
        sync = rng.choice([None, None, True, False])
        waits = sync is True or (sync is None and self.engine.durability == "commit")
        before = self.engine.last_seqno
        assert before == self.model.last_seqno
        seqno = before + len(batch)
        done = self.attempt(lambda: self.engine.write(batch, sync=sync))
        after = self.engine.last_seqno
        assert after in ((seqno,) if done else (before, seqno)), (before, seqno, after)
        if after == seqno:
            assert self.model.commit(twin) == seqno
            self.boundaries.append(seqno)
        if done and waits:
            assert self.engine.durable_seqno >= seqno
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
        if seqno > self.acknowledged.seqno or self.trees_acknowledged() > self.acknowledged.trees:
            self.acknowledged = Acknowledged(
                max(seqno, self.acknowledged.seqno), self.trees_acknowledged()
            )
            self.on_acknowledge(self.acknowledged)

    def trees_acknowledged(self) -> int:
        return len(self.trees.after) - 1

    def create_tree(self) -> None:
        assert self.engine is not None
        name = self.rng.choice(["raw", "hash", "raw2", "hash2", "h3"])
        if name in self.model._trees or self.doubtful.get(name):
            return
        hashed = name.startswith("h")
        parts = self.rng.choice([1, 2, 4]) if hashed else 1
        # In the list before it is done: a crash may leave it.
        twin = MemoryTree(self.model, name, hashed)
        self.change_trees(
            name,
            "create",
            {**self.model._trees, name: twin},
            lambda: self.engine.create_tree(name, hashed=hashed, partitions=parts),
        )

    def drop_tree(self) -> None:
        assert self.engine is not None
        if len(self.model._trees) < 2:
            return
        name = self.rng.choice(sorted(self.model._trees))
        if self.doubtful.get(name):
            return
        rest = {each: tree for each, tree in self.model._trees.items() if each != name}
        self.change_trees(name, "drop", rest, lambda: self.engine.drop_tree(name))

    def change_trees(
        self, name: str, change: str, after: dict[str, MemoryTree], action: Callable[[], Any]
    ) -> None:
        before = self.trees_acknowledged()
        self.trees.add(after)
        if self.attempt(action):
            self.drop_snapshots()
            self.model._trees = after
            self.acknowledged.trees = before + 1
            self.on_acknowledge(self.acknowledged)
        else:
            self.trees.after.pop()
            self.doubtful[name] = change
            assert (name in self.engine.tree_names()) == (change == "drop")

    def flush(self) -> None:
        assert self.engine is not None
        seqno = self.engine.last_seqno
        if self.attempt(self.engine.flush):
            self.acknowledge(seqno)

    def compact(self) -> None:
        assert self.engine is not None
        self.attempt(self.engine.compact)

    def take_snapshot(self) -> None:
        assert self.engine is not None
        if len(self.snapshots) < 3:
            self.snapshots.append((self.engine.snapshot(), self.model.snapshot()))

    def drop_snapshots(self) -> None:
        for snapshot, _ in self.snapshots:
            snapshot.close()
        self.snapshots.clear()

    def read(self) -> None:
        self.attempt(self.compare)

    def reopen(self) -> None:
        self.close()
        self.open()

    # ---- comparing ----

    def compare(self) -> None:
        """Everything readable agrees with the model, now and at the snapshots."""
        assert self.engine is not None
        names = set(self.engine.tree_names())
        assert names == set(self.model._trees), (names, sorted(self.model._trees))
        for name, model in self.model._trees.items():
            tree = self.engine.tree(name)
            compare_tree(tree, model, self.rng)
            for snapshot, twin in self.snapshots:
                wanted = list(model.cursor(snapshot=twin))
                assert list(tree.cursor(snapshot=snapshot)) == wanted, (name, twin.seqno)


def compare_tree(tree: Any, model: MemoryTree, rng: random.Random) -> None:
    """Scans both ways and some gets."""
    wanted = list(model.cursor())
    found = tree.cursor().next_chunk(1 << 30)
    assert found == wanted, (tree.name, difference(found, wanted))
    backwards = tree.cursor(reverse=True).next_chunk(1 << 30)
    assert backwards == wanted[::-1], (tree.name, difference(backwards[::-1], wanted))
    for key in rng.sample(model._sorted, min(12, len(model._sorted))):
        assert tree.get(key) == model.get(key), (tree.name, key)


def difference(found: list[Any], wanted: list[Any]) -> str:
    only_found = [key for key, _ in set(found) - set(wanted)]
    only_wanted = [key for key, _ in set(wanted) - set(found)]
    return (
        f"too many or other: {sorted(only_found)[:5]}, missing or other: {sorted(only_wanted)[:5]}"
    )


class Expectation:
    """What a run leaves for `check_state`: the model's history and the bounds."""

    def __init__(self, workload: Workload) -> None:
        self.trees = workload.trees
        self.boundaries = set(workload.boundaries)
        self.last_seqno = workload.model.last_seqno
        self.options = {**workload.options, "background": False}


def check_state(path: str, wanted: Expectation, least: Acknowledged, rng: random.Random) -> int:
    """Open what a crash left; everything promised must be there. Returns: the last seqno found."""
    engine = Engine.open(path, **wanted.options)
    try:
        seqno = engine.last_seqno
        assert least.seqno <= seqno, f"acknowledged up to {least.seqno}, found up to {seqno}"
        assert seqno in wanted.boundaries, f"half a commit at {seqno}"
        names = engine.tree_names()
        # One change of trees may be under way.
        possible = wanted.trees.after[least.trees : least.trees + 2]
        trees = next((each for each in possible if sorted(each) == names), None)
        assert trees is not None, (names, [sorted(each) for each in possible])
        for name, model in trees.items():
            compare_at(engine.tree(name), model, seqno, rng)
        if rng.random() < 0.1:
            engine = check_use(engine, wanted.options)
    finally:
        engine.close()
    return seqno


def check_use(engine: Engine, options: dict[str, Any]) -> Engine:
    """What was recovered can be built upon: write, reopen, find it."""
    wanted = {name: list(engine.tree(name).cursor()) for name in engine.tree_names()}
    engine.create_tree("later").put(b"key", b"value")
    seqno = engine.last_seqno
    path = engine.path
    engine.close()
    engine = Engine.open(path, **options)
    assert engine.last_seqno == seqno
    wanted["later"] = [(b"key", b"value")]
    assert wanted == {name: list(engine.tree(name).cursor()) for name in engine.tree_names()}
    return engine


def compare_at(tree: Any, model: MemoryTree, seqno: int, rng: random.Random) -> None:
    moment = model.engine.snapshot()
    moment.seqno = seqno
    wanted = list(model.cursor(snapshot=moment))
    found = tree.cursor().next_chunk(1 << 30)
    assert found == wanted, (tree.name, seqno, difference(found, wanted))
    for key in rng.sample(model._sorted, min(4, len(model._sorted))):
        assert tree.get(key) == model.get(key, moment), (tree.name, seqno, key)
