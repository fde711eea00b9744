"""Long work in the background: restores, exports, imports, bulk operations.

A job has a record in the catalog, under its kind and name, from before it begins:

    catalog record (<kind>, <name>) = {"status": ..., "started_at": ..., what the job needs}

A database that is opened again goes on with every job whose record says that it is not over; so a
crash, or closing the database, only delays a job. What "going on" means is the kind's business.

Small jobs end within the call that starts them (`Settings.job_wait_seconds`), so a script need
not poll for them; the reply says IN_PROGRESS all the same, as AWS's does.

Thread safety: any thread. A job's thread may take the catalog's mutex, so nobody may hold it while
waiting for a job.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from dynalsm import errors
from dynalsm.model import records
from dynalsm.model.backup_file import Stopped

log = logging.getLogger("dynalsm")

IN_PROGRESS: Final = "IN_PROGRESS"
COMPLETED: Final = "COMPLETED"
COMPLETED_WITH_ERRORS: Final = "COMPLETED_WITH_ERRORS"
FAILED: Final = "FAILED"
CANCELLING: Final = "CANCELLING"
CANCELLED: Final = "CANCELLED"
UNFINISHED: Final = (IN_PROGRESS, CANCELLING)

# Records of finished jobs are shown for so long (ListExports, ListImports, ListBulkOperations).
KEEP_SECONDS: Final = 90 * 86_400


@dataclass(frozen=True)
class Kind:
    """What is done for jobs of one kind. `run` does the work; `fail` notes why it ended.

    `fail` gets the exception; it leaves no record that says IN_PROGRESS. `begin` is called before
    anything else when a database is opened again; what it returns is the job's `held`.
    """

    name: str
    run: Callable[[Any, Job], None]
    fail: Callable[[Any, Job, Exception], None]
    begin: Callable[[Any, dict[str, Any]], Any] = lambda database, record: None


class Job:
    """One running job. `record` is its catalog record, changed by `update` only."""

    def __init__(self, jobs: Jobs, kind: Kind, name: str, record: dict[str, Any]) -> None:
        self._jobs = jobs
        self.kind = kind
        self.name = name
        self.record = record
        self.cancelled = threading.Event()
        self.done = threading.Event()
        self.error: Exception | None = None
        # Shown on top of the record while the job runs; replaced, never changed in place.
        self.progress: dict[str, Any] = {}
        # What the call that starts the job has at hand and a later process does not: a snapshot.
        self.held: Any = None
        self._mutex = threading.Lock()

    def should_stop(self) -> bool:
        """Return whether the job was cancelled or the database closes."""
        return self.cancelled.is_set() or bool(self._jobs.stopping.is_set())

    def check(self) -> None:
        """Raises: Stopped when the job should stop."""
        if self.should_stop():
            raise Stopped

    def update(self, **changes: Any) -> None:
        """Make changes of the record durable."""
        with self._mutex:
            self.record = {**self.record, **changes}
            self._jobs.catalog.write(self.kind.name, self.name, self.record)

    def finish(self, status: str, **changes: Any) -> None:
        """Note how the job ended."""
        end = {"status": status, "ended_at": self._jobs.settings.clock()}
        self.update(**{**self.progress, **changes, **end})

    def forget(self) -> None:
        """Remove the record: nothing is left to be shown."""
        self._jobs.catalog.write(self.kind.name, self.name, None)


class Jobs:
    """The jobs of one open database."""

    def __init__(self, database: Any) -> None:
        self._database = weakref.ref(database)
        self.catalog = database.catalog
        self.settings = database.settings
        self.stopping = database.stopping
        self._mutex = threading.Lock()
        self._running: dict[tuple[str, str], Job] = {}  # Guarded by _mutex.

    def start(self, kind: Kind, name: str, record: dict[str, Any], held: Any = None) -> Job:
        """Make the record durable and start the work on a thread of its own."""
        record = {"status": IN_PROGRESS, "started_at": self.settings.clock(), **record}
        self.catalog.write(kind.name, name, record)
        return self._run(kind, name, record, held)

    def wait(self, job: Job) -> None:
        """Wait for a small job to end. Raises: what it failed with, unless a record says so."""
        is_over = job.done.wait(self.settings.job_wait_seconds)
        if is_over and job.error and self.catalog.read(job.kind.name, job.name) is None:
            raise job.error

    def resume(self, *kinds: Kind) -> None:
        """Go on with what the last process left unfinished; drop records that are too old."""
        oldest = self.settings.clock() - KEEP_SECONDS
        for kind in kinds:
            for name, record in list(self.catalog.records(kind.name)):
                try:
                    with records.trusting(f"the {kind.name} record of {name}"):
                        is_unfinished = record["status"] in UNFINISHED
                        is_old = not is_unfinished and record["ended_at"] < oldest
                except errors.CorruptionError as error:
                    log.error("%s; the job is left as it is", error)
                    continue
                if is_unfinished:
                    self._begin(kind, name, record)
                elif is_old:
                    self.catalog.write(kind.name, name, None)

    def _begin(self, kind: Kind, name: str, record: dict[str, Any]) -> None:
        database = self._database()
        try:
            held = kind.begin(database, record)
        except Exception as error:
            self._fail(database, Job(self, kind, name, record), error)
        else:
            self._run(kind, name, record, held)

    def reads_table(self, table_id: str) -> bool:
        """Return whether a running job reads the table with this id."""
        with self._mutex:
            return any(job.record.get("table") == table_id for job in self._running.values())

    def running(self, kind: Kind, name: str) -> Job | None:
        """Return the running job of this name, or None."""
        with self._mutex:
            return self._running.get((kind.name, name))

    def record(self, kind: Kind, name: str) -> dict[str, Any] | None:
        """Return a job's record with its progress so far, or None."""
        job = self.running(kind, name)
        record: dict[str, Any] | None = self.catalog.read(kind.name, name)
        with records.trusting(f"the {kind.name} record of {name}"):
            if record is not None and job is not None and record["status"] in UNFINISHED:
                record.update(job.progress)
        return record

    def records(self, kind: Kind) -> list[tuple[str, dict[str, Any]]]:
        """Return (name, record) of all jobs of a kind that are still shown, oldest name first."""
        oldest = self.settings.clock() - KEEP_SECONDS
        with records.trusting(f"a record of kind {kind.name}"):
            return [
                (name, record)
                for name, record in self.catalog.records(kind.name)
                if record["status"] in UNFINISHED or record["ended_at"] >= oldest
            ]

    def cancel(self, kind: Kind, name: str) -> None:
        """Ask a job to stop; does nothing when it is over."""
        job = self.running(kind, name)
        if job is not None and job.record["status"] == IN_PROGRESS:
            job.update(status=CANCELLING)
            job.cancelled.set()

    def _run(self, kind: Kind, name: str, record: dict[str, Any], held: Any) -> Job:
        job = Job(self, kind, name, record)
        job.held = held
        if record["status"] == CANCELLING:
            job.cancelled.set()
        with self._mutex:
            self._running[kind.name, name] = job
        database = self._database()
        assert database is not None
        database.spawn(f"{kind.name}-{name}", lambda: self._work(job))
        return job

    def _work(self, job: Job) -> None:
        database = self._database()
        try:
            job.kind.run(database, job)
        except Stopped:
            pass  # the database closes; the next one to open it goes on
        except Exception as error:
            if not self.stopping.is_set():
                self._fail(database, job, error)
        finally:
            with self._mutex:
                self._running.pop((job.kind.name, job.name), None)
            job.done.set()

    def _fail(self, database: Any, job: Job, error: Exception) -> None:
        log.warning("%s %s failed: %s", job.kind.name, job.name, error)
        job.error = error
        try:
            job.kind.fail(database, job, error)
        except errors.StorageError:
            # The engine refuses writes: the record stays, and the next open starts over.
            log.exception("%s %s: its end could not be noted", job.kind.name, job.name)


# The jobs of every open database. Guarded by _mutex.
_jobs: weakref.WeakKeyDictionary[Any, Jobs] = weakref.WeakKeyDictionary()
_mutex = threading.Lock()


def of(database: Any) -> Jobs:
    """Return the jobs of a database."""
    with _mutex:
        found = _jobs.get(database)
        if found is None:
            found = _jobs[database] = Jobs(database)
        return found
