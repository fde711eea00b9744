# The write-ahead log: see wal.pxd for the contract and docs/format-log.md for the bytes.
#
# Thread safety: one thread appends, any thread syncs beside it.
# Invariants:
# 1. The bytes of a record are in the file (or its mapping) before `size` covers them, and `size`
#    is read before a sync begins: what a sync claims is what it wrote.
# 2. Everything behind `size` is zero or will be before the next record is written there, so that
#    the zeros behind a payload, and the zero size behind the last record, cost nothing.
# 3. Nothing is stored at or behind `ready` (wal_room): those blocks are not reserved, or not ours.
# 4. `synced` never passes what a successful fdatasync covered, and stands still after a failed one.

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.errno cimport EFBIG, EINVAL, ENOSYS, EOPNOTSUPP
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset, strdup

from dynalsm._core.cipher cimport (
    Piece,
    cipher_create,
    cipher_free,
    cipher_seal,
)
from dynalsm._core.coding cimport Slice, put_u32, put_u64
from dynalsm._core.crc32c cimport crc32c
from dynalsm._core.files cimport (
    file_can_map,
    file_close,
    file_map,
    file_map_release,
    file_map_write,
    file_open,
    file_remove,
    file_sync,
    file_unmap,
    file_write,
)
from dynalsm._core.status cimport (
    CLOSED,
    END,
    IO_ERROR,
    NO_MEMORY,
    OK,
    POISONED,
    Failure,
    fail,
    failure_clear,
    raise_failure,
)

from dynalsm._core.sync cimport (
    atomic_load,
    atomic_store,
    pthread_mutex_destroy,
    pthread_mutex_init,
    pthread_mutex_lock,
    pthread_mutex_unlock,
)

from dynalsm._core.wal_reader cimport (
    WAL_ADDED_BYTES,
    WAL_ATTEMPT_BYTES,
    WAL_ENCRYPTED,
    WAL_ENCRYPTED_HEADER_BYTES,
    WAL_FORMAT,
    WAL_HEADER_BYTES,
    WAL_HEADER_CRC,
    WAL_HEADER_MARK,
    WAL_MAGIC,
    WAL_MARK,
    WAL_OLDER_SYNCED,
    WAL_RECORD_COUNT,
    WAL_RECORD_CRC,
    WAL_RECORD_HEADER_BYTES,
    WAL_RECORD_NUMBER,
    WAL_RECORD_SEQNO,
    WAL_RECORD_SYNCED,
    WAL_SEALED_BYTES,
    WalReader,
    wal_aligned,
    wal_reader_close,
    wal_reader_next,
    wal_reader_open,
    wal_reader_unlock,
)

from dynalsm._core.wal_room cimport (
    wal_cut_room,
    wal_is_synced_often,
    wal_make_room,
)

import os
from typing import NamedTuple

from dynalsm import errors

cdef extern from "<fcntl.h>" nogil:
    enum:
        O_CREAT
        O_EXCL
        O_RDWR

cdef extern from *:
    """
    static inline int dynalsm_wal_flag(const int* p) {
        return __atomic_load_n(p, __ATOMIC_ACQUIRE);
    }
    static inline void dynalsm_wal_raise(int* p) {
        __atomic_store_n(p, 1, __ATOMIC_RELEASE);
    }
    """
    bint is_raised "dynalsm_wal_flag"(const int* source) nogil
    void raise_flag "dynalsm_wal_raise"(int* target) nogil

cdef enum:
    # Address space reserved for a log. Logs are bounded by the write buffer; what lies behind
    # the window is written by pwrite, which sees the same pages.
    MAP_WINDOW_BYTES = 256 << 20
    # What was written through the mapping is given up in such steps.
    MAP_RELEASE_BYTES = 1 << 20
    # Longer records go by pwrite even beside a mapping: it makes pages ready in bulk, where a
    # store takes a page fault each (16 KiB: 8.3 against 6.0 microseconds; 1 KiB: 0.54 and 0.73).
    MAP_RECORD_BYTES = 4 << 10
    # And so do those that are synced often, as long as no more than this waits for a sync: after
    # a sync the mapping has to be made writable again on every core (60 against 66 microseconds
    # for a record of 130 bytes with its sync).
    UNSYNCED_BYTES = 64 << 10
    # Records up to this are assembled in memory for one pwrite.
    SCRATCH_BYTES = 64 << 10
    # Room for sealing a record: at least so much, and no more is kept.
    SEALING_BYTES = 16 << 10
    SEALING_KEPT_BYTES = 1 << 20


# ---- writing ----

cdef Wal* wal_create(
    const char* path, uint64_t number, uint64_t previous_number, uint64_t previous_size,
    uint64_t previous_seqno, void* keyring, Failure* failure
) noexcept nogil:
    return wal_create_as(
        path, number, previous_number, previous_size, previous_seqno, True, keyring, failure
    )


cdef Wal* wal_create_as(
    const char* path, uint64_t number, uint64_t previous_number, uint64_t previous_size,
    uint64_t previous_seqno, bint mapped, void* keyring, Failure* failure
) noexcept nogil:
    cdef uint8_t header[WAL_ENCRYPTED_HEADER_BYTES]
    cdef size_t header_size = WAL_HEADER_BYTES
    cdef bint is_created = False
    cdef int status = OK
    cdef Wal* wal = <Wal*>calloc(1, sizeof(Wal))
    if wal == NULL:
        fail(failure, NO_MEMORY, "no memory for a log", path, -1, 0)
        return NULL
    wal.fd = -1
    pthread_mutex_init(&wal.sync_mutex, NULL)
    pthread_mutex_init(&wal.room_mutex, NULL)
    wal.number = number
    wal.path = strdup(path)
    wal.scratch = <uint8_t*>malloc(SCRATCH_BYTES)
    if wal.path == NULL or wal.scratch == NULL:
        fail(failure, NO_MEMORY, "no memory for a log", path, -1, 0)
    elif number == 0:
        # A reader takes 0 for a log whose creation was cut off.
        fail(failure, IO_ERROR, "a log's number is not 0", path, -1, EINVAL)
    else:
        if keyring != NULL:
            header_size = WAL_ENCRYPTED_HEADER_BYTES
            wal.cipher = cipher_create(keyring, "log", header + WAL_HEADER_BYTES, path, failure)
            status = OK if wal.cipher != NULL else failure.status
        if status == OK:
            status = file_open(path, O_RDWR | O_CREAT | O_EXCL, 0o600, &wal.fd, failure)
            is_created = status == OK
        if status == OK:
            fill_header(
                header, keyring != NULL, number, previous_number, previous_size, previous_seqno
            )
            status = start_file(wal, mapped, header, header_size, failure)
        if status == OK:
            wal.size = header_size
            return wal
    wal_close(wal)
    if is_created:
        discard_file(path)
    return NULL


# A log that could not be started is of no use; if it cannot be removed either, it reads as empty.
cdef void discard_file(const char* path) noexcept nogil:
    cdef Failure ignored
    failure_clear(&ignored)
    file_remove(path, &ignored)


cdef void fill_header(
    uint8_t* header, bint is_encrypted, uint64_t number, uint64_t previous_number,
    uint64_t previous_size, uint64_t previous_seqno
) noexcept nogil:
    memset(header, 0, WAL_HEADER_BYTES)
    memcpy(header, WAL_MAGIC, 8)
    put_u32(header + 8, WAL_FORMAT)
    put_u32(header + 12, WAL_ENCRYPTED if is_encrypted else 0)
    put_u64(header + 16, number)
    put_u64(header + 24, previous_number)
    put_u64(header + 32, previous_size)
    put_u64(header + 40, previous_seqno)
    put_u32(header + WAL_HEADER_CRC, crc32c(0, header, WAL_HEADER_CRC))
    memcpy(header + WAL_HEADER_MARK, WAL_MARK, 8)


# Reserves the first step, maps the file if that is safe there, writes the header.
cdef int start_file(
    Wal* wal, bint mapped, const uint8_t* header, size_t header_size, Failure* failure
) noexcept nogil:
    cdef int status
    wal.preallocates = True
    status = wal_make_room(wal, header_size, failure)
    if status == IO_ERROR and is_unsupported(failure.errnum):
        failure_clear(failure)
        wal.preallocates = False
    elif status != OK:
        return status
    wal.clears_ahead = wal.preallocates and file_can_map(wal.fd)
    if mapped and wal.clears_ahead:
        if file_map(wal.fd, wal.path, MAP_WINDOW_BYTES, <void**>&wal.map, failure) == OK:
            wal.map_size = MAP_WINDOW_BYTES
            return file_map_write(wal.map, wal.path, header, header_size, 0, failure)
        # No address space left, say: pwrite does as well.
        failure_clear(failure)
    return file_write(wal.fd, wal.path, header, header_size, 0, failure)


cdef inline bint is_unsupported(int errnum) noexcept nogil:
    return errnum == EOPNOTSUPP or errnum == ENOSYS or errnum == EINVAL


cdef int wal_append(
    Wal* wal, const uint8_t* payload, size_t size, uint64_t first_seqno, uint32_t count,
    Failure* failure
) noexcept nogil:
    assert size > 0
    assert count > 0
    if is_raised(&wal.is_poisoned):
        return fail(failure, POISONED, "an earlier sync of the log failed", wal.path, -1, 0)
    if wal.is_finished:
        return fail(failure, CLOSED, "the log is finished", wal.path, -1, 0)
    if size > <size_t>0xFFFFFFFF - WAL_ADDED_BYTES:
        return fail(
            failure, IO_ERROR, "the record is too large for the log", wal.path, -1, EFBIG
        )
    return append_record(wal, payload, size, first_seqno, count, failure)


cdef int append_record(
    Wal* wal, const uint8_t* payload, size_t size, uint64_t first_seqno, uint32_t count,
    Failure* failure
) noexcept nogil:
    # Laid out as the checksum wants it; the record's header is what `header` points to, once the
    # crc has taken the place of the size and the size that of the offset's upper half.
    cdef uint8_t sealed[WAL_SEALED_BYTES]
    cdef uint8_t* header = sealed + 4
    cdef uint64_t start = wal.size
    cdef uint64_t synced = atomic_load(&wal.synced)
    cdef size_t text_size = size
    cdef uint64_t end
    cdef int status
    if wal.cipher != NULL and size:
        size += WAL_ADDED_BYTES
    end = start + WAL_RECORD_HEADER_BYTES + wal_aligned(size)
    if wal.dirty_end or end > atomic_load(&wal.ready):
        status = wal_make_room(wal, end, failure)
        if status != OK:
            return status
    put_u64(sealed, start)
    put_u32(sealed + 8, <uint32_t>size)
    put_u32(header + WAL_RECORD_NUMBER, <uint32_t>wal.number)
    put_u32(header + WAL_RECORD_COUNT, count)
    put_u64(header + WAL_RECORD_SEQNO, first_seqno)
    put_u64(header + WAL_RECORD_SYNCED, synced | WAL_OLDER_SYNCED if wal.older_synced else synced)
    if size != text_size:
        status = seal_payload(wal, payload, text_size, sealed, failure)
        if status != OK:
            return status
        payload = wal.sealing
    put_u32(header + WAL_RECORD_CRC, crc32c(crc32c(0, sealed, WAL_SEALED_BYTES), payload, size))
    put_u32(header, <uint32_t>size)
    if (
        end <= wal.map_size and size <= MAP_RECORD_BYTES
        and not (start - synced <= UNSYNCED_BYTES and wal_is_synced_often(wal))
    ):
        status = file_map_write(
            wal.map, wal.path, header, WAL_RECORD_HEADER_BYTES, <int64_t>start, failure
        )
        if status == OK and size:
            status = file_map_write(
                wal.map, wal.path, payload, size,
                <int64_t>start + WAL_RECORD_HEADER_BYTES, failure
            )
    else:
        status = write_record(wal, header, payload, size, start, failure)
    if status != OK:
        wal.dirty_end = end
        return status
    atomic_store(&wal.size, end)
    if end - wal.released >= 2 * MAP_RELEASE_BYTES and end <= wal.map_size:
        file_map_release(wal.map + wal.released, MAP_RELEASE_BYTES)
        wal.released += MAP_RELEASE_BYTES
    return OK


# Puts attempt number, sealed payload and tag into wal.sealing. `place`: what is authenticated.
cdef int seal_payload(
    Wal* wal, const uint8_t* payload, size_t size, const uint8_t* place, Failure* failure
) noexcept nogil:
    cdef Piece piece
    cdef size_t wanted = max(size + WAL_ADDED_BYTES, <size_t>SEALING_BYTES)
    if wal.sealing_capacity < wanted or (
        wal.sealing_capacity > SEALING_KEPT_BYTES and wanted <= SEALING_KEPT_BYTES
    ):
        free(wal.sealing)
        wal.sealing = <uint8_t*>malloc(wanted)
        wal.sealing_capacity = wanted if wal.sealing != NULL else 0
        if wal.sealing == NULL:
            return fail(failure, NO_MEMORY, "no memory to encrypt a record", wal.path, -1, 0)
    wal.attempts += 1
    put_u32(wal.sealing, wal.attempts)
    memcpy(wal.sealing + WAL_ATTEMPT_BYTES, payload, size)
    memcpy(piece.place, place, WAL_SEALED_BYTES)
    piece.place_size = WAL_SEALED_BYTES
    piece.nonce = wal.size
    piece.attempt = wal.attempts
    piece.data = wal.sealing + WAL_ATTEMPT_BYTES
    piece.size = size
    return cipher_seal(wal.cipher, &piece, 1, failure)


# By pwrite, with the zeros behind the payload: they may be new to the file.
cdef int write_record(
    Wal* wal, const uint8_t* header, const uint8_t* payload, size_t size, uint64_t start,
    Failure* failure
) noexcept nogil:
    cdef uint8_t zeros[8]
    cdef size_t padding = wal_aligned(size) - size
    cdef size_t total = WAL_RECORD_HEADER_BYTES + size + padding
    cdef int64_t behind = <int64_t>(start + WAL_RECORD_HEADER_BYTES + size)
    cdef int status
    memset(zeros, 0, 8)
    if total <= SCRATCH_BYTES:
        memcpy(wal.scratch, header, WAL_RECORD_HEADER_BYTES)
        if size:
            memcpy(wal.scratch + WAL_RECORD_HEADER_BYTES, payload, size)
        memcpy(wal.scratch + WAL_RECORD_HEADER_BYTES + size, zeros, padding)
        return file_write(wal.fd, wal.path, wal.scratch, total, <int64_t>start, failure)
    status = file_write(
        wal.fd, wal.path, payload, size, <int64_t>start + WAL_RECORD_HEADER_BYTES, failure
    )
    if status == OK and padding:
        status = file_write(wal.fd, wal.path, zeros, padding, behind, failure)
    if status == OK:
        status = file_write(
            wal.fd, wal.path, header, WAL_RECORD_HEADER_BYTES, <int64_t>start, failure
        )
    return status


cdef int wal_sync(Wal* wal, Failure* failure) noexcept nogil:
    cdef uint64_t target
    cdef int status = OK
    # Under the mutex, because the kernel reports a write error once: a second sync beside the
    # first could be told that all is well.
    pthread_mutex_lock(&wal.sync_mutex)
    target = atomic_load(&wal.size)
    if is_raised(&wal.is_poisoned):
        status = fail(failure, POISONED, "an earlier sync of the log failed", wal.path, -1, 0)
    elif target > wal.synced:
        status = sync_locked(wal, target, failure)
    pthread_mutex_unlock(&wal.sync_mutex)
    return status


cdef int sync_locked(Wal* wal, uint64_t target, Failure* failure) noexcept nogil:
    cdef int status = file_sync(wal.fd, wal.path, failure)
    if status == OK:
        atomic_store(&wal.sync_bytes, (wal.sync_bytes * 7 + target - wal.synced) // 8)
        atomic_store(&wal.sync_count, wal.sync_count + 1)
        atomic_store(&wal.synced, target)
    else:
        raise_flag(&wal.is_poisoned)
    return status


cdef int wal_finish(Wal* wal, uint64_t next_seqno, bint mark, Failure* failure) noexcept nogil:
    cdef int status = wal_sync(wal, failure)
    if status == OK and not wal.is_finished:
        if mark:
            # Its synced offset proves every record before it.
            status = append_record(wal, NULL, 0, next_seqno, 0, failure)
        # From here on another try must not write another end record.
        wal.is_finished = status == OK
    if status == OK and wal.allocated != wal.size:
        status = wal_cut_room(wal, failure)
        if status == OK:
            pthread_mutex_lock(&wal.sync_mutex)
            status = sync_locked(wal, wal.size, failure)
            pthread_mutex_unlock(&wal.sync_mutex)
    return status


cdef void wal_close(Wal* wal) noexcept nogil:
    if wal == NULL:
        return
    file_unmap(wal.map, wal.map_size)
    file_close(wal.fd)
    pthread_mutex_destroy(&wal.sync_mutex)
    pthread_mutex_destroy(&wal.room_mutex)
    cipher_free(wal.cipher)
    free(wal.sealing)
    free(wal.scratch)
    free(wal.path)
    free(wal)


# ---- Python ----

class Record(NamedTuple):
    """One record of a log."""

    offset: int
    first_seqno: int
    entries: int
    payload: bytes


class Log(NamedTuple):
    """What a log holds, up to its last good record."""

    number: int
    previous_number: int
    previous_size: int
    previous_seqno: int
    records: list
    end: int
    clean_end: bool
    torn: bool
    older_synced: bool
    key_id: int              # of the data key it was opened with; 0: none


def read_log(path, keys=None, *, bint opens=True):
    """Read a log whole (for tools and tests). Number 0: its creation was cut off.

    keys: the Keyring of an encrypted database. Not opens: payloads stay as they are stored."""
    cdef Failure failure
    cdef WalReader* reader
    cdef Slice payload
    cdef uint64_t seqno = 0, offset
    cdef uint32_t count = 0
    cdef int status
    cdef bytes name = os.fsencode(path)
    cdef const char* pointer = name
    failure_clear(&failure)
    with nogil:
        reader = wal_reader_open(pointer, &failure)
    raise_failure(&failure)
    records = []
    try:
        if opens:
            wal_reader_unlock(reader, keyring_of(keys), &failure)
            raise_failure(&failure)
        while True:
            offset = reader.position
            status = wal_reader_next(reader, &payload, &seqno, &count, &failure)
            if status == END:
                break
            raise_failure(&failure)
            records.append(Record(
                offset, seqno, count,
                PyBytes_FromStringAndSize(<const char*>payload.data, payload.size),
            ))
        return Log(
            reader.number, reader.previous_number, reader.previous_size, reader.previous_seqno,
            records, reader.position, reader.clean_end, reader.torn, reader.older_synced,
            reader.cipher.key_id if reader.cipher != NULL else 0,
        )
    finally:
        wal_reader_close(reader)


cdef void* keyring_of(object keys) noexcept:
    """What the core calls a keyring; the caller keeps `keys` alive."""
    return NULL if keys is None else <void*>keys


@cython.final
cdef class LogWriter:
    """A new log, for tools and tests; the engine uses the C functions.

    One thread appends, any thread syncs beside it; close() when no other call is running.
    """

    cdef Wal* _wal           # owned; NULL: closed
    cdef bytes _path
    cdef object _keys

    def __init__(self, path, uint64_t number, uint64_t previous_number=0,
                 uint64_t previous_size=0, uint64_t previous_seqno=0, *, bint mapped=True,
                 keys=None):
        cdef Failure failure
        cdef const char* name
        if self._wal != NULL:
            raise ValueError("the log is open already")
        if not number:
            raise ValueError("a log's number is not 0")
        cdef void* keyring = keyring_of(keys)
        self._keys = keys
        self._path = os.fsencode(path)
        name = self._path
        failure_clear(&failure)
        with nogil:
            self._wal = wal_create_as(
                name, number, previous_number, previous_size, previous_seqno, mapped, keyring,
                &failure
            )
        raise_failure(&failure)

    def __dealloc__(self):
        wal_close(self._wal)

    cdef Wal* _opened(self) except NULL:
        if self._wal == NULL:
            raise errors.ClosedError("the log is closed", path=os.fsdecode(self._path or b""))
        return self._wal

    @property
    def size(self):
        """Bytes appended, the header included."""
        return self._opened().size

    @property
    def synced(self):
        """Bytes known to be durable."""
        return atomic_load(&self._opened().synced)

    @property
    def allocated(self):
        """Bytes reserved."""
        return self._opened().allocated

    @property
    def ready(self):
        """Where the next record may be stored without asking for room; zeros at least up to it."""
        return self._opened().ready

    @property
    def is_mapped(self):
        """Whether records are stored through a mapping."""
        return self._opened().map != NULL

    @property
    def older_synced(self):
        """Whether all older logs are durable: noted in the records that follow."""
        return self._opened().older_synced

    @older_synced.setter
    def older_synced(self, bint value):
        self._opened().older_synced = value

    def append(self, bytes payload not None, uint64_t first_seqno, uint32_t count=1):
        """Append one record; not durable before sync()."""
        cdef Failure failure
        cdef Wal* wal = self._opened()
        cdef const uint8_t* data = payload
        cdef size_t size = len(payload)
        if not size or not count:
            raise ValueError("a record holds at least one byte and one entry")
        failure_clear(&failure)
        with nogil:
            wal_append(wal, data, size, first_seqno, count, &failure)
        raise_failure(&failure)

    def sync(self):
        """Make what was appended durable, and write zeros ahead when that is done often."""
        cdef Failure failure
        cdef Wal* wal = self._opened()
        failure_clear(&failure)
        with nogil:
            if wal_sync(wal, &failure) == OK:
                wal_clear_ahead(wal)
        raise_failure(&failure)

    def finish(self, uint64_t next_seqno=0, *, bint mark=True):
        """End the log cleanly."""
        cdef Failure failure
        cdef Wal* wal = self._opened()
        failure_clear(&failure)
        with nogil:
            wal_finish(wal, next_seqno, mark, &failure)
        raise_failure(&failure)

    def close(self):
        """Close the file as it is; again is allowed."""
        cdef Wal* wal = self._wal
        self._wal = NULL
        with nogil:
            wal_close(wal)

    def _append_many(self, bytes payload not None, uint64_t times):
        """Append the same payload many times without coming back (for measurements)."""
        cdef Failure failure
        cdef Wal* wal = self._opened()
        cdef const uint8_t* data = payload
        cdef size_t size = len(payload)
        cdef uint64_t index
        failure_clear(&failure)
        with nogil:
            for index in range(times):
                if wal_append(wal, data, size, index + 1, 1, &failure) != OK:
                    break
        raise_failure(&failure)
