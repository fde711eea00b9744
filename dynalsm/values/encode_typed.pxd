# The encoder of typed dicts, for pieces.encode_one with FORM_WIRE or FORM_JSON. See
# encode_typed.pyx, which also tells shape problems from value problems.

from dynalsm.values.buffer cimport Buffer
from dynalsm.values.pieces cimport Options

cdef int put_typed(Buffer* out, object value, int depth, const Options* options) except -1
