"""How many items a tree holds and how large they are: live, exact, at no cost to a write.

The counters live in memory. A clean close stores them with the catalog's "clean" mark; after a
crash the mark is not the newest entry of the engine, and the counters are taken again from a
snapshot in the background. While that runs, the last stored numbers are shown.

The protocol that keeps a recount exact beside running writes: a writer reports what its commit
changed *with the sequence number of that commit*, and a report counts only when the number lies
above the snapshot that the counters start from.

Thread safety: every method may be called from any thread.
"""

from __future__ import annotations

import threading


class Statistics:
    """The counters of one tree (a table's or an index's)."""

    __slots__ = ("_base_seqno", "_bytes", "_items", "_mutex", "_shown", "is_exact")

    def __init__(self, items: int = 0, size_bytes: int = 0, *, is_exact: bool = True) -> None:
        self._mutex = threading.Lock()
        # Guarded by _mutex: changes by commits above _base_seqno, on top of the base.
        self._items = items
        self._bytes = size_bytes
        self._base_seqno = 0
        # What items and bytes answer until a recount has finished; None: the counters themselves.
        self._shown: tuple[int, int] | None = None if is_exact else (items, size_bytes)
        self.is_exact = is_exact

    @property
    def items(self) -> int:
        """Number of items or index entries."""
        return max(0, self._items if self._shown is None else self._shown[0])

    @property
    def bytes(self) -> int:
        """Their DynamoDB sizes together."""
        return max(0, self._bytes if self._shown is None else self._shown[1])

    def add(self, seqno: int, items: int, size_bytes: int) -> None:
        """Count what a commit changed. `seqno`: any sequence number of that commit."""
        with self._mutex:
            if seqno > self._base_seqno:
                self._items += items
                self._bytes += size_bytes

    def start_recount(self, seqno: int) -> None:
        """From now on count only commits above `seqno`, a snapshot about to be read.

        A commit above it that reported already is lost: so the caller takes the snapshot before
        any write is admitted, or from a point that no writer has reached (see Catalog.recount).
        """
        with self._mutex:
            self._base_seqno = seqno
            self._items = self._bytes = 0

    def finish_recount(self, items: int, size_bytes: int) -> None:
        """Add what the snapshot held; the counters are exact from here on."""
        with self._mutex:
            self._items += items
            self._bytes += size_bytes
            self._shown = None
            self.is_exact = True

    def stored(self) -> tuple[int, int]:
        """Return (items, bytes) to be kept in the catalog."""
        with self._mutex:
            return (self._items, self._bytes) if self._shown is None else self._shown
