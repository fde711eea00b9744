"""One table at one moment, in one file: what backups and the bases of point-in-time recovery are.

Layout (docs/format-backup.md has every byte); integers are little-endian:

    header       64 bytes: magic, format, size and checksum of the description
    head         in an encrypted file only: which key (docs/format-encryption.md)
    description  one msgpack map: whose table, its schema, when
    blocks       frame of 16 bytes, payload: msgpack [key, stored value, key, stored value, ...],
                 in tree order, zstd where that is smaller
    end block    a frame with no entries; payload: msgpack map of the totals
    trailer      24 bytes: where the end block is, checksum, magic

A file is written under another name, synced and renamed, so it is whole or not there. Everything
is checked before it is used: a byte that changed is a CorruptionError with path and offset.

Thread safety: a writer call and a BackupFile belong to one thread.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Final, NamedTuple

import msgpack

from dynalsm import errors
from dynalsm._core import files
from dynalsm._core.compress import compress, decompress
from dynalsm._core.crc32c import crc32c
from dynalsm._core.keyring import HEAD_BYTES, FileSeal, Keyring, refuse_plain

MAGIC: Final = b"DLSMBAK1"
END_MAGIC: Final = b"1KABMSLD"
FORMAT: Final = 1
PARTIAL_SUFFIX: Final = ".partial"
# A block is cut when its entries reach this; one entry may be larger.
BLOCK_BYTES: Final = 256 * 1024
BLOCK_ITEMS: Final = 4096
# Largest payload that a reader accepts, before and after decompression: far above what a writer
# makes (a block and the largest item), far below what would hurt.
PAYLOAD_MAX_BYTES: Final = 64 * 1024 * 1024

# Flag of the header: description and blocks are sealed, and an encrypted file's head follows it.
ENCRYPTED: Final = 1
_PURPOSE: Final = b"backup"
# In the place of the number of entries where the description is sealed.
_DESCRIPTION: Final = 0xFFFFFFFF

_HEADER = struct.Struct("<8sIIIII32sI")
_FRAME = struct.Struct("<IIII")
_PLACE = struct.Struct("<Q")
_TRAILER = struct.Struct("<QQ")

Entry = tuple[bytes, bytes]


class Stopped(Exception):
    """The work was given up because the database closes or it was cancelled."""


class Totals(NamedTuple):
    """What a file holds: items, and their DynamoDB sizes together."""

    items: int
    size_bytes: int


def write(
    path: str,
    description: dict[str, Any],
    chunks: Iterable[list[Entry]],
    stored_size: Callable[[bytes], int],
    should_stop: Callable[[], bool] = lambda: False,
    *,
    keys: Keyring | None = None,
) -> Totals:
    """Write a whole file; it is durable, under its own name, on return.

    `chunks` are entries in tree order; `keys` those of an encrypted database. Raises: Stopped when
    `should_stop` says so; nothing is left then.
    """
    partial = path + PARTIAL_SUFFIX
    try:
        with files.File(partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC) as file:
            totals = _write_all(file, description, chunks, stored_size, should_stop, keys)
            file.sync()
        files.rename_file(partial, path)
    except BaseException:
        files.remove_file(partial, missing_ok=True)
        raise
    return totals


def _write_all(
    file: files.File,
    description: dict[str, Any],
    chunks: Iterable[list[Entry]],
    stored_size: Callable[[bytes], int],
    should_stop: Callable[[], bool],
    keys: Keyring | None,
) -> Totals:
    packed = msgpack.packb(description)
    head, seal = b"", None
    if keys is not None:
        head, seal = FileSeal.create(keys, _PURPOSE)
        packed = _sealed(seal, packed, _HEADER.size + HEAD_BYTES, 0, _DESCRIPTION)
    flags = ENCRYPTED if keys is not None else 0
    fields = (MAGIC, FORMAT, FORMAT, flags, len(packed), crc32c(packed), bytes(32))
    header = _HEADER.pack(*fields, 0)[:-4]
    file.write(_HEADER.pack(*fields, crc32c(header)) + head + packed, 0)
    place = _HEADER.size + len(head) + len(packed)
    items = size_bytes = 0
    for chunk in chunks:
        if should_stop():
            raise Stopped
        items += len(chunk)
        size_bytes += sum(stored_size(stored) for _, stored in chunk)
        payload = msgpack.packb([part for entry in chunk for part in entry])
        place = _write_block(file, place, payload, len(chunk), seal)
    end = msgpack.packb({"items": items, "size_bytes": size_bytes})
    after = _write_block(file, place, end, 0, seal)
    trailer = _TRAILER.pack(place, crc32c(_PLACE.pack(place))) + END_MAGIC
    file.write(trailer, after)
    return Totals(items, size_bytes)


def _sealed(seal: FileSeal, text: bytes, place: int, raw_bytes: int, count: int) -> bytes:
    size = len(text) + seal.ADDED_BYTES
    return seal.seal(text, _position(place, size, raw_bytes, count))


def _position(place: int, size: int, raw_bytes: int, count: int) -> bytes:
    """What is checked and authenticated of a block before its payload."""
    return _PLACE.pack(place) + _FRAME.pack(size, raw_bytes, count, 0)[:12]


def _write_block(
    file: files.File, place: int, payload: bytes, count: int, seal: FileSeal | None
) -> int:
    """Write one block at `place`; returns where the next one goes."""
    raw_bytes = 0
    packed = compress(payload) if count else None
    if packed is not None:
        raw_bytes, payload = len(payload), packed
    if seal is not None:
        payload = _sealed(seal, payload, place, raw_bytes, count)
    checksum = _checksum(place, len(payload), raw_bytes, count, payload)
    file.write(_FRAME.pack(len(payload), raw_bytes, count, checksum) + payload, place)
    return place + _FRAME.size + len(payload)


def _checksum(place: int, size: int, raw_bytes: int, count: int, payload: bytes) -> int:
    return crc32c(payload, crc32c(_position(place, size, raw_bytes, count)))


class BackupFile:
    """An open file. `description` and `totals` are read at once, the entries by `chunks`."""

    def __init__(
        self, path: str, keys: Keyring | None = None, *, allows_plain: bool = False
    ) -> None:
        """Open a file; with `keys` an encrypted one, or, if that is allowed, another too.

        Raises: FormatError, CorruptionError, EncryptionError, StorageIOError.
        """
        self.path = path
        self._keys = keys
        self._allows_plain = allows_plain
        self._seal: FileSeal | None = None
        self._file = files.File(path, os.O_RDONLY)
        try:
            self.size_bytes = self._file.size()
            self.description, self._first = self._read_head()
            self.totals, self._end = self._read_end()
        except BaseException:
            self._file.close()
            raise

    def _read_head(self) -> tuple[dict[str, Any], int]:
        head = self._file.read(min(_HEADER.size, self.size_bytes), 0)
        if len(head) < _HEADER.size or head[:8] != MAGIC:
            raise errors.FormatError("no backup of dynalsm", path=self.path)
        _, _, oldest_reader, flags, size, checksum, _, head_checksum = _HEADER.unpack(head)
        if crc32c(head[:-4]) != head_checksum:
            raise self._damaged("the header's checksum is wrong", 0)
        if oldest_reader > FORMAT or flags & ~ENCRYPTED:
            raise errors.FormatError(
                f"this backup needs a reader of format {oldest_reader}, flags {flags:#x}; this "
                f"version of dynalsm reads format {FORMAT}",
                path=self.path,
            )
        place = _HEADER.size
        if flags & ENCRYPTED:
            key_head = self._read(HEAD_BYTES, place)
            self._seal = FileSeal.find(self._keys, key_head, _PURPOSE, self.path, place)
            place += HEAD_BYTES
        elif not self._allows_plain:
            refuse_plain(self._keys, self.path)
        packed = self._read(size, place)
        if crc32c(packed) != checksum:
            raise self._damaged("the description's checksum is wrong", place)
        if self._seal is not None:
            position = _position(place, size, 0, _DESCRIPTION)
            packed = self._seal.open(packed, position, self.path, place)
        return self._unpack(packed, dict, place), place + size

    def _read_end(self) -> tuple[Totals, int]:
        start = self.size_bytes - _TRAILER.size - len(END_MAGIC)
        if start < self._first:
            raise self._damaged("the file ends early", self.size_bytes)
        trailer = self._read(_TRAILER.size + len(END_MAGIC), start)
        place, checksum = _TRAILER.unpack(trailer[: _TRAILER.size])
        if trailer[_TRAILER.size :] != END_MAGIC or crc32c(_PLACE.pack(place)) != checksum:
            raise self._damaged("the file has no whole trailer: its end is missing", start)
        payload, count, after = self._read_block(place)
        if count or after != start:
            raise self._damaged("the end block is not where the trailer says", place)
        found = self._unpack(payload, dict, place)
        totals = [found.get(name) for name in Totals._fields]
        if not all(type(each) is int and each >= 0 for each in totals):
            raise self._damaged("the totals are no numbers", place)
        return Totals(*totals), place

    def chunks(self) -> Iterator[list[Entry]]:
        """Yield all entries in tree order. Raises: CorruptionError, also when some are missing."""
        place = self._first
        items = 0
        while place < self._end:
            payload, count, following = self._read_block(place)
            parts = self._unpack(payload, list, place)
            if not all(type(part) is bytes for part in parts):
                raise self._damaged("a block holds what is no entry", place)
            if count == 0 or len(parts) != 2 * count:
                raise self._damaged(f"a block of {len(parts)} parts says {count} entries", place)
            items += count
            yield list(zip(parts[::2], parts[1::2], strict=True))
            place = following
        if place != self._end or items != self.totals.items:
            raise self._damaged(f"{items} items are there, {self.totals.items} were written", place)

    def verify(self) -> Totals:
        """Read and check every byte; returns the totals. Raises: CorruptionError."""
        for _ in self.chunks():
            pass
        return self.totals

    def _read_block(self, place: int) -> tuple[bytes, int, int]:
        """Return (payload, entries, where the next block begins)."""
        size, raw_bytes, count, checksum = _FRAME.unpack(self._read(_FRAME.size, place))
        if size > PAYLOAD_MAX_BYTES or raw_bytes > PAYLOAD_MAX_BYTES:
            raise self._damaged(f"a block of {size} bytes", place)
        payload = self._read(size, place + _FRAME.size)
        if _checksum(place, size, raw_bytes, count, payload) != checksum:
            raise self._damaged("the block's checksum is wrong", place)
        if self._seal is not None:
            position = _position(place, size, raw_bytes, count)
            payload = self._seal.open(payload, position, self.path, place)
        if raw_bytes:
            try:
                payload = decompress(payload, raw_bytes)
            except errors.CorruptionError as error:
                raise self._damaged(error.message, place) from None
        return payload, count, place + _FRAME.size + size

    def _unpack(self, payload: bytes, kind: type, offset: int) -> Any:
        """Return what msgpack made of `kind`; a checksum says nothing about sense."""
        try:
            found = msgpack.unpackb(payload, strict_map_key=False)
        except Exception as error:
            raise self._damaged(f"it cannot be unpacked ({error})", offset) from None
        if type(found) is not kind:
            raise self._damaged(f"a {kind.__name__} is expected here", offset)
        return found

    def _read(self, size: int, offset: int) -> bytes:
        if offset + size > self.size_bytes:
            raise self._damaged(f"{size} bytes are expected here; the file ends early", offset)
        return self._file.read(size, offset)

    def _damaged(self, text: str, offset: int) -> errors.CorruptionError:
        return errors.CorruptionError(f"damaged backup: {text}", path=self.path, offset=offset)

    @property
    def is_encrypted(self) -> bool:
        """Whether a key was needed to read it."""
        return self._seal is not None

    def close(self) -> None:
        """Close the file; more calls do nothing."""
        self._file.close()

    def __enter__(self) -> BackupFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def tree_chunks(tree: Any, snapshot: Any) -> Iterator[list[Entry]]:
    """Yield all entries of a tree as one snapshot shows them, in blocks of the right size."""
    with tree.cursor(snapshot=snapshot) as cursor:
        while chunk := cursor.next_chunk(BLOCK_ITEMS, BLOCK_BYTES):
            yield chunk
