# Decoding in C: items whose key attributes may lie outside their map. See decode.pyx.

from libc.stdint cimport uint8_t

from dynalsm.values.codec cimport Part
from dynalsm.values.outline cimport Hint

cdef enum:                       # what decoded values look like; Form.kind in forms.py
    AS_ENCODED = -1              # bytes, as they are
    AS_INTERNAL = 0
    AS_NATIVE = 1
    AS_WIRE = 2
    AS_JSON = 3                  # text; by json_writer

cdef enum:
    HINTS = 16                   # a power of two

# Decode the map that fills [p, end) as an item, together with `count` other attributes (sorted by
# name). `hints` are HINTS places that belong to items with the same outside attributes.
cdef dict decode_record(
    const uint8_t* p, const uint8_t* end, const Part* parts, int count, int form, Hint* hints
)

# Decode the one value that fills [p, end).
cdef object decode_between(const uint8_t* p, const uint8_t* end, int form)
