# One key range of a tree: its memtables and its version. And the tree as the commit sees it.
#
# Thread safety: `mutex` guards the pointers (active, sealed, version); what they point to is
# reference-counted. Commits insert into `active` under the engine's commit mutex.
# Lock order: commit mutex -> partition mutex -> memtable mutex. Never the GIL under any of them.
# Lifetime: a partition lives until its engine is freed, also after a split or a drop.

from libc.stdint cimport uint64_t

from dynalsm._core.coding cimport Slice, get_u64_be
from dynalsm._core.memtable cimport Memtable
from dynalsm._core.merge cimport Scan
from dynalsm._core.sstable_reader cimport Found
from dynalsm._core.status cimport Failure
from dynalsm._core.sync cimport pthread_mutex_t
from dynalsm._core.version cimport Version


cdef enum:
    MAX_SEALED = 16          # sealed generations waiting for their flush; writers wait long before


cdef struct Partition:
    pthread_mutex_t mutex
    uint64_t id
    uint64_t tree_id
    uint64_t lower           # first prefix (8 key bytes, big-endian) that belongs here
    bint is_dropped
    bint is_retired          # split since: its keys are elsewhere. Guarded by mutex
    uint64_t cut             # outputs of jobs are cut at this prefix; 0: nowhere
    Memtable* active         # NULL until something is written
    Memtable* sealed[MAX_SEALED]     # oldest first
    int sealed_count
    Version* version


# The partitions of a tree, ordered by lower. Immutable; a split makes a new one. Sets live as long
# as the engine, and the data of a partition that was split as long as somebody walks an old set.
cdef struct PartitionSet:
    int count
    uint64_t walkers         # cursors that go by this set. Guarded by the engine's snapshot mutex
    PartitionSet* older      # the set before the last split
    Partition* items[1]


cdef struct TreeCore:
    uint64_t id
    bint is_hashed
    bint is_dropped
    PartitionSet* parts      # replaced under the commit mutex and the snapshot mutex


cdef struct View:            # what a read needs, referenced
    Memtable* memtables[MAX_SEALED + 1]      # newest first
    int memtable_count
    bint is_retired
    Version* version


cdef struct Hit:
    Found found
    Memtable* memtable       # referenced when the value lies there


cdef inline Partition* tree_route(const TreeCore* tree, Slice key) noexcept nogil:
    return set_route(tree.parts, key)


cdef inline Partition* set_route(const PartitionSet* parts, Slice key) noexcept nogil:
    cdef int low, high, middle
    cdef uint64_t prefix
    if parts.count == 1:
        return parts.items[0]
    prefix = get_u64_be(key.data) if key.size >= 8 else short_prefix(key)
    low = 0
    high = parts.count
    while high - low > 1:
        middle = (low + high) >> 1
        if parts.items[middle].lower <= prefix:
            low = middle
        else:
            high = middle
    return parts.items[low]


cdef uint64_t short_prefix(Slice key) noexcept nogil

cdef PartitionSet* set_create(int count) noexcept nogil      # NULL: no memory
cdef Partition* partition_create(uint64_t tree_id, uint64_t id, uint64_t lower) noexcept nogil
cdef void partition_free(Partition* partition) noexcept nogil
cdef void view_pin(Partition* partition, View* view) noexcept nogil
cdef void view_release(View* view) noexcept nogil
cdef void hit_release(Hit* hit) noexcept nogil

# The live value of key at `snapshot`, or at *visible read inside when snapshot is 2**64-1.
# Returns: OK with *hit, NOT_FOUND (also deleted), WOULD_BLOCK when may_block is False and a block
# must be
# read, MOVED when the partition was split meanwhile (route again), or an error.
cdef int partition_get(
    Partition* partition, Slice key, uint64_t key_hash, uint64_t snapshot,
    const uint64_t* visible, bint may_block, bint fill_cache, Hit* hit, Failure* failure
) noexcept nogil

# As partition_get without blocking for `count` keys at `snapshot` (a registered seqno): statuses[i]
# becomes OK with hits[i], NOT_FOUND, or WOULD_BLOCK (ask again, alone). scratch: room for `count`.
# Returns: OK, MOVED, or the first error (then nothing is held).
cdef int partition_get_many(
    Partition* partition, const Slice* keys, const uint64_t* key_hashes, int count,
    uint64_t snapshot, bint fill_cache, Hit* hits, Found* found, int* statuses, int* scratch,
    Failure* failure
) noexcept nogil

# Opens a scan over the partition at `snapshot` (which must be registered with the engine).
cdef int partition_scan(
    Partition* partition, uint64_t snapshot, Slice lower, Slice upper, bint fill_cache,
    Scan* scan, Failure* failure
) noexcept nogil

# Moves `active` to the sealed ones. REQUIRES: the commit mutex. Returns: whether there was one.
cdef bint partition_seal(Partition* partition) noexcept nogil
