"""How a failure of a command is told: one line on stderr and an exit code. Imports nothing heavy.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from dynalsm import errors

FAILED = 1
INTERRUPTED = 130


def one_line(problem: Exception) -> str:
    """The failure in words for people."""
    if isinstance(problem, errors.ApiError):
        return f"{problem.code}: {problem.message}"
    if isinstance(problem, OSError) and problem.strerror and not isinstance(problem, errors.Error):
        return f"{problem.filename or ''}: {problem.strerror}".lstrip(": ")
    return str(problem)


def guarded(command: Callable[[], None], tell: Callable[[str], None]) -> int:
    """Run a command and return its exit code; expected failures are told, not raised."""
    try:
        command()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has gone; nothing more can be printed.
        sys.stderr.close()
        return 0
    except (errors.Error, ValueError, OSError, ModuleNotFoundError) as problem:
        tell(one_line(problem))
        return FAILED
    return 0


def tell_plainly(message: str) -> None:
    """Print why a command failed, in one line, without a library."""
    print("dynalsm:", " ".join(message.split()), file=sys.stderr)
