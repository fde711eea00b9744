"""A database for tests of the protocol alone: its `call` is a function, its disk is a switch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from dynalsm.database import Hold
from dynalsm.model.settings import Settings


class FakeEngine:
    """Knows how far the disk has come, and counts how often it was waited for."""

    def __init__(self) -> None:
        self.last_seqno = 0
        self.durable_seqno = 0
        self.waits: list[int] = []
        self.waiters: list[str] = []  # threads
        self.disk_is_ready = threading.Event()
        self.disk_is_ready.set()
        self.mean_sync_seconds = 1.0
        self.error: Exception | None = None

    def wait_durable(self, seqno: int) -> None:
        self.waits.append(seqno)
        self.waiters.append(threading.current_thread().name)
        assert self.disk_is_ready.wait(10)
        if self.error is not None:
            raise self.error
        self.durable_seqno = max(self.durable_seqno, seqno)


class FakeDatabase:
    """What the server needs of a Database."""

    def __init__(self, call: Callable[..., dict[str, Any]]) -> None:
        self.engine = FakeEngine()
        self.settings = Settings()
        self.must_wait = True
        self.call = call
        self._holds: dict[int, Hold] = {}

    def hold(self) -> Hold:
        return self._holds.setdefault(threading.get_ident(), Hold())

    def release_hold(self) -> None:
        self._holds.pop(threading.get_ident(), None)

    def commit(self) -> None:
        """Do what an operation does that has written something."""
        self.engine.last_seqno += 1
        hold = self._holds.get(threading.get_ident())
        if hold is None:
            self.engine.wait_durable(self.engine.last_seqno)
        else:
            hold.seqno = self.engine.last_seqno

    def wake_followers(self) -> None:
        """Nobody follows."""
