# What debug builds (DYNALSM_DEBUG=1) do more: they stop at the first broken invariant, and write
# over memory that nobody may look at any more. Nothing of it is in other builds. Header only.
#
# Memory that goes back to malloc is not scribbled over here: the tests of the debug build have
# malloc do that (MALLOC_PERTURB_), and pages given back to the system cannot be read at all.

cdef extern from *:
    """
    #include <stddef.h>
    #ifdef DYNALSM_DEBUG
    #define DYNALSM_IS_DEBUG 1
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    static inline void dynalsm_broken(const char* what, const char* file, int line)
    {
        fprintf(stderr, "%s:%d: broken invariant: %s\\n", file, line, what);
        abort();
    }
    #define dynalsm_require(x) ((x) ? (void)0 : dynalsm_broken(#x, __FILE__, __LINE__))
    #define dynalsm_scribble(p, n) ((p) ? (void)memset((p), 0xDD, (n)) : (void)0)
    #else
    #define DYNALSM_IS_DEBUG 0
    #define dynalsm_require(x) ((void)0)
    #define dynalsm_scribble(p, n) ((void)0)
    #endif
    """
    # A constant, for conditions that cost something to find out.
    const bint IS_DEBUG_BUILD "DYNALSM_IS_DEBUG"
    # Must hold, or we have made a mistake. What comes from outside is checked in every build.
    void require "dynalsm_require"(bint condition) noexcept nogil
    # From here on nobody reads these bytes before they are written again. data may be NULL.
    void scribble "dynalsm_scribble"(void* data, size_t size) noexcept nogil
