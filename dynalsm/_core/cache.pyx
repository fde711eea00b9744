# The block cache (see cache.pxd for the contracts).
#
# Each shard is an open-addressing table of (hash, block) with linear probing; the table is the
# clock as well: the hand walks its slots. A new block starts without its CLOCK bit, so what a scan
# touches once goes first. The budget is one number for all shards: whoever goes over it evicts,
# from its own shard first, then from the others, one shard's mutex at a time.
#
# Invariants: (1) a block in a table holds one reference for the table; (2) `bytes` is the sum of
# the charges of the blocks in tables; (3) a header's fields are written only before its first
# reference is published and after its last one is gone; (4) no memory is freed under a mutex.
# Lock order: a shard's mutex or the pool's, never two at once.

from libc.stdlib cimport calloc, free
from libc.string cimport memset

from dynalsm._core.bits cimport atomic_swap, load_relaxed, store_relaxed, unlikely
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
    # What a block costs beside its data: header, slot, the allocator's overhead.
    OVERHEAD_BYTES = 128


cdef struct Slot:
    uint64_t hash
    Block* block                     # NULL: empty


cdef struct Shard:
    pthread_mutex_t mutex
    Slot* slots                      # owned. Guarded by mutex, as is what follows.
    uint64_t mask
    uint64_t count
    uint64_t hand
    uint64_t hits
    uint64_t misses
    uint64_t evictions
    uint64_t pinned_hits             # counted without the mutex: exact with one thread
    uint64_t padding[4]


cdef struct Pool:
    Pool* next
    Block blocks[POOL_BLOCKS]


cdef struct Cache:
    Shard shards[SHARDS]
    uint64_t capacity                # atomic
    uint64_t bytes                   # atomic
    uint64_t pinned_bytes            # atomic
    pthread_mutex_t pool_mutex
    Pool* pools                      # owned. Guarded by pool_mutex.
    Block* free_blocks               # Guarded by pool_mutex.


cdef inline uint64_t place_hash(uint64_t file_id, uint64_t offset) noexcept nogil:
    cdef uint64_t x = (file_id * <uint64_t>0x9E3779B97F4A7C15) ^ offset
    x ^= x >> 32
    x *= <uint64_t>0xD6E8FEB86659FD93
    return x ^ (x >> 29)


cdef inline Shard* shard_of(Cache* cache, uint64_t hash) noexcept nogil:
    return &cache.shards[hash >> (64 - SHARD_BITS)]


# ------------------------------------------------------------------------------- life of a cache

cdef Cache* cache_create(uint64_t capacity_bytes) noexcept nogil:
    cdef Cache* cache = <Cache*>calloc(1, sizeof(Cache))
    cdef int i
    if cache == NULL:
        return NULL
    cache.capacity = capacity_bytes
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
    cdef int i
    cdef uint64_t slot
    if cache == NULL:
        return
    for i in range(SHARDS):
        if cache.shards[i].slots != NULL:
            for slot in range(cache.shards[i].mask + 1):
                if cache.shards[i].slots[slot].block != NULL:
                    free(cache.shards[i].slots[slot].block.data)
        free(cache.shards[i].slots)
        pthread_mutex_destroy(&cache.shards[i].mutex)
    while cache.pools != NULL:
        pool = cache.pools
        cache.pools = pool.next
        free(pool)
    pthread_mutex_destroy(&cache.pool_mutex)
    free(cache)


cdef void cache_set_capacity(Cache* cache, uint64_t capacity_bytes) noexcept nogil:
    atomic_store(&cache.capacity, capacity_bytes)
    make_room(cache, 0)


cdef void cache_charge(Cache* cache, long long bytes) noexcept nogil:
    if cache == NULL:
        return
    atomic_add(&cache.pinned_bytes, <uint64_t>bytes)
    if bytes > 0:
        make_room(cache, 0)


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


cdef void give_back_header(Block* block) noexcept nogil:
    cdef Cache* cache = block.cache
    if cache == NULL:
        free(block)
        return
    pthread_mutex_lock(&cache.pool_mutex)
    block.next = cache.free_blocks
    cache.free_blocks = block
    pthread_mutex_unlock(&cache.pool_mutex)


cdef void block_ref(Block* block) noexcept nogil:
    atomic_add(&block.references, 1)


cdef void block_unref(Block* block) noexcept nogil:
    if atomic_sub(&block.references, 1) == 0:
        free(block.data)
        give_back_header(block)


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
    shard.hand = 0
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
    shard.count -= 1


cdef inline Block* take_out_locked(
    Cache* cache, Shard* shard, uint64_t slot, Block* victims
) noexcept nogil:
    """Move the slot's block to the list of victims, with the table's reference."""
    cdef Block* block = shard.slots[slot].block
    remove_locked(shard, slot)
    block.in_cache = False
    atomic_sub(&cache.bytes, block.charge)
    block.next = victims
    return block


cdef void release_victims(Block* victims) noexcept nogil:
    cdef Block* block
    while victims != NULL:
        block = victims
        victims = block.next
        block_unref(block)


# ------------------------------------------------------------------------------- eviction, lookups

cdef inline bint over_budget(Cache* cache) noexcept nogil:
    return atomic_load(&cache.bytes) + atomic_load(&cache.pinned_bytes) > atomic_load(
        &cache.capacity
    )


cdef void evict_from(Cache* cache, Shard* shard) noexcept nogil:
    """Turn the shard's clock until the cache is within its budget, at most twice around."""
    cdef Block* victims = NULL
    cdef Block* block
    cdef uint64_t steps
    pthread_mutex_lock(&shard.mutex)
    steps = 2 * (shard.mask + 1)
    while steps and shard.count and over_budget(cache):
        steps -= 1
        shard.hand &= shard.mask
        block = shard.slots[shard.hand].block
        if block == NULL:
            shard.hand += 1
        elif block.visited:
            block.visited = False
            shard.hand += 1
        elif load_relaxed(&block.references) > 1:
            shard.hand += 1            # pinned: evicting it would free nothing now
        else:
            # Another entry may move into this slot: the hand stays.
            victims = take_out_locked(cache, shard, shard.hand, victims)
            shard.evictions += 1
    pthread_mutex_unlock(&shard.mutex)
    release_victims(victims)


cdef void make_room(Cache* cache, uint64_t first) noexcept nogil:
    cdef uint64_t i
    for i in range(SHARDS):
        if not over_budget(cache):
            return
        evict_from(cache, &cache.shards[(first + i) & (SHARDS - 1)])


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


cdef Block* cache_add(
    Cache* cache, uint64_t file_id, uint64_t offset, uint8_t* data, size_t size, bint insert
) noexcept nogil:
    cdef Block* block = take_header(cache)
    cdef Block* present
    cdef uint64_t hash
    cdef Shard* shard
    if block == NULL:
        free(data)
        return NULL
    block.data = data
    block.size = size
    block.file_id = file_id
    block.offset = offset
    block.in_cache = False
    block.visited = False
    block.charge = size + OVERHEAD_BYTES
    block.cache = cache
    atomic_store(&block.references, 1)
    if cache == NULL or not insert or block.charge > atomic_load(&cache.capacity):
        return block
    hash = place_hash(file_id, offset)
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
        atomic_add(&cache.bytes, block.charge)
    pthread_mutex_unlock(&shard.mutex)
    if present != NULL:
        block_unref(block)
        return present
    if over_budget(cache):
        make_room(cache, hash >> (64 - SHARD_BITS))
    return block


cdef void cache_drop_file(Cache* cache, uint64_t file_id) noexcept nogil:
    cdef Block* victims
    cdef Shard* shard
    cdef uint64_t slot
    cdef int i
    if cache == NULL:
        return
    for i in range(SHARDS):
        shard = &cache.shards[i]
        victims = NULL
        pthread_mutex_lock(&shard.mutex)
        slot = 0
        while slot <= shard.mask:
            if (
                shard.slots[slot].block != NULL
                and shard.slots[slot].block.file_id == file_id
            ):
                victims = take_out_locked(cache, shard, slot, victims)
            else:
                slot += 1
        pthread_mutex_unlock(&shard.mutex)
        release_victims(victims)
