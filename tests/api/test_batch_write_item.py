"""BatchWriteItem: validation is all or nothing, then everything is written."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.store import INDEXED, NUMBERS, PAIRS, SIMPLE, N, S, Store

MISMATCH = "The provided key element does not match the schema"


def put(**item: Any) -> dict[str, Any]:
    return {"PutRequest": {"Item": item}}


def delete(**key: Any) -> dict[str, Any]:
    return {"DeleteRequest": {"Key": key}}


def refused(store: Store, **tables: Any) -> str:
    return store.refused("BatchWriteItem", RequestItems=tables).message


def test_nothing_requested(store: Store) -> None:
    assert "equestItems" in refused(store)


def test_too_many_requests(store: Store) -> None:
    requests = [put(p=S(str(number))) for number in range(26)]
    assert "Member must have length less than or equal to 25" in refused(store, simple=requests)
    pairs = [put(p=S(str(number)), s=S("x")) for number in range(13)]
    text = refused(store, simple=requests[:13], pairs=pairs)
    assert text == "Too many items requested for the BatchWriteItem call"


@pytest.mark.parametrize("request_", [{}, {**put(p=S("x")), **delete(p=S("x"))}])
def test_exactly_one_request(store: Store, request_: Any) -> None:
    assert "more than one datatypes set" in refused(store, simple=[request_])


def test_unknown_table(store: Store) -> None:
    store.refused(
        "BatchWriteItem",
        "ResourceNotFoundException",
        RequestItems={SIMPLE: [put(p=S("x"))], "nix": [put(p=S("x"))]},
    )


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (put(p=N(3)), MISMATCH),
        (put(x=S("whatever")), MISMATCH),
        (delete(p=S("x"), s=S("y")), MISMATCH),
        (put(p=S("")), "cannot contain an empty string value. Key: p"),
        (put(p=S("x"), n=N("1x")), "The parameter cannot be converted to a numeric value: 1x"),
        (put(p=S("x"), a=S("y" * 409_600)), "Item size has exceeded the maximum allowed size"),
    ],
)
def test_one_bad_request_rejects_all(store: Store, bad: Any, text: str) -> None:
    p = store.key()
    assert refused(store, simple=[put(p=p), bad]).endswith(text)
    assert store.get(SIMPLE, p=p) is None


def test_bad_index_key_rejects_all(store: Store) -> None:
    p = store.key()
    text = refused(store, indexed=[put(p=p, s=S("a")), put(p=p, s=S("b"), g=N(1))])
    assert "Type mismatch for Index Key g Expected: S Actual: N IndexName: by-g" in text
    text = refused(store, indexed=[put(p=p, s=S("a")), put(p=p, s=S("b"), l=S(""))])
    assert text.endswith("IndexName: by-l, IndexKey: l")
    assert store.get(INDEXED, p=p, s=S("a")) is None


@pytest.mark.parametrize(
    "requests",
    [
        [put(p=S("d"), s=N(1000)), put(p=S("d"), s=N("1e3"), a=N(1))],
        [delete(p=S("d"), s=N(1)), delete(p=S("d"), s=N("1.0"))],
        [put(p=S("d"), s=N(1)), delete(p=S("d"), s=N(1))],
    ],
)
def test_duplicates(store: Store, requests: Any) -> None:
    text = refused(store, numbers=requests)
    assert text == "Provided list of item keys contains duplicates"


def test_same_key_in_two_tables_is_no_duplicate(store: Store) -> None:
    p = store.key()
    reply = store(
        "BatchWriteItem",
        RequestItems={SIMPLE: [put(p=p)], PAIRS: [put(p=p, s=S("a")), put(p=p, s=S("b"))]},
    )
    assert reply == {"UnprocessedItems": {}}
    assert store.query(PAIRS, p)["Count"] == 2


def test_puts_replace_and_deletes_remove(store: Store) -> None:
    p, q = store.key(), store.key()
    store.put(SIMPLE, p=p, a=N(1))
    store.put(SIMPLE, p=q, a=N(1))
    reply = store(
        "BatchWriteItem",
        RequestItems={SIMPLE: [put(p=p, b=N(2)), delete(p=q), delete(p=store.key())]},
        ReturnConsumedCapacity="TOTAL",
        ReturnItemCollectionMetrics="SIZE",
    )
    assert store.get(SIMPLE, p=p) == {"p": p, "b": N(2)}
    assert store.get(SIMPLE, p=q) is None
    assert reply == {
        "UnprocessedItems": {},
        "ConsumedCapacity": [{"TableName": SIMPLE, "CapacityUnits": 3.0}],
    }


def test_units_count_old_images_and_indexes(store: Store) -> None:
    p = store.key()
    store.put(INDEXED, p=p, s=S("a"), a=S("x" * 2000), l=S("l"))
    reply = store(
        "BatchWriteItem",
        RequestItems={INDEXED: [put(p=p, s=S("a")), put(p=p, s=S("b"), g=p)]},
        ReturnConsumedCapacity="INDEXES",
        ReturnItemCollectionMetrics="SIZE",
    )
    [capacity] = reply["ConsumedCapacity"]
    assert capacity["Table"] == {"CapacityUnits": 3.0}
    assert capacity["LocalSecondaryIndexes"] == {"by-l": {"CapacityUnits": 2.0}}
    assert capacity["GlobalSecondaryIndexes"] == {"by-g": {"CapacityUnits": 1.0}}
    assert reply["ItemCollectionMetrics"] == {
        INDEXED: [{"ItemCollectionKey": {"p": p}, "SizeEstimateRangeGB": [0.0, 1.0]}]
    }


def test_whole_batch_is_one_commit(store: Store) -> None:
    """One commit, so the engine's sequence number moves once by the number of entries."""
    p = store.key()
    engine = store.database.engine
    before = engine.last_seqno
    store("BatchWriteItem", RequestItems={NUMBERS: [put(p=p, s=N(n)) for n in range(25)]})
    assert engine.last_seqno == before + 25
