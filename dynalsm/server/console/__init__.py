"""The console: a web page on the database, at `/_console/`, with its scripts and JSON calls.

The page's own files hold no data and go to anybody who reaches the server. Everything that tells
about the database is a JSON call under `/_console/api/` or an operation of the endpoint itself;
where keys are configured, both must be signed, and the rights of the key hold.

A path from outside never reaches the file system: all files of the page are read once, and a
request is a key of that dict.

Thread safety: any thread may call answer().
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs

import orjson

from dynalsm import errors
from dynalsm.server.console import figures
from dynalsm.server.wire import Reply, Request, error_reply, failure_reply, path_of

if TYPE_CHECKING:
    from dynalsm.database import Database
    from dynalsm.server.auth import AccessKey, Verifier
    from dynalsm.server.metrics import Metrics

PATH = b"/_console"
_HOME = PATH + b"/"
_API = _HOME + b"api/"
TYPES = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
JSON_TYPE = b"application/json"
PLAIN_TYPE = b"text/plain; charset=utf-8"
# Nothing from elsewhere, nothing inline, no markup made from strings.
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    b"require-trusted-types-for 'script'; trusted-types 'none'"
)
SAFE = [
    (b"X-Content-Type-Options", b"nosniff"),
    (b"Cross-Origin-Resource-Policy", b"same-origin"),
    (b"Referrer-Policy", b"no-referrer"),
]
PAGE_HEADERS = [
    *SAFE,
    (b"Content-Security-Policy", POLICY),
    (b"Cross-Origin-Opener-Policy", b"same-origin"),
    (b"X-Frame-Options", b"DENY"),
    (b"Cache-Control", b"no-cache"),  # asked for again each time, answered by 304
]
API_HEADERS = [*SAFE, (b"Cache-Control", b"no-store")]


class File(NamedTuple):
    """One file of the page."""

    body: bytes
    content_type: bytes
    tag: bytes


@functools.cache
def page_files() -> dict[bytes, File]:
    """Return every file of the page by the path of its request."""
    found: dict[bytes, File] = {}
    for entry in Path(__file__).with_name("page").iterdir():
        if entry.suffix not in TYPES:
            continue
        body = entry.read_bytes()
        tag = b'"%s"' % hashlib.sha256(body).hexdigest()[:20].encode()
        found[_HOME + entry.name.encode()] = File(body, TYPES[entry.suffix], tag)
    found[_HOME] = found.pop(_HOME + b"index.html")
    return found


class Console:
    """Answers what begins with `/_console`."""

    def __init__(
        self, database: Database, verifier: Verifier | None, metrics: Metrics | None
    ) -> None:
        self._database = database
        self._verifier = verifier
        self._metrics = metrics

    def answer(self, request: Request) -> Reply | None:
        """Return the reply, or None for a path that is not the console's."""
        path = path_of(request.url)
        if path != PATH and not path.startswith(_HOME):
            return None
        if request.method not in (b"GET", b"HEAD"):
            return _plain(405, b"the console is read by GET\n", [(b"Allow", b"GET, HEAD")])
        if path.startswith(_API):
            return self._api(path[len(_API) :], request)
        if path == PATH:
            return _plain(308, b"", [(b"Location", _HOME)])
        file = page_files().get(path)
        if file is None:
            return _plain(404, b"the console has no such page\n")
        headers = [*PAGE_HEADERS, (b"ETag", file.tag)]
        if file.tag in request.headers.get(b"if-none-match", b""):
            return Reply(304, b"", file.content_type, headers, False, False)
        return Reply(200, file.body, file.content_type, headers, False, False)

    def _api(self, name: bytes, request: Request) -> Reply:
        call = {
            b"session": self._session,
            b"tables": self._tables,
            b"stats": self._stats,
            b"partitions": self._partitions,
        }.get(name)
        if call is None:
            return _plain(404, b"the console has no such call\n")
        if _is_from_elsewhere(request):
            return _plain(403, b"only the console's own page may ask\n")
        try:
            reply = Reply(200, orjson.dumps(call(request)), JSON_TYPE)
        except errors.ApiError as error:
            reply = error_reply(error)
        except Exception as error:
            reply = failure_reply(f"/_console/api/{name.decode()}", error)
        reply.content_type = JSON_TYPE
        reply.headers = API_HEADERS
        reply.has_checksum = reply.is_shared = False
        return reply

    def _key(self, request: Request) -> AccessKey | None:
        """Return the key that signed; None where nobody has to. Raises: ApiError."""
        return None if self._verifier is None else self._verifier.verify(request)

    def _session(self, request: Request) -> dict[str, Any]:
        """What the page must know before it can sign, and afterwards who has signed."""
        known = figures.greeting(self._database, needs_keys=self._verifier is not None)
        if self._verifier is not None and b"authorization" not in request.headers:
            return known
        return known | figures.session(self._database, self._key(request))

    def _tables(self, request: Request) -> dict[str, Any]:
        return figures.tables(self._database, self._key(request))

    def _stats(self, request: Request) -> dict[str, Any]:
        return figures.stats(self._database, self._metrics, self._key(request))

    def _partitions(self, request: Request) -> dict[str, Any]:
        key = self._key(request)
        query = parse_qs(request.url.partition(b"?")[2].decode("latin-1"))
        tree = query.get("tree", [""])[0]
        return figures.partitions(self._database, key, tree)


def _is_from_elsewhere(request: Request) -> bool:
    """Say whether another site's page asks; browsers tell, and nobody else needs to."""
    if request.headers.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none"):
        return True
    origin = request.headers.get(b"origin")
    return origin is not None and origin.partition(b"://")[2] != request.headers.get(b"host")


def _plain(status: int, text: bytes, headers: list[tuple[bytes, bytes]] | None = None) -> Reply:
    return Reply(status, text, PLAIN_TYPE, [*SAFE, *(headers or ())], False, False)
