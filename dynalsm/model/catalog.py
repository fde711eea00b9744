"""The catalog: which tables there are, on disk and open.

Catalog tree (name "catalog"), keys and msgpack values (docs/format-catalog.md has every member):

    "format" 00 "catalog"              FORMAT_VERSION
    "table" 00 <table name>            TableSchema (schema.pack)
    "log" 00 <table id> 00 <label>     ChangelogRecord
    "statistics" 00 <tree name>        [items, bytes] at the last clean close or checkpoint
    "clean" 00 <seqno, 8 bytes>        last entry written by a clean close
    <kind> 00 <name>                   whatever another part of the model keeps (`read`, `write`)

A table's trees are made before its record is written, and dropped after the record is gone; trees
that no record names are dropped at open. So a crash at any moment leaves a table whole or not
there at all.

Readers take a TableHandle with `get` and keep it for one operation; a handle never changes. A
change publishes a new handle and then calls `barrier`, which returns when no write that uses an
older handle is under way. A writer therefore locks its items first and asks `is_current(handle)`
under the locks: when that is False it starts over with `get`.

Thread safety: `get`, `is_current` and `names` take no lock and may be called from any thread.
Changes take `mutex` (reentrant; held across several steps by the control plane).
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgpack

from dynalsm import errors
from dynalsm.model import records
from dynalsm.model import schema as schemas
from dynalsm.model.changelog import Changelog, ChangelogRecord, unpack_record
from dynalsm.model.handles import IndexHandle, OpenTables, TableHandle
from dynalsm.model.schema import IndexSchema, TableSchema
from dynalsm.model.settings import Settings
from dynalsm.model.statistics import Statistics

if TYPE_CHECKING:
    from dynalsm.model.keys import IndexKeys, TableKeys
    from dynalsm.model.vector_source import VectorSource
    from dynalsm.model.vectors import VectorMemory, VectorSpace

__all__ = ["STREAM_POLICY", "Catalog", "IndexHandle", "TableHandle"]

CATALOG_TREE = "catalog"
# Trees that belong to tables and changelogs, and to nothing else.
_OWNED_PREFIXES = ("t/", "s/", "x/")
_TABLE, _LOG, _STATISTICS, _CLEAN = "table", "log", "statistics", "clean"
_FORMAT = "format"
# Records of these kinds are named "<table id>/..." and go with the table.
_TABLE_KINDS = ("backfill", "kinesis", "pitr")
STREAM_POLICY = "stream-policy"  # named by the stream's ARN; goes with its changelog
# Of everything in docs/format-catalog.md; grows when an older reader would be misled.
FORMAT_VERSION = 1


class Catalog(OpenTables):
    """All tables of one database."""

    def __init__(self, engine: Any, settings: Settings) -> None:
        self.engine = engine
        self.settings = settings
        self.mutex = threading.RLock()
        # Set by the writes service: returns when no write holds a lock it took before the call.
        self.barrier: Callable[[], None] = lambda: None
        # Guarded by mutex for changes; replaced, never changed in place, so reads need no lock.
        self._tables = {}
        self._logs: dict[tuple[str, str], ChangelogRecord] = {}
        # The same records by (table name, label), for those that know an ARN.
        self._logs_by_name: dict[tuple[str, str], ChangelogRecord] = {}
        # Guarded by mutex; None until there is a vector index.
        self._vector_memory: VectorMemory | None = None
        # Tables that are being restored or imported (model/new_tables.py), or that are shown as
        # being created for a while. Replaced, as above.
        self.pending: dict[str, TableHandle] = {}
        # Tables that are gone, and shown as being deleted for a while. Replaced, as above.
        self.deleting: dict[str, TableHandle] = {}
        if CATALOG_TREE in engine.tree_names():
            self.tree = engine.tree(CATALOG_TREE)
        else:
            self.tree = engine.create_tree(CATALOG_TREE)
        with records.trusting("the catalog"):
            self._check_format()
            self._load()

    # Reading.

    def names(self) -> list[str]:
        """Return all table names in order."""
        return sorted(self._tables)

    def find_id(self, table_id: str) -> TableHandle | None:
        """Return the open table with this id, or None."""
        for handle in self._tables.values():
            if handle.schema.id == table_id:
                return handle
        return None

    def logs(self) -> list[ChangelogRecord]:
        """Return the records of all changelogs, those of deleted tables too."""
        return list(self._logs.values())

    def log(self, record: ChangelogRecord) -> ChangelogRecord:
        """Return the newest version of a changelog's record."""
        return self._logs[record.table_id, record.label]

    def find_log(self, table: str, label: str) -> ChangelogRecord | None:
        """Return the newest generation of a stream of a table, past ones too."""
        return self._logs_by_name.get((table, label))

    def open_log(self, record: ChangelogRecord) -> Changelog:
        """Return a changelog for reading. Raises: KeyError when it has been trimmed away."""
        return Changelog(record, self.engine.tree(record.tree_name))

    # Changing tables.

    def create(self, schema: TableSchema) -> TableHandle:
        """Make a table durable and open it. Raises: KeyError when the name is taken."""
        with self.mutex:
            if schema.name in self._tables or schema.name in self.pending:
                raise KeyError(schema.name)
            for name, hashed in _tree_names(schema):
                self.engine.create_tree(name, hashed=hashed)
            return self._store(schema)

    def prepare(self, schema: TableSchema) -> TableHandle:
        """Make a table's trees and take its name, but do not show it yet (see create)."""
        with self.mutex:
            if schema.name in self._tables or schema.name in self.pending:
                raise KeyError(schema.name)
            for name, hashed in _tree_names(schema):
                self.engine.create_tree(name, hashed=hashed)
            handle = self._open(schema, None)
            self.pending = {**self.pending, schema.name: handle}
            return handle

    def publish(self, handle: TableHandle, schema: TableSchema) -> TableHandle:
        """Make a prepared table durable and show it; `schema` has the same trees."""
        with self.mutex:
            published = self._store(schema, handle)
            self._end_pending(handle.name)
            return published

    def abandon(self, handle: TableHandle) -> None:
        """Drop a prepared table."""
        with self.mutex:
            self._end_pending(handle.name)
            for name, _ in _tree_names(handle.schema):
                self._forget_tree(name)

    def hide(self, handle: TableHandle) -> None:
        """Show a new table as being created until show(); a new open shows it at once."""
        with self.mutex:
            self.pending = {**self.pending, handle.name: handle}
            self._tables = {
                key: value for key, value in self._tables.items() if value is not handle
            }

    def show(self, handle: TableHandle) -> None:
        """End hide()."""
        with self.mutex:
            self._tables = {**self._tables, handle.name: handle}
            self._end_pending(handle.name)

    def keep_deleted(self, handle: TableHandle) -> None:
        """Show a dropped table as being deleted until forget_deleted()."""
        with self.mutex:
            self.deleting = {**self.deleting, handle.name: handle}

    def forget_deleted(self, handle: TableHandle) -> None:
        """End keep_deleted()."""
        with self.mutex:
            self.deleting = {
                key: value for key, value in self.deleting.items() if value is not handle
            }

    def _end_pending(self, name: str) -> None:
        self.pending = {key: value for key, value in self.pending.items() if key != name}

    def replace(self, schema: TableSchema) -> TableHandle:
        """Make a changed schema durable and publish its handle.

        New indexes get their trees, removed ones lose them. On return no write that used an
        older handle is under way.
        """
        with self.mutex:
            old = self._tables[schema.name]
            kept = {name for name, _ in _tree_names(schema)}
            existing = set(self.engine.tree_names())
            for name, hashed in _tree_names(schema):
                if name not in existing:
                    self.engine.create_tree(name, hashed=hashed)
            handle = self._store(schema, old)
            self.barrier()
            for name, _ in _tree_names(old.schema):
                if name not in kept:
                    self._forget_tree(name)
            return handle

    def drop(self, name: str, last: Callable[[TableHandle], None] | None = None) -> TableHandle:
        """Delete a table and its trees; its stream stays. Returns the last handle.

        `last` is called when nobody writes any more and everything is still there.
        """
        with self.mutex:
            handle = self._tables[name]
            before = self._tables
            self._tables = {key: value for key, value in before.items() if key != name}
            self.barrier()
            batch = self.engine.batch()
            batch.delete(self.tree, record_key(_TABLE, name))
            for kind in _TABLE_KINDS:
                prefix = record_key(kind, handle.schema.id)
                batch.delete_range(self.tree, prefix + b"/", prefix + b"0")
            log = self._logs.get((handle.schema.id, handle.schema.changelog or ""))
            try:
                if last is not None:
                    last(handle)
                self._write_logs(batch, [] if log is None else [self._closed(log)])
            except BaseException:
                self._tables = before
                raise
            for tree_name, _ in _tree_names(handle.schema):
                self._forget_tree(tree_name)
            return handle

    def _store(self, schema: TableSchema, old: TableHandle | None = None) -> TableHandle:
        self.engine.write(self._put_table(schema), sync=True)
        handle = self._open(schema, old)
        self._tables = {**self._tables, schema.name: handle}
        return handle

    def _put_table(self, schema: TableSchema) -> Any:
        batch = self.engine.batch()
        batch.put(self.tree, record_key(_TABLE, schema.name), schemas.pack(schema))
        return batch

    def _forget_tree(self, name: str) -> None:
        self.engine.drop_tree(name)
        self.tree.delete(record_key(_STATISTICS, name))

    # Changing changelogs.

    def create_log(self, record: ChangelogRecord) -> None:
        """Make a changelog durable; `replace` with a schema that names it starts it."""
        with self.mutex:
            self.engine.create_tree(record.tree_name)
            self._write_logs(self.engine.batch(), [record])

    def close_log(self, table_id: str, label: str) -> None:
        """Note that a changelog gets no more records. Call it after `replace`."""
        with self.mutex:
            self._write_logs(self.engine.batch(), [self._closed(self._logs[table_id, label])])

    def update_log(self, record: ChangelogRecord) -> None:
        """Make a changed record durable. An open table goes on with the old one until `replace`."""
        with self.mutex:
            self._write_logs(self.engine.batch(), [record])

    def drop_log(self, record: ChangelogRecord) -> None:
        """Delete a changelog and its records."""
        with self.mutex:
            logs = dict(self._logs)
            del logs[record.table_id, record.label]
            batch = self.engine.batch()
            batch.delete(self.tree, _log_key(record))
            if not any(
                (log.table_id, log.stream) == (record.table_id, record.stream)
                for log in logs.values()
            ):
                arn = f"{self.settings.table_arn(record.table)}/stream/{record.stream}"
                batch.delete(self.tree, record_key(STREAM_POLICY, arn))
            self.engine.write(batch, sync=True)
            self._set_logs(logs)
            self._forget_tree(record.tree_name)

    def _closed(self, log: ChangelogRecord) -> ChangelogRecord:
        return dataclasses.replace(
            log, closed_at=self.settings.clock(), end_seqno=self.engine.last_seqno
        )

    def _write_logs(self, batch: Any, records: list[ChangelogRecord]) -> None:
        """Commit a batch together with changed records, then show them."""
        for record in records:
            batch.put(self.tree, _log_key(record), record.pack())
        self.engine.write(batch, sync=True)
        self._set_logs(
            {**self._logs, **{(record.table_id, record.label): record for record in records}}
        )

    def _set_logs(self, logs: dict[tuple[str, str], ChangelogRecord]) -> None:
        self._logs = logs
        oldest_first = sorted(logs.values(), key=lambda log: log.generation)
        self._logs_by_name = {(log.table, log.stream): log for log in oldest_first}

    # Records of other parts of the model.

    def read(self, kind: str, name: str) -> Any:
        """Return the msgpack value kept under (kind, name), or None."""
        packed = self.tree.get(record_key(kind, name))
        return None if packed is None else records.unpack(packed, f"the {kind} record of {name}")

    def write(self, kind: str, name: str, value: Any) -> None:
        """Keep `value` durably under (kind, name); None deletes."""
        batch = self.engine.batch()
        if value is None:
            batch.delete(self.tree, record_key(kind, name))
        else:
            batch.put(self.tree, record_key(kind, name), msgpack.packb(value))
        self.engine.write(batch, sync=True)

    def records(self, kind: str) -> Iterator[tuple[str, Any]]:
        """Yield (name, value) of everything kept under `kind`, in name order."""
        prefix = record_key(kind, "")
        for key, packed in self.tree.cursor(prefix, prefix[:-1] + b"\x01"):
            with records.trusting(f"a {kind} record"):
                name = key[len(prefix) :].decode()
            yield name, records.unpack(packed, f"the {kind} record of {name}")

    # Opening and closing.

    def _check_format(self) -> None:
        version = self.read(_FORMAT, CATALOG_TREE)
        if version is None and self._owned_trees():
            # The record is older than any table. To go on would be to sweep every table away.
            raise errors.CorruptionError(
                "the catalog has lost its records, but there are tables; nothing was changed",
                path=self.engine.path,
            )
        if version is None and not self.engine.read_only:
            self.write(_FORMAT, CATALOG_TREE, FORMAT_VERSION)
        elif version is not None and version > FORMAT_VERSION:
            raise errors.FormatError(
                f"the catalog has format {version}; this version of dynalsm reads up to "
                f"{FORMAT_VERSION}",
                path=self.engine.path,
            )

    def _owned_trees(self) -> list[str]:
        return [name for name in self.engine.tree_names() if name.startswith(_OWNED_PREFIXES)]

    def _load(self) -> None:
        is_clean = self._take_clean_mark()
        records = [unpack_record(packed) for _, packed in self._packed(_LOG)]
        self._set_logs({(record.table_id, record.label): record for record in records})
        found = [schemas.unpack(packed) for _, packed in self._packed(_TABLE)]
        if not self.engine.read_only:
            self._sweep(found)
            self._end_orphans(found)
        self._tables = {
            schema.name: self._open(schema, None, is_exact=is_clean) for schema in found
        }

    def _packed(self, kind: str) -> Iterator[tuple[bytes, bytes]]:
        prefix = record_key(kind, "")
        return iter(list(self.tree.cursor(prefix, prefix[:-1] + b"\x01")))

    def _take_clean_mark(self) -> bool:
        """Return whether the last thing that happened to the engine was a clean close."""
        marks = [key for key, _ in self._packed(_CLEAN)]
        if not marks:
            return False
        is_clean: bool = int.from_bytes(marks[-1][-8:]) == self.engine.last_seqno
        if not self.engine.read_only:
            batch = self.engine.batch()
            for key in marks:
                batch.delete(self.tree, key)
            self.engine.commit(batch)
        return is_clean

    def _sweep(self, found: list[TableSchema]) -> None:
        """Drop trees that a crash left without a record, and make those that it left out."""
        wanted = dict(pair for schema in found for pair in _tree_names(schema))
        wanted.update((record.tree_name, False) for record in self._logs.values())
        existing = set(self.engine.tree_names())
        for name in existing:
            if name.startswith(_OWNED_PREFIXES) and name not in wanted:
                self.engine.drop_tree(name)
        for name, hashed in wanted.items():
            if name not in existing:
                self.engine.create_tree(name, hashed=hashed)

    def _end_orphans(self, found: list[TableSchema]) -> None:
        """Close changelogs that no table records to: a crash came before close_log did.

        One that has no records was never in use (the crash came before `create` or `replace`).
        """
        used = {(schema.id, schema.changelog) for schema in found}
        for key, log in list(self._logs.items()):
            if log.closed_at is None and key not in used:
                if self.engine.tree(log.tree_name).cursor(values=False).next_chunk(1):
                    self.close_log(*key)
                else:
                    self.drop_log(log)

    def _open(
        self, schema: TableSchema, old: TableHandle | None, *, is_exact: bool = True
    ) -> TableHandle:
        """Return a handle; statistics of trees that `old` has go on."""
        from dynalsm.model.keys import TableKeys

        kinds = schema.attributes
        keys = TableKeys(
            schema.hash_key,
            kinds[schema.hash_key],
            schema.range_key,
            kinds[schema.range_key] if schema.range_key else None,
        )
        indexes = {}
        for index in schema.indexes:
            tree_name = f"t/{schema.id}{index.tree_suffix}"
            known = old.indexes.get(index.name) if old else None
            indexes[index.name] = IndexHandle(
                index,
                self.engine.tree(tree_name),
                _index_keys(index, keys, kinds),
                known.statistics if known else self._statistics(tree_name, is_exact),
                _vector_source(index, kinds),
                self._vector_space(index, known),
            )
        tree_name = f"t/{schema.id}"
        return TableHandle(
            schema,
            self.settings.table_arn(schema.name),
            self.engine.tree(tree_name),
            keys,
            indexes,
            self._open_changelog(schema),
            self.engine.tree(f"x/{schema.id}") if schema.ttl_attribute else None,
            old.statistics if old else self._statistics(tree_name, is_exact),
            self.settings.limit_item_bytes,
        )

    def _vector_space(self, index: IndexSchema, known: IndexHandle | None) -> VectorSpace | None:
        """Return what is in memory of a vector index; it outlives its handles."""
        if index.vector is None:
            return None
        if known is not None and known.is_readable and known.space is not None:
            space: VectorSpace = known.space
            return space
        from dynalsm.model.vectors import VectorMemory, VectorSpace

        if self._vector_memory is None:
            self._vector_memory = VectorMemory(self.settings)
        return VectorSpace(self._vector_memory, index.vector.hash_name is not None)

    def _open_changelog(self, schema: TableSchema) -> Changelog | None:
        if schema.changelog is None:
            return None
        return self.open_log(self._logs[schema.id, schema.changelog])

    def _statistics(self, tree_name: str, is_exact: bool) -> Statistics:
        items, size_bytes = self.read(_STATISTICS, tree_name) or (0, 0)
        if not items and self.engine.read_only:
            # Nothing was stored yet, and nothing will be counted: what the tables say is close.
            parts = self.engine.tree(tree_name).partitions()
            items = sum([max(0, part["entries"] - 2 * part["deletions"]) for part in parts])
            size_bytes = sum([part["bytes"] + part["memtable_bytes"] for part in parts])
        return Statistics(items, size_bytes, is_exact=is_exact)

    def _trees_with_statistics(self) -> Iterator[tuple[Any, Any, Statistics]]:
        for handle in self._tables.values():
            yield handle.tree, handle.keys, handle.statistics
            for index in handle.indexes.values():
                yield index.tree, index.keys, index.statistics

    def begin_recounts(self) -> list[Callable[[], None]]:
        """Start counting what an unclean close left uncounted; call before the first write.

        Returns the work that is left, for a background thread: one call per tree.
        """
        inexact = [part for part in self._trees_with_statistics() if not part[2].is_exact]
        for _, _, statistics in inexact:
            statistics.start_recount(self.engine.last_seqno)
        return [_recount(self.engine.snapshot(), *part) for part in inexact]

    def save_statistics(self, *, is_closing: bool = False) -> None:
        """Keep the counters; with `is_closing` also the mark that they are exact.

        REQUIRES for `is_closing`: no write happens from here until the engine is closed.
        """
        if self.engine.read_only:
            return
        with self.mutex:
            batch = self.engine.batch()
            is_exact = True
            for tree, _, statistics in self._trees_with_statistics():
                is_exact = is_exact and statistics.is_exact
                key = record_key(_STATISTICS, tree.name)
                batch.put(self.tree, key, msgpack.packb(statistics.stored()))
            if is_closing and is_exact:
                batch.put_stamped(self.tree, record_key(_CLEAN, ""), b"", b"")
            if len(batch):
                self.engine.write(batch, sync=is_closing)


def record_key(kind: str, name: str) -> bytes:
    """Return the key of a catalog record."""
    return f"{kind}\0{name}".encode()


def _log_key(record: ChangelogRecord) -> bytes:
    return record_key(_LOG, f"{record.table_id}\0{record.label}")


def _tree_names(schema: TableSchema) -> list[tuple[str, bool]]:
    """Return (name, hashed) of the trees that live and die with the table."""
    names = [(f"t/{schema.id}", True)]
    names += [(f"t/{schema.id}{index.tree_suffix}", True) for index in schema.indexes]
    if schema.ttl_attribute:
        names.append((f"x/{schema.id}", False))
    return names


def _index_keys(index: IndexSchema, keys: TableKeys, kinds: dict[str, str]) -> IndexKeys:
    """Return the codec of an index's entries.

    Those of a vector index are laid out like a global index's on its HASH attribute, or without
    one on the table's partition key (docs/format-items.md, section 3).
    """
    from dynalsm.model.keys import IndexKeys

    if index.vector is not None:
        name = index.vector.hash_name or keys.names[0]
        projection = index.projection
        held = [*projection.attributes, *index.typed_names, index.vector.attribute]
        wanted = ("ALL", []) if projection.kind == "ALL" else ("INCLUDE", held)
        return IndexKeys("GSI", keys, [(name, kinds[name])], [], wanted)
    return IndexKeys(
        index.kind,
        keys,
        [(name, kinds[name]) for name in index.hash_key],
        [(name, kinds[name]) for name in index.range_key],
        (index.projection.kind, list(index.projection.attributes)),
    )


def _vector_source(index: IndexSchema, kinds: dict[str, str]) -> VectorSource | None:
    from dynalsm.model.vector_source import VectorSource

    spec = index.vector
    if spec is None:
        return None
    search_schema = [(name, role, kinds[name]) for name, role in spec.search_schema]
    return VectorSource(spec.attribute, spec.dimensions, search_schema)


def _recount(snapshot: Any, tree: Any, keys: Any, statistics: Statistics) -> Callable[[], None]:
    def work() -> None:
        items = size_bytes = 0
        with snapshot, tree.cursor(snapshot=snapshot, keys=False) as cursor:
            while chunk := cursor.next_chunk(1000, 1 << 20):
                items += len(chunk)
                try:
                    size_bytes += sum(map(keys.stored_size, chunk))
                except errors.CorruptionError as error:
                    raise records.damaged(f"an item of tree {tree.name}", error) from None
        statistics.finish_recount(items, size_bytes)

    return work
