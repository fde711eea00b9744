# Keyspaces of the byte-key store, prefixed views of them, and snapshots.
#
# Thread safety: everything here may be used by many threads at once.
# Invariants: (1) whatever is made from a database object keeps it alive, so that it is not closed
#                 by the garbage collector while something still reads from it;
#             (2) keys of a PrefixedDB go to the keyspace as prefix + key, and come back without it.

cimport cython

from dynalsm.kv import properties
from dynalsm.kv._batch import WriteBatch
from dynalsm.kv._iterator import Iterator, RawIterator, key_range

from dynalsm._core.engine cimport Engine, Tree
from dynalsm._core.source cimport KIND_DELETE, KIND_PUT
from dynalsm.kv._iterator cimport as_bytes, no_membership


cdef list with_default(list values, default):
    cdef Py_ssize_t index
    if default is not None:
        for index in range(len(values)):
            if values[index] is None:
                values[index] = default
    return values


cdef list prepared(keys, bytes prefix):
    """The keys as bytes, with the prefix."""
    cdef list chosen = list(keys)
    cdef Py_ssize_t index
    for index in range(len(chosen)):
        if type(chosen[index]) is not bytes:
            chosen[index] = as_bytes(chosen[index])
        if prefix is not None:
            chosen[index] = prefix + <bytes>chosen[index]
    return chosen


cdef class Keyspace:
    """One ordered map of byte keys to byte values. Made by `DB.keyspace`; DB itself is one.

    Keys and values are bytes; objects with a buffer (bytearray, memoryview) are taken as well.
    `sync`: True waits until the write is on stable storage, False does not, None (the default)
    does as the database's `durability` says."""

    cdef readonly object name
    cdef object database             # the DB of a named keyspace; None in the DB itself
    cdef Engine engine
    cdef Tree tree
    cdef object tree_get
    cdef object __weakref__

    def _attach(self, name, database, Tree tree not None):
        # Once, by whoever makes the object.
        self.name = name
        self.database = database
        self.tree = tree
        self.engine = tree.engine
        self.tree_get = tree.get

    def place(self):
        """Where keys go: the engine's tree, and the prefix they get (None)."""
        return self.tree, None

    # ------------------------------------------------------------------------------ single keys

    def get(self, key not None, default=None, *, verify_checksums=False, bint fill_cache=True):
        """The value of `key`, or `default`. (Checksums are always verified.)"""
        cdef object value
        if type(key) is not bytes:
            key = as_bytes(key)
        self.tree.check_alive()
        value = self.tree_get(key) if fill_cache else self.tree_get(key, None, False)
        return default if value is None else value

    def put(self, key not None, value not None, *, sync=None):
        """Store a value."""
        if type(key) is not bytes:
            key = as_bytes(key)
        if type(value) is not bytes:
            value = as_bytes(value)
        self.tree.write_one(KIND_PUT, <bytes>key, <bytes>value, sync)

    def delete(self, key not None, *, sync=None):
        """Remove a key; no error when there is none."""
        if type(key) is not bytes:
            key = as_bytes(key)
        self.tree.write_one(KIND_DELETE, <bytes>key, b"", sync)

    # --------------------------------------------------------------------------------- many keys

    def multi_get(self, keys, default=None, *, bint fill_cache=True):
        """The values of many keys, in their order, all of one moment; `default` where none is."""
        self.tree.check_alive()
        return with_default(self.tree.multi_get(prepared(keys, None), None, fill_cache), default)

    def write_batch(self, *, bint transaction=False, sync=None):
        """A batch of writes to this and other keyspaces, applied together."""
        return WriteBatch(self, self.tree, None, transaction, sync)

    def delete_range(
        self, start=None, stop=None, *, bint include_start=True, bint include_stop=False,
        prefix=None, sync=None
    ):
        """Remove every key in the range (as `iterator` takes it), whatever their number."""
        batch = WriteBatch(self, self.tree, None, False, sync)
        batch.delete_range(
            start, stop, include_start=include_start, include_stop=include_stop, prefix=prefix
        )
        batch.write()

    def ingest(self, items):
        """Store many (key, value) pairs in ascending key order, straight into files.

        Atomic, and durable on return. Returns: their number. Raises ValueError when a key does not
        follow the one before; then nothing is stored."""
        return self.engine.ingest(self.tree, pairs(items, None))

    def iterator(
        self, *, bint reverse=False, start=None, stop=None, bint include_start=True,
        bint include_stop=False, prefix=None, bint include_key=True, bint include_value=True,
        verify_checksums=False, bint fill_cache=True
    ):
        """Walk the entries from `start` to `stop`, or those that begin with `prefix`, as of now."""
        return Iterator(
            self, self.tree, None, reverse, start, stop, include_start, include_stop, prefix,
            include_key, include_value, fill_cache, None
        )

    def raw_iterator(self, *, verify_checksums=False, bint fill_cache=True):
        """LevelDB's own iterator: stands on entries rather than between them."""
        return RawIterator(self, self.tree, fill_cache, None)

    def snapshot(self):
        """The state of the whole database at this moment. Close it soon: it keeps old versions."""
        return Snapshot(self, None)

    def prefixed_db(self, prefix not None):
        """A view of the keys that begin with `prefix`, without it."""
        return PrefixedDB(self, as_bytes(prefix))

    def __iter__(self):
        return self.iterator()

    def __contains__(self, key):
        no_membership()

    # ------------------------------------------------------------------------------- maintenance

    @property
    def closed(self):
        """Whether the database is closed."""
        return self.engine is None or self.engine.closed

    def stats(self):
        """Entries, bytes and files by level of this keyspace, as a dict."""
        return self.tree.stats()

    def get_property(self, name not None):
        """LevelDB's properties ("leveldb.stats", ...) and b"dynalsm.stats" (JSON), or None."""
        return properties.get_property(self.engine, self.tree, name)

    def compact_range(self, *, start=None, stop=None):
        """Merge the files that hold keys of the range, and drop what is overwritten or deleted."""
        lower, upper = key_range(start, stop, True, False, None, None)
        self.engine.compact(self.tree, lower, upper)

    def approximate_size(self, start not None, stop not None):
        """Roughly the bytes that the keys from `start` up to `stop` take in files."""
        return self.approximate_sizes((start, stop))[0]

    def approximate_sizes(self, *ranges):
        """approximate_size() of each (start, stop)."""
        sizes = []
        for start, stop in ranges:
            lower, upper = as_bytes(start), as_bytes(stop)
            sizes.append(self.tree.approximate_size(lower, upper) if lower < upper else 0)
        return sizes

    def __repr__(self):
        return f"<dynalsm.kv.{type(self).__name__} {self.name!r} at {id(self):#x}>"


def pairs(items, bytes prefix):
    """The items as pairs of bytes, with the prefix, for the engine's ingest."""
    cdef bytes name
    for key, value in items:
        name = <bytes>key if type(key) is bytes else as_bytes(key)
        if prefix is not None:
            name = prefix + name
        yield name, (value if type(value) is bytes else as_bytes(value))


@cython.final
cdef class PrefixedDB:
    """A view of one keyspace's keys that begin with a prefix. Made by `prefixed_db()`."""

    cdef readonly Keyspace db
    cdef readonly bytes prefix
    cdef object __weakref__

    def __init__(self, Keyspace db not None, bytes prefix not None):
        self.db = db
        self.prefix = prefix

    def place(self):
        """Where keys go: the engine's tree, and the prefix they get."""
        return self.db.tree, self.prefix

    def get(self, key not None, default=None, *, verify_checksums=False, bint fill_cache=True):
        """See Keyspace.get."""
        return self.db.get(self.prefix + as_bytes(key), default, fill_cache=fill_cache)

    def put(self, key not None, value not None, *, sync=None):
        """See Keyspace.put."""
        self.db.put(self.prefix + as_bytes(key), value, sync=sync)

    def delete(self, key not None, *, sync=None):
        """See Keyspace.delete."""
        self.db.delete(self.prefix + as_bytes(key), sync=sync)

    def multi_get(self, keys, default=None, *, bint fill_cache=True):
        """See Keyspace.multi_get."""
        return self.db.multi_get(prepared(keys, self.prefix), default, fill_cache=fill_cache)

    def write_batch(self, *, bint transaction=False, sync=None):
        """See Keyspace.write_batch; keys of other keyspaces do not get this prefix."""
        return WriteBatch(self.db, self.db.tree, self.prefix, transaction, sync)

    def delete_range(
        self, start=None, stop=None, *, bint include_start=True, bint include_stop=False,
        prefix=None, sync=None
    ):
        """See Keyspace.delete_range; without bounds, everything under the prefix."""
        batch = WriteBatch(self.db, self.db.tree, self.prefix, False, sync)
        batch.delete_range(
            start, stop, include_start=include_start, include_stop=include_stop, prefix=prefix
        )
        batch.write()

    def ingest(self, items):
        """See Keyspace.ingest."""
        return self.db.engine.ingest(self.db.tree, pairs(items, self.prefix))

    def iterator(
        self, *, bint reverse=False, start=None, stop=None, bint include_start=True,
        bint include_stop=False, prefix=None, bint include_key=True, bint include_value=True,
        verify_checksums=False, bint fill_cache=True
    ):
        """See Keyspace.iterator."""
        return Iterator(
            self.db, self.db.tree, self.prefix, reverse, start, stop, include_start, include_stop,
            prefix, include_key, include_value, fill_cache, None
        )

    def snapshot(self):
        """A snapshot whose reads get the prefix."""
        return Snapshot(self.db, self.prefix)

    def prefixed_db(self, prefix not None):
        """A view of a view: the prefixes are joined."""
        return PrefixedDB(self.db, self.prefix + as_bytes(prefix))

    def __iter__(self):
        return self.iterator()

    def __contains__(self, key):
        no_membership()

    def __repr__(self):
        return f"<dynalsm.kv.PrefixedDB with prefix {self.prefix!r} at {id(self):#x}>"


@cython.final
cdef class Snapshot:
    """The database at one moment. Made by `snapshot()`; usable in a `with` block.

    Reads see the keyspace it was made from; with `keyspace=` another one (or a prefixed database)
    of the same database, at the same moment."""

    cdef Keyspace keyspace
    cdef Tree tree
    cdef bytes prefix
    cdef object state                # the engine's Snapshot
    cdef object __weakref__

    def __init__(self, Keyspace db not None, bytes prefix=None):
        self.keyspace = db
        self.tree = db.tree
        self.prefix = prefix
        self.state = db.engine.snapshot()

    def get(
        self, key not None, default=None, *, verify_checksums=False, bint fill_cache=True,
        keyspace=None
    ):
        """The value of `key` at the moment of the snapshot, or `default`."""
        cdef Tree tree = self.tree
        cdef bytes prefix = self.prefix
        if keyspace is not None:
            tree, prefix = keyspace.place()
        if type(key) is not bytes:
            key = as_bytes(key)
        if prefix is not None:
            key = prefix + <bytes>key
        tree.check_alive()
        value = tree.get(key, self.state, fill_cache)
        return default if value is None else value

    def multi_get(self, keys, default=None, *, bint fill_cache=True, keyspace=None):
        """The values of many keys at the moment of the snapshot, in their order."""
        cdef Tree tree = self.tree
        cdef bytes prefix = self.prefix
        if keyspace is not None:
            tree, prefix = keyspace.place()
        tree.check_alive()
        return with_default(
            tree.multi_get(prepared(keys, prefix), self.state, fill_cache), default
        )

    def iterator(
        self, *, bint reverse=False, start=None, stop=None, bint include_start=True,
        bint include_stop=False, prefix=None, bint include_key=True, bint include_value=True,
        verify_checksums=False, bint fill_cache=True, keyspace=None
    ):
        """Walk the entries as they were at the moment of the snapshot. See Keyspace.iterator."""
        cdef Tree tree = self.tree
        cdef bytes db_prefix = self.prefix
        if keyspace is not None:
            tree, db_prefix = keyspace.place()
        return Iterator(
            self.keyspace, tree, db_prefix, reverse, start, stop, include_start, include_stop,
            prefix, include_key, include_value, fill_cache, self.state
        )

    def raw_iterator(self, *, verify_checksums=False, bint fill_cache=True, keyspace=None):
        """LevelDB's own iterator over the keyspace; as in plyvel, a prefix does not limit it."""
        cdef Tree tree = self.tree
        if keyspace is not None:
            tree = keyspace.place()[0]
        return RawIterator(self.keyspace, tree, fill_cache, self.state)

    def close(self):
        """Let old versions go; reading afterwards raises RuntimeError. Idempotent."""
        self.state.close()

    def release(self):
        """The same as close()."""
        self.state.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
        return False

    def __iter__(self):
        return self.iterator()

    def __contains__(self, key):
        no_membership()
