# What a split needs of recovery: a partition's version from the manifest's records.

from dynalsm._core.engine cimport Engine
from dynalsm._core.partition cimport Partition

cdef int restore_partition(
    Engine engine, Partition* partition, dict records, list ranges
) except -1
