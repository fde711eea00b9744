# One open SSTable: its sections, its index and filter, and how its blocks are read.
# What reads through it (sstable_reader, sstable_source, sstable_verify) stands above.
#
# Thread-safe: everything but the fields marked below is written before the table is published and
# never changed; index and filter are loaded once, under load_mutex, and published by `loaded`
# (sstable_load).

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from dynalsm._core.cache cimport Block, Cache
from dynalsm._core.cipher cimport Cipher
from dynalsm._core.descriptors cimport Descriptor
from dynalsm._core.sstable_format cimport Properties, Section
from dynalsm._core.sstable_index cimport IndexSlot, TableIndex
from dynalsm._core.sstable_parts cimport IndexPart
from dynalsm._core.status cimport Failure
from dynalsm._core.sync cimport pthread_mutex_t


# Values of Table.loaded; 0: not loaded.
cdef enum:
    RESIDENT = 1                 # index and filter are here as a whole
    IN_PARTS = 2                 # `index` is that of the parts, the filter is asked by pages


cdef struct Table:
    uint64_t references          # atomic
    uint64_t obsolete            # atomic: unlink the file with the last reference
    uint64_t loaded              # atomic: how index and filter may be used
    uint64_t file_id
    uint64_t file_bytes
    uint64_t unique_id
    Cache* cache                 # borrowed: outlives the table; may be NULL
    uint8_t* filter              # owned, aligned to a cache line; NULL: there is none, or in parts
    size_t filter_bytes          # of all of it
    uint32_t* filter_checksums   # owned: of its pages; NULL unless in parts
    IndexPart* parts             # owned; NULL unless in parts
    uint32_t block_count         # of data blocks
    int filter_bits
    TableIndex index
    uint64_t memory_bytes        # charged to the cache
    Cipher* cipher               # owned; NULL: not encrypted
    char* path                   # owned
    Descriptor descriptor
    pthread_mutex_t load_mutex   # held while index and filter are read
    Section index_section
    Section filter_section       # size 0: none
    Section properties_section
    Section head_section         # of an encrypted file


# Reads and checks footer and directory. unique_id, file_bytes: 0 for "do not check". keyring: NULL
# when the database is not encrypted.
cdef Table* table_file_open(
    const char* path, uint64_t file_id, uint64_t file_bytes, uint64_t unique_id, Cache* cache,
    void* keyring, Failure* failure
) noexcept nogil
# Gives up a reference; the last one closes the table.
cdef void table_file_unref(Table* table) noexcept nogil
cdef void table_forget_loaded(Table* table) noexcept nogil
# The payload of a section, checked; *data is malloc'ed. Returns: OK or an error.
cdef int table_section(
    Table* table, const Section* section, uint8_t** data, Failure* failure
) noexcept nogil
# The same into `data` of size + TRAILER_BYTES bytes.
cdef int table_read_section(
    Table* table, const Section* section, uint8_t* data, Failure* failure
) noexcept nogil
# Bytes of a section's payload once it is read.
cdef size_t table_section_bytes(const Table* table, const Section* section) noexcept nogil
# Decodes the properties; their slices point into *data, which the caller frees.
cdef int table_file_properties(
    Table* table, uint8_t** data, Properties* properties, Failure* failure
) noexcept nogil

# `slot` says where a data block lies; a hint is kept in it.
# Returns: the data block, pinned, if it is in the cache; else NULL.
cdef Block* table_cached_block(Table* table, IndexSlot* slot) noexcept nogil
# Starts loading the header and the end of a data block, if it was seen in the cache.
cdef void table_prefetch_block(Table* table, IndexSlot* slot) noexcept nogil
# Pins a data block, from the cache or the file. WOULD_BLOCK only without may_block.
cdef int table_block(
    Table* table, IndexSlot* slot, bint may_block, bint fill_cache, Block** block, Failure* failure
) noexcept nogil
# Checks a block as it was read from the file (`stored` holds its payload and trailer) and opens it
# where it is if it is encrypted. *codec: how the payload is stored; *size: of the payload.
cdef int table_check_block(
    Table* table, IndexSlot* slot, uint8_t* stored, int* codec, size_t* size, Failure* failure
) noexcept nogil
# The same for `count` blocks of an encrypted table at once, which lie behind each other.
# *opened: how many are, from the first on; all when OK. What they are: table_opened_block.
cdef int table_open_blocks(
    Table* table, IndexSlot* slots, uint32_t count, uint8_t* stored, uint32_t* opened,
    Failure* failure
) noexcept nogil
# Codec and size of a block that table_open_blocks has opened.
cdef int table_opened_block(
    Table* table, IndexSlot* slot, const uint8_t* stored, int* codec, size_t* size, Failure* failure
) noexcept nogil
# Decompresses a block's payload into `target` of slot.raw_size bytes.
cdef int table_unpack(
    Table* table, IndexSlot* slot, const uint8_t* payload, size_t size, uint8_t* target,
    Failure* failure
) noexcept nogil
# Takes over `data`, the uncompressed block. Returns: a pinned block, or NULL (no memory).
cdef Block* table_keep_block(
    Table* table, IndexSlot* slot, uint8_t* data, bint fill_cache, Failure* failure
) noexcept nogil
cdef int table_read(
    Table* table, void* buffer, size_t size, uint64_t offset, Failure* failure
) noexcept nogil
# Fails with CORRUPTION at a byte of the file.
cdef int table_damaged(
    Table* table, const char* message, uint64_t offset, Failure* failure
) noexcept nogil
