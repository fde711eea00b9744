# A table's index in parts (see sstable_parts.pxd for the contracts).

from libc.stdlib cimport calloc
from libc.string cimport memset

from dynalsm._core.bits cimport bytes_in_common
from dynalsm._core.coding cimport slice_of
from dynalsm._core.crc32c cimport crc32c
from dynalsm._core.sstable_format cimport (
    TRAILER_BYTES,
    Bytes,
    bytes_append,
    bytes_free,
)
from dynalsm._core.sstable_index cimport (
    IndexEntry,
    index_allocate,
    index_ascends,
    index_count,
    index_finish,
    index_keep_tag,
    index_parse,
)
from dynalsm._core.status cimport CORRUPTION, NO_MEMORY, OK


# State of the decoder.
cdef struct Scan:
    const uint8_t* data
    const uint8_t* at
    const uint8_t* limit
    uint64_t offset              # in the file, of the next block
    Bytes key                    # the last separator, whole
    uint64_t tag                 # its tag
    Bytes kept                   # the last separator of each part


cdef int scan_entry(Scan* scan, bint is_first) noexcept nogil:
    cdef IndexEntry entry
    scan.at = index_parse(scan.at, scan.limit, &entry)
    if scan.at == NULL or entry.shared > scan.key.size:
        return CORRUPTION
    if not is_first and not index_ascends(
        slice_of(scan.key.data, scan.key.size), scan.tag, &entry
    ):
        return CORRUPTION
    scan.key.size = entry.shared
    scan.tag = entry.tag
    scan.offset += <uint64_t>entry.stored_size + TRAILER_BYTES
    return bytes_append(&scan.key, entry.suffix.data, entry.suffix.size)


cdef int scan_part(
    TableIndex* index, IndexPart* parts, uint32_t part, uint32_t blocks, Scan* scan
) noexcept nogil:
    cdef const uint8_t* start = scan.at
    cdef uint32_t i
    cdef int status
    index.slots[part].offset = scan.offset
    for i in range(blocks):
        status = scan_entry(scan, part == 0 and i == 0)
        if status != OK:
            return status
    if bytes_append(&scan.kept, scan.key.data, scan.key.size):
        return NO_MEMORY
    index.key_ends[part] = scan.kept.size
    index.slots[part + 1].offset = scan.offset
    parts[part].start = <uint64_t>(start - scan.data)
    parts[part].checksum = crc32c(0, start, <size_t>(scan.at - start))
    parts[part + 1].start = <uint64_t>(scan.at - scan.data)
    return index_keep_tag(index, part, scan.tag)


cdef int scan_all(
    TableIndex* index, IndexPart* parts, uint32_t blocks, Scan* scan, uint64_t data_end
) noexcept nogil:
    cdef uint32_t part
    cdef int status
    for part in range(index.count):
        status = scan_part(
            index, parts, part, min(blocks - part * PART_BLOCKS, <uint32_t>PART_BLOCKS), scan
        )
        if status != OK:
            return status
    if scan.at != scan.limit or scan.offset != data_end:
        return CORRUPTION
    index.keys = scan.kept.data
    scan.kept.data = NULL
    return index_finish(index) if index.count else OK


cdef int parts_decode(
    TableIndex* index, IndexPart** parts, uint32_t* blocks, const uint8_t* data, size_t size,
    uint64_t first_offset, uint64_t data_end
) noexcept nogil:
    cdef Scan scan
    cdef uint64_t count
    cdef int status
    memset(index, 0, sizeof(TableIndex))
    memset(&scan, 0, sizeof(Scan))
    scan.data = data
    scan.limit = data + size
    scan.offset = first_offset
    scan.at = index_count(data, size, &count)
    if scan.at == NULL:
        return CORRUPTION
    blocks[0] = <uint32_t>count
    status = index_allocate(index, <uint32_t>((count + PART_BLOCKS - 1) // PART_BLOCKS))
    parts[0] = <IndexPart*>calloc(<size_t>index.count + 1, sizeof(IndexPart))
    if parts[0] == NULL:
        status = NO_MEMORY
    if status == OK:
        status = scan_all(index, parts[0], blocks[0], &scan, data_end)
    bytes_free(&scan.key)
    bytes_free(&scan.kept)
    return status


cdef size_t agreement(const TableIndex* index, uint32_t part, Slice key) noexcept nogil:
    """How many bytes a key of this part has in common with the separator before the part."""
    cdef uint64_t start
    cdef size_t size
    if part == 0:
        return 0
    # The key begins with what all separators share, or it were before or behind all of them.
    start = index.key_ends[part - 2] if part > 1 else 0
    size = min(
        <size_t>(index.key_ends[part - 1] - start), key.size - index.common_size
    )
    return index.common_size + bytes_in_common(
        index.keys + start, key.data + index.common_size, size
    )


cdef int part_search(
    const TableIndex* index, uint32_t part, const uint8_t* data, size_t size, Slice key,
    uint64_t tag, IndexSlot* slot, uint32_t* block
) noexcept nogil:
    cdef const uint8_t* at = data
    cdef const uint8_t* limit = data + size
    cdef IndexEntry entry
    # How much of the key the separator before has; that one is before the key.
    cdef size_t matched = agreement(index, part, key)
    cdef size_t more
    cdef size_t common
    memset(slot, 0, sizeof(IndexSlot))
    slot.offset = index.slots[part].offset
    block[0] = part * PART_BLOCKS
    while at < limit:
        at = index_parse(at, limit, &entry)
        if at == NULL:
            return CORRUPTION
        slot.stored_size = entry.stored_size
        slot.raw_size = entry.raw_size
        if entry.shared < matched:
            return OK                # it left the key behind in what they shared
        if entry.shared == matched:
            more = key.size - matched
            common = bytes_in_common(
                entry.suffix.data, key.data + matched, min(entry.suffix.size, more)
            )
            if common == entry.suffix.size:
                if common == more and entry.tag <= tag:
                    return OK        # the key itself; its smaller tags come later
            elif common == more or entry.suffix.data[common] > key.data[matched + common]:
                return OK
            matched += common
        slot.offset += <uint64_t>entry.stored_size + TRAILER_BYTES
        block[0] += 1
    return CORRUPTION
