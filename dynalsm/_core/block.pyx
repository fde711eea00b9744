# Prefix-compressed blocks (see block.pxd for the layout and the contracts).
#
# The search never rebuilds keys. While it walks a run of entries it keeps `matched`, the number of
# leading bytes the wanted key has in common with the entry before, which is smaller than the wanted
# key. The next entry shares exactly `shared` bytes with that entry, hence:
#   shared > matched   it differs from the wanted key where the one before did: still smaller
#   shared < matched   it is greater than the one before at a byte where that equals the wanted: greater
#   shared = matched   only the suffixes have to be compared.
#
# Invariants: (1) offsets handed on are < entries_end; (2) parse_entry has checked that suffix and
# value lie before entries_end.

from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from dynalsm._core.bits cimport bytes_in_common, ctz64, likely, unlikely
from dynalsm._core.coding cimport (
    Slice,
    get_u32,
    get_u64,
    get_varint,
    prefetch,
    put_u32,
    put_varint,
    slice_of,
)
from dynalsm._core.status cimport CORRUPTION, END, NO_MEMORY, NOT_FOUND, OK


cdef enum:
    FIRST_BLOCK_BYTES = 4608         # a default block without growing
    FIRST_KEY_BYTES = 64
    HEADER_BYTES_MAX = 40            # four varints
    PREFETCHED_RUNS = 16             # more runs than this are searched without fetching all ahead

cdef size_t BLOCK_BYTES_MAX = <size_t>0x7FFFFFFF
cdef uint64_t HIGH_BITS = <uint64_t>0x8080808080808080


# ---------------------------------------------------------------------------------------- builder

cdef int block_builder_init(BlockBuilder* builder, uint32_t interval) noexcept nogil:
    memset(builder, 0, sizeof(BlockBuilder))
    builder.interval = min(max(interval, 1), <uint32_t>RESTART_INTERVAL_MAX)
    builder.capacity = FIRST_BLOCK_BYTES
    builder.restart_capacity = 64
    builder.last_key_capacity = FIRST_KEY_BYTES
    builder.data = <uint8_t*>malloc(builder.capacity)
    builder.restarts = <uint32_t*>malloc(builder.restart_capacity * sizeof(uint32_t))
    builder.last_key = <uint8_t*>malloc(builder.last_key_capacity)
    if builder.data == NULL or builder.restarts == NULL or builder.last_key == NULL:
        block_builder_free(builder)
        return NO_MEMORY
    return OK


cdef void block_builder_free(BlockBuilder* builder) noexcept nogil:
    free(builder.data)
    free(builder.restarts)
    free(builder.last_key)
    memset(builder, 0, sizeof(BlockBuilder))


cdef void block_builder_reset(BlockBuilder* builder) noexcept nogil:
    builder.size = 0
    builder.restart_count = 0
    builder.since_restart = 0
    builder.entries = 0
    builder.last_key_size = 0


cdef int grow_bytes(uint8_t** data, size_t* capacity, size_t wanted) noexcept nogil:
    """Make room for `wanted` bytes in all."""
    cdef size_t larger = capacity[0] + capacity[0] // 2
    cdef uint8_t* moved
    if larger < wanted:
        larger = wanted
    moved = <uint8_t*>realloc(data[0], larger)
    if moved == NULL:
        return NO_MEMORY
    data[0] = moved
    capacity[0] = larger
    return OK


cdef int add_restart(BlockBuilder* builder) noexcept nogil:
    cdef uint32_t* moved
    if builder.restart_count == builder.restart_capacity:
        moved = <uint32_t*>realloc(
            builder.restarts, 2 * <size_t>builder.restart_capacity * sizeof(uint32_t)
        )
        if moved == NULL:
            return NO_MEMORY
        builder.restarts = moved
        builder.restart_capacity *= 2
    builder.restarts[builder.restart_count] = <uint32_t>builder.size
    builder.restart_count += 1
    builder.since_restart = 0
    return OK


cdef int block_builder_add(
    BlockBuilder* builder, Slice key, uint64_t tag, Slice value
) noexcept nogil:
    cdef size_t shared = 0
    cdef size_t unshared
    cdef size_t wanted
    cdef size_t shorter
    cdef uint8_t* target
    wanted = builder.size + HEADER_BYTES_MAX + key.size + value.size
    if wanted > BLOCK_BYTES_MAX - 4 * (<size_t>builder.restart_count + 2):
        return NO_MEMORY
    if wanted > builder.capacity and grow_bytes(&builder.data, &builder.capacity, wanted):
        return NO_MEMORY
    if key.size > builder.last_key_capacity and grow_bytes(
        &builder.last_key, &builder.last_key_capacity, key.size
    ):
        return NO_MEMORY
    if (
        builder.restart_count == 0
        or builder.since_restart >= builder.interval
        or builder.size - builder.restarts[builder.restart_count - 1] >= RESTART_BYTES
    ):
        if add_restart(builder):
            return NO_MEMORY
    else:
        shorter = key.size if key.size < builder.last_key_size else builder.last_key_size
        shared = bytes_in_common(key.data, builder.last_key, shorter)
    unshared = key.size - shared
    target = builder.data + builder.size
    target = put_varint(target, shared)
    target = put_varint(target, unshared)
    target = put_varint(target, value.size)
    target = put_varint(target, tag)
    if unshared:
        memcpy(target, key.data + shared, unshared)
        memcpy(builder.last_key + shared, key.data + shared, unshared)
    if value.size:
        memcpy(target + unshared, value.data, value.size)
    builder.size = <size_t>(target - builder.data) + unshared + value.size
    builder.last_key_size = key.size
    builder.since_restart += 1
    builder.entries += 1
    return OK


cdef size_t block_builder_bytes(BlockBuilder* builder) noexcept nogil:
    return builder.size + 4 * <size_t>builder.restart_count + 4


cdef int block_builder_finish(BlockBuilder* builder) noexcept nogil:
    cdef size_t wanted = block_builder_bytes(builder)
    cdef size_t restarts_bytes = 4 * <size_t>builder.restart_count
    if wanted > builder.capacity and grow_bytes(&builder.data, &builder.capacity, wanted):
        return NO_MEMORY
    memcpy(builder.data + builder.size, builder.restarts, restarts_bytes)
    put_u32(builder.data + builder.size + restarts_bytes, builder.restart_count)
    builder.size = wanted
    return OK


# ---------------------------------------------------------------------------------------- entries

cdef struct Entry:
    size_t shared
    size_t unshared
    uint64_t tag
    const uint8_t* suffix        # unshared bytes
    Slice value


cdef inline uint64_t packed_varint(uint64_t word, uint64_t stop) noexcept nogil:
    """The varint in the low bytes of `word`; `stop` has the high bit of its last byte set."""
    word &= stop ^ (stop - 1)
    word &= <uint64_t>0x7F7F7F7F7F7F7F7F
    word = (word & <uint64_t>0x007F007F007F007F) | ((word & <uint64_t>0x7F007F007F007F00) >> 1)
    word = (word & <uint64_t>0x00003FFF00003FFF) | ((word & <uint64_t>0x3FFF00003FFF0000) >> 2)
    return (word & <uint64_t>0x000000000FFFFFFF) | ((word & <uint64_t>0x0FFFFFFF00000000) >> 4)


cdef const uint8_t* parse_slowly(
    const uint8_t* at, const uint8_t* limit, Entry* entry
) noexcept nogil:
    cdef uint64_t shared, unshared, value_size
    at = get_varint(at, limit, &shared)
    if at == NULL:
        return NULL
    at = get_varint(at, limit, &unshared)
    if at == NULL:
        return NULL
    at = get_varint(at, limit, &value_size)
    if at == NULL:
        return NULL
    at = get_varint(at, limit, &entry.tag)
    if at == NULL or unshared > <size_t>(limit - at):
        return NULL
    if value_size > <size_t>(limit - at) - unshared:
        return NULL
    entry.shared = shared
    entry.unshared = unshared
    entry.suffix = at
    entry.value.data = at + unshared
    entry.value.size = value_size
    return at + unshared + value_size


cdef inline const uint8_t* parse_entry(
    const uint8_t* at, const uint8_t* limit, Entry* entry
) noexcept nogil:
    """Take the entry at `at` apart. Returns: the byte behind it, or NULL when it is damaged."""
    cdef const uint8_t* start = at
    cdef uint64_t word, stop
    cdef size_t shared, unshared, value_size
    if unlikely(limit - at < 20):
        return parse_slowly(at, limit, entry)
    word = get_u64(at)
    if unlikely((word & 0x8080) != 0):
        return parse_slowly(at, limit, entry)
    shared = word & 0x7F
    unshared = (word >> 8) & 0x7F
    value_size = (word >> 16) & 0x7F
    at += 3
    if (word & 0x800000) != 0:
        value_size |= (word >> 17) & 0x3F80
        at += 1
        if unlikely((word & <uint64_t>0x80000000) != 0):
            return parse_slowly(start, limit, entry)
    word = get_u64(at)
    stop = ~word & HIGH_BITS
    if unlikely(stop == 0):
        return parse_slowly(start, limit, entry)
    entry.tag = packed_varint(word, stop)
    at += (ctz64(stop) >> 3) + 1
    if unlikely(unshared + value_size > <size_t>(limit - at)):
        return NULL
    entry.shared = shared
    entry.unshared = unshared
    entry.suffix = at
    entry.value.data = at + unshared
    entry.value.size = value_size
    return at + unshared + value_size


# ----------------------------------------------------------------------------------------- search

cdef struct Layout:
    const uint8_t* entries_end
    const uint8_t* restarts      # u32 each, anywhere in memory
    uint32_t restart_count


cdef inline int read_layout(const uint8_t* data, size_t size, Layout* layout) noexcept nogil:
    """Find the restart array. Returns: OK, END (no entries) or CORRUPTION."""
    cdef size_t count
    if size < 4:
        return CORRUPTION
    count = get_u32(data + size - 4)
    if count > (size - 4) // 4:
        return CORRUPTION
    layout.restart_count = <uint32_t>count
    layout.restarts = data + (size - 4 - 4 * count)
    layout.entries_end = layout.restarts
    if count == 0:
        return END if size == 4 else CORRUPTION
    if layout.restarts == data or get_u32(layout.restarts) != 0:
        return CORRUPTION
    return OK


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


cdef inline const uint8_t* restart_at(
    const uint8_t* data, const Layout* layout, uint32_t index
) noexcept nogil:
    """Returns: where the run starts, or NULL when its offset is damaged."""
    cdef size_t offset = get_u32(layout.restarts + 4 * <size_t>index)
    if unlikely(offset >= <size_t>(layout.entries_end - data)):
        return NULL
    return data + offset


# Returns: the order of the restart's entry against (key, tag) in *order; the byte behind the entry.
cdef inline const uint8_t* compare_restart(
    const uint8_t* at, const Layout* layout, Slice key, uint64_t tag, Entry* entry, int* order
) noexcept nogil:
    cdef const uint8_t* behind = parse_entry(at, layout.entries_end, entry)
    cdef size_t common
    if unlikely(behind == NULL or entry.shared != 0):
        return NULL
    order[0] = suffix_order(entry.suffix, entry.unshared, key.data, key.size, &common)
    if order[0] == 0:
        # A higher tag is newer and comes first; 2 marks an entry of this very key.
        order[0] = -1 if entry.tag > tag else 2
    return behind


# Finds the first entry at or after (key, tag). *is_key: it has this very key. Its whole key is
# key[:entry.shared] + suffix. Returns: OK, END or CORRUPTION.
cdef inline int find_entry(
    const uint8_t* data, size_t size, Slice key, uint64_t tag,
    Entry* entry, const uint8_t** at, const uint8_t** behind, bint* is_key
) noexcept nogil:
    cdef Layout layout
    cdef const uint8_t* here
    cdef const uint8_t* after
    cdef const uint8_t* stop
    cdef size_t matched = 0
    cdef size_t common
    cdef uint32_t low = 0
    cdef uint32_t high
    cdef uint32_t middle
    cdef int order = read_layout(data, size, &layout)
    if unlikely(order != OK):
        return order
    # The last run that starts before the wanted entry (or the first run).
    high = layout.restart_count - 1
    if high < PREFETCHED_RUNS:
        for middle in range(1, high + 1):
            prefetch(data + get_u32(layout.restarts + 4 * <size_t>middle))
    while low < high:
        middle = (low + high + 1) >> 1
        here = restart_at(data, &layout, middle)
        if unlikely(here == NULL):
            return CORRUPTION
        if unlikely(compare_restart(here, &layout, key, tag, entry, &order) == NULL):
            return CORRUPTION
        if order < 0:
            low = middle
        else:
            high = middle - 1
    here = restart_at(data, &layout, low)
    stop = layout.entries_end
    if low + 1 < layout.restart_count:
        stop = restart_at(data, &layout, low + 1)
    if unlikely(here == NULL or stop == NULL):
        return CORRUPTION
    # Walk the run (see the top of this file).
    while here < stop:
        after = parse_entry(here, layout.entries_end, entry)
        if unlikely(after == NULL):
            return CORRUPTION
        if entry.shared == matched:
            order = suffix_order(
                entry.suffix, entry.unshared, key.data + matched, key.size - matched, &common
            )
            if order >= 0:
                is_key[0] = order == 0
                if order > 0 or entry.tag <= tag:
                    at[0] = here
                    behind[0] = after
                    return OK
            matched += common
        elif entry.shared < matched:
            is_key[0] = False
            at[0] = here
            behind[0] = after
            return OK
        here = after
    if stop == layout.entries_end:
        return END if here == stop else CORRUPTION
    # The next run's first entry is at or after the wanted one: that is how `low` was chosen.
    if unlikely(here != stop):
        return CORRUPTION
    after = compare_restart(stop, &layout, key, tag, entry, &order)
    if unlikely(after == NULL or order < 0):
        return CORRUPTION
    is_key[0] = order == 2
    at[0] = stop
    behind[0] = after
    return OK


cdef int block_get(
    const uint8_t* data, size_t size, Slice key, uint64_t tag, uint64_t* found_tag, Slice* value
) noexcept nogil:
    cdef Entry entry
    cdef const uint8_t* at
    cdef const uint8_t* behind
    cdef bint is_key = False
    cdef int status = find_entry(data, size, key, tag, &entry, &at, &behind, &is_key)
    if status != OK:
        return status
    if not is_key:
        return NOT_FOUND
    found_tag[0] = entry.tag
    value[0] = entry.value
    return OK


# ----------------------------------------------------------------------------------------- cursor

cdef void block_cursor_init(BlockCursor* cursor) noexcept nogil:
    memset(cursor, 0, sizeof(BlockCursor))


cdef void block_cursor_free(BlockCursor* cursor) noexcept nogil:
    free(cursor.key_buffer)
    free(cursor.group)
    free(cursor.group_keys)
    memset(cursor, 0, sizeof(BlockCursor))


cdef int block_cursor_open(BlockCursor* cursor, const uint8_t* data, size_t size) noexcept nogil:
    cdef Layout layout
    cdef int status = read_layout(data, size, &layout)
    cursor.in_group = False
    cursor.restart_count = 0
    cursor.entries_end = 0
    cursor.position = 0
    cursor.next_position = 0
    cursor.key = slice_of(NULL, 0)
    cursor.value = slice_of(NULL, 0)
    if status == CORRUPTION:
        return CORRUPTION
    cursor.data = data
    cursor.size = size
    cursor.restart_count = layout.restart_count
    cursor.entries_end = <size_t>(layout.entries_end - data)
    return OK


cdef inline int place(
    BlockCursor* cursor, Slice head, const Entry* entry, size_t position, size_t next_position
) noexcept nogil:
    """Make `entry` current; its key is head[:shared] + suffix. REQUIRES: head.size >= shared."""
    cdef size_t size = entry.shared + entry.unshared
    cdef bint copies_head = head.data != NULL and head.data != cursor.key_buffer
    if unlikely(size > cursor.key_capacity):
        if grow_bytes(&cursor.key_buffer, &cursor.key_capacity, size + FIRST_KEY_BYTES):
            return NO_MEMORY
    if copies_head and entry.shared:
        memcpy(cursor.key_buffer, head.data, entry.shared)
    if entry.unshared:
        memcpy(cursor.key_buffer + entry.shared, entry.suffix, entry.unshared)
    cursor.key.data = cursor.key_buffer
    cursor.key.size = size
    cursor.tag = entry.tag
    cursor.value = entry.value
    cursor.position = position
    cursor.next_position = next_position
    cursor.in_group = False
    return OK


cdef int block_cursor_first(BlockCursor* cursor) noexcept nogil:
    cdef Entry entry
    cdef const uint8_t* behind
    if cursor.entries_end == 0:
        return END
    behind = parse_entry(cursor.data, cursor.data + cursor.entries_end, &entry)
    if behind == NULL or entry.shared:
        return CORRUPTION
    return place(cursor, slice_of(NULL, 0), &entry, 0, <size_t>(behind - cursor.data))


cdef int leave_group(BlockCursor* cursor) noexcept nogil:
    """Move the current key to key_buffer, where going forward builds on it."""
    if cursor.key.size > cursor.key_capacity:
        if grow_bytes(&cursor.key_buffer, &cursor.key_capacity, cursor.key.size + FIRST_KEY_BYTES):
            return NO_MEMORY
    if cursor.key.size:
        memcpy(cursor.key_buffer, cursor.key.data, cursor.key.size)
    cursor.key.data = cursor.key_buffer
    cursor.in_group = False
    return OK


cdef int block_cursor_next(BlockCursor* cursor) noexcept nogil:
    cdef Entry entry
    cdef const uint8_t* behind
    cdef size_t position = cursor.next_position
    if position >= cursor.entries_end:
        return END
    if unlikely(cursor.in_group) and leave_group(cursor):
        return NO_MEMORY
    behind = parse_entry(cursor.data + position, cursor.data + cursor.entries_end, &entry)
    if unlikely(behind == NULL or entry.shared > cursor.key.size):
        return CORRUPTION
    return place(cursor, slice_of(NULL, 0), &entry, position, <size_t>(behind - cursor.data))


cdef int block_cursor_seek(BlockCursor* cursor, Slice key, uint64_t tag) noexcept nogil:
    cdef Entry entry
    cdef const uint8_t* at
    cdef const uint8_t* behind
    cdef bint is_key
    cdef int status
    if cursor.entries_end == 0:
        return END
    status = find_entry(cursor.data, cursor.size, key, tag, &entry, &at, &behind, &is_key)
    if status != OK:
        return status
    return place(
        cursor, key, &entry, <size_t>(at - cursor.data), <size_t>(behind - cursor.data)
    )


# --------------------------------------------------------------------------------------- backwards

cdef int take_from_group(BlockCursor* cursor, uint32_t index) noexcept nogil:
    cdef GroupEntry* entry = cursor.group + index
    cursor.group_index = index
    cursor.in_group = True
    cursor.key.data = cursor.group_keys + entry.key_offset
    cursor.key.size = entry.key_size
    cursor.tag = entry.tag
    cursor.value = entry.value
    cursor.position = entry.position
    cursor.next_position = entry.next_position
    return OK


cdef int add_to_group(
    BlockCursor* cursor, uint32_t index, const Entry* entry, size_t* used
) noexcept nogil:
    """Append the entry's whole key to group_keys and remember where it is."""
    cdef GroupEntry* moved
    cdef GroupEntry* slot
    cdef size_t size = entry.shared + entry.unshared
    cdef size_t previous = 0
    if index == cursor.group_capacity:
        moved = <GroupEntry*>realloc(
            cursor.group, (2 * <size_t>cursor.group_capacity + 16) * sizeof(GroupEntry)
        )
        if moved == NULL:
            return NO_MEMORY
        cursor.group = moved
        cursor.group_capacity = 2 * cursor.group_capacity + 16
    if used[0] + size > cursor.group_keys_capacity:
        if grow_bytes(&cursor.group_keys, &cursor.group_keys_capacity, used[0] + size + 512):
            return NO_MEMORY
    if index:
        slot = cursor.group + index - 1
        if entry.shared > slot.key_size:
            return CORRUPTION
        previous = slot.key_offset
    elif entry.shared:
        return CORRUPTION
    slot = cursor.group + index
    if entry.shared:
        memcpy(cursor.group_keys + used[0], cursor.group_keys + previous, entry.shared)
    if entry.unshared:
        memcpy(cursor.group_keys + used[0] + entry.shared, entry.suffix, entry.unshared)
    slot.key_offset = used[0]
    slot.key_size = size
    slot.tag = entry.tag
    slot.value = entry.value
    used[0] += size
    return OK


cdef int decode_group(BlockCursor* cursor, size_t position, size_t stop) noexcept nogil:
    """Decode the run from `position` up to `stop` exactly and make its last entry current."""
    cdef Entry entry
    cdef const uint8_t* behind
    cdef size_t used = 0
    cdef uint32_t count = 0
    cdef int status
    cursor.in_group = False
    while position < stop:
        if count == RESTART_INTERVAL_MAX:
            return CORRUPTION
        behind = parse_entry(cursor.data + position, cursor.data + cursor.entries_end, &entry)
        if behind == NULL:
            return CORRUPTION
        status = add_to_group(cursor, count, &entry, &used)
        if status != OK:
            return status
        cursor.group[count].position = position
        position = <size_t>(behind - cursor.data)
        cursor.group[count].next_position = position
        count += 1
    if position != stop or count == 0:
        return CORRUPTION
    return take_from_group(cursor, count - 1)


cdef int group_before(BlockCursor* cursor, size_t stop) noexcept nogil:
    """Make the entry that ends at `stop` current. REQUIRES: 0 < stop <= entries_end."""
    cdef const uint8_t* restarts = cursor.data + cursor.entries_end
    cdef uint32_t low = 0
    cdef uint32_t high = cursor.restart_count - 1
    cdef uint32_t middle
    while low < high:
        middle = (low + high + 1) >> 1
        if get_u32(restarts + 4 * <size_t>middle) < stop:
            low = middle
        else:
            high = middle - 1
    return decode_group(cursor, get_u32(restarts + 4 * <size_t>low), stop)


cdef int block_cursor_last(BlockCursor* cursor) noexcept nogil:
    if cursor.entries_end == 0:
        return END
    return group_before(cursor, cursor.entries_end)


cdef int block_cursor_prev(BlockCursor* cursor) noexcept nogil:
    if cursor.position == 0:
        return END
    if cursor.in_group and cursor.group_index > 0:
        return take_from_group(cursor, cursor.group_index - 1)
    return group_before(cursor, cursor.position)


cdef int block_cursor_seek_back(BlockCursor* cursor, Slice key, uint64_t tag) noexcept nogil:
    cdef Entry entry
    cdef const uint8_t* at
    cdef const uint8_t* behind
    cdef bint is_key = False
    cdef int status
    if cursor.entries_end == 0:
        return END
    status = find_entry(cursor.data, cursor.size, key, tag, &entry, &at, &behind, &is_key)
    if status == END:
        return group_before(cursor, cursor.entries_end)
    if status != OK:
        return status
    if is_key and entry.tag == tag:
        return place(
            cursor, key, &entry, <size_t>(at - cursor.data), <size_t>(behind - cursor.data)
        )
    if at == cursor.data:
        return END
    return group_before(cursor, <size_t>(at - cursor.data))
