# What other modules build changes with: files in, files out, one manifest edit, one install.

from dynalsm._core.compaction cimport Job
from dynalsm._core.engine cimport Engine
from dynalsm._core.memtable cimport Memtable, RangeList
from dynalsm._core.partition cimport Partition
from dynalsm._core.version cimport FileMeta


# What one job does to one partition: files in, files out. Owns its FileMeta references.
cdef class Change:
    cdef Partition* partition
    cdef FileMeta** added
    cdef int added_count
    cdef FileMeta** removed          # borrowed from the partition's version
    cdef int removed_count
    cdef RangeList ranges            # replaces the version's when has_ranges
    cdef bint has_ranges
    cdef Memtable* flushed           # the sealed memtable that goes, or NULL


# The manifest edit that says what the changes do.
cdef dict edit_of(Engine engine, list changes)
# Swaps the partitions' versions; empties the list. REQUIRES: engine.admin; the edit is durable.
cdef int install_all(Engine engine, list changes) except -1
# Opens the job's outputs and puts them into the change; takes over the outputs' keys.
cdef int adopt_outputs(Engine engine, Job* job, Change change) except -1
# A job has failed: its files go (those that the manifest may name: later), and writes are refused
# when the failure is final.
cdef int abandon(Engine engine, list changes, object error) except -1
cdef int prepare_job(Engine engine, Job* job, Partition* partition, int level) except -1
cdef int sync_directory(Engine engine, Partition* partition) except -1
