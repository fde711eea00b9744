# The file an SSTable is written to (see sstable_output.pxd for the contracts).
#
# Invariant: file_offset + buffer.size is the offset of what is appended next; the trailers'
# checksums name it.

from libc.errno cimport EEXIST, errno
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset, strdup
from posix.fcntl cimport O_CREAT, O_EXCL, O_WRONLY

from dynalsm._core.cipher cimport (
    SEAL_TAG_BYTES,
    Piece,
    cipher_create,
    cipher_free,
    cipher_seal,
)
from dynalsm._core.files cimport file_close, file_open, file_remove, file_sync, file_write
from dynalsm._core.sstable_format cimport (
    SECTION_DIRECTORY,
    SECTION_ENCRYPTION,
    SECTION_NONE,
    TABLE_HEADER_BYTES,
    TRAILER_BYTES,
    block_piece,
    bytes_append,
    bytes_free,
    bytes_reserve,
    put_trailer,
    table_header_encode,
)
from dynalsm._core.status cimport NO_MEMORY, OK, Failure, fail, fail_errno

cdef extern from "<sys/random.h>" nogil:
    int getentropy(void* buffer, size_t size)


cdef enum:
    WRITE_BYTES = 1 << 20            # written to the file at a time
    LARGE_BYTES = 1 << 18            # payloads from here on are not copied to the buffer
    FILE_MODE = 0o600


# A payload in the buffer that waits for its seal and its trailer.
cdef struct Unsealed:
    size_t at                        # in the buffer
    size_t size
    int kind
    int codec


cdef int no_memory(TableOutput* output, Failure* failure) noexcept nogil:
    return fail(failure, NO_MEMORY, "no memory to write an SSTable", output.path, -1, 0)


cdef int create_file(TableOutput* output, Failure* failure) noexcept nogil:
    cdef int flags = O_WRONLY | O_CREAT | O_EXCL
    cdef int status = file_open(output.path, flags, FILE_MODE, &output.fd, failure)
    if status == OK or failure.errnum != EEXIST:
        return status
    # Left over from a crash before the manifest knew it. It is unlinked, not truncated: whoever
    # has it linked or open under another name keeps what was in it.
    status = file_remove(output.path, failure)
    if status == OK:
        status = file_open(output.path, flags, FILE_MODE, &output.fd, failure)
    return status


cdef int output_open(
    TableOutput* output, const char* path, void* keyring, Failure* failure
) noexcept nogil:
    memset(output, 0, sizeof(TableOutput))
    output.fd = -1
    output.path = strdup(path)
    if output.path == NULL or bytes_reserve(&output.buffer, WRITE_BYTES + LARGE_BYTES):
        return no_memory(output, failure)
    while output.unique_id == 0:
        if getentropy(&output.unique_id, sizeof(output.unique_id)) != 0:
            return fail_errno(failure, "cannot get random bytes", output.path, errno)
    if keyring != NULL:
        output.cipher = cipher_create(keyring, "table", output.head, output.path, failure)
        if output.cipher == NULL:
            return failure.status
        output.seal_bytes = SEAL_TAG_BYTES
    table_header_encode(output.buffer.data, output.unique_id)
    output.buffer.size = TABLE_HEADER_BYTES
    return create_file(output, failure)


cdef void free_output(TableOutput* output) noexcept nogil:
    bytes_free(&output.buffer)
    bytes_free(&output.unsealed)
    cipher_free(output.cipher)
    output.cipher = NULL
    free(output.path)
    output.path = NULL
    output.fd = -1


cdef int output_finish(TableOutput* output, Failure* failure) noexcept nogil:
    cdef int status = file_sync(output.fd, output.path, failure)
    if status != OK:
        return status
    file_close(output.fd)
    free_output(output)
    return OK


cdef void output_abandon(TableOutput* output) noexcept nogil:
    cdef Failure ignored
    if output.fd >= 0:
        file_close(output.fd)
        # What cannot be removed now is found as an orphan when the directory is opened next.
        file_remove(output.path, &ignored)
    free_output(output)


cdef uint64_t output_offset(const TableOutput* output) noexcept nogil:
    return output.file_offset + output.buffer.size


cdef int seal_buffer(TableOutput* output, Failure* failure) noexcept nogil:
    """Seal what waits for it, and add the trailers."""
    cdef size_t count = output.unsealed.size // sizeof(Unsealed)
    cdef const Unsealed* waiting = <const Unsealed*>output.unsealed.data
    cdef Piece* pieces = <Piece*>malloc(count * sizeof(Piece))
    cdef uint8_t* payload
    cdef size_t i
    cdef int status
    if pieces == NULL:
        return no_memory(output, failure)
    for i in range(count):
        block_piece(
            &pieces[i], output.buffer.data + waiting[i].at, waiting[i].size, waiting[i].kind,
            waiting[i].codec, output.unique_id, output.file_offset + waiting[i].at,
        )
    status = cipher_seal(output.cipher, pieces, count, failure)
    free(pieces)
    if status != OK:
        return status
    for i in range(count):
        payload = output.buffer.data + waiting[i].at
        put_trailer(
            payload, waiting[i].size + SEAL_TAG_BYTES, waiting[i].codec, output.unique_id,
            output.file_offset + waiting[i].at,
        )
    output.unsealed.size = 0
    return OK


cdef int append_unsealed(
    TableOutput* output, size_t size, int kind, int codec, Failure* failure
) noexcept nogil:
    """Let the payload that was put at the end of the buffer wait for its seal."""
    cdef Unsealed waiting
    waiting.at = output.buffer.size
    waiting.size = size
    waiting.kind = kind
    waiting.codec = codec
    if bytes_append(&output.unsealed, &waiting, sizeof(Unsealed)):
        return no_memory(output, failure)
    output.buffer.size += size + SEAL_TAG_BYTES + TRAILER_BYTES
    return OK


cdef int write_buffer(TableOutput* output, Failure* failure) noexcept nogil:
    cdef int status
    if output.buffer.size == 0:
        return OK
    if output.unsealed.size:
        status = seal_buffer(output, failure)
        if status != OK:
            return status
    status = file_write(
        output.fd, output.path, output.buffer.data, output.buffer.size,
        <int64_t>output.file_offset, failure,
    )
    if status == OK:
        output.file_offset += output.buffer.size
        output.buffer.size = 0
    return status


cdef int output_append(
    TableOutput* output, const uint8_t* payload, size_t size, int kind, int codec,
    Failure* failure
) noexcept nogil:
    cdef uint8_t* target
    cdef int status
    if bytes_reserve(&output.buffer, size + output.seal_bytes + TRAILER_BYTES):
        return no_memory(output, failure)
    target = output.buffer.data + output.buffer.size
    if size:
        memcpy(target, payload, size)
    if output.cipher != NULL and kind != SECTION_ENCRYPTION and kind != SECTION_DIRECTORY:
        status = append_unsealed(output, size, kind, codec, failure)
        if status != OK:
            return status
    else:
        put_trailer(target, size, codec, output.unique_id, output_offset(output))
        output.buffer.size += size + TRAILER_BYTES
    if output.buffer.size >= WRITE_BYTES:
        return write_buffer(output, failure)
    return OK


cdef int output_append_in_place(
    TableOutput* output, uint8_t* payload, size_t size, int codec, Failure* failure
) noexcept nogil:
    cdef int status
    if size < LARGE_BYTES or output.cipher != NULL:
        return output_append(output, payload, size, SECTION_NONE, codec, failure)
    status = write_buffer(output, failure)
    if status != OK:
        return status
    put_trailer(payload, size, codec, output.unique_id, output.file_offset)
    status = file_write(
        output.fd, output.path, payload, size + TRAILER_BYTES,
        <int64_t>output.file_offset, failure,
    )
    output.file_offset += size + TRAILER_BYTES
    return status


cdef int output_append_last(
    TableOutput* output, const uint8_t* data, size_t size, Failure* failure
) noexcept nogil:
    if bytes_append(&output.buffer, data, size):
        return no_memory(output, failure)
    return write_buffer(output, failure)
