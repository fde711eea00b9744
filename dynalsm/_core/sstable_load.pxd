# Index and filter of an open SSTable: in memory as a whole while all that is resident stays within
# a share of the budget, else in parts, which are read when they are needed and lie in the block
# cache like data blocks. Which of the two is decided when a table is first used, and stays.
# Thread-safe.

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from dynalsm._core.coding cimport Slice
from dynalsm._core.sstable_file cimport Table
from dynalsm._core.sstable_index cimport IndexSlot, TableIndex
from dynalsm._core.status cimport Failure


# Reads index and filter unless that was done. After a failure the next call tries again.
cdef int table_file_load(Table* table, Failure* failure) noexcept nogil
# Reads the whole index, checked; freed with index_free by the caller, also after a failure.
cdef int table_read_index(Table* table, TableIndex* index, Failure* failure) noexcept nogil
# Reads the whole filter, checked; *filter is the caller's to free. NULL: there is none of ours.
cdef int table_read_filter(
    Table* table, uint8_t** filter, size_t* size, int* bits, Failure* failure
) noexcept nogil

# REQUIRES of what follows: loaded == IN_PARTS. WOULD_BLOCK only without may_block.
# Whether the key may be in the table.
cdef int parts_filter(
    Table* table, uint64_t key_hash, bint may_block, bint* passes, Failure* failure
) noexcept nogil
# The first block whose separator is at or after (key, tag): *slot says where, *block its number.
# NOT_FOUND: there is none, and *block is the number of blocks, slot.offset the end of them.
cdef int parts_locate(
    Table* table, Slice key, uint64_t tag, bint may_block, IndexSlot* slot, uint32_t* block,
    Failure* failure
) noexcept nogil
# Decodes one part; freed with index_free by the caller, also after a failure.
cdef int parts_open(
    Table* table, uint32_t part, bint may_block, TableIndex* index, Failure* failure
) noexcept nogil
