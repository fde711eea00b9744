from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from typing_extensions import disjoint_base

from dynalsm.model.catalog import Catalog
from dynalsm.model.item_collections import Collections
from dynalsm.model.item_writes import Write

class StaleHandle(Exception):
    """The table changed since its handle was taken: take a new one and start over."""

class ActionProblem(Exception):
    """The write at `position` of several cannot be done; `problem` says why."""

    position: int
    problem: Exception
    def __init__(self, position: int, problem: Exception) -> None: ...

@disjoint_base
class WritePath:
    """Where items change. One per database; model/writes.py completes it."""

    engine: Any
    is_watched: bool
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
