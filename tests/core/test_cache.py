"""The block cache: budget, pins, what stays and what goes, hints, and many threads."""

from __future__ import annotations

import random
import threading

from dynalsm._core._testing import BlockCache

SLAB_MIN = 4096  # of a small cache


def fill(cache: BlockCache, file_id: int, count: int, size: int = 1000) -> None:
    for i in range(count):
        cache.add(file_id, i, bytes([i & 255]) * size).close()


def present(cache: BlockCache, file_id: int, count: int) -> set[int]:
    found = set()
    for i in range(count):
        block = cache.find(file_id, i)
        if block is not None:
            found.add(i)
            block.close()
    return found


def test_what_was_added_is_found() -> None:
    cache = BlockCache(1 << 20)
    cache.add(1, 4096, b"hello").close()
    block = cache.find(1, 4096)
    assert block is not None
    assert block.data == b"hello"
    assert block.in_cache
    block.close()
    assert cache.find(1, 4097) is None
    assert cache.find(2, 4096) is None
    stats = cache.stats()
    assert (stats["hits"], stats["misses"]) == (1, 2)
    assert stats["bytes"] == (1 << 20) // 64  # one slab


def test_a_second_add_gives_the_first_block() -> None:
    cache = BlockCache(1 << 20)
    first = cache.add(1, 0, b"first")
    second = cache.add(1, 0, b"other")
    assert second.data == b"first"
    first.close()
    second.close()


def test_stays_within_the_budget() -> None:
    cache = BlockCache(1 << 20)
    for i in range(5000):
        cache.add(1, i, b"x" * 1000).close()
        assert cache.stats()["bytes"] <= 1 << 20
    kept = present(cache, 1, 5000)
    assert len(kept) > 900  # nearly all of the budget is used for blocks
    assert max(range(5000)) in kept
    assert cache.stats()["evictions"] == 5000 - len(kept)


def test_blocks_of_all_sizes() -> None:
    cache = BlockCache(1 << 20)
    source = random.Random(3)
    for i in range(3000):
        size = source.choice([0, 1, 15, 16, 17, 100, 4096, 20_000, 100_000])
        data = source.randbytes(size)
        block = cache.add(1, i, data)
        assert block.data == data
        block.close()
        again = cache.find(1, i)
        assert again is not None and again.data == data
        again.close()
        assert cache.stats()["bytes"] <= 1 << 20


def test_used_blocks_outlive_a_scan() -> None:
    cache = BlockCache(120_000)
    fill(cache, 1, 20)
    for _ in range(30):
        # The hot blocks are used again before as many new ones came as the cache holds.
        assert len(present(cache, 1, 20)) == 20
        start = cache.stats()["evictions"]
        for i in range(40):
            cache.add(2, start * 1000 + i, b"s" * 1000).close()


def test_a_pinned_block_outlives_its_eviction() -> None:
    cache = BlockCache(10_000)
    pinned = cache.add(1, 0, b"p" * 1000)
    cache.drop_file(1)
    fill(cache, 2, 100)
    assert pinned.data == b"p" * 1000
    assert not pinned.in_cache
    assert cache.find(1, 0) is None
    pinned.close()


def test_pinned_blocks_keep_their_memory_until_they_are_let_go() -> None:
    cache = BlockCache(100_000)
    pinned = [cache.add(1, i, b"%d" % (i % 10) * 1000) for i in range(20)]
    fill(cache, 2, 500)
    for i, block in enumerate(pinned):
        assert block.data == b"%d" % (i % 10) * 1000
    held = cache.stats()["bytes"]
    for block in pinned:
        block.close()
    assert cache.stats()["bytes"] <= held
    fill(cache, 3, 100)
    assert cache.stats()["bytes"] <= 100_000


def test_pinned_blocks_outlive_a_scan() -> None:
    cache = BlockCache(1 << 20)
    pinned = [cache.add(1, i, b"p" * 1000) for i in range(5)]
    fill(cache, 2, 900)
    assert present(cache, 1, 5) == {0, 1, 2, 3, 4}
    for block in pinned:
        block.close()


def test_a_block_that_is_not_inserted() -> None:
    cache = BlockCache(10_000)
    block = cache.add(1, 0, b"once", insert=False)
    assert block.data == b"once"
    assert cache.find(1, 0) is None
    assert cache.stats()["bytes"] == 0
    block.close()


def test_a_block_larger_than_the_cache_is_given_but_not_kept() -> None:
    cache = BlockCache(20_000)
    fill(cache, 1, 5)
    block = cache.add(2, 0, b"x" * 20_000)
    assert len(block.data) == 20_000
    assert cache.find(2, 0) is None
    assert present(cache, 1, 5) == {0, 1, 2, 3, 4}
    block.close()


def test_a_cache_without_capacity_works() -> None:
    cache = BlockCache(0)
    block = cache.add(1, 0, b"data")
    assert block.data == b"data"
    assert cache.find(1, 0) is None
    block.close()


def test_drop_file_takes_only_that_file() -> None:
    cache = BlockCache(10 << 20)
    fill(cache, 1, 300, 10)
    fill(cache, 2, 300, 10)
    cache.drop_file(1)
    assert present(cache, 1, 300) == set()
    assert present(cache, 2, 300) == set(range(300))


def test_drop_file_gives_its_memory_back() -> None:
    cache = BlockCache(10 << 20)
    fill(cache, 1, 3000)
    held = cache.stats()["bytes"]
    cache.drop_file(1)
    assert cache.stats()["bytes"] <= (10 << 20) // 64 < held


def test_a_reservation_takes_memory_at_once() -> None:
    cache = BlockCache(1 << 20)
    fill(cache, 1, 2000)
    cache.reserve(600_000)
    stats = cache.stats()
    assert stats["reserved"] == 600_000
    assert stats["bytes"] <= (1 << 20) - 600_000
    cache.reserve(10 << 20)
    assert 0 < cache.stats()["bytes"] <= (1 << 20) // 8  # a part stays all the same
    cache.reserve(0)
    fill(cache, 2, 2000)
    assert cache.stats()["bytes"] > 900_000


def test_charges_count_against_the_budget() -> None:
    cache = BlockCache(100_000)
    fill(cache, 1, 80)
    cache.charge(60_000)
    stats = cache.stats()
    assert stats["pinned_bytes"] == 60_000
    assert stats["bytes"] <= 40_000
    cache.charge(-60_000)
    assert cache.stats()["pinned_bytes"] == 0
    fill(cache, 2, 80)
    assert cache.stats()["bytes"] > 80_000


def test_capacity_can_shrink_and_grow() -> None:
    cache = BlockCache(1 << 20)
    fill(cache, 1, 500)
    cache.set_capacity(50_000)
    assert cache.stats()["bytes"] <= 50_000
    cache.set_capacity(1 << 20)
    fill(cache, 2, 500)
    assert len(present(cache, 2, 500)) == 500


def test_a_hint_holds_only_for_its_own_block() -> None:
    cache = BlockCache(5 * (1000 + 48))
    block = cache.add(1, 7, b"x" * 1000)
    assert block.repin(1, 7)
    assert not block.repin(1, 8)
    assert not block.repin(2, 7)
    block.close()


def test_many_blocks_in_a_growing_table() -> None:
    cache = BlockCache(1 << 30)
    source = random.Random(7)
    places = [(source.randrange(50), source.randrange(1 << 40)) for _ in range(20_000)]
    for file_id, offset in places:
        cache.add(file_id, offset, b"%d" % offset).close()
    for file_id, offset in source.sample(places, 5000):
        block = cache.find(file_id, offset)
        assert block is not None
        assert block.data == b"%d" % offset
        block.close()


def test_threads_see_only_right_data() -> None:
    cache = BlockCache(60 * (100 + 48))
    problems: list[str] = []

    def work(seed: int) -> None:
        source = random.Random(seed)
        for _ in range(4000):
            file_id, offset = source.randrange(3), source.randrange(60)
            expected = b"%d/%d" % (file_id, offset) * 10
            block = cache.find(file_id, offset) or cache.add(file_id, offset, expected)
            if block.data != expected:
                problems.append(f"{file_id}/{offset}: {block.data[:20]!r}")
            if source.random() < 0.01:
                cache.drop_file(file_id)
            block.close()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert cache.stats()["bytes"] <= 60 * (100 + 48)
