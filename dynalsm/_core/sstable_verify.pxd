# Reads a whole SSTable and compares everything it says with everything else it says.

from dynalsm._core.sstable_file cimport Table
from dynalsm._core.status cimport Failure

cdef int verify_table(Table* table, Failure* failure) noexcept nogil
