"""Make the golden databases anew: `python -m tests.golden.make [DIRECTORY]`.

Only for a new one, or after a change of the format that was meant to be one: the point of those
that lie here is that an older version made them, so keep the old ones and add others beside.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import dynalsm
from dynalsm._core import Engine
from tests.golden.content import HERE, NOW, TABLE, engine_content, restored, table_content
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


def make_engine(path: Path, work: Path, *, is_closed: bool) -> dict[str, Any]:
    """A database of the engine alone; not closed: as a process that died left it."""
    engine = Engine.open(work, **OPTIONS)
    fill(engine)
    content = engine_content(engine)
    if is_closed:
        engine.close()
    shutil.copytree(work, path)
    engine.close()
    return content


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


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory)
        made = {
            "engine": make_engine(base / "engine", base / "w1", is_closed=True),
            "cut_off": make_engine(base / "cut_off", base / "w2", is_closed=False),
            "table": make_table(base / "table", base / "w3"),
        }
        for name, content in made.items():
            pack(base / name, target / f"{name}.tar.gz")
            text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)
            (target / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
