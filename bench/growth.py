"""What an operation costs as the table grows.

    python bench/growth.py [--sizes 10000,100000] [--operations 5000] [--rounds 3] [--memory 256]

One table, loaded further and further; at each size, once the background is quiet, every operation
runs on items chosen at random from the whole table. A figure is microseconds per operation, the
median of the rounds; `slowest` is the one that a thousandth of the operations takes longer than.
The item is that of items.py, about 350 bytes as stored. --memory is the budget in MiB: sizes beyond
it measure the disk as well. Minutes for ten million items: --sizes 10000,100000,1000000,10000000.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import directory_bytes, machine, machine_text, median, settle, table
from items import make_item

import dynalsm

OPERATIONS = ("put new", "put again", "update", "get", "get missing", "query 20")
CHUNK = 25


def key_of(number: int) -> dict[str, Any]:
    return {"pk": f"user#{number // 20:06d}", "sk": number % 20}


class Grower:
    """A table that is loaded to one size after another."""

    def __init__(self, directory: str, memory_mib: int) -> None:
        self.path = os.path.join(directory, "db")
        self.db = dynalsm.open(self.path, durability="os", memory_bytes=memory_mib << 20)
        self.table: Any = self.db.create_table(
            TableName="Items",
            KeySchema=[
                {"AttributeName": "pk", "KeyType": "HASH"},
                {"AttributeName": "sk", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[
                {"AttributeName": "pk", "AttributeType": "S"},
                {"AttributeName": "sk", "AttributeType": "N"},
            ],
            BillingMode="PAY_PER_REQUEST",
        )
        self.size = 0

    def grow_to(self, size: int) -> float:
        """Load more items; returns microseconds per item."""
        more = max(1, size - self.size)
        start = time.perf_counter()
        with self.table.batch_writer() as batch:
            for number in range(self.size, size):
                batch.put_item(Item=make_item(number))
        seconds = time.perf_counter() - start
        self.size = max(self.size, size)
        settle()
        return seconds / more * 1e6

    def request(self, name: str, number: int) -> Callable[[], Any]:
        """One operation on the item of this number, ready to be called."""
        items = self.table
        if name == "put new":
            item = make_item(number)
            item["pk"] = f"new#{number:09d}"
            return lambda: items.put_item(Item=item)
        if name == "put again":
            item = make_item(number)
            item["score"] = number % 1000
            return lambda: items.put_item(Item=item)
        if name == "get":
            return lambda: items.get_item(Key=key_of(number))["Item"]
        if name == "get missing":
            return lambda: items.get_item(Key={"pk": f"nobody#{number}", "sk": 1})
        if name == "query 20":
            values = {":pk": f"user#{number // 20:06d}", ":low": 0, ":high": 19}
            return lambda: items.query(
                KeyConditionExpression="pk = :pk AND sk BETWEEN :low AND :high",
                ExpressionAttributeValues=values,
            )["Items"]
        return lambda: items.update_item(
            Key=key_of(number),
            UpdateExpression="SET age = age + :one",
            ConditionExpression="age < :limit",
            ExpressionAttributeValues={":one": 1, ":limit": 1_000_000},
        )

    def measure(self, name: str, count: int, source: random.Random) -> tuple[float, float]:
        """Microseconds per operation: the mean, and what one of a thousand takes longer than."""
        requests = [self.request(name, source.randrange(self.size)) for _ in range(count)]
        clock = time.perf_counter
        times = []
        for request in requests:
            start = clock()
            request()
            times.append(clock() - start)
        times.sort()
        return sum(times) / count * 1e6, times[max(0, count - 1 - count // 1000)] * 1e6


def measure(
    sizes: list[int], operations: int, rounds: int, memory_mib: int, directory: str
) -> list[dict[str, Any]]:
    """Return what each size costs."""
    grower = Grower(directory, memory_mib)
    found = []
    for size in sizes:
        loading = grower.grow_to(size)
        runs: dict[str, list[tuple[float, float]]] = {}
        for turn in range(rounds):
            source = random.Random(turn)
            for name in OPERATIONS:
                runs.setdefault(name, []).append(grower.measure(name, operations, source))
        found.append(
            {
                "size": size,
                "load": loading,
                "disk_mib": directory_bytes(grower.path) / (1 << 20),
                "mean": {name: median([mean for mean, _ in each]) for name, each in runs.items()},
                "slowest": {
                    name: median([slow for _, slow in each]) for name, each in runs.items()
                },
            }
        )
    grower.db.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="10000,100000")
    parser.add_argument("--operations", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", type=int, default=256)
    parser.add_argument("--json", default="", help="write the figures to this file")
    options = parser.parse_args()
    try:
        sizes = sorted(int(size) for size in options.sizes.split(","))
    except ValueError:
        parser.error("--sizes are whole numbers with commas between them")
    if min(*sizes, options.operations, options.rounds, options.memory) < 1:
        parser.error("all numbers are at least 1")
    stamp = machine()
    directory = tempfile.mkdtemp(prefix="bench-growth-", dir=str(Path.cwd()))
    try:
        found = measure(sizes, options.operations, options.rounds, options.memory, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(machine_text(stamp))
    print(f"{options.operations} operations, medians of {options.rounds} rounds\n")
    rows = [
        [
            f"{one['size']:,}",
            f"{one['load']:.1f}",
            *(f"{one['mean'][name]:.1f} / {one['slowest'][name]:.0f}" for name in OPERATIONS),
            f"{one['disk_mib']:.0f}",
        ]
        for one in found
    ]
    print(table(["items", "load", *OPERATIONS, "disk, MiB"], rows))
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"machine": stamp, "options": vars(options), "sizes": found}, file, indent=1)


if __name__ == "__main__":
    main()
