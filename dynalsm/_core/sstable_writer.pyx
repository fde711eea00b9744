# Writes one SSTable (see sstable_writer.pxd for the contracts, docs/format-sstable.md for the bytes).
#
# Finished blocks go to an output buffer and from there to the file in large writes; with a codec they
# wait until there are enough of them to be compressed in one call. The index, the key hashes of the
# filter and the properties are collected on the way and written behind the data.
#
# Invariants: (1) file_offset + output.size is the offset of the next block; (2) entries come in
# internal order, and this is checked: an SSTable out of order would lose keys silently.

from libc.errno cimport EEXIST, errno
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset, strdup
from libc.time cimport time
from posix.fcntl cimport O_CREAT, O_EXCL, O_WRONLY

from dynalsm._core.block cimport (
    BlockBuilder,
    block_builder_add_hashed,
    block_builder_bytes,
    block_builder_finish,
    block_builder_free,
    block_builder_init,
    block_builder_reset,
)
from dynalsm._core.bits cimport bytes_in_common
from dynalsm._core.coding cimport Slice, slice_compare, slice_equal, slice_of
from dynalsm._core.compress cimport CODEC_NONE, CODEC_ZSTD, RawBlock, compress_blocks
from dynalsm._core.files cimport file_close, file_open, file_remove, file_sync, file_write
from dynalsm._core.filter cimport filter_build, filter_size
from dynalsm._core.hashing cimport hash64
from dynalsm._core.source cimport KIND_DELETE, KIND_SINGLE_DELETE
from dynalsm._core.sstable_format cimport (
    DIRECTORY_ENTRY_BYTES,
    SECTION_FILTER,
    SECTION_INDEX,
    SECTION_OPTIONAL,
    SECTION_PROPERTIES,
    TABLE_FOOTER_BYTES,
    TABLE_HEADER_BYTES,
    TRAILER_BYTES,
    Bytes,
    Footer,
    Properties,
    Section,
    bytes_append,
    bytes_append_varint,
    bytes_free,
    bytes_reserve,
    footer_encode,
    properties_encode,
    put_trailer,
    section_encode,
    table_header_encode,
)
from dynalsm._core.status cimport CORRUPTION, NO_MEMORY, OK, Failure, fail, fail_errno

cdef extern from "<sys/random.h>" nogil:
    int getentropy(void* buffer, size_t size)


cdef enum:
    OUTPUT_BYTES = 1 << 20           # written to the file at a time
    PENDING_BLOCKS = 128             # compressed in one call
    PENDING_BYTES = 1 << 20
    DIRECT_BYTES = 1 << 18           # larger blocks are not copied to the output buffer
    SECTIONS = 3


# What the index needs about a block, besides its separator.
cdef struct BlockPlace:
    size_t separator_end             # in index_keys
    uint32_t stored
    uint32_t raw


cdef struct TableWriter:
    char* path                       # owned
    int fd
    uint64_t file_id
    uint64_t tree_id
    uint32_t level
    TableOptions options
    uint64_t unique_id
    uint64_t file_offset             # bytes written so far
    Bytes output
    BlockBuilder block
    Bytes pending                    # finished blocks waiting for the codec, end to end
    RawBlock queue[PENDING_BLOCKS]
    int queued
    # The index: encoded separators end to end, and the blocks' places.
    Bytes index_keys
    BlockPlace* places               # owned
    size_t place_count               # blocks cut
    size_t place_capacity
    size_t stored_count              # blocks whose stored size is known
    Bytes last_separator
    # The last key added, and what goes into the properties.
    Bytes last_key
    uint64_t last_hash
    uint64_t last_tag
    uint64_t* hashes                 # owned: of distinct keys
    uint64_t keys
    uint64_t hash_capacity
    uint64_t entries
    uint64_t deletions
    uint64_t min_seqno
    uint64_t max_seqno
    uint64_t raw_bytes
    Bytes smallest
    Section sections[SECTIONS]
    int section_count


# --------------------------------------------------------------------------------- open, free

cdef void free_writer(TableWriter* writer) noexcept nogil:
    block_builder_free(&writer.block)
    bytes_free(&writer.output)
    bytes_free(&writer.pending)
    bytes_free(&writer.index_keys)
    bytes_free(&writer.last_separator)
    bytes_free(&writer.last_key)
    bytes_free(&writer.smallest)
    free(writer.places)
    free(writer.hashes)
    free(writer.path)
    free(writer)


cdef int no_memory(Failure* failure) noexcept nogil:
    return fail(failure, NO_MEMORY, "no memory to write an SSTable", NULL, -1, 0)


cdef int prepare(TableWriter* writer, Failure* failure) noexcept nogil:
    cdef int status
    if writer.path == NULL or block_builder_init(&writer.block, writer.options.restart_interval):
        return no_memory(failure)
    if bytes_reserve(&writer.output, OUTPUT_BYTES + DIRECT_BYTES):
        return no_memory(failure)
    while writer.unique_id == 0:
        if getentropy(&writer.unique_id, 8) != 0:
            return fail_errno(failure, "cannot get random bytes", NULL, errno)
    table_header_encode(writer.output.data, writer.unique_id)
    writer.output.size = TABLE_HEADER_BYTES
    status = file_open(writer.path, O_WRONLY | O_CREAT | O_EXCL, 0o600, &writer.fd, failure)
    if status != OK and failure.errnum == EEXIST:
        # Left over from a crash before the manifest knew it. It is unlinked, not truncated: whoever
        # has it linked or open under another name keeps what was in it.
        status = file_remove(writer.path, failure)
        if status == OK:
            status = file_open(writer.path, O_WRONLY | O_CREAT | O_EXCL, 0o600, &writer.fd, failure)
    return status


cdef TableWriter* table_writer_open(
    const char* path, uint64_t file_id, uint64_t tree_id, uint32_t level,
    const TableOptions* options, Failure* failure
) noexcept nogil:
    cdef TableWriter* writer = <TableWriter*>calloc(1, sizeof(TableWriter))
    if writer == NULL:
        no_memory(failure)
        return NULL
    writer.fd = -1
    writer.path = strdup(path)
    writer.file_id = file_id
    writer.tree_id = tree_id
    writer.level = level
    writer.options = options[0]
    writer.min_seqno = ~<uint64_t>0
    if prepare(writer, failure) != OK:
        free_writer(writer)
        return NULL
    return writer


cdef void table_writer_abandon(TableWriter* writer) noexcept nogil:
    cdef Failure ignored
    if writer == NULL:
        return
    if writer.fd >= 0:
        file_close(writer.fd)
        file_remove(writer.path, &ignored)
    free_writer(writer)


cdef uint64_t table_writer_bytes(TableWriter* writer) noexcept nogil:
    return (
        writer.file_offset + writer.output.size + writer.pending.size
        + block_builder_bytes(&writer.block) + writer.index_keys.size
        + (writer.keys * writer.options.filter_bits) // 8
    )


cdef uint64_t table_writer_entries(TableWriter* writer) noexcept nogil:
    return writer.entries


# ------------------------------------------------------------------------------ output to the file

cdef int write_out(TableWriter* writer, Failure* failure) noexcept nogil:
    cdef int status = file_write(
        writer.fd, writer.path, writer.output.data, writer.output.size,
        <int64_t>writer.file_offset, failure,
    )
    if status == OK:
        writer.file_offset += writer.output.size
        writer.output.size = 0
    return status


cdef int write_payload(
    TableWriter* writer, const uint8_t* payload, size_t size, int codec, Failure* failure
) noexcept nogil:
    """Append a payload and its trailer to the file."""
    cdef uint64_t offset = writer.file_offset + writer.output.size
    if bytes_reserve(&writer.output, size + TRAILER_BYTES):
        return no_memory(failure)
    memcpy(writer.output.data + writer.output.size, payload, size)
    put_trailer(writer.output.data + writer.output.size, size, codec, writer.unique_id, offset)
    writer.output.size += size + TRAILER_BYTES
    if writer.output.size >= OUTPUT_BYTES:
        return write_out(writer, failure)
    return OK


cdef int write_large(
    TableWriter* writer, uint8_t* payload, size_t size, int codec, Failure* failure
) noexcept nogil:
    """As write_payload, without copying. REQUIRES: TRAILER_BYTES of room behind the payload."""
    cdef int status = write_out(writer, failure)
    if status != OK:
        return status
    put_trailer(payload, size, codec, writer.unique_id, writer.file_offset)
    status = file_write(
        writer.fd, writer.path, payload, size + TRAILER_BYTES,
        <int64_t>writer.file_offset, failure,
    )
    writer.file_offset += size + TRAILER_BYTES
    return status


cdef int store_block(
    TableWriter* writer, uint8_t* payload, size_t size, int codec, bint has_room, Failure* failure
) noexcept nogil:
    writer.places[writer.stored_count].stored = <uint32_t>size
    writer.stored_count += 1
    if has_room and size >= DIRECT_BYTES:
        return write_large(writer, payload, size, codec, failure)
    return write_payload(writer, payload, size, codec, failure)


cdef int compress_and_store(
    TableWriter* writer, RawBlock* blocks, int count, Failure* failure
) noexcept nogil:
    """Compress blocks in one call and store them, each as it is when that does not pay."""
    cdef RawBlock* block
    cdef int status
    cdef int i
    for i in range(count):
        blocks[i].packed = NULL
        blocks[i].packed_size = 0
    status = compress_blocks(blocks, count, writer.options.compression_level, failure)
    for i in range(count):
        block = &blocks[i]
        if status == OK:
            if block.packed == NULL:
                status = store_block(
                    writer, <uint8_t*>block.data, block.size, CODEC_NONE, False, failure
                )
            else:
                status = store_block(
                    writer, block.packed, block.packed_size, CODEC_ZSTD, False, failure
                )
        free(block.packed)
    return status


cdef int compress_queue(TableWriter* writer, Failure* failure) noexcept nogil:
    """Compress and store the waiting blocks."""
    cdef size_t offset = 0
    cdef int status
    cdef int i
    for i in range(writer.queued):
        # Only now: the buffer may have moved while it grew.
        writer.queue[i].data = writer.pending.data + offset
        offset += writer.queue[i].size
    status = compress_and_store(writer, writer.queue, writer.queued, failure)
    writer.queued = 0
    writer.pending.size = 0
    return status


cdef int queue_block(TableWriter* writer, Failure* failure) noexcept nogil:
    """Let the finished block wait for the codec; a large one is compressed where it is, now."""
    cdef RawBlock large
    cdef size_t size = writer.block.size
    cdef int status = OK
    if size >= DIRECT_BYTES:
        status = compress_queue(writer, failure)
        if status != OK:
            return status
        large.data = writer.block.data
        large.size = size
        return compress_and_store(writer, &large, 1, failure)
    if bytes_append(&writer.pending, writer.block.data, size):
        return no_memory(failure)
    writer.queue[writer.queued].size = size
    writer.queued += 1
    if writer.queued == PENDING_BLOCKS or writer.pending.size >= PENDING_BYTES:
        status = compress_queue(writer, failure)
    return status


# ------------------------------------------------------------------------------------------ blocks

cdef int make_separator(Slice last, Slice next, Bytes* target) noexcept nogil:
    """The shortest key >= last and < next, or `last` where shortening is not simple."""
    cdef size_t shorter = last.size if last.size < next.size else next.size
    cdef size_t common = bytes_in_common(last.data, next.data, shorter)
    target.size = 0
    if common < last.size:
        if <int>last.data[common] + 1 < <int>next.data[common]:
            if bytes_append(target, last.data, common + 1):
                return NO_MEMORY
            target.data[common] += 1
            return OK
        if common + 1 < next.size:
            return bytes_append(target, next.data, common + 1)
    return bytes_append(target, last.data, last.size)


cdef int index_block(TableWriter* writer, const Slice* next, size_t raw) noexcept nogil:
    """Note the separator behind the current block; next is NULL behind the last one."""
    cdef Slice last = slice_of(writer.last_key.data, writer.last_key.size)
    cdef bint straddles = next != NULL and slice_equal(last, next[0])
    cdef Bytes separator
    cdef BlockPlace* places
    cdef size_t shared
    cdef size_t shorter
    cdef int status
    if writer.place_count == writer.place_capacity:
        places = <BlockPlace*>realloc(
            writer.places, (2 * writer.place_capacity + 64) * sizeof(BlockPlace)
        )
        if places == NULL:
            return NO_MEMORY
        writer.places = places
        writer.place_capacity = 2 * writer.place_capacity + 64
    memset(&separator, 0, sizeof(Bytes))
    if next == NULL or straddles:
        status = bytes_append(&separator, last.data, last.size)
    else:
        status = make_separator(last, next[0], &separator)
    if status == OK:
        shorter = min(separator.size, writer.last_separator.size)
        shared = bytes_in_common(separator.data, writer.last_separator.data, shorter)
        status = (
            bytes_append_varint(&writer.index_keys, 2 * shared + straddles)
            or bytes_append_varint(&writer.index_keys, separator.size - shared)
            or bytes_append(&writer.index_keys, separator.data + shared, separator.size - shared)
            or (straddles and bytes_append_varint(&writer.index_keys, writer.last_tag))
        )
    bytes_free(&writer.last_separator)
    writer.last_separator = separator
    if status != OK:
        return NO_MEMORY
    writer.places[writer.place_count].separator_end = writer.index_keys.size
    writer.places[writer.place_count].raw = <uint32_t>raw
    writer.place_count += 1
    return OK


cdef int cut_block(TableWriter* writer, const Slice* next, Failure* failure) noexcept nogil:
    """End the current block: store it, or let it wait for the codec."""
    cdef size_t size
    cdef int status = OK
    # Room for the trailer, so that a large block can be written where it is.
    if block_builder_finish(&writer.block):
        return no_memory(failure)
    size = writer.block.size
    if index_block(writer, next, size):
        return no_memory(failure)
    if writer.options.codec == CODEC_NONE:
        status = store_block(
            writer, writer.block.data, size, CODEC_NONE,
            writer.block.capacity >= size + TRAILER_BYTES, failure,
        )
    else:
        status = queue_block(writer, failure)
    block_builder_reset(&writer.block)
    return status


cdef inline bint is_full(TableWriter* writer, size_t entry_bytes) noexcept nogil:
    """Whether the current block ends before an entry of that size.

    Never a block that is mostly somebody else's large value: that one starts a block of its own.
    """
    cdef size_t size = block_builder_bytes(&writer.block)
    cdef size_t target = writer.options.block_bytes
    if writer.block.entries == 0 or size + entry_bytes <= target:
        return False
    return size >= target // 2 or entry_bytes > target


# ------------------------------------------------------------------------------------------ adding

cdef int remember_key(TableWriter* writer, Slice key, Failure* failure) noexcept nogil:
    """A key other than the one before: for the filter and the order check."""
    cdef uint64_t* hashes
    writer.last_hash = hash64(key.data, key.size)
    if writer.options.filter_bits:
        if writer.keys == writer.hash_capacity:
            hashes = <uint64_t*>realloc(
                writer.hashes, (2 * writer.hash_capacity + 1024) * sizeof(uint64_t)
            )
            if hashes == NULL:
                return no_memory(failure)
            writer.hashes = hashes
            writer.hash_capacity = 2 * writer.hash_capacity + 1024
        writer.hashes[writer.keys] = writer.last_hash
    writer.keys += 1
    if writer.keys == 1 and bytes_append(&writer.smallest, key.data, key.size):
        return no_memory(failure)
    writer.last_key.size = 0
    if bytes_append(&writer.last_key, key.data, key.size):
        return no_memory(failure)
    return OK


cdef int table_writer_add(
    TableWriter* writer, Slice key, uint64_t tag, Slice value, Failure* failure
) noexcept nogil:
    cdef int order = -1
    cdef int status
    cdef uint64_t seqno = tag >> 8
    cdef int kind = tag & 0xFF
    if writer.entries:
        order = slice_compare(slice_of(writer.last_key.data, writer.last_key.size), key)
        if order > 0 or (order == 0 and writer.last_tag <= tag):
            return fail(
                failure, CORRUPTION, "entries for an SSTable are not in order", writer.path, -1, 0
            )
        if is_full(writer, key.size + value.size + 8):
            status = cut_block(writer, &key, failure)
            if status != OK:
                return status
    if order:
        status = remember_key(writer, key, failure)
        if status != OK:
            return status
    if block_builder_add_hashed(&writer.block, key, writer.last_hash, tag, value):
        return no_memory(failure)
    writer.last_tag = tag
    writer.entries += 1
    writer.deletions += kind == KIND_DELETE or kind == KIND_SINGLE_DELETE
    writer.raw_bytes += key.size + value.size
    if seqno < writer.min_seqno:
        writer.min_seqno = seqno
    if seqno > writer.max_seqno:
        writer.max_seqno = seqno
    return OK


# --------------------------------------------------------------------------------------- finishing

cdef int write_section(
    TableWriter* writer, int kind, int flags, const Bytes* payload, Failure* failure
) noexcept nogil:
    cdef Section* section = &writer.sections[writer.section_count]
    section.kind = <uint8_t>kind
    section.flags = <uint8_t>flags
    section.offset = writer.file_offset + writer.output.size
    section.size = payload.size
    writer.section_count += 1
    return write_payload(writer, payload.data, payload.size, CODEC_NONE, failure)


cdef int write_index(TableWriter* writer, Failure* failure) noexcept nogil:
    cdef Bytes payload
    cdef size_t i
    cdef size_t start = 0
    cdef int status = OK
    memset(&payload, 0, sizeof(Bytes))
    if bytes_reserve(&payload, writer.index_keys.size + 10 * writer.place_count + 10):
        return no_memory(failure)
    bytes_append_varint(&payload, writer.place_count)
    for i in range(writer.place_count):
        status = (
            bytes_append(
                &payload, writer.index_keys.data + start, writer.places[i].separator_end - start
            )
            or bytes_append_varint(&payload, writer.places[i].stored)
            or bytes_append_varint(&payload, writer.places[i].raw)
        )
        if status != OK:
            bytes_free(&payload)
            return no_memory(failure)
        start = writer.places[i].separator_end
    status = write_section(writer, SECTION_INDEX, 0, &payload, failure)
    bytes_free(&payload)
    return status


cdef int write_filter(TableWriter* writer, Failure* failure) noexcept nogil:
    cdef Bytes payload
    cdef int bits = <int>writer.options.filter_bits
    cdef int status
    memset(&payload, 0, sizeof(Bytes))
    payload.size = filter_size(writer.keys, bits)
    if payload.size == 0:
        return OK
    payload.data = <uint8_t*>malloc(payload.size)
    if payload.data == NULL:
        return no_memory(failure)
    filter_build(payload.data, payload.size, writer.hashes, writer.keys, bits)
    status = write_section(writer, SECTION_FILTER, SECTION_OPTIONAL, &payload, failure)
    bytes_free(&payload)
    return status


cdef int write_properties(
    TableWriter* writer, uint64_t data_bytes, Failure* failure
) noexcept nogil:
    cdef Properties properties
    cdef Bytes payload
    cdef int status
    memset(&payload, 0, sizeof(Bytes))
    memset(&properties, 0, sizeof(Properties))
    properties.tree_id = writer.tree_id
    properties.level = writer.level
    properties.file_id = writer.file_id
    properties.unique_id = writer.unique_id
    properties.entries = writer.entries
    properties.deletions = writer.deletions
    properties.keys = writer.keys
    properties.min_seqno = writer.min_seqno
    properties.max_seqno = writer.max_seqno
    properties.raw_bytes = writer.raw_bytes
    properties.data_blocks = writer.place_count
    properties.data_bytes = data_bytes
    properties.filter_bits = writer.options.filter_bits
    properties.block_bytes = writer.options.block_bytes
    properties.restart_interval = writer.options.restart_interval
    properties.created = <uint64_t>time(NULL)
    properties.smallest = slice_of(writer.smallest.data, writer.smallest.size)
    properties.largest = slice_of(writer.last_key.data, writer.last_key.size)
    properties.filter_hash = slice_of(<const char*>"xxh64", 5)
    properties.codec = slice_of(<const char*>"none", 4)
    if writer.options.codec == CODEC_ZSTD:
        properties.codec = slice_of(<const char*>"zstd", 4)
    if properties_encode(&payload, &properties):
        bytes_free(&payload)
        return no_memory(failure)
    status = write_section(writer, SECTION_PROPERTIES, 0, &payload, failure)
    bytes_free(&payload)
    return status


cdef int write_end(TableWriter* writer, Failure* failure) noexcept nogil:
    """The directory of sections and the footer."""
    cdef uint8_t directory[SECTIONS * DIRECTORY_ENTRY_BYTES]
    cdef Footer footer
    cdef int i
    cdef int status
    memset(&footer, 0, sizeof(Footer))
    for i in range(writer.section_count):
        section_encode(directory + i * DIRECTORY_ENTRY_BYTES, &writer.sections[i])
    footer.directory_offset = writer.file_offset + writer.output.size
    footer.directory_size = <uint64_t>writer.section_count * DIRECTORY_ENTRY_BYTES
    footer.unique_id = writer.unique_id
    status = write_payload(writer, directory, footer.directory_size, CODEC_NONE, failure)
    if status != OK:
        return status
    footer.file_bytes = writer.file_offset + writer.output.size + TABLE_FOOTER_BYTES
    if bytes_reserve(&writer.output, TABLE_FOOTER_BYTES):
        return no_memory(failure)
    footer_encode(writer.output.data + writer.output.size, &footer)
    writer.output.size += TABLE_FOOTER_BYTES
    return write_out(writer, failure)


cdef int write_rest(TableWriter* writer, Failure* failure) noexcept nogil:
    cdef uint64_t data_end
    cdef int status = OK
    if writer.block.entries:
        status = cut_block(writer, NULL, failure)
    if status == OK and writer.queued:
        status = compress_queue(writer, failure)
    if status != OK:
        return status
    if writer.entries == 0:
        writer.min_seqno = 0
    data_end = writer.file_offset + writer.output.size
    status = write_index(writer, failure)
    if status == OK:
        status = write_filter(writer, failure)
    if status == OK:
        status = write_properties(writer, data_end - TABLE_HEADER_BYTES, failure)
    if status == OK:
        status = write_end(writer, failure)
    if status == OK:
        status = file_sync(writer.fd, writer.path, failure)
    return status


cdef int fill_info(TableWriter* writer, TableInfo* info, Failure* failure) noexcept nogil:
    memset(info, 0, sizeof(TableInfo))
    info.file_id = writer.file_id
    info.file_bytes = writer.file_offset
    info.unique_id = writer.unique_id
    info.entries = writer.entries
    info.deletions = writer.deletions
    info.min_seqno = writer.min_seqno
    info.max_seqno = writer.max_seqno
    info.raw_bytes = writer.raw_bytes
    info.smallest_size = writer.smallest.size
    info.largest_size = writer.last_key.size
    info.smallest = <uint8_t*>malloc(info.smallest_size + 1)
    info.largest = <uint8_t*>malloc(info.largest_size + 1)
    if info.smallest == NULL or info.largest == NULL:
        table_info_free(info)
        return no_memory(failure)
    if info.smallest_size:
        memcpy(info.smallest, writer.smallest.data, info.smallest_size)
    if info.largest_size:
        memcpy(info.largest, writer.last_key.data, info.largest_size)
    return OK


cdef int table_writer_finish(TableWriter* writer, TableInfo* info, Failure* failure) noexcept nogil:
    cdef int status = write_rest(writer, failure)
    memset(info, 0, sizeof(TableInfo))
    if status == OK:
        status = fill_info(writer, info, failure)
    if status != OK:
        table_writer_abandon(writer)
        return status
    file_close(writer.fd)
    free_writer(writer)
    return OK


cdef void table_info_free(TableInfo* info) noexcept nogil:
    free(info.smallest)
    free(info.largest)
    info.smallest = NULL
    info.largest = NULL
