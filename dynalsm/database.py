"""Database: one open directory; owns the engine, the catalog, the settings and the threads.

Everything a caller does ends in `call(operation, request, form)`, one function for all operations.

Durability has one place: whoever has committed calls `finish(seqno)`. On most threads that waits
for the disk as the database's durability says. A thread that serves many requests at once (the
HTTP server's event loop) takes a `Hold`: finish() then only notes the sequence number, and the
thread waits once for all of them before it lets the replies go.

Thread safety: every method may be called from any thread; close() waits for nobody, so stop using
the database first.

A database that nobody closed is closed when it is forgotten, or else at the end of the interpreter.
In a child of a fork it belongs to the parent: whatever is called answers ForkedProcessError.

Invariants: (1) close() runs once, whoever calls it; (2) the engine closes last; (3) no thread that
runs for ever refers to the database, or it could not be forgotten.
"""

from __future__ import annotations

import atexit
import gc
import logging
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from dynalsm import errors, resource
from dynalsm.api import dispatch
from dynalsm.client import DynamoDBClient, StreamsClient
from dynalsm.model import consistency, housekeeping
from dynalsm.model.catalog import Catalog
from dynalsm.model.changelog import readable_seqno
from dynalsm.model.settings import Settings
from dynalsm.model.writes import Writes
from dynalsm.snapshots import Snapshot

if TYPE_CHECKING:
    from dynalsm._core import Engine
    from dynalsm._core.keyring import MasterKey
    from dynalsm.model.insights import HotKeys

log = logging.getLogger("dynalsm")

DURABILITIES = ("commit", "interval", "os")
SETTING_NAMES = frozenset(setting.name for setting in fields(Settings) if setting.repr)


class Call(Protocol):
    """`database.call("GetItem", request, form)`; the form is WIRE unless given."""

    def __call__(
        self, operation: str, request: dict[str, Any], form: Any = ..., /
    ) -> dict[str, Any]: ...


class Hold:
    """The newest commit of one thread that the disk has not been waited for.

    Belongs to the thread that took it; only that thread reads or writes it.
    """

    __slots__ = ("seqno",)

    def __init__(self) -> None:
        self.seqno = 0

    def take(self) -> int:
        """Return the sequence number to wait for (0: none) and start again."""
        seqno, self.seqno = self.seqno, 0
        return seqno


class Database:
    """An open database. Use it as a context manager, or call close().

    `client` and `streams` have boto3's client shape, `Table(name)` its resource shape.
    """

    def __init__(self, engine: Engine, settings: Settings | None = None) -> None:
        self.engine = engine
        self.settings = settings or Settings()
        self.path: str = str(engine.path)
        self.stopping = threading.Event()
        self._close_lock = threading.Lock()
        self._closed = False  # Guarded by _close_lock.
        self._end: errors.StorageError = errors.ClosedError(
            "the database is closed", path=self.path
        )
        self._threads: list[threading.Thread] = []  # Guarded by _close_lock.
        self._holds: dict[int, Hold] = {}
        self._commit_seen = threading.Condition()
        self._followers = 0  # Guarded by _commit_seen.
        self._listeners: list[Callable[[], None]] = []  # Guarded by _commit_seen.
        self._must_wait = engine.durability == "commit" and not engine.read_only
        self.call: Call = partial(dispatch, self)
        self.catalog = Catalog(engine, self.settings)
        self.writes = Writes(engine, self.catalog, self.settings)
        self._add_faces()
        if not engine.read_only:
            self._start_background()
        _open.add(self)

    def _start_background(self) -> None:
        """Go on with what the last process left unfinished."""
        recounts = self.catalog.begin_recounts()
        if recounts:
            self.spawn("recount", lambda: _run_until(self.stopping, recounts))
        housekeeping.start(self)

    def _add_faces(self) -> None:
        self.client = DynamoDBClient(self)
        self.streams = StreamsClient(self)

    # --- tables -----------------------------------------------------------------------------

    def create_table(self, **request: Any) -> resource.Table:
        """Create a table (boto3's CreateTable members) and return it; it is ready to use."""
        self.call("CreateTable", request)
        return resource.Table(self, request["TableName"])

    def Table(self, name: str) -> resource.Table:
        """Return the table of this name without asking whether it exists."""
        return resource.Table(self, name)

    def get_available_tables(self) -> Iterator[resource.Table]:
        """Yield every table, in the order of the names."""
        request: dict[str, Any] = {}
        while True:
            reply = self.call("ListTables", request)
            yield from (resource.Table(self, name) for name in reply["TableNames"])
            if "LastEvaluatedTableName" not in reply:
                return
            request = {"ExclusiveStartTableName": reply["LastEvaluatedTableName"]}

    @property
    def tables(self) -> list[resource.Table]:
        """Every table, in the order of the names."""
        return list(self.get_available_tables())

    # --- durability -------------------------------------------------------------------------

    def finish(self, seqno: int) -> None:
        """Wait until everything up to `seqno` is as durable as this database promises.

        Called after every commit and by strongly consistent reads, never under a lock.
        """
        if self._holds and (hold := self._holds.get(threading.get_ident())) is not None:
            hold.seqno = max(hold.seqno, seqno)
        elif self._must_wait:
            self.engine.wait_durable(seqno)
        if self._followers:
            self.wake_followers()

    def hold(self) -> Hold:
        """Let finish() on this thread return at once; the caller waits for `take()` itself."""
        return self._holds.setdefault(threading.get_ident(), Hold())

    def call_held(
        self, operation: str, request: dict[str, Any], form: Any
    ) -> tuple[dict[str, Any] | errors.ApiError, int]:
        """Run an operation without waiting: its reply or refusal, and the seqno to wait for.

        A refusal waits as well: what it refused for may not be on the disk yet.
        """
        thread = threading.get_ident()
        outer = self._holds.get(thread)
        hold = self._holds[thread] = Hold()
        try:
            return self.call(operation, request, form), hold.seqno
        except errors.ApiError as refusal:
            return refusal, hold.seqno
        finally:
            if outer is None:
                del self._holds[thread]
            else:
                self._holds[thread] = outer

    def release_hold(self) -> None:
        """Let finish() on this thread wait again."""
        self._holds.pop(threading.get_ident(), None)

    @property
    def must_wait(self) -> bool:
        """Whether a commit has to be waited for before it is acknowledged."""
        return self._must_wait

    # --- news for those who follow streams --------------------------------------------------

    def change_mark(self) -> int:
        """Return a mark for wait_for_change(): how far followers may read."""
        return readable_seqno(self.engine)

    def wait_for_change(self, mark: int, timeout_seconds: float | None) -> None:
        """Block until there is more to read than at `mark`, the time is over, or close()."""
        with self._commit_seen:
            self._followers += 1
            try:
                self._commit_seen.wait_for(
                    lambda: self._closed or self.change_mark() != mark, timeout_seconds
                )
            finally:
                self._followers -= 1
        self._check_open()

    def wake_followers(self) -> None:
        """Tell those in wait_for_change() that more is durable; finish() does it by itself."""
        with self._commit_seen:
            self._commit_seen.notify_all()
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have `listener` called, on any thread, whenever more is durable and at close().

        It must not block. Returns: what ends it.
        """

        def end() -> None:
            with self._commit_seen:
                if listener in self._listeners:
                    self._listeners.remove(listener)
                    self._followers -= 1

        with self._commit_seen:
            self._listeners.append(listener)
            self._followers += 1
        return end

    # --- the engine -------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return the present state, for reading: `with db.snapshot() as s: s.Table("Music")...`."""
        self._check_open()
        return Snapshot(self)

    def stats(self) -> dict[str, Any]:
        """Return the engine's figures as a dict."""
        self._check_open()
        figures: dict[str, Any] = self.engine.stats()
        return figures

    def hot_keys(self, table: str, index: str | None = None) -> HotKeys:
        """Return the keys of a table, or of one of its indexes, that are asked for most.

        They are counted while contributor insights are on (UpdateContributorInsights), in memory,
        over the last one to two hours. Raises: ResourceNotFoundException.
        """
        self._check_open()
        handle = self.catalog.get(table)
        if handle is None or (index is not None and index not in handle.indexes):
            raise errors.API_ERRORS["ResourceNotFoundException"](
                f"there is no table {table}" + (f" with an index {index}" if index else "")
            )
        return self.writes.insights.hot_keys(handle, handle.indexes[index] if index else None)

    def flush(self) -> None:
        """Write all memtables to SSTables."""
        self._check_open()
        self.engine.flush()

    def resume(self) -> None:
        """Try at once what failed because the disk was full, in place of waiting for the next try.

        Raises: errors.NoSpaceError when it still is; errors.PoisonedError after a failure that only
        opening the database again mends.
        """
        self._check_open()
        self.engine.resume()

    def compact(self) -> None:
        """Merge every tree down to its last level."""
        self._check_open()
        self.engine.compact()

    def verify(self) -> list[str]:
        """Read every file of the database, and hold each index against its table.

        Returns: the problems in words, none when all is sound. Reads go on meanwhile, writes too.
        Raises: errors.StorageIOError when something cannot be read for another reason than damage.
        """
        from dynalsm._core import verify

        self._check_open()
        report = verify.verify(self.path, keys=self.engine.keys)
        problems = [str(problem) for problem in report.problems]
        return problems or [str(one) for one in self.index_differences()]

    def index_differences(self) -> list[consistency.Difference]:
        """Return the entries of indexes that are not as their items have it; none, normally."""
        self._check_open()
        with self.engine.snapshot() as snapshot:
            return list(consistency.differences(self.catalog, snapshot))

    def mend_indexes(self) -> list[consistency.Difference]:
        """Make every index agree with its table, after a repair; nobody writes meanwhile.

        Returns: what was changed.
        """
        self._check_open()
        return consistency.mend(self.engine, self.catalog)

    def checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Make a copy of the whole database, as it is now, in the new directory `path`.

        On the same file system tables are shared by hard links, which takes milliseconds. What lies
        in `backups/` is not copied. Raises: errors.StorageIOError, ...
        """
        self._check_open()
        self.engine.checkpoint(os.fspath(path))

    def rotate_key(self, encryption_key: MasterKey) -> None:
        """Have another key open the database from now on.

        Nothing but its file KEYS is written, so it takes milliseconds; keep the old key until the
        call has returned. Raises: errors.EncryptionError when the database is not encrypted.
        """
        self._check_open()
        self.engine.rotate_key(encryption_key)

    def rotate_data_key(self, *, resume: bool = False) -> None:
        """Encrypt everything anew, under a data key that is made now, while reads and writes go on.

        resume: make no new key, but go on where a call that was cut off has stopped. Backups and
        the bases of point-in-time recovery stay under the keys that they were made with.
        Raises: errors.EncryptionError when the database is not encrypted.
        """
        self._check_open()
        self.engine.rotate_data_key(resume=resume)

    def spawn(self, name: str, run: Callable[[], None]) -> threading.Thread:
        """Start a background thread; it must end soon after `stopping` is set."""
        work = partial(_logging_failure, run, f"{name} of {self.path}", self.stopping)
        thread = threading.Thread(target=work, name=f"dynalsm-{name}", daemon=True)
        with self._close_lock:
            if self._closed:
                raise errors.ClosedError("the database is closed", path=self.path)
            self._threads = [old for old in self._threads if old.is_alive()]
            self._threads.append(thread)
        thread.start()
        return thread

    def repeat(self, name: str, seconds: float, task: Callable[[Database], object]) -> None:
        """Call `task(database)` on a thread of its own, every so many seconds, until close()."""
        self.spawn(name, partial(_repeat, weakref.ref(self), self.stopping, seconds, task))

    # --- the end ----------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._closed

    def close(self) -> None:
        """Stop the background threads and close the engine; more calls do nothing."""
        with self._close_lock:
            if self._closed:
                return
            self._closed = True
            threads = list(self._threads)
        _open.discard(self)
        try:
            self.stopping.set()
            self.wake_followers()
            for thread in threads:
                if thread is not threading.current_thread():
                    thread.join()
            if not self.engine.read_only:
                self.catalog.save_statistics(is_closing=True)
        finally:
            # Whatever is called from now on says that the database is closed.
            self.catalog = self.writes = _refusing(self._end)
            self.engine.close()

    def _leave_to_parent(self) -> None:
        """In a child of a fork: no lock is taken, as another thread may have held it."""
        self._end = errors.ForkedProcessError(
            "the database was opened by a parent process; open it again in this one", path=self.path
        )
        self._closed = True
        self._close_lock = threading.Lock()
        self._threads = []
        self.catalog = self.writes = self.call = _refusing(self._end)

    def __del__(self) -> None:
        engine = self.__dict__.get("engine")  # none: one that could not be made, or a remote one
        if engine is None or engine.closed or self.__dict__.get("_closed", True):
            return
        warnings.warn(f"{self!r} was not closed", ResourceWarning, stacklevel=2, source=self)
        _close_quietly(self)

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<dynalsm.Database {self.path!r}{' closed' if self._closed else ''}>"

    def _check_open(self) -> None:
        if self._closed:
            raise self._end


class _Refusal:
    """Stands where the services of a database were that cannot be used any more."""

    def __init__(self, end: errors.StorageError) -> None:
        self.__dict__["end"] = end

    def __getattr__(self, name: str) -> NoReturn:
        raise self.__dict__["end"]

    def __call__(self, *_: Any) -> NoReturn:
        raise self.__dict__["end"]


def _refusing(end: errors.StorageError) -> Any:
    return _Refusal(end)


# Every database of this process that is open.
_open: weakref.WeakSet[Database] = weakref.WeakSet()


def _close_quietly(database: Database) -> None:
    """Close a database whose failure would reach nobody."""
    try:
        database.close()
    except Exception:
        log.exception("a database that was not closed could not be ended")


def _close_all() -> None:
    for database in list(_open):
        _close_quietly(database)


def _leave_all_to_parent() -> None:
    for database in list(_open):
        database._leave_to_parent()
    _open.clear()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_leave_all_to_parent)


def _repeat(
    reference: weakref.ref[Database],
    stopping: threading.Event,
    seconds: float,
    task: Callable[[Database], object],
) -> None:
    while not stopping.wait(seconds):
        database = reference()
        if database is None:
            return
        try:
            task(database)
        except errors.ClosedError:
            return
        except Exception:
            log.exception("work in the background failed; it is tried again")
        del database


def _logging_failure(run: Callable[[], None], what: str, stopping: threading.Event) -> None:
    """Run what a thread is for; whoever asks for its outcome meets the same failure again."""
    try:
        run()
    except errors.StorageError as error:
        if not stopping.is_set():
            log.error("%s has stopped: %s", what, error)


def _run_until(stopping: threading.Event, tasks: list[Callable[[], None]]) -> None:
    for task in tasks:
        if stopping.is_set():
            return
        try:
            task()
        except errors.ClosedError:
            return  # between the look at `stopping` and the work
        except errors.CorruptionError as error:
            log.error("%s; its items are not counted", error)


def open_path(
    path: str | os.PathLike[str],
    *,
    durability: str = "commit",
    create: bool = True,
    read_only: bool = False,
    **options: Any,
) -> Database:
    """Open the database in a directory; `dynalsm.open` describes the arguments."""
    if durability not in DURABILITIES:
        raise ValueError(f"durability is one of {', '.join(DURABILITIES)}, not {durability!r}")
    settings = Settings(**{name: options.pop(name) for name in SETTING_NAMES & options.keys()})
    settings.set_limits(options.pop("limits", None) or {})
    memory_bytes = options.get("memory_bytes", 0)
    if type(memory_bytes) is not int or memory_bytes < 0:
        raise ValueError(f"memory_bytes is a whole number of bytes, not {memory_bytes!r}")
    directory = Path(path)
    if directory.exists() and not directory.is_dir():
        raise errors.FormatError("this is a file; a database is a directory", path=str(path))
    from dynalsm._core import Engine

    open_engine = partial(
        Engine.open,
        str(directory),
        create_if_missing=create and not read_only,
        read_only=read_only,
        durability=durability,
        **options,
    )
    try:
        engine = open_engine()
    except errors.LockedError as error:
        if error.pid != os.getpid():
            raise
        gc.collect()  # the one that holds it may be forgotten, and wait for its collection
        engine = open_engine()
    try:
        return Database(engine, settings)
    except BaseException:
        engine.close()
        raise
