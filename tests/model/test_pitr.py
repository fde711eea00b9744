"""Moments of a table: random changes, any of them restored; backups while transactions run."""

from __future__ import annotations

import errno
import random
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

import dynalsm
from dynalsm import errors
from dynalsm._core import files
from dynalsm.database import Database
from dynalsm.model import backup, new_tables, pitr
from dynalsm.model.backup_tables import open_backup
from tests.api.test_backups import Clock, enable, open_database, restore_to
from tests.support.store import N, S, table

STEPS = 150


def contents(tree: Any, snapshot: Any = None) -> dict[bytes, bytes]:
    return dict(tree.cursor(snapshot=snapshot))


def change(db: Database, chance: random.Random) -> None:
    """Change an item or three, or what is recorded of changes."""
    kind = chance.randrange(12)
    key = {"p": S(f"p{chance.randrange(4)}"), "s": N(chance.randrange(8))}
    if kind < 6:
        item = {**key, "n": N(chance.randrange(3))}
        db.call("PutItem", {"TableName": "Music", "Item": item})
    elif kind < 9:
        db.call("DeleteItem", {"TableName": "Music", "Key": key})
    elif kind == 9:
        items = [{**key, "s": N(number), "n": N(9)} for number in range(3)]
        actions = [{"Put": {"TableName": "Music", "Item": item}} for item in items]
        db.call("TransactWriteItems", {"TransactItems": actions})
    elif kind == 10:
        wanted: dict[str, Any] = {"StreamEnabled": chance.random() < 0.5}
        if wanted["StreamEnabled"]:
            wanted["StreamViewType"] = chance.choice(["KEYS_ONLY", "NEW_IMAGE"])
        try:
            db.call("UpdateTable", {"TableName": "Music", "StreamSpecification": wanted})
        except errors.ApiError:
            pass  # it is what was asked for already
    else:
        pitr.make_base(db, db.catalog.get("Music"))


@pytest.mark.parametrize("seed", [1, 2])
def test_every_moment_and_every_number_can_be_restored(tmp_path: Path, seed: int) -> None:
    chance, clock = random.Random(seed), Clock()
    with open_database(str(tmp_path / "db"), clock) as db:
        db.call("CreateTable", table("Music", "p s", "p:S s:N"))
        for _ in range(5):
            change(db, chance)
        enable(db)
        handle = db.catalog.get("Music")
        # By the millisecond, which is all that a change knows.
        by_time: dict[int, dict[bytes, bytes]] = {}
        by_number: dict[int, dict[bytes, bytes]] = {}
        for step in range(STEPS):
            if chance.random() < 0.5:
                clock.now += chance.choice([0.001, 1, 30])
            change(db, chance)
            if step == STEPS // 2:
                db.flush()
            state = contents(handle.tree)
            by_time[int(clock.now * 1000)] = by_number[db.engine.last_seqno] = state
        clock.now += 1
        for millisecond in chance.sample(sorted(by_time), 25):
            seqno = pitr.seqno_at(db, handle, (millisecond + 0.5) / 1000)
            assert built(db, seqno) == by_time[millisecond], millisecond
        for seqno in chance.sample(sorted(by_number), 25):
            assert built(db, seqno) == by_number[seqno], seqno


def built(db: Database, seqno: int) -> dict[bytes, bytes]:
    handle = db.catalog.get("Music")
    with new_tables.ScratchTree(db.engine) as scratch:
        pitr.build(db, handle, scratch, seqno)
        return contents(scratch.tree)


def test_backups_and_moments_are_consistent_while_transactions_run(tmp_path: Path) -> None:
    """Two items change together, always; no backup and no moment shows them apart."""
    with dynalsm.open(tmp_path / "db", durability="os", job_wait_seconds=60.0) as db:
        db.call("CreateTable", table("Music", "p s", "p:S s:N"))
        enable(db)
        stop = threading.Event()

        def run() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                actions = [
                    {
                        "Put": {
                            "TableName": "Music",
                            "Item": {"p": S(name), "s": N(1), "n": N(number)},
                        }
                    }
                    for name in ("left", "right")
                ]
                db.call("TransactWriteItems", {"TransactItems": actions})

        writer = threading.Thread(target=run)
        writer.start()
        arns, targets = [], []
        for _ in range(2):
            call = {"TableName": "Music", "BackupName": "running"}
            arns.append(db.call("CreateBackup", call)["BackupDetails"]["BackupArn"])
            targets.append(f"t{uuid.uuid4().hex}")
            restore_to(db, targets[-1], UseLatestRestorableTime=True)
        stop.set()
        writer.join()
        for arn in arns:
            targets.append(f"t{uuid.uuid4().hex}")
            call = {"TargetTableName": targets[-1], "BackupArn": arn}
            db.call("RestoreTableFromBackup", call)
        for target in targets:
            found = db.call("Scan", {"TableName": target})["Items"]
            assert len({item["n"]["N"] for item in found}) <= 1
            assert len(found) in (0, 2)


def test_a_full_disk_leaves_no_backup(tmp_path: Path) -> None:
    with open_database(str(tmp_path / "db"), Clock()) as db:
        db.call("CreateTable", table("Music", "p", "p:S"))
        db.call("PutItem", {"TableName": "Music", "Item": {"p": S("x")}})
        call = {"TableName": "Music", "BackupName": "nightly"}
        db.call("CreateBackup", call)
        directory = backup.of(db).directory
        for operation in ("open", "write", "sync", "rename"):
            files.set_fault(operation, 1, errno.ENOSPC, path=directory)
            try:
                with pytest.raises(errors.StorageError):
                    db.call("CreateBackup", call)
            finally:
                files.clear_fault()
            assert len(list(Path(directory).iterdir())) == 1
            assert len(db.call("ListBackups", {})["BackupSummaries"]) == 1
        # The database itself goes on.
        db.call("PutItem", {"TableName": "Music", "Item": {"p": S("y")}})
        arn = db.call("CreateBackup", call)["BackupDetails"]["BackupArn"]
        with open_backup(backup.of(db).path(arn.rpartition("/")[2])) as file:
            assert file.verify().items == 2
