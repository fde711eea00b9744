"""What operations consume, in DynamoDB's capacity units, and how replies report it.

Units (reference 8.1): a write costs one unit per started KiB of the larger image, a consistent
read one per started 4 KiB, an eventually consistent read half of that; transactions cost double.
All sizes are DynamoDB item sizes in bytes (reference 2.3), never bytes on disk.

A `Tally` collects the units of one table during one operation; it belongs to one thread.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from dynalsm.model.keys import segment_of

if TYPE_CHECKING:
    from dynalsm.model.schema import TableSchema

WRITE_UNIT_BYTES: Final = 1024
READ_UNIT_BYTES: Final = 4096
VECTOR_MIN_BYTES: Final = 1024  # observed: the least that a vector write or search costs
TRANSACTION_FACTOR: Final = 2  # AWS: transactional reads and writes cost two units each
# AWS: what one physical partition serves; a new on-demand table is made for 12,000 reads a second.
PARTITION_READ_UNITS: Final = 3000
PARTITION_WRITE_UNITS: Final = 1000
ON_DEMAND_PARTITIONS: Final = 4


def write_units(size_bytes: int) -> int:
    """Return the units of writing an item of this size; a missing item (0) costs one."""
    return (size_bytes + WRITE_UNIT_BYTES - 1) // WRITE_UNIT_BYTES or 1


def read_units(size_bytes: int, consistent: bool) -> float:
    """Return the units of reading so many bytes at once; nothing at all costs as 1 byte does."""
    units = (size_bytes + READ_UNIT_BYTES - 1) // READ_UNIT_BYTES or 1
    return float(units) if consistent else units / 2


def scan_units(
    schema: TableSchema,
    size_bytes: int,
    consistent: bool,
    bounds: tuple[bytes | None, bytes | None],
    last_key: bytes | None,
) -> float:
    """Return the units of one page of a Scan of a table.

    observed (alternator): every physical partition that the page walks through costs a unit at
    least, so that a Scan of a tiny on-demand table costs four. Here the hash space is cut evenly
    into as many partitions as AWS would make for the table's throughput.
    """
    total = _physical_partitions(schema)
    lower, upper = bounds
    first = segment_of(lower, total) if lower else 0
    if last_key is not None:
        last = segment_of(last_key, total)
    elif upper is None:
        last = total - 1
    else:
        # The bound is exclusive, and a bound between segments is a bare hash.
        last = int.from_bytes(upper[:8], "big") - (len(upper) == 8)
        last = last * total >> 64
    units = read_units(size_bytes, consistent=True)
    units = max(units, float(last - first + 1))
    return units if consistent else units / 2


def _physical_partitions(schema: TableSchema) -> int:
    if schema.billing != "PROVISIONED":
        return ON_DEMAND_PARTITIONS
    given = schema.throughput
    share = given.read_units / PARTITION_READ_UNITS + given.write_units / PARTITION_WRITE_UNITS
    return max(1, math.ceil(share))


def index_write_units(
    old_size_bytes: int, new_size_bytes: int, has_same_key: bool, is_equal: bool
) -> int:
    """Return the units of one index for one item change (reference 8.1, last paragraph).

    A size of 0 means that the item has no entry on that side.
    """
    if is_equal or not (old_size_bytes or new_size_bytes):
        return 0
    if not old_size_bytes:
        return write_units(new_size_bytes)
    if not new_size_bytes:
        return write_units(old_size_bytes)
    if has_same_key:
        return write_units(max(old_size_bytes, new_size_bytes))
    return write_units(old_size_bytes) + write_units(new_size_bytes)


def vector_request_bytes(size_bytes: int) -> int:
    """Return the bytes that writing or reading so much of a vector index is billed as."""
    return max(VECTOR_MIN_BYTES, size_bytes)


class Tally:
    """Units consumed on one table and its indexes by one operation."""

    __slots__ = ("gsi_units", "lsi_units", "table_units", "vector_bytes")

    def __init__(self, table_units: float = 0.0) -> None:
        self.table_units = table_units
        self.lsi_units: dict[str, float] | None = None
        self.gsi_units: dict[str, float] | None = None
        # Bytes, by vector index; no part of the units.
        self.vector_bytes: dict[str, int] | None = None

    def add_index(self, is_local: bool, name: str, units: float) -> None:
        """Add the units of an index, which counts as touched from then on."""
        arms = self.lsi_units if is_local else self.gsi_units
        if arms is None:
            arms = {}
            if is_local:
                self.lsi_units = arms
            else:
                self.gsi_units = arms
        arms[name] = arms.get(name, 0.0) + units

    def add_vectors(self, name: str, size_bytes: int) -> None:
        """Add what was written to a vector index."""
        if self.vector_bytes is None:
            self.vector_bytes = {}
        self.vector_bytes[name] = self.vector_bytes.get(name, 0) + size_bytes

    @property
    def total_units(self) -> float:
        """The units of the table and all touched indexes."""
        units = self.table_units
        for arms in (self.lsi_units, self.gsi_units):
            if arms:
                units += sum(arms.values())
        return float(units)

    def report(self, mode: str, table_name: str, direction: str = "") -> dict[str, Any]:
        """Return the ConsumedCapacity member for "TOTAL" or "INDEXES".

        `direction` is "ReadCapacityUnits" or "WriteCapacityUnits" in transactions, which report
        their units under that name as well.
        """

        def arm(units: float) -> dict[str, Any]:
            reported = {"CapacityUnits": float(units)}
            if direction:
                reported[direction] = float(units)
            return reported

        reply: dict[str, Any] = {"TableName": table_name, **arm(self.total_units)}
        if mode == "INDEXES":
            reply["Table"] = arm(self.table_units)
            for member, arms in (
                ("LocalSecondaryIndexes", self.lsi_units),
                ("GlobalSecondaryIndexes", self.gsi_units),
            ):
                if arms:
                    reply[member] = {name: arm(units) for name, units in arms.items()}
            if self.vector_bytes:
                reply["VectorIndexes"] = {
                    name: {"VectorWriteRequestBytes": float(size_bytes)}
                    for name, size_bytes in self.vector_bytes.items()
                }
        return reply
