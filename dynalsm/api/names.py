"""Names and ARNs: what a TableName member may hold, and the tables behind them.

Pure functions of the settings, plus look-ups in the catalog; callable from any thread.
"""

from __future__ import annotations

import datetime
import re
from typing import Any

from dynalsm import errors
from dynalsm.api import messages
from dynalsm.model.catalog import TableHandle
from dynalsm.model.settings import Settings

_NAME = re.compile(messages.NAME_PATTERN)
_TABLE_ARN = re.compile(r"arn:(aws[a-z-]*):dynamodb:([a-z0-9-]+):([0-9]{12}):table/([^/]+)")


def plain_name(settings: Settings, text: str) -> str:
    """Return the table name of a TableName member that may be an ARN."""
    name = settings.table_names.get(text)
    if name is None:
        return text.rpartition("/")[2] if text.startswith("arn:") else text
    return name


def data_table(database: Any, text: str) -> TableHandle:
    """Return the table for a data-plane operation. Raises: ResourceNotFoundException."""
    table: TableHandle | None = database.catalog.get(plain_name(database.settings, text))
    if table is None:
        raise errors.API_ERRORS["ResourceNotFoundException"](messages.NOT_FOUND)
    return table


def control_table(database: Any, text: str) -> TableHandle:
    """Return the table for a control-plane operation. Raises: ResourceNotFoundException."""
    name = plain_name(database.settings, text)
    is_pending = name in database.catalog.pending  # asked first: what is published is in both
    table: TableHandle | None = database.catalog.get(name)
    if table is None:
        if is_pending:
            raise errors.API_ERRORS["ResourceInUseException"](messages.being_created(name))
        if name in database.catalog.deleting:
            raise errors.API_ERRORS["ResourceInUseException"](messages.being_deleted(name))
        message = messages.table_not_found(name)
        raise errors.API_ERRORS["ResourceNotFoundException"](message)
    return table


def is_name(text: str) -> bool:
    """Return whether `text` is made of the characters of a table or index name."""
    return _NAME.fullmatch(text) is not None


def resolve_table(text: str, settings: Settings, operation: str) -> str:
    """Return the table name in `text`, a name or an ARN of this account and region.

    Raises: AccessDeniedException for another account, ValidationException for another region.
    """
    if not text.startswith("arn:"):
        return text
    match = _TABLE_ARN.fullmatch(text)
    if match is None:
        raise errors.ValidationException(f"{messages.INVALID}Invalid resource Arn: {text}")
    _, region, account, name = match.groups()
    if region != settings.region:
        raise errors.ValidationException(
            f"1 validation error detected: Invalid AWS region in '{text}'"
        )
    if account != settings.account_id:
        raise errors.AccessDeniedException(
            messages.access_denied(settings.account_id, operation, text)
        )
    return name


def seconds(value: Any) -> float | None:
    """Return a time member as epoch seconds; None when it is absent."""
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            value = value.replace(tzinfo=datetime.UTC)
        return float(value.timestamp())
    return None if value is None else float(value)
