# Stripes: the locks that serialise writes of an item, and the newest commit under each. See
# stripes.pyx.

from libc.stdint cimport uint64_t

cdef extern from "pythread.h":
    ctypedef void* PyThread_type_lock

cdef enum:
    STRIPES = 1024
    STRIPE_WORDS = STRIPES // 64

cdef extern from *:
    """
    #define DYNALSM_PENDING UINT64_C(0x8000000000000000)
    """
    # Stands for a sequence number that is not known yet; larger than any. (As a member of a Cython
    # enum it would be an int, shifted to 0.)
    const uint64_t PENDING "DYNALSM_PENDING"

# A set of stripes; each is in it once, and they are walked in ascending order.
cdef struct StripeSet:
    uint64_t words[STRIPE_WORDS]


cdef class Stripes:
    cdef PyThread_type_lock _locks[STRIPES]  # owned
    # Written under the stripe's lock, read without: atomic.
    cdef uint64_t _last_seqnos[STRIPES]

    # Wait for a stripe's lock, with the GIL released when it is taken. Raises: KeyboardInterrupt.
    cdef int take(self, int stripe) except -1
    cdef void release(self, int stripe) noexcept

    # Take a lock that another thread has. Raises: LockTimeout after so many seconds.
    cdef int wait(self, int stripe, double timeout_seconds) except -1

    # Take the locks of all stripes; none is held when it raises. Raises: LockTimeout when it took
    # longer than so many seconds (negative: never).
    cdef int take_all(self, const StripeSet* stripes, double timeout_seconds) except -1
    cdef void release_all(self, const StripeSet* stripes) noexcept

    # Note the last commit to the items of a stripe, or of several. REQUIRES: their locks.
    cdef void note(self, int stripe, uint64_t seqno) noexcept
    cdef void note_all(self, const StripeSet* stripes, uint64_t seqno) noexcept

    # A number that covers every visible commit to the items of a stripe; PENDING if not known.
    cdef uint64_t last_seqno(self, int stripe) noexcept
    cdef uint64_t last_seqno_of_all(self, const StripeSet* stripes) noexcept


# The stripe of a tree key.
cdef inline int stripe_of(bytes key) except -1:
    return <int>(hash(key) & (STRIPES - 1))


cdef inline void clear_stripes(StripeSet* stripes) noexcept:
    cdef int i
    for i in range(STRIPE_WORDS):
        stripes.words[i] = 0


cdef inline void add_stripe(StripeSet* stripes, int stripe) noexcept:
    stripes.words[stripe >> 6] |= <uint64_t>1 << (stripe & 63)
