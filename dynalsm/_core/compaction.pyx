# The merge loop of flush and compaction (see compaction.pxd for the contracts).
#
# Which versions stay: the held snapshots cut the sequence numbers into stripes; of each key the
# newest version of each stripe stays. A delete in the oldest stripe goes when nothing older lies
# below; a put there loses its seqno (it becomes 0, one byte), unless a deleted range still needs
# to tell older from newer.

from libc.stdio cimport snprintf
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from dynalsm._core.coding cimport Slice, key_prefix, slice_equal, slice_of
from dynalsm._core.files cimport file_remove
from dynalsm._core.memtable cimport range_list_covering
from dynalsm._core.merge cimport Copy, copy_bytes, copy_free
from dynalsm._core.source cimport KIND_DELETE
from dynalsm._core.sstable_writer cimport (
    TableWriter,
    table_info_free,
    table_writer_abandon,
    table_writer_add,
    table_writer_bytes,
    table_writer_finish,
    table_writer_name_tree,
    table_writer_open,
)
from dynalsm._core.status cimport CLOSED, END, NO_MEMORY, OK, fail
from dynalsm._core.sync cimport atomic_add, atomic_load, now_ns, sleep_ns


cdef enum:
    CHECK_ENTRIES = 256          # look at the stop flag and the rate limit so often
    PAUSE_NS = 50000000          # longest single sleep of the rate limit


cdef void table_path(
    const EngineCore* core, uint64_t tree_id, uint64_t partition_id, uint64_t file_id,
    char* target, size_t size
) noexcept nogil:
    snprintf(
        target, size, "%s/data/%06llu/%06llu/%012llu.sst", core.directory,
        <unsigned long long>tree_id, <unsigned long long>partition_id, <unsigned long long>file_id
    )


cdef inline long long stripe_of(const Job* job, uint64_t seqno) noexcept nogil:
    """Index of the first snapshot that sees seqno."""
    cdef long long low = 0
    cdef long long high = job.snapshot_count
    cdef long long middle
    if high == 1 or seqno <= job.snapshots[0]:
        return 0
    while low < high:
        middle = (low + high) >> 1
        if job.snapshots[middle] < seqno:
            low = middle + 1
        else:
            high = middle
    return low


cdef int close_output(Job* job, TableWriter* writer, Failure* failure) noexcept nogil:
    cdef int capacity, status
    cdef TableInfo* outputs
    if job.count == job.capacity:
        capacity = job.capacity * 2 if job.capacity else 8
        outputs = <TableInfo*>realloc(job.outputs, capacity * sizeof(TableInfo))
        if outputs == NULL:
            table_writer_abandon(writer)
            return fail(failure, NO_MEMORY, "no memory for a compaction", NULL, -1, 0)
        job.outputs = outputs
        job.capacity = capacity
    memset(&job.outputs[job.count], 0, sizeof(TableInfo))
    status = table_writer_finish(writer, &job.outputs[job.count], failure)
    if status == OK:
        job.bytes_written += job.outputs[job.count].file_bytes
        job.count += 1
    return status


cdef TableWriter* open_output(Job* job, Failure* failure) noexcept nogil:
    cdef char path[1200]
    cdef uint64_t file_id = atomic_add(&job.core.next_file, 1) - 1
    cdef TableWriter* writer
    cdef Slice name
    table_path(job.core, job.tree_id, job.partition_id, file_id, path, sizeof(path))
    writer = table_writer_open(path, file_id, job.tree_id, job.level, &job.options, failure)
    if writer != NULL and job.tree_name != NULL:
        name = slice_of(job.tree_name, job.tree_name_size)
        table_writer_name_tree(writer, name, job.tree_hashed)
    return writer


cdef int pause(Job* job, uint64_t start, uint64_t bytes_now, Failure* failure) noexcept nogil:
    """The stop flag and the rate limit."""
    cdef uint64_t due, passed
    if atomic_load(job.stop):
        return fail(failure, CLOSED, "the database is closing", NULL, -1, 0)
    if job.bytes_per_second:
        due = (job.bytes_written + bytes_now) * 1000 // job.bytes_per_second * 1000000
        passed = now_ns() - start
        while due > passed and not atomic_load(job.stop):
            sleep_ns(due - passed if due - passed < PAUSE_NS else PAUSE_NS)
            passed = now_ns() - start
    return OK


cdef int run_job(Job* job, Source* merged, Failure* failure) noexcept nogil:
    cdef TableWriter* writer = NULL
    cdef Copy last
    cdef int status
    memset(&last, 0, sizeof(Copy))
    status = merge_loop(job, merged, &last, &writer, failure)
    copy_free(&last)
    if writer != NULL:
        if status == OK:
            status = close_output(job, writer, failure)
        else:
            table_writer_abandon(writer)
    if status:
        job_remove_files(job)
        job_free(job)
    return status


cdef int merge_loop(
    Job* job, Source* merged, Copy* last, TableWriter** writer, Failure* failure
) noexcept nogil:
    cdef long long last_stripe = -1
    cdef long long stripe
    cdef uint64_t tag, seqno
    cdef uint64_t start = now_ns()
    cdef bint have_last = False
    cdef bint is_new_key
    cdef bint passed_cut = False
    cdef int status
    cdef bint has_ranges = job.ranges != NULL and job.ranges.count > 0
    merged.ops.first(merged, True, failure)
    while merged.status == OK:
        job.entries_in += 1
        if job.entries_in % CHECK_ENTRIES == 0:
            status = pause(
                job, start, table_writer_bytes(writer[0]) if writer[0] != NULL else 0, failure
            )
            if status:
                return status
        tag = merged.tag
        seqno = tag >> 8
        stripe = stripe_of(job, seqno)
        is_new_key = not have_last or not slice_equal(merged.key, slice_of(last.data, last.size))
        if is_new_key:
            if copy_bytes(last, merged.key):
                return fail(failure, NO_MEMORY, "no memory for a key", NULL, -1, 0)
            have_last = True
        elif stripe == last_stripe:
            merged.ops.next(merged, True, failure)       # a newer version hides it from everybody
            continue
        last_stripe = stripe
        if has_ranges and is_covered(job, merged.key, seqno, stripe):
            merged.ops.next(merged, True, failure)
            continue
        if job.is_bottom and stripe == 0:
            if tag & 0xFF == KIND_DELETE:
                merged.ops.next(merged, True, failure)
                continue
            if not has_ranges:
                tag &= 0xFF
        if writer[0] != NULL and is_new_key and (
            table_writer_bytes(writer[0]) >= job.target_bytes
            or (job.cut and not passed_cut and key_prefix(merged.key, 0) >= job.cut)
        ):
            status = close_output(job, writer[0], failure)
            writer[0] = NULL
            if status:
                return status
        if writer[0] == NULL:
            passed_cut = key_prefix(merged.key, 0) >= job.cut
            writer[0] = open_output(job, failure)
            if writer[0] == NULL:
                return failure.status
        status = table_writer_add(writer[0], merged.key, tag, merged.value, failure)
        if status:
            return status
        merged.ops.next(merged, True, failure)
    return OK if merged.status == END else merged.status


cdef inline bint is_covered(
    const Job* job, Slice key, uint64_t seqno, long long stripe
) noexcept nogil:
    """Whether a deleted range hides the version from every snapshot of its stripe."""
    cdef uint64_t limit = <uint64_t>-1
    cdef uint64_t oldest = 0
    if stripe < job.snapshot_count:
        limit = job.snapshots[stripe]
    oldest = range_list_covering(job.ranges, key, limit)
    return oldest > seqno


cdef void job_free(Job* job) noexcept nogil:
    cdef int index
    for index in range(job.count):
        table_info_free(&job.outputs[index])
    free(job.outputs)
    free(job.tree_name)
    job.tree_name = NULL
    job.outputs = NULL
    job.count = 0
    job.capacity = 0


cdef void job_remove_files(Job* job) noexcept nogil:
    cdef char path[1200]
    cdef Failure ignored
    cdef int index
    for index in range(job.count):
        table_path(
            job.core, job.tree_id, job.partition_id, job.outputs[index].file_id, path, sizeof(path)
        )
        file_remove(path, &ignored)
