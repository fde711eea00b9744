"""The page, the plain reader that was written from it, and the core agree about SSTables."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from dynalsm._core import _testing as core
from dynalsm._core import hashing
from tests.format import sstable

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "format-sstable.md").read_text()

EXAMPLE = [
    (b"cat/1", 9 << 8 | 1, b"Tom"),
    (b"cat/2", 8 << 8 | 1, b"Garfield"),
    (b"cat/2", 3 << 8 | 1, b"Felix"),
    (b"dog/1", 7 << 8 | 0, b""),
    (b"owl", 5 << 8 | 1, b"Hedwig"),
]


def example_bytes() -> bytes:
    lines = re.findall(r"^([0-9a-f]{4})  ((?:[0-9a-f]{2} ?)+)$", PAGE, re.MULTILINE)
    assert [int(place, 16) for place, _ in lines] == list(range(0, 16 * len(lines), 16))
    return bytes.fromhex("".join(text for _, text in lines))


def test_the_example_of_the_page(tmp_path: Path) -> None:
    data = example_bytes()
    assert list(sstable.SSTable(data).entries()) == EXAMPLE
    (tmp_path / "t").write_bytes(data)
    table = core.SSTable(str(tmp_path / "t"))
    table.verify()
    assert table.source().collect() == EXAMPLE


def test_the_writer_still_writes_the_example(tmp_path: Path) -> None:
    core.write_table(str(tmp_path / "t"), EXAMPLE, block_bytes=70, file_id=12, tree_id=3, level=1)
    data, expected = (tmp_path / "t").read_bytes(), example_bytes()
    # All but the unique id, the time, and the checksums over them.
    assert len(data) == len(expected)
    assert data[16:0x44] == expected[16:0x44]
    assert data[0x48:0x6A] == expected[0x48:0x6A]
    assert data[0x6F:0x7C] == expected[0x6F:0x7C]
    assert data[0x81:0xC1] == expected[0x81:0xC1]
    assert data[0x1C7:0x20F] == expected[0x1C7:0x20F]
    assert data[0x214:0x23C] == expected[0x214:0x23C]


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("interval", [1, 16, 100])
@pytest.mark.parametrize("filter_bits", [0, 1, 10, 30])
def test_the_plain_reader_reads_what_is_written(
    tmp_path: Path, codec: int, interval: int, filter_bits: int
) -> None:
    source = random.Random(codec * 100 + interval)
    keys = {b"k/%04d" % source.randrange(9999) for _ in range(150)}
    keys |= {source.randbytes(source.randrange(40)) for _ in range(100)}
    entries = [
        (key, seqno << 8 | source.choice((0, 1, 1, 2)), b"v" * source.randrange(200))
        for key in sorted(keys)
        for seqno in sorted(source.sample(range(1 << 40), source.randrange(1, 12)), reverse=True)
    ]
    core.write_table(
        str(tmp_path / "t"),
        entries,
        codec=codec,
        restart_interval=interval,
        filter_bits=filter_bits,
        block_bytes=1024,
    )
    table = sstable.SSTable((tmp_path / "t").read_bytes())
    assert list(table.entries()) == entries
    assert bool(table.filter) == bool(filter_bits)
    straddling = [block for block in table.blocks if block.separator[1]]
    assert straddling
    assert any(block.stored < block.raw for block in table.blocks) == bool(codec)


def test_wide_offsets_and_large_values(tmp_path: Path) -> None:
    entries = [(b"%d" % i, 1 << 8 | 1, bytes(70_000 * (i % 2))) for i in range(6)]
    core.write_table(str(tmp_path / "t"), entries, block_bytes=1 << 20)
    table = sstable.SSTable((tmp_path / "t").read_bytes())
    assert list(table.entries()) == entries


def test_an_empty_table(tmp_path: Path) -> None:
    core.write_table(str(tmp_path / "t"), [])
    table = sstable.SSTable((tmp_path / "t").read_bytes())
    assert list(table.entries()) == []


def test_the_plain_reader_finds_every_flipped_byte() -> None:
    data = example_bytes()
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 0x10
        with pytest.raises(sstable.Damage):
            list(sstable.SSTable(bytes(damaged)).entries())


def test_hashes_agree() -> None:
    for size in range(100):
        data = bytes(range(size))
        assert sstable.xxh64(data) == hashing.hash64(data)


def test_properties_are_documented(tmp_path: Path) -> None:
    core.write_table(str(tmp_path / "t"), EXAMPLE)
    named = set(re.findall(r"`([a-z_0-9]+)`", PAGE))
    assert set(sstable.SSTable((tmp_path / "t").read_bytes()).properties) <= named
