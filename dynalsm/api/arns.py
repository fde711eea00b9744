"""ARNs of what belongs to a table: backups, exports, imports, bulk operations.

Pure functions; callable from any thread.
"""

from __future__ import annotations

import re
import secrets
from typing import Any, NamedTuple

from dynalsm import errors
from dynalsm.api.table_checks import fail
from dynalsm.model.settings import Settings

_RESOURCE = re.compile(r"table/([a-zA-Z0-9_.-]+)/([a-z-]+)/([0-9]{14}-[0-9a-f]{8})")
_TABLE = re.compile(r"table/([a-zA-Z0-9_.-]+)")
# NextToken of ListImports and ListBulkOperations: groups of 16 hexadecimal digits, 112 at least.
TOKEN_GROUP_BYTES = 8
TOKEN_MIN_BYTES = 56


class Part(NamedTuple):
    """A part of a table: the table's name and the part's own id."""

    table: str
    id: str


def parse(settings: Settings, arn: str, kind: str, text: str) -> Part:
    """Return what an ARN names; `kind` is "backup", "export", ...

    Raises: ValidationException with `text` when it is no such ARN, AccessDeniedException for
    another region or account (observed: alternator, on exports).
    """
    found = _RESOURCE.fullmatch(_path(settings, arn, text))
    if found is None or found[2] != kind:
        fail(text)
    return Part(found[1], found[3])


def parse_table(settings: Settings, arn: str, text: str) -> str:
    """Return the table's name in a TableArn member, which may be a plain name. Raises as parse."""
    if not arn.startswith("arn:"):
        return arn
    found = _TABLE.fullmatch(_path(settings, arn, text))
    if found is None:
        fail(text)
    return found[1]


def _path(settings: Settings, arn: str, text: str) -> str:
    parts = arn.split(":", 5)
    if len(parts) < 6 or parts[0] != "arn":
        fail(text)
    _, partition, service, region, account, path = parts
    if (
        not partition.startswith("aws")
        or service != "dynamodb"
        or region != settings.region
        or account != settings.account_id
    ):
        raise errors.AccessDeniedException("Access is denied")
    return path


def page(
    names: list[Any], token: str | None, limit: int, key: Any, *, descending: bool = False
) -> tuple[list[Any], str | None]:
    """Return (one page of sorted entries, the token to go on with or None).

    `key(entry)` is the text that orders them. Raises: ValidationException for a bad token.
    """
    if token is not None:
        start = _parse_token(token)
        names = [
            entry for entry in names if (key(entry) < start if descending else key(entry) > start)
        ]
    taken = names[:limit]
    return taken, _token(key(taken[-1])) if limit < len(names) else None


def _token(text: str) -> str:
    """Return a token: length (2 bytes), text, random bytes up to a whole number of groups."""
    content = len(text.encode()).to_bytes(2) + text.encode()
    size = max(TOKEN_MIN_BYTES, -(-len(content) // TOKEN_GROUP_BYTES) * TOKEN_GROUP_BYTES)
    return (content + secrets.token_bytes(size - len(content))).hex()


def _parse_token(token: str) -> str:
    try:
        content = bytes.fromhex(token)
        size = int.from_bytes(content[:2])
        text = content[2 : 2 + size].decode()
    except ValueError:
        size, text = 0, ""
    if not text or len(text.encode()) != size:
        fail(f"Invalid Request: Provided nextToken is invalid: {token}")
    return text
