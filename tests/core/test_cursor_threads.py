"""One cursor and several threads: right entries or a clear refusal, never a crash."""

from __future__ import annotations

import threading
from pathlib import Path

from dynalsm import errors
from dynalsm._core import Engine


def test_threads_that_share_a_cursor(tmp_path: Path) -> None:
    engine = Engine.open(str(tmp_path / "db"), durability="os", memory_bytes=1 << 20)
    tree = engine.create_tree("t")
    for number in range(20_000):
        tree.put(b"%06d" % number, b"v" * 200)
    engine.compact()
    seen: list[bytes] = []
    refusals: list[errors.StorageError] = []
    for _ in range(5):
        cursor = tree.cursor(values=False)

        def walk(cursor: object = cursor) -> None:
            while True:
                try:
                    chunk = cursor.next_chunk(700)  # type: ignore[attr-defined]
                except errors.StorageError as error:
                    refusals.append(error)
                    continue
                if not chunk:
                    return
                seen.extend(chunk)

        threads = [threading.Thread(target=walk) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        cursor.close()
    assert sorted(seen) == sorted([b"%06d" % number for number in range(20_000)] * 5)
    assert all("another thread" in str(error) for error in refusals)
    engine.close()
