"""The write pipeline: what is written, what is waited for, and many threads at once."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dynalsm.database import Database, open_path
from dynalsm.model import indexes
from dynalsm.model.settings import Settings
from dynalsm.model.writes import Delete, Put, StaleHandle
from dynalsm.values import WIRE
from tests.support.memory_engine import MemoryEngine
from tests.support.store import INDEXED, SIMPLE, N, S, Store, index, table


class LaggingEngine(MemoryEngine):
    """A memory engine whose disk never keeps up; notes what is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[int] = []

    @property
    def durable_seqno(self) -> int:
        return max(self.waited, default=0)

    def wait_durable(self, seqno: int) -> None:
        self.waited.append(seqno)


@pytest.fixture
def lagging() -> Store:
    return Store(Database(LaggingEngine(), Settings()))  # type: ignore[arg-type]


def test_equal_put_writes_nothing(store_alone: Store) -> None:
    store = store_alone
    item = {"p": S("x"), "s": S("y"), "l": S("l"), "m": {"M": {"a": N(1), "b": N(2)}}}
    store.put(INDEXED, **item)
    before = store.database.engine.last_seqno
    store.put(INDEXED, **{**item, "m": {"M": {"b": N("2.0"), "a": N(1)}}})
    store("DeleteItem", TableName=INDEXED, Key={"p": S("x"), "s": S("nothing")})
    store(
        "UpdateItem",
        TableName=INDEXED,
        Key={"p": S("x"), "s": S("y")},
        UpdateExpression="SET l = :l REMOVE zz",
        ExpressionAttributeValues={":l": S("l")},
    )
    assert store.database.engine.last_seqno == before


def test_only_changed_index_entries_are_written(store_alone: Store) -> None:
    """One entry for the item, and for each index one or two, or none."""
    store, engine = store_alone, store_alone.database.engine

    def entries(**attributes: Any) -> int:
        before = engine.last_seqno
        store.put(INDEXED, p=S("x"), s=S("y"), **attributes)
        return int(engine.last_seqno - before)

    assert entries() == 1
    assert entries(l=S("a"), g=S("b")) == 1 + 1 + 1
    assert entries(l=S("b"), g=S("b")) == 1 + 2 + 1
    assert entries(l=S("b"), g=S("b"), h=N(1), k=N(1)) == 1 + 1 + 1 + 1 + 1
    # KEYS_ONLY and INCLUDE entries stay as they are.
    assert entries(l=S("b"), g=S("b"), h=N(1), k=N(1), z=N(1)) == 1 + 1 + 1
    assert entries() == 1 + 4


def test_writes_wait_for_the_disk(lagging: Store) -> None:
    engine = lagging.database.engine
    lagging.put(SIMPLE, p=S("x"))
    assert engine.waited[-1] == engine.last_seqno
    seen = len(engine.waited)
    # The answer of these rests on the commit above.
    lagging.put(SIMPLE, p=S("x"))
    lagging.refused(
        "PutItem",
        "ConditionalCheckFailedException",
        TableName=SIMPLE,
        Item={"p": S("x")},
        ConditionExpression="attribute_not_exists(p)",
    )
    assert engine.waited[seen:] == [engine.last_seqno] * 2


def test_consistent_reads_do_not_wait_for_others(lagging: Store) -> None:
    """What nobody has written since the database was opened has nothing to be waited for."""
    database = lagging.database
    handle = database.catalog.get(SIMPLE)
    assert handle is not None
    lagging.put(SIMPLE, p=S("x"))
    assert database.engine.last_seqno > 0
    assert database.writes.seqno_near(handle.keys.encode(WIRE.encode_item({"p": S("y")}))) == 0


def test_a_commit_under_way_is_waited_for(store_alone: Store) -> None:
    """Whoever asks between a commit and its note is told a number that covers it."""
    database = store_alone.database
    handle = database.catalog.get(SIMPLE)
    assert handle is not None
    key = handle.keys.encode(WIRE.encode_item({"p": S("x")}))
    other = handle.keys.encode(WIRE.encode_item({"p": S("y")}))
    for p in ("x", "y"):
        store_alone.put(SIMPLE, p=S(p))
    engine = database.engine
    commit, seen = engine.commit, []

    def watched(batch: Any) -> int:
        seqno = commit(batch)
        seen.append((seqno, database.writes.seqno_near(key), database.writes.seqno_near(other)))
        return int(seqno)

    engine.commit = watched  # type: ignore[method-assign]
    store_alone.put(SIMPLE, p=S("x"), a=N(1))
    ((seqno, near, elsewhere),) = seen
    assert near >= seqno
    assert elsewhere < seqno


def test_consistent_reads_wait_for_what_they_saw(lagging: Store) -> None:
    """An eventually consistent read does not wait; nor do reads of what is durable."""
    database = lagging.database
    handle = database.catalog.get(SIMPLE)
    assert handle is not None
    engine = database.engine
    item = WIRE.encode_item({"p": S("x")})
    write = Put(handle, handle.keys.encode(item), item)
    seqno = database.writes.run(write)
    engine.waited.clear()
    key = {"p": S("x")}
    lagging("GetItem", TableName=SIMPLE, Key=key)
    lagging.query(SIMPLE, S("x"))
    assert engine.waited == []
    lagging("GetItem", TableName=SIMPLE, Key=key, ConsistentRead=True)
    assert engine.waited == [seqno]
    lagging("GetItem", TableName=SIMPLE, Key=key, ConsistentRead=True)
    assert engine.waited == [seqno]
    for request in (
        {"operation": "Query", "KeyConditions": condition(S("x"))},
        {"operation": "Scan"},
    ):
        engine.waited.clear()
        lagging(request.pop("operation"), TableName=SIMPLE, ConsistentRead=True, **request)
        assert engine.waited == [seqno]
    engine.waited.clear()
    keys = {SIMPLE: {"Keys": [key], "ConsistentRead": True}}
    lagging("BatchGetItem", RequestItems=keys)
    assert engine.waited == [seqno]
    engine.waited.clear()
    lagging("TransactGetItems", TransactItems=[{"Get": {"TableName": SIMPLE, "Key": key}}])
    assert engine.waited == [seqno]


def condition(value: Any) -> dict[str, Any]:
    return {"p": {"AttributeValueList": [value], "ComparisonOperator": "EQ"}}


def test_stale_handle_is_refused(store_alone: Store) -> None:
    database = store_alone.database
    old = database.catalog.get(SIMPLE)
    assert old is not None
    database.catalog.replace(old.schema)
    key = old.keys.encode(WIRE.encode_item({"p": S("x")}))
    with pytest.raises(StaleHandle):
        database.writes.run(Delete(old, key))
    with pytest.raises(StaleHandle):
        database.writes.run_all([Delete(old, key)])


def test_failed_commit_changes_nothing(store_alone: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The locks are free afterwards, and the counters as before."""
    database = store_alone.database
    store_alone.put(SIMPLE, p=S("x"))

    def fail(batch: Any) -> int:
        raise OSError("disk on fire")

    with monkeypatch.context() as patch:
        patch.setattr(database.engine, "commit", fail)
        for operation, request in (
            ("PutItem", {"TableName": SIMPLE, "Item": {"p": S("x"), "a": N(1)}}),
            ("BatchWriteItem", {"RequestItems": {SIMPLE: [delete_request("x")]}}),
        ):
            with pytest.raises(OSError, match="disk on fire"):
                store_alone(operation, **request)
    handle = database.catalog.get(SIMPLE)
    assert handle is not None
    assert handle.statistics.items == 1
    assert store_alone.get(SIMPLE, p=S("x")) == {"p": S("x")}
    store_alone("DeleteItem", TableName=SIMPLE, Key={"p": S("x")})
    assert handle.statistics.items == 0


def delete_request(p: str) -> dict[str, Any]:
    return {"DeleteRequest": {"Key": {"p": S(p)}}}


# Many threads, on the real engine.


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Store]:
    store = Store(open_path(tmp_path / "db", durability="os"))
    yield store
    store.database.close()


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run work(0..count-1) at the same time; raise what any of them raised."""
    problems: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for problem in problems:
        raise problem


def test_counters_lose_no_increment(real: Store) -> None:
    """Every increment moves the item in an index as well."""
    rounds, threads = 200, 4

    def work(number: int) -> None:
        for turn in range(rounds):
            real(
                "UpdateItem",
                TableName=INDEXED,
                Key={"p": S("x"), "s": S(str(turn % 3))},
                UpdateExpression="ADD k :one",
                ExpressionAttributeValues={":one": N(1)},
            )

    in_threads(threads, work)
    items = real.query(INDEXED, S("x"))["Items"]
    assert sum(int(item["k"]["N"]) for item in items) == rounds * threads
    entries = real.query(INDEXED, S("x"), IndexName="by-k")["Items"]
    assert sorted(item["s"]["S"] for item in entries) == ["0", "1", "2"]


def test_transfers_keep_the_sum(real: Store) -> None:
    """Transactions move money while others read all accounts at one moment."""
    accounts = [{"p": S(f"account {number}")} for number in range(5)]
    for account in accounts:
        real.put(SIMPLE, **account, n=N(100))
    ready = threading.Barrier(4)

    def move(number: int) -> None:
        chance = random.Random(number)
        ready.wait()
        for _ in range(100):
            source, target = chance.sample(accounts, 2)
            real("TransactWriteItems", TransactItems=[add(source, -1), add(target, 1)])

    def watch(number: int) -> None:
        gets = [{"Get": {"TableName": SIMPLE, "Key": account}} for account in accounts]
        ready.wait()
        for _ in range(100):
            found = real("TransactGetItems", TransactItems=gets)["Responses"]
            assert sum(int(reply["Item"]["n"]["N"]) for reply in found) == 500

    in_threads(4, lambda number: watch(number) if number == 3 else move(number))


def add(key: Any, amount: int) -> dict[str, Any]:
    return {
        "Update": {
            "TableName": SIMPLE,
            "Key": key,
            "UpdateExpression": "ADD n :n",
            "ExpressionAttributeValues": {":n": N(amount)},
        }
    }


def test_one_of_many_conditional_puts_wins(real: Store) -> None:
    winners: list[int] = []

    def work(number: int) -> None:
        for turn in range(100):
            try:
                real(
                    "PutItem",
                    TableName=SIMPLE,
                    Item={"p": S(f"race {turn}"), "n": N(number)},
                    ConditionExpression="attribute_not_exists(p)",
                )
            except real.database.client.exceptions.ConditionalCheckFailedException:
                continue
            winners.append(turn)

    in_threads(4, work)
    assert sorted(winners) == list(range(100))


def test_index_built_beside_writes_is_complete(real: Store) -> None:
    """UpdateTable adds an index while items change, come and go; counters are exact."""
    real("CreateTable", **table("grown", "p", "p:S"))
    for number in range(600):
        real.put("grown", p=S(str(number)), x=S(f"x{number % 7}"))
    stop = threading.Event()

    def change(number: int) -> None:
        chance = random.Random(number)
        while not stop.is_set():
            p = S(str(chance.randrange(700)))
            if chance.random() < 0.2:
                real("DeleteItem", TableName="grown", Key={"p": p})
            else:
                real.put("grown", p=p, x=S(f"x{chance.randrange(7)}"), y=N(chance.randrange(3)))

    def build(number: int) -> None:
        try:
            real(
                "UpdateTable",
                TableName="grown",
                AttributeDefinitions=[{"AttributeName": "x", "AttributeType": "S"}],
                GlobalSecondaryIndexUpdates=[{"Create": index("by-x", "x")}],
            )
            real.database.client.get_waiter("table_exists").wait(TableName="grown")
            while not real.database.catalog.get("grown").indexes["by-x"].is_readable:
                stop.wait(0.01)
        finally:
            stop.set()

    in_threads(3, lambda number: build(number) if number == 2 else change(number))
    handle = real.database.catalog.get("grown")
    assert handle is not None
    by_x = handle.indexes["by-x"]
    expected = {}
    for key, stored in handle.tree.cursor():
        entry = indexes.entry_or_none(by_x, handle.keys.join(key, stored))
        assert entry is not None
        expected[entry[0]] = entry[1]
    found = dict(by_x.tree.cursor())
    assert found == expected
    assert by_x.statistics.items == len(found)
    assert by_x.statistics.bytes == sum(map(by_x.keys.stored_size, found.values()))
