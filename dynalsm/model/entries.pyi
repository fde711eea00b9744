from dynalsm.model.handles import IndexHandle
from dynalsm.model.keys import KeyProblem

Entry = tuple[bytes, bytes]
# (index, old entry, new entry) of an index that a change touches; None: no entry on that side.
IndexChange = tuple[IndexHandle, Entry | None, Entry | None]

class IndexKeyProblem(Exception):
    """An attribute cannot be a key of `index`; `problem` is the KeyProblem that says why."""

    index: IndexHandle
    problem: KeyProblem
    def __init__(self, index: IndexHandle, problem: KeyProblem) -> None: ...

def entry_or_none(index: IndexHandle, item: bytes) -> Entry | None:
    """Return the entry of a stored item; an item that the index cannot take has none."""

def vector_bytes(change: IndexChange) -> int:
    """Return the VectorWriteRequestBytes that one change of a vector index consumes."""

def units(change: IndexChange) -> int:
    """Return the write units that one index change consumes."""
