# Tree keys of tables and indexes, as other compiled modules see them. See keys.pyx.
#
# Thread safety: the objects do not change after construction.

from libc.stdint cimport uint8_t, uint64_t

from dynalsm.model.key_parts cimport MAX_KEY_ATTRIBUTES, KeyPart, KeySchema
from dynalsm.model.stored cimport NameSet
from dynalsm.values.buffer cimport Buffer
from dynalsm.values.codec cimport Node, Part
from dynalsm.values.decode cimport HINTS
from dynalsm.values.outline cimport Hint


# One entry of a tree, taken apart. Borrowed from the entry's key and value, and from `room`.
cdef struct Record:
    uint64_t item_size           # DynamoDB's, in bytes
    const uint8_t* map_start     # the encoded map without the key attributes
    const uint8_t* end
    Part parts[MAX_KEY_ATTRIBUTES]   # the key attributes, sorted by name
    int part_count


# What the keys of tables and indexes have in common: reading back what was stored.
cdef class StoredKeys(KeySchema):
    cdef readonly tuple names
    cdef int _order[MAX_KEY_ATTRIBUTES]  # indices of the attributes, sorted by name
    cdef int _order_count
    cdef NameSet _dropped        # every name the tree key holds
    cdef NameSet _kept           # None: all attributes are stored
    cdef list _texts             # the names as str, in that order; what Part.text borrows
    cdef Part _parts[MAX_KEY_ATTRIBUTES]     # of a Record, without values
    cdef Hint _hints[HINTS]      # owned; guarded by the GIL

    # Prepare what depends on all attributes.
    cdef int finish(self) except -1

    # The tree key of an item; for an index, None when the item is not in it.
    cdef bytes tree_key(self, bytes item)

    # What all tree keys of one partition start with: an encoded value for each hash attribute.
    cdef bytes prefix_of(self, list values)

    # (lower, upper) of a sort condition, as sort_range of Python.
    cdef tuple range_of(self, bytes prefix, str op, list operands, list equalities)

    # Find the values of all attributes in a tree key; unescaped ones go into `room`.
    cdef int split(
        self, const uint8_t* key, size_t key_size, KeyPart* parts, Buffer* room
    ) except -1

    # The same as Parts, one for each name, sorted.
    cdef int open_key(
        self, const uint8_t* key, size_t key_size, Part* out, Buffer* room
    ) except -1

    # Take the tree key and the stored value of an entry apart.
    cdef int open_record(
        self, const uint8_t* key, size_t key_size, const uint8_t* stored, size_t stored_size,
        Record* out, Buffer* room
    ) except -1

    # The item of a record, as `form` (of decode.pxd) shows it; and as bytes.
    cdef object decoded(self, const Record* record, int form)
    cdef bytes encoded(self, const Record* record)

    # The item of an entry, as `form` shows it.
    cpdef object decode(self, bytes tree_key, bytes stored, int form)

    # A map with the tree key's attributes merged in.
    cdef bytes with_map(self, bytes tree_key, const uint8_t* map_start, const uint8_t* end)

    # The whole (of an index: the projected) item that was stored.
    cdef bytes whole(self, bytes tree_key, bytes stored)


cdef class TableKeys(StoredKeys):
    # The stored value of an item.
    cdef bytes stored_of(self, bytes item)

    # Raise KeyProblem unless the encoded map holds exactly the key attributes.
    cdef int check_key(self, bytes key) except -1

    # The tree key of a Key as `form` (of decode.pxd) shows it; None when it is not plain, so that
    # it has to be encoded. Raises KeyProblem for values that are too short or too long.
    cdef bytes plain_key(self, dict key, int form)
    cdef bytes key_of_nodes(self, const Node* pk, const Node* sk)


cdef class IndexKeys(StoredKeys):
    cdef readonly str kind
    cdef readonly TableKeys table
    cdef bint _is_local
    cdef int _hashes             # attributes[0:_hashes] are the index's hash attributes
    cdef int _ranges             # then so many range attributes, then those of the table

    # The table's tree key of the item that an entry with this tree key belongs to.
    cdef bytes table_key_of(self, const uint8_t* key, size_t key_size)

    # (tree key, stored value) of an item, or None when it is not in the index.
    cdef tuple entry_of(self, bytes item)

    # Find and check all index key attributes. Returns: whether none is missing.
    cdef int collect(self, bytes item, Node* values) except -1
    cdef int put_table_key(self, Buffer* out, bytes item, bint with_partition) except -1

    # Write the hash and the hash attributes.
    cdef int put_hash_part(self, Buffer* out, const Node* values) except -1


# DynamoDB's size of what was stored under a key, key included.
cdef uint64_t size_of_stored(bytes stored) except? 0xFFFFFFFFFFFFFFFF
