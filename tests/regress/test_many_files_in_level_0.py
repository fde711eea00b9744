"""Gets of many keys from a first level of more tables than MANY_FILES (version.pyx).

What went wrong: they took the level for one of tables that do not overlap, so that they asked at
most one table for each key, and not always one that held it.
"""

from __future__ import annotations

from pathlib import Path

from dynalsm._core import Engine

TABLES = 40


def test_many_gets_look_into_every_table_of_level_0(tmp_path: Path) -> None:
    engine = Engine.open(
        tmp_path / "db", background=False, durability="os", write_buffer_bytes=1 << 20
    )
    tree = engine.create_tree("t")
    keys = [b"%02d" % number for number in range(TABLES)]
    snapshots = []
    for number, key in enumerate(keys):
        tree.put(key, b"%d" % number)
        tree.put(b"all", b"%d" % number)
        engine.flush()
        snapshots.append(engine.snapshot())
    assert len(tree.partitions()[0]["levels"][0]) == TABLES
    assert tree.multi_get([*keys, b"all"]) == [tree.get(key) for key in [*keys, b"all"]]
    for number, snapshot in enumerate(snapshots):
        expected = [b"%d" % each if each <= number else None for each in range(TABLES)]
        assert tree.multi_get(keys, snapshot) == expected
        assert tree.multi_get([b"all"], snapshot) == [b"%d" % number]
    engine.close()
