# What the SSTable's writer and reader share (see sstable_format.pxd and docs/format-sstable.md).

from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy, memset, strlen

from dynalsm._core.coding cimport (
    Slice,
    bswap64,
    get_u32,
    get_u64,
    put_u32,
    put_u64,
    put_varint,
    slice_of,
)
from dynalsm._core.crc32c cimport crc32c
from dynalsm._core.status cimport CORRUPTION, NO_MEMORY, OK


cdef const char* MAGIC = "DLSMSST1"


# ------------------------------------------------------------------------------------------ bytes

cdef int bytes_reserve(Bytes* bytes, size_t more) noexcept nogil:
    cdef size_t wanted = bytes.size + more
    cdef size_t larger
    cdef uint8_t* moved
    if wanted <= bytes.capacity:
        return OK
    larger = bytes.capacity + bytes.capacity // 2 + 256
    if larger < wanted:
        larger = wanted
    moved = <uint8_t*>realloc(bytes.data, larger)
    if moved == NULL:
        return NO_MEMORY
    bytes.data = moved
    bytes.capacity = larger
    return OK


cdef int bytes_append(Bytes* bytes, const void* data, size_t size) noexcept nogil:
    if bytes_reserve(bytes, size):
        return NO_MEMORY
    if size:
        memcpy(bytes.data + bytes.size, data, size)
        bytes.size += size
    return OK


cdef int bytes_append_varint(Bytes* bytes, uint64_t value) noexcept nogil:
    if bytes_reserve(bytes, 10):
        return NO_MEMORY
    bytes.size = <size_t>(put_varint(bytes.data + bytes.size, value) - bytes.data)
    return OK


cdef void bytes_free(Bytes* bytes) noexcept nogil:
    free(bytes.data)
    memset(bytes, 0, sizeof(Bytes))


# ---------------------------------------------------------------------------------------- trailers

cdef uint32_t block_checksum(
    const uint8_t* payload, size_t size, uint64_t unique_id, uint64_t offset
) noexcept nogil:
    cdef uint8_t place[16]
    put_u64(place, unique_id)
    put_u64(place + 8, offset)
    return crc32c(crc32c(0, payload, size), place, 16)


cdef void put_trailer(
    uint8_t* payload, size_t size, int codec, uint64_t unique_id, uint64_t offset
) noexcept nogil:
    payload[size] = <uint8_t>codec
    put_u32(payload + size + 1, block_checksum(payload, size + 1, unique_id, offset))


cdef bint trailer_is_right(
    const uint8_t* payload, size_t size, uint64_t unique_id, uint64_t offset
) noexcept nogil:
    return get_u32(payload + size + 1) == block_checksum(payload, size + 1, unique_id, offset)


cdef void block_piece(
    Piece* piece, uint8_t* payload, size_t size, int kind, int codec, uint64_t unique_id,
    uint64_t offset
) noexcept nogil:
    piece.data = payload
    piece.size = size
    piece.nonce = offset
    piece.attempt = 0
    put_u64(piece.place, unique_id)
    put_u64(piece.place + 8, offset)
    piece.place[16] = <uint8_t>kind
    piece.place[17] = <uint8_t>codec
    piece.place_size = 18


# ------------------------------------------------------------------------ header, footer, directory

cdef void table_header_encode(uint8_t* target, uint64_t unique_id) noexcept nogil:
    memcpy(target, MAGIC, 8)
    put_u64(target + 8, unique_id)


cdef bint table_header_is_right(const uint8_t* source, uint64_t unique_id) noexcept nogil:
    return memcmp(source, MAGIC, 8) == 0 and get_u64(source + 8) == unique_id


cdef void footer_encode(uint8_t* target, const Footer* footer) noexcept nogil:
    memset(target, 0, TABLE_FOOTER_BYTES)
    memcpy(target, MAGIC, 8)
    put_u32(target + 8, TABLE_FORMAT_VERSION | (TABLE_FORMAT_VERSION << 16))
    put_u32(target + 12, footer.required_features)
    put_u32(target + 16, footer.optional_features)
    put_u64(target + 24, footer.directory_offset)
    put_u64(target + 32, footer.directory_size)
    put_u64(target + 40, footer.unique_id)
    put_u64(target + 48, footer.file_bytes)
    put_u32(target + 60, crc32c(0, target, 60))


cdef const char* footer_decode(const uint8_t* source, Footer* footer) noexcept nogil:
    cdef uint32_t versions
    if memcmp(source, MAGIC, 8) != 0:
        return "this is not an SSTable, or its end is missing (no magic in the footer)"
    if get_u32(source + 60) != crc32c(0, source, 60):
        return "the footer's checksum is wrong"
    versions = get_u32(source + 8)
    if (versions >> 16) > TABLE_FORMAT_VERSION:
        return "the SSTable needs a newer version of dynalsm"
    if (versions & 0xFFFF) == 0 or (versions >> 16) == 0:
        return "the footer has no format version"
    footer.required_features = get_u32(source + 12)
    footer.optional_features = get_u32(source + 16)
    if footer.required_features & ~<uint32_t>FEATURE_ENCRYPTED:
        return "the SSTable uses features this version of dynalsm does not know"
    if get_u32(source + 20) != 0 or get_u32(source + 56) != 0:
        return "reserved bytes of the footer are not zero"
    footer.directory_offset = get_u64(source + 24)
    footer.directory_size = get_u64(source + 32)
    footer.unique_id = get_u64(source + 40)
    footer.file_bytes = get_u64(source + 48)
    return NULL


cdef void section_encode(uint8_t* target, const Section* section) noexcept nogil:
    memset(target, 0, DIRECTORY_ENTRY_BYTES)
    target[0] = section.kind
    target[1] = section.flags
    put_u64(target + 8, section.offset)
    put_u64(target + 16, section.size)


cdef bint section_decode(const uint8_t* source, Section* section) noexcept nogil:
    section.kind = source[0]
    section.flags = source[1]
    section.offset = get_u64(source + 8)
    section.size = get_u64(source + 16)
    # Reserved bits and bytes are zero.
    return (source[1] & ~SECTION_OPTIONAL) == 0 and (get_u64(source) >> 16) == 0


# --------------------------------------------------------------------------- properties, in msgpack

cdef int put_name(Bytes* target, const char* name) noexcept nogil:
    cdef size_t size = strlen(name)
    cdef uint8_t head = <uint8_t>(0xA0 | size)             # fixstr: every name has < 32 bytes
    if bytes_append(target, &head, 1):
        return NO_MEMORY
    return bytes_append(target, name, size)


cdef int put_number(Bytes* target, const char* name, uint64_t value) noexcept nogil:
    cdef uint8_t text[9]
    if put_name(target, name):
        return NO_MEMORY
    if value < 0x80:
        text[0] = <uint8_t>value
        return bytes_append(target, text, 1)
    text[0] = 0xCF
    value = bswap64(value)
    memcpy(text + 1, &value, 8)
    return bytes_append(target, text, 9)


cdef int put_raw(Bytes* target, const char* name, Slice value, int head8) noexcept nogil:
    """`head8` is the type byte of the form with a one-byte size: 0xC4 bin, 0xD9 str."""
    cdef uint8_t head[5]
    if put_name(target, name):
        return NO_MEMORY
    if value.size < 256:
        head[0] = <uint8_t>head8
        head[1] = <uint8_t>value.size
        if bytes_append(target, head, 2):
            return NO_MEMORY
    else:
        head[0] = <uint8_t>(head8 + 2)
        head[1] = <uint8_t>(value.size >> 24)
        head[2] = <uint8_t>(value.size >> 16)
        head[3] = <uint8_t>(value.size >> 8)
        head[4] = <uint8_t>value.size
        if bytes_append(target, head, 5):
            return NO_MEMORY
    return bytes_append(target, value.data, value.size)


# A property that is a number: its name, and where Properties keeps it.
cdef struct NumberField:
    const char* name
    size_t offset


cdef enum:
    NUMBER_FIELDS = 16
    RAW_FIELDS = 4

cdef NumberField number_fields[NUMBER_FIELDS]
cdef NumberField raw_fields[RAW_FIELDS]


cdef void fill_fields() noexcept:
    cdef Properties probe
    cdef uint8_t* base = <uint8_t*>&probe
    number_fields[0] = NumberField("tree_id", <uint8_t*>&probe.tree_id - base)
    number_fields[1] = NumberField("level", <uint8_t*>&probe.level - base)
    number_fields[2] = NumberField("file_id", <uint8_t*>&probe.file_id - base)
    number_fields[3] = NumberField("unique_id", <uint8_t*>&probe.unique_id - base)
    number_fields[4] = NumberField("entries", <uint8_t*>&probe.entries - base)
    number_fields[5] = NumberField("deletions", <uint8_t*>&probe.deletions - base)
    number_fields[6] = NumberField("keys", <uint8_t*>&probe.keys - base)
    number_fields[7] = NumberField("min_seqno", <uint8_t*>&probe.min_seqno - base)
    number_fields[8] = NumberField("max_seqno", <uint8_t*>&probe.max_seqno - base)
    number_fields[9] = NumberField("raw_bytes", <uint8_t*>&probe.raw_bytes - base)
    number_fields[10] = NumberField("data_blocks", <uint8_t*>&probe.data_blocks - base)
    number_fields[11] = NumberField("data_bytes", <uint8_t*>&probe.data_bytes - base)
    number_fields[12] = NumberField("filter_bits", <uint8_t*>&probe.filter_bits - base)
    number_fields[13] = NumberField("block_bytes", <uint8_t*>&probe.block_bytes - base)
    number_fields[14] = NumberField("restart_interval", <uint8_t*>&probe.restart_interval - base)
    number_fields[15] = NumberField("created", <uint8_t*>&probe.created - base)
    raw_fields[0] = NumberField("smallest", <uint8_t*>&probe.smallest - base)
    raw_fields[1] = NumberField("largest", <uint8_t*>&probe.largest - base)
    raw_fields[2] = NumberField("filter_hash", <uint8_t*>&probe.filter_hash - base)
    raw_fields[3] = NumberField("codec", <uint8_t*>&probe.codec - base)


fill_fields()


cdef int properties_encode(Bytes* target, const Properties* properties) noexcept nogil:
    cdef const uint8_t* base = <const uint8_t*>properties
    cdef uint8_t head[3]
    cdef int i
    head[0] = 0xDE                                          # map16
    head[1] = 0
    head[2] = NUMBER_FIELDS + RAW_FIELDS + (2 if properties.names_tree else 0)
    if bytes_append(target, head, 3):
        return NO_MEMORY
    for i in range(NUMBER_FIELDS):
        if put_number(
            target, number_fields[i].name, (<const uint64_t*>(base + number_fields[i].offset))[0]
        ):
            return NO_MEMORY
    for i in range(RAW_FIELDS):
        if put_raw(
            target, raw_fields[i].name, (<const Slice*>(base + raw_fields[i].offset))[0],
            0xC4 if i < 2 else 0xD9,
        ):
            return NO_MEMORY
    if properties.names_tree:
        if put_raw(target, "tree_name", properties.tree_name, 0xD9):
            return NO_MEMORY
        return put_number(target, "tree_hashed", properties.tree_hashed)
    return OK


# One msgpack value, taken apart as far as properties need it.
cdef struct Token:
    int kind                     # TOKEN_*
    uint64_t number              # of TOKEN_NUMBER; children of TOKEN_NEST
    Slice raw                    # of TOKEN_RAW

cdef enum:
    TOKEN_OTHER = 0
    TOKEN_NUMBER = 1
    TOKEN_RAW = 2                # str or bin
    TOKEN_NEST = 3               # array or map: `number` values follow
    TOKEN_MAP = 4                # as TOKEN_NEST, and `number` counts names and values


cdef inline const uint8_t* big_endian(
    const uint8_t* at, const uint8_t* limit, int size, uint64_t* value
) noexcept nogil:
    cdef int i
    if limit - at < size:
        return NULL
    value[0] = 0
    for i in range(size):
        value[0] = value[0] << 8 | at[i]
    return at + size


cdef const uint8_t* raw_token(
    const uint8_t* at, const uint8_t* limit, uint64_t size, Token* token
) noexcept nogil:
    if at == NULL or size > <size_t>(limit - at):
        return NULL
    token.raw = slice_of(at, size)
    return at + size


cdef const uint8_t* next_token(
    const uint8_t* at, const uint8_t* limit, Token* token
) noexcept nogil:
    """Returns: the byte behind the token (for a nest: its first child), or NULL when damaged."""
    cdef uint8_t head
    cdef uint64_t size = 0
    token.kind = TOKEN_OTHER
    token.number = 0
    if at >= limit:
        return NULL
    head = at[0]
    at += 1
    if head < 0x80:                                        # positive fixint
        token.kind = TOKEN_NUMBER
        token.number = head
        return at
    if head < 0x90 or 0xDE <= head <= 0xDF:                # fixmap, map16, map32
        token.kind = TOKEN_MAP
        token.number = 2 * <uint64_t>(head & 15)
        if head >= 0xDE:
            at = big_endian(at, limit, 2 if head == 0xDE else 4, &size)
            token.number = 2 * size
        return at
    if head < 0xA0 or 0xDC <= head <= 0xDD:                # fixarray, array16, array32
        token.kind = TOKEN_NEST
        token.number = head & 15
        if head >= 0xDC:
            at = big_endian(at, limit, 2 if head == 0xDC else 4, &token.number)
        return at
    if head < 0xC0:                                        # fixstr
        token.kind = TOKEN_RAW
        return raw_token(at, limit, head & 31, token)
    if head <= 0xC3 or head >= 0xE0:                       # nil, false, true, negative fixint
        return at if head != 0xC1 else NULL
    if head <= 0xC6 or 0xD9 <= head <= 0xDB:               # bin 8/16/32, str 8/16/32
        token.kind = TOKEN_RAW
        at = big_endian(at, limit, 1 << (head - 0xC4 if head <= 0xC6 else head - 0xD9), &size)
        return raw_token(at, limit, size, token)
    if head <= 0xC9:                                       # ext 8/16/32: size, type, bytes
        at = big_endian(at, limit, 1 << (head - 0xC7), &size)
        return raw_token(at, limit, size + 1, token)
    if head <= 0xCB:                                       # float 32/64
        return raw_token(at, limit, 4 if head == 0xCA else 8, token)
    if head <= 0xCF:                                       # uint 8/16/32/64
        token.kind = TOKEN_NUMBER
        return big_endian(at, limit, 1 << (head - 0xCC), &token.number)
    if head <= 0xD3:                                       # int 8/16/32/64
        return raw_token(at, limit, 1 << (head - 0xD0), token)
    return raw_token(at, limit, 1 + (1 << (head - 0xD4)), token)      # fixext 1..16


cdef const uint8_t* skip_children(
    const uint8_t* at, const uint8_t* limit, uint64_t left
) noexcept nogil:
    cdef Token token
    while left and at != NULL:
        at = next_token(at, limit, &token)
        left -= 1
        if token.kind == TOKEN_NEST or token.kind == TOKEN_MAP:
            # Every value takes a byte at least: a larger count is damaged.
            if at == NULL or token.number > <uint64_t>(limit - at):
                return NULL
            left += token.number
    return at


cdef bint is_name(Slice raw, const char* name) noexcept nogil:
    return raw.size == strlen(name) and memcmp(raw.data, name, raw.size) == 0


cdef void keep_property(Properties* properties, Slice name, const Token* value) noexcept nogil:
    cdef uint8_t* base = <uint8_t*>properties
    cdef int i
    if value.kind == TOKEN_NUMBER:
        for i in range(NUMBER_FIELDS):
            if is_name(name, number_fields[i].name):
                (<uint64_t*>(base + number_fields[i].offset))[0] = value.number
                return
    elif value.kind == TOKEN_RAW:
        for i in range(RAW_FIELDS):
            if is_name(name, raw_fields[i].name):
                (<Slice*>(base + raw_fields[i].offset))[0] = value.raw
                return


cdef int properties_decode(Slice source, Properties* properties) noexcept nogil:
    cdef const uint8_t* at = source.data
    cdef const uint8_t* limit = source.data + source.size
    cdef Token token
    cdef Slice name
    cdef uint64_t pairs
    memset(properties, 0, sizeof(Properties))
    at = next_token(at, limit, &token)
    if at == NULL or token.kind != TOKEN_MAP:
        return CORRUPTION
    pairs = token.number // 2
    while pairs:
        pairs -= 1
        at = next_token(at, limit, &token)
        if at == NULL or token.kind != TOKEN_RAW:
            return CORRUPTION
        name = token.raw
        at = next_token(at, limit, &token)
        if at == NULL:
            return CORRUPTION
        if token.kind == TOKEN_NEST or token.kind == TOKEN_MAP:
            at = skip_children(at, limit, token.number)
            if at == NULL:
                return CORRUPTION
        else:
            keep_property(properties, name, &token)
    return OK if at == limit else CORRUPTION
