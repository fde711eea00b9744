"""What a table's deletion means for its backups, point-in-time recovery and background jobs.

Thread safety: the control plane calls these under the catalog's mutex.
"""

from __future__ import annotations

from typing import Any

from dynalsm.model import backup, jobs, pitr
from dynalsm.model.catalog import TableHandle


def is_read(database: Any, handle: TableHandle) -> bool:
    """Return whether a backup, an export or a restore reads the table just now."""
    table_id = handle.schema.id
    return backup.of(database).is_creating(table_id) or jobs.of(database).reads_table(table_id)


def keep(database: Any, handle: TableHandle) -> None:
    """Make the backup that stays when a table with point-in-time recovery goes (10.3).

    REQUIRES: nobody writes to the table any more.
    """
    if pitr.setting(handle.schema) is not None:
        backup.of(database).create_system(handle)


def forget(database: Any, handle: TableHandle) -> None:
    """Remove the bases of a table that is gone."""
    if pitr.setting(handle.schema) is not None:
        pitr.remove_files(database, handle.schema.id)
