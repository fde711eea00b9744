# Write batches of the byte-key store, with plyvel's meaning, over the engine's Batch.
#
# Thread safety: one thread at a time uses a batch; a second one gets RuntimeError.
# Invariants: (1) nothing of a batch is visible before write(), everything after it;
#             (2) a batch may hold writes to any keyspace of one database.

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

from dynalsm.kv._iterator import key_range
from dynalsm.kv.exceptions import ClosedError

from dynalsm._core.engine cimport Batch, Engine, Tree
from dynalsm._core.source cimport KIND_DELETE, KIND_PUT
from dynalsm._core.sync cimport atomic_load, atomic_store, claim
from dynalsm.kv._iterator cimport as_bytes


@cython.final
cdef class WriteBatch:
    """Writes that are applied together. Made by `write_batch()`; usable in a `with` block.

    At the end of the block the batch is written, also after an exception; with transaction=True
    an exception discards it."""

    cdef object owner                # the database: keeps it open
    cdef Engine engine
    cdef Tree tree
    cdef Batch batch
    cdef bytes prefix
    cdef bint transaction
    cdef object sync
    cdef uint64_t user               # atomic: the thread that is in a method; 0: none

    def __init__(self, owner, Tree tree not None, bytes prefix, bint transaction, sync):
        self.owner = owner
        self.tree = tree
        self.engine = tree.engine
        self.prefix = prefix
        self.transaction = transaction
        self.sync = sync
        self.batch = self.engine.batch()
        self.enter()
        self.leave()

    cdef int enter(self) except -1:
        if not claim(&self.user):
            raise RuntimeError("the batch is in use by another thread")
        if atomic_load(&self.engine.closing):
            self.leave()
            raise ClosedError("the database is closed", path=self.engine.path)
        return 0

    cdef void leave(self) noexcept:
        atomic_store(&self.user, 0)

    cdef int add(self, int kind, key, value, keyspace) except -1:
        cdef Tree tree = self.tree
        cdef bytes prefix = self.prefix
        cdef bytes name, data
        if keyspace is not None:
            tree, prefix = keyspace.place()
        name = <bytes>key if type(key) is bytes else as_bytes(key)
        if prefix is not None:
            name = prefix + name
        if kind == KIND_DELETE:
            data = b""
        else:
            data = <bytes>value if type(value) is bytes else as_bytes(value)
        self.enter()
        try:
            return self.batch.add(
                kind, tree, PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name),
                PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data)
            )
        finally:
            self.leave()

    def put(self, key not None, value not None, *, keyspace=None):
        """Add a put, to another keyspace (or prefixed database) of the database if one is named."""
        self.add(KIND_PUT, key, value, keyspace)

    def delete(self, key not None, *, keyspace=None):
        """Add the removal of a key."""
        self.add(KIND_DELETE, key, None, keyspace)

    def delete_range(
        self, start=None, stop=None, *, bint include_start=True, bint include_stop=False,
        prefix=None, keyspace=None
    ):
        """Add the removal of every key in the range (as `iterator` takes it)."""
        cdef Tree tree = self.tree
        cdef bytes db_prefix = self.prefix
        if keyspace is not None:
            tree, db_prefix = keyspace.place()
        lower, upper = key_range(start, stop, include_start, include_stop, prefix, db_prefix)
        self.enter()
        try:
            self.batch.delete_range(tree, lower, upper)
        finally:
            self.leave()

    def clear(self):
        """Forget all writes in the batch."""
        self.enter()
        self.batch.clear()
        self.leave()

    def write(self):
        """Apply the batch. It keeps its writes: writing again applies them again."""
        self.enter()
        try:
            self.engine.write(self.batch, sync=self.sync)
        finally:
            self.leave()

    def append(self, WriteBatch source not None):
        """Add everything another batch of the same database holds."""
        if source.engine is not self.engine:
            raise ValueError("the batches belong to different databases")
        self.enter()
        try:
            if source is not self:
                source.enter()
            try:
                self.take_over(source.batch)
            finally:
                if source is not self:
                    source.leave()
        finally:
            self.leave()

    cdef int take_over(self, Batch source) except -1:
        cdef size_t size = source.size
        if size:
            self.batch.grow(size)
            memcpy(self.batch.payload + self.batch.size, source.payload, size)
            self.batch.size += size
            self.batch.count += source.count
        return 0

    def approximate_size(self):
        """Bytes of the batch."""
        self.enter()
        self.leave()
        return self.batch.size

    def __len__(self):
        return self.batch.count

    def __bool__(self):
        # As in plyvel, where a batch has no length: `batch or db.write_batch()` keeps an empty one.
        return True

    def __enter__(self):
        self.enter()
        self.leave()
        return self

    def __exit__(self, kind, error, traceback):
        if self.transaction and kind is not None:
            self.clear()
            return
        self.enter()
        try:
            self.engine.write(self.batch, sync=self.sync)
            self.batch.clear()
        finally:
            self.leave()
