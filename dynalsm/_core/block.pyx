# Blocks of entries (see block.pxd for the layout and the contracts).
#
# The search never rebuilds keys. Say the first key of a group is smaller than the wanted key and
# has `matched` leading bytes in common with it. Another entry of the group shares exactly `shared`
# bytes with that first key and is not smaller than it, hence:
#   shared > matched   it differs from the wanted key where the first key did: still smaller
#   shared < matched   it is greater than the first key where that equals the wanted: greater
#   shared = matched   only its suffix has to be compared with the rest of the wanted key.
# An entry with shared = 0 has its whole key and is compared with all of the wanted one.

from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy, memset

from dynalsm._core.bits cimport bytes_in_common, ctz64, likely, unlikely
from dynalsm._core.block_entry cimport (
    HIGH_BITS,
    LOW_BITS,
    ONES,
    Entry,
    Layout,
    offset_of,
    parse_at,
    parse_entry,
    read_layout,
)
from dynalsm._core.coding cimport Slice, get_u64, prefetch, slice_of
from dynalsm._core.status cimport CORRUPTION, END, NO_MEMORY, NOT_FOUND, OK


cdef enum:
    FIRST_KEY_BYTES = 64
    PREFETCHED_GROUPS = 16           # more groups than this are searched without fetching all ahead
    CACHE_LINE_BYTES = 64


# ----------------------------------------------------------------------------------------- search

cdef inline int suffix_order(
    const uint8_t* suffix, size_t suffix_size, const uint8_t* rest, size_t rest_size, size_t* common
) noexcept nogil:
    """Compare an entry's suffix with what is left of the wanted key. Returns: <0, 0, >0."""
    cdef size_t shorter = suffix_size if suffix_size < rest_size else rest_size
    cdef size_t agree = bytes_in_common(suffix, rest, shorter)
    common[0] = agree
    if agree < shorter:
        return -1 if suffix[agree] < rest[agree] else 1
    return (suffix_size > rest_size) - (suffix_size < rest_size)


# Parses the first entry of a group. *order: of it against (key, tag), where 2 says that it comes
# at or after and has this very key; *common: leading bytes in common with the key. Returns: NULL
# if damaged.
cdef inline const uint8_t* compare_first(
    const Layout* layout, uint32_t group, Slice key, uint64_t tag,
    Entry* entry, int* order, size_t* common
) noexcept nogil:
    cdef const uint8_t* behind = parse_at(layout, group << layout.interval_shift, entry)
    if unlikely(behind == NULL or entry.shared != 0):
        return NULL
    order[0] = suffix_order(entry.suffix, entry.unshared, key.data, key.size, common)
    if order[0] == 0:
        # A higher tag is newer and comes first.
        order[0] = -1 if entry.tag > tag else 2
    return behind


cdef inline void prefetch_entries(
    const Layout* layout, uint32_t first, uint32_t last, uint32_t step
) noexcept nogil:
    cdef uint32_t i = first
    while i <= last:
        # An offset that is damaged is only prefetched, which is harmless.
        prefetch(layout.data + offset_of(layout.offsets, layout.is_wide, i))
        i += step


# Finds the first entry at or after (key, tag): its index, whether it has this very key, and the
# byte behind it. Its whole key is key[:entry.shared] + suffix. Returns: OK, END or CORRUPTION.
cdef int find_entry(
    const Layout* layout, Slice key, uint64_t tag,
    Entry* entry, uint32_t* index, bint* is_key, const uint8_t** behind
) noexcept nogil:
    cdef uint32_t low = 0
    cdef uint32_t high = (layout.count - 1) >> layout.interval_shift
    cdef uint32_t middle
    cdef uint32_t i
    cdef uint32_t end
    cdef size_t matched
    cdef size_t common
    cdef int order
    # The last group whose first entry comes before the wanted one (or the first group).
    if high < PREFETCHED_GROUPS:
        prefetch_entries(layout, 0, layout.count - 1, <uint32_t>1 << layout.interval_shift)
    while low < high:
        middle = (low + high + 1) >> 1
        if unlikely(compare_first(layout, middle, key, tag, entry, &order, &common) == NULL):
            return CORRUPTION
        if order < 0:
            low = middle
        else:
            high = middle - 1
    i = low << layout.interval_shift
    end = min(i + (<uint32_t>1 << layout.interval_shift), layout.count)
    prefetch_entries(layout, i + 1, min(end, i + PREFETCHED_GROUPS) - 1, 1)
    behind[0] = compare_first(layout, low, key, tag, entry, &order, &matched)
    if unlikely(behind[0] == NULL):
        return CORRUPTION
    if order < 0:
        # Walk the group (see the top of this file).
        i += 1
        while i < end:
            behind[0] = parse_at(layout, i, entry)
            if unlikely(behind[0] == NULL):
                return CORRUPTION
            if entry.shared == matched or entry.shared == 0:
                order = suffix_order(
                    entry.suffix, entry.unshared,
                    key.data + entry.shared, key.size - entry.shared, &common,
                )
                if order > 0 or (order == 0 and entry.tag <= tag):
                    order = 2 if order == 0 else 1
                    break
            elif entry.shared < matched:
                order = 1
                break
            i += 1
        if i == end:
            if end == layout.count:
                return END
            # The next group's first entry comes at or after the wanted one: `low` was chosen so.
            behind[0] = compare_first(layout, low + 1, key, tag, entry, &order, &common)
            if unlikely(behind[0] == NULL or order < 0):
                return CORRUPTION
    index[0] = i
    is_key[0] = order == 2
    return OK


# Whether entry `index` has this very key. Returns: OK, NOT_FOUND or CORRUPTION.
cdef inline int is_entry_of(
    const Layout* layout, uint32_t index, Slice key, Entry* entry
) noexcept nogil:
    cdef Entry first
    cdef uint32_t group = (index >> layout.interval_shift) << layout.interval_shift
    prefetch(layout.data + offset_of(layout.offsets, layout.is_wide, group))
    if unlikely(parse_at(layout, index, entry) == NULL):
        return CORRUPTION
    if (
        entry.shared + entry.unshared != key.size
        or (
            entry.unshared
            and memcmp(entry.suffix, key.data + entry.shared, entry.unshared) != 0
        )
    ):
        return NOT_FOUND
    if entry.shared:
        if unlikely(
            parse_at(layout, group, &first) == NULL
            or first.shared != 0 or first.unshared < entry.shared
        ):
            return CORRUPTION
        if memcmp(first.suffix, key.data, entry.shared) != 0:
            return NOT_FOUND
    return OK


cdef inline uint64_t hash_word(const Layout* layout, uint32_t i) noexcept nogil:
    """Eight hash bytes from the i-th on; what lies beyond the last one is of no account."""
    cdef uint64_t word = 0
    if likely(i + 4 < layout.count):
        return get_u64(layout.hash_bytes + i)
    # The four bytes of the block's last word lie behind the last hash byte.
    memcpy(&word, layout.hash_bytes + i, 4)
    return word


cdef inline uint64_t equal_bytes(uint64_t a, uint64_t b) noexcept nogil:
    """The high bit of each byte that is the same in both."""
    cdef uint64_t word = a ^ b
    return ~(((word & LOW_BITS) + LOW_BITS) | word) & HIGH_BITS


cdef int block_get(
    const uint8_t* data, size_t size, Slice key, uint64_t key_hash, uint64_t tag,
    uint64_t* found_tag, Slice* value
) noexcept nogil:
    cdef Layout layout
    cdef Entry entry
    cdef uint64_t wanted = (key_hash >> 56) * ONES
    cdef uint64_t equal
    cdef uint32_t at
    cdef uint32_t i = 0
    cdef int status = read_layout(data, size, &layout)
    if unlikely(status != OK):
        return NOT_FOUND if status == END else CORRUPTION
    while i < layout.count:
        equal = equal_bytes(wanted, hash_word(&layout, i))
        while equal:
            at = i + (ctz64(equal) >> 3)
            equal &= equal - 1
            if at >= layout.count:
                break
            status = is_entry_of(&layout, at, key, &entry)
            if unlikely(status == CORRUPTION):
                return CORRUPTION
            if status == OK and entry.tag <= tag:
                found_tag[0] = entry.tag
                value[0] = entry.value
                return OK
        i += 8
    return NOT_FOUND


cdef void block_prefetch_entry(
    const uint8_t* data, size_t size, uint64_t key_hash
) noexcept nogil:
    cdef Layout layout
    cdef uint64_t equal
    cdef uint32_t at
    cdef uint32_t i = 0
    if read_layout(data, size, &layout) != OK:
        return
    while i < layout.count:
        equal = equal_bytes((key_hash >> 56) * ONES, hash_word(&layout, i))
        if equal:
            at = i + (ctz64(equal) >> 3)
            if at < layout.count:
                prefetch(data + offset_of(layout.offsets, layout.is_wide, at))
                at = (at >> layout.interval_shift) << layout.interval_shift
                prefetch(data + offset_of(layout.offsets, layout.is_wide, at))
            return
        i += 8


cdef void block_prefetch(const uint8_t* data, size_t size) noexcept nogil:
    prefetch(data + size - 4)
    prefetch(data + size - CACHE_LINE_BYTES)
    prefetch(data + size - 2 * CACHE_LINE_BYTES)


# ----------------------------------------------------------------------------------------- cursor

cdef void block_cursor_init(BlockCursor* cursor) noexcept nogil:
    memset(cursor, 0, sizeof(BlockCursor))


cdef void block_cursor_free(BlockCursor* cursor) noexcept nogil:
    free(cursor.key_buffer)
    memset(cursor, 0, sizeof(BlockCursor))


cdef int block_cursor_open(BlockCursor* cursor, const uint8_t* data, size_t size) noexcept nogil:
    cdef Layout layout
    cdef int status = read_layout(data, size, &layout)
    cursor.count = 0
    cursor.index = 0
    cursor.entries_end = 0
    cursor.next_position = 0
    cursor.key = slice_of(NULL, 0)
    cursor.value = slice_of(NULL, 0)
    if status == CORRUPTION:
        return CORRUPTION
    cursor.data = data
    cursor.size = size
    cursor.count = layout.count
    cursor.interval_mask = (<uint32_t>1 << layout.interval_shift) - 1
    cursor.is_wide = layout.is_wide
    cursor.entries_end = <size_t>(layout.entries_end - data)
    return OK


cdef inline void layout_of(const BlockCursor* cursor, Layout* layout) noexcept nogil:
    """The layout again, from what block_cursor_open has checked."""
    layout.data = cursor.data
    layout.entries_end = cursor.data + cursor.entries_end
    layout.offsets = layout.entries_end
    layout.hash_bytes = cursor.data + cursor.size - 4 - cursor.count
    layout.count = cursor.count
    layout.interval_shift = ctz64(<uint64_t>cursor.interval_mask + 1)
    layout.is_wide = cursor.is_wide


cdef int grow_key(BlockCursor* cursor, size_t size) noexcept nogil:
    """Room for a key of that size; what is in key_buffer stays."""
    cdef uint8_t* larger = <uint8_t*>realloc(cursor.key_buffer, size + FIRST_KEY_BYTES)
    if larger == NULL:
        return NO_MEMORY
    cursor.key_buffer = larger
    cursor.key_capacity = size + FIRST_KEY_BYTES
    return OK


cdef inline int place(
    BlockCursor* cursor, const uint8_t* head, const Entry* entry, uint32_t index,
    const uint8_t* behind
) noexcept nogil:
    """Make `entry` current: its key is head[:shared] + suffix. head NULL: key_buffer has it."""
    cdef size_t size = entry.shared + entry.unshared
    if unlikely(size > cursor.key_capacity):
        if head == cursor.key_buffer:
            head = NULL
        if grow_key(cursor, size):
            return NO_MEMORY
    if head != NULL and entry.shared and head != cursor.key_buffer:
        memcpy(cursor.key_buffer, head, entry.shared)
    if entry.unshared:
        memcpy(cursor.key_buffer + entry.shared, entry.suffix, entry.unshared)
    cursor.key.data = cursor.key_buffer
    cursor.key.size = size
    cursor.tag = entry.tag
    cursor.value = entry.value
    cursor.index = index
    cursor.next_position = <size_t>(behind - cursor.data)
    return OK


cdef int go_to(BlockCursor* cursor, uint32_t index) noexcept nogil:
    """Make entry `index` current. REQUIRES: index < count."""
    cdef Layout layout
    cdef Entry entry
    cdef Entry first
    cdef const uint8_t* behind
    layout_of(cursor, &layout)
    behind = parse_at(&layout, index, &entry)
    if unlikely(behind == NULL):
        return CORRUPTION
    if entry.shared == 0:
        return place(cursor, NULL, &entry, index, behind)
    if unlikely(
        parse_at(&layout, index & ~cursor.interval_mask, &first) == NULL
        or first.shared != 0 or first.unshared < entry.shared
    ):
        return CORRUPTION
    return place(cursor, first.suffix, &entry, index, behind)


cdef int block_cursor_first(BlockCursor* cursor) noexcept nogil:
    if cursor.count == 0:
        return END
    return go_to(cursor, 0)


cdef int block_cursor_last(BlockCursor* cursor) noexcept nogil:
    if cursor.count == 0:
        return END
    return go_to(cursor, cursor.count - 1)


cdef int block_cursor_next(BlockCursor* cursor) noexcept nogil:
    cdef Entry entry
    cdef const uint8_t* behind
    cdef uint32_t index = cursor.index + 1
    if unlikely(index >= cursor.count):
        return END
    if unlikely(cursor.next_position >= cursor.entries_end):
        return CORRUPTION
    behind = parse_entry(
        cursor.data + cursor.next_position, cursor.data + cursor.entries_end, &entry
    )
    # What is shared with the group's first key is shared with the key before as well: the keys
    # ascend, so key_buffer still begins with it.
    if unlikely(
        behind == NULL or entry.shared > cursor.key.size
        or (entry.shared != 0 and (index & cursor.interval_mask) == 0)
    ):
        return CORRUPTION
    return place(cursor, NULL, &entry, index, behind)


cdef int block_cursor_prev(BlockCursor* cursor) noexcept nogil:
    if cursor.index == 0:
        return END
    return go_to(cursor, cursor.index - 1)


cdef int block_cursor_seek(BlockCursor* cursor, Slice key, uint64_t tag) noexcept nogil:
    cdef Layout layout
    cdef Entry entry
    cdef const uint8_t* behind
    cdef uint32_t index
    cdef bint is_key
    cdef int status
    if cursor.count == 0:
        return END
    layout_of(cursor, &layout)
    status = find_entry(&layout, key, tag, &entry, &index, &is_key, &behind)
    if status != OK:
        return status
    return place(cursor, key.data, &entry, index, behind)


cdef int block_cursor_seek_back(BlockCursor* cursor, Slice key, uint64_t tag) noexcept nogil:
    cdef Layout layout
    cdef Entry entry
    cdef const uint8_t* behind
    cdef uint32_t index
    cdef bint is_key
    cdef int status
    if cursor.count == 0:
        return END
    layout_of(cursor, &layout)
    status = find_entry(&layout, key, tag, &entry, &index, &is_key, &behind)
    if status == END:
        return go_to(cursor, cursor.count - 1)
    if status != OK:
        return status
    if is_key and entry.tag == tag:
        return place(cursor, key.data, &entry, index, behind)
    if index == 0:
        return END
    return go_to(cursor, index - 1)
