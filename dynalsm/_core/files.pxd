# Every file operation of the core: thin wrappers of POSIX that fill in a Failure, never raise,
# and pass the fault-injection seam (files.pyx). Paths are NUL-terminated bytes in the file
# system's encoding. Thread-safe; no state but the seam's.

from libc.stdint cimport int64_t, uint64_t

from dynalsm._core.status cimport Failure

# Opens with O_CLOEXEC. flags as open(2). *fd is -1 on failure.
cdef int file_open(
    const char* path, int flags, int mode, int* fd, Failure* failure
) noexcept nogil
cdef void file_close(int fd) noexcept nogil
# Reads exactly `size` bytes; CORRUPTION ("file is shorter than expected") at end of file.
cdef int file_read(
    int fd, const char* path, void* buffer, size_t size, int64_t offset, Failure* failure
) noexcept nogil
# Writes all of it at `offset` (pwrite), going on after short writes.
cdef int file_write(
    int fd, const char* path, const void* data, size_t size, int64_t offset, Failure* failure
) noexcept nogil
cdef int file_sync(int fd, const char* path, Failure* failure) noexcept nogil       # fdatasync
# Asks the system to begin writing a range of the file to the disk, and does not wait: a hint.
cdef void file_start_writing(int fd, int64_t offset, int64_t size) noexcept nogil
cdef int file_size(int fd, const char* path, int64_t* size, Failure* failure) noexcept nogil
cdef int file_truncate(int fd, const char* path, int64_t size, Failure* failure) noexcept nogil
# Reserves blocks for [offset, offset + size) and extends the file (posix_fallocate semantics:
# a later write there cannot fail for want of space). IO_ERROR with EOPNOTSUPP where the file
# system cannot.
cdef int file_allocate(
    int fd, const char* path, int64_t offset, int64_t size, Failure* failure
) noexcept nogil
# Whether a store through a mapping of reserved blocks can fail only with the device: known file
# systems that write reserved blocks in place. Elsewhere (copy on write, network) such a store may
# find no space, and the process would die of SIGBUS instead of getting an error.
cdef bint file_can_map(int fd) noexcept nogil
# Maps [0, size) shared and writable; touching bytes beyond the end of file is the caller's fault.
# A forked child does not inherit the mapping.
cdef int file_map(
    int fd, const char* path, size_t size, void** base, Failure* failure
) noexcept nogil
cdef void file_unmap(void* base, size_t size) noexcept nogil
# Gives up whole pages of a mapping that were written and are not needed any more: the process does
# not hold them any longer; the file's contents stay as written.
cdef void file_map_release(void* base, size_t size) noexcept nogil
# To be called instead of memcpy for a write through a mapping: passes the seam (recording, faults).
cdef int file_map_write(
    void* base, const char* path, const void* data, size_t size, int64_t offset, Failure* failure
) noexcept nogil
# The name lasts only after directory_sync of the directory of `new` (and of `old`, if another).
cdef int file_rename(const char* old, const char* new, Failure* failure) noexcept nogil
cdef int file_link(const char* old, const char* new, Failure* failure) noexcept nogil
cdef int file_remove(const char* path, Failure* failure) noexcept nogil
cdef int directory_sync(const char* path, Failure* failure) noexcept nogil
# Creates one directory, mode 0700. *created is false when it was there already.
cdef int directory_create(const char* path, bint* created, Failure* failure) noexcept nogil
# Removes an empty directory.
cdef int directory_remove(const char* path, Failure* failure) noexcept nogil
