# Thin Python doors to the cdef structures of the lower core, for tests and benchmarks only.
#
# Entries are (key, tag, value) with tag = seqno << 8 | kind. A status that is an error is raised;
# END and NOT_FOUND give None, WOULD_BLOCK raises BlockingIOError.
# Thread safety: that of what is behind the door, except that a Source belongs to one thread. The
# GIL is released around reads that may block.

cimport cython
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from dynalsm._core.block cimport (
    BlockCursor,
    block_cursor_first,
    block_cursor_free,
    block_cursor_init,
    block_cursor_last,
    block_cursor_next,
    block_cursor_open,
    block_cursor_prev,
    block_cursor_seek,
    block_cursor_seek_back,
    block_get,
)
from dynalsm._core.block_builder cimport (
    BlockBuilder,
    block_builder_add,
    block_builder_finish,
    block_builder_free,
    block_builder_init,
)
from dynalsm._core.cache cimport (
    Block,
    Cache,
    CacheStats,
    block_try_pin,
    block_unref,
    cache_add,
    cache_charge,
    cache_create,
    cache_drop_file,
    cache_find,
    cache_free,
    cache_reserve,
    cache_set_capacity,
    cache_stats,
)
from dynalsm._core.coding cimport Slice, slice_of
from dynalsm._core.descriptors cimport descriptor_open_count, descriptor_set_limit
from dynalsm._core.durability cimport wait_durable_in_chain
from dynalsm._core.engine cimport Engine
from dynalsm._core.filter cimport filter_build, filter_may_contain, filter_size
from dynalsm._core.hashing cimport hash64
from dynalsm._core.source cimport Source
from dynalsm._core.sstable_file cimport table_block, table_damaged
from dynalsm._core.sstable_format cimport Properties, properties_decode
from dynalsm._core.sstable_index cimport TableIndex
from dynalsm._core.sstable_reader cimport (
    Found,
    Table,
    found_release,
    table_get,
    table_get_many,
    table_key_id,
    table_load,
    table_memory,
    table_obsolete,
    table_offset_of,
    table_open,
    table_read_info,
    table_read_properties,
    table_source,
    table_unref,
    table_verify,
)
from dynalsm._core.sstable_writer cimport (
    TableInfo,
    TableOptions,
    TableWriter,
    table_info_free,
    table_writer_abandon,
    table_writer_add,
    table_writer_bytes,
    table_writer_finish,
    table_writer_name_tree,
    table_writer_open,
)
from dynalsm._core.status cimport (
    CORRUPTION,
    END,
    NO_MEMORY,
    NOT_FOUND,
    OK,
    WOULD_BLOCK,
    Failure,
    failure_clear,
    raise_failure,
)

import os

from dynalsm import errors

Entry = tuple[bytes, int, bytes]

cdef extern from *:
    """
    #include <time.h>
    static inline uint64_t dynalsm_cpu_ns(void)
    {
        struct timespec t;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
    }
    """
    # CPU time of this thread: what the others on the machine do counts less.
    uint64_t cpu_ns "dynalsm_cpu_ns"() noexcept nogil


cdef Slice slice_from(bytes data):
    return slice_of(<const char*>data, len(data))


cdef bytes bytes_from(Slice data):
    return data.data[: data.size] if data.size else b""


cdef object raise_status(int status, const Failure* failure):
    """Raises for errors and WOULD_BLOCK. Returns: None."""
    if status == WOULD_BLOCK:
        raise BlockingIOError("needs a read from the file")
    if status in (OK, NOT_FOUND, END):
        return None
    raise_failure(failure)
    raise AssertionError(f"status {status} without a description")


cdef object raise_block_status(int status):
    if status == CORRUPTION:
        raise errors.CorruptionError("a block is damaged")
    if status == NO_MEMORY:
        raise MemoryError


# ----------------------------------------------------------------------------------------- blocks

def block_build(list entries, uint32_t interval=16):
    """Return a block of (key, tag, value) entries."""
    cdef BlockBuilder builder
    cdef int status = block_builder_init(&builder, interval)
    try:
        raise_block_status(status)
        for key, tag, value in entries:
            raise_block_status(block_builder_add(&builder, slice_from(key), tag, slice_from(value)))
        raise_block_status(block_builder_finish(&builder))
        return (<const char*>builder.data)[: builder.size]
    finally:
        block_builder_free(&builder)


def block_find(bytes block, bytes key, uint64_t tag):
    """Return (tag, value) of the newest entry of the key with at most that tag, or None."""
    cdef uint64_t found_tag = 0
    cdef Slice value
    cdef int status = block_get(
        <const uint8_t*><const char*>block, len(block), slice_from(key),
        hash64(<const uint8_t*><const char*>key, len(key)), tag, &found_tag, &value,
    )
    if status == OK:
        return found_tag, bytes_from(value)
    raise_block_status(status)
    return None


@cython.final
cdef class BlockWalk:
    """A cursor over a block; moves return whether there is an entry."""

    cdef BlockCursor cursor
    cdef uint8_t* copy           # owned: exactly the block's size, so that tools see a stray read

    def __cinit__(self, bytes block not None):
        block_cursor_init(&self.cursor)
        self.copy = <uint8_t*>malloc(len(block))
        if self.copy == NULL and len(block):
            raise MemoryError
        memcpy(self.copy, <const char*>block, len(block))

    def __init__(self, bytes block not None):
        raise_block_status(block_cursor_open(&self.cursor, self.copy, len(block)))

    def __dealloc__(self):
        block_cursor_free(&self.cursor)
        free(self.copy)

    @property
    def entry(self):
        return bytes_from(self.cursor.key), self.cursor.tag, bytes_from(self.cursor.value)

    cdef bint moved(self, int status) except -1:
        raise_block_status(status)
        return status == OK

    def first(self):
        return self.moved(block_cursor_first(&self.cursor))

    def last(self):
        return self.moved(block_cursor_last(&self.cursor))

    def next(self):
        return self.moved(block_cursor_next(&self.cursor))

    def prev(self):
        return self.moved(block_cursor_prev(&self.cursor))

    def seek(self, bytes key, uint64_t tag):
        return self.moved(block_cursor_seek(&self.cursor, slice_from(key), tag))

    def seek_back(self, bytes key, uint64_t tag):
        return self.moved(block_cursor_seek_back(&self.cursor, slice_from(key), tag))


# ----------------------------------------------------------------------------------------- filters

def build_filter(list keys, int bits_per_key):
    """Return the filter of the keys."""
    cdef size_t count = len(keys)
    cdef size_t size = filter_size(count, bits_per_key)
    cdef uint64_t* hashes = <uint64_t*>malloc((count + 1) * sizeof(uint64_t))
    cdef uint8_t* target = <uint8_t*>malloc(size + 1)
    cdef size_t i
    try:
        if hashes == NULL or target == NULL:
            raise MemoryError
        for i in range(count):
            hashes[i] = hash64(<const uint8_t*><const char*>(<bytes>keys[i]), len(keys[i]))
        filter_build(target, size, hashes, count, bits_per_key)
        return (<const char*>target)[:size]
    finally:
        free(hashes)
        free(target)


def ask_filter(bytes bits, bytes key, int bits_per_key):
    """Return whether the key may be in the filter."""
    return bool(
        filter_may_contain(
            <const uint8_t*><const char*>bits, len(bits),
            hash64(<const uint8_t*><const char*>key, len(key)), bits_per_key,
        )
    )


def filter_bytes(uint64_t keys, int bits_per_key):
    return filter_size(keys, bits_per_key)


# ------------------------------------------------------------------------------------------- cache

cdef class Pinned:
    """A block that is held until close()."""

    cdef Block* block
    cdef BlockCache cache        # keeps it alive

    @property
    def data(self):
        return (<const char*>self.block.data)[: self.block.size]

    @property
    def in_cache(self):
        return bool(self.block.in_cache)

    def repin(self, uint64_t file_id, uint64_t offset):
        """Whether the header still is that block, as a lookup through a hint sees it."""
        cdef Block* again = block_try_pin(self.block, file_id, offset)
        if again != NULL:
            block_unref(again)
        return again != NULL

    def close(self):
        if self.block != NULL:
            block_unref(self.block)
            self.block = NULL

    def __dealloc__(self):
        self.close()


@cython.final
cdef class BlockCache:
    """A block cache; close() only when nothing is pinned and no table uses it."""

    cdef Cache* cache

    def __cinit__(self, uint64_t capacity_bytes):
        self.cache = cache_create(capacity_bytes)
        if self.cache == NULL:
            raise MemoryError

    def __dealloc__(self):
        cache_free(self.cache)

    cdef Pinned pinned(self, Block* block):
        cdef Pinned result = Pinned.__new__(Pinned)
        result.block = block
        result.cache = self
        return result

    def find(self, uint64_t file_id, uint64_t offset):
        cdef Block* block = cache_find(self.cache, file_id, offset)
        return None if block == NULL else self.pinned(block)

    def add(self, uint64_t file_id, uint64_t offset, bytes data, bint insert=True):
        cdef size_t size = len(data)
        cdef uint8_t* copy = <uint8_t*>malloc(size + 1)
        if copy == NULL:
            raise MemoryError
        memcpy(copy, <const char*>data, size)
        cdef Block* block = cache_add(self.cache, file_id, offset, copy, size, insert)
        if block == NULL:
            raise MemoryError
        return self.pinned(block)

    def set_capacity(self, uint64_t capacity_bytes):
        cache_set_capacity(self.cache, capacity_bytes)

    def reserve(self, uint64_t size):
        cache_reserve(self.cache, size)

    def charge(self, long long size):
        cache_charge(self.cache, size)

    def drop_file(self, uint64_t file_id):
        cache_drop_file(self.cache, file_id)

    def stats(self):
        cdef CacheStats stats
        cache_stats(self.cache, &stats)
        return dict(stats)

    def time_hits(self, uint64_t file_id, list offsets, int rounds, bint by_hint=False):
        """Return nanoseconds per lookup, pin and release of blocks that are all there."""
        cdef size_t count = len(offsets)
        cdef uint64_t* places = <uint64_t*>malloc(count * sizeof(uint64_t))
        cdef Block** hints = <Block**>calloc(count, sizeof(Block*))
        cdef size_t i
        cdef int _
        cdef uint64_t start
        cdef Block* block
        for i in range(count):
            places[i] = offsets[i]
            hints[i] = cache_find(self.cache, file_id, places[i])
            block_unref(hints[i])
        with nogil:
            start = cpu_ns()
            for _ in range(rounds):
                for i in range(count):
                    if by_hint:
                        block = block_try_pin(hints[i], file_id, places[i])
                    else:
                        block = cache_find(self.cache, file_id, places[i])
                    block_unref(block)
            start = cpu_ns() - start
        free(places)
        free(hints)
        return start / (rounds * count)


# ------------------------------------------------------------------------------------------ tables

cdef dict info_dict(const TableInfo* info):
    return {
        "file_id": info.file_id,
        "file_bytes": info.file_bytes,
        "unique_id": info.unique_id,
        "entries": info.entries,
        "deletions": info.deletions,
        "min_seqno": info.min_seqno,
        "max_seqno": info.max_seqno,
        "raw_bytes": info.raw_bytes,
        "smallest": bytes_from(slice_of(info.smallest, info.smallest_size)),
        "largest": bytes_from(slice_of(info.largest, info.largest_size)),
    }


@cython.final
cdef class SSTableWriter:
    """Writes an SSTable entry by entry; finish() returns what the manifest would keep."""

    cdef TableWriter* writer
    cdef bytes tree_name                 # borrowed by the writer

    def __init__(
        self, str path, *, uint64_t file_id=1, uint64_t tree_id=7, uint32_t level=0,
        uint32_t block_bytes=4096, uint32_t restart_interval=16, uint32_t filter_bits=10,
        int codec=0, int compression_level=1, keys=None, tree_name=None, bint tree_hashed=False,
    ):
        cdef TableOptions options
        cdef Failure failure
        failure_clear(&failure)
        options.block_bytes = block_bytes
        options.restart_interval = restart_interval
        options.filter_bits = filter_bits
        options.codec = codec
        options.compression_level = compression_level
        options.keyring = NULL if keys is None else <void*>keys
        self.writer = table_writer_open(
            os.fsencode(path), file_id, tree_id, level, &options, &failure
        )
        if self.writer == NULL:
            raise_failure(&failure)
        if tree_name is not None:
            self.tree_name = tree_name.encode()
            table_writer_name_tree(self.writer, slice_from(self.tree_name), tree_hashed)

    def add(self, bytes key, uint64_t tag, bytes value):
        cdef Failure failure
        failure_clear(&failure)
        raise_status(
            table_writer_add(self.writer, slice_from(key), tag, slice_from(value), &failure),
            &failure,
        )

    def add_many(self, list entries):
        """Add (key, tag, value) entries. Returns: nanoseconds spent in the writer."""
        cdef Failure failure
        cdef size_t count = len(entries)
        cdef size_t i
        cdef int status = OK
        cdef uint64_t spent
        cdef Slice* keys = <Slice*>malloc((count + 1) * sizeof(Slice))
        cdef Slice* values = <Slice*>malloc((count + 1) * sizeof(Slice))
        cdef uint64_t* tags = <uint64_t*>malloc((count + 1) * sizeof(uint64_t))
        failure_clear(&failure)
        for i in range(count):
            key, tag, value = entries[i]
            keys[i] = slice_from(key)
            values[i] = slice_from(value)
            tags[i] = tag
        with nogil:
            spent = cpu_ns()
            for i in range(count):
                status = table_writer_add(self.writer, keys[i], tags[i], values[i], &failure)
                if status != OK:
                    break
            spent = cpu_ns() - spent
        free(keys)
        free(values)
        free(tags)
        raise_status(status, &failure)
        return spent

    @property
    def size_bytes(self):
        return table_writer_bytes(self.writer)

    def finish(self):
        cdef Failure failure
        cdef TableInfo info
        cdef int status
        cdef TableWriter* writer = self.writer
        failure_clear(&failure)
        self.writer = NULL
        with nogil:
            status = table_writer_finish(writer, &info, &failure)
        raise_status(status, &failure)
        try:
            return info_dict(&info)
        finally:
            table_info_free(&info)

    def abandon(self):
        table_writer_abandon(self.writer)
        self.writer = NULL

    def __dealloc__(self):
        table_writer_abandon(self.writer)


def write_table(str path, list entries, **options):
    """Write an SSTable of (key, tag, value) entries. Returns: its info."""
    writer = SSTableWriter(path, **options)
    writer.add_many(entries)
    return writer.finish()


@cython.final
cdef class _ManyKeys:
    """The arrays table_get_many works on."""

    cdef list owner              # keeps the keys alive
    cdef int count
    cdef Slice* keys
    cdef uint64_t* hashes
    cdef Found* found
    cdef int* statuses

    def __cinit__(self, list keys):
        cdef int i
        self.owner = keys
        self.count = <int>len(keys)
        self.keys = <Slice*>malloc((self.count + 1) * sizeof(Slice))
        self.hashes = <uint64_t*>malloc((self.count + 1) * sizeof(uint64_t))
        self.found = <Found*>malloc((self.count + 1) * sizeof(Found))
        self.statuses = <int*>malloc((self.count + 1) * sizeof(int))
        if not (self.keys and self.hashes and self.found and self.statuses):
            raise MemoryError
        for i in range(self.count):
            self.keys[i] = slice_from(keys[i])
            self.hashes[i] = hash64(self.keys[i].data, self.keys[i].size)
            self.statuses[i] = NOT_FOUND

    def __dealloc__(self):
        free(self.keys)
        free(self.hashes)
        free(self.found)
        free(self.statuses)


@cython.final
cdef class SSTable:
    """An open SSTable."""

    cdef Table* table
    cdef BlockCache cache        # keeps it alive

    def __init__(
        self, str path, *, uint64_t file_id=1, uint64_t file_bytes=0, uint64_t unique_id=0,
        BlockCache cache=None, keys=None,
    ):
        cdef Failure failure
        failure_clear(&failure)
        self.cache = cache
        self.table = table_open(
            os.fsencode(path), file_id, file_bytes, unique_id,
            NULL if cache is None else cache.cache, NULL if keys is None else <void*>keys,
            &failure,
        )
        if self.table == NULL:
            raise_failure(&failure)

    @property
    def key_id(self):
        """Of the data key it is encrypted under; 0: not encrypted."""
        return table_key_id(self.table)

    def load(self):
        cdef Failure failure
        failure_clear(&failure)
        raise_status(table_load(self.table, &failure), &failure)

    def get(
        self, bytes key, uint64_t seqno=(1 << 56) - 1, bint may_block=True, bint fill_cache=True
    ):
        """Return (tag, value) of the newest entry with at most that seqno, or None."""
        cdef Failure failure
        cdef Found found
        cdef Slice wanted = slice_from(key)
        cdef uint64_t key_hash = hash64(wanted.data, wanted.size)
        cdef int status
        failure_clear(&failure)
        with nogil:
            status = table_get(
                self.table, wanted, key_hash, seqno, may_block, fill_cache, &found, &failure
            )
        if status == OK:
            result = found.tag, bytes_from(found.value)
            found_release(&found)
            return result
        return raise_status(status, &failure)

    def get_many(self, list keys, uint64_t seqno=(1 << 56) - 1, bint may_block=True):
        """Return what get() gives for each key; "block" where it would block."""
        cdef _ManyKeys many = _ManyKeys(keys)
        cdef Failure failure
        cdef int status
        cdef int i
        failure_clear(&failure)
        with nogil:
            status = table_get_many(
                self.table, many.keys, many.hashes, many.count, seqno, may_block, True,
                many.found, many.statuses, &failure,
            )
        result = []
        for i in range(many.count):
            if many.statuses[i] == OK:
                result.append((many.found[i].tag, bytes_from(many.found[i].value)))
                found_release(&many.found[i])
            else:
                result.append("block" if many.statuses[i] == WOULD_BLOCK else None)
        raise_status(status, &failure)
        return result

    def time_get_many(self, list keys, int group):
        """Return nanoseconds per key when so many are looked up at once."""
        cdef _ManyKeys many = _ManyKeys(keys)
        cdef Failure failure
        cdef int status = OK
        cdef int at = 0
        cdef int size
        cdef int i
        cdef uint64_t spent
        failure_clear(&failure)
        with nogil:
            spent = cpu_ns()
            while at < many.count and status == OK:
                size = min(group, many.count - at)
                status = table_get_many(
                    self.table, many.keys + at, many.hashes + at, size, (<uint64_t>1 << 56) - 1,
                    True, True, many.found + at, many.statuses + at, &failure,
                )
                for i in range(at, at + size):
                    if many.statuses[i] == OK:
                        found_release(&many.found[i])
                at += size
            spent = cpu_ns() - spent
        raise_status(status, &failure)
        return spent / max(many.count, 1)

    def verify(self):
        cdef Failure failure
        cdef int status
        failure_clear(&failure)
        with nogil:
            status = table_verify(self.table, &failure)
        raise_status(status, &failure)

    def source(self, bint fill_cache=True, bint readahead=False):
        cdef SourceDoor door = SourceDoor.__new__(SourceDoor)
        failure_clear(&door.failure)
        raise_status(
            table_source(self.table, fill_cache, readahead, &door.source, &door.failure),
            &door.failure,
        )
        door.owner = self
        return door

    def offset_of(self, bytes key):
        return table_offset_of(self.table, slice_from(key))

    def info(self):
        """Return the file's own info with tree_id and level."""
        cdef Failure failure
        cdef TableInfo info
        cdef uint64_t tree_id = 0
        cdef uint64_t level = 0
        failure_clear(&failure)
        raise_status(table_read_info(self.table, &info, &tree_id, &level, &failure), &failure)
        try:
            return info_dict(&info) | {"tree_id": tree_id, "level": level}
        finally:
            table_info_free(&info)

    def properties(self):
        """Return the msgpack bytes of the properties."""
        cdef Failure failure
        cdef uint8_t* data = NULL
        cdef size_t size = 0
        failure_clear(&failure)
        raise_status(table_read_properties(self.table, &data, &size, &failure), &failure)
        try:
            return (<const char*>data)[:size]
        finally:
            free(data)

    @property
    def memory_bytes(self):
        return table_memory(self.table)

    @property
    def block_count(self):
        self.load()
        return self.table.block_count

    @property
    def is_in_parts(self):
        return self.table.parts != NULL

    @property
    def has_buckets(self):
        return self.table.index.buckets != NULL

    @property
    def shared_key_bytes(self):
        return self.table.index.common_size

    def block_entries(self, uint32_t i):
        """Return data block i as (key, tag, value) entries; the index is loaded."""
        cdef Failure failure
        cdef BlockCursor cursor
        cdef Block* block = NULL
        cdef int status
        failure_clear(&failure)
        if i >= self.table.index.count or self.table.parts != NULL:
            raise IndexError(i)
        raise_status(
            table_block(self.table, &self.table.index.slots[i], True, False, &block, &failure),
            &failure,
        )
        block_cursor_init(&cursor)
        try:
            entries = []
            status = block_cursor_open(&cursor, block.data, block.size)
            if status == OK:
                status = block_cursor_first(&cursor)
            while status == OK:
                entries.append((bytes_from(cursor.key), cursor.tag, bytes_from(cursor.value)))
                status = block_cursor_next(&cursor)
            if status != END:
                table_damaged(
                    self.table, "a block is damaged", self.table.index.slots[i].offset, &failure
                )
                raise_failure(&failure)
            return entries
        finally:
            block_cursor_free(&cursor)
            block_unref(block)

    def separator(self, uint32_t i):
        """Return a key at or behind the last one of block i and before the first of the next."""
        cdef const TableIndex* index = &self.table.index
        cdef uint64_t start
        if i >= index.count or self.table.parts != NULL:
            raise IndexError(i)
        start = index.key_ends[i - 1] if i else 0
        return bytes_from(slice_of(index.common, index.common_size)) + bytes_from(
            slice_of(index.keys + start, index.key_ends[i] - start)
        )

    def obsolete(self):
        table_obsolete(self.table)

    def close(self):
        if self.table != NULL:
            table_unref(self.table)
            self.table = NULL

    def __dealloc__(self):
        self.close()

    def time_gets(self, list keys, int rounds, bint may_block=True):
        """Return (nanoseconds per get, how many were found)."""
        cdef size_t count = len(keys)
        cdef Slice* slices = <Slice*>malloc((count + 1) * sizeof(Slice))
        cdef uint64_t* hashes = <uint64_t*>malloc((count + 1) * sizeof(uint64_t))
        cdef size_t i
        cdef int _
        cdef uint64_t spent
        cdef uint64_t hits = 0
        cdef Found found
        cdef Failure failure
        failure_clear(&failure)
        for i in range(count):
            slices[i] = slice_from(keys[i])
            hashes[i] = hash64(slices[i].data, slices[i].size)
        with nogil:
            spent = cpu_ns()
            for _ in range(rounds):
                for i in range(count):
                    if table_get(
                        self.table, slices[i], hashes[i], (<uint64_t>1 << 56) - 1, may_block, True,
                        &found, &failure,
                    ) == OK:
                        hits += 1
                        found_release(&found)
            spent = cpu_ns() - spent
        free(slices)
        free(hashes)
        raise_failure(&failure)
        return spent / (rounds * count), hits


@cython.final
cdef class SourceDoor:
    """A Source over a table; moves return its status, errors are raised."""

    cdef Source source
    cdef Failure failure
    cdef SSTable owner

    def __dealloc__(self):
        self.close()

    def close(self):
        if self.source.state != NULL:
            self.source.ops.close(&self.source)

    @property
    def status(self):
        return self.source.status

    @property
    def entry(self):
        return bytes_from(self.source.key), self.source.tag, bytes_from(self.source.value)

    cdef bint moved(self) except -1:
        raise_status(self.source.status, &self.failure)
        return self.source.status == OK

    def first(self, bint may_block=True):
        self.source.ops.first(&self.source, may_block, &self.failure)
        return self.moved()

    def last(self, bint may_block=True):
        self.source.ops.last(&self.source, may_block, &self.failure)
        return self.moved()

    def next(self, bint may_block=True):
        self.source.ops.next(&self.source, may_block, &self.failure)
        return self.moved()

    def prev(self, bint may_block=True):
        self.source.ops.prev(&self.source, may_block, &self.failure)
        return self.moved()

    def seek(self, bytes key, uint64_t tag, bint may_block=True):
        self.source.ops.seek(&self.source, slice_from(key), tag, may_block, &self.failure)
        return self.moved()

    def seek_back(self, bytes key, uint64_t tag, bint may_block=True):
        self.source.ops.seek_back(&self.source, slice_from(key), tag, may_block, &self.failure)
        return self.moved()

    def collect(self, bint reverse=False, limit=None):
        """Return the entries from the first (or last) one on."""
        result = []
        there = self.last() if reverse else self.first()
        while there and (limit is None or len(result) < limit):
            result.append(self.entry)
            there = self.prev() if reverse else self.next()
        return result

    def time_walk(self, bint reverse=False):
        """Walk over everything. Returns: (nanoseconds per entry, entries)."""
        cdef Source* source = &self.source
        cdef uint64_t count = 0
        cdef uint64_t spent
        with nogil:
            spent = cpu_ns()
            if reverse:
                source.ops.last(source, True, &self.failure)
                while source.status == OK:
                    count += 1
                    source.ops.prev(source, True, &self.failure)
            else:
                source.ops.first(source, True, &self.failure)
                while source.status == OK:
                    count += 1
                    source.ops.next(source, True, &self.failure)
            spent = cpu_ns() - spent
        raise_status(source.status, &self.failure)
        return spent / max(count, 1), count

    def time_seeks(self, list keys):
        """Return nanoseconds per seek."""
        cdef size_t count = len(keys)
        cdef Slice* slices = <Slice*>malloc((count + 1) * sizeof(Slice))
        cdef size_t i
        cdef uint64_t spent
        for i in range(count):
            slices[i] = slice_from(keys[i])
        with nogil:
            spent = cpu_ns()
            for i in range(count):
                self.source.ops.seek(
                    &self.source, slices[i], ~<uint64_t>0, True, &self.failure
                )
            spent = cpu_ns() - spent
        free(slices)
        raise_status(self.source.status, &self.failure)
        return spent / count


# -------------------------------------------------------------------------------------------- rest

def decode_properties(bytes data):
    """Return whether the core takes these msgpack bytes as properties, and entries and largest."""
    cdef Properties properties
    if properties_decode(slice_from(data), &properties) != OK:
        return None
    return properties.entries, bytes_from(properties.largest)


def open_descriptors():
    return descriptor_open_count()


def set_descriptor_limit(int limit):
    descriptor_set_limit(limit)


def wait_and_call_nobody(Engine engine not None, uint64_t seqno):
    """Wait until `seqno` is durable; whoever stands behind in the queue is not woken."""
    cdef Failure failure
    failure_clear(&failure)
    with nogil:
        wait_durable_in_chain(engine.core, seqno, &failure)
    raise_failure(&failure)
