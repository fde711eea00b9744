# An immutable set of SSTables per level of one partition (see version.pxd for the contracts).

from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from dynalsm._core.coding cimport Slice, slice_compare, slice_of
from dynalsm._core.memtable cimport RangeDelete, range_list_add, range_list_free
from dynalsm._core.source cimport Source, SourceOps
from dynalsm._core.sstable_reader cimport (
    Found,
    Table,
    table_get,
    table_get_many,
    table_offset_of,
    table_source,
    table_unref,
)
from dynalsm._core.sstable_writer cimport TableInfo, table_info_free
from dynalsm._core.status cimport END, NO_MEMORY, NOT_FOUND, OK, Failure, fail
from dynalsm._core.sync cimport atomic_add, atomic_sub


cdef enum:
    MANY_FILES = 16


# ----------------------------------------------------------------------------------------- files

cdef FileMeta* file_create(Table* table, const TableInfo* info, int level) noexcept nogil:
    cdef FileMeta* meta = <FileMeta*>calloc(1, sizeof(FileMeta))
    if meta != NULL:
        meta.references = 1
        meta.table = table
        meta.info = info[0]
        meta.level = level
    return meta


cdef void file_ref(FileMeta* meta) noexcept nogil:
    atomic_add(&meta.references, 1)


cdef void file_unref(FileMeta* meta) noexcept nogil:
    if atomic_sub(&meta.references, 1) == 0:
        table_unref(meta.table)
        table_info_free(&meta.info)
        free(meta)


cdef inline Slice smallest_of(const FileMeta* meta) noexcept nogil:
    return slice_of(meta.info.smallest, meta.info.smallest_size)


cdef inline Slice largest_of(const FileMeta* meta) noexcept nogil:
    return slice_of(meta.info.largest, meta.info.largest_size)


# -------------------------------------------------------------------------------------- versions

cdef Version* version_empty() noexcept nogil:
    cdef Version* version = <Version*>calloc(1, sizeof(Version))
    if version != NULL:
        version.references = 1
    return version


cdef void version_ref(Version* version) noexcept nogil:
    atomic_add(&version.references, 1)


cdef void version_unref(Version* version) noexcept nogil:
    cdef int level, index
    if version == NULL or atomic_sub(&version.references, 1):
        return
    for level in range(LEVELS):
        for index in range(version.counts[level]):
            file_unref(version.files[level][index])
        free(version.files[level])
    range_list_free(&version.ranges)
    free(version)


cdef inline bint comes_before(int level, const FileMeta* a, const FileMeta* b) noexcept nogil:
    if level == 0:
        return a.info.max_seqno > b.info.max_seqno
    return slice_compare(smallest_of(a), smallest_of(b)) < 0


cdef void insert_file(Version* version, FileMeta* meta) noexcept nogil:
    """REQUIRES: room in the level's array."""
    cdef int level = meta.level
    cdef int place = version.counts[level]
    cdef FileMeta** files = version.files[level]
    while place > 0 and comes_before(level, meta, files[place - 1]):
        files[place] = files[place - 1]
        place -= 1
    files[place] = meta
    version.counts[level] += 1
    file_ref(meta)


cdef Version* version_edit(
    const Version* base, FileMeta** added, int added_count, FileMeta** removed, int removed_count
) noexcept nogil:
    cdef Version* version = version_empty()
    cdef int level, index, other
    cdef bint gone
    cdef FileMeta* meta
    cdef RangeDelete* item
    cdef unsigned int position
    if version == NULL:
        return NULL
    for level in range(LEVELS):
        if base.counts[level] + added_count == 0:
            continue
        version.files[level] = <FileMeta**>malloc(
            (base.counts[level] + added_count) * sizeof(FileMeta*)
        )
        if version.files[level] == NULL:
            version_unref(version)
            return NULL
        for index in range(base.counts[level]):
            meta = base.files[level][index]
            gone = False
            for other in range(removed_count):
                if removed[other] == meta:
                    gone = True
                    break
            if not gone:
                version.files[level][version.counts[level]] = meta
                version.counts[level] += 1
                file_ref(meta)
    for index in range(added_count):
        insert_file(version, added[index])
    for position in range(base.ranges.count):
        item = &base.ranges.items[position]
        if range_list_add(
            &version.ranges, slice_of(item.lower, item.lower_size),
            slice_of(item.upper, item.upper_size), item.seqno
        ):
            version_unref(version)
            return NULL
    return version


cdef int version_find(const Version* version, int level, Slice key) noexcept nogil:
    cdef int low = 0
    cdef int high = version.counts[level]
    cdef int middle
    while low < high:
        middle = (low + high) >> 1
        if slice_compare(largest_of(version.files[level][middle]), key) < 0:
            low = middle + 1
        else:
            high = middle
    return low


cdef int version_get(
    const Version* version, Slice key, uint64_t key_hash, uint64_t seqno, bint may_block,
    bint fill_cache, Found* out, Failure* failure
) noexcept nogil:
    cdef int level, index, status
    cdef FileMeta* meta
    for index in range(version.counts[0]):
        meta = version.files[0][index]
        if (
            meta.info.min_seqno > seqno
            or slice_compare(key, smallest_of(meta)) < 0
            or slice_compare(key, largest_of(meta)) > 0
        ):
            continue
        status = table_get(
            meta.table, key, key_hash, seqno, may_block, fill_cache, out, failure
        )
        if status != NOT_FOUND:
            return status
    for level in range(1, LEVELS):
        if version.counts[level] == 0:
            continue
        index = version_find(version, level, key)
        if index == version.counts[level]:
            continue
        meta = version.files[level][index]
        if meta.info.min_seqno > seqno or slice_compare(key, smallest_of(meta)) < 0:
            continue
        status = table_get(
            meta.table, key, key_hash, seqno, may_block, fill_cache, out, failure
        )
        if status != NOT_FOUND:
            return status
    return NOT_FOUND


cdef int get_many_in(
    const FileMeta* meta, const Slice* keys, const uint64_t* key_hashes, int count,
    uint64_t seqno, bint fill_cache, Found* found, int* statuses, int* scratch, Failure* failure
) noexcept nogil:
    """The keys still NOT_FOUND that lie in the file's range. scratch: room for `count`."""
    cdef int index, status
    cdef bint any_key = False
    if meta.info.min_seqno > seqno:
        return OK
    for index in range(count):
        scratch[index] = END             # not asked for
        if (
            statuses[index] == NOT_FOUND
            and slice_compare(keys[index], smallest_of(meta)) >= 0
            and slice_compare(keys[index], largest_of(meta)) <= 0
        ):
            scratch[index] = NOT_FOUND
            any_key = True
    if not any_key:
        return OK
    status = table_get_many(
        meta.table, keys, key_hashes, count, seqno, False, fill_cache, found, scratch, failure
    )
    for index in range(count):
        if scratch[index] != END:
            statuses[index] = scratch[index]
    return status


cdef int version_get_many(
    const Version* version, const Slice* keys, const uint64_t* key_hashes, int count,
    uint64_t seqno, bint fill_cache, Found* found, int* statuses, int* scratch, Failure* failure
) noexcept nogil:
    cdef int level, index, place, status
    for level in range(LEVELS):
        if level and version.counts[level] > MANY_FILES:
            # So many files that hardly two keys meet in one: look each key up alone. Not in level
            # 0, whose files overlap.
            for index in range(count):
                if statuses[index] == NOT_FOUND:
                    place = version_find(version, level, keys[index])
                    if place < version.counts[level]:
                        status = get_many_in(
                            version.files[level][place], &keys[index], &key_hashes[index], 1,
                            seqno, fill_cache, &found[index], &statuses[index], scratch, failure
                        )
                        if status:
                            return status
            continue
        for place in range(version.counts[level]):
            status = get_many_in(
                version.files[level][place], keys, key_hashes, count, seqno, fill_cache, found,
                statuses, scratch, failure
            )
            if status:
                return status
    return OK


cdef uint64_t version_size_between(const Version* version, Slice lower, Slice upper) noexcept nogil:
    cdef uint64_t total = 0
    cdef uint64_t start, end
    cdef int level, index
    cdef FileMeta* meta
    for level in range(LEVELS):
        for index in range(version.counts[level]):
            meta = version.files[level][index]
            if lower.data != NULL and slice_compare(largest_of(meta), lower) < 0:
                continue
            if upper.data != NULL and slice_compare(smallest_of(meta), upper) >= 0:
                continue
            start = 0
            end = meta.info.file_bytes
            if lower.data != NULL and slice_compare(smallest_of(meta), lower) < 0:
                start = table_offset_of(meta.table, lower)
            if upper.data != NULL and slice_compare(largest_of(meta), upper) >= 0:
                end = table_offset_of(meta.table, upper)
            if end > start:
                total += end - start
    return total


# --------------------------------------------------------------------------------- level sources

# A level (or any run of files in key order) walked as one source; one table is open at a time.
cdef struct LevelCursor:
    FileMeta** files         # owned array of referenced files
    int count
    int index                # of the file `child` is over; meaningful while has_child
    bint has_child
    bint fill_cache
    bint readahead
    Source child


cdef void copy_child(Source* source, LevelCursor* cursor) noexcept nogil:
    source.status = cursor.child.status
    source.key = cursor.child.key
    source.tag = cursor.child.tag
    source.value = cursor.child.value


cdef int open_child(
    Source* source, LevelCursor* cursor, int index, Failure* failure
) noexcept nogil:
    cdef int status
    if cursor.has_child and cursor.index == index:
        return OK
    if cursor.has_child:
        cursor.child.ops.close(&cursor.child)
        cursor.has_child = False
    status = table_source(
        cursor.files[index].table, cursor.fill_cache, cursor.readahead, &cursor.child, failure
    )
    if status:
        source.status = status
        return status
    cursor.has_child = True
    cursor.index = index
    return OK


cdef void level_first(Source* source, bint may_block, Failure* failure) noexcept nogil:
    cdef LevelCursor* cursor = <LevelCursor*>source.state
    if cursor.count == 0:
        source.status = END
        return
    if open_child(source, cursor, 0, failure):
        return
    cursor.child.ops.first(&cursor.child, may_block, failure)
    copy_child(source, cursor)
    go_on(source, cursor, may_block, failure)


cdef void level_last(Source* source, bint may_block, Failure* failure) noexcept nogil:
    cdef LevelCursor* cursor = <LevelCursor*>source.state
    if cursor.count == 0:
        source.status = END
        return
    if open_child(source, cursor, cursor.count - 1, failure):
        return
    cursor.child.ops.last(&cursor.child, may_block, failure)
    copy_child(source, cursor)
    go_back(source, cursor, may_block, failure)


cdef void go_on(
    Source* source, LevelCursor* cursor, bint may_block, Failure* failure
) noexcept nogil:
    """Past the end of a file: on to the next ones."""
    while source.status == END and cursor.has_child and cursor.index + 1 < cursor.count:
        if open_child(source, cursor, cursor.index + 1, failure):
            return
        cursor.child.ops.first(&cursor.child, may_block, failure)
        copy_child(source, cursor)


cdef void go_back(
    Source* source, LevelCursor* cursor, bint may_block, Failure* failure
) noexcept nogil:
    while source.status == END and cursor.has_child and cursor.index > 0:
        if open_child(source, cursor, cursor.index - 1, failure):
            return
        cursor.child.ops.last(&cursor.child, may_block, failure)
        copy_child(source, cursor)


cdef int first_reaching(const LevelCursor* cursor, Slice key) noexcept nogil:
    """Index of the first file whose largest key is >= key."""
    cdef int low = 0
    cdef int high = cursor.count
    cdef int middle
    while low < high:
        middle = (low + high) >> 1
        if slice_compare(largest_of(cursor.files[middle]), key) < 0:
            low = middle + 1
        else:
            high = middle
    return low


cdef void level_seek(
    Source* source, Slice key, uint64_t tag, bint may_block, Failure* failure
) noexcept nogil:
    cdef LevelCursor* cursor = <LevelCursor*>source.state
    cdef int index = first_reaching(cursor, key)
    if index == cursor.count:
        source.status = END
        return
    if open_child(source, cursor, index, failure):
        return
    cursor.child.ops.seek(&cursor.child, key, tag, may_block, failure)
    copy_child(source, cursor)
    go_on(source, cursor, may_block, failure)


cdef void level_seek_back(
    Source* source, Slice key, uint64_t tag, bint may_block, Failure* failure
) noexcept nogil:
    cdef LevelCursor* cursor = <LevelCursor*>source.state
    cdef int index = first_reaching(cursor, key)
    if cursor.count == 0:
        source.status = END
        return
    if index == cursor.count:
        level_last(source, may_block, failure)
        return
    if open_child(source, cursor, index, failure):
        return
    cursor.child.ops.seek_back(&cursor.child, key, tag, may_block, failure)
    copy_child(source, cursor)
    go_back(source, cursor, may_block, failure)


cdef void level_next(Source* source, bint may_block, Failure* failure) noexcept nogil:
    cdef LevelCursor* cursor = <LevelCursor*>source.state
    cursor.child.ops.next(&cursor.child, may_block, failure)
    copy_child(source, cursor)
    if source.status == END:
        go_on(source, cursor, may_block, failure)


cdef void level_prev(Source* source, bint may_block, Failure* failure) noexcept nogil:
    cdef LevelCursor* cursor = <LevelCursor*>source.state
    cursor.child.ops.prev(&cursor.child, may_block, failure)
    copy_child(source, cursor)
    if source.status == END:
        go_back(source, cursor, may_block, failure)


cdef void level_close(Source* source) noexcept nogil:
    cdef LevelCursor* cursor = <LevelCursor*>source.state
    cdef int index
    if cursor == NULL:
        return
    if cursor.has_child:
        cursor.child.ops.close(&cursor.child)
    for index in range(cursor.count):
        file_unref(cursor.files[index])
    free(cursor.files)
    free(cursor)
    source.state = NULL


cdef SourceOps LEVEL_OPS
LEVEL_OPS.first = level_first
LEVEL_OPS.last = level_last
LEVEL_OPS.seek = level_seek
LEVEL_OPS.seek_back = level_seek_back
LEVEL_OPS.next = level_next
LEVEL_OPS.prev = level_prev
LEVEL_OPS.close = level_close


cdef int level_source(
    FileMeta** files, int count, bint fill_cache, bint readahead, Source* out, Failure* failure
) noexcept nogil:
    cdef LevelCursor* cursor = <LevelCursor*>calloc(1, sizeof(LevelCursor))
    cdef int index
    if cursor != NULL:
        cursor.files = <FileMeta**>malloc((count + 1) * sizeof(FileMeta*))
    if cursor == NULL or cursor.files == NULL:
        free(cursor)
        return fail(failure, NO_MEMORY, "no memory for a cursor", NULL, -1, 0)
    memcpy(cursor.files, files, count * sizeof(FileMeta*))
    for index in range(count):
        file_ref(files[index])
    cursor.count = count
    cursor.fill_cache = fill_cache
    cursor.readahead = readahead
    memset(out, 0, sizeof(Source))
    out.status = END
    out.state = cursor
    out.ops = &LEVEL_OPS
    return OK


cdef int version_source_count(const Version* version) noexcept nogil:
    cdef int level
    cdef int count = version.counts[0]
    for level in range(1, LEVELS):
        count += version.counts[level] > 0
    return count


cdef int version_sources(
    Version* version, bint fill_cache, bint readahead, Source* sources, int* count,
    Failure* failure
) noexcept nogil:
    cdef int level, index
    cdef int made = 0
    cdef int status = OK
    for index in range(version.counts[0]):
        # Through a level source: it holds the file's reference for as long as it is walked.
        status = level_source(
            &version.files[0][index], 1, fill_cache, readahead, &sources[made], failure
        )
        if status:
            break
        made += 1
    if status == OK:
        for level in range(1, LEVELS):
            if version.counts[level] == 0:
                continue
            status = level_source(
                version.files[level], version.counts[level], fill_cache, readahead,
                &sources[made], failure
            )
            if status:
                break
            made += 1
    if status:
        for index in range(made):
            sources[index].ops.close(&sources[index])
        made = 0
    count[0] = made
    return status
