"""Short versions of the loads, with bounds of counts and bytes; long: `python -m tests.load`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.load.cases import CASES
from tests.load.measure import Latencies, overlap


@pytest.mark.parametrize("name", CASES)
def test_a_load_answers_rightly_and_gives_its_space_back(tmp_path: Path, name: str) -> None:
    case, _, size = CASES[name]
    case(tmp_path / "db", size).check()


def test_a_gap_is_taken_off_the_longest_operation() -> None:
    # The measuring itself: a pause of the machine must not look like a stall.
    found = Latencies()
    found.add(10.0, 13.0, "paused")
    found.add(20.0, 21.0, "slow")
    gaps = [(9.0, 12.9), (30.0, 31.0)]
    assert overlap(gaps, 10.0, 13.0) == pytest.approx(2.9)
    assert found.longest_outside(gaps) == (1.0, "slow")
