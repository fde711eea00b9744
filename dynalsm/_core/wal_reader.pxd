# Reading a write-ahead log (layout: wal.pxd), and its bytes for both sides.
#
# Thread safety: a reader belongs to one thread. The log may be appended to meanwhile by its writer,
# also in another process.

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from dynalsm._core.cipher cimport SEAL_HEAD_BYTES, Cipher
from dynalsm._core.coding cimport Slice
from dynalsm._core.status cimport Failure


cdef enum:
    WAL_FORMAT = 1
    WAL_HEADER_BYTES = 64
    WAL_RECORD_HEADER_BYTES = 32
    # Fields of the header.
    WAL_HEADER_CRC = 52
    WAL_HEADER_MARK = 56
    # Fields of a record.
    WAL_RECORD_CRC = 4
    WAL_RECORD_NUMBER = 8
    WAL_RECORD_COUNT = 12
    WAL_RECORD_SEQNO = 16
    WAL_RECORD_SYNCED = 24
    # What a record's checksum covers before the payload: offset u64, size u32, the fields after
    # the crc.
    WAL_SEALED_BYTES = 36
    # Flag of the header: payloads are encrypted, and the head of an encrypted file follows the
    # header. Before a sealed payload stands a number that makes its nonce another one when an
    # append has to be tried again; behind it the tag.
    WAL_ENCRYPTED = 1
    WAL_ENCRYPTED_HEADER_BYTES = WAL_HEADER_BYTES + SEAL_HEAD_BYTES
    WAL_ATTEMPT_BYTES = 4
    WAL_ADDED_BYTES = 20

# In the synced field: all older logs were durable.
cdef uint64_t WAL_OLDER_SYNCED
cdef const char* WAL_MAGIC
cdef const char* WAL_MARK


# Records and what is behind their payload take multiples of 8.
cdef inline uint64_t wal_aligned(uint64_t size) noexcept nogil:
    return (size + 7) & ~<uint64_t>7


cdef struct WalReader:
    uint64_t number
    uint64_t previous_number
    uint64_t previous_size
    uint64_t previous_seqno
    char* path
    uint8_t* data            # the whole file, read at open; payloads that were read are opened
    uint64_t data_size
    uint64_t position        # behind the last good record
    bint clean_end           # the end record was seen
    bint torn                # the log stops at bytes that are no record
    bint older_synced        # some record says that all older logs were durable
    uint64_t next_seqno      # behind the last good record; 0: no record yet
    bint is_at_end
    bint is_encrypted
    Cipher* cipher           # owned; NULL: payloads are not opened


# Reads the file whole (logs are bounded by the write buffer) and checks the header: CORRUPTION
# when it is damaged; an empty or all-zero file, or one whose header is incomplete, is a log whose
# creation was cut off: number 0 (CORRUPTION if a record proves that the header was durable).
cdef WalReader* wal_reader_open(const char* path, Failure* failure) noexcept nogil
# Has the payloads of an encrypted log opened from here on; without it they stay sealed. Status:
# CORRUPTION (also for a log that is not encrypted, when there is a keyring), ENCRYPTED.
cdef int wal_reader_unlock(WalReader* reader, void* keyring, Failure* failure) noexcept nogil
# Next record. Returns: OK with *payload (borrowed: while the reader lives), *first_seqno, *count;
# END behind the last good record (then clean_end / torn say how it ended); CORRUPTION with the
# offset when a bad record is followed by a record that proves the bad bytes were once durable, or
# when bytes follow a clean end.
cdef int wal_reader_next(
    WalReader* reader, Slice* payload, uint64_t* first_seqno, uint32_t* count, Failure* failure
) noexcept nogil
cdef void wal_reader_close(WalReader* reader) noexcept nogil
