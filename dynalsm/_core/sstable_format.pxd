# What the SSTable's writer and reader share: constants, checksums, footer, directory, properties.
# Byte layout: docs/format-sstable.md. Thread safety: pure functions, no state.

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from dynalsm._core.cipher cimport Piece
from dynalsm._core.coding cimport Slice


# On disk: never renumber.
cdef enum:
    TABLE_FORMAT_VERSION = 1
    TABLE_HEADER_BYTES = 16          # magic, unique id; data blocks begin behind it
    TABLE_FOOTER_BYTES = 64
    TRAILER_BYTES = 5                # codec u8, CRC-32C u32: behind every block and section
    DIRECTORY_ENTRY_BYTES = 24
    SECTIONS_MAX = 64
    FEATURE_ENCRYPTED = 1            # required feature: blocks and sections are sealed


cdef enum SectionKind:
    SECTION_NONE = 0                 # a data block, where a kind is asked for
    SECTION_INDEX = 1
    SECTION_FILTER = 2
    SECTION_PROPERTIES = 3
    SECTION_DICTIONARY = 4           # reserved: zstd dictionary
    SECTION_RANGE_DELETES = 5        # reserved
    SECTION_ENCRYPTION = 6           # the head of an encrypted file; never sealed itself
    SECTION_DIRECTORY = 255          # no section: where a kind is asked for; never sealed


cdef enum SectionFlag:
    SECTION_OPTIONAL = 1             # a reader that does not know the kind may ignore the section


# A block may hold one value of 1 GiB; nothing is larger than this.
cdef extern from *:
    """
    #define DYNALSM_BLOCK_LIMIT ((uint64_t)0x7FFFFFFF)
    """
    uint64_t BLOCK_LIMIT "DYNALSM_BLOCK_LIMIT"


cdef struct Section:
    uint8_t kind
    uint8_t flags
    uint64_t offset
    uint64_t size                    # without trailer


cdef struct Footer:
    uint64_t directory_offset
    uint64_t directory_size          # without trailer
    uint64_t unique_id
    uint64_t file_bytes
    uint32_t required_features
    uint32_t optional_features


# A growing byte string.
cdef struct Bytes:
    uint8_t* data                    # owned
    size_t size
    size_t capacity


cdef int bytes_reserve(Bytes* bytes, size_t more) noexcept nogil     # OK or NO_MEMORY
cdef int bytes_append(Bytes* bytes, const void* data, size_t size) noexcept nogil
cdef int bytes_append_varint(Bytes* bytes, uint64_t value) noexcept nogil
cdef void bytes_free(Bytes* bytes) noexcept nogil

# CRC-32C of payload and codec byte (`size` counts both), then of unique id and offset as u64 LE.
cdef uint32_t block_checksum(
    const uint8_t* payload, size_t size, uint64_t unique_id, uint64_t offset
) noexcept nogil
# Writes codec and checksum behind a payload that lies at `payload` and goes to `offset`.
cdef void put_trailer(
    uint8_t* payload, size_t size, int codec, uint64_t unique_id, uint64_t offset
) noexcept nogil
# REQUIRES: size + TRAILER_BYTES readable bytes.
cdef bint trailer_is_right(
    const uint8_t* payload, size_t size, uint64_t unique_id, uint64_t offset
) noexcept nogil

# Says where a block or section lies and what it is, for its cipher. `payload`: its first byte.
cdef void block_piece(
    Piece* piece, uint8_t* payload, size_t size, int kind, int codec, uint64_t unique_id,
    uint64_t offset
) noexcept nogil

cdef void table_header_encode(uint8_t* target, uint64_t unique_id) noexcept nogil
cdef bint table_header_is_right(const uint8_t* source, uint64_t unique_id) noexcept nogil
cdef void footer_encode(uint8_t* target, const Footer* footer) noexcept nogil
# Returns: NULL, or what is wrong.
cdef const char* footer_decode(const uint8_t* source, Footer* footer) noexcept nogil
cdef void section_encode(uint8_t* target, const Section* section) noexcept nogil
cdef bint section_decode(const uint8_t* source, Section* section) noexcept nogil


cdef struct Properties:
    uint64_t tree_id
    uint64_t level
    uint64_t file_id
    uint64_t unique_id
    uint64_t entries
    uint64_t deletions
    uint64_t keys                    # distinct user keys: what the filter holds
    uint64_t min_seqno
    uint64_t max_seqno
    uint64_t raw_bytes
    uint64_t data_blocks
    uint64_t data_bytes              # from the header to the first section
    uint64_t filter_bits
    uint64_t block_bytes
    uint64_t restart_interval
    uint64_t created                 # seconds since 1970
    Slice smallest                   # borrowed
    Slice largest
    Slice filter_hash                # "xxh64"
    Slice codec                      # "none" or "zstd"
    bint names_tree                  # written only when set; not read back in C
    Slice tree_name                  # borrowed
    uint64_t tree_hashed             # 0 or 1


cdef int properties_encode(Bytes* target, const Properties* properties) noexcept nogil
# Unknown names are skipped. Slices point into `source`. Returns: OK or CORRUPTION.
cdef int properties_decode(Slice source, Properties* properties) noexcept nogil
