# The seam below all file operations: tests make them fail, and record them.
#
# Off by default, and then one untaken branch per operation (seam_is_active):
#   a fault plan   set_fault(): the N-th operation of the chosen kinds fails with the chosen errno,
#                  or writes only half of its bytes; once or from then on; for some paths or all.
#   a recording    start_recording() ... stop_recording(): every operation that changes what is on
#                  disk, in order, with a copy of the data, so that a test can rebuild each state a
#                  power cut may leave. See stop_recording for the entries and their exact place.
#
# Thread safety: everything may be called from any thread. The state is guarded by _seam_mutex, but
# for seam_is_active, which is read without it: a plan set beside running operations takes effect
# at some moment soon.

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.errno cimport EIO
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset, strdup, strncpy, strstr

from dynalsm._core.sync cimport (
    pthread_mutex_init,
    pthread_mutex_lock,
    pthread_mutex_t,
    pthread_mutex_unlock,
)

import os

OPERATIONS = (
    "open", "read", "write", "sync", "allocate", "truncate", "rename", "link", "remove",
    "dirsync", "map_write", "map", "mkdir", "rmdir",
)
# What "open" is called in a recording.
_CREATE = "create"


cdef struct Recorded:
    int kind
    bint is_dropped          # the operation failed after its place was taken
    char* path               # owned
    char* path2              # owned, or NULL
    int64_t offset
    uint8_t* data            # owned, or NULL
    size_t size


cdef struct Seam:
    bint has_plan
    unsigned int kinds       # bit per Operation
    int64_t nth              # 1: the next matching operation; 0: never
    int errnum               # 0: a short write that is not an error
    bint is_short
    bint for_ever
    char path[1024]          # substring the path must hold; empty: any
    int64_t matched
    int64_t counts[OPERATION_COUNT]
    bint is_recording
    bint is_incomplete       # no memory for a record
    Recorded* records        # owned
    size_t record_count
    size_t record_capacity


# Guarded by _seam_mutex.
cdef Seam _seam
cdef pthread_mutex_t _seam_mutex

seam_is_active = False
pthread_mutex_init(&_seam_mutex, NULL)
memset(&_seam, 0, sizeof(Seam))


cdef int seam_enter(int kind, const char* path, size_t* allowed) noexcept nogil:
    cdef int errnum = 0
    pthread_mutex_lock(&_seam_mutex)
    _seam.counts[kind] += 1
    if (
        _seam.has_plan
        and _seam.kinds >> kind & 1
        and (_seam.path[0] == 0 or strstr(path, _seam.path) != NULL)
    ):
        _seam.matched += 1
        if _seam.nth and (
            _seam.matched == _seam.nth or (_seam.for_ever and _seam.matched > _seam.nth)
        ):
            errnum = _seam.errnum
            if allowed != NULL:
                allowed[0] = allowed[0] // 2 if _seam.is_short else 0
    pthread_mutex_unlock(&_seam_mutex)
    return errnum


cdef int64_t seam_record(
    int kind, const char* path, const char* path2, int64_t offset, const void* data, size_t size
) noexcept nogil:
    cdef Recorded* grown
    cdef Recorded* record
    cdef size_t capacity
    cdef int64_t index = -1
    pthread_mutex_lock(&_seam_mutex)
    if _seam.is_recording and not _seam.is_incomplete:
        if _seam.record_count == _seam.record_capacity:
            capacity = _seam.record_capacity * 2 + 64
            grown = <Recorded*>realloc(_seam.records, capacity * sizeof(Recorded))
            if grown != NULL:
                _seam.records = grown
                _seam.record_capacity = capacity
        if _seam.record_count < _seam.record_capacity:
            record = &_seam.records[_seam.record_count]
            if fill_record(record, kind, path, path2, offset, data, size):
                index = <int64_t>_seam.record_count
                _seam.record_count += 1
        _seam.is_incomplete = index < 0
    pthread_mutex_unlock(&_seam_mutex)
    return index


cdef bint fill_record(
    Recorded* record, int kind, const char* path, const char* path2, int64_t offset,
    const void* data, size_t size
) noexcept nogil:
    record.kind = kind
    record.is_dropped = False
    record.offset = offset
    record.size = size
    record.path = strdup(path)
    record.path2 = strdup(path2) if path2 != NULL else NULL
    record.data = <uint8_t*>malloc(size if size else 1) if data != NULL else NULL
    if (
        record.path == NULL
        or (path2 != NULL and record.path2 == NULL)
        or (data != NULL and record.data == NULL)
    ):
        free_record(record)
        return False
    if data != NULL:
        memcpy(record.data, data, size)
    return True


cdef void free_record(Recorded* record) noexcept nogil:
    free(record.path)
    free(record.path2)
    free(record.data)


cdef void seam_drop(int64_t index) noexcept nogil:
    if index < 0:
        return
    pthread_mutex_lock(&_seam_mutex)
    if <size_t>index < _seam.record_count:
        _seam.records[index].is_dropped = True
    pthread_mutex_unlock(&_seam_mutex)


# ---- Python ----

cdef void seam_refresh_locked() noexcept nogil:
    global seam_is_active
    seam_is_active = _seam.has_plan or _seam.is_recording


def set_fault(kinds=OPERATIONS, int64_t nth=1, int errnum=EIO, *, short_write=False, for_ever=False,
              path=""):
    """Let the `nth` operation of these kinds from now on fail with `errnum`.

    nth=0 only counts. short_write=True lets a write put half of its bytes before it fails; with
    errnum=0 too it is a short write that the caller goes on after. for_ever=True fails all later
    ones as well. path: only operations on paths that contain it. Replaces the plan before, resets
    the counts.
    """
    cdef unsigned int mask = 0
    cdef bytes part = os.fsencode(path)
    if isinstance(kinds, str):
        kinds = (kinds,)
    for kind in kinds:
        mask |= 1u << <int>OPERATIONS.index(kind)
    if len(part) >= <Py_ssize_t>sizeof(_seam.path):
        raise ValueError("path is too long")
    pthread_mutex_lock(&_seam_mutex)
    _seam.has_plan = True
    _seam.kinds = mask
    _seam.nth = nth
    _seam.errnum = errnum
    _seam.is_short = short_write
    _seam.for_ever = for_ever
    strncpy(_seam.path, part, sizeof(_seam.path))
    _seam.matched = 0
    memset(_seam.counts, 0, sizeof(_seam.counts))
    seam_refresh_locked()
    pthread_mutex_unlock(&_seam_mutex)


def clear_fault():
    """End the plan. The counts stay until the next set_fault()."""
    pthread_mutex_lock(&_seam_mutex)
    _seam.has_plan = False
    seam_refresh_locked()
    pthread_mutex_unlock(&_seam_mutex)


def operation_count(kind=None):
    """Return how many operations of the plan's kinds and paths there were since set_fault().

    With a kind: how many of that kind, on any path, while a plan or a recording was active.
    """
    cdef int64_t count
    cdef int index = OPERATIONS.index(kind) if kind is not None else -1
    pthread_mutex_lock(&_seam_mutex)
    count = _seam.matched if index < 0 else _seam.counts[index]
    pthread_mutex_unlock(&_seam_mutex)
    return count


def start_recording():
    """Begin a new recording."""
    pthread_mutex_lock(&_seam_mutex)
    discard_records_locked()
    _seam.is_recording = True
    seam_refresh_locked()
    pthread_mutex_unlock(&_seam_mutex)


def stop_recording():
    """End the recording and return it: a list of (kind, path, path2, offset, data).

    | kind | path2 | offset | data |
    | "create", "mkdir", "rmdir", "remove", "dirsync", "sync" | None | 0 | None |
    | "write", "map_write" | None | where | the bytes |
    | "truncate" | None | new size | None |
    | "allocate" | None | the file reaches at least to here | None |
    | "rename", "link" | the new name | 0 | None |

    An operation stands at the place where it ended, a "sync" or "dirsync" where it began: what
    stands before it is covered by it. A sync that failed is left out, a write that failed has the
    part that was written.
    """
    cdef size_t index, count
    cdef Recorded* records
    cdef Recorded* record
    cdef bint is_incomplete
    pthread_mutex_lock(&_seam_mutex)
    records = _seam.records
    count = _seam.record_count
    is_incomplete = _seam.is_incomplete
    _seam.records = NULL
    _seam.record_count = 0
    _seam.record_capacity = 0
    _seam.is_recording = False
    _seam.is_incomplete = False
    seam_refresh_locked()
    pthread_mutex_unlock(&_seam_mutex)
    entries = []
    try:
        for index in range(count):
            record = &records[index]
            if not record.is_dropped:
                entries.append(entry_of(record))
    finally:
        for index in range(count):
            free_record(&records[index])
        free(records)
    if is_incomplete:
        raise MemoryError("the recording did not fit into memory")
    return entries


cdef tuple entry_of(const Recorded* record):
    return (
        _CREATE if record.kind == OPEN else OPERATIONS[record.kind],
        os.fsdecode(<bytes>record.path),
        os.fsdecode(<bytes>record.path2) if record.path2 != NULL else None,
        record.offset,
        PyBytes_FromStringAndSize(<char*>record.data, record.size)
        if record.data != NULL else None,
    )


cdef void discard_records_locked() noexcept nogil:
    cdef size_t index
    for index in range(_seam.record_count):
        free_record(&_seam.records[index])
    free(_seam.records)
    _seam.records = NULL
    _seam.record_count = 0
    _seam.record_capacity = 0
    _seam.is_incomplete = False
