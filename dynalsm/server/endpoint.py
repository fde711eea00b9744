"""The HTTP endpoint: an asyncio Protocol over httptools, on uvloop where it is installed.

One thread runs the event loop and the short operations. Replies to operations that committed are
held until the disk has them: everything that committed in one turn of the loop, on whatever
connection, shares one wait on the sync thread. Long operations run on worker threads.

Replies leave a connection in the order of its requests: each has a slot in the connection's queue
while anything before it is unfinished.

Thread safety: everything here belongs to the loop's thread except where a method says otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from typing import TYPE_CHECKING, cast

import httptools

from dynalsm.server import console, wire
from dynalsm.server.metrics import Metrics
from dynalsm.server.offload import Pages, SyncThread, Turns
from dynalsm.server.wire import Job, Reply, Request, Service

if TYPE_CHECKING:
    from dynalsm.database import Database
    from dynalsm.server.auth import Verifier
    from dynalsm.server.gate import Gate

log = logging.getLogger("dynalsm.server")

HEADER_LIMIT_BYTES = 16 * 1024  # of one request, as AWS
IDLE_LIMIT_SECONDS = 300.0  # a silent connection is closed
REQUEST_LIMIT_SECONDS = 60.0  # a request that arrives too slowly is refused
SWEEP_SECONDS = 5.0
LINGER_SECONDS = 2.0  # how long a refused client may go on sending before it is cut off
QUEUE_LIMIT = 64  # unfinished requests of one connection before it is not read any more
STOP_LIMIT_SECONDS = 30.0  # how long stop() waits for requests under way
# Bodies of this size take milliseconds to read: they are handled by a worker.
LONG_BODY_BYTES = 64 * 1024
WORKERS = 4
# What walks over all of the engine's files, so that it belongs on a worker as well.
LONG_PATHS = (wire.METRICS_PATH, console.PATH)
HEAD = (
    b"HTTP/1.1 %d %s\r\n%sContent-Type: %s\r\nx-amzn-RequestId: %s\r\n%s"
    b"Content-Length: %d\r\n\r\n%s"
)
CORS_HEAD = (
    b"Access-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: %s\r\n"
    % wire.EXPOSED_HEADERS
)


class Slot:
    """The place of one reply in its connection's queue."""

    __slots__ = ("close", "data")

    def __init__(self, close: bool) -> None:
        self.data: bytes | None = None  # None: unfinished
        self.close = close  # whether the connection ends with this reply


class Connection(asyncio.Protocol):
    """One client. Callbacks named on_* come from the parser."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.slots: deque[Slot] = deque()
        self.transport: asyncio.Transport | None = None
        self.parser = httptools.HttpRequestParser(self)
        # Requests that came behind one that a worker runs; they start when it has ended.
        self.waiting: deque[tuple[Request, bool]] = deque()
        self.is_blocked = False
        self.active_at = self.started_at = server.loop.time()
        self.in_request = False
        self._is_paused = False
        self._is_refused = False
        self._reset()

    def _reset(self) -> None:
        self.url = b""
        self.headers: dict[bytes, bytes] = {}
        self.parts: list[bytes] = []
        self.body_bytes = 0
        self.header_bytes = 0
        self.in_headers = True

    # --- from the transport -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self.slots.clear()
        self.waiting.clear()
        self.server.connections.discard(self)
        self.server.note_idle()

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        self.active_at = self.server.loop.time()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            log.error("a request failed", exc_info=error.__context__ or error)
            self.refuse(500)
        except (httptools.HttpParserUpgrade, httptools.HttpParserError):
            self.refuse(400)
        if self.in_request and self.in_headers:
            self.header_bytes += len(data)
            if self.header_bytes > HEADER_LIMIT_BYTES:
                self.refuse(400)

    def pause_writing(self) -> None:
        """The client reads too slowly: stop taking its requests."""
        self._pause()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._resume()

    # --- from the parser --------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._reset()
        self.in_request = True
        self.started_at = self.active_at

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes | None) -> None:
        name = name.lower()
        value = value or b""
        if name in self.headers:
            if name == b"accept-encoding":
                # observed (alternator): all lines are signed, but only the first one counts.
                self.headers.setdefault(wire.FIRST_ENCODINGS, self.headers[name])
            value = self.headers[name] + b"," + value
        self.headers[name] = value

    def on_headers_complete(self) -> None:
        self.in_headers = False
        head = len(self.url) + sum(map(len, self.headers)) + sum(map(len, self.headers.values()))
        if head > HEADER_LIMIT_BYTES:
            self.refuse(400)
            return
        length = self.headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > wire.BODY_LIMIT_BYTES:
            self.refuse(413)
        elif self.headers.get(b"expect", b"").lower() == b"100-continue" and self.transport:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        if self._is_refused:
            return
        self.body_bytes += len(body)
        if self.body_bytes > wire.BODY_LIMIT_BYTES:
            self.refuse(413)
            return
        self.parts.append(body)

    def on_message_complete(self) -> None:
        self.in_request = False
        if self._is_refused:
            return
        parts = self.parts
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        request = Request(self.parser.get_method(), self.url, self.headers, body)
        keep_alive = self.parser.should_keep_alive() and not self.server.is_stopping
        if not keep_alive:
            self._is_refused = True  # nothing after this request is looked at
        if self.is_blocked:
            self.waiting.append((request, not keep_alive))
            if len(self.waiting) >= QUEUE_LIMIT:
                self._pause()
        else:
            self.server.handle(self, request, not keep_alive)

    def unblock(self) -> None:
        """Start the requests that came behind the one that a worker has just ended."""
        self.is_blocked = False
        while self.waiting and not self.is_blocked:
            self.server.handle(self, *self.waiting.popleft())
        if not self.is_blocked:
            self._resume()

    # --- replies ----------------------------------------------------------------------------

    def refuse(self, status: int) -> None:
        """Answer a request that cannot be read, and end the connection after it."""
        if self._is_refused:
            return
        self._is_refused = True
        self.in_request = False
        reply = Reply(status, b"", b"text/plain")
        self.finish(self.new_slot(close=False), self.server.frame(reply, None, close=True))
        # Closing now would reset the connection under a client that still sends, and the reply
        # would be lost; what comes meanwhile is thrown away.
        self.server.loop.call_later(LINGER_SECONDS, self._close)

    def _close(self) -> None:
        if self.transport is not None:
            self.transport.close()

    def new_slot(self, close: bool) -> Slot:
        """Return the last place of the queue."""
        slot = Slot(close)
        self.slots.append(slot)
        if len(self.slots) >= QUEUE_LIMIT:
            self._pause()
        return slot

    def send(self, data: bytes, close: bool) -> None:
        """Send a reply at once. REQUIRES: the queue is empty."""
        if self.transport is not None:
            self.transport.write(data)
            if close:
                self.transport.close()

    def finish(self, slot: Slot, data: bytes) -> None:
        """Fill a slot and send what is complete at the head of the queue."""
        slot.data = data
        slots = self.slots
        while slots and (ready := slots[0].data) is not None:
            last = slots.popleft()
            self.send(ready, last.close)
        if self._is_paused and len(slots) < QUEUE_LIMIT // 2:
            self._resume()

    def _pause(self) -> None:
        if self.transport is not None and not self._is_paused and not self.transport.is_closing():
            self._is_paused = True
            self.transport.pause_reading()

    def _resume(self) -> None:
        if self.transport is not None and self._is_paused and not self.transport.is_closing():
            self._is_paused = False
            self.transport.resume_reading()


class Held:
    """A reply that waits for the disk."""

    __slots__ = ("connection", "reply", "request", "since", "slot")

    def __init__(self, connection: Connection, slot: Slot, request: Request, reply: Reply) -> None:
        self.since = time.perf_counter()
        self.connection = connection
        self.slot = slot
        self.request = request
        self.reply = reply


class Server:
    """The endpoint of one database on the running event loop: start(), then stop()."""

    def __init__(
        self,
        database: Database,
        verifier: Verifier | None = None,
        has_metrics: bool = True,
        has_console: bool = False,
        gate: Gate | None = None,
    ) -> None:
        self.database = database
        self._metrics = Metrics(database) if has_metrics or has_console else None
        page = console.Console(database, verifier, self._metrics) if has_console else None
        self.service = Service(database, verifier, self._metrics, page, has_metrics, gate)
        self.loop = asyncio.get_running_loop()
        self.connections: set[Connection] = set()
        self.is_stopping = False
        self._listeners: list[asyncio.Server] = []
        self._hold = database.hold() if database.must_wait else None
        self._syncer = SyncThread(database)
        self._turns = Turns(self.loop, self._syncer, self._release, may_block=True)
        self._workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="dynalsm-worker")
        self._pages = Pages()
        self._busy = 0  # requests on worker threads
        self._idle = asyncio.Event()
        self._head_second = -1
        self._head = b""
        self._sweeper: asyncio.TimerHandle | None = None

    async def start(
        self, host: str, port: int, tls: ssl.SSLContext | None = None
    ) -> tuple[str, int]:
        """Listen, and return the address. Raises: OSError."""
        listener = await self.loop.create_server(
            lambda: Connection(self), host, port, ssl=tls, backlog=1024, reuse_address=True
        )
        self._listeners.append(listener)
        self._sweeper = self.loop.call_later(SWEEP_SECONDS, self._sweep)
        address = listener.sockets[0].getsockname()
        return address[0], address[1]

    async def stop(self) -> None:
        """Take no more requests, finish those under way, and close every connection."""
        self.is_stopping = True
        for listener in self._listeners:
            listener.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        deadline = self.loop.time() + STOP_LIMIT_SECONDS
        while self._is_working() and self.loop.time() < deadline:
            self._idle.clear()
            try:
                await asyncio.wait_for(self._idle.wait(), 0.1)
            except TimeoutError:
                pass
        for connection in list(self.connections):
            if connection.transport is not None:
                connection.transport.close()
        self._workers.shutdown(wait=False, cancel_futures=True)
        self._syncer.stop()
        self.database.release_hold()

    def note_idle(self) -> None:
        """Tell stop() to look again."""
        if self.is_stopping:
            self._idle.set()

    def _is_working(self) -> bool:
        return bool(self._busy or self._turns.waits) or any(
            connection.slots or connection.in_request for connection in self.connections
        )

    # --- requests ---------------------------------------------------------------------------

    def handle(self, connection: Connection, request: Request, close: bool) -> None:
        """Answer one request: now, after the disk, or from a worker."""
        if len(request.body) > LONG_BODY_BYTES or request.url.startswith(LONG_PATHS):
            self._to_worker(connection, request, None, close)
            return
        job = self.service.parse(request)
        if isinstance(job, Job):
            if self._pages.is_slow(job):
                self._to_worker(connection, request, job, close)
                return
            reply = self._pages.run(job, self.service)
            seqno = self._hold.take() if self._hold is not None else 0
            if seqno > 0 and seqno > self.database.engine.durable_seqno:
                held = Held(connection, connection.new_slot(close), request, reply)
                self._turns.add(held, seqno)
                return
        else:
            reply = job
        data = self.frame(reply, request, close)
        if connection.slots:
            connection.finish(connection.new_slot(close), data)
        else:
            connection.send(data, close)

    def _to_worker(
        self, connection: Connection, request: Request, job: Job | None, close: bool
    ) -> None:
        slot = connection.new_slot(close)
        connection.is_blocked = True
        self._busy += 1

        def work() -> None:
            # On a worker thread: commits are waited for there, so the reply is ready to go.
            if job is None:
                reply = self.service.answer(request)
            else:
                reply = self._pages.run(job, self.service)
            data = self.frame(reply, request, close)
            self.loop.call_soon_threadsafe(done, data)

        def done(data: bytes) -> None:
            self._busy -= 1
            connection.finish(slot, data)
            connection.unblock()
            self.note_idle()

        self._workers.submit(work)

    # --- one wait for the disk per turn -----------------------------------------------------

    def _release(self, turn: list[Held], error: Exception | None) -> None:
        if self._metrics is not None and error is None:
            now = time.perf_counter()
            self._metrics.count_waits(now - held.since for held in turn)
        for held in turn:
            reply = held.reply if error is None else wire.failure_reply("commit", error)
            data = self.frame(reply, held.request, held.slot.close)
            held.connection.finish(held.slot, data)
        self.note_idle()

    # --- framing ----------------------------------------------------------------------------

    def frame(self, reply: Reply, request: Request | None, close: bool = False) -> bytes:
        """Return the bytes of a reply. May be called from worker threads."""
        accepted = b"" if request is None else request.headers.get(b"accept-encoding", b"")
        if request is not None and accepted and accepted != b"identity":
            accepted = request.headers.get(wire.FIRST_ENCODINGS, accepted)
            reply = wire.compressed(reply, accepted)
        extra = b"".join(b"%s: %s\r\n" % header for header in reply.headers)
        if request is not None and b"origin" in request.headers and reply.is_shared:
            extra += CORS_HEAD
        if reply.has_checksum:
            extra += b"x-amz-crc32: %s\r\n" % wire.checksum(reply.body)
        if close:
            extra += b"Connection: close\r\n"
        kind = reply.content_type
        if kind is wire.CONTENT_TYPE and request is not None:
            # observed (dynalite): the type of the request, application/json when it has none.
            asked = request.headers.get(b"content-type", b"")
            kind = kind if asked == kind else wire.reply_type(asked) or wire.JSON_TYPE
        return HEAD % (
            reply.status,
            wire.STATUS_TEXT[reply.status],
            self._common_head(),
            kind,
            wire.request_id(),
            extra,
            len(reply.body),
            b"" if request is not None and request.method == b"HEAD" else reply.body,
        )

    def _common_head(self) -> bytes:
        now = int(time.time())
        if now != self._head_second:
            date = formatdate(now, usegmt=True).encode()
            self._head = b"Server: dynalsm\r\nDate: %s\r\n" % date
            self._head_second = now
        return self._head

    def _sweep(self) -> None:
        """Close connections that are silent, or that send a request too slowly."""
        now = self.loop.time()
        for connection in list(self.connections):
            silent_seconds = now - connection.active_at
            if connection.slots or connection.transport is None:
                continue
            since = connection.started_at if connection.in_headers else connection.active_at
            if connection.in_request and now - since > REQUEST_LIMIT_SECONDS:
                connection.refuse(400)
            elif silent_seconds > IDLE_LIMIT_SECONDS:
                connection.transport.close()
        self._sweeper = self.loop.call_later(SWEEP_SECONDS, self._sweep)
