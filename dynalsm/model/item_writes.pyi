from typing import Any

from typing_extensions import disjoint_base

from dynalsm.model.capacity import Tally
from dynalsm.model.entries import IndexChange
from dynalsm.model.handles import TableHandle

class ItemTooLarge(Exception):
    """The new image is larger than the limit, or is with its local index entries."""

@disjoint_base
class Write:
    """One item and what to do with it. Subclasses implement `decide`.

    After a run: `is_failed` says that the condition was false, `is_change` that something was
    written; `old_stored` and `new_stored` are the images as stored (None: no item).
    """

    handle: TableHandle
    key: bytes
    condition: Any
    by_ttl: bool
    old_stored: bytes | None
    new_stored: bytes | None
    index_changes: list[IndexChange] | None
    is_change: bool
    is_failed: bool
    def __init__(self, handle: TableHandle, key: bytes, condition: Any = None) -> None: ...
    def decide(self) -> None:
        """Find the new image from `old_stored`; set new_stored, is_change and is_failed."""

    @property
    def old_item(self) -> bytes | None:
        """The old image as a whole encoded item, or None."""

    @property
    def new_item(self) -> bytes | None:
        """The new image as a whole encoded item, or None."""

    @property
    def old_size(self) -> int:
        """DynamoDB's size of the old image in bytes; 0 when there is none."""

    @property
    def new_size(self) -> int:
        """DynamoDB's size of the new image in bytes; 0 when there is none."""

    def tally(self, factor: int = 1) -> Tally:
        """Return the units that the write consumes; `factor` applies to the table's arm only."""

    def add_index_units(self, tally: Tally) -> None:
        """Add the units of the touched indexes."""

class Put(Write):
    """Replace the whole item. `item` is complete and encoded; its keys have been checked."""

    def __init__(
        self, handle: TableHandle, key: bytes, item: bytes, condition: Any = None
    ) -> None: ...

class Delete(Write):
    """Remove the item if it is there."""

class Check(Write):
    """Change nothing, only test the condition (TransactWriteItems)."""

@disjoint_base
class Update(Write):
    """Change some attributes. `update` is a bound update; None only makes sure the item exists.

    With `must_exist` a missing item fails like a false condition (PartiQL's UPDATE).
    """

    must_exist: bool
    def __init__(
        self, handle: TableHandle, key: bytes, update: Any, condition: Any = None
    ) -> None: ...
    @property
    def update(self) -> Any:
        """The bound update, or None."""
