# The inside of CPython's Decimal objects, for reading and making them without text. Header only.
#
# CPython gives no C interface for Decimal; text costs 50 ns one way and 130 ns the other. The
# layout below is that of its _decimal module since 3.3 on 64-bit machines. number.pyx compares it
# with what Decimal itself does when it is imported, and uses text wherever that is not certain.
# Only coefficients inside the object (up to four words) are ever touched.

from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint64_t

cdef extern from *:
    """
    typedef struct {
        PyObject_HEAD
        Py_hash_t hash;        /* -1: not computed yet */
        uint8_t flags;
        Py_ssize_t exponent;   /* of the last digit */
        Py_ssize_t digits;     /* of the coefficient */
        Py_ssize_t size;       /* words in use */
        Py_ssize_t capacity;
        uint64_t *data;        /* base 10^19, the lowest word first */
        uint64_t words[4];
    } dynalsm_decimal;
    """
    ctypedef struct DecimalLayout "dynalsm_decimal":
        uint8_t flags
        Py_ssize_t exponent
        Py_ssize_t digits
        Py_ssize_t size
        uint64_t* data
        uint64_t words[4]

cdef enum:
    DECIMAL_NEGATIVE = 1
    DECIMAL_SPECIAL = 2 | 4 | 8  # infinity, NaN, signalling NaN
    WORD_DIGITS = 19
    FAST_WORDS = 2               # 38 digits


cdef inline DecimalLayout* layout_of(object value) noexcept:
    return <DecimalLayout*><PyObject*>value


# Whether the coefficient is finite, inside the object, and of at most 38 digits.
cdef inline bint is_plain(const DecimalLayout* inside) noexcept nogil:
    return (
        inside.data == &inside.words[0]
        and inside.size >= 1
        and inside.size <= FAST_WORDS
        and not inside.flags & DECIMAL_SPECIAL
    )
