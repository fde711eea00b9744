"""What backups, point-in-time recovery and background jobs need done without being asked.

Thread safety: `resume` runs once, while the database is being opened; `maintain` on the
housekeeping thread.
"""

from __future__ import annotations

from typing import Any

from dynalsm.model import backup, bulk, exports, imports, jobs, pitr, restore


def resume(database: Any) -> None:
    """Remove what a crash left, and go on with what is unfinished."""
    backup.of(database).sweep()
    pitr.resume(database)
    jobs.of(database).resume(restore.KIND, exports.KIND, imports.KIND, bulk.KIND)


def maintain(database: Any) -> None:
    """Make bases that are due; drop bases and backups that have had their time."""
    pitr.maintain(database)
    backup.of(database).sweep()
