# Builds the payload of an index section (see index_builder.pxd for the contracts).

from libc.stdint cimport uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from dynalsm._core.bits cimport bytes_in_common
from dynalsm._core.coding cimport Slice, slice_equal
from dynalsm._core.sstable_format cimport (
    Bytes,
    bytes_append,
    bytes_append_varint,
    bytes_free,
    bytes_reserve,
)
from dynalsm._core.status cimport NO_MEMORY, OK


cdef void index_builder_free(IndexBuilder* builder) noexcept nogil:
    bytes_free(&builder.separators)
    bytes_free(&builder.last_separator)
    free(builder.places)
    memset(builder, 0, sizeof(IndexBuilder))


cdef int make_separator(Slice last, Slice next, Bytes* target) noexcept nogil:
    """The shortest key >= last and < next, or `last` where shortening is not simple."""
    cdef size_t shorter = last.size if last.size < next.size else next.size
    cdef size_t common = bytes_in_common(last.data, next.data, shorter)
    if common < last.size:
        if <int>last.data[common] + 1 < <int>next.data[common]:
            if bytes_append(target, last.data, common + 1):
                return NO_MEMORY
            target.data[common] += 1
            return OK
        if common + 1 < next.size:
            return bytes_append(target, next.data, common + 1)
    return bytes_append(target, last.data, last.size)


cdef int grow_places(IndexBuilder* builder) noexcept nogil:
    cdef size_t wanted = 2 * builder.capacity + 64
    cdef BlockPlace* places = <BlockPlace*>realloc(builder.places, wanted * sizeof(BlockPlace))
    if places == NULL:
        return NO_MEMORY
    builder.places = places
    builder.capacity = wanted
    return OK


cdef int index_builder_add(
    IndexBuilder* builder, Slice last, uint64_t last_tag, const Slice* next, size_t raw_size
) noexcept nogil:
    cdef bint straddles = next != NULL and slice_equal(last, next[0])
    cdef Bytes separator
    cdef size_t shared
    cdef int status
    if builder.count == builder.capacity and grow_places(builder):
        return NO_MEMORY
    memset(&separator, 0, sizeof(Bytes))
    if next == NULL or straddles:
        status = bytes_append(&separator, last.data, last.size)
    else:
        status = make_separator(last, next[0], &separator)
    if status == OK:
        shared = bytes_in_common(
            separator.data, builder.last_separator.data,
            min(separator.size, builder.last_separator.size),
        )
        status = (
            bytes_append_varint(&builder.separators, 2 * shared + straddles)
            or bytes_append_varint(&builder.separators, separator.size - shared)
            or bytes_append(&builder.separators, separator.data + shared, separator.size - shared)
            or (straddles and bytes_append_varint(&builder.separators, last_tag))
        )
    bytes_free(&builder.last_separator)
    builder.last_separator = separator
    if status != OK:
        return NO_MEMORY
    builder.places[builder.count].separator_end = builder.separators.size
    builder.places[builder.count].raw_size = <uint32_t>raw_size
    builder.count += 1
    return OK


cdef void index_builder_stored(IndexBuilder* builder, size_t stored_size) noexcept nogil:
    builder.places[builder.stored_count].stored_size = <uint32_t>stored_size
    builder.stored_count += 1


cdef int index_builder_encode(const IndexBuilder* builder, Bytes* payload) noexcept nogil:
    cdef const BlockPlace* place
    cdef size_t start = 0
    cdef size_t i
    # With that, no append below can fail.
    if bytes_reserve(payload, builder.separators.size + 20 * builder.count + 20):
        return NO_MEMORY
    bytes_append_varint(payload, builder.count)
    for i in range(builder.count):
        place = &builder.places[i]
        bytes_append(payload, builder.separators.data + start, place.separator_end - start)
        bytes_append_varint(payload, place.stored_size)
        bytes_append_varint(payload, place.raw_size)
        start = place.separator_end
    return OK
