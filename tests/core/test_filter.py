"""The filter never misses a key, and says yes to few others."""

from __future__ import annotations

import pytest

from dynalsm._core._testing import ask_filter, build_filter, filter_bytes

GOLDEN = (
    "00000008000004000000000000004000000001000000000000040040000000000000208000000000480000000010"
    "000100000000208008000000000010004000"
)


@pytest.mark.parametrize("bits_per_key", [1, 4, 10, 13, 20, 40])
def test_every_key_is_found(bits_per_key: int) -> None:
    keys = [b"key %d" % i for i in range(3000)]
    bits = build_filter(keys, bits_per_key)
    assert all(ask_filter(bits, key, bits_per_key) for key in keys)


def test_size_is_in_whole_cache_lines() -> None:
    assert filter_bytes(0, 10) == 0
    assert filter_bytes(100, 0) == 0
    assert filter_bytes(1, 10) == 64
    assert filter_bytes(51, 10) == 64
    assert filter_bytes(52, 10) == 128
    assert filter_bytes(1_000_000, 10) == 1_250_048


def test_no_filter_says_maybe() -> None:
    assert ask_filter(b"", b"key", 10)


@pytest.mark.parametrize(
    ("bits_per_key", "most"), [(4, 0.19), (8, 0.035), (10, 0.014), (16, 0.0025)]
)
def test_false_positive_rate(bits_per_key: int, most: float) -> None:
    bits = build_filter([b"key %d" % i for i in range(20_000)], bits_per_key)
    wrong = sum(ask_filter(bits, b"other %d" % i, bits_per_key) for i in range(40_000))
    assert wrong / 40_000 < most


def test_golden_bits() -> None:
    # On disk: these bytes must never change.
    bits = build_filter([b"a", b"b", b"c"], 10)
    assert len(bits) == 64
    assert sum(byte.bit_count() for byte in bits) <= 18
    assert bits.hex() == GOLDEN
