# A cache of decoded sets by their encoded members. Header only.
#
# Items of a table repeat sets of short texts (tags, roles) as they repeat short texts; a copy of a
# set that is there costs a third of finding its members one by one. Only sets of S and N are kept,
# whose members are the same objects in every form but WIRE.
#
# Thread safety: guarded by the GIL; `sets` belongs to one module.

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

from dynalsm.values.codec cimport TAG_N, TAG_S, Node

cdef enum:
    SET_BITS = 8
    SET_SLOTS = 1 << SET_BITS
    MIN_SET_BYTES = 8            # a set of fewer bytes has one or two members
    MAX_SET_BYTES = 54

cdef struct SharedSet:
    PyObject* members            # owned reference to a frozenset, or NULL
    uint8_t tag                  # the Tag of the members
    uint8_t size
    uint8_t data[MAX_SET_BYTES]  # the encoded members


# Where the set of these members is kept, or would be; NULL: sets like it are not kept.
cdef inline SharedSet* shared_set_at(SharedSet* sets, const Node* node, int tag) noexcept nogil:
    cdef uint64_t first
    cdef uint64_t last
    if node.size < MIN_SET_BYTES or node.size > MAX_SET_BYTES or (tag != TAG_S and tag != TAG_N):
        return NULL
    memcpy(&first, node.body, 8)
    memcpy(&last, node.body + node.size - 8, 8)
    first = (first ^ (last >> 31 | last << 33) ^ node.size) * <uint64_t>0x9E3779B97F4A7C15
    return &sets[first >> (64 - SET_BITS)]


cdef inline bint is_shared_set(const SharedSet* place, const Node* node, int tag) noexcept nogil:
    return (
        place.members != NULL and place.size == node.size and place.tag == tag
        and memcmp(place.data, node.body, node.size) == 0
    )


# REQUIRES: `place` is that of the node. Keeps `members`, a frozenset.
cdef inline void share_set(SharedSet* place, const Node* node, int tag, object members) noexcept:
    cdef PyObject* old = place.members
    Py_INCREF(members)
    place.members = <PyObject*>members
    place.tag = <uint8_t>tag
    place.size = <uint8_t>node.size
    memcpy(place.data, node.body, node.size)
    Py_XDECREF(old)
