# Status codes of the core, and the one place where a code becomes a Python exception.
#
# Core functions are `noexcept nogil`, return a Status and describe a failure in a caller-owned
# Failure. Only `raise_failure` (with the GIL) turns that into an exception of dynalsm.errors.

from libc.stdint cimport int64_t


cdef enum Status:
    OK = 0
    NOT_FOUND = 1        # no such key
    END = 2              # a cursor has no entry here
    WOULD_BLOCK = 3      # needs file I/O and the caller said not to
    CORRUPTION = 10
    IO_ERROR = 11
    NO_SPACE = 12
    NO_MEMORY = 13
    POISONED = 14        # an earlier fsync failed
    CLOSED = 15
    MOVED = 17           # the partition was split: route the key again
    TORN = 16            # a log ends in an incomplete record
    WRITE_FAILED = 18    # a change was refused, and not for a passing want: no second try
    ENCRYPTED = 19       # a key is missing


cdef struct Failure:
    int status
    int errnum           # errno, or 0
    int64_t offset       # byte in the file, or -1
    char path[1024]      # empty when no file is concerned
    char message[256]


cdef void failure_clear(Failure* failure) noexcept nogil

# Fill in *failure. Returns: `status`, so that callers can `return fail(...)`.
cdef int fail(
    Failure* failure, int status, const char* message, const char* path, int64_t offset, int errnum
) noexcept nogil

# As fail() with IO_ERROR, or NO_SPACE when errnum is ENOSPC or EDQUOT.
cdef int fail_errno(
    Failure* failure, const char* message, const char* path, int errnum
) noexcept nogil

# As fail() for an operation that changes something: NO_SPACE as above, IO_ERROR for another want
# that passes (descriptors, memory, a signal), else WRITE_FAILED.
cdef int fail_change(
    Failure* failure, const char* message, const char* path, int errnum
) noexcept nogil

# Raises: the exception of dynalsm.errors for failure.status; returns 0 when it is OK.
cdef int raise_failure(const Failure* failure) except -1
