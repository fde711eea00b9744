from collections.abc import Iterable
from typing import final

def vector_value(floats: bytes) -> bytes:
    """Return a vector of an index as an encoded list of numbers: the shortest ones."""

def query_floats(elements: list[bytes]) -> bytes | None:
    """Return a search vector, given as encoded values, as floats; None when one is no float."""

@final
class VectorSource:
    """What one index takes out of items: its vector attribute and its search schema."""

    attribute: str
    dimensions: int
    filters: tuple[str, ...]
    hash_name: str | None
    def __init__(
        self, attribute: str, dimensions: int, search_schema: Iterable[tuple[str, str, str]]
    ) -> None:
        """`search_schema`: (attribute name, HASH or INLINE_FILTER, S or N or B) in its order."""

    def index_item(self, item: bytes) -> bytes | None:
        """Return an item as its index entry is made of, or None when it is not in the index.

        Raises: KeyProblem.
        """

    def billed_difference(self, item: bytes) -> int:
        """Return by how many bytes an item is billed as larger than it is when it is written.

        Writes are billed with the vector at four bytes a dimension (observed, reference 1.2).
        """
