# One key range of a tree (see partition.pxd for the contracts).

from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from dynalsm._core.coding cimport Slice, bswap64, slice_of
from dynalsm._core.debug cimport require
from dynalsm._core.memtable cimport (
    Entry,
    Memtable,
    RangeDelete,
    RangeList,
    memtable_get,
    memtable_ref,
    memtable_source,
    memtable_unref,
    range_list_add,
    range_list_covering,
    range_list_free,
)
from dynalsm._core.merge cimport Scan, merge_source, scan_init
from dynalsm._core.source cimport KIND_DELETE, Source
from dynalsm._core.sstable_reader cimport found_release
from dynalsm._core.status cimport (
    END,
    MOVED,
    NO_MEMORY,
    NOT_FOUND,
    OK,
    WOULD_BLOCK,
    Failure,
    fail,
)
from dynalsm._core.sync cimport (
    atomic_load,
    pthread_mutex_destroy,
    pthread_mutex_init,
    pthread_mutex_lock,
    pthread_mutex_unlock,
)
from dynalsm._core.version cimport (
    version_empty,
    version_get,
    version_get_many,
    version_ref,
    version_source_count,
    version_sources,
    version_unref,
)

cdef uint64_t NEWEST = <uint64_t>-1


cdef uint64_t short_prefix(Slice key) noexcept nogil:
    cdef uint64_t value = 0
    memcpy(&value, key.data, key.size)
    return bswap64(value)


cdef PartitionSet* set_create(int count) noexcept nogil:
    cdef PartitionSet* parts = <PartitionSet*>calloc(
        1, sizeof(PartitionSet) + count * sizeof(Partition*)
    )
    if parts != NULL:
        parts.count = count
    return parts


cdef Partition* partition_create(uint64_t tree_id, uint64_t id, uint64_t lower) noexcept nogil:
    cdef Partition* partition = <Partition*>calloc(1, sizeof(Partition))
    if partition == NULL:
        return NULL
    partition.version = version_empty()
    if partition.version == NULL or pthread_mutex_init(&partition.mutex, NULL):
        version_unref(partition.version)
        free(partition)
        return NULL
    partition.tree_id = tree_id
    partition.id = id
    partition.lower = lower
    return partition


cdef void partition_free(Partition* partition) noexcept nogil:
    cdef int index
    memtable_unref(partition.active)
    for index in range(partition.sealed_count):
        memtable_unref(partition.sealed[index])
    version_unref(partition.version)
    pthread_mutex_destroy(&partition.mutex)
    free(partition)


cdef void view_pin(Partition* partition, View* view) noexcept nogil:
    cdef int index
    view.memtable_count = 0
    pthread_mutex_lock(&partition.mutex)
    if partition.active != NULL:
        memtable_ref(partition.active)
        view.memtables[0] = partition.active
        view.memtable_count = 1
    for index in range(partition.sealed_count - 1, -1, -1):
        memtable_ref(partition.sealed[index])
        view.memtables[view.memtable_count] = partition.sealed[index]
        view.memtable_count += 1
    version_ref(partition.version)
    view.version = partition.version
    view.is_retired = partition.is_retired
    pthread_mutex_unlock(&partition.mutex)


cdef void view_release(View* view) noexcept nogil:
    cdef int index
    for index in range(view.memtable_count):
        memtable_unref(view.memtables[index])
    version_unref(view.version)


cdef void hit_release(Hit* hit) noexcept nogil:
    found_release(&hit.found)
    if hit.memtable != NULL:
        memtable_unref(hit.memtable)
        hit.memtable = NULL


cdef inline uint64_t memtable_covering(
    Memtable* table, Slice key, uint64_t seqno
) noexcept nogil:
    cdef uint64_t covering = 0
    if table.ranges.count:
        pthread_mutex_lock(&table.mutex)
        covering = range_list_covering(&table.ranges, key, seqno)
        pthread_mutex_unlock(&table.mutex)
    return covering


cdef inline int find_in_memtable(
    Memtable* table, Slice key, uint64_t key_hash, uint64_t seqno, uint64_t* covering, Hit* hit
) noexcept nogil:
    """OK when the key's newest version is here; *covering grows by the table's deleted ranges."""
    cdef uint64_t deleted = memtable_covering(table, key, seqno)
    cdef const Entry* entry
    if deleted > covering[0]:
        covering[0] = deleted
    entry = memtable_get(table, key, key_hash, seqno)
    if entry == NULL:
        return NOT_FOUND
    hit.found.tag = entry.tag
    hit.found.value = slice_of(&entry.data[0] + entry.key_size, entry.value_size)
    hit.memtable = table
    return OK


cdef inline int judge(Hit* hit, uint64_t covering) noexcept nogil:
    """A found version may be a delete, or lie under a deleted range. REQUIRES: references held."""
    if hit.found.tag & 0xFF == KIND_DELETE or covering > hit.found.tag >> 8:
        hit_release(hit)
        return NOT_FOUND
    return OK


cdef int get_blocking(
    Partition* partition, Slice key, uint64_t key_hash, uint64_t snapshot,
    const uint64_t* visible, bint fill_cache, Hit* hit, Failure* failure
) noexcept nogil:
    """partition_get with a pinned view in place of the mutex."""
    cdef View view
    cdef uint64_t covering = 0
    cdef uint64_t deleted
    cdef int index
    cdef int status = NOT_FOUND
    view_pin(partition, &view)
    if view.is_retired:
        view_release(&view)
        return MOVED
    if snapshot == NEWEST:
        snapshot = atomic_load(visible)
    for index in range(view.memtable_count):
        status = find_in_memtable(
            view.memtables[index], key, key_hash, snapshot, &covering, hit
        )
        if status == OK:
            memtable_ref(hit.memtable)
            break
    if status == NOT_FOUND:
        status = version_get(
            view.version, key, key_hash, snapshot, True, fill_cache, &hit.found, failure
        )
        if status == OK and view.version.ranges.count:
            deleted = range_list_covering(&view.version.ranges, key, snapshot)
            if deleted > covering:
                covering = deleted
    view_release(&view)
    return judge(hit, covering) if status == OK else status


cdef int partition_get(
    Partition* partition, Slice key, uint64_t key_hash, uint64_t snapshot,
    const uint64_t* visible, bint may_block, bint fill_cache, Hit* hit, Failure* failure
) noexcept nogil:
    cdef uint64_t covering = 0
    cdef uint64_t deleted
    cdef int index
    cdef int status = NOT_FOUND
    hit.memtable = NULL
    hit.found.pin = NULL
    if may_block:
        return get_blocking(
            partition, key, key_hash, snapshot, visible, fill_cache, hit, failure
        )
    pthread_mutex_lock(&partition.mutex)
    if partition.is_retired:
        pthread_mutex_unlock(&partition.mutex)
        return MOVED
    # Read inside the mutex: what a compaction installed before is then visible to this seqno.
    if snapshot == NEWEST:
        snapshot = atomic_load(visible)
    if partition.active != NULL:
        status = find_in_memtable(partition.active, key, key_hash, snapshot, &covering, hit)
    if status == NOT_FOUND and partition.sealed_count:
        for index in range(partition.sealed_count - 1, -1, -1):
            status = find_in_memtable(
                partition.sealed[index], key, key_hash, snapshot, &covering, hit
            )
            if status == OK:
                break
    if status == OK:
        memtable_ref(hit.memtable)
    else:
        status = version_get(
            partition.version, key, key_hash, snapshot, False, fill_cache, &hit.found, failure
        )
        if status == OK and partition.version.ranges.count:
            deleted = range_list_covering(&partition.version.ranges, key, snapshot)
            if deleted > covering:
                covering = deleted
    pthread_mutex_unlock(&partition.mutex)
    return judge(hit, covering) if status == OK else status


cdef int partition_get_many(
    Partition* partition, const Slice* keys, const uint64_t* key_hashes, int count,
    uint64_t snapshot, bint fill_cache, Hit* hits, Found* found, int* statuses, int* scratch,
    Failure* failure
) noexcept nogil:
    cdef View view
    cdef uint64_t covering
    cdef int index, table, status
    view_pin(partition, &view)
    if view.is_retired:
        view_release(&view)
        return MOVED
    for index in range(count):
        statuses[index] = NOT_FOUND
        hits[index].memtable = NULL
        hits[index].found.pin = NULL
        found[index].pin = NULL
        covering = 0
        for table in range(view.memtable_count):
            if find_in_memtable(
                view.memtables[table], keys[index], key_hashes[index], snapshot, &covering,
                &hits[index]
            ) == OK:
                memtable_ref(hits[index].memtable)
                statuses[index] = judge(&hits[index], covering)
                if statuses[index] == NOT_FOUND:
                    statuses[index] = END            # deleted: no table needs to be asked
                break
        else:
            if covering:
                statuses[index] = WOULD_BLOCK        # under a deleted range: the slow way
    status = version_get_many(
        view.version, keys, key_hashes, count, snapshot, fill_cache, found, statuses, scratch,
        failure
    )
    for index in range(count):
        if statuses[index] == OK and hits[index].memtable == NULL:
            hits[index].found = found[index]
            covering = 0
            if view.version.ranges.count:
                covering = range_list_covering(&view.version.ranges, keys[index], snapshot)
            statuses[index] = judge(&hits[index], covering)
        elif statuses[index] == END:
            statuses[index] = NOT_FOUND
    if status:
        for index in range(count):
            if statuses[index] == OK:
                hit_release(&hits[index])
    view_release(&view)
    return status


cdef int copy_ranges(RangeList* target, const RangeList* source, uint64_t snapshot) noexcept nogil:
    cdef unsigned int index
    cdef const RangeDelete* item
    for index in range(source.count):
        item = &source.items[index]
        if item.seqno <= snapshot and range_list_add(
            target, slice_of(item.lower, item.lower_size),
            slice_of(item.upper, item.upper_size), item.seqno
        ):
            return NO_MEMORY
    return OK


cdef int partition_scan(
    Partition* partition, uint64_t snapshot, Slice lower, Slice upper, bint fill_cache,
    Scan* scan, Failure* failure
) noexcept nogil:
    cdef View view
    cdef Source* sources
    cdef Source merged
    cdef RangeList ranges
    cdef int index
    cdef int made = 0
    cdef int count = 0
    cdef int status = OK
    memset(&ranges, 0, sizeof(RangeList))
    view_pin(partition, &view)
    sources = <Source*>malloc(
        (view.memtable_count + version_source_count(view.version) + 1) * sizeof(Source)
    )
    if sources == NULL:
        status = NO_MEMORY
    for index in range(view.memtable_count):
        if status:
            break
        pthread_mutex_lock(&view.memtables[index].mutex)
        status = copy_ranges(&ranges, &view.memtables[index].ranges, snapshot)
        pthread_mutex_unlock(&view.memtables[index].mutex)
        if status == OK and view.memtables[index].entries:
            status = memtable_source(view.memtables[index], &sources[made])
            made += status == OK
    if status == OK:
        status = copy_ranges(&ranges, &view.version.ranges, snapshot)
    if status:
        fail(failure, NO_MEMORY, "no memory for a cursor", NULL, -1, 0)
    else:
        status = version_sources(
            view.version, fill_cache, False, sources + made, &count, failure
        )
        made += count
    if status:
        for index in range(made):
            sources[index].ops.close(&sources[index])
    else:
        status = merge_source(sources, made, &merged, failure)
    view_release(&view)
    free(sources)
    if status == OK:
        status = scan_init(scan, &merged, &ranges, snapshot, lower, upper, failure)
    else:
        range_list_free(&ranges)
    return status


cdef bint partition_seal(Partition* partition) noexcept nogil:
    cdef bint sealed = False
    pthread_mutex_lock(&partition.mutex)
    if partition.active != NULL and (
        partition.active.entries or partition.active.ranges.count
    ):
        require(partition.sealed_count < MAX_SEALED)
        partition.sealed[partition.sealed_count] = partition.active
        partition.sealed_count += 1
        partition.active = NULL
        sealed = True
    pthread_mutex_unlock(&partition.mutex)
    return sealed
