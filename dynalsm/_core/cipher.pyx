# Sealing and opening pieces of files: see cipher.pxd for the contract.
#
# Invariants:
# 1. The collector is held off while a cipher works: a destructor that it would run could ask for
#    a mutex that our caller holds.
# 2. A cipher that is given back is released by the next one that is made: who gives it back may
#    hold a mutex, and must not wait for the GIL.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from dynalsm._core.coding cimport put_u32, put_u64
from dynalsm._core.status cimport CORRUPTION, ENCRYPTED, NO_MEMORY, OK, fail
from dynalsm._core.sync cimport pthread_mutex_lock, pthread_mutex_trylock

from dynalsm import errors

cdef extern from "Python.h":
    """
    /* The other threads may need the GIL before they give the mutex back. */
    static void dynalsm_lock_without_gil(pthread_mutex_t* mutex) {
        PyThreadState* state = PyEval_SaveThread();
        pthread_mutex_lock(mutex);
        PyEval_RestoreThread(state);
    }
    static inline void dynalsm_give_back(void** head, void** next, void* value) {
        void* first = __atomic_load_n(head, __ATOMIC_RELAXED);
        do {
            __atomic_store_n(next, first, __ATOMIC_RELAXED);
        } while (!__atomic_compare_exchange_n(
            head, &first, value, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
    }
    static inline void* dynalsm_take_all(void** head) {
        return __atomic_exchange_n(head, (void*)0, __ATOMIC_ACQ_REL);
    }
    """
    enum:
        PyBUF_READ
        PyBUF_WRITE
    int PyGC_Disable()
    int PyGC_Enable()
    bint PyGILState_Check() nogil
    void lock_without_gil "dynalsm_lock_without_gil"(pthread_mutex_t* mutex) nogil
    void give_back "dynalsm_give_back"(void** head, void** next, void* value) nogil
    void* take_all "dynalsm_take_all"(void** head) nogil

# Ciphers that were given back, linked by `next`; taken off by whoever makes one.
cdef void* _given_back = NULL

# Whether `cryptography` writes into our buffers (version 47 and later). Set at first use.
cdef int _in_place = -1


def use_copies(bint wanted):
    """Work as with an old version of `cryptography`, or no longer so (for tests)."""
    global _in_place
    _in_place = 0 if wanted else -1


# ---- making ----

cdef Cipher* cipher_create(
    void* keyring, const char* purpose, uint8_t* head, const char* path, Failure* failure
) noexcept nogil:
    cdef Cipher* cipher
    with gil:
        release_given_back()
        cipher = make(keyring, purpose, NULL, head, path, -1, failure)
    return cipher


cdef Cipher* cipher_find(
    void* keyring, const char* purpose, const uint8_t* head, const char* path, int64_t offset,
    Failure* failure
) noexcept nogil:
    cdef Cipher* cipher
    if keyring == NULL:
        fail(failure, ENCRYPTED, "the file is encrypted, and no key was given", path, -1, 0)
        return NULL
    with gil:
        release_given_back()
        cipher = make(keyring, purpose, head, NULL, path, offset, failure)
    return cipher


cdef Cipher* make(
    void* keyring, const char* purpose, const uint8_t* old_head, uint8_t* new_head,
    const char* path, int64_t offset, Failure* failure
) noexcept:
    """A cipher by the head of a file, or with a new head."""
    cdef Cipher* cipher = <Cipher*>calloc(1, sizeof(Cipher))
    cdef bytes head
    if cipher == NULL:
        fail(failure, NO_MEMORY, "no memory for a cipher", path, -1, 0)
        return NULL
    try:
        if old_head != NULL:
            head = PyBytes_FromStringAndSize(<const char*>old_head, SEAL_HEAD_BYTES)
            aead, cipher.key_id = (<object>keyring).open_head(head, purpose)
        else:
            head, aead, cipher.key_id = (<object>keyring).new_head(purpose)
            memcpy(new_head, PyBytes_AS_STRING(head), SEAL_HEAD_BYTES)
        Py_INCREF(aead)
        cipher.aead = <void*>aead
        return cipher
    except errors.CorruptionError as error:
        fail_with(failure, CORRUPTION, error.message, path, offset)
    except errors.EncryptionError as error:
        fail_with(failure, ENCRYPTED, error.message, path, -1)
    except BaseException:
        fail(failure, NO_MEMORY, "a file's key could not be made", path, -1, 0)
    free(cipher)
    return NULL


cdef int fail_with(
    Failure* failure, int status, str message, const char* path, int64_t offset
) except -1:
    cdef bytes text = message.encode()
    fail(failure, status, text, path, offset, 0)
    return 0


cdef int cipher_refuse_plain(void* keyring, const char* path, Failure* failure) noexcept nogil:
    if keyring == NULL:
        return OK
    return fail(
        failure, CORRUPTION, "the file is not encrypted, but its database is", path, 0, 0
    )


cdef void cipher_free(Cipher* cipher) noexcept nogil:
    if cipher != NULL:
        give_back(&_given_back, <void**>&cipher.next, cipher)


cdef void release_given_back() noexcept:
    cdef Cipher* cipher = <Cipher*>take_all(&_given_back)
    cdef Cipher* next
    while cipher != NULL:
        next = cipher.next
        Py_XDECREF(<PyObject*>cipher.aead)
        free(cipher)
        cipher = next


cdef void mutex_lock_open(pthread_mutex_t* mutex) noexcept nogil:
    if pthread_mutex_trylock(mutex) == 0:
        return
    if PyGILState_Check():
        lock_without_gil(mutex)
    else:
        pthread_mutex_lock(mutex)


# ---- working ----

cdef int cipher_seal(
    Cipher* cipher, Piece* pieces, size_t count, Failure* failure
) noexcept nogil:
    cdef int status
    with gil:
        status = work(cipher, pieces, count, True, NULL, failure)
    return status


cdef int cipher_open(
    Cipher* cipher, Piece* pieces, size_t count, size_t* opened, Failure* failure
) noexcept nogil:
    cdef int status
    with gil:
        status = work(cipher, pieces, count, False, opened, failure)
    return status


cdef int work(
    Cipher* cipher, Piece* pieces, size_t count, bint seals, size_t* done, Failure* failure
) noexcept:
    cdef size_t i = 0
    cdef bint had_collector = PyGC_Disable()
    cdef int status = OK
    try:
        aead = <object>cipher.aead
        if seals:
            for i in range(count):
                seal_one(aead, &pieces[i])
        else:
            for i in range(count):
                done[0] = i
                open_one(aead, &pieces[i])
            done[0] = count
    except MemoryError:
        status = fail(failure, NO_MEMORY, "no memory for encryption", NULL, -1, 0)
    except BaseException:
        if seals:
            status = fail(failure, NO_MEMORY, "a block could not be encrypted", NULL, -1, 0)
        else:
            status = fail(
                failure, CORRUPTION, "it does not open under the file's key: it was changed, or is "
                "not where it was written", NULL, -1, 0
            )
    if had_collector:
        PyGC_Enable()
    return status


cdef bytes nonce_of(const Piece* piece):
    cdef uint8_t nonce[12]
    put_u64(nonce, piece.nonce)
    put_u32(nonce + 8, piece.attempt)
    return PyBytes_FromStringAndSize(<const char*>nonce, 12)


cdef bint writes_in_place(object aead) except -1:
    global _in_place
    if _in_place < 0:
        _in_place = hasattr(aead, "encrypt_into")
    return _in_place


cdef int seal_one(object aead, Piece* piece) except -1:
    cdef object text = PyMemoryView_FromMemory(<char*>piece.data, piece.size, PyBUF_READ)
    cdef bytes place = PyBytes_FromStringAndSize(<const char*>piece.place, piece.place_size)
    cdef bytes result
    if writes_in_place(aead):
        aead.encrypt_into(nonce_of(piece), text, place, PyMemoryView_FromMemory(
            <char*>piece.data, piece.size + SEAL_TAG_BYTES, PyBUF_WRITE
        ))
    else:
        result = aead.encrypt(nonce_of(piece), text, place)
        if <size_t>PyBytes_GET_SIZE(result) != piece.size + SEAL_TAG_BYTES:
            raise ValueError("GCM's tag has 16 bytes")
        memcpy(piece.data, PyBytes_AS_STRING(result), piece.size + SEAL_TAG_BYTES)
    return 0


cdef int open_one(object aead, Piece* piece) except -1:
    cdef object sealed = PyMemoryView_FromMemory(
        <char*>piece.data, piece.size + SEAL_TAG_BYTES, PyBUF_READ
    )
    cdef bytes place = PyBytes_FromStringAndSize(<const char*>piece.place, piece.place_size)
    cdef bytes result
    if writes_in_place(aead):
        aead.decrypt_into(nonce_of(piece), sealed, place, PyMemoryView_FromMemory(
            <char*>piece.data, piece.size, PyBUF_WRITE
        ))
    else:
        result = aead.decrypt(nonce_of(piece), sealed, place)
        if <size_t>PyBytes_GET_SIZE(result) != piece.size:
            raise ValueError("GCM's tag has 16 bytes")
        memcpy(piece.data, PyBytes_AS_STRING(result), piece.size)
    return 0
