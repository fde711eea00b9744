"""Writing items: lock, read the old image, decide, and commit everything that follows in one batch.

A write is an object of one of four kinds: `Put`, `Delete`, `Update` and `Check`. It says which
item and what is asked of it; running it fills in what happened. `Writes.run` runs one,
`Writes.run_all` several as one atomic commit.

The pipeline is the same for all:

    lock the item's stripe -> read the old image -> condition -> new image
        -> index entries, stream record, expiry entry -> one engine batch -> commit -> unlock

Nobody waits for the disk here: `run` returns a sequence number, and whoever called it hands that
to `Database.finish`, with no lock held. When nothing was written the number is that of the last
commit near the item, because the answer rests on it.

Locks are striped by the hash of an item's tree key. Several are taken in ascending order, so
there is no deadlock; no other lock is ever taken before them, and the engine's own come after.

Thread safety: `Writes` may be used from any thread; a write object belongs to one.
Invariants: (1) between reading an item and committing its change, its stripe is held; (2) a write
runs only with the newest handle of its table; (3) what the old image holds already is not written
again; (4) `_last_seqnos[stripe]` is at least the number of every visible commit to that stripe, or
PENDING.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from dynalsm import values
from dynalsm.limits import ITEM_MAX_BYTES
from dynalsm.model import changelog, indexes, ttl
from dynalsm.model.capacity import Tally, write_units
from dynalsm.model.item_collections import (
    Collections,
    CollectionTooLarge,
    has_local_indexes,
)
from dynalsm.model.throttle import Throttle
from dynalsm.model.transactions import Tokens

if TYPE_CHECKING:
    from dynalsm.model.catalog import Catalog, TableHandle
    from dynalsm.model.settings import Settings

STRIPES: Final = 1024
_MASK: Final = STRIPES - 1
# Stands for a sequence number that is not known yet; larger than any.
PENDING: Final = 1 << 63
# Longest wait of a transaction for the items of another one before it gives up.
CONFLICT_SECONDS: Final = 10.0

_EMPTY: Final[dict[str, Any]] = {}
_NO_CHANGES: Final[list[indexes.IndexChange]] = []  # never changed


class StaleHandle(Exception):
    """The table changed since its handle was taken: take a new one and start over."""


class ItemTooLarge(Exception):
    """The new image is larger than ITEM_MAX_BYTES, or is with its local index entries."""


class LockTimeout(Exception):
    """Another transaction held an item for too long."""


class ActionProblem(Exception):
    """The write at `position` of several cannot be done; `problem` says why."""

    def __init__(self, position: int, problem: Exception) -> None:
        super().__init__(position, problem)
        self.position = position
        self.problem = problem


class Write:
    """One item and what to do with it. Subclasses implement `decide`.

    After a run: `is_failed` says that the condition was false, `is_change` that something was
    written; `old_stored` and `new_stored` are the images as stored (None: no item).
    """

    __slots__ = (
        "by_ttl",
        "condition",
        "handle",
        "index_changes",
        "is_change",
        "is_failed",
        "key",
        "new_stored",
        "old_item_cache",
        "old_stored",
    )

    def __init__(self, handle: TableHandle, key: bytes, condition: Any = None) -> None:
        self.handle = handle
        self.key = key
        self.condition = condition
        self.by_ttl = False
        self.old_stored: bytes | None = None
        self.new_stored: bytes | None = None
        self.old_item_cache: bytes | None = None
        self.index_changes: list[indexes.IndexChange] = _NO_CHANGES
        self.is_change = False
        self.is_failed = False

    def decide(self) -> None:
        """Find the new image from `old_stored`; set new_stored, is_change and is_failed."""
        raise NotImplementedError

    def entries(self) -> list[indexes.Entry | None] | None:
        """Return the index entries of the new image, or None when there is none."""
        return None

    @property
    def old_item(self) -> bytes | None:
        """The old image as a whole encoded item."""
        if self.old_stored is None:
            return None
        if self.old_item_cache is None:
            self.old_item_cache = self.handle.keys.join(self.key, self.old_stored)
        return self.old_item_cache

    @property
    def new_item(self) -> bytes | None:
        """The new image as a whole encoded item."""
        if self.new_stored is None:
            return None
        return self.handle.keys.join(self.key, self.new_stored)

    @property
    def old_size(self) -> int:
        """DynamoDB's size of the old image in bytes; 0 when there is none."""
        return self.handle.keys.stored_size(self.old_stored) if self.old_stored else 0

    @property
    def new_size(self) -> int:
        """DynamoDB's size of the new image in bytes; 0 when there is none."""
        return self.handle.keys.stored_size(self.new_stored) if self.new_stored else 0

    def condition_holds(self) -> bool:
        """Evaluate the condition on the old image (an empty one when there is no item)."""
        old_item = self.old_item
        view = _EMPTY if old_item is None else values.ItemView(old_item)
        holds: bool = self.condition.evaluate(view)
        return holds

    def stage(self, batch: Any, clock: Any) -> None:
        """Add the change, and all that follows from it, to `batch`."""
        handle, key, stored = self.handle, self.key, self.new_stored
        if stored is None:
            batch.delete(handle.tree, key)
        else:
            batch.put(handle.tree, key, stored)
        if handle.written_indexes:
            changes = indexes.index_changes(handle, self.old_item, self.entries())
            indexes.stage(batch, changes)
            self.index_changes = changes
        if handle.changelog is not None:
            changelog.append(batch, handle, key, self.old_item, self.new_item, clock(), self.by_ttl)
        if handle.expiry is not None:
            ttl.maintain(batch, handle, key, self.old_item, self.new_item)

    def count(self, seqno: int) -> None:
        """Report the committed change to the statistics of the table and its indexes."""
        items = (self.new_stored is not None) - (self.old_stored is not None)
        self.handle.statistics.add(seqno, items, self.new_size - self.old_size)
        if self.index_changes:
            indexes.count(seqno, self.index_changes)

    def tally(self, factor: int = 1) -> Tally:
        """Return the units that the write consumes; `factor` applies to the table's arm only."""
        tally = Tally(factor * write_units(max(self.old_size, self.new_size)))
        self.add_index_units(tally)
        return tally

    def add_index_units(self, tally: Tally) -> None:
        """Add the units of the touched indexes."""
        for change in self.index_changes:
            index = change[0]
            tally.add_index(index.kind == "LSI", index.name, indexes.units(change))


class Put(Write):
    """Replace the whole item. `item` is complete and encoded; its keys have been checked."""

    __slots__ = ("_entries",)

    def __init__(self, handle: TableHandle, key: bytes, item: bytes, condition: Any = None) -> None:
        super().__init__(handle, key, condition)
        self.new_stored = handle.keys.strip(item)
        self._entries: list[indexes.Entry | None] | None = None
        if handle.written_indexes:
            self._entries = indexes.new_entries(handle, item)
        _check_size(handle, self.new_size, self._entries)

    def decide(self) -> None:
        if self.condition is not None and not self.condition_holds():
            self.is_failed = True
        else:
            self.is_change = self.new_stored != self.old_stored

    def entries(self) -> list[indexes.Entry | None] | None:
        return self._entries


class Delete(Write):
    """Remove the item if it is there."""

    __slots__ = ()

    def decide(self) -> None:
        if self.condition is not None and not self.condition_holds():
            self.is_failed = True
        else:
            self.is_change = self.old_stored is not None


class Check(Write):
    """Change nothing, only test the condition (TransactWriteItems)."""

    __slots__ = ()

    def decide(self) -> None:
        self.new_stored = self.old_stored
        self.is_failed = not self.condition_holds()


class Update(Write):
    """Change some attributes. `update` is a bound update; None only makes sure the item exists.

    `result` is the UpdateResult when one was made. With `must_exist` a missing item fails like a
    false condition (PartiQL's UPDATE).
    """

    __slots__ = ("_entries", "must_exist", "result", "update")

    def __init__(self, handle: TableHandle, key: bytes, update: Any, condition: Any = None) -> None:
        super().__init__(handle, key, condition)
        self.update = update
        self.must_exist = False
        self.result: Any = None
        self._entries: list[indexes.Entry | None] | None = None

    def decide(self) -> None:
        if (self.condition is not None and not self.condition_holds()) or (
            self.must_exist and self.old_stored is None
        ):
            self.is_failed = True
            return
        old_item = self.old_item
        new_item = self._new_image(old_item)
        if new_item is None:
            return
        if new_item == old_item:
            self.new_stored = self.old_stored
            return
        self.new_stored = self.handle.keys.strip(new_item)
        self.is_change = True
        if self.handle.written_indexes:
            self._entries = indexes.updated_entries(self.handle, old_item, new_item)
        _check_size(self.handle, self.new_size, self._entries)

    def _new_image(self, old_item: bytes | None) -> bytes | None:
        """Apply the update; None when there is no item and the update makes none.

        An item that is about to be made has its key attributes already (observed: dynalite).
        """
        update = self.update
        if old_item is None:
            if update is not None and update.only_removes:
                self.result = update.apply(None)
                return None
            old_item = self.handle.keys.key_item(self.key)
        if update is None:
            return old_item
        self.result = update.apply(values.ItemView(old_item))
        return _with_result(old_item, self.result)

    def entries(self) -> list[indexes.Entry | None] | None:
        return self._entries


def _with_result(item: bytes, result: Any) -> bytes:
    """Return an encoded item with what an update assigned and removed."""
    if result.removed:
        item = values.without(item, result.removed)
    if result.assigned:
        encode = values.encode_value
        item = values.merge(item, {name: encode(new) for name, new in result.assigned.items()})
    return item


def _check_size(
    handle: TableHandle, size_bytes: int, entries: list[indexes.Entry | None] | None
) -> None:
    if entries:
        size_bytes += indexes.local_entries_bytes(handle, entries)
    if size_bytes > ITEM_MAX_BYTES:
        raise ItemTooLarge


def _decide_all(writes: Sequence[Write]) -> None:
    for position, write in enumerate(writes):
        try:
            write.decide()
        except Exception as problem:
            raise ActionProblem(position, problem) from problem


class Writes:
    """The one place where items change. One per database."""

    def __init__(self, engine: Any, catalog: Catalog, settings: Settings) -> None:
        self.engine = engine
        self._catalog = catalog
        self._clock = settings.clock
        self._locks = [threading.Lock() for _ in range(STRIPES)]
        # Written under the stripe's lock, read without.
        self._last_seqnos = [0] * STRIPES
        self.tokens = Tokens(catalog.tree, settings)
        self._collections = Collections()
        # None unless the database enforces throughput; read by all data operations.
        self.throttle = Throttle(settings.clock) if settings.enforce_throughput else None
        catalog.barrier = self.barrier

    def run(self, write: Write) -> int:
        """Run one write; returns the sequence number to wait for. Raises: StaleHandle.

        What `decide` raises (update errors, IndexKeyProblem, ItemTooLarge) passes through;
        nothing has been written then.
        """
        key, handle = write.key, write.handle
        stripe = hash(key) & _MASK
        with self._locks[stripe]:
            if not self._catalog.is_current(handle):
                raise StaleHandle
            write.old_stored = handle.tree.get(key)
            write.decide()
            if not write.is_change:
                return self._known_seqno(stripe)
            if handle.written_indexes:
                self._check_collection(write)
            batch = self.engine.batch()
            write.stage(batch, self._clock)
            self._last_seqnos[stripe] = PENDING
            seqno: int = self.engine.commit(batch)
            self._last_seqnos[stripe] = seqno
        write.count(seqno)
        return seqno

    def run_all(
        self, writes: Sequence[Write], *, extra: Any = None, timeout: float | None = None
    ) -> int:
        """Run writes to different items as one commit: all of them, or none when one fails.

        `decide` is called for every write in order, also after one has failed. `extra(batch)` may
        add entries of its own to the commit. Raises: StaleHandle; LockTimeout after `timeout`
        seconds; ActionProblem around what a `decide` raises. Nothing has been written then.
        """
        stripes = sorted({hash(write.key) & _MASK for write in writes})
        with self._holding(stripes, timeout):
            self._read_old_images(writes)
            _decide_all(writes)
            self._check_collections(writes)
            if any(write.is_failed for write in writes):
                return max(map(self._known_seqno, stripes))
            changes = [write for write in writes if write.is_change]
            batch = self.engine.batch()
            moment = self._clock()  # one for all: no point in time lies between them
            for write in changes:
                write.stage(batch, lambda: moment)
            if extra is not None:
                extra(batch)
            if not len(batch):
                return max(map(self._known_seqno, stripes))
            seqno = self._commit_locked(stripes, batch)
        for write in changes:
            write.count(seqno)
        return seqno

    def _check_collection(self, write: Write) -> None:
        """Raises: CollectionTooLarge."""
        handle = write.handle
        if write.new_size > write.old_size and has_local_indexes(handle):
            self._collections.check(handle, write.key)

    def _check_collections(self, writes: Sequence[Write]) -> None:
        for position, write in enumerate(writes):
            if write.is_change and write.handle.written_indexes:
                try:
                    self._check_collection(write)
                except CollectionTooLarge as problem:
                    raise ActionProblem(position, problem) from problem

    def _read_old_images(self, writes: Sequence[Write]) -> None:
        by_table: dict[int, list[Write]] = {}
        for write in writes:
            by_table.setdefault(id(write.handle), []).append(write)
        for group in by_table.values():
            handle = group[0].handle
            if not self._catalog.is_current(handle):
                raise StaleHandle
            stored = handle.tree.multi_get([write.key for write in group])
            for write, old in zip(group, stored, strict=True):
                write.old_stored = old

    def _commit_locked(self, stripes: Iterable[int], batch: Any) -> int:
        for stripe in stripes:
            self._last_seqnos[stripe] = PENDING
        seqno: int = self.engine.commit(batch)
        for stripe in stripes:
            self._last_seqnos[stripe] = seqno
        return seqno

    # What readers need.

    def seqno_near(self, key: bytes) -> int:
        """Return a sequence number that covers every visible commit to the item of this key.

        Call it after the item has been read.
        """
        return self._known_seqno(hash(key) & _MASK)

    def _known_seqno(self, stripe: int) -> int:
        seqno = self._last_seqnos[stripe]
        if seqno == PENDING:
            seqno = self.engine.last_seqno
        return seqno

    # Locks for others.

    @contextmanager
    def locked(self, keys: Iterable[bytes]) -> Iterator[None]:
        """Hold the locks of items given by their tree keys."""
        with self._holding(sorted({hash(key) & _MASK for key in keys}), None):
            yield

    def commit_locked(self, keys: Iterable[bytes], batch: Any) -> int:
        """Commit a batch that changes what belongs to these items. REQUIRES: `locked(keys)`."""
        return self._commit_locked({hash(key) & _MASK for key in keys}, batch)

    def barrier(self) -> None:
        """Return when no write is under way that began before the call."""
        for lock in self._locks:
            with lock:
                pass

    @contextmanager
    def _holding(self, stripes: Sequence[int], timeout: float | None) -> Iterator[None]:
        taken = 0
        try:
            for stripe in stripes:
                lock = self._locks[stripe]
                if not lock.acquire(timeout=-1 if timeout is None else timeout):
                    raise LockTimeout
                taken += 1
            yield
        finally:
            for stripe in stripes[:taken]:
                self._locks[stripe].release()
