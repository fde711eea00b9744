# Reading requests that are beyond doubt valid, for the straight ways. Header only.
#
# Nothing here says what is wrong with a request: the long way finds that out.
# Thread safety: pure functions; a request belongs to one thread.

from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject

from dynalsm.model.handles cimport OpenTables, TableHandle
from dynalsm.model.write_path cimport WritePath
from dynalsm.values.decode cimport AS_JSON, AS_NATIVE
from dynalsm.values.encode_python cimport put_native
from dynalsm.values.encode_typed cimport put_typed
from dynalsm.values.pieces cimport FORM_JSON, FORM_WIRE, encode_map, encode_one

cdef enum:
    DEPTH_LIMIT = 32             # of values, as for all encoders


# A member that is there and not None, counted; else NULL.
cdef inline PyObject* member(dict request, str name, Py_ssize_t* found) except? NULL:
    cdef PyObject* value = PyDict_GetItemWithError(request, name)
    if value == NULL or value == <PyObject*>None:
        return NULL
    found[0] += 1
    return value


# The handle of a table; None when its name, or the database, needs a closer look.
cdef inline TableHandle handle_named(database, object text):
    cdef PyObject* name
    cdef PyObject* handle
    if type(text) is not str:
        return None
    name = PyDict_GetItemWithError(<dict?>database.settings.table_names, text)
    if name == NULL:
        return None
    # Snapshots have their own of both, closed databases none.
    writes, catalog = database.writes, database.catalog
    if not isinstance(writes, WritePath) or not isinstance(catalog, OpenTables):
        return None if writes.is_watched else catalog.get(<object>name)
    if (<WritePath>writes).is_watched:
        return None
    handle = PyDict_GetItemWithError((<OpenTables>catalog)._tables, <object>name)
    return None if handle == NULL else <TableHandle>handle


cdef inline TableHandle handle_of(database, dict request, Py_ssize_t* found):
    cdef PyObject* text = member(request, "TableName", found)
    return None if text == NULL else handle_named(database, <object>text)


# A boolean member: 1 or 0; -1 when it is something else.
cdef inline int flag(dict request, str name, bint missing, Py_ssize_t* found) except -2:
    cdef PyObject* value = member(request, name, found)
    if value == NULL:
        return missing
    if <object>value is True:
        return 1
    return 0 if <object>value is False else -1


# Encode a value, or an item or key. Raises: whatever the encoder does.
cdef inline bytes encoded(object value, int form):
    if form == AS_NATIVE:
        return encode_one(put_native, value, DEPTH_LIMIT, FORM_WIRE)
    return encode_one(put_typed, value, DEPTH_LIMIT, FORM_JSON if form == AS_JSON else FORM_WIRE)


cdef inline bytes encoded_item(dict value, int form):
    if form == AS_NATIVE:
        return encode_map(put_native, value, DEPTH_LIMIT, FORM_WIRE)
    return encode_map(put_typed, value, DEPTH_LIMIT, FORM_JSON if form == AS_JSON else FORM_WIRE)


# Attribute names as part of what a plan is kept under; None when they need a closer look.
cdef inline tuple names_key(object names):
    if type(names) is not dict:
        return None
    for name, text in (<dict>names).items():
        if type(name) is not str or type(text) is not str:
            return None
    return tuple((<dict>names).items())
