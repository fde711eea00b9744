# A table's index in parts of PART_BLOCKS data blocks each, for tables whose index does not stay in
# memory: what stays is an index of the parts (a TableIndex whose "blocks" are parts) and, for each
# part, where its entries lie in the section and their checksum. The file is the same: a part is a
# stretch of the index section, and can be read without what is before it because the separator
# before its first entry is the last one of the part before, which the index of the parts has.
# Thread-safe: pure functions; what they make is never changed.

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from dynalsm._core.coding cimport Slice
from dynalsm._core.sstable_index cimport IndexSlot, TableIndex


cdef enum:
    # A part takes some 600 bytes then, and the index of the parts one byte for each data block.
    PART_BLOCKS = 64


cdef struct IndexPart:
    uint64_t start               # of its first entry in the section
    uint32_t checksum            # crc32c of its entries


# Reads a whole section and makes the index of its parts; checks all that index_decode checks.
# *parts: malloc'ed, one more than there are: the last one's start is the end of the section.
# Returns: OK, CORRUPTION or NO_MEMORY; what was allocated belongs to the caller in any case.
cdef int parts_decode(
    TableIndex* index, IndexPart** parts, uint32_t* blocks, const uint8_t* data, size_t size,
    uint64_t first_offset, uint64_t data_end
) noexcept nogil
# Finds the first block of a part whose separator is at or after (key, tag).
# data, size: the part's entries. REQUIRES: index_find(index, key, tag) == part.
# Returns: OK or CORRUPTION; *block: its number in the table.
cdef int part_search(
    const TableIndex* index, uint32_t part, const uint8_t* data, size_t size, Slice key,
    uint64_t tag, IndexSlot* slot, uint32_t* block
) noexcept nogil
