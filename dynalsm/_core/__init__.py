"""The storage engine: ordered trees of bytes in one directory. It never sees an item.

These names are all that other packages may import from here.
"""

from dynalsm._core.cursor import Cursor
from dynalsm._core.engine import Batch, Engine, Snapshot, Tree

__all__ = ["Batch", "Cursor", "Engine", "Snapshot", "Tree"]
