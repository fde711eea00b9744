# Index and filter of an open SSTable, whole or in parts (see sstable_load.pxd for the contracts).
#
# A part that is read again is held against the checksum it had when the whole section was read and
# checked. In an encrypted file a section opens only as a whole: it is read whole for one part.

from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset

from dynalsm._core.bits cimport likely
from dynalsm._core.cache cimport (
    Block,
    block_unref,
    cache_add,
    cache_charge,
    cache_find,
    cache_try_charge,
)
from dynalsm._core.cipher cimport mutex_lock_open
from dynalsm._core.crc32c cimport crc32c
from dynalsm._core.filter cimport filter_line, filter_may_contain
from dynalsm._core.sstable_file cimport (
    IN_PARTS,
    RESIDENT,
    table_damaged,
    table_file_properties,
    table_forget_loaded,
    table_read,
    table_read_section,
    table_section,
    table_section_bytes,
)
from dynalsm._core.sstable_format cimport TABLE_HEADER_BYTES, Properties, Section
from dynalsm._core.sstable_index cimport (
    index_count,
    index_decode,
    index_decode_part,
    index_find,
)
from dynalsm._core.sstable_parts cimport PART_BLOCKS, IndexPart, part_search, parts_decode
from dynalsm._core.status cimport CORRUPTION, NO_MEMORY, NOT_FOUND, OK, WOULD_BLOCK, fail
from dynalsm._core.sync cimport atomic_load, atomic_store, pthread_mutex_unlock

cdef extern from "<stdlib.h>" nogil:
    int posix_memalign(void** result, size_t alignment, size_t size)


cdef enum:
    CACHE_LINE_BYTES = 64
    FILTER_BITS_MAX = 64
    FILTER_PAGE_BYTES = 4096
    # A decoded index takes so much for each block, beside what the section takes.
    SLOT_BYTES = 52


cdef const char* INDEX_DAMAGED = "the index is damaged"
cdef const char* FILTER_DAMAGED = "the filter is damaged"


cdef int no_memory(Table* table, Failure* failure) noexcept nogil:
    return fail(failure, NO_MEMORY, "no memory to read an SSTable", table.path, -1, 0)


# ------------------------------------------------------------------------------------------- whole

cdef int index_status(Table* table, int status, Failure* failure) noexcept nogil:
    """Say in `failure` what a decoder answered."""
    if status == CORRUPTION:
        return table_damaged(table, INDEX_DAMAGED, table.index_section.offset, failure)
    return no_memory(table, failure) if status != OK else OK


cdef int table_read_index(Table* table, TableIndex* index, Failure* failure) noexcept nogil:
    cdef const Section* section = &table.index_section
    cdef uint8_t* data = NULL
    cdef int status
    memset(index, 0, sizeof(TableIndex))
    status = table_section(table, section, &data, failure)
    if status != OK:
        return status
    status = index_decode(
        index, data, table_section_bytes(table, section), TABLE_HEADER_BYTES, section.offset
    )
    free(data)
    return index_status(table, status, failure)


cdef int find_filter(Table* table, size_t* size, int* bits, Failure* failure) noexcept nogil:
    """Find out how to ask the filter. *size is 0 when there is none that we can."""
    cdef Properties properties
    cdef uint8_t* data = NULL
    cdef bint is_ours
    cdef int status
    size[0] = 0
    if table.filter_section.size == 0:
        return OK
    status = table_file_properties(table, &data, &properties, failure)
    if status != OK:
        return status
    is_ours = properties.filter_hash.size == 5 and memcmp(
        properties.filter_hash.data, <const char*>"xxh64", 5
    ) == 0
    free(data)
    if not is_ours:
        return OK                  # a filter is only a hint: do without one we cannot ask
    size[0] = table_section_bytes(table, &table.filter_section)
    if (
        size[0] % CACHE_LINE_BYTES
        or properties.filter_bits == 0
        or properties.filter_bits > FILTER_BITS_MAX
    ):
        return table_damaged(table, FILTER_DAMAGED, table.filter_section.offset, failure)
    bits[0] = <int>properties.filter_bits
    return OK


cdef int table_read_filter(
    Table* table, uint8_t** filter, size_t* size, int* bits, Failure* failure
) noexcept nogil:
    cdef void* place = NULL
    cdef int status = find_filter(table, size, bits, failure)
    filter[0] = NULL
    if status != OK or size[0] == 0:
        return status
    if posix_memalign(&place, CACHE_LINE_BYTES, table.filter_section.size + CACHE_LINE_BYTES):
        return no_memory(table, failure)
    filter[0] = <uint8_t*>place
    status = table_read_section(table, &table.filter_section, filter[0], failure)
    if status != OK:
        free(place)
        filter[0] = NULL
        size[0] = 0
    return status


# ----------------------------------------------------------------------------------------- loading

cdef int load_whole(
    Table* table, const uint8_t* data, size_t size, Failure* failure
) noexcept nogil:
    cdef int status = index_decode(
        &table.index, data, size, TABLE_HEADER_BYTES, table.index_section.offset
    )
    table.block_count = table.index.count
    table.memory_bytes = sizeof(Table) + table.index.memory_bytes
    status = index_status(table, status, failure)
    if status == OK:
        status = table_read_filter(
            table, &table.filter, &table.filter_bytes, &table.filter_bits, failure
        )
    table.memory_bytes += table.filter_bytes
    return status


cdef int load_parts(
    Table* table, const uint8_t* data, size_t size, Failure* failure
) noexcept nogil:
    cdef uint8_t* filter = NULL
    cdef size_t pages
    cdef size_t page
    cdef int status = parts_decode(
        &table.index, &table.parts, &table.block_count, data, size, TABLE_HEADER_BYTES,
        table.index_section.offset,
    )
    status = index_status(table, status, failure)
    if status == OK:
        status = table_read_filter(
            table, &filter, &table.filter_bytes, &table.filter_bits, failure
        )
    if status != OK:
        return status
    pages = (table.filter_bytes + FILTER_PAGE_BYTES - 1) // FILTER_PAGE_BYTES
    if pages:
        table.filter_checksums = <uint32_t*>malloc(pages * sizeof(uint32_t))
        if table.filter_checksums == NULL:
            status = no_memory(table, failure)
        else:
            for page in range(pages):
                table.filter_checksums[page] = crc32c(
                    0, filter + page * FILTER_PAGE_BYTES, filter_page_bytes(table, page)
                )
    free(filter)
    table.memory_bytes = (
        sizeof(Table) + table.index.memory_bytes + pages * sizeof(uint32_t)
        + (table.index.count + 1) * sizeof(IndexPart)
    )
    return status


cdef uint64_t whole_bytes(Table* table, const uint8_t* data, size_t size) noexcept nogil:
    """At least what the table takes as a whole."""
    cdef uint64_t count = 0
    index_count(data, size, &count)
    return sizeof(Table) + 2 * size + count * SLOT_BYTES + table.filter_section.size


cdef int load(Table* table, uint64_t* loaded, Failure* failure) noexcept nogil:
    """Load the table one way or the other, and charge it."""
    cdef uint64_t charged = 0
    cdef uint8_t* data = NULL
    cdef size_t size = table_section_bytes(table, &table.index_section)
    cdef int status = table_section(table, &table.index_section, &data, failure)
    if status != OK:
        return status
    charged = whole_bytes(table, data, size)
    if cache_try_charge(table.cache, charged):
        loaded[0] = RESIDENT
        status = load_whole(table, data, size, failure)
    else:
        charged = 0
        loaded[0] = IN_PARTS
        status = load_parts(table, data, size, failure)
    free(data)
    if status != OK:
        table_forget_loaded(table)
    cache_charge(table.cache, <long long>table.memory_bytes - <long long>charged)
    return status


cdef int table_file_load(Table* table, Failure* failure) noexcept nogil:
    cdef uint64_t loaded = 0
    cdef int status = OK
    if likely(atomic_load(&table.loaded) != 0):
        return OK
    mutex_lock_open(&table.load_mutex)
    if not table.loaded:
        status = load(table, &loaded, failure)
        if status == OK:
            atomic_store(&table.loaded, loaded)
    pthread_mutex_unlock(&table.load_mutex)
    return status


# ------------------------------------------------------------------------------------------- parts

cdef inline size_t filter_page_bytes(const Table* table, size_t page) noexcept nogil:
    return min(table.filter_bytes - page * FILTER_PAGE_BYTES, <size_t>FILTER_PAGE_BYTES)


cdef int read_stretch(
    Table* table, const Section* section, uint64_t start, size_t size, uint8_t* target,
    Failure* failure
) noexcept nogil:
    """Read so many bytes of a section's payload from `start` on."""
    cdef uint8_t* whole = NULL
    cdef int status
    if table.cipher == NULL:
        return table_read(table, target, size, section.offset + start, failure)
    status = table_section(table, section, &whole, failure)
    if status == OK:
        memcpy(target, whole + start, size)
        free(whole)
    return status


cdef int stretch(
    Table* table, const Section* section, uint64_t start, size_t size, uint32_t checksum,
    bint may_block, Block** block, Failure* failure
) noexcept nogil:
    """Pin a stretch of a section, from the cache or the file."""
    cdef uint64_t offset = section.offset + start
    cdef uint8_t* data
    cdef int status
    block[0] = cache_find(table.cache, table.file_id, offset)
    if likely(block[0] != NULL):
        return OK
    if not may_block:
        return WOULD_BLOCK
    data = <uint8_t*>malloc(size + 1)
    if data == NULL:
        return no_memory(table, failure)
    status = read_stretch(table, section, start, size, data, failure)
    if status == OK and crc32c(0, data, size) != checksum:
        status = table_damaged(
            table, "a section changed after it was read first", offset, failure
        )
    if status != OK:
        free(data)
        return status
    block[0] = cache_add(table.cache, table.file_id, offset, data, size, True)
    return OK if block[0] != NULL else no_memory(table, failure)


cdef int parts_filter(
    Table* table, uint64_t key_hash, bint may_block, bint* passes, Failure* failure
) noexcept nogil:
    cdef Block* block
    cdef size_t line
    cdef size_t page
    cdef int status
    passes[0] = True
    if table.filter_bytes == 0:
        return OK
    line = filter_line(table.filter_bytes, key_hash)
    page = line // FILTER_PAGE_BYTES
    status = stretch(
        table, &table.filter_section, page * FILTER_PAGE_BYTES, filter_page_bytes(table, page),
        table.filter_checksums[page], may_block, &block, failure,
    )
    if status != OK:
        return status
    # One line is a filter by itself.
    passes[0] = filter_may_contain(
        block.data + (line - page * FILTER_PAGE_BYTES), CACHE_LINE_BYTES, key_hash,
        table.filter_bits,
    )
    block_unref(block)
    return OK


cdef int index_part(
    Table* table, uint32_t part, bint may_block, Block** block, Failure* failure
) noexcept nogil:
    cdef const IndexPart* at = &table.parts[part]
    return stretch(
        table, &table.index_section, at[0].start, <size_t>(at[1].start - at[0].start),
        at[0].checksum, may_block, block, failure,
    )


cdef int parts_locate(
    Table* table, Slice key, uint64_t tag, bint may_block, IndexSlot* slot, uint32_t* number,
    Failure* failure
) noexcept nogil:
    cdef uint32_t part = index_find(&table.index, key, tag)
    cdef Block* block
    cdef int status
    if part == table.index.count:
        number[0] = table.block_count
        slot.offset = table.index_section.offset
        return NOT_FOUND
    status = index_part(table, part, may_block, &block, failure)
    if status != OK:
        return status
    status = part_search(
        &table.index, part, block.data, block.size, key, tag, slot, number
    )
    block_unref(block)
    return index_status(table, status, failure)


cdef int parts_open(
    Table* table, uint32_t part, bint may_block, TableIndex* index, Failure* failure
) noexcept nogil:
    cdef Block* block
    cdef uint32_t blocks = min(
        table.block_count - part * PART_BLOCKS, <uint32_t>PART_BLOCKS
    )
    cdef int status
    memset(index, 0, sizeof(TableIndex))
    status = index_part(table, part, may_block, &block, failure)
    if status != OK:
        return status
    status = index_decode_part(index, block.data, block.size, blocks, &table.index, part)
    block_unref(block)
    return index_status(table, status, failure)
