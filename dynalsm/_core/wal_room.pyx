# Room in a log: see wal_room.pxd for the contract.
#
# Invariants:
# 1. The appender writes only below `ready`, zeros are written only from `ready` on, and `ready`
#    moves under room_mutex: no zero ever meets a record.
# 2. `ready` <= `allocated` where blocks are reserved. Both go back only with the file itself,
#    by the appending thread, to `size`.

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memset

from dynalsm._core.files cimport (
    file_allocate,
    file_start_writing,
    file_truncate,
    file_write,
)
from dynalsm._core.status cimport NO_SPACE, OK, Failure, failure_clear
from dynalsm._core.sync cimport (
    atomic_load,
    atomic_store,
    pthread_mutex_lock,
    pthread_mutex_unlock,
)

cdef enum:
    # Preallocation: an empty database stays small, a busy log is extended seldom.
    STEP_FIRST_BYTES = 64 << 10
    STEP_LAST_BYTES = 16 << 20
    # Granularity of the last attempt when the disk is nearly full.
    PAGE_BYTES = 4096
    # What the appender takes at once, and zeros are written in. Not more: the page cache keeps
    # what one write brings as one unit, and a store through a mapping makes all of that dirty
    # (zeros by 1 MiB: a sync of one record took 300 microseconds in place of 55).
    UNIT_BYTES = 16 << 10
    # Zeros are written when fewer than so many bytes of them are left, until there are so many.
    # One sync waits for them, and for the journal: a quarter of a millisecond here.
    AHEAD_LEAST_BYTES = 32 << 10
    AHEAD_BYTES = 256 << 10


cdef inline uint64_t round_up(uint64_t value, uint64_t unit) noexcept nogil:
    return (value + unit - 1) // unit * unit


cdef int wal_make_room(Wal* wal, uint64_t end, Failure* failure) noexcept nogil:
    cdef int status = OK
    pthread_mutex_lock(&wal.room_mutex)
    if wal.dirty_end:
        status = cut_locked(wal, failure)
    if status == OK and wal.preallocates and end > wal.allocated:
        status = grow_locked(wal, end, failure)
    if status == OK and end > wal.ready:
        end = round_up(end, UNIT_BYTES)
        atomic_store(&wal.ready, min(end, wal.allocated) if wal.preallocates else end)
    pthread_mutex_unlock(&wal.room_mutex)
    return status


cdef int wal_cut_room(Wal* wal, Failure* failure) noexcept nogil:
    cdef int status
    pthread_mutex_lock(&wal.room_mutex)
    wal.clears_ahead = False
    status = cut_locked(wal, failure)
    pthread_mutex_unlock(&wal.room_mutex)
    return status


cdef int cut_locked(Wal* wal, Failure* failure) noexcept nogil:
    cdef int status = file_truncate(wal.fd, wal.path, <int64_t>wal.size, failure)
    if status == OK:
        atomic_store(&wal.allocated, wal.size)
        atomic_store(&wal.ready, wal.size)
        wal.dirty_end = 0
    return status


# Reserves blocks so that the file reaches at least `end`. REQUIRES: room_mutex.
cdef int grow_locked(Wal* wal, uint64_t end, Failure* failure) noexcept nogil:
    cdef Failure ignored
    cdef uint64_t step = wal.allocated
    cdef uint64_t least = round_up(end, PAGE_BYTES)
    cdef uint64_t target
    cdef int status
    step = min(max(step, <uint64_t>STEP_FIRST_BYTES), <uint64_t>STEP_LAST_BYTES)
    target = max(round_up(wal.allocated + step, PAGE_BYTES), least)
    status = allocate_to(wal, target, failure)
    if status == NO_SPACE and target > least:
        failure_clear(failure)
        status = allocate_to(wal, least, failure)
    if status == NO_SPACE:
        # A failed reservation may have taken blocks all the same: give them back.
        failure_clear(&ignored)
        file_truncate(wal.fd, wal.path, <int64_t>wal.allocated, &ignored)
    return status


cdef int allocate_to(Wal* wal, uint64_t target, Failure* failure) noexcept nogil:
    cdef int status = file_allocate(
        wal.fd, wal.path, <int64_t>wal.allocated, <int64_t>(target - wal.allocated), failure
    )
    if status == OK:
        atomic_store(&wal.allocated, target)
    return status


cdef void wal_follow(Wal* wal, const Wal* old) noexcept nogil:
    atomic_store(&wal.sync_count, atomic_load(&old.sync_count))
    atomic_store(&wal.sync_bytes, atomic_load(&old.sync_bytes))


cdef bint wal_needs_zeros(const Wal* wal) noexcept nogil:
    return (
        wal.clears_ahead and wal_is_synced_often(wal)
        and atomic_load(&wal.ready) < atomic_load(&wal.size) + AHEAD_LEAST_BYTES
    )


cdef void wal_clear_ahead(Wal* wal) noexcept nogil:
    cdef uint64_t size = atomic_load(&wal.size)
    cdef uint64_t start = atomic_load(&wal.ready)
    cdef uint64_t end = start
    if not wal_needs_zeros(wal):
        return
    while end < size + AHEAD_BYTES and clear_unit(wal, &end):
        pass
    if end > start:
        # The disk may begin at once; the next sync waits for the rest.
        file_start_writing(wal.fd, <int64_t>start, <int64_t>(end - start))


# Writes zeros from `ready` to the end of that unit. Returns: whether it could; where they end.
cdef bint clear_unit(Wal* wal, uint64_t* end) noexcept nogil:
    cdef uint8_t zeros[UNIT_BYTES]
    cdef Failure ignored
    cdef uint64_t start, target
    cdef int status = OK
    memset(zeros, 0, UNIT_BYTES)
    failure_clear(&ignored)
    pthread_mutex_lock(&wal.room_mutex)
    if not wal.clears_ahead:
        pthread_mutex_unlock(&wal.room_mutex)
        return False
    start = wal.ready
    target = round_up(start + 1, UNIT_BYTES)
    if target > wal.allocated:
        status = grow_locked(wal, target, &ignored)
    if status == OK:
        target = min(target, wal.allocated)
        status = file_write(wal.fd, wal.path, zeros, target - start, <int64_t>start, &ignored)
    if status == OK:
        atomic_store(&wal.ready, target)
        end[0] = target
    else:
        wal.clears_ahead = False         # no room, say: records are told so themselves
    pthread_mutex_unlock(&wal.room_mutex)
    return status == OK
