"""DynamoDB's number type: 38 significant digits, magnitude 1E-130 to 9.99E+125, and zero.

Text is parsed straight to digits and to order-preserving bytes; Decimal objects are made only for
callers who want them. The byte layout is in docs/format-items.md. Thread safety: pure functions.

1. Equal numbers have equal digits (no zero first or last), hence equal bytes.
2. A number's bytes sort as the number does; negative numbers are the complement of positive ones.
"""

from decimal import Context, Decimal

from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memset

from dynalsm.values.decimal_layout cimport (
    DECIMAL_NEGATIVE,
    WORD_DIGITS,
    DecimalLayout,
    is_plain,
    layout_of,
)

from dynalsm.values.problems import ValueProblem

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    Py_ssize_t Py_REFCNT(object value)

cdef enum:
    LEAD_ZERO = 0x80             # negative numbers below, positive ones above
    LEAD_SMALL = 0x81            # positive, exponent byte follows: exponent < -62
    LEAD_BASE = 0xC0             # positive, lead byte holds the exponent: LEAD_BASE + exponent
    LEAD_LARGE = 0xFF            # positive, exponent byte follows: exponent > 62
    SHORT_EXPONENT = 62
    EXPONENT_BIAS = 130
    HUGE_INT_BITS = 1000         # an int of more bits is beyond 9.99E+125 for certain

# Exact for every sum or difference of two DynamoDB numbers: 126 + 130 + 38 digits at most.
cdef object EXACT = Context(prec=320, Emin=-9999, Emax=9999, traps=[])


cdef int number_from_text(const char* text, Py_ssize_t size, Number* out) noexcept nogil:
    cdef const char* p = text
    cdef const char* end = text + size
    cdef int64_t exponent = 0        # as written after "e"
    cdef int64_t integer_digits = 0  # before the point, from the first significant one
    cdef int64_t leading_zeros = 0   # after the point, before the first significant digit
    cdef int64_t fraction = 0        # all digits after the point
    cdef int count = 0               # digits kept so far, zeros at the end included
    cdef int significant = 0         # length up to the last non-zero digit
    cdef bint has_digits = False
    cdef bint is_too_precise = False
    cdef bint after_point = False
    cdef char c
    out.negative = False
    if p < end and (p[0] == c'-' or p[0] == c'+'):
        out.negative = p[0] == c'-'
        p += 1
    while p < end:
        c = p[0]
        if c == c'.' and not after_point:
            after_point = True
            p += 1
            continue
        if c < c'0' or c > c'9':
            break
        p += 1
        has_digits = True
        fraction += after_point
        if count == 0 and c == c'0':
            leading_zeros += after_point
            continue
        integer_digits += not after_point
        if count < MAX_DIGITS:
            out.digits[count] = <uint8_t>(c - c'0')
            count += 1
            if c != c'0':
                significant = count
        elif c != c'0':
            is_too_precise = True
    if not has_digits or (p < end and not read_exponent(p, end, &exponent)):
        return NUMBER_FORMAT
    if count == 0:
        out.negative = False
        out.count = 0
        out.exponent = 0
        # Zero is checked by the exponent it is written with: 0e126 overflows, 0.0e126 does not.
        return range_code(exponent - fraction)
    exponent += integer_digits - 1 if integer_digits else -leading_zeros - 1
    if range_code(exponent) != NUMBER_OK:
        return range_code(exponent)
    if is_too_precise:
        return NUMBER_PRECISION
    out.count = significant
    out.exponent = <int>exponent
    return NUMBER_OK


cdef inline int range_code(int64_t exponent) noexcept nogil:
    if exponent > MAX_EXPONENT:
        return NUMBER_OVERFLOW
    if exponent < MIN_EXPONENT:
        return NUMBER_UNDERFLOW
    return NUMBER_OK


cdef bint read_exponent(const char* p, const char* end, int64_t* out) noexcept nogil:
    """Read "e" sign digits up to `end`; False when it is none, or beyond 64 bits (observed)."""
    cdef uint64_t value = 0
    cdef uint64_t limit = 0x7FFFFFFFFFFFFFFF
    cdef uint64_t clamp = <uint64_t>1 << 60
    cdef bint negative = False
    if p[0] != c'e' and p[0] != c'E':
        return False
    p += 1
    if p < end and (p[0] == c'-' or p[0] == c'+'):
        negative = p[0] == c'-'
        p += 1
    if p == end:
        return False
    limit += negative
    while p < end:
        if p[0] < c'0' or p[0] > c'9':
            return False
        if value > (limit - <uint64_t>(p[0] - c'0')) // 10:
            return False
        value = value * 10 + <uint64_t>(p[0] - c'0')
        p += 1
    # Clamped so that adding the digits of the longest possible text cannot wrap.
    if value > clamp:
        value = clamp
    out[0] = -<int64_t>value if negative else <int64_t>value
    return True


cdef void number_from_int64(long long value, Number* out) noexcept nogil:
    cdef uint8_t reversed_digits[20]
    cdef uint64_t rest
    cdef int size = 0
    cdef int i
    out.negative = value < 0
    rest = <uint64_t>0 - <uint64_t>value if value < 0 else <uint64_t>value
    while rest:
        reversed_digits[size] = <uint8_t>(rest % 10)
        rest //= 10
        size += 1
    out.exponent = size - 1 if size else 0
    for i in range(size):
        out.digits[i] = reversed_digits[size - 1 - i]
    while size and out.digits[size - 1] == 0:
        size -= 1
    out.count = size


cdef int number_to_bytes(const Number* number, uint8_t* out) noexcept nogil:
    cdef int size = 1
    cdef int i
    cdef int pair
    if number.count == 0:
        out[0] = LEAD_ZERO
        return 1
    if number.exponent > SHORT_EXPONENT or number.exponent < -SHORT_EXPONENT:
        out[0] = LEAD_LARGE if number.exponent > 0 else LEAD_SMALL
        out[1] = <uint8_t>(number.exponent + EXPONENT_BIAS)
        size = 2
    else:
        out[0] = <uint8_t>(LEAD_BASE + number.exponent)
    for i in range(0, number.count - 1, 2):
        pair = number.digits[i] * 10 + number.digits[i + 1]
        out[size] = <uint8_t>(2 * pair + 1)
        size += 1
    if number.count & 1:
        out[size] = <uint8_t>(20 * number.digits[number.count - 1])
        size += 1
    else:
        out[size - 1] -= 1
    if number.negative:
        for i in range(size):
            out[i] = ~out[i]
    return size


cdef int number_length(const uint8_t* data, size_t size) noexcept nogil:
    cdef uint8_t flip
    cdef size_t i = 1
    if size == 0:
        return -1
    if data[0] == LEAD_ZERO:
        return 1
    flip = 0 if data[0] > LEAD_ZERO else 0xFF
    if (data[0] ^ flip) == LEAD_SMALL or (data[0] ^ flip) == LEAD_LARGE:
        i = 2
    if size > MAX_NUMBER_BYTES:
        size = MAX_NUMBER_BYTES
    while i < size:
        if not (data[i] ^ flip) & 1:
            return <int>(i + 1)
        i += 1
    return -1


cdef int number_from_bytes(const uint8_t* data, size_t size, Number* out) noexcept nogil:
    cdef int length = number_length(data, size)
    cdef uint8_t flip
    cdef uint8_t lead
    cdef int count = 0
    cdef int i = 1
    cdef int pair
    if length < 0:
        return -1
    out.negative = False
    out.count = 0
    out.exponent = 0
    if length == 1:
        return 1
    flip = 0 if data[0] > LEAD_ZERO else 0xFF
    out.negative = flip != 0
    lead = data[0] ^ flip
    if lead == LEAD_SMALL or lead == LEAD_LARGE:
        out.exponent = <int>(data[1] ^ flip) - EXPONENT_BIAS
        if (out.exponent > SHORT_EXPONENT) != (lead == LEAD_LARGE) or (
            out.exponent < -SHORT_EXPONENT
        ) != (lead == LEAD_SMALL):
            return -1
        i = 2
    elif lead < LEAD_SMALL:
        return -1
    else:
        out.exponent = <int>lead - LEAD_BASE
    # 19 pairs at most; the number of lead bytes decides where they start.
    if length - i > MAX_DIGITS // 2:
        return -1
    while i < length:
        pair = (data[i] ^ flip) >> 1
        if pair > 99:
            return -1
        out.digits[count] = <uint8_t>(pair // 10)
        out.digits[count + 1] = <uint8_t>(pair % 10)
        count += 2
        i += 1
    if out.digits[0] == 0:
        return -1
    if out.digits[count - 1] == 0:
        count -= 1
        if out.digits[count - 1] == 0:
            return -1
    out.count = count
    return length


cdef int number_to_text(const Number* number, char* out) noexcept nogil:
    cdef char* p = out
    cdef int i
    cdef int integer_digits = number.exponent + 1
    if number.count == 0:
        out[0] = c'0'
        return 1
    if number.negative:
        p[0] = c'-'
        p += 1
    if integer_digits <= 0:
        p[0] = c'0'
        p[1] = c'.'
        memset(p + 2, c'0', -integer_digits)
        p += 2 - integer_digits
    for i in range(number.count):
        if i == integer_digits and i > 0:
            p[0] = c'.'
            p += 1
        p[0] = <char>(c'0' + number.digits[i])
        p += 1
    if integer_digits > number.count:
        memset(p, c'0', integer_digits - number.count)
        p += integer_digits - number.count
    return <int>(p - out)


cdef int number_size(const Number* number) noexcept nogil:
    cdef int integer_digits = number.exponent + 1
    if number.count == 0:
        return 1
    if integer_digits < 0:
        integer_digits = 0
    if integer_digits > number.count:
        integer_digits = number.count
    return (
        1 + (integer_digits + 1) // 2 + (number.count - integer_digits + 1) // 2 + number.negative
    )


# ---- Decimal objects ----------------------------------------------------------------------------

cdef object DECIMAL = Decimal
# Whether decimal_layout.pxd describes this interpreter's Decimal; set by check_layout.
cdef bint can_use_layout = False


cdef void digits_of_words(uint64_t high, uint64_t low, int size, uint8_t* out) noexcept nogil:
    """Write the last `size` decimal digits of high * 10^19 + low."""
    cdef int i
    for i in range(size - 1, -1, -1):
        if i == size - 1 - WORD_DIGITS:
            low = high
        out[i] = <uint8_t>(low % 10)
        low //= 10


cdef int number_from_layout(object value, Number* out) noexcept:
    """Read a Decimal's inside. Returns: a NUMBER_ code, or -1 when it must go through text."""
    cdef const DecimalLayout* inside = layout_of(value)
    cdef int count
    cdef int64_t exponent
    if not can_use_layout or type(value) is not DECIMAL or not is_plain(inside):
        return -1
    if inside.digits > MAX_DIGITS or inside.digits < 1:
        return -1
    count = <int>inside.digits
    exponent = <int64_t>inside.exponent + count - 1
    if range_code(exponent) != NUMBER_OK:
        return range_code(exponent)
    digits_of_words(inside.words[1], inside.words[0], count, out.digits)
    while count and out.digits[count - 1] == 0:
        count -= 1
    out.count = count
    out.exponent = <int>exponent if count else 0
    out.negative = count != 0 and inside.flags & DECIMAL_NEGATIVE
    return NUMBER_OK


cdef int number_from_object(object value, Number* out) except -1:
    cdef int overflow = 0
    cdef int code
    cdef long long small
    cdef Py_ssize_t size = 0
    cdef const char* text
    if isinstance(value, int):
        small = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow == 0:
            number_from_int64(small, out)
            return NUMBER_OK
        if value.bit_length() > HUGE_INT_BITS:
            return NUMBER_OVERFLOW
        value = int.__repr__(value)
    else:
        code = number_from_layout(value, out)
        if code >= 0:
            return code
        value = Decimal.__str__(value)
    text = PyUnicode_AsUTF8AndSize(value, &size)
    return number_from_text(text, size, out)


cdef object number_to_decimal(const Number* number):
    cdef int size = coefficient_digits(number)
    if can_use_layout and size:
        value = decimal_from_layout(number, size)
        if value is not None:
            return value
    return decimal_from_text(number, size)


cdef inline int coefficient_digits(const Number* number) noexcept nogil:
    """How many digits the Decimal is written with: plain if 38 are enough, else without zeros."""
    cdef int size = number.exponent + 1
    if size < number.count or size > MAX_DIGITS:
        size = number.count
    return size


cdef object decimal_from_text(const Number* number, int size):
    cdef char digits[MAX_DIGITS + 2]
    cdef int i
    if size == 0:
        return DECIMAL(0)
    digits[0] = c'-' if number.negative else c'+'
    for i in range(size):
        digits[i + 1] = <char>(c'0' + (number.digits[i] if i < number.count else 0))
    text = PyUnicode_DecodeASCII(digits, size + 1, NULL)
    return DECIMAL(f"{text}E{number.exponent - size + 1}")


cdef object decimal_from_layout(const Number* number, int size):
    """Make a Decimal by filling a fresh one; None when the fresh one is not as expected."""
    cdef uint64_t low = 0
    cdef uint64_t high = 0
    cdef int i
    cdef DecimalLayout* inside
    value = DECIMAL()
    inside = layout_of(value)
    if Py_REFCNT(value) != 1 or not is_plain(inside):
        return None
    # Digit i of the coefficient; those behind the number's own are zeros.
    for i in range(size - WORD_DIGITS):
        high = high * 10 + (number.digits[i] if i < number.count else 0)
    for i in range(size - WORD_DIGITS if size > WORD_DIGITS else 0, size):
        low = low * 10 + (number.digits[i] if i < number.count else 0)
    inside.words[0] = low
    inside.words[1] = high
    inside.size = 2 if high else 1
    inside.digits = size
    inside.exponent = number.exponent - size + 1
    if number.negative:
        inside.flags |= DECIMAL_NEGATIVE
    return value


cdef int check_layout(bint wanted) except -1:
    """Decide whether Decimals may be read and made through their layout, by trying it."""
    global can_use_layout
    cdef Number by_layout
    cdef Number by_text
    cdef Py_ssize_t size = 0
    can_use_layout = False
    if not wanted or DECIMAL.__basicsize__ != sizeof(DecimalLayout) or DECIMAL() is DECIMAL():
        return 0
    if sizeof(Py_ssize_t) != 8:
        return 0
    for text in LAYOUT_SAMPLES:
        expected = DECIMAL(text)
        number_from_text(PyUnicode_AsUTF8AndSize(text, &size), size, &by_text)
        can_use_layout = True
        if number_from_layout(expected, &by_layout) != NUMBER_OK:
            can_use_layout = False
            return 0
        made = number_to_decimal(&by_text)
        can_use_layout = False
        if (
            made is None
            or by_layout.count != by_text.count
            or by_layout.exponent != by_text.exponent
            or by_layout.negative != by_text.negative
            or memcmp(by_layout.digits, by_text.digits, by_text.count) != 0
            or made.as_tuple() != expected.as_tuple()
            or hash(made) != hash(expected)
            or EXACT.add(made, 1) != EXACT.add(expected, 1)
        ):
            return 0
    can_use_layout = True
    return 0


# In plain form, as decimal_from_layout makes them: one and two words, signs, zeros at the ends.
cdef tuple LAYOUT_SAMPLES = (
    "0", "1", "-7", "10", "1000", "-0.5", "0.001", "149.97", "1791210191482",
    "9999999999999999999", "10000000000000000000", "-12345678901234567890",
    "12345678901234567890123456789012345678", "99999999999999999999999999999999999999",
    "-0.00000000000000000000000000000000000001234567890123456789012345678901234567",
    "1000000000000000000000000000000000000", "1E+100", "-12E+40",
)
check_layout(True)


def _use_decimal_layout(bint wanted):
    """Turn the use of Decimal's layout off or on again (tests); return whether it is in use."""
    check_layout(wanted)
    return can_use_layout


cdef int raise_number_problem(int code, object text) except -1:
    if code == NUMBER_FORMAT:
        raise ValueProblem("number_format", text)
    if code == NUMBER_PRECISION:
        raise ValueProblem("number_precision", text)
    if code == NUMBER_OVERFLOW:
        raise ValueProblem("number_overflow", text)
    raise ValueProblem("number_underflow", text)


cdef int checked_from_object(object value, Number* out) except -1:
    cdef int code = number_from_object(value, out)
    if code != NUMBER_OK:
        raise_number_problem(code, value)
    return 0


def parse_number(str text not None):
    """Return the Decimal that DynamoDB makes of a number's text; raise ValueProblem if none."""
    cdef Number number
    cdef Py_ssize_t size = 0
    cdef const char* data
    cdef int code
    try:
        data = PyUnicode_AsUTF8AndSize(text, &size)
    except UnicodeEncodeError:
        raise ValueProblem("number_format", text) from None
    code = number_from_text(data, size, &number)
    if code != NUMBER_OK:
        raise_number_problem(code, text)
    return number_to_decimal(&number)


def number_text(value):
    """Return DynamoDB's canonical plain text of an int or Decimal ("1000", never "1E+3")."""
    cdef Number number
    cdef char text[MAX_NUMBER_TEXT]
    checked_from_object(value, &number)
    return PyUnicode_DecodeASCII(text, number_to_text(&number, text), NULL)


def encode_number(value):
    """Return the order-preserving bytes of an int or Decimal."""
    cdef Number number
    cdef uint8_t data[MAX_NUMBER_BYTES]
    cdef int size
    checked_from_object(value, &number)
    size = number_to_bytes(&number, data)
    return (<char*>data)[:size]


def decode_number(bytes data not None):
    """Return the Decimal of number bytes; raise ValueError when they are not one whole number."""
    cdef Number number
    if number_from_bytes(data, len(data), &number) != len(data):
        raise ValueError("damaged number bytes")
    return number_to_decimal(&number)


def add(left, right):
    """Return left + right exactly; raise ValueProblem when DynamoDB cannot hold the sum."""
    return arithmetic_result(EXACT.add(left, right))


def subtract(left, right):
    """Return left - right exactly; raise ValueProblem when DynamoDB cannot hold the difference."""
    return arithmetic_result(EXACT.subtract(left, right))


cdef object arithmetic_result(object value):
    """Check a result; too many digits are reported as overflow, as DynamoDB does (observed)."""
    cdef Number number
    cdef int code = number_from_object(value, &number)
    if code == NUMBER_PRECISION:
        code = NUMBER_OVERFLOW
    if code != NUMBER_OK:
        raise_number_problem(code, value)
    return number_to_decimal(&number)
