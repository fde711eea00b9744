"""Names of files that are numbers: logs and tables (docs/format-log.md, "Directory").

Other names in the same places are strangers: nothing is read from them.

Thread safety: pure functions.
"""

from __future__ import annotations

from dynalsm._core import files
from dynalsm._core.edits import NUMBER_MAX

LOG, TABLE = ".wal", ".sst"
_DIGITS = 12


def number_in(name: str, ending: str) -> int | None:
    """Return the number that a file's name is made of, before its ending; None for others."""
    stem = name.removesuffix(ending)
    if not name.endswith(ending) or not (stem.isascii() and stem.isdecimal()):
        return None
    number = int(stem)
    return number if stem == f"{number:0{_DIGITS}d}" and number <= NUMBER_MAX else None


def log_numbers(directory: str, least: int = 0) -> list[int]:
    """Return the numbers of the logs in a directory, from the least on, in order."""
    found = (number_in(name, LOG) for name in files.list_directory(directory))
    return sorted(number for number in found if number is not None and number >= least)
