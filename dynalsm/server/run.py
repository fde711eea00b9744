"""Run the endpoint: in the foreground until a signal, or on a thread of its own.

`serve` is what `dynalsm serve` calls: it returns after SIGTERM, SIGINT or SIGHUP, when
every request under way has been answered. The caller closes the database.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import signal
import ssl
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dynalsm import errors
from dynalsm.server.gate import Gate

if TYPE_CHECKING:
    from dynalsm.database import Database
    from dynalsm.server.auth import Verifier
    from dynalsm.server.endpoint import Server

# A worker that computes must not hold the loop up for CPython's usual 5 ms.
SWITCH_INTERVAL_SECONDS = 0.0005
# A terminal that goes away ends the server as gently as everything else.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class ServeError(errors.Error):
    """The server cannot start; the message says what to do."""


def is_loopback(host: str) -> bool:
    """Say whether only this machine can reach the host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_host(host: str, verifier: Verifier | None, allow_anonymous: bool) -> None:
    """Refuse to offer a database to a network without keys. Raises: ServeError."""
    if verifier is None and not allow_anonymous and not is_loopback(host):
        raise ServeError(
            f"{host} can be reached from other machines, and no keys are set: give --auth FILE, "
            "or --allow-anonymous if everybody on that network may read and write"
        )


def tls_context(certificate: str, key: str) -> ssl.SSLContext:
    """Return a server's TLS context. Raises: ServeError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as problem:
        raise ServeError(
            f"cannot use the certificate {certificate} with the key {key}: {problem}"
        ) from problem
    return context


def serve(
    database: Database,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    verifier: Verifier | None = None,
    allow_anonymous: bool = False,
    tls: ssl.SSLContext | None = None,
    has_metrics: bool = True,
    has_console: bool | None = None,
    allow_hosts: Sequence[str] = (),
    allow_origins: Sequence[str] = (),
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP; on_ready gets the URL. Raises: ServeError.

    has_console: None offers the console where only this machine can reach it.
    allow_hosts, allow_origins: names of this server and sites whose pages may use it, beyond
    those of this machine; they count where there are no keys (server/gate.py).
    """
    check_host(host, verifier, allow_anonymous)
    pages = (has_metrics, is_loopback(host) if has_console is None else has_console)
    gate = Gate([host, *allow_hosts], allow_origins)
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        stopped = asyncio.Event()
        for number in STOP_SIGNALS:
            # nohup asks for SIGHUP to be ignored, and means it.
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, stopped.set)
        server, url = await _start(database, host, port, verifier, tls, pages, gate)
        if on_ready is not None:
            on_ready(url)
        await stopped.wait()
        await server.stop()

    _run_loop(run)


class ServerThread:
    """The endpoint on a thread of this process, for tests and for programs that serve beside.

        with ServerThread(db) as server:
            boto3.client("dynamodb", endpoint_url=server.url, ...)

    Raises: ServeError from start().
    """

    def __init__(
        self,
        database: Database,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        verifier: Verifier | None = None,
        allow_anonymous: bool = False,
        tls: ssl.SSLContext | None = None,
        has_metrics: bool = True,
        has_console: bool | None = None,
        allow_hosts: Sequence[str] = (),
        allow_origins: Sequence[str] = (),
    ) -> None:
        check_host(host, verifier, allow_anonymous)
        pages = (has_metrics, is_loopback(host) if has_console is None else has_console)
        gate = Gate([host, *allow_hosts], allow_origins)
        self._arguments = (database, host, port, verifier, tls, pages, gate)
        self._ready = threading.Event()
        self._problem: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._main, name="dynalsm-server", daemon=True)
        self.url = ""

    def start(self) -> ServerThread:
        """Start serving; `url` is set on return."""
        self._thread.start()
        self._ready.wait()
        if self._problem is not None:
            raise self._problem
        return self

    def stop(self) -> None:
        """Answer what is under way and stop."""
        if self._loop is not None and self._stopped is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join()

    def __enter__(self) -> ServerThread:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _main(self) -> None:
        try:
            _run_loop(self._serve)
        except BaseException as problem:
            self._problem = problem
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        server, self.url = await _start(*self._arguments)
        self._ready.set()
        await self._stopped.wait()
        await server.stop()


async def _start(
    database: Database,
    host: str,
    port: int,
    verifier: Verifier | None,
    tls: ssl.SSLContext | None,
    pages: tuple[bool, bool],  # whether there are metrics, and the console
    gate: Gate,
) -> tuple[Server, str]:
    try:
        from dynalsm.server.endpoint import Server
    except ModuleNotFoundError as problem:
        raise ServeError(
            f"the server needs {problem.name}: pip install 'dynalsm[server]'"
        ) from problem

    server = Server(database, verifier, *pages, gate)
    try:
        address, bound = await server.start(host, port, tls)
    except OSError as problem:
        await server.stop()
        raise ServeError(_why_not_bound(host, port, problem)) from problem
    except BaseException:
        await server.stop()
        raise
    shown = f"[{address}]" if ":" in address else address
    return server, f"{'https' if tls else 'http'}://{shown}:{bound}"


def _why_not_bound(host: str, port: int, problem: OSError) -> str:
    if problem.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use: stop the other program or give another --port"
    if problem.errno == errno.EACCES:
        return f"port {port} needs more rights: give a --port above 1023"
    if problem.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine"
    return f"cannot listen on {host} port {port}: {problem.strerror or problem}"


def _run_loop(main: Callable[[], Any]) -> None:
    factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    try:
        import uvloop

        factory = uvloop.new_event_loop
    except ModuleNotFoundError:
        pass
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
