from typing import Any, final

from typing_extensions import disjoint_base

from dynalsm.model.changelog import Changelog
from dynalsm.model.keys import IndexKeys, TableKeys
from dynalsm.model.schema import IndexSchema, TableSchema
from dynalsm.model.statistics import Statistics
from dynalsm.model.ttl import Mark
from dynalsm.model.vector_source import VectorSource

@final
class IndexHandle:
    """An open index: schema, tree, keys, statistics. Never changes."""

    schema: IndexSchema
    name: str
    kind: str
    tree: Any
    keys: IndexKeys
    statistics: Statistics
    is_readable: bool
    vectors: VectorSource | None
    space: Any
    def __init__(
        self,
        schema: IndexSchema,
        tree: Any,
        keys: IndexKeys,
        statistics: Statistics,
        vectors: VectorSource | None = None,
        space: Any = None,
    ) -> None: ...

@final
class TableHandle:
    """An open table. Never changes; Catalog.replace makes a new one."""

    schema: TableSchema
    name: str
    arn: str
    tree: Any
    keys: TableKeys
    indexes: dict[str, IndexHandle]
    written_indexes: tuple[IndexHandle, ...]
    changelog: Changelog | None
    expiry: Any
    expiry_mark: Mark
    statistics: Statistics
    plans: dict[Any, Any]
    def __init__(
        self,
        schema: TableSchema,
        arn: str,
        tree: Any,
        keys: TableKeys,
        indexes: dict[str, IndexHandle],
        changelog: Changelog | None,
        expiry: Any,
        statistics: Statistics,
        item_limit_bytes: int = ...,
    ) -> None: ...

@disjoint_base
class OpenTables:
    """The open tables by name: what of a catalog every request needs."""

    _tables: dict[str, TableHandle]
    def get(self, name: str) -> TableHandle | None:
        """Return the open table called `name`, or None."""

    def is_current(self, handle: TableHandle) -> bool:
        """Return whether `handle` is still the newest of its table."""
