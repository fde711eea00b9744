"""Which compaction to run: a pure function of a partition's shape (no I/O, no clock).

Leveled compaction with dynamic level sizes: the last level holds most of the data, every level
above it is allowed a tenth of the next one, and level 0 merges straight into the first level that
has to exist. So a small partition is two levels deep and deletes reach the bottom quickly.
Level 0 itself is size-tiered: until it is worth rewriting what lies below, its files are merged
with others of their size, so that neither their number nor what is written grows.
Triggers: level-0 file count and size; a level above its size; files with many deletes; files under
a deleted range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

LAST_LEVEL = 6


class File(NamedTuple):
    """One SSTable as the picker sees it; keys are user keys."""

    file_id: int
    size_bytes: int
    smallest: bytes
    largest: bytes
    entries: int
    deletions: int
    is_busy: bool
    is_under_range: bool


class Shape(NamedTuple):
    """A partition's files: level 0 newest first, deeper levels in key order."""

    levels: list[list[File]]


class Plan(NamedTuple):
    """Merge `inputs` (file ids) into `output_level`; urgent from score 1.0 up."""

    inputs: list[int]
    output_level: int
    is_bottom: bool
    score: float
    reason: str


@dataclass(frozen=True, slots=True)
class Options:
    """What decides when a level is too large."""

    top_files: int = 4  # level-0 files that start a compaction
    top_files_most: int = 12  # level-0 files that go down whatever that costs
    top_share: int = 3  # level 0 goes down when what lies below is at most so many times its size
    base_bytes: int = 64 << 20  # a level smaller than this need not exist
    ratio: int = 10  # size of a level relative to the one above
    deletion_share: float = 0.3  # a file with so many deletes is worth rewriting


def size_of(files: list[File]) -> int:
    """Sum of the files' sizes, bytes."""
    return sum(file.size_bytes for file in files)


def overlapping(files: list[File], smallest: bytes, largest: bytes) -> list[File]:
    """The files whose key range touches [smallest, largest]."""
    return [file for file in files if file.smallest <= largest and file.largest >= smallest]


def level_targets(shape: Shape, options: Options) -> tuple[int, dict[int, int]]:
    """The first level below 0 in use, and the size each level may have (bytes)."""
    deepest = max(size_of(files) for files in shape.levels[1:])
    target = max(deepest, options.base_bytes)
    targets = {LAST_LEVEL: target}
    base = LAST_LEVEL
    while target > options.base_bytes * options.ratio and base > 1:
        target //= options.ratio
        base -= 1
        targets[base] = target
    for level in range(1, base):
        if shape.levels[level]:  # written when the partition was larger: drains downwards
            base = level
            break
    for level in range(base, LAST_LEVEL):
        targets.setdefault(level, options.base_bytes // options.ratio)
    return base, targets


def pending_bytes(shape: Shape, options: Options) -> int:
    """Bytes that are due to be rewritten until every level is within its size."""
    base, targets = level_targets(shape, options)
    top = shape.levels[0]
    due = 0
    if len(top) >= options.top_files:
        smallest = min(file.smallest for file in top)
        largest = max(file.largest for file in top)
        below = size_of(overlapping(shape.levels[base], smallest, largest))
        due = size_of(top) + (below if size_of(top) * options.top_share >= below else 0)
    for level in range(base, LAST_LEVEL):
        excess = max(0, size_of(shape.levels[level]) - targets[level])
        due += min(excess * (1 + options.ratio), excess + size_of(shape.levels[level + 1]))
    return due


def is_bottom(shape: Shape, output_level: int) -> bool:
    """Whether nothing lies below the output level."""
    return not any(shape.levels[level] for level in range(output_level + 1, LAST_LEVEL + 1))


def pick(shape: Shape, options: Options) -> Plan | None:
    """The most urgent compaction of the partition, or None."""
    base, targets = level_targets(shape, options)
    plans = [
        pick_top(shape, base, options),
        *(pick_level(shape, level, targets) for level in range(base, LAST_LEVEL)),
        pick_garbage(shape, options),
    ]
    return max(
        (plan for plan in plans if plan is not None), key=lambda plan: plan.score, default=None
    )


def pick_top(shape: Shape, base: int, options: Options) -> Plan | None:
    """All of level 0 into the base level; or some of its files into one while it is small."""
    top = shape.levels[0]
    if len(top) < options.top_files or any(file.is_busy for file in top):
        return None
    smallest = min(file.smallest for file in top)
    largest = max(file.largest for file in top)
    below = overlapping(shape.levels[base], smallest, largest)
    is_small = size_of(top) * options.top_share < size_of(below)
    if is_small and len(top) < options.top_files_most:
        return pick_tier(top, options)
    if any(file.is_busy for file in below):
        return None
    inputs = [file.file_id for file in top + below]
    score = len(top) / options.top_files
    return Plan(inputs, base, is_bottom(shape, base), score, "level 0 has many files")


def pick_tier(top: list[File], options: Options) -> Plan | None:
    """Neighbours in level 0 (they are ordered by age) of about the same size, into one file."""
    for start in range(len(top)):
        end = start + 1
        while end < len(top) and top[end].size_bytes <= 2 * top[start].size_bytes:
            end += 1
        tier = top[start:end]
        largest = max(file.size_bytes for file in tier)
        if len(tier) >= options.top_files and 2 * largest <= size_of(tier):
            inputs = [file.file_id for file in tier]
            score = len(tier) / options.top_files
            return Plan(inputs, 0, False, score, "level 0 has many small files")
    return None


def pick_level(shape: Shape, level: int, targets: dict[int, int]) -> Plan | None:
    """One file of a level that is too large, with what it overlaps one level down."""
    files = shape.levels[level]
    excess = size_of(files) / max(1, targets[level])
    if excess < 1.0:
        return None
    best: tuple[float, File, list[File]] | None = None
    for file in files:
        if file.is_busy:
            continue
        below = overlapping(shape.levels[level + 1], file.smallest, file.largest)
        if any(other.is_busy for other in below):
            continue
        cost = size_of(below) / max(1, file.size_bytes)
        if best is None or cost < best[0]:
            best = (cost, file, below)
    if best is None:
        return None
    inputs = [best[1].file_id, *(file.file_id for file in best[2])]
    return Plan(inputs, level + 1, is_bottom(shape, level + 1), excess, f"level {level} is large")


def pick_garbage(shape: Shape, options: Options) -> Plan | None:
    """A file full of deletes, or under a deleted range, merged downwards."""
    for level in range(1, LAST_LEVEL + 1):
        for file in shape.levels[level]:
            dense = file.deletions > options.deletion_share * max(1, file.entries)
            if file.is_busy or not (dense or file.is_under_range):
                continue
            output = min(level + 1, LAST_LEVEL)
            below = (
                overlapping(shape.levels[output], file.smallest, file.largest)
                if output != level
                else []
            )
            if any(other.is_busy for other in below):
                continue
            inputs = [file.file_id, *(other.file_id for other in below)]
            reason = "under a deleted range" if file.is_under_range else "many deletes"
            return Plan(inputs, output, is_bottom(shape, output), 1.0, reason)
    return None


def pick_everything(shape: Shape, lower: bytes | None, upper: bytes | None) -> Plan | str | None:
    """One merge of all files that touch [lower, upper) into the last level.

    Returns: "busy" when a running job holds one of them; None when there is nothing to gain."""
    every = [file for files in shape.levels for file in files]
    if not every:
        return None
    low = min(file.smallest for file in every) if lower is None else lower
    high = max(file.largest for file in every) if upper is None else upper
    # Level-0 files overlap each other: once one is in, all are, and the range grows with them.
    chosen: dict[int, File] = {}
    while True:
        found = {
            file.file_id: file
            for level, files in enumerate(shape.levels)
            for file in (overlapping(files, low, high))
        }
        if any(file.file_id in found for file in shape.levels[0]):
            found |= {file.file_id: file for file in shape.levels[0]}
        if len(found) == len(chosen):
            break
        chosen = found
        low = min(low, *(file.smallest for file in chosen.values()))
        high = max(high, *(file.largest for file in chosen.values()))
    if not chosen:
        return None
    last = {file.file_id for file in shape.levels[LAST_LEVEL]}
    if set(chosen) <= last and not any(
        file.deletions or file.is_under_range for file in chosen.values()
    ):
        return None
    if any(file.is_busy for file in chosen.values()):
        return "busy"
    return Plan(list(chosen), LAST_LEVEL, True, 1.0, "asked for")
