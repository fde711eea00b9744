# What coding.pxd and sync.pxd leave out: bit counting and the atomics of lock-free lookups.
# Header only, no state.

from libc.stdint cimport uint8_t, uint64_t

from dynalsm._core.coding cimport get_u64

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    static inline int dynalsm_ctz64(uint64_t v) { return __builtin_ctzll(v); }
    static inline uint64_t dynalsm_load_relaxed(const uint64_t* p)
    { return __atomic_load_n(p, __ATOMIC_RELAXED); }
    static inline void dynalsm_store_relaxed(uint64_t* p, uint64_t v)
    { __atomic_store_n(p, v, __ATOMIC_RELAXED); }
    static inline int dynalsm_swap(uint64_t* p, uint64_t* expected, uint64_t wanted)
    { return __atomic_compare_exchange_n(p, expected, wanted, 0, __ATOMIC_ACQUIRE,
                                         __ATOMIC_RELAXED); }
    #define dynalsm_likely(x) __builtin_expect(!!(x), 1)
    #define dynalsm_unlikely(x) __builtin_expect(!!(x), 0)
    """
    int ctz64 "dynalsm_ctz64"(uint64_t value) noexcept nogil             # REQUIRES: value != 0
    uint64_t load_relaxed "dynalsm_load_relaxed"(const uint64_t* place) noexcept nogil
    void store_relaxed "dynalsm_store_relaxed"(uint64_t* place, uint64_t value) noexcept nogil
    # Compare and exchange: on failure *expected holds what was found.
    bint atomic_swap "dynalsm_swap"(
        uint64_t* place, uint64_t* expected, uint64_t wanted
    ) noexcept nogil
    bint likely "dynalsm_likely"(bint condition) noexcept nogil
    bint unlikely "dynalsm_unlikely"(bint condition) noexcept nogil


# Returns: how many of the first `limit` bytes agree.
cdef inline size_t bytes_in_common(
    const uint8_t* a, const uint8_t* b, size_t limit
) noexcept nogil:
    cdef size_t i = 0
    cdef uint64_t difference
    while i + 8 <= limit:
        difference = get_u64(a + i) ^ get_u64(b + i)
        if difference:
            return i + (ctz64(difference) >> 3)
        i += 8
    while i < limit and a[i] == b[i]:
        i += 1
    return i
