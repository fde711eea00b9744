# The file an SSTable is written to: payloads with their trailers, gathered into large writes.
# Used by one thread. After a failure only output_abandon may follow.

from libc.stdint cimport uint8_t, uint64_t

from dynalsm._core.sstable_format cimport Bytes
from dynalsm._core.status cimport Failure


cdef struct TableOutput:
    char* path                       # owned
    int fd                           # -1: not open
    uint64_t unique_id
    uint64_t file_offset             # bytes written so far
    Bytes buffer                     # what comes next


# Creates the file and puts its header into the buffer. A file that is there is unlinked first.
cdef int output_open(TableOutput* output, const char* path, Failure* failure) noexcept nogil
# Syncs what was written and closes the file.
cdef int output_finish(TableOutput* output, Failure* failure) noexcept nogil
# Closes and removes the file; also after a failed output_open or output_finish.
cdef void output_abandon(TableOutput* output) noexcept nogil
# Offset in the file of what is appended next.
cdef uint64_t output_offset(const TableOutput* output) noexcept nogil
# Appends a payload and its trailer.
cdef int output_append(
    TableOutput* output, const uint8_t* payload, size_t size, int codec, Failure* failure
) noexcept nogil
# The same, without copying when it is large. REQUIRES: TRAILER_BYTES of room behind the payload.
cdef int output_append_in_place(
    TableOutput* output, uint8_t* payload, size_t size, int codec, Failure* failure
) noexcept nogil
# Appends bytes without a trailer and writes everything to the file.
cdef int output_append_last(
    TableOutput* output, const uint8_t* data, size_t size, Failure* failure
) noexcept nogil
