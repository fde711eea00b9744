"""The long version of the histories: `python -m tests.model_based histories --histories 2000`.

Prints counts, and stops at the first history that no correct database can have produced.
`check FILE` checks a history that was kept.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import tempfile

from tests.crash.__main__ import Progress
from tests.crash.kill import Nursery
from tests.model_based import linear, serial
from tests.model_based.campaign import MAKERS, one_history
from tests.model_based.history import load
from tests.support.scratch import scratch_directory


def histories(options: argparse.Namespace) -> None:
    """Make and check histories, in memory and on the disk by turns."""
    progress = Progress()
    kinds = [options.kind] if options.kind else list(MAKERS)
    with contextlib.ExitStack() as stack:
        memory = stack.enter_context(scratch_directory())
        disk = stack.enter_context(tempfile.TemporaryDirectory())
        places = [(work, stack.enter_context(Nursery(work))) for work in (memory, disk)]
        for number in range(options.histories):
            work, nursery = places[number // len(kinds) % 2]
            kind = kinds[number % len(kinds)]
            counts = one_history(kind, options.first + number, work, nursery)
            progress.add(**{kind.replace("-", "_"): 1}, **counts)
    progress.show()
    print("no violation")


def check(options: argparse.Namespace) -> None:
    """Check a history that was kept."""
    history, final = load(options.file)
    print(f"{linear.check(history)} actions on single items are linearizable")
    print(f"{serial.check(history, final)} transactions are strictly serializable")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.model_based", description=__doc__)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("histories", help=histories.__doc__)
    command.add_argument("--histories", type=int, default=2000)
    command.add_argument("--first", type=int, default=0, help="the first seed")
    command.add_argument("--kind", choices=list(MAKERS))
    command.set_defaults(run=histories)
    command = commands.add_parser("check", help=check.__doc__)
    command.add_argument("file")
    command.set_defaults(run=check)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    options.run(options)


if __name__ == "__main__":
    main()
