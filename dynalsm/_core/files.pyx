# File operations of the core.
#
# The C functions are described in files.pxd. The Python functions at the end go the same way; the
# .py modules of the core use nothing else to change files. Every operation passes the seam
# (seam.pyx), through which tests fail and record it. Directories are created with mode 0700,
# files with 0600.
#
# Thread safety: everything may be called from any thread.

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.errno cimport (
    EDQUOT,
    EEXIST,
    EINTR,
    EINVAL,
    EIO,
    ENOENT,
    ENOSPC,
    ENOSYS,
    EOPNOTSUPP,
    errno,
)
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from dynalsm._core.seam cimport (
    ALLOCATE,
    DIRSYNC,
    LINK,
    MAP,
    MAP_WRITE,
    MKDIR,
    OPEN,
    READ,
    REMOVE,
    RENAME,
    RMDIR,
    SYNC,
    TRUNCATE,
    WRITE,
    seam_drop,
    seam_enter,
    seam_is_active,
    seam_record,
)
from dynalsm._core.status cimport (
    CORRUPTION,
    NO_SPACE,
    OK,
    WRITE_FAILED,
    Failure,
    fail,
    fail_change,
    fail_errno,
    failure_clear,
    raise_failure,
)

import os

from dynalsm import errors
# For those who look for them here.
from dynalsm._core.seam import (
    OPERATIONS,  # no-cython-lint
    clear_fault,  # no-cython-lint
    operation_count,  # no-cython-lint
    set_fault,  # no-cython-lint
    start_recording,  # no-cython-lint
    stop_recording,  # no-cython-lint
)

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <errno.h>
    #include <fcntl.h>
    #include <stdio.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <sys/stat.h>
    #include <unistd.h>
    #ifdef __linux__
    #include <linux/falloc.h>
    #include <sys/vfs.h>
    #endif

    static int dynalsm_sync(int fd) {
    #if defined(__APPLE__)
        /* fsync stops at the drive's cache there. */
        return fcntl(fd, F_FULLFSYNC);
    #else
        return fdatasync(fd);
    #endif
    }

    static void dynalsm_start_writing(int fd, off_t offset, off_t size) {
    #ifdef __linux__
        sync_file_range(fd, offset, size, SYNC_FILE_RANGE_WRITE);
    #else
        (void)fd; (void)offset; (void)size;
    #endif
    }

    static int dynalsm_allocate(int fd, off_t offset, off_t size) {
    #ifdef __linux__
        /* Not posix_fallocate: where the file system cannot, glibc would write every block. */
        return fallocate(fd, 0, offset, size);
    #else
        (void)fd; (void)offset; (void)size;
        errno = EOPNOTSUPP;
        return -1;
    #endif
    }

    static int dynalsm_can_map(int fd) {
    #ifdef __linux__
        struct statfs info;
        if (fstatfs(fd, &info) != 0) return 0;
        switch ((unsigned long)info.f_type) {
            case 0xEF53UL:      /* ext4 (ext2 and ext3 cannot reserve, so never come so far) */
            case 0x58465342UL:  /* xfs */
            case 0x01021994UL:  /* tmpfs */
                return 1;
        }
    #endif
        return 0;
    }

    static void* dynalsm_map(int fd, size_t size) {
        void* base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (base == MAP_FAILED) return NULL;
    #ifdef MADV_DONTFORK
        madvise(base, size, MADV_DONTFORK);
    #endif
        return base;
    }

    static int dynalsm_size(int fd, int64_t* size) {
        struct stat info;
        if (fstat(fd, &info) != 0) return -1;
        *size = (int64_t)info.st_size;
        return 0;
    }
    """
    int c_open "open"(const char* path, int flags, int mode) nogil
    int c_close "close"(int fd) nogil
    ssize_t c_pread "pread"(int fd, void* buffer, size_t size, int64_t offset) nogil
    ssize_t c_pwrite "pwrite"(int fd, const void* buffer, size_t size, int64_t offset) nogil
    int c_fsync "fsync"(int fd) nogil
    int c_truncate "ftruncate"(int fd, int64_t size) nogil
    int c_rename "rename"(const char* old, const char* new) nogil
    int c_link "link"(const char* old, const char* new) nogil
    int c_unlink "unlink"(const char* path) nogil
    int c_mkdir "mkdir"(const char* path, int mode) nogil
    int c_rmdir "rmdir"(const char* path) nogil
    int c_access "access"(const char* path, int mode) nogil
    int c_munmap "munmap"(void* base, size_t size) nogil
    int c_madvise "madvise"(void* base, size_t size, int advice) nogil
    int MADV_DONTNEED
    int c_sync "dynalsm_sync"(int fd) nogil
    void c_start_writing "dynalsm_start_writing"(int fd, int64_t offset, int64_t size) nogil
    int c_allocate "dynalsm_allocate"(int fd, int64_t offset, int64_t size) nogil
    bint c_can_map "dynalsm_can_map"(int fd) nogil
    void* c_map "dynalsm_map"(int fd, size_t size) nogil
    int c_size "dynalsm_size"(int fd, int64_t* size) nogil
    enum:
        F_OK
        O_CLOEXEC
        O_CREAT
        O_DIRECTORY
        O_RDONLY
        O_TRUNC

cdef enum:
    FILE_MODE = 0o600
    DIRECTORY_MODE = 0o700
    # Bytes per pread and pwrite: Linux takes no more than 2 GiB in one call.
    TRANSFER_BYTES = 1 << 30


# ---- operations ----

cdef int file_open(
    const char* path, int flags, int mode, int* fd, Failure* failure
) noexcept nogil:
    cdef int errnum = 0
    cdef bint existed = True
    fd[0] = -1
    if seam_is_active:
        errnum = seam_enter(OPEN, path, NULL)
        existed = c_access(path, F_OK) == 0
    if not errnum:
        while True:
            fd[0] = c_open(path, flags | O_CLOEXEC, mode)
            if fd[0] >= 0:
                break
            if errno != EINTR:
                errnum = errno
                break
    if errnum and flags & O_CREAT:
        return fail_change(failure, "cannot create the file", path, errnum)
    if errnum:
        return fail_errno(failure, "cannot open the file", path, errnum)
    if seam_is_active:
        if not existed and flags & O_CREAT:
            seam_record(OPEN, path, NULL, 0, NULL, 0)
        elif flags & O_TRUNC:
            seam_record(TRUNCATE, path, NULL, 0, NULL, 0)
    return OK


cdef void file_close(int fd) noexcept nogil:
    # Not repeated after EINTR: Linux has closed the descriptor all the same. What a late write
    # error could tell here was asked for by file_sync before.
    if fd >= 0:
        c_close(fd)


cdef int file_read(
    int fd, const char* path, void* buffer, size_t size, int64_t offset, Failure* failure
) noexcept nogil:
    cdef uint8_t* target = <uint8_t*>buffer
    cdef int errnum
    cdef ssize_t got
    if seam_is_active:
        errnum = seam_enter(READ, path, NULL)
        if errnum:
            return fail_errno(failure, "cannot read the file", path, errnum)
    while size:
        got = c_pread(fd, target, size if size < TRANSFER_BYTES else TRANSFER_BYTES, offset)
        if got > 0:
            target += got
            offset += got
            size -= <size_t>got
        elif got == 0:
            return fail(failure, CORRUPTION, "file is shorter than expected", path, offset, 0)
        elif errno != EINTR:
            return fail_errno(failure, "cannot read the file", path, errno)
    return OK


cdef int file_write(
    int fd, const char* path, const void* data, size_t size, int64_t offset, Failure* failure
) noexcept nogil:
    cdef const uint8_t* source = <const uint8_t*>data
    cdef int injected = 0
    cdef int errnum = 0
    cdef size_t done = 0
    cdef size_t allowed = size
    cdef size_t wanted
    cdef ssize_t put
    if seam_is_active:
        injected = seam_enter(WRITE, path, &allowed)
    while done < size:
        if injected and done >= allowed:
            errnum = injected
            break
        wanted = (allowed if done < allowed else size) - done
        put = c_pwrite(
            fd, source + done, wanted if wanted < TRANSFER_BYTES else TRANSFER_BYTES,
            offset + <int64_t>done
        )
        if put > 0:
            done += <size_t>put
        elif put == 0:
            # Not a thing POSIX lets a regular file do; an error beats turning for ever.
            errnum = EIO
            break
        elif errno != EINTR:
            errnum = errno
            break
    if seam_is_active and done:
        seam_record(WRITE, path, NULL, offset, data, done)
    if errnum:
        return fail_change(failure, "cannot write the file", path, errnum)
    return OK


cdef int file_sync(int fd, const char* path, Failure* failure) noexcept nogil:
    cdef int64_t record = -1
    cdef int errnum = 0
    if seam_is_active:
        errnum = seam_enter(SYNC, path, NULL)
        if not errnum:
            record = seam_record(SYNC, path, NULL, 0, NULL, 0)
    if not errnum and c_sync(fd) != 0:
        # EINTR too is final: what the kernel had begun to write may be marked clean by now.
        errnum = errno
    if errnum:
        seam_drop(record)
        # Whatever the reason, but for space, which another file may find.
        if errnum == ENOSPC or errnum == EDQUOT:
            return fail(failure, NO_SPACE, "cannot sync the file", path, -1, errnum)
        return fail(failure, WRITE_FAILED, "cannot sync the file", path, -1, errnum)
    return OK


cdef void file_start_writing(int fd, int64_t offset, int64_t size) noexcept nogil:
    # Errors of writing are left for file_sync: this flag neither waits for them nor takes them.
    c_start_writing(fd, offset, size)


cdef int file_size(int fd, const char* path, int64_t* size, Failure* failure) noexcept nogil:
    cdef int errnum = 0
    if seam_is_active:
        errnum = seam_enter(READ, path, NULL)
    if not errnum and c_size(fd, size) != 0:
        errnum = errno
    if errnum:
        return fail_errno(failure, "cannot tell the file's size", path, errnum)
    return OK


cdef int file_truncate(int fd, const char* path, int64_t size, Failure* failure) noexcept nogil:
    cdef int errnum = 0
    if seam_is_active:
        errnum = seam_enter(TRUNCATE, path, NULL)
    while not errnum and c_truncate(fd, size) != 0:
        if errno != EINTR:
            errnum = errno
    if errnum:
        return fail_change(failure, "cannot truncate the file", path, errnum)
    if seam_is_active:
        seam_record(TRUNCATE, path, NULL, size, NULL, 0)
    return OK


cdef int file_allocate(
    int fd, const char* path, int64_t offset, int64_t size, Failure* failure
) noexcept nogil:
    cdef int errnum = 0
    if seam_is_active:
        errnum = seam_enter(ALLOCATE, path, NULL)
    while not errnum and c_allocate(fd, offset, size) != 0:
        if errno != EINTR:
            errnum = errno
    if errnum == EOPNOTSUPP or errnum == ENOSYS or errnum == EINVAL:
        return fail_errno(failure, "the file system cannot reserve space", path, errnum)
    if errnum:
        return fail_change(failure, "cannot reserve space for the file", path, errnum)
    if seam_is_active:
        seam_record(ALLOCATE, path, NULL, offset + size, NULL, 0)
    return OK


cdef bint file_can_map(int fd) noexcept nogil:
    return c_can_map(fd)


cdef int file_map(
    int fd, const char* path, size_t size, void** base, Failure* failure
) noexcept nogil:
    cdef int errnum = 0
    base[0] = NULL
    if seam_is_active:
        errnum = seam_enter(MAP, path, NULL)
    if not errnum:
        base[0] = c_map(fd, size)
        if base[0] == NULL:
            errnum = errno
    if errnum:
        return fail_errno(failure, "cannot map the file", path, errnum)
    return OK


cdef void file_unmap(void* base, size_t size) noexcept nogil:
    if base != NULL:
        c_munmap(base, size)


cdef void file_map_release(void* base, size_t size) noexcept nogil:
    c_madvise(base, size, MADV_DONTNEED)


cdef int file_map_write(
    void* base, const char* path, const void* data, size_t size, int64_t offset, Failure* failure
) noexcept nogil:
    if seam_is_active:
        return map_write_seam(base, path, data, size, offset, failure)
    memcpy(<uint8_t*>base + offset, data, size)
    return OK


cdef int map_write_seam(
    void* base, const char* path, const void* data, size_t size, int64_t offset, Failure* failure
) noexcept nogil:
    cdef size_t allowed = size
    cdef int errnum = seam_enter(MAP_WRITE, path, &allowed)
    if not errnum:
        allowed = size
    if allowed:
        memcpy(<uint8_t*>base + offset, data, allowed)
        seam_record(MAP_WRITE, path, NULL, offset, data, allowed)
    if errnum:
        return fail_change(failure, "cannot write the mapped file", path, errnum)
    return OK


cdef int file_rename(const char* old, const char* new, Failure* failure) noexcept nogil:
    cdef int errnum = 0
    if seam_is_active:
        errnum = seam_enter(RENAME, old, NULL)
    if not errnum and c_rename(old, new) != 0:
        errnum = errno
    if errnum:
        return fail_change(failure, "cannot rename the file", old, errnum)
    if seam_is_active:
        seam_record(RENAME, old, new, 0, NULL, 0)
    return OK


cdef int file_link(const char* old, const char* new, Failure* failure) noexcept nogil:
    cdef int errnum = 0
    if seam_is_active:
        errnum = seam_enter(LINK, old, NULL)
    if not errnum and c_link(old, new) != 0:
        errnum = errno
    if errnum:
        return fail_errno(failure, "cannot link the file", old, errnum)
    if seam_is_active:
        seam_record(LINK, old, new, 0, NULL, 0)
    return OK


cdef int file_remove(const char* path, Failure* failure) noexcept nogil:
    cdef int errnum = 0
    if seam_is_active:
        errnum = seam_enter(REMOVE, path, NULL)
    if not errnum and c_unlink(path) != 0:
        errnum = errno
    if errnum:
        return fail_errno(failure, "cannot remove the file", path, errnum)
    if seam_is_active:
        seam_record(REMOVE, path, NULL, 0, NULL, 0)
    return OK


cdef int directory_sync(const char* path, Failure* failure) noexcept nogil:
    cdef int64_t record = -1
    cdef int errnum = 0
    cdef int fd
    if seam_is_active:
        errnum = seam_enter(DIRSYNC, path, NULL)
        if not errnum:
            record = seam_record(DIRSYNC, path, NULL, 0, NULL, 0)
    if not errnum:
        fd = c_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)
        if fd < 0:
            errnum = errno
        else:
            if c_fsync(fd) != 0:
                errnum = errno
            c_close(fd)
    if errnum:
        seam_drop(record)
        return fail_change(failure, "cannot sync the directory", path, errnum)
    return OK


cdef int directory_create(const char* path, bint* created, Failure* failure) noexcept nogil:
    cdef int errnum = 0
    created[0] = False
    if seam_is_active:
        errnum = seam_enter(MKDIR, path, NULL)
    if not errnum and c_mkdir(path, DIRECTORY_MODE) != 0:
        errnum = errno
        if errnum == EEXIST:
            return OK
    if errnum:
        return fail_change(failure, "cannot create the directory", path, errnum)
    created[0] = True
    if seam_is_active:
        seam_record(MKDIR, path, NULL, 0, NULL, 0)
    return OK


cdef int directory_remove(const char* path, Failure* failure) noexcept nogil:
    cdef int errnum = 0
    if seam_is_active:
        errnum = seam_enter(RMDIR, path, NULL)
    if not errnum and c_rmdir(path) != 0:
        errnum = errno
    if errnum:
        return fail_errno(failure, "cannot remove the directory", path, errnum)
    if seam_is_active:
        seam_record(RMDIR, path, NULL, 0, NULL, 0)
    return OK


# ---- Python: files ----

@cython.final
cdef class File:
    """One open file: positioned reads and writes through the seam.

    Opened close-on-exec. Not for use by two threads while one of them closes it.
    """

    cdef int _fd             # -1: closed
    cdef bytes _path

    def __cinit__(self):
        self._fd = -1

    def __init__(self, path, int flags=O_RDONLY, int mode=FILE_MODE):
        cdef Failure failure
        cdef const char* name
        cdef int fd
        if self._fd >= 0:
            raise ValueError("the file is open already")
        self._path = os.fsencode(path)
        name = self._path
        failure_clear(&failure)
        with nogil:
            file_open(name, flags, mode, &fd, &failure)
        raise_failure(&failure)
        self._fd = fd

    def __dealloc__(self):
        file_close(self._fd)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    @property
    def path(self):
        """The path the file was opened by."""
        return os.fsdecode(self._path)

    @property
    def closed(self):
        """Whether close() was called."""
        return self._fd < 0

    def fileno(self):
        """Return the file descriptor."""
        return self._opened()

    def size(self):
        """Return the file's size in bytes."""
        cdef Failure failure
        cdef int64_t size = 0
        cdef int fd = self._opened()
        failure_clear(&failure)
        file_size(fd, self._path, &size, &failure)
        raise_failure(&failure)
        return size

    def read(self, size_t size, int64_t offset):
        """Return exactly `size` bytes from `offset`; CorruptionError if the file ends before."""
        cdef Failure failure
        cdef const char* name = self._path
        cdef int fd = self._opened()
        cdef bytes data = PyBytes_FromStringAndSize(NULL, size)
        cdef char* target = PyBytes_AS_STRING(data)
        failure_clear(&failure)
        with nogil:
            file_read(fd, name, target, size, offset, &failure)
        raise_failure(&failure)
        return data

    def write(self, data, int64_t offset):
        """Write all of a bytes-like object at `offset`."""
        cdef Failure failure
        cdef const char* name = self._path
        cdef int fd = self._opened()
        cdef Py_buffer view
        failure_clear(&failure)
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            with nogil:
                file_write(fd, name, view.buf, view.len, offset, &failure)
        finally:
            PyBuffer_Release(&view)
        raise_failure(&failure)

    def sync(self):
        """Make what was written durable (fdatasync)."""
        cdef Failure failure
        cdef const char* name = self._path
        cdef int fd = self._opened()
        failure_clear(&failure)
        with nogil:
            file_sync(fd, name, &failure)
        raise_failure(&failure)

    def truncate(self, int64_t size):
        """Cut the file off at `size`, or extend it with zeros."""
        cdef Failure failure
        cdef const char* name = self._path
        cdef int fd = self._opened()
        failure_clear(&failure)
        with nogil:
            file_truncate(fd, name, size, &failure)
        raise_failure(&failure)

    def allocate(self, int64_t offset, int64_t size):
        """Reserve blocks for a range and extend the file over it."""
        cdef Failure failure
        cdef const char* name = self._path
        cdef int fd = self._opened()
        failure_clear(&failure)
        with nogil:
            file_allocate(fd, name, offset, size, &failure)
        raise_failure(&failure)

    def close(self):
        """Close the descriptor; again is allowed. Nothing is synced."""
        cdef int fd = self._fd
        self._fd = -1
        with nogil:
            file_close(fd)

    cdef int _opened(self) except -1:
        if self._fd < 0:
            raise errors.ClosedError(
                "the file is closed", path=os.fsdecode(self._path) if self._path else None
            )
        return self._fd


def read_file(path):
    """Return a file's whole contents."""
    with File(path) as file:
        return file.read(file.size(), 0)


def write_file_atomically(path, data):
    """Replace a file as a whole, durably: after a crash it is the old one or the new one.

    Writes `path` + ".tmp", syncs it, renames it over `path`, syncs the directory. On failure the
    temporary file is removed if that works; a failed directory sync leaves the new file in place.
    """
    cdef bytes name = os.fsencode(path)
    cdef bytes temporary = name + b".tmp"
    try:
        with File(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as file:
            file.write(data, 0)
            file.sync()
        rename_file(temporary, name, sync=False)
    except BaseException:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise
    sync_directory(os.path.dirname(name) or b".")


def rename_file(old, new, *, sync=True):
    """Rename a file, replacing `new`; then sync the directories concerned unless sync=False."""
    cdef Failure failure
    cdef bytes source = os.fsencode(old)
    cdef bytes target = os.fsencode(new)
    cdef const char* source_name = source
    cdef const char* target_name = target
    failure_clear(&failure)
    with nogil:
        file_rename(source_name, target_name, &failure)
    raise_failure(&failure)
    if sync:
        parents = {os.path.dirname(target) or b".": None, os.path.dirname(source) or b".": None}
        for parent in parents:
            sync_directory(parent)


def link_file(old, new):
    """Make a second name for a file. The directory is not synced."""
    cdef Failure failure
    cdef bytes source = os.fsencode(old)
    cdef bytes target = os.fsencode(new)
    failure_clear(&failure)
    file_link(source, target, &failure)
    raise_failure(&failure)


def remove_file(path, *, missing_ok=False):
    """Remove a file. The directory is not synced."""
    cdef Failure failure
    cdef bytes name = os.fsencode(path)
    cdef const char* pointer = name
    failure_clear(&failure)
    with nogil:
        file_remove(pointer, &failure)
    if missing_ok and failure.errnum == ENOENT:
        return
    raise_failure(&failure)


def sync_directory(path):
    """Make the names in a directory durable."""
    cdef Failure failure
    cdef bytes name = os.fsencode(path)
    cdef const char* pointer = name
    failure_clear(&failure)
    with nogil:
        directory_sync(pointer, &failure)
    raise_failure(&failure)


def make_directory(path, *, sync=True):
    """Create a directory (mode 0700) unless it exists, and sync its parent if it was created.

    Returns: whether it was created.
    """
    cdef Failure failure
    cdef bytes name = os.fsencode(path)
    cdef bint created = False
    failure_clear(&failure)
    directory_create(name, &created, &failure)
    raise_failure(&failure)
    if created and sync:
        try:
            sync_directory(os.path.dirname(os.path.abspath(name)))
        except BaseException:
            # Or the next one would find it and take its name for durable.
            directory_remove(name, &failure)
            raise
    return created


def remove_directory(path):
    """Remove an empty directory. Its parent is not synced."""
    cdef Failure failure
    cdef bytes name = os.fsencode(path)
    failure_clear(&failure)
    directory_remove(name, &failure)
    raise_failure(&failure)


def list_directory(path):
    """Return the names in a directory, sorted."""
    cdef Failure failure
    cdef bytes name = os.fsencode(path)
    failure_clear(&failure)
    cdef int errnum = seam_enter(OPEN, name, NULL) if seam_is_active else 0
    if not errnum:
        try:
            return sorted(os.listdir(os.fsdecode(name)))
        except OSError as error:
            errnum = error.errno or EIO
    fail_errno(&failure, "cannot list the directory", name, errnum)
    raise_failure(&failure)
