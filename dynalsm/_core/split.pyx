# Splitting a partition that has outgrown its limit, while writes and reads go on.
#
# 1. The partition gets a cut in the middle of its hash range: what flushes and compactions write
#    from now on ends at the cut. 2. Files that straddle the cut are rewritten in place, one by one
#    (most of the data lies in files that do not). 3. Everything in memory is flushed. 4. Each file
#    gets a second name (hard link) in its half's directory; one manifest edit replaces the
#    partition by the halves. 5. Under the commit mutex the rest in memory moves over, and the tree
#    gets a new set of partitions. Cursors that go by an old set keep the old partition's data.
#
# A crash before the edit leaves links that the next open sweeps; after it, the logs' records are
# routed to the halves.
# Thread safety: one split at a time (engine.flush_lock and the background compaction thread).

from libc.stdint cimport uint64_t
from libc.stdlib cimport realloc

import os
import time

from dynalsm._core import files, jobs, picker
from dynalsm._core.state import FILE, PARTITION

from dynalsm._core.coding cimport key_prefix, put_u64_be, slice_of
from dynalsm._core.commit cimport EngineCore, core_poison
from dynalsm._core.engine cimport Engine, Tree
from dynalsm._core.memtable cimport (
    Memtable,
    RangeDelete,
    memtable_create,
    memtable_insert,
    memtable_source,
    range_list_add,
)
from dynalsm._core.hashing cimport hash64
from dynalsm._core.partition cimport (
    Partition,
    PartitionSet,
    partition_create,
    set_create,
)
from dynalsm._core.recovery cimport restore_partition
from dynalsm._core.source cimport Source
from dynalsm._core.sstable_reader cimport table_obsolete
from dynalsm._core.status cimport NO_MEMORY, OK, Failure, fail, failure_clear, raise_failure
from dynalsm._core.sync cimport pthread_mutex_lock, pthread_mutex_unlock
from dynalsm._core.version cimport (
    LEVELS,
    FileMeta,
    Version,
    version_size_between,
)

cdef enum:
    MOVE_BYTES = 1 << 20         # so much may be left in memory when the halves take over
    FLUSH_ATTEMPTS = 5

# A half must hold at least this share, or the split would gain nothing (one huge partition key).
SMALLEST_SHARE = 0.1


def split_once(Engine engine not None):
    """Split one partition that is over the limit. Returns: whether one was split."""
    cdef Tree tree
    cdef Partition* partition
    cdef int index
    for tree in list(engine.trees.values()):
        if not tree.core.is_hashed:
            continue
        for index in range(tree.core.parts.count):
            partition = tree.core.parts.items[index]
            with engine.admin:
                wanted = disk_bytes(partition) > engine.partition_limit_bytes
                cut = cut_of(tree, index) if wanted else 0
            if cut and split_partition(engine, tree, index, cut):
                return True
    return False


cdef uint64_t disk_bytes(const Partition* partition) noexcept nogil:
    cdef int level, index
    cdef uint64_t total = 0
    for level in range(LEVELS):
        for index in range(partition.version.counts[level]):
            total += partition.version.files[level][index].info.file_bytes
    return total


cdef uint64_t cut_of(Tree tree, int index) except? 0:
    """The middle of the partition's range, or 0 when a half would stay (nearly) empty."""
    cdef Partition* partition = tree.core.parts.items[index]
    cdef unsigned char edge[8]
    cdef uint64_t low, total
    upper = 1 << 64
    if index + 1 < tree.core.parts.count:
        upper = tree.core.parts.items[index + 1].lower
    cut = (partition.lower + upper) // 2
    if cut == partition.lower:
        return 0
    put_u64_be(edge, cut)
    total = disk_bytes(partition)
    low = version_size_between(partition.version, slice_of(NULL, 0), slice_of(edge, 8))
    if min(low, total - low) < SMALLEST_SHARE * total:
        return 0
    return cut


def split_partition(Engine engine not None, Tree tree not None, int index, uint64_t cut):
    """Split the tree's partition `index` at the prefix `cut`. Returns: whether it was done.

    False: other work holds the partition's files, or writes come too fast; try again later."""
    cdef Partition* partition = tree.core.parts.items[index]
    started = time.monotonic()
    partition_id = partition.id          # the partition may be gone when it is noted
    partition.cut = cut
    try:
        while rewrite_straddler(engine, partition, cut):
            pass
        with engine.flush_lock:
            for _ in range(FLUSH_ATTEMPTS):
                engine.rotate()
                jobs.flush_all(engine)
                if memory_bytes(partition) <= MOVE_BYTES:
                    break
            else:
                return False
            while rewrite_straddler(engine, partition, cut):
                pass
            with engine.admin:
                if partition.is_dropped or has_busy(partition) or straddlers(partition, cut):
                    return False
                replace(engine, tree, index, cut)
        jobs.note_job(engine, "split", started, tree=tree.name, partition=partition_id)
        return True
    finally:
        partition.cut = 0


cdef uint64_t memory_bytes(Partition* partition) noexcept:
    cdef uint64_t total = 0
    cdef int index
    with nogil:
        pthread_mutex_lock(&partition.mutex)
        if partition.active != NULL:
            total += partition.active.data_bytes
        for index in range(partition.sealed_count):
            total += partition.sealed[index].data_bytes
        pthread_mutex_unlock(&partition.mutex)
    return total


cdef bint has_busy(const Partition* partition) noexcept nogil:
    cdef int level, index
    for level in range(LEVELS):
        for index in range(partition.version.counts[level]):
            if partition.version.files[level][index].is_busy:
                return True
    return False


cdef bint straddles(const FileMeta* meta, uint64_t cut) noexcept nogil:
    return (
        key_prefix(slice_of(meta.info.smallest, meta.info.smallest_size), 0) < cut
        and key_prefix(slice_of(meta.info.largest, meta.info.largest_size), 0) >= cut
    )


cdef list straddlers(const Partition* partition, uint64_t cut):
    """(level, file id) of the files with keys on both sides."""
    cdef int level, index
    found = []
    for level in range(LEVELS):
        for index in range(partition.version.counts[level]):
            if straddles(partition.version.files[level][index], cut):
                found.append((level, partition.version.files[level][index].info.file_id))
    return found


cdef bint rewrite_straddler(Engine engine, Partition* partition, uint64_t cut) except -1:
    """Rewrite one straddling file in its level; whether there was one that could be."""
    cdef int level, index
    cdef FileMeta* meta
    with engine.admin:
        for level in range(LEVELS):
            for index in range(partition.version.counts[level]):
                meta = partition.version.files[level][index]
                if straddles(meta, cut) and not meta.is_busy:
                    bottom = level > 0 and is_last(partition.version, level)
                    plan = picker.Plan([meta.info.file_id], level, bottom, 1.0, "split")
                    meta.is_busy = True
                    break
            else:
                continue
            break
        else:
            return False
    jobs.run_plan(engine, <size_t>partition, plan)
    return True


cdef bint is_last(const Version* version, int level) noexcept nogil:
    cdef int deeper
    for deeper in range(level + 1, LEVELS):
        if version.counts[deeper]:
            return False
    return True


cdef int replace(Engine engine, Tree tree, int index, uint64_t cut) except -1:
    """Links, manifest edit, swap. REQUIRES: flush_lock and admin; no straddling, no busy file."""
    cdef Partition* old = tree.core.parts.items[index]
    cdef Partition* halves[2]
    cdef PartitionSet* fresh
    cdef Failure failure
    cdef int status
    cdef int side
    ids = [engine.next_partition_id, engine.next_partition_id + 1]
    place = (tree.core.id, old.id)
    records = ([], [])
    for record in engine.state.files[place].values():
        side = key_prefix(
            slice_of(<const char*>(<bytes>record[11]), len(record[11])), 0
        ) >= cut
        moved = list(record)
        moved[PARTITION] = ids[side]
        records[side].append(moved)
    ranges = engine.state.ranges.get(place, [])
    link_files(engine, tree, old, ids, records)
    halves[0] = partition_create(tree.core.id, ids[0], old.lower)
    halves[1] = partition_create(tree.core.id, ids[1], cut)
    fresh = grown_set(tree.core.parts, index, halves)
    if halves[0] == NULL or halves[1] == NULL or fresh == NULL:
        raise MemoryError()
    for side in range(2):
        restore_partition(
            engine, halves[side], {record[FILE]: record for record in records[side]}, ranges
        )
    reserve_retired(engine)
    engine.append_edit({
        "split": [tree.core.id, old.id, [[ids[0], old.lower], [ids[1], cut]]],
        "add": records[0] + records[1],
    })
    engine.next_partition_id = ids[1] + 1
    failure_clear(&failure)
    with nogil:
        pthread_mutex_lock(&engine.core.commit_mutex)
        status = move_memory(engine.core, old, halves, cut, &failure)
        if status:
            core_poison(engine.core, &failure)       # the manifest has the halves already
        else:
            pthread_mutex_lock(&engine.core.snapshot_mutex)
            fresh.older = tree.core.parts
            tree.core.parts = fresh
            pthread_mutex_unlock(&engine.core.snapshot_mutex)
            pthread_mutex_lock(&old.mutex)
            old.is_retired = True
            pthread_mutex_unlock(&old.mutex)
        pthread_mutex_unlock(&engine.core.commit_mutex)
    raise_failure(&failure)
    engine.retired[engine.retired_count] = old
    engine.retired_count += 1
    return 0


cdef int reserve_retired(Engine engine) except -1:
    cdef Partition** grown = <Partition**>realloc(
        engine.retired, (engine.retired_count + 1) * sizeof(Partition*)
    )
    if grown == NULL:
        raise MemoryError()
    engine.retired = grown
    return 0


cdef PartitionSet* grown_set(PartitionSet* parts, int index, Partition** halves) noexcept nogil:
    cdef PartitionSet* fresh = set_create(parts.count + 1)
    cdef int source
    cdef int target = 0
    if fresh == NULL:
        return NULL
    for source in range(parts.count):
        if source == index:
            fresh.items[target] = halves[0]
            fresh.items[target + 1] = halves[1]
            target += 2
        else:
            fresh.items[target] = parts.items[source]
            target += 1
    return fresh


cdef int link_files(Engine engine, Tree tree, Partition* old, list ids, tuple records) except -1:
    cdef int side
    base = os.path.join(engine.path, "data", f"{tree.core.id:06d}")
    for side in range(2):
        target = os.path.join(base, f"{ids[side]:06d}")
        files.make_directory(base)
        files.make_directory(target)
        for record in records[side]:
            name = f"{record[FILE]:012d}.sst"
            link = os.path.join(target, name)
            files.remove_file(link, missing_ok=True)         # of an attempt that failed
            files.link_file(os.path.join(base, f"{old.id:06d}", name), link)
        files.sync_directory(target)
    return 0


cdef int move_memory(
    EngineCore* core, Partition* old, Partition** halves, uint64_t cut, Failure* failure
) noexcept nogil:
    """Copy what lies in memory to the halves. REQUIRES: the commit mutex. `old` keeps its own."""
    cdef Memtable* fresh[2]
    cdef Memtable* table
    cdef int position, side
    for position in range(old.sealed_count + 1):
        table = old.sealed[position] if position < old.sealed_count else old.active
        if table == NULL:
            continue
        for side in range(2):
            fresh[side] = memtable_create(table.generation)
            if fresh[side] == NULL:
                return fail(failure, NO_MEMORY, "no memory for a split", NULL, -1, 0)
        if copy_entries(table, fresh, cut) != OK:
            return fail(failure, NO_MEMORY, "no memory for a split", NULL, -1, 0)
        for side in range(2):
            if position < old.sealed_count:
                halves[side].sealed[halves[side].sealed_count] = fresh[side]
                halves[side].sealed_count += 1
            else:
                halves[side].active = fresh[side]
                core.mutable_bytes += fresh[side].size_bytes
        if position == old.sealed_count:
            core.mutable_bytes -= min(core.mutable_bytes, table.size_bytes)
    return OK


cdef int copy_entries(Memtable* table, Memtable** targets, uint64_t cut) noexcept nogil:
    """Backwards, so that the versions of a key come oldest first."""
    cdef Source source
    cdef Failure ignored
    cdef RangeDelete* item
    cdef unsigned int index
    cdef int side
    cdef int status = memtable_source(table, &source)
    if status:
        return status
    source.ops.last(&source, True, &ignored)
    while source.status == OK and status == OK:
        side = key_prefix(source.key, 0) >= cut
        status = memtable_insert(
            targets[side], source.key, hash64(source.key.data, source.key.size), source.tag,
            source.value
        )
        source.ops.prev(&source, True, &ignored)
    source.ops.close(&source)
    for side in range(2):
        for index in range(table.ranges.count):
            item = &table.ranges.items[index]
            if status == OK:
                status = range_list_add(
                    &targets[side].ranges, slice_of(item.lower, item.lower_size),
                    slice_of(item.upper, item.upper_size), item.seqno
                )
                targets[side].max_seqno = max(targets[side].max_seqno, item.seqno)
                targets[side].min_seqno = min(targets[side].min_seqno, item.seqno)
    return status


def release_retired(Engine engine not None):
    """Let the data of split partitions go that no cursor walks any more."""
    cdef uint64_t index
    cdef Tree tree
    cdef PartitionSet* older
    cdef bint walked
    if engine.retired_count == 0:
        return
    walked_trees = set()
    for tree in list(engine.trees.values()):
        pthread_mutex_lock(&engine.core.snapshot_mutex)
        walked = False
        older = tree.core.parts.older
        while older != NULL:
            walked = walked or older.walkers > 0
            older = older.older
        pthread_mutex_unlock(&engine.core.snapshot_mutex)
        if walked:
            walked_trees.add(tree.core.id)
    for index in range(engine.retired_count):
        if engine.retired[index].tree_id not in walked_trees:
            empty_retired(engine, engine.retired[index])


cdef int empty_retired(Engine engine, Partition* partition) except -1:
    cdef int level, index
    cdef Version* version = partition.version
    cdef bint empty = True
    for level in range(LEVELS):
        for index in range(version.counts[level]):
            table_obsolete(version.files[level][index].table)
            empty = False
    if empty and partition.active == NULL and partition.sealed_count == 0:
        return 0
    jobs.empty_partition_at(<size_t>partition)
    jobs.remove_empty(os.path.join(
        engine.path, "data", f"{partition.tree_id:06d}", f"{partition.id:06d}"
    ))
    return 0
