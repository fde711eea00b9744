from collections.abc import Iterable, Sequence
from typing import Any, final

from typing_extensions import disjoint_base

__all__ = ["RANGE_OPERATORS", "IndexKeys", "KeyProblem", "TableKeys", "segment_of"]

RANGE_OPERATORS: frozenset[str]

class KeyProblem(ValueError):
    """A key attribute that cannot be a key.

    `kind` is "missing", "type", "empty", "too_long" or "schema"; str() is DynamoDB's text for keys
    of a table.
    """

    kind: str
    attribute: str
    expected: str
    actual: str
    size: int
    role: str
    def __init__(
        self,
        kind: str,
        attribute: str = "",
        expected: str = "",
        actual: str = "",
        size: int = 0,
        role: str = "HASH",
    ) -> None: ...

def segment_of(tree_key: bytes, total: int) -> int:
    """Return the parallel-scan segment (of `total`) that a tree key belongs to."""

@disjoint_base
class StoredKeys:
    """What the keys of tables and indexes have in common: reading back what was stored."""

    names: tuple[str, ...]
    def join(self, tree_key: bytes, stored: bytes) -> bytes:
        """Return the encoded item (of an index: the projected item) that was stored."""

    def decode(self, tree_key: bytes, stored: bytes, form: int) -> Any:
        """Return the item that was stored, as forms.Form.kind says: what its decode_item makes of
        join(tree_key, stored)."""

    def key_item(self, tree_key: bytes) -> bytes:
        """Return the encoded map of just `names`."""

    def stored_size(self, stored: bytes) -> int:
        """Return DynamoDB's size in bytes of what was stored under a key, key included."""

    def hash_range(self, segment: int, total: int) -> tuple[bytes, bytes | None]:
        """Return (lower, upper) of one segment of a parallel scan; upper is None at the end."""

@final
class TableKeys(StoredKeys):
    """The tree keys and stored values of one table."""

    def __init__(
        self,
        partition_name: str,
        partition_type: str,
        sort_name: str | None = None,
        sort_type: str | None = None,
    ) -> None: ...
    def encode(self, item: bytes) -> bytes:
        """Return the tree key of an encoded item or key map; KeyProblem if it can have none."""

    def encode_key(self, key: bytes) -> bytes:
        """Return the tree key of an encoded map of exactly the key attributes."""

    def strip(self, item: bytes) -> bytes:
        """Return the stored value of an encoded item."""

    def record(self, item: bytes) -> tuple[bytes, bytes]:
        """Return (tree key, stored value) of an encoded item."""

    def partition_prefix(self, partition_value: bytes) -> bytes:
        """Return what all tree keys of one partition key start with."""

    def sort_range(
        self,
        prefix: bytes,
        op: str | None = None,
        operands: Sequence[bytes] = (),
        equalities: Sequence[bytes] = (),
    ) -> tuple[bytes, bytes]:
        """Return (lower, upper) of the tree keys of a partition that satisfy a sort condition."""

@final
class IndexKeys(StoredKeys):
    """The tree keys and stored values of one local or global secondary index.

    `names` are the key attributes of the index, then those of its table that are not among them.
    """

    kind: str
    table: TableKeys
    def __init__(
        self,
        kind: str,
        table: TableKeys,
        hash_attributes: Sequence[tuple[str, str]],
        range_attributes: Sequence[tuple[str, str]],
        projection: tuple[str, Iterable[str]],
    ) -> None: ...
    def encode(self, item: bytes) -> bytes | None:
        """Return the tree key of an encoded item, or None when the item is not in the index."""

    def encode_key(self, key: bytes) -> bytes:
        """Return the tree key of an encoded map of exactly `names` (an ExclusiveStartKey)."""

    def entry(self, item: bytes) -> tuple[bytes, bytes] | None:
        """Return (tree key, stored value) of an encoded item, or None when it is not indexed."""

    def table_key(self, tree_key: bytes) -> bytes:
        """Return the table's tree key of the item that an index entry belongs to."""

    def partition_prefix(self, *values: bytes) -> bytes:
        """Return what all tree keys of one partition start with (one value per hash attribute)."""

    def sort_range(
        self,
        prefix: bytes,
        op: str | None = None,
        operands: Sequence[bytes] = (),
        equalities: Sequence[bytes] = (),
    ) -> tuple[bytes, bytes]:
        """Return (lower, upper) of the tree keys of a partition that satisfy a sort condition.

        `equalities` are values of the leading range attributes; `op` applies to the one after them.
        """
