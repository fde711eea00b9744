# One directory of trees, as Python sees it.
#
# Lock order among the Python locks: _admin (trees, manifest, installs of versions) before any core
# mutex, which are only ever taken inside nogil sections or by try.
# Lifetime: the core is freed with the Engine object; trees, cursors and snapshots hold a
# reference to it. close() waits for calls under way, then frees what holds memory and files.

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from dynalsm._core.chain cimport Chain, Handle
from dynalsm._core.commit cimport EngineCore, Stamp
from dynalsm._core.partition cimport Partition, TreeCore
from dynalsm._core.sstable_writer cimport TableOptions


cdef class Engine:
    cdef EngineCore* core
    cdef uint64_t users              # atomic: calls under way
    cdef uint64_t closing            # atomic: no new calls
    cdef uint64_t stop               # atomic: background jobs end soon
    cdef uint64_t forks              # process generation at open
    cdef bint wait_for_sync          # durability "commit"
    cdef bint flushes_inline         # no background threads: the writer flushes
    cdef Partition** retired         # owned: partitions no longer routed to
    cdef uint64_t retired_count
    cdef TableOptions top_options    # level 0
    cdef TableOptions deep_options
    cdef uint64_t target_file_bytes
    cdef uint64_t partition_limit_bytes
    cdef uint64_t compaction_bytes_per_second
    cdef readonly str path
    cdef readonly str durability
    cdef readonly bint read_only
    cdef readonly dict options
    cdef public object manifest      # manifest.Manifest, or None when read-only
    cdef public object state         # state.State: what the manifest says. Guarded by admin
    cdef public uint64_t replay_generation
    cdef public uint64_t replayed_logs   # how many the open had to read
    cdef public object lock          # the held directory lock
    cdef readonly object keys        # keyring.Keyring, or None: not encrypted
    cdef readonly object admin       # threading.RLock: trees, manifest, installs
    cdef readonly object flush_lock  # one flush at a time
    cdef readonly object picker_options
    cdef readonly object workers              # background.Workers
    cdef readonly dict trees                  # name -> Tree
    cdef Chain chain                 # of open cursors and snapshots
    cdef public uint64_t next_tree_id
    cdef public uint64_t next_partition_id
    cdef public uint64_t flushed_seqno
    cdef public dict events          # counts and timings of background work, for stats()
    cdef object __weakref__

    cdef int enter(self) except -1   # counts the call in; ClosedError, ForkedProcessError
    cdef void leave(self) noexcept
    cdef int check_writable(self) except -1
    cdef uint64_t write_payload(
        self, uint8_t* payload, size_t size, uint32_t count, const Stamp* stamps,
        size_t stamp_count
    ) except? 0
    cdef int wait_seqno(self, uint64_t seqno) except -1


cdef class Snapshot


cdef class Tree:
    cdef readonly Engine engine
    cdef TreeCore* core              # owned by the engine
    cdef readonly str name
    cdef object __weakref__

    cdef int check_alive(self) except -1

    # The value of a key; None when there is none.
    cdef bytes find(self, bytes key, Snapshot snapshot, bint fill_cache)
    cdef object write_one(self, int kind, bytes key, bytes value, object sync)
    cdef int get_group(
        self, list wanted, list values, Snapshot snapshot, bint fill_cache
    ) except -1


cdef class Batch:
    cdef Engine engine
    cdef uint8_t* payload            # owned
    cdef size_t size
    cdef size_t capacity
    cdef uint32_t count
    cdef Stamp* stamps               # owned
    cdef size_t stamp_count
    cdef size_t stamp_capacity

    cdef uint8_t* grow(self, size_t more) except NULL
    cdef int add(
        self, int kind, Tree tree, const char* key, size_t key_size, const char* value,
        size_t value_size
    ) except -1


cdef class Snapshot(Handle):
    cdef readonly Engine engine
    cdef readonly uint64_t seqno
