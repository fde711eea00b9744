# Reads one SSTable: point gets, and the door to sources and verification (see sstable_reader.pxd).

from libc.stdint cimport uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from dynalsm._core.bits cimport likely, unlikely
from dynalsm._core.block cimport block_get, block_prefetch_entry
from dynalsm._core.cache cimport block_unref
from dynalsm._core.descriptors cimport descriptor_set_limit
from dynalsm._core.filter cimport filter_may_contain, filter_prefetch
from dynalsm._core.sstable_file cimport (
    RESIDENT,
    table_block,
    table_damaged,
    table_file_open,
    table_file_properties,
    table_file_unref,
    table_prefetch_block,
    table_section,
    table_section_bytes,
)
from dynalsm._core.sstable_format cimport Properties
from dynalsm._core.sstable_index cimport (
    IndexProbe,
    IndexSlot,
    index_find,
    index_probe,
    index_resolve,
)
from dynalsm._core.sstable_load cimport parts_filter, parts_locate, table_file_load
from dynalsm._core.sstable_source cimport source_open
from dynalsm._core.sstable_verify cimport verify_table
from dynalsm._core.sstable_writer cimport table_info_free
from dynalsm._core.status cimport CORRUPTION, NO_MEMORY, NOT_FOUND, OK, WOULD_BLOCK, fail
from dynalsm._core.sync cimport atomic_add, atomic_load, atomic_store


cdef enum:
    KIND_SEEK_BITS = 0xFF        # the highest kind: before every version with this seqno
    # Keys looked up side by side: enough to keep all of a core's fetches busy.
    GROUP_KEYS = 32


# -------------------------------------------------------------------------------- life of a table

cdef Table* table_open(
    const char* path, uint64_t file_id, uint64_t file_bytes, uint64_t unique_id, Cache* cache,
    void* keyring, Failure* failure
) noexcept nogil:
    return table_file_open(path, file_id, file_bytes, unique_id, cache, keyring, failure)


cdef int table_load(Table* table, Failure* failure) noexcept nogil:
    return table_file_load(table, failure)


cdef void table_ref(Table* table) noexcept nogil:
    atomic_add(&table.references, 1)


cdef void table_unref(Table* table) noexcept nogil:
    table_file_unref(table)


cdef void table_obsolete(Table* table) noexcept nogil:
    atomic_store(&table.obsolete, 1)


cdef uint64_t table_file_id(Table* table) noexcept nogil:
    return table.file_id


cdef uint64_t table_key_id(Table* table) noexcept nogil:
    return table.cipher.key_id if table.cipher != NULL else 0


cdef uint64_t table_memory(Table* table) noexcept nogil:
    if not atomic_load(&table.loaded):
        return sizeof(Table)
    return table.memory_bytes


cdef void table_set_descriptor_limit(int limit) noexcept nogil:
    descriptor_set_limit(limit)


# --------------------------------------------------------------------------------------- point get

cdef void found_release(Found* found) noexcept nogil:
    if found.pin != NULL:
        block_unref(found.pin)
        found.pin = NULL


cdef inline bint passes_filter(Table* table, uint64_t key_hash) noexcept nogil:
    return table.filter == NULL or filter_may_contain(
        table.filter, table.filter_bytes, key_hash, table.filter_bits
    )


cdef int make_ready(Table* table, bint may_block, Failure* failure) noexcept nogil:
    if atomic_load(&table.loaded):
        return OK
    return table_file_load(table, failure) if may_block else WOULD_BLOCK


cdef int get_in_parts(
    Table* table, Slice key, uint64_t key_hash, uint64_t seqno, bint may_block, bint fill_cache,
    Found* out, Failure* failure
) noexcept nogil:
    """table_get of a table whose index and filter are not in memory."""
    cdef uint64_t tag = (seqno << 8) | KIND_SEEK_BITS
    cdef IndexSlot slot
    cdef Block* block = NULL
    cdef uint32_t i
    cdef bint passes = True
    cdef int status = parts_filter(table, key_hash, may_block, &passes, failure)
    if status == OK and not passes:
        return NOT_FOUND
    if status == OK:
        status = parts_locate(table, key, tag, may_block, &slot, &i, failure)
    if status == OK:
        status = table_block(table, &slot, may_block, fill_cache, &block, failure)
    if status != OK:
        return status
    status = block_get(block.data, block.size, key, key_hash, tag, &out.tag, &out.value)
    if status == OK:
        out.pin = block
        return OK
    block_unref(block)
    if status == CORRUPTION:
        return table_damaged(table, "a block is damaged", slot.offset, failure)
    return NOT_FOUND


cdef int table_get(
    Table* table, Slice key, uint64_t key_hash, uint64_t seqno, bint may_block, bint fill_cache,
    Found* out, Failure* failure
) noexcept nogil:
    cdef uint64_t tag = (seqno << 8) | KIND_SEEK_BITS
    cdef IndexProbe probe
    cdef Block* block
    cdef uint32_t i
    cdef int status
    out.pin = NULL
    if unlikely(atomic_load(&table.loaded) != RESIDENT):
        status = make_ready(table, may_block, failure)
        if status != OK:
            return status
        if atomic_load(&table.loaded) != RESIDENT:
            return get_in_parts(
                table, key, key_hash, seqno, may_block, fill_cache, out, failure
            )
    if table.filter != NULL:
        filter_prefetch(table.filter, table.filter_bytes, key_hash)
    index_probe(&table.index, key, &probe)
    if not passes_filter(table, key_hash):
        return NOT_FOUND
    i = index_resolve(&table.index, &probe, tag)
    if i == table.index.count:
        return NOT_FOUND
    status = table_block(
        table, &table.index.slots[i], may_block, fill_cache, &block, failure
    )
    if unlikely(status != OK):
        return status
    status = block_get(block.data, block.size, key, key_hash, tag, &out.tag, &out.value)
    if likely(status == OK):
        out.pin = block
        return OK
    block_unref(block)
    if unlikely(status == CORRUPTION):
        return table_damaged(table, "a block is damaged", table.index.slots[i].offset, failure)
    return NOT_FOUND


# ---------------------------------------------------------------------------------- many at a time

cdef int get_group(
    Table* table, const Slice* keys, const uint64_t* key_hashes, int count, uint64_t seqno,
    bint may_block, bint fill_cache, Found* found, int* statuses, Failure* failure
) noexcept nogil:
    """table_get in stages: each starts loads for all keys that the next one needs.

    REQUIRES: loaded, count <= GROUP_KEYS.
    """
    cdef uint64_t tag = (seqno << 8) | KIND_SEEK_BITS
    cdef IndexProbe probes[GROUP_KEYS]
    cdef uint32_t places[GROUP_KEYS]
    cdef int wanted[GROUP_KEYS]
    cdef int left = 0
    cdef int kept = 0
    cdef int i
    cdef int k
    cdef int status = OK
    for i in range(count):
        if statuses[i] == NOT_FOUND:
            wanted[left] = i
            left += 1
            if table.filter != NULL:
                filter_prefetch(table.filter, table.filter_bytes, key_hashes[i])
            index_probe(&table.index, keys[i], &probes[i])
    for k in range(left):
        i = wanted[k]
        if passes_filter(table, key_hashes[i]):
            places[i] = index_resolve(&table.index, &probes[i], tag)
            if places[i] < table.index.count:
                wanted[kept] = i
                kept += 1
    for k in range(kept):
        table_prefetch_block(table, &table.index.slots[places[wanted[k]]])
    for k in range(kept):
        i = wanted[k]
        status = table_block(
            table, &table.index.slots[places[i]], may_block, fill_cache, &found[i].pin, failure
        )
        statuses[i] = status
        if status == OK:
            block_prefetch_entry(found[i].pin.data, found[i].pin.size, key_hashes[i])
        elif status != WOULD_BLOCK:
            found[i].pin = NULL
            break
    for k in range(kept):
        i = wanted[k]
        if statuses[i] != OK:
            if statuses[i] != WOULD_BLOCK:
                break
            continue
        statuses[i] = block_get(
            found[i].pin.data, found[i].pin.size, keys[i], key_hashes[i], tag,
            &found[i].tag, &found[i].value,
        )
        if statuses[i] != OK:
            found_release(&found[i])
            if statuses[i] == CORRUPTION:
                status = table_damaged(
                    table, "a block is damaged", table.index.slots[places[i]].offset, failure
                )
    return OK if status == WOULD_BLOCK else status


cdef int get_each(
    Table* table, const Slice* keys, const uint64_t* key_hashes, int count, uint64_t seqno,
    bint may_block, bint fill_cache, Found* found, int* statuses, Failure* failure
) noexcept nogil:
    """table_get_many of a table that is not resident."""
    cdef int i
    for i in range(count):
        if statuses[i] == NOT_FOUND:
            statuses[i] = table_get(
                table, keys[i], key_hashes[i], seqno, may_block, fill_cache, &found[i], failure
            )
            if statuses[i] != OK and statuses[i] != NOT_FOUND and statuses[i] != WOULD_BLOCK:
                return statuses[i]
    return OK


cdef int table_get_many(
    Table* table, const Slice* keys, const uint64_t* key_hashes, int count, uint64_t seqno,
    bint may_block, bint fill_cache, Found* found, int* statuses, Failure* failure
) noexcept nogil:
    cdef int start = 0
    cdef int size
    cdef int i
    cdef int status
    for i in range(count):
        if statuses[i] == NOT_FOUND:
            found[i].pin = NULL
    if unlikely(atomic_load(&table.loaded) != RESIDENT):
        status = make_ready(table, may_block, failure)
        if status != OK and status != WOULD_BLOCK:
            return status
        if status == WOULD_BLOCK or atomic_load(&table.loaded) != RESIDENT:
            return get_each(
                table, keys, key_hashes, count, seqno, may_block, fill_cache, found, statuses,
                failure,
            )
    while start < count:
        size = min(count - start, <int>GROUP_KEYS)
        status = get_group(
            table, keys + start, key_hashes + start, size, seqno, may_block, fill_cache,
            found + start, statuses + start, failure,
        )
        if status != OK:
            return status
        start += size
    return OK


# ----------------------------------------------------------------------------------- what else

cdef uint64_t table_offset_of(Table* table, Slice key) noexcept nogil:
    cdef uint64_t newest = ~<uint64_t>0
    cdef Failure ignored
    cdef IndexSlot slot
    cdef uint32_t i
    if table_file_load(table, &ignored) != OK:
        return 0
    if atomic_load(&table.loaded) == RESIDENT:
        return table.index.slots[index_find(&table.index, key, newest)].offset
    slot.offset = 0
    parts_locate(table, key, newest, True, &slot, &i, &ignored)
    return slot.offset


cdef int table_source(
    Table* table, bint fill_cache, bint readahead, Source* out, Failure* failure
) noexcept nogil:
    return source_open(table, fill_cache, readahead, out, failure)


cdef int table_verify(Table* table, Failure* failure) noexcept nogil:
    return verify_table(table, failure)


cdef int table_read_properties(
    Table* table, uint8_t** data, size_t* size, Failure* failure
) noexcept nogil:
    size[0] = table_section_bytes(table, &table.properties_section)
    return table_section(table, &table.properties_section, data, failure)


cdef int table_read_info(
    Table* table, TableInfo* info, uint64_t* tree_id, uint64_t* level, Failure* failure
) noexcept nogil:
    cdef Properties properties
    cdef uint8_t* data = NULL
    cdef int status
    memset(info, 0, sizeof(TableInfo))
    status = table_file_properties(table, &data, &properties, failure)
    if status != OK:
        return status
    tree_id[0] = properties.tree_id
    level[0] = properties.level
    info.file_id = table.file_id
    info.file_bytes = table.file_bytes
    info.unique_id = table.unique_id
    info.entries = properties.entries
    info.deletions = properties.deletions
    info.min_seqno = properties.min_seqno
    info.max_seqno = properties.max_seqno
    info.raw_bytes = properties.raw_bytes
    info.smallest_size = properties.smallest.size
    info.largest_size = properties.largest.size
    info.smallest = <uint8_t*>malloc(info.smallest_size + 1)
    info.largest = <uint8_t*>malloc(info.largest_size + 1)
    if info.smallest == NULL or info.largest == NULL:
        table_info_free(info)
        free(data)
        return fail(failure, NO_MEMORY, "no memory for a table's keys", table.path, -1, 0)
    if info.smallest_size:
        memcpy(info.smallest, properties.smallest.data, info.smallest_size)
    if info.largest_size:
        memcpy(info.largest, properties.largest.data, info.largest_size)
    free(data)
    return OK
