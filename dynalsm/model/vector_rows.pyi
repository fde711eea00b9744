from collections.abc import Sequence
from typing import final

def entry_floats(stored: bytes, name: bytes, dimensions: int) -> bytes:
    """Return the vector in a stored entry as its bytes; `name`: its attribute, UTF-8."""

def entry_rank(query: VectorQuery, stored: bytes, name: bytes) -> float:
    """Return the rank of a stored entry; `name`: its vector attribute, UTF-8."""

@final
class VectorQuery:
    """A search vector and the distance that is asked for."""

    floats: bytes
    distance: str
    squares: float
    def __init__(self, floats: bytes, distance: str) -> None: ...
    def score(self, rank: float) -> float:
        """Return the score that a rank stands for."""

@final
class VectorRows:
    """Vectors of one length with their tags."""

    dimensions: int
    count: int
    dead: int
    def __init__(self, dimensions: int, attribute: str, tags: int) -> None: ...
    @property
    def size_bytes(self) -> int:
        """The memory that the rows take."""

    @property
    def row_bytes(self) -> int:
        """The memory that one row takes."""

    def add(self, stored: bytes, tags: Sequence[int] = ()) -> int:
        """Append the vector of a stored entry; returns its row."""

    def put(self, row: int, stored: bytes, tags: Sequence[int] = ()) -> None:
        """Set a row to the vector of a stored entry."""

    def kill(self, row: int) -> None:
        """Take a row out of all searches."""

    def clear(self) -> None:
        """Forget all rows, and keep their memory."""

    def trim(self) -> None:
        """Give back memory that no row uses."""

    def squares(self, row: int) -> float:
        """Return the sum of the squares of a row's elements."""

    def gather(self, rows: list[int]) -> bytes:
        """Return the floats of some rows, one after another."""

    def search(
        self, query: VectorQuery, limit: int, tags: Sequence[int] | None = None
    ) -> list[tuple[float, int]]:
        """Return (rank, row) of the `limit` nearest rows, in no order.

        All rows as far away as the last one are among them, so they may be more. `tags`: None, or
        for each tag the wanted number or -1 for any.
        """

    def count_matching(self, tags: Sequence[int]) -> int:
        """Return how many rows have these tags (-1: any)."""

    def matches(self, row: int, tags: Sequence[int] | None) -> bool:
        """Return whether a row is alive and has these tags (None: whatever they are)."""

    def search_among(
        self, query: VectorQuery, limit: int, among: list[int]
    ) -> list[tuple[float, int]]:
        """Return (rank, row) as `search` does, of these rows only. REQUIRES: they are alive."""
