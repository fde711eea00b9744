# The block cache: uncompressed blocks by (file id, offset), with a byte budget that it shares with
# the memtables. Blocks lie one behind the other in slabs of memory; the oldest slab is given back
# whole, and what was used since it came moves into the newest one. So memory that the cache gives
# up is free at once, and wholly, whatever sizes the blocks have. A hit sets a bit, no list surgery.
# Blocks are reference-counted; a pinned block outlives its eviction, and its slab with it.
# Thread-safe: one short mutex per shard, one for slabs and headers; reference counts are atomic.
#
# Block headers live in pools that are never given back while the cache lives, so that whoever kept
# a pointer to one (a hint) may look at it at any time: block_try_pin finds out whether it still is
# the block that was meant, without a lock.

from libc.stdint cimport uint8_t, uint64_t


cdef struct Slab             # opaque
cdef struct Cache            # opaque


cdef struct Block:
    uint8_t* data            # uncompressed payload without trailer
    Slab* slab               # where data lies; NULL: it is owned (malloc'ed)
    size_t size
    uint64_t references      # atomic; 0: the header is free
    uint64_t file_id
    uint64_t offset
    bint in_cache            # Guarded by the shard's mutex.
    bint visited             # used since it came; written without a lock
    Cache* cache             # borrowed; NULL: a header of its own, freed with the last reference
    Block* next              # free list


cdef struct CacheStats:
    uint64_t hits
    uint64_t misses
    uint64_t evictions
    uint64_t bytes           # of memory for blocks
    uint64_t pinned_bytes    # of indexes and filters charged with cache_charge
    uint64_t reserved        # of what cache_reserve keeps free
    uint64_t capacity


cdef Cache* cache_create(uint64_t capacity_bytes) noexcept nogil
cdef void cache_free(Cache* cache) noexcept nogil          # REQUIRES: nothing pinned
cdef void cache_set_capacity(Cache* cache, uint64_t capacity_bytes) noexcept nogil
# Returns: the block, pinned, or NULL.
cdef Block* cache_find(Cache* cache, uint64_t file_id, uint64_t offset) noexcept nogil
# Returns: `hint`, pinned, if it still is this block; else NULL (it may be cached elsewhere).
# Counts as a hit. hint may be NULL, or any header this cache ever gave out.
cdef Block* block_try_pin(Block* hint, uint64_t file_id, uint64_t offset) noexcept nogil
# Takes over `data` (malloc'ed). Returns: the block, pinned once, or NULL for want of memory (data
# freed). insert=False gives a block that is not put into the cache (scans that must not disturb
# it). When the block is there already, that one is returned and `data` freed. cache may be NULL.
cdef Block* cache_add(
    Cache* cache, uint64_t file_id, uint64_t offset, uint8_t* data, size_t size, bint insert
) noexcept nogil
# Whether a block can be added without another one having to go.
cdef bint cache_has_room(Cache* cache) noexcept nogil
cdef void block_ref(Block* block) noexcept nogil
cdef void block_unref(Block* block) noexcept nogil
cdef void cache_drop_file(Cache* cache, uint64_t file_id) noexcept nogil
# Counts resident memory of tables (indexes, filters) against the budget.
cdef void cache_charge(Cache* cache, long long bytes) noexcept nogil
# The same unless it would take them beyond their share of the budget. Returns: whether it did so.
# cache may be NULL: there is no bound then.
cdef bint cache_try_charge(Cache* cache, uint64_t bytes) noexcept nogil
# Keeps so many bytes of the budget free for memtables (an eighth stays with the cache).
cdef void cache_reserve(Cache* cache, uint64_t bytes) noexcept nogil
cdef void cache_stats(Cache* cache, CacheStats* out) noexcept nogil
