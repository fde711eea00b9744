"""The checkers themselves: hand-made histories, good and bad, and a search beside a plain one."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from tests.model_based import linear, serial
from tests.model_based.history import (
    UNKNOWN,
    Event,
    Recorder,
    Single,
    State,
    Transaction,
    dump,
    load,
    read_log,
)
from tests.model_based.linear import FAILED, Violation, step

A, B = ("a", None), ("b", None)


def one(begin: int, end: int, outcome: Any, *action: Any) -> Single:
    return Single("caller", "k", action, begin, end, outcome)


GOOD = {
    "nothing": [],
    "one after the other": [one(1, 2, None, "put", *A), one(3, 4, A, "get")],
    "either order of what overlaps": [
        one(1, 9, B, "put", *A), one(2, 8, None, "put", *B), one(10, 11, A, "get"),
    ],
    "a read in the middle of a write sees it": [one(1, 9, None, "put", *A), one(2, 3, A, "get")],
    "or does not": [one(1, 9, None, "put", *A), one(2, 3, None, "get")],
    "an unknown write that happened": [one(1, 5, UNKNOWN, "put", *A), one(6, 7, A, "get")],
    "an unknown write that did not": [one(1, 5, UNKNOWN, "put", *A), one(6, 7, None, "get")],
    "unknown, seen after a kill only": [
        one(1, 5, UNKNOWN, "put", *A), one(2, 3, None, "get"), one(6, 7, A, "get"),
    ],
    "counting": [one(1, 9, (None, 2), "add", 1), one(2, 8, (None, 1), "add", 1)],
    "batches": [
        one(1, 9, None, "write", *A), one(1, 9, None, "erase"), one(10, 11, A, "get"),
        one(12, 13, None, "erase"), one(14, 15, None, "get"),
    ],
    "a swap that fails": [
        one(1, 2, None, "put", *A), one(3, 4, (FAILED, A), "swap", "x", "b"),
        one(5, 6, B, "swap", "a", "b"), one(7, 8, (FAILED, B), "put_new", "c"),
        one(9, 10, (FAILED, B), "delete_if", "a"), one(11, 12, B, "delete_if", "b"),
        one(13, 14, None, "put_new", "c"), one(15, 16, ("c", None), "delete"),
    ],
}  # fmt: skip

BAD = {
    "a lost write": [one(1, 2, None, "put", *A), one(3, 4, None, "get")],
    "an old value": [
        one(1, 2, None, "put", *A), one(3, 4, A, "put", *B), one(5, 6, A, "get"),
    ],
    "a read that goes back": [
        one(1, 9, None, "put", *A), one(2, 3, A, "get"), one(4, 5, None, "get"),
    ],
    "a value of nobody": [one(1, 2, A, "get")],
    "a write before it began": [one(1, 2, A, "get"), one(3, 4, None, "put", *A)],
    "a lost count": [one(1, 9, (None, 1), "add", 1), one(2, 8, (None, 1), "add", 1)],
    "two that both were first": [one(1, 9, None, "put_new", "a"), one(2, 8, None, "put_new", "b")],
    "a swap of what was not there": [one(1, 2, None, "put", *A), one(3, 4, B, "swap", "x", "b")],
    "a condition that failed and held": [
        one(1, 2, None, "put", *A), one(3, 4, (FAILED, A), "swap", "a", "b"),
    ],
    "a refused write that happened": [
        one(1, 2, None, "put", *A), one(3, 4, (FAILED, A), "put_new", "b"), one(5, 6, B, "get"),
    ],
    "an unknown write after its caller's death": [
        one(1, 2, UNKNOWN, "put", *A), one(3, 4, None, "get"), one(5, 6, A, "get"),
    ],
    "an unknown write twice": [
        one(1, 9, UNKNOWN, "add", 1), one(2, 3, (None, 1), "get"), one(4, 5, (None, 2), "get"),
    ],
    "an unknown write that was undone": [
        one(1, 3, UNKNOWN, "put", *A), one(4, 5, A, "get"), one(6, 7, None, "get"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_linearizable(name: str) -> None:
    assert linear.check(GOOD[name]) == len(GOOD[name])


@pytest.mark.parametrize("name", BAD)
def test_not_linearizable(name: str) -> None:
    with pytest.raises(Violation, match="'k' is not linearizable"):
        linear.check(BAD[name])


def test_items_are_checked_apart() -> None:
    bad = [Single("c", "other", each.action, each.begin, each.end, each.outcome)
           for each in BAD["an old value"]]  # fmt: skip
    with pytest.raises(Violation, match="'other'"):
        linear.check([*GOOD["counting"], *bad])


def plain_search(actions: list[Single]) -> bool:
    """Try every order of every subset: slow and obvious."""
    needed = [action for action in actions if action.outcome != UNKNOWN]
    maybe = [action for action in actions if action.outcome == UNKNOWN]
    for count in range(len(maybe) + 1):
        for some in itertools.combinations(maybe, count):
            if any(map(fits, itertools.permutations([*needed, *some]))):
                return True
    return False


def fits(order: tuple[Single, ...]) -> bool:
    state: State = None
    for place, action in enumerate(order):
        if any(later.end < action.begin for later in order[place + 1 :]):
            return False
        state, outcome = step(state, action.action)
        if action.outcome not in (UNKNOWN, outcome):
            return False
    return True


def random_history(rng: random.Random) -> list[Single]:
    """Actions that took effect at some moment, and then, mostly, a lie about one of them."""
    actions: list[Single] = []
    state: State = None
    for moment in range(0, 60, 10):
        choices: list[tuple[Any, ...]] = [
            ("get",), ("put", rng.choice("ab"), rng.choice([None, 1])), ("add", 1), ("delete",),
            ("swap", "a", "b"), ("put_new", "a"), ("delete_if", "b"), ("erase",),
            ("write", rng.choice("ab"), None),
        ]  # fmt: skip
        action = rng.choice(choices)
        if rng.random() < 0.15:  # It never happened.
            actions.append(one(moment - rng.randrange(25), moment + 30, UNKNOWN, *action))
            continue
        state, outcome = step(state, action)
        begin, end = moment - rng.randrange(25), moment + rng.randrange(25)
        actions.append(one(begin, end, UNKNOWN if rng.random() < 0.15 else outcome, *action))
    if rng.random() < 0.7:
        liar = rng.choice(actions)
        other = rng.choice(actions)
        if rng.random() < 0.5:
            liar.outcome = other.outcome
        else:
            liar.begin, liar.end = other.begin, max(other.begin, other.end - rng.randrange(20))
    return actions


def test_the_search_agrees_with_a_plain_one() -> None:
    rng = random.Random(5)
    verdicts = []
    for number in range(400):
        actions = random_history(rng)
        try:
            linear.check(actions)
        except Violation:
            verdicts.append(False)
        else:
            verdicts.append(True)
        assert verdicts[-1] == plain_search(actions), (number, actions)
    assert 50 < sum(verdicts) < 350


def did(begin: int, end: int, appends: str = "", is_done: bool | None = True, **reads: str) -> Any:
    """A transaction: appends "x1 y2" are of text 1 to x and of 2 to y; x="12" read both there."""
    return Transaction(
        "caller", begin, end, is_done,
        {text[0]: text[1:] for text in appends.split()},
        {key: tuple(read) for key, read in reads.items()},
    )  # fmt: skip


def lists(**final: str) -> dict[str, tuple[str, ...]]:
    return {key: tuple(texts) for key, texts in final.items()}


SERIAL: dict[str, tuple[list[Any], dict[str, tuple[str, ...]]]] = {
    "nothing": ([], {}),
    "two writers and a reader": (
        [did(1, 9, "x1 y1"), did(2, 8, "x2 y2"), did(3, 7, x="1", y="1"), did(10, 11, x="12")],
        lists(x="12", y="12"),
    ),
    "a reader before it all": ([did(1, 9, "x1"), did(2, 8, x="", y="")], lists(x="1")),
    "unknown and not there": ([did(1, 9, "x1 y1", None)], {}),
    "unknown and there": ([did(1, 9, "x1 y1", None), did(3, 4, x="")], lists(x="1", y="1")),
    "refused": ([did(1, 2, "x1"), did(3, 4, "x2", False, x="1")], lists(x="1")),
    "an append that read": ([did(1, 2, "x1"), did(3, 4, "x2", x="1")], lists(x="12")),
}

NOT_SERIAL: dict[str, tuple[str, list[Any], dict[str, tuple[str, ...]]]] = {
    "lost": ("done and lost", [did(1, 2, "x1"), did(3, 4, "x2")], lists(x="1")),
    "twice": ("twice", [did(1, 2, "x1")], lists(x="11")),
    "of nobody": ("nobody", [did(1, 2, "x1")], lists(x="12")),
    "half done": ("half done", [did(1, 9, "x1 y1", None)], lists(x="1")),
    "refused and there": ("refused", [did(1, 2, "x1", False)], lists(x="1")),
    "read and undone": ("lost", [did(1, 9, "x1", None), did(2, 3, x="1")], {}),
    "read in another order": (
        "lost", [did(1, 9, "x1"), did(2, 9, "x2"), did(3, 9, x="2")], lists(x="12")
    ),
    "two orders": ("ring", [did(1, 9, "x1 y1"), did(1, 9, "x2 y2")], lists(x="12", y="21")),
    "a torn read": ("ring", [did(1, 9, "x1 y1"), did(1, 9, x="1", y="")], lists(x="1", y="1")),
    "a long fork": (
        "ring",
        [did(1, 9, "x1"), did(1, 9, "y1"), did(1, 9, x="1", y=""), did(1, 9, x="", y="1")],
        lists(x="1", y="1"),
    ),
    "a stale read": ("ring", [did(1, 2, "x1"), did(3, 4, x="")], lists(x="1")),
    "a read of the future": ("ring", [did(1, 2, x="1"), did(3, 4, "x1")], lists(x="1")),
    "an order against the clock": ("ring", [did(1, 2, "x1"), did(3, 4, "x2")], lists(x="21")),
    "write skew": (
        "ring", [did(1, 9, "x1", y=""), did(1, 9, "y1", x="")], lists(x="1", y="1"),
    ),
    "a refusal that read what was over": (
        "ring", [did(1, 2, "x1"), did(3, 4, "y2", False, x="")], lists(x="1")
    ),
    "unknown, and there only after the death": (
        "ring", [did(1, 2, "x1", None), did(3, 4, x=""), did(5, 6, x="1")], lists(x="1")
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SERIAL)
def test_serializable(name: str) -> None:
    assert serial.check(*SERIAL[name]) == len(SERIAL[name][0])


@pytest.mark.parametrize("name", NOT_SERIAL)
def test_not_serializable(name: str) -> None:
    complaint, history, final = NOT_SERIAL[name]
    with pytest.raises(Violation, match=complaint):
        serial.check(history, final)


def test_lengths_that_conditions_found() -> None:
    first, second = did(1, 9, "x1"), did(1, 9, "y1 x2")
    second.lengths = {"x": 1}
    assert serial.check([first, second], lists(x="12", y="1")) == 2
    second.lengths = {"x": 0}
    with pytest.raises(Violation, match="ring"):
        serial.check([first, second], lists(x="12", y="1"))
    second.lengths = {"x": 3}
    with pytest.raises(Violation, match="found 3 texts"):
        serial.check([first, second], lists(x="12", y="1"))


def test_a_cycle_is_told_in_words() -> None:
    with pytest.raises(Violation) as caught:
        serial.check([did(1, 2, "x1"), did(3, 4, x="")], lists(x="1"))
    text = str(caught.value)
    assert "did not read in x" in text
    assert "'x': '1'" in text


def test_a_recorder_and_its_log(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    recorder = Recorder(log)
    done: list[Event] = [one(0, 0, UNKNOWN, "put", "a", None)]
    number = recorder.begin(done)
    assert isinstance(done[0], Single)
    done[0].outcome = ("a", 1)
    recorder.end(number, done)
    recorder.begin([did(0, 0, "x1", True, y="12")])
    told = read_log(log, dead_at=1 << 62)
    assert told[0] == done[0]
    assert 0 < done[0].begin <= done[0].end
    left = told[1]
    assert isinstance(left, Transaction)
    assert (left.is_done, left.end, left.reads) == (None, 1 << 62, {"y": ("1", "2")})
    events = recorder.close()
    assert events[0] == done[0]
    assert events[1].end < left.end
    # A line that the kill cut off was not asked for yet.
    with open(log, "a") as file:
        file.write('{"call": 3, "eve')
    assert len(read_log(log, 1)) == 2
    dump(events, lists(x="12"), tmp_path / "history")
    assert load(tmp_path / "history") == (events, lists(x="12"))
