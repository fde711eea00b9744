"""Damaged SSTables give an error that names the file, or right data; never a crash."""

from __future__ import annotations

from pathlib import Path

import crc32c
import pytest

from dynalsm._core import _testing as core
from dynalsm.errors import CorruptionError, StorageError

Entry = tuple[bytes, int, bytes]
ENTRIES: list[Entry] = [
    (b"key%02d" % (i // 2), (50 - i % 2) << 8 | 1, b"value %d" % i) for i in range(24)
]


def build(path: Path, codec: int) -> tuple[bytes, dict[str, int]]:
    info = core.write_table(str(path), ENTRIES, block_bytes=128, codec=codec)
    return path.read_bytes(), info


def read_all(path: Path, info: dict[str, int]) -> None:
    """Ask a table everything: each answer is right, or an error that names the file."""
    table = core.SSTable(
        str(path),
        file_bytes=info["file_bytes"],
        unique_id=info["unique_id"],
        cache=core.BlockCache(1 << 20),
    )
    questions = [
        *(lambda e=entry: (table.get(e[0], e[1] >> 8), e[1:]) for entry in ENTRIES),
        lambda: (table.get(b"absent"), None),
        lambda: (table.source().collect(), ENTRIES),
        lambda: (table.source(False, True).collect(reverse=True), ENTRIES[::-1]),
        lambda: (table.info()["entries"], len(ENTRIES)),
    ]
    for question in questions:
        try:
            answer, expected = question()
            assert answer == expected
        except CorruptionError as error:
            assert error.path == str(path)
            assert error.offset is not None


@pytest.mark.parametrize("codec", [0, 1])
def test_every_flipped_byte(tmp_path: Path, codec: int) -> None:
    whole, info = build(tmp_path / "whole", codec)
    path = tmp_path / "damaged"
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            read_all(path, info)
        except CorruptionError as error:
            assert error.path == str(path)
            assert error.offset is not None
        # Whoever reads all of it finds the damage.
        with pytest.raises(CorruptionError):
            core.SSTable(str(path)).verify()


def test_every_truncation(tmp_path: Path) -> None:
    whole, info = build(tmp_path / "whole", 0)
    path = tmp_path / "short"
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(CorruptionError):
            core.SSTable(str(path), file_bytes=info["file_bytes"], unique_id=info["unique_id"])
        with pytest.raises(CorruptionError):
            core.SSTable(str(path))


def test_bytes_behind_the_end(tmp_path: Path) -> None:
    whole, _ = build(tmp_path / "t", 0)
    for tail in (b"\x00", b"\x00" * 64, whole[-64:]):
        (tmp_path / "t").write_bytes(whole + tail)
        with pytest.raises(CorruptionError):
            core.SSTable(str(tmp_path / "t"))


def test_another_table_in_its_place(tmp_path: Path) -> None:
    _, info = build(tmp_path / "a", 0)
    build(tmp_path / "b", 0)
    (tmp_path / "b").rename(tmp_path / "a")
    with pytest.raises(CorruptionError, match="another SSTable"):
        core.SSTable(str(tmp_path / "a"), unique_id=info["unique_id"])
    core.SSTable(str(tmp_path / "a")).verify()


def first_blocks(path: Path) -> list[int]:
    """Offsets of the data blocks, from keys that are known to be spread over them."""
    table = core.SSTable(str(path))
    return sorted({table.offset_of(entry[0]) for entry in ENTRIES})


def test_swapped_and_foreign_blocks(tmp_path: Path) -> None:
    # Two blocks of one size change places; then a block of another file comes to the same place.
    entries = [(b"key%02d" % i, 1 << 8 | 1, b"%050d" % i) for i in range(20)]
    path = tmp_path / "t"
    core.write_table(str(path), entries, block_bytes=1)
    offsets = [core.SSTable(str(path)).offset_of(entry[0]) for entry in entries]
    size = offsets[1] - offsets[0]
    assert offsets[2] - offsets[1] == size
    whole = path.read_bytes()
    first, second = offsets[3], offsets[4]
    swapped = bytearray(whole)
    swapped[first : first + size] = whole[second : second + size]
    swapped[second : second + size] = whole[first : first + size]
    path.write_bytes(swapped)
    table = core.SSTable(str(path))
    for key in (b"key03", b"key04"):
        with pytest.raises(CorruptionError, match="checksum"):
            table.get(key)
    assert table.get(b"key05") == entries[5][1:]

    core.write_table(str(tmp_path / "other"), entries, block_bytes=1)
    foreign = bytearray(whole)
    foreign[first : first + size] = (tmp_path / "other").read_bytes()[first : first + size]
    path.write_bytes(foreign)
    with pytest.raises(CorruptionError, match="checksum"):
        core.SSTable(str(path)).get(b"key03")


def reseal(whole: bytes, start: int, payload: bytes, codec: int = 0) -> bytes:
    """Put `payload` where one of its size lay, with a right trailer."""
    unique_id = whole[-24:-16]
    crc = crc32c.crc32c(payload + bytes([codec]))
    crc = crc32c.crc32c(unique_id + start.to_bytes(8, "little"), crc)
    sealed = payload + bytes([codec]) + crc.to_bytes(4, "little")
    return whole[:start] + sealed + whole[start + len(sealed) :]


def test_wrong_contents_under_right_checksums(tmp_path: Path) -> None:
    """Bytes nobody would write, with checksums that fit: errors or no matter, but no crash."""
    whole, _ = build(tmp_path / "whole", 0)
    directory = int.from_bytes(whole[-40:-32], "little")
    sections = [
        (int.from_bytes(entry[8:16], "little"), int.from_bytes(entry[16:24], "little"))
        for entry in (whole[directory + 24 * i : directory + 24 * i + 24] for i in range(3))
    ]
    first_block = (16, first_blocks(tmp_path / "whole")[1] - 16 - 5)
    path = tmp_path / "t"
    for start, size in [first_block, sections[0], sections[2], (directory, 72)]:
        for place in range(size):
            for flip in (0x01, 0xFF):
                payload = bytearray(whole[start : start + size])
                payload[place] ^= flip
                path.write_bytes(reseal(whole, start, bytes(payload)))
                try:
                    table = core.SSTable(str(path), cache=core.BlockCache(1 << 20))
                    for entry in ENTRIES[::5]:
                        table.get(entry[0], entry[1] >> 8)
                    table.source().collect(limit=100)
                    table.source().collect(reverse=True, limit=100)
                    table.verify()
                except StorageError:
                    pass


def footer_with(whole: bytes, place: int, value: bytes) -> bytes:
    footer = bytearray(whole[-64:])
    footer[place : place + len(value)] = value
    footer[60:64] = crc32c.crc32c(bytes(footer[:60])).to_bytes(4, "little")
    return whole[:-64] + bytes(footer)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (10, b"\x02\x00", "newer version"),
        (10, b"\x00\x00", "no format version"),
        (12, b"\x01", "does not name its key"),
        (12, b"\x02", "features"),
        (20, b"\x01", "reserved"),
        (56, b"\x01", "reserved"),
        (24, b"\xff" * 8, "outside"),
        (32, b"\xff" * 8, "outside"),
        (32, b"\x19", "outside"),
        (48, b"\x01", "shorter or longer"),
        (40, bytes(8), "checksum"),
    ],
)
def test_footers_that_are_refused(tmp_path: Path, place: int, value: bytes, message: str) -> None:
    whole, _ = build(tmp_path / "t", 0)
    (tmp_path / "t").write_bytes(footer_with(whole, place, value))
    with pytest.raises(CorruptionError, match=message):
        core.SSTable(str(tmp_path / "t"))


def test_optional_features_are_ignored(tmp_path: Path) -> None:
    whole, _ = build(tmp_path / "t", 0)
    (tmp_path / "t").write_bytes(footer_with(whole, 16, b"\xff\xff\xff\xff"))
    assert core.SSTable(str(tmp_path / "t")).source().collect() == ENTRIES


def test_unknown_sections(tmp_path: Path) -> None:
    # The filter gets another kind in the directory: ignored when optional, else refused.
    whole, _ = build(tmp_path / "t", 0)
    start = int.from_bytes(whole[-40:-32], "little")
    payload = bytearray(whole[start : start + 72])
    assert payload[24:26] == b"\x02\x01"
    payload[24] = 99
    (tmp_path / "t").write_bytes(reseal(whole, start, bytes(payload)))
    assert core.SSTable(str(tmp_path / "t")).source().collect() == ENTRIES
    payload[25] = 0
    (tmp_path / "t").write_bytes(reseal(whole, start, bytes(payload)))
    with pytest.raises(CorruptionError, match="does not know"):
        core.SSTable(str(tmp_path / "t"))


def test_an_error_in_many_gets(tmp_path: Path) -> None:
    whole, _ = build(tmp_path / "t", 0)
    damaged = bytearray(whole)
    damaged[first_blocks(tmp_path / "t")[3] + 10] ^= 1
    (tmp_path / "t").write_bytes(damaged)
    keys = [entry[0] for entry in ENTRIES]
    table = core.SSTable(str(tmp_path / "t"), cache=core.BlockCache(1 << 20))
    for _ in range(2):
        with pytest.raises(CorruptionError, match="checksum"):
            table.get_many(keys * 5)
    assert table.get_many(keys[:4]) == [table.get(key) for key in keys[:4]]


def test_an_error_in_a_walk_is_raised_not_an_end(tmp_path: Path) -> None:
    whole, _ = build(tmp_path / "t", 0)
    damaged = bytearray(whole)
    damaged[first_blocks(tmp_path / "t")[3] + 10] ^= 1
    (tmp_path / "t").write_bytes(damaged)
    for reverse in (False, True):
        for readahead in (False, True):
            source = core.SSTable(str(tmp_path / "t")).source(False, readahead)
            with pytest.raises(CorruptionError, match="checksum"):
                source.collect(reverse=reverse)
    # An absolute move makes the source usable again.
    source = core.SSTable(str(tmp_path / "t")).source()
    with pytest.raises(CorruptionError):
        source.collect()
    assert source.first()
    assert source.entry == ENTRIES[0]
