"""DynamoDB's JSON 1.0 protocol without any network: bytes in, status and bytes out.

What is here is pure apart from the call into the database, so the HTTP server and the in-process
boto3 session share it. Layer order (reference 12): content type, JSON, target, signature, types.

Thread safety: a Service may be used by many threads at once.
"""

from __future__ import annotations

import gzip
import itertools
import logging
import os
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from dynalsm import errors
from dynalsm.api import as_api_error, shapes
from dynalsm.api.registry import OPERATIONS
from dynalsm.values.forms import JSON

if TYPE_CHECKING:
    from dynalsm.database import Database
    from dynalsm.server.auth import AccessKey, Verifier
    from dynalsm.server.metrics import Metrics

log = logging.getLogger("dynalsm.server")

BODY_LIMIT_BYTES = 16 * 1024 * 1024
COMPRESS_FROM_BYTES = 4096
CONTENT_TYPE = b"application/x-amz-json-1.0"
# AWS takes the second as well; charset and other parameters after ";" do not matter.
CONTENT_TYPES = frozenset({CONTENT_TYPE, b"application/json"})
_SERVICE_TARGETS = {
    "dynamodb": b"DynamoDB_20120810.",
    "dynamodbstreams": b"DynamoDBStreams_20120810.",
}
TARGETS: dict[bytes, str] = {
    _SERVICE_TARGETS[shapes.service_of(name)] + name.encode(): name for name in OPERATIONS
}
METRICS_PATH = b"/metrics"
METRICS_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
UNKNOWN_PAGE = b"<UnknownOperationException/>\n"
STATUS_TEXT = {
    200: b"OK",
    400: b"Bad Request",
    404: b"Not Found",
    413: b"Payload Too Large",
    500: b"Internal Server Error",
    503: b"Service Unavailable",
}
# The tail of every request id is a counter; the head tells processes apart.
_ID_HEAD = os.urandom(16).hex().upper()
_id_tail = itertools.count(int.from_bytes(os.urandom(6), "big"))


@dataclass(slots=True)
class Request:
    """One HTTP request, its header names in lower case."""

    method: bytes
    url: bytes
    headers: dict[bytes, bytes]
    body: bytes


@dataclass(slots=True)
class Reply:
    """What goes back, before framing."""

    status: int
    body: bytes
    content_type: bytes = CONTENT_TYPE
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    has_checksum: bool = True


@dataclass(slots=True)
class Job:
    """One operation that is ready to run."""

    operation: str
    parameters: dict[str, Any]
    body_bytes: int


class BodyTooLarge(Exception):
    """A body is over the limit, as sent or after decompression."""


class Service:
    """The protocol over one database."""

    def __init__(
        self,
        database: Database,
        verifier: Verifier | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.database = database
        self.verifier = verifier
        self.metrics = metrics
        self._call = database.call
        region = database.settings.region
        self._health = Reply(
            200,
            f"healthy: dynamodb.{region}.amazonaws.com ".encode(),
            b"text/plain",
        )

    def parse(self, request: Request) -> Job | Reply:
        """Turn a request into a job, or into the reply it gets without one."""
        headers = request.headers
        if request.method != b"POST":
            return self._page(request)
        if content_type(headers.get(b"content-type", b"")) not in CONTENT_TYPES:
            return Reply(404, UNKNOWN_PAGE, b"application/xml")
        try:
            body = decoded_body(request)
            return self._job(request, body)
        except errors.ApiError as error:
            return error_reply(error)
        except BodyTooLarge:
            return too_large()

    def run(self, job: Job) -> Reply:
        """Run a job to its reply; never raises."""
        metrics = self.metrics
        if metrics is None:
            return self._run(job)
        started = time.perf_counter()
        reply = self._run(job)
        metrics.count(job.operation, reply.status, time.perf_counter() - started)
        return reply

    def _run(self, job: Job) -> Reply:
        try:
            reply = self._call(job.operation, job.parameters, JSON)
            has_body = job.operation not in shapes.WITHOUT_OUTPUT
            return Reply(200, orjson.dumps(reply) if has_body else b"")
        except errors.ApiError as error:
            return error_reply(error)
        except Exception as error:
            return failure_reply(job.operation, error)

    def answer(self, request: Request) -> Reply:
        """Parse and run on this thread."""
        job = self.parse(request)
        return job if isinstance(job, Reply) else self.run(job)

    def _job(self, request: Request, body: bytes) -> Job:
        try:
            parameters = orjson.loads(body)
        except orjson.JSONDecodeError:
            raise errors.SerializationException() from None
        operation = TARGETS.get(request.headers.get(b"x-amz-target", b""))
        if operation is None:
            raise errors.UnknownOperationException()
        if self.verifier is not None:
            key = self.verifier.verify(request)
            self._authorize(key, operation, parameters)
        if not isinstance(parameters, dict):
            raise errors.SerializationException("Unexpected value type in payload")
        return Job(operation, parameters, len(body))

    def _authorize(self, key: AccessKey, operation: str, parameters: Any) -> None:
        from dynalsm.server.auth import authorize

        settings = self.database.settings
        authorize(key, operation, parameters, settings.region, settings.account_id)

    def _page(self, request: Request) -> Reply:
        path = request.url.partition(b"?")[0]
        if request.method == b"OPTIONS":
            return Reply(200, b"", b"text/plain", preflight_headers(request.headers))
        if request.method == b"GET" and path == b"/":
            return self._health
        if request.method == b"GET" and path == METRICS_PATH and self.metrics is not None:
            return self._metrics_page(self.metrics)
        return Reply(404, UNKNOWN_PAGE, b"application/xml")

    def _metrics_page(self, metrics: Metrics) -> Reply:
        try:
            return Reply(200, metrics.render(), METRICS_TYPE, has_checksum=False)
        except ModuleNotFoundError as problem:
            text = f"metrics need {problem.name}: pip install 'dynalsm[server]'\n"
            return Reply(503, text.encode(), b"text/plain")


def content_type(value: bytes) -> bytes:
    """Return a content type without its parameters."""
    return value if value == CONTENT_TYPE else value.partition(b";")[0].strip().lower()


def decoded_body(request: Request) -> bytes:
    """Return the body without its Content-Encoding. Raises: BodyTooLarge, InternalServerError."""
    encoding = request.headers.get(b"content-encoding")
    if encoding is None or encoding == b"identity" or not request.body:
        return request.body
    encoding = encoding.strip().lower()
    if encoding == b"gzip":
        return inflate(request.body, 16 + zlib.MAX_WBITS)
    if encoding == b"deflate":
        return inflate(request.body, zlib.MAX_WBITS)
    # observed: AWS answers an encoding it cannot undo with its internal error.
    raise errors.InternalServerError()


def inflate(body: bytes, window_bits: int) -> bytes:
    """Decompress, but never beyond the body limit."""
    inflater = zlib.decompressobj(window_bits)
    try:
        whole = inflater.decompress(body, BODY_LIMIT_BYTES + 1)
    except zlib.error:
        raise errors.InternalServerError() from None
    if len(whole) > BODY_LIMIT_BYTES:
        raise BodyTooLarge
    if not inflater.eof or inflater.unused_data:
        raise errors.InternalServerError()
    return whole


def compressed(reply: Reply, accepted: bytes) -> Reply:
    """Return the reply compressed where the client asked for it and it is worth it.

    The checksum stays that of the plain body, as DynamoDB sends it.
    """
    if len(reply.body) < COMPRESS_FROM_BYTES:
        return reply
    wanted = [part.partition(b";")[0].strip() for part in accepted.lower().split(b",")]
    if b"gzip" in wanted:
        body, name = gzip.compress(reply.body, 1, mtime=0), b"gzip"
    elif b"deflate" in wanted:
        body, name = zlib.compress(reply.body, 1), b"deflate"
    else:
        return reply
    headers = [*reply.headers, (b"Content-Encoding", name), (b"x-amz-crc32", checksum(reply.body))]
    return Reply(reply.status, body, reply.content_type, headers, has_checksum=False)


def checksum(body: bytes) -> bytes:
    """Return the text of the x-amz-crc32 header."""
    return b"%d" % zlib.crc32(body)


def request_id() -> bytes:
    """Return a new request id: 52 characters of 0-9 and A-Z."""
    return b"%s%020X" % (_ID_HEAD.encode(), next(_id_tail))


def error_reply(error: errors.ApiError) -> Reply:
    """Return an API error as it stands on the wire."""
    fields: dict[str, Any] = {"__type": f"{error.namespace}#{error.code}"}
    if error.message:
        fields[error.message_member] = error.message
    fields.update(error.members)
    return Reply(error.status, orjson.dumps(fields))


def failure_reply(operation: str, error: Exception) -> Reply:
    """Return what a client sees of a failed engine or of a mistake of ours, and log the rest."""
    known = as_api_error(error)
    if isinstance(error, errors.StorageError):
        log.error("%s failed: %s", operation, error)
    elif known is None:
        log.error("%s failed", operation, exc_info=error)
    return error_reply(known or errors.InternalServerError("Internal server error"))


def too_large() -> Reply:
    """Return the answer to a body over the limit."""
    return Reply(413, b"", b"text/plain")


def preflight_headers(asked: Mapping[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    """Return the headers that let a browser's script call from another origin."""
    headers = []
    for name, question in (
        (b"Access-Control-Allow-Headers", b"access-control-request-headers"),
        (b"Access-Control-Allow-Methods", b"access-control-request-method"),
    ):
        if question in asked:
            headers.append((name, asked[question]))
    if headers or b"origin" in asked:
        headers.append((b"Access-Control-Max-Age", b"172800"))
    return headers
