"""enforce_throughput: tables throttle when their token buckets are empty."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.databases import memory_database
from tests.support.store import N, S, Store, index, table

EXCEEDED = "ProvisionedThroughputExceededException"
BURST = 300


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Store:
    """Table "tab": 1 read and 1 write unit a second; its index "by-g" writes 1 a second too."""
    found = Store(memory_database(enforce_throughput=True, clock=clock))
    units = {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}
    request = table(
        "tab",
        "p",
        "p:S g:S",
        GlobalSecondaryIndexes=[{**index("by-g", "g"), "ProvisionedThroughput": units}],
        ProvisionedThroughput=units,
    )
    found("CreateTable", **{**request, "BillingMode": "PROVISIONED"})
    return found


def drain_writes(store: Store) -> None:
    for _ in range(BURST):
        store.put("tab", p=S("x"))


def drain_reads(store: Store) -> None:
    for _ in range(BURST):
        store("GetItem", TableName="tab", Key={"p": S("x")}, ConsistentRead=True)


def test_writes_stop_after_the_burst_and_go_on_with_time(store: Store, clock: Clock) -> None:
    drain_writes(store)
    request = {"TableName": "tab", "Item": {"p": S("x")}}
    error = store.refused("PutItem", EXCEEDED, **request)
    assert error.message.startswith("The level of configured provisioned throughput")
    for operation, more in (
        ("DeleteItem", {"Key": {"p": S("x")}}),
        ("UpdateItem", {"Key": {"p": S("x")}}),
    ):
        store.refused(operation, EXCEEDED, TableName="tab", **more)
    store.refused("ExecuteStatement", EXCEEDED, Statement="DELETE FROM tab WHERE p = 'x'")
    clock.now += 1
    store("PutItem", **request)
    store.refused("PutItem", EXCEEDED, **request)


def test_a_large_write_overdraws(store: Store, clock: Clock) -> None:
    for _ in range(BURST - 1):
        store.put("tab", p=S("x"))
    store.put("tab", p=S("y"), a=S("z" * 10_000))
    clock.now += 5
    store.refused("PutItem", EXCEEDED, TableName="tab", Item={"p": S("x")})
    clock.now += 6
    store.put("tab", p=S("x"))


def test_reads(store: Store, clock: Clock) -> None:
    drain_reads(store)
    store.refused("GetItem", EXCEEDED, TableName="tab", Key={"p": S("x")})
    store.refused("Scan", EXCEEDED, TableName="tab")
    # The index has a bucket of its own.
    assert store("Scan", TableName="tab", IndexName="by-g")["Count"] == 0
    clock.now += 1
    store("Scan", TableName="tab")


def test_a_starved_index_stops_writes(store: Store) -> None:
    for number in range(BURST // 2 + 1):
        store.put("tab", p=S("x"), g=S(str(number % 2)))
    store.refused("PutItem", EXCEEDED, TableName="tab", Item={"p": S("x")})


def test_batches_return_what_they_could_not_do(store: Store, clock: Clock) -> None:
    store("CreateTable", **table("free", "p", "p:S"))
    drain_writes(store)
    puts = [{"PutRequest": {"Item": {"p": S("x")}}}]
    reply = store("BatchWriteItem", RequestItems={"tab": puts, "free": puts})
    assert reply["UnprocessedItems"] == {"tab": puts}
    assert store.get("free", p=S("x")) is not None
    store.refused("BatchWriteItem", EXCEEDED, RequestItems={"tab": puts})
    for _ in range(BURST - 1):
        store("GetItem", TableName="tab", Key={"p": S("x")}, ConsistentRead=True)
    keys = [{"p": S(name)} for name in "xyz"]
    wanted = {"tab": {"Keys": keys, "ConsistentRead": True}}
    reply = store("BatchGetItem", RequestItems=wanted)
    assert reply["UnprocessedKeys"] == {"tab": {"Keys": keys[1:], "ConsistentRead": True}}
    store.refused("BatchGetItem", EXCEEDED, RequestItems=wanted)


def test_transactions_are_cancelled(store: Store) -> None:
    drain_writes(store)
    store("CreateTable", **table("free", "p", "p:S"))
    puts: list[Any] = [
        {"Put": {"TableName": name, "Item": {"p": S("new")}}} for name in ("free", "tab")
    ]
    error = store.refused("TransactWriteItems", "TransactionCanceledException", TransactItems=puts)
    codes = [reason["Code"] for reason in error.response["CancellationReasons"]]
    assert codes == ["None", "ProvisionedThroughputExceeded"]
    drain_reads(store)
    gets = [{"Get": {"TableName": "tab", "Key": {"p": S("x")}}}]
    store.refused("TransactGetItems", "TransactionCanceledException", TransactItems=gets)


def test_on_demand_ceiling(store: Store) -> None:
    store("CreateTable", **table("odd", "p", "p:S", OnDemandThroughput={"MaxWriteRequestUnits": 1}))
    for number in range(BURST):
        store.put("odd", p=S("x"), n=N(number))
    store.refused("PutItem", "ThrottlingException", TableName="odd", Item={"p": S("x")})
    assert store.get("odd", p=S("x")) is not None


def test_off_by_default() -> None:
    store = Store()
    request = table(
        "tab", "p", "p:S", ProvisionedThroughput={"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}
    )
    store("CreateTable", **{**request, "BillingMode": "PROVISIONED"})
    for _ in range(BURST + 10):
        store.put("tab", p=S("x"))
