# Engine batches from compiled code: straight into the engine's own Batch, by method of anything
# else that has its surface (tests run the model on a stand-in). Header only.
#
# Thread safety: a batch belongs to one thread.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint64_t

from dynalsm._core.engine cimport Batch, Engine, Tree
from dynalsm._core.source cimport KIND_DELETE, KIND_PUT


cdef inline int batch_put(object batch, object tree, bytes key, bytes value) except -1:
    if type(batch) is Batch and type(tree) is Tree:
        (<Batch>batch).add(
            KIND_PUT, <Tree>tree, PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key),
            PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value)
        )
    else:
        batch.put(tree, key, value)
    return 0


cdef inline int batch_delete(object batch, object tree, bytes key) except -1:
    if type(batch) is Batch and type(tree) is Tree:
        (<Batch>batch).add(
            KIND_DELETE, <Tree>tree, PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key), NULL, 0
        )
    else:
        batch.delete(tree, key)
    return 0


# Commit a batch that is not empty. Returns: its last sequence number.
cdef inline uint64_t batch_commit(object engine, object batch) except? 0:
    cdef Engine native
    cdef Batch whole
    if type(engine) is not Engine or type(batch) is not Batch:
        return engine.commit(batch)
    native = <Engine>engine
    whole = <Batch>batch
    native.check_writable()
    native.enter()
    try:
        return native.write_payload(
            whole.payload, whole.size, whole.count, whole.stamps, whole.stamp_count
        )
    finally:
        native.leave()
