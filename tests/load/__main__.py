"""The long versions of the load tests: `python -m tests.load soak --seconds 3600`, and so on.

Each prints a table of what it measured, and ends with 1 when a bound is broken.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.load.cases import CASES
from tests.load.measure import BoundBroken
from tests.load.soak import soak
from tests.support.scratch import scratch_directory


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.load")
    parser.add_argument("case", choices=["soak", *CASES])
    parser.add_argument("--seconds", type=float, default=3600, help="of the soak")
    parser.add_argument("--threads", type=int, default=2, help="of the soak, on each side")
    parser.add_argument("--size", type=int, help="of the other cases: items or runs")
    options = parser.parse_args()
    with scratch_directory() as work:
        if options.case == "soak":
            report = soak(Path(work), options.seconds, threads=options.threads)
        else:
            case, size, _ = CASES[options.case]
            report = case(Path(work) / "db", options.size or size)
    print(report.text(), flush=True)
    try:
        report.check()
    except BoundBroken as broken:
        print(f"too much: {broken}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
