# A table's index in memory (see sstable_index.pxd for the contracts).

from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memmove, memset

from dynalsm._core.bits cimport bytes_in_common, likely, unlikely
from dynalsm._core.coding cimport (
    Slice,
    clz64,
    get_varint,
    key_prefix,
    prefetch,
    slice_compare,
    slice_of,
)
from dynalsm._core.sstable_format cimport (
    BLOCK_LIMIT,
    TRAILER_BYTES,
    Bytes,
    bytes_append,
    bytes_free,
    bytes_reserve,
)
from dynalsm._core.status cimport CORRUPTION, NO_MEMORY, OK

cdef extern from "<stdlib.h>" nogil:
    int posix_memalign(void** result, size_t alignment, size_t size)

cdef extern from *:
    """
    static inline uint64_t dynalsm_high_product(uint64_t a, uint64_t b)
    { return (uint64_t)(((unsigned __int128)a * b) >> 64); }
    /* The largest factor with high_product(last, factor) < buckets. */
    static inline uint64_t dynalsm_scale_for(uint64_t buckets, uint64_t last)
    {
        unsigned __int128 scale = (unsigned __int128)buckets << 64;
        scale /= (unsigned __int128)last + 1;
        return scale >> 64 ? ~(uint64_t)0 : (uint64_t)scale;
    }
    """
    uint64_t high_product "dynalsm_high_product"(uint64_t a, uint64_t b) noexcept nogil
    uint64_t scale_for "dynalsm_scale_for"(uint64_t buckets, uint64_t last) noexcept nogil


cdef enum:
    CACHE_LINE_BYTES = 64
    ENTRY_BYTES_MIN = 4          # of an index entry: four one-byte varints
    BUCKETED_BLOCKS_MIN = 16     # below, the binary search is short anyway
    # Buckets must save this many steps of a binary search on average.
    SAVED_STEPS_MIN = 2
    # So many steps on average are even enough: no other function of the prefixes is tried.
    EVEN_STEPS = 3
    LINEAR_SEARCH_MAX = 8


# --------------------------------------------------------------------------------------- decoding

cdef void index_free(TableIndex* index) noexcept nogil:
    free(index.slots)
    free(index.prefixes)
    free(index.tags)
    free(index.key_ends)
    free(index.keys)
    free(index.common)
    free(index.buckets)
    memset(index, 0, sizeof(TableIndex))


cdef inline Slice separator(const TableIndex* index, uint32_t i) noexcept nogil:
    """Separator i behind what all separators share."""
    cdef uint64_t start = index.key_ends[i - 1] if i else 0
    return slice_of(index.keys + start, <size_t>(index.key_ends[i] - start))


cdef inline void copy_few(uint8_t* target, const uint8_t* source, size_t size) noexcept nogil:
    """memcpy of what is nearly always a handful of bytes."""
    cdef size_t i = 0
    while i + 8 <= size:
        memcpy(target + i, source + i, 8)
        i += 8
    while i < size:
        target[i] = source[i]
        i += 1


cdef int index_allocate(TableIndex* index, uint32_t count) noexcept nogil:
    cdef void* slots = NULL
    memset(index, 0, sizeof(TableIndex))
    index.count = count
    if posix_memalign(&slots, CACHE_LINE_BYTES, (<size_t>count + 1) * sizeof(IndexSlot)):
        return NO_MEMORY
    index.slots = <IndexSlot*>slots
    memset(slots, 0, (<size_t>count + 1) * sizeof(IndexSlot))
    index.prefixes = <uint64_t*>malloc((<size_t>count + 1) * sizeof(uint64_t))
    index.key_ends = <uint64_t*>malloc((<size_t>count + 1) * sizeof(uint64_t))
    if index.prefixes == NULL or index.key_ends == NULL:
        return NO_MEMORY
    return OK


cdef int index_keep_tag(TableIndex* index, uint32_t i, uint64_t tag) noexcept nogil:
    if tag == 0:
        return OK
    if index.tags == NULL:
        index.tags = <uint64_t*>calloc(index.count, sizeof(uint64_t))
        if index.tags == NULL:
            return NO_MEMORY
    index.tags[i] = tag
    return OK


cdef const uint8_t* index_parse(
    const uint8_t* at, const uint8_t* limit, IndexEntry* entry
) noexcept nogil:
    cdef uint64_t head, unshared, stored, raw
    entry.tag = 0
    at = get_varint(at, limit, &head)
    if at == NULL:
        return NULL
    at = get_varint(at, limit, &unshared)
    if at == NULL or unshared > <size_t>(limit - at):
        return NULL
    entry.shared = <size_t>(head >> 1)
    entry.suffix = slice_of(at, <size_t>unshared)
    at += unshared
    if head & 1:
        at = get_varint(at, limit, &entry.tag)
        if at == NULL or entry.tag == 0:
            return NULL
    at = get_varint(at, limit, &stored)
    if at == NULL:
        return NULL
    at = get_varint(at, limit, &raw)
    if at == NULL or stored > BLOCK_LIMIT or raw > BLOCK_LIMIT:
        return NULL
    entry.stored_size = <uint32_t>stored
    entry.raw_size = <uint32_t>raw
    return at


cdef bint index_ascends(Slice last, uint64_t last_tag, const IndexEntry* entry) noexcept nogil:
    if entry.suffix.size == 0:
        return entry.shared == last.size and entry.tag < last_tag
    if entry.shared >= last.size:
        return entry.shared == last.size
    return last.data[entry.shared] < entry.suffix.data[0]


# State of the decoder: the payload not yet read, and whole separators one after the other.
cdef struct Decoder:
    const uint8_t* at
    const uint8_t* limit
    Bytes keys
    size_t last_size             # of the last one of `keys`
    uint64_t last_tag
    bint is_first                # there is none before


cdef int decode_entry(TableIndex* index, uint32_t i, Decoder* decoder) noexcept nogil:
    cdef IndexEntry entry
    cdef size_t start = decoder.keys.size
    cdef size_t last_start = start - decoder.last_size
    cdef uint8_t* keys
    decoder.at = index_parse(decoder.at, decoder.limit, &entry)
    if decoder.at == NULL or entry.shared > decoder.last_size:
        return CORRUPTION
    if not decoder.is_first and not index_ascends(
        slice_of(decoder.keys.data + last_start, decoder.last_size), decoder.last_tag, &entry
    ):
        return CORRUPTION
    if start + entry.shared + entry.suffix.size > decoder.keys.capacity and bytes_reserve(
        &decoder.keys, entry.shared + entry.suffix.size
    ):
        return NO_MEMORY
    keys = decoder.keys.data
    copy_few(keys + start, keys + last_start, entry.shared)
    copy_few(keys + start + entry.shared, entry.suffix.data, entry.suffix.size)
    decoder.is_first = False
    decoder.last_size = entry.shared + entry.suffix.size
    decoder.last_tag = entry.tag
    decoder.keys.size = start + decoder.last_size
    index.key_ends[i] = decoder.keys.size
    index.slots[i].stored_size = entry.stored_size
    index.slots[i].raw_size = entry.raw_size
    index.slots[i + 1].offset = index.slots[i].offset + entry.stored_size + TRAILER_BYTES
    return index_keep_tag(index, i, entry.tag)


cdef int strip_common(TableIndex* index) noexcept nogil:
    """Take what all separators begin with out of each, and set their prefixes."""
    cdef Slice first = separator(index, 0)
    cdef Slice last = separator(index, index.count - 1)
    cdef size_t common = bytes_in_common(
        first.data, last.data, first.size if first.size < last.size else last.size
    )
    cdef uint64_t start = 0
    cdef uint64_t end
    cdef uint64_t filled = 0
    cdef uint8_t* kept
    cdef uint32_t i
    index.common = <uint8_t*>malloc(common + 1)
    if index.common == NULL:
        return NO_MEMORY
    memcpy(index.common, first.data, common)
    index.common_size = common
    for i in range(index.count):
        end = index.key_ends[i]
        memmove(index.keys + filled, index.keys + start + common, end - start - common)
        index.prefixes[i] = key_prefix(
            slice_of(index.keys + filled, <size_t>(end - start - common)), 0
        )
        filled += end - start - common
        index.key_ends[i] = filled
        start = end
    kept = <uint8_t*>realloc(index.keys, filled + 1)
    if kept != NULL:
        index.keys = kept
    index.memory_bytes = filled + common + index.count * (sizeof(IndexSlot) + 16)
    index.low = index.prefixes[0]
    index.high = index.prefixes[index.count - 1]
    return OK


# --------------------------------------------------------------------------------------- buckets

cdef inline uint64_t digits_place(const TableIndex* index, uint64_t prefix) noexcept nogil:
    """Read the bytes of a prefix as digits. Monotone: bytes not in the alphabets go to its ends."""
    cdef uint64_t place = 0
    cdef uint64_t digit
    cdef int i
    for i in range(8):
        if index.weights[i] == 0:
            break
        digit = (prefix >> (56 - 8 * i)) & 0xFF
        if digit == 0:
            continue
        if digit < index.least[i]:
            return place + index.weights[i]
        if digit > index.most[i]:
            # As large as anything with the highest byte here.
            return place + (index.most[i] - index.least[i] + 2) * index.weights[i] - 1
        place += (digit - index.least[i] + 1) * index.weights[i]
    return place


cdef inline uint64_t bucket_of(const TableIndex* index, uint64_t prefix) noexcept nogil:
    """REQUIRES: low <= prefix <= high."""
    if index.by_digits:
        return high_product(digits_place(index, prefix), index.bucket_scale)
    return high_product(prefix - index.low, index.bucket_scale)


cdef void find_alphabets(TableIndex* index) noexcept nogil:
    """Set least, most and weights from the prefixes."""
    cdef uint64_t weight = 1
    cdef uint64_t radix
    cdef uint32_t i
    cdef uint8_t byte
    cdef int place
    memset(index.least, 0xFF, 8)
    memset(index.most, 0, 8)
    for i in range(index.count):
        for place in range(8):
            byte = <uint8_t>(index.prefixes[i] >> (56 - 8 * place))
            if byte:
                index.least[place] = min(index.least[place], byte)
                index.most[place] = max(index.most[place], byte)
    for place in range(8):
        if index.most[place] == 0:
            index.least[place] = 1            # radix 1
    # From the lowest digit up, as many places as 63 bits hold; then give the room to the highest.
    place = 7
    while place >= 0 and index.most[place] == 0:
        index.weights[place] = 0          # nothing but ends here
        place -= 1
    while True:
        weight = 1
        for i in range(<uint32_t>(place + 1)):
            radix = <uint64_t>index.most[place - i] - index.least[place - i] + 2
            if weight > (<uint64_t>1 << 62) // radix:
                weight = 0
                break
            index.weights[place - i] = weight
            weight *= radix
        if weight or place < 0:
            return
        index.weights[place] = 0
        place -= 1


cdef inline uint64_t last_place(const TableIndex* index) noexcept nogil:
    return digits_place(index, index.high) if index.by_digits else index.high - index.low


cdef uint64_t search_steps(const TableIndex* index) noexcept nogil:
    """Sum over the prefixes of the steps a search in their bucket takes."""
    cdef uint64_t steps = 0
    cdef uint64_t bucket = 0
    cdef uint64_t next_bucket
    cdef uint64_t in_bucket = 0
    cdef uint32_t i
    for i in range(index.count):
        next_bucket = bucket_of(index, index.prefixes[i])
        if next_bucket != bucket:
            steps += in_bucket * steps_for(in_bucket)
            in_bucket = 0
            bucket = next_bucket
        in_bucket += 1
    return steps + in_bucket * steps_for(in_bucket)


cdef inline int steps_for(uint64_t choices) noexcept nogil:
    """Steps of a binary search among so many."""
    return 64 - clz64(choices)


cdef inline void choose_places(TableIndex* index, bint by_digits) noexcept nogil:
    """Spread the places evenly over `count` buckets."""
    index.by_digits = by_digits
    index.bucket_scale = scale_for(index.count, last_place(index))


cdef int make_buckets(TableIndex* index) noexcept nogil:
    """Build the buckets if they shorten the search."""
    cdef uint64_t plain
    cdef uint64_t steps
    cdef uint64_t bucket = 0
    cdef uint64_t last
    cdef uint32_t i
    if index.count < BUCKETED_BLOCKS_MIN or index.high == index.low:
        return OK
    choose_places(index, False)
    steps = search_steps(index)
    if steps > EVEN_STEPS * <uint64_t>index.count:
        plain = steps
        find_alphabets(index)
        choose_places(index, True)
        steps = search_steps(index)
        if plain <= steps:
            choose_places(index, False)
            steps = plain
    if steps // index.count + SAVED_STEPS_MIN > <uint64_t>steps_for(index.count):
        return OK
    # buckets[b]: the first block whose prefix is in bucket b or a later one.
    index.buckets = <uint32_t*>malloc((<size_t>index.count + 2) * sizeof(uint32_t))
    if index.buckets == NULL:
        return NO_MEMORY
    for i in range(index.count):
        last = bucket_of(index, index.prefixes[i])
        while bucket <= last:
            index.buckets[bucket] = i
            bucket += 1
    while bucket <= <uint64_t>index.count + 1:
        index.buckets[bucket] = index.count
        bucket += 1
    index.memory_bytes += (<size_t>index.count + 2) * sizeof(uint32_t)
    return OK


cdef int decode_blocks(TableIndex* index, Decoder* decoder) noexcept nogil:
    cdef size_t before = decoder.keys.size
    cdef uint32_t i
    cdef int status
    for i in range(index.count):
        status = decode_entry(index, i, decoder)
        if status != OK:
            return status
    if decoder.at != decoder.limit:
        return CORRUPTION
    if before:                       # the separator in front is not ours
        memmove(decoder.keys.data, decoder.keys.data + before, decoder.keys.size - before)
        for i in range(index.count):
            index.key_ends[i] -= before
    index.keys = decoder.keys.data
    decoder.keys.data = NULL
    return OK


cdef int decode_all(
    TableIndex* index, Decoder* decoder, uint64_t count, uint64_t first_offset, uint64_t data_end
) noexcept nogil:
    cdef int status = index_allocate(index, <uint32_t>count)
    if status != OK:
        return status
    index.slots[0].offset = first_offset
    if bytes_reserve(&decoder.keys, <size_t>(decoder.limit - decoder.at) * 2 + 64):
        return NO_MEMORY
    status = decode_blocks(index, decoder)
    if status == OK and index.slots[index.count].offset != data_end:
        status = CORRUPTION
    if status == OK and index.count:
        status = strip_common(index)
    return status


cdef const uint8_t* index_count(
    const uint8_t* data, size_t size, uint64_t* count
) noexcept nogil:
    cdef const uint8_t* at = get_varint(data, data + size, count)
    if at == NULL or count[0] > size // ENTRY_BYTES_MIN or count[0] >= <uint64_t>0xFFFFFFFF:
        return NULL
    return at


cdef int index_decode(
    TableIndex* index, const uint8_t* data, size_t size, uint64_t first_offset, uint64_t data_end
) noexcept nogil:
    cdef Decoder decoder
    cdef uint64_t count
    cdef int status
    memset(index, 0, sizeof(TableIndex))
    memset(&decoder, 0, sizeof(Decoder))
    decoder.is_first = True
    decoder.limit = data + size
    decoder.at = index_count(data, size, &count)
    if decoder.at == NULL:
        return CORRUPTION
    status = decode_all(index, &decoder, count, first_offset, data_end)
    bytes_free(&decoder.keys)
    if status != OK or index.count == 0:
        return status
    return make_buckets(index)


cdef int index_decode_part(
    TableIndex* index, const uint8_t* data, size_t size, uint32_t count, const TableIndex* parts,
    uint32_t part
) noexcept nogil:
    cdef Decoder decoder
    cdef Slice tail
    cdef int status = OK
    memset(index, 0, sizeof(TableIndex))
    memset(&decoder, 0, sizeof(Decoder))
    decoder.at = data
    decoder.limit = data + size
    decoder.is_first = part == 0
    if part:
        tail = separator(parts, part - 1)
        decoder.last_size = parts.common_size + tail.size
        decoder.last_tag = parts.tags[part - 1] if parts.tags != NULL else 0
        if bytes_append(&decoder.keys, parts.common, parts.common_size) or bytes_append(
            &decoder.keys, tail.data, tail.size
        ):
            status = NO_MEMORY
    if status == OK:
        status = decode_all(
            index, &decoder, count, parts.slots[part].offset, parts.slots[part + 1].offset
        )
    bytes_free(&decoder.keys)
    return status


cdef int index_finish(TableIndex* index) noexcept nogil:
    cdef int status = strip_common(index)
    return status if status != OK else make_buckets(index)


# ---------------------------------------------------------------------------------------- searching

cdef inline int compare_separator(
    const TableIndex* index, uint32_t i, Slice rest, uint64_t tag
) noexcept nogil:
    """Order of separator i against (common + rest, tag)."""
    cdef int order = slice_compare(separator(index, i), rest)
    cdef uint64_t own
    if order:
        return order
    own = index.tags[i] if index.tags != NULL else 0
    return (own < tag) - (own > tag)          # a smaller tag sorts later


cdef inline int compare_common(const TableIndex* index, Slice key) noexcept nogil:
    """0 when the key begins with what all separators share; else their order against the key."""
    cdef size_t size = index.common_size
    cdef int order
    if key.size >= size:
        return memcmp(index.common, key.data, size) if size else 0
    order = memcmp(index.common, key.data, key.size) if key.size else 0
    return order if order else 1


cdef int index_compare(
    const TableIndex* index, uint32_t i, Slice key, uint64_t tag
) noexcept nogil:
    cdef int order = compare_common(index, key)
    if order:
        return order
    return compare_separator(
        index, i, slice_of(key.data + index.common_size, key.size - index.common_size), tag
    )


cdef uint32_t first_not_below(
    const TableIndex* index, uint32_t low, uint32_t high, Slice rest, uint64_t tag
) noexcept nogil:
    """Binary search by whole separators among blocks low .. high; high when all are below."""
    cdef uint32_t middle
    while low < high:
        middle = low + ((high - low) >> 1)
        if compare_separator(index, middle, rest, tag) < 0:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline uint32_t first_prefix(
    const uint64_t* prefixes, uint32_t low, uint32_t high, uint64_t wanted
) noexcept nogil:
    """The first index in low .. high - 1 with a prefix >= wanted, else high."""
    cdef uint32_t size = high - low
    cdef uint32_t half
    while size > LINEAR_SEARCH_MAX:
        half = size >> 1
        low = low + half if prefixes[low + half - 1] < wanted else low
        size -= half
    while size and prefixes[low] < wanted:
        low += 1
        size -= 1
    return low


cdef void index_probe(const TableIndex* index, Slice key, IndexProbe* probe) noexcept nogil:
    cdef int order
    probe.is_decided = True
    probe.place = 0
    if unlikely(index.count == 0):
        return
    order = compare_common(index, key)
    if order:
        probe.place = 0 if order > 0 else index.count
        return
    probe.rest = slice_of(key.data + index.common_size, key.size - index.common_size)
    probe.wanted = key_prefix(probe.rest, 0)
    if probe.wanted < index.low:
        return
    if probe.wanted > index.high:
        probe.place = index.count
        return
    probe.is_decided = False
    if index.buckets != NULL:
        probe.bucket = bucket_of(index, probe.wanted)
        prefetch(index.buckets + probe.bucket)


cdef uint32_t index_resolve(
    const TableIndex* index, const IndexProbe* probe, uint64_t tag
) noexcept nogil:
    cdef uint64_t wanted = probe.wanted
    cdef uint32_t found
    cdef uint32_t end
    if unlikely(probe.is_decided):
        return probe.place
    if index.buckets != NULL:
        found = index.buckets[probe.bucket]
        prefetch(&index.slots[found])
        found = first_prefix(index.prefixes, found, index.buckets[probe.bucket + 1], wanted)
    else:
        found = first_prefix(index.prefixes, 0, index.count, wanted)
    if likely(found == index.count or index.prefixes[found] != wanted):
        return found
    # The first eight bytes say nothing: whole separators decide among the blocks that share them.
    if found + 1 == index.count or index.prefixes[found + 1] != wanted:
        return found + (compare_separator(index, found, probe.rest, tag) < 0)
    if wanted == <uint64_t>0xFFFFFFFFFFFFFFFF:
        end = index.count
    else:
        end = first_prefix(index.prefixes, found, index.count, wanted + 1)
    return first_not_below(index, found, end, probe.rest, tag)


cdef uint32_t index_find(const TableIndex* index, Slice key, uint64_t tag) noexcept nogil:
    cdef IndexProbe probe
    index_probe(index, key, &probe)
    return index_resolve(index, &probe, tag)
