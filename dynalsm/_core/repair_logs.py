"""What is whole in a damaged log: its records, and the entries in them.

Layout: docs/format-log.md, and docs/format.md, "Commit records".

Thread safety: functions without shared state.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from dynalsm import errors
from dynalsm._core import files, keyring
from dynalsm._core.crc32c import checksum
from dynalsm._core.keyring import Keyring

DELETE, PUT, RANGE_DELETE = 0, 1, 3

_LOG_HEADER_BYTES = 64
_VARINT_BITS = 70
_RECORD = struct.Struct("<IIIIQQ")
_SEALED = struct.Struct("<QI")


def salvage_records(
    path: str, number: int, keys: Keyring | None = None
) -> Iterator[tuple[int, int, bytes]]:
    """Yield (first seqno, entries, payload) of every whole record of a log, damaged or not.

    Layout: docs/format-log.md. A record is valid at its own offset in its own log only.
    """
    data = files.read_file(path)
    opened = (lambda _offset, payload: payload) if keys is None else _log_opener(data, path, keys)
    offset = _LOG_HEADER_BYTES
    while offset + _RECORD.size <= len(data):
        size, crc, low, count, seqno, synced = _RECORD.unpack_from(data, offset)
        start = offset + _RECORD.size
        if size and count and low == number & 0xFFFFFFFF and start + size <= len(data):
            sealed = _SEALED.pack(offset, size) + data[offset + 8 : start]
            if checksum(data[start : start + size], checksum(sealed)) == crc:
                payload = opened(offset, data[start : start + size])
                if payload is not None:
                    yield seqno, count, payload
                offset = start + size + -size % 8
                continue
        if not size and not count and not synced:
            rest = data[offset:]
            offset += max(8, (len(rest) - len(rest.lstrip(b"\0"))) & ~7)
        else:
            offset += 8


def _log_opener(data: bytes, path: str, keys: Keyring) -> Callable[[int, bytes], bytes | None]:
    """A function from offset and stored payload of a record to its payload; None: it is false."""
    head = data[_LOG_HEADER_BYTES : _LOG_HEADER_BYTES + keyring.HEAD_BYTES]
    try:
        head = head.ljust(keyring.HEAD_BYTES, b"\0")
        seal = keyring.FileSeal.find(keys, head, b"log", path, _LOG_HEADER_BYTES)
    except errors.StorageError:
        return lambda _offset, _payload: None

    def opened(offset: int, stored: bytes) -> bytes | None:
        place = _SEALED.pack(offset, len(stored)) + data[offset + 8 : offset + _RECORD.size]
        nonce = offset.to_bytes(8, "little") + stored[:4]
        try:
            return seal.open_with(nonce, stored[4:], place, path, offset)
        except errors.CorruptionError:
            return None

    return opened


def entries_of_payload(payload: bytes, count: int) -> Iterator[tuple[int, int, bytes, bytes]]:
    """Yield (kind, tree id, key, value) of a commit (docs/format.md, "Batches").

    Raises: ValueError when the payload is no commit of `count` entries.
    """
    place = 0

    def number() -> int:
        nonlocal place
        value = shift = 0
        while place < len(payload) and shift < _VARINT_BITS:
            byte = payload[place]
            place += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise ValueError("a number does not end")

    def text() -> bytes:
        nonlocal place
        size = number()
        place += size
        if place > len(payload):
            raise ValueError("an entry passes the end of its commit")
        return payload[place - size : place]

    for _ in range(count):
        if place >= len(payload):
            raise ValueError("entries are missing")
        kind = payload[place]
        if kind not in (DELETE, PUT, RANGE_DELETE):
            raise ValueError(f"there is no entry of kind {kind}")
        place += 1
        tree = number()
        key = text()
        yield kind, tree, key, b"" if kind == DELETE else text()
    if place != len(payload):
        raise ValueError("bytes behind the last entry")
