# POSIX mutexes and condition variables, and the atomics the core uses. Header only.
#
# Rule: a thread that holds one of these never takes the GIL, calls Python or raises.

from libc.stdint cimport int64_t, uint64_t

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    ctypedef struct pthread_mutexattr_t:
        pass
    ctypedef struct pthread_condattr_t:
        pass
    int pthread_mutex_init(pthread_mutex_t*, const pthread_mutexattr_t*)
    int pthread_mutex_destroy(pthread_mutex_t*)
    int pthread_mutex_lock(pthread_mutex_t*)
    int pthread_mutex_trylock(pthread_mutex_t*)
    int pthread_mutex_unlock(pthread_mutex_t*)
    int pthread_cond_init(pthread_cond_t*, const pthread_condattr_t*)
    int pthread_cond_destroy(pthread_cond_t*)
    int pthread_cond_wait(pthread_cond_t*, pthread_mutex_t*)
    int pthread_cond_signal(pthread_cond_t*)
    int pthread_cond_broadcast(pthread_cond_t*)

cdef extern from *:
    """
    #include <errno.h>
    #include <pthread.h>
    #include <stdint.h>
    #include <time.h>
    static inline uint64_t dynalsm_load(const uint64_t* p)
    { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
    static inline void dynalsm_store(uint64_t* p, uint64_t v)
    { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
    static inline uint64_t dynalsm_add(uint64_t* p, uint64_t v)
    { return __atomic_add_fetch(p, v, __ATOMIC_SEQ_CST); }
    static inline uint64_t dynalsm_sub(uint64_t* p, uint64_t v)
    { return __atomic_sub_fetch(p, v, __ATOMIC_SEQ_CST); }
    static inline uint64_t dynalsm_exchange(uint64_t* p, uint64_t v)
    { return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST); }
    static inline int dynalsm_claim(uint64_t* p)
    {
        uint64_t nobody = 0;
        return __atomic_compare_exchange_n(p, &nobody, (uint64_t)(uintptr_t)pthread_self(), 0,
                                           __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
    }
    static inline uint64_t dynalsm_this_thread(void)
    { return (uint64_t)(uintptr_t)pthread_self(); }
    static inline uint64_t dynalsm_now_ns(void)
    {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
    }
    /* Returns 0 when signalled, ETIMEDOUT after the given time. */
    static inline int dynalsm_wait_for(pthread_cond_t* c, pthread_mutex_t* m, uint64_t ns)
    {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        ns += (uint64_t)t.tv_nsec;
        t.tv_sec += (time_t)(ns / 1000000000ull);
        t.tv_nsec = (long)(ns % 1000000000ull);
        return pthread_cond_timedwait(c, m, &t);
    }
    static inline void dynalsm_sleep_ns(uint64_t ns)
    {
        struct timespec t = {(time_t)(ns / 1000000000ull), (long)(ns % 1000000000ull)};
        while (nanosleep(&t, &t) == -1 && errno == EINTR) {}
    }
    """
    uint64_t atomic_load "dynalsm_load"(const uint64_t* place) noexcept nogil
    void atomic_store "dynalsm_store"(uint64_t* place, uint64_t value) noexcept nogil
    uint64_t atomic_add "dynalsm_add"(uint64_t* place, uint64_t value) noexcept nogil
    uint64_t atomic_sub "dynalsm_sub"(uint64_t* place, uint64_t value) noexcept nogil
    # Returns: what was there. With it and the three above, who stores and then loads sees what
    # another thread stored before it loaded: one of the two at least sees the other.
    uint64_t atomic_exchange "dynalsm_exchange"(uint64_t* place, uint64_t value) noexcept nogil
    # An object that one thread at a time may use: put this thread into `user`, unless one is there
    # (this one, too). Returns: whether it was free. atomic_store(user, 0) gives it back.
    bint claim "dynalsm_claim"(uint64_t* user) noexcept nogil
    uint64_t now_ns "dynalsm_now_ns"() noexcept nogil
    uint64_t this_thread "dynalsm_this_thread"() noexcept nogil
    int wait_for "dynalsm_wait_for"(
        pthread_cond_t* condition, pthread_mutex_t* mutex, uint64_t nanoseconds
    ) noexcept nogil
    void sleep_ns "dynalsm_sleep_ns"(uint64_t nanoseconds) noexcept nogil
