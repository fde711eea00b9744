"""Reading items: one by key, and ranges of a table or an index page by page.

A page ends at `limit` evaluated items or once the evaluated items reach `limit_bytes`, whichever
comes first; the item that crosses the mark is still part of the page (observed: dynalite). There
is no look-ahead: a page that ended at a mark names its last key even when nothing follows.

Everything on one page comes from one snapshot of the engine. Sizes are DynamoDB's item sizes.

Thread safety: functions without state; a Page belongs to the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from dynalsm import values
from dynalsm.limits import PAGE_MAX_BYTES

if TYPE_CHECKING:
    from dynalsm.model.catalog import IndexHandle, TableHandle

CHUNK_ITEMS: Final = 256


class Page:
    """What one page held.

    `items` are whole encoded items that the filter let through (empty when only counted).
    `last_key` is the tree key to go on after; None when the range is exhausted.
    `fetched_sizes` are the sizes of table items read for index entries.
    """

    __slots__ = (
        "count", "fetched_sizes", "items", "last_key", "limit_bytes", "scanned", "size_bytes",
    )  # fmt: skip

    def __init__(self, limit_bytes: int = PAGE_MAX_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.items: list[bytes] = []
        self.count = 0
        self.scanned = 0
        self.size_bytes = 0
        self.last_key: bytes | None = None
        self.fetched_sizes: list[int] = []


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


def read_page(
    source: TableHandle | IndexHandle,
    lower: bytes | None,
    upper: bytes | None,
    *,
    reverse: bool = False,
    limit: int | None = None,
    condition: Any = None,
    wants_items: bool = True,
    fetch_from: TableHandle | None = None,
    snapshot: Any = None,
    into: Page | None = None,
    limit_bytes: int = PAGE_MAX_BYTES,
) -> Page:
    """Read one page of the range [lower, upper) of a table or index.

    `condition` filters whole items (after `fetch_from` has replaced index entries by the items
    of that table, which needs a `snapshot`). With `wants_items` False the page only counts.
    `into` is a page that another range has begun and this one goes on with.
    """
    page = into or Page(limit_bytes)
    take = _taker(page, source, condition, wants_items, fetch_from, snapshot)
    page.last_key = None
    with source.tree.cursor(lower, upper, reverse=reverse, snapshot=snapshot) as cursor:
        while True:
            wanted = CHUNK_ITEMS if limit is None else min(CHUNK_ITEMS, limit - page.scanned)
            chunk = cursor.next_chunk(wanted, page.limit_bytes - page.size_bytes)
            if not chunk:
                page.last_key = None
                break
            take(_within_page(page, chunk, source.keys.stored_size))
            if page.size_bytes >= page.limit_bytes or page.scanned == limit:
                break
    if not wants_items:
        page.items = []
    return page


def _within_page(
    page: Page, chunk: list[tuple[bytes, bytes]], stored_size: Callable[[bytes], int]
) -> list[tuple[bytes, bytes]]:
    """Count the entries of a chunk; return those up to the end of the page."""
    size_bytes = page.size_bytes
    for position, (_, stored) in enumerate(chunk, 1):
        size_bytes += stored_size(stored)
        if size_bytes >= page.limit_bytes:
            del chunk[position:]
            break
    page.size_bytes = size_bytes
    page.scanned += len(chunk)
    page.last_key = chunk[-1][0]
    return chunk


def _taker(
    page: Page,
    source: TableHandle | IndexHandle,
    condition: Any,
    wants_items: bool,
    fetch_from: TableHandle | None,
    snapshot: Any,
) -> Callable[[list[tuple[bytes, bytes]]], None]:
    """Return what is done with the entries of a chunk."""
    join = source.keys.join
    items = page.items

    def take(chunk: list[tuple[bytes, bytes]]) -> None:
        if fetch_from is not None:
            found = _fetch(page, source, chunk, fetch_from, snapshot)
        elif condition is None and not wants_items:
            page.count += len(chunk)
            return
        else:
            found = [join(key, stored) for key, stored in chunk]
        if condition is not None:
            holds, view = condition.evaluate, values.ItemView
            found = [item for item in found if holds(view(item))]
        page.count += len(found)
        if wants_items:
            items.extend(found)

    return take


def _fetch(
    page: Page,
    source: TableHandle | IndexHandle,
    chunk: list[tuple[bytes, bytes]],
    table: TableHandle,
    snapshot: Any,
) -> list[bytes]:
    """Return the table's items behind index entries; both are of one snapshot, so all exist."""
    table_key = source.keys.table_key  # type: ignore[union-attr]  # only indexes are fetched from
    keys = [table_key(key) for key, _ in chunk]
    found = []
    for key, stored in zip(keys, table.tree.multi_get(keys, snapshot), strict=True):
        if stored is not None:
            page.fetched_sizes.append(table.keys.stored_size(stored))
            found.append(table.keys.join(key, stored))
    return found


def after(key: bytes) -> bytes:
    """Return the first key behind `key`."""
    return key + b"\x00"
