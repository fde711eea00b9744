"""What a crash may leave of a Workload: open it, and compare it with the model.

A *world* is a dict of the trees that exist, by name. A workload goes through a sequence of worlds
(each change of trees, and each ingest, makes the next one) and through a sequence of commits; both
may be cut off anywhere, but neither before what was acknowledged.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

from dynalsm import errors
from dynalsm._core import Engine
from tests.support.memory_engine import MemoryTree

if TYPE_CHECKING:
    from tests.crash.workload import Workload

World = dict[str, MemoryTree]


class Acknowledged:
    """What the caller may rely on: a lower bound for what a crash leaves."""

    def __init__(self, seqno: int = 0, worlds: int = 0) -> None:
        self.seqno = seqno  # every commit up to here is durable
        self.worlds = worlds  # so many changes of the world are durable

    def pack(self) -> bytes:
        """As bytes, for the recording."""
        return json.dumps([self.seqno, self.worlds]).encode()

    @classmethod
    def unpack(cls, data: bytes) -> Acknowledged:
        """The other way."""
        return cls(*json.loads(data))


class Expectation:
    """What a run leaves for `check_state`: the model's history."""

    def __init__(self, workload: Workload) -> None:
        self.worlds = workload.worlds
        self.boundaries = {*workload.boundaries, *workload.doubtful_seqnos}
        self.doubtful = dict(workload.doubtful)
        self.options = {**workload.options, "background": False}


def check_state(path: str, wanted: Expectation, least: Acknowledged, rng: random.Random) -> int:
    """Open what a crash left; everything promised must be there. Returns: the last seqno found."""
    engine = Engine.open(path, **wanted.options)
    try:
        seqno = engine.last_seqno
        assert least.seqno <= seqno, f"acknowledged up to {least.seqno}, found up to {seqno}"
        assert seqno in wanted.boundaries, f"half a commit at {seqno}"
        possible = wanted.worlds[least.worlds : least.worlds + 2]
        find_world(engine, with_doubtful(possible, wanted.doubtful), seqno)
        for name in engine.tree_names():
            check_gets(engine.tree(name), rng)
        if rng.random() < 0.1:
            engine = check_use(engine, wanted.options)
    finally:
        engine.close()
    return seqno


def with_tree(world: World, name: str, tree: MemoryTree | None) -> World:
    """The world with one tree put in or taken out."""
    changed = {each: model for each, model in world.items() if each != name}
    return changed if tree is None else {**changed, name: tree}


def with_doubtful(worlds: list[World], doubtful: dict[str, MemoryTree | None]) -> list[World]:
    """The worlds, each of the failed changes having come about or not."""
    possible = list(worlds)
    for name, tree in doubtful.items():
        possible += [with_tree(world, name, tree) for world in possible]
    return possible


def find_world(engine: Engine, possible: list[World], seqno: int) -> int:
    """Which of the worlds is there. AssertionError when it is none of them."""
    complaints = []
    names = set(engine.tree_names())
    for number, world in enumerate(possible):
        if names == set(world):
            found = [
                complaint
                for name in names
                if (complaint := difference_at(engine.tree(name), world[name], seqno))
            ]
            if not found:
                return number
            complaints += found
        else:
            complaints.append(f"trees {sorted(names)}, not {sorted(world)}")
    raise AssertionError(f"at {seqno}: {'; '.join(complaints)}")


def difference_at(tree: Any, model: MemoryTree, seqno: int) -> str:
    """How the tree differs from the model as it was at `seqno`; empty when it does not."""
    moment = model.engine.snapshot()
    moment.seqno = seqno
    return difference(tree, tree.cursor().next_chunk(1 << 30), list(model.cursor(snapshot=moment)))


def difference(tree: Any, found: list[Any], wanted: list[Any]) -> str:
    """What is too much and what is missing, in words."""
    if found == wanted:
        return ""
    only_found = sorted(key for key, _ in set(found) - set(wanted))
    only_wanted = sorted(key for key, _ in set(wanted) - set(found))
    return f"{tree.name}: too many or other {only_found[:5]}, missing or other {only_wanted[:5]}"


def check_gets(tree: Any, rng: random.Random) -> None:
    """Gets and a scan backwards agree with the scan forwards."""
    entries = tree.cursor().next_chunk(1 << 30)
    assert tree.cursor(reverse=True).next_chunk(1 << 30) == entries[::-1]
    for key, value in rng.sample(entries, min(4, len(entries))):
        assert tree.get(key) == value
        assert tree.get(key + b"\0") == dict(entries).get(key + b"\0")


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


def is_passing(error: Exception) -> bool:
    """Whether writes must work again once the cause is gone, without a reopen."""
    return isinstance(error, errors.StorageIOError) and not error.is_final
