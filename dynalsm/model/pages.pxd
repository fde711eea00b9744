# The loop under Query and Scan. See pages.pyx.

from dynalsm._core.coding cimport Slice
from dynalsm.expressions.compiled cimport Judge
from dynalsm.model.keys cimport Record, StoredKeys


cdef class Page:
    cdef public list items
    cdef public Py_ssize_t count
    cdef public Py_ssize_t scanned
    cdef public unsigned long long size_bytes
    cdef public object last_key          # bytes or None
    cdef public list fetched_sizes
    cdef readonly unsigned long long limit_bytes


cdef Page new_page(unsigned long long limit_bytes)


# What is done with the entries of a page. Belongs to one call.
cdef class Taker:
    cdef Page page
    cdef StoredKeys keys                 # of the entries whose items are taken
    cdef Judge judge                     # the condition, compiled; or None
    cdef object condition                # the condition if there is no judge; or None
    cdef int form                        # of decode.pxd
    cdef bint wants_items

    # Judge an item and take it into the page if the condition holds.
    cdef int take(self, const Record* record) except -1


cdef enum:
    CHUNK_ITEMS = 256            # entries fetched at once
    FIRST_ITEMS = 32             # at first: so few are read from memory without letting the GIL go

# Read a page of [lower, upper): see read_page. `table` is a TableHandle to fetch items from.
cdef int fill_page(
    Taker taker, StoredKeys keys, object tree, bytes lower, bytes upper, bint reverse,
    Py_ssize_t limit, object table, object snapshot, Py_ssize_t chunk_items
) except -1
