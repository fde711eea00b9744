"""Keys of an encrypted database: the user's master key, the data keys it wraps, the files' keys.

    master key    32 bytes, the user's; never stored
    data keys     32 random bytes each; in the file KEYS, sealed under the master key
    file keys     HKDF-SHA256(data key, salt of the file, kind of the file); never stored

Every encrypted file has a head with the id of its data key and its salt. New files use the newest
data key. KEYS (docs/format-encryption.md) is written twice, because nothing can be read without
it: KEYS.copy counts only when KEYS is missing or damaged.

Thread safety: any thread; `_lock` guards changes of the keys.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hmac
import os
import re
import secrets
import stat
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import msgpack

from dynalsm import errors
from dynalsm._core import files
from dynalsm._core.crc32c import checksum

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

#: What is taken for a master key: the bytes, the path of a key file, or a function.
MasterKey = bytes | str | os.PathLike[str] | Callable[[], bytes]

KEYS = "KEYS"
KEYS_COPY = "KEYS.copy"
#: All names that a database's keys may have in its directory.
NAMES = frozenset({KEYS, KEYS_COPY, KEYS + ".tmp", KEYS_COPY + ".tmp"})

KEY_BYTES = 32
TAG_BYTES = 16
NONCE_BYTES = 12

# The head of an encrypted file.
HEAD_BYTES = 48
_HEAD = struct.Struct("<Q24sI")
_HEAD_CRC = struct.Struct("<I")
_HEAD_MARK = b"LAESMLSD"
_HEAD_VERSION = 1
_SALT_BYTES = 24

# The file KEYS: magic, format, flags, salt, reserved, size of what is sealed; checksum.
_MAGIC = b"DLSMKEYS"
_FORMAT = 1
_KEYS = struct.Struct("<8sII24s16sI")
_KEYS_CRC = struct.Struct("<I")
_KEYS_BYTES = _KEYS.size + _KEYS_CRC.size
# The key that seals KEYS is derived anew for every write: its nonce need not change.
_KEYS_NONCE = bytes(NONCE_BYTES)

_HEX_KEY = re.compile(rb"[0-9A-Fa-f]{64}")
_NEEDED = "encryption needs the package cryptography: pip install 'dynalsm[encryption]'"


# ---------------------------------------------------------------------------------- master keys


def master_key(given: MasterKey) -> bytes:
    """Return the 32 bytes of a master key, however it was given.

    Raises: EncryptionError (a key file that cannot be used), ValueError, TypeError.
    """
    if isinstance(given, str | os.PathLike):
        return read_key_file(given)
    key = given() if callable(given) else given
    if not isinstance(key, bytes | bytearray | memoryview):
        kind = type(key).__name__
        raise TypeError(f"encryption_key is bytes, a key file's path or a function, not {kind}")
    if len(key) != KEY_BYTES:
        raise ValueError(f"an encryption key has {KEY_BYTES} bytes; this one has {len(key)}")
    return bytes(key)


def read_key_file(path: str | os.PathLike[str]) -> bytes:
    """Return the key in a file that only its owner can read: 32 bytes, or as hex or base64 text.

    Raises: EncryptionError.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(1024)
    except OSError as error:
        raise errors.EncryptionError(
            f"the key file cannot be read: {error.strerror}", path=name
        ) from None
    if stat.S_ISREG(mode) and mode & 0o077:
        raise errors.EncryptionError(
            f"others may use the key file (mode {stat.S_IMODE(mode):04o}): chmod 600 it", path=name
        )
    key = _key_of_text(content)
    if key is None:
        raise errors.EncryptionError(
            f"no key file: it holds {KEY_BYTES} bytes, or as many as hex or base64 text", path=name
        )
    return key


def _key_of_text(content: bytes) -> bytes | None:
    if len(content) == KEY_BYTES:
        return content
    text = content.strip()
    if _HEX_KEY.fullmatch(text):
        return bytes.fromhex(text.decode())
    try:
        key = base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
    return key if len(key) == KEY_BYTES else None


def write_key_file(path: str | os.PathLike[str]) -> None:
    """Make a new key, as hex text in a new file with mode 0600. Raises: StorageIOError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with files.File(path, flags, 0o600) as file:
        file.write(secrets.token_hex(KEY_BYTES).encode() + b"\n", 0)
        file.sync()
    files.sync_directory(os.path.dirname(os.path.abspath(os.fspath(path))))


# ------------------------------------------------------------------------------------- keyrings


@dataclass(frozen=True, repr=False)
class _DataKey:
    id: int
    created: int
    secret: bytes


class Keyring:
    """The data keys of one database, and the master key that they are kept under.

    Made by `create`, `load` or `find`; never pickled or shown.
    """

    def __init__(self, directory: str, master: bytes, keys: list[_DataKey]) -> None:
        self.directory = directory
        self._master = master
        self._lock = threading.Lock()
        self._keys = {key.id: key for key in keys}  # guarded by _lock; replaced, never changed
        self._newest = keys[-1]

    def __repr__(self) -> str:
        return f"<Keyring of {len(self._keys)} data keys>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("keys are not pickled")

    # ---- opening

    @classmethod
    def create(cls, directory: str, master: bytes) -> Keyring:
        """The keys of a new database; durable on return."""
        _library()
        keyring = cls(directory, master, [_new_key()])
        keyring._write(directory)
        return keyring

    @classmethod
    def load(cls, directory: str, master: bytes) -> Keyring:
        """The keys of a database. Raises: EncryptionError (a wrong key), CorruptionError."""
        _library()
        failure: errors.StorageError | None = None
        for name in (KEYS, KEYS_COPY):
            path = os.path.join(directory, name)
            try:
                return cls(directory, master, _unwrap(files.read_file(path), master, path))
            except (errors.CorruptionError, errors.StorageIOError) as error:
                if isinstance(error, errors.StorageIOError) and os.path.exists(path):
                    raise
                failure = failure or error
        assert failure is not None
        raise failure

    @property
    def key_id(self) -> int:
        """The id of the data key that new files get."""
        return self._newest.id

    @property
    def count(self) -> int:
        """How many data keys there are."""
        return len(self._keys)

    # ---- files

    def new_head(self, purpose: bytes) -> tuple[bytes, AESGCM, int]:
        """Return the head of a new file, its cipher, and the id of its data key."""
        key = self._newest
        salt = secrets.token_bytes(_SALT_BYTES)
        head = _HEAD.pack(key.id, salt, _HEAD_VERSION)
        head += _HEAD_CRC.pack(checksum(head)) + _HEAD_MARK
        return head, _file_cipher(key.secret, salt, purpose), key.id

    def open_head(self, head: bytes, purpose: bytes) -> tuple[AESGCM, int]:
        """Return the cipher of a file and the id of its data key, by its head.

        Raises: CorruptionError; EncryptionError when the database does not have that key.
        """
        key_id, salt = _parse_head(head)
        key = self._keys.get(key_id) or self._look_again(key_id)
        return _file_cipher(key.secret, salt, purpose), key_id

    def _look_again(self, key_id: int) -> _DataKey:
        """The writer beside us may have made a key since."""
        with self._lock:
            if key_id not in self._keys and has_keys(self.directory):
                fresh = Keyring.load(self.directory, self._master)
                self._keys = {**fresh._keys, **self._keys}
            if key_id in self._keys:
                return self._keys[key_id]
        raise errors.EncryptionError(
            f"encrypted under data key {key_id:016x}, which is not in KEYS"
        )

    # ---- changing

    def rewrap(self, master: bytes) -> None:
        """Keep the data keys under another master key; durable on return."""
        with self._lock:
            before = self._master
            self._master = master
            try:
                self._write(self.directory)
            except BaseException:
                self._master = before
                with contextlib.suppress(errors.StorageError):
                    self._write(self.directory)  # or KEYS may want the key that was refused
                raise

    def add_key(self) -> None:
        """Make a new data key, for the files from now on; durable on return."""
        with self._lock:
            fresh = _new_key()
            before = self._keys
            self._keys = {**before, fresh.id: fresh}
            try:
                self._write(self.directory)
            except BaseException:
                self._keys = before
                raise
            self._newest = fresh

    def settle(self) -> None:
        """Write both files again unless they say the same: a crash came between them."""
        with self._lock:
            try:
                first, second = (
                    files.read_file(os.path.join(self.directory, name))
                    for name in (KEYS, KEYS_COPY)
                )
            except errors.StorageIOError:
                first, second = b"", b"-"
            if first != second:
                self._write(self.directory)

    def is_master(self, given: MasterKey) -> bool:
        """Whether this is the master key."""
        return hmac.compare_digest(self._master, master_key(given))

    def save(self, directory: str) -> None:
        """Write the keys into the directory of a copy."""
        self._write(directory)

    def _write(self, directory: str) -> None:
        content = _wrap(list(self._keys.values()), self._master)
        for name in (KEYS, KEYS_COPY):
            files.write_file_atomically(os.path.join(directory, name), content)


def remove(directory: str) -> None:
    """Remove the keys that a creation which was cut off has left."""
    for name in sorted(NAMES):
        files.remove_file(os.path.join(directory, name), missing_ok=True)


def has_keys(directory: str) -> bool:
    """Whether there are keys in a directory: its database is encrypted."""
    return any(os.path.exists(os.path.join(directory, name)) for name in (KEYS, KEYS_COPY))


def find(
    directory: str, given: MasterKey | None, is_encrypted: Callable[[str], bool]
) -> Keyring | None:
    """The keys of the database in a directory; None when it is not encrypted, or has lost KEYS.

    is_encrypted: asks its manifest. Raises: EncryptionError when there is a key too many, too few,
    or a wrong one; CorruptionError. Nothing is written.
    """
    if has_keys(directory):
        if given is None:
            raise errors.EncryptionError("the database is encrypted: give its key", path=directory)
        return Keyring.load(directory, master_key(given))
    if given is None:
        return None  # who reads an encrypted file without a keyring says so
    if is_encrypted(directory):
        raise errors.EncryptionError(
            "the database is encrypted, and its file KEYS is missing", path=directory
        )
    raise errors.EncryptionError(
        "the database is not encrypted, and a key was given: open it without, or copy it into an "
        "encrypted one (docs/security.md)",
        path=directory,
    )


# ------------------------------------------------------------------------------------ small parts


def _library() -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers import aead
    except ImportError:
        raise errors.EncryptionError(_NEEDED) from None
    return aead


def _new_key() -> _DataKey:
    number = 0
    while not number:
        number = int.from_bytes(secrets.token_bytes(8), "little")
    return _DataKey(number, int(time.time()), secrets.token_bytes(KEY_BYTES))


def _derive(secret: bytes, salt: bytes, purpose: bytes) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), KEY_BYTES, salt, b"dynalsm 1 " + purpose).derive(secret)


def _file_cipher(secret: bytes, salt: bytes, purpose: bytes) -> AESGCM:
    cipher: AESGCM = _library().AESGCM(_derive(secret, salt, purpose))
    return cipher


def _parse_head(head: bytes) -> tuple[int, bytes]:
    key_id, salt, version = _HEAD.unpack_from(head)
    crc = _HEAD_CRC.unpack_from(head, _HEAD.size)[0]
    if head[-8:] != _HEAD_MARK or checksum(head[: _HEAD.size]) != crc:
        raise errors.CorruptionError("the head of an encrypted file is damaged")
    if version != _HEAD_VERSION:
        raise errors.EncryptionError(f"encrypted in a way this version does not know ({version})")
    return key_id, salt


class FileSeal:
    """Seals and opens the parts of one file, where Python does it: each with a nonce of its own."""

    ADDED_BYTES = NONCE_BYTES + TAG_BYTES

    def __init__(self, aead: AESGCM, key_id: int) -> None:
        self._aead = aead
        self.key_id = key_id

    @classmethod
    def create(cls, keys: Keyring, purpose: bytes) -> tuple[bytes, FileSeal]:
        """Return the head of a new file, and its seal."""
        head, aead, key_id = keys.new_head(purpose)
        return head, cls(aead, key_id)

    @classmethod
    def find(
        cls, keys: Keyring | None, head: bytes, purpose: bytes, path: str, offset: int
    ) -> FileSeal:
        """Return the seal of a file by its head, which lies at `offset`.

        Raises: EncryptionError (no keyring, or not that key), CorruptionError."""
        if keys is None:
            raise errors.EncryptionError("the file is encrypted, and no key was given", path=path)
        try:
            return cls(*keys.open_head(head, purpose))
        except errors.CorruptionError as error:
            raise errors.CorruptionError(error.message, path=path, offset=offset) from None
        except errors.EncryptionError as error:
            raise errors.EncryptionError(error.message, path=path) from None

    def seal(self, text: bytes, place: bytes) -> bytes:
        """Return nonce, sealed text and tag. `place`: where and what it is, as open() will say."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._aead.encrypt(nonce, text, place)

    def open(self, sealed: bytes, place: bytes, path: str, offset: int) -> bytes:
        """Return the text. Raises: CorruptionError with the path and offset."""
        return self.open_with(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], place, path, offset)

    def open_with(self, nonce: bytes, sealed: bytes, place: bytes, path: str, offset: int) -> bytes:
        """As open(), with a nonce that is known otherwise."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._aead.decrypt(nonce, sealed, place)
        except (InvalidTag, ValueError):
            raise errors.CorruptionError(
                "it does not open under the file's key: it was changed, or is not where it was "
                "written",
                path=path,
                offset=offset,
            ) from None


def damaged(directory: str) -> list[str]:
    """Return the paths of the two files of keys that are missing or not whole, if there is one."""
    paths = [os.path.join(directory, name) for name in (KEYS, KEYS_COPY)]
    found = []
    for path in paths:
        try:
            _check_keys_file(files.read_file(path), path)
        except errors.CorruptionError:
            found.append(path)
        except errors.StorageIOError:
            if os.path.exists(path):
                raise
            found.append(path)
    return found


def refuse_plain(keys: Keyring | None, path: str) -> None:
    """Raise CorruptionError for a file that is not encrypted though its database is."""
    if keys is not None:
        raise errors.CorruptionError(
            "the file is not encrypted, but its database is", path=path, offset=0
        )


def _wrap(keys: list[_DataKey], master: bytes) -> bytes:
    """The contents of KEYS."""
    packed = msgpack.packb({"keys": [[key.id, key.created, key.secret] for key in keys]})
    salt = secrets.token_bytes(_SALT_BYTES)
    head = _KEYS.pack(_MAGIC, _FORMAT, 0, salt, bytes(16), len(packed) + TAG_BYTES)
    sealed = _file_cipher(master, salt, b"keys").encrypt(_KEYS_NONCE, packed, head)
    return head + _KEYS_CRC.pack(checksum(sealed, checksum(head))) + sealed


def _check_keys_file(content: bytes, path: str) -> tuple[bytes, bytes, bytes]:
    """Return (what is authenticated, salt, what is sealed).

    Raises: CorruptionError, FormatError.
    """
    if len(content) < _KEYS_BYTES:
        raise errors.CorruptionError("the file of keys is incomplete", path=path, offset=0)
    magic, format_, flags, salt, _reserved, size = _KEYS.unpack_from(content)
    head, sealed = content[: _KEYS.size], content[_KEYS_BYTES:]
    crc = _KEYS_CRC.unpack_from(content, _KEYS.size)[0]
    if magic != _MAGIC or size != len(sealed) or checksum(sealed, checksum(head)) != crc:
        raise errors.CorruptionError("the file of keys is damaged", path=path, offset=0)
    if format_ > _FORMAT or flags:
        raise errors.FormatError("the file of keys was written by a newer version", path=path)
    return head, salt, sealed


def _unwrap(content: bytes, master: bytes, path: str) -> list[_DataKey]:
    """The data keys in KEYS, the newest last. Raises: CorruptionError, EncryptionError."""
    from cryptography.exceptions import InvalidTag

    head, salt, sealed = _check_keys_file(content, path)
    try:
        packed = _file_cipher(master, salt, b"keys").decrypt(_KEYS_NONCE, sealed, head)
    except InvalidTag:
        raise errors.EncryptionError(
            "this is not the database's encryption key", path=path
        ) from None
    return [_DataKey(*key) for key in msgpack.unpackb(packed)["keys"]]
