"""What items take: bytes written and kept for each, time to start, memory at rest.

    python bench/footprint.py [--items 50000] [--rounds 5] [--only writes,start]

`writes`: a table with 0, 2 or 5 global indexes (ALL attributes), without and with a stream of both
images. Every item is put, then put again in random order with another number in it, which changes
one attribute and no index key; then the tables are flushed and compacted. Figures are bytes by the
bytes of the items as DynamoDB JSON: what was handed to the engine (keys and values of all
entries), what the kernel was given to write (log, tables, compaction), what the files take at the
end. The item is that of items.py, about 520 bytes of JSON.

`start`: a new Python that imports dynalsm, one that opens an empty database, one that opens a
database with --items items which was closed cleanly, and `dynalsm serve` until it has answered its
first request; each beside a Python that does nothing. Medians of the rounds, and the memory that
each holds then.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import directory_bytes, machine, machine_text, median, settle, table, written_bytes
from http_load import Server, free_port
from items import make_item

import dynalsm
from dynalsm import values

INDEX_ATTRIBUTES = ("email", "age", "name", "bio", "score")
INDEX_COUNTS = (0, 2, 5)
TYPES = {"age": "N", "score": "N"}
PROGRAMS = {
    "python": "pass",
    "import dynalsm": "import dynalsm",
    "open, empty": "import dynalsm; db = dynalsm.open({empty!r}); end = db.close",
    "open, with items": "import dynalsm; db = dynalsm.open({full!r}); end = db.close",
}
# What each program says when it is ready: how much memory it holds.
READY = "; print([l.split()[1] for l in open('/proc/self/status') if 'VmRSS' in l][0], flush=True)"


def create(db: dynalsm.Database, indexes: int, streamed: bool) -> Any:
    names = INDEX_ATTRIBUTES[:indexes]
    more: dict[str, Any] = {}
    if indexes:
        more["GlobalSecondaryIndexes"] = [
            {
                "IndexName": name,
                "KeySchema": [{"AttributeName": name, "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "ALL"},
            }
            for name in names
        ]
    if streamed:
        more["StreamSpecification"] = {
            "StreamEnabled": True,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        }
    return db.create_table(
        TableName="Items",
        KeySchema=[
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": TYPES.get(name, "S")}
            for name in ("pk", *names)
        ]
        + [{"AttributeName": "sk", "AttributeType": "N"}],
        BillingMode="PAY_PER_REQUEST",
        **more,
    )


def json_bytes(item: dict[str, Any]) -> int:
    return len(values.json_item_text(values.encode_native_item(item)))


def measure_writes(count: int, indexes: int, streamed: bool, directory: str) -> dict[str, float]:
    """Put everything twice; returns bytes by the bytes of JSON, for both passes and at the end."""
    items = [make_item(number) for number in range(count)]
    size = sum(map(json_bytes, items))
    path = os.path.join(directory, f"{indexes}-{streamed}")
    found: dict[str, float] = {"json": size / count}
    with dynalsm.open(path, durability="os") as db:
        items_table = create(db, indexes, streamed)
        for name in ("put", "put again"):
            before = written_bytes() or 0
            handed = db.engine.stats()["writes"]["user_bytes"]
            for item in items:
                items_table.put_item(Item=item)
            db.engine.flush()
            settle()
            found[f"{name}, engine"] = (db.engine.stats()["writes"]["user_bytes"] - handed) / size
            found[f"{name}, kernel"] = ((written_bytes() or 0) - before) / size
            items = [{**item, "visits": [*item["visits"][:2], 7, "y"]} for item in items]
            random.Random(1).shuffle(items)
        before = written_bytes() or 0
        db.engine.compact()
        found["compact, kernel"] = ((written_bytes() or 0) - before) / size
    found["kept"] = directory_bytes(path) / size
    found["kept for an item"] = directory_bytes(path) / count
    shutil.rmtree(path)
    return found


def report_writes(count: int, directory: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    columns = ["put, engine", "put, kernel", "put again, engine", "put again, kernel"]
    columns += ["compact, kernel", "kept"]
    rows = []
    for streamed in (False, True):
        for indexes in INDEX_COUNTS:
            name = f"{indexes} indexes{', stream' if streamed else ''}"
            found[name] = one = measure_writes(count, indexes, streamed, directory)
            kept = f"{one['kept for an item']:.0f}"
            rows.append([name, *(f"{one[column]:.2f}" for column in columns), kept])
    print(f"{count} items of {one['json']:.0f} bytes of DynamoDB JSON; bytes by bytes of JSON\n")
    print(table(["table", *columns, "kept for an item, bytes"], rows))
    return found


def run_program(code: str) -> tuple[float, float]:
    """Run a Python until it is ready: milliseconds, and the mebibytes that it holds."""
    start = time.perf_counter()
    with subprocess.Popen([sys.executable, "-c", code + READY], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        seconds = time.perf_counter() - start
    if process.returncode:
        raise RuntimeError(f"{code} failed")
    return seconds * 1000, int(line) / 1024


def run_server(directory: str) -> tuple[float, float]:
    """Run `dynalsm serve` on a new directory until it has answered."""
    port = free_port()
    path = tempfile.mkdtemp(dir=directory)
    command = [sys.executable, "-m", "dynalsm", "serve", f"{path}/db", "--port", str(port)]
    server = Server("dynalsm", command, port, path)
    try:
        server.start()
        time.sleep(0.5)  # what it does after its first answer
        return server.first_answer_ms, server.resident_mb()
    finally:
        if server.process is not None:
            server.process.terminate()
            server.process.wait(10)


def report_start(count: int, rounds: int, directory: str) -> dict[str, Any]:
    paths = {name: os.path.join(directory, name) for name in ("empty", "full")}
    for name, path in paths.items():
        with dynalsm.open(path, durability="os") as db:
            items_table = create(db, 2, streamed=True)
            for number in range(count if name == "full" else 0):
                items_table.put_item(Item=make_item(number))
    runs: dict[str, list[tuple[float, float]]] = {}
    for _ in range(rounds):
        for name, code in PROGRAMS.items():
            runs.setdefault(name, []).append(run_program(code.format(**paths)))
        runs.setdefault("serve, first answer", []).append(run_server(directory))
    found = {
        name: {"ms": median([ms for ms, _ in each]), "mib": median([mib for _, mib in each])}
        for name, each in runs.items()
    }
    print(
        table(
            ["program", "ready after, ms", "memory, MiB"],
            [[name, f"{one['ms']:.1f}", f"{one['mib']:.1f}"] for name, one in found.items()],
        )
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="writes,start")
    parser.add_argument("--json", default="", help="write the figures to this file")
    options = parser.parse_args()
    parts = options.only.split(",")
    if not set(parts) <= {"writes", "start"} or min(options.items, options.rounds) < 1:
        parser.error("--only is writes, start or both; counts are at least 1")
    stamp = machine()
    print(machine_text(stamp), end="\n\n")
    found: dict[str, Any] = {}
    directory = tempfile.mkdtemp(prefix="bench-footprint-", dir=str(Path.cwd()))
    try:
        if "writes" in parts:
            found["writes"] = report_writes(options.items, directory)
        if "start" in parts:
            found["start"] = report_start(options.items, options.rounds, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"machine": stamp, "options": vars(options), **found}, file, indent=1)


if __name__ == "__main__":
    main()
