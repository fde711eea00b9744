# The write-ahead log: one file per memtable generation, one record per commit.
#
# Layout (all little-endian, docs/format-log.md):
#   header, 64 bytes: magic "DLSMWAL1", format u32, flags u32, log number u64,
#       previous log number u64, previous log's final size u64 (0: not known),
#       previous log's last seqno u64, reserved u32 (zero), crc32c of the bytes before it u32,
#       end mark "1LAWMSLD" (tells a header that was cut off from one that is damaged)
#   records, each starting at a multiple of 8:
#       payload size u32 | crc32c u32 |
#       log number low 32 bits u32 | entry count u32 | first seqno u64 |
#       synced offset u64 (this log was durable up to here when the record was appended;
#       bit 63 set: all older logs were durable) | payload | zeros to a multiple of 8 (checked)
#       The crc is over the record's offset in the file (u64), the size, the fields after the crc,
#       and the payload: a record is valid at its own place only.
#   clean end: a record of count 0 and size 0 whose first seqno is the last one + 1, written at
#       close.
# The file is preallocated in steps and written through a shared mapping (a record costs a memcpy,
# and survives the death of the process); where the file system cannot preallocate, by pwrite.
# A zero size field, or the end of the file, ends the log.
#
# Thread safety: append by one thread at a time (the engine's commit mutex); sync from any thread
# beside it.

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from dynalsm._core.status cimport Failure

# Reading, and room in the file, belong to the same contract; others cimport them from here.
from dynalsm._core.wal_reader cimport (  # no-cython-lint
    WalReader,
    wal_reader_close,
    wal_reader_next,
    wal_reader_open,
    wal_reader_unlock,
)
from dynalsm._core.wal_room cimport (  # no-cython-lint
    Wal,
    wal_clear_ahead,
    wal_follow,
    wal_needs_zeros,
)


# Creates, preallocates, writes the header. `number` is not 0. Not yet durable, nor is its directory
# entry: the first wal_sync after creation must be preceded by a directory sync (the engine's
# duty). Returns: NULL on failure (then no file is left, if it could be removed); EEXIST if there
# is one already. keyring: NULL for a log that is not encrypted.
cdef Wal* wal_create(
    const char* path, uint64_t number, uint64_t previous_number, uint64_t previous_size,
    uint64_t previous_seqno, void* keyring, Failure* failure
) noexcept nogil
# The same; mapped=False writes by pwrite from the start. A store through a mapping costs a third
# of a pwrite, but when a device dies, the file system may answer it with SIGBUS, not an error.
cdef Wal* wal_create_as(
    const char* path, uint64_t number, uint64_t previous_number, uint64_t previous_size,
    uint64_t previous_seqno, bint mapped, void* keyring, Failure* failure
) noexcept nogil
# Appends one record (size and count at least 1). On failure nothing was appended (the size is
# unchanged and a partial record was cut off or will be overwritten); NO_SPACE when preallocation
# fails; the same append may be tried again. POISONED after a failed sync, CLOSED after wal_finish.
cdef int wal_append(
    Wal* wal, const uint8_t* payload, size_t size, uint64_t first_seqno, uint32_t count,
    Failure* failure
) noexcept nogil
# Makes everything appended before the call durable and advances wal.synced. A failure is final:
# POISONED from then on.
cdef int wal_sync(Wal* wal, Failure* failure) noexcept nogil
# Clean end: syncs, writes the end record (when `mark`), cuts off the preallocated tail, syncs
# again; wal.size is the final size. May be tried again after a failure that is not POISONED.
# After NO_SPACE (no room for the end record) everything appended is durable.
cdef int wal_finish(Wal* wal, uint64_t next_seqno, bint mark, Failure* failure) noexcept nogil
cdef void wal_close(Wal* wal) noexcept nogil     # unmaps, closes, frees; no I/O
