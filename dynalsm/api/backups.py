"""Continuous backups of a table (reference 10.3, 13.8)."""

from __future__ import annotations

from typing import Any

from dynalsm import errors
from dynalsm.api import names
from dynalsm.api.registry import Reply, Request, operation


@operation("DescribeContinuousBackups")
def describe_continuous_backups(database: Any, request: Request, _form: Any) -> Reply:
    """Say that a table cannot be restored to a point in time.

    AWS calls continuous backups ENABLED some seconds after any table was created, although nothing
    can be restored before point-in-time recovery is; here both say what can be done.
    """
    name = names.plain_name(database.settings, request["TableName"])
    if database.catalog.get(name) is None:
        raise errors.API_ERRORS["TableNotFoundException"](f"Table not found: {name}")
    return {
        "ContinuousBackupsDescription": {
            "ContinuousBackupsStatus": "DISABLED",
            "PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": "DISABLED"},
        }
    }
