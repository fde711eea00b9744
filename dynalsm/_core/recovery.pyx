# Opening a directory: manifest, tables, logs. And ending it: what close leaves for the next open.
#
# Order: lock -> manifest -> trees and tables -> logs in order -> torn ends cut off, logs synced ->
# a new log -> orphans swept. Every step can be repeated after a crash in the middle of it.
#
# What the logs may hold (reliability): the records of log n+1 count only if log n is whole, and so
# on: what survives is a prefix of the commits. A log that ends early although a later record
# proves that it was once durable is damage (CorruptionError with path and offset), not a torn end.

from libc.stdint cimport uint32_t, uint64_t
from libc.stdio cimport snprintf

import errno
import os
import resource

from dynalsm import errors
from dynalsm._core import background, files, jobs, keyring, lockfile
from dynalsm._core.edits import SEQNO_MAX
from dynalsm._core.manifest import Manifest, is_encrypted, manifest_numbers
from dynalsm._core.names import TABLE, log_numbers, number_in
from dynalsm._core.state import FILE, FILE_BYTES, LEVEL, UNIQUE_ID, State

from dynalsm._core.coding cimport Slice, slice_of
from dynalsm._core.commit cimport apply_payload
from dynalsm._core.descriptors cimport descriptor_acquire, descriptor_open_count
from dynalsm._core.durability cimport core_sync
from dynalsm._core.engine cimport Engine, Tree
from dynalsm._core.memtable cimport RangeList, range_list_add
from dynalsm._core.partition cimport Partition
from dynalsm._core.sstable_reader cimport Table, table_open, table_unref
from dynalsm._core.sstable_writer cimport TableInfo
from dynalsm._core.status cimport END, OK, Failure, failure_clear, raise_failure
from dynalsm._core.sync cimport (
    atomic_add,
    atomic_load,
    atomic_store,
)
from dynalsm._core.version cimport (
    FileMeta,
    Version,
    file_create,
    file_unref,
    version_edit,
    version_unref,
)
from dynalsm._core.wal cimport (
    WalReader,
    wal_create,
    wal_reader_close,
    wal_reader_next,
    wal_reader_open,
    wal_reader_unlock,
)

from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

cdef enum:
    CLOSE_FLUSH_BYTES = 256 * 1024       # more than this in memory is flushed by close
    CLOSE_FLUSH_LOGS = 4                 # or when opening had to read so many logs

SUBDIRECTORIES = ("wal", "data")


class Overtaken(Exception):
    """The writer removed what a read-only open was about to read: begin again."""


def open_engine(
    Engine engine not None, create_if_missing, error_if_exists, master, keys
):
    """Bring the engine to life in its directory (see the head of the file).

    master: the user's key, or None; keys: a Keyring that is known already."""
    path = engine.path
    if not os.path.isdir(path):
        if os.path.exists(path):
            raise errors.FormatError("not a directory", path=path)
        if not create_if_missing or engine.read_only:
            raise errors.FormatError("there is no database here", path=path)
        make_directories(path)
    else:
        check_place(engine, create_if_missing)   # a refusal leaves nothing behind, not even a lock
    if keys is None:
        find_keys(path, master)          # a wrong key leaves nothing behind either
    engine.lock = lockfile.DirectoryLock(path, shared=engine.read_only)
    if keys is None:
        keys = find_keys(path, master)
        if keys is not None and not engine.read_only:
            keys.settle()
    engine.use_keys(keys)
    if engine.options["recovery"] == "salvage" and not engine.read_only:
        salvage(path, keys)
    loaded = Manifest.load(path, keys)
    if loaded is None:
        create_engine(engine, create_if_missing, master)
        return
    if error_if_exists:
        raise errors.StorageError("the database exists", path=path)
    engine.state = State.replay(loaded.edits, loaded.path)
    if engine.read_only:
        restore_beside_writer(engine, loaded)
        return
    restore(engine)
    engine.manifest = Manifest.resume(path, loaded, keys)
    atomic_store(
        &engine.core.next_file,
        max(
            engine.state.next_file, engine.state.log, highest_number(path, engine.state) + 1,
            loaded.number + 1,
        ),
    )
    replay_logs(engine)
    sweep(engine)


def restore_beside_writer(Engine engine not None, loaded):
    """Read what the manifest says, unless a writer has gone on meanwhile (Overtaken).

    A writer notes in its manifest which files are not needed any more before it removes them, and
    which trees there are before it logs their entries."""
    try:
        restore(engine)
        is_whole = replay_logs(engine)
    except errors.StorageError as error:
        if newer_manifest(engine, loaded) is not None:
            raise Overtaken from error
        raise
    newer = newer_manifest(engine, loaded)
    if newer is None:
        return
    # A tree may have come, had entries in a log, and gone: so it is the numbers that tell.
    if not is_whole or State.replay(newer.edits, newer.path).next_tree > engine.state.next_tree:
        raise Overtaken from errors.StorageIOError(
            "the writer goes on faster than this can be read", path=engine.path,
            errno=errno.EAGAIN,
        )


def newer_manifest(Engine engine not None, loaded):
    """The manifest, when it is another one, or longer, than it was when it was loaded."""
    now = Manifest.load(engine.path, engine.keys)
    if now is None or (now.number, now.end) == (loaded.number, loaded.end):
        return None
    return now


def find_keys(path, encryption_key):
    """The keys of the database that is there; None: it has none, or there is no database."""
    if not has_database(path):
        return None
    return keyring.find(path, encryption_key, is_encrypted)


def has_database(path):
    """Whether anything in the directory says that there is a database, or is to be one."""
    return any(name.startswith(("MANIFEST-", "CURRENT")) for name in files.list_directory(path))


def salvage(path, keys):
    """Leave out, and put aside, what an open would refuse; say so in the log."""
    from dynalsm._core import repair

    if not has_database(path):
        return
    done = repair.repair_locked(path, deep=False, keys=keys)
    for problem in done.problems:
        background.log.error("damaged, and put aside: %s", problem)
    for loss in done.lost:
        background.log.error("lost: %s", loss)


def make_directories(path):
    """Like mkdir -p, through the file layer, mode 0700."""
    parent = os.path.dirname(path)
    if parent and not os.path.isdir(parent):
        make_directories(parent)
    files.make_directory(path)


def check_place(Engine engine not None, create_if_missing):
    """Refuse a directory that holds no database and in which none is to be begun."""
    path = engine.path
    names = files.list_directory(path)
    if any(name.startswith(("MANIFEST-", "CURRENT")) for name in names):
        return
    if not create_if_missing or engine.read_only:
        raise errors.FormatError("there is no database here", path=path)
    strangers = sorted(
        set(names) - {lockfile.LOCK, lockfile.READERS, *keyring.NAMES, *SUBDIRECTORIES}
    )
    if strangers:
        raise errors.FormatError(
            f"no database, but other files (such as {strangers[0]!r}): choose an empty directory",
            path=path,
        )


def create_engine(Engine engine not None, create_if_missing, master):
    """The first open of a directory. Until CURRENT is there, it counts as empty."""
    path = engine.path
    if not create_if_missing or engine.read_only:
        raise errors.FormatError("there is no database here", path=path)
    sync_parent(path)
    if engine.keys is None:
        keyring.remove(path)
        if master is not None:
            engine.use_keys(keyring.Keyring.create(path, master))
    for name in SUBDIRECTORIES:
        files.make_directory(os.path.join(path, name))
    for name in files.list_directory(os.path.join(path, "wal")):
        files.remove_file(os.path.join(path, "wal", name))   # left by a creation that was cut off
    engine.state = State()
    engine.state.next_file = 3
    engine.state.log = 1
    atomic_store(&engine.core.next_file, 3)
    start_log(engine, 1, 0, 0, 0)
    engine.state.begun = begun_log(engine)
    engine.manifest = Manifest.create(path, 2, engine.state.base(), engine.keys)


def sync_parent(path):
    """Make the name of the directory last, whoever made it.

    A parent that may be passed but not opened (by its mode) is its owner's affair."""
    try:
        files.sync_directory(os.path.dirname(path))
    except errors.StorageIOError as error:
        if error.errno not in (errno.EACCES, errno.EPERM):
            raise


cdef int start_log(
    Engine engine, uint64_t number, uint64_t previous, uint64_t previous_size,
    uint64_t previous_seqno
) except -1:
    cdef char path[1100]
    cdef Failure failure
    failure_clear(&failure)
    snprintf(
        path, sizeof(path), "%s/wal/%012llu.wal", engine.core.directory,
        <unsigned long long>number
    )
    with nogil:
        engine.core.wal = wal_create(
            path, number, previous, previous_size, previous_seqno, engine.core.keyring, &failure
        )
    raise_failure(&failure)
    engine.core.is_log_directory_dirty = True
    return 0


cdef uint64_t begun_log(Engine engine) except 0:
    """Make the current log's beginning durable. Returns: its number, for the manifest."""
    cdef Failure failure
    failure_clear(&failure)
    with nogil:
        core_sync(engine.core, &failure)
    raise_failure(&failure)
    return engine.core.wal.number


def highest_number(path, state):
    """The highest number any file in the directory bears."""
    numbers = [0, *log_numbers(os.path.join(path, "wal"))]
    for _root, _directories, found in os.walk(os.path.join(path, "data")):
        numbers.extend(number_in(name, TABLE) or 0 for name in found)
    return max(numbers + manifest_numbers(files.list_directory(path)))


# ------------------------------------------------------------------------------ trees and tables

def restore(Engine engine not None):
    """Make trees, versions and tables as the state says."""
    cdef Tree tree
    cdef int index
    state = engine.state
    engine.flushed_seqno = state.flushed
    engine.core.last_seqno = state.flushed
    for record in state.trees.values():
        tree = engine.add_tree(record)
        for index in range(tree.core.parts.count):
            place = (tree.core.id, tree.core.parts.items[index].id)
            restore_partition(
                engine, tree.core.parts.items[index], state.files[place],
                state.ranges.get(place, []),
            )
    engine.next_tree_id = max(engine.next_tree_id, state.next_tree)
    engine.next_partition_id = max(engine.next_partition_id, state.next_partition)


cdef int restore_partition(
    Engine engine, Partition* partition, dict records, list ranges
) except -1:
    cdef FileMeta** metas = <FileMeta**>malloc((len(records) + 1) * sizeof(FileMeta*))
    cdef Version* version = NULL
    cdef int count = 0
    cdef int index
    if metas == NULL:
        raise MemoryError()
    try:
        for record in records.values():
            metas[count] = restore_file(engine, partition, record)
            count += 1
        version = version_edit(partition.version, metas, count, NULL, 0)
        if version == NULL:
            raise MemoryError()
        for lower, upper, seqno in ranges:
            add_range(&version.ranges, lower, upper, seqno)
        version_unref(partition.version)
        partition.version = version
    finally:
        for index in range(count):
            file_unref(metas[index])
        free(metas)
    return 0


cdef int add_range(RangeList* ranges, bytes lower, bytes upper, uint64_t seqno) except -1:
    cdef Slice high = slice_of(NULL, 0)
    if upper is not None:
        high = slice_of(<const char*>upper, len(upper))
    if range_list_add(ranges, slice_of(<const char*>lower, len(lower)), high, seqno):
        raise MemoryError()
    return 0


cdef void* copy_of(bytes data) except NULL:
    cdef void* copy = malloc(len(data) + 1)
    if copy == NULL:
        raise MemoryError()
    memcpy(copy, <const char*>data, len(data))
    return copy


cdef FileMeta* restore_file(Engine engine, Partition* partition, list record) except NULL:
    cdef TableInfo info
    cdef Failure failure
    cdef Table* table
    cdef FileMeta* meta
    memset(&info, 0, sizeof(TableInfo))
    failure_clear(&failure)
    path = os.fsencode(table_file(engine.path, record))
    info.file_id = record[FILE]
    info.file_bytes = record[FILE_BYTES]
    info.unique_id = record[UNIQUE_ID]
    info.entries, info.deletions, info.min_seqno, info.max_seqno, info.raw_bytes = record[6:11]
    cdef const char* c_path = path
    with nogil:
        table = table_open(
            c_path, info.file_id, info.file_bytes, info.unique_id, engine.core.cache,
            engine.core.keyring, &failure
        )
    if table == NULL:
        raise_failure(&failure)
    if engine.read_only:
        keep_open(table)
    info.smallest = <unsigned char*>copy_of(record[11])
    info.smallest_size = len(record[11])
    info.largest = <unsigned char*>copy_of(record[12])
    info.largest_size = len(record[12])
    meta = file_create(table, &info, record[LEVEL])
    if meta == NULL:
        raise MemoryError()
    meta.ranges_applied = record[13]
    return meta


cdef int keep_open(Table* table) except -1:
    """A reader's view outlives the names of its files: as far as the process may have so many
    open, each stays open until the end."""
    cdef Failure failure
    cdef int fd
    if descriptor_open_count() * 2 < resource.getrlimit(resource.RLIMIT_NOFILE)[0]:
        failure_clear(&failure)
        if descriptor_acquire(&table.descriptor, &fd, &failure) != OK:   # for good: not released
            table_unref(table)
            raise_failure(&failure)
    return 0


def table_file(path, record):
    """The path of a file record's table."""
    return os.path.join(
        path, "data", f"{record[0]:06d}", f"{record[1]:06d}", f"{record[FILE]:012d}.sst"
    )


# ------------------------------------------------------------------------------------------- logs

cdef class LogEnd:
    """How a log ended."""
    cdef public uint64_t number
    cdef public uint64_t previous_number
    cdef public uint64_t previous_size
    cdef public uint64_t size            # behind the last good record
    cdef public uint64_t last_seqno
    cdef public bint clean
    cdef public bint proves_older        # a record says that all older logs were durable
    cdef public bint empty


cdef LogEnd read_log(Engine engine, str path, uint64_t last_seqno):
    """Put the records of one log that lie behind `last_seqno` into the memtables."""
    cdef WalReader* reader
    cdef Failure failure
    cdef Slice payload
    cdef uint64_t first = 0
    cdef uint64_t expected = last_seqno + 1
    cdef uint64_t at
    cdef uint32_t count = 0
    cdef int status
    cdef uint64_t generation = engine.replay_generation
    cdef LogEnd end = LogEnd.__new__(LogEnd)
    encoded = os.fsencode(path)
    cdef const char* c_path = encoded
    failure_clear(&failure)
    with nogil:
        reader = wal_reader_open(c_path, &failure)
        if reader != NULL and wal_reader_unlock(reader, engine.core.keyring, &failure):
            wal_reader_close(reader)
            reader = NULL
    if reader == NULL:
        raise_failure(&failure)
    try:
        end.number = reader.number
        end.previous_number = reader.previous_number
        end.previous_size = reader.previous_size
        end.empty = True
        at = reader.position
        while reader.number:
            with nogil:
                status = wal_reader_next(reader, &payload, &first, &count, &failure)
            if status == END:
                break
            if status != OK:
                raise_failure(&failure)
            end.empty = False
            if first > expected:
                raise errors.CorruptionError(
                    f"commits {expected} to {first - 1} are missing before this record",
                    path=path, offset=at,
                )
            if first + count > SEQNO_MAX:
                raise errors.CorruptionError(
                    "the sequence number is too large", path=path, offset=at
                )
            if first + count > expected:
                with nogil:
                    status = apply_payload(
                        engine.core, payload.data, payload.size, first, count, generation,
                        &failure
                    )
                if status:
                    if not failure.path[0]:
                        memcpy(failure.path, c_path, min(len(encoded) + 1, 1023))
                        failure.offset = at
                    raise_failure(&failure)
                expected = first + count
            at = reader.position
        end.size = reader.position
        end.clean = reader.clean_end
        end.proves_older = reader.older_synced
        end.last_seqno = expected - 1
    finally:
        wal_reader_close(reader)
    return end


def replay_logs(Engine engine not None):
    """All logs from state.log on, oldest first; then a new log (when this is the writer).

    Returns: whether all logs that there are were read; False: what lies behind a gap was not."""
    cdef LogEnd end
    cdef LogEnd last = None
    cdef uint64_t number
    directory = os.path.join(engine.path, "wal")
    numbers = log_numbers(directory, engine.state.log)
    number = 0
    if not engine.read_only:
        number = atomic_add(&engine.core.next_file, 1) - 1
    engine.replay_generation = number
    kept = []
    is_whole = True
    for position, each in enumerate(numbers):
        path = log_path(directory, each)
        end = scan_log(path)
        if not follows(engine, directory, last, end, numbers[position:]):
            is_whole = False
            break
        if end.number == 0:              # its creation was cut off: nothing was ever in it
            continue
        if engine.state.closed and engine.state.closed[0] == each and not end.clean:
            raise errors.CorruptionError(
                f"the log was closed with {engine.state.closed[1]} bytes and ends early",
                path=path, offset=end.size,
            )
        end = read_log(engine, path, engine.core.last_seqno)
        engine.core.last_seqno = end.last_seqno
        kept.append(each)
        # A log that the manifest calls closed was synced before; an end record alone may still be
        # in the system's cache only (killed while closing).
        if not engine.read_only and not (engine.state.closed and engine.state.closed[0] == each):
            settle_log(path, end)
        last = end
    if engine.state.last_log >= engine.state.log and engine.state.last_log not in kept:
        raise errors.CorruptionError(
            "the log is missing, or its beginning is",
            path=log_path(directory, engine.state.last_log),
        )
    atomic_store(&engine.core.visible_seqno, engine.core.last_seqno)
    atomic_store(&engine.core.durable_seqno, engine.core.last_seqno)
    if engine.read_only:
        return is_whole
    engine.replayed_logs = len(kept)
    for each in numbers:
        if each not in kept:             # behind a gap, or never begun: not part of the prefix
            files.remove_file(log_path(directory, each))
    # What was read counts as durable from here on: so must the logs' names.
    files.sync_directory(directory)
    start_log(
        engine, number, last.number if last is not None else 0,
        last.size if last is not None else 0, engine.core.last_seqno
    )
    engine.append_edit({"begun": begun_log(engine)})
    return is_whole


def log_path(directory, number):
    return os.path.join(directory, f"{number:012d}.wal")


cdef bint follows(
    Engine engine, str directory, LogEnd last, LogEnd end, list rest
) except -1:
    """Whether the log continues what was read so far; False: it lies behind an unsynced gap.

    Raises CorruptionError when a later record proves that the gap was once durable."""
    cdef LogEnd later
    if end.number == 0 or end.previous_number == 0 or end.previous_number < engine.state.log:
        return True
    whole = (
        last is not None and last.number == end.previous_number
        and (end.previous_size == 0 or last.size >= end.previous_size)
    )
    if whole:
        return True
    if engine.state.last_log >= end.number:
        raise errors.CorruptionError(
            "this log is missing or ends early, although it was durable",
            path=log_path(directory, end.previous_number),
            offset=last.size if last is not None and last.number == end.previous_number else None,
        )
    for each in rest:
        later = scan_log(log_path(directory, each))
        if later.proves_older:
            missing = last is None or last.number != end.previous_number
            raise errors.CorruptionError(
                "the log is missing" if missing
                else f"the log ends early; {end.previous_size} bytes were durable",
                path=log_path(directory, end.previous_number),
                offset=None if missing else last.size,
            )
    return False


cdef LogEnd scan_log(str path):
    """Read a log for how it goes on from older ones and what it proves about them.

    Whether its records follow those of older logs is not judged: there may be a gap before it."""
    cdef WalReader* reader
    cdef Failure failure
    cdef Slice payload
    cdef uint64_t first = 0
    cdef uint32_t count = 0
    cdef int status
    cdef LogEnd end = LogEnd.__new__(LogEnd)
    encoded = os.fsencode(path)
    cdef const char* c_path = encoded
    failure_clear(&failure)
    with nogil:
        reader = wal_reader_open(c_path, &failure)
    if reader == NULL:
        raise_failure(&failure)
    with nogil:
        status = OK
        while reader.number and status == OK:
            status = wal_reader_next(reader, &payload, &first, &count, &failure)
    end.number = reader.number
    end.previous_number = reader.previous_number
    end.previous_size = reader.previous_size
    end.clean = reader.clean_end
    end.size = reader.position
    end.proves_older = reader.older_synced
    wal_reader_close(reader)
    return end


cdef int settle_log(str path, LogEnd end) except -1:
    """Cut off what is no record, and make the rest durable: it is about to be built upon."""
    with files.File(path, os.O_RDWR) as file:
        if file.size() > end.size:
            file.truncate(end.size)
        file.sync()
    return 0


def sync_log_directory(Engine engine not None):
    """Make the current log's name last, if nobody has waited for a commit since it began."""
    if engine.core.is_log_directory_dirty:
        files.sync_directory(os.path.join(engine.path, "wal"))


def sweep(Engine engine not None):
    """Remove what a crash left: tables nobody lists, logs that were flushed."""
    known = {
        table_file(engine.path, record)
        for records in engine.state.files.values() for record in records.values()
    }
    for root, _directories, names in os.walk(os.path.join(engine.path, "data"), topdown=False):
        for name in names:
            path = os.path.join(root, name)
            if path not in known:
                files.remove_file(path, missing_ok=True)
        if root != os.path.join(engine.path, "data") and not os.listdir(root):
            jobs.remove_empty(root)
    if engine.state.log:
        jobs.remove_logs(engine, engine.state.log - 1)


def flush_before_close(Engine engine not None):
    """Flush what would make the next open slow; small rests stay in a few logs."""
    cdef uint64_t number = engine.core.wal.number
    if (
        engine.core.generation_count or engine.core.mutable_bytes > CLOSE_FLUSH_BYTES
        or (engine.replayed_logs >= CLOSE_FLUSH_LOGS and engine.core.mutable_bytes)
    ):
        engine.rotate()
        jobs.flush_all(engine)
    elif engine.replayed_logs and not engine.core.mutable_bytes:
        engine.append_edit({
            "next": atomic_load(&engine.core.next_file), "log": number,
            "flushed": engine.core.last_seqno,
        })
        jobs.remove_logs(engine, number - 1)
