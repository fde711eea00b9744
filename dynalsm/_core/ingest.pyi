"""Types of loading sorted input."""

from collections.abc import Iterable

from dynalsm._core.engine import Engine, Tree

def ingest(engine: Engine, tree: Tree, entries: Iterable[tuple[bytes, bytes]]) -> int: ...
