# A table's index in memory: which data block may hold a key.
#
# Block i holds the entries up to separator i (inclusive) and behind separator i - 1. A separator is
# a user key with a tag; tag 0 (after all versions of the key) unless the versions of one key go on
# in the next block. What all separators begin with is kept once; the next eight bytes of each lie
# in one dense array of big-endian integers, which decides nearly every comparison.
# An array of buckets over a monotone function of the integers replaces most of the binary search
# where it helps (measured when the index is decoded). Two functions are tried: the integer itself,
# which is even in hashed trees, and its bytes as digits of a number whose radixes are the alphabets
# found at each place, which is even for decimal text and the like.
# Thread-safe once decoded: it is never changed, but for the hints in the slots.
#
# Payload of an index section: varint count of blocks; then per block: varint shared * 2 + (1 if a
# tag follows) | varint unshared | suffix | [tag varint] | stored size varint | uncompressed size
# varint. shared: bytes in common with the separator before. The first block lies behind the file's
# header, every other one behind the trailer of the one before.

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from dynalsm._core.coding cimport Slice


# What is known about a data block: half a cache line, so that one fetch brings all of it.
cdef struct IndexSlot:
    uint64_t offset              # in the file
    uint32_t stored_size         # there, without the trailer
    uint32_t raw_size            # uncompressed
    # Where the block was seen in the cache. Atomic; written by the table's readers.
    uint64_t hint                # Block*
    uint64_t data                # its data: only ever prefetched


cdef struct TableIndex:
    uint32_t count               # of data blocks
    IndexSlot* slots             # owned, count + 1: the last one has the offset behind the blocks
    uint64_t* prefixes           # owned: of the separators behind what they share
    uint64_t* tags               # owned; NULL: all are 0
    # owned: separator i is `common` and then keys[key_ends[i-1]:key_ends[i]]
    uint64_t* key_ends
    uint8_t* keys                # owned
    uint8_t* common              # owned: what all separators begin with
    size_t common_size
    uint32_t* buckets            # owned; NULL: no use here
    uint64_t bucket_scale        # bucket = (place * bucket_scale) >> 64
    bint by_digits               # place = digits_place(prefix), else prefix - low
    uint64_t weights[8]          # of a prefix's bytes as digits, highest first; 0: not looked at
    uint8_t least[8]             # lowest and highest byte found at each place, 0 (the end) aside
    uint8_t most[8]
    uint64_t low                 # prefixes[0]
    uint64_t high                # prefixes[count - 1]
    size_t memory_bytes


# An entry of the section, as it lies there.
cdef struct IndexEntry:
    size_t shared                # bytes in common with the separator before
    Slice suffix                 # borrowed: the other ones
    uint64_t tag
    uint32_t stored_size
    uint32_t raw_size


# A search under way.
cdef struct IndexProbe:
    bint is_decided              # `place` is the answer
    uint32_t place
    Slice rest                   # of the key, behind what all separators share
    uint64_t wanted              # its prefix
    uint64_t bucket


# Decodes the payload of an index section whose blocks begin at first_offset and end at data_end.
# Returns: OK, CORRUPTION or NO_MEMORY; what was allocated is freed by index_free in any case.
cdef int index_decode(
    TableIndex* index, const uint8_t* data, size_t size, uint64_t first_offset, uint64_t data_end
) noexcept nogil
cdef void index_free(TableIndex* index) noexcept nogil
# Decodes `count` entries of a part (sstable_parts.pxd). `parts`: the index of the table's parts.
cdef int index_decode_part(
    TableIndex* index, const uint8_t* data, size_t size, uint32_t count, const TableIndex* parts,
    uint32_t part
) noexcept nogil

# For who builds an index of something else, in this order: room for `count` separators; the keys
# (whole, one behind the other), their key_ends and tags; the search over them.
cdef int index_allocate(TableIndex* index, uint32_t count) noexcept nogil
cdef int index_keep_tag(TableIndex* index, uint32_t i, uint64_t tag) noexcept nogil
cdef int index_finish(TableIndex* index) noexcept nogil
# The number of blocks at the head of a section. Returns: what is behind it; NULL: damaged.
cdef const uint8_t* index_count(
    const uint8_t* data, size_t size, uint64_t* count
) noexcept nogil
# Returns: what is behind the entry at `at`, or NULL when it is damaged.
cdef const uint8_t* index_parse(
    const uint8_t* at, const uint8_t* limit, IndexEntry* entry
) noexcept nogil
# Whether an entry comes after the separator before it. REQUIRES: shared <= last.size.
cdef bint index_ascends(Slice last, uint64_t last_tag, const IndexEntry* entry) noexcept nogil

# Returns: the first block whose separator is at or after (key, tag); `count` when there is none.
cdef uint32_t index_find(const TableIndex* index, Slice key, uint64_t tag) noexcept nogil
# The same in two steps: the first one only computes and starts loading what the second looks at.
cdef void index_probe(const TableIndex* index, Slice key, IndexProbe* probe) noexcept nogil
cdef uint32_t index_resolve(
    const TableIndex* index, const IndexProbe* probe, uint64_t tag
) noexcept nogil
# Returns: <0, 0, >0: the order of separator i against (key, tag).
cdef int index_compare(
    const TableIndex* index, uint32_t i, Slice key, uint64_t tag
) noexcept nogil
