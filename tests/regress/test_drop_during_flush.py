"""A tree that is dropped while its memtables are being flushed."""

from __future__ import annotations

import threading
from pathlib import Path

from dynalsm._core import Engine

TREES = 40


def test_a_flush_does_not_fail_when_a_tree_goes(tmp_path: Path) -> None:
    # The drop removed the tree's directory between the flush's making it and the table's opening;
    # the flush failed with ENOENT, and with it whatever had asked for one.
    failures: list[Exception] = []
    with_trees = Engine.open(str(tmp_path / "db"), durability="os")
    stop = threading.Event()

    def flush() -> None:
        while not stop.is_set():
            try:
                with_trees.flush()
            except Exception as failure:
                failures.append(failure)

    flusher = threading.Thread(target=flush)
    flusher.start()
    for number in range(TREES):
        trees = [with_trees.create_tree(f"{number}-{each}", hashed=True) for each in range(4)]
        for tree in trees:
            for key in range(3):
                tree.put((key << 60).to_bytes(8, "big"), b"value")
        for tree in trees:
            with_trees.drop_tree(tree.name)
    stop.set()
    flusher.join()
    assert failures == []
    with_trees.close()
