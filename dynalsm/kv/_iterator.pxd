# What the other modules of the byte-key store use of the iterators' module.

cdef bytes as_bytes(object value)
cdef int no_membership() except -1
