"""Point-in-time recovery: bases, and the changelog between them.

A *base* is a copy of a table at one sequence number, `<database>/backups/pitr/<table id>/
<sequence number>.base` (model/backup_file.py). The state at any later moment is the newest base
before it and, on top, every change of the table's changelogs up to that moment.

    extras["pitr"]                         {"days": window, "enabled_at": seconds}
    catalog record ("pitr", "<id>/bases")  [[sequence number, milliseconds], ...], oldest first

The first base is made when recovery is turned on. Another one follows when the last is a day old
and the changes since then take more space than the table, so bases at most double what the
changelog needs, and a restore replays no more than a table's worth. A base is dropped when the next
one is older than the window; the changelog is kept back to the oldest base (`retention_seconds`).

A moment is a prefix of the commits: everything before the first change made later than it. So a
transaction is in it whole or not at all.

Invariants: (1) a base in the record is durable, as is everything up to its sequence number;
(2) from the oldest base in the record on, the changelogs hold the new image of every change.

Thread safety: any thread; `switch_on` and `switch_off` are called under the catalog's mutex.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from dynalsm import errors
from dynalsm._core import files
from dynalsm.model import backup, backup_file, changelog, new_tables, records, streams
from dynalsm.model import schema as schemas
from dynalsm.model.backup_file import BackupFile, Stopped
from dynalsm.model.catalog import Catalog, TableHandle
from dynalsm.model.changelog import REMOVE, Change, Changelog
from dynalsm.model.schema import TableSchema

log = logging.getLogger("dynalsm")

EXTRA: Final = "pitr"
DIRECTORY: Final = "pitr"
SUFFIX: Final = ".base"
SECONDS_PER_DAY: Final = 86_400.0
DEFAULT_DAYS: Final = 35
PAGE_ITEMS: Final = 1000
PAGE_BYTES: Final = 1 << 20


# More cannot be; a year of five digits is no date.
SEQNO_MAX: Final = (1 << 56) - 1
MILLISECONDS_MAX: Final = 250_000_000_000_000


class Base(NamedTuple):
    """One base: everything up to `seqno`, as it was at `milliseconds`."""

    seqno: int
    milliseconds: int


class Window(NamedTuple):
    """Between which moments a table can be restored (seconds since 1970)."""

    earliest: float
    latest: float


class NotRestorable(Exception):
    """The moment asked for lies outside the window."""


# Turning it on and off.


def setting(schema: TableSchema) -> dict[str, Any] | None:
    """Return {"days", "enabled_at"} while recovery is on, else None."""
    found: dict[str, Any] | None = schema.extras.get(EXTRA)
    return found


def switch_on(database: Any, handle: TableHandle, days: int | None) -> TableHandle:
    """Turn recovery on, or change its window. Call `ensure_base` after the mutex is free."""
    current = setting(handle.schema)
    if current is None:
        current = {"days": DEFAULT_DAYS, "enabled_at": database.settings.clock()}
    wanted = {**current, "days": days or current["days"]}
    return streams.change_history(database.catalog, handle.schema.with_extra(EXTRA, wanted))


def switch_off(database: Any, handle: TableHandle) -> TableHandle:
    """Turn recovery off; what was kept for it goes."""
    changed = streams.change_history(database.catalog, handle.schema.with_extra(EXTRA, None))
    database.catalog.write(EXTRA, _record_name(handle.schema.id), None)
    remove_files(database, handle.schema.id)
    return changed


def window(database: Any, handle: TableHandle) -> Window | None:
    """Return the moments that can be restored; None while the first base is being made."""
    found = bases(database.catalog, handle.schema.id)
    current = setting(handle.schema)
    if not found or current is None:
        return None
    now = database.settings.clock()
    # Clients say whole seconds: what they are told must be inside when they say it back.
    oldest = -(-found[0].milliseconds // 1000)
    earliest = max(float(oldest), now - current["days"] * SECONDS_PER_DAY)
    return Window(earliest, max(now, earliest))


# Bases.


def bases(catalog: Catalog, table_id: str) -> list[Base]:
    """Return the bases of a table, oldest first. Raises: CorruptionError."""
    what = f"the record of the bases of table {table_id}"
    pairs: Any = catalog.read(EXTRA, _record_name(table_id)) or ()
    with records.trusting(what):
        found = [Base(*pair) for pair in pairs]
        for base in found:
            if not (0 <= base.seqno <= SEQNO_MAX and 0 <= base.milliseconds <= MILLISECONDS_MAX):
                raise ValueError(f"{base} is out of range")
    return found


def ensure_base(database: Any, handle: TableHandle) -> None:
    """Make the first base when there is none; a small one is there on return."""
    if setting(handle.schema) and not bases(database.catalog, handle.schema.id):
        _start_base(database, handle)
        _state(database).wait(handle.schema.id, database.settings.job_wait_seconds)


def _start_base(database: Any, handle: TableHandle) -> None:
    """Make a base on a thread, unless one is being made."""
    state, table_id = _state(database), handle.schema.id
    if not state.start(table_id):
        return

    def run() -> None:
        try:
            make_base(database, handle, database.stopping.is_set)
        except Stopped:
            pass
        except (errors.StorageError, OSError) as problem:
            newest = database.catalog.find_id(table_id)
            if newest is not None and setting(newest.schema) is not None:
                log.warning("base of %s not made; it is tried again: %s", handle.name, problem)
        finally:
            state.end(table_id)

    database.spawn(f"base-{handle.name}", run)


def make_base(database: Any, handle: TableHandle, should_stop: Any = lambda: False) -> None:
    """Copy the table as it is now. Raises: Stopped, StorageError."""
    table_id = handle.schema.id
    directory = _directory(database, table_id)
    milliseconds = int(database.settings.clock() * 1000)
    with database.engine.snapshot() as snapshot:
        seqno = snapshot.seqno
        path = os.path.join(directory, f"{seqno:020d}{SUFFIX}")
        for parent in (os.path.dirname(os.path.dirname(directory)), os.path.dirname(directory)):
            files.make_directory(parent)
        files.make_directory(directory)
        description = {
            "content": "base",
            "table_arn": handle.arn,
            "schema": schemas.pack(handle.schema),
            "seqno": seqno,
            "milliseconds": milliseconds,
        }
        chunks = backup_file.tree_chunks(handle.tree, snapshot)
        keys = backup.keys_of(database)
        size_of = handle.keys.stored_size
        backup_file.write(path, description, chunks, size_of, should_stop, keys=keys)
    with database.catalog.mutex:
        newest = database.catalog.find_id(table_id)
        if newest is None or setting(newest.schema) is None:
            remove_files(database, table_id)
            return
        kept = [*bases(database.catalog, table_id), Base(seqno, milliseconds)]
        # Synced, and with it every commit that the base holds (invariant 1).
        database.catalog.write(EXTRA, _record_name(table_id), kept)


def maintain(database: Any) -> None:
    """Start the bases that are due and drop those that nobody needs."""
    for name in database.catalog.names():
        handle = database.catalog.get(name)
        current = setting(handle.schema) if handle is not None else None
        if handle is None or current is None:
            continue
        with _noting_damage():
            if _is_due(database, handle):
                _start_base(database, handle)
            _drop_old(database, handle, current["days"])


def _is_due(database: Any, handle: TableHandle) -> bool:
    found = bases(database.catalog, handle.schema.id)
    if not found:
        return True
    last = found[-1]
    age_seconds = database.settings.clock() - last.milliseconds / 1000
    if age_seconds < database.settings.pitr_base_seconds:
        return False
    changed_bytes = sum(
        each.tree.approximate_size(*changelog.shard_range(shard, last.seqno))
        for each in _logs(database.catalog, handle.schema.id)
        for shard in range(each.record.shards)
    )
    return bool(changed_bytes > handle.tree.approximate_size())


def _drop_old(database: Any, handle: TableHandle, days: int) -> None:
    """Drop bases that are older than one which is older than the window."""
    oldest = (database.settings.clock() - days * SECONDS_PER_DAY) * 1000
    state = _state(database)
    with state.mutex, database.catalog.mutex:
        found = bases(database.catalog, handle.schema.id)
        kept = list(found)
        while len(kept) > 1 and kept[1].milliseconds <= oldest:
            kept.pop(0)
        if len(kept) == len(found) or state.is_read(handle.schema.id):
            return
        database.catalog.write(EXTRA, _record_name(handle.schema.id), kept)
        for base in found[: len(found) - len(kept)]:
            files.remove_file(_base_path(database, handle.schema.id, base), missing_ok=True)


def remove_files(database: Any, table_id: str) -> None:
    """Remove the bases of a table that has no use for them any more."""
    directory = _directory(database, table_id)
    if os.path.isdir(directory):
        for name in files.list_directory(directory):
            files.remove_file(os.path.join(directory, name), missing_ok=True)
        os.rmdir(directory)


def resume(database: Any) -> None:
    """Remove what a crash left, and make first bases that it kept from being made.

    In a copy of the database (a checkpoint) the files of the bases are missing: it begins anew.
    """
    root = os.path.dirname(_directory(database, "x"))
    for table_id in files.list_directory(root) if os.path.isdir(root) else ():
        with _noting_damage():
            _remove_unknown(database, os.path.join(root, table_id), table_id)
    for name in database.catalog.names():
        handle = database.catalog.get(name)
        with _noting_damage():
            if setting(handle.schema):
                _forget_missing(database, handle.schema.id)
                if not bases(database.catalog, handle.schema.id):
                    _start_base(database, handle)


@contextmanager
def _noting_damage() -> Iterator[None]:
    """Let a damaged record concern its own table only."""
    try:
        yield
    except errors.CorruptionError as error:
        log.error("%s; the table has no point-in-time recovery until it is set again", error)


def _remove_unknown(database: Any, directory: str, table_id: str) -> None:
    """Remove files of bases that no record names."""
    known = {
        os.path.basename(_base_path(database, table_id, base))
        for base in bases(database.catalog, table_id)
    }
    if not known:
        remove_files(database, table_id)
        return
    for name in files.list_directory(directory):
        if name not in known:
            files.remove_file(os.path.join(directory, name), missing_ok=True)


def _forget_missing(database: Any, table_id: str) -> None:
    found = bases(database.catalog, table_id)
    kept = [base for base in found if os.path.exists(_base_path(database, table_id, base))]
    if len(kept) < len(found):
        log.warning("%s bases of table %s are missing", len(found) - len(kept), table_id)
        database.catalog.write(EXTRA, _record_name(table_id), kept)


# Moments.


def settle(database: Any) -> None:
    """Return when everything that was written until now can be found, by its time, in order.

    A write takes its time before it is committed; without this, one that is under way could come
    later than a moment that is cut behind it.
    """
    database.writes.barrier()
    database.finish(database.engine.last_seqno)


def seqno_at(database: Any, handle: TableHandle, seconds: float) -> int:
    """Return the last sequence number at a moment: all changes up to it, none after it.

    Raises: NotRestorable.
    """
    found = bases(database.catalog, handle.schema.id)
    milliseconds = int(seconds * 1000)
    current = setting(handle.schema)
    now = database.settings.clock()
    if not found or current is None or not found[0].milliseconds <= milliseconds <= now * 1000:
        raise NotRestorable
    if seconds < now - current["days"] * SECONDS_PER_DAY - 1:
        raise NotRestorable
    return seqno_before(database, handle, milliseconds + 1)


def seqno_before(database: Any, handle: TableHandle, milliseconds: int) -> int:
    """Return the last sequence number before the first change made at `milliseconds` or later."""
    readable = changelog.readable_seqno(database.engine)
    first = readable + 1
    for each in _logs(database.catalog, handle.schema.id):
        for shard in range(each.record.shards):
            first = min(first, changelog.seqno_at(each, shard, milliseconds, readable))
    return first - 1


def check_seqno(database: Any, handle: TableHandle, seqno: int) -> None:
    """Raises: NotRestorable when the state at a sequence number is not to be had."""
    found = bases(database.catalog, handle.schema.id)
    readable = changelog.readable_seqno(database.engine)
    if not found or not found[0].seqno <= seqno <= readable:
        raise NotRestorable


# States.


@contextmanager
def reading(database: Any, table_id: str) -> Iterator[None]:
    """Keep the bases of a table, and the changelog behind them, while they are read."""
    state = _state(database)
    state.count_reader(table_id, 1)
    try:
        yield
    finally:
        state.count_reader(table_id, -1)


def build(database: Any, source: TableHandle, target: new_tables.Target, seqno: int) -> None:
    """Load the state of `source` at a sequence number into an empty tree.

    Raises: NotRestorable, CorruptionError, Stopped. REQUIRES: `reading(source)`.
    """
    table_id = source.schema.id
    older = [base for base in bases(database.catalog, table_id) if base.seqno <= seqno]
    if not older:
        raise NotRestorable
    base = older[-1]
    with BackupFile(_base_path(database, table_id, base), backup.keys_of(database)) as file:
        target.load(file.chunks())
    target.put(
        (source.keys.encode(change.keys), _stored(source, change))
        for each in _logs(database.catalog, table_id)
        for change in changes(each, base.seqno + 1, seqno)
    )


def changes(source: Changelog, first: int, last: int) -> Iterator[Change]:
    """Yield the changes of a changelog with numbers from `first` to `last`, shard by shard."""
    for shard in range(source.record.shards):
        yield from shard_changes(source, shard, first, last)


def shard_changes(source: Changelog, shard: int, first: int, last: int) -> Iterator[Change]:
    """Yield the changes of one shard with numbers from `first` to `last`."""
    while True:
        page = changelog.read(source, shard, first, last, PAGE_ITEMS, PAGE_BYTES)
        yield from page.changes
        if page.is_end:
            return
        first = page.next_seqno


def logs(database: Any, table_id: str) -> list[Changelog]:
    """Return the changelogs of a table, in the order in which they were written."""
    return _logs(database.catalog, table_id)


def _stored(source: TableHandle, change: Change) -> bytes | None:
    if change.kind == REMOVE:
        return None
    if change.new_item is None:
        raise errors.CorruptionError(
            f"change {change.seqno} of table {source.name} has no new image"
        )
    return source.keys.strip(change.new_item)


def _logs(catalog: Catalog, table_id: str) -> list[Changelog]:
    records = [record for record in catalog.logs() if record.table_id == table_id]
    records.sort(key=lambda record: record.start_seqno)
    return [catalog.open_log(record) for record in records]


# Where things are.


def _record_name(table_id: str) -> str:
    return f"{table_id}/bases"


def _directory(database: Any, table_id: str) -> str:
    return os.path.join(database.path, backup.DIRECTORY, DIRECTORY, table_id)


def _base_path(database: Any, table_id: str, base: Base) -> str:
    return os.path.join(_directory(database, table_id), f"{base.seqno:020d}{SUFFIX}")


class _State:
    """Which tables' first bases are being made, and which bases are being read."""

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self._making: dict[str, threading.Event] = {}  # Guarded by mutex.
        self._readers: dict[str, int] = {}  # Guarded by mutex.

    def start(self, table_id: str) -> bool:
        """Note that a base is being made; returns whether none was."""
        with self.mutex:
            if table_id in self._making:
                return False
            self._making[table_id] = threading.Event()
            return True

    def wait(self, table_id: str, seconds: float) -> None:
        """Wait until no base of the table is being made."""
        with self.mutex:
            event = self._making.get(table_id)
        if event is not None:
            event.wait(seconds)

    def end(self, table_id: str) -> None:
        """Note that a base is made, or will not be."""
        with self.mutex:
            self._making.pop(table_id).set()

    def count_reader(self, table_id: str, change: int) -> None:
        """Note that bases of a table begin (1) or end (-1) to be read."""
        with self.mutex:
            self._readers[table_id] = self._readers.get(table_id, 0) + change

    def is_read(self, table_id: str) -> bool:
        """REQUIRES: mutex held."""
        return self._readers.get(table_id, 0) > 0


_states: weakref.WeakKeyDictionary[Any, _State] = weakref.WeakKeyDictionary()
_mutex = threading.Lock()


def _state(database: Any) -> _State:
    with _mutex:
        found = _states.get(database)
        if found is None:
            found = _states[database] = _State()
        return found
