"""The long versions of the crash tests: `python -m tests.crash power --seeds 10`, and so on.

Each command prints what it has done so far, stops at the first violation with the text that makes
it again, and leaves nothing behind.
"""

from __future__ import annotations

import argparse
import logging
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.crash import cuts
from tests.crash import damage as ways
from tests.crash.faults import KINDS, WAYS, Fault, Run
from tests.crash.kill import Campaign, Nursery
from tests.crash.workload import KEY
from tests.support.scratch import scratch_directory

DURABILITIES = ("commit", "os", "interval")


class Progress:
    """Prints counts now and then, and at the end."""

    def __init__(self) -> None:
        self._started = self._printed = time.monotonic()
        self.counts: dict[str, int] = {}

    def add(self, **counts: int) -> None:
        for name, count in counts.items():
            self.counts[name] = self.counts.get(name, 0) + count
        if time.monotonic() - self._printed > 10:
            self.show()

    def show(self) -> None:
        self._printed = time.monotonic()
        text = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in self.counts.items())
        print(f"{self._printed - self._started:7.0f} s: {text}", flush=True)


def encryption(options: argparse.Namespace) -> dict[str, bytes]:
    return {"encryption_key": KEY} if options.encrypted else {}


def power(options: argparse.Namespace, progress: Progress) -> None:
    """Power cuts over workloads of the engine."""
    with scratch_directory() as work:
        for seed in range(options.first, options.first + options.seeds):
            rng = random.Random(seed)
            recording = cuts.record(
                work,
                seed,
                options.steps,
                durability=DURABILITIES[seed % 3],
                background=seed % 2 == 1,
                **encryption(options),
            )
            points = min(options.points, len(recording.entries) + 1)
            states = cuts.check_recording(
                recording, rng, work + "/state", points=points, states=options.states
            )
            progress.add(runs=1, crash_points=points, states=states)


def items(options: argparse.Namespace, progress: Progress) -> None:
    """Power cuts over writes to a table with indexes and a stream."""
    with scratch_directory() as work:
        for seed in range(options.first, options.first + options.seeds):
            rng = random.Random(seed)
            recording = cuts.record_items(
                work,
                seed,
                options.steps,
                durability=DURABILITIES[seed % 3],
                background=seed % 2 == 1,
                **encryption(options),
            )
            points = min(options.points, len(recording.entries) + 1)
            states = cuts.check_recording(
                recording, rng, work + "/state", points=points, states=options.states
            )
            progress.add(runs=1, crash_points=points, states=states)


def recovery(options: argparse.Namespace, progress: Progress) -> None:
    """Recoveries that are cut off themselves."""
    with scratch_directory() as work:
        for seed in range(options.first, options.first + options.seeds):
            rng = random.Random(seed)
            durability = DURABILITIES[seed % 3]
            recording = cuts.record(
                work, seed, options.steps, durability=durability, **encryption(options)
            )
            chosen = cuts.choose_points(rng, len(recording.entries), options.points)
            for cut in cuts.cuts(recording, chosen):
                again = cuts.record_recovery(work, recording, cut, rng, rng.choice([0, 0, 10]))
                states = cuts.check_recording(
                    again, rng, work + "/state", points=20, states=options.states
                )
                progress.add(recoveries=1, states=states)


def faults(options: argparse.Namespace, progress: Progress) -> None:
    """Every file operation of a workload fails, once and for ever."""
    with scratch_directory() as work:
        for seed in range(options.first, options.first + options.seeds):
            run = Run(work, seed, options.steps, **encryption(options))
            for errnum, for_ever, short in WAYS:
                for nth in range(1, run.count(KINDS[errnum]) + 1, options.stride):
                    fault = Fault(nth, errnum, for_ever, short, KINDS[errnum])
                    try:
                        workload = run.check(fault)
                    except BaseException:
                        print(f"seed {seed}, {fault}")
                        raise
                    progress.add(runs=1, failed_calls=len(workload.failures))


def kill(options: argparse.Namespace, progress: Progress) -> None:
    """Writers with four threads each are killed, and recoveries too; engine and items by turns."""
    with scratch_directory() as memory, tempfile.TemporaryDirectory() as disk:
        for work in (memory, disk):
            with Nursery(work) as nursery:
                campaigns = [
                    Campaign(work, kind, options.first, **encryption(options))
                    for kind in ("engine", "items")
                ]
                for number in range(options.rounds // 2):
                    campaign = campaigns[number % 2]
                    before = campaign.recoveries, campaign.operations
                    campaign.round(nursery)
                    progress.add(
                        kills=1,
                        killed_recoveries=campaign.recoveries - before[0],
                        operations=campaign.operations - before[1],
                    )


def damage(options: argparse.Namespace, progress: Progress) -> None:
    """Every byte of every file is flipped, and more, in a closed and in a cut off database."""
    with scratch_directory() as work:
        for is_closed in (True, False):
            path = Path(work) / f"db-{is_closed}"
            key = encryption(options).get("encryption_key")
            sample = ways.make(path, is_closed=is_closed, encryption_key=key)
            rng = random.Random(options.first)
            for number, (name, way) in enumerate(ways.damages(sample, rng, None)):
                if number % options.stride == 0:
                    outcome = ways.check_damage(sample, name, way, Path(work) / "copy")
                    progress.add(damages=1, **{outcome: 1})


COMMANDS: dict[str, tuple[Callable[[argparse.Namespace, Progress], None], dict[str, int]]] = {
    "power": (power, {"seeds": 10, "steps": 80, "points": 500, "states": 8}),
    "items": (items, {"seeds": 10, "steps": 80, "points": 250, "states": 4}),
    "recovery": (recovery, {"seeds": 10, "steps": 40, "points": 20, "states": 4}),
    "kill": (kill, {"rounds": 2000}),
    "damage": (damage, {"stride": 1}),
    "faults": (faults, {"seeds": 3, "steps": 60, "stride": 1}),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    commands = parser.add_subparsers(required=True)
    for name, (run, defaults) in COMMANDS.items():
        command = commands.add_parser(name, help=run.__doc__)
        command.add_argument("--first", type=int, default=0, help="the first seed")
        command.add_argument("--encrypted", action="store_true", help="an encrypted database")
        for option, default in defaults.items():
            command.add_argument(f"--{option}", type=int, default=default)
        command.set_defaults(run=run)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    progress = Progress()
    try:
        options.run(options, progress)
    finally:
        progress.show()
    print("no violation")


if __name__ == "__main__":
    main()
