"""What several callers asked for and got, with the times: the input of the checkers.

An event is one action of one caller between two moments of the monotonic clock, which is one clock
for all processes of a machine. What has no reply (its caller or its server was killed) has the
outcome UNKNOWN: it took effect once between its two moments, or not at all.

A `Recorder` may be used by many threads. It also writes every beginning and end to a file when it
is given one, so that what a killed process did can be read afterwards: `read_log`.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

UNKNOWN: Final = "unknown"
State = tuple[Any, ...] | None
Versions = tuple[str, ...]


@dataclass
class Single:
    """One action on one item; `outcome` is what `linear.step` says it must be, or UNKNOWN."""

    caller: str
    key: str
    action: tuple[Any, ...]
    begin: int
    end: int
    outcome: Any


@dataclass
class Transaction:
    """Appends to lists and reads of lists that belong together.

    A list holds what was appended to it so far, and no two appends are of the same text, so a list
    that was read says which appends came before the read, and in which order.
    """

    caller: str
    begin: int
    end: int
    is_done: bool | None  # None: unknown.
    appends: dict[str, str] = field(default_factory=dict)
    reads: dict[str, Versions] = field(default_factory=dict)
    # Lengths that a condition asked for and that were found.
    lengths: dict[str, int] = field(default_factory=dict)


Event = Single | Transaction
KINDS: Final = {"single": Single, "transaction": Transaction}


class Recorder:
    """Collects events. `begin` a call, then `end` it with what it brought, or leave it open."""

    def __init__(self, log: str | None = None) -> None:
        self.events: list[Event] = []  # Guarded by _mutex.
        self._mutex = threading.Lock()
        self._count = 0  # Guarded by _mutex.
        self._open: dict[int, list[Event]] = {}  # Guarded by _mutex.
        self._log = -1
        if log is not None:
            self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def begin(self, events: list[Event]) -> int:
        """Note what is about to be asked for; sets the time. Returns: a number for `end`."""
        now = time.monotonic_ns()
        for event in events:
            event.begin = now
        with self._mutex:
            self._count += 1
            number = self._count
            self._open[number] = events
        self._write({"call": number, "events": [pack(event) for event in events]})
        return number

    def end(self, number: int, events: list[Event]) -> None:
        """Note what came of it."""
        now = time.monotonic_ns()
        for event in events:
            event.end = now
        # The file first: an event is in it before anybody can act on it.
        self._write({"reply": number, "events": [pack(event) for event in events]})
        with self._mutex:
            del self._open[number]
            self.events += events

    def give_up(self, kept: Container[int] = ()) -> None:
        """End what is open as unknown, now, but for the calls that will be made again."""
        now = time.monotonic_ns()
        with self._mutex:
            for number in [number for number in self._open if number not in kept]:
                self.events += [forget(event, now) for event in self._open.pop(number)]

    def close(self) -> list[Event]:
        """Give up what is open. Returns: all events."""
        self.give_up()
        if self._log >= 0:
            os.close(self._log)
            self._log = -1
        return self.events

    def _write(self, line: dict[str, Any]) -> None:
        if self._log >= 0:
            os.write(self._log, json.dumps(line).encode() + b"\n")


def read_log(path: str | Path, dead_at: int) -> list[Event]:
    """Return the events of a process that was dead at that time, the last open ones as unknown."""
    calls: dict[int, list[Event]] = {}
    events: list[Event] = []
    for text in Path(path).read_bytes().split(b"\n")[:-1]:  # A line without an end was never begun.
        line = json.loads(text)
        unpacked = [unpack(packed) for packed in line["events"]]
        if "call" in line:
            calls[line["call"]] = unpacked
        else:
            del calls[line["reply"]]
            events += unpacked
    for left in calls.values():
        events += [forget(event, dead_at) for event in left]
    return events


def forget(event: Event, now: int) -> Event:
    """Return the event as one that may have happened until now."""
    event.end = now
    if isinstance(event, Single):
        event.outcome = UNKNOWN
    else:
        event.is_done = None
    return event


def pack(event: Event) -> dict[str, Any]:
    """Return the event for JSON."""
    return {"kind": type(event).__name__.lower(), **vars(event)}


def unpack(packed: dict[str, Any]) -> Event:
    """Return what was packed: lists are tuples again."""
    members = dict(packed)
    kind = KINDS[members.pop("kind")]
    if kind is Transaction:
        members["reads"] = {key: tuple(read) for key, read in members["reads"].items()}
        return Transaction(**members)
    return Single(
        **{
            name: _tuples(value) if name in ("action", "outcome") else value
            for name, value in members.items()
        }
    )


def dump(events: Iterable[Event], final: Mapping[str, Versions], path: str | Path) -> None:
    """Write a history, and the lists at its end, to a file that `load` reads."""
    lines = [json.dumps({"final": final}), *(json.dumps(pack(event)) for event in events)]
    Path(path).write_text("\n".join(lines) + "\n")


def load(path: str | Path) -> tuple[list[Event], dict[str, Versions]]:
    """Return the history in a file, and the lists at its end."""
    head, *lines = map(json.loads, Path(path).read_text().splitlines())
    final = {key: tuple(texts) for key, texts in head["final"].items()}
    return [unpack(line) for line in lines], final


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
