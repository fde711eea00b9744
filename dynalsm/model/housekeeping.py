"""What an open database does by itself: resume unfinished work, expire items, trim streams.

`start` is called once, when a database is opened for writing. One thread does the periodic
work; each piece is a plain function that tests call directly.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from dynalsm import errors
from dynalsm.model import backfill, kinesis, streams, ttl

log = logging.getLogger("dynalsm")

# Streams are trimmed and statistics are stored this often.
SLOW_SECONDS = 60.0
# Kinds of catalog records that stand for background jobs (model/jobs.py).
JOB_KINDS = ("restore", "export", "import", "bulk")


def start(database: Any) -> None:
    """Resume what the last process left unfinished and start the periodic work."""
    backfill.resume(database)
    ttl.resume(database)
    kinesis.resume(database)
    _resume_jobs(database)
    step = min(database.settings.ttl_sweep_seconds, SLOW_SECONDS)
    rounds = SLOW_SECONDS / step
    database.repeat("housekeeping", step, _Rounds(rounds))


def _needs_upkeep(database: Any) -> bool:
    """Return whether there are jobs, backups or bases; without any, their modules stay unloaded."""
    catalog = database.catalog
    handles = filter(None, map(catalog.get, catalog.names()))
    return (
        os.path.isdir(os.path.join(database.path, "backups"))
        or any(next(catalog.records(kind), None) for kind in JOB_KINDS)
        or any(handle.schema.extras.get("pitr") for handle in handles)
    )


def _resume_jobs(database: Any) -> None:
    if _needs_upkeep(database):
        from dynalsm.model import upkeep

        upkeep.resume(database)


def _maintain_backups(database: Any) -> None:
    if _needs_upkeep(database):
        from dynalsm.model import upkeep

        upkeep.maintain(database)


class _Rounds:
    """The periodic work: expired items every round, the rest once in `rounds`."""

    def __init__(self, rounds: float) -> None:
        self._rounds = rounds
        self._done = 0

    def __call__(self, database: Any) -> None:
        self._done += 1
        is_slow = self._done >= self._rounds
        try:
            ttl.sweep(database, is_full=is_slow)
            if is_slow:
                self._done = 0
                streams.roll(database.catalog)
                streams.trim(database.catalog)
                database.catalog.save_statistics()
                _maintain_backups(database)
        except errors.CorruptionError as error:
            log.error("upkeep of %s: %s", database.path, error)
        except errors.StorageError:
            # A full disk or a poisoned engine: every foreground write raises the same, so nothing
            # is hidden by trying again later.
            return
