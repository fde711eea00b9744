# Encoders of internal and native Python values, for pieces.encode_one. See encode_python.pyx.

from dynalsm.values.buffer cimport Buffer
from dynalsm.values.pieces cimport Options

cdef int put_internal(Buffer* out, object value, int depth, const Options* options) except -1
cdef int put_native(Buffer* out, object value, int depth, const Options* options) except -1
