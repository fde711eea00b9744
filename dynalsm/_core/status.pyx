# Status codes of the core (see status.pxd for the contracts).

from libc.errno cimport EAGAIN, EDQUOT, EINTR, EMFILE, ENFILE, ENOMEM, ENOSPC
from libc.string cimport strncpy

import os

from dynalsm import errors


cdef void failure_clear(Failure* failure) noexcept nogil:
    failure.status = OK
    failure.errnum = 0
    failure.offset = -1
    failure.path[0] = 0
    failure.message[0] = 0


cdef void copy_text(char* target, size_t capacity, const char* source) noexcept nogil:
    if source == NULL:
        target[0] = 0
        return
    strncpy(target, source, capacity - 1)
    target[capacity - 1] = 0


cdef int fail(
    Failure* failure, int status, const char* message, const char* path, int64_t offset, int errnum
) noexcept nogil:
    failure.status = status
    failure.errnum = errnum
    failure.offset = offset
    copy_text(failure.path, sizeof(failure.path), path)
    copy_text(failure.message, sizeof(failure.message), message)
    return status


cdef int fail_errno(
    Failure* failure, const char* message, const char* path, int errnum
) noexcept nogil:
    cdef int status = NO_SPACE if errnum == ENOSPC or errnum == EDQUOT else IO_ERROR
    return fail(failure, status, message, path, -1, errnum)


cdef int fail_change(
    Failure* failure, const char* message, const char* path, int errnum
) noexcept nogil:
    cdef int status = WRITE_FAILED
    if errnum == ENOSPC or errnum == EDQUOT:
        status = NO_SPACE
    elif (
        errnum == EMFILE or errnum == ENFILE or errnum == ENOMEM or errnum == EINTR
        or errnum == EAGAIN
    ):
        status = IO_ERROR
    return fail(failure, status, message, path, -1, errnum)


cdef int raise_failure(const Failure* failure) except -1:
    if failure.status == OK:
        return 0
    message = failure.message.decode("utf-8", "replace")
    path = os.fsdecode(<bytes>failure.path) if failure.path[0] else None
    offset = failure.offset if failure.offset >= 0 else None
    if failure.errnum:
        message = f"{message}: {os.strerror(failure.errnum)}"
    if failure.status == CORRUPTION or failure.status == TORN:
        raise errors.CorruptionError(message, path=path, offset=offset)
    if failure.status == NO_SPACE:
        raise errors.NoSpaceError(message, path=path, offset=offset, errno=failure.errnum)
    if failure.status == IO_ERROR or failure.status == WRITE_FAILED:
        raise errors.StorageIOError(
            message, path=path, offset=offset, errno=failure.errnum,
            is_final=failure.status == WRITE_FAILED,
        )
    if failure.status == POISONED:
        raise errors.PoisonedError(f"no write is accepted any more: {message}", path=path)
    if failure.status == CLOSED:
        raise errors.ClosedError(message, path=path)
    if failure.status == NO_MEMORY:
        raise MemoryError(message)
    if failure.status == ENCRYPTED:
        raise errors.EncryptionError(message, path=path)
    raise errors.StorageError(f"{message} (status {failure.status})", path=path, offset=offset)
