"""Is a history of transactions strictly serializable? A checker in the manner of Elle.

Every transaction appends unique texts to lists, or reads lists, or both. The lists say in which
order the appends to a key came, hence which transaction must stand before which:

- who appended a version stands before who appended the next one, and before who read it;
- who read a version stands before who appended the next one;
- what had ended before another one began stands before it.

The history is strictly serializable if and only if these have no cycle. Before that: a list holds
nothing twice, nothing of a refused or unknown-to-all transaction, all of every one that was done,
and of one whose outcome is unknown all or nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from tests.model_based.history import Event, Transaction, Versions
from tests.model_based.linear import Violation


def check(events: Iterable[Event], final: Mapping[str, Versions]) -> int:
    """Check a history and the lists at its end. Returns: its length. Raises: Violation."""
    history = [event for event in events if isinstance(event, Transaction)]
    writers = _writers(history)
    for key, versions in final.items():
        _check_list(key, versions, versions, writers)
    seen = [_happened(transaction, final) for transaction in history]
    for transaction in history:
        for key, versions in transaction.reads.items():
            _check_list(key, versions, final.get(key, ()), writers)
        for key, length in transaction.lengths.items():
            if length > len(final.get(key, ())):
                raise Violation(f"a condition found {length} texts in {key!r}: {transaction}")
    graph = _Graph([transaction for transaction, is_in in zip(history, seen, strict=True) if is_in])
    graph.add_lists(final)
    graph.add_times()
    graph.check()
    return len(history)


def _writers(history: Sequence[Transaction]) -> dict[tuple[str, str], Transaction]:
    writers: dict[tuple[str, str], Transaction] = {}
    for transaction in history:
        for place in transaction.appends.items():
            if place in writers:
                raise ValueError(f"two transactions append {place}")
            writers[place] = transaction
    return writers


def _check_list(
    key: str,
    versions: Versions,
    final: Versions,
    writers: Mapping[tuple[str, str], Transaction],
) -> None:
    if len(set(versions)) != len(versions):
        raise Violation(f"{key!r} holds a text twice: {versions}")
    if versions != final[: len(versions)]:
        raise Violation(f"{key!r} was {versions} and at the end {final}: something was lost")
    for text in versions:
        writer = writers.get((key, text))
        if writer is None:
            raise Violation(f"{key!r} holds {text!r}, which nobody appended")
        if writer.is_done is False:
            raise Violation(f"{key!r} holds {text!r}, which was refused: {writer}")


def _happened(transaction: Transaction, final: Mapping[str, Versions]) -> bool:
    """Say whether the transaction took effect or read something."""
    there = [text in final.get(key, ()) for key, text in transaction.appends.items()]
    if transaction.is_done and not all(there):
        raise Violation(f"done and lost: {transaction}, at the end {dict(final)}")
    if transaction.is_done is None:
        if any(there) and not all(there):
            raise Violation(f"half done: {transaction}, at the end {dict(final)}")
        return any(there)
    return transaction.is_done or bool(transaction.reads)


class _Graph:
    """Who must stand before whom. Nodes: the transactions, then the moments at which one ended."""

    def __init__(self, history: list[Transaction]) -> None:
        self.history = history
        self.after: dict[int, dict[int, str]] = defaultdict(dict)

    def add(self, first: int, second: int, why: str) -> None:
        if first != second:
            self.after[first].setdefault(second, why)

    def add_lists(self, final: Mapping[str, Versions]) -> None:
        """What the lists say."""
        writers = {
            place: number
            for number, transaction in enumerate(self.history)
            if transaction.is_done is not False
            for place in transaction.appends.items()
        }
        order = {key: [writers[key, text] for text in texts] for key, texts in final.items()}
        for key, numbers in order.items():
            for first, second in pairwise(numbers):
                self.add(first, second, f"appends to {key}")
        for number, transaction in enumerate(self.history):
            lengths = {key: len(read) for key, read in transaction.reads.items()}
            for key, length in [*lengths.items(), *transaction.lengths.items()]:
                numbers = order.get(key, [])
                if length:
                    self.add(numbers[length - 1], number, f"was read in {key}")
                if length < len(numbers):
                    self.add(number, numbers[length], f"did not read in {key}")

    def add_times(self) -> None:
        """What had ended stands before what began later; over a chain of moments."""
        count = len(self.history)
        ends = sorted((transaction.end, number) for number, transaction in enumerate(self.history))
        begins = sorted((each.begin, number) for number, each in enumerate(self.history))
        place = 0
        for moment, (end, number) in enumerate(ends):
            while place < count and begins[place][0] <= end:
                if moment:
                    self.add(count + moment - 1, begins[place][1], "had ended")
                place += 1
            self.add(number, count + moment, "ends")
            if moment:
                self.add(count + moment - 1, count + moment, "then")

    def check(self) -> None:
        """Raises: Violation with a cycle, if there is one."""
        total = 2 * len(self.history)
        waiting = [0] * total
        for edges in self.after.values():
            for second in edges:
                waiting[second] += 1
        free = [number for number in range(total) if not waiting[number]]
        left = total
        while free:
            left -= 1
            for second in self.after[free.pop()]:
                waiting[second] -= 1
                if not waiting[second]:
                    free.append(second)
        if left:
            raise Violation(self.explain([bool(count) for count in waiting]))

    def explain(self, is_left: list[bool]) -> str:
        """Tell a cycle among the nodes that are left; each of them has one that is left before."""
        before: dict[int, int] = {}
        for first, edges in self.after.items():
            for second in edges:
                if is_left[first] and is_left[second]:
                    before[second] = first
        number = next(iter(before))
        walked: list[int] = []
        while number not in walked:
            walked.append(number)
            number = before[number]
        cycle = walked[walked.index(number) :][::-1]
        lines = ["not serializable; each of these must stand before the next, in a ring:"]
        for first, second in zip(cycle, cycle[1:] + cycle[:1], strict=True):
            if first < len(self.history):
                lines.append(f"  {self.history[first]}")
            lines.append(f"    | {self.after[first][second]}")
        return "\n".join(lines)
