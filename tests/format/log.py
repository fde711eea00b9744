"""A reader of CURRENT, manifests and logs in plain Python, from docs/format-log.md and format.md.

It reads whole, undamaged files and stops at a torn end. It must not import dynalsm.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import crc32c
import msgpack

from tests.format.encryption import HEAD_BYTES, Keys, opened

U64 = (1 << 64) - 1


class Damage(Exception):
    """The bytes are not what the page says."""


def need(condition: bool, message: str) -> None:
    if not condition:
        raise Damage(message)


def u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def le(value: int, size: int) -> bytes:
    return value.to_bytes(size, "little")


def aligned(at: int) -> int:
    return -(-at // 8) * 8


def read_current(directory: Path) -> str:
    """The name of the manifest that counts."""
    name, crc = (directory / "CURRENT").read_text().rstrip("\n").split(" ")
    need(int(crc, 16) == crc32c.crc32c(name.encode()), "CURRENT's checksum")
    return name


def read_manifest(path: Path, keys: Keys | None = None) -> list[dict[str, Any]]:
    """The manifest's edits, the base first."""
    data = path.read_bytes()
    number = u64(data, 24)
    need(data[:8] == b"DLSMMAN1" and u32(data, 8) == 1, "manifest magic or format")
    need(u32(data, 20) == (keys is not None) and u32(data, 32) == 0, "manifest flags")
    need(u32(data, 12) == u32(data, 16) == (1 if keys is None else 2), "oldest reader and writer")
    need(u32(data, 36) == crc32c.crc32c(data[:36]), "manifest header checksum")
    need(path.name == f"MANIFEST-{number:06d}", "manifest number")
    edits = []
    at = 40
    if keys is not None:
        cipher = keys.cipher(data[at : at + HEAD_BYTES], b"manifest")
        at += HEAD_BYTES
    while at + 16 <= len(data):
        length, crc, synced = u32(data, at), u32(data, at + 4), u64(data, at + 8)
        payload = data[at + 16 : at + 16 + length]
        place = le(number, 8) + le(at, 8) + le(length, 4) + le(synced, 8)
        if len(payload) < length or crc != crc32c.crc32c(place + payload):
            break
        if length:
            if keys is not None:
                payload = opened(cipher, payload, place)
            edits.append(msgpack.unpackb(payload, strict_map_key=False))
        at = aligned(at + 16 + length)
    return edits


@dataclass
class Record:
    first_seqno: int
    count: int
    payload: bytes


def read_log(path: Path, keys: Keys | None = None) -> Iterator[Record]:
    """The records of one log."""
    data = path.read_bytes()
    if len(data) < 64:
        return
    need(data[:8] == b"DLSMWAL1" and data[56:64] == b"1LAWMSLD", "log magic")
    need(u32(data, 52) == crc32c.crc32c(data[:52]), "log header checksum")
    number = u64(data, 16)
    need(path.name == f"{number:012d}.wal", "log number")
    need(u32(data, 12) == (keys is not None), "log flags")
    at = 64
    if keys is not None:
        cipher = keys.cipher(data[at : at + HEAD_BYTES], b"log")
        at += HEAD_BYTES
    while at + 32 <= len(data):
        size, crc, count = u32(data, at), u32(data, at + 4), u32(data, at + 12)
        body = data[at + 8 : at + 32 + size]
        if len(body) < 24 + size or crc != crc32c.crc32c(le(at, 8) + le(size, 4) + body):
            return
        if count == 0:
            return
        payload = body[24:]
        if keys is not None:
            place = le(at, 8) + le(size, 4) + body[:24]
            payload = cipher.decrypt(le(at, 8) + payload[:4], payload[4:], place)
        yield Record(u64(data, at + 16), count, payload)
        at = aligned(at + 32 + size)


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def read_entries(record: Record) -> Iterator[tuple[int, int, int, bytes, bytes]]:
    """(sequence number, kind, tree id, key, value) of each entry."""
    data, at = record.payload, 0
    for index in range(record.count):
        kind = data[at]
        tree, at = varint(data, at + 1)
        size, at = varint(data, at)
        key, at = data[at : at + size], at + size
        value = b""
        if kind != 0:
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
        yield record.first_seqno + index, kind, tree, key, value
    need(at == len(data), "bytes behind the last entry")
