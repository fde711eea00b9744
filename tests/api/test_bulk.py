"""Bulk put operations through dispatch."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dynalsm import errors
from dynalsm.database import Database
from dynalsm.model import bulk, item_collections, jobs
from dynalsm.model.backup_file import Stopped
from tests.api.test_backups import REGION, Clock, open_database, scan
from tests.support.store import N, S, index, table

MUSIC = f"{REGION}:table/Music"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "buckets" / "bulk" / "in").mkdir(parents=True)
    return tmp_path / "buckets"


@pytest.fixture
def db(tmp_path: Path, root: Path, clock: Clock) -> Iterator[Database]:
    with open_database(str(tmp_path / "db"), clock, bucket_root=str(root)) as database:
        request = table(
            "Music",
            "p s",
            "p:S s:N g:S l:S",
            LocalSecondaryIndexes=[index("by-l", "p", "l")],
            GlobalSecondaryIndexes=[index("by-g", "g")],
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
        )
        database.call("CreateTable", request)
        yield database


def write(root: Path, name: str, records: list[Any]) -> None:
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (root / "bulk" / "in" / name).write_text(lines)


def record(number: int, **more: Any) -> dict[str, Any]:
    condition = more.pop("condition", None)
    made = {"Item": {"p": S(f"p{number % 3}"), "s": N(number), **more}}
    return {**made, **condition} if condition else made


def request(**more: Any) -> dict[str, Any]:
    return {
        "TableName": "Music",
        "InputS3Configuration": {
            "S3Bucket": "bulk",
            "S3KeyPrefix": "in/",
            "InputFormat": "DYNAMODB_JSON",
        },
        "OutputS3Configuration": {
            "S3Bucket": "bulk",
            "S3KeyPrefix": "out",
            "OutputType": ["ERROR", "CONDITION_CHECK_FAILURE"],
        },
        **more,
    }


def start(db: Database, **more: Any) -> dict[str, Any]:
    """Run a bulk put and return the finished description."""
    reply = db.call("StartBulkPutItems", request(**more))["BulkOperationDescription"]
    return describe(db, reply["BulkOperationArn"])


def describe(db: Database, arn: str) -> dict[str, Any]:
    described: dict[str, Any] = db.call("DescribeBulkOperation", {"BulkOperationArn": arn})
    return described["BulkOperationDescription"]


def refused(db: Database, operation: str, code: str = "ValidationException", **call: Any) -> str:
    with pytest.raises(errors.API_ERRORS[code]) as caught:
        db.call(operation, call)
    return caught.value.message


def report(root: Path, described: dict[str, Any], folder: str) -> list[dict[str, Any]]:
    operation = described["BulkOperationArn"].rpartition("/")[2]
    (file,) = (root / "bulk" / "out" / "AWSDynamoDB" / operation / folder).iterdir()
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


def test_items_are_put_with_all_that_follows(db: Database, root: Path, clock: Clock) -> None:
    db.call("PutItem", {"TableName": "Music", "Item": {**record(1)["Item"], "old": S("x")}})
    write(root, "a", [record(number, g=S("g"), l=S("l")) for number in range(250)])
    write(root, "b", [record(250), record(1, g=S("again"))])
    described = start(db)
    operation = described["BulkOperationArn"].rpartition("/")[2]
    size = (root / "bulk" / "in" / "a").stat().st_size + (root / "bulk" / "in" / "b").stat().st_size
    handle = db.catalog.get("Music")
    usage = described.pop("BulkOperationUsage")
    assert described == {
        "BulkOperationArn": f"{MUSIC}/bulk-operation/{operation}",
        "BulkOperationStatus": "COMPLETED",
        "TableDetails": [{"TableName": "Music", "TableId": handle.schema.id}],
        "ClientToken": described["ClientToken"],
        "InputS3Configuration": request()["InputS3Configuration"],
        "OutputS3Configuration": request()["OutputS3Configuration"],
        "StartTime": clock.now,
        "EndTime": clock.now,
        "ProcessedItemCount": 252,
        "ProcessedInputBytes": size,
        "TotalInputBytes": size,
        "FailedItemCount": 0,
        "PerformanceTier": "STANDARD",
    }
    found = scan(db, "Music")
    assert len(found) == 251
    assert found[1] == {"p": S("p1"), "s": N(1), "g": S("again")}
    assert len(scan(db, "Music", IndexName="by-g")) == 250
    assert len(scan(db, "Music", IndexName="by-l")) == 249
    # One change for each item that is new or different, the second of item 1 included.
    log = handle.changelog
    assert log is not None
    assert len(list(log.tree.cursor())) == 1 + 250 + 2
    assert usage[0]["Table"]["BulkPutBytes"] > 250 * 5
    assert set(usage[0]["GlobalSecondaryIndexes"]) == {"by-g"}
    assert usage[0]["BulkPutBytes"] > usage[0]["Table"]["BulkPutBytes"]
    manifest = root / "bulk" / "out" / "AWSDynamoDB" / operation / "manifest-summary.json"
    assert json.loads(manifest.read_text()) == {
        "bulkOperationArn": described["BulkOperationArn"],
        "processedItemCount": 252,
        "failedItemCount": 0,
        "outputFiles": {},
    }
    assert list(db.catalog.records(bulk.PROGRESS)) == []


def test_conditions_decide_item_by_item(db: Database, root: Path) -> None:
    new = {"ConditionExpression": "attribute_not_exists(p)"}
    older = {
        "ConditionExpression": "#v < :v",
        "ExpressionAttributeNames": {"#v": "version"},
        "ExpressionAttributeValues": {":v": N(5)},
    }
    db.call("PutItem", {"TableName": "Music", "Item": record(1, version=N(9))["Item"]})
    db.call("PutItem", {"TableName": "Music", "Item": record(2, version=N(1))["Item"]})
    records = [
        record(0, condition=new),
        record(0, condition=new, again=S("x")),  # the one before it is there by now
        record(1, condition=older, version=N(5)),
        record(2, condition=older, version=N(5)),
    ]
    write(root, "a", records)
    described = start(db)
    # Conditions that do not hold are no errors.
    assert described["BulkOperationStatus"] == "COMPLETED"
    assert (described["ProcessedItemCount"], described["FailedItemCount"]) == (4, 0)
    found = scan(db, "Music")
    assert found[0] == record(0)["Item"]
    assert [item["version"] for item in found[1:]] == [N(9), N(5)]
    first, second = report(root, described, "condition-check-failures")
    assert first["itemS3Pointer"] == {"bucket": "bulk", "key": "in/a", "itemIndex": 1}
    assert first["Item"]["again"] == S("x")
    assert second["ExistingItem"]["version"] == N(9)


def test_what_cannot_be_put_is_reported(db: Database, root: Path) -> None:
    bad = {"ConditionExpression": "p ="}
    records = [
        record(0),
        {"Item": {"p": S("x")}},
        record(1, g=N(1)),
        {"Item": {"p": S("x"), "s": {"N": "one"}}},
        record(2, condition=bad),
        {"Nothing": 1},
        record(3),
    ]
    write(root, "a", records)
    (root / "bulk" / "in" / "b").write_bytes(b'{"Item":{"p":{"S":"z"},"s":{"N":"4"}}}\n\xff\n')
    described = start(db)
    assert described["BulkOperationStatus"] == "COMPLETED_WITH_ERRORS"
    assert (described["ProcessedItemCount"], described["FailedItemCount"]) == (9, 6)
    assert [int(item["s"]["N"]) for item in scan(db, "Music")] == [0, 3, 4]
    lines = report(root, described, "errors")
    assert [line["itemS3Pointer"]["itemIndex"] for line in lines] == [1, 2, 3, 4, 5, 1]
    assert "Missing the key s in the item" in lines[0]["errorMessages"][0]
    assert "Invalid ConditionExpression" in lines[3]["errorMessages"][0]


def test_reports_that_were_not_asked_for(db: Database, root: Path) -> None:
    write(root, "a", [{"Nothing": 1}])
    output = {"S3Bucket": "bulk", "OutputType": ["CONDITION_CHECK_FAILURE"]}
    described = start(db, OutputS3Configuration=output)
    assert described["FailedItemCount"] == 1
    assert [file.name for file in (root / "bulk" / "AWSDynamoDB").glob("*/*")] == [
        "manifest-summary.json"
    ]


def test_a_full_item_collection_refuses_its_items_only(
    db: Database, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = item_collections.Collections.check

    def check(self: Any, handle: Any, key: bytes) -> None:
        if b"p1" in key:
            raise item_collections.CollectionTooLarge
        real(self, handle, key)

    monkeypatch.setattr(item_collections.Collections, "check", check)
    write(root, "a", [record(number) for number in range(6)])
    described = start(db)
    assert (described["ProcessedItemCount"], described["FailedItemCount"]) == (6, 2)
    assert [int(item["s"]["N"]) for item in scan(db, "Music")] == [0, 2, 3, 5]
    lines = report(root, described, "errors")
    assert [line["Item"]["s"] for line in lines] == [N(1), N(4)]


def test_an_operation_that_is_cut_off_goes_on(
    db: Database, root: Path, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every record is written once: the conditions of the second half see no second attempt."""
    new = {"ConditionExpression": "attribute_not_exists(p)"}
    for name in "ab":
        first = 0 if name == "a" else 40
        records = [record(first + number, condition=new) for number in range(40)]
        records.insert(20, {"Nothing": 1})
        write(root, name, records)
    real = bulk._Load._take
    taken = []

    def stop(self: Any, key: str, row: Any) -> None:
        if len(taken) == 60:
            raise Stopped
        taken.append(row)
        real(self, key, row)

    with monkeypatch.context() as patch:
        patch.setattr(bulk._Load, "_take", stop)
        arn = db.call("StartBulkPutItems", request())["BulkOperationDescription"]
        assert len(taken) == 60
    arn = arn["BulkOperationArn"]
    assert describe(db, arn)["BulkOperationStatus"] == "IN_PROGRESS"
    db.close()
    with open_database(str(tmp_path / "db"), clock, bucket_root=str(root)) as again:
        job = jobs.of(again).running(bulk.KIND, arn.rpartition("/")[2])
        if job is not None:
            job.done.wait(60)
        described = describe(again, arn)
        assert described["BulkOperationStatus"] == "COMPLETED_WITH_ERRORS"
        assert (described["ProcessedItemCount"], described["FailedItemCount"]) == (82, 2)
        assert len(scan(again, "Music")) == 80
        assert len(report(root, described, "errors")) == 2
        folder = root / "bulk" / "out" / "AWSDynamoDB" / arn.rpartition("/")[2]
        assert not (folder / "condition-check-failures").exists()


def test_cancelling_keeps_what_is_written(
    db: Database, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, "a", [record(number) for number in range(300)])
    db.settings.job_wait_seconds = 0.0
    reached, go_on = threading.Event(), threading.Event()
    real = bulk._Load._take

    def slow(self: Any, key: str, row: Any) -> None:
        if row.index == 150:
            reached.set()
            go_on.wait(60)
        real(self, key, row)

    monkeypatch.setattr(bulk._Load, "_take", slow)
    arn = db.call("StartBulkPutItems", request())["BulkOperationDescription"]["BulkOperationArn"]
    reached.wait(60)
    text = refused(db, "StartBulkPutItems", "ResourceInUseException", **request())
    assert "A bulk operation is in progress" in text
    refused(db, "DeleteTable", "ResourceInUseException", TableName="Music")
    job = jobs.of(db).running(bulk.KIND, arn.rpartition("/")[2])
    reply = db.call("CancelBulkOperation", {"BulkOperationArn": arn})["BulkOperationDescription"]
    assert reply["BulkOperationStatus"] == "CANCELLING"
    assert "EndTime" not in reply
    assert job is not None
    go_on.set()
    job.done.wait(60)
    described = describe(db, arn)
    assert described["BulkOperationStatus"] == "CANCELLED"
    assert described["FailureCode"] == "Cancelled"
    assert len(scan(db, "Music")) == 100
    # One that is over stays as it is.
    reply = db.call("CancelBulkOperation", {"BulkOperationArn": arn})["BulkOperationDescription"]
    assert reply == described


def test_units_are_paced(db: Database, root: Path) -> None:
    """120 units, at 1024 a second, take more than a tenth of one."""
    write(root, "a", [record(number, data=S("x" * 30_000)) for number in range(4)])
    began = time.perf_counter()
    described = start(db, MaxWriteRequestUnits=1024)
    assert time.perf_counter() - began > 0.1
    assert described["MaxWriteRequestUnits"] == 1024


def test_operations_are_listed_newest_first(db: Database, root: Path, clock: Clock) -> None:
    write(root, "a", [record(1)])
    arns = []
    for _ in range(3):
        clock.now += 1
        arns.append(start(db)["BulkOperationArn"])
    first = db.call("ListBulkOperations", {"MaxResults": 2})
    assert [each["BulkOperationArn"] for each in first["BulkOperationsSummaryList"]] == [
        arns[2],
        arns[1],
    ]
    assert first["BulkOperationsSummaryList"][0] == {
        "BulkOperationArn": arns[2],
        "BulkOperationStatus": "COMPLETED",
        "StartTime": clock.now,
        "EndTime": clock.now,
    }
    second = db.call("ListBulkOperations", {"NextToken": first["NextToken"]})
    assert [each["BulkOperationArn"] for each in second["BulkOperationsSummaryList"]] == arns[:1]


def test_tokens(db: Database, root: Path) -> None:
    write(root, "a", [record(1)])
    first = start(db, ClientToken="once")
    assert start(db, ClientToken="once") == first
    call = request(ClientToken="once", PerformanceTier="ACCELERATED")
    refused(db, "StartBulkPutItems", "IdempotentParameterMismatchException", **call)


def test_refused_and_failed_operations(db: Database, root: Path) -> None:
    text = refused(
        db, "StartBulkPutItems", "ResourceNotFoundException", **request(TableName="Nope")
    )
    assert text == "Requested resource not found: Table: Nope not found"
    assert "greater than or equal to 1024" in refused(
        db, "StartBulkPutItems", **request(MaxWriteRequestUnits=10)
    )
    output = {**request()["OutputS3Configuration"], "S3KeyPrefix": "../x"}
    assert "no plain path" in refused(
        db, "StartBulkPutItems", **request(OutputS3Configuration=output)
    )
    described = start(db)
    assert (described["BulkOperationStatus"], described["FailureCode"]) == ("FAILED", "S3NoSuchKey")
    source = {**request()["InputS3Configuration"], "S3Bucket": "nowhere"}
    described = start(db, InputS3Configuration=source)
    assert described["FailureCode"] == "S3NoSuchBucket"
    unknown = f"{MUSIC}/bulk-operation/01489602797149-73d8d5bc"
    for operation in ("DescribeBulkOperation", "CancelBulkOperation"):
        refused(db, operation, "ResourceNotFoundException", BulkOperationArn=unknown)
        assert refused(db, operation, BulkOperationArn="x" * 40) == "Invalid Bulk Operation ARN"


def test_reports_go_to_the_bucket_of_the_input_unless_another_is_named(
    db: Database, root: Path
) -> None:
    # S3Bucket is no required member of OutputS3Configuration; it once was a KeyError.
    write(root, "a", [{"Nothing": 1}])
    described = start(db, OutputS3Configuration={"OutputType": ["ERROR"]})
    assert described["FailedItemCount"] == 1
    assert len(list((root / "bulk" / "AWSDynamoDB").glob("*/errors*"))) == 1
