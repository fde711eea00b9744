# The file an SSTable is written to: payloads with their trailers, gathered into large writes.
# Used by one thread. After a failure only output_abandon may follow.
# In an encrypted file payloads are sealed when they are written, many in one call.

from libc.stdint cimport uint8_t, uint64_t

from dynalsm._core.cipher cimport SEAL_HEAD_BYTES, Cipher
from dynalsm._core.sstable_format cimport Bytes
from dynalsm._core.status cimport Failure


cdef struct TableOutput:
    char* path                       # owned
    int fd                           # -1: not open
    uint64_t unique_id
    uint64_t file_offset             # bytes written so far
    Bytes buffer                     # what comes next
    Cipher* cipher                   # owned; NULL: not encrypted
    uint8_t head[SEAL_HEAD_BYTES]
    size_t seal_bytes                # what a sealed payload has more than the text
    Bytes unsealed                   # of Unsealed: what lies in the buffer and is not sealed yet


# Creates the file and puts its header into the buffer. A file that is there is unlinked first.
# keyring: NULL for a file that is not encrypted.
cdef int output_open(
    TableOutput* output, const char* path, void* keyring, Failure* failure
) noexcept nogil
# Syncs what was written and closes the file.
cdef int output_finish(TableOutput* output, Failure* failure) noexcept nogil
# Closes and removes the file; also after a failed output_open or output_finish.
cdef void output_abandon(TableOutput* output) noexcept nogil
# Offset in the file of what is appended next.
cdef uint64_t output_offset(const TableOutput* output) noexcept nogil
# Appends a payload of some SectionKind and its trailer. The stored payload has output.seal_bytes
# more, unless the kind is one that is never sealed.
cdef int output_append(
    TableOutput* output, const uint8_t* payload, size_t size, int kind, int codec,
    Failure* failure
) noexcept nogil
# The same for a data block, without copying when it is large. REQUIRES: TRAILER_BYTES of room
# behind the payload.
cdef int output_append_in_place(
    TableOutput* output, uint8_t* payload, size_t size, int codec, Failure* failure
) noexcept nogil
# Appends bytes without a trailer and writes everything to the file.
cdef int output_append_last(
    TableOutput* output, const uint8_t* data, size_t size, Failure* failure
) noexcept nogil
