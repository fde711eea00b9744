"""SIGKILL at random moments, fifty times on one database, while three threads write.

Memtables are so small that flushes and compactions run all the time. After each kill: no
acknowledged write is lost, and no commit is half there: the table, its global and local index and
the replayed stream agree.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import dynalsm

ROUNDS = 50
OPTIONS: dict[str, Any] = {"write_buffer_bytes": 1 << 16, "target_file_bytes": 1 << 16}

CHILD = """
import sys, threading
import dynalsm
from tests.crash.test_kill import OPTIONS, write
db = dynalsm.open(sys.argv[1], **OPTIONS)
threads = [threading.Thread(target=write, args=(db, n, int(sys.argv[2]))) for n in range(3)]
for thread in threads:
    thread.start()
"""


def write(db: Any, writer: int, start: int) -> None:
    """Put items for ever, a later value over an earlier one; say each number once it is durable."""
    table = db.Table("Kill")
    number = start
    while True:
        number += 1
        key = {"pk": f"w{writer}", "sk": number % 97}
        if number % 7 == 0:
            table.delete_item(Key=key)
        else:
            item = {**key, "n": number, "g": f"g{number % 5}", "l": number, "pad": "x" * 200}
            table.put_item(Item=item)
        sys.stdout.write(f"{writer} {number}\n")
        sys.stdout.flush()


def create(path: Path) -> None:
    with dynalsm.open(path, **OPTIONS) as db:
        db.create_table(
            TableName="Kill",
            KeySchema=[
                {"AttributeName": "pk", "KeyType": "HASH"},
                {"AttributeName": "sk", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[
                {"AttributeName": name, "AttributeType": kind}
                for name, kind in (("pk", "S"), ("sk", "N"), ("g", "S"), ("l", "N"))
            ],
            GlobalSecondaryIndexes=[
                {
                    "IndexName": "ByG",
                    "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}],
                    "Projection": {"ProjectionType": "ALL"},
                }
            ],
            LocalSecondaryIndexes=[
                {
                    "IndexName": "ByL",
                    "KeySchema": [
                        {"AttributeName": "pk", "KeyType": "HASH"},
                        {"AttributeName": "l", "KeyType": "RANGE"},
                    ],
                    "Projection": {"ProjectionType": "ALL"},
                }
            ],
            BillingMode="PAY_PER_REQUEST",
            StreamSpecification={
                "StreamEnabled": True,
                "StreamViewType": "NEW_AND_OLD_IMAGES",
            },
        )


def by_key(items: Any) -> dict[tuple[str, int], Any]:
    return {(item["pk"], int(item["sk"])): item for item in items}


def check(path: Path, acknowledged: dict[int, int], streamed: dict[tuple[str, int], Any]) -> int:
    """Open and compare everything with everything; returns the highest number found."""
    with dynalsm.open(path, **OPTIONS) as db:
        table = db.Table("Kill")
        items = by_key(table.scan_items())
        assert by_key(table.scan_items(IndexName="ByG")) == items
        assert by_key(table.scan_items(IndexName="ByL")) == items
        # The stream's changes over what the rounds before left must give the table.
        for change in table.changes(start="TRIM_HORIZON"):
            key = (change.keys["pk"], int(change.keys["sk"]))
            if change.event_name == "REMOVE":
                streamed.pop(key, None)
            else:
                streamed[key] = change.new_image
        assert streamed == items
        for writer, last in acknowledged.items():
            for number in range(max(1, last - 96), last + 1):
                check_number(items, writer, number, last)
        return max([int(item["n"]) for item in items.values()], default=0)


def check_number(items: dict[tuple[str, int], Any], writer: int, number: int, last: int) -> None:
    """The write `number` was acknowledged: it, or a later one of the same key, is there."""
    found = items.get((f"w{writer}", number % 97))
    if number % 7 == 0:
        assert found is None or int(found["n"]) > number, (writer, number, last)
    elif found is None:
        assert (number + 97) % 7 == 0 and number + 97 > last, (writer, number, last)
    else:
        assert int(found["n"]) >= number, (writer, number, last)


def test_fifty_kills(tmp_path: Path) -> None:
    chance = random.Random(20)
    path = tmp_path / "kill.db"
    create(path)
    start = 0
    acknowledged: dict[int, int] = {}
    written = 0
    for _ in range(ROUNDS):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(path), str(start)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        child.stdout.readline()  # it writes now
        time.sleep(chance.uniform(0.0, 0.15))
        child.send_signal(signal.SIGKILL)
        lines = child.stdout.read().splitlines(keepends=True)
        child.wait()
        acknowledged = {}
        for line in lines:
            if line.endswith("\n") and line.count(" ") == 1:
                writer, number = line.split()
                acknowledged[int(writer)] = int(number)
        written += len(lines)
        # Numbers of one round follow each other; a new round starts above everything written.
        acknowledged = {w: n for w, n in acknowledged.items() if n - 96 > start}
        start = check(path, acknowledged, {}) + 1000
    assert written > ROUNDS
