from typing import final

@final
class Statistics:
    """The counters of one tree (a table's or an index's)."""

    is_exact: bool
    def __init__(self, items: int = 0, size_bytes: int = 0, *, is_exact: bool = True) -> None: ...
    @property
    def items(self) -> int:
        """Number of items or index entries."""

    @property
    def bytes(self) -> int:
        """Their DynamoDB sizes together."""

    def add(self, seqno: int, items: int, size_bytes: int) -> None:
        """Count what a commit changed. `seqno`: any sequence number of that commit."""

    def start_recount(self, seqno: int) -> None:
        """From now on count only commits above `seqno`, a snapshot about to be read."""

    def finish_recount(self, items: int, size_bytes: int) -> None:
        """Add what the snapshot held; the counters are exact from here on."""

    def stored(self) -> tuple[int, int]:
        """Return (items, bytes) to be kept in the catalog."""
