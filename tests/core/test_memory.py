"""One budget for write buffers and cache, and memory that goes back to the system."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from dynalsm._core import Engine, Tree

BUDGET = 16 << 20


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = Engine.open(str(tmp_path / "db"), memory_bytes=BUDGET, durability="os")
    yield engine
    engine.close()


def fill(tree: Tree, count: int, size: int) -> None:
    source = random.Random(1)
    for number in range(count):
        tree.put(b"%06d" % number, source.randbytes(size))


def held(engine: Engine) -> int:
    memory = engine.stats()["memory"]
    return int(memory["memtables"] + memory["block_cache"] + memory["indexes_and_filters"])


def test_the_cache_takes_what_memtables_leave_and_gives_it_back(engine: Engine) -> None:
    tree = engine.create_tree("t")
    fill(tree, 20_000, 1000)
    engine.flush()
    for _ in range(2):
        tree.multi_get([key for key, _ in tree.cursor()])
    cached = engine.stats()["memory"]["block_cache"]
    assert cached > BUDGET * 3 // 4
    fill(tree, 3_500, 1000)  # nearly a write buffer
    memory = engine.stats()["memory"]
    assert memory["memtables"] > 3 << 20
    assert memory["block_cache"] < cached - (2 << 20)
    assert held(engine) <= BUDGET + (1 << 20)


@pytest.mark.parametrize("size", [100, 1000, 5000, 100_000])
def test_memtables_of_any_entries_are_accounted_for(engine: Engine, size: int) -> None:
    tree = engine.create_tree("t")
    fill(tree, 1_000_000 // size, size)
    memtables = engine.stats()["memory"]["memtables"]
    assert 1_000_000 <= memtables <= 1_600_000 + (1 << 20)  # at most one chunk is not full


def resident() -> int:
    """Bytes of memory that belong to the process alone."""
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) << 10
    pytest.skip("the system does not tell")


def test_memory_goes_back_to_the_system(tmp_path: Path) -> None:
    engine = Engine.open(str(tmp_path / "db"), memory_bytes=64 << 20, durability="os")
    tree = engine.create_tree("t")
    before = resident()
    fill(tree, 40_000, 1000)
    for _ in tree.cursor():
        pass
    assert resident() - before < 96 << 20
    engine.drop_tree("t")
    engine.flush()
    assert resident() - before < 24 << 20
    engine.close()
