"""Signature Version 4: who sent a request, and what that key may do.

Verification follows AWS's "Authenticating Requests" page: the canonical request is rebuilt from
what arrived, signed with the stored secret, and compared in constant time. Error texts are those
of reference 12.

Thread safety: a Verifier may be shared; its cache of signing keys is only ever replaced whole.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
import json
import logging
import os
import re
import stat
import time
import urllib.parse
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynalsm import errors
from dynalsm.api import shapes

if TYPE_CHECKING:
    from dynalsm.server.wire import Request

log = logging.getLogger("dynalsm.server")

ALGORITHM = b"AWS4-HMAC-SHA256"
CLOCK_SKEW_SECONDS = 15 * 60
CACHED_SIGNING_KEYS = 1000
NEEDED_HEADERS = frozenset({"host", "x-amz-target"})
READ_OPERATIONS = frozenset(
    "GetItem BatchGetItem Query Scan TransactGetItems SearchVectors DescribeTable ListTables "
    "DescribeLimits DescribeEndpoints DescribeTimeToLive ListTagsOfResource GetResourcePolicy "
    "DescribeBackup ListBackups DescribeContinuousBackups DescribeExport ListExports "
    "DescribeImport ListImports DescribeBulkOperation ListBulkOperations "
    "DescribeContributorInsights ListContributorInsights DescribeKinesisStreamingDestination "
    "DescribeGlobalTable DescribeGlobalTableSettings ListGlobalTables "
    "DescribeTableReplicaAutoScaling ListStreams DescribeStream GetShardIterator "
    "GetRecords".split()
)
# Operations that name no table and tell nothing about one.
HARMLESS_OPERATIONS = frozenset({"DescribeLimits", "DescribeEndpoints"})
_TABLE_MEMBERS = frozenset(
    "TableName TableArn ResourceArn StreamArn SourceTableName SourceTableArn TargetTableName "
    "BackupArn ExportArn ImportArn".split()
)
_TABLE_IN_ARN = re.compile(r"^arn:[^:]*:dynamodb:[^:]*:[^:]*:table/([^/]+)")


@dataclass(frozen=True, slots=True)
class AccessKey:
    """One configured key. `tables` are shell patterns of the tables it may touch."""

    id: str
    secret: str
    read_only: bool = False
    tables: tuple[str, ...] = ("*",)
    metrics: bool | None = None  # None: with the right to every table

    @property
    def is_limited(self) -> bool:
        """Whether the key may not touch every table."""
        return "*" not in self.tables

    @property
    def may_see_metrics(self) -> bool:
        """Whether the key may read /metrics, where the names and sizes of all tables stand."""
        return not self.is_limited if self.metrics is None else self.metrics

    def may_touch(self, table: str) -> bool:
        """Say whether a table is among those of the key."""
        return any(fnmatch.fnmatchcase(table, pattern) for pattern in self.tables)


def load_keys(path: Path) -> list[AccessKey]:
    """Read keys from a JSON file. Raises: ValueError that says what is wrong with it.

    {"keys": [{"id": "AKID", "secret": "...", "read_only": false, "tables": ["Music", "Log*"],
               "metrics": true}]}
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            entries = json.load(file)["keys"]
        keys = [
            AccessKey(
                _text(entry, "id"),
                _text(entry, "secret"),
                bool(entry.get("read_only", False)),
                tuple(entry.get("tables", ("*",))),
                None if entry.get("metrics") is None else bool(entry["metrics"]),
            )
            for entry in entries
        ]
    except OSError as problem:
        raise ValueError(f"cannot read {path}: {problem.strerror}") from problem
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise ValueError(
            f'{path} is no key file ({problem}); it looks like {{"keys": [{{"id": "...", '
            '"secret": "..."}]}'
        ) from problem
    if not keys:
        raise ValueError(f"{path} has no keys")
    _check_mode(path, mode)
    return keys


def _text(entry: dict[str, Any], name: str) -> str:
    value = entry[name]
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name!r} must be a text of at least one character")
    return value


def _check_mode(path: Path, mode: int) -> None:
    """Refuse keys that others than the owner can replace, and warn of keys that all can read.

    In containers secrets often lie open, where there is nobody else to read them.
    """
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ValueError(f"{path} can be changed by others than its owner: chmod 600 {path}")
    if mode & stat.S_IROTH:
        log.warning("%s can be read by every user of this machine: chmod 600 %s", path, path)


class Verifier:
    """Checks signatures against a set of keys."""

    def __init__(self, keys: Iterable[AccessKey], clock: Callable[[], float] = time.time) -> None:
        self._keys = {key.id: key for key in keys}
        self._clock = clock
        self._signing_keys: dict[tuple[str, str, str], bytes] = {}

    def verify(self, request: Request) -> AccessKey:
        """Return the key that signed the request. Raises: the ApiError of reference 12."""
        fields = self.read_fields(request)
        _check_signed_headers(fields["SignedHeaders"])
        _check_algorithm(request)
        key_id, date, region = self._scope(fields["Credential"], request)
        key = self._keys.get(key_id)
        if key is None:
            raise errors.UnrecognizedClientException(
                "The security token included in the request is invalid."
            )
        expected = self._signature(key, date, region, fields, request)
        if not hmac.compare_digest(expected.encode(), fields["Signature"].encode()):
            raise errors.InvalidSignatureException(
                "The request signature we calculated does not match the signature you provided. "
                "Check your AWS Secret Access Key and signing method. Consult the service "
                "documentation for details."
            )
        return key

    def basic(self, request: Request) -> AccessKey | None:
        """Return the key whose id and secret stand in the request; None where none does."""
        kind, _, text = request.headers.get(b"authorization", b"").partition(b" ")
        if kind.lower() != b"basic":
            return None
        try:
            key_id, _, secret = base64.b64decode(text.strip(), validate=True).partition(b":")
        except binascii.Error:
            return None
        key = self._keys.get(key_id.decode("utf-8", "replace"))
        # Compared for unknown ids as well, so that the time says nothing about them.
        expected = key.secret if key is not None else ""
        is_right = hmac.compare_digest(secret, expected.encode())
        return key if is_right else None

    def read_fields(self, request: Request) -> dict[str, str]:
        """Return the parts of the signature. Raises: it is missing, incomplete or not of now.

        observed (alternator): a signature that has expired is refused before its scope.
        """
        header = request.headers.get(b"authorization", b"")
        query = request.url.partition(b"?")[2]
        if b"X-Amz-Algorithm" in query and header:
            raise errors.InvalidSignatureException(
                "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as "
                "HTTP header."
            )
        if not header and b"X-Amz-Algorithm" in query:
            _check_query_fields(query)
        if not header.startswith(b"AWS4-"):
            raise errors.MissingAuthenticationTokenException(
                "Request is missing Authentication Token"
            )
        fields = _authorization_fields(header, request)
        self._check_age(_sent_at(request))
        return fields

    def _scope(self, credential: str, request: Request) -> tuple[str, str, str]:
        parts = credential.split("/")
        if len(parts) != 5:
            raise errors.IncompleteSignatureException(
                "Credential must have exactly 5 slash-delimited elements, "
                f"e.g. keyid/date/region/service/term, got '{credential}'"
            )
        key_id, date, region, service, term = parts
        sent = _sent_at(request)
        problems = []
        if service != "dynamodb":
            problems.append("Credential should be scoped to correct service: 'dynamodb'. ")
        if term != "aws4_request":
            problems.append(
                "Credential should be scoped with a valid terminator: 'aws4_request', "
                f"not '{term}'. "
            )
        if date != sent.strftime("%Y%m%d"):
            problems.append(
                f"Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date "
                f"from HTTP: '{date}' != '{sent:%Y%m%d}', from '{_stamp(sent)}'."
            )
        if problems:
            raise errors.InvalidSignatureException("".join(problems))
        return key_id, date, region

    def _check_age(self, sent: datetime) -> None:
        now_seconds = self._clock()
        now = datetime.fromtimestamp(now_seconds, UTC)
        if sent.timestamp() < now_seconds - CLOCK_SKEW_SECONDS:
            limit = datetime.fromtimestamp(now_seconds - CLOCK_SKEW_SECONDS, UTC)
            raise errors.InvalidSignatureException(
                f"Signature expired: {_stamp(sent)} is now earlier than {_stamp(limit)} "
                f"({_stamp(now)} - 15 min.)"
            )
        if sent.timestamp() > now_seconds + CLOCK_SKEW_SECONDS:
            limit = datetime.fromtimestamp(now_seconds + CLOCK_SKEW_SECONDS, UTC)
            raise errors.InvalidSignatureException(
                f"Signature not yet current: {_stamp(sent)} is still later than {_stamp(limit)} "
                f"({_stamp(now)} + 15 min.)"
            )

    def _signature(
        self, key: AccessKey, date: str, region: str, fields: dict[str, str], request: Request
    ) -> str:
        canonical = _canonical_request(request, fields["SignedHeaders"])
        text = "\n".join(
            (
                ALGORITHM.decode(),
                _stamp(_sent_at(request)),
                f"{date}/{region}/dynamodb/aws4_request",
                hashlib.sha256(canonical).hexdigest(),
            )
        )
        signing_key = self._signing_key(key, date, region)
        return hmac.digest(signing_key, text.encode(), "sha256").hex()

    def _signing_key(self, key: AccessKey, date: str, region: str) -> bytes:
        name = (key.id, date, region)
        found = self._signing_keys.get(name)
        if found is None:
            found = b"AWS4" + key.secret.encode()
            for part in (date, region, "dynamodb", "aws4_request"):
                found = hmac.digest(found, part.encode(), "sha256")
            # Regions and dates come from outside: the cache must not grow with them.
            kept = self._signing_keys if len(self._signing_keys) < CACHED_SIGNING_KEYS else {}
            self._signing_keys = {**kept, name: found}
        return found


class AnonymousVerifier(Verifier):
    """Checks what can be checked of a signature without knowing any key or the endpoint's name."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        super().__init__((), clock)

    def verify(self, request: Request) -> AccessKey:
        """Refuse a signature that is missing, incomplete or not of now."""
        fields = self.read_fields(request)
        return AccessKey(fields["Credential"].partition("/")[0], "")


def authorize(
    key: AccessKey, operation: str, parameters: Any, region: str, account_id: str
) -> None:
    """Check the rights of a key. Raises: AccessDeniedException."""
    if key.read_only and operation not in READ_OPERATIONS:
        _deny(key, operation, region, account_id, "*")
    if not key.is_limited or operation in HARMLESS_OPERATIONS:
        return
    tables = table_names(operation, parameters) if isinstance(parameters, dict) else set()
    for table in tables or {"*"}:
        if table == "*" or not key.may_touch(table):
            _deny(key, operation, region, account_id, table)


def table_names(operation: str, parameters: dict[str, Any]) -> set[str]:
    """Return every table that a request names; none at all counts as "any table".

    Only members that the operation has are looked at: others are ignored when it runs, so they
    must not open a door here.
    """
    known = shapes.input_of(operation).members
    found: set[str] = set()
    for member in known.keys() & _TABLE_MEMBERS:
        found |= _as_names(parameters.get(member))
    requested = parameters.get("RequestItems") if "RequestItems" in known else None
    if isinstance(requested, dict):
        for name in requested:
            found |= _as_names(name)
    actions = parameters.get("TransactItems") if "TransactItems" in known else None
    for action in actions if isinstance(actions, list) else ():
        for entry in action.values() if isinstance(action, dict) else ():
            found |= _as_names(entry.get("TableName")) if isinstance(entry, dict) else set()
    return found


def _as_names(value: Any) -> set[str]:
    if not isinstance(value, str):
        return set()
    match = _TABLE_IN_ARN.match(value)
    return {match.group(1) if match else value}


def _deny(key: AccessKey, operation: str, region: str, account_id: str, table: str) -> None:
    resource = "*" if table == "*" else f"arn:aws:dynamodb:{region}:{account_id}:table/{table}"
    raise errors.AccessDeniedException(
        f"User: arn:aws:iam::{account_id}:user/{key.id} is not authorized to perform: "
        f"dynamodb:{operation} on resource: {resource}"
    )


def _authorization_fields(header: bytes, request: Request) -> dict[str, str]:
    text = header.decode("latin-1")
    fields = {}
    # observed (alternator): commas, blanks or both stand between the parts.
    for part in re.split(r"[,\s]+", text.partition(" ")[2]):
        name, _, value = part.partition("=")
        fields[name] = value
    missing = [
        f"Authorization header requires '{name}' parameter. "
        for name in ("Credential", "Signature", "SignedHeaders")
        if not fields.get(name)
    ]
    if b"x-amz-date" not in request.headers and b"date" not in request.headers:
        missing.append(
            "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. "
        )
    if missing:
        raise errors.IncompleteSignatureException(f"{''.join(missing)}Authorization={text}")
    return fields


def _check_query_fields(query: bytes) -> None:
    given = urllib.parse.parse_qs(query.decode("latin-1"))
    missing = [
        f"AWS query-string parameters must include 'X-Amz-{name}'. "
        for name in ("Algorithm", "Credential", "Signature", "SignedHeaders", "Date")
        if f"X-Amz-{name}" not in given
    ]
    if missing:
        text = "".join(missing) + "Re-examine the query-string parameters."
        raise errors.IncompleteSignatureException(text)


def _check_signed_headers(signed: str) -> None:
    """Refuse a signature that leaves open what is asked, of whom or when."""
    for name in NEEDED_HEADERS - set(signed.split(";")):
        raise errors.InvalidSignatureException(
            f"'{name}' must be a 'SignedHeader' in the AWS Authorization."
        )


def _check_algorithm(request: Request) -> None:
    algorithm = request.headers[b"authorization"].partition(b" ")[0]
    if algorithm != ALGORITHM:
        raise errors.IncompleteSignatureException(
            f"Unsupported AWS 'algorithm': '{algorithm.decode('latin-1')}' "
            f"(only {ALGORITHM.decode()} for now). "
        )


def _sent_at(request: Request) -> datetime:
    text = request.headers.get(b"x-amz-date") or request.headers.get(b"date", b"")
    value = text.decode("latin-1")
    try:
        return datetime.strptime(value, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        pass
    try:
        return parsedate_to_datetime(value).astimezone(UTC)
    except (ValueError, OverflowError):  # the second: a zone or a year beyond all calendars
        raise errors.IncompleteSignatureException(
            f"Date must be in ISO-8601 'basic format'. Got '{value}'. "
            "See http://en.wikipedia.org/wiki/ISO_8601"
        ) from None


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y%m%dT%H%M%SZ")


def _canonical_request(request: Request, signed_headers: str) -> bytes:
    path, _, query = request.url.partition(b"?")
    pairs = urllib.parse.parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    canonical_query = "&".join(
        f"{urllib.parse.quote(name, safe='-_.~')}={urllib.parse.quote(value, safe='-_.~')}"
        for name, value in sorted(pairs)
    )
    lines = [request.method, path or b"/", canonical_query.encode()]
    for name in signed_headers.split(";"):
        value = request.headers.get(name.encode("latin-1"), b"")
        lines.append(name.encode("latin-1") + b":" + b" ".join(value.split()))
    payload = hashlib.sha256(request.body).hexdigest().encode()
    return b"\n".join([*lines, b"", signed_headers.encode("latin-1"), payload])
