# The one seam of encryption at rest: blocks are sealed before they are written and opened after
# they were read (AES-256-GCM of the package `cryptography`). Keys: keyring.py; bytes:
# docs/format-encryption.md.
#
# A file that is not encrypted has no Cipher: a NULL pointer, one branch.
#
# Thread safety: a Cipher may be used by any threads at once. cipher_seal and cipher_open take the
# GIL for their calls into `cryptography`, once for all pieces; so a caller may hold a mutex only if
# nobody waits for that mutex with the GIL (mutex_lock_open does not). No Python code, collector or
# destructor runs meanwhile.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from dynalsm._core.status cimport Failure
from dynalsm._core.sync cimport pthread_mutex_t


# On disk: never renumber.
cdef enum:
    SEAL_TAG_BYTES = 16          # behind what is sealed: GCM's tag
    SEAL_HEAD_BYTES = 48         # in every encrypted file: which data key, and the file's salt
    SEAL_PLACE_BYTES = 40        # room for the associated data of a piece


cdef struct Cipher:
    void* aead                   # owned reference to the file's AESGCM
    uint64_t key_id
    Cipher* next                 # among those given back


# What is sealed or opened at once, in place.
cdef struct Piece:
    uint8_t* data                # `size` bytes, and SEAL_TAG_BYTES behind them
    size_t size                  # of the text
    uint64_t nonce               # never twice in a file, with `attempt`
    uint32_t attempt
    uint8_t place[SEAL_PLACE_BYTES]     # associated data: where and what it is
    size_t place_size


# A cipher for a new file; fills in `head`. Returns: NULL on failure.
cdef Cipher* cipher_create(
    void* keyring, const char* purpose, uint8_t* head, const char* path, Failure* failure
) noexcept nogil
# The cipher of a file, by its head, which lies at `offset`. Status: CORRUPTION (the head),
# ENCRYPTED (there is no keyring, or it does not have that key).
cdef Cipher* cipher_find(
    void* keyring, const char* purpose, const uint8_t* head, const char* path, int64_t offset,
    Failure* failure
) noexcept nogil
# A plain file among encrypted ones: CORRUPTION when there is a keyring.
cdef int cipher_refuse_plain(void* keyring, const char* path, Failure* failure) noexcept nogil
# NULL is allowed. Never takes the GIL.
cdef void cipher_free(Cipher* cipher) noexcept nogil
# Returns: OK or NO_MEMORY; then nothing is of use.
cdef int cipher_seal(
    Cipher* cipher, Piece* pieces, size_t count, Failure* failure
) noexcept nogil
# *opened: how many are open, from the first on; all when OK. Status: CORRUPTION (without path and
# offset: the caller's), NO_MEMORY.
cdef int cipher_open(
    Cipher* cipher, Piece* pieces, size_t count, size_t* opened, Failure* failure
) noexcept nogil
# Locks a mutex under which somebody may take the GIL: gives the GIL up while it waits.
cdef void mutex_lock_open(pthread_mutex_t* mutex) noexcept nogil
