"""A writer that waits for a flush must not keep close() waiting for ever.

Once close() had stopped the flush, the writer found that it should not wait any more, tried again,
found no room, and so on without end.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from dynalsm import errors
from dynalsm._core import Engine


def test_close_ends_a_stalled_writer(tmp_path: Path) -> None:
    # Without background work nothing ever makes room.
    engine = Engine.open(
        str(tmp_path / "db"), durability="os", background=False, write_buffer_bytes=1 << 16
    )
    tree = engine.create_tree("t")
    ended: list[BaseException] = []

    def write() -> None:
        try:
            while True:
                tree.put(b"key", b"x" * 1000)
        except errors.ClosedError as error:
            ended.append(error)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    deadline = time.monotonic() + 20
    while not engine.stats()["stalls"]["count"] and time.monotonic() < deadline:
        time.sleep(0.001)
    written = engine.last_seqno
    closer = threading.Thread(target=engine.close, daemon=True)
    closer.start()
    closer.join(20)
    writer.join(20)
    assert not closer.is_alive() and not writer.is_alive()
    assert len(ended) == 1
    with pytest.raises(errors.ClosedError):
        tree.put(b"key", b"")
    reopened = Engine.open(str(tmp_path / "db"))
    assert reopened.last_seqno >= written
    reopened.close()
