"""Each file operation of an SSTable fails in turn: an error comes out, nothing is left behind."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from dynalsm._core import _testing as core
from dynalsm._core import seam
from dynalsm.errors import NoSpaceError, StorageIOError

ENTRIES = [(b"%06d" % i, (i + 1) << 8 | 1, b"value" * 40) for i in range(12_000)]
LARGE = [(b"a", 1 << 8 | 1, b"x" * (1 << 20)), (b"b", 1 << 8 | 1, b"y" * (1 << 20))]


@pytest.fixture(autouse=True)
def quiet_seam() -> Iterator[None]:
    yield
    seam.clear_fault()
    core.set_descriptor_limit(256)


def count_operations(path: Path, entries: list[core.Entry], codec: int) -> int:
    # A plan that never comes true counts as well.
    seam.set_fault(nth=1 << 30)
    core.write_table(str(path), entries, codec=codec)
    seam.clear_fault()
    return seam.operation_count()


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("entries", [ENTRIES, LARGE], ids=["many", "large"])
def test_every_failing_operation_of_the_writer(
    tmp_path: Path, codec: int, entries: list[core.Entry]
) -> None:
    path = tmp_path / "t"
    count = count_operations(path, entries, codec)
    assert count >= 3  # open, write, sync
    path.unlink()
    for nth in range(1, count + 1):
        seam.set_fault(nth=nth, errnum=errno.ENOSPC)
        with pytest.raises(NoSpaceError) as caught:
            core.write_table(str(path), entries, codec=codec)
        seam.clear_fault()
        assert caught.value.path == str(path)
        assert not path.exists()


def test_a_short_write_is_continued(tmp_path: Path) -> None:
    seam.set_fault("write", errnum=0, short_write=True)
    core.write_table(str(tmp_path / "t"), ENTRIES)
    seam.clear_fault()
    table = core.SSTable(str(tmp_path / "t"))
    table.verify()
    assert table.source().collect() == ENTRIES


def test_what_is_finished_was_synced(tmp_path: Path) -> None:
    seam.start_recording()
    core.write_table(str(tmp_path / "t"), ENTRIES)
    kinds = [entry[0] for entry in seam.stop_recording()]
    assert kinds[0] == "create"
    assert kinds[-1] == "sync"
    assert set(kinds[1:-1]) == {"write"}


def test_every_failing_operation_of_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "table"
    core.write_table(str(path), ENTRIES)
    # One descriptor for two tables: every read opens the file again.
    core.write_table(str(tmp_path / "other"), LARGE)
    core.set_descriptor_limit(1)
    other = core.SSTable(str(tmp_path / "other"))

    def read() -> None:
        table = core.SSTable(str(path), cache=core.BlockCache(1 << 20))
        other.get(b"a")
        assert table.get(b"000007") == ENTRIES[7][1:]
        other.get(b"a")
        assert table.get_many([b"011000"]) == [ENTRIES[11_000][1:]]
        source = table.source(False, True)
        assert source.collect(limit=2000) == ENTRIES[:2000]
        assert source.last()

    seam.set_fault(nth=1 << 30, path="/table")
    read()
    count = seam.operation_count()
    seam.clear_fault()
    assert count > 10
    for nth in range(1, count + 1):
        seam.set_fault(nth=nth, path="/table")
        with pytest.raises(StorageIOError) as caught:
            read()
        seam.clear_fault()
        assert caught.value.path == str(path)
        assert caught.value.errno == errno.EIO
    read()


def test_loading_is_tried_again_after_a_failure(tmp_path: Path) -> None:
    core.write_table(str(tmp_path / "t"), ENTRIES)
    cache = core.BlockCache(1 << 20)
    table = core.SSTable(str(tmp_path / "t"), cache=cache)
    for nth in (1, 2, 3):
        seam.set_fault("read", nth=nth)
        with pytest.raises(StorageIOError):
            table.load()
        seam.clear_fault()
        assert cache.stats()["pinned_bytes"] == 0
    assert table.get(b"000007") == ENTRIES[7][1:]
    assert cache.stats()["pinned_bytes"] == table.memory_bytes


def test_out_of_descriptors_gives_up_idle_ones(tmp_path: Path) -> None:
    tables = []
    for i in range(4):
        core.write_table(str(tmp_path / str(i)), [(b"k", 1 << 8 | 1, b"%d" % i)])
        tables.append(core.SSTable(str(tmp_path / str(i))))
        tables[-1].load()
    late = tmp_path / "late"
    core.write_table(str(late), [(b"k", 1 << 8 | 1, b"late")])
    before = core.open_descriptors()
    seam.set_fault("open", errnum=errno.EMFILE, path="late")
    assert core.SSTable(str(late)).get(b"k") == (1 << 8 | 1, b"late")
    seam.clear_fault()
    assert core.open_descriptors() <= before
    assert [table.get(b"k") for table in tables] == [(1 << 8 | 1, b"%d" % i) for i in range(4)]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("readahead", [False, True])
def test_walks_read_many_blocks_at_a_time(tmp_path: Path, reverse: bool, readahead: bool) -> None:
    core.write_table(str(tmp_path / "t"), ENTRIES)
    for fill_cache in (False, True):
        table = core.SSTable(str(tmp_path / "t"), cache=core.BlockCache(16 << 20))
        table.load()
        assert table.block_count > 500
        seam.set_fault("read", nth=0)
        assert len(table.source(fill_cache, readahead).collect(reverse=reverse)) == len(ENTRIES)
        seam.clear_fault()
        # Windows of 256 KiB hold more than 60 blocks; the first ones may be smaller.
        assert seam.operation_count("read") <= table.block_count // 60 + 8


def test_random_seeks_read_once_each(tmp_path: Path) -> None:
    core.write_table(str(tmp_path / "t"), ENTRIES)
    table = core.SSTable(str(tmp_path / "t"))
    source = table.source(fill_cache=False)
    source.collect(limit=3000)  # reads ahead by now
    seam.set_fault("read", nth=0)
    for i in range(0, len(ENTRIES), 1000):
        assert source.seek(ENTRIES[(i * 7) % len(ENTRIES)][0], (1 << 64) - 1)
    seam.clear_fault()
    assert seam.operation_count("read") <= 12
