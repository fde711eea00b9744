"""The loop around a target: make inputs, run them, watch for what must not be.

A target has a name, makes inputs from a random source, and runs one. What an input may lead to, the
target catches itself and turns into a word: anything that leaves `run` is a fault. So is anything
that dynalsm logs as an error, a run of more than SLOW_SECONDS, a crash or a hang of the process,
and memory beyond MEMORY_LIMIT_BYTES.

Inputs are kept as material for others when they reach a new line of dynalsm's Python, or a new
outcome. Before an input is run it is in the journal, so it is there when the process dies.

A target with a state (a database) is made anew after every RESET_INPUTS; all inputs since then are
in the journal, because the ones before may be part of what went wrong.
"""

from __future__ import annotations

import faulthandler
import logging
import random
import re
import resource
import struct
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Protocol

import dynalsm

# Of CPU time for one input; the machine may be busy with something else.
SLOW_SECONDS = 4.0
# The process is ended; far above what the machine being busy explains.
HANG_SECONDS = 120
# Resident memory of the whole process; no input is larger than a few megabytes.
MEMORY_LIMIT_BYTES = 1000 << 20
KEPT_INPUTS = 5000
RESET_INPUTS = 400
# A function that was traced so often without anything new is traced only now and then.
DULL_CALLS = 300
_HOME = str(Path(dynalsm.__file__).parent)
_JOURNAL_MAGIC = b"DLSMFUZZ"
_SIZE = struct.Struct("<I")
# What differs between two texts of one kind: numbers, and what is quoted of the input.
_DETAIL = re.compile(r"""\d+|"[^"]*"|'[^']*'|\[[^\]]*\]|: .*""", re.DOTALL)


class Target(Protocol):
    """What is fuzzed."""

    name: str
    may_log: bool  # whether errors may be logged
    has_state: bool  # whether an input may change what comes of later ones

    def seeds(self) -> Sequence[bytes]:
        """Good inputs to begin with."""

    def make(self, rng: random.Random, kept: Sequence[bytes]) -> bytes:
        """Make an input; `kept` are the seeds and what was kept of earlier ones."""

    def run(self, data: bytes) -> str:
        """Run an input. Returns: what came of it, in words. Raises: whatever must not be."""

    def reset(self) -> None:
        """Forget what inputs have changed."""

    def close(self) -> None:
        """Remove what is left."""


class Fault(AssertionError):
    """Something that must not be."""


def told(error: Exception) -> str:
    """Return the kind of an error, and of its text: an outcome."""
    return f"{type(error).__name__}: {kind_of_text(str(error))}"


def kind_of_text(text: str) -> str:
    """Return the beginning of a text without what differs between inputs."""
    return _DETAIL.sub("_", text[:300])[:80]


class Journal:
    """The inputs that led to where the process is now, in a file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb", buffering=0)
        self.clear()

    def clear(self) -> None:
        self._file.seek(0)
        self._file.truncate()
        self._file.write(_JOURNAL_MAGIC)

    def note(self, data: bytes) -> None:
        self._file.write(_SIZE.pack(len(data)) + data)

    def close(self) -> None:
        self._file.close()


def pack_inputs(inputs: Iterable[bytes]) -> bytes:
    """Return several inputs as one file."""
    return _JOURNAL_MAGIC + b"".join(_SIZE.pack(len(data)) + data for data in inputs)


def unpack_inputs(content: bytes) -> list[bytes]:
    """Return the inputs of a file: those of a journal, or the file itself."""
    if not content.startswith(_JOURNAL_MAGIC):
        return [content]
    inputs, place = [], len(_JOURNAL_MAGIC)
    while place + _SIZE.size <= len(content):
        (size,) = _SIZE.unpack_from(content, place)
        place += _SIZE.size
        inputs.append(content[place : place + size])
        place += size
    return inputs


class _Errors(logging.Handler):
    """Keeps what is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(self.format(record))


class Coverage:
    """Lines of Python of the package that were reached, and whether the last input found some."""

    def __init__(self) -> None:
        self._unseen: dict[CodeType, set[int] | None] = {}  # None: not of the package
        self._calls: dict[CodeType, int] = {}  # since the last new line
        self._lines = 0
        self.has_new = False

    def __enter__(self) -> Coverage:
        self.has_new = False
        sys.settrace(self._call)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if code not in self._unseen:
            is_ours = code.co_filename.startswith(_HOME)
            lines = {line for _start, _end, line in code.co_lines() if line} if is_ours else None
            self._unseen[code] = lines
        if not self._unseen[code]:
            return None
        calls = self._calls[code] = self._calls.get(code, 0) + 1
        return self._line if calls < DULL_CALLS or not calls % 32 else None

    def _line(self, frame: FrameType, event: str, _: Any) -> Any:
        unseen = self._unseen[frame.f_code]
        if unseen and frame.f_lineno in unseen:
            unseen.discard(frame.f_lineno)
            self._calls[frame.f_code] = 0
            self._lines += 1
            self.has_new = True
        return self._line

    def __len__(self) -> int:
        return self._lines


class Loop:
    """Runs one target."""

    def __init__(self, target: Target, journal: Path, *, is_guided: bool = True) -> None:
        self.target = target
        self.kept = list(target.seeds())
        self.coverage = Coverage() if is_guided else None
        self.counts: dict[str, int] = {}
        self.outcomes: set[str] = set()
        self.longest_seconds = 0.0
        self._journal = Journal(journal)
        self._since_reset = 0
        self._memory_limit_bytes = _peak_bytes() + MEMORY_LIMIT_BYTES
        self._errors = _Errors()
        self._logger = logging.getLogger("dynalsm")
        self._logger.addHandler(self._errors)
        self._logger.propagate = False

    def run(self, seed: int, seconds: float, most: int | None = None) -> int:
        """Run the seeds, then what is made of them. Returns: how many inputs. Raises: Fault."""
        rng = random.Random(f"{self.target.name} {seed}")
        seeds = self.kept[:]
        deadline = time.monotonic() + seconds
        count = 0
        while time.monotonic() < deadline and (most is None or count < most):
            is_seed = count < len(seeds)
            self.one(seeds[count] if is_seed else self.target.make(rng, self.kept))
            count += 1
        return count

    def replay(self, inputs: Iterable[bytes]) -> str:
        """Run inputs one after the other, from a fresh state. Raises: Fault."""
        self.reset()
        return "\n".join(self.one(data) for data in inputs)

    def reset(self) -> None:
        """Forget what inputs have changed."""
        if self._since_reset:
            self.target.reset()
        self._since_reset = 0
        self._journal.clear()

    def one(self, data: bytes) -> str:
        """Run one input. Raises: Fault."""
        if not self.target.has_state or self._since_reset >= RESET_INPUTS:
            self.reset()
        self._since_reset += 1
        self._journal.note(data)
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        began = time.process_time()
        try:
            outcome, is_new = self._traced(data)
        finally:
            faulthandler.cancel_dump_traceback_later()
        self._check(time.process_time() - began)
        if outcome not in self.outcomes:
            self.outcomes.add(outcome)
            is_new = True
        if is_new and len(self.kept) < KEPT_INPUTS:
            self.kept.append(data)
        word = outcome.partition(":")[0]
        self.counts[word] = self.counts.get(word, 0) + 1
        return outcome

    def _traced(self, data: bytes) -> tuple[str, bool]:
        try:
            if self.coverage is None:
                return self.target.run(data), False
            with self.coverage:
                outcome = self.target.run(data)
            return outcome, self.coverage.has_new
        except (Fault, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise Fault(f"{type(error).__name__}: {error}") from error

    def _check(self, taken_seconds: float) -> None:
        self.longest_seconds = max(self.longest_seconds, taken_seconds)
        if taken_seconds > SLOW_SECONDS:
            raise Fault(f"it took {taken_seconds:.1f} s")
        if self._errors.found and not self.target.may_log:
            raise Fault("logged: " + "; ".join(self._errors.found))
        used = _peak_bytes()
        if used > self._memory_limit_bytes:
            raise Fault(f"{used >> 20} MiB of memory")

    def close(self) -> None:
        """Remove what is left."""
        self._journal.close()
        self._logger.removeHandler(self._errors)
        self.target.close()


def _peak_bytes() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used * 1024 if sys.platform == "linux" else used
