"""Damage to a whole database, file by file: bits, lengths, pages, names.

Every way of damage is tried on a database that was closed and on one that a power cut ended. What
must hold each time: an open that reads everything gives an error that names a file of the
directory, or exactly what was written (but for the very last record before a power cut: when it is
damaged, nothing tells it from one that was never written whole); `verify` finds damage wherever the
data would suffer from it; `repair` makes it open again, and keeps every key whose block and record
are whole.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dynalsm import errors
from dynalsm._core import Engine
from dynalsm._core.repair import Repaired, repair
from dynalsm._core.verify import verify

PAGE = 4096
OPTIONS = {
    "memory_bytes": 4 << 20,
    "block_bytes": 512,
    "target_file_bytes": 8_000,
    "background": False,
}

Content = dict[str, dict[bytes, bytes]]


@dataclass
class Sample:
    """A database, and what is in it."""

    path: Path
    content: Content
    last: tuple[str, bytes] | None  # tree and key of the last record, where no later one follows
    key: bytes | None = None

    def files(self) -> list[Path]:
        """Every file that holds something, by path."""
        found = (Path(root) / name for root, _, names in os.walk(self.path) for name in names)
        return sorted(path for path in found if not path.name.startswith("LOCK"))


def make(path: Path, *, is_closed: bool, encryption_key: bytes | None = None) -> Sample:
    """Several levels, deletions, a deleted range, two logs with what is in no table yet.

    An encrypted one has two data keys.
    """
    source = random.Random(5)
    work = path.with_suffix(".work")
    engine = Engine.open(str(work), encryption_key=encryption_key, **OPTIONS)
    trees = {
        "plain": engine.create_tree("plain"),
        "hashed": engine.create_tree("hashed", hashed=True),
    }
    content: Content = {name: {} for name in trees}

    def put(count: int) -> None:
        for _ in range(count):
            name = source.choice(list(trees))
            key = source.randbytes(8) + b"%d" % source.randrange(1000)
            value = source.choice([source.randbytes(60), b"same" * 20])
            trees[name].put(key, value, sync=True)
            content[name][key] = value

    def delete(count: int) -> None:
        for _ in range(count):
            name = source.choice(list(trees))
            key = source.choice(list(content[name]))
            trees[name].delete(key)
            del content[name][key]

    put(300)
    engine.flush()
    engine.compact()
    if engine.keys is not None:
        engine.keys.add_key()
    put(60)
    delete(20)
    batch = engine.batch()
    batch.delete_range(trees["plain"], b"\x10", b"\x30")
    engine.write(batch)
    for key in [key for key in content["plain"] if b"\x10" <= key < b"\x30"]:
        del content["plain"][key]
    engine.flush()
    put(40)
    engine.close()  # what is little stays in its log
    engine = Engine.open(str(work), encryption_key=encryption_key, **OPTIONS)
    trees = {name: engine.tree(name) for name in trees}
    put(20)  # within a page: without its last page a log ends like one that was never synced
    delete(5)
    last = ("plain", b"last")
    trees["plain"].put(b"last", b"record")
    content["plain"][b"last"] = b"record"
    if is_closed:
        engine.close()
    shutil.copytree(work, path)
    if not is_closed:
        engine.close()
    shutil.rmtree(work)
    return Sample(path, content, None if is_closed else last, encryption_key)


# -------------------------------------------------------------------------------- ways of damage

Damage = tuple[str, Callable[[], None]]


def damages(sample: Sample, rng: random.Random, per_file: int | None) -> Iterator[Damage]:
    """(name, function that does it) for every file; per_file: so many flips (None: every byte)."""
    paths = sample.files()
    for path in paths:
        size = path.stat().st_size
        data = path.read_bytes()
        end = len(data.rstrip(b"\0")) + 64  # behind it: what was reserved and never written
        places = list(range(min(size, end)))
        if per_file is not None and len(places) > per_file:
            places = sorted(rng.sample(places, per_file))
        name = path.relative_to(sample.path)
        for place in places:
            bit = 1 << rng.randrange(8)
            yield f"{name}: bit {bit} of byte {place}", _flipper(path, place, bit)
        for length in {0, 1, size // 2, size - 1} & set(range(size)):
            yield f"{name}: cut off at {length}", _cutter(path, length)
        for page in range(0, min(size, end), PAGE):
            yield f"{name}: page at {page} zeroed", _zeroer(path, page)
        yield f"{name}: removed", path.unlink
    for kind in (".sst", ".wal"):
        same = [path for path in paths if path.suffix == kind]
        for one, other in itertools.pairwise(same):
            yield f"{one.name} and {other.name} swapped", _swapper(one, other)


def _flipper(path: Path, place: int, bit: int) -> Callable[[], None]:
    def flip() -> None:
        data = bytearray(path.read_bytes())
        data[place] ^= bit
        path.write_bytes(data)

    return flip


def _cutter(path: Path, length: int) -> Callable[[], None]:
    return lambda: os.truncate(path, length)


def _zeroer(path: Path, page: int) -> Callable[[], None]:
    def zero() -> None:
        data = bytearray(path.read_bytes())
        data[page : page + PAGE] = bytes(len(data[page : page + PAGE]))
        path.write_bytes(data)

    return zero


def _swapper(one: Path, other: Path) -> Callable[[], None]:
    def swap() -> None:
        first, second = one.read_bytes(), other.read_bytes()
        one.write_bytes(second)
        other.write_bytes(first)

    return swap


# ----------------------------------------------------------------------------------------- checks


def read_all(path: Path, *, read_only: bool = True, key: bytes | None = None) -> Content:
    """Everything in the database, read both ways and by key."""
    engine = Engine.open(
        str(path), create_if_missing=False, read_only=read_only, encryption_key=key, **OPTIONS
    )
    try:
        content: Content = {}
        for name in engine.tree_names():
            tree = engine.tree(name)
            forward = list(tree.cursor())
            assert list(tree.cursor(reverse=True)) == forward[::-1], name
            keys = [key for key, _ in forward]
            assert tree.multi_get(keys) == [value for _, value in forward], name
            content[name] = dict(forward)
        return content
    finally:
        engine.close()


def _lacks_the_last(found: Content, sample: Sample) -> bool:
    if sample.last is None:
        return False
    tree, key = sample.last
    return {**found, tree: {**found[tree], key: sample.content[tree][key]}} == sample.content


def check_damage(sample: Sample, name: str, damage: Callable[[], None], work: Path) -> str:
    """Do it to a copy and check all. Returns: what came of it."""
    saved = {path: path.read_bytes() for path in sample.files()}
    damage()
    try:
        try:
            found = read_all(sample.path, key=sample.key)
            outcome = "right"
            assert found == sample.content or _lacks_the_last(found, sample), f"{name}: wrong data"
        except errors.StorageError as error:
            outcome = "refused"
            assert error.path is not None, f"{name}: {error!r} names no file"
            assert error.path.startswith(str(sample.path)), f"{name}: {error!r}"
        report = verify(sample.path, encryption_key=sample.key)
        if outcome == "right" and name.startswith("KEYS"):
            assert not report.is_sound, f"{name}: verify finds nothing"
        if outcome == "refused":
            assert not report.is_sound, f"{name}: verify finds nothing"
            for problem in report.problems:
                assert problem.path.startswith(str(sample.path)), name
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(sample.path, work)
    finally:
        for path, data in saved.items():
            path.write_bytes(data)
    if outcome == "refused":
        check_repair(sample, name, work)
    return outcome


def check_repair(sample: Sample, name: str, work: Path) -> None:
    """What repair leaves opens, is sound, and differs only by what repair says was lost."""
    try:
        done = repair(work, encryption_key=sample.key)
    except errors.CorruptionError as error:
        assert "no manifest can be read" in str(error), name
        return
    report = verify(work, encryption_key=sample.key)
    assert report.is_sound, f"{name}: {report.problems}"
    found = read_all(work, read_only=False, key=sample.key)
    check_loss(sample, name, found, done)


def check_loss(sample: Sample, name: str, found: Content, done: Repaired) -> None:
    """Values are old or new ones of their keys; without a reported loss nothing is missing."""
    missing = sum(
        key not in found.get(tree, {}) for tree, pairs in sample.content.items() for key in pairs
    )
    assert done.problems, name
    if missing:
        assert done.lost, f"{name}: {missing} keys are gone and nothing was said"
    everything = sum(map(len, sample.content.values()))
    kept = everything - missing
    assert kept >= everything // 4, f"{name}: only {kept} of {everything} keys were saved"
    for tree, pairs in found.items():
        for key, value in pairs.items():
            if key in sample.content[tree]:
                assert value == sample.content[tree][key], f"{name}: {key!r}"
