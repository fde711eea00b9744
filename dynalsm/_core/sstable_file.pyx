# One open SSTable (see sstable_file.pxd for the contracts, docs/format-sstable.md for the bytes).
#
# Invariant: every byte of the file that is used has been checked against a checksum that also
# covers the file's unique id and the offset the bytes were expected at.

from libc.stdlib cimport calloc, free, malloc
from libc.string cimport strdup

from dynalsm._core.bits cimport likely, load_relaxed, store_relaxed, unlikely
from dynalsm._core.block cimport block_prefetch
from dynalsm._core.cache cimport block_try_pin, cache_add, cache_charge, cache_drop_file, cache_find
from dynalsm._core.cipher cimport (
    SEAL_HEAD_BYTES,
    SEAL_TAG_BYTES,
    Piece,
    cipher_find,
    cipher_free,
    cipher_open,
    cipher_refuse_plain,
)
from dynalsm._core.coding cimport prefetch, slice_of
from dynalsm._core.compress cimport CODEC_NONE, CODEC_ZSTD, decompress_block
from dynalsm._core.descriptors cimport (
    descriptor_acquire,
    descriptor_close,
    descriptor_init,
    descriptor_release,
)
from dynalsm._core.files cimport file_read, file_remove, file_size
from dynalsm._core.sstable_format cimport (
    DIRECTORY_ENTRY_BYTES,
    FEATURE_ENCRYPTED,
    SECTION_ENCRYPTION,
    SECTION_FILTER,
    SECTION_INDEX,
    SECTION_NONE,
    SECTION_OPTIONAL,
    SECTION_PROPERTIES,
    SECTIONS_MAX,
    TABLE_FOOTER_BYTES,
    TABLE_HEADER_BYTES,
    TRAILER_BYTES,
    Footer,
    block_piece,
    footer_decode,
    properties_decode,
    section_decode,
    trailer_is_right,
)
from dynalsm._core.sstable_index cimport index_free
from dynalsm._core.status cimport (
    CORRUPTION,
    NO_MEMORY,
    OK,
    WOULD_BLOCK,
    fail,
    failure_clear,
)
from dynalsm._core.sync cimport (
    atomic_sub,
    pthread_mutex_destroy,
    pthread_mutex_init,
)

cdef enum:
    # The directory always lies within the last so many bytes.
    TAIL_BYTES = 2048


cdef const char* UNOPENED = (
    "a block does not open under the file's key: it was changed, or is not where it was written"
)


cdef int table_damaged(
    Table* table, const char* message, uint64_t offset, Failure* failure
) noexcept nogil:
    return fail(failure, CORRUPTION, message, table.path, <int64_t>offset, 0)


cdef int no_memory(Table* table, Failure* failure) noexcept nogil:
    return fail(failure, NO_MEMORY, "no memory to read an SSTable", table.path, -1, 0)


cdef int table_read(
    Table* table, void* buffer, size_t size, uint64_t offset, Failure* failure
) noexcept nogil:
    cdef int fd
    cdef int status = descriptor_acquire(&table.descriptor, &fd, failure)
    if status != OK:
        return status
    status = file_read(fd, table.path, buffer, size, <int64_t>offset, failure)
    descriptor_release(&table.descriptor)
    return status


# ------------------------------------------------------------------------------------ open, close

cdef int find_file_size(Table* table, uint64_t expected, Failure* failure) noexcept nogil:
    cdef int64_t size = 0
    cdef int fd
    cdef int status = descriptor_acquire(&table.descriptor, &fd, failure)
    if status != OK:
        return status
    status = file_size(fd, table.path, &size, failure)
    descriptor_release(&table.descriptor)
    if status != OK:
        return status
    table.file_bytes = <uint64_t>size
    if expected and table.file_bytes != expected:
        return table_damaged(
            table, "the SSTable does not have the size the manifest says",
            min(expected, table.file_bytes), failure,
        )
    if table.file_bytes < TABLE_HEADER_BYTES + TRAILER_BYTES + TABLE_FOOTER_BYTES:
        return table_damaged(table, "the file is too short for an SSTable", 0, failure)
    return OK


cdef int take_section(
    Table* table, const uint8_t* entry, uint64_t limit, uint64_t at, Failure* failure
) noexcept nogil:
    """Keep one entry of the directory. `limit`: where the directory starts; `at`: of the entry."""
    cdef Section section
    cdef Section* place = NULL
    if not section_decode(entry, &section):
        return table_damaged(table, "reserved bits of a section are not zero", at, failure)
    if (
        section.offset < TABLE_HEADER_BYTES
        or section.offset > limit
        or section.size > limit
        or section.offset + section.size + TRAILER_BYTES > limit
    ):
        return table_damaged(table, "a section lies outside of the SSTable", at, failure)
    if section.kind == SECTION_INDEX:
        place = &table.index_section
    elif section.kind == SECTION_FILTER:
        place = &table.filter_section
    elif section.kind == SECTION_PROPERTIES:
        place = &table.properties_section
    elif section.kind == SECTION_ENCRYPTION:
        place = &table.head_section
    elif not section.flags & SECTION_OPTIONAL:
        return table_damaged(
            table, "the SSTable has a section this version of dynalsm does not know", at, failure
        )
    else:
        return OK
    if place.offset:
        return table_damaged(table, "the SSTable has a section twice", at, failure)
    place[0] = section
    return OK


cdef int take_directory(
    Table* table, const uint8_t* directory, const Footer* footer, Failure* failure
) noexcept nogil:
    cdef uint64_t at
    cdef int status
    if not trailer_is_right(
        directory, footer.directory_size, footer.unique_id, footer.directory_offset
    ) or directory[footer.directory_size] != CODEC_NONE:
        return table_damaged(
            table, "the directory's checksum is wrong", footer.directory_offset, failure
        )
    at = 0
    while at < footer.directory_size:
        status = take_section(
            table, directory + at, footer.directory_offset, footer.directory_offset + at, failure
        )
        if status != OK:
            return status
        at += DIRECTORY_ENTRY_BYTES
    if table.index_section.offset == 0 or table.properties_section.offset == 0:
        return table_damaged(
            table, "the SSTable has no index or no properties", footer.directory_offset, failure
        )
    return OK


cdef int take_cipher(
    Table* table, const uint8_t* tail, uint64_t start, const Footer* footer, void* keyring,
    Failure* failure
) noexcept nogil:
    """Find the key of an encrypted file. `tail`: the file's bytes from `start` on."""
    cdef const Section* section = &table.head_section
    cdef const uint8_t* head
    if not footer.required_features & FEATURE_ENCRYPTED:
        return cipher_refuse_plain(keyring, table.path, failure)
    if section.size != SEAL_HEAD_BYTES or section.offset < start:
        return table_damaged(
            table, "the encrypted SSTable does not name its key", footer.directory_offset, failure
        )
    head = tail + (section.offset - start)
    if not trailer_is_right(head, section.size, table.unique_id, section.offset):
        return table_damaged(table, "a section's checksum is wrong", section.offset, failure)
    table.cipher = cipher_find(
        keyring, "table", head, table.path, <int64_t>section.offset, failure
    )
    return OK if table.cipher != NULL else failure.status


cdef int read_tail(
    Table* table, uint64_t unique_id, void* keyring, Failure* failure
) noexcept nogil:
    """Read footer and directory, and find the key."""
    cdef uint8_t tail[TAIL_BYTES]
    cdef Footer footer
    cdef const char* problem
    cdef uint64_t size = min(table.file_bytes, <uint64_t>TAIL_BYTES)
    cdef uint64_t start = table.file_bytes - size
    cdef uint64_t footer_at = table.file_bytes - TABLE_FOOTER_BYTES
    cdef int status = table_read(table, tail, size, start, failure)
    if status != OK:
        return status
    problem = footer_decode(tail + (footer_at - start), &footer)
    if problem != NULL:
        return table_damaged(table, problem, footer_at, failure)
    if footer.file_bytes != table.file_bytes:
        return table_damaged(
            table, "the SSTable is shorter or longer than written", footer_at, failure
        )
    if unique_id and footer.unique_id != unique_id:
        return table_damaged(
            table, "this is another SSTable than the manifest says", footer_at, failure
        )
    table.unique_id = footer.unique_id
    if (
        footer.directory_size % DIRECTORY_ENTRY_BYTES
        or footer.directory_size > SECTIONS_MAX * DIRECTORY_ENTRY_BYTES
        or footer.directory_offset < start
        or footer.directory_offset + footer.directory_size + TRAILER_BYTES != footer_at
    ):
        return table_damaged(table, "the footer points outside of the file", footer_at, failure)
    status = take_directory(table, tail + (footer.directory_offset - start), &footer, failure)
    if status == OK:
        status = take_cipher(table, tail, start, &footer, keyring, failure)
    return status


cdef Table* table_file_open(
    const char* path, uint64_t file_id, uint64_t file_bytes, uint64_t unique_id, Cache* cache,
    void* keyring, Failure* failure
) noexcept nogil:
    cdef Table* table = <Table*>calloc(1, sizeof(Table))
    cdef int status
    if table == NULL:
        fail(failure, NO_MEMORY, "no memory to open an SSTable", path, -1, 0)
        return NULL
    table.references = 1
    table.file_id = file_id
    table.cache = cache
    pthread_mutex_init(&table.load_mutex, NULL)
    table.path = strdup(path)
    descriptor_init(&table.descriptor, table.path)
    if table.path == NULL:
        status = no_memory(table, failure)
    else:
        status = find_file_size(table, file_bytes, failure)
    if status == OK:
        status = read_tail(table, unique_id, keyring, failure)
    if status != OK:
        close_table(table)
        return NULL
    return table


cdef void table_forget_loaded(Table* table) noexcept nogil:
    index_free(&table.index)
    free(table.filter)
    free(table.filter_checksums)
    free(table.parts)
    table.filter = NULL
    table.filter_checksums = NULL
    table.parts = NULL
    table.filter_bytes = 0
    table.memory_bytes = 0


cdef void close_table(Table* table) noexcept nogil:
    cdef Failure ignored
    descriptor_close(&table.descriptor)
    if table.obsolete:
        # The engine finds a file that could not be removed when it is opened next.
        file_remove(table.path, &ignored)
        cache_drop_file(table.cache, table.file_id)
    if table.loaded:
        cache_charge(table.cache, -<long long>table.memory_bytes)
    table_forget_loaded(table)
    cipher_free(table.cipher)
    pthread_mutex_destroy(&table.load_mutex)
    free(table.path)
    free(table)


cdef void table_file_unref(Table* table) noexcept nogil:
    if atomic_sub(&table.references, 1) == 0:
        close_table(table)


# ---------------------------------------------------------------------------------------- sections

cdef int table_read_section(
    Table* table, const Section* section, uint8_t* data, Failure* failure
) noexcept nogil:
    """Read payload and trailer into `data`, check and open them."""
    cdef int status = table_read(
        table, data, section.size + TRAILER_BYTES, section.offset, failure
    )
    if status != OK:
        return status
    if not trailer_is_right(data, section.size, table.unique_id, section.offset):
        return table_damaged(table, "a section's checksum is wrong", section.offset, failure)
    if data[section.size] != CODEC_NONE:
        return table_damaged(table, "a section has an unknown codec", section.offset, failure)
    if table.cipher != NULL:
        return open_section(table, section, data, failure)
    return OK


cdef int open_section(
    Table* table, const Section* section, uint8_t* data, Failure* failure
) noexcept nogil:
    cdef Piece piece
    cdef size_t opened
    cdef int status
    if section.size < SEAL_TAG_BYTES:
        return table_damaged(table, "an encrypted section is too short", section.offset, failure)
    block_piece(
        &piece, data, section.size - SEAL_TAG_BYTES, section.kind, CODEC_NONE, table.unique_id,
        section.offset,
    )
    status = cipher_open(table.cipher, &piece, 1, &opened, failure)
    if status == CORRUPTION:
        return table_damaged(table, UNOPENED, section.offset, failure)
    return status


cdef size_t table_section_bytes(const Table* table, const Section* section) noexcept nogil:
    return section.size - SEAL_TAG_BYTES if table.cipher != NULL else section.size


cdef int table_section(
    Table* table, const Section* section, uint8_t** data, Failure* failure
) noexcept nogil:
    cdef int status
    data[0] = <uint8_t*>malloc(section.size + TRAILER_BYTES)
    if data[0] == NULL:
        return no_memory(table, failure)
    status = table_read_section(table, section, data[0], failure)
    if status != OK:
        free(data[0])
        data[0] = NULL
    return status


cdef int table_file_properties(
    Table* table, uint8_t** data, Properties* properties, Failure* failure
) noexcept nogil:
    cdef const Section* section = &table.properties_section
    cdef int status = table_section(table, section, data, failure)
    if status != OK:
        return status
    if properties_decode(slice_of(data[0], table_section_bytes(table, section)), properties) != OK:
        status = table_damaged(table, "the properties are damaged", section.offset, failure)
    elif properties.unique_id != table.unique_id:
        status = table_damaged(
            table, "the properties belong to another SSTable", section.offset, failure
        )
    if status != OK:
        free(data[0])
        data[0] = NULL
    return status


# ------------------------------------------------------------------------------------------ blocks

cdef int check_stored(
    Table* table, IndexSlot* slot, const uint8_t* stored, int* codec, size_t* size, Failure* failure
) noexcept nogil:
    """Hold a block as it is in the file against its checksum."""
    cdef uint64_t offset = slot.offset
    size[0] = slot.stored_size
    if unlikely(not trailer_is_right(stored, size[0], table.unique_id, offset)):
        return table_damaged(table, "a block's checksum is wrong", offset, failure)
    return table_opened_block(table, slot, stored, codec, size, failure)


cdef int table_opened_block(
    Table* table, IndexSlot* slot, const uint8_t* stored, int* codec, size_t* size, Failure* failure
) noexcept nogil:
    cdef uint64_t offset = slot.offset
    size[0] = slot.stored_size
    codec[0] = stored[size[0]]
    if table.cipher != NULL:
        if size[0] < SEAL_TAG_BYTES:
            return table_damaged(table, "an encrypted block is too short", offset, failure)
        size[0] -= SEAL_TAG_BYTES
    if codec[0] == CODEC_NONE:
        if size[0] != slot.raw_size:
            return table_damaged(table, "a block does not have its size", offset, failure)
    elif codec[0] != CODEC_ZSTD:
        return table_damaged(table, "a block has an unknown codec", offset, failure)
    return OK


cdef int table_check_block(
    Table* table, IndexSlot* slot, uint8_t* stored, int* codec, size_t* size, Failure* failure
) noexcept nogil:
    cdef Piece piece
    cdef size_t opened
    cdef int status = check_stored(table, slot, stored, codec, size, failure)
    if status != OK or table.cipher == NULL:
        return status
    block_piece(
        &piece, stored, size[0], SECTION_NONE, codec[0], table.unique_id,
        slot.offset,
    )
    status = cipher_open(table.cipher, &piece, 1, &opened, failure)
    if status == CORRUPTION:
        return table_damaged(table, UNOPENED, slot.offset, failure)
    return status


cdef int table_open_blocks(
    Table* table, IndexSlot* slots, uint32_t count, uint8_t* stored, uint32_t* opened,
    Failure* failure
) noexcept nogil:
    cdef uint32_t checks = 0
    cdef uint64_t start = slots[0].offset
    cdef Piece* pieces = <Piece*>malloc(count * sizeof(Piece))
    cdef uint8_t* payload
    cdef size_t size
    cdef size_t done = 0
    cdef int codec
    cdef int checked = OK
    cdef int status = OK
    opened[0] = 0
    if pieces == NULL:
        return no_memory(table, failure)
    while checks < count:
        payload = stored + (slots[checks].offset - start)
        checked = check_stored(table, &slots[checks], payload, &codec, &size, failure)
        if checked != OK:
            break
        block_piece(
            &pieces[checks], payload, size, SECTION_NONE, codec, table.unique_id,
            slots[checks].offset,
        )
        checks += 1
    if checks:
        status = cipher_open(table.cipher, pieces, checks, &done, failure)
        if status == CORRUPTION:
            table_damaged(table, UNOPENED, slots[done].offset, failure)
    free(pieces)
    opened[0] = <uint32_t>done
    return status if status != OK else checked


cdef int table_unpack(
    Table* table, IndexSlot* slot, const uint8_t* payload, size_t size, uint8_t* target,
    Failure* failure
) noexcept nogil:
    cdef Failure why
    cdef int status
    failure_clear(&why)
    status = decompress_block(payload, size, target, slot.raw_size, &why)
    if status != OK:
        fail(
            failure, status, why.message, table.path, <int64_t>slot.offset,
            why.errnum,
        )
    return status


cdef inline void remember(IndexSlot* slot, const Block* block) noexcept nogil:
    store_relaxed(&slot.hint, <uint64_t>block)
    store_relaxed(&slot.data, <uint64_t>block.data)


cdef Block* table_keep_block(
    Table* table, IndexSlot* slot, uint8_t* data, bint fill_cache, Failure* failure
) noexcept nogil:
    cdef Block* block = cache_add(
        table.cache, table.file_id, slot.offset, data, slot.raw_size, fill_cache
    )
    if block == NULL:
        no_memory(table, failure)
    elif fill_cache and table.cache != NULL:
        remember(slot, block)
    return block


cdef int read_block(
    Table* table, IndexSlot* slot, bint fill_cache, Block** block, Failure* failure
) noexcept nogil:
    """Read a block from the file, check it and hand it to the cache."""
    cdef uint64_t offset = slot.offset
    cdef size_t stored_bytes = <size_t>slot.stored_size + TRAILER_BYTES
    cdef uint8_t* stored = <uint8_t*>malloc(stored_bytes)
    cdef uint8_t* unpacked
    cdef size_t size
    cdef int codec
    cdef int status
    if stored == NULL:
        return no_memory(table, failure)
    status = table_read(table, stored, stored_bytes, offset, failure)
    if status == OK:
        status = table_check_block(table, slot, stored, &codec, &size, failure)
    if status == OK and codec != CODEC_NONE:
        unpacked = <uint8_t*>malloc(<size_t>slot.raw_size + 1)
        if unpacked == NULL:
            status = no_memory(table, failure)
        else:
            status = table_unpack(table, slot, stored, size, unpacked, failure)
            free(stored)
            stored = unpacked
    if status != OK:
        free(stored)
        return status
    block[0] = table_keep_block(table, slot, stored, fill_cache, failure)
    return OK if block[0] != NULL else NO_MEMORY


cdef Block* table_cached_block(Table* table, IndexSlot* slot) noexcept nogil:
    cdef Block* block = <Block*>load_relaxed(&slot.hint)
    if likely(block != NULL):
        # Pinning waits for the header; let what is needed next come at the same time. A stale
        # address does no harm here.
        block_prefetch(<const uint8_t*>load_relaxed(&slot.data), slot.raw_size)
        block = block_try_pin(block, table.file_id, slot.offset)
        if likely(block != NULL):
            return block
    block = cache_find(table.cache, table.file_id, slot.offset)
    if block != NULL:
        remember(slot, block)
    return block


cdef void table_prefetch_block(Table* table, IndexSlot* slot) noexcept nogil:
    cdef uint64_t header = load_relaxed(&slot.hint)
    if header:
        prefetch(<const void*>header)
        block_prefetch(<const uint8_t*>load_relaxed(&slot.data), slot.raw_size)


cdef int table_block(
    Table* table, IndexSlot* slot, bint may_block, bint fill_cache, Block** block, Failure* failure
) noexcept nogil:
    block[0] = table_cached_block(table, slot)
    if likely(block[0] != NULL):
        return OK
    if not may_block:
        return WOULD_BLOCK
    return read_block(table, slot, fill_cache, block, failure)
