"""Exports and imports through dispatch and boto3: the files are looked at as other tools would."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dynalsm
from dynalsm import errors, values
from dynalsm.database import Database
from dynalsm.model import exports, imports, jobs
from tests.api.test_backups import REGION, Clock, enable, open_database, scan
from tests.support.store import N, S, index, table
from tests.values import strategies

MUSIC = f"{REGION}:table/Music"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The directory of buckets, with one in it."""
    (tmp_path / "buckets" / "out").mkdir(parents=True)
    return tmp_path / "buckets"


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "db")


@pytest.fixture
def db(path: str, root: Path, clock: Clock) -> Iterator[Database]:
    with open_database(path, clock, bucket_root=str(root)) as database:
        database.call("CreateTable", table("Music", "p s", "p:S s:N"))
        enable(database)
        yield database


def put(db: Database, number: int, **more: Any) -> None:
    item = {"p": S(f"p{number % 3}"), "s": N(number), **more}
    db.call("PutItem", {"TableName": "Music", "Item": item})


def refused(db: Database, operation: str, code: str = "ValidationException", **call: Any) -> str:
    with pytest.raises(errors.API_ERRORS[code]) as caught:
        db.call(operation, call)
    return caught.value.message


def export(db: Database, **call: Any) -> dict[str, Any]:
    """Export and return the finished description."""
    request = {"TableArn": MUSIC, "S3Bucket": "out", **call}
    reply = db.call("ExportTableToPointInTime", request)["ExportDescription"]
    described: dict[str, Any] = db.call("DescribeExport", {"ExportArn": reply["ExportArn"]})
    return described["ExportDescription"]


def read_export(root: Path, described: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Return (summary, lines) of an export, checking everything that can be checked."""
    bucket = root / described["S3Bucket"]
    summary_file = bucket / described["ExportManifest"]
    summary = json.loads(summary_file.read_text())
    files = bucket / summary["manifestFilesS3Key"]
    assert files == summary_file.with_name("manifest-files.json")
    for file in (summary_file, files):
        digest = hashlib.md5(file.read_bytes()).digest()
        assert file.with_suffix(".md5").read_bytes() == base64.b64encode(digest)
    assert summary_file.with_name("_started").read_bytes() == b""
    lines: list[Any] = []
    for entry in map(json.loads, files.read_text().splitlines()):
        content = (bucket / entry["dataFileS3Key"]).read_bytes()
        digest = hashlib.md5(content).digest()
        assert entry["md5Checksum"] == base64.b64encode(digest).decode()
        assert entry["etag"]
        found = gzip.decompress(content).decode().splitlines()
        assert len(found) == entry["itemCount"]
        lines += found
    assert summary["itemCount"] == described["ItemCount"] == len(lines)
    assert summary["exportArn"] == described["ExportArn"]
    return summary, lines


def load(db: Database, name: str = "Again", **call: Any) -> dict[str, Any]:
    """Import and return the finished description."""
    creation = table(name, "p s", "p:S s:N")
    request = {
        "S3BucketSource": {"S3Bucket": "out"},
        "InputFormat": "DYNAMODB_JSON",
        "TableCreationParameters": creation,
        **call,
    }
    reply = db.call("ImportTable", request)["ImportTableDescription"]
    described: dict[str, Any] = db.call("DescribeImport", {"ImportArn": reply["ImportArn"]})
    return described["ImportTableDescription"]


# Full exports.


@pytest.mark.parametrize("prefix", [None, "a/b", "a/b/"])
@pytest.mark.parametrize("kind", ["DYNAMODB_JSON", "ION"])
def test_a_full_export_has_the_layout_of_aws(
    db: Database, root: Path, clock: Clock, prefix: str | None, kind: str
) -> None:
    for number in range(10):
        put(db, number, x={"B": b"\x00\xff"})
    more = {"S3Prefix": prefix} if prefix else {}
    described = export(db, ExportFormat=kind, **more)
    export_id = described["ExportArn"].rpartition("/")[2]
    folder = f"{prefix.rstrip('/')}/AWSDynamoDB" if prefix else "AWSDynamoDB"
    assert described == {
        "ExportArn": f"{MUSIC}/export/{export_id}",
        "ExportStatus": "COMPLETED",
        "StartTime": clock.now,
        "EndTime": clock.now,
        "ExportTime": clock.now,
        "ExportManifest": f"{folder}/{export_id}/manifest-summary.json",
        "TableArn": MUSIC,
        "TableId": db.catalog.get("Music").schema.id,
        "ClientToken": described["ClientToken"],
        "S3Bucket": "out",
        "S3SseAlgorithm": "AES256",
        "ExportFormat": kind,
        "BilledSizeBytes": db.catalog.get("Music").statistics.bytes,
        "ItemCount": 10,
        **more,
    }
    summary, lines = read_export(root, described)
    assert summary == {
        "version": "2020-06-30",
        "exportArn": described["ExportArn"],
        "startTime": "2023-11-14T22:13:20.250Z",
        "endTime": "2023-11-14T22:13:20.250Z",
        "tableArn": MUSIC,
        "tableId": described["TableId"],
        "exportTime": "2023-11-14T22:13:20.250Z",
        "s3Bucket": "out",
        "s3Prefix": prefix,
        "s3SseAlgorithm": "AES256",
        "s3SseKmsKeyId": None,
        "manifestFilesS3Key": f"{folder}/{export_id}/manifest-files.json",
        "billedSizeBytes": described["BilledSizeBytes"],
        "itemCount": 10,
        "outputFormat": kind,
        "exportType": "FULL_EXPORT",
    }
    start = '{"Item":{' if kind == "DYNAMODB_JSON" else "$ion_1_0 {Item:{"
    assert all(line.startswith(start) for line in lines)
    names = sorted(file.name for file in (root / "out" / folder / export_id / "data").iterdir())
    suffix = ".json.gz" if kind == "DYNAMODB_JSON" else ".ion.gz"
    assert all(len(name) == 26 + len(suffix) and name.endswith(suffix) for name in names)


def test_an_empty_table_has_one_empty_file(db: Database, root: Path) -> None:
    _, lines = read_export(root, export(db))
    assert lines == []


def test_large_exports_have_several_files(
    db: Database, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "FILE_BYTES", 2000)
    monkeypatch.setattr(exports, "BLOCK_BYTES", 500)
    for number in range(100):
        put(db, number, data=S("x" * 50))
    described = export(db)
    _, lines = read_export(root, described)
    numbers = sorted(int(json.loads(line)["Item"]["s"]["N"]) for line in lines)
    assert numbers == list(range(100))
    assert len(list((root / "out").glob("**/data/*"))) > 2


def test_an_export_of_an_earlier_moment(db: Database, root: Path, clock: Clock) -> None:
    put(db, 1)
    clock.now += 10
    put(db, 2)
    db.call("DeleteItem", {"TableName": "Music", "Key": {"p": S("p1"), "s": N(1)}})
    clock.now += 10
    summary, lines = read_export(root, export(db, ExportTime=clock.now - 15))
    assert [json.loads(line)["Item"]["s"]["N"] for line in lines] == ["1"]
    assert summary["exportTime"] == "2023-11-14T22:13:25.250Z"
    trees = db.engine.tree_names()
    assert len([name for name in trees if name.startswith("t/")]) == 1
    for moment in (clock.now - 1000, clock.now + 1):
        call = {"TableArn": MUSIC, "S3Bucket": "out", "ExportTime": moment}
        refused(db, "ExportTableToPointInTime", "InvalidExportTimeException", **call)


def test_a_selection_of_items_and_attributes(db: Database, root: Path) -> None:
    for number in range(12):
        put(db, number, n=N(number), m={"M": {"a": S("x"), "b": S("y")}})
    described = export(
        db,
        FilterSpecification={
            "KeyConditionExpression": "p = :p AND s BETWEEN :a AND :b",
            "FilterExpression": "n <> :six",
            "ProjectionExpression": "s, #m.a",
            "ExpressionAttributeNames": {"#m": "m"},
            "ExpressionAttributeValues": {":p": S("p0"), ":a": N(3), ":b": N(9), ":six": N(6)},
        },
    )
    _, lines = read_export(root, described)
    assert [json.loads(line)["Item"] for line in lines] == [
        {"m": {"M": {"a": S("x")}}, "s": N(3)},
        {"m": {"M": {"a": S("x")}}, "s": N(9)},
    ]
    bad = {"FilterExpression": "n = :n"}
    call = {"TableArn": MUSIC, "S3Bucket": "out", "FilterSpecification": bad}
    assert ":n" in refused(db, "ExportTableToPointInTime", **call)


# Incremental exports.


def incremental(db: Database, begin: float, end: float | None, **more: Any) -> dict[str, Any]:
    wanted = {"ExportFromTime": begin, **({} if end is None else {"ExportToTime": end})}
    view = more.pop("view", None)
    if view:
        wanted["ExportViewType"] = view
    return export(
        db, ExportType="INCREMENTAL_EXPORT", IncrementalExportSpecification=wanted, **more
    )


def delete(db: Database, number: int) -> None:
    key = {"p": S(f"p{number % 3}"), "s": N(number)}
    db.call("DeleteItem", {"TableName": "Music", "Key": key})


def test_an_incremental_export_has_one_record_per_item(
    db: Database, root: Path, clock: Clock
) -> None:
    for number in (1, 2, 3):
        put(db, number, a=S("old"))
    clock.now += 10
    begin = clock.now
    put(db, 1, a=S("between"))
    put(db, 1, a=S("new"))
    delete(db, 2)
    put(db, 4)  # inserted
    put(db, 5)  # inserted and deleted again: no record
    clock.now += 10
    delete(db, 5)
    end = clock.now + 1
    clock.now += 1000
    put(db, 3, a=S("later"))
    described = incremental(db, begin, end + 900)
    assert described["ExportType"] == "INCREMENTAL_EXPORT"
    assert described["IncrementalExportSpecification"] == {
        "ExportFromTime": begin,
        "ExportToTime": end + 900,
        "ExportViewType": "NEW_AND_OLD_IMAGES",
    }
    assert "ExportTime" not in described
    summary, lines = read_export(root, described)
    assert summary["version"] == "2023-08-01"
    assert summary["exportType"] == "INCREMENTAL_EXPORT"
    assert summary["outputView"] == "NEW_AND_OLD_IMAGES"
    assert summary["exportFromTime"] == "2023-11-14T22:13:30.250Z"
    assert "exportTime" not in summary
    found = {record["Keys"]["s"]["N"]: record for record in map(json.loads, lines)}
    assert sorted(found) == ["1", "2", "4"]
    micros = {"WriteTimestampMicros": {"N": str(int(begin * 1_000_000))}}
    assert found["1"] == {
        "Metadata": micros,
        "Keys": {"p": S("p1"), "s": N(1)},
        "OldImage": {"p": S("p1"), "s": N(1), "a": S("old")},
        "NewImage": {"p": S("p1"), "s": N(1), "a": S("new")},
    }
    assert "NewImage" not in found["2"]
    assert found["2"]["OldImage"]["a"] == S("old")
    assert "OldImage" not in found["4"]
    # Data files of incremental exports share a folder.
    assert list((root / "out" / "AWSDynamoDB" / "data").iterdir())
    # Without old images a deletion is its keys.
    _, lines = read_export(root, incremental(db, begin, end + 900, view="NEW_IMAGE"))
    found = {record["Keys"]["s"]["N"]: record for record in map(json.loads, lines)}
    assert set(found["2"]) == {"Metadata", "Keys"}
    assert set(found["1"]) == {"Metadata", "Keys", "NewImage"}


def test_windows_tile_the_history(db: Database, root: Path, clock: Clock) -> None:
    """What lies on a border is in the later window: the end is exclusive."""
    begin = clock.now
    clock.now += 900
    border = clock.now
    put(db, 1)
    clock.now += 900
    _, first = read_export(root, incremental(db, begin, border))
    _, second = read_export(root, incremental(db, border, clock.now, ExportFormat="ION"))
    assert (len(first), len(second)) == (0, 1)
    assert second[0].startswith("$ion_1_0 {Metadata:{WriteTimestampMicros:")


def test_windows_that_are_none(db: Database, clock: Clock) -> None:
    begin = clock.now
    clock.now += 3 * 86_400

    def text(code: str, **wanted: Any) -> str:
        call = {
            "TableArn": MUSIC,
            "S3Bucket": "out",
            "ExportType": "INCREMENTAL_EXPORT",
            "IncrementalExportSpecification": wanted,
        }
        return refused(db, "ExportTableToPointInTime", code, **call)

    invalid = "InvalidExportTimeException"
    assert text("ValidationException") == (
        "Invalid Request: ExportFromTime must be provided in IncrementalExportSpecification"
    )
    short, long = {"ExportToTime": begin + 100}, {"ExportToTime": begin + 90_000}
    assert "less than 15 minutes" in text(invalid, ExportFromTime=begin + 1, **short)
    assert "greater than 24 hours" in text(invalid, ExportFromTime=begin + 1, **long)
    late = {"ExportToTime": clock.now + 1}
    assert "future" in text(invalid, ExportFromTime=clock.now - 1000, **late)
    before = {"ExportFromTime": begin - 2000, "ExportToTime": begin}
    assert "outside" in text(invalid, **before)


# What both refuse, and lists.


def test_refused_exports(db: Database, root: Path) -> None:
    def text(code: str = "ValidationException", **call: Any) -> str:
        request = {"TableArn": MUSIC, "S3Bucket": "out", **call}
        return refused(db, "ExportTableToPointInTime", code, **request)

    unknown = MUSIC.replace("Music", "Nope")
    assert text("TableNotFoundException", TableArn=unknown) == "Table not found: Nope"
    assert "Invalid resource Arn" in text(TableArn="arn:aws:dynamodb:nonsense")
    for prefix in ("../x", "a/../../x", "/x", "a//b"):
        assert "no plain path" in text(S3Prefix=prefix)
    assert "KMS Key Id is not supported for this encryption type" in text(S3SseKmsKeyId="k")
    assert "'s3Bucket' failed to satisfy constraint" in text(S3Bucket="..")
    assert "'exportFormat' failed to satisfy constraint" in text(ExportFormat="CSV")
    db.call("CreateTable", table("Plain", "p", "p:S"))
    assert "Point in time recovery is not enabled" in text(
        "PointInTimeRecoveryUnavailableException", TableArn=f"{REGION}:table/Plain"
    )
    assert not [file for file in root.rglob("*") if file.is_file()]


def test_without_a_root_there_are_no_buckets(path: str, clock: Clock) -> None:
    with open_database(path, clock) as db:
        db.call("CreateTable", table("Music", "p s", "p:S s:N"))
        enable(db)
        call = {"TableArn": MUSIC, "S3Bucket": "out"}
        assert "bucket_root" in refused(db, "ExportTableToPointInTime", **call)
        call = {
            "S3BucketSource": {"S3Bucket": "out"},
            "InputFormat": "CSV",
            "TableCreationParameters": table("Again", "p", "p:S"),
        }
        assert "bucket_root" in refused(db, "ImportTable", **call)


def test_a_missing_bucket_fails_the_export(db: Database) -> None:
    described = export(db, S3Bucket="nowhere")
    assert described["ExportStatus"] == "FAILED"
    assert described["FailureCode"] == "S3NoSuchBucket"
    assert "bucket does not exist" in described["FailureMessage"]
    (summary,) = db.call("ListExports", {})["ExportSummaries"]
    assert summary["ExportStatus"] == "FAILED"


def test_a_client_token_starts_one_export(db: Database, clock: Clock) -> None:
    first = export(db, ClientToken="once")
    assert first["ClientToken"] == "once"
    again = export(db, ClientToken="once")
    assert again == first
    for change in ({"S3Prefix": "x"}, {"ExportFormat": "ION"}, {"TableArn": f"{MUSIC}2"}):
        call = {"TableArn": MUSIC, "S3Bucket": "out", "ClientToken": "once", **change}
        text = refused(db, "ExportTableToPointInTime", "ExportConflictException", **call)
        assert "Duplicate request detected" in text
    clock.now += 8 * 3600 + 1
    assert export(db, ClientToken="once")["ExportArn"] != first["ExportArn"]
    # Without one, each call is another export.
    assert export(db)["ExportArn"] != export(db)["ExportArn"]


def test_exports_are_listed_in_pages(db: Database, clock: Clock) -> None:
    arns = []
    for _ in range(5):
        clock.now += 1
        arns.append(export(db, S3Bucket="nowhere")["ExportArn"])
    found: list[str] = []
    call: dict[str, Any] = {"MaxResults": 2}
    while True:
        reply = db.call("ListExports", call)
        found += [each["ExportArn"] for each in reply["ExportSummaries"]]
        if "NextToken" not in reply:
            break
        call["NextToken"] = reply["NextToken"]
    assert found == arns
    assert db.call("ListExports", {"TableArn": MUSIC})["ExportSummaries"][0] == {
        "ExportArn": arns[0],
        "ExportStatus": "FAILED",
        "ExportType": "FULL_EXPORT",
    }
    other = {"TableArn": f"{REGION}:table/Other"}
    assert db.call("ListExports", other)["ExportSummaries"] == []
    for token in ("zz", "00" * 60, "abcd"):
        assert refused(db, "ListExports", NextToken=token) == (
            f"Invalid Request: Provided nextToken is invalid: {token}"
        )
    clock.now += 91 * 86_400
    assert db.call("ListExports", {})["ExportSummaries"] == []


def test_arns_of_no_export(db: Database) -> None:
    unknown = f"{MUSIC}/export/01489602797149-73d8d5bc"
    refused(db, "DescribeExport", "ExportNotFoundException", ExportArn=unknown)
    assert refused(db, "DescribeExport", ExportArn=f"{MUSIC}abcdefgh") == "Invalid Export ARN"
    for wrong in ("eu-west-1", "us-gov-1"):
        arn = unknown.replace("us-east-1", wrong)
        refused(db, "DescribeExport", "AccessDeniedException", ExportArn=arn)
    unknown = unknown.replace("export", "import")
    refused(db, "DescribeImport", "ImportNotFoundException", ImportArn=unknown)
    assert refused(db, "DescribeImport", ImportArn="x" * 40) == "Invalid Import ARN"


# Imports.


@pytest.mark.parametrize("kind", ["DYNAMODB_JSON", "ION"])
def test_an_export_is_imported_as_a_whole(
    db: Database, root: Path, clock: Clock, kind: str
) -> None:
    for number in range(30):
        put(db, number, g=S(f"g{number % 2}"))
    described = export(db, ExportFormat=kind, S3Prefix="nightly")
    creation = table("Again", "p s", "p:S s:N g:S", GlobalSecondaryIndexes=[index("by-g", "g")])
    source = {"S3Bucket": "out", "S3KeyPrefix": described["ExportManifest"].rpartition("/")[0]}
    clock.now += 5
    made = load(
        db,
        S3BucketSource=source,
        InputFormat=kind,
        InputCompressionType="GZIP",
        TableCreationParameters=creation,
    )
    import_id = made["ImportArn"].rpartition("/")[2]
    assert made.pop("ProcessedSizeBytes") > 30 * 20
    assert made == {
        "ImportArn": f"{REGION}:table/Again/import/{import_id}",
        "ImportStatus": "COMPLETED",
        "TableArn": f"{REGION}:table/Again",
        "TableId": db.catalog.get("Again").schema.id,
        "ClientToken": made["ClientToken"],
        "S3BucketSource": source,
        "ErrorCount": 0,
        "CloudWatchLogGroupArn": imports.error_log(db, import_id),
        "InputFormat": kind,
        "InputCompressionType": "GZIP",
        "TableCreationParameters": creation,
        "StartTime": clock.now,
        "EndTime": clock.now,
        "ProcessedItemCount": 30,
        "ImportedItemCount": 30,
    }
    assert scan(db, "Again") == scan(db, "Music")
    table_ = db.call("DescribeTable", {"TableName": "Again"})["Table"]
    assert (table_["TableStatus"], table_["ItemCount"]) == ("ACTIVE", 30)
    assert table_["GlobalSecondaryIndexes"][0]["ItemCount"] == 30
    found = db.call("Scan", {"TableName": "Again", "IndexName": "by-g"})
    assert found["Count"] == 30


def test_an_export_from_aws_that_was_copied_elsewhere(db: Database, root: Path) -> None:
    """The manifest names keys of the bucket it came from; the files lie beside it here."""
    folder = root / "out" / "from-aws"
    (folder / "data").mkdir(parents=True)
    content = gzip.compress(b'{"Item":{"p":{"S":"a"},"s":{"N":"1"}}}\n')
    (folder / "data" / "h3kqbxjh.json.gz").write_bytes(content)
    (folder / "data" / "not-in-the-manifest.json.gz").write_bytes(b"junk")
    (folder / "_started").write_bytes(b"")
    (folder / "manifest-summary.json").write_text("{}")
    digest = base64.b64encode(hashlib.md5(content).digest()).decode()
    entry = {
        "itemCount": 1,
        "md5Checksum": digest,
        "etag": "x-1",
        "dataFileS3Key": "AWSDynamoDB/01693685827463-2d8752fd/data/h3kqbxjh.json.gz",
    }
    (folder / "manifest-files.json").write_text(json.dumps(entry) + "\n")
    source = {"S3Bucket": "out", "S3KeyPrefix": "from-aws/"}
    made = load(db, S3BucketSource=source, InputCompressionType="GZIP")
    assert (made["ImportStatus"], made["ImportedItemCount"]) == ("COMPLETED", 1)
    # A file that is not what the manifest says is not read at all.
    entry["md5Checksum"] = base64.b64encode(b"0" * 16).decode()
    (folder / "manifest-files.json").write_text(json.dumps(entry) + "\n")
    made = load(db, "Third", S3BucketSource=source, InputCompressionType="GZIP")
    assert (made["ImportStatus"], made["ErrorCount"]) == ("FAILED", 1)


def test_all_objects_under_a_prefix(db: Database, root: Path) -> None:
    out = root / "out"
    (out / "in" / "deep").mkdir(parents=True)
    line = '{"Item":{"p":{"S":"x"},"s":{"N":"%d"}}}\n'
    (out / "in" / "deep" / "b.zst").write_bytes(zstandard.compress((line % 2).encode()))
    (out / "in" / "a").write_bytes(zstandard.compress((line % 1).encode()))
    (out / "inside").write_bytes(zstandard.compress((line % 3).encode()))
    (out / "other").write_bytes(b"no")
    source = {"S3Bucket": "out", "S3KeyPrefix": "in"}
    made = load(db, S3BucketSource=source, InputCompressionType="ZSTD")
    assert made["ImportStatus"] == "COMPLETED"
    assert [item["s"]["N"] for item in scan(db, "Again")] == ["1", "2", "3"]


def test_the_last_of_several_with_one_key_stays(db: Database, root: Path) -> None:
    lines = "".join(
        json.dumps({"Item": {"p": S("x"), "s": N(1), "g": S(f"g{number}")}}) + "\n"
        for number in range(5)
    )
    (root / "out" / "data").write_text(lines)
    creation = table("Again", "p s", "p:S s:N g:S", GlobalSecondaryIndexes=[index("by-g", "g")])
    made = load(db, TableCreationParameters=creation)
    assert (made["ImportStatus"], made["ImportedItemCount"]) == ("COMPLETED", 5)
    assert scan(db, "Again") == [{"p": S("x"), "s": N(1), "g": S("g4")}]
    # The index knows nothing of the items that were overwritten.
    assert scan(db, "Again", IndexName="by-g") == scan(db, "Again")
    described = db.call("DescribeTable", {"TableName": "Again"})["Table"]
    assert described["ItemCount"] == described["GlobalSecondaryIndexes"][0]["ItemCount"] == 1


def test_records_that_are_no_items_are_logged(db: Database, root: Path) -> None:
    records: list[Any] = [
        {"Item": {"p": S("x"), "s": N(1)}},
        {"Item": {"p": S("x")}},
        {"Item": {"p": S("x"), "s": S("1")}},
        {"Item": {"p": S(""), "s": N(1)}},
        {"Item": {"p": S("x"), "s": N(2), "a": {"N": "1x"}}},
        {"Item": {"p": S("x"), "s": N(3), "g": N(1)}},
        {"Item": {"p": S("x"), "s": N(4), "a": S("x" * 410_000)}},
        {"Keys": {}},
        {"Item": {"p": S("y"), "s": N(1)}},
    ]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (root / "out" / "data").write_text(lines)
    creation = table("Again", "p s", "p:S s:N g:S", GlobalSecondaryIndexes=[index("by-g", "g")])
    made = load(db, TableCreationParameters=creation)
    assert made["ImportStatus"] == "FAILED"
    assert made["FailureCode"] == "ItemValidationError"
    assert made["FailureMessage"].startswith("Some of the items failed validation checks")
    assert (made["ProcessedItemCount"], made["ImportedItemCount"], made["ErrorCount"]) == (9, 2, 7)
    assert len(scan(db, "Again")) == 2
    log = list(map(json.loads, Path(made["CloudWatchLogGroupArn"]).read_text().splitlines()))
    assert log[0] == {
        "itemS3Pointer": {"bucket": "out", "key": "data", "itemIndex": 1},
        "importArn": made["ImportArn"],
        "errorMessages": [
            "One or more parameter values were invalid: Missing the key s in the item"
        ],
    }
    texts = [entry["errorMessages"][0] for entry in log]
    for text, fragment in zip(
        texts[1:],
        [
            "Type mismatch for key s expected: N actual: S",
            "cannot contain an empty string value. Key: p",
            "1x",
            "Type mismatch for Index Key g",
            "Item size has exceeded",
            'no member "Item"',
        ],
        strict=True,
    ):
        assert fragment in text


def test_imports_of_thousands_show_progress_and_end(db: Database, root: Path) -> None:
    lines = (json.dumps({"Item": {"p": S("x"), "s": N(number)}}) for number in range(2500))
    (root / "out" / "data").write_text("\n".join(lines))
    made = load(db)
    assert (made["ImportStatus"], made["ProcessedItemCount"]) == ("COMPLETED", 2500)


def test_an_unexpected_failure_is_told_by_the_status(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any) -> Any:
        raise errors.StorageError("something broke")

    monkeypatch.setattr(exports, "write", broken)
    described = export(db)
    assert (described["ExportStatus"], described["FailureCode"]) == ("FAILED", "InternalError")
    assert "something broke" in described["FailureMessage"]


def test_a_broken_object_counts_once_and_the_next_is_read(db: Database, root: Path) -> None:
    line = b'{"Item":{"p":{"S":"x"},"s":{"N":"1"}}}\n'
    (root / "out" / "a.gz").write_bytes(gzip.compress(line * 3)[:-9])
    (root / "out" / "b.gz").write_bytes(gzip.compress(line.replace(b'"1"', b'"2"')))
    made = load(db, InputCompressionType="GZIP")
    assert (made["ImportStatus"], made["ErrorCount"]) == ("FAILED", 1)
    assert scan(db, "Again")[-1]["s"] == N(2)


def test_csv_becomes_texts_but_for_keys(db: Database, root: Path) -> None:
    (root / "out" / "data.csv").write_text('p;s;n\nx;1.0;3\ny;2;\nz;no;4\n"w";5;"a;b"\n')
    made = load(db, InputFormat="CSV", InputFormatOptions={"Csv": {"Delimiter": ";"}})
    assert made["InputFormatOptions"] == {"Csv": {"Delimiter": ";"}}
    assert (made["ImportStatus"], made["ErrorCount"]) == ("FAILED", 1)
    assert scan(db, "Again") == [
        {"p": S("x"), "s": N(1), "n": S("3")},
        {"p": S("y"), "s": N(2), "n": S("")},
        {"p": S("w"), "s": N(5), "n": S("a;b")},
    ]
    options = {"Csv": {"Delimiter": ";", "HeaderList": ["s", "p", "n"]}}
    (root / "out" / "data.csv").write_text("1;x;3\n")
    load(db, "Third", InputFormat="CSV", InputFormatOptions=options)
    assert scan(db, "Third") == [{"p": S("x"), "s": N(1), "n": S("3")}]


def test_refused_and_failed_imports(db: Database, clock: Clock) -> None:
    def call(name: str = "Again", **more: Any) -> dict[str, Any]:
        return {
            "S3BucketSource": {"S3Bucket": "out"},
            "InputFormat": "DYNAMODB_JSON",
            "TableCreationParameters": table(name, "p s", "p:S s:N"),
            **more,
        }

    text = refused(db, "ImportTable", "ResourceInUseException", **call("Music"))
    assert text == "Table already exists: Music"
    options = {"Csv": {"Delimiter": ","}}
    assert refused(db, "ImportTable", **call(InputFormatOptions=options)) == (
        "Invalid Request: Unsupported InputFormatOptions for the given input format: DYNAMODB_JSON."
    )
    bad = call()
    bad["TableCreationParameters"] = {**bad["TableCreationParameters"], "AttributeDefinitions": []}
    refused(db, "ImportTable", **bad)
    made = load(db, S3BucketSource={"S3Bucket": "nowhere"})
    assert (made["ImportStatus"], made["FailureCode"]) == ("FAILED", "S3NoSuchBucket")
    made = load(db, S3BucketSource={"S3Bucket": "out", "S3KeyPrefix": "nothing"})
    assert (made["ImportStatus"], made["FailureCode"]) == ("FAILED", "S3NoSuchKey")
    assert db.call("ListTables", {})["TableNames"] == ["Music"]


def test_a_client_token_starts_one_import(db: Database, root: Path) -> None:
    (root / "out" / "data").write_text('{"Item":{"p":{"S":"x"},"s":{"N":"1"}}}\n')
    first = load(db, ClientToken="once")
    assert load(db, ClientToken="once") == first
    call = {
        "S3BucketSource": {"S3Bucket": "out"},
        "InputFormat": "ION",
        "TableCreationParameters": table("Again", "p s", "p:S s:N"),
        "ClientToken": "once",
    }
    refused(db, "ImportTable", "ImportConflictException", **call)


def test_imports_are_listed_in_pages(db: Database, clock: Clock) -> None:
    arns = []
    for number in range(3):
        clock.now += 1
        source = {"S3Bucket": "nowhere"}
        arns.append(load(db, f"Again{number}", S3BucketSource=source)["ImportArn"])
    first = db.call("ListImports", {"PageSize": 2})
    assert [each["ImportArn"] for each in first["ImportSummaryList"]] == arns[:2]
    assert first["ImportSummaryList"][0]["ImportStatus"] == "FAILED"
    assert len(first["NextToken"]) >= 112
    second = db.call("ListImports", {"PageSize": 2, "NextToken": first["NextToken"]})
    assert [each["ImportArn"] for each in second["ImportSummaryList"]] == arns[2:]
    one = db.call("ListImports", {"TableArn": f"{REGION}:table/Again1"})["ImportSummaryList"]
    assert [each["ImportArn"] for each in one] == arns[1:2]


def test_while_an_import_is_running(
    db: Database, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "out" / "data").write_text('{"Item":{"p":{"S":"x"},"s":{"N":"1"}}}\n' * 5)
    monkeypatch.setattr(imports, "PROGRESS_ITEMS", 1)
    db.settings.job_wait_seconds = 0.0
    reached, go_on = threading.Event(), threading.Event()
    real = imports.Load._pair

    def slow(self: Any, key: str, row: Any) -> Any:
        if row.index == 3:
            reached.set()
            go_on.wait(60)
        return real(self, key, row)

    monkeypatch.setattr(imports.Load, "_pair", slow)
    made = load(db)
    assert made["ImportStatus"] == "IN_PROGRESS"
    assert "EndTime" not in made
    reached.wait(60)
    described = db.call("DescribeImport", {"ImportArn": made["ImportArn"]})
    assert described["ImportTableDescription"]["ImportedItemCount"] == 3
    assert db.call("DescribeTable", {"TableName": "Again"})["Table"]["TableStatus"] == "CREATING"
    refused(db, "Scan", "ResourceNotFoundException", TableName="Again")
    job = jobs.of(db).running(imports.KIND, made["ImportArn"].rpartition("/")[2])
    assert job is not None
    go_on.set()
    job.done.wait(60)
    assert db.call("DescribeTable", {"TableName": "Again"})["Table"]["TableStatus"] == "ACTIVE"


# Round trips.


@pytest.mark.parametrize("kind", ["DYNAMODB_JSON", "ION"])
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(items=st.lists(strategies.items, max_size=8))
def test_what_is_exported_is_imported_bit_by_bit(
    db: Database, clock: Clock, kind: str, items: list[dict[str, Any]]
) -> None:
    """Any items of any types: the stored bytes of both tables are equal."""
    clock.now += 1
    for each in list(db.catalog.names()):
        db.call("DeleteTable", {"TableName": each})
    db.call("CreateTable", table("Music", "p s", "p:S s:N"))
    enable(db)
    for number, item in enumerate(items):
        whole = {**item, "p": f"p{number % 3}", "s": Decimal(number)}
        wire = values.decode_wire_item(values.encode_item(whole))
        db.call("PutItem", {"TableName": "Music", "Item": wire})
    described = export(db, ExportFormat=kind, S3Prefix=f"run{clock.now}")
    source = {"S3Bucket": "out", "S3KeyPrefix": f"run{clock.now}"}
    made = load(db, S3BucketSource=source, InputFormat=kind, InputCompressionType="GZIP")
    assert made["ImportStatus"] == "COMPLETED"
    assert made["ImportedItemCount"] == described["ItemCount"] == len(items)
    before, after = db.catalog.get("Music").tree, db.catalog.get("Again").tree
    assert list(after.cursor()) == list(before.cursor())


def test_through_boto3(db: Database, root: Path) -> None:
    client = dynalsm.boto3_session(db).client("dynamodb")
    client.put_item(TableName="Music", Item={"p": S("x"), "s": N(1), "b": {"B": b"\x00"}})
    described = client.export_table_to_point_in_time(TableArn=MUSIC, S3Bucket="out")
    arn = described["ExportDescription"]["ExportArn"]
    client.get_waiter("export_completed").wait(ExportArn=arn)
    made = client.import_table(
        S3BucketSource={"S3Bucket": "out", "S3KeyPrefix": "AWSDynamoDB"},
        InputFormat="DYNAMODB_JSON",
        InputCompressionType="GZIP",
        TableCreationParameters=table("Again", "p s", "p:S s:N"),
    )["ImportTableDescription"]
    client.get_waiter("import_completed").wait(ImportArn=made["ImportArn"])
    assert client.scan(TableName="Again")["Items"] == client.scan(TableName="Music")["Items"]
    listed = client.list_exports()["ExportSummaries"] + client.list_imports()["ImportSummaryList"]
    assert len(listed) == 2
    with pytest.raises(client.exceptions.ExportNotFoundException):
        client.describe_export(ExportArn=arn[:-1] + ("0" if arn[-1] != "0" else "1"))
