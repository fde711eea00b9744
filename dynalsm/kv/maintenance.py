"""Repairing and removing a whole directory. Needs it closed; takes its lock meanwhile."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import Any

from dynalsm import errors
from dynalsm._core import Engine, lockfile, repair
from dynalsm._core.background import log
from dynalsm._core.keyring import NAMES, MasterKey, master_key
from dynalsm.kv.exceptions import Error, LockedError


def repair_db(
    name: str | bytes | os.PathLike[str],
    *,
    encryption_key: MasterKey | None = None,
    **options: Any,
) -> None:
    """Save what is whole of a damaged database; damaged files go to its `lost` directory.

    plyvel's options are accepted and have no effect. What was lost is logged ("dynalsm" logger);
    `dynalsm._core.repair.repair` returns it. Raises LockedError when it is open, Error when there
    is none, CorruptionError when not even the names of its keyspaces can be read."""
    del options
    key = encryption_key
    if callable(key):
        key = master_key(key)  # asked for once
    try:
        done = repair.repair(os.fsdecode(name), encryption_key=key)
        Engine.open(os.fsdecode(name), create_if_missing=False, encryption_key=key).close()
        for loss in done.lost:
            log.error("lost: %s", loss)
    except errors.LockedError as error:
        raise LockedError(str(error), pid=error.pid) from None


def destroy_db(name: str | bytes | os.PathLike[str]) -> None:
    """Remove a database with everything in it; no error when there is none.

    Other files in the directory stay, and then so does the directory. Raises LockedError when it
    is open, Error when the directory holds something else altogether."""
    path = os.path.abspath(os.fsdecode(name))
    if not os.path.isdir(path):
        return
    own = _own_names(path)
    if not own:
        if os.listdir(path):
            raise Error("there is no database here", path=path)
        os.rmdir(path)
        return
    try:
        lock = lockfile.DirectoryLock(path)
    except errors.LockedError as error:
        raise LockedError(str(error), pid=error.pid) from None
    with lock:
        # CURRENT goes first: what is left after a crash in the middle is no database any more.
        for entry in sorted(own, key=lambda each: (not each.startswith("CURRENT"), each)):
            place = os.path.join(path, entry)
            if os.path.isdir(place) and not os.path.islink(place):
                shutil.rmtree(place)
            else:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(place)
        for entry in (lockfile.LOCK, lockfile.READERS):
            with contextlib.suppress(FileNotFoundError):
                os.remove(os.path.join(path, entry))
    with contextlib.suppress(OSError):
        os.rmdir(path)


def _own_names(path: str) -> list[str]:
    """The names in the directory that are the engine's, without the locks."""
    names = os.listdir(path)
    if not any(each.startswith(("CURRENT", "MANIFEST-")) for each in names):
        return []
    return [
        each
        for each in names
        if each in {"wal", "data", repair.LOST, *NAMES} or each.startswith(("CURRENT", "MANIFEST-"))
    ]
