# Verification of one SSTable (see sstable_verify.pxd). Thread-safe: the table is only read.
#
# Every block is read from the file (the cache is neither asked nor filled), checked against its
# checksum, and walked: internal order, separators, filter membership, and the sums of what was seen
# against the properties.

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from dynalsm._core.block cimport (
    BlockCursor,
    block_cursor_first,
    block_cursor_free,
    block_cursor_init,
    block_cursor_next,
    block_cursor_open,
    block_get,
)
from dynalsm._core.coding cimport Slice, slice_compare, slice_equal, slice_of
from dynalsm._core.compress cimport CODEC_NONE
from dynalsm._core.filter cimport filter_may_contain
from dynalsm._core.hashing cimport hash64
from dynalsm._core.source cimport KIND_DELETE, KIND_SINGLE_DELETE
from dynalsm._core.sstable_file cimport (
    table_check_block,
    table_damaged,
    table_file_properties,
    table_read,
    table_unpack,
)
from dynalsm._core.sstable_format cimport (
    TABLE_HEADER_BYTES,
    TRAILER_BYTES,
    Bytes,
    Properties,
    bytes_append,
    bytes_free,
    table_header_is_right,
)
from dynalsm._core.sstable_index cimport TableIndex, index_compare, index_free
from dynalsm._core.sstable_load cimport table_read_filter, table_read_index
from dynalsm._core.status cimport CORRUPTION, NO_MEMORY, OK, fail


# The table's index and filter, read from the file like all else, and what was seen so far.
cdef struct Seen:
    TableIndex index
    uint8_t* filter              # NULL: none
    size_t filter_bytes
    int filter_bits
    uint64_t entries
    uint64_t deletions
    uint64_t keys
    uint64_t min_seqno
    uint64_t max_seqno
    uint64_t raw_bytes
    Bytes smallest
    Bytes last_key
    uint64_t last_tag


cdef int no_memory(Table* table, Failure* failure) noexcept nogil:
    return fail(failure, NO_MEMORY, "no memory to verify an SSTable", table.path, -1, 0)


cdef int see_entry(
    Table* table, uint32_t i, const BlockCursor* cursor, Seen* seen, Failure* failure
) noexcept nogil:
    cdef Slice last = slice_of(seen.last_key.data, seen.last_key.size)
    cdef uint64_t offset = seen.index.slots[i].offset
    cdef uint64_t seqno = cursor.tag >> 8
    cdef int kind = cursor.tag & 0xFF
    cdef int order = -1
    if seen.entries:
        order = slice_compare(last, cursor.key)
        if order > 0 or (order == 0 and seen.last_tag <= cursor.tag):
            return table_damaged(table, "entries are not in order", offset, failure)
    if i and index_compare(&seen.index, i - 1, cursor.key, cursor.tag) >= 0:
        return table_damaged(table, "an entry belongs into an earlier block", offset, failure)
    if index_compare(&seen.index, i, cursor.key, cursor.tag) < 0:
        return table_damaged(table, "an entry belongs into a later block", offset, failure)
    if order:
        seen.keys += 1
        if seen.filter != NULL and not filter_may_contain(
            seen.filter, seen.filter_bytes,
            hash64(cursor.key.data, cursor.key.size), seen.filter_bits,
        ):
            return table_damaged(table, "the filter lacks a key of this block", offset, failure)
        if seen.entries == 0 and bytes_append(
            &seen.smallest, cursor.key.data, cursor.key.size
        ):
            return no_memory(table, failure)
        seen.last_key.size = 0
        if bytes_append(&seen.last_key, cursor.key.data, cursor.key.size):
            return no_memory(table, failure)
    seen.last_tag = cursor.tag
    seen.entries += 1
    seen.deletions += kind == KIND_DELETE or kind == KIND_SINGLE_DELETE
    seen.raw_bytes += cursor.key.size + cursor.value.size
    seen.min_seqno = min(seen.min_seqno, seqno)
    seen.max_seqno = max(seen.max_seqno, seqno)
    return OK


cdef int walk_block(
    Table* table, uint32_t i, const uint8_t* data, size_t size, BlockCursor* cursor, Seen* seen,
    Failure* failure
) noexcept nogil:
    cdef uint64_t offset = seen.index.slots[i].offset
    cdef uint64_t found_tag
    cdef Slice found
    cdef int status = block_cursor_open(cursor, data, size)
    if status == OK:
        status = block_cursor_first(cursor)
    if status != OK:
        return table_damaged(table, "a block is damaged", offset, failure)
    while status == OK:
        status = see_entry(table, i, cursor, seen, failure)
        if status != OK:
            return status
        # What is walked over must be found as well: offsets, hash bytes and shared sizes are right.
        if (
            block_get(
                data, size, cursor.key, hash64(cursor.key.data, cursor.key.size), cursor.tag,
                &found_tag, &found,
            ) != OK
            or found_tag != cursor.tag or found.data != cursor.value.data
        ):
            return table_damaged(table, "an entry of a block cannot be found", offset, failure)
        status = block_cursor_next(cursor)
    if status == CORRUPTION:
        return table_damaged(table, "a block is damaged", offset, failure)
    if status == NO_MEMORY:
        return no_memory(table, failure)
    return OK


cdef int read_block(
    Table* table, uint32_t i, BlockCursor* cursor, Seen* seen, Failure* failure
) noexcept nogil:
    cdef uint64_t offset = seen.index.slots[i].offset
    cdef size_t stored_bytes = <size_t>seen.index.slots[i].stored_size + TRAILER_BYTES
    cdef size_t raw = seen.index.slots[i].raw_size
    cdef uint8_t* stored = <uint8_t*>malloc(stored_bytes)
    cdef uint8_t* unpacked = NULL
    cdef size_t size
    cdef int codec
    cdef int status
    if stored == NULL:
        return no_memory(table, failure)
    status = table_read(table, stored, stored_bytes, offset, failure)
    if status == OK:
        status = table_check_block(table, &seen.index.slots[i], stored, &codec, &size, failure)
    if status == OK and codec != CODEC_NONE:
        unpacked = <uint8_t*>malloc(raw + 1)
        if unpacked == NULL:
            status = no_memory(table, failure)
        else:
            status = table_unpack(table, &seen.index.slots[i], stored, size, unpacked, failure)
    if status == OK:
        status = walk_block(
            table, i, unpacked if unpacked != NULL else stored, raw, cursor, seen, failure
        )
    free(stored)
    free(unpacked)
    return status


cdef int compare_sums(Table* table, const Seen* seen, Failure* failure) noexcept nogil:
    cdef Properties properties
    cdef uint8_t* data = NULL
    cdef uint64_t at = table.properties_section.offset
    cdef bint is_right
    cdef int status = table_file_properties(table, &data, &properties, failure)
    if status != OK:
        return status
    is_right = (
        properties.entries == seen.entries
        and properties.deletions == seen.deletions
        and properties.keys == seen.keys
        and properties.raw_bytes == seen.raw_bytes
        and properties.data_blocks == seen.index.count
        and properties.data_bytes == table.index_section.offset - TABLE_HEADER_BYTES
        and properties.min_seqno == (seen.min_seqno if seen.entries else 0)
        and properties.max_seqno == seen.max_seqno
        and slice_equal(properties.smallest, slice_of(seen.smallest.data, seen.smallest.size))
        and slice_equal(properties.largest, slice_of(seen.last_key.data, seen.last_key.size))
    )
    free(data)
    if not is_right:
        return table_damaged(
            table, "the properties do not agree with the entries", at, failure
        )
    return OK


cdef int verify_table(Table* table, Failure* failure) noexcept nogil:
    cdef uint8_t header[TABLE_HEADER_BYTES]
    cdef Seen seen
    cdef int status
    memset(&seen, 0, sizeof(Seen))
    seen.min_seqno = ~<uint64_t>0
    status = table_read_index(table, &seen.index, failure)
    if status == OK:
        status = table_read_filter(
            table, &seen.filter, &seen.filter_bytes, &seen.filter_bits, failure
        )
    if status == OK:
        status = table_read(table, header, TABLE_HEADER_BYTES, 0, failure)
    if status == OK and not table_header_is_right(header, table.unique_id):
        status = table_damaged(table, "the header is damaged", 0, failure)
    if status == OK:
        status = walk_blocks(table, &seen, failure)
    if status == OK:
        status = compare_sums(table, &seen, failure)
    index_free(&seen.index)
    free(seen.filter)
    bytes_free(&seen.smallest)
    bytes_free(&seen.last_key)
    return status


cdef int walk_blocks(Table* table, Seen* seen, Failure* failure) noexcept nogil:
    cdef BlockCursor cursor
    cdef uint32_t i
    cdef int status = OK
    block_cursor_init(&cursor)
    for i in range(seen.index.count):
        status = read_block(table, i, &cursor, seen, failure)
        if status != OK:
            break
    block_cursor_free(&cursor)
    return status
