# The inside of a block: taking an entry apart, and what follows the entries. Header only; the
# layout is described in block.pxd.
#
# Invariants: (1) what parse_entry returns lies in the entries, as do suffix and value; (2) a Layout
# that read_layout has filled in lies in the block.

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from dynalsm._core.bits cimport ctz64, unlikely
from dynalsm._core.block cimport BLOCK_ENTRIES_MAX, BLOCK_INTERVAL_SHIFT_MAX, BLOCK_WIDE_BIT
from dynalsm._core.coding cimport Slice, get_u32, get_u64, get_varint
from dynalsm._core.status cimport CORRUPTION, END, OK

cdef extern from *:
    """
    #define DYNALSM_HIGH_BITS 0x8080808080808080ull
    #define DYNALSM_LOW_BITS 0x7F7F7F7F7F7F7F7Full
    #define DYNALSM_ONES 0x0101010101010101ull
    """
    uint64_t HIGH_BITS "DYNALSM_HIGH_BITS"
    uint64_t LOW_BITS "DYNALSM_LOW_BITS"
    uint64_t ONES "DYNALSM_ONES"


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


cdef inline const uint8_t* parse_slowly(
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
    layout.is_wide = (word & BLOCK_WIDE_BIT) != 0
    behind = count * (5 if layout.is_wide else 3) + 4
    if unlikely(
        (word >> 29) or layout.interval_shift > BLOCK_INTERVAL_SHIFT_MAX or behind > size
    ):
        return CORRUPTION
    layout.hash_bytes = data + size - 4 - count
    layout.entries_end = data + size - behind
    layout.offsets = layout.entries_end
    if unlikely(count == 0):
        return END if size == 4 and word < BLOCK_WIDE_BIT else CORRUPTION
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
