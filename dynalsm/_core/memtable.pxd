# The newest writes of one partition, ordered by internal key, with a hash index for point gets.
#
# Structure: a B+tree of 64-entry nodes. A node keeps the length of the prefix all its keys share
# and, densely, the next eight bytes of each key as an integer: most comparisons touch one array
# (measured against a skip list: 4 to 7 times faster, docs/performance.md). Beside it an
# open-addressing table maps a key to its newest version; versions are chained. Entries, nodes and
# keys live in an arena and never move, so a found entry stays valid while the memtable lives.
#
# Thread safety: one writer at a time (the engine's commit mutex); reads and writes meet at
# `mutex`. A sealed memtable is immutable. Reference-counted (atomic).
# Invariants: (1) an entry never changes after insert; (2) sequence numbers of inserts increase;
#             (3) arena memory is freed only with the memtable.

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from dynalsm._core.coding cimport Slice
from dynalsm._core.source cimport Source
from dynalsm._core.sync cimport pthread_mutex_t


cdef enum:
    NODE_ENTRIES = 64
    MAX_HEIGHT = 12


cdef struct Entry:
    uint64_t tag             # seqno << 8 | kind
    uint64_t hash            # hash64 of the key
    Entry* older             # the version before, or NULL
    uint32_t key_size
    uint32_t value_size
    uint8_t data[1]          # key, then value


cdef struct Node:
    Node* next               # leaves only
    Node* prev
    uint32_t skip            # bytes that all keys of the node share
    uint16_t count          # leaf: entries; inner: separators (one less than children)
    uint16_t is_leaf
    uint64_t prefix[NODE_ENTRIES]
    Entry* entry[NODE_ENTRIES]
    # an inner node is allocated with NODE_ENTRIES + 1 children behind this


# A deleted range [lower, upper) at seqno; upper_size 0 with upper NULL: to the end.
cdef struct RangeDelete:
    uint8_t* lower           # owned by the list that holds it
    uint8_t* upper
    uint32_t lower_size
    uint32_t upper_size
    uint64_t seqno


cdef struct RangeList:
    RangeDelete* items       # owned, in the order of seqno
    uint32_t count
    uint32_t capacity


cdef struct Memtable:
    uint64_t references      # atomic
    pthread_mutex_t mutex
    uint64_t generation      # log number whose records it holds
    uint64_t version         # counts inserts: cursors notice that nodes moved
    uint64_t entries
    uint64_t deletions
    uint64_t size_bytes      # arena, nodes and hash table
    uint64_t data_bytes      # keys and values
    uint64_t min_seqno
    uint64_t max_seqno
    RangeList ranges
    Node* root
    Node* first_leaf
    Node* last_leaf
    int height               # 1: the root is a leaf
    uint64_t* slots          # hash index: 16 bits of hash << 48 | entry pointer; 0 empty
    uint64_t slot_count      # a power of two
    uint64_t slots_used
    uint8_t* chunk           # arena: free bytes of the newest chunk
    uint64_t chunk_left
    uint64_t chunk_size      # of the next chunk
    void* chunks             # linked list of all chunks


cdef Memtable* memtable_create(uint64_t generation) noexcept nogil      # NULL: no memory
cdef void memtable_ref(Memtable* table) noexcept nogil
cdef void memtable_unref(Memtable* table) noexcept nogil

# REQUIRES: the commit mutex; tag's seqno above every earlier one. Returns: OK or NO_MEMORY.
cdef int memtable_insert(
    Memtable* table, Slice key, uint64_t key_hash, uint64_t tag, Slice value
) noexcept nogil
cdef int memtable_delete_range(
    Memtable* table, Slice lower, Slice upper, uint64_t seqno
) noexcept nogil

# Newest entry of key with seqno <= seqno, or NULL. Takes the mutex; the entry stays valid while
# the caller holds a reference.
cdef const Entry* memtable_get(
    Memtable* table, Slice key, uint64_t key_hash, uint64_t seqno
) noexcept nogil

# Rough share of the entries before `key`, 0 to 1, from the tree's shape alone.
cdef double memtable_share_before(Memtable* table, Slice key) noexcept nogil

# Makes *out a source over the table (takes a reference). Returns: OK or NO_MEMORY.
cdef int memtable_source(Memtable* table, Source* out) noexcept nogil

cdef void range_list_free(RangeList* ranges) noexcept nogil
cdef int range_list_add(
    RangeList* ranges, Slice lower, Slice upper, uint64_t seqno
) noexcept nogil
# Highest seqno <= `seqno` of a range that covers key, or 0.
cdef uint64_t range_list_covering(
    const RangeList* ranges, Slice key, uint64_t seqno
) noexcept nogil
