"""The limit on item collections, made small."""

from __future__ import annotations

from typing import Any

import pytest

from dynalsm.model import item_collections
from tests.support.store import INDEXED, SIMPLE, N, S, Store

CODE = "ItemCollectionSizeLimitExceededException"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, store_alone: Store) -> Store:
    """Collections may hold 10,000 bytes, and every write looks."""
    monkeypatch.setattr(item_collections, "ITEM_COLLECTION_MAX_BYTES", 10_000)
    monkeypatch.setattr(item_collections, "CHECK_EVERY", 1)
    for number in range(10):
        store_alone.put(INDEXED, p=S("full"), s=S(str(number)), a=S("x" * 1000))
    return store_alone


def test_growing_is_refused(small: Store) -> None:
    item = {"p": S("full"), "s": S("new")}
    error = small.refused("PutItem", CODE, TableName=INDEXED, Item=item)
    assert error.message == "Collection size exceeded."
    small.refused(
        "UpdateItem",
        CODE,
        TableName=INDEXED,
        Key={"p": S("full"), "s": S("1")},
        UpdateExpression="SET b = :b",
        ExpressionAttributeValues={":b": N(1)},
    )
    put: list[Any] = [{"PutRequest": {"Item": item}}]
    small.refused("BatchWriteItem", CODE, RequestItems={INDEXED: put})
    error = small.refused(
        "TransactWriteItems",
        "TransactionCanceledException",
        TransactItems=[{"Put": {"TableName": INDEXED, "Item": item}}],
    )
    [reason] = error.response["CancellationReasons"]
    assert reason["Code"] == "ItemCollectionSizeLimitExceeded"
    assert small.get(INDEXED, **item) is None


def test_shrinking_and_other_partitions_go_on(small: Store) -> None:
    small.put(INDEXED, p=S("full"), s=S("1"))
    small("DeleteItem", TableName=INDEXED, Key={"p": S("full"), "s": S("2")})
    small.put(INDEXED, p=S("other"), s=S("1"), a=S("x" * 1000))
    small.put(SIMPLE, p=S("full"), a=S("x" * 20_000))


def test_reported_range_follows_the_size(store_alone: Store, monkeypatch: Any) -> None:
    monkeypatch.setattr("dynalsm.api.replies._GIB", 1000)
    store_alone.put(INDEXED, p=S("p"), s=S("s"), a=S("x" * 2500), l=S("l"))
    reply = store_alone(
        "DeleteItem",
        TableName=INDEXED,
        Key={"p": S("p"), "s": S("none")},
        ReturnItemCollectionMetrics="SIZE",
    )
    low, high = reply["ItemCollectionMetrics"]["SizeEstimateRangeGB"]
    assert (low, high) == (5.0, 6.0)
