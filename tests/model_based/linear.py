"""Is a history of single items linearizable? A checker in the manner of Wing and Gong.

Items are independent, so each is checked by itself (linearizability is local). For one item the
checker looks for an order of the actions that keeps to their times and in which every action gets
what `step` says: it puts one action after the other that might be next, goes back when none fits,
and remembers (set of actions done, state) pairs that led nowhere, as Lowe does. An action with an
unknown outcome may be left out.

The item is None, or (text, number): attributes t and n, either of which may be missing (None).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from tests.model_based.history import UNKNOWN, Event, Single, State

FAILED = "failed"
# What a batch writes: its caller is not told what was there before.
SILENT = ("write", "erase")


class Violation(AssertionError):
    """A history that no correct database can have produced."""


def step(state: State, action: tuple[Any, ...]) -> tuple[State, Any]:
    """Apply an action to an item. Returns: the item afterwards, and what the caller is told."""
    name, *arguments = action
    if name == "get":
        return state, state
    if name == "put":
        return tuple(arguments), state
    if name == "delete":
        return None, state
    if name == "write":
        return tuple(arguments), None
    if name == "erase":
        return None, None
    text, number = state or (None, None)
    if name == "add":
        new = (text, (number or 0) + arguments[0])
        return new, new
    if name == "put_new":
        return ((arguments[0], None), None) if state is None else (state, (FAILED, state))
    if name == "swap":
        expected, wanted = arguments
        if text != expected or state is None:
            return state, (FAILED, state)
        return (wanted, number), (wanted, number)
    if name == "delete_if":
        return (None, state) if text == arguments[0] else (state, (FAILED, state))
    raise ValueError(f"no action {name}")


def check(events: Iterable[Event]) -> int:
    """Check all items of a history. Returns: how many actions it has. Raises: Violation."""
    by_key: dict[str, list[Single]] = defaultdict(list)
    for event in events:
        if isinstance(event, Single):
            by_key[event.key].append(event)
    for key, actions in by_key.items():
        _Search(key, actions).run()
    return sum(map(len, by_key.values()))


class _Search:
    """The search for an order of the actions on one item."""

    def __init__(self, key: str, actions: list[Single]) -> None:
        self.key = key
        self.actions = sorted(actions, key=lambda action: action.begin)
        self.needed = 0
        for place, action in enumerate(self.actions):
            if action.outcome != UNKNOWN:
                self.needed |= 1 << place
        self.best: tuple[int, State] = (0, None)

    def run(self) -> None:
        """Raises: Violation."""
        seen: set[tuple[int, State]] = set()
        stack: list[tuple[int, State]] = [(0, None)]
        while stack:
            done, state = stack.pop()
            if done & self.needed == self.needed:
                return
            if (done, state) in seen:
                continue
            seen.add((done, state))
            if done.bit_count() > self.best[0].bit_count():
                self.best = (done, state)
            stack += self.next_ones(done, state)
        raise Violation(self.explain())

    def next_ones(self, done: int, state: State) -> list[tuple[int, State]]:
        """What may come after: (actions done, item)."""
        found: list[tuple[int, State]] = []
        candidates = self.candidates(done)
        # An unknown one that may be next must not become too late for it.
        limit = min((self.actions[place].end for place in candidates), default=0)
        for place in candidates:
            action = self.actions[place]
            new, outcome = step(state, action.action)
            if action.outcome not in (UNKNOWN, outcome):
                continue
            after = (done | 1 << place, new)
            if new == state and action.outcome == UNKNOWN:
                continue  # It may as well be left for later.
            if new == state and action.begin <= limit and action.action[0] not in SILENT:
                # It fits and changes nothing, here or wherever else it fits (its outcome tells the
                # state): it may always come first, and nothing else need be tried.
                return [after]
            found.append(after)
        return found

    def candidates(self, done: int) -> list[int]:
        """The actions that may be next: begun before any other one that is left has ended."""
        latest = self.actions[max(0, done.bit_length() - 1)].begin
        first_end: int | None = None
        places = []
        for place in range((~done & (done + 1)).bit_length() - 1, len(self.actions)):
            if done >> place & 1:
                continue
            action = self.actions[place]
            if first_end is not None and action.begin > first_end:
                break
            if action.outcome != UNKNOWN:
                first_end = action.end if first_end is None else min(first_end, action.end)
            elif action.end < latest:
                continue  # Something that began after its end is done already: it never happened.
            places.append(place)
        return [
            place for place in places if first_end is None or self.actions[place].begin <= first_end
        ]

    def explain(self) -> str:
        """Tell how far it went."""
        done, state = self.best
        zero = self.actions[0].begin
        lines = [
            f"{'done' if done >> place & 1 else 'LEFT'} {(action.begin - zero) / 1e3:11.1f}.."
            f"{(action.end - zero) / 1e3:11.1f} us {action.caller} {action.action} -> "
            f"{action.outcome}"
            for place, action in enumerate(self.actions)
        ]
        left = next(place for place in range(len(lines)) if not done >> place & 1)
        shown = lines[max(0, left - 15) : left + 25]
        return "\n".join(
            [
                f"item {self.key!r} is not linearizable: {done.bit_count()} of {len(lines)} "
                f"actions can be put in an order, which leaves {state}; then none of these fits:",
                *shown,
            ]
        )
