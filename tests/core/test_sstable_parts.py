"""Tables whose index and filter do not fit into their share of the budget are used in parts."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from dynalsm._core import Engine, seam
from dynalsm._core import _testing as core
from dynalsm.errors import CorruptionError, StorageIOError

Entry = tuple[bytes, int, bytes]
NEWEST = (1 << 64) - 1


def entries_of(keys: list[bytes], versions: int = 1) -> list[Entry]:
    """Each key with so many versions; a version's value names both."""
    return [
        (key, (versions - i) << 8 | 1, b"%s %d" % (key, i)) for key in keys for i in range(versions)
    ]


def in_parts(path: Path, entries: list[Entry], **options: int) -> core.SSTable:
    """Write the entries and open the table with nothing left for its index."""
    core.write_table(str(path), entries, **options)
    cache = core.BlockCache(4 << 20)
    cache.charge(1 << 20)
    table = core.SSTable(str(path), cache=cache)
    table.load()
    assert table.is_in_parts
    return table


def key_sets() -> dict[str, list[bytes]]:
    source = random.Random(7)
    return {
        "decimal": [b"%08d" % i for i in range(20_000)],
        "random": sorted({source.randbytes(source.randint(1, 12)) for _ in range(20_000)}),
        "nested": sorted({b"a" * (i % 90) + b"%d" % i for i in range(8_000)}),
        "common": [b"table/of/somebody/" + b"%05d" % (7 * i) for i in range(9_000)],
        "few": [b"a", b"b"],
        "one": [b"alone"],
    }


@pytest.mark.parametrize("name", list(key_sets()))
@pytest.mark.parametrize("versions", [1, 3])
def test_gets_and_seeks_answer_as_for_a_whole_index(
    tmp_path: Path, name: str, versions: int
) -> None:
    entries = entries_of(key_sets()[name], versions)
    table = in_parts(tmp_path / "t", entries, block_bytes=128)
    whole = core.SSTable(str(tmp_path / "t"))
    whole.load()
    assert not whole.is_in_parts
    assert table.block_count == whole.block_count
    source, other = table.source(), whole.source()
    chance = random.Random(3)
    picked = chance.sample(entries, min(len(entries), 1500))
    probes = [key for key, _, _ in picked] + [key + b"\0" for key, _, _ in picked[:300]]
    probes += [key[:-1] for key, _, _ in picked[:300]] + [b"", b"\xff" * 20]
    for key in probes:
        seqno = chance.randint(0, versions + 1)
        assert table.get(key, seqno) == whole.get(key, seqno), (key, seqno)
        assert table.offset_of(key) == whole.offset_of(key), key
        tag = seqno << 8 | 0xFF
        assert source.seek(key, tag) == other.seek(key, tag)
        assert source.entry == other.entry
        assert source.seek_back(key, tag) == other.seek_back(key, tag)
        assert source.entry == other.entry
    assert table.get_many(probes) == whole.get_many(probes)
    table.verify()


@pytest.mark.parametrize("readahead", [False, True])
@pytest.mark.parametrize("fill_cache", [False, True])
def test_walks_cross_parts_both_ways(tmp_path: Path, fill_cache: bool, readahead: bool) -> None:
    entries = entries_of([b"%06d" % i for i in range(30_000)])
    table = in_parts(tmp_path / "t", entries, block_bytes=256)
    assert table.block_count > 5 * 64
    assert table.source(fill_cache, readahead).collect() == entries
    assert table.source(fill_cache, readahead).collect(reverse=True) == entries[::-1]


def test_versions_of_one_key_over_many_parts(tmp_path: Path) -> None:
    """Separators with tags at the ends of parts."""
    entries = [(b"key", i << 8 | 1, b"%030d" % i) for i in range(9_000, 0, -1)]
    entries = [(b"a", 1 << 8 | 1, b""), *entries, (b"z", 1 << 8 | 1, b"")]
    table = in_parts(tmp_path / "t", entries, block_bytes=128)
    assert table.block_count > 20 * 64
    for seqno in [*range(1, 9_001, 37), 9_000, 9_001, 0]:
        expected = None if seqno == 0 else (min(seqno, 9_000) << 8 | 1)
        found = table.get(b"key", seqno)
        assert (found and found[0]) == expected
    assert table.source().collect() == entries


def test_without_reads_it_says_so_and_moves_nothing(tmp_path: Path) -> None:
    entries = entries_of([b"%06d" % i for i in range(30_000)])
    table = in_parts(tmp_path / "t", entries, block_bytes=256)
    assert table.get_many([b"000001"], may_block=False) == ["block"]
    source = table.source()
    with pytest.raises(BlockingIOError):
        source.seek(b"020000", NEWEST, may_block=False)
    assert source.seek(b"000100", NEWEST)
    with pytest.raises(BlockingIOError):
        source.seek(b"020000", NEWEST, may_block=False)
    assert source.entry == entries[100]
    assert source.next()
    assert source.entry == entries[101]
    assert table.get(b"020000") is not None
    assert table.get_many([b"020000"], may_block=False) == [entries[20_000][1:]]


def test_what_stays_is_a_byte_for_each_block(tmp_path: Path) -> None:
    entries = entries_of([b"%08d" % i for i in range(60_000)])
    table = in_parts(tmp_path / "t", entries, block_bytes=256)
    whole = core.SSTable(str(tmp_path / "t"), cache=core.BlockCache(64 << 20))
    whole.load()
    assert table.memory_bytes < 2 * table.block_count + 2000
    assert table.memory_bytes < whole.memory_bytes // 20


def test_a_part_that_changed_on_disk_is_found(tmp_path: Path) -> None:
    entries = entries_of([b"%06d" % i for i in range(30_000)])
    table = in_parts(tmp_path / "t", entries, block_bytes=256)
    path = tmp_path / "t"
    data = bytearray(path.read_bytes())
    start = table.offset_of(b"999999")  # the end of the blocks: the index begins there
    for at in range(start + 40, start + 4000, 97):
        data[at] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(CorruptionError) as caught:
        table.get(b"000050")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("nth", [1, 2, 3])  # a page of the filter, a part of the index, a block
def test_a_read_that_fails_is_tried_again(tmp_path: Path, nth: int) -> None:
    entries = entries_of([b"%06d" % i for i in range(30_000)])
    table = in_parts(tmp_path / "t", entries, block_bytes=256)
    seam.set_fault("read", nth=nth)
    with pytest.raises(StorageIOError):
        table.get(b"009000")
    seam.clear_fault()
    assert table.get(b"009000") == entries[9000][1:]


@pytest.mark.parametrize("encrypted", [False, True])
def test_memory_stays_within_the_budget_however_many_keys(tmp_path: Path, encrypted: bool) -> None:
    budget = 1 << 20
    options = {"encryption_key": os.urandom(32)} if encrypted else {}
    engine = Engine.open(
        str(tmp_path / "db"), memory_bytes=budget, durability="os", **options
    )
    tree = engine.create_tree("t")
    order = list(range(60_000))
    random.Random(5).shuffle(order)
    for i in order:
        tree.put(b"%08d" % i, b"%08d" % i * 4)
    engine.flush()
    chance = random.Random(6)
    for _ in range(3000):
        i = chance.randrange(60_000)
        assert tree.get(b"%08d" % i) == b"%08d" % i * 4
        assert tree.get(b"%08dx" % i) is None
    memory = engine.stats()["memory"]
    assert memory["indexes_and_filters"] <= budget // 4 + (32 << 10)
    held = memory["memtables"] + memory["block_cache"] + memory["indexes_and_filters"]
    assert held <= budget + (128 << 10)
    assert sum(1 for _ in tree.cursor()) == 60_000
    engine.close()
