"""Checkpoints: a consistent copy of an open database in a directory of its own, while writes go on.

The tables are immutable, so a hard link copies one at no cost; on another file system its bytes are
copied. A new manifest with the state of one moment makes them a database; logs are not needed,
because the engine has flushed just before. The directory appears under its name when everything in
it is durable, or not at all.

Thread safety: any thread. The state is read and the links are made under engine.admin, so that no
table goes meanwhile; bytes are copied without it.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Set
from typing import TYPE_CHECKING

from dynalsm import errors
from dynalsm._core import files
from dynalsm._core.manifest import Edit, Manifest
from dynalsm._core.state import FILE, PARTITION, TREE

if TYPE_CHECKING:
    from dynalsm._core.engine import Engine

# What is being made; what a crash left of it is removed by the next attempt.
SUFFIX = ".tmp"
# Where tables wait to be copied to another file system: below data/, which an open sweeps.
STAGE = os.path.join("data", "checkpoint")
COPY_BYTES = 1 << 20


def write(
    engine: Engine, path: str, trees: Set[str] | None = None, *, has_keys: bool = True
) -> int:
    """Write a checkpoint of everything that has been flushed into the new directory `path`.

    trees: names of those to be in it; None: all. has_keys: with the keys of an encrypted database,
    under the master key of this moment; without, only this database can read it. Returns the
    sequence number of the last commit in it. Raises: StorageError when there is something at
    `path`, StorageIOError, NoSpaceError.
    """
    target = os.path.abspath(path)
    if os.path.lexists(target):
        raise errors.StorageError("the checkpoint's directory exists", path=target)
    temporary = target + SUFFIX
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        seqno = _write_aside(engine, temporary, trees)
        if has_keys and engine.keys is not None:
            engine.keys.save(temporary)
        files.rename_file(temporary, target, sync=False)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    files.sync_directory(os.path.dirname(target))
    return seqno


def _only(base: Edit, trees: Set[str]) -> None:
    """Leave in a state what belongs to some trees."""
    base["trees"] = [tree for tree in base["trees"] if tree[1] in trees]
    kept = {tree[0] for tree in base["trees"]}
    base["add"] = [record for record in base["add"] if record[TREE] in kept]
    base["ranges"] = [record for record in base["ranges"] if record[0] in kept]


def _write_aside(engine: Engine, target: str, trees: Set[str] | None) -> int:
    files.make_directory(target, sync=False)
    with engine.admin:
        base = engine.state.base()
        if trees is not None:
            _only(base, trees)
        base["next"] = max(base["next"], engine.manifest.number, base["log"]) + 1
        try:
            _link(engine.path, target, base)
            staged = None
        except errors.StorageIOError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
                raise
            shutil.rmtree(os.path.join(target, "data"), ignore_errors=True)
            staged = _stage(engine, base) if error.errno == errno.EXDEV else None
            if staged is None:  # no links here at all
                _copy(engine.path, target, base)
    if staged is not None:
        try:
            _copy(staged, target, base)
        finally:
            shutil.rmtree(staged, ignore_errors=True)
    # The manifest names a log to begin with; that there is none yet is a database that was flushed.
    base["closed"] = []
    base["begun"] = 0
    files.make_directory(os.path.join(target, "wal"), sync=False)
    number = base["next"]
    base["next"] = number + 1
    Manifest.create(target, number, base, engine.keys).close()
    flushed: int = base["flushed"]
    return flushed


def _stage(engine: Engine, base: Edit) -> str:
    """Hold the tables by links in the database itself, so that they can be copied later."""
    staged = os.path.join(engine.path, STAGE)
    shutil.rmtree(staged, ignore_errors=True)
    files.make_directory(staged, sync=False)
    _link(engine.path, staged, base)
    return staged


def _places(base: Edit) -> list[str]:
    """The tables' paths within the database."""
    return [
        os.path.join(
            "data", f"{record[TREE]:06d}", f"{record[PARTITION]:06d}", f"{record[FILE]:012d}.sst"
        )
        for record in base["add"]
    ]


def _link(source: str, target: str, base: Edit) -> None:
    places = _places(base)
    _make_directories(target, places)
    for place in places:
        files.link_file(os.path.join(source, place), os.path.join(target, place))
    _sync_directories(target, places)


def _copy(source: str, target: str, base: Edit) -> None:
    places = _places(base)
    _make_directories(target, places)
    for place in places:
        _copy_file(os.path.join(source, place), os.path.join(target, place))
    _sync_directories(target, places)


def _copy_file(source: str, target: str) -> None:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
    with files.File(source) as old, files.File(target, flags) as new:
        size = old.size()
        for offset in range(0, size, COPY_BYTES):
            new.write(old.read(min(COPY_BYTES, size - offset), offset), offset)
        new.sync()


def _directories(places: list[str]) -> list[str]:
    """The directories of the places, parents first."""
    found = {"data"}
    for place in places:
        partition = os.path.dirname(place)
        found |= {partition, os.path.dirname(partition)}
    return sorted(found)


def _make_directories(target: str, places: list[str]) -> None:
    for directory in _directories(places):
        files.make_directory(os.path.join(target, directory), sync=False)


def _sync_directories(target: str, places: list[str]) -> None:
    for directory in reversed(_directories(places)):
        files.sync_directory(os.path.join(target, directory))
