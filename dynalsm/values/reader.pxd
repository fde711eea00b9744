# Reader: moving along encoded bytes with the GIL, raising CorruptionError on damage. Header only.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t

from dynalsm.values.codec cimport MAX_DEPTH, TAG_L, TAG_M, Node, read_node
from dynalsm.values.number cimport Number, number_from_bytes

cdef struct Reader:
    const uint8_t* p             # borrowed from the bytes that are read
    const uint8_t* end


cdef inline int damaged() except -1:
    from dynalsm.errors import CorruptionError

    raise CorruptionError("damaged encoded value")


cdef inline void open_reader(Reader* reader, bytes data) noexcept:
    reader.p = <const uint8_t*>PyBytes_AS_STRING(data)
    reader.end = reader.p + PyBytes_GET_SIZE(data)


cdef inline int close_reader(const Reader* reader) except -1:
    """Check that everything was read."""
    if reader.p != reader.end:
        return damaged()
    return 0


cdef inline int next_node(Reader* reader, Node* node) except -1:
    """Read a header and step over it, and over the body of what is no container."""
    if read_node(reader.p, reader.end, node) < 0:
        return damaged()
    reader.p = node.body
    if node.tag != TAG_L and node.tag != TAG_M:
        reader.p += node.size
    return 0


cdef inline int next_item(Reader* reader, Node* node) except -1:
    """Read the header of an item."""
    next_node(reader, node)
    if node.tag != TAG_M:
        return damaged()
    return 0


cdef inline int check_read_depth(int depth) except -1:
    if depth > MAX_DEPTH:
        raise ValueError("encoded value is nested too deep")
    return 0


cdef inline int read_number(const Node* node, Number* number) except -1:
    if number_from_bytes(node.body, node.size, number) != <int>node.size:
        return damaged()
    return 0
