# A bounded pool of file descriptors (see descriptors.pxd for the contracts).
#
# Invariants: (1) open_count = descriptors in the ring + those being opened; (2) what is in the ring
# has fd >= 0; (3) open(2) and close(2) are called without the mutex.

from libc.errno cimport EMFILE, ENFILE
from libc.string cimport memset
from posix.fcntl cimport O_RDONLY

from dynalsm._core.files cimport file_close, file_open
from dynalsm._core.status cimport OK, Failure
from dynalsm._core.sync cimport (
    pthread_cond_broadcast,
    pthread_cond_t,
    pthread_cond_wait,
    pthread_mutex_lock,
    pthread_mutex_t,
    pthread_mutex_unlock,
)

cdef extern from *:
    """
    static pthread_mutex_t dynalsm_pool_mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t dynalsm_pool_opened = PTHREAD_COND_INITIALIZER;
    """
    pthread_mutex_t pool_mutex "dynalsm_pool_mutex"
    pthread_cond_t pool_opened "dynalsm_pool_opened"

cdef enum:
    DEFAULT_LIMIT = 256

# Guarded by pool_mutex.
cdef Descriptor* hand = NULL
cdef int open_count = 0
cdef int open_limit = DEFAULT_LIMIT


cdef void descriptor_init(Descriptor* descriptor, const char* path) noexcept nogil:
    memset(descriptor, 0, sizeof(Descriptor))
    descriptor.path = path
    descriptor.fd = -1


cdef void link_locked(Descriptor* descriptor) noexcept nogil:
    global hand
    if hand == NULL:
        descriptor.next = descriptor
        descriptor.previous = descriptor
        hand = descriptor
        return
    # Just behind the hand: the last one it will come to.
    descriptor.next = hand
    descriptor.previous = hand.previous
    hand.previous.next = descriptor
    hand.previous = descriptor


cdef void unlink_locked(Descriptor* descriptor) noexcept nogil:
    global hand
    if descriptor.next == descriptor:
        hand = NULL
    else:
        descriptor.previous.next = descriptor.next
        descriptor.next.previous = descriptor.previous
        if hand == descriptor:
            hand = descriptor.next
    descriptor.next = NULL
    descriptor.previous = NULL


cdef int take_idle_locked() noexcept nogil:
    """Take an idle descriptor out of the ring. Returns: its fd, for the caller to close, or -1."""
    global hand, open_count
    cdef Descriptor* victim
    cdef int steps = 2 * open_count
    cdef int fd
    while steps > 0 and hand != NULL:
        steps -= 1
        victim = hand
        hand = hand.next
        if victim.users:
            continue
        if victim.visited:
            victim.visited = False
            continue
        fd = victim.fd
        victim.fd = -1
        unlink_locked(victim)
        open_count -= 1
        return fd
    return -1


cdef int open_evicting(const char* path, int* fd, Failure* failure) noexcept nogil:
    """Open the file; when the process is out of descriptors, give up idle ones and try again."""
    cdef int victim
    cdef int status
    while True:
        status = file_open(path, O_RDONLY, 0, fd, failure)
        if status == OK or (failure.errnum != EMFILE and failure.errnum != ENFILE):
            return status
        pthread_mutex_lock(&pool_mutex)
        victim = take_idle_locked()
        pthread_mutex_unlock(&pool_mutex)
        if victim < 0:
            return status
        file_close(victim)


cdef int descriptor_acquire(Descriptor* descriptor, int* fd, Failure* failure) noexcept nogil:
    global open_count
    cdef int victim = -1
    cdef int status
    pthread_mutex_lock(&pool_mutex)
    while descriptor.fd < 0 and descriptor.opening:
        pthread_cond_wait(&pool_opened, &pool_mutex)
    if descriptor.fd >= 0:
        descriptor.users += 1
        descriptor.visited = True
        fd[0] = descriptor.fd
        pthread_mutex_unlock(&pool_mutex)
        return OK
    descriptor.opening = True
    if open_count >= open_limit:
        victim = take_idle_locked()
    open_count += 1
    pthread_mutex_unlock(&pool_mutex)
    if victim >= 0:
        file_close(victim)
    status = open_evicting(descriptor.path, fd, failure)
    pthread_mutex_lock(&pool_mutex)
    descriptor.opening = False
    if status == OK:
        descriptor.fd = fd[0]
        descriptor.users += 1
        descriptor.visited = False
        link_locked(descriptor)
    else:
        open_count -= 1
    pthread_cond_broadcast(&pool_opened)
    pthread_mutex_unlock(&pool_mutex)
    return status


cdef void descriptor_release(Descriptor* descriptor) noexcept nogil:
    global open_count
    cdef int fd = -1
    pthread_mutex_lock(&pool_mutex)
    descriptor.users -= 1
    if descriptor.users == 0 and open_count > open_limit:
        fd = descriptor.fd
        descriptor.fd = -1
        unlink_locked(descriptor)
        open_count -= 1
    pthread_mutex_unlock(&pool_mutex)
    if fd >= 0:
        file_close(fd)


cdef void descriptor_close(Descriptor* descriptor) noexcept nogil:
    global open_count
    cdef int fd
    pthread_mutex_lock(&pool_mutex)
    fd = descriptor.fd
    if fd >= 0:
        descriptor.fd = -1
        unlink_locked(descriptor)
        open_count -= 1
    pthread_mutex_unlock(&pool_mutex)
    if fd >= 0:
        file_close(fd)


cdef void descriptor_set_limit(int limit) noexcept nogil:
    global open_limit
    cdef int fd
    pthread_mutex_lock(&pool_mutex)
    open_limit = limit if limit > 0 else 1
    pthread_mutex_unlock(&pool_mutex)
    while True:
        pthread_mutex_lock(&pool_mutex)
        fd = take_idle_locked() if open_count > open_limit else -1
        pthread_mutex_unlock(&pool_mutex)
        if fd < 0:
            return
        file_close(fd)


cdef int descriptor_open_count() noexcept nogil:
    cdef int count
    pthread_mutex_lock(&pool_mutex)
    count = open_count
    pthread_mutex_unlock(&pool_mutex)
    return count
