# Builds blocks (see block.pxd for the layout and block_builder.pxd for the contracts).

from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from dynalsm._core.bits cimport bytes_in_common
from dynalsm._core.block cimport BLOCK_ENTRIES_MAX, BLOCK_INTERVAL_SHIFT_MAX, BLOCK_WIDE_BIT
from dynalsm._core.coding cimport Slice, put_u32, put_varint
from dynalsm._core.debug cimport scribble
from dynalsm._core.hashing cimport hash64
from dynalsm._core.status cimport NO_MEMORY, OK

cdef extern from *:
    """
    #define DYNALSM_BLOCK_BYTES_MAX ((size_t)0x7FFFFFFF)
    """
    size_t BLOCK_BYTES_MAX "DYNALSM_BLOCK_BYTES_MAX"


cdef enum:
    FIRST_BLOCK_BYTES = 4608         # a default block without growing
    FIRST_KEY_BYTES = 64
    FIRST_ENTRIES = 64
    HEADER_BYTES_MAX = 40            # four varints
    NARROW_BYTES_MAX = 0x10000       # entries up to here have u16 offsets
    SHARED_MIN = 4                   # fewer bytes are not worth fetching the group's first entry


cdef int grow_bytes(uint8_t** data, size_t* capacity, size_t wanted) noexcept nogil:
    """Make room for `wanted` bytes in all."""
    cdef size_t larger = capacity[0] + capacity[0] // 2
    cdef uint8_t* moved
    if larger < wanted:
        larger = wanted
    moved = <uint8_t*>realloc(data[0], larger)
    if moved == NULL:
        return NO_MEMORY
    data[0] = moved
    capacity[0] = larger
    return OK


cdef int block_builder_init(BlockBuilder* builder, uint32_t interval) noexcept nogil:
    memset(builder, 0, sizeof(BlockBuilder))
    while (
        builder.interval_shift < BLOCK_INTERVAL_SHIFT_MAX
        and (<uint32_t>1 << builder.interval_shift) < interval
    ):
        builder.interval_shift += 1
    builder.capacity = FIRST_BLOCK_BYTES
    builder.offset_capacity = FIRST_ENTRIES
    builder.first_key_capacity = FIRST_KEY_BYTES
    builder.data = <uint8_t*>malloc(builder.capacity)
    builder.offsets = <uint32_t*>malloc(builder.offset_capacity * sizeof(uint32_t))
    builder.hash_bytes = <uint8_t*>malloc(builder.offset_capacity)
    builder.first_key = <uint8_t*>malloc(builder.first_key_capacity)
    if (
        builder.data == NULL or builder.offsets == NULL
        or builder.hash_bytes == NULL or builder.first_key == NULL
    ):
        block_builder_free(builder)
        return NO_MEMORY
    return OK


cdef void block_builder_free(BlockBuilder* builder) noexcept nogil:
    free(builder.data)
    free(builder.offsets)
    free(builder.hash_bytes)
    free(builder.first_key)
    memset(builder, 0, sizeof(BlockBuilder))


cdef void block_builder_reset(BlockBuilder* builder) noexcept nogil:
    scribble(builder.data, builder.capacity)
    builder.size = 0
    builder.entries = 0
    builder.first_key_size = 0


cdef int grow_offsets(BlockBuilder* builder) noexcept nogil:
    cdef size_t wanted = 2 * <size_t>builder.offset_capacity
    cdef uint32_t* offsets = <uint32_t*>realloc(builder.offsets, wanted * sizeof(uint32_t))
    cdef uint8_t* hash_bytes
    if offsets == NULL:
        return NO_MEMORY
    builder.offsets = offsets
    hash_bytes = <uint8_t*>realloc(builder.hash_bytes, wanted)
    if hash_bytes == NULL:
        return NO_MEMORY
    builder.hash_bytes = hash_bytes
    builder.offset_capacity = <uint32_t>wanted
    return OK


cdef int block_builder_add(
    BlockBuilder* builder, Slice key, uint64_t tag, Slice value
) noexcept nogil:
    return block_builder_add_hashed(builder, key, hash64(key.data, key.size), tag, value)


cdef int block_builder_add_hashed(
    BlockBuilder* builder, Slice key, uint64_t key_hash, uint64_t tag, Slice value
) noexcept nogil:
    cdef size_t shared = 0
    cdef size_t unshared
    cdef size_t wanted = builder.size + HEADER_BYTES_MAX + key.size + value.size
    cdef size_t shorter
    cdef uint8_t* target
    if wanted > BLOCK_BYTES_MAX - 5 * (<size_t>builder.entries + 2):
        return NO_MEMORY
    if wanted > builder.capacity and grow_bytes(&builder.data, &builder.capacity, wanted):
        return NO_MEMORY
    if builder.entries == builder.offset_capacity and (
        builder.entries >= BLOCK_ENTRIES_MAX or grow_offsets(builder)
    ):
        return NO_MEMORY
    if builder.entries & ((<uint32_t>1 << builder.interval_shift) - 1):
        shorter = key.size if key.size < builder.first_key_size else builder.first_key_size
        shared = bytes_in_common(key.data, builder.first_key, shorter)
        if shared < SHARED_MIN:
            shared = 0
    else:
        if key.size > builder.first_key_capacity and grow_bytes(
            &builder.first_key, &builder.first_key_capacity, key.size
        ):
            return NO_MEMORY
        if key.size:
            memcpy(builder.first_key, key.data, key.size)
        builder.first_key_size = key.size
    unshared = key.size - shared
    target = builder.data + builder.size
    target = put_varint(target, shared)
    target = put_varint(target, unshared)
    target = put_varint(target, value.size)
    target = put_varint(target, tag)
    if unshared:
        memcpy(target, key.data + shared, unshared)
    if value.size:
        memcpy(target + unshared, value.data, value.size)
    builder.offsets[builder.entries] = <uint32_t>builder.size
    builder.hash_bytes[builder.entries] = <uint8_t>(key_hash >> 56)
    builder.entries += 1
    builder.size = <size_t>(target - builder.data) + unshared + value.size
    return OK


cdef size_t block_builder_bytes(BlockBuilder* builder) noexcept nogil:
    cdef size_t per_entry = 3 if builder.size <= NARROW_BYTES_MAX else 5
    return builder.size + per_entry * builder.entries + 4


cdef int block_builder_finish(BlockBuilder* builder) noexcept nogil:
    cdef size_t wanted = block_builder_bytes(builder)
    cdef bint is_wide = builder.size > NARROW_BYTES_MAX
    cdef uint8_t* target
    cdef uint32_t i
    if wanted > builder.capacity and grow_bytes(&builder.data, &builder.capacity, wanted):
        return NO_MEMORY
    target = builder.data + builder.size
    for i in range(builder.entries):
        if is_wide:
            put_u32(target, builder.offsets[i])
            target += 4
        else:
            target[0] = <uint8_t>builder.offsets[i]
            target[1] = <uint8_t>(builder.offsets[i] >> 8)
            target += 2
    memcpy(target, builder.hash_bytes, builder.entries)
    put_u32(
        target + builder.entries,
        builder.entries | (builder.interval_shift << 24) | (BLOCK_WIDE_BIT if is_wide else 0),
    )
    builder.size = wanted
    return OK
