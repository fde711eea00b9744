# An ordered walk over one SSTable, as a Source (source.pxd).
# A source belongs to one thread at a time; it keeps its table open and pins the block it stands in.

from dynalsm._core.source cimport Source
from dynalsm._core.sstable_file cimport Table
from dynalsm._core.status cimport Failure

cdef int source_open(
    Table* table, bint fill_cache, bint readahead, Source* out, Failure* failure
) noexcept nogil
