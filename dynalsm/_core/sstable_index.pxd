# A table's index in memory: which data block may hold a key.
#
# Block i holds the entries up to separator i (inclusive) and behind separator i - 1. A separator is
# a user key with a tag; tag 0 (after all versions of the key) unless the versions of one key go on
# in the next block. What all separators begin with is kept once; the next eight bytes of each lie
# in one dense array of big-endian integers, which decides nearly every comparison.
# When the integers are spread evenly enough (measured when the index is decoded) an array of buckets
# over their range replaces most of the binary search.
# Thread-safe once decoded: it is never changed.
#
# Payload of an index section: varint count of blocks; then per block: varint shared * 2 + (1 if a
# tag follows) | varint unshared | suffix | [tag varint] | stored size varint | uncompressed size
# varint. shared: bytes in common with the separator before. The first block lies behind the file's
# header, every other one behind the trailer of the one before.

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from dynalsm._core.coding cimport Slice


cdef struct TableIndex:
    uint32_t count               # of data blocks
    uint64_t* offsets            # owned, count + 1: block i lies at [offsets[i], offsets[i+1] - 5)
    uint32_t* raw_sizes          # owned: uncompressed
    uint64_t* prefixes           # owned: of the separators behind what they share
    uint64_t* tags               # owned; NULL: all are 0
    uint64_t* key_ends           # owned: separator i is keys[key_ends[i-1]:key_ends[i]] behind `common`
    uint8_t* keys                # owned
    uint8_t* common              # owned: what all separators begin with
    size_t common_size
    uint32_t* buckets            # owned; NULL: no use here
    uint32_t bucket_shift
    uint64_t low                 # prefixes[0]
    uint64_t high                # prefixes[count - 1]
    size_t memory_bytes


# Decodes the payload of an index section whose blocks begin at first_offset and end at data_end.
# Returns: OK, CORRUPTION or NO_MEMORY; what was allocated is freed by index_free in any case.
cdef int index_decode(
    TableIndex* index, const uint8_t* data, size_t size, uint64_t first_offset, uint64_t data_end
) noexcept nogil
cdef void index_free(TableIndex* index) noexcept nogil
# Returns: the first block whose separator is at or after (key, tag); `count` when there is none.
cdef uint32_t index_find(const TableIndex* index, Slice key, uint64_t tag) noexcept nogil
# Returns: <0, 0, >0: the order of separator i against (key, tag).
cdef int index_compare(
    const TableIndex* index, uint32_t i, Slice key, uint64_t tag
) noexcept nogil
# Starts loading what index_find will look at first.
cdef void index_prefetch(const TableIndex* index, Slice key) noexcept nogil

