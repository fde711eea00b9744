# An immutable set of SSTables per level of one partition, pinned by reference.
#
# Thread safety: a Version and its files never change after creation; reference counts are atomic.
# Invariants: (1) level 0 is ordered newest first by max_seqno, and seqno ranges do not overlap;
#             (2) deeper levels are ordered by key and their key ranges do not overlap (all versions
#             of one user key are in one file); (3) a file removed from the newest version is
#             unlinked when the last version that holds it is released.

from libc.stdint cimport int64_t, uint64_t

from dynalsm._core.coding cimport Slice
from dynalsm._core.memtable cimport RangeList
from dynalsm._core.source cimport Source
from dynalsm._core.sstable_reader cimport Found, Table
from dynalsm._core.sstable_writer cimport TableInfo
from dynalsm._core.status cimport Failure


cdef enum:
    LEVELS = 7


cdef struct FileMeta:
    uint64_t references          # atomic
    Table* table                 # referenced
    TableInfo info               # owned
    int level
    uint64_t ranges_applied      # no version in it lies under a deleted range up to this seqno
    bint is_busy                 # input of a running compaction. Guarded by the engine's state lock


cdef struct Version:
    uint64_t references          # atomic
    int counts[LEVELS]
    FileMeta** files[LEVELS]     # owned arrays of referenced files
    RangeList ranges             # deleted ranges that some file still needs


# Takes over info's keys and the caller's reference of table. NULL: no memory.
cdef FileMeta* file_create(Table* table, const TableInfo* info, int level) noexcept nogil
cdef void file_ref(FileMeta* meta) noexcept nogil
cdef void file_unref(FileMeta* meta) noexcept nogil

cdef Version* version_empty() noexcept nogil
cdef void version_ref(Version* version) noexcept nogil
cdef void version_unref(Version* version) noexcept nogil
# A copy of `base` without the `removed` and with the `added` files (the new version takes a
# reference of its own), with base's ranges. NULL: no memory.
cdef Version* version_edit(
    const Version* base, FileMeta** added, int added_count, FileMeta** removed, int removed_count
) noexcept nogil

# Newest entry of key with seqno <= seqno, deletes included (as table_get).
cdef int version_get(
    const Version* version, Slice key, uint64_t key_hash, uint64_t seqno, bint may_block,
    bint fill_cache, Found* out, Failure* failure
) noexcept nogil

# As version_get, without blocking, for each of `count` keys whose statuses[i] is NOT_FOUND;
# found[i] is to be released when statuses[i] becomes OK. Returns: OK, or the first error, which
# ends it.
cdef int version_get_many(
    const Version* version, const Slice* keys, const uint64_t* key_hashes, int count,
    uint64_t seqno, bint fill_cache, Found* found, int* statuses, int* scratch, Failure* failure
) noexcept nogil

# Index of the first file of the level whose largest key is >= key (levels 1 and up).
cdef int version_find(const Version* version, int level, Slice key) noexcept nogil

# Adds one source per level-0 file and one per deeper level; returns a status. `sources` has room
# for version_source_count(). On failure those made are closed and *count is 0.
cdef int version_source_count(const Version* version) noexcept nogil
cdef int version_sources(
    Version* version, bint fill_cache, bint readahead, Source* sources, int* count,
    Failure* failure
) noexcept nogil

# A source over files that follow each other in key order (takes references).
cdef int level_source(
    FileMeta** files, int count, bint fill_cache, bint readahead, Source* out, Failure* failure
) noexcept nogil

# Rough bytes on disk of keys in [lower, upper); NULL data: no bound.
cdef uint64_t version_size_between(const Version* version, Slice lower, Slice upper) noexcept nogil
