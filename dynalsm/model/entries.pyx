"""Secondary index entries: what an item's change means for every index of its table.

An index entry is a pair (tree key, stored value) that `IndexKeys` derives from the whole item, so
the entries that a change touches follow from the old and the new item alone. An item without one
of the key attributes has no entry (the index is sparse).

An attribute may hold what cannot be an index key only if it was there before the index was: such
an item has no entry, and it may be changed as long as that attribute is not.

A change of an index is a tuple (index, old entry, new entry), with None for no entry on that side.

Thread safety: pure functions.
"""

from libc.stdint cimport int64_t, uint64_t

from dynalsm.model.batches cimport batch_delete, batch_put
from dynalsm.model.handles cimport IndexHandle, TableHandle
from dynalsm.model.keys cimport size_of_stored

from dynalsm.model.capacity import index_write_units, vector_request_bytes
from dynalsm.model.keys import KeyProblem
from dynalsm.values import get_attribute


class IndexKeyProblem(Exception):
    """An attribute cannot be a key of `index`; `problem` is the KeyProblem that says why."""

    def __init__(self, index, problem):
        super().__init__(index, problem)
        self.index = index
        self.problem = problem


cdef inline tuple entry_in(IndexHandle index, bytes item):
    """The entry of an item, or None. Raises: KeyProblem."""
    if index.vectors is not None:
        item = index.vectors.indexed(item)
        if item is None:
            return None
    return index.keys.entry_of(item)


cdef list new_entries(TableHandle handle, bytes item):
    cdef list entries = []
    cdef IndexHandle index
    for index in handle.written_indexes:
        try:
            entries.append(entry_in(index, item))
        except KeyProblem as problem:
            raise IndexKeyProblem(index, problem) from None
    return entries


cdef list updated_entries(TableHandle handle, bytes old_item, bytes new_item):
    cdef list entries = []
    cdef IndexHandle index
    for index in handle.written_indexes:
        try:
            entries.append(entry_in(index, new_item))
        except KeyProblem as problem:
            if old_item is None or has_changed(problem.attribute, old_item, new_item):
                raise IndexKeyProblem(index, problem) from None
            entries.append(None)
    return entries


cdef bint has_changed(name, bytes old_item, bytes new_item) except -1:
    return get_attribute(old_item, name) != get_attribute(new_item, name)


cdef tuple entry_if_any(IndexHandle index, bytes item):
    try:
        return entry_in(index, item)
    except KeyProblem:
        return None


cdef list index_changes(TableHandle handle, bytes old_item, list entries):
    cdef list changes = []
    cdef IndexHandle index
    cdef Py_ssize_t position = 0
    cdef tuple old
    cdef tuple new
    for index in handle.written_indexes:
        new = entries[position] if entries is not None else None
        position += 1
        old = entry_if_any(index, old_item) if old_item is not None else None
        if old is not None and not index.is_readable and index.tree.get(old[0]) is None:
            old = None  # the backfill has not come to this item yet
        if old != new:
            changes.append((index, old, new))
    return changes


cdef int stage_changes(object batch, list changes) except -1:
    cdef IndexHandle index
    cdef tuple old
    cdef tuple new
    for change in changes:
        index, old, new = <tuple>change
        if old is not None and (new is None or old[0] != new[0]):
            batch_delete(batch, index.tree, <bytes>old[0])
        if new is not None:
            batch_put(batch, index.tree, <bytes>new[0], <bytes>new[1])
    return 0


cdef inline uint64_t size_of_entry(tuple entry) except? 0xFFFFFFFFFFFFFFFF:
    return size_of_stored(<bytes>entry[1]) if entry is not None else 0


cdef int count_changes(uint64_t seqno, list changes) except -1:
    cdef IndexHandle index
    cdef tuple old
    cdef tuple new
    for change in changes:
        index, old, new = <tuple>change
        index.statistics.count(
            seqno,
            <int64_t>(new is not None) - <int64_t>(old is not None),
            <int64_t>size_of_entry(new) - <int64_t>size_of_entry(old),
        )
        if index.space is not None:
            index.space.note(old, new)
    return 0


cdef uint64_t local_entries_bytes(TableHandle handle, list entries) except? 0xFFFFFFFFFFFFFFFF:
    cdef IndexHandle index
    cdef uint64_t size_bytes = 0
    cdef Py_ssize_t position = 0
    for index in handle.written_indexes:
        if index.is_local:
            size_bytes += size_of_entry(<tuple>entries[position])
        position += 1
    return size_bytes


def entry_or_none(IndexHandle index not None, bytes item not None):
    """Return the entry of a stored item; an item that the index cannot take has none."""
    return entry_if_any(index, item)


cdef int64_t billed_difference(TableHandle handle, bytes item) except? -1:
    cdef IndexHandle index
    cdef int64_t size_bytes = 0
    cdef set seen = set()
    for index in handle.written_indexes:
        if index.vectors is not None and index.vectors.attribute not in seen:
            seen.add(index.vectors.attribute)
            size_bytes += index.vectors.billed_difference(item)
    return size_bytes


def vector_bytes(tuple change not None):
    """Return the VectorWriteRequestBytes that one change of a vector index consumes."""
    _, old, new = change
    if old is not None and new is not None and old[0] != new[0]:
        return vector_request_bytes(size_of_entry(old)) + vector_request_bytes(size_of_entry(new))
    return vector_request_bytes(max(size_of_entry(old), size_of_entry(new)))


def units(tuple change not None):
    """Return the write units that one index change consumes."""
    _, old, new = change
    return index_write_units(
        size_of_entry(old),
        size_of_entry(new),
        old is not None and new is not None and old[0] == new[0],
        False,
    )
