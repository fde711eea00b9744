"""The engine's threads: flush, compaction, and the interval sync. The work itself is in jobs.

A worker sleeps on the core's condition, never spins, and looks again at least once a second. A
failure of a flush is shown to stalled writers and retried with growing pauses (a full disk heals
by itself); a partition whose compaction failed is left alone for a while. What failed last stands
in `failures` until the same work succeeds, for stats(). Once the engine refuses writes (a failed
sync, say) flush and compaction end: only a reopen helps.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from dynalsm import errors
from dynalsm._core import jobs, split

if TYPE_CHECKING:
    from dynalsm._core.engine import Engine

log = logging.getLogger("dynalsm.engine")

LOOK_SECONDS = 1.0  # an idle worker looks for work so often
FIRST_PAUSE_SECONDS = 0.05  # after a failure
LAST_PAUSE_SECONDS = 5.0
# Back-pressure by level-0 files of the worst partition: writers slow down from SLOW_FILES on, up to
# LAST_PACE at STOP_FILES, so that they never meet a wall.
SLOW_FILES = 20
STOP_FILES = 48
LAST_PACE_NS_PER_KIB = 400_000


class Workers:
    """Starts and stops the threads of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stop = threading.Event()
        # Ends the pause after a failure: set by stop() and retry().
        self._wake = threading.Event()
        self._threads: list[threading.Thread] = []
        self.failures: dict[str, Exception] = {}
        self._avoided: dict[int, float] = {}

    def start(self) -> None:
        """Start what the engine's options ask for."""
        wanted = []
        if self._engine.options["background"]:
            wanted += [("flush", self._flush), ("compaction", self._compact)]
        if self._engine.durability == "interval":
            wanted.append(("sync", self._sync))
        for name, run in wanted:
            thread = threading.Thread(target=run, name=f"dynalsm-{name}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Ask the threads to end and wait for them; a running job ends within milliseconds."""
        self._stop.set()
        self._wake.set()
        jobs.wake(self._engine)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        self._threads.clear()

    def retry(self) -> None:
        """Look for work at once, also in what is avoided."""
        self._avoided.clear()
        self._wake.set()
        jobs.wake(self._engine)

    def _rest(self, name: str, error: Exception, pause: float) -> float:
        """Note the failure and sleep; returns the next pause."""
        if self._stop.is_set():
            return pause
        self.failures[name] = error
        log.error("%s failed: %s", name, error, extra={"work": name, "retry_seconds": pause})
        self._wake.wait(pause)
        if not self._stop.is_set():
            self._wake.clear()
        return min(LAST_PAUSE_SECONDS, pause * 2)

    def _flush(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while not self._stop.is_set():
            jobs.wait_for_flush(self._engine, LOOK_SECONDS)
            try:
                while not self._stop.is_set() and jobs.flush_oldest(self._engine):
                    pause = FIRST_PAUSE_SECONDS
                    self.failures.pop("flush", None)
                    self._set_pace()
            except (errors.ClosedError, errors.PoisonedError):
                return
            except (errors.StorageError, MemoryError) as error:
                jobs.note_flush_failure(self._engine, error)
                pause = self._rest("flush", error, pause)

    def _compact(self) -> None:
        ticket = 0
        pause = FIRST_PAUSE_SECONDS
        while not self._stop.is_set():
            try:
                while not self._stop.is_set() and (
                    jobs.compact_once(self._engine, self._avoided) or split.split_once(self._engine)
                ):
                    pause = FIRST_PAUSE_SECONDS
                    self._set_pace()
                split.release_retired(self._engine)
                self._forget_avoided()
            except (errors.ClosedError, errors.PoisonedError):
                return
            except (errors.StorageError, MemoryError) as error:
                pause = self._rest("compaction", error, pause)
            ticket = jobs.wait_for_ticket(self._engine, ticket, LOOK_SECONDS)

    def _forget_avoided(self) -> None:
        """Nothing is left to do but what is avoided: keep its failure, or forget an old one."""
        now = time.monotonic()
        self._avoided = {each: until for each, until in self._avoided.items() if until > now}
        if not self._avoided:
            self.failures.pop("compaction", None)

    def _set_pace(self) -> None:
        excess = jobs.top_level_files(self._engine) - SLOW_FILES
        share = max(0.0, min(1.0, excess / (STOP_FILES - SLOW_FILES)))
        jobs.set_pace(self._engine, int(share * share * LAST_PACE_NS_PER_KIB))

    def _sync(self) -> None:
        while not self._stop.wait(self._engine.options["sync_interval_seconds"]):
            try:
                jobs.sync_now(self._engine)
                self.failures.pop("sync", None)
            except errors.PoisonedError:
                return
            except errors.StorageError as error:
                self._rest("sync", error, LAST_PAUSE_SECONDS)
