"""Client tokens of long operations: what was started with one is not started again for 8 hours.

The token and a digest of the request are part of the job's record (model/jobs.py).
"""

from __future__ import annotations

import datetime
import hashlib
import json
import uuid
from typing import Any, Final

from dynalsm.api.registry import Request
from dynalsm.model import jobs, records
from dynalsm.model.jobs import Kind

KEEP_SECONDS: Final = 8 * 3600


class Mismatch(Exception):
    """The token was used with another request."""


def digest(request: Request) -> bytes:
    """Return a digest of everything but the token itself."""
    content = {name: value for name, value in request.items() if name != "ClientToken"}
    text = json.dumps(content, sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode()).digest()


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return value.timestamp()
    return repr(value)


@records.trusting("a record of an export, import or bulk operation")
def find(database: Any, kind: Kind, request: Request) -> dict[str, Any] | None:
    """Return the record of the job that was started with the request's token, or None.

    Raises: Mismatch.
    """
    token = request.get("ClientToken")
    if token is None:
        return None
    oldest = database.settings.clock() - KEEP_SECONDS
    for name, record in jobs.of(database).records(kind):
        if record["token"] == token and record["started_at"] >= oldest:
            if record["digest"] != digest(request):
                raise Mismatch
            return jobs.of(database).record(kind, name)
    return None


def token_of(request: Request) -> str:
    """Return the request's token, or a new one: replies always have one (observed)."""
    return request.get("ClientToken") or str(uuid.uuid4())
