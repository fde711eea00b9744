# Block compression without the GIL: zstd through C functions found in the installed zstandard
# package (self-tested at import), else through libzstd, else through the package's Python API,
# which takes the GIL once per call of compress_blocks.

from libc.stdint cimport uint8_t

from dynalsm._core.status cimport Failure


# On disk: never renumber.
cdef enum Codec:
    CODEC_NONE = 0
    CODEC_ZSTD = 1


cdef struct RawBlock:
    const uint8_t* data      # borrowed
    size_t size
    uint8_t* packed          # out: malloc'ed, the caller frees; NULL when not worth it (store raw)
    size_t packed_size


# Compresses `count` blocks at `level`. A block that does not shrink by 1/16 gets packed = NULL.
cdef int compress_blocks(RawBlock* blocks, int count, int level, Failure* failure) noexcept nogil
# Upper bound of the uncompressed size named in the frame, or -1 when it is not a frame.
cdef long long uncompressed_size(const uint8_t* data, size_t size) noexcept nogil
# Decompresses into target (exactly target_size bytes expected); CORRUPTION otherwise.
cdef int decompress_block(
    const uint8_t* data, size_t size, uint8_t* target, size_t target_size, Failure* failure
) noexcept nogil
