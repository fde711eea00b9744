"""Pages: where they end, what they hold, and that they are of one moment."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalsm import errors
from dynalsm.expressions import Placeholders, bind_condition
from dynalsm.expressions.compiled import Judge, compile_program
from dynalsm.expressions.evaluate import compile_condition
from dynalsm.model import reads
from dynalsm.model.keys import TableKeys
from dynalsm.model.pages import _judge_entry
from dynalsm.values import JSON, NATIVE, WIRE, Form, encode_item, encode_value
from tests.expressions.test_compiled import slots, trees
from tests.expressions.test_properties import items
from tests.support.store import INDEXED, NUMBERS, N, S, Store


@pytest.fixture
def store(store_alone: Store) -> Store:
    """Ten items of NUMBERS."""
    for number in range(10):
        store_alone.put(NUMBERS, p=S("p"), s=N(number), m=N(number % 2))
    return store_alone


def page_of(store: Store, lower: bytes | None = None, **more: Any) -> reads.Page:
    handle: Any = store.database.catalog.get(NUMBERS)
    return reads.read_page(handle, lower, None, chunk_items=3, **more)


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


@pytest.mark.parametrize("form", [NATIVE, WIRE, JSON], ids=["native", "wire", "json"])
def test_items_in_every_form(store: Store, form: Form) -> None:
    """What a page decodes is what the form makes of the encoded items."""
    for number in range(20, 25):
        store.put(NUMBERS, p=S("p"), s=N(number), l={"L": [S("x"), {"M": {"a": N(number)}}]})
    encoded = page_of(store, limit=13)
    page = page_of(store, limit=13, form=form.kind)
    expected = list(map(form.decode_item, encoded.items))
    if form is JSON:
        expected, page.items = orjson.loads(orjson.dumps([expected, page.items]))
    assert page.items == expected
    assert (page.scanned, page.size_bytes) == (encoded.scanned, encoded.size_bytes)


def test_conditions_see_key_attributes(store: Store) -> None:
    """They lie in the tree key, not in the stored map."""
    given = {":p": "p", ":low": Decimal(3), ":high": Decimal(5), ":m": Decimal(1)}
    text = "p = :p AND s BETWEEN :low AND :high AND m = :m AND size(p) = :m"
    condition = bind_condition(text, Placeholders(None, given))
    assert condition.judge is not None
    assert sort_keys(page_of(store, condition=condition)) == ["3", "5"]


def test_a_condition_that_is_not_compiled(store: Store) -> None:
    class Odd:
        def evaluate(self, item: Any) -> bool:
            return bool(item["s"] % 2 and item["p"] == "p")

    assert sort_keys(page_of(store, condition=Odd())) == ["1", "3", "5", "7", "9"]


@given(trees, items, slots, st.sampled_from(["x", "p", "ab"]), st.integers(-3, 3).map(Decimal))
def test_conditions_on_entries(
    tree: Any, item: dict[str, Any], given_values: tuple[Any, ...], pk: str, sk: Decimal
) -> None:
    """An entry is judged as its item is, wherever an attribute lies."""
    keys = TableKeys("b", "S", "m", "N")
    item = {**item, "b": pk, "m": sk}
    program = compile_program(tree, len(given_values))
    assert program is not None
    judge = Judge(program, map(encode_value, given_values))
    wanted = compile_condition(tree)(item, given_values)
    assert _judge_entry(keys, judge, *keys.record(encode_item(item))) is wanted


def test_a_limit_of_nothing_and_pages_that_are_full(store: Store) -> None:
    assert page_of(store, limit=0).scanned == 0
    full = page_of(store, limit=10)
    assert page_of(store, limit=10, into=full).scanned == 10
    assert full.last_key is None


@pytest.mark.parametrize("stored", [b"", b"\x02", b"\x01\xff", b"\x01\x01\xa1a", b"\x01\x01\x81"])
def test_damaged_entries(store: Store, stored: bytes) -> None:
    handle: Any = store.database.catalog.get(NUMBERS)
    key = handle.keys.encode(WIRE.encode_item({"p": S("p"), "s": N(4)}))
    handle.tree.put(key, stored)
    with pytest.raises(errors.CorruptionError, match="damaged"):
        page_of(store, form=NATIVE.kind)
    handle.tree.put(b"short", b"\x01\x01\x80")
    with pytest.raises(errors.CorruptionError, match="damaged"):
        page_of(store, wants_items=False)
