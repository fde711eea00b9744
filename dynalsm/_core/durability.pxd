# Waiting for stable storage: one fdatasync for everybody who waits.
#
# The first one who waits leads: it syncs all logs for itself and for everything committed before
# it began. Who comes meanwhile queues; when the sync ends, the first of those whose commits it did
# not cover is told to lead the next one, and starts at once. Those it did cover are called one
# after the other (Waiter): the leader calls the first, and each one calls the next, when it has
# the GIL again, so that they do not wake up only to fall asleep over that. (8 threads, 100-byte
# puts: 18 microseconds of CPU a put and 55,000 puts/s; 31 and 38,000 when all were woken at once,
# even those who had to wait on. Waiting for larger groups, or leading several times in a row, gave
# no more.)
#
# Guarded by EngineCore.sync_mutex. Leading is also the right to use and remove old logs.
# Invariant: while anybody stands in `finished`, somebody who was called has yet to call
# pass_on (if that one cannot, they go by themselves after a while); while anybody stands in
# `waiting`, somebody leads.

from libc.stdint cimport uint64_t

from dynalsm._core.commit cimport EngineCore
from dynalsm._core.status cimport Failure


# Returns when everything up to seqno is on stable storage.
cdef int wait_durable(EngineCore* core, uint64_t seqno, Failure* failure) noexcept nogil
# The same, but the caller must call pass_on afterwards, once it has the GIL, and soon.
cdef int wait_durable_in_chain(EngineCore* core, uint64_t seqno, Failure* failure) noexcept nogil
cdef void pass_on(EngineCore* core) noexcept nogil
# Makes all logs durable, with their names and headers, whether anybody waits for them or not.
cdef int core_sync(EngineCore* core, Failure* failure) noexcept nogil
# Takes out the old logs up to that number: `gone` (MAX_LOGS of them) is the caller's.
# Returns: how many.
cdef int take_old_logs(EngineCore* core, uint64_t last_number, void** gone) noexcept nogil
