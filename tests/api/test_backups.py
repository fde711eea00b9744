"""Backups, restores and point-in-time recovery through dispatch and boto3, on a real directory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import dynalsm
from dynalsm import errors
from dynalsm.database import Database
from dynalsm.model import backup, backup_file, backup_tables, pitr, streams
from tests.support.store import N, S, index, table

REGION = "arn:aws:dynamodb:us-east-1:123456789012"


class Clock:
    """Seconds that a test moves on."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.25

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "db")


@pytest.fixture
def db(path: str, clock: Clock) -> Iterator[Database]:
    with open_database(path, clock) as database:
        database.call("CreateTable", music())
        yield database


def open_database(path: str, clock: Any, **options: Any) -> Database:
    # Small jobs end within the call however busy the machine is.
    options = {"durability": "os", "job_wait_seconds": 60.0, **options}
    return dynalsm.open(path, clock=clock, **options)


def music(name: str = "Music", **more: Any) -> dict[str, Any]:
    request = table(
        name,
        "p s",
        "p:S s:N g:S l:S",
        LocalSecondaryIndexes=[index("by-l", "p", "l")],
        GlobalSecondaryIndexes=[index("by-g", "g", projection="KEYS_ONLY")],
    )
    return {**request, **more}


def put(db: Database, number: int, name: str = "Music", **more: Any) -> None:
    item = {"p": S(f"p{number % 3}"), "s": N(number), "g": S(f"g{number % 2}"), **more}
    db.call("PutItem", {"TableName": name, "Item": item})


def scan(db: Database, name: str, **more: Any) -> list[dict[str, Any]]:
    found = db.call("Scan", {"TableName": name, **more})["Items"]
    return sorted(found, key=lambda item: int(item["s"]["N"]))


def numbers(db: Database, name: str, **more: Any) -> list[int]:
    return [int(item["s"]["N"]) for item in scan(db, name, **more)]


def refused(db: Database, operation: str, code: str = "ValidationException", **call: Any) -> str:
    with pytest.raises(errors.API_ERRORS[code]) as caught:
        db.call(operation, call)
    return caught.value.message


def create(db: Database, name: str = "nightly", **call: Any) -> str:
    reply = db.call("CreateBackup", {"TableName": "Music", "BackupName": name, **call})
    arn: str = reply["BackupDetails"]["BackupArn"]
    return arn


# Backups.


def test_a_backup_says_what_it_is(db: Database, clock: Clock) -> None:
    for number in range(5):
        put(db, number)
    reply = db.call("CreateBackup", {"TableName": "Music", "BackupName": "nightly"})
    details = reply["BackupDetails"]
    arn = details["BackupArn"]
    assert arn.startswith(f"{REGION}:table/Music/backup/{int(clock.now * 1000):014d}-")
    assert details == {
        "BackupArn": arn,
        "BackupName": "nightly",
        "BackupSizeBytes": 0,
        "BackupStatus": "CREATING",
        "BackupType": "USER",
        "BackupCreationDateTime": clock.now,
    }
    described = db.call("DescribeBackup", {"BackupArn": arn})["BackupDescription"]
    assert described["BackupDetails"]["BackupStatus"] == "AVAILABLE"
    assert described["BackupDetails"]["BackupSizeBytes"] > 0
    source = described["SourceTableDetails"]
    assert source["TableName"] == "Music"
    assert source["TableId"] == db.catalog.get("Music").schema.id
    assert source["ItemCount"] == 5
    assert source["TableSizeBytes"] == db.catalog.get("Music").statistics.bytes
    assert source["BillingMode"] == "PAY_PER_REQUEST"
    assert source["KeySchema"] == music()["KeySchema"]
    features = described["SourceTableFeatureDetails"]
    assert [each["IndexName"] for each in features["LocalSecondaryIndexes"]] == ["by-l"]
    assert [each["IndexName"] for each in features["GlobalSecondaryIndexes"]] == ["by-g"]
    assert features["TimeToLiveDescription"] == {"TimeToLiveStatus": "DISABLED"}


def test_backups_are_listed_by_age_table_kind_and_time(db: Database, clock: Clock) -> None:
    db.call("CreateTable", table("Other", "p", "p:S"))
    arns = []
    for name in ("Music", "Other", "Music"):
        arns.append(create(db, TableName=name))
        clock.now += 10

    def listed(**call: Any) -> list[str]:
        reply = db.call("ListBackups", call)
        return [each["BackupArn"] for each in reply["BackupSummaries"]]

    assert listed() == arns
    assert listed(TableName="Music") == [arns[0], arns[2]]
    assert listed(TableName=f"{REGION}:table/Other") == [arns[1]]
    assert listed(BackupType="SYSTEM") == []
    assert listed(BackupType="ALL") == arns
    # The lower bound is in the range, the upper one is not.
    assert listed(TimeRangeLowerBound=clock.now - 20) == arns[1:]
    assert listed(TimeRangeUpperBound=clock.now - 20) == arns[:1]
    text = refused(db, "ListBackups", TimeRangeLowerBound=2, TimeRangeUpperBound=1)
    assert text.endswith("Time range lower bound must be less than or equal to upper bound")
    page = db.call("ListBackups", {"Limit": 2})
    assert page["LastEvaluatedBackupArn"] == arns[1]
    page = db.call("ListBackups", {"Limit": 2, "ExclusiveStartBackupArn": arns[1]})
    assert [each["BackupArn"] for each in page["BackupSummaries"]] == arns[2:]
    assert "LastEvaluatedBackupArn" not in page
    with pytest.raises(errors.ValidationException, match="value less than or equal to 100"):
        db.call("ListBackups", {"Limit": 101})


def test_a_deleted_backup_is_gone(db: Database) -> None:
    arn = create(db)
    reply = db.call("DeleteBackup", {"BackupArn": arn})
    assert reply["BackupDescription"]["BackupDetails"]["BackupStatus"] == "DELETED"
    assert refused(db, "DescribeBackup", "BackupNotFoundException", BackupArn=arn) == (
        f"Backup not found: {arn}"
    )
    refused(db, "DeleteBackup", "BackupNotFoundException", BackupArn=arn)
    assert db.call("ListBackups", {})["BackupSummaries"] == []
    assert os.listdir(backup.of(db).directory) == []


def test_arns_of_nothing(db: Database) -> None:
    other = f"{REGION}:table/Music/backup/01489602797149-73d8d5bc"
    refused(db, "DescribeBackup", "BackupNotFoundException", BackupArn=other)
    # The backup's own id with another table's name is no backup.
    wrong = create(db).replace("/Music/", "/Muzak/")
    refused(db, "DescribeBackup", "BackupNotFoundException", BackupArn=wrong)
    assert refused(db, "DescribeBackup", BackupArn="x" * 40) == "Invalid Backup ARN"
    elsewhere = other.replace("us-east-1", "eu-west-1")
    refused(db, "DescribeBackup", "AccessDeniedException", BackupArn=elsewhere)
    assert refused(db, "CreateBackup", "TableNotFoundException", TableName="Nope", BackupName="abc")
    text = refused(db, "CreateBackup", TableName="Music", BackupName="ab")
    assert "'backupName' failed to satisfy constraint" in text


def test_a_backup_outlives_its_table_and_the_process(path: str, clock: Clock) -> None:
    with open_database(path, clock) as db:
        db.call("CreateTable", music())
        put(db, 1)
        arn = create(db)
        db.call("DeleteTable", {"TableName": "Music"})
    with open_database(path, clock) as db:
        assert db.call("DescribeBackup", {"BackupArn": arn})
        db.call("RestoreTableFromBackup", {"TargetTableName": "Music", "BackupArn": arn})
        assert numbers(db, "Music") == [1]


def test_a_damaged_backup_is_told_and_the_others_stay(db: Database) -> None:
    put(db, 1)
    damaged, whole = create(db), create(db)
    file = Path(backup.of(db).path(damaged.rpartition("/")[2])) / backup_tables.ABOUT
    content = bytearray(file.read_bytes())
    content[-60] ^= 1
    file.write_bytes(bytes(content))
    backup.of(db)._known.clear()
    listed = db.call("ListBackups", {})["BackupSummaries"]
    assert [each["BackupArn"] for each in listed] == [whole]
    with pytest.raises(errors.CorruptionError):
        db.call("DescribeBackup", {"BackupArn": damaged})


def test_what_a_crash_left_of_a_backup_is_swept(path: str, clock: Clock) -> None:
    with open_database(path, clock) as db:
        db.call("CreateTable", music())
        create(db)
        directory = Path(backup.of(db).directory)
        (directory / "00000000000001-aaaaaaaa.backup.partial").write_bytes(b"half")
        half = directory / "00000000000002-aaaaaaaa.backup.partial" / backup_tables.DATA
        half.mkdir(parents=True)
        (half / "MANIFEST").write_bytes(b"half")
    with open_database(path, clock) as db:
        assert len(db.call("ListBackups", {})["BackupSummaries"]) == 1
        assert len(os.listdir(directory)) == 1


def files_of(directory: Path) -> dict[int, Path]:
    return {file.stat().st_ino: file for file in directory.rglob("*.sst")}


def test_a_backup_links_to_the_files_of_the_table(path: str, clock: Clock) -> None:
    """No byte of the items is copied, nothing of another table is in it, and it stays as it is."""
    with open_database(path, clock) as db:
        db.call("CreateTable", music())
        db.call("CreateTable", music("Other"))
        for number in range(300):
            put(db, number)
        arn = create(db)
        made = Path(backup.of(db).path(arn.rpartition("/")[2]))
        linked = files_of(made)
        assert linked
        assert linked.keys() <= files_of(Path(path) / "data").keys()
        with backup_tables.open_backup(str(made)) as file:
            assert [entry for chunk in file.chunks() for entry in chunk] == list(
                db.catalog.get("Music").tree.cursor()
            )
            assert file.verify().items == 300
        for number in range(300):
            key = {"p": S(f"p{number % 3}"), "s": N(number)}
            db.call("DeleteItem", {"TableName": "Music", "Key": key})
        db.call("DeleteTable", {"TableName": "Music"})
        db.compact()
        db.call("RestoreTableFromBackup", {"TargetTableName": "Again", "BackupArn": arn})
        assert numbers(db, "Again") == list(range(300))
        db.call("DeleteBackup", {"BackupArn": arn})
        assert not made.exists()
        assert os.listdir(made.parent) == []


def test_an_empty_table_is_backed_up(db: Database) -> None:
    arn = create(db)
    restore(db, arn)
    assert scan(db, "Again") == []
    described = db.call("DescribeBackup", {"BackupArn": arn})["BackupDescription"]
    assert described["SourceTableDetails"]["ItemCount"] == 0


def test_backups_of_older_versions_are_read(db: Database) -> None:
    """They are one file (format-backup.md)."""
    for number in range(3):
        put(db, number)
    arn = create(db)
    made = Path(backup.of(db).path(arn.rpartition("/")[2]))
    with backup_tables.open_backup(str(made)) as file:
        description, chunks = file.description, list(file.chunks())
    shutil.rmtree(made)
    stored_size = db.catalog.get("Music").keys.stored_size
    backup_file.write(str(made), description, chunks, stored_size)
    backup.of(db)._known.clear()
    details = db.call("DescribeBackup", {"BackupArn": arn})["BackupDescription"]
    assert details["SourceTableDetails"]["ItemCount"] == 3
    restore(db, arn)
    assert numbers(db, "Again") == [0, 1, 2]
    db.call("DeleteBackup", {"BackupArn": arn})
    assert not made.exists()


# Restoring.


def restore(db: Database, arn: str, target: str = "Again", **call: Any) -> dict[str, Any]:
    request = {"TargetTableName": target, "BackupArn": arn, **call}
    described: dict[str, Any] = db.call("RestoreTableFromBackup", request)["TableDescription"]
    return described


def test_a_restored_table_has_the_items_of_the_moment(db: Database, clock: Clock) -> None:
    for number in range(20):
        put(db, number, l=S(f"l{number}"), data={"M": {"x": {"L": [N("1.50"), {"NULL": True}]}}})
    before = scan(db, "Music")
    arn = create(db)
    put(db, 99)
    db.call("DeleteItem", {"TableName": "Music", "Key": {"p": S("p0"), "s": N(0)}})
    clock.now += 5
    reply = restore(db, arn)
    assert reply["TableStatus"] == "CREATING"
    assert reply["RestoreSummary"]["RestoreInProgress"] is True
    described = db.call("DescribeTable", {"TableName": "Again"})["Table"]
    assert described["TableStatus"] == "ACTIVE"
    assert described["RestoreSummary"] == {
        "SourceBackupArn": arn,
        "SourceTableArn": f"{REGION}:table/Music",
        "RestoreDateTime": clock.now - 5,
        "RestoreInProgress": False,
    }
    assert described["TableId"] != db.catalog.get("Music").schema.id
    assert described["CreationDateTime"] == clock.now
    assert described["ItemCount"] == 20
    assert scan(db, "Again") == before
    # Both indexes have their entries, and go on being kept.
    assert numbers(db, "Again", IndexName="by-l") == list(range(20))
    put(db, 100, "Again", l=S("new"))
    assert numbers(db, "Again", IndexName="by-g")[-1] == 100
    for each in (described["LocalSecondaryIndexes"], described["GlobalSecondaryIndexes"]):
        assert each[0]["ItemCount"] == 20


def test_what_a_restored_table_does_not_have(db: Database) -> None:
    call = {
        "TableName": "Music",
        "TimeToLiveSpecification": {"Enabled": True, "AttributeName": "t"},
    }
    db.call("UpdateTimeToLive", call)
    stream = {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
    db.call("UpdateTable", {"TableName": "Music", "StreamSpecification": stream})
    arn = f"{REGION}:table/Music"
    db.call("TagResource", {"ResourceArn": arn, "Tags": [{"Key": "a", "Value": "b"}]})
    db.call("UpdateTable", {"TableName": "Music", "DeletionProtectionEnabled": True})
    enable(db)
    made = create(db)
    features = db.call("DescribeBackup", {"BackupArn": made})["BackupDescription"][
        "SourceTableFeatureDetails"
    ]
    assert features["TimeToLiveDescription"] == {
        "TimeToLiveStatus": "ENABLED",
        "AttributeName": "t",
    }
    assert features["StreamDescription"] == stream
    restore(db, made)
    described = db.call("DescribeTable", {"TableName": "Again"})["Table"]
    assert "StreamSpecification" not in described
    assert "LatestStreamArn" not in described
    assert described["DeletionProtectionEnabled"] is False
    assert db.call("ListTagsOfResource", {"ResourceArn": described["TableArn"]})["Tags"] == []
    ttl = db.call("DescribeTimeToLive", {"TableName": "Again"})["TimeToLiveDescription"]
    assert ttl == {"TimeToLiveStatus": "DISABLED"}
    assert recovery(db, "Again")["PointInTimeRecoveryStatus"] == "DISABLED"


def test_overrides(db: Database) -> None:
    put(db, 1, l=S("x"))
    arn = create(db)
    units = {"ReadCapacityUnits": 7, "WriteCapacityUnits": 8}
    restore(
        db,
        arn,
        "Less",
        BillingModeOverride="PROVISIONED",
        ProvisionedThroughputOverride=units,
        LocalSecondaryIndexOverride=[],
        GlobalSecondaryIndexOverride=[
            {**index("by-g", "g", projection="KEYS_ONLY"), "ProvisionedThroughput": units}
        ],
        SSESpecificationOverride={"Enabled": True, "SSEType": "KMS"},
    )
    described = db.call("DescribeTable", {"TableName": "Less"})["Table"]
    assert "LocalSecondaryIndexes" not in described
    assert {each["AttributeName"] for each in described["AttributeDefinitions"]} == {"p", "s", "g"}
    for each in (described, described["GlobalSecondaryIndexes"][0]):
        assert each["ProvisionedThroughput"]["WriteCapacityUnits"] == 8
    assert described["SSEDescription"]["Status"] == "ENABLED"
    assert "BillingModeSummary" not in described


def test_vector_indexes_are_restored(db: Database) -> None:
    definition = {
        "IndexName": "by-v",
        "VectorAttribute": {"AttributeName": "v"},
        "Dimensions": 2,
        "DistanceFunction": "COSINE",
        "Projection": {"ProjectionType": "ALL"},
    }
    db.call("CreateTable", table("Songs", "p s", "p:S s:N", VectorIndexes=[definition]))
    for number in range(4):
        put(db, number, "Songs", v={"L": [N(1), N(number)]})
    arn = create(db, TableName="Songs")
    described = db.call("DescribeBackup", {"BackupArn": arn})["BackupDescription"]
    assert described["SourceTableFeatureDetails"]["VectorIndexes"] == [definition]
    restore(db, arn)
    search = {"IndexName": "by-v", "SearchVector": [N(1), N(2)], "TopK": 4}
    found, wanted = (
        db.call("SearchVectors", {"TableName": name, **search})["SearchResults"]
        for name in ("Again", "Songs")
    )
    assert found == wanted
    assert len(found) == 4
    put(db, 9, "Again", v={"L": [N(1), N(2)]})
    best = db.call("SearchVectors", {"TableName": "Again", **search})["SearchResults"][0]
    assert best["Score"] == pytest.approx(0, abs=1e-6)
    restore(db, arn, "Less", VectorIndexOverride=[])
    assert "VectorIndexes" not in db.call("DescribeTable", {"TableName": "Less"})["Table"]
    call = {"TargetTableName": "More", "BackupArn": arn}
    other = {**definition, "Dimensions": 3}
    text = refused(db, "RestoreTableFromBackup", VectorIndexOverride=[other], **call)
    assert "Index by-v does not match a secondary index" in text
    units = {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}
    billing = {"BillingModeOverride": "PROVISIONED", "ProvisionedThroughputOverride": units}
    assert "PAY_PER_REQUEST" in refused(db, "RestoreTableFromBackup", **billing, **call)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            {"GlobalSecondaryIndexOverride": [index("by-x", "g")]},
            "Index by-x does not match a secondary index that existed in the source table",
        ),
        # Another projection is another index.
        (
            {"GlobalSecondaryIndexOverride": [index("by-g", "g")]},
            "Index by-g does not match",
        ),
        (
            {
                "BillingModeOverride": "PAY_PER_REQUEST",
                "ProvisionedThroughputOverride": {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1},
            },
            "Cannot override ProvisionedThroughput if BillingMode is overridden to PAY_PER_REQUEST",
        ),
        (
            {"BillingModeOverride": "PROVISIONED"},
            "Must override ProvisionedThroughput if BillingMode is overridden to PROVISIONED",
        ),
    ],
)
def test_overrides_that_do_not_fit(db: Database, call: dict[str, Any], text: str) -> None:
    arn = create(db)
    call = {"TargetTableName": "Again", "BackupArn": arn, **call}
    assert text in refused(db, "RestoreTableFromBackup", **call)
    assert db.call("ListTables", {})["TableNames"] == ["Music"]


def test_restoring_over_a_table(db: Database) -> None:
    call = {"TargetTableName": "Music", "BackupArn": create(db)}
    text = refused(db, "RestoreTableFromBackup", "TableAlreadyExistsException", **call)
    assert text == "Table already exists: Music"


def test_while_a_restore_is_running(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is taken and described, the source stays, and a second one is refused."""
    put(db, 1)
    enable(db)
    arn = create(db)
    seen: dict[str, Any] = {}
    real = pitr.build

    def build(*arguments: Any) -> None:
        seen["table"] = db.call("DescribeTable", {"TableName": "Again"})["Table"]
        seen["names"] = db.call("ListTables", {})["TableNames"]
        call = {"TargetTableName": "Again", "BackupArn": arn}
        seen["second"] = refused(db, "RestoreTableFromBackup", "TableInUseException", **call)
        seen["create"] = refused(db, "CreateTable", "ResourceInUseException", **music("Again"))
        seen["read"] = refused(
            db, "GetItem", "ResourceNotFoundException", TableName="Again", Key={"p": S("p")}
        )
        seen["delete"] = refused(db, "DeleteTable", "ResourceInUseException", TableName="Again")
        seen["source"] = refused(db, "DeleteTable", "ResourceInUseException", TableName="Music")
        real(*arguments)

    monkeypatch.setattr(pitr, "build", build)
    restore_to(db, UseLatestRestorableTime=True)
    assert seen["table"]["TableStatus"] == "CREATING"
    assert seen["table"]["RestoreSummary"]["RestoreInProgress"] is True
    assert seen["names"] == ["Again", "Music"]
    for each in ("second", "create", "delete"):
        assert "Table is being created: Again" in seen[each]
    assert "Table is being used: Music" in seen["source"]
    assert numbers(db, "Again") == [1]


def test_a_restore_that_fails_leaves_nothing(db: Database) -> None:
    put(db, 1)
    arn = create(db)
    made = Path(backup.of(db).path(arn.rpartition("/")[2]))
    (file,) = made.rglob("*.sst")
    content = bytearray(file.read_bytes())
    content[20] ^= 1  # of the only block of items
    file.unlink()  # it is the table's own file as well
    file.write_bytes(bytes(content))
    with backup_tables.open_backup(str(made)) as opened, pytest.raises(errors.CorruptionError):
        opened.verify()
    trees = set(db.engine.tree_names())
    with pytest.raises(errors.CorruptionError):
        restore(db, arn)
    assert set(db.engine.tree_names()) == trees
    assert db.call("ListTables", {})["TableNames"] == ["Music"]
    db.call("CreateTable", music("Again"))


# Point-in-time recovery.


def enable(db: Database, name: str = "Music", **specification: Any) -> dict[str, Any]:
    wanted = {"PointInTimeRecoveryEnabled": True, **specification}
    call = {"TableName": name, "PointInTimeRecoverySpecification": wanted}
    described: dict[str, Any] = db.call("UpdateContinuousBackups", call)
    return described["ContinuousBackupsDescription"]["PointInTimeRecoveryDescription"]


def recovery(db: Database, name: str = "Music") -> dict[str, Any]:
    reply = db.call("DescribeContinuousBackups", {"TableName": name})
    described: dict[str, Any] = reply["ContinuousBackupsDescription"]
    recovery_described: dict[str, Any] = described["PointInTimeRecoveryDescription"]
    status = recovery_described["PointInTimeRecoveryStatus"]
    assert described["ContinuousBackupsStatus"] == status  # what there is to restore
    return recovery_described


def restore_to(db: Database, target: str = "Again", **call: Any) -> dict[str, Any]:
    request = {"SourceTableName": "Music", "TargetTableName": target, **call}
    described: dict[str, Any] = db.call("RestoreTableToPointInTime", request)["TableDescription"]
    return described


def test_recovery_is_described(db: Database, clock: Clock) -> None:
    assert recovery(db) == {"PointInTimeRecoveryStatus": "DISABLED"}
    enable(db)
    clock.now += 100
    assert recovery(db) == {
        "PointInTimeRecoveryStatus": "ENABLED",
        "RecoveryPeriodInDays": 35,
        "EarliestRestorableDateTime": 1_700_000_001.0,
        "LatestRestorableDateTime": clock.now,
    }
    assert enable(db, RecoveryPeriodInDays=2)["RecoveryPeriodInDays"] == 2
    clock.now += 3 * 86_400
    assert recovery(db)["EarliestRestorableDateTime"] == clock.now - 2 * 86_400
    text = refused(
        db,
        "UpdateContinuousBackups",
        TableName="Music",
        PointInTimeRecoverySpecification={
            "PointInTimeRecoveryEnabled": False,
            "RecoveryPeriodInDays": 2,
        },
    )
    assert text.startswith("Invalid Request: Cannot specify RecoveryPeriodInDays when disabling")
    enable(db, PointInTimeRecoveryEnabled=False)
    assert recovery(db) == {"PointInTimeRecoveryStatus": "DISABLED"}
    # Turned on again, it begins anew.
    enable(db)
    assert recovery(db)["EarliestRestorableDateTime"] >= clock.now
    refused(db, "DescribeContinuousBackups", "TableNotFoundException", TableName="Nope")


def test_any_moment_can_be_restored(db: Database, clock: Clock) -> None:
    put(db, 0)
    enable(db)
    states = {}
    for step in range(1, 6):
        clock.now += 1
        put(db, step, l=S("x"))
        if step % 2:
            key = {"p": S(f"p{(step - 1) % 3}"), "s": N(step - 1)}
            db.call("DeleteItem", {"TableName": "Music", "Key": key})
        states[clock.now] = scan(db, "Music")
    clock.now += 1
    for number, (moment, state) in enumerate(states.items()):
        target = f"Again{number}"
        reply = restore_to(db, target, RestoreDateTime=moment)
        assert reply["RestoreSummary"]["RestoreDateTime"] == moment
        assert "SourceBackupArn" not in reply["RestoreSummary"]
        assert scan(db, target) == state
        # The indexes are those of that moment too.
        assert numbers(db, target, IndexName="by-l") == [
            int(item["s"]["N"]) for item in state if "l" in item
        ]
    # Between two changes the first of them has happened.
    restore_to(db, "Between", RestoreDateTime=clock.now - 1.5)
    assert scan(db, "Between") == list(states.values())[-2]
    restore_to(db, "Latest", UseLatestRestorableTime=True)
    assert scan(db, "Latest") == list(states.values())[-1]


def test_moments_outside_the_window(db: Database, clock: Clock) -> None:
    text = refused(
        db,
        "RestoreTableToPointInTime",
        "PointInTimeRecoveryUnavailableException",
        SourceTableName="Music",
        TargetTableName="Again",
        UseLatestRestorableTime=True,
    )
    assert text == "Point in time recovery is not enabled for table 'Music'"
    enable(db)
    for moment in (clock.now - 2, clock.now + 2):
        refused(
            db,
            "RestoreTableToPointInTime",
            "InvalidRestoreTimeException",
            SourceTableName="Music",
            TargetTableName="Again",
            RestoreDateTime=moment,
        )
    both = {"RestoreDateTime": clock.now, "UseLatestRestorableTime": True}
    for call in (both, {}):
        text = refused(
            db,
            "RestoreTableToPointInTime",
            SourceTableName="Music",
            TargetTableName="Again",
            **call,
        )
        assert "Either one of RestoreDateTime or UseLatestRestorableTime" in text
    text = refused(db, "RestoreTableToPointInTime", TargetTableName="Again")
    assert text == "Must provide exactly one of: sourceTableArn, sourceTableName"


def test_a_restore_by_arn_and_datetime(db: Database, clock: Clock) -> None:
    enable(db)
    put(db, 1)
    clock.now += 10
    call = {
        "SourceTableArn": f"{REGION}:table/Music",
        "TargetTableName": "Again",
        "RestoreDateTime": datetime.fromtimestamp(clock.now - 5, UTC),
    }
    db.call("RestoreTableToPointInTime", call)
    assert numbers(db, "Again") == [1]


def test_a_transaction_is_restored_whole(db: Database, clock: Clock) -> None:
    """All its changes have one time, even when the clock moves on between them."""
    enable(db)

    def ticking() -> float:
        clock.now += 0.01
        return clock.now

    db.writes._clock = ticking
    clock.now += 1
    actions = [
        {"Put": {"TableName": "Music", "Item": {"p": S(f"t{number}"), "s": N(number)}}}
        for number in range(10)
    ]
    db.call("TransactWriteItems", {"TransactItems": actions})
    began = clock.now
    clock.now += 1
    restore_to(db, "Before", RestoreDateTime=began - 0.02)
    restore_to(db, "After", RestoreDateTime=began)
    assert (len(scan(db, "Before")), len(scan(db, "After"))) == (0, 10)


def test_streams_come_and_go_beneath_recovery(db: Database, clock: Clock) -> None:
    """Changes go from the hidden changelog to that of the stream and back; none is lost."""
    enable(db)
    for step, change in enumerate(
        [None, {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}, {"StreamEnabled": False}]
    ):
        clock.now += 1
        if change:
            db.call("UpdateTable", {"TableName": "Music", "StreamSpecification": change})
        put(db, step)
    state = scan(db, "Music")
    clock.now += 1
    put(db, 50)
    restore_to(db, "Again", RestoreDateTime=clock.now - 1)
    assert scan(db, "Again") == state


def test_bases_follow_when_much_has_changed(db: Database, clock: Clock) -> None:
    handle = db.catalog.get("Music")
    enable(db)

    def bases() -> list[int]:
        pitr.maintain(db)
        pitr._state(db).wait(handle.schema.id, 60)
        return [base.seqno for base in pitr.bases(db.catalog, handle.schema.id)]

    first = bases()
    assert len(first) == 1
    clock.now += 2 * 86_400
    assert bases() == first  # nothing has changed
    for round_ in range(8):
        for number in range(5):
            put(db, number, data=S(f"{round_}" * 500))
    db.flush()
    clock.now += 1
    assert len(bases()) == 2
    put(db, 77)
    clock.now += 1
    # Both sides of the second base can be reached.
    restore_to(db, "Old", RestoreDateTime=clock.now - 2)
    restore_to(db, "New", RestoreDateTime=clock.now - 1)
    assert numbers(db, "Old")[-1] == 4
    assert numbers(db, "New")[-1] == 77
    # The first one goes only when the second is older than the window.
    clock.now += 34 * 86_400
    assert len(bases()) == 2
    clock.now += 2 * 86_400
    assert bases() != first
    assert len(os.listdir(pitr._directory(db, handle.schema.id))) == 1


def test_the_changelog_is_kept_back_to_the_oldest_base(db: Database, clock: Clock) -> None:
    enable(db, RecoveryPeriodInDays=1)
    put(db, 1)
    clock.now += 5 * 86_400
    streams.trim(db.catalog)
    put(db, 2)
    streams.trim(db.catalog)
    # There is but one base, five days old; the state of now rests on the change of then.
    restore_to(db, UseLatestRestorableTime=True)
    assert numbers(db, "Again") == [1, 2]


def test_recovery_survives_a_restart(path: str, clock: Clock) -> None:
    with open_database(path, clock) as db:
        db.call("CreateTable", music())
        put(db, 1)
        enable(db)
        clock.now += 1
        put(db, 2)
        moment = clock.now
    clock.now += 1
    with open_database(path, clock) as db:
        put(db, 3)
        restore_to(db, RestoreDateTime=moment)
        assert numbers(db, "Again") == [1, 2]


def test_a_missing_first_base_is_made_at_the_next_open(path: str, clock: Clock) -> None:
    with open_database(path, clock) as db:
        db.call("CreateTable", music())
        enable(db)
        handle = db.catalog.get("Music")
        # As a crash just before the record leaves it.
        db.catalog.write("pitr", f"{handle.schema.id}/bases", None)
        stray = Path(pitr._directory(db, handle.schema.id))
    clock.now += 10
    with open_database(path, clock) as db:
        pitr._state(db).wait(handle.schema.id, 60)
        assert recovery(db)["EarliestRestorableDateTime"] >= clock.now
        assert len(list(stray.iterdir())) == 1


def test_a_copy_without_the_bases_begins_anew(path: str, clock: Clock) -> None:
    """As a checkpoint has it: the catalog knows of bases, and the files are elsewhere."""
    with open_database(path, clock) as db:
        db.call("CreateTable", music())
        put(db, 1)
        enable(db)
    shutil.rmtree(os.path.join(path, "backups"))
    clock.now += 10
    with open_database(path, clock) as db:
        pitr._state(db).wait(db.catalog.get("Music").schema.id, 60)
        assert recovery(db)["EarliestRestorableDateTime"] >= clock.now
        restore_to(db, UseLatestRestorableTime=True)
        assert numbers(db, "Again") == [1]


def test_a_read_only_database_lists_but_makes_no_backups(path: str, clock: Clock) -> None:
    with open_database(path, clock) as db:
        db.call("CreateTable", music())
        arn = create(db)
        with open_database(path, clock, read_only=True) as reader:
            (summary,) = reader.call("ListBackups", {})["BackupSummaries"]
            assert summary["BackupArn"] == arn
            # What the writer makes and deletes is seen.
            other = create(db)
            assert len(reader.call("ListBackups", {})["BackupSummaries"]) == 2
            db.call("DeleteBackup", {"BackupArn": other})
            refused(reader, "DescribeBackup", "BackupNotFoundException", BackupArn=other)
            for operation, call in (
                ("CreateBackup", {"TableName": "Music", "BackupName": "nightly"}),
                ("DeleteBackup", {"BackupArn": arn}),
                ("RestoreTableFromBackup", {"TargetTableName": "Again", "BackupArn": arn}),
            ):
                with pytest.raises(errors.ReadOnlyError):
                    reader.call(operation, call)


def test_deleting_a_recoverable_table_leaves_a_system_backup(db: Database, clock: Clock) -> None:
    put(db, 1)
    enable(db)
    put(db, 2)
    handle = db.catalog.get("Music")
    db.call("DeleteTable", {"TableName": "Music"})
    (summary,) = db.call("ListBackups", {"BackupType": "SYSTEM"})["BackupSummaries"]
    assert summary["BackupName"] == "Music$DeletedTableBackup"
    assert summary["BackupType"] == "SYSTEM"
    assert summary["BackupExpiryDateTime"] == clock.now + 35 * 86_400
    assert not os.path.exists(pitr._directory(db, handle.schema.id))
    arn = summary["BackupArn"]
    text = refused(db, "DeleteBackup", BackupArn=arn)
    assert text.startswith("Invalid Request: User is not allowed to delete the system backup")
    restore(db, arn, "Music")
    assert numbers(db, "Music") == [1, 2]
    clock.now += 36 * 86_400
    backup.of(db).sweep()
    assert db.call("ListBackups", {"BackupType": "ALL"})["BackupSummaries"] == []


def test_through_boto3(db: Database, clock: Clock) -> None:
    client = dynalsm.boto3_session(db).client("dynamodb")
    client.put_item(TableName="Music", Item={"p": S("p1"), "s": N(1)})
    arn = client.create_backup(TableName="Music", BackupName="nightly")["BackupDetails"][
        "BackupArn"
    ]
    client.restore_table_from_backup(TargetTableName="Again", BackupArn=arn)
    client.get_waiter("table_exists").wait(TableName="Again")
    assert client.scan(TableName="Again")["Count"] == 1
    pages = client.get_paginator("list_backups").paginate(TableName="Music")
    (summary,) = pages.build_full_result()["BackupSummaries"]
    assert summary["BackupCreationDateTime"].timestamp() == pytest.approx(clock.now, abs=1)
    client.update_continuous_backups(
        TableName="Music", PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
    )
    clock.now += 5
    described = client.describe_continuous_backups(TableName="Music")
    window = described["ContinuousBackupsDescription"]["PointInTimeRecoveryDescription"]
    # What a client is told, it can say back, although it says whole seconds only.
    for number, member in enumerate(("EarliestRestorableDateTime", "LatestRestorableDateTime")):
        client.restore_table_to_point_in_time(
            SourceTableName="Music",
            TargetTableName=f"Again{number}",
            RestoreDateTime=window[member],
        )
        assert client.scan(TableName=f"Again{number}")["Count"] == 1
    with pytest.raises(client.exceptions.BackupNotFoundException):
        client.delete_backup(BackupArn=f"{REGION}:table/Music/backup/01489602797149-73d8d5bc")
