"""The mixed load of the soak: what a service does, on a directory or at a URL, for so many seconds.

    python -m tests.load.mix run TARGET OUT --seconds 60 --threads 2 --seed 1
    python -m tests.load.mix serve PATH OUT

Each thread has partition keys of its own and knows what must be there: every read is checked. The
number of items is bounded, the stream keeps a minute: in the long run nothing may grow.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import threading
import time
from collections.abc import Callable
from typing import Any

import dynalsm
from dynalsm.conditions import Attr, Key
from tests.load.measure import Latencies, write_json

TABLE = "Soak"
PARTITIONS = 50  # of each thread
SORT_KEYS = 100
MEMORY_BYTES = 64 << 20
STREAM_SECONDS = 60.0
COLORS = ("red", "green", "blue", "white")

# How often each operation (a method of Mixer) is chosen.
WEIGHTS = {
    "put": 250,
    "put_expiring": 20,
    "update": 150,
    "delete": 100,
    "get": 200,
    "query": 100,
    "query_index": 50,
    "batch_write": 50,
    "batch_get": 30,
    "transact": 30,
    "refused": 20,
    "scan": 10,
    "records": 10,
    "snapshot": 5,
    "reconnect": 2,
    "come_and_go": 1,
    "checkpoint": 0.2,
}


def open_target(target: str, durability: str = "interval") -> dynalsm.Database:
    """A server's URL, or a directory with the soak's settings."""
    if "://" in target:
        return dynalsm.open(target)
    return dynalsm.open(
        target,
        memory_bytes=MEMORY_BYTES,
        durability=durability,
        stream_retention_seconds=STREAM_SECONDS,
        stream_roll_seconds=STREAM_SECONDS / 2,
    )


def create(database: dynalsm.Database) -> None:
    """The table of the soak."""
    kinds = {"pk": "S", "sk": "N", "color": "S", "rank": "N"}
    database.create_table(
        TableName=TABLE,
        KeySchema=[
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": kind} for name, kind in kinds.items()
        ],
        LocalSecondaryIndexes=[
            {
                "IndexName": "ByRank",
                "KeySchema": [
                    {"AttributeName": "pk", "KeyType": "HASH"},
                    {"AttributeName": "rank", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
        ],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "ByColor",
                "KeySchema": [
                    {"AttributeName": "color", "KeyType": "HASH"},
                    {"AttributeName": "rank", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
        BillingMode="PAY_PER_REQUEST",
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )
    database.client.update_time_to_live(
        TableName=TABLE,
        TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires"},
    )


class Mixer:
    """One thread's operations, with what they must find."""

    def __init__(self, target: str, database: dynalsm.Database, number: int, seed: int) -> None:
        self.target, self.database, self.number = target, database, number
        self.table = database.Table(TABLE)
        self.is_remote = "://" in target
        self.chance = random.Random(f"{seed} {number}")
        self.versions: dict[tuple[str, int], int] = {}
        self.version = 0
        self.latencies: dict[str, Latencies] = {name: Latencies() for name in WEIGHTS}

    def run(self, until: float, stopping: threading.Event) -> None:
        """Go on until the time is over; what is wrong raises."""
        names, weights = list(WEIGHTS), list(WEIGHTS.values())
        while time.monotonic() < until and not stopping.is_set():
            for name in self.chance.choices(names, weights, k=50):
                operation: Callable[[], None] = getattr(self, name)
                with self.latencies[name].timed(name):
                    operation()

    # ---- keys and items ----

    def key(self) -> tuple[str, int]:
        place = self.chance.randrange(PARTITIONS)
        return f"{self.number}-{place}", self.chance.randrange(SORT_KEYS)

    def item(self, key: tuple[str, int]) -> dict[str, Any]:
        self.version += 1
        return {
            "pk": key[0],
            "sk": key[1],
            "version": self.version,
            "color": self.chance.choice(COLORS),
            "rank": self.chance.randrange(1000),
            "text": self.chance.randbytes(self.chance.choice([20, 100, 400, 2000])).hex(),
        }

    def agree(self, item: dict[str, Any] | None, key: tuple[str, int]) -> None:
        found = None if item is None else int(item["version"])
        wanted = self.versions.get(key)
        assert found == wanted, f"{key}: version {found} instead of {wanted}"

    # ---- operations ----

    def put(self) -> None:
        key = self.key()
        self.table.put_item(Item=self.item(key))
        self.versions[key] = self.version

    def put_expiring(self) -> None:
        item = self.item((f"{self.number}-expiring", self.chance.randrange(10 * SORT_KEYS)))
        self.table.put_item(Item={**item, "expires": int(time.time()) + 2})

    def update(self) -> None:
        key = self.key()
        self.version += 1
        self.table.update_item(
            Key={"pk": key[0], "sk": key[1]},
            UpdateExpression="SET version = :v, color = :c, #r = :r",
            ExpressionAttributeNames={"#r": "rank"},
            ExpressionAttributeValues={
                ":v": self.version,
                ":c": self.chance.choice(COLORS),
                ":r": self.chance.randrange(1000),
            },
        )
        self.versions[key] = self.version

    def delete(self) -> None:
        key = self.key()
        self.table.delete_item(Key={"pk": key[0], "sk": key[1]})
        self.versions.pop(key, None)

    def get(self) -> None:
        key = self.key()
        reply = self.table.get_item(Key={"pk": key[0], "sk": key[1]}, ConsistentRead=True)
        self.agree(reply.get("Item"), key)

    def query(self) -> None:
        partition, low = self.key()
        items = self.table.query(
            KeyConditionExpression=Key("pk").eq(partition) & Key("sk").between(low, low + 20),
            ScanIndexForward=self.chance.random() < 0.5,
            ConsistentRead=True,
        )["Items"]
        found = {(item["pk"], int(item["sk"])): int(item["version"]) for item in items}
        wanted = {
            (partition, sort): self.versions[partition, sort]
            for sort in range(low, low + 21)
            if (partition, sort) in self.versions
        }
        assert found == wanted, f"{partition} from {low}: {found} instead of {wanted}"

    def query_index(self) -> None:
        if self.chance.random() < 0.5:
            low = self.chance.randrange(1000)
            self.table.query(
                IndexName="ByColor",
                KeyConditionExpression=Key("color").eq("red") & Key("rank").gte(low),
                Limit=20,
            )
        else:
            partition, _ = self.key()
            count = self.table.query(
                IndexName="ByRank",
                KeyConditionExpression=Key("pk").eq(partition),
                Select="COUNT",
                ConsistentRead=True,
            )["Count"]
            # An item that `update` made may have been deleted and come back: all have a rank.
            assert count == sum(key[0] == partition for key in self.versions)

    def batch_write(self) -> None:
        with self.table.batch_writer(overwrite_by_pkeys=["pk", "sk"]) as batch:
            for _ in range(25):
                key = self.key()
                if self.chance.random() < 0.3:
                    batch.delete_item(Key={"pk": key[0], "sk": key[1]})
                    self.versions.pop(key, None)
                else:
                    batch.put_item(Item=self.item(key))
                    self.versions[key] = self.version

    def batch_get(self) -> None:
        keys = {self.key() for _ in range(20)}
        wire = [{"pk": {"S": pk}, "sk": {"N": str(sk)}} for pk, sk in keys]
        asked: Any = {"Keys": wire, "ConsistentRead": True}
        reply = self.database.client.batch_get_item(RequestItems={TABLE: asked})
        found = {
            (item["pk"]["S"], int(item["sk"]["N"])): {"version": item["version"]["N"]}
            for item in reply["Responses"][TABLE]
        }
        for key in keys:
            self.agree(found.get(key), key)

    def transact(self) -> None:
        keys = list({self.key() for _ in range(4)})
        self.version += 1
        self.database.client.transact_write_items(
            TransactItems=[
                {
                    "Update": {
                        "TableName": TABLE,
                        "Key": {"pk": {"S": pk}, "sk": {"N": str(sk)}},
                        "UpdateExpression": "SET version = :v, #r = :v",
                        "ExpressionAttributeNames": {"#r": "rank"},
                        "ExpressionAttributeValues": {":v": {"N": str(self.version)}},
                    }
                }
                for pk, sk in keys
            ]
        )
        for key in keys:
            self.versions[key] = self.version

    def refused(self) -> None:
        key = self.key()
        refusal = self.database.client.exceptions.ConditionalCheckFailedException
        try:
            self.table.put_item(Item=self.item(key), ConditionExpression=Attr("version").eq(-1))
        except refusal:
            return
        raise AssertionError("the condition held")

    def scan(self) -> None:
        request = {"TotalSegments": 4, "Segment": self.chance.randrange(4), "Limit": 100}
        reply = self.table.scan(**request)
        if "LastEvaluatedKey" in reply:
            self.table.scan(**request, ExclusiveStartKey=reply["LastEvaluatedKey"])

    def records(self) -> None:
        streams = self.database.streams
        arn = streams.list_streams(TableName=TABLE)["Streams"][0]["StreamArn"]
        shard = self.chance.choice(self.shards(arn))
        try:
            iterator = streams.get_shard_iterator(
                StreamArn=arn, ShardId=shard, ShardIteratorType="TRIM_HORIZON"
            )["ShardIterator"]
        except streams.exceptions.ResourceNotFoundException:
            # Trimmed between the two calls: then it is not described any more either.
            assert shard not in self.shards(arn), f"{shard} is described but not found"
            return
        # It may have been trimmed since.
        with contextlib.suppress(streams.exceptions.TrimmedDataAccessException):
            streams.get_records(ShardIterator=iterator, Limit=100)

    def shards(self, arn: str) -> list[str]:
        stream = self.database.streams.describe_stream(StreamArn=arn)["StreamDescription"]
        return [shard["ShardId"] for shard in stream["Shards"]]

    def snapshot(self) -> None:
        if not self.is_remote:
            key = self.key()
            with self.database.snapshot() as then:
                reply = then.Table(TABLE).get_item(Key={"pk": key[0], "sk": key[1]})
                self.agree(reply.get("Item"), key)

    def reconnect(self) -> None:
        """A client that comes and goes; a handle that only reads."""
        if self.is_remote:
            other = dynalsm.open(self.target)
        else:
            other = dynalsm.open(self.target, read_only=True)
        with other:
            other.Table(TABLE).get_item(Key={"pk": "nobody", "sk": 1})

    def come_and_go(self) -> None:
        """A table is created, used, and deleted."""
        made = self.database.create_table(
            TableName=f"{TABLE}-{self.number}",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        for number in range(10):
            made.put_item(Item={"pk": str(number)})
        assert len(list(made.scan_items())) == 10
        made.delete()

    def checkpoint(self) -> None:
        if not self.is_remote:
            target = f"{self.target}-copy-{self.number}"
            self.database.checkpoint(target)
            shutil.rmtree(target)


def run(options: argparse.Namespace) -> None:
    """Run the mix with some threads; the first failure of one ends all."""
    failures: list[BaseException] = []
    stopping = threading.Event()
    with open_target(options.target) as database:
        create(database)
        until = time.monotonic() + options.seconds
        mixers = [
            Mixer(options.target, database, number, options.seed)
            for number in range(options.threads)
        ]

        def work(mixer: Mixer) -> None:
            try:
                mixer.run(until, stopping)
            except BaseException as failure:
                failures.append(failure)
                stopping.set()

        threads = [threading.Thread(target=work, args=(mixer,)) for mixer in mixers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        figures = None if mixers[0].is_remote else database.stats()
        began = time.monotonic()
    if failures:
        raise failures[0]
    total: dict[str, Latencies] = {}
    for mixer in mixers:
        for name, found in mixer.latencies.items():
            total.setdefault(name, Latencies()).merge(found)
    write_json(
        options.out,
        {
            "latencies": {name: found.to_json() for name, found in total.items()},
            "stats": figures,
            "close_seconds": time.monotonic() - began,
        },
    )


def serve(options: argparse.Namespace) -> None:
    """Serve a directory with the soak's settings until SIGTERM."""
    from dynalsm.server.run import serve as serve_database

    with open_target(options.target, "commit") as database:
        serve_database(database, port=0, on_ready=lambda url: print(url, flush=True))
        write_json(options.out, database.stats())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.load.mix")
    parser.add_argument("what", choices=["run", "serve"])
    parser.add_argument("target")
    parser.add_argument("out")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    {"run": run, "serve": serve}[options.what](options)


if __name__ == "__main__":
    main()
