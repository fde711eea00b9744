"""A consistent copy of a database by hard links, while writes go on.

REQUIRES: the caller flushed before. Under engine.admin the manifest's state is a whole number of
commits: its tables are linked, a manifest that lists them is written, and the directory gets its
name last, when everything in it is durable. The copy has no logs; it opens as any database.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dynalsm import errors
from dynalsm._core import files, recovery
from dynalsm._core.manifest import Manifest

if TYPE_CHECKING:
    from dynalsm._core.engine import Engine


def write(engine: Engine, path: str) -> None:
    """Write the copy to the new directory `path`, on the same file system.

    Raises: StorageError when the path exists, StorageIOError.
    """
    target = os.path.abspath(path)
    if os.path.exists(target):
        raise errors.StorageError("the checkpoint's directory exists", path=target)
    unfinished = target + ".unfinished"
    for directory in (unfinished, *(os.path.join(unfinished, n) for n in ("wal", "data"))):
        files.make_directory(directory)
    with engine.admin:
        base = engine.state.base()
        for record in base["add"]:
            source = recovery.table_file(engine.path, record)
            link = recovery.table_file(unfinished, record)
            for directory in (os.path.dirname(os.path.dirname(link)), os.path.dirname(link)):
                files.make_directory(directory)
            files.link_file(source, link)
        for root, _directories, _names in os.walk(unfinished):
            files.sync_directory(root)
        base["closed"] = []
        Manifest.create(unfinished, base["next"] + 1, base).close()
    files.rename_file(unfinished, target)
