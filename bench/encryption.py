"""What a key costs: the same work on a plain and on an encrypted database, by turns.

    python bench/encryption.py [--pairs 60000] [--items 8000] [--rounds 9] [--directory /dev/shm]

Figures are operations a second of one thread: the median of the rounds, and the least and most.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from common import machine, machine_text, median

import dynalsm
from dynalsm import kv

KEY = bytes(range(32))
Figures = dict[str, float]


def rate(count: int, work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return count / (time.perf_counter() - start)


def pairs(path: str, key: bytes | None, count: int) -> Figures:
    """Keys of 16 bytes and values of 100, in a store of bytes."""
    source = random.Random(1)
    keys = [b"%016d" % source.randrange(10**15) for _ in range(count)]
    values = [source.randbytes(50) + b"v" * 50 for _ in range(100)]
    figures = {}

    def opened(mebibytes: int) -> kv.DB:
        return kv.DB(path, create_if_missing=True, memory_bytes=mebibytes << 20, encryption_key=key)

    def get(db: kv.DB) -> Callable[[], Any]:
        return lambda: [db.get(each) for each in keys]

    with opened(64) as db:
        figures["kv put"] = rate(
            count, lambda: [db.put(each, values[i % 100]) for i, each in enumerate(keys)]
        )
        db.compact_range()
    with opened(64) as db:
        figures["kv get, not yet in the cache"] = rate(count, get(db))
        figures["kv get, from the cache"] = rate(count, get(db))
        figures["kv scan"] = rate(count, lambda: sum(1 for _ in db))
    with opened(4) as db:
        figures["kv get, 4 MiB"] = rate(count, get(db))
    return figures


def items(path: str, key: bytes | None, count: int) -> Figures:
    """Items of 220 bytes in a table."""
    rows = [
        {"p": {"S": f"key-{i:06}"}, "a": {"S": "x" * 200}, "n": {"N": str(i)}} for i in range(count)
    ]
    figures = {}
    with dynalsm.open(path, encryption_key=key, durability="os") as db:
        db.create_table(
            TableName="Things",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "p", "AttributeType": "S"}],
        )

        def each(operation: str, requests: Iterator[dict[str, Any]]) -> Callable[[], Any]:
            return lambda: [db.call(operation, {"TableName": "Things", **one}) for one in requests]

        figures["item put"] = rate(count, each("PutItem", ({"Item": row} for row in rows)))
        db.flush()
        figures["item get"] = rate(
            count, each("GetItem", ({"Key": {"p": row["p"]}} for row in rows))
        )
        scan = db.client.get_paginator("scan")
        figures["item scan"] = rate(count, lambda: list(scan.paginate(TableName="Things")))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=60_000)
    parser.add_argument("--items", type=int, default=8_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--directory", default="/dev/shm")
    options = parser.parse_args()
    found: dict[str, dict[bool, list[float]]] = {}
    for number in range(options.rounds):
        for key in (None, KEY) if number % 2 else (KEY, None):
            for kind, count in ((pairs, options.pairs), (items, options.items)):
                path = tempfile.mkdtemp(dir=options.directory)
                try:
                    for name, figure in kind(path + "/db", key, count).items():
                        found.setdefault(name, {}).setdefault(key is not None, []).append(figure)
                finally:
                    shutil.rmtree(path)
    print(machine_text(machine()))
    print("| | plain | encrypted | plain / encrypted |\n| --- | ---: | ---: | ---: |")
    for name, sides in found.items():
        middles = [median(sides[side]) for side in (False, True)]
        texts = [
            f"{middle / 1e3:,.0f} k "
            f"({min(sides[side]) / 1e3:,.0f} to {max(sides[side]) / 1e3:,.0f})"
            for side, middle in zip((False, True), middles, strict=True)
        ]
        print(f"| {name} | {texts[0]} | {texts[1]} | {middles[0] / middles[1]:.1f} |")


if __name__ == "__main__":
    main()
