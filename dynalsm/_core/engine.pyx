# One directory of trees, as Python sees it (see engine.pxd for ownership and locks).

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset, strncpy

import os
import threading

from dynalsm import errors
from dynalsm._core import background, jobs, keyring, picker, recovery
from dynalsm._core.cursor import Cursor

from dynalsm._core.cache cimport (
    CacheStats,
    cache_create,
    cache_free,
    cache_set_capacity,
    cache_stats,
)
from dynalsm._core.coding cimport Slice, put_varint, slice_of
from dynalsm._core.chain cimport Chain, Handle
from dynalsm._core.commit cimport (
    EngineCore,
    Stamp,
    commit,
    core_close_logs,
    core_create,
    core_free,
    rotate_locked,
    snapshot_drop,
    snapshot_take,
)
from dynalsm._core.compress cimport CODEC_NONE, CODEC_ZSTD
from dynalsm._core.debug cimport scribble
from dynalsm._core.durability cimport pass_on, wait_durable, wait_durable_in_chain
from dynalsm._core.hashing cimport hash64
from dynalsm._core.memtable cimport memtable_share_before
from dynalsm._core.partition cimport (
    MAX_SEALED,
    Hit,
    Partition,
    TreeCore,
    View,
    PartitionSet,
    hit_release,
    partition_create,
    partition_free,
    partition_get,
    partition_get_many,
    set_create,
    tree_route,
    view_pin,
    view_release,
)
from dynalsm._core.source cimport KIND_DELETE, KIND_PUT, KIND_RANGE_DELETE
from dynalsm._core.sstable_reader cimport Found, table_set_descriptor_limit
from dynalsm._core.status cimport (
    MOVED,
    NOT_FOUND,
    OK,
    POISONED,
    WOULD_BLOCK,
    Failure,
    failure_clear,
    raise_failure,
)
from dynalsm._core.sync cimport (
    atomic_add,
    atomic_exchange,
    atomic_load,
    atomic_store,
    atomic_sub,
    pthread_cond_broadcast,
    pthread_mutex_lock,
    pthread_mutex_unlock,
    sleep_ns,
)
from dynalsm._core.version cimport LEVELS, version_size_between
from dynalsm._core.wal cimport wal_finish

cdef extern from *:
    """
    #include <pthread.h>
    #include <stdint.h>
    /* Grows in every child of a fork: tells handles of the parent apart without a system call. */
    static uint64_t dynalsm_forks = 0;
    static void dynalsm_in_child(void) { dynalsm_forks++; }
    static int dynalsm_watch_forks(void) { return pthread_atfork(NULL, NULL, dynalsm_in_child); }
    """
    uint64_t process_forks "dynalsm_forks"
    int watch_forks "dynalsm_watch_forks"() nogil

watch_forks()

cdef enum:
    GROUP_KEYS = 64                   # multi_get looks up so many at once
    STACK_PAYLOAD_BYTES = 2048        # a single put up to this size needs no allocation
    ENTRY_OVERHEAD = 1 + 10 + 10 + 10

# Flushes halve what they write at little cost: blocks of 4 KiB, half of them noise, shrink by 49 %
# in 3.9 us at level -1 and in 4.6 us at level 1.
cdef int TOP_COMPRESSION_LEVEL = -1

cdef uint64_t NEWEST = <uint64_t>-1

# Limits of the API (StorageLimitError beyond): docs/format.md, "Limits".
MAX_KEY_BYTES = 1 << 20
MAX_VALUE_BYTES = 1 << 30
MAX_BATCH_BYTES = 1 << 30

# A read-only open beside a writer may lose this many races with files being removed.
OPEN_ATTEMPTS = 50

DEFAULTS = {
    "memory_bytes": 256 << 20,           # write buffers, block cache, indexes and filters
    "write_buffer_bytes": None,          # a fifth of memory_bytes: three are full at most
    "block_bytes": 4096,
    "restart_interval": 16,
    "filter_bits": 10,
    "compression": "zstd",               # "zstd" or "none"
    "compression_level": 1,              # of levels below the first
    "top_compression": "zstd",           # of the first, at the speed of level -1, or "none"
    "target_file_bytes": 32 << 20,
    "hash_partitions": 4,                # a new hashed tree begins with so many ranges
    "partition_limit_bytes": 1 << 30,
    "max_open_files": 256,
    "sync_interval_seconds": 0.1,
    "compaction_bytes_per_second": 0,    # 0: no limit
    "recovery": "strict",                # or "salvage"
    "background": True,                  # False: flush and compaction only when asked (tests)
}


cdef int check_key(size_t size) except -1:
    if size > <size_t>MAX_KEY_BYTES:
        raise errors.StorageLimitError(f"a key of {size} bytes; the limit is {MAX_KEY_BYTES}")
    return 0


cdef int check_value(size_t size) except -1:
    if size > <size_t>MAX_VALUE_BYTES:
        raise errors.StorageLimitError(f"a value of {size} bytes; the limit is {MAX_VALUE_BYTES}")
    return 0


@cython.final
cdef class Engine:
    """One directory of ordered trees of bytes. Thread-safe. Opened by `Engine.open`."""

    def __cinit__(self):
        self.core = core_create()
        if self.core == NULL:
            raise MemoryError()
        self.closing = 1             # until open() is through
        self.forks = process_forks

    def __del__(self):
        # Forgotten without close(): as close() does, but a failure has nobody to reach. What a
        # fork brought into this process belongs to the parent.
        if self.core != NULL and not atomic_load(&self.closing) and self.forks == process_forks:
            try:
                self.close()
            except Exception:
                background.log.exception("a database that was not closed could not be ended")

    def __dealloc__(self):
        cdef TreeCore* tree
        cdef uint64_t index
        if self.core == NULL:
            return
        for index in range(self.core.tree_capacity):
            tree = self.core.trees[index]
            if tree != NULL:
                free_tree(tree)
        for index in range(self.retired_count):
            partition_free(self.retired[index])
        free(self.retired)
        if self.core.cache != NULL:
            cache_free(self.core.cache)
        core_free(self.core)

    # --------------------------------------------------------------------------- open and close

    @staticmethod
    def open(
        path, *, create_if_missing=True, error_if_exists=False, read_only=False,
        durability="commit", encryption_key=None, keys=None, **options
    ):
        """Open the engine in the directory `path`, creating it when it is missing.

        encryption_key: of an encrypted database (keyring.MasterKey); keys: its Keyring, when the
        files belong to a database that is open. Raises LockedError, FormatError, EncryptionError,
        CorruptionError, StorageIOError, ValueError (options).
        """
        master = None if encryption_key is None else keyring.master_key(encryption_key)
        for attempt in range(OPEN_ATTEMPTS):
            try:
                return Engine.open_once(
                    path, create_if_missing, error_if_exists, read_only, durability, master, keys,
                    options,
                )
            except recovery.Overtaken as overtaken:
                if attempt == OPEN_ATTEMPTS - 1:
                    raise overtaken.__cause__ from None

    @staticmethod
    def open_once(
        path, create_if_missing, error_if_exists, read_only, durability, master, keys, options
    ):
        """One attempt of open(); recovery.Overtaken when a writer was faster than this reader."""
        cdef Engine engine = Engine.__new__(Engine)
        engine.prepare(os.fspath(path), read_only, durability, options)
        try:
            recovery.open_engine(engine, create_if_missing, error_if_exists, master, keys)
        except BaseException:
            engine.release()
            raise
        atomic_store(&engine.closing, 0)
        if not read_only:
            engine.workers = background.Workers(engine)
            engine.workers.start()
        return engine

    def prepare(self, path, read_only, durability, options):
        """Check and take over the options (once, by open)."""
        unknown = sorted(set(options) - set(DEFAULTS))
        if unknown:
            raise ValueError(f"unknown option: {', '.join(unknown)}")
        if durability not in ("commit", "interval", "os"):
            raise ValueError(f"durability is 'commit', 'interval' or 'os', not {durability!r}")
        chosen = {**DEFAULTS, **options}
        if chosen["write_buffer_bytes"] is None:
            chosen["write_buffer_bytes"] = max(64 << 10, chosen["memory_bytes"] // 5)
        for name in ("compression", "top_compression"):
            if chosen[name] not in ("zstd", "none"):
                raise ValueError(f"{name} is 'zstd' or 'none', not {chosen[name]!r}")
        if chosen["recovery"] not in ("strict", "salvage"):
            raise ValueError(f"recovery is 'strict' or 'salvage', not {chosen['recovery']!r}")
        self.path = os.path.abspath(os.fsdecode(path))
        encoded = os.fsencode(self.path)
        if len(encoded) > 900:
            raise ValueError(f"the path is longer than 900 bytes: {self.path}")
        strncpy(self.core.directory, encoded, sizeof(self.core.directory) - 1)
        self.options = chosen
        self.durability = durability
        self.read_only = read_only
        self.wait_for_sync = durability == "commit"
        self.flushes_inline = not chosen["background"]
        self.trees = {}
        self.chain = Chain()
        self.admin = threading.RLock()
        self.flush_lock = threading.RLock()
        self.picker_options = picker.Options()
        self.events = {}
        self.next_tree_id = 1
        self.next_partition_id = 1
        self.core.write_buffer_bytes = chosen["write_buffer_bytes"]
        # All of the budget; memtables and resident indexes count against it.
        self.core.cache = cache_create(max(chosen["memory_bytes"], 1 << 20))
        if self.core.cache == NULL:
            raise MemoryError()
        is_compressed = chosen["compression"] == "zstd"
        self.deep_options = table_options(chosen, CODEC_ZSTD if is_compressed else CODEC_NONE)
        is_compressed = is_compressed and chosen["top_compression"] == "zstd"
        self.top_options = table_options(chosen, CODEC_ZSTD if is_compressed else CODEC_NONE)
        self.top_options.compression_level = TOP_COMPRESSION_LEVEL
        self.target_file_bytes = chosen["target_file_bytes"]
        self.partition_limit_bytes = chosen["partition_limit_bytes"]
        self.compaction_bytes_per_second = chosen["compaction_bytes_per_second"]
        table_set_descriptor_limit(chosen["max_open_files"])

    def use_keys(self, keys):
        """Encrypt from here on, unless `keys` is None (once, by open)."""
        self.keys = keys
        self.core.keyring = NULL if keys is None else <void*>keys
        self.top_options.keyring = self.deep_options.keyring = self.core.keyring

    @property
    def closed(self):
        """Whether close() was called."""
        return bool(atomic_load(&self.closing))

    def close(self):
        """Finish calls under way, flush what a fast reopen needs, let go of everything.

        Raises StorageError when something could not be written; everything is let go all the same,
        and the next open finds what is durable."""
        with self.admin:
            # Before `users` is looked at, as a call adds itself before it looks at `closing`.
            if atomic_exchange(&self.closing, 1):
                return
        if self.forks != process_forks:
            return
        atomic_store(&self.stop, 1)
        if self.workers is not None:
            self.workers.stop()
        self.wait_for_users()
        self.chain.close_all()
        try:
            if not self.read_only:
                self.finish_writes()
        finally:
            self.release()

    def wait_for_users(self):
        """Until no call is inside the core. Waiters of stalls and fsyncs leave soon."""
        pthread_mutex_lock(&self.core.work_mutex)
        self.core.is_stopping = True
        pthread_cond_broadcast(&self.core.work_done)
        pthread_cond_broadcast(&self.core.work_wanted)
        pthread_mutex_unlock(&self.core.work_mutex)
        with nogil:
            while atomic_load(&self.users):
                sleep_ns(200000)

    def finish_writes(self):
        """The part of close() that writes."""
        if not atomic_load(&self.core.is_poisoned):
            self.finish_logs()
        elif not self.wait_for_sync and self.last_seqno > self.durable_seqno:
            self.check_writable()        # nobody has been told yet that these may be lost

    def finish_logs(self):
        """End the log cleanly: everything durable, and the reopen told so."""
        cdef Failure failure
        cdef int status
        self.core.is_stopping = False
        atomic_store(&self.stop, 0)
        unflushed = None
        try:
            recovery.flush_before_close(self)
        except (errors.StorageError, MemoryError) as error:
            unflushed = error            # what is not in tables stays in the logs
        failure_clear(&failure)
        with nogil:
            status = wait_durable(self.core, self.core.last_seqno, &failure)
            if status == OK:
                status = wal_finish(self.core.wal, self.core.last_seqno + 1, True, &failure)
        raise_failure(&failure)
        recovery.sync_log_directory(self)
        # A log cut at a record's edge looks like one whose process was killed: tell them apart.
        self.append_edit({"closed": [self.core.wal.number, self.core.wal.size]})
        if unflushed is not None:
            raise unflushed

    def release(self):
        """Give back files, memory and the lock. The core stays for handles that still exist."""
        atomic_store(&self.closing, 1)
        if self.manifest is not None:
            self.manifest.close()
            self.manifest = None
        for tree in self.trees.values():
            release_tree(tree)
        core_close_logs(self.core)
        if self.core.cache != NULL:
            cache_set_capacity(self.core.cache, 0)
        if self.lock is not None:
            self.lock.release()
            self.lock = None

    cdef int enter(self) except -1:
        atomic_add(&self.users, 1)
        if atomic_load(&self.closing) or self.forks != process_forks:
            atomic_sub(&self.users, 1)
            if self.forks != process_forks:
                raise errors.ForkedProcessError(
                    "the database was opened by a parent process; open it again in this one",
                    path=self.path,
                )
            raise errors.ClosedError("the database is closed", path=self.path)
        return 0

    cdef void leave(self) noexcept:
        atomic_sub(&self.users, 1)

    cdef int check_writable(self) except -1:
        cdef Failure failure
        if self.read_only:
            raise errors.ReadOnlyError("the database was opened read-only", path=self.path)
        if atomic_load(&self.core.is_poisoned):
            failure = self.core.poison
            failure.status = POISONED
            raise_failure(&failure)
        return 0

    # ------------------------------------------------------------------------------------ trees

    def create_tree(self, str name not None, *, bint hashed=False, partitions=None):
        """Create a tree; durable on return. A hashed tree is cut into `partitions` ranges of the
        first eight key bytes (the option hash_partitions says how many when None is given).
        Raises StorageError when the name is taken."""
        self.check_writable()
        if partitions is None:
            partitions = self.options["hash_partitions"] if hashed else 1
        if partitions < 1 or partitions > 4096 or (partitions > 1 and not hashed):
            raise ValueError("partitions is 1 to 4096, and 1 for a tree that is not hashed")
        with self.admin:
            self.enter()
            try:
                if name in self.trees:
                    raise errors.StorageError(f"tree {name!r} exists", path=self.path)
                step = (1 << 64) // partitions
                parts = [[self.next_partition_id + i, i * step] for i in range(partitions)]
                record = [self.next_tree_id, name, bool(hashed), parts]
                self.append_edit({"tree": record})
                return self.add_tree(record)
            finally:
                self.leave()

    def add_tree(self, record):
        """Make the Tree of a manifest record."""
        cdef uint64_t tree_id = record[0]
        cdef TreeCore* core = new_tree(tree_id, record[2], record[3])
        cdef Tree tree = Tree.__new__(Tree)
        tree.engine = self
        tree.core = core
        tree.name = record[1]
        with nogil:
            pthread_mutex_lock(&self.core.commit_mutex)
        try:
            put_tree(self.core, core)
        finally:
            pthread_mutex_unlock(&self.core.commit_mutex)
        self.trees[tree.name] = tree
        self.next_tree_id = max(self.next_tree_id, tree_id + 1)
        for part in record[3]:
            self.next_partition_id = max(self.next_partition_id, part[0] + 1)
        return tree

    def append_edit(self, edit):
        """Make a change of trees or files durable, in the manifest and in `state`.

        REQUIRES: admin. A failed append leaves both as they were; the next one begins a new
        manifest with the whole state. After one that failed for good, no write is accepted."""
        try:
            if self.manifest.is_poisoned or self.manifest.should_roll:
                self.roll_manifest()
            self.manifest.append(edit)
        except errors.StorageIOError as error:
            jobs.poison_after(self, error)
            raise
        self.state.apply(edit)

    def roll_manifest(self):
        """Begin a new manifest with the whole state. REQUIRES: admin."""
        self.state.next_file = atomic_load(&self.core.next_file) + 1
        self.manifest.roll(atomic_add(&self.core.next_file, 1) - 1, self.state.base())
        jobs.forget_doubtful(self)

    def drop_tree(self, str name not None):
        """Remove a tree and its files; durable on return. Raises KeyError."""
        self.check_writable()
        with self.admin:
            self.enter()
            try:
                tree = self.trees[name]
                self.append_edit({"untree": tree.tree_id})
                del self.trees[name]
                self.forget_tree(tree)
            finally:
                self.leave()

    def forget_tree(self, Tree tree not None):
        """Take the tree out of the commit's sight and let its files go."""
        cdef int index
        with nogil:
            pthread_mutex_lock(&self.core.commit_mutex)
            tree.core.is_dropped = True
            for index in range(tree.core.parts.count):
                tree.core.parts.items[index].is_dropped = True
            pthread_mutex_unlock(&self.core.commit_mutex)
        jobs.drop_files(self, tree)

    def tree(self, str name not None):
        """The tree of that name. Raises KeyError."""
        return self.trees[name]

    def tree_names(self):
        """Names of all trees, sorted."""
        return sorted(self.trees)

    # ----------------------------------------------------------------------------------- writing

    @property
    def last_seqno(self):
        """The newest visible sequence number."""
        return atomic_load(&self.core.visible_seqno)

    @property
    def durable_seqno(self):
        """Everything up to here is on stable storage."""
        return atomic_load(&self.core.durable_seqno)

    @property
    def mean_sync_seconds(self):
        """What an fsync has taken of late, about."""
        return atomic_load(&self.core.mean_sync_ns) / 1e9

    def batch(self):
        """An empty batch for this engine's trees."""
        cdef Batch batch = Batch.__new__(Batch)
        batch.engine = self
        return batch

    cdef uint64_t write_payload(
        self, uint8_t* payload, size_t size, uint32_t count, const Stamp* stamps,
        size_t stamp_count
    ) except? 0:
        """Commit a payload; the GIL is kept unless there is something to wait for."""
        cdef uint64_t seqno = 0
        cdef Failure failure
        cdef int status
        failure.status = OK
        status = commit(
            self.core, payload, size, count, stamps, stamp_count, False, &seqno, &failure
        )
        if status == WOULD_BLOCK:
            with nogil:
                status = commit(
                    self.core, payload, size, count, stamps, stamp_count, True, &seqno, &failure
                )
        if status:
            raise_failure(&failure)
        if self.core.generation_count and self.flushes_inline:
            jobs.flush_all(self)
        return seqno

    cdef int wait_seqno(self, uint64_t seqno) except -1:
        cdef Failure failure
        cdef int status
        if atomic_load(&self.core.durable_seqno) >= seqno:
            return 0
        failure.status = OK
        with nogil:
            status = wait_durable_in_chain(self.core, seqno, &failure)
        pass_on(self.core)
        if status:
            raise_failure(&failure)
        return 0

    def commit(self, Batch batch not None):
        """Apply the batch atomically; visible on return, not waited for.

        Returns: the batch's last seqno (the newest one when the batch is empty)."""
        cdef uint64_t seqno
        self.check_writable()
        if batch.engine is not self:
            raise ValueError("the batch belongs to another engine")
        if batch.count == 0:
            return self.last_seqno
        self.enter()
        try:
            seqno = self.write_payload(
                batch.payload, batch.size, batch.count, batch.stamps, batch.stamp_count
            )
        finally:
            self.leave()
        return seqno

    def wait_durable(self, uint64_t seqno):
        """Return when everything up to `seqno` is on stable storage; waiters share the fsync."""
        self.enter()
        try:
            self.wait_seqno(seqno)
        finally:
            self.leave()

    def write(self, Batch batch not None, *, sync=None):
        """commit(), then wait as the durability asks (or as `sync` says). Returns: the seqno."""
        cdef uint64_t seqno = self.commit(batch)
        if self.wait_for_sync if sync is None else sync:
            self.wait_durable(seqno)
        return seqno

    def snapshot(self):
        """A view of everything committed so far; hold it no longer than needed."""
        cdef Snapshot snapshot
        self.enter()
        try:
            snapshot = Snapshot.__new__(Snapshot)
            snapshot.seqno = snapshot_take(self.core)
            if snapshot.seqno == NEWEST:
                raise MemoryError()
            snapshot.engine = self
            snapshot.hang_on(self.chain)
            return snapshot
        finally:
            self.leave()

    # ------------------------------------------------------------------------------- maintenance

    def rotate(self):
        """Seal the memtables and start a new log, when there is anything to seal."""
        cdef Failure failure
        if self.core.wal == NULL:
            self.enter()                 # it is closed, and says so
        if self.core.generation_count >= MAX_SEALED // 2:
            jobs.flush_all(self)
        failure_clear(&failure)
        with nogil:
            pthread_mutex_lock(&self.core.commit_mutex)
            if self.core.mutable_bytes:
                rotate_locked(self.core, &failure)
            pthread_mutex_unlock(&self.core.commit_mutex)
        raise_failure(&failure)

    def flush(self):
        """Write everything in memory to tables; on return all that was committed is durable."""
        cdef uint64_t seqno = self.last_seqno
        self.check_writable()
        self.enter()
        try:
            self.rotate()
            jobs.flush_all(self)
            self.wait_seqno(seqno)       # of commits that left nothing in memory
        finally:
            self.leave()

    def compact(self, tree=None, lower=None, upper=None):
        """Merge everything (of the tree, between the keys) down to the last level."""
        self.check_writable()
        self.flush()
        self.enter()
        try:
            for each in [tree] if tree is not None else list(self.trees.values()):
                jobs.compact_tree(self, each, lower, upper)
        finally:
            self.leave()

    def ingest(self, Tree tree not None, entries):
        """Load (key, value) pairs in ascending key order into tables at once, past the log.

        Durable, and visible as a whole, on return. Returns: the number of entries. Raises
        ValueError when a key does not follow the one before; then nothing is loaded."""
        from dynalsm._core import ingest

        self.check_writable()
        if tree.engine is not self:
            raise ValueError("the tree belongs to another engine")
        return ingest.ingest(self, tree, entries)

    def rotate_key(self, encryption_key):
        """Have another master key open the database from now on; durable on return.

        Nothing but KEYS is written again. On failure the old key goes on being the one, unless
        KEYS could not be written back: then either may be. Raises EncryptionError (the database is
        not encrypted), StorageIOError."""
        self.check_keys().rewrap(keyring.master_key(encryption_key))

    def rotate_data_key(self, *, bint resume=False):
        """Encrypt everything anew, under a data key that is made now.

        On return no file of the database is under an older one; writes and reads go on meanwhile.
        resume: make no new key, but go on with what was cut off. Raises as flush() does."""
        keys = self.check_keys()
        if not resume:
            keys.add_key()
        self.flush_generations()
        self.enter()
        try:
            with self.admin:
                self.roll_manifest()
            jobs.rewrite_old(self)
        finally:
            self.leave()
        with self.admin:
            self.roll_manifest()         # the one before, under the old key, goes now

    def flush_generations(self):
        """Flush, and begin a new log even if there was nothing to flush."""
        cdef Failure failure
        self.flush()
        self.enter()
        try:
            failure_clear(&failure)
            with nogil:
                pthread_mutex_lock(&self.core.commit_mutex)
                rotate_locked(self.core, &failure)
                pthread_mutex_unlock(&self.core.commit_mutex)
            raise_failure(&failure)
            jobs.flush_all(self)
        finally:
            self.leave()

    def check_keys(self):
        """The keyring. Raises EncryptionError when there is none, ReadOnlyError, PoisonedError."""
        self.check_writable()
        if self.keys is None:
            raise errors.EncryptionError("the database is not encrypted", path=self.path)
        return self.keys

    def old_key_files(self):
        """How many tables, logs and manifests are under an older data key than new ones get."""
        cdef int index
        cdef uint64_t count, newest
        if self.keys is None:
            return 0
        newest = self.keys.key_id
        count = jobs.old_tables(self)
        with self.admin:
            count += self.manifest is not None and self.manifest.key_id != newest
        pthread_mutex_lock(&self.core.sync_mutex)
        if self.core.wal != NULL:
            count += self.core.wal.cipher.key_id != newest
        for index in range(self.core.old_log_count):
            count += self.core.old_logs[index].cipher.key_id != newest
        pthread_mutex_unlock(&self.core.sync_mutex)
        return count

    def resume(self):
        """Try at once what failed for want of space, rather than at the next attempt.

        Raises what stands in the way still: NoSpaceError, or PoisonedError after a failure that
        only a reopen mends."""
        self.check_writable()
        self.enter()
        try:
            with self.admin:
                if self.manifest.is_poisoned:
                    try:
                        self.roll_manifest()
                    except errors.StorageIOError as error:
                        jobs.poison_after(self, error)
                        raise
            jobs.flush_all(self)
            if self.workers is not None:
                self.workers.retry()
        finally:
            self.leave()

    def checkpoint(self, path):
        """Write a consistent copy (hard links) into the new directory `path`."""
        from dynalsm._core import checkpoint

        self.flush()
        checkpoint.write(self, os.fspath(path))

    def stats(self):
        """What the engine holds and has done, as a dict of numbers (docs/operations.md)."""
        return engine_stats(self)


def engine_stats(Engine engine not None):
    cdef CacheStats cached
    cdef EngineCore* core = engine.core
    cache_stats(core.cache, &cached)
    trees = {name: tree.stats() for name, tree in engine.trees.items()}
    memtables = sum(tree["memtable_bytes"] for tree in trees.values())
    c = core.counters
    return {
        "path": engine.path,
        "last_seqno": engine.last_seqno,
        "durable_seqno": engine.durable_seqno,
        "memory": {
            "budget": engine.options["memory_bytes"],
            "memtables": memtables,
            "block_cache": cached.bytes,
            "indexes_and_filters": cached.pinned_bytes,
        },
        "cache": {
            "hits": cached.hits, "misses": cached.misses, "evictions": cached.evictions,
            "capacity": cached.capacity,
        },
        "writes": {
            "commits": c.commits, "entries": c.entries, "user_bytes": c.user_bytes,
            "syncs": c.syncs, "flushes": c.flushes, "flush_bytes": c.flush_bytes,
        },
        "reads": {"gets": c.gets, "gets_with_file_reads": c.get_blocked},
        "compaction": {
            "runs": c.compactions, "read_bytes": c.compaction_read_bytes,
            "written_bytes": c.compaction_written_bytes,
            "pending_bytes": jobs.pending_bytes(engine),
        },
        # Written to logs and tables for each byte of the user's; since the engine was opened.
        "write_amplification": (
            <double>(c.user_bytes + c.flush_bytes + c.compaction_written_bytes) / c.user_bytes
            if c.user_bytes else 0.0
        ),
        # Sorted runs that a scan merges, and a get may have to ask, in the partition with most.
        "read_amplification": max((tree["sorted_runs"] for tree in trees.values()), default=0),
        # Of tables, for each byte in last levels (which hold each key once).
        "space_amplification": space_amplification(trees),
        "stalls": {
            "count": c.stalls, "seconds": c.stall_ns / 1e9, "slowdown_seconds": c.slowdown_ns / 1e9,
            "sealed_generations": core.generation_count,
            "reason": stall_reason(engine),
        },
        "encryption": {
            "data_keys": 0 if engine.keys is None else engine.keys.count,
            "old_key_files": engine.old_key_files(),
        },
        "disk_bytes": sum(tree["disk_bytes"] for tree in trees.values()),
        "trees": trees,
        "failures": engine_failures(engine),
        # The newest flushes, compactions and splits, oldest first (docs/operations.md).
        "history": list(engine.events.get("history", ())),
    }


cdef double space_amplification(dict trees):
    last = sum(tree["levels"][LEVELS - 1]["bytes"] for tree in trees.values())
    every = sum(tree["disk_bytes"] for tree in trees.values())
    return <double>every / last if last else 1.0


cdef stall_reason(Engine engine):
    """What holds writes back at this moment, or None."""
    if engine.core.generation_count >= engine.core.stall_generations:
        return "full write buffers wait for their flush"
    if atomic_load(&engine.core.slowdown_ns_per_kib):
        return f"compaction is behind: {jobs.top_level_files(engine)} files in a level 0"
    return None


cdef dict engine_failures(Engine engine):
    """What does not work at the moment: name of the work -> why. Empty: all is well."""
    failures = {}
    if engine.workers is not None:
        failures.update((name, str(error)) for name, error in engine.workers.failures.items())
    if atomic_load(&engine.core.is_poisoned):
        try:
            engine.check_writable()
        except errors.StorageError as error:
            failures["writes"] = str(error)
    return failures


# ------------------------------------------------------------------------------------- tree cores

cdef TableOptions table_options(dict chosen, int codec):
    cdef TableOptions options
    options.block_bytes = chosen["block_bytes"]
    options.restart_interval = chosen["restart_interval"]
    options.filter_bits = chosen["filter_bits"]
    options.codec = codec
    options.compression_level = chosen["compression_level"]
    options.keyring = NULL               # once the keys are known
    return options


cdef TreeCore* new_tree(uint64_t tree_id, bint hashed, list parts) except NULL:
    cdef TreeCore* tree = <TreeCore*>calloc(1, sizeof(TreeCore))
    cdef int index
    if tree == NULL:
        raise MemoryError()
    tree.id = tree_id
    tree.is_hashed = hashed
    tree.parts = set_create(len(parts))
    if tree.parts == NULL:
        free(tree)
        raise MemoryError()
    for index in range(len(parts)):
        tree.parts.items[index] = partition_create(tree_id, parts[index][0], parts[index][1])
        if tree.parts.items[index] == NULL:
            free_tree(tree)
            raise MemoryError()
    return tree


cdef void free_tree(TreeCore* tree) noexcept:
    """The newest partitions; those that were split belong to the engine's `retired`."""
    cdef PartitionSet* older
    cdef int index
    for index in range(tree.parts.count):
        if tree.parts.items[index] != NULL:
            partition_free(tree.parts.items[index])
    while tree.parts != NULL:
        older = tree.parts.older
        free(tree.parts)
        tree.parts = older
    free(tree)


cdef int put_tree(EngineCore* core, TreeCore* tree) except -1:
    """REQUIRES: the commit mutex."""
    cdef uint64_t capacity
    cdef TreeCore** grown
    if tree.id >= core.tree_capacity:
        capacity = core.tree_capacity * 2
        if capacity < tree.id + 8:
            capacity = tree.id + 8
        grown = <TreeCore**>realloc(core.trees, capacity * sizeof(TreeCore*))
        if grown == NULL:
            raise MemoryError()
        memset(grown + core.tree_capacity, 0, (capacity - core.tree_capacity) * sizeof(TreeCore*))
        core.trees = grown
        core.tree_capacity = capacity
    core.trees[tree.id] = tree
    return 0


cdef int release_tree(Tree tree) except -1:
    """Drop the memory and the open files of a tree; the empty partitions stay for old handles."""
    jobs.empty_tree(tree)
    return 0


@cython.final
cdef class Tree:
    """One ordered map of byte keys to byte values. Thread-safe. Made by the engine."""

    @property
    def tree_id(self):
        """The number of the tree on disk."""
        return self.core.id

    @property
    def hashed(self):
        """Whether the tree is cut into partitions by its first eight key bytes."""
        return bool(self.core.is_hashed)

    def get(self, bytes key not None, Snapshot snapshot=None, bint fill_cache=True):
        """The value of `key`, or None. The GIL is kept unless a file must be read."""
        return self.find(key, snapshot, fill_cache)

    cdef bytes find(self, bytes key, Snapshot snapshot, bint fill_cache):
        cdef Slice wanted = slice_of(PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))
        cdef uint64_t key_hash = hash64(wanted.data, wanted.size)
        cdef uint64_t seqno = NEWEST
        cdef EngineCore* core = self.engine.core
        cdef Partition* partition
        cdef Failure failure
        cdef Hit hit
        cdef int status
        if snapshot is not None:
            seqno = snapshot.seqno
            snapshot.check(self.engine)
        self.engine.enter()
        try:
            partition = tree_route(self.core, wanted)
            status = partition_get(
                partition, wanted, key_hash, seqno, &core.visible_seqno, False, fill_cache, &hit,
                &failure
            )
            core.counters.gets += 1
            if status == WOULD_BLOCK:
                core.counters.get_blocked += 1
                with nogil:
                    status = partition_get(
                        partition, wanted, key_hash, seqno, &core.visible_seqno, True, fill_cache,
                        &hit, &failure
                    )
            while status == MOVED:       # split just now
                with nogil:
                    status = partition_get(
                        tree_route(self.core, wanted), wanted, key_hash, seqno,
                        &core.visible_seqno, True, fill_cache, &hit, &failure
                    )
            if self.core.is_dropped:     # its entries go at once: this one may be gone, or old
                if status == OK:
                    hit_release(&hit)
                self.check_alive()
            if snapshot is not None and not snapshot.is_open:    # closed by another thread just now
                if status == OK:
                    hit_release(&hit)
                snapshot.check(self.engine)
            if status == OK:
                try:
                    return PyBytes_FromStringAndSize(
                        <const char*>hit.found.value.data, hit.found.value.size
                    )
                finally:
                    hit_release(&hit)
            if status != NOT_FOUND:
                raise_failure(&failure)
            return None
        finally:
            self.engine.leave()

    def multi_get(self, keys, Snapshot snapshot=None, bint fill_cache=True):
        """The values of many keys, in their order; None where there is none. One snapshot."""
        cdef list wanted = list(keys)
        cdef list values = []
        cdef bint own = snapshot is None
        cdef Py_ssize_t start
        if own:
            snapshot = self.engine.snapshot()
        try:
            for start in range(0, len(wanted), GROUP_KEYS):
                self.get_group(wanted[start:start + GROUP_KEYS], values, snapshot, fill_cache)
        finally:
            if own:
                snapshot.close()
        return values

    cdef int get_group(
        self, list wanted, list values, Snapshot snapshot, bint fill_cache
    ) except -1:
        """Up to GROUP_KEYS keys at once: their reads of memory overlap."""
        cdef Slice keys[GROUP_KEYS]
        cdef uint64_t key_hashes[GROUP_KEYS]
        cdef Hit hits[GROUP_KEYS]
        cdef Found found[GROUP_KEYS]
        cdef int statuses[GROUP_KEYS]
        cdef int scratch[GROUP_KEYS]
        cdef Failure failure
        cdef int count = len(wanted)
        cdef int index
        cdef int status = MOVED
        snapshot.check(self.engine)
        for index in range(count):
            if type(wanted[index]) is not bytes:
                raise TypeError(f"a key is bytes, not {type(wanted[index]).__name__}")
            keys[index] = slice_of(
                PyBytes_AS_STRING(wanted[index]), PyBytes_GET_SIZE(wanted[index])
            )
            key_hashes[index] = hash64(keys[index].data, keys[index].size)
        if self.core.parts.count == 1:
            self.engine.enter()
            try:
                failure_clear(&failure)
                status = partition_get_many(
                    self.core.parts.items[0], keys, key_hashes, count, snapshot.seqno, fill_cache,
                    hits, found, statuses, scratch, &failure
                )
                self.engine.core.counters.gets += count
            finally:
                self.engine.leave()
            if status != OK and status != MOVED:
                raise_failure(&failure)
        index = 0
        try:
            while index < count:
                if status == MOVED or statuses[index] == WOULD_BLOCK:
                    values.append(self.get(wanted[index], snapshot, fill_cache))
                elif statuses[index] == OK:
                    values.append(PyBytes_FromStringAndSize(
                        <const char*>hits[index].found.value.data, hits[index].found.value.size
                    ))
                    hit_release(&hits[index])
                else:
                    values.append(None)
                index += 1
        finally:
            while status == OK and index < count:        # an exception: let the rest go
                if statuses[index] == OK:
                    hit_release(&hits[index])
                index += 1
        self.check_alive()
        snapshot.check(self.engine)      # another thread may have closed it meanwhile
        return 0

    def put(self, bytes key not None, bytes value not None, sync=None):
        """Store one entry. Returns: its seqno."""
        return self.write_one(KIND_PUT, key, value, sync)

    def delete(self, bytes key not None, sync=None):
        """Remove one entry; no error when there is none. Returns: the seqno."""
        return self.write_one(KIND_DELETE, key, b"", sync)

    cdef object write_one(self, int kind, bytes key, bytes value, object sync):
        """A commit of one entry, built on the stack when it is small."""
        cdef size_t key_size = PyBytes_GET_SIZE(key)
        cdef size_t value_size = PyBytes_GET_SIZE(value)
        cdef uint8_t small[STACK_PAYLOAD_BYTES + ENTRY_OVERHEAD]
        cdef uint8_t* payload = small
        cdef uint8_t* end
        cdef uint64_t seqno
        cdef Engine engine = self.engine
        if engine.read_only:
            engine.check_writable()
        check_key(key_size)
        check_value(value_size)
        if key_size + value_size > STACK_PAYLOAD_BYTES:
            payload = <uint8_t*>malloc(key_size + value_size + ENTRY_OVERHEAD)
            if payload == NULL:
                raise MemoryError()
        end = put_entry(
            payload, kind, self.core.id, PyBytes_AS_STRING(key), key_size,
            PyBytes_AS_STRING(value), value_size
        )
        try:
            engine.enter()
            try:
                self.check_alive()
                seqno = engine.write_payload(payload, end - payload, 1, NULL, 0)
                if engine.wait_for_sync if sync is None else sync:
                    engine.wait_seqno(seqno)
            finally:
                engine.leave()
        finally:
            if payload != small:
                free(payload)
        return seqno

    cdef int check_alive(self) except -1:
        if self.core.is_dropped:
            raise errors.TreeDroppedError(f"tree {self.name!r} was dropped", path=self.engine.path)
        return 0

    def cursor(
        self, lower=None, upper=None, *, bint reverse=False, Snapshot snapshot=None,
        bint keys=True, bint values=True, bint fill_cache=True
    ):
        """Walk the entries with lower <= key < upper, as they are now or at `snapshot`."""
        return Cursor(self, lower, upper, reverse, snapshot, keys, values, fill_cache)

    def approximate_size(self, bytes lower=None, bytes upper=None):
        """Rough bytes that keys in [lower, upper) take on disk and in memory."""
        cdef Slice low = slice_of(NULL, 0)
        cdef Slice high = slice_of(NULL, 0)
        cdef View view
        cdef PartitionSet* parts = self.core.parts
        cdef uint64_t total = 0
        cdef double share
        cdef int index, table
        if lower is not None:
            low = slice_of(PyBytes_AS_STRING(lower), PyBytes_GET_SIZE(lower))
        if upper is not None:
            high = slice_of(PyBytes_AS_STRING(upper), PyBytes_GET_SIZE(upper))
        self.engine.enter()
        try:
            for index in range(parts.count):
                view_pin(parts.items[index], &view)
                total += version_size_between(view.version, low, high)
                for table in range(view.memtable_count):
                    share = 1.0
                    if upper is not None:
                        share = memtable_share_before(view.memtables[table], high)
                    if lower is not None:
                        share -= memtable_share_before(view.memtables[table], low)
                    if share > 0:
                        total += <uint64_t>(share * view.memtables[table].data_bytes)
                view_release(&view)
        finally:
            self.engine.leave()
        return total

    def partitions(self):
        """Each partition as a dict: bounds, files per level, bytes, memtable bytes."""
        cdef PartitionSet* parts = self.core.parts
        cdef int index
        self.engine.enter()
        try:
            return [
                describe_partition(
                    parts.items[index],
                    parts.items[index + 1].lower if index + 1 < parts.count
                    else 1 << 64,
                )
                for index in range(parts.count)
            ]
        finally:
            self.engine.leave()

    def stats(self):
        """Sums over the partitions: entries, bytes and files by level."""
        parts = self.partitions()
        levels = [
            {
                "files": sum(len(p["levels"][level]) for p in parts),
                "bytes": sum(f["bytes"] for p in parts for f in p["levels"][level]),
            }
            for level in range(LEVELS)
        ]
        return {
            "partitions": len(parts),
            "levels": levels,
            "disk_bytes": sum(level["bytes"] for level in levels),
            "memtable_bytes": sum(p["memtable_bytes"] for p in parts),
            "sorted_runs": max(
                (len(p["levels"][0]) + sum(1 for level in p["levels"][1:] if level) for p in parts),
                default=0,
            ),
            "entries": sum(p["entries"] for p in parts),
            "deletions": sum(p["deletions"] for p in parts),
        }


cdef inline uint8_t* put_entry(
    uint8_t* target, int kind, uint64_t tree_id, const char* key, size_t key_size,
    const char* value, size_t value_size
) noexcept nogil:
    """One entry of a commit record: kind, tree, key and (not for a delete) value."""
    target[0] = <uint8_t>kind
    target = put_varint(target + 1, tree_id)
    target = put_varint(target, key_size)
    memcpy(target, key, key_size)
    target += key_size
    if kind != KIND_DELETE:
        target = put_varint(target, value_size)
        memcpy(target, value, value_size)
        target += value_size
    return target


cdef dict describe_partition(Partition* partition, upper):
    cdef View view
    cdef int level, index
    view_pin(partition, &view)
    try:
        levels = [
            [
                {
                    "file": view.version.files[level][index].info.file_id,
                    "bytes": view.version.files[level][index].info.file_bytes,
                    "entries": view.version.files[level][index].info.entries,
                    "deletions": view.version.files[level][index].info.deletions,
                }
                for index in range(view.version.counts[level])
            ]
            for level in range(LEVELS)
        ]
        memtable_bytes = 0
        memtable_entries = 0
        for index in range(view.memtable_count):
            memtable_bytes += view.memtables[index].size_bytes
            memtable_entries += view.memtables[index].entries
        files = [file for level_files in levels for file in level_files]
        return {
            "id": partition.id,
            "lower": partition.lower,
            "upper": upper,
            "directory": f"data/{partition.tree_id:06d}/{partition.id:06d}",
            "levels": levels,
            "files": [f"{file['file']:012d}.sst" for file in files],
            "bytes": sum(file["bytes"] for file in files),
            "memtable_bytes": memtable_bytes,
            "entries": sum(file["entries"] for file in files) + memtable_entries,
            "deletions": sum(file["deletions"] for file in files),
            "range_deletes": view.version.ranges.count,
        }
    finally:
        view_release(&view)


@cython.final
cdef class Batch:
    """Writes over any trees of one engine, applied together. Not thread-safe."""

    def __dealloc__(self):
        free(self.payload)
        free(self.stamps)

    def __len__(self):
        return self.count

    @property
    def size_bytes(self):
        """Bytes of the log record so far."""
        return self.size

    def clear(self):
        """Forget all entries."""
        scribble(self.payload, self.capacity)
        self.size = 0
        self.count = 0
        self.stamp_count = 0

    cdef uint8_t* grow(self, size_t more) except NULL:
        cdef size_t capacity
        cdef uint8_t* grown
        if self.size + more > <size_t>MAX_BATCH_BYTES:
            raise errors.StorageLimitError(f"a batch of more than {MAX_BATCH_BYTES} bytes")
        if self.size + more > self.capacity:
            capacity = max(self.capacity * 2, self.size + more, 512)
            grown = <uint8_t*>realloc(self.payload, capacity)
            if grown == NULL:
                raise MemoryError()
            self.payload = grown
            self.capacity = capacity
        return self.payload + self.size

    cdef int add(
        self, int kind, Tree tree, const char* key, size_t key_size, const char* value,
        size_t value_size
    ) except -1:
        cdef uint8_t* place
        if tree.engine is not self.engine:
            raise ValueError("the tree belongs to another engine")
        tree.check_alive()
        check_key(key_size)
        check_value(value_size)
        place = self.grow(key_size + value_size + ENTRY_OVERHEAD)
        self.size = put_entry(
            place, kind, tree.core.id, key, key_size, value, value_size
        ) - self.payload
        self.count += 1
        return 0

    def put(self, Tree tree not None, bytes key not None, bytes value not None):
        """Add a put."""
        self.add(
            KIND_PUT, tree, PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key),
            PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value)
        )

    def delete(self, Tree tree not None, bytes key not None):
        """Add a delete."""
        self.add(KIND_DELETE, tree, PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key), NULL, 0)

    def delete_range(self, Tree tree not None, bytes lower, bytes upper):
        """Add the removal of every key with lower <= key < upper (None: no bound)."""
        if upper is not None and (not upper or (lower is not None and lower >= upper)):
            return
        lower = lower or b""
        upper = upper or b""
        self.add(
            KIND_RANGE_DELETE, tree, PyBytes_AS_STRING(lower), PyBytes_GET_SIZE(lower),
            PyBytes_AS_STRING(upper), PyBytes_GET_SIZE(upper)
        )

    def put_stamped(
        self, Tree tree not None, bytes prefix not None, bytes suffix not None,
        bytes value not None
    ):
        """Add a put whose key is prefix + this entry's seqno (8 bytes, big-endian) + suffix."""
        cdef bytes key = prefix + b"\0\0\0\0\0\0\0\0" + suffix
        cdef size_t capacity
        cdef Stamp* grown
        if self.stamp_count == self.stamp_capacity:
            capacity = max(self.stamp_capacity * 2, 4)
            grown = <Stamp*>realloc(self.stamps, capacity * sizeof(Stamp))
            if grown == NULL:
                raise MemoryError()
            self.stamps = grown
            self.stamp_capacity = capacity
        self.put(tree, key, value)
        self.stamps[self.stamp_count].entry = self.count - 1
        self.stamps[self.stamp_count].offset = (
            self.size - len(value) - varint_length(len(value)) - len(suffix) - 8
        )
        self.stamp_count += 1


cdef size_t varint_length(size_t value):
    cdef uint8_t scratch[10]
    return put_varint(scratch, value) - scratch


@cython.final
@cython.no_gc_clear
cdef class Snapshot(Handle):
    """The state at one moment. Holding it keeps old versions on disk: close it soon."""

    def check(self, engine):
        """Raises ClosedError when the snapshot is closed, ValueError for another engine's."""
        if not self.is_open:
            raise errors.ClosedError("the snapshot is closed", path=self.engine.path)
        if self.engine is not engine:
            raise ValueError("the snapshot belongs to another engine")

    def close(self):
        """Let old versions go. Idempotent."""
        if self.take_off():
            snapshot_drop(self.engine.core, self.seqno)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def __dealloc__(self):
        if self.take_off():
            snapshot_drop(self.engine.core, self.seqno)
