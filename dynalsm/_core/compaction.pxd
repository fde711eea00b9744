# The merge loop of flush and compaction: a merged source in, SSTables out.
#
# Thread safety: pure function of its inputs; runs on a background thread without the GIL.

from libc.stdint cimport uint64_t

from dynalsm._core.commit cimport EngineCore
from dynalsm._core.memtable cimport RangeList
from dynalsm._core.source cimport Source
from dynalsm._core.sstable_writer cimport TableInfo, TableOptions, TableWriter
from dynalsm._core.status cimport Failure


cdef struct Job:
    EngineCore* core
    uint64_t tree_id
    uint64_t partition_id
    char* tree_name              # owned, malloc'ed; NULL: the tree has gone meanwhile
    size_t tree_name_size
    bint tree_hashed
    int level                    # of the output
    TableOptions options
    uint64_t target_bytes        # an output is cut behind the key that reaches it
    uint64_t cut                 # and before the first key of this prefix (a split to come); 0: no
    const uint64_t* snapshots    # ascending; the last is the newest visible seqno
    long long snapshot_count
    const RangeList* ranges      # deleted ranges to apply; may be NULL
    bint is_bottom               # nothing older lies below: deletes may vanish
    uint64_t* stop               # atomic: not 0 ends the job with CLOSED
    uint64_t bytes_per_second    # 0: as fast as it goes
    # results
    TableInfo* outputs           # owned: `count` tables, written and synced
    int count
    int capacity
    uint64_t entries_in
    uint64_t bytes_written


# Begins the job's next table. Returns: NULL on failure.
cdef TableWriter* open_output(Job* job, Failure* failure) noexcept nogil
# Walks `merged` (closed by the caller) and writes what snapshots may still see. On failure the
# outputs written so far are removed and freed.
cdef int run_job(Job* job, Source* merged, Failure* failure) noexcept nogil
# Frees what the job owns, not its files.
cdef void job_free(Job* job) noexcept nogil
cdef void job_remove_files(Job* job) noexcept nogil
cdef void table_path(
    const EngineCore* core, uint64_t tree_id, uint64_t partition_id, uint64_t file_id,
    char* target, size_t size
) noexcept nogil
