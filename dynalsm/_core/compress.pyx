# Block compression: see compress.pxd for the contract. What is written is always one standard zstd
# frame with its content size and without checksum (blocks have their own), whoever wrote it.
#
# The codec is found once, at import, and must pass a self-test against the zstandard package:
#   "zstandard"  the C functions inside the package's cffi extension, called without the GIL;
#   "libzstd"    the same functions of the system's libzstd;
#   "python"     the package's Python API: the GIL is taken once per call of compress_blocks
#                (many blocks) and of decompress_block. Also by DYNALSM_CODEC=python.
#
# Thread safety: all. Contexts are kept in slots that are emptied and filled atomically; no lock,
# so that a fork beside a running compression leaves nothing held in the child.

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from dynalsm._core.coding cimport get_u32, get_u64
from dynalsm._core.status cimport (
    CORRUPTION,
    NO_MEMORY,
    OK,
    Failure,
    fail,
    failure_clear,
    raise_failure,
)

import glob
import importlib.util
import os

import zstandard

cdef extern from "Python.h":
    enum:
        PyBUF_READ

cdef extern from "<dlfcn.h>" nogil:
    void* dlopen(const char* path, int flags)
    void* dlsym(void* library, const char* name)
    int dlclose(void* library)
    enum:
        RTLD_LOCAL
        RTLD_NOW

cdef extern from *:
    """
    static inline void* dynalsm_slot_take(void** slot) {
        return __atomic_exchange_n(slot, (void*)0, __ATOMIC_ACQ_REL);
    }
    static inline int dynalsm_slot_put(void** slot, void* value) {
        void* empty = 0;
        return __atomic_compare_exchange_n(
            slot, &empty, value, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    }
    """
    void* slot_take "dynalsm_slot_take"(void** slot) nogil
    bint slot_put "dynalsm_slot_put"(void** slot, void* value) nogil

ctypedef void* (*CreateContext)() noexcept nogil
ctypedef size_t (*FreeContext)(void* context) noexcept nogil
ctypedef size_t (*Compress)(
    void* context, void* target, size_t capacity, const void* source, size_t size, int level
) noexcept nogil
ctypedef size_t (*Decompress)(
    void* context, void* target, size_t capacity, const void* source, size_t size
) noexcept nogil
ctypedef unsigned int (*IsError)(size_t code) noexcept nogil
ctypedef unsigned int (*VersionNumber)() noexcept nogil

cdef enum:
    # Idle contexts kept: as many as threads can sensibly compress or read at once.
    SLOTS = 16
    # The oldest libzstd whose one-shot functions write the content size and are still stable API.
    OLDEST_VERSION = 10400
    # A block must shrink by 1/16 to be worth decompressing later.
    WORTH_SHIFT = 4
    FRAME_MAGIC = 0xFD2FB528u


cdef struct Functions:
    CreateContext create_compressor
    FreeContext free_compressor
    Compress compress
    CreateContext create_decompressor
    FreeContext free_decompressor
    Decompress decompress
    IsError is_error
    VersionNumber version_number


# Written at import, constant afterwards; create_compressor == NULL: the Python API.
cdef Functions _zstd
# Idle contexts, taken and put atomically.
cdef void* _compressors[SLOTS]
cdef void* _decompressors[SLOTS]
# Idle objects of the Python API, by level; lists are popped and appended under the GIL.
_python_compressors: dict = {}
_python_decompressors: list = []


# ---- C ----

cdef int compress_blocks(RawBlock* blocks, int count, int level, Failure* failure) noexcept nogil:
    cdef int index
    cdef int status = OK
    for index in range(count):
        blocks[index].packed = NULL
        blocks[index].packed_size = 0
    if _zstd.create_compressor == NULL:
        with gil:
            status = compress_by_python(blocks, count, level, failure)
    else:
        status = compress_by_functions(blocks, count, level, failure)
    if status != OK:
        for index in range(count):
            free(blocks[index].packed)
            blocks[index].packed = NULL
    return status


cdef int compress_by_functions(
    RawBlock* blocks, int count, int level, Failure* failure
) noexcept nogil:
    cdef int index
    cdef int status = OK
    cdef void* context = take_context(_compressors, _zstd.create_compressor)
    if context == NULL:
        return fail(failure, NO_MEMORY, "no memory for compression", NULL, -1, 0)
    for index in range(count):
        status = compress_one(context, &blocks[index], level, failure)
        if status != OK:
            break
    put_context(_compressors, context, _zstd.free_compressor)
    return status


cdef inline size_t worth(size_t size) noexcept nogil:
    # Of a few bytes at least one must be saved.
    return size - max(size >> WORTH_SHIFT, <size_t>1) if size else 0


cdef int compress_one(
    void* context, RawBlock* block, int level, Failure* failure
) noexcept nogil:
    # No more room than the result may take: one that does not fit is not worth keeping, and that
    # is the only way in which compression fails (but for memory, and then raw is as good).
    cdef size_t capacity = worth(block.size)
    cdef size_t packed_size
    if capacity == 0:
        return OK
    block.packed = <uint8_t*>malloc(capacity)
    if block.packed == NULL:
        return fail(failure, NO_MEMORY, "no memory for a compressed block", NULL, -1, 0)
    packed_size = _zstd.compress(
        context, block.packed, capacity, block.data, block.size, level
    )
    if _zstd.is_error(packed_size):
        free(block.packed)
        block.packed = NULL
        return OK
    block.packed_size = packed_size
    return OK


cdef int decompress_block(
    const uint8_t* data, size_t size, uint8_t* target, size_t target_size, Failure* failure
) noexcept nogil:
    cdef void* context
    cdef size_t got
    # Refused here, so that no codec is asked to make room for what a damaged frame promises.
    if uncompressed_size(data, size) != <long long>target_size:
        return fail(failure, CORRUPTION, "compressed block has the wrong size", NULL, -1, 0)
    if _zstd.create_decompressor == NULL:
        with gil:
            return decompress_by_python(data, size, target, target_size, failure)
    context = take_context(_decompressors, _zstd.create_decompressor)
    if context == NULL:
        return fail(failure, NO_MEMORY, "no memory for decompression", NULL, -1, 0)
    got = _zstd.decompress(context, target, target_size, data, size)
    put_context(_decompressors, context, _zstd.free_decompressor)
    if _zstd.is_error(got) or got != target_size:
        return fail(failure, CORRUPTION, "compressed block is damaged", NULL, -1, 0)
    return OK


# The frame header of RFC 8878, 3.1.1.1: magic, descriptor, window, dictionary id, content size.
cdef long long uncompressed_size(const uint8_t* data, size_t size) noexcept nogil:
    cdef uint8_t descriptor
    cdef size_t position = 5
    cdef int size_flag
    cdef bint is_single_segment
    cdef uint64_t value
    if size < 6 or get_u32(data) != <unsigned int>FRAME_MAGIC:
        return -1
    descriptor = data[4]
    size_flag = descriptor >> 6
    is_single_segment = descriptor >> 5 & 1
    if descriptor & 0x08 or (size_flag == 0 and not is_single_segment):
        return -1
    if not is_single_segment:
        position += 1
    if descriptor & 3:
        position += 1 << ((descriptor & 3) - 1)
    if position + (1 << size_flag) > size:
        return -1
    if size_flag == 0:
        return data[position]
    if size_flag == 1:
        return (data[position] | data[position + 1] << 8) + 256
    if size_flag == 2:
        return get_u32(data + position)
    value = get_u64(data + position)
    return <long long>value if value < 1ull << 62 else -1


cdef void* take_context(void** slots, CreateContext create) noexcept nogil:
    cdef int index
    cdef void* context
    for index in range(SLOTS):
        context = slot_take(&slots[index])
        if context != NULL:
            return context
    return create()


cdef void put_context(void** slots, void* context, FreeContext release) noexcept nogil:
    cdef int index
    for index in range(SLOTS):
        if slot_put(&slots[index], context):
            return
    release(context)


# ---- the Python API ----

cdef int compress_by_python(RawBlock* blocks, int count, int level, Failure* failure) noexcept:
    cdef int index
    cdef size_t packed_size
    try:
        idle = _python_compressors.setdefault(level, [])
        compressor = idle.pop() if idle else zstandard.ZstdCompressor(
            level=level, write_content_size=True, write_checksum=False
        )
        sources = [
            PyMemoryView_FromMemory(<char*>blocks[index].data, blocks[index].size, PyBUF_READ)
            for index in range(count)
        ]
        for index, packed in enumerate(pack_all(compressor, sources)):
            packed_size = len(packed)
            if packed_size == 0 or packed_size > worth(blocks[index].size):
                continue
            blocks[index].packed = <uint8_t*>malloc(packed_size)
            if blocks[index].packed == NULL:
                raise MemoryError
            memcpy(blocks[index].packed, PyBytes_AS_STRING(packed), packed_size)
            blocks[index].packed_size = packed_size
        idle.append(compressor)
        return OK
    except BaseException:
        return fail(failure, NO_MEMORY, "no memory for compression", NULL, -1, 0)


# Empty sources give empty results: the API refuses some of them.
cdef list pack_all(object compressor, list sources):
    many = getattr(compressor, "multi_compress_to_buffer", None)
    if many is not None and len(sources) > 1 and all(map(len, sources)):
        try:
            return [segment.tobytes() for segment in many(sources)]
        except NotImplementedError:
            pass             # the package's cffi backend
    return [compressor.compress(source) if len(source) else b"" for source in sources]


cdef int decompress_by_python(
    const uint8_t* data, size_t size, uint8_t* target, size_t target_size, Failure* failure
) noexcept:
    try:
        source = PyMemoryView_FromMemory(<char*>data, size, PyBUF_READ)
        decompressor = (
            _python_decompressors.pop()
            if _python_decompressors else zstandard.ZstdDecompressor()
        )
        result = decompressor.decompress(source, allow_extra_data=False)
        _python_decompressors.append(decompressor)
        if <size_t>len(result) != target_size:
            return fail(failure, CORRUPTION, "compressed block has the wrong size", NULL, -1, 0)
        memcpy(target, PyBytes_AS_STRING(result), target_size)
        return OK
    except MemoryError:
        return fail(failure, NO_MEMORY, "no memory for decompression", NULL, -1, 0)
    except BaseException:
        return fail(failure, CORRUPTION, "compressed block is damaged", NULL, -1, 0)


# ---- finding the codec ----

cdef bint load_functions(bytes path) except -1:
    cdef void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL)
    if library == NULL:
        return False
    _zstd.create_compressor = <CreateContext>dlsym(library, "ZSTD_createCCtx")
    _zstd.free_compressor = <FreeContext>dlsym(library, "ZSTD_freeCCtx")
    _zstd.compress = <Compress>dlsym(library, "ZSTD_compressCCtx")
    _zstd.create_decompressor = <CreateContext>dlsym(library, "ZSTD_createDCtx")
    _zstd.free_decompressor = <FreeContext>dlsym(library, "ZSTD_freeDCtx")
    _zstd.decompress = <Decompress>dlsym(library, "ZSTD_decompressDCtx")
    _zstd.is_error = <IsError>dlsym(library, "ZSTD_isError")
    _zstd.version_number = <VersionNumber>dlsym(library, "ZSTD_versionNumber")
    if (
        _zstd.create_compressor != NULL and _zstd.free_compressor != NULL
        and _zstd.compress != NULL and _zstd.create_decompressor != NULL
        and _zstd.free_decompressor != NULL and _zstd.decompress != NULL
        and _zstd.is_error != NULL and _zstd.version_number != NULL
        and _zstd.version_number() >= OLDEST_VERSION and passes_self_test()
    ):
        return True          # the library stays loaded for the life of the process
    forget_functions()
    dlclose(library)
    return False


cdef void forget_functions() noexcept:
    cdef int index
    cdef void* context
    for index in range(SLOTS):
        context = slot_take(&_compressors[index])
        if context != NULL:
            _zstd.free_compressor(context)
        context = slot_take(&_decompressors[index])
        if context != NULL:
            _zstd.free_decompressor(context)
    _zstd.create_compressor = NULL
    _zstd.create_decompressor = NULL


# Both directions against the Python API, and a damaged frame must be an error, not a crash.
cdef bint passes_self_test() except -1:
    sample = b"".join(b"key-%06d: value %d;" % (number, number * 7) for number in range(300))
    try:
        ours = compress(sample, 1)
        theirs = zstandard.ZstdCompressor(level=3).compress(sample)
        if (
            ours is None
            or zstandard.ZstdDecompressor().decompress(ours) != sample
            or decompress(theirs, len(sample)) != sample
            or compress(os.urandom(4096), 1) is not None
        ):
            return False
    except Exception:
        return False
    damaged = bytearray(ours)
    for position in range(len(damaged) // 2, len(damaged) // 2 + 8):
        damaged[position] ^= 0xFF
    try:
        return decompress(bytes(damaged), len(sample)) != sample
    except Exception:
        return True


cdef str find_codec():
    wanted = os.environ.get("DYNALSM_CODEC", "")
    if wanted not in {"", "zstandard", "libzstd", "python"}:
        raise ImportError(f"DYNALSM_CODEC={wanted!r}: not zstandard, libzstd or python")
    if wanted in {"", "zstandard"}:
        spec = importlib.util.find_spec("zstandard")
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for path in glob.glob(os.path.join(glob.escape(folder), "_cffi*.so")):
                if load_functions(os.fsencode(path)):
                    return "zstandard"
    if wanted in {"", "libzstd"}:
        for name in (b"libzstd.so.1", b"libzstd.1.dylib"):
            if load_functions(name):
                return "libzstd"
    if wanted not in {"", "python"}:
        raise ImportError(f"DYNALSM_CODEC={wanted!r}: no usable zstd functions there")
    return "python"


def compress(bytes data not None, int level=1):
    """Return one zstd frame, or None when it would not be a sixteenth smaller."""
    cdef Failure failure
    cdef RawBlock block
    block.data = data
    block.size = len(data)
    failure_clear(&failure)
    with nogil:
        compress_blocks(&block, 1, level, &failure)
    raise_failure(&failure)
    if block.packed == NULL:
        return None
    try:
        return PyBytes_FromStringAndSize(<char*>block.packed, block.packed_size)
    finally:
        free(block.packed)


def compress_many(list sources not None, int level=1):
    """Return for each bytes object what `compress` returns, in one call of the codec."""
    cdef Failure failure
    cdef int index, count = len(sources)
    cdef bytes source
    cdef RawBlock* blocks = <RawBlock*>malloc((count + 1) * sizeof(RawBlock))
    if blocks == NULL:
        raise MemoryError
    try:
        for index in range(count):
            source = sources[index]
            blocks[index].data = source
            blocks[index].size = len(source)
        failure_clear(&failure)
        with nogil:
            compress_blocks(blocks, count, level, &failure)
        raise_failure(&failure)
        try:
            return [
                PyBytes_FromStringAndSize(<char*>blocks[index].packed, blocks[index].packed_size)
                if blocks[index].packed != NULL else None
                for index in range(count)
            ]
        finally:
            for index in range(count):
                free(blocks[index].packed)
    finally:
        free(blocks)


def decompress(data, size_t size):
    """Return the contents of one zstd frame, `size` bytes; CorruptionError if it is not so."""
    cdef Failure failure
    cdef Py_buffer view
    cdef bytes result = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* target = <uint8_t*>PyBytes_AS_STRING(result)
    failure_clear(&failure)
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        with nogil:
            decompress_block(<const uint8_t*>view.buf, view.len, target, size, &failure)
    finally:
        PyBuffer_Release(&view)
    raise_failure(&failure)
    return result


def frame_size(data):
    """Return the content size a zstd frame names, or -1 when it is none or names none."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return uncompressed_size(<const uint8_t*>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


#: Where the codec was found: "zstandard", "libzstd" or "python".
CODEC = find_codec()
