"""kill -9 during restores, imports, exports, bulk puts, backups: all are whole after the next open.

A child process starts one after another until it is killed. Then the database is opened here, what
was cut off goes on by itself, and every table that was being made must hold what it was made of.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import dynalsm
from dynalsm.model import (
    backup,
    backup_file,
    backup_tables,
    bulk,
    exports,
    imports,
    jobs,
    pitr,
    restore,
)
from tests.crash.test_control_plane import check
from tests.support.store import N, S, index, table

ROUNDS = 5
ITEMS = 400
ROOT = Path(__file__).resolve().parents[2]
MADE = ("restored", "recovered", "imported")
MUSIC = "arn:aws:dynamodb:us-east-1:123456789012:table/Music"

CHILD = """
import random, sys
import dynalsm
from tests.crash.test_restore import change
db = dynalsm.open(sys.argv[1], durability="os", bucket_root=sys.argv[2], job_wait_seconds=0.02)
chance = random.Random(int(sys.argv[3]))
print("ready", flush=True)
while True:
    change(db, chance)
"""


def change(db: Any, chance: random.Random) -> None:
    """Start one piece of work; some of them overlap."""
    try:
        (arn,) = (each.arn for each in backup.of(db).all() if each.name == "whole")
        kind = chance.randrange(8)
        if kind == 0:
            call = {"TargetTableName": "restored", "BackupArn": arn}
            db.call("RestoreTableFromBackup", call)
        elif kind == 1:
            call = {
                "SourceTableName": "Music",
                "TargetTableName": "recovered",
                "UseLatestRestorableTime": True,
            }
            db.call("RestoreTableToPointInTime", call)
        elif kind == 2:
            db.call("ImportTable", importing())
        elif kind == 3:
            db.call("StartBulkPutItems", bulk_put())
        elif kind == 4:
            call = {"TableArn": MUSIC, "S3Bucket": "out", "S3Prefix": "more"}
            db.call("ExportTableToPointInTime", call)
        elif kind == 5:
            db.call("CreateBackup", {"TableName": "Music", "BackupName": "another"})
        else:
            db.call("DeleteTable", {"TableName": chance.choice(MADE)})
    except dynalsm.errors.ApiError:
        pass  # the table is (not) there, or something is going on already


def importing() -> dict[str, Any]:
    return {
        "S3BucketSource": {"S3Bucket": "out", "S3KeyPrefix": "first"},
        "InputFormat": "DYNAMODB_JSON",
        "InputCompressionType": "GZIP",
        "TableCreationParameters": creation("imported"),
    }


def bulk_put() -> dict[str, Any]:
    return {
        "TableName": "Other",
        "InputS3Configuration": {
            "S3Bucket": "out",
            "S3KeyPrefix": "bulk",
            "InputFormat": "DYNAMODB_JSON",
        },
        "OutputS3Configuration": {"S3Bucket": "out", "OutputType": ["ERROR"]},
    }


def creation(name: str) -> dict[str, Any]:
    indexes = [index("by-g", "g")]
    return table(name, "p s", "p:S s:N g:S", GlobalSecondaryIndexes=indexes)


def prepare(path: str, buckets: Path) -> None:
    """Make the source table, its backup, an export of it, and a file for bulk puts."""
    (buckets / "out").mkdir(parents=True)
    with dynalsm.open(path, durability="os", bucket_root=str(buckets)) as db:
        for name in ("Music", "Other"):
            db.call("CreateTable", creation(name))
        specification = {"PointInTimeRecoveryEnabled": True}
        call = {"TableName": "Music", "PointInTimeRecoverySpecification": specification}
        db.call("UpdateContinuousBackups", call)
        items = [
            {"p": S(f"p{number % 7}"), "s": N(number), "g": S(f"g{number % 5}")}
            for number in range(ITEMS)
        ]
        for item in items:
            db.call("PutItem", {"TableName": "Music", "Item": item})
        db.call("CreateBackup", {"TableName": "Music", "BackupName": "whole"})
        call = {"TableArn": MUSIC, "S3Bucket": "out", "S3Prefix": "first"}
        db.call("ExportTableToPointInTime", call)
    lines = (json.dumps({"Item": item}) + "\n" for item in items)
    (buckets / "out" / "bulk").write_text("".join(lines))


def finish(db: Any) -> None:
    """Wait for what goes on by itself."""
    for job in list(jobs.of(db)._running.values()):
        assert job.done.wait(60)


def check_made(db: Any, buckets: Path) -> None:
    """Everything that was being made is whole, or was never begun."""
    assert db.catalog.pending == {}
    whole = dict(db.catalog.get("Music").tree.cursor())
    assert len(whole) == ITEMS
    for name in MADE:
        handle = db.catalog.get(name)
        assert handle is None or dict(handle.tree.cursor()) == whole, name
    assert list(db.catalog.records(restore.KIND.name)) == []
    assert list(db.catalog.records(bulk.PROGRESS)) == []
    for kind in (imports.KIND, exports.KIND, bulk.KIND):
        for _, record in jobs.of(db).records(kind):
            assert record["status"] == "COMPLETED", record
            if kind is bulk.KIND:
                assert record["processed"] == ITEMS
            if kind is exports.KIND:
                assert record["items"] == ITEMS
                assert (buckets / "out" / record["manifest"]).exists()
    for each in backup.of(db).all():
        with backup_tables.open_backup(backup.of(db).path(each.id)) as file:
            assert file.verify().items == ITEMS
            assert sum(map(len, file.chunks())) == ITEMS
    for base in pitr.bases(db.catalog, db.catalog.get("Music").schema.id):
        path = pitr._base_path(db, db.catalog.get("Music").schema.id, base)
        backup_file.BackupFile(path).verify()
    walk = os.walk(backup.of(db).directory)
    left = [name for _, directories, names in walk for name in directories + names]
    assert not any(name.endswith(backup_file.PARTIAL_SUFFIX) for name in left)


@pytest.mark.parametrize("seed", [1])
def test_killed_while_tables_are_made(tmp_path: Path, seed: int) -> None:
    path, buckets = str(tmp_path / "db"), tmp_path / "buckets"
    prepare(path, buckets)
    chance = random.Random(seed)
    for round_ in range(ROUNDS):
        arguments = [sys.executable, "-c", CHILD, path, str(buckets), str(seed * 100 + round_)]
        with subprocess.Popen(
            arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            if child.stdout.readline() != "ready\n":
                pytest.fail(child.stderr.read())
            time.sleep(chance.uniform(0.05, 0.5))
            child.kill()
            complaints = child.stderr.read()
            assert complaints == "", complaints
        with dynalsm.open(path, bucket_root=str(buckets), durability="os") as db:
            finish(db)
            check(db)
            check_made(db, buckets)


@pytest.mark.parametrize("source", ["backup", "recovery", "import"])
def test_a_table_cut_off_halfway_is_made_again(
    tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a kill in the middle leaves it: half of the items in a tree that no record names."""
    path, buckets = str(tmp_path / "db"), tmp_path / "buckets"
    prepare(path, buckets)
    target = {"backup": "restored", "recovery": "recovered", "import": "imported"}[source]
    with monkeypatch.context() as patch:

        def stop(self: Any, schema: Any) -> None:
            raise backup_file.Stopped

        # The table is filled, but neither published nor dropped.
        patch.setattr("dynalsm.model.new_tables.NewTable.publish", stop)
        patch.setattr("dynalsm.model.new_tables.NewTable.abandon", lambda self: None)
        with dynalsm.open(path, bucket_root=str(buckets), durability="os") as db:
            (arn,) = (each.arn for each in backup.of(db).all())
            calls = {
                "backup": ("RestoreTableFromBackup", {"BackupArn": arn}),
                "recovery": (
                    "RestoreTableToPointInTime",
                    {"SourceTableName": "Music", "UseLatestRestorableTime": True},
                ),
            }
            if source == "import":
                db.call("ImportTable", importing())
            else:
                operation, call = calls[source]
                db.call(operation, {"TargetTableName": target, **call})
            assert db.catalog.get(target) is None
            trees = set(db.engine.tree_names())
    with dynalsm.open(path, bucket_root=str(buckets), durability="os") as db:
        assert target in db.call("ListTables", {})["TableNames"]
        finish(db)
        check(db)
        check_made(db, buckets)
        assert db.catalog.get(target) is not None
        assert len(db.engine.tree_names()) == len(trees)
