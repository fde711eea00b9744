# Room in a log: reserving blocks, and writing zeros into them before records come.
#
# A reserved block that was never written costs the first sync of a record in it a commit of the
# file system's journal too: the block becomes a written one. Where every few records are synced,
# zeros are written ahead of them, so that a sync writes data only. The zeros promise nothing:
# they are not synced, what reads as zero without them reads as zero with them, and when they
# cannot be written the log goes on without.
#
# Thread safety: wal_make_room by the appending thread; wal_clear_ahead by one thread, beside it.
# Order of mutexes: a log's sync_mutex and room_mutex are taken last, and never together.

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from dynalsm._core.cipher cimport Cipher
from dynalsm._core.status cimport Failure
from dynalsm._core.sync cimport atomic_load, pthread_mutex_t


cdef enum:
    # What counts as syncing often: so many syncs so far, of at most so many bytes each lately.
    # Beyond that writing everything twice costs more than the journal does (a sync of 5 KB took
    # 90 microseconds into reserved blocks, 55 into written ones; zeros cost 1 a KiB).
    OFTEN_SYNCS = 16
    OFTEN_BYTES = 16 << 10


cdef struct Wal:
    uint64_t number
    int fd
    char* path               # owned
    uint64_t size            # bytes appended: atomic release store by append, acquire load by sync
    uint64_t synced          # durable up to here: monotonic, atomic
    uint64_t allocated       # the file reaches at least to here, its blocks reserved: atomic
    uint64_t ready           # the appender may store up to here without asking: atomic
    uint8_t* map             # NULL: pwrite mode
    uint64_t map_size
    uint64_t released        # pages of the mapping before this are given up
    bint older_synced        # all older logs are durable: set by the engine
    bint preallocates        # the file system reserves blocks
    bint clears_ahead        # it writes reserved blocks in place, so zeros in them are worth it
    uint64_t dirty_end       # what a failed append may have left in [size, dirty_end); 0: nothing
    bint is_finished         # written under room_mutex
    int is_poisoned          # a sync failed: atomic
    uint8_t* scratch         # owned: a record on its way to pwrite
    Cipher* cipher           # owned; NULL: not encrypted
    uint8_t* sealing         # owned: a payload being sealed
    size_t sealing_capacity
    uint32_t attempts        # payloads sealed so far: part of their nonces
    uint64_t sync_count      # syncs that found something to do: atomic, written under sync_mutex
    uint64_t sync_bytes      # that a sync makes durable, a moving average: likewise
    pthread_mutex_t sync_mutex   # one sync at a time: an error is told to one caller only
    pthread_mutex_t room_mutex   # guards growing and cutting the file, `ready`, writing zeros


# Whether every few records are synced.
cdef inline bint wal_is_synced_often(const Wal* wal) noexcept nogil:
    return (
        atomic_load(&wal.sync_count) >= OFTEN_SYNCS
        and atomic_load(&wal.sync_bytes) <= OFTEN_BYTES
    )


# Makes sure that the bytes from `size` to `end` are zero, the appender's alone and, where the file
# system can, reserved. REQUIRES: the appending thread; end > ready, or dirty_end.
cdef int wal_make_room(Wal* wal, uint64_t end, Failure* failure) noexcept nogil
# Cuts the file off at `size`, for good. REQUIRES: the appending thread.
cdef int wal_cut_room(Wal* wal, Failure* failure) noexcept nogil
# Whether it is time, and worth it, to write zeros ahead.
cdef bint wal_needs_zeros(const Wal* wal) noexcept nogil
# Writes zeros ahead of the records, if they are needed. After a sync of the log.
cdef void wal_clear_ahead(Wal* wal) noexcept nogil
# The log takes over another's place: what is known of how often that was synced holds for it too.
cdef void wal_follow(Wal* wal, const Wal* old) noexcept nogil
