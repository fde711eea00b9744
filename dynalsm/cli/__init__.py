"""The command line: `dynalsm serve`, `dynalsm demo`, `dynalsm tables`, ...

`main` is the program: it runs one command and turns every expected failure into one line on
stderr. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit."""
    if sys.argv[1:2] == ["serve"]:
        from dynalsm.cli import serving

        sys.exit(serving.run(sys.argv[2:]))
    from dynalsm.cli.app import run

    sys.exit(run(sys.argv[1:]))
