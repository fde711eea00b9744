"""Optional throttling with DynamoDB's token buckets, so that back-off code can be tested.

Every table, and every global index of a provisioned table, has a bucket for reads and one for
writes. A bucket fills at the provisioned rate and holds BURST_SECONDS of it. An operation is
admitted while the bucket is not empty, and its units are taken afterwards, when they are known;
so a bucket may fall below zero and then has to recover. Local indexes draw on their table.

An on-demand table has buckets only where OnDemandThroughput sets a ceiling.

Thread safety: every method may be called from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from dynalsm.model.schema import PROVISIONED

if TYPE_CHECKING:
    from dynalsm.model.capacity import Tally
    from dynalsm.model.catalog import IndexHandle, TableHandle

BURST_SECONDS: Final = 300.0  # AWS: unused capacity of the last five minutes
READ, WRITE = "read_units", "write_units"


class Throttled(Exception):
    """A bucket is empty. `is_provisioned` tells the two error names apart."""

    def __init__(self, is_provisioned: bool) -> None:
        super().__init__(is_provisioned)
        self.is_provisioned = is_provisioned


class _Bucket:
    """Units left, and when that was; guarded by Throttle._mutex."""

    __slots__ = ("left", "rate", "updated")

    def __init__(self, rate: float, now: float) -> None:
        self.rate = rate
        self.left = rate * BURST_SECONDS
        self.updated = now

    def refill(self, rate: float, now: float) -> None:
        """Bring the bucket up to date; a changed rate counts from now on."""
        self.left += max(0.0, now - self.updated) * self.rate
        self.rate = rate
        self.left = min(self.left, rate * BURST_SECONDS)
        self.updated = now


class Throttle:
    """The buckets of all tables of one database."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._mutex = threading.Lock()
        self._buckets: dict[tuple[str, str, str], _Bucket] = {}  # Guarded by _mutex.

    def admit(self, handle: TableHandle, way: str, index: IndexHandle | None = None) -> None:
        """Let an operation begin. `index`: the global index that is read. Raises: Throttled."""
        if way == READ and index is not None and index.kind == "GSI":
            self._require(handle, index, way)
            return
        self._require(handle, None, way)
        if way == WRITE:
            for written in handle.written_indexes:
                if written.kind == "GSI":
                    self._require(handle, written, way)

    def charge(self, handle: TableHandle, way: str, tally: Tally) -> None:
        """Take what an operation has used."""
        units = tally.table_units + sum((tally.lsi_units or {}).values())
        self._take(handle, None, way, units)
        for name, used in (tally.gsi_units or {}).items():
            index = handle.indexes.get(name)
            if index is not None:
                self._take(handle, index, way, used)

    def _require(self, handle: TableHandle, index: IndexHandle | None, way: str) -> None:
        with self._mutex:
            bucket = self._bucket_locked(handle, index, way)
            if bucket is not None and bucket.left <= 0:
                raise Throttled(handle.schema.billing == PROVISIONED)

    def _take(self, handle: TableHandle, index: IndexHandle | None, way: str, units: float) -> None:
        with self._mutex:
            bucket = self._bucket_locked(handle, index, way)
            if bucket is not None:
                bucket.left -= units

    def _bucket_locked(
        self, handle: TableHandle, index: IndexHandle | None, way: str
    ) -> _Bucket | None:
        rate = _rate(handle, index, way)
        if not rate:
            return None
        now = self._clock()
        key = (handle.schema.id, "" if index is None else index.name, way)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(rate, now)
        bucket.refill(rate, now)
        return bucket


def _rate(handle: TableHandle, index: IndexHandle | None, way: str) -> float:
    """Return units per second; 0 for no limit."""
    schema: Any = handle.schema if index is None else index.schema
    limits = schema.throughput if handle.schema.billing == PROVISIONED else schema.ceiling
    return float((getattr(limits, way) or 0) if limits is not None else 0)
