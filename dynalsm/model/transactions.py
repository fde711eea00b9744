"""Client tokens: a transaction sent twice within ten minutes runs once.

A token is kept in the catalog tree, in the same engine batch as the transaction it names, so it is
durable exactly when the transaction is:

    record ("token", "<kind>/<token>") = [digest of the request, completed at (seconds),
                                          [[table, read units of a replay], ...]]

Expired records are deleted by later transactions that carry a token, a few at a time.

Thread safety: every method may be called from any thread.
Invariant: a token is in `_running` from `begin` to `end`, so a second request with it meanwhile
is refused.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import msgpack

from dynalsm.limits import CLIENT_TOKEN_SECONDS
from dynalsm.model import records

if TYPE_CHECKING:
    from dynalsm.model.settings import Settings

RECORD: Final = "token"
# How many expired tokens one transaction cleans up.
_SWEEP_COUNT: Final = 4

Units = list[tuple[str, int]]
_TOKEN: Any = tuple[bytes, float, tuple[tuple[str, int], ...]]  # as stored


class TokenMismatch(Exception):
    """The token was used with another request."""


class TokenRunning(Exception):
    """A transaction with this token has not finished yet."""


class Tokens:
    """The client tokens of one database."""

    def __init__(self, catalog_tree: Any, settings: Settings) -> None:
        self._tree = catalog_tree
        self._clock = settings.clock
        self._mutex = threading.Lock()
        self._running: dict[str, bytes] = {}  # Guarded by _mutex: name -> digest.
        # Guarded by _mutex: (completed at, name), oldest first; None: not loaded yet.
        self._ages: deque[tuple[float, str]] | None = None

    def begin(self, kind: str, token: str, digest: bytes) -> Units | None:
        """Take a token. Returns None, or what a replay reports when it has been used before.

        Raises: TokenMismatch, TokenRunning. After None, `end` must follow.
        """
        name = f"{kind}/{token}"
        with self._mutex:
            running = self._running.get(name)
            if running is None:
                known = self._tree.get(_key(name))
                if known is None:
                    self._running[name] = digest
                    return None
        if running is not None:
            if running != digest:
                raise TokenMismatch
            raise TokenRunning
        used_digest, completed, units = _unpack(known)
        if completed + CLIENT_TOKEN_SECONDS <= self._clock():
            self._begin_again(name, digest)
            return None
        if used_digest != digest:
            raise TokenMismatch
        return units

    def _begin_again(self, name: str, digest: bytes) -> None:
        with self._mutex:
            if name in self._running:
                raise TokenRunning
            self._running[name] = digest

    def stage(self, batch: Any, kind: str, token: str, digest: bytes, units: Units) -> None:
        """Add the record of a transaction that is about to be committed with `batch`."""
        name = f"{kind}/{token}"
        now = self._clock()
        with self._mutex:
            ages = self._load_locked()
            for _ in range(_SWEEP_COUNT):
                if not ages or ages[0][0] + CLIENT_TOKEN_SECONDS > now:
                    break
                _, old = ages.popleft()
                if old not in self._running:
                    batch.delete(self._tree, _key(old))
            ages.append((now, name))
        batch.put(self._tree, _key(name), msgpack.packb([digest, now, units]))

    def end(self, kind: str, token: str) -> None:
        """Let go of a token, whether its transaction was committed or not."""
        with self._mutex:
            self._running.pop(f"{kind}/{token}", None)

    def _load_locked(self) -> deque[tuple[float, str]]:
        if self._ages is None:
            prefix = _key("")
            self._ages = deque(
                sorted(
                    (_unpack(packed)[1], key[len(prefix) :].decode())
                    for key, packed in self._tree.cursor(prefix, prefix[:-1] + b"\x01")
                )
            )
        return self._ages


def _unpack(packed: bytes) -> tuple[bytes, float, Units]:
    what = "the record of a client request token"
    digest, completed, units = records.build(_TOKEN, records.unpack(packed, what), what)
    return digest, completed, list(units)


def _key(name: str) -> bytes:
    return f"{RECORD}\0{name}".encode()
