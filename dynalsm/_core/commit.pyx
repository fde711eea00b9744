# The commit pipeline (see commit.pxd for the contracts and the lock order).

from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memmove

from dynalsm._core.cache cimport cache_reserve
from dynalsm._core.coding cimport Slice, get_varint, put_u64_be, slice_of
from dynalsm._core.debug cimport IS_DEBUG_BUILD, require
from dynalsm._core.hashing cimport hash64
from dynalsm._core.memtable cimport (
    Memtable,
    memtable_create,
    memtable_delete_range,
    memtable_insert,
)
from dynalsm._core.partition cimport (
    MAX_SEALED,
    Partition,
    TreeCore,
    partition_seal,
    tree_route,
)
from dynalsm._core.source cimport KIND_DELETE, KIND_PUT, KIND_RANGE_DELETE
from dynalsm._core.status cimport (
    CLOSED,
    CORRUPTION,
    NO_MEMORY,
    NO_SPACE,
    OK,
    POISONED,
    WOULD_BLOCK,
    WRITE_FAILED,
    Failure,
    fail,
)
from dynalsm._core.sync cimport (
    atomic_add,
    atomic_load,
    atomic_store,
    now_ns,
    pthread_cond_broadcast,
    pthread_cond_destroy,
    pthread_cond_init,
    pthread_mutex_destroy,
    pthread_mutex_init,
    pthread_mutex_lock,
    pthread_mutex_trylock,
    pthread_mutex_unlock,
    sleep_ns,
    this_thread,
    wait_for,
)
from dynalsm._core.wal cimport (
    Wal,
    wal_append,
    wal_close,
    wal_create,
    wal_follow,
)


cdef enum:
    SLEEP_QUANTUM_NS = 500000            # pacing sleeps are not shorter: the kernel rounds up
    STALL_POLL_NS = 200000000            # a stalled writer looks again at least so often
    RESERVE_BYTES = 256 << 10            # memtables ask the cache for room in such steps


cdef EngineCore* core_create() noexcept nogil:
    cdef EngineCore* core = <EngineCore*>calloc(1, sizeof(EngineCore))
    if core == NULL:
        return NULL
    pthread_mutex_init(&core.commit_mutex, NULL)
    pthread_mutex_init(&core.sync_mutex, NULL)
    pthread_mutex_init(&core.work_mutex, NULL)
    pthread_mutex_init(&core.snapshot_mutex, NULL)
    pthread_cond_init(&core.work_wanted, NULL)
    pthread_cond_init(&core.work_done, NULL)
    core.next_file = 1
    core.stall_generations = 2
    return core


cdef void core_close_logs(EngineCore* core) noexcept nogil:
    cdef int index
    wal_close(core.wal)
    core.wal = NULL
    for index in range(core.old_log_count):
        wal_close(core.old_logs[index])
    core.old_log_count = 0


cdef void core_free(EngineCore* core) noexcept nogil:
    if core == NULL:
        return
    core_close_logs(core)
    pthread_mutex_destroy(&core.commit_mutex)
    pthread_mutex_destroy(&core.sync_mutex)
    pthread_mutex_destroy(&core.work_mutex)
    pthread_mutex_destroy(&core.snapshot_mutex)
    pthread_cond_destroy(&core.work_wanted)
    pthread_cond_destroy(&core.work_done)
    free(core.snapshots)
    free(core.trees)
    free(core)


# ------------------------------------------------------------------------------------- snapshots

cdef int snapshot_insert(EngineCore* core, uint64_t seqno) noexcept nogil:
    cdef uint64_t capacity, place
    cdef uint64_t* grown
    if core.snapshot_count == core.snapshot_capacity:
        capacity = core.snapshot_capacity * 2 if core.snapshot_capacity else 16
        grown = <uint64_t*>realloc(core.snapshots, capacity * sizeof(uint64_t))
        if grown == NULL:
            return NO_MEMORY
        core.snapshots = grown
        core.snapshot_capacity = capacity
    place = core.snapshot_count
    while place > 0 and core.snapshots[place - 1] > seqno:
        place -= 1
    memmove(
        &core.snapshots[place + 1], &core.snapshots[place],
        (core.snapshot_count - place) * sizeof(uint64_t)
    )
    core.snapshots[place] = seqno
    core.snapshot_count += 1
    return OK


cdef uint64_t snapshot_take(EngineCore* core) noexcept nogil:
    cdef uint64_t seqno
    pthread_mutex_lock(&core.snapshot_mutex)
    seqno = atomic_load(&core.visible_seqno)
    if snapshot_insert(core, seqno):
        seqno = <uint64_t>-1
    pthread_mutex_unlock(&core.snapshot_mutex)
    return seqno


cdef int snapshot_hold(EngineCore* core, uint64_t seqno) noexcept nogil:
    cdef int status
    pthread_mutex_lock(&core.snapshot_mutex)
    status = snapshot_insert(core, seqno)
    pthread_mutex_unlock(&core.snapshot_mutex)
    return status


cdef void snapshot_drop(EngineCore* core, uint64_t seqno) noexcept nogil:
    cdef uint64_t place
    pthread_mutex_lock(&core.snapshot_mutex)
    place = core.snapshot_count
    while place > 0:
        place -= 1
        if IS_DEBUG_BUILD:
            require(place > 0 or core.snapshots[0] == seqno)
        if core.snapshots[place] == seqno:
            memmove(
                &core.snapshots[place], &core.snapshots[place + 1],
                (core.snapshot_count - place - 1) * sizeof(uint64_t)
            )
            core.snapshot_count -= 1
            break
    pthread_mutex_unlock(&core.snapshot_mutex)


cdef long long snapshot_list(EngineCore* core, uint64_t** out) noexcept nogil:
    cdef uint64_t* list
    cdef long long count = 0
    cdef uint64_t index
    pthread_mutex_lock(&core.snapshot_mutex)
    list = <uint64_t*>malloc((core.snapshot_count + 1) * sizeof(uint64_t))
    if list != NULL:
        for index in range(core.snapshot_count):
            if count == 0 or list[count - 1] != core.snapshots[index]:
                list[count] = core.snapshots[index]
                count += 1
        # Read under the mutex: a snapshot taken later is at or above it.
        list[count] = atomic_load(&core.visible_seqno)
        count += 1
    pthread_mutex_unlock(&core.snapshot_mutex)
    out[0] = list
    return count if list != NULL else -1


# --------------------------------------------------------------------------------------- refusal

cdef void core_poison(EngineCore* core, const Failure* failure) noexcept nogil:
    pthread_mutex_lock(&core.work_mutex)
    if not atomic_load(&core.is_poisoned):
        core.poison = failure[0]
        atomic_store(&core.is_poisoned, 1)
    pthread_cond_broadcast(&core.work_done)
    pthread_cond_broadcast(&core.work_wanted)
    pthread_mutex_unlock(&core.work_mutex)


cdef int core_refuse(EngineCore* core, Failure* failure) noexcept nogil:
    failure[0] = core.poison
    failure.status = POISONED
    return POISONED


# ----------------------------------------------------------------------------------------- apply

cdef inline int damaged(Failure* failure, const char* what) noexcept nogil:
    return fail(failure, CORRUPTION, what, NULL, -1, 0)


cdef int apply_entry(
    EngineCore* core, TreeCore* tree, int kind, Slice key, Slice value, uint64_t seqno,
    uint64_t generation, Failure* failure
) noexcept nogil:
    cdef Partition* partition
    cdef Memtable* table
    cdef uint64_t before
    cdef int status, index
    if kind != KIND_RANGE_DELETE:
        partition = tree_route(tree, key)
        table = active_memtable(core, partition, generation)
        if table == NULL:
            return fail(failure, NO_MEMORY, "no memory for a memtable", NULL, -1, 0)
        before = table.size_bytes
        status = memtable_insert(
            table, key, hash64(key.data, key.size), seqno << 8 | <uint64_t>kind, value
        )
        core.mutable_bytes += table.size_bytes - before
    else:
        # A range may span partitions: each gets it (its keys decide what it covers there).
        status = OK
        for index in range(tree.parts.count):
            table = active_memtable(core, tree.parts.items[index], generation)
            if table == NULL:
                status = NO_MEMORY
                break
            before = table.size_bytes
            status = memtable_delete_range(
                table, key, value if value.size else slice_of(NULL, 0), seqno
            )
            core.mutable_bytes += table.size_bytes - before
            if status:
                break
    if status:
        return fail(failure, NO_MEMORY, "no memory for a memtable entry", NULL, -1, 0)
    return OK


cdef inline Memtable* active_memtable(
    EngineCore* core, Partition* partition, uint64_t generation
) noexcept nogil:
    cdef Memtable* table = partition.active      # only commits replace it, and this is one
    if table == NULL:
        table = memtable_create(generation)
        if table == NULL:
            return NULL
        # Never 0 while there is a memtable: what asks whether anything is in memory looks at it.
        core.mutable_bytes += table.size_bytes
        pthread_mutex_lock(&partition.mutex)
        partition.active = table
        pthread_mutex_unlock(&partition.mutex)
    return table


cdef int apply_payload(
    EngineCore* core, const uint8_t* payload, size_t size, uint64_t first_seqno, uint32_t count,
    uint64_t generation, Failure* failure
) noexcept nogil:
    cdef const uint8_t* place = payload
    cdef const uint8_t* limit = payload + size
    cdef uint64_t tree_id, length
    cdef uint32_t index
    cdef int kind, status
    cdef Slice key, value
    cdef TreeCore* tree
    for index in range(count):
        if place >= limit:
            return damaged(failure, "a commit record ends inside an entry")
        kind = place[0]
        place = get_varint(place + 1, limit, &tree_id)
        if place != NULL:
            place = get_varint(place, limit, &length)
        if place == NULL or length > <uint64_t>(limit - place):
            return damaged(failure, "a commit record ends inside a key")
        key = slice_of(place, length)
        place += length
        value = slice_of(place, 0)
        if kind == KIND_PUT or kind == KIND_RANGE_DELETE:
            place = get_varint(place, limit, &length)
            if place == NULL or length > <uint64_t>(limit - place):
                return damaged(failure, "a commit record ends inside a value")
            value = slice_of(place, length)
            place += length
        elif kind != KIND_DELETE:
            return damaged(failure, "a commit record has an entry of unknown kind")
        if tree_id >= core.tree_capacity:  # dropped since, and no younger tree is left
            continue
        tree = core.trees[tree_id]
        if tree == NULL or tree.is_dropped:
            continue
        status = apply_entry(
            core, tree, kind, key, value, first_seqno + index, generation, failure
        )
        if status:
            return status
    return OK


# ---------------------------------------------------------------------------------------- commit

cdef int commit_locked(
    EngineCore* core, uint8_t* payload, size_t size, uint32_t count, const Stamp* stamps,
    size_t stamp_count, uint64_t* last_seqno, Failure* failure
) noexcept nogil:
    cdef uint64_t first = core.last_seqno + 1
    cdef size_t index
    cdef int status
    if atomic_load(&core.is_poisoned):
        return core_refuse(core, failure)
    for index in range(stamp_count):
        put_u64_be(payload + stamps[index].offset, first + stamps[index].entry)
    status = wal_append(core.wal, payload, size, first, count, failure)
    if status:
        return status                    # nothing was appended: the caller may try again
    status = apply_payload(core, payload, size, first, count, core.wal.number, failure)
    if status:
        core_poison(core, failure)       # in the log, but not wholly in memory
        return status
    require(count != 0)
    require(core.visible_seqno < first)
    core.last_seqno = first + count - 1
    core.counters.commits += 1
    core.counters.entries += count
    core.counters.user_bytes += size
    last_seqno[0] = core.last_seqno
    atomic_store(&core.visible_seqno, core.last_seqno)
    return OK


cdef inline bint must_wait(EngineCore* core) noexcept nogil:
    """REQUIRES: the commit mutex."""
    return (
        core.slowdown_debt_ns >= SLEEP_QUANTUM_NS
        or (
            core.mutable_bytes >= core.write_buffer_bytes
            and core.generation_count >= core.stall_generations
        )
    )


cdef int wait_for_room(EngineCore* core, Failure* failure) noexcept nogil:
    """Sleep what pacing asks for, or until a flush has made room. Without any mutex."""
    cdef uint64_t start = now_ns()
    cdef uint64_t debt = 0
    cdef int status = OK
    pthread_mutex_lock(&core.commit_mutex)
    if core.slowdown_debt_ns >= SLEEP_QUANTUM_NS:
        debt = core.slowdown_debt_ns
        core.slowdown_debt_ns = 0
    pthread_mutex_unlock(&core.commit_mutex)
    if debt:
        sleep_ns(debt)
        atomic_add(&core.counters.slowdown_ns, now_ns() - start)
        return OK
    pthread_mutex_lock(&core.work_mutex)
    atomic_add(&core.counters.stalls, 1)
    while (
        core.generation_count >= core.stall_generations and not core.is_flush_failing
        and not atomic_load(&core.is_poisoned) and not core.is_stopping
    ):
        wait_for(&core.work_done, &core.work_mutex, STALL_POLL_NS)
    if core.is_flush_failing:
        failure[0] = core.flush_failure
        status = failure.status
    elif core.is_stopping and core.generation_count >= core.stall_generations:
        status = fail(failure, CLOSED, "closed while the write waited", core.directory, -1, 0)
    pthread_mutex_unlock(&core.work_mutex)
    atomic_add(&core.counters.stall_ns, now_ns() - start)
    return status


cdef int commit(
    EngineCore* core, uint8_t* payload, size_t size, uint32_t count, const Stamp* stamps,
    size_t stamp_count, bint may_block, uint64_t* last_seqno, Failure* failure
) noexcept nogil:
    cdef int status
    cdef uint64_t pace
    while True:
        if may_block:
            pthread_mutex_lock(&core.commit_mutex)
        elif pthread_mutex_trylock(&core.commit_mutex):
            return WOULD_BLOCK
        if (
            not must_wait(core) or atomic_load(&core.is_poisoned)
            or atomic_load(&core.ingest_thread) == this_thread()
        ):
            break
        pthread_mutex_unlock(&core.commit_mutex)
        if not may_block:
            return WOULD_BLOCK
        status = wait_for_room(core, failure)
        if status:
            return status
    status = OK
    if atomic_load(&core.is_poisoned):
        status = core_refuse(core, failure)
    elif core.mutable_bytes >= core.write_buffer_bytes:
        if not may_block:                # creating a log file takes a while
            pthread_mutex_unlock(&core.commit_mutex)
            return WOULD_BLOCK
        status = rotate_locked(core, failure)
    if status == OK:
        status = commit_locked(
            core, payload, size, count, stamps, stamp_count, last_seqno, failure
        )
    if status == WRITE_FAILED:
        core_poison(core, failure)
    if core.mutable_bytes >= core.reserve_at:
        core_reserve(core)
    pace = atomic_load(&core.slowdown_ns_per_kib)
    if pace:
        core.slowdown_debt_ns += pace * size // 1024
    pthread_mutex_unlock(&core.commit_mutex)
    return status


cdef void core_reserve(EngineCore* core) noexcept nogil:
    cdef uint64_t bytes = core.mutable_bytes
    cdef int index
    core.reserve_at = bytes + RESERVE_BYTES
    pthread_mutex_lock(&core.work_mutex)
    for index in range(core.generation_count):
        bytes += core.generations[index].bytes
    pthread_mutex_unlock(&core.work_mutex)
    # What will be there before the next step counts already.
    cache_reserve(core.cache, bytes + RESERVE_BYTES)


# -------------------------------------------------------------------------------------- rotation

cdef int rotate_locked(EngineCore* core, Failure* failure) noexcept nogil:
    cdef char path[1100]
    cdef uint64_t number, tree
    cdef int index
    cdef Wal* fresh
    cdef Wal* old = core.wal
    if core.old_log_count == MAX_LOGS or core.generation_count >= MAX_SEALED - 1:
        return fail(failure, NO_SPACE, "too many logs wait for their flush", core.directory, -1, 0)
    number = atomic_add(&core.next_file, 1) - 1
    snprintf(path, sizeof(path), "%s/wal/%012llu.wal", core.directory, <unsigned long long>number)
    fresh = wal_create(
        path, number, old.number, old.size, core.last_seqno, core.keyring, failure
    )
    if fresh == NULL:
        return failure.status
    wal_follow(fresh, old)
    pthread_mutex_lock(&core.sync_mutex)
    core.old_logs[core.old_log_count] = old
    core.old_log_count += 1
    core.wal = fresh
    core.is_log_directory_dirty = True
    pthread_mutex_unlock(&core.sync_mutex)
    for tree in range(core.tree_capacity):
        if core.trees[tree] != NULL:
            for index in range(core.trees[tree].parts.count):
                partition_seal(core.trees[tree].parts.items[index])
    pthread_mutex_lock(&core.work_mutex)
    core.generations[core.generation_count].log_number = old.number
    core.generations[core.generation_count].last_seqno = core.last_seqno
    core.generations[core.generation_count].bytes = core.mutable_bytes
    core.generation_count += 1
    core.mutable_bytes = 0
    core.reserve_at = 0
    core.work_ticket += 1
    pthread_cond_broadcast(&core.work_wanted)
    pthread_mutex_unlock(&core.work_mutex)
    return OK
