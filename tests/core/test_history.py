"""What stats() remembers of flushes, compactions and splits."""

from __future__ import annotations

import os
import time
from pathlib import Path

from dynalsm._core import Engine, jobs


def test_flushes_and_compactions_are_remembered(tmp_path: Path) -> None:
    began = time.time()
    with_background_off = Engine.open(tmp_path / "e", durability="os", background=False)
    tree = with_background_off.create_tree("words")
    for turn in range(2):
        for number in range(500):
            tree.put(b"%05d" % number, b"%d" % turn * 50)
        with_background_off.flush()
    with_background_off.compact()
    stats = with_background_off.stats()
    with_background_off.close()
    kinds = [job["kind"] for job in stats["history"]]
    assert kinds.count("flush") == 2
    assert kinds[-1] == "compaction"
    flushed = sum(job["written_bytes"] for job in stats["history"] if job["kind"] == "flush")
    assert flushed == stats["writes"]["flush_bytes"] > 0
    merged = stats["history"][-1]
    assert (merged["tree"], merged["inputs"], merged["outputs"]) == ("words", 2, 1)
    assert merged["read_bytes"] == stats["compaction"]["read_bytes"]
    assert merged["written_bytes"] == stats["compaction"]["written_bytes"]
    assert merged["output_level"] == 6
    assert merged["reason"]
    assert all(job["seconds"] > 0 and job["at"] >= began for job in stats["history"])


def test_splits_are_remembered(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path / "e", durability="os", partition_limit_bytes=1 << 16)
    tree = engine.create_tree("hashed", hashed=True, partitions=1)
    for number in range(400):
        tree.put((number * 0x9E3779B97F4A7C15 % (1 << 64)).to_bytes(8, "big"), os.urandom(512))
    engine.flush()
    deadline = time.monotonic() + 60
    splits: list[dict[str, object]] = []
    while not splits and time.monotonic() < deadline:
        splits = [job for job in engine.stats()["history"] if job["kind"] == "split"]
        engine.workers.retry()
    engine.close()
    assert splits[0]["tree"] == "hashed"
    assert splits[0]["partition"] == 1


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path / "e", durability="os", background=False)
    for number in range(jobs.HISTORY_JOBS + 10):
        jobs.note_job(engine, "flush", time.monotonic(), written_bytes=number)
    history = engine.stats()["history"]
    engine.close()
    assert len(history) == jobs.HISTORY_JOBS
    assert history[-1]["written_bytes"] == jobs.HISTORY_JOBS + 9


def test_work_on_a_tree_that_is_gone_has_no_name(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path / "e", durability="os", background=False)
    tree_id = engine.create_tree("gone").tree_id
    assert jobs.tree_name(engine, tree_id) == "gone"
    engine.drop_tree("gone")
    assert jobs.tree_name(engine, tree_id) == ""
    engine.close()
