# Large pieces of memory straight from the system, so that what is given back is free at once: the
# allocator keeps freed memory, and a budget that several parts share in turn would be held twice.
# Header only, no state.

cdef extern from *:
    """
    #include <stddef.h>
    #include <sys/mman.h>
    #ifdef MAP_POPULATE
    #define DYNALSM_POPULATE MAP_POPULATE
    #else
    #define DYNALSM_POPULATE 0
    #endif
    /* Zeroed memory, NULL for want of it. All of it is about to be used: its pages are made ready
       in bulk, not by a fault each. */
    static inline void* dynalsm_pages_take(size_t size)
    {
        void* p = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | DYNALSM_POPULATE, -1, 0);
        return p == MAP_FAILED ? NULL : p;
    }
    static inline void dynalsm_pages_give(void* p, size_t size) { munmap(p, size); }
    """
    void* pages_take "dynalsm_pages_take"(size_t size) noexcept nogil
    void pages_give "dynalsm_pages_give"(void* pages, size_t size) noexcept nogil
