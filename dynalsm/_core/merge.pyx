# Sources composed (see merge.pxd for the contracts).

from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from dynalsm._core.coding cimport Slice, key_prefix, slice_compare, slice_equal, slice_of
from dynalsm._core.debug cimport scribble
from dynalsm._core.memtable cimport RangeList, range_list_covering, range_list_free
from dynalsm._core.source cimport KIND_DELETE, KIND_SEEK, Source, SourceOps
from dynalsm._core.status cimport END, NO_MEMORY, OK, Failure, fail


# ----------------------------------------------------------------------------------------- merge

# A binary heap of the children that stand on an entry: the smallest on top going forward, the
# largest going backward. Each heap place keeps the first eight key bytes as an integer.
cdef struct MergeCursor:
    Source* children         # owned
    int count
    int* heap                # indexes of children
    uint64_t* prefixes       # by child
    int heap_size
    bint forward


cdef inline bint goes_first(const MergeCursor* cursor, int a, int b) noexcept nogil:
    cdef const Source* left = &cursor.children[a]
    cdef const Source* right = &cursor.children[b]
    cdef int order
    if cursor.prefixes[a] != cursor.prefixes[b]:
        return (cursor.prefixes[a] < cursor.prefixes[b]) == cursor.forward
    order = slice_compare(left.key, right.key)
    if order == 0:
        order = (left.tag < right.tag) - (left.tag > right.tag)
    return order < 0 if cursor.forward else order > 0


cdef inline void sift_down(MergeCursor* cursor, int place) noexcept nogil:
    cdef int* heap = cursor.heap
    cdef int child
    cdef int moving = heap[place]
    while True:
        child = 2 * place + 1
        if child >= cursor.heap_size:
            break
        if child + 1 < cursor.heap_size and goes_first(cursor, heap[child + 1], heap[child]):
            child += 1
        if not goes_first(cursor, heap[child], moving):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = moving


cdef inline void publish_top(Source* source, MergeCursor* cursor) noexcept nogil:
    cdef Source* top
    if cursor.heap_size == 0:
        source.status = END
        return
    top = &cursor.children[cursor.heap[0]]
    source.status = OK
    source.key = top.key
    source.tag = top.tag
    source.value = top.value


cdef void build_heap(Source* source, MergeCursor* cursor, bint forward) noexcept nogil:
    cdef int index
    cdef Source* child
    cursor.forward = forward
    cursor.heap_size = 0
    for index in range(cursor.count):
        child = &cursor.children[index]
        if child.status == OK:
            cursor.prefixes[index] = key_prefix(child.key, 0)
            cursor.heap[cursor.heap_size] = index
            cursor.heap_size += 1
        elif child.status != END:
            source.status = child.status
            cursor.heap_size = 0
            return
    for index in range(cursor.heap_size // 2 - 1, -1, -1):
        sift_down(cursor, index)
    publish_top(source, cursor)


cdef void merge_first(Source* source, bint may_block, Failure* failure) noexcept nogil:
    cdef MergeCursor* cursor = <MergeCursor*>source.state
    cdef int index
    for index in range(cursor.count):
        cursor.children[index].ops.first(&cursor.children[index], may_block, failure)
    build_heap(source, cursor, True)


cdef void merge_last(Source* source, bint may_block, Failure* failure) noexcept nogil:
    cdef MergeCursor* cursor = <MergeCursor*>source.state
    cdef int index
    for index in range(cursor.count):
        cursor.children[index].ops.last(&cursor.children[index], may_block, failure)
    build_heap(source, cursor, False)


cdef void merge_seek(
    Source* source, Slice key, uint64_t tag, bint may_block, Failure* failure
) noexcept nogil:
    cdef MergeCursor* cursor = <MergeCursor*>source.state
    cdef int index
    for index in range(cursor.count):
        cursor.children[index].ops.seek(&cursor.children[index], key, tag, may_block, failure)
    build_heap(source, cursor, True)


cdef void merge_seek_back(
    Source* source, Slice key, uint64_t tag, bint may_block, Failure* failure
) noexcept nogil:
    cdef MergeCursor* cursor = <MergeCursor*>source.state
    cdef int index
    for index in range(cursor.count):
        cursor.children[index].ops.seek_back(&cursor.children[index], key, tag, may_block, failure)
    build_heap(source, cursor, False)


cdef void turn(
    Source* source, MergeCursor* cursor, bint forward, bint may_block, Failure* failure
) noexcept nogil:
    """Change direction: every child but the one on top goes to its neighbour of the entry."""
    cdef int index
    cdef int current = cursor.heap[0]
    cdef Source* top = &cursor.children[current]
    cdef Source* child
    for index in range(cursor.count):
        if index == current:
            continue
        child = &cursor.children[index]
        # No other child holds an equal (key, tag), save a record replayed twice: step over it.
        if forward:
            child.ops.seek(child, top.key, top.tag, may_block, failure)
            if child.status == OK and child.tag == top.tag and slice_equal(child.key, top.key):
                child.ops.next(child, may_block, failure)
        else:
            child.ops.seek_back(child, top.key, top.tag, may_block, failure)
            if child.status == OK and child.tag == top.tag and slice_equal(child.key, top.key):
                child.ops.prev(child, may_block, failure)
    if forward:
        top.ops.next(top, may_block, failure)
    else:
        top.ops.prev(top, may_block, failure)
    build_heap(source, cursor, forward)


cdef inline void advance(
    Source* source, MergeCursor* cursor, bint may_block, Failure* failure
) noexcept nogil:
    cdef int index = cursor.heap[0]
    cdef Source* top = &cursor.children[index]
    if cursor.forward:
        top.ops.next(top, may_block, failure)
    else:
        top.ops.prev(top, may_block, failure)
    if top.status == OK:
        cursor.prefixes[index] = key_prefix(top.key, 0)
    elif top.status == END:
        cursor.heap_size -= 1
        cursor.heap[0] = cursor.heap[cursor.heap_size]
    else:
        source.status = top.status
        cursor.heap_size = 0
        return
    if cursor.heap_size > 1:
        sift_down(cursor, 0)
    publish_top(source, cursor)


cdef void merge_next(Source* source, bint may_block, Failure* failure) noexcept nogil:
    cdef MergeCursor* cursor = <MergeCursor*>source.state
    if cursor.forward:
        advance(source, cursor, may_block, failure)
    else:
        turn(source, cursor, True, may_block, failure)


cdef void merge_prev(Source* source, bint may_block, Failure* failure) noexcept nogil:
    cdef MergeCursor* cursor = <MergeCursor*>source.state
    if cursor.forward:
        turn(source, cursor, False, may_block, failure)
    else:
        advance(source, cursor, may_block, failure)


cdef void close_children(Source* children, int count) noexcept nogil:
    cdef int index
    for index in range(count):
        children[index].ops.close(&children[index])


cdef void merge_close(Source* source) noexcept nogil:
    cdef MergeCursor* cursor = <MergeCursor*>source.state
    if cursor == NULL:
        return
    close_children(cursor.children, cursor.count)
    free(cursor.children)
    free(cursor.heap)
    free(cursor.prefixes)
    free(cursor)
    source.state = NULL


cdef SourceOps MERGE_OPS
MERGE_OPS.first = merge_first
MERGE_OPS.last = merge_last
MERGE_OPS.seek = merge_seek
MERGE_OPS.seek_back = merge_seek_back
MERGE_OPS.next = merge_next
MERGE_OPS.prev = merge_prev
MERGE_OPS.close = merge_close


cdef int merge_source(Source* children, int count, Source* out, Failure* failure) noexcept nogil:
    cdef MergeCursor* cursor
    if count == 1:
        out[0] = children[0]         # nothing to merge: the child itself
        return OK
    cursor = <MergeCursor*>calloc(1, sizeof(MergeCursor))
    if cursor != NULL:
        cursor.children = <Source*>malloc((count + 1) * sizeof(Source))
        cursor.heap = <int*>malloc((count + 1) * sizeof(int))
        cursor.prefixes = <uint64_t*>malloc((count + 1) * sizeof(uint64_t))
    if (
        cursor == NULL or cursor.children == NULL or cursor.heap == NULL
        or cursor.prefixes == NULL
    ):
        if cursor != NULL:
            free(cursor.children)
            free(cursor.heap)
            free(cursor.prefixes)
            free(cursor)
        close_children(children, count)
        return fail(failure, NO_MEMORY, "no memory for a cursor", NULL, -1, 0)
    memcpy(cursor.children, children, count * sizeof(Source))
    cursor.count = count
    cursor.forward = True
    memset(out, 0, sizeof(Source))
    out.status = END
    out.state = cursor
    out.ops = &MERGE_OPS
    return OK


# ------------------------------------------------------------------------------------------ copy

cdef int copy_bytes(Copy* copy, Slice bytes) noexcept nogil:
    cdef uint8_t* data
    cdef size_t capacity
    if bytes.size > copy.capacity or copy.data == NULL:
        capacity = copy.capacity * 2
        if capacity < bytes.size + 32:
            capacity = bytes.size + 32
        data = <uint8_t*>realloc(copy.data, capacity)
        if data == NULL:
            return NO_MEMORY
        copy.data = data
        copy.capacity = capacity
    scribble(copy.data + bytes.size, copy.capacity - bytes.size)
    memcpy(copy.data, bytes.data, bytes.size)
    copy.size = bytes.size
    return OK


cdef void copy_free(Copy* copy) noexcept nogil:
    free(copy.data)
    copy.data = NULL
    copy.size = 0
    copy.capacity = 0


cdef inline Slice copied(const Copy* copy) noexcept nogil:
    return slice_of(copy.data, copy.size)


# ------------------------------------------------------------------------------------------ scan

cdef int scan_init(
    Scan* scan, Source* merged, RangeList* ranges, uint64_t snapshot, Slice lower, Slice upper,
    Failure* failure
) noexcept nogil:
    memset(scan, 0, sizeof(Scan))
    scan.merged = merged[0]
    scan.ranges = ranges[0]
    scan.snapshot = snapshot
    scan.status = END
    scan.has_lower = lower.data != NULL
    scan.has_upper = upper.data != NULL
    if (scan.has_lower and copy_bytes(&scan.lower, lower)) or (
        scan.has_upper and copy_bytes(&scan.upper, upper)
    ):
        scan_close(scan)
        return fail(failure, NO_MEMORY, "no memory for a cursor", NULL, -1, 0)
    return OK


cdef void scan_close(Scan* scan) noexcept nogil:
    if scan.merged.state != NULL:
        scan.merged.ops.close(&scan.merged)
        scan.merged.state = NULL
    range_list_free(&scan.ranges)
    copy_free(&scan.lower)
    copy_free(&scan.upper)
    copy_free(&scan.saved_key)
    copy_free(&scan.saved_value)
    scan.status = END


cdef inline bint is_live(const Scan* scan, Slice key, uint64_t tag) noexcept nogil:
    if tag & 0xFF == KIND_DELETE:
        return False
    if scan.ranges.count:
        return range_list_covering(&scan.ranges, key, scan.snapshot) <= tag >> 8
    return True


cdef void no_memory(Scan* scan, Failure* failure) noexcept nogil:
    scan.status = fail(failure, NO_MEMORY, "no memory for a key", NULL, -1, 0)


cdef void find_forward(
    Scan* scan, bint skip_saved, bint may_block, Failure* failure
) noexcept nogil:
    """From where `merged` stands: the first live key; with skip_saved not the saved one."""
    cdef Source* merged = &scan.merged
    cdef const SourceOps* ops = merged.ops
    while merged.status == OK:
        if scan.has_upper and slice_compare(merged.key, copied(&scan.upper)) >= 0:
            scan.status = END
            return
        if merged.tag >> 8 <= scan.snapshot:
            if not (skip_saved and slice_equal(merged.key, copied(&scan.saved_key))):
                if copy_bytes(&scan.saved_key, merged.key):
                    no_memory(scan, failure)
                    return
                if is_live(scan, merged.key, merged.tag):
                    scan.status = OK
                    scan.key = merged.key
                    scan.value = merged.value
                    return
                skip_saved = True
        ops.next(merged, may_block, failure)
    scan.status = merged.status


cdef void find_backward(Scan* scan, bint may_block, Failure* failure) noexcept nogil:
    """From where `merged` stands going back: the last live key. Versions come oldest first."""
    cdef Source* merged = &scan.merged
    cdef const SourceOps* ops = merged.ops
    cdef bint have = False           # saved_key holds a key whose versions are being collected
    cdef bint live = False           # the newest visible version so far is saved_value
    while merged.status == OK:
        if have and not slice_equal(merged.key, copied(&scan.saved_key)):
            if live:
                break
            have = False
        if scan.has_lower and slice_compare(merged.key, copied(&scan.lower)) < 0:
            break
        if merged.tag >> 8 <= scan.snapshot:
            if not have:
                if copy_bytes(&scan.saved_key, merged.key):
                    no_memory(scan, failure)
                    return
                have = True
            live = is_live(scan, merged.key, merged.tag)
            if live and copy_bytes(&scan.saved_value, merged.value):
                no_memory(scan, failure)
                return
        ops.prev(merged, may_block, failure)
    if merged.status != OK and merged.status != END:
        scan.status = merged.status
    elif have and live:
        scan.status = OK
        scan.key = copied(&scan.saved_key)
        scan.value = copied(&scan.saved_value)
    else:
        scan.status = END


cdef void scan_first(Scan* scan, bint may_block, Failure* failure) noexcept nogil:
    scan.forward = True
    if scan.has_lower:
        scan.merged.ops.seek(
            &scan.merged, copied(&scan.lower), seek_tag(scan), may_block, failure
        )
    else:
        scan.merged.ops.first(&scan.merged, may_block, failure)
    find_forward(scan, False, may_block, failure)


cdef inline uint64_t seek_tag(const Scan* scan) noexcept nogil:
    return scan.snapshot << 8 | KIND_SEEK


cdef void before_key(Scan* scan, Slice key, bint may_block, Failure* failure) noexcept nogil:
    """`merged` to the last entry whose key is below `key`."""
    # The newest possible version of `key` sorts first among its versions: nothing lies between.
    scan.merged.ops.seek_back(&scan.merged, key, <uint64_t>-1, may_block, failure)


cdef void scan_last(Scan* scan, bint may_block, Failure* failure) noexcept nogil:
    scan.forward = False
    if scan.has_upper:
        before_key(scan, copied(&scan.upper), may_block, failure)
    else:
        scan.merged.ops.last(&scan.merged, may_block, failure)
    find_backward(scan, may_block, failure)


cdef void scan_seek(Scan* scan, Slice key, bint may_block, Failure* failure) noexcept nogil:
    if scan.has_lower and slice_compare(key, copied(&scan.lower)) < 0:
        scan_first(scan, may_block, failure)
        return
    scan.forward = True
    scan.merged.ops.seek(&scan.merged, key, seek_tag(scan), may_block, failure)
    find_forward(scan, False, may_block, failure)


cdef void scan_seek_back(Scan* scan, Slice key, bint may_block, Failure* failure) noexcept nogil:
    if scan.has_upper and slice_compare(key, copied(&scan.upper)) >= 0:
        scan_last(scan, may_block, failure)
        return
    scan.forward = False
    # Tag 0 sorts behind every version of the key: back from there lies its oldest version.
    scan.merged.ops.seek_back(&scan.merged, key, 0, may_block, failure)
    find_backward(scan, may_block, failure)


cdef void scan_next(Scan* scan, bint may_block, Failure* failure) noexcept nogil:
    if not scan.forward:
        # saved_key is the current key; go behind all its versions.
        scan.forward = True
        scan.merged.ops.seek(&scan.merged, copied(&scan.saved_key), 0, may_block, failure)
        find_forward(scan, True, may_block, failure)
        return
    scan.merged.ops.next(&scan.merged, may_block, failure)
    find_forward(scan, True, may_block, failure)


cdef void scan_prev(Scan* scan, bint may_block, Failure* failure) noexcept nogil:
    if scan.forward:
        scan.forward = False
        before_key(scan, copied(&scan.saved_key), may_block, failure)
    find_backward(scan, may_block, failure)
