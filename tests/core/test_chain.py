"""Open cursors and snapshots of an engine: found by close(), kept alive by nobody."""

from __future__ import annotations

import gc
import random
from pathlib import Path
from typing import Any

import pytest

from dynalsm import errors
from dynalsm._core import Engine


def opened(path: Path) -> tuple[Any, Any]:
    engine = Engine.open(str(path), durability="os", background=False)
    tree = engine.create_tree("t")
    tree.put(b"a", b"1")
    return engine, tree


def test_close_ends_what_is_open(tmp_path: Path) -> None:
    engine, tree = opened(tmp_path)
    generator = random.Random(5)
    handles: list[Any] = []
    for _ in range(300):
        # Newest, oldest and middle ones go, by close and by being forgotten.
        if handles and generator.random() < 0.45:
            gone = handles.pop(generator.randrange(len(handles)))
            if generator.random() < 0.5:
                gone.close()
            del gone
        else:
            handles.append(tree.cursor() if generator.random() < 0.5 else engine.snapshot())
    snapshots = [handle for handle in handles if hasattr(handle, "seqno")]
    cursors = [handle for handle in handles if not hasattr(handle, "seqno")]
    assert snapshots and cursors
    engine.close()
    for cursor in cursors:
        assert cursor.closed
        with pytest.raises(errors.ClosedError):
            next(cursor)
    for handle in handles:
        handle.close()


def test_a_closed_cursor_may_be_made_again(tmp_path: Path) -> None:
    engine, tree = opened(tmp_path)
    cursor = tree.cursor()
    cursor.__init__(tree, None, None, False, None, True, True, True)
    assert next(cursor) == (b"a", b"1")
    engine.close()
    assert cursor.closed


def test_handles_in_garbage_that_refers_to_itself(tmp_path: Path) -> None:
    # The collector clears what such garbage refers to, in any order; the handles' own references
    # have to outlive that.
    engine, tree = opened(tmp_path)

    class Holder:
        pass

    for _ in range(10):
        cursor, snapshot = tree.cursor(), engine.snapshot()
        next(cursor)
        holder: Any = Holder()
        holder.me, holder.held = holder, [cursor, snapshot]
        del holder, cursor, snapshot
        gc.collect()
    engine.close()
