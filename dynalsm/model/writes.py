"""Writing items: the service that every operation goes through, and the kinds of writes.

The pipeline itself is compiled: write_path.pyx, item_writes.pyx. What stands here is what surrounds
it: client tokens, item collections, throttling.

Thread safety: `Writes` may be used from any thread; a write object belongs to one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dynalsm.model.insights import Insights
from dynalsm.model.item_collections import Collections
from dynalsm.model.item_writes import Check, Delete, ItemTooLarge, Put, Update, Write
from dynalsm.model.stripes import LockTimeout
from dynalsm.model.throttle import Throttle
from dynalsm.model.transactions import Tokens
from dynalsm.model.write_path import ActionProblem, StaleHandle, WritePath

if TYPE_CHECKING:
    from dynalsm.model.catalog import Catalog
    from dynalsm.model.settings import Settings

__all__ = [
    "CONFLICT_SECONDS",
    "ActionProblem",
    "Check",
    "Delete",
    "ItemTooLarge",
    "LockTimeout",
    "Put",
    "StaleHandle",
    "Update",
    "Write",
    "Writes",
]

# Longest wait of a transaction for the items of another one before it gives up.
CONFLICT_SECONDS: Final = 10.0


class Writes(WritePath):
    """The one place where items change. One per database."""

    def __init__(self, engine: Any, catalog: Catalog, settings: Settings) -> None:
        super().__init__(engine, catalog, settings.clock, Collections())
        self.tokens = Tokens(catalog.tree, settings)
        # None unless the database enforces throughput; read by all data operations.
        self.throttle = Throttle(settings.clock) if settings.enforce_throughput else None
        self.insights = Insights(catalog, settings.clock)
        self._hides_expired = settings.hide_expired
        self.watch()
        catalog.barrier = self.barrier

    def watch(self) -> None:
        """Take note of changed settings of throughput and insights."""
        self.insights.refresh()
        self.is_watched = self.throttle is not None or self.insights.is_on or self._hides_expired
