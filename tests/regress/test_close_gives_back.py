"""What a closed engine gives back at once, though somebody still refers to it.

What went wrong: the files of the log stayed open, and the cache stayed full, until the collector
found the engine in its cycle of references.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pytest

from dynalsm import errors
from dynalsm._core import Engine


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_files_and_cache(tmp_path: Path) -> None:
    def descriptors() -> list[str]:
        found = [f"/proc/self/fd/{each}" for each in os.listdir("/proc/self/fd")]
        names = [os.readlink(each) for each in found if os.path.islink(each)]
        return [name for name in names if str(tmp_path) in name]

    gc.disable()
    kept = []
    try:
        for number in range(3):
            engine = Engine.open(tmp_path / "db")
            tree = engine.tree("t") if number else engine.create_tree("t")
            for key in range(100):
                tree.put(b"%d" % key, b"v" * 100)
            engine.flush()
            tree.put(b"in the log", b"v")
            assert tree.get(b"50") == b"v" * 100
            engine.close()
            kept.append((engine, tree))
            assert descriptors() == []
            for call in (engine.rotate, engine.flush, engine.snapshot, engine.stats):
                with pytest.raises(errors.ClosedError):
                    call()
    finally:
        gc.enable()
