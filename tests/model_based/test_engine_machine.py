"""The engine against the plain model: random calls must always leave both with the same content.

Everything is tiny, so that a few dozen steps fill several levels, split partitions and leave part
of the data in the log. Each step ends with a comparison of all trees; snapshots, cursors and point
reads have rules of their own.
"""

from __future__ import annotations

import contextlib
import importlib.util
import random
import shutil
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dynalsm._core import Engine, Snapshot
from dynalsm._core.split import split_once
from dynalsm._core.verify import verify
from tests.support.memory_engine import MemoryEngine, MemorySnapshot
from tests.support.scratch import scratch_directory

OPTIONS: dict[str, Any] = {
    "durability": "os",
    "background": False,
    "memory_bytes": 4 << 20,
    "write_buffer_bytes": 8_000,
    "block_bytes": 128,
    "restart_interval": 3,
    "target_file_bytes": 2_000,
    "partition_limit_bytes": 700,
    "hash_partitions": 2,
}
TREES = {"plain": False, "hashed": True}
SNAPSHOTS_MAX = 4

NAMES = st.sampled_from(list(TREES))
# Eight bytes decide the partition; what follows them keeps keys of one hash apart.
PREFIXES = st.sampled_from([bytes([byte]) * 8 for byte in range(0, 256, 16)] + [b"\xff" * 8])
KEYS = st.builds(lambda prefix, rest: prefix + rest, PREFIXES, st.binary(max_size=2))
BOUNDS = st.none() | KEYS | st.binary(max_size=3)
# The long ones do not compress, so that tables grow beyond their limits.
LONG = [random.Random(number).randbytes(300) for number in range(3)]
VALUES = st.sampled_from([b"", b"v", b"\x00" * 9, b"middle" * 8, *LONG])
CHANGES = st.one_of(
    st.tuples(st.just("put"), NAMES, KEYS, VALUES),
    st.tuples(st.just("put_stamped"), NAMES, KEYS, st.just(b"end"), VALUES),
    st.tuples(st.just("delete"), NAMES, KEYS),
    st.tuples(st.just("delete_range"), NAMES, BOUNDS, BOUNDS),
)


def ordered(lower: bytes | None, upper: bytes | None) -> tuple[bytes | None, bytes | None]:
    """The bounds the right way round, for calls that refuse them otherwise."""
    if lower is not None and upper is not None and lower > upper:
        return upper, lower
    return lower, upper


def is_empty(lower: bytes | None, upper: bytes | None) -> bool:
    """Whether nothing lies between; the engine gives such a range no sequence number."""
    return upper is not None and (lower or b"") >= upper


class EngineMachine(RuleBasedStateMachine):
    key: bytes | None = None  # of an encrypted database

    def __init__(self) -> None:
        super().__init__()
        self.resources = contextlib.ExitStack()
        self.directory = Path(self.resources.enter_context(scratch_directory()))
        self.copies = 0
        self.snapshots: list[tuple[Snapshot, MemorySnapshot]] = []
        self.model = MemoryEngine()
        self.engine = self.open()
        for name in TREES:
            self.create(name)

    def open(self) -> Engine:
        return Engine.open(self.directory / "db", encryption_key=self.key, **OPTIONS)

    def create(self, name: str) -> None:
        self.engine.create_tree(name, hashed=TREES[name])
        self.model.create_tree(name, hashed=TREES[name])

    def release_snapshots(self) -> None:
        for snapshot, _ in self.snapshots:
            snapshot.close()
        self.snapshots.clear()

    def teardown(self) -> None:
        try:
            for index in range(len(self.snapshots)):
                self.check_snapshot(index)
            self.release_snapshots()
            self.engine.close()
            assert verify(self.directory / "db", encryption_key=self.key).problems == []
        finally:
            self.engine.close()
            self.resources.close()

    # ------------------------------------------------------------------------------------ writes

    @initialize(value=VALUES)
    def fill(self, value: bytes) -> None:
        """Something on disk in every partition from the start."""
        for name in TREES:
            self.batch([("put", name, bytes([byte]) * 8, value) for byte in range(0, 256, 16)])
        self.flush()

    @rule(name=NAMES, key=KEYS, value=VALUES)
    def put(self, name: str, key: bytes, value: bytes) -> None:
        self.engine.tree(name).put(key, value)
        self.model.tree(name).put(key, value)

    @rule(name=NAMES, key=KEYS)
    def delete(self, name: str, key: bytes) -> None:
        self.engine.tree(name).delete(key)
        self.model.tree(name).delete(key)

    @rule(changes=st.lists(CHANGES, min_size=1, max_size=30))
    def batch(self, changes: list[tuple[Any, ...]]) -> None:
        batch, model = self.engine.batch(), self.model.batch()
        for kind, name, *rest in changes:
            parts = ordered(*rest) if kind == "delete_range" else rest
            getattr(batch, kind)(self.engine.tree(name), *parts)
            if kind != "delete_range" or not is_empty(*parts):
                getattr(model, kind)(self.model.tree(name), *parts)
        assert self.engine.write(batch) == self.model.write(model)

    @rule(name=NAMES, lower=BOUNDS, upper=BOUNDS)
    def delete_range(self, name: str, lower: bytes | None, upper: bytes | None) -> None:
        self.batch([("delete_range", name, lower, upper)])

    @rule(name=NAMES, keys=st.sets(KEYS, min_size=1, max_size=30), value=VALUES)
    def ingest(self, name: str, keys: set[bytes], value: bytes) -> None:
        entries = [(key, value) for key in sorted(keys)]
        assert self.engine.ingest(self.engine.tree(name), entries) == len(entries)
        seqno = self.engine.last_seqno  # one for all of it, newer than all before
        assert seqno > self.model.last_seqno
        for key, _ in entries:
            self.model.tree(name)._apply(seqno, key, value)
        self.model.last_seqno = seqno

    # ------------------------------------------------------------------------------------- reads

    @rule(name=NAMES, keys=st.lists(KEYS, max_size=12))
    def multi_get(self, name: str, keys: list[bytes]) -> None:
        tree, model = self.engine.tree(name), self.model.tree(name)
        assert tree.multi_get(keys) == model.multi_get(keys) == [tree.get(key) for key in keys]

    @rule(
        name=NAMES,
        lower=BOUNDS,
        upper=BOUNDS,
        reverse=st.booleans(),
        seeks=st.lists(KEYS, max_size=3),
        chunk=st.integers(1, 40),
    )
    def walk(
        self,
        name: str,
        lower: bytes | None,
        upper: bytes | None,
        reverse: bool,
        seeks: list[bytes],
        chunk: int,
    ) -> None:
        cursor = self.engine.tree(name).cursor(lower, upper, reverse=reverse)
        model = self.model.tree(name).cursor(lower, upper, reverse=reverse)
        with cursor:
            assert cursor.next_chunk(chunk) == model.next_chunk(chunk)
            for key in seeks:
                cursor.seek(key)
                model.seek(key)
                assert cursor.next_chunk(chunk) == model.next_chunk(chunk)
            assert list(cursor) == list(model)

    @rule(name=NAMES, lower=BOUNDS, upper=BOUNDS, key=KEYS, steps=st.lists(st.booleans()))
    def turn_round(
        self, name: str, lower: bytes | None, upper: bytes | None, key: bytes, steps: list[bool]
    ) -> None:
        """Forth and back over the same entries, from the gap before a key."""
        entries = list(self.model.tree(name).cursor(lower, upper))
        place = sum(found < key for found, _ in entries)
        with self.engine.tree(name).cursor(lower, upper) as cursor:
            cursor.seek_before(key)
            for is_forward in steps:
                if is_forward:
                    expected = entries[place] if place < len(entries) else None
                    assert cursor.next_entry() == expected
                    place += expected is not None
                else:
                    expected = entries[place - 1] if place else None
                    assert cursor.prev_entry() == expected
                    place -= expected is not None

    # --------------------------------------------------------------------------------- snapshots

    @precondition(lambda self: len(self.snapshots) < SNAPSHOTS_MAX)
    @rule()
    def take_snapshot(self) -> None:
        self.snapshots.append((self.engine.snapshot(), self.model.snapshot()))

    @precondition(lambda self: self.snapshots)
    @rule(data=st.data())
    def read_snapshot(self, data: st.DataObject) -> None:
        self.check_snapshot(data.draw(st.integers(0, len(self.snapshots) - 1)))

    @precondition(lambda self: self.snapshots)
    @rule(data=st.data())
    def close_snapshot(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.snapshots) - 1))
        self.snapshots.pop(index)[0].close()

    def check_snapshot(self, index: int) -> None:
        snapshot, model_snapshot = self.snapshots[index]
        for name in TREES:
            tree = self.engine.tree(name)
            expected = list(self.model.tree(name).cursor(snapshot=model_snapshot))
            assert list(tree.cursor(snapshot=snapshot)) == expected
            assert list(tree.cursor(snapshot=snapshot, reverse=True)) == expected[::-1]
            keys = [key for key, _ in expected]
            assert tree.multi_get(keys, snapshot) == [value for _, value in expected]

    # --------------------------------------------------------------------------- what stays equal

    @rule()
    def flush(self) -> None:
        self.engine.flush()

    @rule(name=st.none() | NAMES, lower=BOUNDS, upper=BOUNDS)
    def compact(self, name: str | None, lower: bytes | None, upper: bytes | None) -> None:
        if name is None:
            self.engine.compact()
        else:
            self.engine.compact(self.engine.tree(name), *ordered(lower, upper))

    @rule()
    def split(self) -> None:
        before = len(self.engine.tree("hashed").partitions())
        if split_once(self.engine):
            assert len(self.engine.tree("hashed").partitions()) == before + 1

    @rule()
    def reopen(self) -> None:
        self.release_snapshots()
        self.engine.close()
        self.engine = self.open()

    @rule(name=NAMES, reopens=st.booleans())
    def drop_and_create(self, name: str, reopens: bool) -> None:
        self.release_snapshots()
        self.engine.drop_tree(name)
        self.model.drop_tree(name)
        if reopens:
            self.reopen()
        assert self.engine.tree_names() == self.model.tree_names()
        self.create(name)

    @rule()
    def checkpoint(self) -> None:
        self.copies += 1
        path = self.directory / f"copy-{self.copies}"
        self.engine.checkpoint(path)
        copy = Engine.open(path, encryption_key=self.key, **OPTIONS)
        try:
            self.compare(copy)
            copy.tree("plain").put(b"own", b"of the copy")  # must not show in the original
        finally:
            copy.close()
        assert verify(path, encryption_key=self.key).problems == []
        shutil.rmtree(path)

    def compare(self, engine: Engine) -> None:
        assert engine.tree_names() == self.model.tree_names()
        for name in TREES:
            assert list(engine.tree(name).cursor()) == list(self.model.tree(name).cursor())

    @invariant()
    def same_content(self) -> None:
        self.compare(self.engine)


class EncryptedEngineMachine(EngineMachine):
    """The same with encryption, whose keys change at any step."""

    def __init__(self) -> None:
        self.key = bytes(32)
        super().__init__()

    @rule(byte=st.integers(0, 255))
    def rotate_key(self, byte: int) -> None:
        key = bytes([byte]) * 32
        self.engine.rotate_key(key)
        self.key = key

    @rule()
    def rotate_data_key(self) -> None:
        self.engine.rotate_data_key()


EngineMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=50, deadline=None, print_blob=True
)
TestEngineMachine = EngineMachine.TestCase

if importlib.util.find_spec("cryptography") is not None:
    EncryptedEngineMachine.TestCase.settings = settings(
        max_examples=15, stateful_step_count=40, deadline=None, print_blob=True
    )
    TestEncryptedEngineMachine = EncryptedEngineMachine.TestCase
