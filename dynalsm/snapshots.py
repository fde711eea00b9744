"""Reading at a snapshot: every read, on whatever page, sees the database as it was at one moment.

    with db.snapshot() as then:
        page = then.Table("Music").query(...)

A snapshot offers what a database does (`Table`, `client`, `call`), for operations that only read;
the rest raises ReadOnlyError. It shows the tables and indexes that there were; of a table deleted
since then nothing can be read any more (ResourceNotFoundException). While it is open the engine
keeps what it may still read, so close it when done.

How: operations run on it unchanged, over handles whose trees are pinned to the engine's snapshot.

Thread safety: a snapshot may be shared by threads; close it after the last read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from dynalsm import errors, resource
from dynalsm.api import dispatch
from dynalsm.client import DynamoDBClient
from dynalsm.model.catalog import IndexHandle, TableHandle
from dynalsm.model.insights import Uncounted

if TYPE_CHECKING:
    from dynalsm._core import Engine
    from dynalsm._core import Snapshot as EngineSnapshot
    from dynalsm.database import Call, Database

# Statements are let through as far as they read: see _NoWrites.
READS = frozenset(
    "GetItem BatchGetItem TransactGetItems Query Scan SearchVectors ExecuteStatement "
    "BatchExecuteStatement ExecuteTransaction DescribeTable ListTables".split()
)


class Snapshot:
    """A database at one moment. Use it as a context manager, or call close()."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.settings = database.settings
        catalog = database.catalog
        with catalog.mutex:  # the tables of the moment, and the moment
            self._pinned: EngineSnapshot = database.engine.snapshot()
            handles = [catalog.get(name) for name in catalog.names()]
        self.catalog = _Catalog(handles, catalog, self._pinned)
        self.engine = _Engine(database.engine, self._pinned)
        self.writes = _NoWrites(database.path, self._pinned.seqno)
        self.writes.is_watched = database.settings.hide_expired
        self.call: Call = partial(_run, self)
        self.client = DynamoDBClient(self)  # type: ignore[arg-type]  # it has what reads need

    @property
    def path(self) -> str:
        """The directory of the database."""
        return self._database.path

    @property
    def seqno(self) -> int:
        """The number of the last change that the snapshot shows."""
        return self._pinned.seqno

    def Table(self, name: str) -> resource.Table:
        """Return a table at this moment, for reading."""
        return resource.Table(self, name)  # type: ignore[arg-type]  # it has what reads need

    @property
    def must_wait(self) -> bool:
        """Whether consistent reads wait for the disk."""
        return self._database.must_wait

    def finish(self, seqno: int) -> None:
        """Wait until `seqno` is durable."""
        self._database.finish(seqno)

    def close(self) -> None:
        """Let the engine forget the moment; more calls do nothing."""
        self._pinned.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<dynalsm.Snapshot {self.path!r} at {self.seqno}>"


def _run(snapshot: Snapshot, operation: str, request: dict[str, Any], form: Any = None) -> Any:
    if operation not in READS:
        snapshot.writes.refuse()
    return dispatch(snapshot, operation, request, form)


class _Engine:
    """As much of an engine as reads ask for; its snapshots are the one that there is."""

    def __init__(self, engine: Engine, pinned: EngineSnapshot) -> None:
        self._engine = engine
        self._pinned = pinned
        self.last_seqno = self.seqno = pinned.seqno

    @property
    def durable_seqno(self) -> int:
        return self._engine.durable_seqno

    def snapshot(self) -> _Engine:
        return self

    def close(self) -> None:
        """Keep the snapshot: its owner closes it."""

    def __enter__(self) -> _Engine:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


class _NoWrites:
    """Where an operation that writes meets its refusal."""

    throttle = None
    is_watched = False
    insights = Uncounted()

    def __init__(self, path: str, seqno: int) -> None:
        self._path = path
        self._seqno = seqno

    def seqno_near(self, key: bytes) -> int:
        return self._seqno

    def refuse(self) -> NoReturn:
        raise errors.ReadOnlyError("a snapshot can only be read", path=self._path)

    def __getattr__(self, name: str) -> NoReturn:
        self.refuse()


class _Catalog:
    """The tables of a moment, with trees that show it."""

    pending: Mapping[str, Any] = MappingProxyType({})  # no table is being made here
    deleting: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, handles: list[Any], catalog: Any, pinned: EngineSnapshot) -> None:
        self._catalog = catalog
        self._handles = {handle.name: _at(handle, pinned) for handle in handles}

    def get(self, name: str) -> TableHandle | None:
        """Return a table that there was and still is."""
        handle = self._handles.get(name)
        present = None if handle is None else self._catalog.get(name)
        if handle is None or present is None or present.schema.id != handle.schema.id:
            return None
        return handle

    def names(self) -> list[str]:
        """Return the names of all such tables, in order."""
        return [name for name in sorted(self._handles) if self.get(name) is not None]


class _Tree:
    """A tree as it was at a snapshot."""

    __slots__ = ("_pinned", "_tree")

    def __init__(self, tree: Any, pinned: EngineSnapshot) -> None:
        self._tree = tree
        self._pinned = pinned

    def get(self, key: bytes, snapshot: Any = None) -> bytes | None:
        found: bytes | None = self._tree.get(key, self._pinned)
        return found

    def multi_get(self, keys: Any, snapshot: Any = None) -> list[bytes | None]:
        found: list[bytes | None] = self._tree.multi_get(keys, self._pinned)
        return found

    def cursor(self, *bounds: Any, snapshot: Any = None, **options: Any) -> Iterator[Any]:
        cursor: Iterator[Any] = self._tree.cursor(*bounds, snapshot=self._pinned, **options)
        return cursor


def _at(handle: TableHandle, pinned: EngineSnapshot) -> TableHandle:
    """Return a handle on the same table whose trees show the snapshot."""
    indexes = {
        name: IndexHandle(
            index.schema, _Tree(index.tree, pinned), index.keys, index.statistics, index.vectors
        )
        for name, index in handle.indexes.items()
    }
    return TableHandle(
        handle.schema,
        handle.arn,
        _Tree(handle.tree, pinned),
        handle.keys,
        indexes,
        None,
        None,
        handle.statistics,
    )
