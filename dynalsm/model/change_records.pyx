"""Change records: how a change of an item enters its table's changelog (see changelog.py).

::

    key    shard (2 bytes, big-endian) · engine sequence number (8 bytes, big-endian)
    value  msgpack array: kind (0 INSERT, 1 MODIFY, 2 REMOVE), time (ms since 1970), encoded key
           attributes, encoded old image | nil, encoded new image | nil, by TTL (bool)

Thread safety: a Changelog does not change after construction; a record is added under the lock
of its item.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cython cimport final
from libc.stdint cimport int64_t, uint8_t, uint32_t

from dynalsm.model.handles cimport TableHandle
from dynalsm.values.buffer cimport (
    Buffer,
    buffer_bytes,
    buffer_free,
    buffer_init,
    buffer_put,
    buffer_reserve,
    write_array_header,
    write_big16,
    write_big32,
    write_bin_header,
)

cdef enum:
    INSERT = 0
    MODIFY = 1
    REMOVE = 2
    NIL = 0xC0
    FALSE = 0xC2
    MEMBERS = 6
    # Array header, kind, time, three headers of images, by TTL: the rest is what they hold.
    MAX_OVERHEAD_BYTES = 1 + 1 + 9 + 3 * 5 + 1

cdef tuple OLD_VIEWS = ("OLD_IMAGE", "NEW_AND_OLD_IMAGES")
cdef tuple NEW_VIEWS = ("NEW_IMAGE", "NEW_AND_OLD_IMAGES")


@final
cdef class Changelog:
    """A changelog that is open for writing or reading: its record and its tree."""

    def __init__(self, record, tree):
        self.record = record
        self.tree = tree
        self.keeps_old = record.keeps_images or record.view in OLD_VIEWS
        self.keeps_new = record.keeps_images or record.view in NEW_VIEWS
        self.shards = record.shards


cdef int write_integer(uint8_t* out, int64_t value) noexcept nogil:
    """Write an integer in msgpack's shortest form. Returns: bytes written."""
    cdef int size
    if -32 <= value < 128:
        out[0] = <uint8_t>value
        return 1
    if 0 <= value < 1 << 8:
        out[0] = 0xCC
        out[1] = <uint8_t>value
        return 2
    if 0 <= value < 1 << 16:
        out[0] = 0xCD
        return 1 + write_big16(out + 1, <size_t>value)
    if 0 <= value < <int64_t>1 << 32:
        out[0] = 0xCE
        return 1 + write_big32(out + 1, <size_t>value)
    # Negative times, which no clock gives, take the longest form.
    out[0] = 0xCF if value >= 0 else 0xD3
    size = 1 + write_big32(out + 1, <uint32_t>(value >> 32))
    return size + write_big32(out + size, <uint32_t>value)


cdef int put_image(Buffer* out, bytes image) except -1:
    """Write encoded bytes, or nil for None."""
    if image is None:
        buffer_reserve(out, 1)[0] = NIL
        out.size += 1
        return 0
    out.size += write_bin_header(buffer_reserve(out, 5), PyBytes_GET_SIZE(image))
    return buffer_put(out, PyBytes_AS_STRING(image), PyBytes_GET_SIZE(image))


cdef bytes record_of(
    Changelog changelog, bytes key_item, bytes old_item, bytes new_item, int64_t milliseconds,
    bint by_ttl
):
    cdef Buffer out
    cdef uint8_t* p
    buffer_init(&out)
    try:
        p = buffer_reserve(&out, MAX_OVERHEAD_BYTES)
        out.size = write_array_header(p, MEMBERS)
        p[out.size] = INSERT if old_item is None else REMOVE if new_item is None else MODIFY
        out.size += 1
        out.size += write_integer(p + out.size, milliseconds)
        put_image(&out, key_item)
        put_image(&out, old_item if changelog.keeps_old else None)
        put_image(&out, new_item if changelog.keeps_new else None)
        buffer_reserve(&out, 1)[0] = FALSE + by_ttl
        out.size += 1
        return buffer_bytes(&out)
    finally:
        buffer_free(&out)


cdef int add_change_record(
    object batch, TableHandle handle, bytes tree_key, bytes old_item, bytes new_item, object now,
    bint by_ttl
) except -1:
    cdef Changelog changelog = <Changelog?>handle.changelog
    cdef const uint8_t* key = <const uint8_t*>PyBytes_AS_STRING(tree_key)
    cdef uint8_t prefix[2]
    cdef bytes value = record_of(
        changelog, handle.keys.key_item(tree_key), old_item, new_item, int(now * 1000), by_ttl
    )
    # The top two bytes of the partition-key hash, scaled to the number of shards.
    write_big16(prefix, ((<unsigned int>key[0] << 8 | key[1]) * changelog.shards) >> 16)
    batch.put_stamped(changelog.tree, (<char*>prefix)[:2], b"", value)
    return 0


def pack_record(
    Changelog changelog not None, bytes key_item not None, bytes old_item, bytes new_item,
    int64_t milliseconds, bint by_ttl
):
    """Return the value of a record (for tests)."""
    return record_of(changelog, key_item, old_item, new_item, milliseconds, by_ttl)
