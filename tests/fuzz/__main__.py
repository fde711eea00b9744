"""Fuzzing by hand: `python -m tests.fuzz storage --seconds 600`; without a name, all targets.

Each target runs in a process of its own, which may crash or hang; first over what was found before
(tests/fuzz/corpus). At the first fault it stops, keeps the input, tries whether that input alone is
enough, and says how to run it again: `python -m tests.fuzz NAME --input FILE`.

`--engine atheris` hands the same targets to libFuzzer, if atheris is installed.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

from tests.fuzz.loop import Fault, Loop, pack_inputs, unpack_inputs
from tests.fuzz.targets import CORPUS, TARGETS, make

JOURNAL = "inputs"


def fuzz(name: str, options: argparse.Namespace) -> bool:
    """Fuzz one target in a process of its own. Returns: whether no fault was found."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    work = Path(tempfile.mkdtemp(prefix=f"dynalsm-fuzz-{name}-", dir=base))
    try:
        passed = [f"--{each}={value}" for each, value in vars(options).items() if value is not None
                  and each not in ("targets", "inside", "input")]  # fmt: skip
        passed += [f"--input={path}" for path in options.input or []]
        if start(name, work, passed):
            return True
        kept = keep(name, work)
        if kept is not None:
            print(f"{name}: FAULT; python -m tests.fuzz {name} --input {kept}", flush=True)
        return False
    finally:
        shutil.rmtree(work, ignore_errors=True)


def start(name: str, work: Path, options: list[str], *, is_quiet: bool = False) -> bool:
    """Run a target in a child. Returns: whether it ended well."""
    work.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "tests.fuzz", name, f"--inside={work}", *options]
    output = subprocess.DEVNULL if is_quiet else None
    return subprocess.run(command, stdout=output, stderr=output, check=False).returncode == 0


def keep(name: str, work: Path) -> Path | None:
    """Save what the child ran last: one input if it is enough, or all since its last reset."""
    journal = work / JOURNAL
    if not journal.exists():
        return None
    inputs = unpack_inputs(journal.read_bytes())
    kept = Path(tempfile.mkdtemp(prefix="dynalsm-fault-")) / name
    for some in (inputs[-1:], inputs):
        kept.write_bytes(some[0] if len(some) == 1 else pack_inputs(some))
        if not start(name, work / "again", [f"--input={kept}"], is_quiet=True):
            break
    return kept


def inside(name: str, options: argparse.Namespace) -> int:
    """Run one target here. Returns: the exit code."""
    faulthandler.enable()
    work = Path(options.inside)
    if options.engine == "atheris":
        from tests.fuzz import libfuzzer

        return libfuzzer.run(name, work, options)
    loop = Loop(make(name, work), work / JOURNAL, is_guided=not options.input)
    try:
        if options.input:
            for path in options.input:
                print(loop.replay(unpack_inputs(Path(path).read_bytes())))
            return 0
        known = sorted(CORPUS.glob(f"{name}/*"))
        for path in known:
            loop.replay(unpack_inputs(path.read_bytes()))
        count = loop.run(options.seed, options.seconds, options.inputs)
        report(name, loop, len(known), count)
    except Fault:
        traceback.print_exc()
        return 1
    finally:
        loop.close()
    return 0


def report(name: str, loop: Loop, known: int, count: int) -> None:
    """Print the counts."""
    words = ", ".join(f"{each} {word}" for word, each in sorted(loop.counts.items()))
    lines = len(loop.coverage) if loop.coverage is not None else 0
    print(
        f"{name}: {count} inputs and {known} of earlier faults; {len(loop.outcomes)} outcomes, "
        f"{lines} lines; the longest took {loop.longest_seconds:.2f} s: {words}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)}; none: all")
    parser.add_argument("--seconds", type=float, default=60, help="for each target")
    parser.add_argument("--inputs", type=int, help="so many at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", choices=["own", "atheris"], default="own")
    parser.add_argument("--input", action="append", help="run this file only; may be repeated")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := set(options.targets) - set(TARGETS):
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    if options.inside:
        return inside(options.targets[0], options)
    results = [fuzz(name, options) for name in options.targets or TARGETS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
