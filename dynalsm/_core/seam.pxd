# The seam below all file operations: see seam.pyx for what tests do with it.
#
# An operation asks `if seam_is_active`, then seam_enter before it acts and seam_record after.
# Thread-safe.

from libc.stdint cimport int64_t

# Kinds of operations, as they are counted, failed and recorded.
cdef enum Operation:
    OPEN = 0            # recorded as "create" when it makes the file
    READ = 1            # also asking for the size; never recorded
    WRITE = 2
    SYNC = 3
    ALLOCATE = 4
    TRUNCATE = 5
    RENAME = 6
    LINK = 7
    REMOVE = 8
    DIRSYNC = 9
    MAP_WRITE = 10
    MAP = 11            # never recorded
    MKDIR = 12
    RMDIR = 13
    OPERATION_COUNT = 14


# Whether a plan or a recording is active. Read without a lock.
cdef bint seam_is_active

# Counts the operation. Returns: the errno it must fail with, or 0. *allowed (of a write, holds
# its size) becomes the number of bytes to be written before that.
cdef int seam_enter(int kind, const char* path, size_t* allowed) noexcept nogil
# Returns: the record's index, or -1 when nothing is being recorded.
cdef int64_t seam_record(
    int kind, const char* path, const char* path2, int64_t offset, const void* data, size_t size
) noexcept nogil
# Takes the record out again: the operation failed after all.
cdef void seam_drop(int64_t index) noexcept nogil
