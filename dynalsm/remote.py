"""`dynalsm.open("http://host:port")` and `dynalsm.open("dynamodb://region")`: a Database elsewhere.

The same surface over boto3, for the day one machine is not enough. `call` is the one seam: all of
client, streams and Table stand on it, so they behave as on an embedded database and raise the
errors of `dynalsm.errors`. What only an engine has (stats, compact, snapshots) says so.

Thread safety: as boto3's clients, which may be shared.
"""

from __future__ import annotations

import os
import threading
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from dynalsm import errors
from dynalsm.api import shape_data, shapes
from dynalsm.api.shapes import snake_case
from dynalsm.database import Database
from dynalsm.model.settings import Settings
from dynalsm.values.forms import NATIVE, WIRE

try:
    import boto3
    import botocore.session
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError
except ModuleNotFoundError as problem:  # pragma: no cover - depends on the installation
    raise ModuleNotFoundError(
        f"a database at a URL needs {problem.name}: pip install 'dynalsm[boto]'", name=problem.name
    ) from problem

if TYPE_CHECKING:
    from dynalsm.api.registry import Reply

# Followers of a stream ask again this often; a remote endpoint cannot wake them.
POLL_SECONDS = 0.2
OPTIONS = (
    "region",
    "aws_access_key_id",
    "aws_secret_access_key",
    "aws_session_token",
    "profile_name",
    "config",
)


class RemoteError(errors.Error):
    """The endpoint cannot be reached, or refuses the request before it is one."""


class NotEmbeddedError(errors.Error):
    """The call needs an engine in this process."""


def open_url(url: str, **options: Any) -> RemoteDatabase:
    """Connect to a DynamoDB endpoint. Raises: ValueError for a URL that names none,
    and for options that only a directory has.

    options: region, aws_access_key_id, aws_secret_access_key, aws_session_token, profile_name,
    config (a botocore Config). A plain http URL on this machine needs no credentials.
    """
    for name in options:
        if name not in OPTIONS:
            raise ValueError(
                f"{url} is an endpoint, which has no option {name!r}; it takes: "
                f"{', '.join(OPTIONS)}"
            )
    parts = urlsplit(url)
    if parts.scheme == "dynamodb" and parts.netloc:
        return RemoteDatabase(None, parts.netloc, options)
    if parts.scheme in ("http", "https") and parts.netloc:
        return RemoteDatabase(url.rstrip("/"), options.pop("region", "us-east-1"), options)
    raise ValueError(f"{url} is no endpoint; give http://host:port or dynamodb://region")


class RemoteDatabase(Database):
    """A Database whose tables live behind a DynamoDB endpoint."""

    def __init__(self, url: str | None, region: str, options: dict[str, Any]) -> None:
        # Not Database.__init__: there is no engine, no catalog and no thread here.
        self.settings = Settings(region=region)
        self.path = url or f"dynamodb://{region}"
        self.stopping = threading.Event()
        self._closed = False
        self._end = errors.ClosedError("the database is closed", path=self.path)
        session, common = _session(url, region, options)
        self._wire = {
            "dynamodb": session.client("dynamodb", **common),
            "dynamodbstreams": session.client("dynamodbstreams", **common),
        }
        # boto3's resource client takes and gives plain Python values, conditions included.
        self._native = session.resource("dynamodb", **common).meta.client
        self.call = self._send
        self._add_faces()

    def _send(self, operation: str, request: dict[str, Any], form: Any = WIRE) -> Reply:
        self._check_open()
        service = shapes.service_of(operation)
        is_native = form is NATIVE and service == "dynamodb"
        client = self._native if is_native else self._wire[service]
        try:
            reply: Reply = getattr(client, snake_case(operation))(**request)
        except ClientError as problem:
            raise _as_api_error(problem, operation, form) from problem
        except BotoCoreError as problem:
            raise RemoteError(f"{self.path}: {problem}") from problem
        if operation in shape_data.TIMESTAMPS:
            _times_to_seconds(reply)
        if form is NATIVE and operation == "GetRecords":
            _images_to_native(reply)
        return reply

    def change_mark(self) -> int:
        """Return nothing useful: only an embedded database knows of commits as they happen."""
        return 0

    def wait_for_change(self, mark: int, timeout_seconds: float | None) -> None:
        """Wait a moment, until followers should ask again."""
        self.stopping.wait(min(POLL_SECONDS, timeout_seconds or POLL_SECONDS))
        self._check_open()

    def finish(self, seqno: int) -> None:
        """Do nothing: a reply of the endpoint is durable already."""

    def close(self) -> None:
        """Close the connections; more calls do nothing."""
        if not self._closed:
            self._closed = True
            self.stopping.set()
            for client in (*self._wire.values(), self._native):
                client.close()

    def snapshot(self) -> NoReturn:
        """Raise: there is no engine here."""
        self._refuse("snapshot")

    def stats(self) -> NoReturn:
        """Raise: there is no engine here."""
        self._refuse("stats")

    def hot_keys(self, table: str, index: str | None = None) -> NoReturn:
        """Raise: there is no engine here."""
        del table, index
        self._refuse("hot_keys")

    def flush(self) -> NoReturn:
        """Raise: there is no engine here."""
        self._refuse("flush")

    def compact(self) -> NoReturn:
        """Raise: there is no engine here."""
        self._refuse("compact")

    def checkpoint(self, path: str | os.PathLike[str]) -> NoReturn:
        """Raise: there is no engine here."""
        self._refuse("checkpoint")

    def _refuse(self, what: str) -> NoReturn:
        raise NotEmbeddedError(f"{self.path} is an endpoint: {what}() needs a database directory")


def _session(
    url: str | None, region: str, options: dict[str, Any]
) -> tuple[boto3.Session, dict[str, Any]]:
    """Return the boto3 session and what all its clients are made with."""
    config = options.pop("config", None) or Config(retries={"mode": "standard"})
    common: dict[str, Any] = {"config": config}
    if url is not None:
        common["endpoint_url"] = url
        if not _has_credentials(options):
            # The endpoint is not AWS, and an own server asks for no signature by default.
            options |= {"aws_access_key_id": "dynalsm", "aws_secret_access_key": "dynalsm"}
    return boto3.Session(region_name=region, **options), common


def _has_credentials(options: dict[str, Any]) -> bool:
    """Say whether keys are set in options, the environment or the user's files.

    The metadata service of a cloud machine is not asked: elsewhere that only costs its timeout.
    """
    if "aws_access_key_id" in options:
        return True
    session = botocore.session.Session(profile=options.get("profile_name"))
    session.get_component("credential_provider").remove("iam-role")
    return session.get_credentials() is not None


def _as_api_error(problem: ClientError, operation: str, form: Any) -> errors.ApiError:
    response = problem.response
    code = response["Error"].get("Code", "")
    members = {
        name: value
        for name, value in response.items()
        if name not in ("Error", "ResponseMetadata", "message", "Message")
    }
    if form is NATIVE and "Item" in members:
        members["Item"] = NATIVE.decode_item(WIRE.encode_item(members["Item"]))
    kind: type[errors.ApiError] = errors.API_ERRORS.get(code) or type(
        code or "UnknownError", (errors.ApiError,), {}
    )
    return kind(response["Error"].get("Message", ""), operation, **members)


def _times_to_seconds(value: Any) -> None:
    """Turn datetimes into epoch seconds in place: that is what `call` gives everywhere."""
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for name, member in members:
        if isinstance(member, datetime):
            value[name] = member.timestamp()
        elif isinstance(member, (dict, list)):
            _times_to_seconds(member)


def _images_to_native(reply: Reply) -> None:
    for record in reply["Records"]:
        body = record["dynamodb"]
        for image in ("Keys", "NewImage", "OldImage"):
            if image in body:
                body[image] = NATIVE.decode_item(WIRE.encode_item(body[image]))


__all__ = ["NotEmbeddedError", "RemoteDatabase", "RemoteError", "open_url"]
