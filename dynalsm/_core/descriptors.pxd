# A bounded pool of file descriptors over all tables of the process: files are opened for reading
# when they are needed, and the one not used for longest (by a clock) is closed when there are too
# many.
# Thread-safe: one mutex for the pool; a descriptor in use is never closed. When every open one is
# in use the bound gives way: it is then exceeded by the number of reads under way at most.

from dynalsm._core.status cimport Failure


cdef struct Descriptor:
    const char* path             # borrowed: valid while the Descriptor is
    # Guarded by the pool's mutex:
    int fd                       # -1: not open
    int users                    # reads under way
    bint visited
    bint opening                 # a thread is in open(2) for it
    Descriptor* next             # ring of the open ones
    Descriptor* previous


cdef void descriptor_init(Descriptor* descriptor, const char* path) noexcept nogil
# Opens the file if need be. *fd stays open until descriptor_release.
cdef int descriptor_acquire(Descriptor* descriptor, int* fd, Failure* failure) noexcept nogil
cdef void descriptor_release(Descriptor* descriptor) noexcept nogil
# REQUIRES: no users, now or later.
cdef void descriptor_close(Descriptor* descriptor) noexcept nogil
cdef void descriptor_set_limit(int limit) noexcept nogil
cdef int descriptor_open_count() noexcept nogil
