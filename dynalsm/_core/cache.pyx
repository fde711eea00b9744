# The block cache (see cache.pxd for the contracts).
#
# Each shard is an open-addressing table of (hash, block) with linear probing. The memory of blocks
# is a queue of slabs: new blocks are copied to the end of the newest slab; to make room, the oldest
# slab goes, and those of its blocks that were used since they came are copied to the newest slab as
# well, half of the slab at most. That is CLOCK, with the queue as its dial: what a scan touches
# once goes first.
#
# Invariants: (1) a block in a table holds one reference for the table; (2) `bytes` is the sum of
# the slabs' sizes; (3) a header's fields are written only before its first reference is published
# and after its last one is gone; (4) a slab lives while it is in the queue or a block of it has a
# reference; (5) an entry of a slab names its block until the block's last reference is gone.
# Lock order: a shard's mutex or the pool's, never two at once.

from libc.stdint cimport uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from dynalsm._core.bits cimport atomic_swap, load_relaxed, store_relaxed, unlikely
from dynalsm._core.debug cimport require, scribble
from dynalsm._core.pages cimport pages_give, pages_take
from dynalsm._core.sync cimport (
    atomic_add,
    atomic_load,
    atomic_store,
    atomic_sub,
    pthread_mutex_destroy,
    pthread_mutex_init,
    pthread_mutex_lock,
    pthread_mutex_t,
    pthread_mutex_unlock,
)


cdef enum:
    SHARD_BITS = 4
    SHARDS = 1 << SHARD_BITS
    FIRST_SLOTS = 64                 # a power of two
    POOL_BLOCKS = 256                # headers allocated at a time
    # A slab is a 64th of the budget, within these bounds; a larger block gets one of its own.
    SLAB_BYTES_MIN = 4096
    SLAB_BYTES_MAX = 1 << 20
    SLABS = 64
    PAGE_BYTES = 4096
    ALIGNMENT = 16
    # What headers and slots cost beside the slabs: a part in so many.
    OVERHEAD_PART = 32
    # The part of the budget that no reservation takes.
    KEPT_PART = 8
    # The part of the budget that indexes and filters may take as a whole. With three write buffers
    # of a fifth each, and what no reservation takes, it is all of the budget.
    RESIDENT_PART = 4


cdef struct Slot:
    uint64_t hash
    Block* block                     # NULL: empty


cdef struct Shard:
    pthread_mutex_t mutex
    Slot* slots                      # owned. Guarded by mutex, as is what follows.
    uint64_t mask
    uint64_t count
    uint64_t hits
    uint64_t misses
    uint64_t evictions
    uint64_t pinned_hits             # counted without the mutex: exact with one thread
    uint64_t padding[5]


cdef struct Pool:
    Pool* next
    Block blocks[POOL_BLOCKS]


# In front of the bytes of each block.
cdef struct Entry:
    Block* block                     # NULL: it is gone. Guarded by pool_mutex.
    uint64_t hash
    uint32_t size                    # of the bytes, rounded up to ALIGNMENT
    uint32_t padding[3]


cdef struct Slab:
    uint8_t* memory                  # owned pages. Guarded by pool_mutex, as is what follows.
    size_t size
    size_t used
    uint64_t living                  # blocks with references
    bint is_queued
    Slab* older
    Slab* newer


cdef struct Cache:
    Shard shards[SHARDS]
    uint64_t capacity                # atomic
    uint64_t bytes                   # atomic
    uint64_t pinned_bytes            # atomic
    uint64_t reserved                # atomic
    size_t slab_bytes
    pthread_mutex_t pool_mutex
    Pool* pools                      # owned. Guarded by pool_mutex, as is what follows.
    Block* free_blocks
    Slab* oldest
    Slab* newest                     # new blocks go into it
    Slab* spare                      # in no use; not counted in bytes


cdef inline uint64_t place_hash(uint64_t file_id, uint64_t offset) noexcept nogil:
    cdef uint64_t x = (file_id * <uint64_t>0x9E3779B97F4A7C15) ^ offset
    x ^= x >> 32
    x *= <uint64_t>0xD6E8FEB86659FD93
    return x ^ (x >> 29)


cdef inline Shard* shard_of(Cache* cache, uint64_t hash) noexcept nogil:
    return &cache.shards[hash >> (64 - SHARD_BITS)]


cdef inline size_t round_up(size_t value, size_t unit) noexcept nogil:
    return (value + unit - 1) // unit * unit


# ------------------------------------------------------------------------------- life of a cache

cdef Cache* cache_create(uint64_t capacity_bytes) noexcept nogil:
    cdef Cache* cache = <Cache*>calloc(1, sizeof(Cache))
    cdef int i
    if cache == NULL:
        return NULL
    cache.capacity = capacity_bytes
    cache.slab_bytes = round_up(
        min(max(capacity_bytes // SLABS, <uint64_t>SLAB_BYTES_MIN), <uint64_t>SLAB_BYTES_MAX),
        PAGE_BYTES,
    )
    pthread_mutex_init(&cache.pool_mutex, NULL)
    for i in range(SHARDS):
        pthread_mutex_init(&cache.shards[i].mutex, NULL)
    for i in range(SHARDS):
        cache.shards[i].slots = <Slot*>calloc(FIRST_SLOTS, sizeof(Slot))
        cache.shards[i].mask = FIRST_SLOTS - 1
        if cache.shards[i].slots == NULL:
            cache_free(cache)
            return NULL
    return cache


cdef void cache_free(Cache* cache) noexcept nogil:
    cdef Pool* pool
    cdef Slab* slab
    cdef int i
    if cache == NULL:
        return
    for i in range(SHARDS):
        free(cache.shards[i].slots)
        pthread_mutex_destroy(&cache.shards[i].mutex)
    while cache.oldest != NULL:
        slab = cache.oldest
        cache.oldest = slab.newer
        slab_free(cache, slab)
    if cache.spare != NULL:
        pages_give(cache.spare.memory, cache.spare.size)
        free(cache.spare)
    while cache.pools != NULL:
        pool = cache.pools
        cache.pools = pool.next
        free(pool)
    pthread_mutex_destroy(&cache.pool_mutex)
    free(cache)


cdef void cache_set_capacity(Cache* cache, uint64_t capacity_bytes) noexcept nogil:
    atomic_store(&cache.capacity, capacity_bytes)
    make_room(cache)


cdef void cache_reserve(Cache* cache, uint64_t bytes) noexcept nogil:
    cdef uint64_t before = atomic_load(&cache.reserved)
    atomic_store(&cache.reserved, bytes)
    if bytes > before:
        make_room(cache)


cdef void cache_charge(Cache* cache, long long bytes) noexcept nogil:
    if cache == NULL:
        return
    atomic_add(&cache.pinned_bytes, <uint64_t>bytes)
    if bytes > 0:
        make_room(cache)


cdef bint cache_try_charge(Cache* cache, uint64_t bytes) noexcept nogil:
    cdef uint64_t before
    cdef uint64_t limit
    if cache == NULL:
        return True
    limit = atomic_load(&cache.capacity) // RESIDENT_PART
    before = atomic_load(&cache.pinned_bytes)
    while before + bytes <= limit:
        if atomic_swap(&cache.pinned_bytes, &before, before + bytes):
            make_room(cache)
            return True
    return False


cdef void cache_stats(Cache* cache, CacheStats* out) noexcept nogil:
    cdef int i
    cdef Shard* shard
    memset(out, 0, sizeof(CacheStats))
    for i in range(SHARDS):
        shard = &cache.shards[i]
        pthread_mutex_lock(&shard.mutex)
        out.hits += shard.hits + load_relaxed(&shard.pinned_hits)
        out.misses += shard.misses
        out.evictions += shard.evictions
        pthread_mutex_unlock(&shard.mutex)
    out.bytes = atomic_load(&cache.bytes)
    out.pinned_bytes = atomic_load(&cache.pinned_bytes)
    out.reserved = atomic_load(&cache.reserved)
    out.capacity = atomic_load(&cache.capacity)


# ---------------------------------------------------------------------------------------- headers

cdef Block* take_header(Cache* cache) noexcept nogil:
    """A free header with no reference, or NULL for want of memory."""
    cdef Pool* pool
    cdef Block* block
    cdef int i
    if cache == NULL:
        return <Block*>calloc(1, sizeof(Block))
    pthread_mutex_lock(&cache.pool_mutex)
    if cache.free_blocks == NULL:
        pool = <Pool*>calloc(1, sizeof(Pool))
        if pool == NULL:
            pthread_mutex_unlock(&cache.pool_mutex)
            return NULL
        pool.next = cache.pools
        cache.pools = pool
        for i in range(POOL_BLOCKS - 1, -1, -1):
            pool.blocks[i].next = cache.free_blocks
            cache.free_blocks = &pool.blocks[i]
    block = cache.free_blocks
    cache.free_blocks = block.next
    pthread_mutex_unlock(&cache.pool_mutex)
    return block


cdef void block_ref(Block* block) noexcept nogil:
    require(block.references != 0)
    atomic_add(&block.references, 1)


cdef void block_unref(Block* block) noexcept nogil:
    require(block.references != 0)
    if atomic_sub(&block.references, 1) == 0:
        end_block(block)


cdef void end_block(Block* block) noexcept nogil:
    cdef Cache* cache = block.cache
    cdef Slab* gone = NULL
    if block.slab == NULL:
        free(block.data)
    if cache == NULL:
        free(block)
        return
    pthread_mutex_lock(&cache.pool_mutex)
    if block.slab != NULL:
        scribble(block.data, block.size)
        gone = leave_slab(cache, block.slab, block.data)
    scribble(&block.data, sizeof(block.data))
    block.next = cache.free_blocks
    cache.free_blocks = block
    pthread_mutex_unlock(&cache.pool_mutex)
    if gone != NULL:
        slab_free(cache, gone)


# ------------------------------------------------------------------------------------------ slabs

cdef void slab_free(Cache* cache, Slab* slab) noexcept nogil:
    """Give a slab back, or keep it for the next one that is wanted."""
    atomic_sub(&cache.bytes, slab.size)
    if slab.size == cache.slab_bytes:
        pthread_mutex_lock(&cache.pool_mutex)
        if cache.spare == NULL:
            scribble(slab.memory, slab.size)
            cache.spare = slab
            slab = NULL
        pthread_mutex_unlock(&cache.pool_mutex)
    if slab != NULL:
        pages_give(slab.memory, slab.size)
        free(slab)


cdef Slab* slab_create(Cache* cache, size_t least) noexcept nogil:
    cdef Slab* slab = NULL
    if least <= cache.slab_bytes:
        pthread_mutex_lock(&cache.pool_mutex)
        slab = cache.spare
        cache.spare = NULL
        pthread_mutex_unlock(&cache.pool_mutex)
    if slab != NULL:
        slab.used = 0
    else:
        slab = <Slab*>calloc(1, sizeof(Slab))
        if slab == NULL:
            return NULL
        slab.size = max(cache.slab_bytes, round_up(least, PAGE_BYTES))
        slab.memory = <uint8_t*>pages_take(slab.size)
        if slab.memory == NULL:
            free(slab)
            return NULL
    atomic_add(&cache.bytes, slab.size)
    return slab


cdef inline void enqueue_locked(Cache* cache, Slab* slab) noexcept nogil:
    slab.is_queued = True
    slab.newer = NULL
    slab.older = cache.newest
    if cache.newest != NULL:
        cache.newest.newer = slab
    else:
        cache.oldest = slab
    cache.newest = slab


cdef inline void dequeue_locked(Cache* cache, Slab* slab) noexcept nogil:
    slab.is_queued = False
    if slab.older != NULL:
        slab.older.newer = slab.newer
    else:
        cache.oldest = slab.newer
    if slab.newer != NULL:
        slab.newer.older = slab.older
    else:
        cache.newest = slab.older


cdef Slab* leave_slab(Cache* cache, Slab* slab, uint8_t* data) noexcept nogil:
    """A block's bytes are of no use any more. Returns: the slab when it is to be freed, or NULL.

    REQUIRES: pool_mutex."""
    (<Entry*>(data - sizeof(Entry))).block = NULL
    require(slab.living != 0)
    slab.living -= 1
    if slab.living:
        return NULL
    if slab.is_queued:
        if slab == cache.newest:     # it is being filled
            slab.used = 0
            return NULL
        dequeue_locked(cache, slab)
    return slab


cdef uint8_t* take_space(Cache* cache, Block* block, size_t size, uint64_t hash) noexcept nogil:
    """Room for a block's bytes in the newest slab, or NULL for want of memory."""
    cdef size_t wanted = round_up(size + 1, ALIGNMENT)
    cdef Slab* slab
    cdef Slab* fresh = NULL
    cdef Slab* spare = NULL
    cdef Entry* entry
    pthread_mutex_lock(&cache.pool_mutex)
    slab = cache.newest
    if slab == NULL or slab.size - slab.used < wanted + sizeof(Entry):
        pthread_mutex_unlock(&cache.pool_mutex)
        fresh = slab_create(cache, wanted + sizeof(Entry))
        if fresh == NULL:
            return NULL
        pthread_mutex_lock(&cache.pool_mutex)
        slab = cache.newest
        if slab != NULL and slab.size - slab.used >= wanted + sizeof(Entry):
            spare = fresh            # another thread was faster
        else:
            if slab != NULL and slab.living == 0:
                dequeue_locked(cache, slab)
                spare = slab
            slab = fresh
            enqueue_locked(cache, slab)
    entry = <Entry*>(slab.memory + slab.used)
    entry.block = block
    entry.hash = hash
    entry.size = <uint32_t>wanted
    slab.used += sizeof(Entry) + wanted
    slab.living += 1
    block.slab = slab
    pthread_mutex_unlock(&cache.pool_mutex)
    if spare != NULL:
        slab_free(cache, spare)
    return <uint8_t*>entry + sizeof(Entry)


cdef Block* block_try_pin(Block* hint, uint64_t file_id, uint64_t offset) noexcept nogil:
    cdef uint64_t references
    cdef Shard* shard
    if hint == NULL:
        return NULL
    references = load_relaxed(&hint.references)
    while references > 0:
        if atomic_swap(&hint.references, &references, references + 1):
            # The header cannot change while it is pinned.
            if unlikely(hint.file_id != file_id or hint.offset != offset):
                block_unref(hint)
                return NULL
            if not hint.visited:
                hint.visited = True
            shard = &hint.cache.shards[(offset >> 12) & (SHARDS - 1)]
            store_relaxed(&shard.pinned_hits, load_relaxed(&shard.pinned_hits) + 1)
            return hint
    return NULL


# ------------------------------------------------------------------------------- table of a shard

cdef inline Block* find_locked(
    Shard* shard, uint64_t hash, uint64_t file_id, uint64_t offset
) noexcept nogil:
    cdef uint64_t slot = hash & shard.mask
    cdef Block* block
    while True:
        block = shard.slots[slot].block
        if block == NULL:
            return NULL
        if (
            shard.slots[slot].hash == hash
            and block.file_id == file_id
            and block.offset == offset
        ):
            return block
        slot = (slot + 1) & shard.mask


cdef void place_locked(Shard* shard, uint64_t hash, Block* block) noexcept nogil:
    cdef uint64_t slot = hash & shard.mask
    while shard.slots[slot].block != NULL:
        slot = (slot + 1) & shard.mask
    shard.slots[slot].hash = hash
    shard.slots[slot].block = block


cdef bint grow_locked(Shard* shard) noexcept nogil:
    """Keep the table at most two thirds full. Returns: False when there is no memory for that."""
    cdef uint64_t size = shard.mask + 1
    cdef Slot* old = shard.slots
    cdef uint64_t i
    if (shard.count + 1) * 3 <= size * 2:
        return True
    shard.slots = <Slot*>calloc(2 * size, sizeof(Slot))
    if shard.slots == NULL:
        shard.slots = old
        return shard.count + 1 < size
    shard.mask = 2 * size - 1
    for i in range(size):
        if old[i].block != NULL:
            place_locked(shard, old[i].hash, old[i].block)
    free(old)
    return True


cdef void remove_locked(Shard* shard, uint64_t slot) noexcept nogil:
    """Empty a slot and close the gap: later entries of the run move back where they may."""
    cdef uint64_t hole = slot
    cdef uint64_t home
    while True:
        slot = (slot + 1) & shard.mask
        if shard.slots[slot].block == NULL:
            break
        home = shard.slots[slot].hash & shard.mask
        if ((slot - home) & shard.mask) >= ((slot - hole) & shard.mask):
            shard.slots[hole] = shard.slots[slot]
            hole = slot
    shard.slots[hole].block = NULL
    require(shard.count != 0)
    shard.count -= 1


cdef inline uint64_t slot_of_locked(
    Shard* shard, uint64_t hash, const Block* block
) noexcept nogil:
    """Where a block is in the table; beyond the mask: nowhere."""
    cdef uint64_t slot = hash & shard.mask
    while shard.slots[slot].block != NULL:
        if shard.slots[slot].block == block:
            return slot
        slot = (slot + 1) & shard.mask
    return shard.mask + 1


# ------------------------------------------------------------------------------- eviction, lookups

cdef inline bint exceeds(Cache* cache, uint64_t held) noexcept nogil:
    """Whether so many bytes of slabs are more than the budget leaves."""
    cdef uint64_t capacity = atomic_load(&cache.capacity)
    cdef uint64_t reserved = min(
        atomic_load(&cache.reserved), capacity - capacity // KEPT_PART
    )
    return held + held // OVERHEAD_PART + atomic_load(&cache.pinned_bytes) + reserved > capacity


cdef inline bint over_budget(Cache* cache) noexcept nogil:
    return exceeds(cache, atomic_load(&cache.bytes))


cdef bint cache_has_room(Cache* cache) noexcept nogil:
    return cache != NULL and not exceeds(cache, atomic_load(&cache.bytes) + cache.slab_bytes)


cdef Slab* take_oldest(Cache* cache) noexcept nogil:
    """Take the oldest slab out of the queue, kept alive for the caller. NULL: there is none."""
    cdef Slab* slab
    pthread_mutex_lock(&cache.pool_mutex)
    slab = cache.oldest
    if slab != NULL:
        dequeue_locked(cache, slab)
        slab.living += 1
    pthread_mutex_unlock(&cache.pool_mutex)
    return slab


cdef void evict_slab(Cache* cache, Slab* slab) noexcept nogil:
    """Empty a slab that take_oldest gave; half of it may move to the newest slab."""
    cdef size_t place = 0
    cdef size_t moved = 0
    cdef Entry* entry
    cdef Block* block
    cdef bint is_gone
    while place < slab.used:
        entry = <Entry*>(slab.memory + place)
        pthread_mutex_lock(&cache.pool_mutex)
        block = entry.block
        pthread_mutex_unlock(&cache.pool_mutex)
        if block != NULL:
            moved += evict_block(cache, slab, block, entry, moved < slab.used // 2)
        place += sizeof(Entry) + entry.size
    pthread_mutex_lock(&cache.pool_mutex)
    slab.living -= 1
    is_gone = slab.living == 0
    pthread_mutex_unlock(&cache.pool_mutex)
    if is_gone:
        slab_free(cache, slab)


cdef void check_queued(Cache* cache, Block* block, uint64_t hash) noexcept nogil:
    """Take a block that has just come into the table out again if its slab went meanwhile.

    The caller holds a reference."""
    cdef Shard* shard = shard_of(cache, hash)
    cdef uint64_t slot
    cdef bint is_queued
    pthread_mutex_lock(&cache.pool_mutex)
    is_queued = block.slab.is_queued
    pthread_mutex_unlock(&cache.pool_mutex)
    if is_queued:
        return
    pthread_mutex_lock(&shard.mutex)
    slot = slot_of_locked(shard, hash, block)
    is_queued = slot > shard.mask    # or whoever emptied the slab has seen to it
    if not is_queued:
        block.in_cache = False
        remove_locked(shard, slot)
    pthread_mutex_unlock(&shard.mutex)
    if not is_queued:
        block_unref(block)


cdef size_t evict_block(
    Cache* cache, Slab* slab, Block* block, const Entry* entry, bint may_stay
) noexcept nogil:
    """Take a block out of the cache, or move it. Returns: the bytes that moved."""
    cdef Shard* shard = shard_of(cache, entry.hash)
    cdef Block* copy = NULL
    cdef uint64_t slot
    pthread_mutex_lock(&shard.mutex)
    slot = slot_of_locked(shard, entry.hash, block)
    # The header may serve another block by now; what is in the table does not change.
    if slot > shard.mask or block.slab != slab:
        pthread_mutex_unlock(&shard.mutex)
        return 0
    if not may_stay or not (block.visited or load_relaxed(&block.references) > 1):
        block.in_cache = False
        remove_locked(shard, slot)
        shard.evictions += 1
        pthread_mutex_unlock(&shard.mutex)
        block_unref(block)
        return 0
    block_ref(block)                 # so that it can be copied without the mutex
    pthread_mutex_unlock(&shard.mutex)
    copy = copy_block(cache, block, entry.hash)
    pthread_mutex_lock(&shard.mutex)
    slot = slot_of_locked(shard, entry.hash, block)
    if slot > shard.mask:            # dropped meanwhile
        pthread_mutex_unlock(&shard.mutex)
        block_unref(block)
        if copy != NULL:
            block_unref(copy)
        return 0
    block.in_cache = False
    if copy != NULL:
        block_ref(copy)
        copy.in_cache = True
        shard.slots[slot].block = copy
    else:
        remove_locked(shard, slot)
        shard.evictions += 1
    pthread_mutex_unlock(&shard.mutex)
    block_unref(block)
    block_unref(block)
    if copy == NULL:
        return 0
    check_queued(cache, copy, entry.hash)
    block_unref(copy)
    return entry.size


cdef Block* copy_block(Cache* cache, const Block* block, uint64_t hash) noexcept nogil:
    """Another header, with a reference, and the same bytes in the newest slab. NULL: no memory."""
    cdef Block* copy = take_header(cache)
    if copy == NULL:
        return NULL
    fill_header(copy, cache, block.file_id, block.offset, block.size)
    copy.data = take_space(cache, copy, block.size, hash)
    if copy.data == NULL:
        drop_header(cache, copy)
        return NULL
    memcpy(copy.data, block.data, block.size)
    atomic_store(&copy.references, 1)
    return copy


cdef void make_room(Cache* cache) noexcept nogil:
    cdef Slab* slab
    while over_budget(cache):
        slab = take_oldest(cache)
        if slab == NULL:
            return
        evict_slab(cache, slab)


cdef Block* cache_find(Cache* cache, uint64_t file_id, uint64_t offset) noexcept nogil:
    cdef uint64_t hash = place_hash(file_id, offset)
    cdef Shard* shard
    cdef Block* block
    if cache == NULL:
        return NULL
    shard = shard_of(cache, hash)
    pthread_mutex_lock(&shard.mutex)
    block = find_locked(shard, hash, file_id, offset)
    if block == NULL:
        shard.misses += 1
    else:
        shard.hits += 1
        block_ref(block)
        block.visited = True
    pthread_mutex_unlock(&shard.mutex)
    return block


cdef inline void fill_header(
    Block* block, Cache* cache, uint64_t file_id, uint64_t offset, size_t size
) noexcept nogil:
    block.data = NULL
    block.slab = NULL
    block.size = size
    block.file_id = file_id
    block.offset = offset
    block.in_cache = False
    block.visited = False
    block.cache = cache


cdef void drop_header(Cache* cache, Block* block) noexcept nogil:
    """Give back a header that was never published."""
    pthread_mutex_lock(&cache.pool_mutex)
    block.next = cache.free_blocks
    cache.free_blocks = block
    pthread_mutex_unlock(&cache.pool_mutex)


cdef Block* cache_add(
    Cache* cache, uint64_t file_id, uint64_t offset, uint8_t* data, size_t size, bint insert
) noexcept nogil:
    cdef Block* block = take_header(cache)
    cdef Block* present = NULL
    cdef uint64_t hash
    cdef uint8_t* space
    cdef Shard* shard
    if block == NULL:
        free(data)
        return NULL
    fill_header(block, cache, file_id, offset, size)
    block.data = data
    atomic_store(&block.references, 1)
    if cache == NULL or not insert or size + PAGE_BYTES > atomic_load(&cache.capacity):
        return block
    hash = place_hash(file_id, offset)
    space = take_space(cache, block, size, hash)
    if space == NULL:
        return block                 # it works all the same, for once
    memcpy(space, data, size)
    block.data = space
    free(data)
    shard = shard_of(cache, hash)
    pthread_mutex_lock(&shard.mutex)
    present = find_locked(shard, hash, file_id, offset)
    if present != NULL:
        block_ref(present)
    elif grow_locked(shard):
        block_ref(block)
        block.in_cache = True
        place_locked(shard, hash, block)
        shard.count += 1
    pthread_mutex_unlock(&shard.mutex)
    if present != NULL:
        block_unref(block)
        return present
    check_queued(cache, block, hash)
    if over_budget(cache):
        make_room(cache)
    return block


cdef void cache_drop_file(Cache* cache, uint64_t file_id) noexcept nogil:
    cdef Block* block
    cdef Shard* shard
    cdef uint64_t slot
    cdef int i
    if cache == NULL:
        return
    for i in range(SHARDS):
        shard = &cache.shards[i]
        slot = 0
        pthread_mutex_lock(&shard.mutex)
        while slot <= shard.mask:
            block = shard.slots[slot].block
            if block == NULL or block.file_id != file_id:
                slot += 1
                continue
            block.in_cache = False
            remove_locked(shard, slot)
            # Memory is not freed under a mutex; another entry may move into this slot meanwhile.
            pthread_mutex_unlock(&shard.mutex)
            block_unref(block)
            pthread_mutex_lock(&shard.mutex)
        pthread_mutex_unlock(&shard.mutex)
