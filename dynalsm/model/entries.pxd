# Secondary index entries of an item, before they are written. See entries.pyx.

from libc.stdint cimport int64_t, uint64_t

from dynalsm.model.handles cimport TableHandle


# The entries of an item, one for each written index. Raises: IndexKeyProblem for the first index
# that cannot take the item.
cdef list new_entries(TableHandle handle, bytes item)

# The entries of an updated item; attributes that did not change cannot fail. old_item may be None.
cdef list updated_entries(TableHandle handle, bytes old_item, bytes new_item)

# What to change where: (index, old entry, new entry). entries: None when the item is deleted.
cdef list index_changes(TableHandle handle, bytes old_item, list entries)

cdef int stage_changes(object batch, list changes) except -1

# Report the changes of a commit to the indexes' counters.
cdef int count_changes(uint64_t seqno, list changes) except -1

# By how many bytes an item is billed as larger than it is: its vectors count as floats.
cdef int64_t billed_difference(TableHandle handle, bytes item) except? -1

# The size of an item's entries in local indexes, which count with the item.
cdef uint64_t local_entries_bytes(TableHandle handle, list entries) except? 0xFFFFFFFFFFFFFFFF
