"""Outline: the names of a map seen before, so that the next such map needs no look-ups.

Items of a table mostly have the same attributes. A reader that keeps the outline of the last item
compares the names it meets with those it expects, and makes the dict by copying one that has the
names already and putting the values in their places. Where those are inside a dict is found by
looking for known objects in a sample, within the memory that dict.__sizeof__ vouches for; when
that fails, as it may on another interpreter, PyDict_SetItem does it.

Thread safety: guarded by the GIL. Whoever reads by an outline holds a reference to it, as any call
into the interpreter may replace it in its hint.

1. Names are in the order of the map, hence sorted by their bytes.
2. At most MAX_NAMES_ALIVE names are kept by all outlines together.
"""

from cpython.dict cimport PyDict_Copy, PyDict_SetItem
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from cython cimport final
from libc.stdint cimport uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from dynalsm.values.buffer cimport write_str_header

cdef extern from "Python.h":
    ctypedef struct PyDictObject:
        void* ma_keys
    bint PyObject_GC_IsTracked(object value)
    void PyObject_GC_Track(object value)
    void* Py_TYPE(PyObject* value)
    bint PyType_IS_GC(void* type)
    Py_ssize_t Py_REFCNT(object value)
    void Py_SET_REFCNT(object value, Py_ssize_t count)

cdef enum:
    MAX_NAME_BYTES = 64          # longer names are data rather than names
    MAX_HEADER_BYTES = 6
    MAX_NAMES_ALIVE = 65536      # about 100 bytes each
    RELEARN_MISSES = 16          # a place whose maps keep changing costs an outline so often

# Of all outlines together. Guarded by the GIL.
cdef Py_ssize_t names_alive = 0
# Whether values may be put straight into their places. Guarded by the GIL.
cdef bint may_place = True


@final
cdef class Outline:
    """The names of a map, ready to be compared and copied."""

    def __cinit__(self, list texts not None):
        global names_alive
        cdef size_t total = 0
        cdef list encoded = [text.encode() for text in texts]
        for name in encoded:
            total += len(name) + MAX_HEADER_BYTES
        self.texts = texts
        self.names = <OutlineName*>calloc(len(texts) + 1, sizeof(OutlineName))
        self.memory = <uint8_t*>malloc(total + 1)
        if self.names == NULL or self.memory == NULL:
            raise MemoryError()
        self.count = len(texts)
        names_alive += self.count
        take_names(self, encoded)
        self.template = dict.fromkeys(texts)
        if len(self.template) != len(texts):
            raise ValueError("a name occurs twice")
        find_places(self)

    def __dealloc__(self):
        global names_alive
        cdef size_t i
        names_alive -= self.count
        for i in range(self.count):
            release_hint(&self.names[i].child)
        free(self.names)
        free(self.memory)

    cdef dict fill(self, PyObject** values):
        cdef dict result = PyDict_Copy(self.template)
        cdef char* place
        cdef bint has_containers = False
        cdef size_t i
        if self.stride == 0:
            for i in range(self.count):
                PyDict_SetItem(result, self.texts[i], <object>values[i])
                Py_DECREF(<object>values[i])
            return result
        # Nobody has seen the dict yet; it holds None in all places.
        place = <char*>(<PyDictObject*>result).ma_keys + self.offset
        for i in range(self.count):
            (<PyObject**>place)[0] = values[i]
            has_containers |= PyType_IS_GC(Py_TYPE(values[i]))
            place += self.stride
        Py_SET_REFCNT(None, Py_REFCNT(None) - <Py_ssize_t>self.count)
        # As the interpreter does: a dict of scalars is nothing for the garbage collector.
        if has_containers and not PyObject_GC_IsTracked(result):
            PyObject_GC_Track(result)
        return result


cdef inline PyObject** words_of(dict source) noexcept:
    return <PyObject**>(<PyDictObject*>source).ma_keys


cdef int take_names(Outline outline, list encoded) except -1:
    cdef uint8_t* to = outline.memory
    cdef OutlineName* name
    cdef bytes text
    cdef Py_ssize_t i
    for i in range(len(encoded)):
        text = encoded[i]
        name = &outline.names[i]
        name.data = to
        to += write_str_header(to, len(text))
        memcpy(to, <const char*>text, len(text))
        to += len(text)
        name.size = to - name.data
        name.part = -1
        memcpy(&name.word, name.data, name.size if name.size < 8 else 8)
        memset(&name.mask, 0xFF, name.size if name.size < 8 else 8)
    return 0


cdef int find_places(Outline outline) except -1:
    """Set offset and stride if the values' places in a copy of the template can be told."""
    cdef dict sample = {text: object() for text in outline.texts}
    cdef Py_ssize_t size = dict.__sizeof__(sample) - dict.__basicsize__
    cdef Py_ssize_t offset = 0
    cdef Py_ssize_t stride
    if outline.count == 0 or not may_place:
        return 0
    key = outline.texts[0]
    while offset + 16 <= size:
        if words_of(sample)[offset // 8] == <PyObject*>key:
            break
        offset += 8
    for stride in (16, 24):
        # Entries are (key, value), or (hash, key, value).
        if offset + <Py_ssize_t>(outline.count - 1) * stride + 16 > size:
            break
        if (
            is_at(outline, sample, offset, stride)
            and is_at(outline, PyDict_Copy(sample), offset, stride)
            and dict.__sizeof__(outline.template) == dict.__sizeof__(sample)
            and is_at(outline, PyDict_Copy(outline.template), offset, stride)
        ):
            outline.offset = offset + 8
            outline.stride = stride
            break
    return 0


cdef bint is_at(Outline outline, dict source, Py_ssize_t offset, Py_ssize_t stride) except -1:
    """Whether all names and values of a dict are where they are supposed to be."""
    cdef PyObject** place
    cdef size_t i
    for i in range(outline.count):
        place = words_of(source) + (offset + <Py_ssize_t>i * stride) // 8
        key = outline.texts[i]
        value = source[key]
        if place[0] != <PyObject*>key or place[1] != <PyObject*>value:
            return False
    return True


cdef int note_names(Hint* hint, list names, const int* parts) except -1:
    cdef Outline outline
    cdef size_t i
    hint.misses += 1
    if hint.outline != NULL and hint.misses % RELEARN_MISSES:
        return 0
    release_hint(hint)
    if names_alive + len(names) > MAX_NAMES_ALIVE:
        return 0
    for name in names:
        if len(name) > MAX_NAME_BYTES // 4 and len(name.encode()) > MAX_NAME_BYTES:
            return 0
    outline = Outline(names)
    for i in range(outline.count):
        outline.names[i].part = parts[i]
    Py_INCREF(outline)
    hint.outline = <PyObject*>outline
    return 0


cdef void release_hint(Hint* hint) noexcept:
    cdef PyObject* old = hint.outline
    hint.outline = NULL
    Py_XDECREF(old)


def _use_places(bint wanted):
    """Let new outlines put values straight into dicts, or not (tests); return whether they do."""
    global may_place
    may_place = wanted
    return Outline(["a", "b"]).stride > 0


def _names_alive():
    """Return how many names all outlines together keep (tests)."""
    return names_alive
