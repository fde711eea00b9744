"""One run of a Workload in which a file operation fails: what must hold then, and afterwards.

While the fault lasts: whoever asked gets a typed error; what is acknowledged stays; reads go on
unless reading itself is what fails. When it is over: after a want that passes (space, descriptors)
writes work again without a reopen; after a change that failed for good every write is refused with
PoisonedError until the reopen. The reopen finds everything that was acknowledged, and so does the
open after a power cut.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from dataclasses import dataclass
from typing import Any

import pytest

from dynalsm import errors
from dynalsm._core import Engine, seam
from tests.crash import power
from tests.crash.checks import Expectation, check_state
from tests.crash.cuts import Marks, small_manifests
from tests.crash.power import KEPT, LOST, MIXED, Disk
from tests.crash.workload import Workload, ignore

READS = ("open", "read", "map")
CHANGES = tuple(each for each in seam.OPERATIONS if each not in READS)


@dataclass(frozen=True)
class Fault:
    """Which operation fails, and how."""

    nth: int
    errnum: int
    for_ever: bool = False
    short: bool = False
    kinds: tuple[str, ...] = seam.OPERATIONS

    def set(self) -> None:
        seam.set_fault(
            self.kinds,
            self.nth,
            self.errnum,
            for_ever=self.for_ever,
            short_write=self.short,
            path="/db",  # and not the marks
        )


# Which operations an error number is plausible for.
SPACE_KINDS = ("open", "write", "allocate", "map_write", "mkdir", "rename", "link", "sync")
DESCRIPTOR_KINDS = ("open", "dirsync")
KINDS = {
    errno.EIO: seam.OPERATIONS,
    errno.ENOSPC: SPACE_KINDS,
    errno.EMFILE: DESCRIPTOR_KINDS,
    0: ("write",),
}

# (errno, for ever, half of the bytes are written)
WAYS = [
    (errno.EIO, False, False),
    (errno.EIO, True, False),
    (errno.EIO, False, True),
    (errno.ENOSPC, False, False),
    (errno.ENOSPC, True, False),
    (errno.ENOSPC, True, True),
    (errno.EMFILE, False, False),
    (errno.EMFILE, True, False),
    (0, False, True),
]


class Run:
    """A directory, a workload, a fault."""

    def __init__(self, work: str, seed: int, steps: int, **options: Any) -> None:
        self.work, self.seed, self.steps, self.options = work, seed, steps, options
        self.root = os.path.join(work, "db")

    def count(self, kinds: tuple[str, ...]) -> int:
        """How many operations of these kinds the workload does without a fault."""
        self._clear()
        seam.set_fault(kinds, nth=0, path="/db")
        try:
            with small_manifests():
                self._workload(tolerates=False).run(self.steps)
        finally:
            seam.clear_fault()
        return seam.operation_count()

    def _workload(self, tolerates: bool) -> Workload:
        durability = ("commit", "commit", "os")[self.seed % 3]
        options = {"durability": durability, **self.options}
        return Workload(self.root, self.seed, tolerates=tolerates, **options)

    def _clear(self) -> None:
        for name in os.listdir(self.work):
            shutil.rmtree(os.path.join(self.work, name), ignore_errors=True)

    def check(self, fault: Fault, *, cuts: int = 3, strict_reads: bool = False) -> Workload:
        """Run the workload with the fault; then see that everything holds.

        strict_reads: reading may not fail at all."""
        self._clear()
        note = Marks(os.path.join(self.work, "marks"))
        workload = self._workload(tolerates=True)
        workload.tolerates_reads = not strict_reads
        workload.on_acknowledge = note
        seam.start_recording()
        try:
            with small_manifests():
                try:
                    fault.set()
                    for _ in range(self.steps):
                        workload.step()
                finally:
                    seam.clear_fault()
                check_open(workload)
        except BaseException:
            workload.abandon()
            raise
        finally:
            entries = seam.stop_recording()
            workload.on_acknowledge = ignore
            note.close()
        try:
            self._check_cuts(workload, entries, cuts)
            with small_manifests():
                check_reopen(workload)
        finally:
            workload.abandon()
        return workload

    def _check_cuts(self, workload: Workload, entries: list[power.Entry], count: int) -> None:
        """The power goes right after the fault."""
        disk = Disk(self.root)
        marks = os.path.join(self.work, "marks")
        for entry in entries:
            if entry[1] != marks:
                disk.apply(entry)
        rng = random.Random(self.seed)
        wanted = Expectation(workload)
        target = os.path.join(self.work, "state")
        for choice in (LOST, KEPT, MIXED)[:count]:
            power.write_state(disk.crash(rng, "strict", choice), target)
            check_state(target, wanted, workload.acknowledged, rng)


def check_open(workload: Workload) -> None:
    """The cause is gone: reads work, and writes as the kind of failure says."""
    engine = workload.engine
    if engine is None:
        return
    workload.compare()
    refused = "writes" in engine.stats()["failures"]
    if refused:
        with pytest.raises(errors.PoisonedError):
            engine.write(batch_of(engine))
        with pytest.raises(errors.PoisonedError):
            engine.flush()
        with pytest.raises(errors.PoisonedError):
            engine.create_tree("refused")
        with pytest.raises(errors.PoisonedError):
            engine.resume()
        assert any(getattr(each, "is_final", True) for each in workload.failures)
        return
    # Nothing final has happened: everything works again.
    workload.tolerates = False
    before = len(workload.failures)
    engine.resume()
    for action in (workload.write, workload.flush, workload.compact, workload.compare):
        action()
    assert not engine.stats()["failures"]
    assert len(workload.failures) == before
    workload.tolerates = True


def batch_of(engine: Engine) -> object:
    batch = engine.batch()
    names = engine.tree_names()
    if not names:
        raise errors.PoisonedError("there is no tree to write to")
    batch.put(engine.tree(names[0]), b"key", b"value")
    return batch


def check_reopen(workload: Workload) -> None:
    """Close and open without a fault; the workload compares everything."""
    workload.close()
    workload.tolerates = False
    workload.open()
    engine = workload.live
    names = set(os.listdir(workload.path))
    manifests = [name for name in names if name.startswith("MANIFEST-")]
    assert names - set(manifests) <= {
        "LOCK",
        "LOCK.readers",
        "CURRENT",
        "CURRENT.tmp",
        "KEYS",
        "KEYS.copy",
        "wal",
        "data",
    }
    assert len(manifests) <= 3, manifests
    workload.write()
    workload.reopen()
    assert engine.closed
    workload.close()
