"""The bounded cache under the parser and the binder."""

from __future__ import annotations

from dynalsm.expressions.cache import ClockCache


def test_cost_stays_within_capacity():
    cache: ClockCache[int] = ClockCache(100)
    for number in range(50):
        cache.put(number, number, 30)
        assert cache.cost <= 100
    assert len(cache) == 3
    assert cache.get(49) == 49
    assert cache.get(0) is None


def test_what_is_used_survives():
    cache: ClockCache[int] = ClockCache(3)
    for number in range(3):
        cache.put(number, number, 1)
    assert cache.get(0) == 0
    cache.put(3, 3, 1)  # 0 was used, so 1 goes
    assert [cache.get(number) for number in range(4)] == [0, None, 2, 3]


# Replacing an entry counts its cost once; an entry bigger than the cache is not kept.
def test_replacement_and_giants():
    cache: ClockCache[str] = ClockCache(10)
    cache.put("a", "x", 4)
    cache.put("a", "y", 6)
    assert (cache.get("a"), cache.cost) == ("y", 6)
    cache.put("b", "z", 11)
    assert cache.get("b") is None and cache.get("a") == "y"
    cache.clear()
    assert (len(cache), cache.cost) == (0, 0)


# All entries in use: the hand goes round once, then the oldest goes.
def test_eviction_ends_when_everything_is_in_use():
    cache: ClockCache[int] = ClockCache(3)
    for number in range(3):
        cache.put(number, number, 1)
        cache.get(number)
    cache.put(3, 3, 1)
    assert len(cache) == 3 and cache.get(3) == 3 and cache.get(0) is None
