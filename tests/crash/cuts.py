"""Power cuts over a recorded workload: choose points, rebuild states, open and check each.

Used by test_power_loss.py (short) and `python -m tests.crash power` (long).
"""

from __future__ import annotations

import contextlib
import copy
import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from dynalsm._core import files, manifest, seam
from dynalsm.database import open_path
from tests.crash import power
from tests.crash.checks import Acknowledged, Expectation, check_state
from tests.crash.items import NAME, TINY, Actor, check_items, open_items
from tests.crash.power import CHOICES, KEPT, LOST, MODELS, SECTORS, Disk, Entry
from tests.crash.workload import Workload


class Recorded(Protocol):
    """A recorded run: entries of `root`, and acknowledgements (writes to `marks`) in between."""

    root: str
    entries: list[Entry]
    marks: str
    seed: int
    # What was there when the recording began (None: nothing), and what had been acknowledged.
    start: Disk | None
    least: Acknowledged

    def check(self, path: str, least: Acknowledged, rng: random.Random) -> Any:
        """Open the state in `path`; AssertionError or StorageError when a promise is broken."""


@dataclass
class Recording:
    """A run of a Workload on the engine."""

    root: str
    entries: list[Entry]
    marks: str
    workload: Workload
    seed: int
    start: Disk | None = None
    least: Acknowledged = field(default_factory=Acknowledged)

    def __post_init__(self) -> None:
        self.wanted = Expectation(self.workload)

    def check(self, path: str, least: Acknowledged, rng: random.Random) -> Any:
        return check_state(path, self.wanted, least, rng)


@dataclass
class ItemRecording:
    """A run of an Actor on a table."""

    root: str
    entries: list[Entry]
    marks: str
    actor: Actor
    seed: int
    encryption_key: bytes | None = None
    start: Disk | None = None
    least: Acknowledged = field(default_factory=Acknowledged)

    def check(self, path: str, least: Acknowledged, rng: random.Random) -> Any:
        options = {**TINY, "background": False, "encryption_key": self.encryption_key}
        with open_path(path, **options) as database:
            if database.catalog.get(NAME) is None:
                assert not least.worlds, "the table is gone"
                return None
            return check_items(database, [(self.actor, least.seqno, self.actor.count)])


class Marks:
    """Puts what is acknowledged into the recording: writes to a file beside the database."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = files.File(path, os.O_RDWR | os.O_CREAT)

    def __call__(self, acknowledged: Acknowledged) -> None:
        self._file.write(acknowledged.pack(), 0)

    def close(self) -> None:
        self._file.close()


def record(work: str, seed: int, steps: int, **options: Any) -> Recording:
    """Run a workload under the recorder, in a new directory inside `work`."""
    root = os.path.join(work, "db")
    shutil.rmtree(root, ignore_errors=True)
    workload = Workload(root, seed, **options)
    entries = run_recorded(work, workload, steps)
    shutil.rmtree(root)
    return Recording(root, entries, os.path.join(work, "marks"), workload, seed)


def record_items(work: str, seed: int, operations: int, **options: Any) -> ItemRecording:
    """Run one actor on a table under the recorder, with a reopen and a compaction in between."""
    root, marks = os.path.join(work, "db"), os.path.join(work, "marks")
    shutil.rmtree(root, ignore_errors=True)
    note, actor, rng = Marks(marks), Actor("a", seed), random.Random(seed)
    durable = options.get("durability", "commit") == "commit"
    seam.start_recording()
    try:
        with small_manifests():
            database = open_items(root, **options)
            note(Acknowledged(0, 1))
            for _ in range(operations):
                actor.run_one(database)
                if durable:
                    note(Acknowledged(actor.count, 1))
                dice = rng.random()
                if dice < 0.03:
                    database.close()
                    note(Acknowledged(actor.count, 1))
                    database = open_items(root, **options)
                elif dice < 0.05:
                    database.compact()
                elif dice < 0.1 and "encryption_key" in options:
                    database.rotate_data_key()
            database.close()
            note(Acknowledged(actor.count, 1))
    finally:
        entries = seam.stop_recording()
        note.close()
    shutil.rmtree(root)
    return ItemRecording(root, entries, marks, actor, seed, options.get("encryption_key"))


def run_recorded(work: str, workload: Workload, steps: int) -> list[Entry]:
    note = Marks(os.path.join(work, "marks"))
    workload.on_acknowledge = note
    seam.start_recording()
    try:
        with small_manifests():
            run_from_the_start(workload, steps)
    finally:
        entries = seam.stop_recording()
        note.close()
    return entries


def run_from_the_start(workload: Workload, steps: int) -> None:
    if not os.path.exists(workload.path) and workload.rng.random() < 0.3:
        files.make_directory(workload.path, sync=False)  # by somebody careless
    workload.run(steps)


@contextlib.contextmanager
def small_manifests() -> Iterator[None]:
    """Let manifests be rolled after a few edits."""
    before = manifest.ROLL_BYTES, manifest.ROLL_FACTOR
    manifest.ROLL_BYTES, manifest.ROLL_FACTOR = 1000, 2
    try:
        yield
    finally:
        manifest.ROLL_BYTES, manifest.ROLL_FACTOR = before


def record_recovery(
    work: str, recording: Recording, cut: Cut, rng: random.Random, steps: int = 0
) -> Recording:
    """Crash at the cut (the process or the power), open again under the recorder, go on.

    When only the process died, what was not durable is there, and still not durable."""
    if rng.random() < 0.5:
        state, disk = cut.disk.now(), cut.disk
    else:
        state = cut.disk.crash(rng, rng.choice(MODELS), rng.choice(CHOICES), rng.choice(SECTORS))
        disk = Disk(recording.root, state)
    power.write_state(state, recording.root)
    if not disk.exists():
        os.rmdir(recording.root)
    workload = recording.workload.resumed(cut.least)
    workload.rng = random.Random(rng.random())
    entries = run_recorded(work, workload, steps)
    shutil.rmtree(recording.root)
    return Recording(
        recording.root, entries, recording.marks, workload, recording.seed, disk, cut.least
    )


@dataclass
class Cut:
    """The power goes after `point` entries."""

    point: int
    disk: Disk
    least: Acknowledged


def cuts(
    recording: Recorded, points: list[int], entries: list[Entry] | None = None
) -> Iterator[Cut]:
    """The disk at each of the points (ascending)."""
    disk = copy.deepcopy(recording.start) if recording.start else Disk(recording.root)
    least = recording.least
    done = 0
    entries = recording.entries if entries is None else entries
    for point in points:
        for entry in entries[done:point]:
            if entry[1] == recording.marks:
                if entry[0] == "write":
                    least = Acknowledged.unpack(entry[4] or b"")
            else:
                disk.apply(entry)
        done = max(done, point)
        yield Cut(point, disk, least)


def choose_points(rng: random.Random, count: int, total: int) -> list[int]:
    """All of them when there are not more than `total`."""
    if count + 1 <= total:
        return list(range(count + 1))
    return sorted(rng.sample(range(count + 1), total))


def variants(rng: random.Random, number: int) -> Iterator[tuple[str, str, int]]:
    """(model, choice, sector): the two extremes of each model first, then random ones."""
    fixed = [(model, choice, 512) for model in MODELS for choice in (LOST, KEPT)]
    for index in range(number):
        if index < len(fixed):
            yield fixed[index]
        else:
            yield rng.choice(MODELS), rng.choice(CHOICES), rng.choice(SECTORS)


class Violation(AssertionError):
    """A promise does not hold in a state; the text says how to make the state again."""


def check_cut(recording: Recorded, cut: Cut, target: str, number: int, rng: random.Random) -> int:
    """Check so many states of one cut. Returns: how many."""
    order = list(variants(rng, number))
    for model, choice, unit in order:
        state = cut.disk.crash(rng, model, choice, unit)
        power.write_state(state, target)
        try:
            recording.check(target, cut.least, rng)
        except Exception as error:
            raise Violation(
                f"seed {recording.seed}, after entry {cut.point}, {model}, {choice}, {unit}: "
                f"{type(error).__name__}: {error}"
            ) from error
    return len(order)


def check_recording(
    recording: Recorded,
    rng: random.Random,
    target: str,
    *,
    points: int,
    states: int,
    entries: list[Entry] | None = None,
) -> int:
    """Check states at random points of a recording. Returns: how many states."""
    entries = recording.entries if entries is None else entries
    chosen = choose_points(rng, len(entries), points)
    return sum(
        check_cut(recording, cut, target, states, rng) for cut in cuts(recording, chosen, entries)
    )
