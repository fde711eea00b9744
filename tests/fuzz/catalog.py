"""Records of the model that hold nonsense: catalog, statistics, jobs, tokens, items, changes.

An input is a msgpack list of [tree, key, value or nil]: what is written over entries of a small
database, below the model. Opening the database and using what it has must work or end in a typed
error. What fails in the background may be logged.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgpack

import dynalsm
from dynalsm import errors
from dynalsm._core import Engine
from tests.fuzz.loop import told
from tests.fuzz.mutate import mutate
from tests.fuzz.storage import change_packed
from tests.support.store import N, S, Store, index, table

ENGINE_OPTIONS: dict[str, Any] = {"durability": "os", "background": False, "memory_bytes": 16 << 20}
Entry = tuple[str, bytes, bytes | None]
CATALOG = "catalog"
# Maps without a declared shape: what is in them is only damaged as a whole.
SHAPELESS = (b"export", b"restore", b"import", b"bulk", b"pitr", b"kinesis")
MOMENT = 1_700_000_000.0


class Catalog:
    """See the module's docstring."""

    name = "catalog"
    may_log = True
    has_state = False

    def __init__(self, work: Path) -> None:
        self.path = work / "database"
        self.sample = work / "sample"
        self.buckets = work / "buckets"
        (self.buckets / "in").mkdir(parents=True)
        self.fill()
        self.entries = self.all_entries()
        self.by_tree = {
            name: [each for each in self.entries if each[0] == name]
            for name in {each[0] for each in self.entries}
        }

    def open(self, path: Path) -> dynalsm.Database:
        return dynalsm.open(
            path, durability="os", memory_bytes=16 << 20, bucket_root=str(self.buckets),
            clock=lambda: MOMENT,
        )  # fmt: skip

    def fill(self) -> None:
        """A table with everything that leaves records."""
        with self.open(self.sample) as database:
            store = Store.__new__(Store)
            store.database = database
            store("CreateTable", **table(
                "items", "p s", "p:S s:N l:S g:S",
                LocalSecondaryIndexes=[index("by-l", "p", "l")],
                GlobalSecondaryIndexes=[index("by-g", "g", projection="INCLUDE", include=["a"])],
                StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
                Tags=[{"Key": "k", "Value": "v"}],
            ))  # fmt: skip
            store("UpdateTimeToLive", TableName="items", TimeToLiveSpecification={
                "Enabled": True, "AttributeName": "ttl"})  # fmt: skip
            recovery = {"PointInTimeRecoveryEnabled": True}
            store(
                "UpdateContinuousBackups",
                TableName="items",
                PointInTimeRecoverySpecification=recovery,
            )
            for number in range(12):
                store.put("items", p=S("ab"[number % 2]), s=N(number), l=S("l"), g=S("g"), a=N(1))
            store("DeleteItem", TableName="items", Key={"p": S("a"), "s": N(0)})
            arn = store("DescribeTable", TableName="items")["Table"]["TableArn"]
            self.exported = store("ExportTableToPointInTime", TableArn=arn, S3Bucket="in")
            store(
                "TransactWriteItems", ClientRequestToken="token",
                TransactItems=[{"Put": {"TableName": "items", "Item": {"p": S("c"), "s": N(1)}}}],
            )  # fmt: skip
            self.stream = store("ListStreams")["Streams"][0]["StreamArn"]
            self.export = self.exported["ExportDescription"]["ExportArn"]

    def all_entries(self) -> list[Entry]:
        engine = Engine.open(str(self.sample), **ENGINE_OPTIONS)
        found = [
            (name, key, value)
            for name in engine.tree_names()
            for key, value in engine.tree(name).cursor()
        ]
        engine.close()
        return found

    # --- making inputs ------------------------------------------------------------------------

    def seeds(self) -> list[bytes]:
        return [msgpack.packb([])]

    def make(self, rng: random.Random, kept: Sequence[bytes]) -> bytes:
        changed = []
        for _ in range(rng.choice([1, 1, 2])):
            name = CATALOG if rng.random() < 0.6 else rng.choice(list(self.by_tree))
            changed.append(self.changed(rng, *rng.choice(self.by_tree[name])))
        return bytes(msgpack.packb(changed))

    def changed(self, rng: random.Random, tree: str, key: bytes, value: bytes | None) -> Entry:
        assert value is not None
        way = rng.random()
        if way < 0.08:
            return tree, key, None
        if way < 0.16:
            return tree, mutate(rng, key) or b"x", value
        is_record = tree == CATALOG and key.partition(b"\0")[0] not in SHAPELESS
        if is_record or (tree != CATALOG and way < 0.5):
            return tree, key, change_packed(rng, value)
        return tree, key, mutate(rng, value)

    # --- running them -------------------------------------------------------------------------

    def run(self, data: bytes) -> str:
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.copytree(self.sample, self.path)
        engine = Engine.open(str(self.path), **ENGINE_OPTIONS)
        for tree, key, value in msgpack.unpackb(data):
            if value is None:
                engine.tree(tree).delete(key)
            else:
                engine.tree(tree).put(key, value)
        engine.close()
        try:
            with self.open(self.path) as database:
                return self.use(database)
        except errors.Error as error:
            return f"open: {told(error)}"

    def use(self, database: dynalsm.Database) -> str:
        """Do something with everything; the first error is the outcome."""
        outcome = "fine"
        for step in self.steps(database):
            try:
                step()
            except errors.Error as error:
                assert str(error)
                if outcome == "fine":
                    outcome = told(error)
        return outcome

    def steps(self, database: dynalsm.Database) -> list[Callable[[], Any]]:
        def call(operation: str, **request: Any) -> Callable[[], Any]:
            return lambda: database.call(operation, request)

        values = {":p": S("a")}
        query = {"KeyConditionExpression": "p = :p", "ExpressionAttributeValues": values}
        by_g = {"KeyConditionExpression": "g = :p", "ExpressionAttributeValues": {":p": S("g")}}
        key = {"p": S("a"), "s": N(2)}
        action = {"Put": {"TableName": "items", "Item": {"p": S("c"), "s": N(1)}}}
        return [
            call("ListTables"), call("DescribeTable", TableName="items"),
            call("GetItem", TableName="items", Key=key), call("Scan", TableName="items"),
            call("Query", TableName="items", **query),
            call("Query", TableName="items", IndexName="by-l", **query),
            call("Query", TableName="items", IndexName="by-g", **by_g),
            call("Scan", TableName="items", IndexName="by-g"),
            call("PutItem", TableName="items", Item={**key, "l": S("x")}),
            call("UpdateItem", TableName="items", Key={"p": S("b"), "s": N(1)},
                 UpdateExpression="SET a = a + :n", ExpressionAttributeValues={":n": N(1)}),
            call("DeleteItem", TableName="items", Key={"p": S("a"), "s": N(4)}),
            call("TransactWriteItems", ClientRequestToken="token", TransactItems=[action]),
            call("ExecuteStatement", Statement="SELECT * FROM items WHERE p = 'b'"),
            call("DescribeTimeToLive", TableName="items"), call("ListStreams"),
            call("DescribeStream", StreamArn=self.stream), lambda: self.read_stream(database),
            call("DescribeContinuousBackups", TableName="items"), call("ListExports"),
            call("DescribeExport", ExportArn=self.export), call("ListImports"),
            call("ListBackups"), call("CreateBackup", TableName="items", BackupName="one"),
            call("ListTagsOfResource", ResourceArn=self.stream.partition("/stream")[0]),
            database.stats, database.verify,
            call("UpdateTable", TableName="items", StreamSpecification={"StreamEnabled": False}),
            call("RestoreTableToPointInTime", SourceTableName="items", TargetTableName="restored",
                 UseLatestRestorableTime=True),
            call("DeleteTable", TableName="items"), call("DescribeTable", TableName="items"),
        ]  # fmt: skip

    def read_stream(self, database: dynalsm.Database) -> None:
        described = database.call("DescribeStream", {"StreamArn": self.stream})
        for shard in islice(described["StreamDescription"]["Shards"], 300):
            place = {"StreamArn": self.stream, "ShardId": shard["ShardId"]}
            request = {**place, "ShardIteratorType": "TRIM_HORIZON"}
            iterator = database.call("GetShardIterator", request)["ShardIterator"]
            database.call("GetRecords", {"ShardIterator": iterator})

    def reset(self) -> None:
        """The directory is made anew for each input."""

    def close(self) -> None:
        for path in (self.path, self.sample, self.buckets):
            shutil.rmtree(path, ignore_errors=True)
