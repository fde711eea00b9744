"""Raw bytes at the HTTP protocol, with and without keys: what a socket would deliver.

An input is a byte for the server (without keys, with keys), a byte for how the bytes are cut into
pieces, and the bytes. Every answer must be a well-formed HTTP reply; a connection that is not
refused and not in the middle of a request must answer one more request.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import random
import re
import shutil
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

import dynalsm
from dynalsm import errors
from dynalsm.server.auth import AccessKey, Verifier
from dynalsm.server.endpoint import Connection, Server
from tests.fuzz.loop import Fault
from tests.fuzz.mutate import LEAVES, dump, load, mutate, mutate_text, mutate_tree
from tests.support.store import PAIRS, S, Store

KEYS = (
    AccessKey("AKID", "secret"),
    AccessKey("READER", "secret", read_only=True, tables=("pairs",)),
)
NO_ANSWER_SECONDS = 10.0
BUSY_TURNS = 20
PING = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
WORDS = [
    "\r\n", "\r\n\r\n", "\n", "\r", ":", " ", "GET", "POST", "OPTIONS", "HEAD", "PUT", "/",
    "/metrics",
    "HTTP/1.1", "HTTP/1.0", "HTTP/9.9", "Content-Length: 5\r\n", "Content-Length: -1\r\n",
    "Content-Length: 99999999999999999999\r\n", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n",
    "ffffffffffffffff\r\n", "5\r\nabcde\r\n", "Content-Encoding: gzip\r\n",
    "Expect: 100-continue\r\n",
    "Connection: close\r\n", "Upgrade: websocket\r\nConnection: Upgrade\r\n", "Origin: http://x\r\n",
    "Accept-Encoding: gzip;q=0.5, *;q=nan\r\n", "Host: evil\r\n", "X-Amz-Target: ", "AWS4-",
    "X-Amz-Date: 99991231T235959Z\r\n", "Date: Tue, 15 Nov 1994 08:12:31 GMT\r\n", "%00", "%zz",
    "SignedHeaders=host", "Credential=AKID/20200101/x/dynamodb/aws4_request", "Signature=",
    "?X-Amz-Algorithm=AWS4-HMAC-SHA256", "x-amz-content-sha256: UNSIGNED-PAYLOAD\r\n",
    "Authorization: Basic QUtJRDpzZWNyZXQ=\r\n", "\x00", "é", "x" * 20_000,
]  # fmt: skip
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ([A-Za-z ]+)\r\n")


class Transport(asyncio.Transport):
    """Keeps what is written; the kernel's half of a connection."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.is_closed = False
        self.is_paused = False

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


def http(body: bytes, headers: dict[str, str], method: str = "POST", path: str = "/") -> bytes:
    """A request as bytes."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"{method} {path} HTTP/1.1\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
    return head.encode("latin-1", "replace") + body


def chunked(body: bytes, headers: dict[str, str]) -> bytes:
    """The same in chunks."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    half = len(body) // 2
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in (body[:half], body[half:]))
    head = f"POST / HTTP/1.1\r\n{lines}Transfer-Encoding: chunked\r\n\r\n"
    return head.encode("latin-1", "replace") + chunks + b"0\r\n\r\n"


def plain_headers(operation: str) -> dict[str, str]:
    return {
        "Host": "localhost:8000",
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": f"DynamoDB_20120810.{operation}",
    }


def signed_headers(operation: str, body: bytes, key: str = "AKID") -> dict[str, str]:
    """Headers with a signature of botocore's over the body, of the present time."""
    headers = plain_headers(operation)
    request = AWSRequest("POST", "http://localhost:8000/", headers=headers, data=body)
    SigV4Auth(Credentials(key, "secret"), "dynamodb", "eu-west-1").add_auth(request)
    return {name: str(value) for name, value in request.headers.items()}


class Http:
    """See the module's docstring."""

    name = "http"
    may_log = False
    has_state = True

    def __init__(self, work: Path) -> None:
        self.work = work
        self.opened = 0
        self.loop = asyncio.new_event_loop()
        self.open()

    def open(self) -> None:
        """Two servers of one database: without keys, and with."""
        self.path = self.work / f"database-{self.opened}"
        self.opened += 1
        # Replies to writes wait for the disk, in a turn of the loop of their own.
        self.database = dynalsm.open(self.path, durability="commit", memory_bytes=32 << 20)
        store = Store(self.database)
        for number in range(20):
            store.put(PAIRS, p=S("a"), s=S(f"s{number}"), a=S("x" * 400))
        self.servers = self.loop.run_until_complete(self.start())

    async def start(self) -> list[Server]:
        verifier = Verifier(KEYS)
        return [Server(self.database), Server(self.database, verifier)]

    async def stop(self) -> None:
        for server in self.servers:
            await server.stop()

    # --- making inputs ------------------------------------------------------------------------

    def bodies(self) -> list[tuple[str, bytes]]:
        key = {"p": S("a"), "s": S("s1")}
        return [
            ("GetItem", dump({"TableName": PAIRS, "Key": key})),
            ("PutItem", dump({"TableName": PAIRS, "Item": {**key, "a": S("new")}})),
            ("Scan", dump({"TableName": PAIRS})),
            ("ListTables", b"{}"),
            ("DescribeTable", dump({"TableName": PAIRS})),
        ]

    def seeds(self) -> list[bytes]:
        made: list[tuple[int, bytes]] = []
        for operation, body in self.bodies():
            headers = plain_headers(operation)
            packed = {**headers, "Content-Encoding": "gzip", "Accept-Encoding": "gzip"}
            made.append((0, http(body, headers)))
            made.append((0, chunked(body, {**headers, "Accept-Encoding": "deflate"})))
            made.append((0, http(gzip.compress(body, 1, mtime=0), packed)))
            deflated = {**packed, "Content-Encoding": "deflate"}
            made.append((0, http(zlib.compress(body), deflated)))
            made.append((1, http(body, signed_headers(operation, body))))
            made.append((1, http(body, signed_headers(operation, body, "READER"))))
        two = made[0][1] + made[1][1]
        made += [
            (0, two),
            (0, PING),
            (0, http(b"", {"Host": "x", "Origin": "http://y"}, "OPTIONS")),
        ]
        made.append((0, http(b"", {"Host": "localhost"}, "GET", "/metrics")))
        basic = {"Host": "localhost", "Authorization": "Basic QUtJRDpzZWNyZXQ="}
        made.append((1, http(b"", basic, "GET", "/metrics")))
        query = "/?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKID%2F20200101%2Fx"
        made.append((1, http(b"{}", plain_headers("ListTables"), path=query)))
        made.append((0, PING.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")))
        return [bytes([server, 0]) + content for server, content in made]

    def make(self, rng: random.Random, kept: Sequence[bytes]) -> bytes:
        way = rng.random()
        if way < 0.15:
            return self.fresh(rng)
        data = rng.choice(kept)
        server = data[0] if rng.random() < 0.9 else 1 - data[0] % 2
        content = data[2:]
        if way < 0.55:
            head, mark, body = content.partition(b"\r\n\r\n")
            text = mutate_text(rng, head.decode("latin-1"), WORDS)
            content = text.encode("latin-1", "replace") + mark + body
        else:
            words = [word.encode("latin-1", "replace") for word in WORDS]
            content = mutate(rng, content, words, kept)
        return bytes([server, rng.choice([0, 0, 1, 2, 60, 255])]) + content

    def fresh(self, rng: random.Random) -> bytes:
        """A good frame around a changed body, signed or not."""
        operation, body = rng.choice(self.bodies())
        body = dump(mutate_tree(rng, load(body), LEAVES))
        if rng.random() < 0.3:
            body = mutate(rng, body)
        if rng.random() < 0.4:
            return bytes([1, 0]) + http(body, signed_headers(operation, body))
        headers = plain_headers(operation)
        if rng.random() < 0.5:
            return bytes([0, 0]) + chunked(body, headers)
        packed = gzip.compress(body, 1, mtime=0)
        if rng.random() < 0.5:
            packed = mutate(rng, packed)
        return bytes([0, 0]) + http(packed, {**headers, "Content-Encoding": "gzip"})

    # --- running them -------------------------------------------------------------------------

    def run(self, data: bytes) -> str:
        if len(data) < 2:
            return "too short"
        return self.loop.run_until_complete(self.converse(data[0] % 2, data[1], data[2:]))

    async def converse(self, server: int, cut: int, content: bytes) -> str:
        connection, transport = self.connect(server)
        pieces = [content] if cut == 0 else re.findall(b"(?s).{1,%d}" % (cut * 7), content)
        for piece in pieces:
            connection.data_received(piece)
            if transport.is_closed:
                break
        await self.settle(connection, transport)
        statuses = check_replies(bytes(transport.written))
        if not (transport.is_closed or connection._is_refused or connection.in_request):
            await self.ping(connection, transport, len(statuses))
        connection.connection_lost(None)
        other, its_transport = self.connect(server)
        await self.ping(other, its_transport, 0)
        other.connection_lost(None)
        return " ".join(["replies:", *statuses[:4]])

    def connect(self, server: int) -> tuple[Connection, Transport]:
        connection, transport = Connection(self.servers[server]), Transport()
        connection.connection_made(transport)
        return connection, transport

    async def settle(self, connection: Connection, transport: Transport) -> None:
        """Wait until every request has its reply."""
        deadline = time.monotonic() + NO_ANSWER_SECONDS
        turns = 0
        while (connection.slots or connection.waiting) and not transport.is_closed:
            if time.monotonic() > deadline:
                raise Fault("a request was never answered")
            # A turn that never waits would keep the GIL from the threads that make replies.
            turns += 1
            await asyncio.sleep(0 if turns < BUSY_TURNS else 0.0005)
        if transport.is_paused and not transport.is_closed:
            raise Fault("the connection is not read any more")

    async def ping(self, connection: Connection, transport: Transport, before: int) -> None:
        """One more request must be answered."""
        connection.data_received(PING)
        await self.settle(connection, transport)
        statuses = check_replies(bytes(transport.written))
        # What was left of a request line may make ours a bad one.
        if len(statuses) != before + 1:
            raise Fault(f"one more request was not answered: {bytes(transport.written)!r:.300}")

    def reset(self) -> None:
        self.loop.run_until_complete(self.stop())
        self.database.close()
        shutil.rmtree(self.path, ignore_errors=True)
        self.open()

    def close(self) -> None:
        self.loop.run_until_complete(self.stop())
        self.database.close()
        shutil.rmtree(self.path, ignore_errors=True)
        with contextlib.suppress(RuntimeError):
            self.loop.close()


def check_replies(data: bytes) -> list[str]:
    """Return the statuses of all replies. Raises: Fault when they are no HTTP."""
    statuses = []
    while data:
        found = _STATUS.match(data)
        head, end, rest = data.partition(b"\r\n\r\n")
        if found is None or not end:
            raise Fault(f"no reply: {data!r:.300}")
        status = found[1].decode()
        if status == "100":
            data = rest
            continue
        lines = [line.split(b": ", 1) for line in head.split(b"\r\n")[1:]]
        if any(len(line) != 2 for line in lines):
            raise Fault(f"no headers: {head!r}")
        headers = {name.lower(): value for name, value in lines}
        size = int(headers[b"content-length"])
        body, data = rest[:size], rest[size:]
        if len(body) == size or not data:
            statuses.append(check_reply(status, headers, body))
    return statuses


def check_reply(status: str, headers: dict[bytes, bytes], body: bytes) -> str:
    """Return the status, with the type of an error."""
    if headers.get(b"content-encoding") == b"gzip":
        body = gzip.decompress(body)
    elif headers.get(b"content-encoding") == b"deflate":
        body = zlib.decompress(body)
    if b"x-amz-crc32" in headers and body and int(headers[b"x-amz-crc32"]) != zlib.crc32(body):
        raise Fault("the checksum of the reply is wrong")
    if b"json" not in headers[b"content-type"] or not body:
        return status
    fields = json.loads(body)
    if status == "200":
        return status
    code = fields["__type"].partition("#")[2]
    if code not in errors.API_ERRORS or status not in ("400", "403", "500"):
        raise Fault(f"status {status}: {body!r:.300}")
    return f"{status} {code}"
