"""How a failure of a command is told: one line on stderr and an exit code. Imports nothing heavy.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from dynalsm import errors

FAILED = 1
INTERRUPTED = 130


def one_line(problem: Exception) -> str:
    """The failure in words for people."""
    if isinstance(problem, errors.ApiError):
        return f"{problem.code}: {problem.message}"
    if isinstance(problem, OSError) and problem.strerror and not isinstance(problem, errors.Error):
        return f"{problem.filename or ''}: {problem.strerror}".lstrip(": ")
    return f"{problem}{advice(problem)}"


def advice(problem: Exception) -> str:
    """What to do about a failure of the storage; empty where the text says it already."""
    if isinstance(problem, errors.LockedError):
        return ": stop that process first, or give the URL that its server has"
    if isinstance(problem, errors.NoSpaceError):
        return ": make room and try again; what was acknowledged is kept"
    if isinstance(problem, errors.CorruptionError):
        return ": keep a copy of the directory, then see docs/operations.md on damaged files"
    if isinstance(problem, errors.FormatError):
        if "no database here" in problem.message:
            return ": check the path; dynalsm serve, demo and import make new databases"
        if "newer" in problem.message or "unknown" in problem.message:
            return ": install the dynalsm that wrote it, or a newer one"
    return ""


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


def check_directory(path: str, command: str, instead: str = "") -> None:
    """Refuse an address where only a directory will do. Raises: ValueError."""
    if "://" in path:
        raise ValueError(f"{path} is an address; {command} needs a database directory{instead}")


def check_parent(path: str) -> None:
    """Refuse to make a database where a mistyped path would leave new directories behind.

    Raises: ValueError.
    """
    parent = Path(path).absolute().parent
    if not parent.is_dir():
        raise ValueError(
            f"there is no directory {parent} to make {Path(path).name} in: "
            "check the path, or make that directory first"
        )


def tell_plainly(message: str) -> None:
    """Print why a command failed, in one line, without a library."""
    print("dynalsm:", " ".join(message.split()), file=sys.stderr)
