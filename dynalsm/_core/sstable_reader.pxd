# Reads one SSTable: point gets and ordered sources. Thread-safe: a table is immutable; its index
# and filter are loaded once (on first use) and stay while the table is open.
# Every block is checked against its CRC-32C when it is read from the file.

from libc.stdint cimport uint8_t, uint64_t

from dynalsm._core.cache cimport Block, Cache
from dynalsm._core.coding cimport Slice
from dynalsm._core.source cimport Source
from dynalsm._core.sstable_file cimport Table       # opaque here; reference-counted
from dynalsm._core.sstable_writer cimport TableInfo
from dynalsm._core.status cimport Failure


# A found entry: value is borrowed from `pin`.
cdef struct Found:
    uint64_t tag
    Slice value
    Block* pin                   # may be NULL (memtable); release with found_release


cdef void found_release(Found* found) noexcept nogil

# Opens the file, checks footer, file_bytes and unique_id (0: do not check) against the manifest's.
# Index and filter are read at the first use (until then a get or move without may_block gives
# WOULD_BLOCK), or by table_load. The descriptor comes from a bounded pool (files open on demand).
# keyring: NULL when the database is not encrypted.
cdef Table* table_open(
    const char* path, uint64_t file_id, uint64_t file_bytes, uint64_t unique_id, Cache* cache,
    void* keyring, Failure* failure
) noexcept nogil
cdef int table_load(Table* table, Failure* failure) noexcept nogil
cdef void table_ref(Table* table) noexcept nogil
# The last reference closes the table, and unlinks its file when table_obsolete was called.
cdef void table_unref(Table* table) noexcept nogil
cdef void table_obsolete(Table* table) noexcept nogil
cdef uint64_t table_file_id(Table* table) noexcept nogil
cdef uint64_t table_key_id(Table* table) noexcept nogil     # its data key's; 0: not encrypted
cdef uint64_t table_memory(Table* table) noexcept nogil     # resident bytes: index, filter
# Rough share of the file before `key` (bytes), from the index alone (0 when that cannot be read).
cdef uint64_t table_offset_of(Table* table, Slice key) noexcept nogil

# Newest entry of `key` with seqno <= `seqno`: OK (a delete is found too: look at the tag),
# NOT_FOUND, WOULD_BLOCK (only with may_block=False: a block is not in the cache), or an error.
# key_hash = hash64(key). out.pin holds the block until found_release.
cdef int table_get(
    Table* table, Slice key, uint64_t key_hash, uint64_t seqno, bint may_block, bint fill_cache,
    Found* out, Failure* failure
) noexcept nogil

# As table_get for each of `count` keys whose statuses[i] is NOT_FOUND (others are left alone), with
# their reads of memory overlapping. Sets statuses[i] to OK, NOT_FOUND or WOULD_BLOCK, and found[i]
# (to be released when OK). Returns: OK, or the first error, which ends it.
cdef int table_get_many(
    Table* table, const Slice* keys, const uint64_t* key_hashes, int count, uint64_t seqno,
    bint may_block, bint fill_cache, Found* found, int* statuses, Failure* failure
) noexcept nogil

# Makes *out a source over the table; takes a reference. fill_cache=False: blocks read are not kept.
# readahead: expect a long forward scan (compaction, full scans): larger reads.
cdef int table_source(
    Table* table, bint fill_cache, bint readahead, Source* out, Failure* failure
) noexcept nogil

# Reads every block, checks checksums, key order, filter membership, counts against the properties.
cdef int table_verify(Table* table, Failure* failure) noexcept nogil

# What the properties of the file say, for repair and ingestion: allocated as by the writer, to be
# freed with table_info_free. tree_id and level: where the table belonged.
cdef int table_read_info(
    Table* table, TableInfo* info, uint64_t* tree_id, uint64_t* level, Failure* failure
) noexcept nogil
# The properties section (a msgpack map); *data is malloc'ed, the caller frees it.
cdef int table_read_properties(
    Table* table, uint8_t** data, size_t* size, Failure* failure
) noexcept nogil

# Bound of open descriptors over all tables of the process (default 256).
cdef void table_set_descriptor_limit(int limit) noexcept nogil
