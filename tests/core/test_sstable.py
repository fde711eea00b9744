"""SSTables: what is written is read, in every direction; lifetime; blocking; many threads."""

from __future__ import annotations

import bisect
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

import msgpack
import pytest

from dynalsm._core import _testing as core
from dynalsm.errors import CorruptionError, StorageIOError

Entry = tuple[bytes, int, bytes]
NEWEST = (1 << 64) - 1
NONE, ZSTD = 0, 1


def internal(entry: Entry) -> tuple[bytes, int]:
    return entry[0], -entry[1]


def hashed_keys(count: int) -> list[bytes]:
    source = random.Random(1)
    return sorted(source.randbytes(8) + b"\x00\x04user" for _ in range(count))


def one_partition_keys(count: int) -> list[bytes]:
    return [b"\x12\x34\x56\x78\x9a\xbc\xde\xf0\x00\x04user%09d" % i for i in range(count)]


def two_partition_keys(count: int) -> list[bytes]:
    # The first eight bytes take two values only: whole separators decide.
    heads = b"\x11" * 8, b"\x11" * 7 + b"\x12"
    return sorted(head + b"sort%06d" % i for head in heads for i in range(count // 2))


def short_keys(count: int) -> list[bytes]:
    source = random.Random(2)
    return sorted({source.randbytes(source.randrange(4)) for _ in range(count)})


KEYS: dict[str, Callable[[int], list[bytes]]] = {
    "hashed": hashed_keys,
    "decimal": lambda count: [b"%016d" % (3 * i) for i in range(count)],
    "partition": one_partition_keys,
    "partitions": two_partition_keys,
    "short": short_keys,
    "uuid": lambda count: sorted(
        random.Random(i).randbytes(16).hex().encode() for i in range(count)
    ),
}


def entries_of(keys: list[bytes], versions: int = 1) -> list[Entry]:
    return [
        (key, (1000 - version) << 8 | 1, b"%d-" % version + key * 3)
        for key in keys
        for version in range(versions)
    ]


def build(path: Path, entries: list[Entry], **options: int) -> core.SSTable:
    """Write a table and open it with a cache of its own."""
    info = core.write_table(str(path), entries, **options)
    return core.SSTable(
        str(path),
        file_bytes=info["file_bytes"],
        unique_id=info["unique_id"],
        cache=core.BlockCache(64 << 20),
    )


@pytest.fixture(scope="module", params=sorted(KEYS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("codec", [NONE, ZSTD])
@pytest.mark.parametrize("block_bytes", [1, 512, 4096])
def test_round_trip(tmp_path: Path, kind: str, codec: int, block_bytes: int) -> None:
    entries = entries_of(KEYS[kind](1500), versions=2)
    table = build(tmp_path / "t", entries, codec=codec, block_bytes=block_bytes)
    table.verify()
    for fill_cache, readahead in ((True, False), (False, True), (False, False), (True, True)):
        assert table.source(fill_cache, readahead).collect() == entries
        assert table.source(fill_cache, readahead).collect(reverse=True) == entries[::-1]
    for key, tag, value in entries:
        assert table.get(key, tag >> 8) == (tag, value)
    for key in KEYS[kind](1500)[::7]:
        assert table.get(key) == (entries[bisect.bisect_left(entries, key, key=lambda e: e[0])][1:])
        assert table.get(key + b"!!!!") is None
        assert table.get(key, 998) is None


def test_seeks_agree_with_a_sorted_list(tmp_path: Path, kind: str) -> None:
    entries = entries_of(KEYS[kind](600), versions=3)
    order = [internal(entry) for entry in entries]
    table = build(tmp_path / "t", entries, block_bytes=300)
    source = table.source()
    random_source = random.Random(3)
    keys = [entry[0] for entry in random_source.sample(entries, 200)]
    probes = [key + tail for key in keys for tail in (b"", b"\x00", b"\xff")]
    probes += [key[: random_source.randrange(len(key) + 1)] for key in keys]
    probes += [key[:-1] + bytes([key[-1] ^ 1]) for key in keys if key]
    for key in [*probes, b"", b"\xff" * 20]:
        for tag in (NEWEST, 999 << 8 | 1, 999 << 8 | 255, 0):
            place = bisect.bisect_left(order, (key, -tag))
            assert source.seek(key, tag) == (place < len(entries)), (key, tag)
            if place < len(entries):
                assert source.entry == entries[place]
            place = bisect.bisect_right(order, (key, -tag)) - 1
            assert source.seek_back(key, tag) == (place >= 0), (key, tag)
            if place >= 0:
                assert source.entry == entries[place]


@pytest.mark.parametrize("filter_bits", [0, 10])
def test_many_gets_at_once(tmp_path: Path, kind: str, filter_bits: int) -> None:
    entries = entries_of(KEYS[kind](800), versions=2)
    table = build(tmp_path / "t", entries, block_bytes=512, filter_bits=filter_bits)
    source = random.Random(4)
    present = [entry[0] for entry in entries]
    keys = source.choices(present, k=300) + [key + b"?" for key in source.choices(present, k=300)]
    source.shuffle(keys)
    assert table.get_many(keys[:3], may_block=False) == ["block"] * 3
    for seqno in (1 << 40, 999, 998):
        assert table.get_many(keys, seqno) == [table.get(key, seqno) for key in keys]
    assert table.get_many(keys, may_block=False) == [table.get(key) for key in keys]
    assert table.get_many([]) == []


def test_many_gets_where_some_would_block(tmp_path: Path) -> None:
    entries = entries_of([b"%04d" % i for i in range(400)])
    table = build(tmp_path / "t", entries, block_bytes=256)
    known = [entry[0] for entry in entries[::40]]
    for key in known:
        table.get(key)
    keys = [entry[0] for entry in entries[::20]] + [b"absent"]
    found = table.get_many(keys, may_block=False)
    for key, answer in zip(keys, found, strict=True):
        if key in known:
            assert answer == table.get(key)
        elif key == b"absent":
            assert answer is None
        else:
            assert answer == "block"


def test_one_key_fills_many_blocks(tmp_path: Path) -> None:
    # An old snapshot reads a version blocks away from the newest one, with a single block read.
    entries = entries_of([b"a", b"hot", b"hot\x00", b"z"], versions=700)
    table = build(tmp_path / "t", entries, block_bytes=256)
    table.verify()
    assert table.block_count > 50
    for version in range(0, 700, 13):
        tag = (1000 - version) << 8 | 1
        for key in (b"hot", b"hot\x00"):
            assert table.get(key, 1000 - version) == (tag, b"%d-" % version + key * 3)
    assert table.get(b"hot", 300) is None
    assert table.source().collect() == entries


def test_turning_around_at_block_borders(tmp_path: Path) -> None:
    entries = entries_of([b"%04d" % i for i in range(100)])
    source = build(tmp_path / "t", entries, block_bytes=1).source()
    assert source.first()
    for place in range(99):
        assert source.next()
        assert source.entry == entries[place + 1]
        assert source.prev()
        assert source.entry == entries[place]
        source.next()
    assert not source.next()


def test_empty_table(tmp_path: Path) -> None:
    table = build(tmp_path / "t", [])
    table.verify()
    source = table.source()
    assert not source.first()
    assert not source.last()
    assert not source.seek(b"a", NEWEST)
    assert not source.seek_back(b"a", NEWEST)
    assert table.get(b"a") is None
    assert table.offset_of(b"a") == 16


def test_empty_and_long_keys_and_values(tmp_path: Path) -> None:
    keys = [b"", b"\x00", b"k" * 65_535, b"k" * 65_536]
    values = [b"", b"v", b"", b"w"]
    entries = [(key, 1 << 8 | 1, value) for key, value in zip(keys, values, strict=True)]
    table = build(tmp_path / "t", entries)
    table.verify()
    assert table.source().collect() == entries
    assert [table.get(key) for key in keys] == [entry[1:] for entry in entries]


@pytest.mark.parametrize("codec", [NONE, ZSTD])
def test_large_values_have_blocks_of_their_own(tmp_path: Path, codec: int) -> None:
    large = random.Random(5).randbytes(3 << 20)
    entries = entries_of([b"%03d" % i for i in range(100)])
    entries[50] = (entries[50][0], entries[50][1], large)
    entries[51] = (entries[51][0], entries[51][1], b"0" * (5 << 20))
    table = build(tmp_path / "t", entries, codec=codec)
    table.verify()
    assert table.source().collect() == entries
    assert table.source(False, True).collect() == entries
    assert table.get(b"050") == entries[50][1:]
    # The neighbours do not lie in the large blocks.
    assert table.offset_of(b"052") - table.offset_of(b"050") >= 3 << 20
    assert table.offset_of(b"050") < 1 << 16


@pytest.mark.slow
def test_a_value_of_one_gib(tmp_path: Path) -> None:
    value = bytes(1 << 30)
    table = build(tmp_path / "t", [(b"a", 1 << 8 | 1, b"1"), (b"b", 1 << 8 | 1, value)])
    found = table.get(b"b")
    assert found is not None
    assert found[1] == value
    assert table.get(b"a") == (1 << 8 | 1, b"1")


def test_incompressible_blocks_are_stored_as_they_are(tmp_path: Path) -> None:
    source = random.Random(6)
    entries = [(source.randbytes(8), 1 << 8 | 1, source.randbytes(100)) for _ in range(1000)]
    entries.sort()
    raw = core.write_table(str(tmp_path / "raw"), entries, codec=NONE)
    packed = core.write_table(str(tmp_path / "packed"), entries, codec=ZSTD)
    assert raw["file_bytes"] - 100 < packed["file_bytes"] <= raw["file_bytes"] + 10


def test_deletes_are_found(tmp_path: Path) -> None:
    entries = [(b"a", 7 << 8 | 0, b""), (b"a", 3 << 8 | 1, b"old"), (b"b", 5 << 8 | 2, b"")]
    table = build(tmp_path / "t", entries)
    assert table.get(b"a") == (7 << 8, b"")
    assert table.get(b"a", 6) == (3 << 8 | 1, b"old")
    assert table.info()["deletions"] == 2


@pytest.mark.parametrize("filter_bits", [0, 10])
def test_without_cache_and_without_filter(tmp_path: Path, filter_bits: int) -> None:
    entries = entries_of(hashed_keys(500))
    core.write_table(str(tmp_path / "t"), entries, filter_bits=filter_bits)
    table = core.SSTable(str(tmp_path / "t"))
    table.verify()
    assert table.source().collect() == entries
    assert all(table.get(key) == (tag, value) for key, tag, value in entries)
    assert table.get(b"absent") is None


# -------------------------------------------------------------------------- what a file says


def test_info_and_properties(tmp_path: Path) -> None:
    entries = entries_of([b"%03d" % i for i in range(10)], versions=2)
    info = core.write_table(
        str(tmp_path / "t"), entries, file_id=42, tree_id=5, level=3, codec=ZSTD
    )
    assert info["file_bytes"] == os.path.getsize(tmp_path / "t")
    assert info["unique_id"] != 0
    assert (info["entries"], info["deletions"]) == (20, 0)
    assert (info["min_seqno"], info["max_seqno"]) == (999, 1000)
    assert (info["smallest"], info["largest"]) == (b"000", b"009")
    assert info["raw_bytes"] == sum(len(key) + len(value) for key, _, value in entries)
    table = core.SSTable(str(tmp_path / "t"), file_id=42)
    assert table.info() == info | {"tree_id": 5, "level": 3}
    properties = msgpack.unpackb(table.properties())
    assert properties["keys"] == 10
    assert properties["codec"] == "zstd"
    assert properties["filter_hash"] == "xxh64"
    assert properties["smallest"] == b"000"


def test_unknown_properties_are_skipped() -> None:
    known = {"entries": 7, "largest": b"zz"}
    odd = {
        "nil": None,
        "yes": True,
        "nested": {"a": [1, [2, {"b": b"c"}]], "d": -5},
        "float": 1.5,
        "minus": -100_000,
        "ext": msgpack.ExtType(5, b"12345678"),
        "ext3": msgpack.ExtType(5, b"abc"),
        "list": list(range(100)),
        "text": "x" * 300,
        "large": "y" * 70_000,
        "map": {str(i): i for i in range(70)},
    }
    assert core.decode_properties(msgpack.packb(odd | known)) == (7, b"zz")
    assert core.decode_properties(msgpack.packb({})) == (0, b"")


def test_damaged_properties_are_refused() -> None:
    whole = msgpack.packb({"entries": 300, "list": [1, 2, {"a": 1}], "largest": b"zz"})
    for size in range(len(whole)):
        assert core.decode_properties(whole[:size]) is None
    assert core.decode_properties(whole + b"\x00") is None
    assert core.decode_properties(b"\x81\xa1a\xdd\xff\xff\xff\xff") is None
    source = random.Random(8)
    for _ in range(5000):
        core.decode_properties(bytes([0x80 | source.randrange(16)]) + source.randbytes(40))


def test_offsets_grow_with_keys(tmp_path: Path, kind: str) -> None:
    keys = KEYS[kind](2000)
    table = build(tmp_path / "t", entries_of(keys))
    offsets = [table.offset_of(key) for key in keys]
    assert offsets == sorted(offsets)
    assert table.offset_of(b"") == 16
    end = table.offset_of(b"\xff" * 40)
    assert offsets[-1] <= end <= os.path.getsize(tmp_path / "t")
    middle = table.offset_of(keys[len(keys) // 2])
    assert abs(middle - end / 2) < max(end / 10, 3 * 4096)


@pytest.mark.parametrize("kind_of_keys", ["hashed", "decimal"])
def test_even_keys_get_buckets(tmp_path: Path, kind_of_keys: str) -> None:
    table = build(tmp_path / "t", entries_of(KEYS[kind_of_keys](5000)))
    table.load()
    assert table.has_buckets
    assert table.memory_bytes < os.path.getsize(tmp_path / "t") // 20


# ---------------------------------------------------------------------------------- the writer


def test_entries_must_ascend(tmp_path: Path) -> None:
    for second in ((b"a", 5 << 8, b""), (b"b", 5 << 8, b""), (b"b", 6 << 8, b"")):
        writer = core.SSTableWriter(str(tmp_path / "t"))
        writer.add(b"b", 5 << 8, b"")
        with pytest.raises(CorruptionError, match="not in order"):
            writer.add(*second)
        writer.abandon()
        assert not (tmp_path / "t").exists()


def test_abandoned_and_forgotten_writers_leave_nothing(tmp_path: Path) -> None:
    writer = core.SSTableWriter(str(tmp_path / "t"))
    writer.add(b"a", 1 << 8 | 1, b"")
    assert (tmp_path / "t").exists()
    del writer
    assert not (tmp_path / "t").exists()


def test_a_left_over_file_is_replaced_not_overwritten(tmp_path: Path) -> None:
    core.write_table(str(tmp_path / "t"), [(b"old", 1 << 8 | 1, b"")])
    os.link(tmp_path / "t", tmp_path / "linked")
    core.write_table(str(tmp_path / "t"), [(b"new", 1 << 8 | 1, b"")])
    assert core.SSTable(str(tmp_path / "t")).get(b"new") is not None
    assert core.SSTable(str(tmp_path / "linked")).get(b"old") is not None


def test_an_impossible_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageIOError) as caught:
        core.SSTableWriter(str(tmp_path / "absent" / "t"))
    assert caught.value.path == str(tmp_path / "absent" / "t")
    with pytest.raises(StorageIOError):
        core.SSTable(str(tmp_path / "absent"))


def test_size_grows_as_announced(tmp_path: Path) -> None:
    for codec in (NONE, ZSTD):
        writer = core.SSTableWriter(str(tmp_path / "t"), codec=codec)
        source = random.Random(9)
        for i in range(20_000):
            writer.add(b"%08d" % i, 1 << 8 | 1, source.randbytes(90))
        announced = writer.size_bytes
        assert abs(writer.finish()["file_bytes"] - announced) < announced // 20


# ----------------------------------------------------------------------- lifetime and blocking


def test_reads_that_must_not_block(tmp_path: Path) -> None:
    entries = entries_of([b"%04d" % i for i in range(300)])
    table = build(tmp_path / "t", entries, block_bytes=256)
    with pytest.raises(BlockingIOError):
        table.get(b"0005", may_block=False)  # index not loaded
    table.load()
    with pytest.raises(BlockingIOError):
        table.get(b"0005", may_block=False)  # block not in the cache
    assert table.get(b"0005") is not None
    assert table.get(b"0005", may_block=False) is not None


def test_a_source_that_would_block_stays_where_it_is(tmp_path: Path) -> None:
    entries = entries_of([b"%04d" % i for i in range(300)])
    table = build(tmp_path / "t", entries, block_bytes=256)
    source = table.source()
    with pytest.raises(BlockingIOError):
        source.first(may_block=False)
    assert source.seek(b"0100", NEWEST)
    for move in (
        lambda: source.seek(b"0200", NEWEST, may_block=False),
        lambda: source.seek_back(b"0000", 0, may_block=False),
        lambda: source.first(may_block=False),
        lambda: source.last(may_block=False),
    ):
        with pytest.raises(BlockingIOError):
            move()
        assert source.entry == entries[100]
    place = 100
    while True:
        try:
            source.next(may_block=False)
        except BlockingIOError:
            break
        place += 1
    assert source.entry == entries[place]
    assert source.next()
    assert source.entry == entries[place + 1]
    assert source.prev(may_block=False)  # that block is in the cache
    assert source.entry == entries[place]


def test_seek_whose_answer_is_in_the_next_block(tmp_path: Path) -> None:
    # The separator behind a block can lie beyond its last key: the seek then goes one block on.
    entries = [(b"a%03d" % i, 1 << 8 | 1, b"") for i in range(50)]
    entries += [(b"x%03d" % i, 1 << 8 | 1, b"") for i in range(50)]
    table = build(tmp_path / "t", entries, block_bytes=1)
    source = table.source()
    assert source.seek(b"a020", NEWEST)
    assert source.seek(b"a049", NEWEST)  # in the cache now
    source.seek(b"a020", NEWEST)
    with pytest.raises(BlockingIOError):
        source.seek(b"b", NEWEST, may_block=False)
    assert source.entry == entries[20]
    assert source.seek(b"b", NEWEST)
    assert source.entry == entries[50]
    assert source.seek_back(b"b", 0, may_block=False)
    assert source.entry == entries[49]


def test_fill_cache_false_leaves_the_cache_alone(tmp_path: Path) -> None:
    entries = entries_of([b"%04d" % i for i in range(3000)])
    core.write_table(str(tmp_path / "t"), entries)
    cache = core.BlockCache(64 << 20)
    table = core.SSTable(str(tmp_path / "t"), cache=cache)
    assert table.source(fill_cache=False, readahead=True).collect() == entries
    assert table.source(fill_cache=False).collect() == entries
    assert table.get(b"0000", fill_cache=False) is not None
    assert cache.stats()["bytes"] <= 1 << 20  # an empty slab
    assert cache.stats()["pinned_bytes"] == table.memory_bytes
    table.source().collect()
    assert cache.stats()["bytes"] > 0
    table.close()
    assert cache.stats()["pinned_bytes"] == 0


def test_an_obsolete_table_is_unlinked_by_its_last_user(tmp_path: Path) -> None:
    entries = entries_of([b"%04d" % i for i in range(1000)])
    core.write_table(str(tmp_path / "t"), entries)
    cache = core.BlockCache(64 << 20)
    table = core.SSTable(str(tmp_path / "t"), cache=cache)
    source = table.source()
    assert source.first()
    table.obsolete()
    table.close()
    assert (tmp_path / "t").exists()
    assert source.collect() == entries
    assert cache.stats()["bytes"] > 0
    source.close()
    assert not (tmp_path / "t").exists()
    assert cache.stats()["bytes"] <= 1 << 20  # an empty slab


def test_descriptors_are_bounded(tmp_path: Path) -> None:
    tables = []
    for i in range(30):
        core.write_table(str(tmp_path / str(i)), [(b"%d" % i, 1 << 8 | 1, b"v")])
        tables.append(core.SSTable(str(tmp_path / str(i))))
    try:
        core.set_descriptor_limit(4)
        assert core.open_descriptors() <= 4
        for _ in range(3):
            for i, table in enumerate(tables):
                assert table.get(b"%d" % i) == (1 << 8 | 1, b"v")
                assert core.open_descriptors() <= 4
        held = [table.source() for table in tables]
        assert all(source.first() for source in held)
        assert core.open_descriptors() <= 4
        held.clear()
    finally:
        core.set_descriptor_limit(256)
    before = core.open_descriptors()
    while tables:
        tables.pop().close()
    assert core.open_descriptors() == max(0, before - 4)


def test_threads_with_a_small_cache_and_few_descriptors(tmp_path: Path) -> None:
    cache = core.BlockCache(30_000)
    tables: list[tuple[core.SSTable, list[Entry]]] = []
    for i in range(6):
        entries = entries_of([b"%d/%05d" % (i, k) for k in range(1000)])
        core.write_table(str(tmp_path / str(i)), entries, block_bytes=512, file_id=i, codec=i % 2)
        tables.append((core.SSTable(str(tmp_path / str(i)), file_id=i, cache=cache), entries))
    problems: list[str] = []
    core.set_descriptor_limit(2)

    def work(seed: int) -> None:
        source = random.Random(seed)
        for _ in range(400):
            table, entries = source.choice(tables)
            place = source.randrange(len(entries))
            key, tag, value = entries[place]
            if table.get(key) != (tag, value):
                problems.append(f"get {key!r}")
            cursor = table.source(source.random() < 0.5, source.random() < 0.3)
            cursor.seek(key, NEWEST)
            for expected in entries[place : place + 30]:
                if cursor.entry != expected:
                    problems.append(f"walk {expected[0]!r}")
                    break
                cursor.next()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        core.set_descriptor_limit(256)
    assert problems == []
