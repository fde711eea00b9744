"""A reader of backup files in plain Python, from docs/format-backup.md alone.

It must not import dynalsm.
"""

from __future__ import annotations

from typing import Any

import crc32c
import msgpack
import zstandard

from tests.format.encryption import HEAD_BYTES, Keys, opened
from tests.format.log import le, need, u32, u64

Entries = list[tuple[bytes, bytes]]


def read(data: bytes, keys: Keys | None = None) -> tuple[dict[str, Any], Entries, dict[str, int]]:
    """(description, entries, totals) of a whole file. Raises: log.Damage."""
    need(data[:8] == b"DLSMBAK1", "magic")
    need(u32(data, 12) <= 1 and u32(data, 16) == (keys is not None), "reader and flags")
    need(data[28:60] == bytes(32), "reserved")
    need(crc32c.crc32c(data[:60]) == u32(data, 60), "the header's checksum")
    at, cipher = 64, None
    if keys is not None:
        cipher = keys.cipher(data[at : at + HEAD_BYTES], b"backup")
        at += HEAD_BYTES
    description = data[at : at + u32(data, 20)]
    need(crc32c.crc32c(description) == u32(data, 24), "the description's checksum")
    trailer = data[-24:]
    need(trailer[16:] == b"1KABMSLD", "the trailer's magic")
    need(crc32c.crc32c(trailer[:8]) == u32(trailer, 8) and u32(trailer, 12) == 0, "the trailer")
    entries: Entries = []
    place, at = at, at + len(description)
    if cipher is not None:
        where = le(place, 8) + le(len(description), 4) + bytes(4) + b"\xff" * 4
        description = opened(cipher, description, where)
    while at < u64(trailer, 0):
        parts, at = read_block(data, at, cipher)
        entries += zip(parts[::2], parts[1::2], strict=True)
    totals, end = read_block(data, at, cipher)
    need(end == len(data) - 24 and totals["items"] == len(entries), "the end block")
    return msgpack.unpackb(description), entries, totals


def read_block(data: bytes, at: int, cipher: Any = None) -> tuple[Any, int]:
    size, raw = u32(data, at), u32(data, at + 4)
    payload = data[at + 16 : at + 16 + size]
    checksum = crc32c.crc32c(le(at, 8) + data[at : at + 12] + payload)
    need(checksum == u32(data, at + 12), f"the checksum of the block at {at}")
    if cipher is not None:
        payload = opened(cipher, payload, le(at, 8) + data[at : at + 12])
    if raw:
        payload = zstandard.ZstdDecompressor().decompress(payload)
        need(len(payload) == raw, "the size of a block")
    content = msgpack.unpackb(payload)
    need(isinstance(content, dict) or len(content) == 2 * u32(data, at + 8), "the entries")
    return content, at + 16 + size
