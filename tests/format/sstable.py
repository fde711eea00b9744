"""A reader of SSTables in plain Python, written from docs/format-sstable.md alone.

It checks everything the page says and is slow. It must not import dynalsm.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import crc32c
import msgpack
import zstandard

from tests.format.encryption import TAG_BYTES, Keys

MAGIC = b"DLSMSST1"
HEADER_BYTES = 16
FOOTER_BYTES = 64
TRAILER_BYTES = 5
SECTION_BYTES = 24
INDEX, FILTER, PROPERTIES, ENCRYPTION = 1, 2, 3, 6
OPTIONAL = 1
ENCRYPTED = 1
U64 = (1 << 64) - 1

Entry = tuple[bytes, int, bytes]


class Damage(Exception):
    """The bytes are not what the page says."""


def need(condition: bool, message: str) -> None:
    if not condition:
        raise Damage(message)


def u16(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "little")


def u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        need(at < len(data) and shift < 64, "a number does not end")
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


# ------------------------------------------------------------------------------------------ hashes


def xxh64(data: bytes) -> int:
    """XXH64 with seed 0."""
    p1, p2, p3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
    p4, p5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5

    def rotate(x: int, by: int) -> int:
        return ((x << by) | (x >> (64 - by))) & U64

    def step(lane: int, word: int) -> int:
        return rotate((lane + word * p2) & U64, 31) * p1 & U64

    at, size = 0, len(data)
    if size >= 32:
        lanes = [(p1 + p2) & U64, p2, 0, -p1 & U64]
        while at + 32 <= size:
            lanes = [step(lane, u64(data, at + 8 * i)) for i, lane in enumerate(lanes)]
            at += 32
        value = sum(rotate(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & U64
        for lane in lanes:
            value = ((value ^ step(0, lane)) * p1 + p4) & U64
    else:
        value = p5
    value = (value + size) & U64
    while at + 8 <= size:
        value = (rotate(value ^ step(0, u64(data, at)), 27) * p1 + p4) & U64
        at += 8
    if at + 4 <= size:
        value = (rotate(value ^ (u32(data, at) * p1 & U64), 23) * p2 + p3) & U64
        at += 4
    for byte in data[at:]:
        value = rotate(value ^ (byte * p5 & U64), 11) * p1 & U64
    value = (value ^ value >> 33) * p2 & U64
    value = (value ^ value >> 29) * p3 & U64
    return value ^ value >> 32


def filter_has(lines: bytes, key_hash: int, bits_per_key: int) -> bool:
    """Whether all bits of the key are set."""
    x = key_hash * 0x9E3779B97F4A7C15 & U64
    x ^= x >> 32
    line = (((x * 0xD6E8FEB86659FD93 & U64) >> 32) * (len(lines) // 64)) >> 32
    product = x * 0xC4CEB9FE1A85EC53 & U64
    for probe in range(min(max((bits_per_key * 6 + 5) // 10, 1), 14)):
        if probe % 7 == 0:
            if probe:
                product = product * 0xC4CEB9FE1A85EC53 & U64
            bits = product ^ product >> 29
        bit = bits & 511
        if not lines[64 * line + bit // 8] >> bit % 8 & 1:
            return False
        bits >>= 9
    return True


# ------------------------------------------------------------------------------------------ blocks


def block_entries(block: bytes) -> list[Entry]:
    """The entries of an uncompressed data block."""
    word = u32(block, len(block) - 4)
    count, shift, wide = word & 0xFFFFFF, word >> 24 & 15, word >> 28 & 1
    need(word >> 29 == 0 and shift <= 8 and count > 0, "reserved bits of a block")
    hashes = len(block) - 4 - count
    offsets = hashes - count * (4 if wide else 2)
    need(offsets >= 0, "a block is too short")
    entries: list[Entry] = []
    at = 0
    first = b""
    for i in range(count):
        need(at == (u32(block, offsets + 4 * i) if wide else u16(block, offsets + 2 * i)), "offset")
        shared, at = varint(block, at)
        unshared, at = varint(block, at)
        size, at = varint(block, at)
        tag, at = varint(block, at)
        need(at + unshared + size <= offsets, "an entry passes the end of its block")
        key = first[:shared] + block[at : at + unshared]
        if i % (1 << shift) == 0:
            need(shared == 0, "the first entry of a group shares bytes")
            first = key
        elif shared == 0:
            need(key[:4] != first[:4] or len(key) < 4 or len(first) < 4, "bytes not shared")
        else:
            need(shared >= 4 and shared <= len(first), "bytes shared")
            ends = shared == min(len(key), len(first))
            need(ends or key[shared] != first[shared], "more bytes are shared")
        need(block[hashes + i] == xxh64(key) >> 56, "hash byte")
        at += unshared
        entries.append((key, tag, block[at : at + size]))
        at += size
    need(at == offsets, "bytes behind the last entry")
    return entries


# -------------------------------------------------------------------------------------------- file


@dataclass
class Block:
    separator: tuple[bytes, int]
    offset: int
    stored: int
    raw: int


class SSTable:
    """One SSTable in memory."""

    def __init__(self, data: bytes, keys: Keys | None = None) -> None:
        self.data = data
        self.cipher: Any = None
        footer = data[-FOOTER_BYTES:]
        need(len(data) >= HEADER_BYTES + FOOTER_BYTES, "too short")
        need(footer[:8] == MAGIC and data[:8] == MAGIC, "magic")
        need(u32(footer, 60) == crc32c.crc32c(footer[:60]), "footer checksum")
        need(u16(footer, 8) >= 1 and u16(footer, 10) == 1, "version")
        need(u32(footer, 12) == (0 if keys is None else ENCRYPTED), "required features")
        need(u32(footer, 20) == 0 and u32(footer, 56) == 0, "reserved bytes")
        self.unique_id = u64(footer, 40)
        need(u64(data, 8) == self.unique_id, "unique id of the header")
        need(u64(footer, 48) == len(data), "file size")
        offset, size = u64(footer, 24), u64(footer, 32)
        need(offset + size + TRAILER_BYTES + FOOTER_BYTES == len(data), "directory")
        self.sections = dict(self._directory(self._payload(offset, size, size), offset))
        need({INDEX, PROPERTIES} <= set(self.sections), "sections")
        need((ENCRYPTION in self.sections) == (keys is not None), "section of the key")
        if keys is not None:
            head = self._section(ENCRYPTION)
            self.cipher = keys.cipher(head, b"table")
        self.properties: dict[str, Any] = msgpack.unpackb(self._section(PROPERTIES))
        need(self.properties["unique_id"] == self.unique_id, "unique id of the properties")
        self.filter = self._section(FILTER) if FILTER in self.sections else b""
        self.blocks = list(self._index(self._section(INDEX)))

    def _payload(self, offset: int, stored: int, raw: int, kind: int = 0) -> bytes:
        """A payload whose trailer has been checked, opened and uncompressed."""
        end = offset + stored
        need(end + TRAILER_BYTES <= len(self.data), "outside of the file")
        place = self.unique_id.to_bytes(8, "little") + offset.to_bytes(8, "little")
        checksum = crc32c.crc32c(self.data[offset : end + 1] + place)
        need(u32(self.data, end + 1) == checksum, f"checksum at {offset}")
        codec = self.data[end]
        payload = self.data[offset:end]
        if self.cipher is not None and kind != ENCRYPTION:
            nonce = offset.to_bytes(8, "little") + bytes(4)
            payload = self.cipher.decrypt(nonce, payload, place + bytes([kind, codec]))
        if codec == 1:
            payload = zstandard.ZstdDecompressor().decompress(payload, allow_extra_data=False)
        else:
            need(codec == 0, "codec")
        need(len(payload) == raw, "uncompressed size")
        return payload

    def _directory(self, payload: bytes, limit: int) -> Iterator[tuple[int, tuple[int, int]]]:
        for at in range(0, len(payload), SECTION_BYTES):
            kind, flags = payload[at], payload[at + 1]
            need(flags & ~OPTIONAL == 0 and not any(payload[at + 2 : at + 8]), "reserved bits")
            known = (INDEX, FILTER, PROPERTIES, ENCRYPTION)
            need(kind in known or bool(flags & OPTIONAL), "unknown section")
            offset, size = u64(payload, at + 8), u64(payload, at + 16)
            need(offset + size + TRAILER_BYTES <= limit, "section outside of the file")
            yield kind, (offset, size)

    def _section(self, kind: int) -> bytes:
        offset, size = self.sections[kind]
        need(self.data[offset + size] == 0, "sections are not compressed")
        is_sealed = self.cipher is not None and kind != ENCRYPTION
        return self._payload(offset, size, size - is_sealed * TAG_BYTES, kind)

    def _index(self, payload: bytes) -> Iterator[Block]:
        count, at = varint(payload, 0)
        offset = HEADER_BYTES
        key = b""
        for _ in range(count):
            head, at = varint(payload, at)
            unshared, at = varint(payload, at)
            key = key[: head >> 1] + payload[at : at + unshared]
            at += unshared
            tag = 0
            if head & 1:
                tag, at = varint(payload, at)
            stored, at = varint(payload, at)
            raw, at = varint(payload, at)
            yield Block((key, tag), offset, stored, raw)
            offset += stored + TRAILER_BYTES
        need(at == len(payload), "bytes behind the index")
        need(offset == self.sections[INDEX][0], "the blocks do not end where the index begins")

    def entries(self) -> Iterator[Entry]:
        """All entries in order; checks order, separators, filter and properties on the way."""
        before: tuple[bytes, int] | None = None
        floor: tuple[bytes, int] | None = None
        seen = {"entries": 0, "deletions": 0, "raw_bytes": 0, "keys": 0}
        for block in self.blocks:
            separator = block.separator[0], -block.separator[1]
            for key, tag, value in block_entries(
                self._payload(block.offset, block.stored, block.raw)
            ):
                here = key, -tag
                need(before is None or before < here, "order of entries")
                need(here <= separator and (floor is None or floor < here), "separator")
                if before is None or before[0] != key:
                    seen["keys"] += 1
                    bits = self.properties["filter_bits"]
                    need(not self.filter or filter_has(self.filter, xxh64(key), bits), "filter")
                before = here
                seen["entries"] += 1
                seen["deletions"] += tag & 0xFF in (0, 2)
                seen["raw_bytes"] += len(key) + len(value)
                yield key, tag, value
            floor = separator
        need({name: self.properties[name] for name in seen} == seen, "properties")
        need(self.properties["largest"] == (before[0] if before else b""), "largest key")
