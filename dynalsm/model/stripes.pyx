"""Stripes: the locks that serialise writes of an item, and the newest commit under each.

An item's stripe follows from the hash of its tree key. Several locks are taken in ascending order,
so there is no deadlock; no other lock is ever taken before them, and the engine's own come after.
A lock is held from reading an item to committing its change, never while the disk is waited for.

The numbers let others wait for an item's last commit: readers that must be consistent, and writes
whose answer rests on what they saw.

Thread safety: everything may be called from any thread; a lock is released by who took it.
Invariant: `_last_seqnos[stripe]` is at least the number of every visible commit to that stripe, or
PENDING.
"""

import time

from cpython.exc cimport PyErr_CheckSignals
from cython cimport final
from libc.stdint cimport uint64_t

from dynalsm._core.sync cimport atomic_load, atomic_store

cdef extern from "pythread.h":
    ctypedef enum PyLockStatus:
        PY_LOCK_FAILURE
        PY_LOCK_ACQUIRED
        PY_LOCK_INTR
    PyThread_type_lock PyThread_allocate_lock()
    void PyThread_free_lock(PyThread_type_lock lock)
    int PyThread_acquire_lock(PyThread_type_lock lock, int wait) nogil
    PyLockStatus PyThread_acquire_lock_timed(
        PyThread_type_lock lock, long long microseconds, int interruptible
    ) nogil
    void PyThread_release_lock(PyThread_type_lock lock)

cdef extern from *:
    """
    #include <stdint.h>
    static inline int dynalsm_lowest_bit(uint64_t word) { return __builtin_ctzll(word); }
    """
    int lowest_bit "dynalsm_lowest_bit"(uint64_t word) nogil

cdef object monotonic = time.monotonic


class LockTimeout(Exception):
    """Another transaction held an item for too long."""


@final
cdef class Stripes:
    """All stripes of one database."""

    def __cinit__(self):
        cdef int i
        for i in range(STRIPES):
            self._locks[i] = PyThread_allocate_lock()
            if self._locks[i] == NULL:
                raise MemoryError()

    def __dealloc__(self):
        cdef int i
        for i in range(STRIPES):
            if self._locks[i] != NULL:
                PyThread_free_lock(self._locks[i])

    cdef int take(self, int stripe) except -1:
        if not PyThread_acquire_lock(self._locks[stripe], 0):
            self.wait(stripe, -1.0)
        return 0

    cdef void release(self, int stripe) noexcept:
        PyThread_release_lock(self._locks[stripe])

    cdef int wait(self, int stripe, double timeout_seconds) except -1:
        """Take a lock that another thread has."""
        cdef PyThread_type_lock lock = self._locks[stripe]
        cdef PyLockStatus status
        cdef long long microseconds = -1
        cdef double deadline = monotonic() + timeout_seconds
        while True:
            if timeout_seconds >= 0:
                microseconds = max(0, <long long>((deadline - <double>monotonic()) * 1e6))
            with nogil:
                status = PyThread_acquire_lock_timed(lock, microseconds, 1)
            if status == PY_LOCK_ACQUIRED:
                return 0
            if status == PY_LOCK_FAILURE:
                raise LockTimeout
            PyErr_CheckSignals()

    cdef int take_all(self, const StripeSet* stripes, double timeout_seconds) except -1:
        cdef StripeSet taken
        cdef uint64_t rest
        cdef int word, stripe
        clear_stripes(&taken)
        try:
            for word in range(STRIPE_WORDS):
                rest = stripes.words[word]
                while rest:
                    stripe = word * 64 + lowest_bit(rest)
                    if not PyThread_acquire_lock(self._locks[stripe], 0):
                        self.wait(stripe, timeout_seconds)
                    add_stripe(&taken, stripe)
                    rest &= rest - 1
        except BaseException:
            self.release_all(&taken)
            raise
        return 0

    cdef void release_all(self, const StripeSet* stripes) noexcept:
        cdef uint64_t rest
        cdef int word
        for word in range(STRIPE_WORDS):
            rest = stripes.words[word]
            while rest:
                PyThread_release_lock(self._locks[word * 64 + lowest_bit(rest)])
                rest &= rest - 1

    cdef void note(self, int stripe, uint64_t seqno) noexcept:
        atomic_store(&self._last_seqnos[stripe], seqno)

    cdef void note_all(self, const StripeSet* stripes, uint64_t seqno) noexcept:
        cdef uint64_t rest
        cdef int word
        for word in range(STRIPE_WORDS):
            rest = stripes.words[word]
            while rest:
                self.note(word * 64 + lowest_bit(rest), seqno)
                rest &= rest - 1

    cdef uint64_t last_seqno(self, int stripe) noexcept:
        return atomic_load(&self._last_seqnos[stripe])

    cdef uint64_t last_seqno_of_all(self, const StripeSet* stripes) noexcept:
        cdef uint64_t newest = 0
        cdef uint64_t rest
        cdef int word
        for word in range(STRIPE_WORDS):
            rest = stripes.words[word]
            while rest:
                newest = max(newest, self.last_seqno(word * 64 + lowest_bit(rest)))
                rest &= rest - 1
        return newest

    def barrier(self):
        """Return when every lock that is held now has been released."""
        cdef int stripe
        for stripe in range(STRIPES):
            self.take(stripe)
            self.release(stripe)
