"""Reading items: one by key, many by their keys; pages are in pages.pyx.

Thread safety: functions without state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dynalsm.model.pages import Page, read_page

if TYPE_CHECKING:
    from dynalsm.model.catalog import TableHandle

__all__ = ["Page", "after", "get_item", "get_items", "read_page"]


def get_item(handle: TableHandle, key: bytes, snapshot: Any = None) -> bytes | None:
    """Return the whole encoded item with this tree key, or None."""
    stored = handle.tree.get(key, snapshot)
    return None if stored is None else handle.keys.join(key, stored)


def get_items(
    handle: TableHandle, keys: Sequence[bytes], snapshot: Any = None
) -> list[bytes | None]:
    """Return the items with these tree keys, in the same order."""
    join = handle.keys.join
    return [
        None if stored is None else join(key, stored)
        for key, stored in zip(keys, handle.tree.multi_get(keys, snapshot), strict=True)
    ]


def after(key: bytes) -> bytes:
    """Return the first key behind `key`."""
    return key + b"\x00"
