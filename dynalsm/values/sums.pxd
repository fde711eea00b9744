# Sums and differences of numbers, exactly, on their digits. See sums.pyx.
#
# Thread safety: pure functions over the caller's memory.

from dynalsm.values.number cimport Number

# Add two numbers; with is_minus subtract b from a. REQUIRES: *out is neither of them. Returns: a
# NUMBER_ code, as number.add() and number.subtract() of Python find it: too many digits are
# NUMBER_OVERFLOW.
cdef int number_add(
    const Number* a, const Number* b, bint is_minus, Number* out
) noexcept nogil
