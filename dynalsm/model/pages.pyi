from typing import Any, final

from dynalsm.expressions.compiled import Judge
from dynalsm.model.handles import IndexHandle, TableHandle
from dynalsm.model.keys import StoredKeys

@final
class Page:
    """What one page held.

    `items` are the items that the filter let through (empty when only counted).
    `last_key` is the tree key to go on after; None when the range is exhausted.
    `fetched_sizes` are the sizes of table items read for index entries.
    """

    items: list[Any]
    count: int
    scanned: int
    size_bytes: int
    last_key: bytes | None
    fetched_sizes: list[int]
    @property
    def limit_bytes(self) -> int: ...
    def __init__(self, limit_bytes: int | None = None) -> None: ...

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
    limit_bytes: int | None = None,
    form: int = ...,
    chunk_items: int = ...,
) -> Page:
    """Read one page of the range [lower, upper) of a table or index.

    `condition` filters whole items (after `fetch_from` has replaced index entries by the items
    of that table, which needs a `snapshot`). With `wants_items` False the page only counts.
    `into` is a page that another range has begun and this one goes on with. Items are encoded
    bytes unless `form` (of forms.Form.kind) says otherwise.
    """

def _judge_entry(keys: StoredKeys, judge: Judge, key: bytes, stored: bytes) -> bool:
    """Judge one entry as a page does (tests)."""
