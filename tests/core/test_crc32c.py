"""CRC-32C by every implementation against the crc32c package."""

import random

import crc32c as package
import pytest

from dynalsm._core import crc32c

SEED = 20240611


@pytest.mark.parametrize("function", [crc32c.checksum, crc32c.checksum_by_tables])
def test_known_values(function):
    # The check value of the catalogue of CRCs, and the vectors of RFC 3720, appendix B.4.
    assert function(b"") == 0
    assert function(b"123456789") == 0xE3069283
    assert function(bytes(32)) == 0x8A9136AA
    assert function(b"\xff" * 32) == 0x62A8AB43
    assert function(bytes(range(32))) == 0x46DD794E


@pytest.mark.parametrize("function", [crc32c.checksum, crc32c.checksum_by_tables])
def test_every_short_length_at_every_alignment(function):
    # Heads and tails of the word loops.
    data = random.Random(SEED).randbytes(96)
    for offset in range(8):
        for size in range(80):
            part = memoryview(data)[offset : offset + size]
            assert function(part) == package.crc32c(part), (offset, size)


@pytest.mark.parametrize("function", [crc32c.checksum, crc32c.checksum_by_tables])
@pytest.mark.parametrize("lane", [256, 4096])
def test_lengths_around_the_three_lane_loops(function, lane):
    data = random.Random(SEED).randbytes(3 * 3 * 4096 + 64)
    for rounds in (1, 2):
        for size in range(3 * lane * rounds - 9, 3 * lane * rounds + 10):
            part = memoryview(data)[3 : 3 + size]
            assert function(part) == package.crc32c(part), size


@pytest.mark.parametrize("function", [crc32c.checksum, crc32c.checksum_by_tables])
def test_random_lengths_starts_and_alignments(function):
    rng = random.Random(SEED)
    for _ in range(300):
        size, offset, start = rng.randrange(40_000), rng.randrange(8), rng.getrandbits(32)
        part = memoryview(rng.randbytes(size + offset))[offset:]
        assert function(part, start) == package.crc32c(part, start), (SEED, size, offset, start)


def test_going_on_equals_one_go():
    data = random.Random(SEED).randbytes(5000)
    whole = crc32c.checksum(data)
    for cut in (0, 1, 7, 8, 768, 4999, 5000):
        assert crc32c.checksum(data[cut:], crc32c.checksum(data[:cut])) == whole


def test_join_of_two_parts():
    rng = random.Random(SEED)
    for size in (0, 1, 255, 256, 65_535, 65_536, 300_000):
        first, second = rng.randbytes(99), rng.randbytes(size)
        joined = crc32c.join(crc32c.checksum(first), crc32c.checksum(second), size)
        assert joined == crc32c.checksum(first + second), size


def test_join_over_lengths_no_memory_holds():
    # Zeros, doubled again and again: 2**40 of them, by joining alone.
    size, crc = 1 << 10, crc32c.checksum(bytes(1 << 10))
    while size < 1 << 40:
        crc, size = crc32c.join(crc, crc, size), size * 2
        if size == 1 << 20:
            assert crc == package.crc32c(bytes(size))
    half = crc32c.join(crc, 0, size)
    assert crc32c.join(crc32c.join(crc, 0, size // 2), 0, size // 2) == half


def test_takes_any_contiguous_buffer():
    for data in (b"abc", bytearray(b"abc"), memoryview(b"xabcx")[1:4]):
        assert crc32c.crc32c(data) == package.crc32c(b"abc")
    with pytest.raises((BufferError, ValueError)):
        crc32c.checksum(memoryview(b"abcdef")[::2])
    with pytest.raises(TypeError):
        crc32c.checksum("text")


def test_names_its_implementation():
    assert crc32c.IMPLEMENTATION in {"sse4.2", "armv8", "tables"}
