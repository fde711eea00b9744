"""The plain-Python reader, written from docs/format.md, must see what the engine sees.

One test per way a database comes to lie on disk: only logs, only tables, both, splits, range
deletes, dropped trees, a process that never closed. So the pages describe every byte, or this
fails.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from dynalsm._core import Engine
from tests.format.database import read_database

SMALL: dict[str, Any] = {
    "durability": "os",
    "background": False,
    "block_bytes": 512,
    "target_file_bytes": 20_000,
    "hash_partitions": 4,
}


def contents(engine: Engine) -> dict[str, dict[bytes, bytes]]:
    return {name: dict(engine.tree(name).cursor()) for name in engine.tree_names()}


def write_some(engine: Engine, seed: int, commits: int = 60) -> None:
    """Puts, deletes, stamped puts and range deletes over a raw and a hashed tree."""
    chance = random.Random(seed)
    trees = [engine.tree("raw"), engine.tree("hashed")]
    for _ in range(commits):
        batch = engine.batch()
        for _ in range(chance.randrange(1, 30)):
            tree = chance.choice(trees)
            key = chance.randbytes(1) * 8 + b"%03d" % chance.randrange(300)
            kind = chance.random()
            if kind < 0.7:
                batch.put(tree, key, chance.randbytes(chance.randrange(40)) * chance.choice([1, 9]))
            elif kind < 0.9:
                batch.delete(tree, key)
            elif kind < 0.97:
                batch.put_stamped(tree, key[:9], b"end", b"stamped")
            else:
                batch.delete_range(tree, key, key[:8] + b"999")
        engine.write(batch)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = Engine.open(tmp_path / "db", **SMALL)
    engine.create_tree("raw")
    engine.create_tree("hashed", hashed=True)
    write_some(engine, seed=1)
    return engine


def test_log_alone(engine: Engine) -> None:
    # Small enough that close leaves everything in the log.
    expected = contents(engine)
    engine.close()
    assert read_database(Path(engine.path)) == expected
    assert sum(map(len, expected.values())) > 100


def test_process_that_never_closed(engine: Engine, tmp_path: Path) -> None:
    # The preallocated tail of the log is zeros: the page says how a reader knows the end.
    copy = tmp_path / "copy"
    shutil.copytree(engine.path, copy)
    expected = contents(engine)
    engine.close()
    assert read_database(copy) == expected


def test_tables_and_log(engine: Engine) -> None:
    engine.flush()
    write_some(engine, seed=2)
    expected = contents(engine)
    engine.close()
    assert read_database(Path(engine.path)) == expected


def test_last_level_has_no_seqnos(engine: Engine) -> None:
    engine.compact()
    expected = contents(engine)
    engine.close()
    assert read_database(Path(engine.path)) == expected


def test_several_opens_and_a_dropped_tree(engine: Engine) -> None:
    engine.create_tree("gone").put(b"k", b"v")
    engine.flush()
    engine.drop_tree("gone")
    engine.close()
    again = Engine.open(engine.path, **SMALL)
    write_some(again, seed=3)
    expected = contents(again)
    again.close()
    found = read_database(Path(engine.path))
    assert found == expected
    assert "gone" not in found


def test_split_partitions(engine: Engine) -> None:
    from dynalsm._core import split

    engine.flush()
    write_some(engine, seed=4)
    tree = engine.tree("hashed")
    before = len(tree.partitions())
    middle = (tree.partitions()[1]["lower"] + tree.partitions()[2]["lower"]) // 2
    assert split.split_partition(engine, tree, 1, middle)
    write_some(engine, seed=5)
    assert len(tree.partitions()) == before + 1
    expected = contents(engine)
    engine.close()
    assert read_database(Path(engine.path)) == expected
