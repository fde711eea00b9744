# Writes one SSTable (see sstable_writer.pxd for the contracts, docs/format-sstable.md for the
# bytes).
#
# Finished blocks go to the output; with a codec they wait until there are enough of them to be
# compressed in one call. The index, the key hashes of the filter and the properties are collected
# on the way and written behind the data.
#
# Invariant: entries come in internal order, and this is checked: an SSTable out of order would lose
# keys silently.

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset
from libc.time cimport time

from dynalsm._core.block_builder cimport (
    BlockBuilder,
    block_builder_add_hashed,
    block_builder_bytes,
    block_builder_finish,
    block_builder_free,
    block_builder_init,
    block_builder_reset,
)
from dynalsm._core.cipher cimport SEAL_HEAD_BYTES
from dynalsm._core.coding cimport Slice, slice_compare, slice_of
from dynalsm._core.compress cimport CODEC_NONE, CODEC_ZSTD, RawBlock, compress_blocks
from dynalsm._core.filter cimport filter_build, filter_size
from dynalsm._core.hashing cimport hash64
from dynalsm._core.index_builder cimport (
    IndexBuilder,
    index_builder_add,
    index_builder_encode,
    index_builder_free,
    index_builder_stored,
)
from dynalsm._core.source cimport KIND_DELETE, KIND_SINGLE_DELETE
from dynalsm._core.sstable_format cimport (
    DIRECTORY_ENTRY_BYTES,
    FEATURE_ENCRYPTED,
    SECTION_DIRECTORY,
    SECTION_ENCRYPTION,
    SECTION_FILTER,
    SECTION_INDEX,
    SECTION_NONE,
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
    bytes_free,
    footer_encode,
    properties_encode,
    section_encode,
)
from dynalsm._core.sstable_output cimport (
    TableOutput,
    output_abandon,
    output_append,
    output_append_in_place,
    output_append_last,
    output_finish,
    output_offset,
    output_open,
)
from dynalsm._core.status cimport CORRUPTION, NO_MEMORY, OK, Failure, fail


cdef enum:
    PENDING_BLOCKS = 128             # compressed in one call
    PENDING_BYTES = 1 << 20
    LARGE_BYTES = 1 << 18            # larger blocks are compressed at once, where they are
    SECTIONS = 4
    # What an entry takes in a block besides key and value: varints, offset, hash byte.
    ENTRY_OVERHEAD_BYTES = 15


cdef struct TableWriter:
    TableOutput output
    uint64_t file_id
    uint64_t tree_id
    uint32_t level
    TableOptions options
    BlockBuilder block
    Bytes pending                    # finished blocks waiting for the codec, end to end
    RawBlock queue[PENDING_BLOCKS]
    int queued
    IndexBuilder index
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
    bint names_tree
    Slice tree_name                  # borrowed
    bint tree_hashed
    Section sections[SECTIONS]
    int section_count


# --------------------------------------------------------------------------------- open, free

cdef int no_memory(Failure* failure) noexcept nogil:
    return fail(failure, NO_MEMORY, "no memory to write an SSTable", NULL, -1, 0)


cdef TableWriter* table_writer_open(
    const char* path, uint64_t file_id, uint64_t tree_id, uint32_t level,
    const TableOptions* options, Failure* failure
) noexcept nogil:
    cdef TableWriter* writer = <TableWriter*>calloc(1, sizeof(TableWriter))
    if writer == NULL:
        no_memory(failure)
        return NULL
    writer.output.fd = -1
    writer.file_id = file_id
    writer.tree_id = tree_id
    writer.level = level
    writer.options = options[0]
    writer.min_seqno = ~<uint64_t>0
    if block_builder_init(&writer.block, options.restart_interval):
        no_memory(failure)
    elif output_open(&writer.output, path, options.keyring, failure) == OK:
        return writer
    table_writer_abandon(writer)
    return NULL


cdef void table_writer_name_tree(TableWriter* writer, Slice name, bint is_hashed) noexcept nogil:
    writer.names_tree = True
    writer.tree_name = name
    writer.tree_hashed = is_hashed


cdef void table_writer_abandon(TableWriter* writer) noexcept nogil:
    if writer == NULL:
        return
    output_abandon(&writer.output)
    block_builder_free(&writer.block)
    index_builder_free(&writer.index)
    bytes_free(&writer.pending)
    bytes_free(&writer.last_key)
    bytes_free(&writer.smallest)
    free(writer.hashes)
    free(writer)


cdef uint64_t table_writer_bytes(TableWriter* writer) noexcept nogil:
    return (
        output_offset(&writer.output) + writer.pending.size
        + block_builder_bytes(&writer.block) + writer.index.separators.size
        + (writer.keys * writer.options.filter_bits) // 8
    )


cdef uint64_t table_writer_entries(TableWriter* writer) noexcept nogil:
    return writer.entries


# ------------------------------------------------------------------------------------------ blocks

cdef int store_block(
    TableWriter* writer, const uint8_t* payload, size_t size, int codec, Failure* failure
) noexcept nogil:
    index_builder_stored(&writer.index, size + writer.output.seal_bytes)
    return output_append(&writer.output, payload, size, SECTION_NONE, codec, failure)


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
                status = store_block(writer, block.data, block.size, CODEC_NONE, failure)
            else:
                status = store_block(writer, block.packed, block.packed_size, CODEC_ZSTD, failure)
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
    if size >= LARGE_BYTES:
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


cdef int cut_block(TableWriter* writer, const Slice* next, Failure* failure) noexcept nogil:
    """End the current block: store it, or let it wait for the codec."""
    cdef size_t size
    cdef int status = OK
    if block_builder_finish(&writer.block):
        return no_memory(failure)
    size = writer.block.size
    if index_builder_add(
        &writer.index, slice_of(writer.last_key.data, writer.last_key.size), writer.last_tag,
        next, size,
    ):
        return no_memory(failure)
    if writer.options.codec != CODEC_NONE:
        status = queue_block(writer, failure)
    elif writer.block.capacity < size + TRAILER_BYTES:
        status = store_block(writer, writer.block.data, size, CODEC_NONE, failure)
    else:
        index_builder_stored(&writer.index, size + writer.output.seal_bytes)
        status = output_append_in_place(
            &writer.output, writer.block.data, size, CODEC_NONE, failure
        )
    block_builder_reset(&writer.block)
    return status


cdef inline bint is_full(TableWriter* writer, size_t entry_bytes) noexcept nogil:
    """Whether the current block ends before an entry of that size.

    A large value starts a block of its own: reading its small neighbours must not read it.
    """
    cdef size_t size = block_builder_bytes(&writer.block) + TRAILER_BYTES
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
                failure, CORRUPTION, "entries for an SSTable are not in order",
                writer.output.path, -1, 0,
            )
        if is_full(writer, key.size + value.size + ENTRY_OVERHEAD_BYTES):
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
    section.offset = output_offset(&writer.output)
    section.size = payload.size
    if kind != SECTION_ENCRYPTION:
        section.size += writer.output.seal_bytes
    writer.section_count += 1
    return output_append(&writer.output, payload.data, payload.size, kind, CODEC_NONE, failure)


cdef int write_index(TableWriter* writer, Failure* failure) noexcept nogil:
    cdef Bytes payload
    cdef int status
    memset(&payload, 0, sizeof(Bytes))
    if index_builder_encode(&writer.index, &payload):
        return no_memory(failure)
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
    properties.unique_id = writer.output.unique_id
    properties.entries = writer.entries
    properties.deletions = writer.deletions
    properties.keys = writer.keys
    properties.min_seqno = writer.min_seqno
    properties.max_seqno = writer.max_seqno
    properties.raw_bytes = writer.raw_bytes
    properties.data_blocks = writer.index.count
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
    properties.names_tree = writer.names_tree
    properties.tree_name = writer.tree_name
    properties.tree_hashed = writer.tree_hashed
    if properties_encode(&payload, &properties):
        bytes_free(&payload)
        return no_memory(failure)
    status = write_section(writer, SECTION_PROPERTIES, 0, &payload, failure)
    bytes_free(&payload)
    return status


cdef int write_head(TableWriter* writer, Failure* failure) noexcept nogil:
    """Which key the file is encrypted under: the last section, so that it is read with the end."""
    cdef Bytes payload
    if writer.output.cipher == NULL:
        return OK
    payload.data = writer.output.head
    payload.size = payload.capacity = SEAL_HEAD_BYTES
    return write_section(writer, SECTION_ENCRYPTION, 0, &payload, failure)


cdef int write_end(TableWriter* writer, Failure* failure) noexcept nogil:
    """The directory of sections and the footer."""
    cdef uint8_t directory[SECTIONS * DIRECTORY_ENTRY_BYTES]
    cdef uint8_t last[TABLE_FOOTER_BYTES]
    cdef Footer footer
    cdef int i
    cdef int status
    memset(&footer, 0, sizeof(Footer))
    for i in range(writer.section_count):
        section_encode(directory + i * DIRECTORY_ENTRY_BYTES, &writer.sections[i])
    footer.directory_offset = output_offset(&writer.output)
    footer.directory_size = <uint64_t>writer.section_count * DIRECTORY_ENTRY_BYTES
    footer.unique_id = writer.output.unique_id
    if writer.output.cipher != NULL:
        footer.required_features = FEATURE_ENCRYPTED
    status = output_append(
        &writer.output, directory, footer.directory_size, SECTION_DIRECTORY, CODEC_NONE, failure
    )
    if status != OK:
        return status
    footer.file_bytes = output_offset(&writer.output) + TABLE_FOOTER_BYTES
    footer_encode(last, &footer)
    return output_append_last(&writer.output, last, TABLE_FOOTER_BYTES, failure)


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
    data_end = output_offset(&writer.output)
    status = write_index(writer, failure)
    if status == OK:
        status = write_filter(writer, failure)
    if status == OK:
        status = write_properties(writer, data_end - TABLE_HEADER_BYTES, failure)
    if status == OK:
        status = write_head(writer, failure)
    if status == OK:
        status = write_end(writer, failure)
    return status


cdef int fill_info(TableWriter* writer, TableInfo* info, Failure* failure) noexcept nogil:
    memset(info, 0, sizeof(TableInfo))
    info.file_id = writer.file_id
    info.file_bytes = output_offset(&writer.output)
    info.unique_id = writer.output.unique_id
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
    if status == OK:
        status = output_finish(&writer.output, failure)
        if status != OK:
            table_info_free(info)
    table_writer_abandon(writer)           # of a finished output nothing is left to remove
    return status


cdef void table_info_free(TableInfo* info) noexcept nogil:
    free(info.smallest)
    free(info.largest)
    info.smallest = NULL
    info.largest = NULL
