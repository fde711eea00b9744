# Reading encoded values in C, without the GIL and without making Python objects. Header only.
#
# Encoded values are canonical msgpack (docs/format-items.md). Everything here checks its bounds:
# damaged bytes give -1 or NULL, never a read outside [data, end). Nothing recurses, so the depth
# of nesting does not matter. Thread safety: pure functions over the caller's memory.

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcmp

from dynalsm.values.number cimport Number, number_from_bytes, number_size

cdef enum:                       # msgpack extension types, on disk
    EXT_N = 1
    EXT_SS = 2
    EXT_NS = 3
    EXT_BS = 4

cdef enum Tag:                   # in memory only
    TAG_BAD = 0
    TAG_S = 1
    TAG_N = 2
    TAG_B = 3
    TAG_BOOL = 4
    TAG_NULL = 5
    TAG_L = 6
    TAG_M = 7
    TAG_SS = 8
    TAG_NS = 9
    TAG_BS = 10

cdef enum:
    # Of decoders; encoders are held to 32 by default, and never reach it. At most 1.5 KB of stack
    # a level keeps it far inside the smallest thread stack (512 KB).
    MAX_DEPTH = 128

# One value as found in place. Borrowed: valid while the encoded bytes live.
cdef struct Node:
    int tag                      # a Tag
    bint truth                   # of BOOL
    const uint8_t* start         # first byte of the header
    const uint8_t* body          # first byte after the header
    size_t size                  # bytes of S B N SS NS BS; number of elements of L, pairs of M

# An attribute that stands outside an item's map: a key attribute, found in the tree key.
cdef struct Part:
    const uint8_t* name          # UTF-8
    size_t name_size
    PyObject* text               # borrowed: the name as str
    Node value                   # S, N or B; start is not set


cdef inline uint32_t load_big16(const uint8_t* p) noexcept nogil:
    return <uint32_t>p[0] << 8 | p[1]


cdef inline uint32_t load_big32(const uint8_t* p) noexcept nogil:
    return <uint32_t>p[0] << 24 | <uint32_t>p[1] << 16 | <uint32_t>p[2] << 8 | p[3]


cdef inline int ext_tag(uint8_t ext) noexcept nogil:
    if ext == EXT_N:
        return TAG_N
    if ext == EXT_SS:
        return TAG_SS
    if ext == EXT_NS:
        return TAG_NS
    if ext == EXT_BS:
        return TAG_BS
    return TAG_BAD


# The long header forms, 0xC4 to 0xDF. REQUIRES: node.start and node.body = start + 1 are set.
cdef inline int read_long_header(const uint8_t* end, Node* node) noexcept nogil:
    cdef uint8_t first = node.start[0]
    cdef const uint8_t* p = node.body
    cdef int width
    cdef bint is_ext = False
    if first <= 0xC6:
        node.tag = TAG_B
        width = 1 << (first - 0xC4)
    elif first <= 0xC9:
        is_ext = True
        width = 1 << (first - 0xC7)
    elif first <= 0xD3:
        return -1
    elif first <= 0xD8:
        is_ext = True
        width = 0
        node.size = <size_t>1 << (first - 0xD4)
    elif first <= 0xDB:
        node.tag = TAG_S
        width = 1 << (first - 0xD9)
    else:
        node.tag = TAG_L if first <= 0xDD else TAG_M
        width = 2 << (first & 1)
    if end - p < width + is_ext:
        return -1
    if width == 1:
        node.size = p[0]
    elif width == 2:
        node.size = load_big16(p)
    elif width == 4:
        node.size = load_big32(p)
    p += width
    if is_ext:
        node.tag = ext_tag(p[0])
        p += 1
        if node.tag == TAG_BAD:
            return -1
    node.body = p
    return 0


# Read the header at p. Returns: 0, or -1 when the bytes are damaged. On 0 the body of S, N, B and
# sets lies inside [p, end), and a container's count is no more than its bytes can hold.
cdef inline int read_node(const uint8_t* p, const uint8_t* end, Node* node) noexcept nogil:
    cdef uint8_t first
    node.tag = TAG_BAD
    node.start = p
    node.body = p
    node.size = 0
    node.truth = False
    if p >= end:
        return -1
    first = p[0]
    node.body = p + 1
    if first >= 0xA0 and first <= 0xBF:
        node.tag = TAG_S
        node.size = first & 0x1F
    elif first >= 0xC4:
        if first >= 0xE0 or read_long_header(end, node) < 0:
            node.tag = TAG_BAD
            return -1
    elif first == 0xC2 or first == 0xC3:
        node.tag = TAG_BOOL
        node.truth = first & 1
        return 0
    elif first == 0xC0:
        node.tag = TAG_NULL
        return 0
    elif first >= 0x90 and first <= 0x9F:
        node.tag = TAG_L
        node.size = first & 0x0F
    elif first >= 0x80 and first <= 0x8F:
        node.tag = TAG_M
        node.size = first & 0x0F
    else:
        return -1
    # A pair takes two bytes at least.
    if node.size << (node.tag == TAG_M) > <size_t>(end - node.body):
        node.tag = TAG_BAD
        return -1
    return 0


cdef inline bint is_container(const Node* node) noexcept nogil:
    return node.tag == TAG_L or node.tag == TAG_M


# Returns: the first byte after the value at p, or NULL when the bytes are damaged.
cdef inline const uint8_t* skip_value(const uint8_t* p, const uint8_t* end) noexcept nogil:
    cdef Node node
    cdef size_t pending = 1
    while pending:
        pending -= 1
        # Short texts, most of what there is: names, too.
        if p < end and p[0] >> 5 == 5 and end - p > (p[0] & 0x1F):
            p += 1 + (p[0] & 0x1F)
            continue
        if read_node(p, end, &node) < 0:
            return NULL
        p = node.body
        if is_container(&node):
            pending += node.size << (node.tag == TAG_M)
        else:
            p += node.size
    return p


# Returns: the first byte after a node that was read already, or NULL.
cdef inline const uint8_t* skip_node(const Node* node, const uint8_t* end) noexcept nogil:
    cdef const uint8_t* p = node.body
    cdef size_t pending
    if not is_container(node):
        return p + node.size
    pending = node.size << (node.tag == TAG_M)
    while pending:
        p = skip_value(p, end)
        if p == NULL:
            return NULL
        pending -= 1
    return p


# Returns: the Tag of the value at p.
cdef inline int type_tag(const uint8_t* p, const uint8_t* end) noexcept nogil:
    cdef Node node
    read_node(p, end, &node)
    return node.tag


# Order of two byte strings: negative, 0 or positive.
cdef inline int compare_bytes(
    const uint8_t* a, size_t a_size, const uint8_t* b, size_t b_size
) noexcept nogil:
    cdef int order = memcmp(a, b, a_size if a_size < b_size else b_size)
    if order == 0:
        return (a_size > b_size) - (a_size < b_size)
    return order


# Find an attribute of an encoded map (read as `map_node`). Returns: 1 with *out set, 0 when there
# is none, -1 when the bytes are damaged or the node is no map.
cdef inline int find_in_map(
    const Node* map_node, const uint8_t* end, const uint8_t* name, size_t name_size, Node* out
) noexcept nogil:
    cdef const uint8_t* p = map_node.body
    cdef size_t rest = map_node.size
    cdef Node key
    cdef int order
    if map_node.tag != TAG_M:
        return -1
    while rest:
        if read_node(p, end, &key) < 0 or key.tag != TAG_S:
            return -1
        if read_node(key.body + key.size, end, out) < 0:
            return -1
        order = compare_bytes(key.body, key.size, name, name_size)
        if order == 0:
            return 1
        if order > 0:            # names are sorted
            return 0
        p = skip_node(out, end)
        if p == NULL:
            return -1
        rest -= 1
    return 0


cdef inline int find_attribute(
    const uint8_t* item, const uint8_t* end, const uint8_t* name, size_t name_size, Node* out
) noexcept nogil:
    cdef Node node
    if read_node(item, end, &node) < 0:
        return -1
    return find_in_map(&node, end, name, name_size, out)


# Find element `index` of a list node. Returns: 1 with *out set, 0 beyond the end, -1 damaged.
cdef inline int find_in_list(
    const Node* list_node, const uint8_t* end, size_t index, Node* out
) noexcept nogil:
    cdef const uint8_t* p = list_node.body
    if list_node.tag != TAG_L:
        return -1
    if index >= list_node.size:
        return 0
    while index:
        p = skip_value(p, end)
        if p == NULL:
            return -1
        index -= 1
    return 1 if read_node(p, end, out) == 0 else -1


# Compare two nodes that are both S, both N or both B. Their order is the order of their bytes.
cdef inline int compare_scalars(const Node* a, const Node* b) noexcept nogil:
    return compare_bytes(a.body, a.size, b.body, b.size)


# Whether two whole encoded values are equal: canonical, so equal bytes.
cdef inline bint equal_values(
    const uint8_t* a, size_t a_size, const uint8_t* b, size_t b_size
) noexcept nogil:
    return a_size == b_size and memcmp(a, b, a_size) == 0


# Number of members of a set node, or -1.
cdef inline int64_t count_members(const Node* node) noexcept nogil:
    cdef const uint8_t* p = node.body
    cdef const uint8_t* end = node.body + node.size
    cdef int64_t count = 0
    while p < end:
        p = skip_value(p, end)
        if p == NULL:
            return -1
        count += 1
    return count


# Whether one of the elements of a list or members of a set is the given whole encoded value.
# Returns: 1, 0, or -1 when the bytes are damaged.
cdef inline int contains_value(
    const Node* node, const uint8_t* end, const uint8_t* value, size_t value_size
) noexcept nogil:
    cdef const uint8_t* p = node.body
    cdef const uint8_t* after
    cdef size_t rest = node.size
    if node.tag != TAG_L:
        end = node.body + node.size
    while (node.tag == TAG_L and rest != 0) or (node.tag != TAG_L and p < end):
        after = skip_value(p, end)
        if after == NULL:
            return -1
        if equal_values(p, after - p, value, value_size):
            return 1
        p = after
        rest -= 1
    return 0


# Length of UTF-8 text in UTF-16 units: what size() of a string counts.
cdef inline size_t utf16_units(const uint8_t* text, size_t size) noexcept nogil:
    cdef size_t units = 0
    cdef size_t i
    for i in range(size):
        # Every byte but the continuations starts a character; four-byte ones take two units.
        units += ((text[i] & 0xC0) != 0x80) + (text[i] >= 0xF0)
    return units


# DynamoDB's size of one node that is no container (reference 2.3), or -1.
cdef inline int64_t scalar_size(const Node* node) noexcept nogil:
    cdef Number number
    cdef Node member
    cdef const uint8_t* p
    cdef const uint8_t* end
    cdef int64_t total = 0
    if node.tag == TAG_S or node.tag == TAG_B:
        return <int64_t>node.size
    if node.tag == TAG_N:
        if number_from_bytes(node.body, node.size, &number) != <int64_t>node.size:
            return -1
        return number_size(&number)
    if node.tag == TAG_BOOL or node.tag == TAG_NULL:
        return 1
    p = node.body
    end = p + node.size
    while p < end:
        if read_node(p, end, &member) < 0:
            return -1
        p = member.body + member.size
        if member.tag == TAG_N:
            if number_from_bytes(member.body, member.size, &number) != <int64_t>member.size:
                return -1
            total += number_size(&number)
        elif member.tag == TAG_S or member.tag == TAG_B:
            total += member.size
        else:
            return -1
    return total


# DynamoDB's size of the value at p; *after is set behind it. -1 when the bytes are damaged.
# A map's names count as their length, as strings do, so names need no treatment of their own.
cdef inline int64_t size_value(
    const uint8_t* p, const uint8_t* end, const uint8_t** after
) noexcept nogil:
    cdef Node node
    cdef size_t pending = 1
    cdef int64_t total = 0
    cdef int64_t one
    while pending:
        if read_node(p, end, &node) < 0:
            return -1
        pending -= 1
        p = node.body
        if is_container(&node):
            total += 3 + <int64_t>node.size
            pending += node.size << (node.tag == TAG_M)
        else:
            one = scalar_size(&node)
            if one < 0:
                return -1
            total += one
            p += node.size
    after[0] = p
    return total


# DynamoDB's size of an item: names and values, without a map's own overhead. -1 when damaged.
cdef inline int64_t size_item(const uint8_t* item, const uint8_t* end) noexcept nogil:
    cdef Node node
    cdef const uint8_t* after = item
    cdef int64_t total
    if read_node(item, end, &node) < 0 or node.tag != TAG_M:
        return -1
    total = size_value(item, end, &after)
    if total < 0 or after != end:
        return -1
    return total - 3 - <int64_t>node.size
