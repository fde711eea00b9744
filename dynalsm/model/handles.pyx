"""Handles: a table or an index that is open, with its schema, trees, keys and counters.

The catalog makes them. A handle never changes, apart from its `expiry_mark`; a change of the table
publishes a new one (Catalog.replace). Hence thread-safe.
"""

from cython cimport final
from libc.stdint cimport uint64_t

from dynalsm.model.keys cimport IndexKeys, TableKeys
from dynalsm.model.statistics cimport Statistics
from dynalsm.model.vector_source cimport VectorSource

from dynalsm.limits import ITEM_MAX_BYTES
from dynalsm.model.schema import ACTIVE, CREATING
from dynalsm.model.ttl import Mark


@final
cdef class IndexHandle:
    """An open index: schema, tree, keys, statistics."""

    def __init__(
        self, schema, tree, IndexKeys keys not None, Statistics statistics not None,
        VectorSource vectors=None, space=None
    ):
        self.schema = schema
        self.name = schema.name
        self.kind = schema.kind
        self.tree = tree
        self.keys = keys
        self.statistics = statistics
        self.is_readable = schema.status == ACTIVE
        self.is_local = self.kind == "LSI"
        self.vectors = vectors
        self.space = space


@final
cdef class TableHandle:
    """An open table with its indexes, its changelog and its index of expiry times.

    `written_indexes` are those that a write maintains: all but the ones that are being deleted.
    """

    def __init__(
        self, schema, str arn not None, tree, TableKeys keys not None, dict indexes not None,
        changelog, expiry, Statistics statistics not None, uint64_t item_limit_bytes=ITEM_MAX_BYTES
    ):
        self.schema = schema
        self.name = schema.name
        self.arn = arn
        self.tree = tree
        self.keys = keys
        self.indexes = indexes
        self.written_indexes = tuple(
            [index for index in indexes.values() if index.schema.status in (ACTIVE, CREATING)]
        )
        self.changelog = changelog
        self.expiry = expiry
        self.expiry_mark = Mark()
        self.statistics = statistics
        self.plans = {}
        self.has_vectors = any([index.vectors is not None for index in indexes.values()])
        self.item_limit_bytes = item_limit_bytes
        self.has_local_indexes = any([index.kind == "LSI" for index in indexes.values()])


cdef class OpenTables:
    """The open tables by name: what of a catalog every request needs."""

    def get(self, str name not None):
        """Return the open table called `name`, or None."""
        return self._tables.get(name)

    def is_current(self, TableHandle handle not None):
        """Return whether `handle` is still the newest of its table."""
        return self._tables.get(handle.name) is handle
