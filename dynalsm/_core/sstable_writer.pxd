# Writes one SSTable: data blocks, index, filter, properties, footer; syncs it. Used by one thread.
# Byte layout: docs/format.md, "SSTable".

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from dynalsm._core.coding cimport Slice
from dynalsm._core.status cimport Failure


cdef struct TableOptions:
    uint32_t block_bytes         # uncompressed target size of a data block
    uint32_t restart_interval    # entries between full keys
    uint32_t filter_bits         # per key; 0: no filter
    int codec                    # Codec
    int compression_level
    void* keyring                # borrowed: keyring.Keyring; NULL: not encrypted


# What the manifest keeps about a table.
cdef struct TableInfo:
    uint64_t file_id
    uint64_t file_bytes
    uint64_t unique_id           # random; in the manifest and the file: tells swapped files apart
    uint64_t entries
    uint64_t deletions
    uint64_t min_seqno
    uint64_t max_seqno
    uint64_t raw_bytes           # keys + values, uncompressed
    uint8_t* smallest            # owned, malloc'ed: user keys
    size_t smallest_size
    uint8_t* largest
    size_t largest_size


cdef struct TableWriter          # opaque


# tree_id goes into the properties so that repair can rebuild a manifest.
cdef TableWriter* table_writer_open(
    const char* path, uint64_t file_id, uint64_t tree_id, uint32_t level,
    const TableOptions* options, Failure* failure
) noexcept nogil
# Says what the tree is called, for repair. The name is borrowed until the writer is finished.
cdef void table_writer_name_tree(TableWriter* writer, Slice name, bint is_hashed) noexcept nogil
# REQUIRES: (key, tag) after the one before in internal order.
cdef int table_writer_add(
    TableWriter* writer, Slice key, uint64_t tag, Slice value, Failure* failure
) noexcept nogil
# About the size of the file so far.
cdef uint64_t table_writer_bytes(TableWriter* writer) noexcept nogil
cdef uint64_t table_writer_entries(TableWriter* writer) noexcept nogil
# Writes everything, fdatasyncs, closes, frees the writer (also on failure, then the file is
# removed).
cdef int table_writer_finish(TableWriter* writer, TableInfo* info, Failure* failure) noexcept nogil
cdef void table_writer_abandon(TableWriter* writer) noexcept nogil       # removes the file, frees
cdef void table_info_free(TableInfo* info) noexcept nogil                # frees the two keys
