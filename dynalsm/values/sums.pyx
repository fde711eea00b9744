"""Sums and differences of numbers, exactly, on their digits.

number.add() and number.subtract() say what every result is; tests hold this module against them.
Thread safety: pure functions over the caller's memory.
"""

from libc.stdint cimport int8_t, uint8_t
from libc.string cimport memcmp, memset

from dynalsm.values.number cimport (
    MAX_DIGITS,
    MAX_EXPONENT,
    MIN_EXPONENT,
    NUMBER_OK,
    NUMBER_OVERFLOW,
    NUMBER_UNDERFLOW,
    Number,
    number_from_object,
    number_to_decimal,
    raise_number_problem,
)

cdef enum:
    # A carry, exponents from the largest to the smallest, digits behind the first.
    SUM_DIGITS = 1 + (MAX_EXPONENT - MIN_EXPONENT + 1) + MAX_DIGITS


cdef int number_add(
    const Number* a, const Number* b, bint is_minus, Number* out
) noexcept nogil:
    cdef int8_t sums[SUM_DIGITS]     # of the exponents from `top` down to `bottom`
    cdef bint b_negative = b.negative != is_minus
    cdef const Number* larger = a
    cdef const Number* smaller = b
    cdef int top
    cdef int bottom
    cdef int width
    cdef int i
    cdef int at
    cdef int carry = 0
    if b.count == 0 or a.count == 0:
        out[0] = a[0] if b.count == 0 else b[0]
        if a.count == 0 and b.count:
            out.negative = b_negative
        return NUMBER_OK
    if compare_magnitudes(a, b) < 0:
        larger, smaller = b, a
    top = larger.exponent + 1        # of a carry
    bottom = min(a.exponent - a.count, b.exponent - b.count) + 1
    width = top - bottom + 1
    memset(sums, 0, width)
    for i in range(larger.count):
        sums[top - larger.exponent + i] = larger.digits[i]
    at = top - smaller.exponent
    for i in range(smaller.count):
        if a.negative == b_negative:
            sums[at + i] += smaller.digits[i]
        else:
            sums[at + i] -= smaller.digits[i]
    for i in range(width - 1, -1, -1):
        sums[i] += carry
        carry = 0
        if sums[i] > 9:
            sums[i] -= 10
            carry = 1
        elif sums[i] < 0:
            sums[i] += 10
            carry = -1
    out.negative = a.negative if larger is a else b_negative
    return take_digits(sums, width, top, bottom, out)


cdef int compare_magnitudes(const Number* a, const Number* b) noexcept nogil:
    """Order of two numbers that are not zero, without their signs."""
    cdef int order
    if a.exponent != b.exponent:
        return 1 if a.exponent > b.exponent else -1
    order = memcmp(a.digits, b.digits, min(a.count, b.count))
    return order if order else a.count - b.count


cdef int take_digits(
    const int8_t* sums, int width, int top, int bottom, Number* out
) noexcept nogil:
    """Set digits and exponent of a result; the sign is set."""
    cdef int first = 0
    cdef int i
    while first < width and sums[first] == 0:
        first += 1
    if first == width:
        out.count = 0
        out.exponent = 0
        out.negative = False
        # As with text: zero is checked by the exponent it is written with.
        return range_code(bottom)
    while sums[width - 1] == 0:
        width -= 1
    if range_code(top - first) != NUMBER_OK:
        return range_code(top - first)
    if width - first > MAX_DIGITS:
        return NUMBER_OVERFLOW
    out.exponent = top - first
    out.count = width - first
    for i in range(out.count):
        out.digits[i] = <uint8_t>sums[first + i]
    return NUMBER_OK


cdef inline int range_code(int exponent) noexcept nogil:
    if exponent > MAX_EXPONENT:
        return NUMBER_OVERFLOW
    if exponent < MIN_EXPONENT:
        return NUMBER_UNDERFLOW
    return NUMBER_OK


def exact_sum(left, right, bint is_minus=False):
    """Return left + right, or with is_minus left - right; raise ValueProblem as number.add()."""
    cdef Number a
    cdef Number b
    cdef Number result
    cdef int code = number_from_object(left, &a) or number_from_object(right, &b)
    if code == NUMBER_OK:
        code = number_add(&a, &b, is_minus, &result)
    if code != NUMBER_OK:
        raise_number_problem(code, left)
    return number_to_decimal(&result)
