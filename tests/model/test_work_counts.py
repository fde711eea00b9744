"""How much work an operation is: waits for the disk, bytes, file reads, Python calls, memory.

No clock is looked at, so these hold on any machine; what gets slower for a reason of ours does more
of something here. The bounds are what was counted when they were set, with some room for bytes.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import dynalsm
from dynalsm._core import seam
from dynalsm.values import NATIVE, WIRE

KEY = [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]
TYPES = [
    {"AttributeName": "pk", "AttributeType": "S"},
    {"AttributeName": "sk", "AttributeType": "N"},
]
INDEXES = ("email", "age")
REPEATS = 10
# What is written ahead of a log, and its first lines, are not of the operations.
WARM_UP = 3


class Work(NamedTuple):
    """What one operation costs."""

    syncs: float
    bytes: float  # to the log
    reads: float  # of files
    calls: float  # of Python functions
    peak: float  # bytes of Python objects alive at once


def item_of(number: int, **more: Any) -> dict[str, Any]:
    """About 350 bytes encoded."""
    return {
        "pk": f"user#{number // 20:06d}",
        "sk": number % 20,
        "name": f"Person {number} of the city",
        "email": f"u{number}@example.com",
        "age": number % 90,
        "score": Decimal("12.75"),
        "tags": {"red", "green", f"t{number % 7}"},
        "address": {"street": f"Main Street {number % 100}", "city": "Springfield", "zip": 12345},
        "visits": [1, 2, 3, "x"],
        "active": True,
        "bio": "lorem ipsum dolor sit amet " * 4,
        **more,
    }


def wire(item: dict[str, Any]) -> Any:
    return WIRE.decode_item(NATIVE.encode_item(item))


def create(db: dynalsm.Database, name: str, indexes: tuple[str, ...] = ()) -> Any:
    more: dict[str, Any] = {}
    if indexes:
        more["GlobalSecondaryIndexes"] = [
            {
                "IndexName": index,
                "KeySchema": [{"AttributeName": index, "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "ALL"},
            }
            for index in indexes
        ]
        more["StreamSpecification"] = {
            "StreamEnabled": True,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        }
    kinds = {"email": "S", "age": "N"}
    types = [{"AttributeName": index, "AttributeType": kinds[index]} for index in indexes]
    return db.create_table(
        TableName=name,
        KeySchema=KEY,
        AttributeDefinitions=TYPES + types,
        BillingMode="PAY_PER_REQUEST",
        **more,
    )


@pytest.fixture
def db(tmp_path: Path) -> Iterator[dynalsm.Database]:
    """Every write waits for the disk."""
    with dynalsm.open(str(tmp_path / "db"), durability="commit") as database:
        yield database
    seam.stop_recording()


def work_of(requests: Sequence[Callable[..., Any]]) -> Work:
    """Run requests that are alike; each kind of work is counted on some of them."""
    assert len(requests) >= WARM_UP + 3 * REPEATS
    waiting = iter(requests)
    for _ in range(WARM_UP):
        next(waiting)()
    seam.start_recording()
    before = seam.operation_count("read")
    for _ in range(REPEATS):
        next(waiting)()
    reads = seam.operation_count("read") - before
    entries = seam.stop_recording()
    return Work(
        syncs=sum(entry[0] == "sync" for entry in entries) / REPEATS,
        bytes=sum(written(entry) for entry in entries) / REPEATS,
        reads=reads / REPEATS,
        calls=calls_of([next(waiting) for _ in range(REPEATS)]),
        peak=peak_of([next(waiting) for _ in range(REPEATS)]),
    )


def written(entry: tuple[Any, ...]) -> int:
    """Bytes of a recorded write; zeros are room for later."""
    kind, _, _, _, data = entry
    return len(data) if kind in ("write", "map_write") and any(data) else 0


def calls_of(requests: Sequence[Callable[..., Any]]) -> float:
    """Calls of Python functions per request; that of the request itself is left out."""
    count = 0

    def note(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        for request in requests:
            request()
    finally:
        sys.setprofile(before)
    return count / len(requests) - 1


def peak_of(requests: Sequence[Callable[..., Any]]) -> float:
    """The most memory that a request held in Python objects, above what was there before it."""
    peaks = []
    tracemalloc.start()
    try:
        for request in requests:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            request()
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    return sorted(peaks)[len(peaks) // 2]


def assert_work(found: Work, syncs: float, bytes_: float, calls: float, peak: float) -> None:
    """Waits and file reads exactly, the others at most."""
    assert found.syncs == syncs
    assert found.reads == 0
    # Not much less either: then something is not written, or not counted.
    assert bytes_ * 0.7 <= found.bytes <= bytes_
    assert found.calls <= calls
    assert found.peak <= peak


COUNT = WARM_UP + 3 * REPEATS


def test_put_item(db: dynalsm.Database) -> None:
    table = create(db, "Plain")
    items = [item_of(number) for number in range(COUNT)]
    found = work_of([lambda item=item: table.put_item(Item=item) for item in items])
    assert_work(found, syncs=1, bytes_=400, calls=8, peak=2500)


def test_put_of_an_equal_item(db: dynalsm.Database) -> None:
    """Nothing is written, and what is there is durable already."""
    table = create(db, "Plain")
    table.put_item(Item=item_of(1))
    item = item_of(1)
    found = work_of([lambda: table.put_item(Item=item)] * COUNT)
    assert_work(found, syncs=0, bytes_=0, calls=8, peak=2500)


def test_put_item_with_indexes_and_a_stream(db: dynalsm.Database) -> None:
    """One record in the log: the item, an entry for each index, and the images of the change."""
    table = create(db, "Indexed", INDEXES)
    items = [item_of(number) for number in range(COUNT)]
    found = work_of([lambda item=item: table.put_item(Item=item) for item in items])
    assert_work(found, syncs=1, bytes_=1500, calls=8, peak=5000)
    again = [item_of(number, age=100) for number in range(COUNT)]
    found = work_of([lambda item=item: table.put_item(Item=item) for item in again])
    assert_work(found, syncs=1, bytes_=1850, calls=8, peak=8000)


def test_update_item(db: dynalsm.Database) -> None:
    table = create(db, "Plain")
    for number in range(COUNT):
        table.put_item(Item=item_of(number))
    ask = {
        "UpdateExpression": "SET age = age + :one, score = :score",
        "ConditionExpression": "active = :yes AND age < :limit",
        "ExpressionAttributeValues": {":one": 1, ":score": 7, ":yes": True, ":limit": 1000},
    }
    keys = [{"pk": f"user#{number // 20:06d}", "sk": number % 20} for number in range(COUNT)]
    found = work_of([lambda key=key: table.update_item(Key=key, **ask) for key in keys])
    assert_work(found, syncs=1, bytes_=400, calls=10, peak=3000)


def test_batch_write_item(db: dynalsm.Database) -> None:
    """25 items share one wait and one record in the log."""
    create(db, "Plain")
    batches = [
        [
            {"PutRequest": {"Item": wire(item_of(number))}}
            for number in range(start * 25, start * 25 + 25)
        ]
        for start in range(COUNT)
    ]
    call = db.client.batch_write_item
    found = work_of([lambda batch=batch: call(RequestItems={"Plain": batch}) for batch in batches])
    assert_work(found, syncs=1, bytes_=25 * 360, calls=11, peak=40_000)


def test_transact_write_items(db: dynalsm.Database) -> None:
    create(db, "Plain")
    groups = [
        [
            {"Put": {"TableName": "Plain", "Item": wire(item_of(number))}}
            for number in range(start * 4, start * 4 + 4)
        ]
        for start in range(COUNT)
    ]
    call = db.client.transact_write_items
    found = work_of([lambda group=group: call(TransactItems=group) for group in groups])
    assert_work(found, syncs=1, bytes_=4 * 370, calls=16, peak=12_000)


def test_get_item(db: dynalsm.Database) -> None:
    """Neither of a memtable nor of a block that was read before is a file looked at."""
    table = create(db, "Plain")
    for number in range(200):
        table.put_item(Item=item_of(number))
    keys = [{"pk": f"user#{number // 20:06d}", "sk": number % 20} for number in range(COUNT)]
    requests: list[Callable[..., Any]] = [lambda key=key: table.get_item(Key=key) for key in keys]
    assert_work(work_of(requests), syncs=0, bytes_=0, calls=6, peak=6000)
    db.engine.flush()
    for request in requests:
        request()
    assert_work(work_of(requests), syncs=0, bytes_=0, calls=6, peak=6000)


def test_get_item_from_disk(tmp_path: Path) -> None:
    """One block for an item that was never read, none for one that is not there."""
    path = str(tmp_path / "db")
    with dynalsm.open(path, durability="os") as db:
        table = create(db, "Plain")
        for number in range(2000):
            table.put_item(Item=item_of(number, bio=f"{number}" * 200))
        db.engine.flush()
        db.engine.compact()
    with dynalsm.open(path, durability="os") as db:
        table = db.Table("Plain")
        for number in range(20):  # opens every table
            table.get_item(Key={"pk": f"user#{5 * number + 1:06d}", "sk": 3})
        seam.start_recording()
        before = seam.operation_count("read")
        for number in range(20):
            assert "Item" in table.get_item(Key={"pk": f"user#{5 * number:06d}", "sk": 3})
        found = seam.operation_count("read") - before
        for number in range(20):
            assert "Item" not in table.get_item(Key={"pk": f"nobody#{number}", "sk": 3})
        missing = seam.operation_count("read") - before - found
        seam.stop_recording()
    assert 10 <= found <= 20
    assert missing <= 1  # a filter errs in one of a hundred


def test_nothing_is_kept(db: dynalsm.Database) -> None:
    """What an operation allocates it gives back: memory does not grow with the requests."""
    plain, indexed = create(db, "Plain"), create(db, "Indexed", INDEXES)
    ask = {"UpdateExpression": "ADD age :one", "ExpressionAttributeValues": {":one": 1}}
    items = [item_of(number) for number in range(25)]
    wired = [wire(item) for item in items]
    requests: list[Callable[[], Any]] = [
        lambda: plain.put_item(Item=items[0]),
        lambda: indexed.put_item(Item=items[0]),
        lambda: plain.update_item(Key={"pk": "user#000000", "sk": 0}, **ask),
        lambda: plain.delete_item(Key={"pk": "user#000000", "sk": 0}),
        lambda: plain.put_item(Item=items[0], ReturnValues="ALL_OLD"),
        lambda: db.client.batch_write_item(
            RequestItems={"Plain": [{"PutRequest": {"Item": item}} for item in wired]}
        ),
        lambda: db.client.transact_write_items(
            TransactItems=[{"Put": {"TableName": "Plain", "Item": item}} for item in wired[:4]],
            ReturnConsumedCapacity="TOTAL",
        ),
    ]
    for request in requests:
        for _ in range(20):
            request()
        growth = []
        for _ in range(3):  # threads in the background allocate too, but not every time
            gc.collect()
            before = sys.getallocatedblocks()
            for _ in range(50):
                request()
            gc.collect()
            growth.append(sys.getallocatedblocks() - before)
        assert min(growth) < 50
