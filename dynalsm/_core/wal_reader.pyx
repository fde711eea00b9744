# Reading a write-ahead log: see wal_reader.pxd for the contract, docs/format-log.md for the bytes.
#
# The log is read whole when it is opened. What looks like damage is read again before it is called
# so: a writer beside us may have appended, and synced, while we were reading.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, strdup

from dynalsm._core.cipher cimport (
    Piece,
    cipher_find,
    cipher_free,
    cipher_open,
    cipher_refuse_plain,
)
from dynalsm._core.coding cimport Slice, get_u32, get_u64, put_u64, slice_of
from dynalsm._core.crc32c cimport crc32c, crc32c_shift
from dynalsm._core.files cimport file_close, file_open, file_read, file_size
from dynalsm._core.status cimport CORRUPTION, END, NO_MEMORY, OK, Failure, fail, failure_clear

cdef extern from "<fcntl.h>" nogil:
    enum:
        O_RDONLY

cdef enum:
    # Distance of the checkpoints that make checksums of arbitrary ranges cheap (find_proof).
    CHECKPOINT_BYTES = 512
    # How often a log that shrinks under our hands is read again.
    ATTEMPTS = 10

WAL_OLDER_SYNCED = 1ull << 63
WAL_MAGIC = b"DLSMWAL1"
WAL_MARK = b"1LAWMSLD"


cdef WalReader* wal_reader_open(const char* path, Failure* failure) noexcept nogil:
    cdef WalReader* reader = <WalReader*>calloc(1, sizeof(WalReader))
    cdef int status
    if reader == NULL:
        fail(failure, NO_MEMORY, "no memory for a log's reader", path, -1, 0)
        return NULL
    reader.path = strdup(path)
    if reader.path == NULL:
        status = fail(failure, NO_MEMORY, "no memory for a log's reader", path, -1, 0)
    else:
        status = read_whole(reader, failure)
    if status == OK:
        status = read_header(reader, failure)
    if status != OK:
        wal_reader_close(reader)
        return NULL
    return reader


cdef int read_whole(WalReader* reader, Failure* failure) noexcept nogil:
    cdef int attempts = ATTEMPTS
    cdef int fd = -1
    cdef int status = file_open(reader.path, O_RDONLY, 0, &fd, failure)
    if status != OK:
        return status
    status = read_open_file(reader, fd, failure)
    while status == CORRUPTION and attempts:
        # Shorter than its size: its writer has cut off the tail since we asked.
        attempts -= 1
        failure_clear(failure)
        status = read_open_file(reader, fd, failure)
    file_close(fd)
    return status


cdef int read_open_file(WalReader* reader, int fd, Failure* failure) noexcept nogil:
    cdef int64_t size = 0
    cdef int status = file_size(fd, reader.path, &size, failure)
    if status != OK:
        return status
    free(reader.data)
    reader.data_size = <uint64_t>size
    reader.data = <uint8_t*>malloc(<size_t>size + 1)
    if reader.data == NULL:
        return fail(failure, NO_MEMORY, "no memory for a log's contents", reader.path, -1, 0)
    return file_read(fd, reader.path, reader.data, <size_t>size, 0, failure)


# Reads the bytes from the reader's position on once more, over the old ones. Returns: OK, and
# whether they are others than before; what the file no longer has is zero.
cdef int read_again(WalReader* reader, bint* changed, Failure* failure) noexcept nogil:
    cdef uint64_t count = reader.data_size - reader.position
    cdef uint8_t* old = reader.data + reader.position
    cdef uint8_t* fresh = <uint8_t*>calloc(count + 1, 1)
    cdef int64_t size = 0
    cdef int fd = -1
    cdef int status
    changed[0] = False
    if fresh == NULL:
        return fail(failure, NO_MEMORY, "no memory to judge a log's end", reader.path, -1, 0)
    status = file_open(reader.path, O_RDONLY, 0, &fd, failure)
    if status == OK:
        status = file_size(fd, reader.path, &size, failure)
    if status == OK and <uint64_t>size > reader.position:
        status = file_read(
            fd, reader.path, fresh, min(count, <uint64_t>size - reader.position),
            <int64_t>reader.position, failure
        )
    file_close(fd)
    if status == OK and memcmp(old, fresh, count) != 0:
        memcpy(old, fresh, count)
        changed[0] = True
    free(fresh)
    return status


cdef int read_header(WalReader* reader, Failure* failure) noexcept nogil:
    cdef const uint8_t* data = reader.data
    cdef bint changed = True
    cdef int status = OK
    if reader.data_size < WAL_HEADER_BYTES:
        # No record fits: nothing that was synced can have been here.
        return end_of_unborn(reader)
    while status == OK and changed and not is_header(reader):
        status = judge_header(reader, &changed, failure)
    if status != OK or reader.is_at_end:
        return status
    if get_u32(data + 8) != WAL_FORMAT or get_u32(data + 12) & ~<uint32_t>WAL_ENCRYPTED:
        return fail(failure, CORRUPTION, "the log's format is not known", reader.path, 8, 0)
    reader.number = get_u64(data + 16)
    reader.previous_number = get_u64(data + 24)
    reader.previous_size = get_u64(data + 32)
    reader.previous_seqno = get_u64(data + 40)
    reader.is_encrypted = get_u32(data + 12) != 0
    reader.position = header_bytes(data)
    return OK


# REQUIRES: a header that is whole.
cdef inline uint64_t header_bytes(const uint8_t* data) noexcept nogil:
    if get_u32(data + 12) & WAL_ENCRYPTED:
        return WAL_ENCRYPTED_HEADER_BYTES
    return WAL_HEADER_BYTES


cdef bint is_plain_header(const uint8_t* data) noexcept nogil:
    return (
        memcmp(data, WAL_MAGIC, 8) == 0
        and memcmp(data + WAL_HEADER_MARK, WAL_MARK, 8) == 0
        and get_u32(data + WAL_HEADER_CRC) == crc32c(0, data, WAL_HEADER_CRC)
    )


# With the head of an encrypted log, as far as its creation could have been cut off in it: whether
# it is right is seen when the key is asked for.
cdef bint is_header(const WalReader* reader) noexcept nogil:
    if not is_plain_header(reader.data):
        return False
    return reader.data_size >= header_bytes(reader.data) and (
        header_bytes(reader.data) == WAL_HEADER_BYTES
        or reader.data[WAL_ENCRYPTED_HEADER_BYTES - 1] != 0
    )


# The header is not whole. One that was being written when the power went has its beginning or its
# end still zero. Any other difference, or a record that was appended after a sync, is damage.
cdef int judge_header(WalReader* reader, bint* changed, Failure* failure) noexcept nogil:
    cdef uint64_t proof = 0
    cdef int status = find_proof(reader, 0, &proof, failure)
    changed[0] = False
    if status != OK:
        return status
    if proof == 0 and (
        reader.data[0] == 0 or reader.data[WAL_HEADER_BYTES - 1] == 0
        or is_plain_header(reader.data)      # but what belongs behind it is not there
    ):
        return end_of_unborn(reader)
    status = read_again(reader, changed, failure)
    if status == OK and not changed[0]:
        return fail(failure, CORRUPTION, "the log's header is damaged", reader.path, 0, 0)
    return status


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
    cdef int status
    while not reader.is_at_end and not is_record(reader, reader.position):
        status = end_of_records(reader, failure)
        if status != OK:
            return status
    if reader.is_at_end:
        return END
    size = get_u32(record)
    seqno = get_u64(record + WAL_RECORD_SEQNO)
    if size and reader.cipher != NULL:
        status = open_payload(reader, reader.position, size, failure)
        if status != OK:
            return status
    if seqno < reader.next_seqno:
        return fail(
            failure, CORRUPTION, "sequence numbers go back in the log", reader.path,
            <int64_t>reader.position, 0
        )
    if get_u64(record + WAL_RECORD_SYNCED) & WAL_OLDER_SYNCED:
        reader.older_synced = True
    reader.position += WAL_RECORD_HEADER_BYTES + wal_aligned(size)
    if size == 0:
        return after_clean_end(reader, failure)
    payload[0] = slice_of(record + WAL_RECORD_HEADER_BYTES, size)
    if reader.cipher != NULL:
        payload[0] = slice_of(
            record + WAL_RECORD_HEADER_BYTES + WAL_ATTEMPT_BYTES, size - WAL_ADDED_BYTES
        )
    first_seqno[0] = seqno
    count[0] = get_u32(record + WAL_RECORD_COUNT)
    reader.next_seqno = seqno + count[0]
    return OK


cdef int wal_reader_unlock(WalReader* reader, void* keyring, Failure* failure) noexcept nogil:
    if reader.number == 0:
        return OK            # its creation was cut off: there is nothing to open
    if not reader.is_encrypted:
        return cipher_refuse_plain(keyring, reader.path, failure)
    reader.cipher = cipher_find(
        keyring, "log", reader.data + WAL_HEADER_BYTES, reader.path, WAL_HEADER_BYTES, failure
    )
    return OK if reader.cipher != NULL else failure.status


cdef int open_payload(
    WalReader* reader, uint64_t position, uint32_t size, Failure* failure
) noexcept nogil:
    cdef uint8_t* payload = reader.data + position + WAL_RECORD_HEADER_BYTES
    cdef Piece piece
    cdef size_t opened
    cdef int status
    if size <= WAL_ADDED_BYTES:
        return fail(
            failure, CORRUPTION, "a record of an encrypted log is too short", reader.path,
            <int64_t>position, 0
        )
    fill_sealed(reader, position, piece.place)
    piece.place_size = WAL_SEALED_BYTES
    piece.nonce = position
    piece.attempt = get_u32(payload)
    piece.data = payload + WAL_ATTEMPT_BYTES
    piece.size = size - WAL_ADDED_BYTES
    status = cipher_open(reader.cipher, &piece, 1, &opened, failure)
    if status == CORRUPTION:
        return fail(
            failure, CORRUPTION, "a record does not open under the log's key: it was changed, or "
            "is not where it was written", reader.path, <int64_t>position, 0
        )
    return status


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


# There is no record at the reader's position: the log's end (is_at_end), or damage, or (OK) other
# bytes by now, which are to be looked at.
cdef int end_of_records(WalReader* reader, Failure* failure) noexcept nogil:
    cdef bint changed = False
    cdef uint64_t proof = 0
    cdef int status
    if first_nonzero(reader, reader.position) < reader.data_size:
        status = find_proof(reader, reader.position, &proof, failure)
        if status == OK and proof:
            status = read_again(reader, &changed, failure)
            if status == OK and not changed:
                return fail(
                    failure, CORRUPTION, "a record of the log is damaged, and a later one proves "
                    "that it was whole", reader.path, <int64_t>reader.position, 0
                )
            return status
        if status != OK:
            return status
        reader.torn = True
    reader.is_at_end = True
    return OK


cdef void wal_reader_close(WalReader* reader) noexcept nogil:
    if reader == NULL:
        return
    cipher_free(reader.cipher)
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
    if (size == 0) != (get_u32(record + WAL_RECORD_COUNT) == 0):
        return False
    if reader.number and get_u32(record + WAL_RECORD_NUMBER) != <uint32_t>reader.number:
        return False
    return get_u64(record + WAL_RECORD_SYNCED) & ~WAL_OLDER_SYNCED <= position


# What is checked and authenticated of a record before its payload.
cdef void fill_sealed(WalReader* reader, uint64_t position, uint8_t* sealed) noexcept nogil:
    cdef const uint8_t* record = reader.data + position
    put_u64(sealed, position)
    memcpy(sealed + 8, record, 4)
    memcpy(sealed + 12, record + WAL_RECORD_NUMBER, WAL_SEALED_BYTES - 12)


cdef uint32_t sealed_crc(WalReader* reader, uint64_t position) noexcept nogil:
    cdef uint8_t sealed[WAL_SEALED_BYTES]
    fill_sealed(reader, position, sealed)
    return crc32c(0, sealed, WAL_SEALED_BYTES)


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
        == get_u32(record + WAL_RECORD_CRC)
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
        elif get_u64(reader.data + position + WAL_RECORD_SYNCED) & ~WAL_OLDER_SYNCED > bad:
            proof[0] = position
            break
        else:
            position += WAL_RECORD_HEADER_BYTES + wal_aligned(get_u32(reader.data + position))
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
    return crc == get_u32(record + WAL_RECORD_CRC) and has_zero_padding(reader, start + size)


# The checksum of the bytes from `base` to `end`.
cdef uint32_t prefix_crc(
    WalReader* reader, uint64_t base, uint64_t end, const uint32_t* checkpoints
) noexcept nogil:
    cdef uint64_t index = (end - base) // CHECKPOINT_BYTES
    cdef uint64_t start = base + index * CHECKPOINT_BYTES
    return crc32c(checkpoints[index], reader.data + start, end - start)
