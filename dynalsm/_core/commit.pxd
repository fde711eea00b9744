# The commit pipeline: one order for everything. And the engine's shared state it works on.
#
# A commit takes the commit mutex, appends one record to the current log, applies it to the
# memtables and publishes its last sequence number; waiting for stable storage happens outside,
# shared by everybody who waits (the first one syncs for all).
#
# Lock order: commit mutex -> partition mutex -> memtable mutex; commit mutex -> sync mutex;
# commit mutex -> work mutex. The snapshot mutex and the cache's are taken last and alone.
# Nobody raises or calls Python under any of them, and only encryption (cipher.pxd) takes the GIL,
# under the commit mutex; a thread that holds the GIL takes that only by trylock, or releases the
# GIL first.
#
# Invariants: (1) log order = sequence order = visibility order;
#             (2) durable_seqno never passes a record that is not on stable storage, in its own log
#                 or in an older one;
#             (3) a generation (the memtables of one log) is flushed as a whole, oldest first, and
#                 only after its log is durable: so what survives a power cut is a prefix.

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from dynalsm._core.cache cimport Cache
from dynalsm._core.partition cimport Partition, TreeCore
from dynalsm._core.status cimport Failure
from dynalsm._core.sync cimport pthread_cond_t, pthread_mutex_t
from dynalsm._core.wal cimport Wal


cdef enum:
    MAX_LOGS = 64


cdef struct Generation:
    uint64_t log_number
    uint64_t last_seqno      # everything up to here is in it or older
    uint64_t bytes           # of its memtables


cdef struct Counters:        # atomic adds; read without a lock
    uint64_t commits
    uint64_t entries
    uint64_t log_bytes
    uint64_t user_bytes      # keys and values written by users
    uint64_t syncs
    uint64_t gets
    uint64_t get_blocked     # gets that had to read a file
    uint64_t flush_bytes
    uint64_t compaction_read_bytes
    uint64_t compaction_written_bytes
    uint64_t compactions
    uint64_t flushes
    uint64_t stall_ns
    uint64_t slowdown_ns
    uint64_t stalls


cdef struct Waiter:          # guarded by sync_mutex; on the stack of the thread that waits
    uint64_t seqno           # that is to be durable
    int call                 # what it was called for (durability.pyx); 0: not yet
    pthread_cond_t called
    Waiter* next


cdef struct EngineCore:
    char directory[1024]
    # --- the commit: guarded by commit_mutex
    pthread_mutex_t commit_mutex
    uint64_t last_seqno
    uint64_t mutable_bytes   # of all active memtables
    uint64_t reserve_at      # mutable_bytes at which the cache is next asked for room
    uint64_t next_file       # atomic: numbers of logs, tables and manifests
    TreeCore** trees         # by tree id; NULL: no such tree. Replaced under the commit mutex
    uint64_t tree_capacity
    uint64_t write_buffer_bytes
    uint64_t visible_seqno   # atomic
    # --- durability: guarded by sync_mutex
    pthread_mutex_t sync_mutex
    bint is_led              # somebody syncs, or removes old logs (durability.pxd)
    Waiter* waiting          # in the order they came
    Waiter* waiting_last
    Waiter* finished         # not yet called
    Waiter* finished_last
    uint64_t mean_sync_ns    # atomic: what a sync took of late
    bint is_log_directory_dirty      # a log's name is not yet on stable storage
    Wal* wal                 # replaced under both mutexes
    Wal* old_logs[MAX_LOGS]  # rotated, oldest first, until their generation is flushed
    int old_log_count
    uint64_t durable_seqno   # atomic
    # --- refusal: set once, never cleared (poisoned), or cleared by resume (full)
    uint64_t is_poisoned     # atomic
    Failure poison           # the first failure; written before is_poisoned
    # --- background work: guarded by work_mutex
    pthread_mutex_t work_mutex
    pthread_cond_t work_wanted       # flush and compaction threads wait here
    pthread_cond_t work_done         # stalled writers and flush() wait here
    Generation generations[MAX_LOGS]     # sealed, oldest first
    int generation_count
    int stall_generations    # writers wait at so many sealed generations
    uint64_t work_ticket     # grows with every reason to look for work
    bint is_stopping
    uint64_t ingest_thread   # atomic: holds the flush lock, so it does not wait for flushes; or 0
    bint is_flush_failing    # the last flush failed; writers see its failure
    Failure flush_failure
    uint64_t slowdown_ns_per_kib     # atomic: pacing asked for by the background
    uint64_t slowdown_debt_ns        # guarded by commit_mutex: delay owed, slept when worth it
    # --- snapshots: guarded by snapshot_mutex
    pthread_mutex_t snapshot_mutex
    uint64_t* snapshots      # ascending seqnos, with repetitions
    uint64_t snapshot_count
    uint64_t snapshot_capacity
    Cache* cache
    void* keyring            # borrowed from the engine: keyring.Keyring; NULL: not encrypted
    Counters counters


cdef EngineCore* core_create() noexcept nogil
# Let go of the log's files: those of a closed engine. REQUIRES: no call is inside.
cdef void core_close_logs(EngineCore* core) noexcept nogil
cdef void core_free(EngineCore* core) noexcept nogil

# Registers and returns the newest visible seqno; 2**64-1 for want of memory.
cdef uint64_t snapshot_take(EngineCore* core) noexcept nogil
cdef int snapshot_hold(EngineCore* core, uint64_t seqno) noexcept nogil
cdef void snapshot_drop(EngineCore* core, uint64_t seqno) noexcept nogil
# Copies the held seqnos and, behind them, the newest visible one. Returns: their number, or -1.
cdef long long snapshot_list(EngineCore* core, uint64_t** out) noexcept nogil

# Remembers the first failure and refuses writes from now on.
cdef void core_poison(EngineCore* core, const Failure* failure) noexcept nogil
# Fills in that failure. Returns: POISONED. REQUIRES: is_poisoned.
cdef int core_refuse(EngineCore* core, Failure* failure) noexcept nogil

# Puts the payload into the log and the memtables. REQUIRES: the commit mutex. stamps: offsets of
# 8-byte places in the payload, with the entry's index, to be filled with its seqno.
cdef struct Stamp:
    uint64_t offset
    uint32_t entry


cdef int commit_locked(
    EngineCore* core, uint8_t* payload, size_t size, uint32_t count, const Stamp* stamps,
    size_t stamp_count, uint64_t* last_seqno, Failure* failure
) noexcept nogil

# Takes the commit mutex; waits (never under the mutex) as pacing and stalls ask.
# Returns WOULD_BLOCK when may_block is False and the mutex is taken or a wait is due.
cdef int commit(
    EngineCore* core, uint8_t* payload, size_t size, uint32_t count, const Stamp* stamps,
    size_t stamp_count, bint may_block, uint64_t* last_seqno, Failure* failure
) noexcept nogil

# Applies a payload to the memtables; used by the commit and by recovery. Entries of dropped trees
# are skipped. REQUIRES: the commit mutex (or sole ownership).
cdef int apply_payload(
    EngineCore* core, const uint8_t* payload, size_t size, uint64_t first_seqno, uint32_t count,
    uint64_t generation, Failure* failure
) noexcept nogil

# Seals every active memtable and starts a new log. REQUIRES: the commit mutex.
cdef int rotate_locked(EngineCore* core, Failure* failure) noexcept nogil

# Tells the cache what the memtables take of the budget. Any thread, no mutex held but the commit's.
cdef void core_reserve(EngineCore* core) noexcept nogil
