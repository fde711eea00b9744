# Stored values: what lies under a tree key. See stored.pyx.

from libc.stdint cimport uint8_t, uint64_t

from dynalsm.values.buffer cimport Buffer
from dynalsm.values.codec cimport Part

cdef enum:
    MAX_HEAD = 16                # version, size, map header


# Attribute names sorted by their bytes, for walking along an item's names.
cdef class NameSet:
    cdef tuple names             # of bytes, sorted; keeps what a walk borrows


# Make the stored value of an item without the names in `drop`. With a `keep` list only the names
# in either list count (for size), and only those of `keep` are stored.
cdef bytes store(bytes item, NameSet drop, NameSet keep)

# Read what stands before a stored map: version and size. Returns: where the map starts.
cdef const uint8_t* read_head(
    const uint8_t* stored, const uint8_t* end, uint64_t* item_size
) except NULL

# Put version, size and map header in front of pairs that were written MAX_HEAD bytes into a buffer.
cdef bytes with_head(Buffer* out, uint64_t item_size, size_t count)

# Merge key attributes (sorted by name) into a stored map.
cdef bytes joined(
    const Part* parts, int count, const uint8_t* map_start, const uint8_t* end
)
