"""Each target for a moment, over what was found before and new inputs of a fixed seed.

For longer: `python -m tests.fuzz` (docs/reliability.md).
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fuzz.loop import Fault, Loop, pack_inputs, unpack_inputs
from tests.fuzz.mutate import LEAVES, mutate, mutate_text, mutate_tree
from tests.fuzz.targets import CORPUS, TARGETS
from tests.support.processes import environment

SECONDS = 2
SEED = 1
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", TARGETS)
def test_a_target(name: str) -> None:
    command = [sys.executable, "-m", "tests.fuzz", name, f"--seconds={SECONDS}", f"--seed={SEED}"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    counts = re.search(r"(\d+) inputs and (\d+) of earlier faults; (\d+) outcomes", done.stdout)
    assert counts, done.stdout
    inputs, earlier, outcomes = map(int, counts.groups())
    assert earlier == len(list(CORPUS.glob(f"{name}/*")))
    assert inputs > 10
    assert outcomes > 1


class Broken:
    """A target with a fault: it raises at one byte, but only behind another."""

    name = "broken"
    may_log = False
    has_state = True

    def __init__(self) -> None:
        self.is_armed = False

    def seeds(self) -> list[bytes]:
        return [b"a", b"b"]

    def make(self, rng: random.Random, kept: Sequence[bytes]) -> bytes:
        return mutate(rng, rng.choice(kept))

    def run(self, data: bytes) -> str:
        if self.is_armed and data[:1] == b"Z":
            raise IndexError("found")
        self.is_armed = data[:1] == b"Y"
        return f"{data[:1]!r}"

    def reset(self) -> None:
        self.is_armed = False

    def close(self) -> None:
        pass


def test_a_fault_is_found_and_can_be_run_again(tmp_path: Path) -> None:
    loop = Loop(Broken(), tmp_path / "inputs", is_guided=False)
    with pytest.raises(Fault, match="IndexError: found"):
        loop.run(SEED, 60)
    loop.close()
    inputs = unpack_inputs((tmp_path / "inputs").read_bytes())
    assert inputs[-1][:1] == b"Z"
    assert inputs[-2][:1] == b"Y"
    again = Loop(Broken(), tmp_path / "again", is_guided=False)
    assert again.replay(inputs[-1:])  # alone it does nothing
    with pytest.raises(Fault, match="IndexError: found"):
        again.replay(inputs)
    again.close()


def test_files_of_inputs() -> None:
    inputs = [b"", b"one", bytes(300)]
    assert unpack_inputs(pack_inputs(inputs)) == inputs
    assert unpack_inputs(b"one as it is") == [b"one as it is"]


def test_a_seed_makes_the_same_inputs_again() -> None:
    def made() -> list[object]:
        rng = random.Random(3)
        tree = {"a": [1, {"b": "text"}], "c": b"bytes"}
        return [
            (mutate(rng, b"some bytes"), mutate_tree(rng, tree, LEAVES), mutate_text(rng, "a", "b"))
            for _ in range(200)
        ]

    assert repr(made()) == repr(made())
