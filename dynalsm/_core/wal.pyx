# The write-ahead log: see wal.pxd for the contract and docs/format-log.md for the bytes.
#
# Thread safety: one thread appends, any thread syncs beside it. A WalReader belongs to one thread.
# Invariants:
# 1. The bytes of a record are in the file (or its mapping) before `size` covers them, and `size`
#    is read before a sync begins: what a sync claims is what it wrote.
# 2. Everything behind `size` is zero or will be before the next record is written there, so that
#    the zeros behind a payload, and the zero size behind the last record, cost nothing.
# 3. Nothing is stored through the mapping at or behind `allocated`.
# 4. `synced` never passes what a successful fdatasync covered, and stands still after a failed one.

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.errno cimport EFBIG, EINVAL, ENOSYS, EOPNOTSUPP
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset, strdup

from dynalsm._core.coding cimport Slice, get_u32, get_u64, put_u32, put_u64, slice_of
from dynalsm._core.crc32c cimport crc32c, crc32c_shift
from dynalsm._core.files cimport (
    file_allocate,
    file_can_map,
    file_close,
    file_map,
    file_map_write,
    file_open,
    file_read,
    file_remove,
    file_size,
    file_sync,
    file_truncate,
    file_unmap,
    file_write,
)
from dynalsm._core.status cimport (
    CLOSED,
    CORRUPTION,
    END,
    IO_ERROR,
    NO_MEMORY,
    NO_SPACE,
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

import os
from typing import NamedTuple

from dynalsm import errors

cdef extern from "<fcntl.h>" nogil:
    enum:
        O_CREAT
        O_EXCL
        O_RDONLY
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
    FORMAT = 1
    # Header fields.
    HEADER_CRC = 52
    HEADER_MARK = 56
    # Record fields.
    RECORD_CRC = 4
    RECORD_NUMBER = 8
    RECORD_COUNT = 12
    RECORD_SEQNO = 16
    RECORD_SYNCED = 24
    # What the checksum covers before the payload: offset u64, size u32, the fields after the crc.
    SEALED_BYTES = 36
    # Preallocation: an empty database stays small, a busy log is extended seldom.
    STEP_FIRST_BYTES = 64 << 10
    STEP_LAST_BYTES = 16 << 20
    # Granularity of the last attempt when the disk is nearly full.
    PAGE_BYTES = 4096
    # Address space reserved for a log. Logs are bounded by the write buffer; what lies behind
    # the window is written by pwrite, which sees the same pages.
    MAP_WINDOW_BYTES = 256 << 20
    # Longer records go by pwrite even beside a mapping: it makes pages ready in bulk, where a
    # store takes a page fault each (16 KiB: 8.3 against 6.0 microseconds; 1 KiB: 0.54 and 0.73).
    MAP_RECORD_BYTES = 4 << 10
    # Records up to this are assembled in memory for one pwrite.
    SCRATCH_BYTES = 64 << 10
    # Distance of the checkpoints that make checksums of arbitrary ranges cheap (find_proof).
    CHECKPOINT_BYTES = 512

cdef uint64_t OLDER_SYNCED = 1ull << 63
cdef const char* MAGIC = b"DLSMWAL1"
cdef const char* MARK = b"1LAWMSLD"


# ---- writing ----

cdef Wal* wal_create(
    const char* path, uint64_t number, uint64_t previous_number, uint64_t previous_size,
    uint64_t previous_seqno, Failure* failure
) noexcept nogil:
    return wal_create_as(
        path, number, previous_number, previous_size, previous_seqno, True, failure
    )


cdef Wal* wal_create_as(
    const char* path, uint64_t number, uint64_t previous_number, uint64_t previous_size,
    uint64_t previous_seqno, bint mapped, Failure* failure
) noexcept nogil:
    cdef uint8_t header[WAL_HEADER_BYTES]
    cdef bint is_created = False
    cdef Wal* wal = <Wal*>calloc(1, sizeof(Wal))
    if wal == NULL:
        fail(failure, NO_MEMORY, "no memory for a log", path, -1, 0)
        return NULL
    wal.fd = -1
    pthread_mutex_init(&wal.sync_mutex, NULL)
    wal.number = number
    wal.path = strdup(path)
    wal.scratch = <uint8_t*>malloc(SCRATCH_BYTES)
    if wal.path == NULL or wal.scratch == NULL:
        fail(failure, NO_MEMORY, "no memory for a log", path, -1, 0)
    elif number == 0:
        # A reader takes 0 for a log whose creation was cut off.
        fail(failure, IO_ERROR, "a log's number is not 0", path, -1, EINVAL)
    elif file_open(path, O_RDWR | O_CREAT | O_EXCL, 0o600, &wal.fd, failure) == OK:
        is_created = True
        fill_header(header, number, previous_number, previous_size, previous_seqno)
        if start_file(wal, mapped, header, failure) == OK:
            wal.size = WAL_HEADER_BYTES
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
    uint8_t* header, uint64_t number, uint64_t previous_number, uint64_t previous_size,
    uint64_t previous_seqno
) noexcept nogil:
    memset(header, 0, WAL_HEADER_BYTES)
    memcpy(header, MAGIC, 8)
    put_u32(header + 8, FORMAT)
    put_u64(header + 16, number)
    put_u64(header + 24, previous_number)
    put_u64(header + 32, previous_size)
    put_u64(header + 40, previous_seqno)
    put_u32(header + HEADER_CRC, crc32c(0, header, HEADER_CRC))
    memcpy(header + HEADER_MARK, MARK, 8)


# Reserves the first step, maps the file if that is safe there, writes the header.
cdef int start_file(
    Wal* wal, bint mapped, const uint8_t* header, Failure* failure
) noexcept nogil:
    cdef int status
    wal.preallocates = True
    status = grow(wal, WAL_HEADER_BYTES, failure)
    if status == IO_ERROR and is_unsupported(failure.errnum):
        failure_clear(failure)
        wal.preallocates = False
    elif status != OK:
        return status
    if mapped and wal.preallocates and file_can_map(wal.fd):
        if file_map(wal.fd, wal.path, MAP_WINDOW_BYTES, <void**>&wal.map, failure) == OK:
            wal.map_size = MAP_WINDOW_BYTES
            return file_map_write(wal.map, wal.path, header, WAL_HEADER_BYTES, 0, failure)
        # No address space left, say: pwrite does as well.
        failure_clear(failure)
    return file_write(wal.fd, wal.path, header, WAL_HEADER_BYTES, 0, failure)


cdef inline bint is_unsupported(int errnum) noexcept nogil:
    return errnum == EOPNOTSUPP or errnum == ENOSYS or errnum == EINVAL


cdef inline uint64_t round_up(uint64_t value, uint64_t unit) noexcept nogil:
    return (value + unit - 1) // unit * unit


# Reserves blocks so that the file reaches at least `end`.
cdef int grow(Wal* wal, uint64_t end, Failure* failure) noexcept nogil:
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
        wal.allocated = target
    return status


# Makes sure that the bytes from `size` to `end` are zero and, where the file system can, reserved.
cdef int make_room(Wal* wal, uint64_t end, Failure* failure) noexcept nogil:
    cdef int status
    if wal.dirty_end:
        status = file_truncate(wal.fd, wal.path, <int64_t>wal.size, failure)
        if status != OK:
            return status
        wal.allocated = wal.size
        wal.dirty_end = 0
    if wal.preallocates and end > wal.allocated:
        return grow(wal, end, failure)
    return OK


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
    if size > <size_t>0xFFFFFFFF:
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
    cdef uint8_t sealed[SEALED_BYTES]
    cdef uint8_t* header = sealed + 4
    cdef uint64_t start = wal.size
    cdef uint64_t synced = atomic_load(&wal.synced)
    cdef uint64_t end = start + WAL_RECORD_HEADER_BYTES + round_up(size, 8)
    cdef int status
    if wal.dirty_end or (wal.preallocates and end > wal.allocated):
        status = make_room(wal, end, failure)
        if status != OK:
            return status
    put_u64(sealed, start)
    put_u32(sealed + 8, <uint32_t>size)
    put_u32(header + RECORD_NUMBER, <uint32_t>wal.number)
    put_u32(header + RECORD_COUNT, count)
    put_u64(header + RECORD_SEQNO, first_seqno)
    put_u64(header + RECORD_SYNCED, synced | OLDER_SYNCED if wal.older_synced else synced)
    put_u32(header + RECORD_CRC, crc32c(crc32c(0, sealed, SEALED_BYTES), payload, size))
    put_u32(header, <uint32_t>size)
    if end <= wal.map_size and size <= MAP_RECORD_BYTES:
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
    return OK


# By pwrite, with the zeros behind the payload: they may be new to the file.
cdef int write_record(
    Wal* wal, const uint8_t* header, const uint8_t* payload, size_t size, uint64_t start,
    Failure* failure
) noexcept nogil:
    cdef uint8_t zeros[8]
    cdef size_t padding = round_up(size, 8) - size
    cdef size_t total = WAL_RECORD_HEADER_BYTES + size + padding
    cdef int64_t behind = <int64_t>(start + WAL_RECORD_HEADER_BYTES + size)
    cdef int status
    memset(zeros, 0, 8)
    if total <= SCRATCH_BYTES:
        memcpy(wal.scratch, header, WAL_RECORD_HEADER_BYTES)
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
        status = file_truncate(wal.fd, wal.path, <int64_t>wal.size, failure)
        if status == OK:
            wal.allocated = wal.size
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
    free(wal.scratch)
    free(wal.path)
    free(wal)


# ---- reading ----

cdef WalReader* wal_reader_open(const char* path, Failure* failure) noexcept nogil:
    cdef int64_t size = 0
    cdef int fd = -1
    cdef int status
    cdef WalReader* reader = <WalReader*>calloc(1, sizeof(WalReader))
    if reader == NULL:
        fail(failure, NO_MEMORY, "no memory for a log's reader", path, -1, 0)
        return NULL
    reader.path = strdup(path)
    status = file_open(path, O_RDONLY, 0, &fd, failure)
    if status == OK:
        status = file_size(fd, path, &size, failure)
    if status == OK:
        reader.data_size = <uint64_t>size
        reader.data = <uint8_t*>malloc(<size_t>size + 1)
        if reader.data == NULL or reader.path == NULL:
            status = fail(failure, NO_MEMORY, "no memory for a log's contents", path, -1, 0)
    if status == OK:
        status = file_read(fd, path, reader.data, <size_t>size, 0, failure)
    if status == OK:
        status = read_header(reader, failure)
    file_close(fd)
    if status != OK:
        wal_reader_close(reader)
        return NULL
    return reader


cdef int read_header(WalReader* reader, Failure* failure) noexcept nogil:
    cdef const uint8_t* data = reader.data
    cdef uint64_t proof
    cdef int status
    if reader.data_size < WAL_HEADER_BYTES:
        # No record fits: nothing that was synced can have been here.
        return end_of_unborn(reader)
    if (
        memcmp(data, MAGIC, 8) != 0
        or memcmp(data + HEADER_MARK, MARK, 8) != 0
        or get_u32(data + HEADER_CRC) != crc32c(0, data, HEADER_CRC)
    ):
        # A header that was being written when the power went has its beginning or its end still
        # zero. Any other difference, or a record that was appended after a sync, is damage.
        status = find_proof(reader, 0, &proof, failure)
        if status != OK:
            return status
        if proof or (data[0] != 0 and data[WAL_HEADER_BYTES - 1] != 0):
            return fail(failure, CORRUPTION, "the log's header is damaged", reader.path, 0, 0)
        return end_of_unborn(reader)
    if get_u32(data + 8) != FORMAT or get_u32(data + 12) != 0:
        return fail(failure, CORRUPTION, "the log's format is not known", reader.path, 8, 0)
    reader.number = get_u64(data + 16)
    reader.previous_number = get_u64(data + 24)
    reader.previous_size = get_u64(data + 32)
    reader.previous_seqno = get_u64(data + 40)
    reader.position = WAL_HEADER_BYTES
    return OK


# The log's creation was cut off.
cdef int end_of_unborn(WalReader* reader) noexcept nogil:
    reader.is_at_end = True
    reader.torn = first_nonzero(reader, 0) < reader.data_size
    return OK


cdef int wal_reader_next(
    WalReader* reader, Slice* payload, uint64_t* first_seqno, uint32_t* count, Failure* failure
) noexcept nogil:
    cdef const uint8_t* record = reader.data + reader.position
    cdef uint64_t seqno
    cdef uint32_t size
    if reader.is_at_end:
        return END
    if not is_record(reader, reader.position):
        return end_of_records(reader, failure)
    size = get_u32(record)
    seqno = get_u64(record + RECORD_SEQNO)
    if seqno < reader.next_seqno:
        return fail(
            failure, CORRUPTION, "sequence numbers go back in the log", reader.path,
            <int64_t>reader.position, 0
        )
    if get_u64(record + RECORD_SYNCED) & OLDER_SYNCED:
        reader.older_synced = True
    reader.position += WAL_RECORD_HEADER_BYTES + round_up(size, 8)
    if size == 0:
        return after_clean_end(reader, failure)
    payload[0] = slice_of(record + WAL_RECORD_HEADER_BYTES, size)
    first_seqno[0] = seqno
    count[0] = get_u32(record + RECORD_COUNT)
    reader.next_seqno = seqno + count[0]
    return OK


cdef int after_clean_end(WalReader* reader, Failure* failure) noexcept nogil:
    cdef uint64_t rest = first_nonzero(reader, reader.position)
    if rest < reader.data_size:
        return fail(
            failure, CORRUPTION, "bytes follow the clean end of the log", reader.path,
            <int64_t>rest, 0
        )
    reader.clean_end = True
    reader.is_at_end = True
    return END


# There is no record at the reader's position: the log's end, or damage.
cdef int end_of_records(WalReader* reader, Failure* failure) noexcept nogil:
    cdef uint64_t proof = 0
    cdef int status
    reader.torn = first_nonzero(reader, reader.position) < reader.data_size
    if reader.torn:
        status = find_proof(reader, reader.position, &proof, failure)
        if status != OK:
            return status
        if proof:
            return fail(
                failure, CORRUPTION, "a record of the log is damaged, and a later one proves "
                "that it was whole", reader.path, <int64_t>reader.position, 0
            )
    reader.is_at_end = True
    return END


cdef void wal_reader_close(WalReader* reader) noexcept nogil:
    if reader == NULL:
        return
    free(reader.data)
    free(reader.path)
    free(reader)


# Where the first byte that is not zero lies, from `start` on; data_size when there is none.
cdef uint64_t first_nonzero(WalReader* reader, uint64_t start) noexcept nogil:
    cdef uint64_t position = start
    while position + 8 <= reader.data_size and get_u64(reader.data + position) == 0:
        position += 8
    while position < reader.data_size and reader.data[position] == 0:
        position += 1
    return min(position, reader.data_size)


# Whether the fields of the record at `position` are possible at all; its checksum is not looked at.
cdef bint is_plausible(WalReader* reader, uint64_t position) noexcept nogil:
    cdef const uint8_t* record = reader.data + position
    cdef uint64_t size
    if position + WAL_RECORD_HEADER_BYTES > reader.data_size:
        return False
    size = get_u32(record)
    if size > reader.data_size - position - WAL_RECORD_HEADER_BYTES:
        return False
    if (size == 0) != (get_u32(record + RECORD_COUNT) == 0):
        return False
    if reader.number and get_u32(record + RECORD_NUMBER) != <uint32_t>reader.number:
        return False
    return get_u64(record + RECORD_SYNCED) & ~OLDER_SYNCED <= position


# The checksum of what precedes the payload.
cdef uint32_t sealed_crc(WalReader* reader, uint64_t position) noexcept nogil:
    cdef const uint8_t* record = reader.data + position
    cdef uint8_t sealed[SEALED_BYTES]
    put_u64(sealed, position)
    memcpy(sealed + 8, record, 4)
    memcpy(sealed + 12, record + RECORD_NUMBER, SEALED_BYTES - 12)
    return crc32c(0, sealed, SEALED_BYTES)


cdef bint has_zero_padding(WalReader* reader, uint64_t end) noexcept nogil:
    # A file that ends inside the padding was cut there; the payload is whole.
    while end & 7 and end < reader.data_size:
        if reader.data[end] != 0:
            return False
        end += 1
    return True


cdef bint is_record(WalReader* reader, uint64_t position) noexcept nogil:
    cdef const uint8_t* record = reader.data + position
    cdef uint32_t size
    if not is_plausible(reader, position):
        return False
    size = get_u32(record)
    return (
        crc32c(sealed_crc(reader, position), record + WAL_RECORD_HEADER_BYTES, size)
        == get_u32(record + RECORD_CRC)
        and has_zero_padding(reader, position + WAL_RECORD_HEADER_BYTES + size)
    )


# Looks behind the bad bytes at `bad` for a record of this log that proves, by its synced offset,
# that they were durable once. *proof is its offset, or 0.
#
# Any multiple of 8 may start a record, and hostile bytes may look like a long one at each of them.
# So the checksum of a candidate is not computed over its bytes, but from the checksums of two
# prefixes, for which checkpoints are kept: time is linear in the length of the log.
cdef int find_proof(
    WalReader* reader, uint64_t bad, uint64_t* proof, Failure* failure
) noexcept nogil:
    cdef uint64_t position = bad + 8
    cdef uint64_t count = (reader.data_size - bad) // CHECKPOINT_BYTES + 1
    cdef uint64_t index
    cdef uint32_t crc = 0
    cdef uint32_t* checkpoints = <uint32_t*>malloc(count * sizeof(uint32_t))
    proof[0] = 0
    if checkpoints == NULL:
        return fail(failure, NO_MEMORY, "no memory to judge a log's end", reader.path, -1, 0)
    for index in range(count):
        checkpoints[index] = crc
        if index + 1 < count:
            crc = crc32c(crc, reader.data + bad + index * CHECKPOINT_BYTES, CHECKPOINT_BYTES)
    position = max(position, <uint64_t>WAL_HEADER_BYTES)
    while position + WAL_RECORD_HEADER_BYTES <= reader.data_size:
        if not is_later_record(reader, position, bad, checkpoints):
            position += 8
        elif get_u64(reader.data + position + RECORD_SYNCED) & ~OLDER_SYNCED > bad:
            proof[0] = position
            break
        else:
            position += WAL_RECORD_HEADER_BYTES + round_up(get_u32(reader.data + position), 8)
    free(checkpoints)
    return OK


cdef bint is_later_record(
    WalReader* reader, uint64_t position, uint64_t base, const uint32_t* checkpoints
) noexcept nogil:
    cdef const uint8_t* record = reader.data + position
    cdef uint64_t start = position + WAL_RECORD_HEADER_BYTES
    cdef uint32_t size, crc
    if not is_plausible(reader, position):
        return False
    if get_u64(record) == 0:
        return False         # zeros, as behind the last record
    size = get_u32(record)
    crc = crc32c_shift(
        sealed_crc(reader, position) ^ prefix_crc(reader, base, start, checkpoints), size
    ) ^ prefix_crc(reader, base, start + size, checkpoints)
    return crc == get_u32(record + RECORD_CRC) and has_zero_padding(reader, start + size)


# The checksum of the bytes from `base` to `end`.
cdef uint32_t prefix_crc(
    WalReader* reader, uint64_t base, uint64_t end, const uint32_t* checkpoints
) noexcept nogil:
    cdef uint64_t index = (end - base) // CHECKPOINT_BYTES
    cdef uint64_t start = base + index * CHECKPOINT_BYTES
    return crc32c(checkpoints[index], reader.data + start, end - start)


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


def read_log(path):
    """Read a log whole (for tools and tests). Number 0: its creation was cut off."""
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
        )
    finally:
        wal_reader_close(reader)


@cython.final
cdef class LogWriter:
    """A new log, for tools and tests; the engine uses the C functions.

    One thread appends, any thread syncs beside it; close() when no other call is running.
    """

    cdef Wal* _wal           # owned; NULL: closed
    cdef bytes _path

    def __init__(self, path, uint64_t number, uint64_t previous_number=0,
                 uint64_t previous_size=0, uint64_t previous_seqno=0, *, bint mapped=True):
        cdef Failure failure
        cdef const char* name
        if self._wal != NULL:
            raise ValueError("the log is open already")
        if not number:
            raise ValueError("a log's number is not 0")
        self._path = os.fsencode(path)
        name = self._path
        failure_clear(&failure)
        with nogil:
            self._wal = wal_create_as(
                name, number, previous_number, previous_size, previous_seqno, mapped, &failure
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
        """Make what was appended durable."""
        cdef Failure failure
        cdef Wal* wal = self._opened()
        failure_clear(&failure)
        with nogil:
            wal_sync(wal, &failure)
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
