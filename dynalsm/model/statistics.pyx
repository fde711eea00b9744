"""How many items a tree holds and how large they are: live, exact, at next to no cost to a write.

The counters live in memory. A clean close stores them with the catalog's "clean" mark; after a
crash the mark is not the newest entry of the engine, and the counters are taken again from a
snapshot in the background. While that runs, the last stored numbers are shown.

The protocol that keeps a recount exact beside running writes: a writer reports what its commit
changed *with the sequence number of that commit*, and a report counts only when the number lies
above the snapshot that the counters start from.

Thread safety: every method may be called from any thread. Nothing waits for the GIL under _mutex.
"""

from cython cimport critical_section, final
from libc.stdint cimport int64_t, uint64_t

from dynalsm._core.sync cimport (
    pthread_mutex_destroy,
    pthread_mutex_init,
    pthread_mutex_lock,
    pthread_mutex_unlock,
)


@final
cdef class Statistics:
    """The counters of one tree (a table's or an index's)."""

    def __cinit__(self):
        if pthread_mutex_init(&self._mutex, NULL):
            raise MemoryError()

    def __dealloc__(self):
        pthread_mutex_destroy(&self._mutex)

    def __init__(self, int64_t items=0, int64_t size_bytes=0, *, bint is_exact=True):
        self._items = items
        self._bytes = size_bytes
        self._base_seqno = 0
        self._shown = None if is_exact else (items, size_bytes)
        self.is_exact = is_exact

    @property
    def items(self):
        """Number of items or index entries."""
        return max(0, self.stored()[0])

    @property
    def bytes(self):
        """Their DynamoDB sizes together."""
        return max(0, self.stored()[1])

    cdef void count(self, uint64_t seqno, int64_t items, int64_t size_bytes) noexcept:
        pthread_mutex_lock(&self._mutex)
        if seqno > self._base_seqno:
            self._items += items
            self._bytes += size_bytes
        pthread_mutex_unlock(&self._mutex)

    def add(self, uint64_t seqno, int64_t items, int64_t size_bytes):
        """Count what a commit changed. `seqno`: any sequence number of that commit."""
        self.count(seqno, items, size_bytes)

    def start_recount(self, uint64_t seqno):
        """From now on count only commits above `seqno`, a snapshot about to be read.

        A commit above it that reported already is lost: so the caller takes the snapshot before
        any write is admitted, or from a point that no writer has reached (see Catalog.recount).
        """
        pthread_mutex_lock(&self._mutex)
        self._base_seqno = seqno
        self._items = 0
        self._bytes = 0
        pthread_mutex_unlock(&self._mutex)

    def finish_recount(self, int64_t items, int64_t size_bytes):
        """Add what the snapshot held; the counters are exact from here on."""
        pthread_mutex_lock(&self._mutex)
        self._items += items
        self._bytes += size_bytes
        pthread_mutex_unlock(&self._mutex)
        with critical_section(self):     # nothing, where the GIL is held
            self._shown = None
            self.is_exact = True

    def stored(self):
        """Return (items, bytes) to be kept in the catalog."""
        cdef int64_t items
        cdef int64_t size_bytes
        with critical_section(self):
            shown = self._shown
        if shown is not None:
            return shown
        pthread_mutex_lock(&self._mutex)
        items = self._items
        size_bytes = self._bytes
        pthread_mutex_unlock(&self._mutex)
        return items, size_bytes
