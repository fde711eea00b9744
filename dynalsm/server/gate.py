"""Which browsers may use a server that asks for no keys.

A server on this machine trusts whoever can reach it, and a web page in a browser on this machine
can reach it too. Two headers tell a page of somebody else's from the programs of this machine:

- Origin: browsers send it with every POST and with every request to another site; SDKs, curl and
  the AWS CLI never do. Pages of this machine (localhost, 127.0.0.0/8, ::1) and of the server
  itself pass, others are refused.
- Host: a page whose name is made to point at this machine ("DNS rebinding") is of one site with
  the server in the eyes of the browser, but its requests bear the page's name. Addresses,
  localhost, names without a dot (those of containers), of reserved domains and of this machine
  pass, others are refused.

observed (alternator): DynamoDB answers preflight requests of any origin, which is harmless and so
done here as well: it is the operation that is refused, with a text that the page may read.

Thread safety: a Gate may be shared; its sets only ever grow by one at a time.
"""

from __future__ import annotations

import fnmatch
import ipaddress
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dynalsm import errors

if TYPE_CHECKING:
    from dynalsm.server.wire import Request

# Nobody can register a name in these: the first is bound to this machine (RFC 6761), the second
# reserved for private use (ICANN, 2024; Docker's host.docker.internal is one).
RESERVED_DOMAINS = (".localhost", ".internal")
REMEMBERED_HOSTS = 100


class Gate:
    """Refuses requests that a page of another site makes."""

    def __init__(self, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> None:
        """hosts: further names, which may hold `*`; origins: further sites, or `*` for all."""
        self._host_patterns = [host.lower().rstrip(".") for host in hosts]
        self._origins = {origin.lower().rstrip("/") for origin in origins}
        self._own_names: set[str] | None = None
        # Values of Host that passed: nearly every request is settled by a look into it.
        self._passed: set[bytes | None] = {None}  # no Host: HTTP/1.0, which no browser speaks

    def check(self, request: Request) -> None:
        """Raises: AccessDeniedException."""
        self.check_host(request)
        headers = request.headers
        if b"origin" in headers:
            self._check_origin(headers[b"origin"].decode("latin-1"), headers.get(b"host", b""))

    def check_host(self, request: Request) -> None:
        """Look at Host alone. Raises: AccessDeniedException."""
        value = request.headers.get(b"host")
        if value in self._passed:
            return
        assert value is not None
        name = host_name(value.decode("latin-1"))
        if not self._is_known(name):
            raise errors.AccessDeniedException(
                f"This server has no keys and does not know the host name '{name}', by which a "
                "web page might have been led here. If it is a name of this server, start it "
                f"with --allow-host {name}, or with --auth."
            )
        if len(self._passed) < REMEMBERED_HOSTS:
            self._passed.add(value)

    def _is_known(self, name: str) -> bool:
        if "." not in name or is_address(name) or name.endswith(RESERVED_DOMAINS):
            return True
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in self._host_patterns):
            return True
        if self._own_names is None:
            names = {socket.gethostname().lower(), socket.getfqdn().lower()}
            self._own_names = names
        return name in self._own_names

    def _check_origin(self, origin: str, host: bytes) -> None:
        origin = origin.lower().rstrip("/")
        if "*" in self._origins or origin in self._origins:
            return
        scheme, _, place = origin.partition("://")
        is_own = bool(place) and place == host.decode("latin-1").lower()
        if scheme in ("http", "https") and (is_own or is_of_this_machine(origin)):
            return
        raise errors.AccessDeniedException(
            f"This server has no keys and takes no requests from pages of '{origin}'. If they "
            f"may read and write everything, start it with --allow-origin {origin}."
        )


def host_name(value: str) -> str:
    """Return the name in a Host header, without port and final dot, in lower case."""
    if value.startswith("["):
        name = value[1:].partition("]")[0]
    elif value.count(":") > 1:  # an address of IPv6 without its brackets
        name = value
    else:
        name = value.partition(":")[0]
    return name.strip().rstrip(".").lower()


def is_address(name: str) -> bool:
    """Say whether the name is an IP address, which nobody can lead elsewhere."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_of_this_machine(origin: str) -> bool:
    """Say whether an origin is a server of this machine."""
    try:
        name = urlsplit(origin).hostname or ""
    except ValueError:
        return False
    if name == "localhost" or name.endswith(".localhost"):
        return True
    return is_address(name) and ipaddress.ip_address(name).is_loopback
