# Flush and compaction: from the decision to the installed version.
#
# Runs on background threads, or on the caller's when asked to flush or compact. The long part
# (run_job) is without the GIL; decisions, manifest edits and installs are plain Python under
# engine.admin. Order of every change: write and sync the tables -> manifest edit, synced ->
# install the versions -> only then unlink files and logs.
#
# Invariants: (1) a file is in at most one running job (is_busy, guarded by engine.admin);
#             (2) generations are flushed oldest first, each by one edit over all partitions;
#             (3) versions are installed under engine.admin: who holds it sees whole commits.

from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

import os
import time
from collections import deque

from dynalsm import errors
from dynalsm._core import files, picker
from dynalsm._core.names import log_numbers

from dynalsm._core.coding cimport slice_compare, slice_of
from dynalsm._core.commit cimport (
    MAX_LOGS,
    EngineCore,
    core_poison,
    core_reserve,
    snapshot_list,
)
from dynalsm._core.compaction cimport Job, job_free, job_remove_files, run_job, table_path
from dynalsm._core.durability cimport core_sync, take_old_logs, wait_durable
from dynalsm._core.engine cimport Engine, Tree
from dynalsm._core.memtable cimport (
    Memtable,
    RangeDelete,
    RangeList,
    memtable_source,
    memtable_unref,
    range_list_add,
    range_list_free,
)
from dynalsm._core.merge cimport merge_source
from dynalsm._core.partition cimport Partition
from dynalsm._core.source cimport Source
from dynalsm._core.sstable_reader cimport Table, table_key_id, table_obsolete, table_open
from dynalsm._core.sstable_writer cimport TableInfo
from dynalsm._core.status cimport (
    CORRUPTION,
    IO_ERROR,
    NO_MEMORY,
    NO_SPACE,
    OK,
    Failure,
    fail,
    failure_clear,
    raise_failure,
)
from dynalsm._core.sync cimport (
    atomic_add,
    atomic_load,
    atomic_store,
    pthread_cond_broadcast,
    pthread_mutex_lock,
    pthread_mutex_unlock,
    this_thread,
    wait_for,
)
from dynalsm._core.version cimport (
    LEVELS,
    FileMeta,
    Version,
    file_create,
    file_unref,
    level_source,
    version_edit,
    version_empty,
    version_ref,
    version_unref,
)
from dynalsm._core.wal cimport Wal, wal_close

# A partition whose compaction failed is left alone for so long.
AVOID_SECONDS = 30.0
# stats() tells of so many flushes, compactions and splits, the newest ones.
HISTORY_JOBS = 256

cdef enum:
    MAX_REMOVED = 4096       # files one edit of a partition can remove


# --------------------------------------------------------------------------------- installing

cdef class Change:
    """What one job does to one partition (jobs.pxd)."""

    def __dealloc__(self):
        cdef int index
        for index in range(self.added_count):
            file_unref(self.added[index])
        free(self.added)
        free(self.removed)
        range_list_free(&self.ranges)


cdef list info_record(const FileMeta* meta, const Partition* partition):
    """A file as the manifest keeps it (docs/format.md, "Manifest edits")."""
    cdef const TableInfo* info = &meta.info
    return [
        partition.tree_id, partition.id, meta.level, info.file_id, info.file_bytes,
        info.unique_id, info.entries, info.deletions, info.min_seqno, info.max_seqno,
        info.raw_bytes, (<const char*>info.smallest)[:info.smallest_size],
        (<const char*>info.largest)[:info.largest_size], meta.ranges_applied,
    ]


cdef list range_records(const RangeList* ranges):
    cdef unsigned int index
    cdef const RangeDelete* item
    records = []
    for index in range(ranges.count):
        item = &ranges.items[index]
        records.append([
            (<const char*>item.lower)[:item.lower_size],
            (<const char*>item.upper)[:item.upper_size] if item.upper != NULL else None,
            item.seqno,
        ])
    return records


cdef dict edit_of(Engine engine, list changes):
    """The manifest edit that says what the changes do."""
    cdef Change change
    cdef int index
    added = []
    removed = []
    ranges = []
    for change in changes:
        for index in range(change.added_count):
            added.append(info_record(change.added[index], change.partition))
        for index in range(change.removed_count):
            removed.append([
                change.partition.tree_id, change.partition.id,
                change.removed[index].info.file_id,
            ])
        if change.has_ranges:
            ranges.append([
                change.partition.tree_id, change.partition.id, range_records(&change.ranges),
            ])
    edit = {"next": atomic_load(&engine.core.next_file)}
    if added:
        edit["add"] = added
    if removed:
        edit["drop"] = removed
    if ranges:
        edit["ranges"] = ranges
    return edit


cdef int discard(Engine engine, Change change) except -1:
    """The change did not come about: its files go, unless the manifest may name them."""
    cdef int index
    if engine.manifest.is_poisoned:
        engine.manifest.doubtful.append(change)
        return 0
    for index in range(change.added_count):
        table_obsolete(change.added[index].table)
    return 0


def forget_doubtful(Engine engine not None):
    """A new manifest has been begun: nothing names the files of failed changes. REQUIRES: admin."""
    cdef Change change
    changes, engine.manifest.doubtful = engine.manifest.doubtful, []
    for change in changes:
        discard(engine, change)


cdef int install(Change change) except -1:
    """Swap the partition's version. REQUIRES: engine.admin; the edit is durable."""
    cdef Partition* partition = change.partition
    cdef Version* fresh
    cdef Version* old
    cdef Memtable* flushed = NULL
    cdef int index
    fresh = version_edit(
        partition.version, change.added, change.added_count, change.removed, change.removed_count
    )
    if fresh == NULL:
        raise MemoryError()
    if change.has_ranges:
        range_list_free(&fresh.ranges)
        fresh.ranges = change.ranges
        memset(&change.ranges, 0, sizeof(RangeList))
    for index in range(change.removed_count):
        table_obsolete(change.removed[index].table)
    with nogil:
        pthread_mutex_lock(&partition.mutex)
        old = partition.version
        partition.version = fresh
        if change.flushed != NULL and partition.sealed_count:
            flushed = partition.sealed[0]
            partition.sealed_count -= 1
            for index in range(partition.sealed_count):
                partition.sealed[index] = partition.sealed[index + 1]
        pthread_mutex_unlock(&partition.mutex)
        version_unref(old)
        memtable_unref(flushed)
    return 0


cdef int install_all(Engine engine, list changes) except -1:
    """Install what an edit has made durable; takes the changes out of the list.

    REQUIRES: engine.admin."""
    cdef Failure failure
    cdef Change change
    try:
        while changes:
            change = changes.pop()
            install(change)
    except BaseException as error:       # the manifest is ahead of the versions: no way to go on
        changes.clear()
        failure_of(error, &failure)
        core_poison(engine.core, &failure)
        raise
    return 0


cdef int adopt_outputs(Engine engine, Job* job, Change change) except -1:
    """Open the written tables and put them into the change; takes over the outputs' keys."""
    cdef char path[1200]
    cdef Failure failure
    cdef Table* table
    cdef FileMeta* meta
    cdef int index
    change.added = <FileMeta**>malloc((job.count + 1) * sizeof(FileMeta*))
    if change.added == NULL:
        raise MemoryError()
    for index in range(job.count):
        failure_clear(&failure)
        table_path(
            engine.core, job.tree_id, job.partition_id, job.outputs[index].file_id, path,
            sizeof(path)
        )
        with nogil:
            table = table_open(
                path, job.outputs[index].file_id, job.outputs[index].file_bytes,
                job.outputs[index].unique_id, engine.core.cache, engine.core.keyring, &failure
            )
        if table == NULL:
            raise_failure(&failure)
        meta = file_create(table, &job.outputs[index], job.level)
        if meta == NULL:
            raise MemoryError()
        job.outputs[index].smallest = NULL       # owned by meta now
        job.outputs[index].largest = NULL
        meta.ranges_applied = applied_ranges(job)
        change.added[change.added_count] = meta
        change.added_count += 1
    return 0


cdef int keep_outputs(Engine engine, Job* job, Change change) except -1:
    """Adopt what the job has written and make its names last; remove it when that fails."""
    try:
        adopt_outputs(engine, job, change)
        if change.added_count:
            sync_directory(engine, change.partition)
    except BaseException:
        job_remove_files(job)
        raise
    return 0


cdef uint64_t applied_ranges(const Job* job) noexcept nogil:
    """The newest deleted range whose work the job has done for good: no snapshot is older."""
    cdef uint64_t newest = 0
    cdef unsigned int index
    if job.ranges != NULL:
        for index in range(job.ranges.count):
            if job.ranges.items[index].seqno <= job.snapshots[0]:
                newest = max(newest, job.ranges.items[index].seqno)
    return newest


cdef int prepare_job(Engine engine, Job* job, Partition* partition, int level) except -1:
    memset(job, 0, sizeof(Job))
    job.core = engine.core
    job.tree_id = partition.tree_id
    job.partition_id = partition.id
    job.level = level
    job.options = engine.top_options if level == 0 else engine.deep_options
    job.target_bytes = engine.target_file_bytes
    job.cut = partition.cut
    job.stop = &engine.stop
    job.snapshot_count = snapshot_list(engine.core, <uint64_t**>&job.snapshots)
    if job.snapshot_count < 0:
        raise MemoryError()
    name_tree(engine, job)
    make_directory(engine, partition)
    return 0


cdef int name_tree(Engine engine, Job* job) except -1:
    """Let the job's tables say what their tree is called: repair may have nothing else."""
    cdef bytes name
    record = engine.state.trees.get(job.tree_id)
    if record is None:
        return 0
    name = record[1].encode()
    job.tree_name = <char*>malloc(len(name) + 1)
    if job.tree_name == NULL:
        raise MemoryError()
    memcpy(job.tree_name, <const char*>name, len(name))
    job.tree_name_size = len(name)
    job.tree_hashed = record[2]
    return 0


cdef int make_directory(Engine engine, Partition* partition) except -1:
    directory = os.path.join(
        engine.path, "data", f"{partition.tree_id:06d}", f"{partition.id:06d}"
    )
    if not os.path.isdir(directory):
        files.make_directory(os.path.dirname(directory))
        files.make_directory(directory)
    return 0


cdef int sync_directory(Engine engine, Partition* partition) except -1:
    files.sync_directory(os.path.join(
        engine.path, "data", f"{partition.tree_id:06d}", f"{partition.id:06d}"
    ))
    return 0


# ------------------------------------------------------------------------------------------ flush

cdef Change flush_partition(Engine engine, Partition* partition):
    """Write the oldest sealed memtable of the partition to level 0."""
    cdef Change change = Change.__new__(Change)
    cdef Memtable* table = partition.sealed[0]       # stays: only a flush removes it
    cdef Job job
    cdef Source source
    cdef Failure failure
    cdef int status = OK
    failure_clear(&failure)
    change.partition = partition
    change.flushed = table
    if table.entries:
        prepare_job(engine, &job, partition, 0)
        job.target_bytes = <uint64_t>-1              # one file: level 0 is ordered by seqno
        job.ranges = &table.ranges
        try:
            with nogil:
                status = memtable_source(table, &source)
                if status:
                    fail(&failure, NO_MEMORY, "no memory for a flush", NULL, -1, 0)
                else:
                    status = run_job(&job, &source, &failure)
                    source.ops.close(&source)
            if status:
                raise_failure(&failure)
            keep_outputs(engine, &job, change)
            atomic_add(&engine.core.counters.flush_bytes, job.bytes_written)
        finally:
            free(<void*>job.snapshots)
            job_free(&job)
    return change


cdef int settle_ranges(Engine engine, Change change) except -1:
    """The partition's deleted ranges after the change. REQUIRES: engine.admin."""
    cdef const RangeList* held = &change.partition.version.ranges
    if held.count or (change.flushed != NULL and change.flushed.ranges.count):
        change.has_ranges = True
        copy_ranges(&change.ranges, held)
        if change.flushed != NULL:
            copy_ranges(&change.ranges, &change.flushed.ranges)
        drop_useless(engine, change)
    return 0


cdef int copy_ranges(RangeList* target, const RangeList* source) except -1:
    cdef unsigned int index
    cdef RangeDelete* item
    for index in range(source.count):
        item = &source.items[index]
        if range_list_add(
            target, slice_of(item.lower, item.lower_size),
            slice_of(item.upper, item.upper_size), item.seqno
        ):
            raise MemoryError()
    return 0


cdef bint file_under(const FileMeta* meta, const RangeDelete* item) noexcept nogil:
    """Whether every key of the file lies in the range and every version is older."""
    return (
        meta.info.max_seqno < item.seqno
        and slice_compare(
            slice_of(meta.info.smallest, meta.info.smallest_size),
            slice_of(item.lower, item.lower_size)
        ) >= 0
        and (
            item.upper == NULL
            or slice_compare(
                slice_of(meta.info.largest, meta.info.largest_size),
                slice_of(item.upper, item.upper_size)
            ) < 0
        )
    )


cdef bint file_touches(const FileMeta* meta, const RangeDelete* item) noexcept nogil:
    """Whether some version in the file may lie under the range."""
    return (
        meta.info.min_seqno < item.seqno
        and meta.ranges_applied < item.seqno
        and slice_compare(
            slice_of(meta.info.largest, meta.info.largest_size),
            slice_of(item.lower, item.lower_size)
        ) >= 0
        and (
            item.upper == NULL
            or slice_compare(
                slice_of(meta.info.smallest, meta.info.smallest_size),
                slice_of(item.upper, item.upper_size)
            ) < 0
        )
    )


cdef int drop_useless(Engine engine, Change change) except -1:
    """Whole files under a deleted range go at once; ranges that cover nothing any more go too.

    REQUIRES: engine.admin; change.ranges holds the partition's ranges."""
    cdef uint64_t* snapshots = NULL
    cdef long long count = snapshot_list(engine.core, &snapshots)
    cdef Version* version = change.partition.version
    cdef RangeList kept
    cdef RangeDelete* item
    cdef FileMeta* meta
    cdef unsigned int index
    cdef int level, place, other
    cdef bint needed, gone
    if count < 0:
        raise MemoryError()
    memset(&kept, 0, sizeof(RangeList))
    if change.removed == NULL:
        change.removed = <FileMeta**>malloc(MAX_REMOVED * sizeof(FileMeta*))
        if change.removed == NULL:
            free(snapshots)
            raise MemoryError()
    for index in range(change.ranges.count):
        item = &change.ranges.items[index]
        needed = False
        for level in range(LEVELS):
            for place in range(version.counts[level]):
                meta = version.files[level][place]
                gone = False
                for other in range(change.removed_count):
                    gone = gone or change.removed[other] == meta
                if gone or not file_touches(meta, item):
                    continue
                # A snapshot between the file's newest version and the range may need the file.
                if (
                    file_under(meta, item) and not meta.is_busy
                    and change.removed_count < MAX_REMOVED
                    and (count == 1 or snapshots[0] >= item.seqno)
                ):
                    change.removed[change.removed_count] = meta
                    change.removed_count += 1
                else:
                    needed = True
        for place in range(change.added_count):
            needed = needed or file_touches(change.added[place], item)
        needed = needed or (count > 1 and snapshots[0] < item.seqno)
        if needed and range_list_add(
            &kept, slice_of(item.lower, item.lower_size),
            slice_of(item.upper, item.upper_size), item.seqno
        ):
            free(snapshots)
            raise MemoryError()
    free(snapshots)
    range_list_free(&change.ranges)
    change.ranges = kept
    return 0


cdef list sealed_partitions(Engine engine, uint64_t log_number):
    """Addresses of the partitions whose oldest sealed memtable belongs to that generation."""
    cdef uint64_t tree
    cdef int index
    cdef Partition* partition
    found = []
    for tree in range(engine.core.tree_capacity):
        if engine.core.trees[tree] == NULL:
            continue
        for index in range(engine.core.trees[tree].parts.count):
            partition = engine.core.trees[tree].parts.items[index]
            if partition.sealed_count and partition.sealed[0].generation <= log_number:
                found.append(<size_t>partition)
    return found


def flush_oldest(Engine engine not None):
    """Flush the oldest sealed generation. Returns: whether there was one.

    On a failure nothing is lost: the generation stays, and the failure is raised."""
    cdef Failure failure
    cdef uint64_t log_number, last_seqno
    started = time.monotonic()
    with engine.flush_lock:
        if engine.core.generation_count == 0:
            return False
        written_bytes = engine.core.counters.flush_bytes
        if atomic_load(&engine.core.ingest_thread) == this_thread():
            raise errors.StorageError(
                "the input of an ingest may not ask for a flush", path=engine.path
            )
        log_number = engine.core.generations[0].log_number
        last_seqno = engine.core.generations[0].last_seqno
        failure_clear(&failure)
        with nogil:                      # the log first: tables must never be ahead of it
            wait_durable(engine.core, last_seqno, &failure)
        raise_failure(&failure)
        changes = []
        try:
            flush_generation(engine, log_number, last_seqno, changes)
        except BaseException as error:
            abandon(engine, changes, error)
            raise
        finish_generation(engine, log_number)
        written_bytes = engine.core.counters.flush_bytes - written_bytes
    atomic_add(&engine.core.counters.flushes, 1)
    note_job(engine, "flush", started, written_bytes=written_bytes)
    return True


def note_job(Engine engine not None, kind, started, *, tree="", **more):
    """Remember work that is done, for stats(). started: time.monotonic() at its beginning.

    Appending to a deque is atomic, so no lock is needed."""
    jobs = engine.events.setdefault("history", deque(maxlen=HISTORY_JOBS))
    seconds = time.monotonic() - started
    jobs.append({"kind": kind, "at": time.time(), "seconds": seconds, "tree": tree, **more})


cdef int flush_generation(
    Engine engine, uint64_t log_number, uint64_t last_seqno, list changes
) except -1:
    """Write the tables of a generation, then install them by one edit. `changes`: those to come."""
    cdef Change change
    cdef Partition* partition
    cdef Failure failure
    cdef uint64_t begun = engine.core.wal.number
    failure_clear(&failure)
    with nogil:                          # a log that is lost from here on will be missed
        core_sync(engine.core, &failure)
    raise_failure(&failure)
    addresses = sealed_partitions(engine, log_number)
    for address in addresses:
        partition = <Partition*><size_t>address
        if not partition.is_dropped:
            try:
                changes.append(flush_partition(engine, partition))
            except errors.StorageIOError:
                if not partition.is_dropped:
                    raise                # else its directory went under our hands
    with engine.admin:
        for change in list(changes):
            if change.partition.is_dropped:
                changes.remove(change)
                discard(engine, change)
            else:
                settle_ranges(engine, change)
        edit = edit_of(engine, changes)
        edit["log"] = log_number + 1
        edit["begun"] = begun
        edit["flushed"] = last_seqno
        engine.append_edit(edit)
        engine.flushed_seqno = last_seqno
        install_all(engine, changes)
        for address in addresses:
            discard_dropped(<Partition*><size_t>address, log_number)
    return 0


cdef int abandon(Engine engine, list changes, object error) except -1:
    """A job has failed: give up its files, and refuse writes when the failure is final."""
    cdef Change change
    with engine.admin:
        for change in changes:
            discard(engine, change)
    poison_after(engine, error)
    return 0


cdef int discard_dropped(Partition* partition, uint64_t log_number) except -1:
    """A dropped tree's memtables of the generation go without being written."""
    cdef Memtable* table
    cdef int index
    if not partition.is_dropped:
        return 0
    with nogil:
        pthread_mutex_lock(&partition.mutex)
        while partition.sealed_count and partition.sealed[0].generation <= log_number:
            table = partition.sealed[0]
            partition.sealed_count -= 1
            for index in range(partition.sealed_count):
                partition.sealed[index] = partition.sealed[index + 1]
            memtable_unref(table)
        pthread_mutex_unlock(&partition.mutex)
    return 0


cdef int finish_generation(Engine engine, uint64_t log_number) except -1:
    """The generation is on disk: make room for writers, remove its logs."""
    cdef EngineCore* core = engine.core
    cdef Wal* gone[MAX_LOGS]
    cdef int count, index
    with nogil:
        pthread_mutex_lock(&core.work_mutex)
        core.generation_count -= 1
        for index in range(core.generation_count):
            core.generations[index] = core.generations[index + 1]
        core.is_flush_failing = False
        core.work_ticket += 1
        pthread_cond_broadcast(&core.work_done)
        pthread_cond_broadcast(&core.work_wanted)
        pthread_mutex_unlock(&core.work_mutex)
        core_reserve(core)
        count = take_old_logs(core, log_number, <void**>gone)
    for index in range(count):
        wal_close(gone[index])
    remove_logs(engine, log_number)
    return 0


def remove_logs(Engine engine not None, uint64_t log_number):
    """Unlink the logs up to that number; a failure only leaves them for the next open."""
    directory = os.path.join(engine.path, "wal")
    try:
        for number in log_numbers(directory):
            if number <= log_number:
                files.remove_file(os.path.join(directory, f"{number:012d}.wal"))
    except errors.StorageIOError:
        return


def flush_all(Engine engine not None):
    """Flush every sealed generation there is now; what is sealed meanwhile is not waited for."""
    cdef EngineCore* core = engine.core
    cdef uint64_t last = 0
    cdef bint is_due = True
    with nogil:
        pthread_mutex_lock(&core.work_mutex)
        if core.generation_count:
            last = core.generations[core.generation_count - 1].log_number
        pthread_mutex_unlock(&core.work_mutex)
    while is_due:
        with nogil:
            pthread_mutex_lock(&core.work_mutex)
            is_due = core.generation_count > 0 and core.generations[0].log_number <= last
            pthread_mutex_unlock(&core.work_mutex)
        if is_due:
            flush_oldest(engine)


def poison_after(Engine engine not None, error):
    """Refuse all writes from now on if a change was refused for good (errors.StorageIOError)."""
    cdef Failure failure
    if getattr(error, "is_final", False):
        failure_of(error, &failure)
        core_poison(engine.core, &failure)


cdef int failure_of(object error, Failure* failure) except -1:
    """An exception as the core's threads see it."""
    cdef bytes path = os.fsencode(getattr(error, "path", None) or "")
    cdef int errnum = getattr(error, "errno", None) or 0
    # raise_failure() says the place and the system's words again.
    text = getattr(error, "message", str(error)).removesuffix(f": {os.strerror(errnum)}")
    cdef bytes message = text.encode("utf-8", "replace")
    cdef int status = NO_SPACE if isinstance(error, errors.NoSpaceError) else IO_ERROR
    if isinstance(error, errors.CorruptionError):
        status = CORRUPTION
    elif isinstance(error, MemoryError):
        status = NO_MEMORY
    fail(failure, status, message, path, -1, errnum)
    return 0


def note_flush_failure(Engine engine not None, error):
    """Tell stalled writers why no room is made; cleared by the next flush that works."""
    cdef EngineCore* core = engine.core
    cdef Failure failure
    failure_of(error, &failure)
    pthread_mutex_lock(&core.work_mutex)
    core.flush_failure = failure
    core.is_flush_failing = True
    pthread_cond_broadcast(&core.work_done)
    pthread_mutex_unlock(&core.work_mutex)


# ------------------------------------------------------------------------------------- compaction

cdef object shape_of(Partition* partition, uint64_t oldest):
    """The partition's files as the picker sees them. REQUIRES: engine.admin.

    `oldest` is the oldest held snapshot: garbage that it may still see does not count, since a
    compaction would only write it again."""
    cdef Version* version = partition.version
    cdef int level, index
    cdef FileMeta* meta
    levels = []
    for level in range(LEVELS):
        row = []
        for index in range(version.counts[level]):
            meta = version.files[level][index]
            row.append(picker.File(
                meta.info.file_id, meta.info.file_bytes,
                (<const char*>meta.info.smallest)[:meta.info.smallest_size],
                (<const char*>meta.info.largest)[:meta.info.largest_size],
                meta.info.entries, meta.info.deletions if meta.info.max_seqno <= oldest else 0,
                bool(meta.is_busy), is_under_range(version, meta, oldest),
            ))
        levels.append(row)
    return picker.Shape(levels)


cdef bint is_under_range(
    const Version* version, const FileMeta* meta, uint64_t oldest
) noexcept nogil:
    cdef const RangeDelete* item
    cdef unsigned int index
    for index in range(version.ranges.count):
        item = &version.ranges.items[index]
        if item.seqno <= oldest and file_touches(meta, item):
            return True
    return False


cdef uint64_t oldest_snapshot(Engine engine) except? 0:
    cdef uint64_t* snapshots = NULL
    cdef uint64_t oldest
    if snapshot_list(engine.core, &snapshots) < 0:
        raise MemoryError()
    oldest = snapshots[0]
    free(snapshots)
    return oldest


cdef FileMeta* find_file(Version* version, uint64_t file_id) noexcept nogil:
    cdef int level, index
    for level in range(LEVELS):
        for index in range(version.counts[level]):
            if version.files[level][index].info.file_id == file_id:
                return version.files[level][index]
    return NULL


def compact_once(Engine engine not None, dict avoided=None):
    """Run the most urgent compaction of all trees. Returns: whether there was one.

    avoided: partition id -> not before this time (time.monotonic()); a failure adds to it, so that
    one damaged file does not keep the others from being merged."""
    cdef Tree tree
    cdef int index
    cdef Partition* partition
    cdef uint64_t oldest = oldest_snapshot(engine)
    best = None
    best_score = 1.0
    now = time.monotonic()
    with engine.admin:
        for tree in list(engine.trees.values()):
            for index in range(tree.core.parts.count):
                partition = tree.core.parts.items[index]
                if avoided and avoided.get(partition.id, 0.0) > now:
                    continue
                if partition.version.counts[0] == 0 and is_settled(partition):
                    continue
                plan = picker.pick(shape_of(partition, oldest), engine.picker_options)
                if plan is not None and plan.score >= best_score:
                    best_score = plan.score
                    best = (plan, <size_t>partition)
        if best is None:
            return False
        plan, address = best
        partition = <Partition*><size_t>address
        mark(partition, plan, True)
    try:
        run_plan(engine, address, plan)
    except errors.StorageError:
        if avoided is not None:
            avoided[partition.id] = time.monotonic() + AVOID_SECONDS
        raise
    return True


def pending_bytes(Engine engine not None):
    """Bytes that compactions are due to rewrite, over all trees."""
    cdef Tree tree
    cdef int index
    cdef Partition* partition
    cdef uint64_t oldest = oldest_snapshot(engine)
    due = 0
    with engine.admin:
        for tree in engine.trees.values():
            for index in range(tree.core.parts.count):
                partition = tree.core.parts.items[index]
                if partition.version.counts[0] or not is_settled(partition):
                    due += picker.pending_bytes(shape_of(partition, oldest), engine.picker_options)
    return due


cdef bint is_settled(const Partition* partition) noexcept nogil:
    """Nothing but a small last level without garbage: no need to ask the picker."""
    cdef int level
    if partition.version.ranges.count:
        return False
    for level in range(LEVELS - 1):
        if partition.version.counts[level]:
            return False
    return True


cdef int mark(Partition* partition, object plan, bint busy) except -1:
    """REQUIRES: engine.admin."""
    cdef FileMeta* meta
    for file_id in plan.inputs:
        meta = find_file(partition.version, file_id)
        if meta != NULL:
            meta.is_busy = busy
    return 0


def run_plan(Engine engine not None, address, plan):
    """Merge plan.inputs into plan.output_level. The inputs are marked busy."""
    cdef Partition* partition = <Partition*><size_t>address
    cdef Change change = Change.__new__(Change)
    change.partition = partition
    changes = [change]
    started = time.monotonic()
    try:
        merge_files(engine, change, plan)
        done = sums_of(change) | {"tree": tree_name(engine, partition.tree_id)}
        done["partition"] = partition.id
        with engine.admin:
            if partition.is_dropped:
                discard(engine, change)
                return
            settle_ranges(engine, change)
            engine.append_edit(edit_of(engine, changes))
            install_all(engine, changes)
    except BaseException as error:
        with engine.admin:
            mark(partition, plan, False)
            if partition.is_dropped and isinstance(error, errors.StorageIOError):
                discard(engine, change)
                return                   # its directory went under our hands
        abandon(engine, changes, error)
        raise
    atomic_add(&engine.core.counters.compactions, 1)
    note_job(
        engine, "compaction", started, reason=plan.reason, output_level=plan.output_level, **done
    )


cdef dict sums_of(Change change):
    """What a change takes away and adds; to be asked before the install."""
    cdef int index
    cdef uint64_t read_bytes = 0, written_bytes = 0
    for index in range(change.removed_count):
        read_bytes += change.removed[index].info.file_bytes
    for index in range(change.added_count):
        written_bytes += change.added[index].info.file_bytes
    return {
        "inputs": change.removed_count, "read_bytes": read_bytes,
        "outputs": change.added_count, "written_bytes": written_bytes,
    }


def tree_name(Engine engine not None, uint64_t tree_id):
    """The name of a tree; "" when it is gone."""
    cdef Tree tree
    for tree in list(engine.trees.values()):
        if tree.core.id == tree_id:
            return tree.name
    return ""


cdef int merge_files(Engine engine, Change change, object plan) except -1:
    """Write the merge of the plan's inputs (no install)."""
    cdef Partition* partition = change.partition
    cdef Version* version
    cdef Job job
    cdef Source* sources = NULL
    cdef Source merged
    cdef Failure failure
    cdef FileMeta* meta
    cdef FileMeta** run = NULL
    cdef int count = 0
    cdef int status = OK
    cdef int level, index, run_count
    cdef uint64_t read_bytes = 0
    wanted = set(plan.inputs)
    failure_clear(&failure)
    memset(&job, 0, sizeof(Job))
    with engine.admin:
        version = partition.version
        version_ref(version)
    try:
        prepare_job(engine, &job, partition, plan.output_level)
        job.is_bottom = plan.is_bottom
        if plan.output_level == 0:
            job.target_bytes = <uint64_t>-1
        job.ranges = &version.ranges
        job.bytes_per_second = engine.compaction_bytes_per_second
        sources = <Source*>malloc((len(wanted) + 1) * sizeof(Source))
        run = <FileMeta**>malloc((len(wanted) + 1) * sizeof(FileMeta*))
        change.removed = <FileMeta**>malloc((len(wanted) + MAX_REMOVED) * sizeof(FileMeta*))
        if sources == NULL or run == NULL or change.removed == NULL:
            raise MemoryError()
        for level in range(LEVELS):
            run_count = 0
            for index in range(version.counts[level]):
                meta = version.files[level][index]
                if meta.info.file_id not in wanted:
                    continue
                change.removed[change.removed_count] = meta
                change.removed_count += 1
                read_bytes += meta.info.file_bytes
                run[run_count] = meta
                run_count += 1
                if level == 0:           # its files overlap: one source each
                    status = level_source(run, 1, False, True, &sources[count], &failure)
                    run_count = 0
                    count += status == OK
            if run_count and status == OK:
                status = level_source(run, run_count, False, True, &sources[count], &failure)
                count += status == OK
            if status:
                break
        if status:
            for index in range(count):
                sources[index].ops.close(&sources[index])
        else:
            with nogil:
                status = merge_source(sources, count, &merged, &failure)
                if status == OK:
                    status = run_job(&job, &merged, &failure)
                    merged.ops.close(&merged)
        if status:
            raise_failure(&failure)
        keep_outputs(engine, &job, change)
        atomic_add(&engine.core.counters.compaction_read_bytes, read_bytes)
        atomic_add(&engine.core.counters.compaction_written_bytes, job.bytes_written)
        return 0
    finally:
        free(sources)
        free(run)
        free(<void*>job.snapshots)
        job_free(&job)
        version_unref(version)


def compact_tree(Engine engine not None, Tree tree not None, lower, upper):
    """Merge all files that touch [lower, upper) into the last level, partition by partition."""
    cdef Partition* partition
    cdef int index = 0
    while True:
        with engine.admin:               # a split may change the set between two partitions
            if index >= tree.core.parts.count:
                return
            partition = tree.core.parts.items[index]
            plan = picker.pick_everything(
                shape_of(partition, oldest_snapshot(engine)), lower, upper
            )
            if plan is not None and plan != "busy":
                mark(partition, plan, True)
        if plan == "busy":               # a background job holds some of the files
            time.sleep(0.01)
            continue
        if plan is not None:
            run_plan(engine, <size_t>partition, plan)
        index += 1


def rewrite_old(Engine engine not None):
    """Write every table that is under an older data key again, at its level."""
    while old_tables(engine):
        plan, address = next_old(engine)
        if plan is not None:
            run_plan(engine, address, plan)
        else:
            time.sleep(0.01)             # background jobs hold what is left


def old_tables(Engine engine not None):
    """How many tables are encrypted under an older data key than new ones."""
    cdef Tree tree
    cdef Version* version
    cdef int part, level, index
    cdef uint64_t newest = engine.keys.key_id
    count = 0
    with engine.admin:
        for tree in engine.trees.values():
            for part in range(tree.core.parts.count):
                version = tree.core.parts.items[part].version
                for level in range(LEVELS):
                    for index in range(version.counts[level]):
                        count += table_key_id(version.files[level][index].table) != newest
    return count


cdef tuple next_old(Engine engine):
    """A plan that writes one such table again, and its partition; (None, 0): none is free."""
    cdef Tree tree
    cdef Partition* partition
    cdef FileMeta* meta
    cdef int part, level, index
    cdef uint64_t newest = engine.keys.key_id
    with engine.admin:
        for tree in engine.trees.values():
            for part in range(tree.core.parts.count):
                partition = tree.core.parts.items[part]
                for level in range(LEVELS):
                    for index in range(partition.version.counts[level]):
                        meta = partition.version.files[level][index]
                        if meta.is_busy or table_key_id(meta.table) == newest:
                            continue
                        plan = picker.Plan(
                            [meta.info.file_id], level, False, 1.0, "under an old data key"
                        )
                        mark(partition, plan, True)
                        return plan, <size_t>partition
    return None, 0


# -------------------------------------------------------------------------------- waiting for work

def wait_for_flush(Engine engine not None, double seconds):
    """Sleep until a generation is sealed, the engine stops, or the time is over."""
    cdef EngineCore* core = engine.core
    cdef uint64_t limit = <uint64_t>(seconds * 1e9)
    with nogil:
        pthread_mutex_lock(&core.work_mutex)
        if core.generation_count == 0 and not core.is_stopping:
            wait_for(&core.work_wanted, &core.work_mutex, limit)
        pthread_mutex_unlock(&core.work_mutex)


def wait_for_ticket(Engine engine not None, uint64_t ticket, double seconds):
    """Sleep until the shape of something changed since `ticket`. Returns: the new ticket."""
    cdef EngineCore* core = engine.core
    cdef uint64_t limit = <uint64_t>(seconds * 1e9)
    with nogil:
        pthread_mutex_lock(&core.work_mutex)
        if core.work_ticket == ticket and not core.is_stopping:
            wait_for(&core.work_wanted, &core.work_mutex, limit)
        ticket = core.work_ticket
        pthread_mutex_unlock(&core.work_mutex)
    return ticket


def wake(Engine engine not None):
    """Have every waiting thread look again."""
    pthread_mutex_lock(&engine.core.work_mutex)
    engine.core.work_ticket += 1
    pthread_cond_broadcast(&engine.core.work_wanted)
    pthread_cond_broadcast(&engine.core.work_done)
    pthread_mutex_unlock(&engine.core.work_mutex)


def set_pace(Engine engine not None, uint64_t nanoseconds_per_kib):
    """What writers are asked to sleep per KiB of log."""
    atomic_store(&engine.core.slowdown_ns_per_kib, nanoseconds_per_kib)


def sync_now(Engine engine not None):
    """Make everything committed durable (durability="interval")."""
    cdef Failure failure
    failure_clear(&failure)
    with nogil:
        wait_durable(engine.core, atomic_load(&engine.core.visible_seqno), &failure)
    raise_failure(&failure)


def top_level_files(Engine engine not None):
    """The largest number of level-0 files in a partition (the read and write debt)."""
    cdef Tree tree
    cdef int index
    cdef int most = 0
    for tree in list(engine.trees.values()):
        for index in range(tree.core.parts.count):
            if tree.core.parts.items[index].version.counts[0] > most:
                most = tree.core.parts.items[index].version.counts[0]
    return most


# -------------------------------------------------------------------------------- dropping a tree

def drop_files(Engine engine not None, Tree tree not None):
    """A dropped tree's files go when the last cursor over them does. REQUIRES: engine.admin."""
    cdef int index
    for index in range(tree.core.parts.count):
        empty_partition(tree.core.parts.items[index], True)
    for index in range(tree.core.parts.count):
        directory = os.path.join(
            engine.path, "data", f"{tree.core.id:06d}",
            f"{tree.core.parts.items[index].id:06d}"
        )
        remove_empty(directory)
    remove_empty(os.path.join(engine.path, "data", f"{tree.core.id:06d}"))


def empty_tree(Tree tree not None):
    """Release memtables and tables (close): files stay."""
    cdef int index
    for index in range(tree.core.parts.count):
        empty_partition(tree.core.parts.items[index], False)


cdef int empty_partition(Partition* partition, bint obsolete) except -1:
    cdef Version* fresh = version_empty()
    cdef Version* old
    cdef Memtable* active
    cdef Memtable* sealed[64]
    cdef int level, index
    cdef int count = 0
    if fresh == NULL:
        raise MemoryError()
    with nogil:
        pthread_mutex_lock(&partition.mutex)
        old = partition.version
        partition.version = fresh
        active = partition.active
        # A flush under way may still need a dropped tree's memtables.
        if not obsolete:
            partition.active = NULL
            count = partition.sealed_count
            for index in range(count):
                sealed[index] = partition.sealed[index]
            partition.sealed_count = 0
        pthread_mutex_unlock(&partition.mutex)
        if obsolete:
            for level in range(LEVELS):
                for index in range(old.counts[level]):
                    table_obsolete(old.files[level][index].table)
        else:
            memtable_unref(active)
            for index in range(count):
                memtable_unref(sealed[index])
        version_unref(old)
    return 0


def empty_partition_at(address):
    """Release what a split partition still holds (its tables are marked obsolete)."""
    empty_partition(<Partition*><size_t>address, False)


def remove_empty(directory):
    try:
        files.remove_directory(directory)
    except errors.StorageIOError:
        pass                             # files that cursors still read: swept at the next open
