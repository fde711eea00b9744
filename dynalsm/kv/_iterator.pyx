# Iterators of the byte-key store, with plyvel's meaning, over the engine's Cursor.
#
# Thread safety: one thread at a time uses an iterator; a second one gets RuntimeError instead of a
# torn buffer. Different iterators are independent. close() of the database may come from anywhere.
# Invariants: (1) an iterator keeps its database object alive;
#             (2) it sees the state of the moment it was made (or of its snapshot).

cimport cython

from dynalsm.kv.exceptions import ClosedError, IteratorInvalidError

from libc.stdint cimport uint64_t

from dynalsm._core.engine cimport Tree
from dynalsm._core.sync cimport atomic_store, claim


cdef bytes as_bytes(object value):
    """The bytes of any object with a buffer. Raises TypeError for the others."""
    if type(value) is bytes:
        return <bytes>value
    return memoryview(value).tobytes()


cdef bytes increment(bytes prefix):
    """The least key above every key that begins with `prefix`; None when there is no such key."""
    cdef bytes kept = prefix.rstrip(b"\xff")
    if not kept:
        return None
    return kept[:len(kept) - 1] + bytes((kept[len(kept) - 1] + 1,))


cdef int no_membership() except -1:
    raise TypeError("__contains__ is not supported ('in' and 'not in' operators)")


def key_range(start, stop, bint include_start, bint include_stop, prefix, bytes db_prefix):
    """plyvel's bounds as (lower, upper): the keys with lower <= key < upper; None is no bound.

    REQUIRES: `db_prefix` is None or the prefix of a PrefixedDB. Raises TypeError."""
    cdef bytes lower = None
    cdef bytes upper = None
    cdef bytes head = b"" if db_prefix is None else db_prefix
    if prefix is not None:
        if start is not None or stop is not None:
            raise TypeError("'prefix' cannot be used together with 'start' or 'stop'")
        head += as_bytes(prefix)
    if start is not None:
        lower = head + as_bytes(start)
        if not include_start:
            lower += b"\0"
    elif head:
        lower = head
    if stop is not None:
        upper = head + as_bytes(stop)
        if include_stop:
            upper += b"\0"
    elif head:
        upper = increment(head)
    return lower, upper


@cython.final
cdef class Iterator:
    """A walk over a range of keys that can turn round. Made by `iterator()`.

    The iterator stands between two entries: next() returns the one ahead and steps over it,
    prev() the one behind. "Ahead" is downwards for a reverse iterator."""

    cdef object owner                # keeps the database open
    cdef object cursor
    cdef object ahead                # bound methods of the cursor
    cdef object behind
    cdef bytes lower
    cdef bytes upper
    cdef bytes last                  # an included stop key: seek() goes no further, as in plyvel
    cdef bytes db_prefix
    cdef Py_ssize_t skip             # bytes to cut off each key
    cdef bint with_keys
    cdef bint with_values
    cdef uint64_t user               # atomic: the thread whose call is under way; 0: none
    cdef object __weakref__

    def __init__(
        self, owner, Tree tree not None, bytes db_prefix, bint reverse, start, stop,
        bint include_start, bint include_stop, prefix, bint include_key, bint include_value,
        bint fill_cache, snapshot
    ):
        tree.check_alive()
        self.owner = owner
        self.db_prefix = db_prefix
        self.skip = 0 if db_prefix is None else len(db_prefix)
        self.with_keys = include_key
        self.with_values = include_value
        self.lower, self.upper = key_range(
            start, stop, include_start, include_stop, prefix, db_prefix
        )
        if stop is not None and include_stop:
            self.last = self.upper[:len(self.upper) - 1]
        self.cursor = tree.cursor(
            self.lower, self.upper, reverse=reverse, snapshot=snapshot,
            keys=include_key or not include_value, values=include_value, fill_cache=fill_cache
        )
        self.ahead = self.cursor.prev_entry if reverse else self.cursor.next_entry
        self.behind = self.cursor.next_entry if reverse else self.cursor.prev_entry

    cdef int enter(self) except -1:
        if not claim(&self.user):
            raise RuntimeError("the iterator is in use by another thread")
        return 0

    cdef inline object shape(self, object entry):
        """What the caller asked to see of an entry."""
        if self.with_keys:
            if self.skip == 0:
                return entry
            if self.with_values:
                return ((<bytes>(<tuple>entry)[0])[self.skip:], (<tuple>entry)[1])
            return (<bytes>entry)[self.skip:]
        return entry if self.with_values else None

    cdef object step(self, object move):
        cdef object entry
        self.enter()
        try:
            entry = move()
        finally:
            atomic_store(&self.user, 0)
        if entry is None:
            raise StopIteration
        return self.shape(entry)

    def __iter__(self):
        return self

    def __next__(self):
        return self.step(self.ahead)

    def next(self):
        """The entry ahead, as next(iterator) returns it. Raises StopIteration at the end."""
        return self.step(self.ahead)

    def prev(self):
        """The entry behind, stepping back over it. Raises StopIteration at the beginning."""
        return self.step(self.behind)

    def next_chunk(self, Py_ssize_t size=1024):
        """Up to `size` entries ahead as a list; an empty list at the end. Faster than next()."""
        cdef list chunk
        cdef Py_ssize_t index
        if size < 1:
            raise ValueError("a chunk has at least one entry")
        self.enter()
        try:
            chunk = self.cursor.next_chunk(size)
        finally:
            atomic_store(&self.user, 0)
        if self.skip or not (self.with_keys or self.with_values):
            for index in range(len(chunk)):
                chunk[index] = self.shape(chunk[index])
        return chunk

    def chunks(self, Py_ssize_t size=1024):
        """The rest of the walk in lists of up to `size` entries."""
        while chunk := self.next_chunk(size):
            yield chunk

    def seek(self, target not None):
        """To the place just before `target` (a key that need not exist), inside the bounds."""
        cdef bytes key = as_bytes(target)
        if self.db_prefix is not None:
            key = self.db_prefix + key
        self.enter()
        try:
            if self.lower is not None and key < self.lower:
                self.cursor.seek_start()
            elif self.upper is not None and key >= self.upper and self.last is None:
                self.cursor.seek_end()
            elif self.last is not None and key > self.last:
                self.cursor.seek_before(self.last)
            else:
                self.cursor.seek_before(key)
        finally:
            atomic_store(&self.user, 0)

    def seek_to_start(self):
        """Before the lowest key of the range (also when the iterator is reverse)."""
        self.enter()
        try:
            self.cursor.seek_start()
        finally:
            atomic_store(&self.user, 0)

    def seek_to_stop(self):
        """Behind the highest key of the range (also when the iterator is reverse)."""
        self.enter()
        try:
            self.cursor.seek_end()
        finally:
            atomic_store(&self.user, 0)

    def close(self):
        """Let go of what the iterator holds; using it afterwards raises RuntimeError."""
        self.enter()
        try:
            self.cursor.close()
        finally:
            atomic_store(&self.user, 0)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
        return False

    def __contains__(self, key):
        no_membership()


@cython.final
cdef class RawIterator:
    """LevelDB's own iterator: it stands on an entry, or is invalid. Made by `raw_iterator()`."""

    cdef object owner
    cdef object cursor
    cdef object entry                # (key, value) it stands on; None: invalid
    cdef bint is_behind              # the cursor's gap is behind the entry (else before it)
    cdef uint64_t user               # atomic: as in Iterator
    cdef object __weakref__

    def __init__(self, owner, Tree tree not None, bint fill_cache, snapshot):
        tree.check_alive()
        self.owner = owner
        self.cursor = tree.cursor(None, None, snapshot=snapshot, fill_cache=fill_cache)

    cdef int enter(self) except -1:
        if not claim(&self.user):
            raise RuntimeError("the iterator is in use by another thread")
        if self.cursor.closed:
            atomic_store(&self.user, 0)
            raise ClosedError("the iterator or its database is closed")
        return 0

    cdef tuple current(self):
        """What it stands on. REQUIRES: entered."""
        if self.entry is None:
            raise IteratorInvalidError()
        return <tuple>self.entry

    def valid(self):
        """Whether it stands on an entry."""
        self.enter()
        try:
            return self.entry is not None
        finally:
            atomic_store(&self.user, 0)

    def seek_to_first(self):
        """To the first entry."""
        self.enter()
        try:
            self.cursor.seek_start()
            self.entry = self.cursor.next_entry()
            self.is_behind = True
        finally:
            atomic_store(&self.user, 0)

    def seek_to_last(self):
        """To the last entry."""
        self.enter()
        try:
            self.cursor.seek_end()
            self.entry = self.cursor.prev_entry()
            self.is_behind = False
        finally:
            atomic_store(&self.user, 0)

    def seek(self, target not None):
        """To the first entry whose key is >= `target`."""
        cdef bytes key = as_bytes(target)
        self.enter()
        try:
            self.cursor.seek_before(key)
            self.entry = self.cursor.next_entry()
            self.is_behind = True
        finally:
            atomic_store(&self.user, 0)

    def next(self):
        """To the next entry. Raises IteratorInvalidError when it stands on none."""
        self.enter()
        try:
            self.current()
            if not self.is_behind:
                self.cursor.next_entry()
                self.is_behind = True
            self.entry = self.cursor.next_entry()
        finally:
            atomic_store(&self.user, 0)

    def prev(self):
        """To the previous entry. Raises IteratorInvalidError when it stands on none."""
        self.enter()
        try:
            self.current()
            if self.is_behind:
                self.cursor.prev_entry()
                self.is_behind = False
            self.entry = self.cursor.prev_entry()
        finally:
            atomic_store(&self.user, 0)

    def key(self):
        """The key it stands on. Raises IteratorInvalidError."""
        return self.item()[0]

    def value(self):
        """The value it stands on. Raises IteratorInvalidError."""
        return self.item()[1]

    def item(self):
        """The (key, value) it stands on. Raises IteratorInvalidError."""
        self.enter()
        try:
            return self.current()
        finally:
            atomic_store(&self.user, 0)

    def close(self):
        """Let go of what the iterator holds; using it afterwards raises RuntimeError."""
        if not claim(&self.user):
            raise RuntimeError("the iterator is in use by another thread")
        try:
            self.entry = None
            self.cursor.close()
        finally:
            atomic_store(&self.user, 0)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
        return False

    def __contains__(self, key):
        no_membership()
