# Open tables and indexes. See handles.pyx.
#
# Thread safety: handles do not change after construction.

from libc.stdint cimport uint64_t

from dynalsm.model.keys cimport IndexKeys, TableKeys
from dynalsm.model.statistics cimport Statistics
from dynalsm.model.vector_source cimport VectorSource


cdef class IndexHandle:
    cdef readonly object schema      # schema.IndexSchema
    cdef readonly str name
    cdef readonly str kind           # "LSI", "GSI" or "VECTOR"
    cdef readonly object tree
    cdef readonly IndexKeys keys
    cdef readonly Statistics statistics
    # False while the index is being filled; its entries are maintained all the same.
    cdef readonly bint is_readable
    cdef bint is_local
    # Of a vector index, else None: what its entries are made of, and what searches keep in
    # memory and must hear of every change (vectors.VectorSpace; None: searches read the tree).
    cdef readonly VectorSource vectors
    cdef readonly object space


cdef class TableHandle:
    cdef readonly object schema      # schema.TableSchema
    cdef readonly str name
    cdef readonly str arn
    cdef readonly object tree
    cdef readonly TableKeys keys
    cdef readonly dict indexes       # name -> IndexHandle
    cdef readonly tuple written_indexes
    cdef readonly object changelog   # changelog.Changelog or None
    cdef readonly object expiry      # the tree of expiry times while TTL is on, else None
    cdef readonly object expiry_mark  # ttl.Mark
    cdef readonly Statistics statistics
    cdef bint has_local_indexes
    cdef bint has_vectors
    cdef readonly dict plans         # of Queries (api/straight.pyx); guarded by the GIL
    cdef uint64_t item_limit_bytes   # the largest item, local index entries included


# The tables of a catalog by name.
cdef class OpenTables:
    cdef public dict _tables         # name -> TableHandle; replaced, never changed in place
