"""DynamoDB's JSON 1.0 protocol without any network: bytes in, status and bytes out.

What is here is pure apart from the call into the database, so the HTTP server and the in-process
boto3 session share it. Layer order (reference 12): path, content type, encoding, JSON, target,
signature, types. An empty body is refused only after the signature (observed: dynalite,
alternator), so that even where signatures are not checked otherwise, what is refused anyway gets
the answer of AWS.

Thread safety: a Service may be used by many threads at once.
"""

from __future__ import annotations

import functools
import gzip
import itertools
import logging
import os
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import orjson

from dynalsm import errors
from dynalsm.api import as_api_error, shapes
from dynalsm.api.registry import OPERATIONS
from dynalsm.values.forms import JSON

if TYPE_CHECKING:
    from dynalsm.database import Database
    from dynalsm.server.auth import AccessKey, Verifier
    from dynalsm.server.console import Console
    from dynalsm.server.gate import Gate
    from dynalsm.server.metrics import Metrics

log = logging.getLogger("dynalsm.server")

BODY_LIMIT_BYTES = 16 * 1024 * 1024
COMPRESS_FROM_BYTES = 4096
CONTENT_TYPE = b"application/x-amz-json-1.0"
# AWS takes it as well; charset and other parameters after ";" do not matter.
JSON_TYPE = b"application/json"
_SERVICE_TARGETS = {
    "dynamodb": b"DynamoDB_20120810.",
    "dynamodbstreams": b"DynamoDBStreams_20120810.",
}
TARGETS: dict[bytes, str] = {
    _SERVICE_TARGETS[shapes.service_of(name)] + name.encode(): name for name in OPERATIONS
}
METRICS_PATH = b"/metrics"
CONSOLE_PATH = b"/_console"
METRICS_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
METRICS_CHALLENGE = (b"WWW-Authenticate", b'Basic realm="dynalsm metrics"')
UNKNOWN_PAGE = b"<UnknownOperationException/>\n"
STATUS_TEXT = {
    200: b"OK",
    304: b"Not Modified",
    308: b"Permanent Redirect",
    400: b"Bad Request",
    401: b"Unauthorized",
    403: b"Forbidden",
    404: b"Not Found",
    405: b"Method Not Allowed",
    413: b"Payload Too Large",
    500: b"Internal Server Error",
    503: b"Service Unavailable",
}
# observed (alternator): the headers that a browser's script may read of a reply.
EXPOSED_HEADERS = b"x-amzn-RequestId,x-amzn-ErrorType,x-amzn-ErrorMessage,Date"
# The first of several Accept-Encoding lines, where there are several; no header can be called so.
FIRST_ENCODINGS = b":accept-encoding"
ENCODINGS = (b"gzip", b"deflate")  # in the order of preference
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
    is_shared: bool = True  # scripts of other origins may read it


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
        console: Console | None = None,
        has_metrics_page: bool = True,
        gate: Gate | None = None,
    ) -> None:
        """gate: what pages of other sites meet where there are no keys; a strict one for None."""
        from dynalsm.server.gate import Gate

        self.database = database
        self.verifier = verifier
        self.metrics = metrics
        self.console = console
        self.has_metrics_page = has_metrics_page
        # A page cannot sign: with keys, pages of any site may try, as on AWS.
        self._gate = None if verifier is not None else gate or Gate()
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
        is_plain = request.method == b"POST" and request.url == b"/"
        if not is_plain and (page := self._page(request)) is not None:
            return page
        # observed (dynalite): without a body the content type does not matter.
        if request.body and reply_type(headers.get(b"content-type", b"")) is None:
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
        parameters = None
        if body:
            try:
                parameters = orjson.loads(body)
            except orjson.JSONDecodeError:
                raise errors.SerializationException() from None
        operation = TARGETS.get(request.headers.get(b"x-amz-target", b""))
        if operation is None:
            raise errors.UnknownOperationException()
        if self._gate is not None:
            self._gate.check(request)
        if self.verifier is not None:
            key = self.verifier.verify(request)
            self._authorize(key, operation, parameters)
        if not body:
            if self.verifier is None:
                anonymous_verifier().verify(request)
            raise errors.SerializationException()
        if not isinstance(parameters, dict):
            raise errors.SerializationException("Unexpected value type in payload")
        return Job(operation, parameters, len(body))

    def _authorize(self, key: AccessKey, operation: str, parameters: Any) -> None:
        from dynalsm.server.auth import authorize

        settings = self.database.settings
        authorize(key, operation, parameters, settings.region, settings.account_id)

    def _page(self, request: Request) -> Reply | None:
        """Answer what is no operation; None for an operation with more than a plain path."""
        path = path_of(request.url)
        if self.console is not None and path.startswith(CONSOLE_PATH):
            # What pages of other sites may ask is the console's own business.
            if (page := self._refusal(request, is_page=True)) is not None:
                return page
            if (page := self.console.answer(request)) is not None:
                return page
        if request.method == b"OPTIONS" and b"origin" in request.headers:
            return Reply(200, b"", b"text/plain", preflight_headers(request.headers))
        if request.method == b"POST":
            if path == b"/":
                return None
            if self.verifier is not None:
                return self._forged_page(self.verifier, request)
        if request.method == b"GET" and path == b"/":
            return self._health
        metrics = self.metrics if self.has_metrics_page else None
        if request.method == b"GET" and path == METRICS_PATH and metrics is not None:
            return self._refusal(request) or self._metrics_page(metrics, request)
        return Reply(404, UNKNOWN_PAGE, b"application/xml")

    def _forged_page(self, verifier: Verifier, request: Request) -> Reply:
        """Answer an operation with another path; the path is signed, so that comes first."""
        try:
            verifier.verify(request)
        except errors.ApiError as error:
            return error_reply(error)
        return Reply(404, UNKNOWN_PAGE, b"application/xml")

    def _refusal(self, request: Request, is_page: bool = False) -> Reply | None:
        """Return the answer to a page of another site; None where it may ask."""
        gate = self._gate
        try:
            if gate is not None:
                (gate.check_host if is_page else gate.check)(request)
        except errors.AccessDeniedException as error:
            return error_reply(error)
        return None

    def _metrics_page(self, metrics: Metrics, request: Request) -> Reply:
        """Answer GET /metrics; where keys are set, to a key that may see all tables.

        Prometheus does not sign what it scrapes: the key comes as HTTP's Basic authorization.
        """
        if self.verifier is not None:
            key = self.verifier.basic(request)
            if key is None:
                return plain(
                    401, "metrics need a key: its id as user, its secret as password",
                    METRICS_CHALLENGE,
                )  # fmt: skip
            if not key.may_see_metrics:
                return plain(403, "this key may not read metrics, which show all tables")
        try:
            return Reply(200, metrics.render(), METRICS_TYPE, [], False, False)
        except ModuleNotFoundError as problem:
            return plain(503, f"metrics need {problem.name}: pip install 'dynalsm[server]'")


def reply_type(value: bytes) -> bytes | None:
    """Return the content type of the answer to this one; None when it is none of DynamoDB's."""
    if value == CONTENT_TYPE:
        return CONTENT_TYPE
    kind = value.partition(b";")[0].strip().lower()
    if kind == CONTENT_TYPE:
        return CONTENT_TYPE
    return JSON_TYPE if kind == JSON_TYPE else None


def decoded_body(request: Request) -> bytes:
    """Return the body without its Content-Encoding. Raises: BodyTooLarge, InternalServerError."""
    encoding = request.headers.get(b"content-encoding")
    if encoding is None or encoding == b"identity":
        return request.body
    encoding = encoding.strip().lower()
    if encoding == b"gzip":
        return gunzip(request.body)
    if encoding == b"deflate":
        return whole(*inflate(request.body, zlib.MAX_WBITS, BODY_LIMIT_BYTES))
    # observed: AWS answers an encoding it cannot undo with its internal error.
    raise errors.InternalServerError()


def gunzip(body: bytes) -> bytes:
    """Decompress the members of a gzip file; there may be several, one after the other."""
    parts = []
    left_bytes = BODY_LIMIT_BYTES
    while True:
        part, body = inflate(body, 16 + zlib.MAX_WBITS, left_bytes)
        parts.append(part)
        left_bytes -= len(part)
        if not body:
            return b"".join(parts)


def inflate(body: bytes, window_bits: int, limit_bytes: int) -> tuple[bytes, bytes]:
    """Decompress one stream; return it and what follows it. Raises: BodyTooLarge, ..."""
    inflater = zlib.decompressobj(window_bits)
    try:
        plain = inflater.decompress(body, limit_bytes + 1)
    except zlib.error:
        raise errors.InternalServerError() from None
    if len(plain) > limit_bytes:
        raise BodyTooLarge
    if not inflater.eof:
        raise errors.InternalServerError()
    return plain, inflater.unused_data


def whole(plain: bytes, rest: bytes) -> bytes:
    """Return what was decompressed when nothing follows it."""
    if rest:
        raise errors.InternalServerError()
    return plain


def compressed(reply: Reply, accepted: bytes) -> Reply:
    """Return the reply compressed where the client asked for it and it is worth it.

    The checksum stays that of the plain body, as DynamoDB sends it.
    """
    if len(reply.body) < COMPRESS_FROM_BYTES:
        return reply
    name = chosen_encoding(accepted)
    if name is None:
        return reply
    if name == b"gzip":
        body = gzip.compress(reply.body, 1, mtime=0)
    else:
        body = zlib.compress(reply.body, 1)
    headers = [*reply.headers, (b"Content-Encoding", name)]
    if reply.has_checksum:
        headers.append((b"x-amz-crc32", checksum(reply.body)))
    return replace(reply, body=body, headers=headers, has_checksum=False)


@functools.lru_cache(maxsize=64)
def chosen_encoding(accepted: bytes) -> bytes | None:
    """Return the encoding that a client likes best, or None to send the plain body.

    observed (alternator): the first of equally liked encodings wins, a named one before "*";
    "identity" counts for nothing, whatever its weight.
    """
    chosen, chosen_weight, any_weight = None, 0.0, 0.0
    named = set()
    for entry in accepted.lower().split(b","):
        name, _, rest = entry.partition(b";")
        name = name.strip()
        if name == b"*":
            any_weight = max(any_weight, encoding_weight(rest))
        elif name in ENCODINGS:
            named.add(name)
            weight = encoding_weight(rest)
            if weight > chosen_weight:
                chosen, chosen_weight = name, weight
    if any_weight > chosen_weight:
        return next((name for name in ENCODINGS if name not in named), chosen)
    return chosen


def encoding_weight(parameters: bytes) -> float:
    """Return the weight of an encoding, 0 to 1.

    observed (alternator): the first "q=" counts wherever it stands, and what is no number is 1.
    """
    _, found, text = parameters.partition(b"q=")
    if not found:
        return 1.0
    try:
        weight = float(text.partition(b";")[0])
    except ValueError:
        return 1.0
    return min(max(weight, 0.0), 1.0)


def path_of(url: bytes) -> bytes:
    """Return the path of a request line's target, which may be a whole URL (through a proxy)."""
    if not url.startswith(b"/"):
        _, found, rest = url.partition(b"://")
        if found:
            url = b"/" + rest.partition(b"/")[2]
    return url.partition(b"?")[0] or b"/"


@functools.cache
def anonymous_verifier() -> Verifier:
    """Return a verifier that knows nobody, for requests that are refused anyway."""
    from dynalsm.server.auth import AnonymousVerifier

    return AnonymousVerifier()


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
        log.error("%s failed: %s", operation, error, extra={"operation": operation})
    elif known is None:
        log.error("%s failed", operation, exc_info=error, extra={"operation": operation})
    return error_reply(known or errors.InternalServerError("Internal server error"))


def plain(status: int, text: str, *headers: tuple[bytes, bytes]) -> Reply:
    """Return a line for people, which no script of another origin may read."""
    return Reply(status, text.encode() + b"\n", b"text/plain", list(headers), False, False)


def too_large() -> Reply:
    """Return the answer to a body over the limit."""
    return Reply(413, b"", b"text/plain")


def preflight_headers(asked: Mapping[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    """Return the headers that let a browser's script call from another origin."""
    headers = [(b"Access-Control-Max-Age", b"172800")]
    for name, question in (
        (b"Access-Control-Allow-Headers", b"access-control-request-headers"),
        (b"Access-Control-Allow-Methods", b"access-control-request-method"),
    ):
        if question in asked:
            headers.append((name, asked[question]))
    return headers
