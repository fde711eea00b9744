# DynamoDB JSON text in C: items whose key attributes may lie outside their map.

from libc.stdint cimport uint8_t

from dynalsm.values.buffer cimport Buffer
from dynalsm.values.codec cimport Part


# Append the text of the item whose map fills [p, end), with `count` other attributes (sorted by
# name). After an error the buffer holds a part of it.
cdef int put_json_record(
    Buffer* out, const uint8_t* p, const uint8_t* end, const Part* parts, int count
) except -1
