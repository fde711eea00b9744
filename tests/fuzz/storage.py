"""Databases whose files hold nonsense under right checksums.

Damage that a checksum finds is told long before anything is made of the bytes; what is behind the
checksums must take everything as well. So a small database is taken apart, blocks, sections,
records and edits are changed at random, and it is put together again with checksums, sizes and
places that fit. Opening, reading, verifying, repairing, flushing and compacting it must work or end
in a StorageError.

An input is a byte for what is done, then a msgpack array of files: [path, content].
"""

from __future__ import annotations

import contextlib
import random
import shutil
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import crc32c
import msgpack

from dynalsm import errors
from dynalsm._core import Engine
from dynalsm._core.repair import repair
from dynalsm._core.verify import verify
from tests.format import log as log_page
from tests.format import sstable as table_page
from tests.format.log import le
from tests.fuzz.loop import told
from tests.fuzz.mutate import LEAVES, NUMBERS, mutate, mutate_tree, varint

OPTIONS: dict[str, Any] = {
    "durability": "os",
    "background": False,
    "memory_bytes": 8 << 20,
    "block_bytes": 256,
    "target_file_bytes": 4000,
    "hash_partitions": 2,
}
STEPS_LIMIT = 20_000
Files = dict[str, bytes]
SPARE_LEAVES = [*LEAVES, b"", b"\xff" * 9, *NUMBERS]


def read_files(directory: Path) -> Files:
    """Every file but the locks, by its path."""
    return {
        str(path.relative_to(directory)): path.read_bytes().rstrip(b"\0")
        if path.suffix == ".wal"
        else path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.startswith("LOCK")
    }


# -------------------------------------------------------------------------------------- SSTables


class Table:
    """An SSTable in pieces."""

    def __init__(self, data: bytes) -> None:
        read = table_page.SSTable(data)
        self.unique_id = read.unique_id
        self.blocks = [
            read._payload(block.offset, block.stored, block.raw) for block in read.blocks
        ]
        self.separators = [block.separator for block in read.blocks]
        self.sections = {kind: read._section(kind) for kind in read.sections}
        self.flags = {kind: int(kind == table_page.FILTER) for kind in self.sections}
        self.sizes: list[int | None] = [None] * len(self.blocks)
        self.keeps_index = False

    def change(self, rng: random.Random) -> None:
        """Change one piece."""
        way = rng.randrange(10)
        if way < 6:
            place = rng.randrange(len(self.blocks))
            self.blocks[place] = change_block(rng, self.blocks[place])
        elif way == 6:
            place = rng.randrange(len(self.blocks))
            key, tag = self.separators[place]
            self.separators[place] = mutate(rng, key), tag ^ rng.choice([0, 1, 256])
            self.sizes[place] = rng.choice([None, None, *NUMBERS])
        elif way == 7:
            index = table_page.INDEX
            self.keeps_index = True
            self.sections[index] = mutate(rng, self.sections[index])
        elif way == 8 and table_page.FILTER in self.sections:
            change = mutate(rng, self.sections[table_page.FILTER])
            self.sections[table_page.FILTER] = change
        else:
            kind = table_page.PROPERTIES
            self.sections[kind] = change_packed(rng, self.sections[kind])

    def bytes(self) -> bytes:
        """Put the file together."""
        out = bytearray(table_page.MAGIC + le(self.unique_id, 8))
        index = bytearray(varint(len(self.blocks)))
        before = b""
        for block, (key, tag), size in zip(self.blocks, self.separators, self.sizes, strict=True):
            self._seal(out, block)
            shared = common(before, key)
            index += varint(2 * shared + (1 if tag else 0)) + varint(len(key) - shared)
            index += key[shared:] + (varint(tag) if tag else b"")
            index += varint(len(block)) + varint(len(block) if size is None else size)
            before = key
        if not self.keeps_index:
            self.sections[table_page.INDEX] = bytes(index)
        directory = bytearray()
        for kind, payload in sorted(self.sections.items()):
            place = le(len(out), 8) + le(len(payload), 8)
            directory += bytes([kind, self.flags[kind]]) + bytes(6) + place
            self._seal(out, payload)
        place = len(out)
        self._seal(out, bytes(directory))
        footer = table_page.MAGIC + le(1, 2) + le(1, 2) + bytes(12) + le(place, 8)
        footer += le(len(directory), 8) + le(self.unique_id, 8) + le(len(out) + 64, 8) + bytes(4)
        return bytes(out) + footer + le(crc32c.crc32c(footer), 4)

    def _seal(self, out: bytearray, payload: bytes) -> None:
        end = le(self.unique_id, 8) + le(len(out), 8)
        out += payload + b"\0" + le(crc32c.crc32c(payload + b"\0" + end), 4)


def common(one: bytes, other: bytes) -> int:
    """How many leading bytes two keys share."""
    return next(
        (place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
        min(len(one), len(other)),
    )


def change_block(rng: random.Random, block: bytes) -> bytes:
    """Change a data block: its entries, its offsets or its tail."""
    word = table_page.u32(block, len(block) - 4)
    count = word & 0xFFFFFF
    tail = len(block) - 4 - count * 3
    way = rng.randrange(4)
    if way == 0:  # Entries, with the offsets as they were.
        head = mutate(rng, block[:tail])
        return head[:tail].ljust(tail, b"\0") + block[tail:]
    if way == 1:
        at = rng.randrange(tail, len(block))
        return block[:at] + bytes([rng.choice([0, 255, rng.randrange(256)])]) + block[at + 1 :]
    if way == 2:
        bad = rng.choice([*NUMBERS, word ^ 1 << rng.randrange(32), count + 1, count - 1])
        return block[:-4] + le(bad & 0xFFFFFFFF, 4)
    return mutate(rng, block)


def change_packed(rng: random.Random, packed: bytes) -> bytes:
    """Change a msgpack map: as a value, or as bytes."""
    if rng.random() < 0.3:
        return mutate(rng, packed)
    try:
        value = mutate_tree(rng, msgpack.unpackb(packed, strict_map_key=False), SPARE_LEAVES)
        return bytes(msgpack.packb(value, unicode_errors="surrogatepass"))
    except (ValueError, OverflowError, RecursionError, TypeError):
        return mutate(rng, packed)


# ------------------------------------------------------------------------------ logs and manifests


def change_log(rng: random.Random, data: bytes) -> bytes:
    """Change payloads and heads of records, and put the log together again."""
    out = bytearray(data[:64])
    if rng.random() < 0.1:
        at = rng.randrange(8, 52)
        out[at] ^= 1 << rng.randrange(8)
        out[52:56] = le(crc32c.crc32c(bytes(out[:52])), 4)
    records = list_records(data)
    if records:
        place = rng.randrange(len(records))
        records[place] = change_record(rng, *records[place])
    for head, payload in records:
        size = len(payload)
        sealed = le(len(out), 8) + le(size, 4) + head + payload
        out += le(size, 4) + le(crc32c.crc32c(sealed), 4) + head + payload
        out += bytes(-len(out) % 8)
    return bytes(out)


def change_record(rng: random.Random, head: bytes, payload: bytes) -> tuple[bytes, bytes]:
    """Change the payload, or a number in the head."""
    if rng.random() < 0.75:
        return head, mutate(rng, payload, words=[varint(each) for each in NUMBERS])
    place, width = rng.choice([(0, 4), (4, 4), (8, 8), (16, 8)])
    bad = rng.choice(NUMBERS) & ((1 << 8 * width) - 1)
    return head[:place] + le(bad, width) + head[place + width :], payload


def list_records(data: bytes) -> list[tuple[bytes, bytes]]:
    """The records of a log: bytes 8 to 31 of the head, and the payload."""
    at, found = 64, []
    while at + 32 <= len(data):
        size = log_page.u32(data, at)
        found.append((data[at + 8 : at + 32], data[at + 32 : at + 32 + size]))
        at = log_page.aligned(at + 32 + size)
    return found


def seal_manifest(number: int, edits: Sequence[bytes]) -> bytes:
    """Put a manifest together of packed edits."""
    header = b"DLSMMAN1" + le(1, 4) + le(1, 4) + le(1, 4) + le(0, 4) + le(number, 8) + le(0, 4)
    out = bytearray(header + le(crc32c.crc32c(header), 4))
    for payload in [*edits, b""]:
        synced = len(out)
        head = le(number, 8) + le(len(out), 8) + le(len(payload), 4) + le(synced, 8)
        frame = le(len(payload), 4) + le(crc32c.crc32c(head + payload), 4) + le(synced, 8)
        out += frame + payload
        out += bytes(-len(out) % 8)
    return bytes(out)


class Directory:
    """A database in pieces."""

    def __init__(self, path: Path) -> None:
        self.files = read_files(path)
        self.manifest = next(name for name in self.files if name.startswith("MANIFEST"))
        self.edits = log_page.read_manifest(path / self.manifest)
        self.tables = [name for name in self.files if name.endswith(".sst")]
        self.logs = [name for name in self.files if name.endswith(".wal")]

    def changed(self, rng: random.Random) -> Files:
        """The files, with something changed in some of them."""
        files = dict(self.files)
        way = rng.random()
        edits = [msgpack.packb(edit) for edit in self.edits]
        if way < 0.55:
            for name in rng.sample(self.tables, rng.choice([1, 1, 2])):
                table = Table(files[name])
                for _ in range(rng.choice([1, 1, 2, 3])):
                    table.change(rng)
                files[name] = table.bytes()
            edits = [self.resized(edit, files) for edit in edits]
        elif way < 0.8:
            for name in rng.sample(self.logs, rng.choice([1, len(self.logs)])):
                files[name] = change_log(rng, files[name])
        else:
            place = rng.randrange(len(edits))
            edits[place] = change_packed(rng, edits[place])
        files[self.manifest] = seal_manifest(int(self.manifest.partition("-")[2]), edits)
        return files

    def resized(self, packed: bytes, files: Files) -> bytes:
        """The edit with the sizes that the tables have now."""
        edit = msgpack.unpackb(packed, strict_map_key=False)
        for table in edit.get("add", []):
            name = f"data/{table[0]:06d}/{table[1]:06d}/{table[3]:012d}.sst"
            if name in files:
                table[4] = len(files[name])
        return bytes(msgpack.packb(edit))


# -------------------------------------------------------------------------------------- the target


class Storage:
    """See the module's docstring."""

    name = "storage"
    may_log = True  # what salvage put aside
    has_state = False

    def __init__(self, work: Path) -> None:
        self.path = work / "database"
        self.sample = self.make_sample(work / "sample")

    def make_sample(self, path: Path) -> Directory:
        """Two trees, tables on two levels, deleted ranges, two logs."""
        engine = Engine.open(str(path), **OPTIONS)
        raw, hashed = engine.create_tree("raw"), engine.create_tree("hashed", hashed=True)
        rng = random.Random(1)
        for turn in range(3):
            for number in range(60):
                key = b"key-%03d" % rng.randrange(200)
                raw.put(key, b"value %d " % number * rng.choice([1, 1, 40]))
                hashed.put(rng.randbytes(1) * 8 + key, b"x" * number)
                if number % 9 == 0:
                    raw.delete(key)
            batch = engine.batch()
            batch.delete_range(raw, b"key-050", b"key-06")
            batch.put_stamped(raw, b"stamped-", b"-end", b"v")
            engine.write(batch)
            if turn < 2:
                engine.flush()
            if turn == 0:
                engine.compact()
        shutil.copytree(path, f"{path}-kept")
        engine.close()
        shutil.rmtree(path)
        return Directory(Path(f"{path}-kept"))

    def seeds(self) -> list[bytes]:
        return [self.packed(step, self.sample.files) for step in range(len(self.WAYS))]

    def packed(self, way: int, files: Files) -> bytes:
        return bytes([way]) + bytes(msgpack.packb(list(files.items())))

    def make(self, rng: random.Random, kept: Sequence[bytes]) -> bytes:
        return self.packed(rng.randrange(len(self.WAYS)), self.sample.changed(rng))

    def run(self, data: bytes) -> str:
        shutil.rmtree(self.path, ignore_errors=True)
        for name, content in msgpack.unpackb(data[1:]):
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        try:
            self.WAYS[data[0] % len(self.WAYS)](self)
        except errors.StorageError as error:
            return told(error)
        return "fine"

    def read(self) -> None:
        """Open, read everything in every way, close."""
        with contextlib.closing(Engine.open(str(self.path), **OPTIONS)) as engine:
            self.read_all(engine)

    def read_all(self, engine: Engine) -> None:
        found: list[errors.StorageError] = []
        for name in engine.tree_names():
            tree = engine.tree(name)
            for reverse in (False, True):
                with self.noting(found):
                    count = sum(1 for _ in islice(tree.cursor(reverse=reverse), STEPS_LIMIT))
                    assert count < STEPS_LIMIT
            keys = [b"key-%03d" % number for number in range(0, 200, 7)]
            keys += [b"", b"\xff" * 20, *(bytes([byte]) * 8 + keys[0] for byte in (0, 77, 255))]
            for key in keys:
                with self.noting(found):
                    tree.get(key)
                with self.noting(found), contextlib.closing(tree.cursor(key)) as cursor:
                    cursor.next_chunk(3)
                    cursor.seek(b"key-100")
                    cursor.next_chunk(3)
            with self.noting(found):
                tree.multi_get(keys)
            with self.noting(found):
                tree.approximate_size(b"key-050", b"key-150")
            with self.noting(found):
                tree.partitions()
        with self.noting(found):
            engine.stats()
        if found:
            raise found[0]

    def noting(self, found: list[errors.StorageError]) -> Any:
        """Go on after a StorageError, and note it."""

        @contextlib.contextmanager
        def guard() -> Any:
            try:
                yield
            except errors.StorageError as error:
                found.append(error)

        return guard()

    def rewrite(self) -> None:
        """Open, flush, compact, split what may be split, write, read."""
        with contextlib.closing(Engine.open(str(self.path), **OPTIONS)) as engine:
            engine.flush()
            engine.compact()
            for name in engine.tree_names():
                engine.tree(name).put(b"\x11" * 8 + b"new", b"value")
            engine.flush()
            engine.compact()
            self.read_all(engine)

    def look(self) -> None:
        """Verify, in a process of its own or open."""
        verify(str(self.path))
        with contextlib.closing(Engine.open(str(self.path), read_only=True, **OPTIONS)) as engine:
            self.read_all(engine)

    def mend(self) -> None:
        """Repair, and then it must open; only what repair itself refuses may fail."""
        repair(str(self.path))
        with contextlib.closing(Engine.open(str(self.path), **OPTIONS)) as engine:
            self.read_all(engine)

    def salvage(self) -> None:
        """Open with recovery="salvage"."""
        options = {**OPTIONS, "recovery": "salvage"}
        with contextlib.closing(Engine.open(str(self.path), **options)) as engine:
            self.read_all(engine)

    def copy(self) -> None:
        """Take a checkpoint and open that."""
        with contextlib.closing(Engine.open(str(self.path), **OPTIONS)) as engine:
            target = str(self.path) + "-copy"
            shutil.rmtree(target, ignore_errors=True)
            engine.checkpoint(target)
        with contextlib.closing(Engine.open(target, **OPTIONS)) as engine:
            self.read_all(engine)

    WAYS: tuple[Callable[[Any], None], ...] = (read, read, rewrite, look, mend, salvage, copy)

    def reset(self) -> None:
        """The directory is made anew for each input."""

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
