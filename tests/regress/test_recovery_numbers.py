"""What recovery once got wrong about the numbers of files."""

from __future__ import annotations

from pathlib import Path

from dynalsm._core import Engine
from dynalsm._core.manifest import Manifest


def test_a_new_log_is_never_older_than_those_the_manifest_calls_flushed(tmp_path: Path) -> None:
    # The edit of a close named its own log as the first to be read, not that its number was used.
    # The log's name was lost with the power; the next log got a lower number, and the one after
    # that did not read it: acknowledged commits were gone.
    path = str(tmp_path / "db")
    with_tree = Engine.open(path)
    with_tree.create_tree("t")
    with_tree.close()
    loaded = Manifest.load(path)
    assert loaded is not None
    manifest = Manifest.resume(path, loaded)
    manifest.append({"log": 1000})
    manifest.close()
    for log in (tmp_path / "db" / "wal").iterdir():
        log.unlink()
    engine = Engine.open(path)
    engine.tree("t").put(b"key", b"value")
    engine.close()
    engine = Engine.open(path)
    assert engine.tree("t").get(b"key") == b"value"
    engine.close()
