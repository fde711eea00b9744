# Blocks of entries (see block.pxd for the layout and the contracts).
#
# The search never rebuilds keys. Say the first key of a group is smaller than the wanted key and has
# `matched` leading bytes in common with it. Another entry of the group shares exactly `shared` bytes
# with that first key and is not smaller than it, hence:
#   shared > matched   it differs from the wanted key where the first key did: still smaller
#   shared < matched   it is greater than the first key at a byte where that equals the wanted: greater
#   shared = matched   only its suffix has to be compared with the rest of the wanted key.
# An entry with shared = 0 has its whole key and is compared with all of the wanted one.
#
# Invariants: (1) offsets handed on are < entries_end; (2) parse_entry has checked that suffix and
# value lie before entries_end.

from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

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
from dynalsm._core.hashing cimport hash64
from dynalsm._core.status cimport CORRUPTION, END, NO_MEMORY, NOT_FOUND, OK


cdef enum:
    FIRST_BLOCK_BYTES = 4608         # a default block without growing
    FIRST_KEY_BYTES = 64
    FIRST_ENTRIES = 64
    HEADER_BYTES_MAX = 40            # four varints
    NARROW_BYTES_MAX = 0x10000       # entries up to here have u16 offsets
    INTERVAL_SHIFT_MAX = 8
    SHARED_MIN = 4                   # fewer bytes are not worth fetching the group's first entry
    WIDE_BIT = 1 << 28
    PREFETCHED_GROUPS = 16           # more groups than this are searched without fetching all ahead
    CACHE_LINE_BYTES = 64

cdef extern from *:
    """
    #define DYNALSM_BLOCK_BYTES_MAX ((size_t)0x7FFFFFFF)
    #define DYNALSM_HIGH_BITS 0x8080808080808080ull
    #define DYNALSM_LOW_BITS 0x7F7F7F7F7F7F7F7Full
    #define DYNALSM_ONES 0x0101010101010101ull
    """
    size_t BLOCK_BYTES_MAX "DYNALSM_BLOCK_BYTES_MAX"
    uint64_t HIGH_BITS "DYNALSM_HIGH_BITS"
    uint64_t LOW_BITS "DYNALSM_LOW_BITS"
    uint64_t ONES "DYNALSM_ONES"


# ---------------------------------------------------------------------------------------- builder

cdef int block_builder_init(BlockBuilder* builder, uint32_t interval) noexcept nogil:
    memset(builder, 0, sizeof(BlockBuilder))
    while (
        builder.interval_shift < INTERVAL_SHIFT_MAX
        and (<uint32_t>1 << builder.interval_shift) < interval
    ):
        builder.interval_shift += 1
    builder.capacity = FIRST_BLOCK_BYTES
    builder.offset_capacity = FIRST_ENTRIES
    builder.first_key_capacity = FIRST_KEY_BYTES
    builder.data = <uint8_t*>malloc(builder.capacity)
    builder.offsets = <uint32_t*>malloc(builder.offset_capacity * sizeof(uint32_t))
    builder.hash_bytes = <uint8_t*>malloc(builder.offset_capacity)
    builder.first_key = <uint8_t*>malloc(builder.first_key_capacity)
    if (
        builder.data == NULL or builder.offsets == NULL
        or builder.hash_bytes == NULL or builder.first_key == NULL
    ):
        block_builder_free(builder)
        return NO_MEMORY
    return OK


cdef void block_builder_free(BlockBuilder* builder) noexcept nogil:
    free(builder.data)
    free(builder.offsets)
    free(builder.hash_bytes)
    free(builder.first_key)
    memset(builder, 0, sizeof(BlockBuilder))


cdef void block_builder_reset(BlockBuilder* builder) noexcept nogil:
    builder.size = 0
    builder.entries = 0
    builder.first_key_size = 0


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


cdef int grow_offsets(BlockBuilder* builder) noexcept nogil:
    cdef size_t wanted = 2 * <size_t>builder.offset_capacity
    cdef uint32_t* offsets = <uint32_t*>realloc(builder.offsets, wanted * sizeof(uint32_t))
    cdef uint8_t* hash_bytes
    if offsets == NULL:
        return NO_MEMORY
    builder.offsets = offsets
    hash_bytes = <uint8_t*>realloc(builder.hash_bytes, wanted)
    if hash_bytes == NULL:
        return NO_MEMORY
    builder.hash_bytes = hash_bytes
    builder.offset_capacity = <uint32_t>wanted
    return OK


cdef int block_builder_add(
    BlockBuilder* builder, Slice key, uint64_t tag, Slice value
) noexcept nogil:
    return block_builder_add_hashed(builder, key, hash64(key.data, key.size), tag, value)


cdef int block_builder_add_hashed(
    BlockBuilder* builder, Slice key, uint64_t key_hash, uint64_t tag, Slice value
) noexcept nogil:
    cdef size_t shared = 0
    cdef size_t unshared
    cdef size_t wanted = builder.size + HEADER_BYTES_MAX + key.size + value.size
    cdef size_t shorter
    cdef uint8_t* target
    if wanted > BLOCK_BYTES_MAX - 5 * (<size_t>builder.entries + 2):
        return NO_MEMORY
    if wanted > builder.capacity and grow_bytes(&builder.data, &builder.capacity, wanted):
        return NO_MEMORY
    if builder.entries == builder.offset_capacity and (
        builder.entries >= BLOCK_ENTRIES_MAX or grow_offsets(builder)
    ):
        return NO_MEMORY
    if builder.entries & ((<uint32_t>1 << builder.interval_shift) - 1):
        shorter = key.size if key.size < builder.first_key_size else builder.first_key_size
        shared = bytes_in_common(key.data, builder.first_key, shorter)
        if shared < SHARED_MIN:
            shared = 0
    else:
        if key.size > builder.first_key_capacity and grow_bytes(
            &builder.first_key, &builder.first_key_capacity, key.size
        ):
            return NO_MEMORY
        if key.size:
            memcpy(builder.first_key, key.data, key.size)
        builder.first_key_size = key.size
    unshared = key.size - shared
    target = builder.data + builder.size
    target = put_varint(target, shared)
    target = put_varint(target, unshared)
    target = put_varint(target, value.size)
    target = put_varint(target, tag)
    if unshared:
        memcpy(target, key.data + shared, unshared)
    if value.size:
        memcpy(target + unshared, value.data, value.size)
    builder.offsets[builder.entries] = <uint32_t>builder.size
    builder.hash_bytes[builder.entries] = <uint8_t>(key_hash >> 56)
    builder.entries += 1
    builder.size = <size_t>(target - builder.data) + unshared + value.size
    return OK


cdef size_t block_builder_bytes(BlockBuilder* builder) noexcept nogil:
    cdef size_t per_entry = 3 if builder.size <= NARROW_BYTES_MAX else 5
    return builder.size + per_entry * builder.entries + 4


cdef int block_builder_finish(BlockBuilder* builder) noexcept nogil:
    cdef size_t wanted = block_builder_bytes(builder)
    cdef bint is_wide = builder.size > NARROW_BYTES_MAX
    cdef uint8_t* target
    cdef uint32_t i
    if wanted > builder.capacity and grow_bytes(&builder.data, &builder.capacity, wanted):
        return NO_MEMORY
    target = builder.data + builder.size
    for i in range(builder.entries):
        if is_wide:
            put_u32(target, builder.offsets[i])
            target += 4
        else:
            target[0] = <uint8_t>builder.offsets[i]
            target[1] = <uint8_t>(builder.offsets[i] >> 8)
            target += 2
    memcpy(target, builder.hash_bytes, builder.entries)
    put_u32(
        target + builder.entries,
        builder.entries | (builder.interval_shift << 24) | (WIDE_BIT if is_wide else 0),
    )
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
    word &= LOW_BITS
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
    const uint8_t* data
    const uint8_t* entries_end
    const uint8_t* offsets
    const uint8_t* hash_bytes
    uint32_t count
    uint32_t interval_shift
    bint is_wide


cdef inline int read_layout(const uint8_t* data, size_t size, Layout* layout) noexcept nogil:
    """Find what follows the entries. Returns: OK, END (no entries) or CORRUPTION."""
    cdef uint32_t word
    cdef size_t count
    cdef size_t behind
    if unlikely(size < 4):
        return CORRUPTION
    word = get_u32(data + size - 4)
    count = word & BLOCK_ENTRIES_MAX
    layout.data = data
    layout.count = <uint32_t>count
    layout.interval_shift = (word >> 24) & 15
    layout.is_wide = (word & WIDE_BIT) != 0
    behind = count * (5 if layout.is_wide else 3) + 4
    if unlikely(
        (word >> 29) or layout.interval_shift > INTERVAL_SHIFT_MAX or behind > size
    ):
        return CORRUPTION
    layout.hash_bytes = data + size - 4 - count
    layout.entries_end = data + size - behind
    layout.offsets = layout.entries_end
    if unlikely(count == 0):
        return END if size == 4 and word < WIDE_BIT else CORRUPTION
    return OK


cdef inline size_t offset_of(const uint8_t* offsets, bint is_wide, uint32_t index) noexcept nogil:
    if unlikely(is_wide):
        return get_u32(offsets + 4 * <size_t>index)
    return offsets[2 * <size_t>index] | <size_t>offsets[2 * <size_t>index + 1] << 8


cdef inline const uint8_t* parse_at(
    const Layout* layout, uint32_t index, Entry* entry
) noexcept nogil:
    """Take entry `index` apart. Returns: the byte behind it, or NULL when it is damaged."""
    cdef size_t offset = offset_of(layout.offsets, layout.is_wide, index)
    if unlikely(offset >= <size_t>(layout.entries_end - layout.data)):
        return NULL
    return parse_entry(layout.data + offset, layout.entries_end, entry)


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


# Parses the first entry of a group. *order: of it against (key, tag), where 2 says that it comes at or
# after and has this very key; *common: leading bytes in common with the key. Returns: NULL if damaged.
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


# Finds the first entry at or after (key, tag): its index, whether it has this very key, and the byte
# behind it. Its whole key is key[:entry.shared] + suffix. Returns: OK, END or CORRUPTION.
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


cdef inline int place(
    BlockCursor* cursor, const uint8_t* head, const Entry* entry, uint32_t index,
    const uint8_t* behind
) noexcept nogil:
    """Make `entry` current: its key is head[:shared] + suffix. head NULL: key_buffer has it."""
    cdef size_t size = entry.shared + entry.unshared
    if unlikely(size > cursor.key_capacity):
        if head == cursor.key_buffer:
            head = NULL
        if grow_bytes(&cursor.key_buffer, &cursor.key_capacity, size + FIRST_KEY_BYTES):
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
