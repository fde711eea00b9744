"""Make a set of golden databases: `python -m tests.golden.make VERSION [--only KIND] [--replace]`.

The point of those that lie here is that an older version made them: nothing but this command writes
here, and it makes `KIND-VERSION` beside the others. What exists already is left alone without
`--replace`, which is for a version that was never released.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynalsm
from dynalsm import kv
from dynalsm._core import Engine
from tests.golden.content import (
    HERE,
    KEY,
    NOW,
    TABLE,
    engine_content,
    keyspaces_content,
    restored,
    table_content,
)
from tests.support.processes import environment
from tests.support.store import B, N, S, index, table

OPTIONS: dict[str, Any] = {
    "memory_bytes": 4 << 20,
    "block_bytes": 256,
    "target_file_bytes": 2_000,
    "background": False,
}


def fill(engine: Engine) -> None:
    """Several levels, deletions, a deleted range and stamped keys, and a log on top."""
    source = random.Random(11)
    plain = engine.create_tree("plain")
    hashed = engine.create_tree("hashed", hashed=True, partitions=2)
    engine.drop_tree(engine.create_tree("dropped").name)
    for tree in (plain, hashed):
        for number in range(60):
            tree.put(bytes([number * 4]) * 8 + b"%d" % number, source.randbytes(30))
    engine.flush()
    engine.compact()
    for tree in (plain, hashed):
        for number in range(0, 60, 7):
            tree.put(bytes([number * 4]) * 8 + b"%d" % number, b"second" * 9)
        for number in range(3, 60, 9):
            tree.delete(bytes([number * 4]) * 8 + b"%d" % number)
    batch = engine.batch()
    batch.delete_range(plain, b"\x20", b"\x38")
    batch.delete_range(hashed, b"\xf0", None)
    engine.write(batch)
    engine.flush()
    engine.ingest(plain, [(b"ingested-%03d" % number, b"i" * number) for number in range(20)])
    batch = engine.batch()
    batch.put(plain, b"", b"the empty key")
    batch.put(hashed, b"\x80" * 8, b"")
    batch.put_stamped(plain, b"stamped-", b"-end", b"value")
    batch.delete(hashed, b"\x04" * 8 + b"1")
    batch.delete_range(plain, b"\x60", b"\x70")
    engine.write(batch)


def make_engine(path: Path, work: Path) -> dict[str, Any]:
    """A database of the engine alone, closed."""
    engine = Engine.open(work, **OPTIONS)
    fill(engine)
    content = engine_content(engine)
    engine.close()
    shutil.copytree(work, path)
    return content


def make_cut_off(path: Path, work: Path) -> dict[str, Any]:
    """The same, copied while it is open: what a power cut leaves when all reached the disk."""
    engine = Engine.open(work, **OPTIONS)
    fill(engine)
    content = engine_content(engine)
    shutil.copytree(work, path)
    engine.close()
    return content


def make_encrypted(path: Path, work: Path) -> dict[str, Any]:
    """An encrypted one with tables under two data keys, and a log; copied while it is open."""
    engine = Engine.open(work, encryption_key=bytes(32), **OPTIONS)
    fill(engine)
    engine.rotate_data_key()
    tree = engine.tree("plain")
    for number in range(30):
        tree.put(b"sealed-%03d" % number, b"under the second key")
    engine.flush()
    engine.rotate_key(KEY)
    tree.put(b"sealed-log", b"in the log alone")
    content = engine_content(engine)
    shutil.copytree(work, path)
    engine.close()
    return content


def fill_keyspaces(path: Path) -> kv.DB:
    """A byte-key store with three keyspaces: tables below, and a log full of every kind on top."""
    source = random.Random(12)
    database = kv.DB(path, create_if_missing=True, memory_bytes=4 << 20)
    users, events = database.keyspace("users"), database.keyspace("events/ü")
    database.keyspace("dropped").put(b"k", b"v")
    database.drop_keyspace("dropped")
    for space in (database, users, events):
        for number in range(40):
            space.put(b"key-%03d" % number, source.randbytes(20))
    database.flush()
    for number in range(60):
        with database.write_batch() as batch:  # one record of the log each, over all keyspaces
            batch.put(b"count", b"%d" % number)
            batch.put(b"new-%03d" % number, source.randbytes(number), keyspace=users)
            batch.delete(b"key-%03d" % (number * 3), keyspace=events)
    database.delete_range(b"key-005", b"key-015")
    users.delete_range(b"new-050", b"new-055")
    users.prefixed_db(b"key-01").delete_range()
    events.put(b"long", source.randbytes(5000), sync=True)
    return database


def make_kv(path: Path, work: Path) -> dict[str, Any]:
    """A byte-key store, closed."""
    database = fill_keyspaces(work)
    content = keyspaces_content(database)
    database.close()
    shutil.copytree(work, path)
    return content


def make_killed(path: Path, work: Path) -> dict[str, Any]:
    """The same, whose process was killed with everything since the flush in its log."""
    command = [sys.executable, "-m", "tests.golden.make", "--die-in", str(work)]
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment(), timeout=60
    )
    if run.returncode != -signal.SIGKILL:
        raise RuntimeError(f"the process was to be killed, but ended: {run.stderr}")
    shutil.copytree(work, path)
    content: dict[str, Any] = json.loads(run.stdout)
    return content


def die_in(path: Path) -> None:
    """What the killed process does."""
    print(json.dumps(keyspaces_content(fill_keyspaces(path))), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def golden_items() -> list[dict[str, Any]]:
    """Every type of attribute value, at the top and nested, with edges of each."""
    values: list[Any] = [
        S(""),
        S("grüße \U0001f600\x00"),
        N("0"),
        N("-1.5"),
        N("9.9999999999999999999999999999999999999E+125"),
        N("-1E-130"),
        B(b""),
        B(bytes(range(256))),
        {"BOOL": True},
        {"BOOL": False},
        {"NULL": True},
        {"SS": ["x", "yy", "ü"]},
        {"NS": ["-2", "0", "10.5"]},
        {"BS": [b"\x00", b"\xff\xfe"]},
        {"L": []},
        {"M": {}},
        {"L": [N("1"), {"M": {"deep": {"L": [{"NULL": True}, B(b"b"), {"SS": ["s"]}]}}}]},
        {"M": {"a.b": S("dot"), "": S("no name")}},
    ]
    colours = ["red", "green", None]
    made = []
    for number, value in enumerate(values):
        item = {"p": S("ab"[number % 2]), "s": N(str(number - 5)), "value": value}
        if (colour := colours[number % 3]) is not None:
            item.update(g=S(colour), h=N(str(-number)))
        if number % 4 != 3:
            item["l"] = B(bytes([255 - number]))
        if number % 5 == 0:
            item["expires"] = N(str(int(NOW) + 1000 + number))
        made.append(item)
    return made


def make_table(path: Path, work: Path) -> dict[str, Any]:
    """A table with both kinds of index, a stream, a time to live and a backup; closed."""
    options: dict[str, Any] = {"memory_bytes": 4 << 20, "stream_shards": 2, "clock": lambda: NOW}
    with dynalsm.open(work, job_wait_seconds=60.0, **options) as database:
        database.call(
            "CreateTable",
            table(
                TABLE,
                "p s",
                "p:S s:N g:S h:N l:B",
                LocalSecondaryIndexes=[index("by-l", "p", "l")],
                GlobalSecondaryIndexes=[
                    index("by-g", "g", "h", projection="INCLUDE", include=["value"])
                ],
                StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
            ),
        )
        ttl = {"Enabled": True, "AttributeName": "expires"}
        database.call("UpdateTimeToLive", {"TableName": TABLE, "TimeToLiveSpecification": ttl})
        made = golden_items()
        for item in made:
            database.call("PutItem", {"TableName": TABLE, "Item": item})
        database.call("CreateBackup", {"TableName": TABLE, "BackupName": "golden"})
        database.flush()
        for item in (made[1], made[3], made[9], made[14]):  # of each type one is left
            database.call("DeleteItem", {"TableName": TABLE, "Key": {k: item[k] for k in "ps"}})
        database.call(
            "UpdateItem",
            {
                "TableName": TABLE,
                "Key": {name: made[8][name] for name in "ps"},
                "UpdateExpression": "SET g = :g ADD h :one",
                "ExpressionAttributeValues": {":g": S("red"), ":one": N("1")},
            },
        )
        content = table_content(database)
    shutil.copytree(work, path)
    with dynalsm.open(work, job_wait_seconds=60.0, **options) as database:
        return {**content, "restored": restored(database)}


def pack(path: Path, archive: Path) -> None:
    """The directory as a small archive that tells nothing of who made it, nor when."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for one in sorted(path.rglob("*")):
            if one.name.startswith("LOCK"):  # says which process it was
                continue
            info = tar.gettarinfo(one, str(one.relative_to(path)))
            info.uid = info.gid = info.mtime = 0
            info.uname = info.gname = ""
            if info.type == tarfile.LNKTYPE:  # a second name: the whole file again
                info.type, info.size = tarfile.REGTYPE, one.stat().st_size
            if info.isfile():
                with one.open("rb") as file:
                    tar.addfile(info, file)
            else:
                tar.addfile(info)
    archive.write_bytes(gzip.compress(raw.getvalue(), mtime=0))


KINDS: dict[str, Callable[[Path, Path], dict[str, Any]]] = {
    "engine": make_engine,
    "cut_off": make_cut_off,
    "encrypted": make_encrypted,
    "kv": make_kv,
    "killed": make_killed,
    "table": make_table,
}


def make(kind: str, version: str, target: Path, *, replace: bool) -> None:
    """Make one archive, and beside it what is in it. Raises: FileExistsError."""
    archive, content = target / f"{kind}-{version}.tar.gz", target / f"{kind}-{version}.json"
    if archive.exists() and not replace:
        raise FileExistsError(f"{archive} is there; it is the old ones that must open")
    with tempfile.TemporaryDirectory() as directory:
        made = KINDS[kind](Path(directory) / "db", Path(directory) / "work")
        pack(Path(directory) / "db", archive)
    text = json.dumps(made, indent=1, sort_keys=True, ensure_ascii=False)
    content.write_text(text + "\n", encoding="utf-8")
    print(archive)


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.golden.make", description=__doc__)
    parser.add_argument("version", help="goes into the names, as 0.1 does")
    parser.add_argument("--only", action="append", choices=list(KINDS), help="not all kinds")
    parser.add_argument("--replace", action="store_true", help="also what exists already")
    parser.add_argument("--target", type=Path, default=HERE)
    options = parser.parse_args()
    for kind in options.only or KINDS:
        make(kind, options.version, options.target, replace=options.replace)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--die-in"]:
        die_in(Path(sys.argv[2]))
    else:
        main()
