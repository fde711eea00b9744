"""Which compaction is chosen: shapes in, plans out."""

from __future__ import annotations

import pytest

from dynalsm._core.picker import (
    LAST_LEVEL,
    File,
    Options,
    Plan,
    Shape,
    pending_bytes,
    pick,
    pick_everything,
)

MIB = 1 << 20
OPTIONS = Options()


def file(
    number: int, size: int, smallest: bytes = b"a", largest: bytes = b"z", **marks: int
) -> File:
    values = {"entries": 100, "deletions": 0, "is_busy": False, "is_under_range": False, **marks}
    return File(number, size, smallest, largest, **values)  # type: ignore[arg-type]


def shape(top: list[File], **levels: list[File]) -> Shape:
    """level6=[...], say."""
    return Shape([top] + [levels.get(f"level{level}", []) for level in range(1, LAST_LEVEL + 1)])


def tops(*sizes: int) -> list[File]:
    """Level 0, newest first; numbers from 1."""
    return [file(number, size * MIB) for number, size in enumerate(sizes, start=1)]


def chosen(plan: Plan | None) -> tuple[set[int], int]:
    assert plan is not None
    return set(plan.inputs), plan.output_level


def test_few_files_are_left_alone() -> None:
    assert pick(shape([]), OPTIONS) is None
    assert pick(shape(tops(1, 1, 1)), OPTIONS) is None
    assert pick(shape(tops(1, 1, 1), level6=[file(9, 10 * MIB)]), OPTIONS) is None


def test_level_0_goes_down_when_little_lies_below() -> None:
    plan = pick(shape(tops(8, 8, 8, 8), level6=[file(9, 90 * MIB)]), OPTIONS)
    assert chosen(plan) == ({1, 2, 3, 4, 9}, LAST_LEVEL)
    assert plan is not None and plan.is_bottom
    assert chosen(pick(shape(tops(8, 8, 8, 8)), OPTIONS)) == ({1, 2, 3, 4}, LAST_LEVEL)


def test_small_files_are_merged_among_themselves_above_much() -> None:
    below = [file(90, 60 * MIB)]
    plan = pick(shape(tops(1, 1, 1, 1), level6=below), OPTIONS)
    assert chosen(plan) == ({1, 2, 3, 4}, 0)
    assert plan is not None and not plan.is_bottom
    assert pick(shape(tops(1, 1, 1, 4), level6=below), OPTIONS) is None
    assert chosen(pick(shape(tops(1, 1, 1, 1, 4), level6=below), OPTIONS)) == ({1, 2, 3, 4}, 0)
    assert chosen(pick(shape(tops(1, 4, 4, 4, 4), level6=below), OPTIONS))[1] == 0
    # Neighbours in age only: what lies between two of them would be in the wrong order.
    plan = pick(shape(tops(1, 9, 1, 1, 1), level6=[file(90, 600 * MIB)]), OPTIONS)
    assert plan is None


def test_a_tier_never_hides_what_is_busy() -> None:
    top = tops(1, 1, 1, 1)
    top[2] = top[2]._replace(is_busy=True)
    assert pick(shape(top, level6=[file(90, 60 * MIB)]), OPTIONS) is None


def test_many_files_go_down_whatever_it_costs() -> None:
    sizes = [1, 3] * 6
    plan = pick(shape(tops(*sizes), level6=[file(90, 900 * MIB)]), OPTIONS)
    assert chosen(plan) == (set(range(1, 13)), LAST_LEVEL - 1)


def test_only_what_overlaps_is_rewritten() -> None:
    below = [file(91, 60 * MIB, b"a", b"f"), file(92, 60 * MIB, b"g", b"m")]
    top = [file(number, 30 * MIB, b"g", b"h") for number in range(1, 5)]
    assert chosen(pick(shape(top, level6=below), OPTIONS)) == ({1, 2, 3, 4, 92}, LAST_LEVEL)


def test_a_level_that_is_too_large_drains() -> None:
    last = [file(90 + n, 100 * MIB, b"%d" % n, b"%d~" % n) for n in range(7)]
    fifth = [file(50, 50 * MIB, b"0", b"1"), file(51, 50 * MIB, b"5", b"5~")]
    plan = pick(shape([], level5=fifth, level6=last), OPTIONS)
    assert chosen(plan) == ({51, 95}, LAST_LEVEL)


@pytest.mark.parametrize("mark", ["deletions", "is_under_range"])
def test_garbage_is_rewritten(mark: str) -> None:
    dirty = file(90, MIB, **{mark: 50})
    plan = pick(shape([], level6=[file(91, MIB), dirty]), OPTIONS)
    assert chosen(plan) == ({90}, LAST_LEVEL)


def test_everything() -> None:
    every = shape(tops(1, 1), level6=[file(90, MIB, b"a", b"c"), file(91, MIB, b"d", b"z")])
    plan = pick_everything(every, None, None)
    assert isinstance(plan, Plan)
    assert chosen(plan) == ({1, 2, 90, 91}, LAST_LEVEL)
    last = shape([], level6=[file(90, MIB)])
    assert pick_everything(last, None, None) is None
    busy = shape([file(1, MIB, is_busy=True)])
    assert pick_everything(busy, None, None) == "busy"


def test_pending_bytes() -> None:
    assert pending_bytes(shape(tops(8, 8, 8)), OPTIONS) == 0
    below = [file(9, 90 * MIB)]
    assert pending_bytes(shape(tops(8, 8, 8, 8), level6=below), OPTIONS) == (32 + 90) * MIB
    assert pending_bytes(shape(tops(1, 1, 1, 1), level6=below), OPTIONS) == 4 * MIB
    last = [file(90, 700 * MIB)]
    fifth = [file(50, 100 * MIB)]  # a tenth of the last level, or 64 MiB, is allowed
    assert pending_bytes(shape([], level5=fifth, level6=last), OPTIONS) == 30 * 11 * MIB
