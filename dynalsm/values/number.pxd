# DynamoDB numbers in C: text, digits, order-preserving bytes, size.
#
# Number bytes (on disk; docs/format-items.md): one lead byte, perhaps an exponent byte, then the
# significant digits by pairs. Byte order is numeric order, equal numbers have equal bytes, and the
# last byte of a number is known by its lowest bit, so that bytes may follow it in a key.
# Thread safety: pure functions over the caller's memory.

from libc.stdint cimport uint8_t

cdef enum:
    MAX_DIGITS = 38              # significant digits of a DynamoDB number
    MAX_EXPONENT = 125           # of the first digit: 9.99E+125 is the largest magnitude
    MIN_EXPONENT = -130
    MAX_NUMBER_BYTES = 21        # lead, exponent, 19 pairs
    MAX_NUMBER_TEXT = 176        # sign, "0.", 129 zeros, 38 digits: 170

cdef enum:                       # what parse_text and from_parts return
    NUMBER_OK = 0
    NUMBER_FORMAT = 1
    NUMBER_PRECISION = 2
    NUMBER_OVERFLOW = 3
    NUMBER_UNDERFLOW = 4

cdef struct Number:
    bint negative
    int count                    # significant digits; 0 for zero
    int exponent                 # of the first digit: d.ddd * 10^exponent
    uint8_t digits[40]           # values 0-9; neither the first nor the last is 0

# Parse DynamoDB's number text. Returns: a NUMBER_ code; *out is set when it is NUMBER_OK.
cdef int number_from_text(const char* text, Py_ssize_t size, Number* out) noexcept nogil

cdef void number_from_int64(long long value, Number* out) noexcept nogil

# Write the number bytes. REQUIRES: room for MAX_NUMBER_BYTES. Returns: how many were written.
cdef int number_to_bytes(const Number* number, uint8_t* out) noexcept nogil

# Read the number that starts at data. Returns: its length in bytes, or -1 when the bytes are no
# number (then *out is undefined). Never reads past size.
cdef int number_from_bytes(const uint8_t* data, size_t size, Number* out) noexcept nogil

# Length of the number that starts at data, or -1. Checks only what finding its end needs.
cdef int number_length(const uint8_t* data, size_t size) noexcept nogil

# Write the canonical plain decimal text. REQUIRES: room for MAX_NUMBER_TEXT. Returns: its length.
cdef int number_to_text(const Number* number, char* out) noexcept nogil

# DynamoDB's size of the number in bytes (reference 2.3).
cdef int number_size(const Number* number) noexcept nogil

# Encode a Python int or Decimal. Returns: a NUMBER_ code.
cdef int number_from_object(object value, Number* out) except -1

# The same for a Decimal of at most 38 written digits, without going through text. Returns: a
# NUMBER_ code, or -1 when it is none, or must go through text.
cdef int number_from_layout(object value, Number* out) noexcept

# The Decimal of a number: in plain form (Decimal("1000"), never 1E+3) if 38 digits are enough,
# else without zeros at its end (Decimal("1E+100")), so that boto3's rules let it back in.
cdef object number_to_decimal(const Number* number)

# Raise the ValueProblem of a NUMBER_ code; `text` is what was sent.
cdef int raise_number_problem(int code, object text) except -1
