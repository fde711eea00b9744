from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from typing_extensions import disjoint_base

from dynalsm.model.capacity import Tally
from dynalsm.model.catalog import Catalog
from dynalsm.model.entries import IndexChange
from dynalsm.model.handles import TableHandle
from dynalsm.model.item_collections import Collections

class StaleHandle(Exception):
    """The table changed since its handle was taken: take a new one and start over."""

class ItemTooLarge(Exception):
    """The new image is larger than the limit, or is with its local index entries."""

class ActionProblem(Exception):
    """The write at `position` of several cannot be done; `problem` says why."""

    position: int
    problem: Exception
    def __init__(self, position: int, problem: Exception) -> None: ...

@disjoint_base
class Write:
    """One item and what to do with it. Subclasses implement `decide`.

    After a run: `is_failed` says that the condition was false, `is_change` that something was
    written; `old_stored` and `new_stored` are the images as stored (None: no item).
    """

    handle: TableHandle
    key: bytes
    condition: Any
    by_ttl: bool
    old_stored: bytes | None
    new_stored: bytes | None
    index_changes: list[IndexChange] | None
    is_change: bool
    is_failed: bool
    def __init__(self, handle: TableHandle, key: bytes, condition: Any = None) -> None: ...
    def decide(self) -> None:
        """Find the new image from `old_stored`; set new_stored, is_change and is_failed."""

    @property
    def old_item(self) -> bytes | None:
        """The old image as a whole encoded item, or None."""

    @property
    def new_item(self) -> bytes | None:
        """The new image as a whole encoded item, or None."""

    @property
    def old_size(self) -> int:
        """DynamoDB's size of the old image in bytes; 0 when there is none."""

    @property
    def new_size(self) -> int:
        """DynamoDB's size of the new image in bytes; 0 when there is none."""

    def tally(self, factor: int = 1) -> Tally:
        """Return the units that the write consumes; `factor` applies to the table's arm only."""

    def add_index_units(self, tally: Tally) -> None:
        """Add the units of the touched indexes."""

class Put(Write):
    """Replace the whole item. `item` is complete and encoded; its keys have been checked."""

    def __init__(
        self, handle: TableHandle, key: bytes, item: bytes, condition: Any = None
    ) -> None: ...

class Delete(Write):
    """Remove the item if it is there."""

class Check(Write):
    """Change nothing, only test the condition (TransactWriteItems)."""

@disjoint_base
class Update(Write):
    """Change some attributes. `update` is a bound update; None only makes sure the item exists.

    With `must_exist` a missing item fails like a false condition (PartiQL's UPDATE).
    """

    update: Any
    must_exist: bool
    def __init__(
        self, handle: TableHandle, key: bytes, update: Any, condition: Any = None
    ) -> None: ...

@disjoint_base
class WritePath:
    """Where items change. One per database; model/writes.py completes it."""

    engine: Any
    def __init__(
        self, engine: Any, catalog: Catalog, clock: Callable[[], float], collections: Collections
    ) -> None: ...
    def run(self, write: Write) -> int:
        """Run one write; returns the sequence number to wait for. Raises: StaleHandle.

        What `decide` raises (update errors, IndexKeyProblem, ItemTooLarge) passes through;
        nothing has been written then.
        """

    def run_all(
        self, writes: Sequence[Write], *, extra: Any = None, timeout: float | None = None
    ) -> int:
        """Run writes to different items as one commit: all of them, or none when one fails.

        `decide` is called for every write in order, also after one has failed. `extra(batch)` may
        add entries of its own to the commit. Raises: StaleHandle; LockTimeout after `timeout`
        seconds; ActionProblem around what a `decide` raises. Nothing has been written then.
        """

    def check_collections(self, writes: list[Write]) -> None:
        """Refuse what would make a full item collection larger. Raises: ActionProblem."""

    def seqno_near(self, key: bytes) -> int:
        """Return a sequence number that covers every visible commit to the item of this key.

        Call it after the item has been read.
        """

    def locked(self, keys: Iterable[bytes]) -> AbstractContextManager[None]:
        """Return a context manager that holds the locks of items given by their tree keys."""

    def commit_locked(self, keys: Iterable[bytes], batch: Any) -> int:
        """Commit a batch that changes what belongs to these items. REQUIRES: `locked(keys)`."""

    def barrier(self) -> None:
        """Return when no write is under way that began before the call."""
