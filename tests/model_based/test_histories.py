"""What concurrent callers see: items are linearizable, transactions strictly serializable.

In process, over HTTP, and across kill -9 of the process or of the server. And a test of the test:
faces that are broken on purpose are found out. `python -m tests.model_based histories` is the long
version.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash.kill import Nursery
from tests.model_based import linear, serial
from tests.model_based.campaign import Choices, one_history, open_tiny, together
from tests.model_based.faces import Embedded, Face, Stale, Torn, Unlocked
from tests.model_based.linear import Violation
from tests.support.scratch import scratch_directory

HISTORIES = {"embedded": 20, "http": 20, "killed": 6, "killed-http": 6}


@pytest.fixture(scope="module", params=["memory", "disk"])
def nursery(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Nursery]:
    with contextlib.ExitStack() as stack:
        if request.param == "memory":
            work = stack.enter_context(scratch_directory())
        else:
            work = str(tmp_path_factory.mktemp("histories"))
        yield stack.enter_context(Nursery(work))


@pytest.mark.parametrize("kind", HISTORIES)
def test_histories(nursery: Nursery, kind: str) -> None:
    first = 0 if "shm" in nursery.work else 1000
    counts = [
        one_history(kind, first + number, nursery.work, nursery)
        for number in range(HISTORIES[kind])
    ]
    assert sum(each["single_item_actions"] for each in counts) > 50
    # How far they come before a kill is the disk's affair.
    assert sum(each["of_them_done"] for each in counts) > 0


BROKEN: dict[str, tuple[str, Callable[[Face], Face]]] = {
    "stale reads": ("not linearizable|ring", lambda face: Stale(face, 1)),
    "lost counts": ("not linearizable", Unlocked),
    "torn writes": ("ring|refused", lambda face: Torn(face, "TransactWriteItems")),
    "torn reads": ("ring", lambda face: Torn(face, "TransactGetItems")),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_found(tmp_path: Path, name: str) -> None:
    complaint, make = BROKEN[name]
    with pytest.raises(Violation, match=complaint):
        for number in range(300):
            choices = Choices("embedded", number)
            choices.threads, choices.keys, choices.steps = 6, 1, 60
            with open_tiny(str(tmp_path / f"db{number}"), "os") as database:
                history, final = together(database, make(Embedded(database)), choices)
            linear.check(history)
            serial.check(history, final)
