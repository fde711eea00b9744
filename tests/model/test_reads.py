"""Pages: where they end, what they hold, and that they are of one moment."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from dynalsm.expressions import Placeholders, bind_condition
from dynalsm.model import reads
from dynalsm.values import WIRE
from tests.support.store import INDEXED, NUMBERS, N, S, Store


@pytest.fixture
def store(store_alone: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Ten items of NUMBERS, read in chunks of three."""
    monkeypatch.setattr(reads, "CHUNK_ITEMS", 3)
    for number in range(10):
        store_alone.put(NUMBERS, p=S("p"), s=N(number), m=N(number % 2))
    return store_alone


def page_of(store: Store, lower: bytes | None = None, **more: Any) -> reads.Page:
    handle: Any = store.database.catalog.get(NUMBERS)
    return reads.read_page(handle, lower, None, **more)


def sort_keys(page: reads.Page) -> list[str]:
    return [WIRE.decode_item(item)["s"]["N"] for item in page.items]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 3, 4, 9, 10, 11, None])
def test_limits_and_chunks(store: Store, limit: int | None, reverse: bool) -> None:
    page = page_of(store, limit=limit, reverse=reverse)
    expected = [str(number) for number in range(10)]
    assert sort_keys(page) == expected[:: -1 if reverse else 1][:limit]
    assert page.scanned == page.count == min(10, limit or 10)
    assert (page.last_key is not None) == (limit is not None and limit <= 10)


def test_filter_counts_what_it_lets_through(store: Store) -> None:
    odd = bind_condition("m = :m", Placeholders(None, {":m": Decimal(1)}))
    page = page_of(store, condition=odd, limit=5)
    assert (sort_keys(page), page.count, page.scanned) == (["1", "3"], 2, 5)
    counted = page_of(store, condition=odd, wants_items=False)
    assert (counted.items, counted.count, counted.scanned) == ([], 5, 10)


def test_size_ends_a_page_inside_a_chunk(store: Store) -> None:
    """Item 0 counts a byte or two less than the others, so the mark falls inside the fifth."""
    size = page_of(store, limit=1).size_bytes
    everything = page_of(store).items
    page = page_of(store, limit_bytes=5 * size)
    assert page.size_bytes >= 5 * size
    assert page.items == everything[:5]
    assert page.last_key is not None
    assert page_of(store, reads.after(page.last_key)).items[0] == everything[5]


def test_several_ranges_make_one_page(store: Store) -> None:
    page = page_of(store, limit=12)
    page_of(store, limit=12, into=page)
    assert page.scanned == 12
    assert sort_keys(page)[10:] == ["0", "1"]
    assert page.last_key is not None


def test_snapshot_hides_later_writes(store: Store) -> None:
    with store.database.engine.snapshot() as snapshot:
        store.put(NUMBERS, p=S("p"), s=N(99))
        assert page_of(store, snapshot=snapshot).count == 10
    assert page_of(store).count == 11


def test_fetching_table_items(store: Store) -> None:
    for name in "ab":
        store.put(INDEXED, p=S("p"), s=S(name), k=N(1), big=S("x" * 5000))
    handle: Any = store.database.catalog.get(INDEXED)
    with store.database.engine.snapshot() as snapshot:
        page = reads.read_page(
            handle.indexes["by-k"], None, None, fetch_from=handle, snapshot=snapshot
        )
    assert ["big" in WIRE.decode_item(item) for item in page.items] == [True, True]
    assert len(page.fetched_sizes) == 2
    assert min(page.fetched_sizes) > 5000 > page.size_bytes


def test_get_items_keeps_the_order(store: Store) -> None:
    handle: Any = store.database.catalog.get(NUMBERS)
    keys = [
        handle.keys.encode(WIRE.encode_item({"p": S("p"), "s": N(number)})) for number in (3, 77, 1)
    ]
    found = reads.get_items(handle, keys)
    assert [item and WIRE.decode_item(item)["s"]["N"] for item in found] == ["3", None, "1"]
    assert reads.get_item(handle, keys[1]) is None
