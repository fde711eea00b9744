"""hash64 is XXH64 with seed 0: published and independently computed values; they are on disk."""

from __future__ import annotations

import pytest

from dynalsm._core.hashing import hash64

PATTERN = bytes((i * 131 + 7) & 0xFF for i in range(4099))
# Computed with the reference implementation (xxHash 0.8); the first four are published everywhere.
KNOWN = [
    (b"", 0xEF46DB3751D8E999),
    (b"a", 0xD24EC4F1A98C6E5B),
    (b"abc", 0x44BC2CF5AD770999),
    (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    # Around one stripe, two stripes, and long.
    (PATTERN[:31], 0x6711D55E306B5D8F),
    (PATTERN[:32], 0x07F7B8E3BC5D6E25),
    (PATTERN[:33], 0x09F85EEB4E1CBE9F),
    (PATTERN[:63], 0xB7C9968C066CB6A5),
    (PATTERN[:64], 0x50D4159A0411632E),
    (PATTERN[:100], 0x9DDADA11D3DC2D8F),
    (PATTERN, 0xC2C15A86D6A1985B),
]
MASK = 2**64 - 1
P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def rotate(value: int, bits: int) -> int:
    value &= MASK
    return (value << bits | value >> (64 - bits)) & MASK


def round64(lane: int, word: int) -> int:
    return rotate(lane + word * P2, 31) * P1 & MASK


def model(data: bytes) -> int:
    """XXH64 from its specification, with Python's integers."""
    position = 0
    if len(data) >= 32:
        lanes = [P1 + P2, P2, 0, -P1]
        while position + 32 <= len(data):
            for i in range(4):
                word = int.from_bytes(data[position + 8 * i : position + 8 * i + 8], "little")
                lanes[i] = round64(lanes[i], word)
            position += 32
        mixed = sum(rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            mixed = ((mixed ^ round64(0, lane)) * P1 + P4) & MASK
    else:
        mixed = P5
    mixed += len(data)
    while position + 8 <= len(data):
        word = int.from_bytes(data[position : position + 8], "little")
        mixed = rotate(mixed ^ round64(0, word), 27) * P1 + P4
        position += 8
    if position + 4 <= len(data):
        word = int.from_bytes(data[position : position + 4], "little")
        mixed = rotate((mixed & MASK) ^ (word * P1 & MASK), 23) * P2 + P3
        position += 4
    for byte in data[position:]:
        mixed = rotate((mixed & MASK) ^ (byte * P5 & MASK), 11) * P1
    mixed &= MASK
    mixed = (mixed ^ mixed >> 33) * P2 & MASK
    mixed = (mixed ^ mixed >> 29) * P3 & MASK
    return mixed ^ mixed >> 32


@pytest.mark.parametrize(("data", "expected"), KNOWN, ids=lambda value: repr(value)[:20])
def test_known_values(data: bytes, expected: int) -> None:
    assert hash64(data) == expected


def test_every_length_at_every_alignment() -> None:
    for size in range(140):
        for offset in range(8):
            padded = b"\xee" * offset + PATTERN[size : 2 * size]
            assert hash64(padded, offset) == model(padded[offset:])


def test_big_input() -> None:
    data = PATTERN * 50 + b"tail"
    assert hash64(data) == model(data)
    assert hash64(bytes(10 * 1024 * 1024)) != hash64(bytes(10 * 1024 * 1024 + 1))


def test_offsets() -> None:
    assert hash64(b"abc", 3) == hash64(b"")
    with pytest.raises(ValueError, match="offset"):
        hash64(b"abc", 4)
    with pytest.raises(TypeError):
        hash64("abc")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        hash64(bytearray(b"abc"))  # type: ignore[arg-type]
