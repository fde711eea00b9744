# The writing side of the changelog. See change_records.pyx.

from dynalsm.model.handles cimport TableHandle


cdef class Changelog:
    cdef readonly object record      # changelog.ChangelogRecord
    cdef readonly object tree
    cdef readonly bint keeps_old
    cdef readonly bint keeps_new
    cdef unsigned int shards


# Add the record of one item's change to a batch. The images are whole encoded items, None when
# there is none; they differ. REQUIRES: handle.changelog is not None, and the item is locked until
# the batch has been committed.
cdef int add_change_record(
    object batch, TableHandle handle, bytes tree_key, bytes old_item, bytes new_item, object now,
    bint by_ttl
) except -1
