"""Simulate a cluster of hash-range partitions under skewed keys: balance, splits, hot partitions.

    python bench/partitions.py                       # the table of docs/scaling.md
    python bench/partitions.py --keys 10000 --rate 5000 --skews 0,0.99

The keys are hashed as dynalsm hashes them; requests follow Zipf's law: the key of rank r gets
1 / r^skew of them (0: all keys alike; 0.99: YCSB's default; 1.2: a few celebrities). The expected
load of each key is exact, nothing is drawn. The hash space starts as equal ranges, one per node. A
partition with more load or bytes than it can carry is cut in two where its load halves, as the
services do; one key is the smallest partition. Then the partitions are placed, heaviest first, on
the node with the least load.

Columns: `uneven before` is the heaviest of the equal ranges over the mean; `splits` how many cuts
it took; `uneven nodes` the heaviest node over the mean after placing; `hot keys` how many single
keys ask for more than a partition gives, and `refused` the share of all requests lost to that;
`moved` the share of the load that another node joining takes over.
"""

from __future__ import annotations

import argparse
import heapq
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate

from dynalsm._core.hashing import hash64

HASHES = 1 << 64
# What one partition of DynamoDB carries: 1,000 write units a second, 10 GB.
PARTITION_RATE = 1000.0
PARTITION_BYTES = 10e9


@dataclass(frozen=True)
class Keys:
    """Partition keys in the order of their hashes, with what is asked of them a second."""

    hashes: list[int]
    # Load of all keys before this one; one element more than there are keys.
    load_before: list[float]
    bytes_each: float

    @property
    def total(self) -> float:
        """The load of all keys."""
        return self.load_before[-1]

    def load(self, first: int, end: int) -> float:
        """The load of a stretch of keys."""
        return self.load_before[end] - self.load_before[first]


@dataclass(frozen=True)
class Outcome:
    """What one simulation found."""

    skew: float
    uneven_before: float
    splits: int
    partitions: int
    uneven_nodes: float
    hot_keys: int
    refused: float
    moved: float


def make_keys(count: int, rate: float, skew: float, total_bytes: float) -> Keys:
    """Return keys whose popularity follows Zipf's law and has nothing to do with their hash."""
    weights = [(rank + 1.0) ** -skew for rank in range(count)]
    scale = rate / sum(weights)
    found = sorted((hash64(b"user#%d" % rank), weights[rank] * scale) for rank in range(count))
    return Keys(
        [place for place, _ in found],
        [0.0, *accumulate(load for _, load in found)],
        total_bytes / count,
    )


def equal_ranges(keys: Keys, count: int) -> list[tuple[int, int]]:
    """Cut the hash space evenly; a partition is (its first key, the one behind its last)."""
    cuts = [bisect_left(keys.hashes, HASHES * number // count) for number in range(count)]
    return list(zip(cuts, [*cuts[1:], len(keys.hashes)], strict=True))


def split(keys: Keys, ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Cut partitions that carry too much until each fits or holds a single key."""
    waiting, done = list(ranges), []
    while waiting:
        first, end = waiting.pop()
        size_bytes = (end - first) * keys.bytes_each
        fits = keys.load(first, end) <= PARTITION_RATE and size_bytes <= PARTITION_BYTES
        if fits or end - first <= 1:
            done.append((first, end))
            continue
        half = (keys.load_before[first] + keys.load_before[end]) / 2
        cut = min(max(bisect_left(keys.load_before, half, first + 1, end), first + 1), end - 1)
        # Of the two cuts beside the half the one that leaves the lighter heavy side.
        if cut - 1 > first and keys.load(first, cut) > keys.load(cut - 1, end):
            cut -= 1
        waiting += [(first, cut), (cut, end)]
    return sorted(done)


def place(loads: list[float], nodes: int) -> list[float]:
    """Give each partition to the node with the least load, heaviest first; return their loads."""
    heap = [(0.0, node) for node in range(nodes)]
    for load in sorted(loads, reverse=True):
        least, node = heapq.heappop(heap)
        heapq.heappush(heap, (least + load, node))
    return [load for load, _ in heap]


def moved_by_one_more(loads: list[float], nodes: int) -> float:
    """Return the share of the load that moves when a node joins: only what it takes over."""
    fair = sum(loads) / (nodes + 1)
    taken = 0.0
    for load in sorted(loads, reverse=True):
        if taken + load <= fair:
            taken += load
    return taken / sum(loads)


def simulate(count: int, rate: float, skew: float, total_bytes: float, nodes: int) -> Outcome:
    """Run one simulation."""
    keys = make_keys(count, rate, skew, total_bytes)
    before = [keys.load(*each) for each in equal_ranges(keys, nodes)]
    ranges = split(keys, equal_ranges(keys, nodes))
    loads = [keys.load(*each) for each in ranges]
    # What a partition refuses never reaches its node.
    served = [min(load, PARTITION_RATE) for load in loads]
    on_nodes = place(served, nodes)
    hot = [load for load in loads if load > PARTITION_RATE * (1 + 1e-9)]
    return Outcome(
        skew,
        max(before) / (sum(before) / nodes),
        len(ranges) - nodes,
        len(ranges),
        max(on_nodes) / (sum(on_nodes) / nodes),
        len(hot),
        sum(load - PARTITION_RATE for load in hot) / keys.total,
        moved_by_one_more(served, nodes),
    )


def row(outcome: Outcome) -> str:
    """Return a line of the table."""
    return (
        f"| {outcome.skew:g} | {outcome.uneven_before:.2f} x | {outcome.splits} "
        f"| {outcome.partitions} | {outcome.uneven_nodes:.2f} x | {outcome.hot_keys} "
        f"| {outcome.refused:.1%} | {outcome.moved:.1%} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rate", type=float, default=40_000.0, help="writes a second, in all")
    parser.add_argument("--gigabytes", type=float, default=200.0, help="data, in all")
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--skews", default="0,0.5,0.8,0.99,1.2")
    given = parser.parse_args()
    print(
        f"{given.keys:,} keys, {given.rate:,.0f} writes/s, {given.gigabytes:g} GB, "
        f"{given.nodes} nodes\n"
    )
    print(
        "| skew | uneven before | splits | partitions | uneven nodes | hot keys | refused | moved |"
    )
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for skew in given.skews.split(","):
        size_bytes = given.gigabytes * 1e9
        print(row(simulate(given.keys, given.rate, float(skew), size_bytes, given.nodes)))


if __name__ == "__main__":
    main()
