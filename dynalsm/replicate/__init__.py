"""Move tables to another database while they are in use: a full copy, then the changes since.

    import dynalsm.replicate
    dynalsm.replicate.run("shop.db", "dynamodb://eu-central-1", tables=["Music"])

Source and target are anything that `dynalsm.open` takes, or Databases that are open already: a
directory, a dynalsm server, DynamoDB, Alternator and other servers of its protocol. Only the
ordinary operations are used (`Database.call`), so each may stand on either side.

What holds:
1. The stream of the source is on, and the time noted, before the first item is read; what is
   copied may be a mixture of moments, and the changes since then put every item right.
2. Changes of one item are applied in their order. After a stop some are applied again, from an
   older one on; an item may go back for a moment and ends right.
3. The position (target table `dynalsm-replication`) is written after what it speaks of. So a run
   that was killed goes on where the position stands; nothing is left out.
4. Where changes may have been lost (the stream was trimmed, made anew, or the table was), the run
   ends with ReplicationError instead of going on.

Thread safety: a Replication belongs to one thread; it has threads of its own for the copy.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import dynalsm
from dynalsm.database import Database
from dynalsm.replicate.comparison import Comparison, compare
from dynalsm.replicate.position import POSITION_TABLE
from dynalsm.replicate.table import Progress, Replication
from dynalsm.replicate.writing import ReplicationError

__all__ = [
    "POSITION_TABLE",
    "Comparison",
    "Progress",
    "Replication",
    "ReplicationError",
    "compare",
    "run",
]

Endpoint = str | os.PathLike[str] | Database
# How long a run that follows rests when nothing has changed.
REST_SECONDS = 0.5


def run(
    source: Endpoint,
    target: Endpoint,
    *,
    tables: Iterable[str] | None = None,
    follow: bool = False,
    copy_only: bool = False,
    restart: bool = False,
    workers: int = 4,
    progress: Callable[[Progress], None] | None = None,
    stop: threading.Event | None = None,
) -> list[Progress]:
    """Copy tables to the target and apply what changes meanwhile; return how far each one is.

    Ends when all that was changed by the end of the copy has been applied, or with follow=True
    when `stop` is set. A second call goes on where the first one ended.
    tables: all of the source's, unless named. copy_only: no stream, for sources that have none.
    restart: forget the position, and put into tables that have items already. workers: how many
    segments are copied at once.
    Raises: ReplicationError, and what `dynalsm.open` raises.
    """
    stop = stop or threading.Event()
    with ExitStack() as opened:
        source_db = _open(source, opened, create=False)
        target_db = _open(target, opened, create=True)
        found = list(tables) if tables is not None else table_names(source_db)
        replications = [
            Replication(source_db, target_db, name, workers=workers, progress=progress, stop=stop)
            for name in found
        ]
        for replication in replications:
            replication.start(restart=restart, copy_only=copy_only)
        # One after another: a copy uses all workers. Changes wait in the stream meanwhile.
        for replication in replications:
            replication.copy()
        if not copy_only:
            _apply(replications, follow, stop)
        return [replication.report() for replication in replications]


def table_names(database: Database) -> list[str]:
    """Return the names of all tables of a database but the one with positions."""
    names: list[str] = []
    request: dict[str, Any] = {}
    while True:
        page = database.call("ListTables", request)
        names += page["TableNames"]
        if "LastEvaluatedTableName" not in page:
            return [name for name in names if name != POSITION_TABLE]
        request["ExclusiveStartTableName"] = page["LastEvaluatedTableName"]


def _apply(replications: list[Replication], follow: bool, stop: threading.Event) -> None:
    while not stop.is_set():
        changes = sum(replication.step() for replication in replications)
        if not follow:
            break
        if changes == 0:
            stop.wait(REST_SECONDS)
    for replication in replications:
        replication.save()


def _open(endpoint: Endpoint, opened: ExitStack, *, create: bool) -> Database:
    if isinstance(endpoint, Database):
        return endpoint
    options = {} if "://" in str(endpoint) else {"create": create}
    return opened.enter_context(dynalsm.open(endpoint, **options))
