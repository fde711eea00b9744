# Sorted input straight into tables, past the log and the memtables.
#
# The input gets one sequence number, taken first; then everything older in memory is flushed, so
# that only newer writes can lie above the new tables. They go to the last level where nothing lies
# in their key range, else to level 0, and appear all at once by one manifest edit. A snapshot taken
# while the ingest runs may see the new entries appear; one taken before never does.
# A crash leaves tables that nobody lists: the next open sweeps them.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from dynalsm import errors
from dynalsm._core import jobs

from dynalsm._core.coding cimport Slice, put_varint, slice_compare, slice_of
from dynalsm._core.commit cimport commit_locked, core_poison, rotate_locked
from dynalsm._core.compaction cimport Job, job_free, job_remove_files, open_output
from dynalsm._core.engine cimport Engine, Tree
from dynalsm._core.jobs cimport (
    Change,
    abandon,
    adopt_outputs,
    edit_of,
    install_all,
    prepare_job,
    sync_directory,
)
from dynalsm._core.partition cimport MAX_SEALED, Partition, tree_route
from dynalsm._core.source cimport KIND_DELETE, KIND_PUT
from dynalsm._core.sstable_writer cimport (
    TableInfo,
    TableWriter,
    table_writer_abandon,
    table_writer_add,
    table_writer_bytes,
    table_writer_finish,
)
from dynalsm._core.status cimport OK, WRITE_FAILED, Failure, failure_clear, raise_failure
from dynalsm._core.sync cimport (
    atomic_store,
    pthread_mutex_lock,
    pthread_mutex_unlock,
    this_thread,
)
from dynalsm._core.version cimport LEVELS, Version

cdef enum:
    LAST_LEVEL = LEVELS - 1


cdef class PartLoad:
    """The tables being written for one partition."""
    cdef Engine engine
    cdef Job job
    cdef Partition* partition
    cdef TableWriter* writer
    cdef bint is_adopted

    def __dealloc__(self):
        if self.writer != NULL:
            table_writer_abandon(self.writer)
        if not self.is_adopted:
            job_remove_files(&self.job)
        free(<void*>self.job.snapshots)
        job_free(&self.job)

    cdef int add(self, Slice key, uint64_t tag, Slice value) except -1:
        cdef Failure failure
        failure_clear(&failure)
        if self.writer != NULL and table_writer_bytes(self.writer) >= self.job.target_bytes:
            self.finish_table()
        if self.writer == NULL:
            self.writer = open_output(&self.job, &failure)
            if self.writer == NULL:
                raise_failure(&failure)
        if table_writer_add(self.writer, key, tag, value, &failure):
            raise_failure(&failure)
        return 0

    cdef int finish_table(self) except -1:
        cdef Failure failure
        cdef TableWriter* writer = self.writer
        cdef TableInfo* grown
        cdef int index, status
        if writer == NULL:
            return 0
        self.writer = NULL
        failure_clear(&failure)
        if self.job.count == self.job.capacity:
            grown = <TableInfo*>malloc((self.job.capacity * 2 + 8) * sizeof(TableInfo))
            if grown == NULL:
                table_writer_abandon(writer)
                raise MemoryError()
            for index in range(self.job.count):
                grown[index] = self.job.outputs[index]
            free(self.job.outputs)
            self.job.outputs = grown
            self.job.capacity = self.job.capacity * 2 + 8
        memset(&self.job.outputs[self.job.count], 0, sizeof(TableInfo))
        with nogil:
            status = table_writer_finish(writer, &self.job.outputs[self.job.count], &failure)
        if status:
            raise_failure(&failure)
        self.job.bytes_written += self.job.outputs[self.job.count].file_bytes
        self.job.count += 1
        return 0


cdef PartLoad open_load(Engine engine, Partition* partition):
    cdef PartLoad load = PartLoad.__new__(PartLoad)
    load.engine = engine
    load.partition = partition
    prepare_job(engine, &load.job, partition, LAST_LEVEL)
    return load


cdef uint64_t take_seqno(Engine engine) except 0:
    """A commit of nothing (an entry of tree 0, which never exists), and a new log behind it.

    In one: so that no table holds versions from both sides of it."""
    cdef uint8_t payload[8]
    cdef uint8_t* end
    cdef uint64_t seqno = 0
    cdef Failure failure
    cdef int status
    if engine.core.generation_count >= MAX_SEALED // 2:
        jobs.flush_all(engine)
    payload[0] = KIND_DELETE
    end = put_varint(put_varint(payload + 1, 0), 0)
    failure_clear(&failure)
    with nogil:
        pthread_mutex_lock(&engine.core.commit_mutex)
        status = commit_locked(engine.core, payload, end - payload, 1, NULL, 0, &seqno, &failure)
        if status == OK:
            status = rotate_locked(engine.core, &failure)
        if status == WRITE_FAILED:
            core_poison(engine.core, &failure)
        pthread_mutex_unlock(&engine.core.commit_mutex)
    raise_failure(&failure)
    return seqno


def ingest(Engine engine not None, Tree tree not None, entries):
    """Load (key, value) pairs in strictly ascending key order. Durable on return.

    Nothing is flushed meanwhile, so writers wait once the write buffers are full; `entries` itself
    may write (NoSpaceError after 15 buffers) but not flush.
    Returns: the number of entries. Raises ValueError when the order is broken (nothing is loaded
    then), StorageLimitError, StorageError; ReadOnlyError."""
    cdef uint64_t seqno
    cdef uint64_t count = 0
    cdef Partition* partition = NULL
    cdef PartLoad load = None
    cdef Slice wanted
    cdef bytes key
    cdef bytes value
    cdef bytes last = None
    loads = []
    # No split and no flush meanwhile: what is written is newer, and stays above the new tables.
    engine.flush_lock.acquire()
    try:
        seqno = take_seqno(engine)
        engine.flush()
        atomic_store(&engine.core.ingest_thread, this_thread())
        for key, value in entries:
            if last is not None and key <= last:
                raise ValueError(f"key {key!r} does not follow {last!r}: sort the input")
            last = key
            if len(key) > 1 << 20 or len(value) > 1 << 30:
                raise errors.StorageLimitError("a key or value beyond the limits")
            wanted = slice_of(PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))
            if partition == NULL or tree_route(tree.core, wanted) != partition:
                if load is not None:
                    load.finish_table()
                partition = tree_route(tree.core, wanted)
                load = open_load(engine, partition)
                loads.append(load)
            load.add(
                wanted, seqno << 8 | KIND_PUT,
                slice_of(PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
            )
            count += 1
        if load is not None:
            load.finish_table()
            adopt(engine, tree, loads, seqno)
    finally:
        atomic_store(&engine.core.ingest_thread, 0)
        engine.flush_lock.release()
    return count


cdef int adopt(Engine engine, Tree tree, list loads, uint64_t seqno) except -1:
    """One edit, then the installs."""
    cdef PartLoad load
    cdef Change change
    cdef int index
    changes = []
    for load in loads:
        sync_directory(engine, load.partition)
    engine.wait_seqno(engine.last_seqno)         # never ahead of the log
    with engine.admin:
        tree.check_alive()
        for load in loads:
            change = Change.__new__(Change)
            change.partition = load.partition
            adopt_outputs(engine, &load.job, change)
            load.is_adopted = True
            for index in range(change.added_count):
                if overlaps(load.partition.version, &change.added[index].info):
                    change.added[index].level = 0
            changes.append(change)
        try:
            edit = edit_of(engine, changes)
            # All before the entries' commit was flushed, and it is nothing: a copy without the logs
            # must not end before it, or would not see what was loaded.
            edit["flushed"] = seqno
            engine.append_edit(edit)
            install_all(engine, changes)
        except BaseException as error:
            abandon(engine, changes, error)
            raise
    return 0


cdef bint overlaps(const Version* version, const TableInfo* info) noexcept nogil:
    cdef Slice smallest = slice_of(info.smallest, info.smallest_size)
    cdef Slice largest = slice_of(info.largest, info.largest_size)
    cdef const TableInfo* other
    cdef int level, index
    for level in range(LEVELS):
        for index in range(version.counts[level]):
            other = &version.files[level][index].info
            if (
                slice_compare(slice_of(other.smallest, other.smallest_size), largest) <= 0
                and slice_compare(slice_of(other.largest, other.largest_size), smallest) >= 0
            ):
                return True
    return False
