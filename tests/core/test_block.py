"""Blocks: what is put in comes out, both ways, by seek and by point get; damage is survived."""

from __future__ import annotations

import bisect
import random

import pytest

from dynalsm._core._testing import BlockWalk, block_build, block_find
from dynalsm.errors import CorruptionError

Entry = tuple[bytes, int, bytes]
NEWEST = (1 << 64) - 1


def internal(entry: Entry) -> tuple[bytes, int]:
    """The order of entries: key ascending, tag descending."""
    return entry[0], -entry[1]


def entries_of(keys: list[bytes], versions: int = 1, value_bytes: int = 10) -> list[Entry]:
    """Sorted entries; a key's value names the key and the version."""
    made = [
        (key, (100 + version) << 8 | 1, (b"%d " % version + key)[:value_bytes])
        for key in keys
        for version in range(versions)
    ]
    return sorted(made, key=internal)


def walk(block: bytes, reverse: bool = False) -> list[Entry]:
    cursor = BlockWalk(block)
    found = []
    there = cursor.last() if reverse else cursor.first()
    while there:
        found.append(cursor.entry)
        there = cursor.prev() if reverse else cursor.next()
    return found


# Keys that are prefixes of each other, empty, with 0x00 and 0xFF, long, and plain.
NASTY_KEYS = sorted(
    {
        b"",
        b"\x00",
        b"\x00\x00",
        b"a",
        b"a\x00",
        b"a\xff",
        b"ab",
        b"abc",
        b"abcd",
        b"abd",
        b"b",
        b"\xff",
        b"\xff\xff",
        b"\xff\xff\xff",
        b"k" * 127,
        b"k" * 128,
        b"k" * 129,
        b"k" * 300,
        *(b"user%06d" % i for i in range(50)),
    }
)


@pytest.mark.parametrize("interval", [1, 2, 3, 16, 256])
@pytest.mark.parametrize("versions", [1, 3, 40])
def test_walks_both_ways(interval: int, versions: int) -> None:
    entries = entries_of(NASTY_KEYS, versions)
    block = block_build(entries, interval)
    assert walk(block) == entries
    assert walk(block, reverse=True) == entries[::-1]


def test_block_without_entries() -> None:
    block = block_build([])
    assert len(block) == 4
    cursor = BlockWalk(block)
    assert not cursor.first()
    assert not cursor.last()
    assert not cursor.seek(b"", NEWEST)
    assert not cursor.seek_back(b"x", 0)
    assert block_find(block, b"", NEWEST) is None


@pytest.mark.parametrize("interval", [1, 4, 16])
def test_seeks_agree_with_a_sorted_list(interval: int) -> None:
    entries = entries_of(NASTY_KEYS, versions=2)
    order = [internal(entry) for entry in entries]
    cursor = BlockWalk(block_build(entries, interval))
    probes = {key + extra for key in NASTY_KEYS for extra in (b"", b"\x00", b"\xff")}
    probes |= {key[:-1] for key in NASTY_KEYS if key}
    for key in sorted(probes):
        for tag in (NEWEST, 101 << 8 | 1, 100 << 8 | 255, 100 << 8 | 1, 0):
            place = bisect.bisect_left(order, (key, -tag))
            assert cursor.seek(key, tag) == (place < len(entries))
            if place < len(entries):
                assert cursor.entry == entries[place]
            place = bisect.bisect_right(order, (key, -tag)) - 1
            assert cursor.seek_back(key, tag) == (place >= 0)
            if place >= 0:
                assert cursor.entry == entries[place]


def test_turning_around_anywhere() -> None:
    entries = entries_of(NASTY_KEYS)
    cursor = BlockWalk(block_build(entries, 16))
    for place, entry in enumerate(entries):
        assert cursor.seek(entry[0], entry[1])
        if place:
            assert cursor.prev()
            assert cursor.entry == entries[place - 1]
            assert cursor.next()
        assert cursor.entry == entry
        if place + 1 < len(entries):
            assert cursor.next()
            assert cursor.entry == entries[place + 1]
            assert cursor.prev()
            assert cursor.entry == entry


def test_ends_leave_the_cursor_where_it_was() -> None:
    entries = entries_of([b"a", b"b"])
    cursor = BlockWalk(block_build(entries))
    assert cursor.last()
    assert not cursor.next()
    assert cursor.entry == entries[-1]
    assert cursor.first()
    assert not cursor.prev()
    assert cursor.entry == entries[0]


def test_seek_with_the_cursors_own_key() -> None:
    entries = entries_of([b"k" * n for n in range(1, 200)])
    cursor = BlockWalk(block_build(entries))
    cursor.first()
    for entry in entries:
        key, tag, _ = cursor.entry
        assert cursor.seek(key, tag)
        assert cursor.entry == entry
        cursor.next()


@pytest.mark.parametrize("interval", [1, 16, 256])
def test_point_get_finds_the_newest_visible_version(interval: int) -> None:
    entries = entries_of(NASTY_KEYS, versions=20)
    block = block_build(entries, interval)
    for key in NASTY_KEYS:
        for version in (0, 7, 19):
            wanted = (100 + version) << 8 | 255
            tag = (100 + version) << 8 | 1
            value = next(e[2] for e in entries if e[0] == key and e[1] == tag)
            assert block_find(block, key, wanted) == (tag, value)
        assert block_find(block, key, 99 << 8 | 255) is None
        assert block_find(block, key + b"\x01", NEWEST) is None


def test_point_get_of_every_absent_key() -> None:
    # Absent keys share hash bytes with present ones sooner or later: the key itself decides.
    block = block_build(entries_of([b"%05d" % i for i in range(0, 400, 2)]))
    for i in range(400):
        found = block_find(block, b"%05d" % i, NEWEST)
        assert (found is not None) == (i % 2 == 0)


def test_offsets_become_wide_beyond_64_kib() -> None:
    for value_bytes in (600, 700):  # 100 entries: just below and just above
        entries = [(b"%03d" % i, i << 8 | 1, bytes([i]) * value_bytes) for i in range(100)]
        block = block_build(entries)
        assert bool(block[-1] & 0x10) == (value_bytes == 700)
        assert walk(block) == entries
        assert walk(block, reverse=True) == entries[::-1]
        assert block_find(block, b"099", NEWEST) == (99 << 8 | 1, bytes([99]) * value_bytes)


def test_tags_and_sizes_of_every_length() -> None:
    entries = [
        (b"%02d" % i, 1 << i if i < 64 else (1 << 64) - 1, b"v" * (1 << min(i, 17)))
        for i in range(65)
    ]
    block = block_build(entries, 16)
    assert walk(block) == entries
    for key, tag, value in entries:
        assert block_find(block, key, NEWEST) == (tag, value)


def exercise(block: bytes) -> None:
    """Everything a reader does with a block. Raises CorruptionError, or nothing."""
    cursor = BlockWalk(block)
    for reverse in (False, True):
        there = cursor.last() if reverse else cursor.first()
        for _ in range(200):
            if not there:
                break
            assert isinstance(cursor.entry, tuple)
            there = cursor.prev() if reverse else cursor.next()
    for key in (b"", b"user000007", b"abc", b"\xff" * 4):
        cursor.seek(key, NEWEST)
        cursor.seek_back(key, 0)
        block_find(block, key, NEWEST)


def survives(block: bytes) -> None:
    try:
        exercise(block)
    except CorruptionError:
        pass


def test_every_flipped_byte_is_survived() -> None:
    block = block_build(entries_of(NASTY_KEYS[:40]), 4)
    for place in range(len(block)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(block)
            damaged[place] ^= flip
            survives(bytes(damaged))


def test_every_truncation_is_survived() -> None:
    block = block_build(entries_of(NASTY_KEYS[:40]), 4)
    for size in range(len(block)):
        survives(block[:size])


def test_random_bytes_are_survived() -> None:
    source = random.Random(20240601)
    for _ in range(2000):
        size = source.randrange(200)
        body = source.randbytes(size)
        # A plausible last word leads further than a random one.
        word = source.randrange(size + 1) | source.randrange(9) << 24
        survives(body + word.to_bytes(4, "little"))


def test_reserved_bits_are_checked() -> None:
    block = block_build(entries_of([b"a", b"b"]))
    for bit in (29, 30, 31):
        word = int.from_bytes(block[-4:], "little") | 1 << bit
        with pytest.raises(CorruptionError):
            BlockWalk(block[:-4] + word.to_bytes(4, "little"))
