# Waiting for stable storage: see durability.pxd for the contract.

from libc.stdint cimport uint64_t
from libc.stdio cimport snprintf
from libc.string cimport memcpy

from dynalsm._core.commit cimport MAX_LOGS, EngineCore, Waiter, core_poison, core_refuse
from dynalsm._core.files cimport directory_sync
from dynalsm._core.status cimport IO_ERROR, OK, POISONED, WRITE_FAILED, Failure
from dynalsm._core.sync cimport (
    atomic_add,
    atomic_load,
    atomic_store,
    now_ns,
    pthread_cond_destroy,
    pthread_cond_init,
    pthread_cond_signal,
    pthread_mutex_lock,
    pthread_mutex_unlock,
    wait_for,
)
from dynalsm._core.wal cimport Wal, wal_clear_ahead, wal_needs_zeros, wal_sync

cdef enum:
    # What a waiter was called for.
    NOTHING = 0
    TO_GO_ON = 1
    TO_LEAD = 2
    # Of about so many syncs mean_sync_ns is the mean: one slow one does not make a disk slow.
    MEAN_SYNCS = 16
    # Who need not wait any more goes after so long, called or not.
    CALL_NS = 200000000

# Waits for its turn to lead, whatever is durable.
cdef uint64_t FOR_THE_LEAD = <uint64_t>-1


# ------------------------------------------------------------------------------------- the queue

cdef int wait_in_line(EngineCore* core, uint64_t seqno) noexcept nogil:
    """Lead at once if nobody does, else queue. REQUIRES: the sync mutex. Returns: what for."""
    cdef Waiter waiter
    if not core.is_led:
        core.is_led = True
        return TO_LEAD
    waiter.seqno = seqno
    waiter.call = NOTHING
    waiter.next = NULL
    pthread_cond_init(&waiter.called, NULL)
    if core.waiting == NULL:
        core.waiting = &waiter
    else:
        core.waiting_last.next = &waiter
    core.waiting_last = &waiter
    while waiter.call == NOTHING:
        if wait_for(&waiter.called, &core.sync_mutex, CALL_NS) and leave_finished(core, &waiter):
            waiter.call = TO_GO_ON
    pthread_cond_destroy(&waiter.called)
    return waiter.call


cdef void resign(EngineCore* core) noexcept nogil:
    """Hand the lead to the first who waits. REQUIRES: the sync mutex, and the lead."""
    cdef Waiter* next = core.waiting
    if next == NULL:
        core.is_led = False
        return
    core.waiting = next.next
    next.call = TO_LEAD
    pthread_cond_signal(&next.called)


cdef void sort_out(EngineCore* core, bint all_of_them) noexcept nogil:
    """Move who need not wait any more to `finished`. REQUIRES: the sync mutex, and the lead."""
    cdef uint64_t durable = atomic_load(&core.durable_seqno)
    cdef Waiter** link = &core.waiting
    cdef Waiter* last = NULL
    cdef Waiter* each
    while link[0] != NULL:
        each = link[0]
        if each.seqno <= durable or (all_of_them and each.seqno != FOR_THE_LEAD):
            link[0] = each.next
            each.next = NULL
            if core.finished == NULL:
                core.finished = each
            else:
                core.finished_last.next = each
            core.finished_last = each
        else:
            last = each
            link = &each.next
    core.waiting_last = last


cdef bint leave_finished(EngineCore* core, Waiter* waiter) noexcept nogil:
    """Go without being called, if that is all it waits for. REQUIRES: the sync mutex.

    Who should call may never get the GIL again: at the end of the interpreter threads just stop."""
    cdef Waiter** link = &core.finished
    cdef Waiter* last = NULL
    while link[0] != NULL and link[0] != waiter:
        last = link[0]
        link = &last.next
    if link[0] == NULL:
        return False
    link[0] = waiter.next
    if core.finished_last == waiter:
        core.finished_last = last
    return True


cdef void call_next(EngineCore* core) noexcept nogil:
    """REQUIRES: the sync mutex."""
    cdef Waiter* next = core.finished
    if next != NULL:
        core.finished = next.next
        next.call = TO_GO_ON
        pthread_cond_signal(&next.called)


cdef void pass_on(EngineCore* core) noexcept nogil:
    pthread_mutex_lock(&core.sync_mutex)
    call_next(core)
    pthread_mutex_unlock(&core.sync_mutex)


# -------------------------------------------------------------------------------------- the sync

cdef int sync_logs(EngineCore* core, uint64_t* reached, Failure* failure) noexcept nogil:
    """Make all logs durable, oldest first. REQUIRES: this thread leads.

    *reached is the newest seqno that was in the logs when it started."""
    cdef Wal* logs[MAX_LOGS + 1]
    cdef char path[1100]
    cdef int count, index, status
    cdef bint dirty
    pthread_mutex_lock(&core.sync_mutex)
    # Visible commits are in the logs listed below: a rotation would need this mutex.
    reached[0] = atomic_load(&core.visible_seqno)
    count = core.old_log_count
    memcpy(logs, core.old_logs, count * sizeof(Wal*))
    logs[count] = core.wal
    dirty = core.is_log_directory_dirty
    core.is_log_directory_dirty = False
    pthread_mutex_unlock(&core.sync_mutex)
    if dirty:
        snprintf(path, sizeof(path), "%s/wal", core.directory)
        status = directory_sync(path, failure)
        if status:
            pthread_mutex_lock(&core.sync_mutex)
            core.is_log_directory_dirty = True
            pthread_mutex_unlock(&core.sync_mutex)
            return status
    for index in range(count + 1):
        if logs[index].synced < atomic_load(&logs[index].size):
            status = wal_sync(logs[index], failure)
            if status:                   # final whatever the reason: the pages may be gone
                failure.status = POISONED if status == POISONED else WRITE_FAILED
                return failure.status
        if index:
            logs[index].older_synced = True
    atomic_add(&core.counters.syncs, 1)
    return OK


cdef int lead(EngineCore* core, Failure* failure) noexcept nogil:
    """Sync for everybody who waits, then resign. REQUIRES: the lead; no mutex."""
    cdef uint64_t reached = 0
    cdef uint64_t start = now_ns()
    cdef Wal* wal
    cdef int status
    if atomic_load(&core.is_poisoned):
        status = core_refuse(core, failure)
    else:
        status = sync_logs(core, &reached, failure)
        if status and status != IO_ERROR:    # IO_ERROR: the directory could not be opened just now
            core_poison(core, failure)       # the kernel may have dropped the pages: no second try
    note_time(core, now_ns() - start)
    pthread_mutex_lock(&core.sync_mutex)
    if status == OK and reached > atomic_load(&core.durable_seqno):
        atomic_store(&core.durable_seqno, reached)
    sort_out(core, atomic_load(&core.is_poisoned) != 0)
    wal = core.wal
    if status == OK and wal_needs_zeros(wal):
        # Here and not in a thread of its own: it takes 0.2 ms in a thousand commits.
        # Those who need not wait for it are called before.
        call_next(core)
        pthread_mutex_unlock(&core.sync_mutex)
        wal_clear_ahead(wal)
        pthread_mutex_lock(&core.sync_mutex)
    resign(core)
    pthread_mutex_unlock(&core.sync_mutex)
    return status


cdef void note_time(EngineCore* core, uint64_t took_ns) noexcept nogil:
    cdef uint64_t mean_ns = atomic_load(&core.mean_sync_ns)
    atomic_store(&core.mean_sync_ns, (mean_ns * (MEAN_SYNCS - 1) + took_ns) // MEAN_SYNCS)


cdef int wait_durable_in_chain(EngineCore* core, uint64_t seqno, Failure* failure) noexcept nogil:
    cdef int call = TO_GO_ON
    if atomic_load(&core.durable_seqno) >= seqno:
        return OK
    pthread_mutex_lock(&core.sync_mutex)
    if atomic_load(&core.durable_seqno) < seqno:
        call = wait_in_line(core, seqno)
    pthread_mutex_unlock(&core.sync_mutex)
    if call == TO_LEAD:
        return lead(core, failure)
    # Called though it is not durable: the engine has begun to refuse.
    if atomic_load(&core.durable_seqno) < seqno:
        return core_refuse(core, failure)
    return OK


cdef int wait_durable(EngineCore* core, uint64_t seqno, Failure* failure) noexcept nogil:
    cdef int status = wait_durable_in_chain(core, seqno, failure)
    pass_on(core)
    return status


cdef int core_sync(EngineCore* core, Failure* failure) noexcept nogil:
    cdef int status
    pthread_mutex_lock(&core.sync_mutex)
    wait_in_line(core, FOR_THE_LEAD)
    pthread_mutex_unlock(&core.sync_mutex)
    status = lead(core, failure)
    pass_on(core)
    return status


cdef int take_old_logs(EngineCore* core, uint64_t last_number, void** gone) noexcept nogil:
    cdef int count = 0
    cdef int index
    pthread_mutex_lock(&core.sync_mutex)
    wait_in_line(core, FOR_THE_LEAD)         # a sync under way may be using the logs
    while core.old_log_count and core.old_logs[0].number <= last_number:
        gone[count] = core.old_logs[0]
        count += 1
        core.old_log_count -= 1
        for index in range(core.old_log_count):
            core.old_logs[index] = core.old_logs[index + 1]
    resign(core)
    pthread_mutex_unlock(&core.sync_mutex)
    return count
