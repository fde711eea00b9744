"""kill -9 in the middle of writing: no acknowledged write is lost, and no half commit is left.

Four threads write, while others flush, compact, split, create and drop trees and copy the database;
memtables are so small that all of that happens in each round. Some of the recoveries are killed
as well. Then everything is compared with what the writers' operations leave: at the level of the
engine batches over several trees, at the level of items the table, its indexes and its stream.
`python -m tests.crash kill --rounds 2000` is the long version.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tests.crash.kill import Campaign, Nursery
from tests.crash.workload import KEY
from tests.support.scratch import scratch_directory

ROUNDS = 16  # each of the four: 64 kills of writers


@pytest.mark.parametrize("kind", ["engine", "items"])
@pytest.mark.parametrize("place", ["memory", "disk", "memory, encrypted"])
def test_what_a_killed_writer_acknowledged_is_there(tmp_path: Path, kind: str, place: str) -> None:
    with contextlib.ExitStack() as stack:
        work = str(tmp_path) if place == "disk" else stack.enter_context(scratch_directory())
        nursery = stack.enter_context(Nursery(work))
        key = KEY if "encrypted" in place else None
        campaign = Campaign(work, kind, seed=len(place), encryption_key=key)
        for _ in range(ROUNDS):
            campaign.round(nursery)
        assert campaign.kills == ROUNDS
        assert campaign.recoveries > 0
        assert campaign.operations > ROUNDS  # few on a busy machine
