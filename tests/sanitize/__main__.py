"""The tests under instruments: `python -m tests.sanitize address [pytest arguments]`.

address    AddressSanitizer: every access beyond or after an allocation
undefined  UndefinedBehaviorSanitizer: overflow, shifts, alignment, null where none may be
thread     ThreadSanitizer: accesses of two threads that nothing orders
debug      assertions, bounds checks, and freed or reused buffers scribbled over
valgrind   memcheck over the debug build: also reads of what was never written

The tree is copied to a temporary directory and built there, so that the modules in place stay as
they are; --work DIR keeps the copy, and a second run there builds only what changed. Without
pytest arguments all tests that the kind can run are run (kinds.py says which cannot, and why).
Exit status: 0 if the tests passed and nothing was reported.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.sanitize.kinds import FOREIGN, KINDS, Kind, kind_of

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = (".git", "*.so", "__pycache__", ".*_cache", "*.html")


def main() -> int:
    """Build, run and report as the command line asks."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.sanitize", description=__doc__, add_help=True,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("kind", help=f"one of {', '.join(KINDS)}; or address,undefined in one")
    parser.add_argument("--work", type=Path, help="build in this directory, and keep it")
    options, passed = parser.parse_known_args()
    try:
        kind = kind_of(options.kind)
    except KeyError as error:
        parser.error(f"no such kind: {error}")
    work = options.work or Path(tempfile.mkdtemp(prefix=f"dynalsm-{options.kind}-"))
    try:
        tree = work.resolve() / "tree"
        copy(tree)
        build(tree, kind)
        return run(tree, kind, work.resolve(), passed)
    finally:
        if options.work is None:
            shutil.rmtree(work, ignore_errors=True)


def copy(tree: Path) -> None:
    """Bring the copy up to date; times are kept, so that what did not change is not rebuilt."""
    ignore = shutil.ignore_patterns(*LEFT_OUT)
    for name in ("dynalsm", "tests", "docs", "bench", "examples"):
        shutil.copytree(ROOT / name, tree / name, ignore=ignore, dirs_exist_ok=True)
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy2(path, tree / path.name)


def build(tree: Path, kind: Kind) -> None:
    """Compile every module in the copy."""
    print(f"building in {tree}", flush=True)
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "-j2"]
    environment = {**os.environ, **kind.build, "PYTHONPATH": str(tree)}
    if subprocess.run(command, cwd=tree, env=environment, check=False).returncode:
        raise SystemExit("the build failed")


def run(tree: Path, kind: Kind, work: Path, passed: list[str]) -> int:
    """The tests, in a process of their own. Returns: the exit status."""
    reports = work / "reports"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir()
    wrapper, made = kind.start(reports)
    command = [*wrapper, sys.executable, "-m", "pytest", "-p", "no:cacheprovider",
               f"--timeout={kind.timeout_seconds}"]  # fmt: skip
    for path in {**FOREIGN, **kind.skipped}:
        command.append(f"--deselect={path}" if "::" in path else f"--ignore={path}")
    command += passed
    if not any((tree / word.split("::")[0]).exists() for word in passed):
        command += kind.tests
    environment = {**os.environ, **made, "PYTHONPATH": str(tree)}
    status = subprocess.run(command, cwd=tree, env=environment, check=False).returncode
    faults = found(reports, kind)
    for report in faults:
        print(f"--- {report.name}\n{report.read_text(errors='replace')[:6000]}", flush=True)
    print(f"exit status of the tests: {status}; processes with a report: {len(faults)}")
    return status or bool(faults)


def found(reports: Path, kind: Kind) -> list[Path]:
    """The report files that tell of a fault."""
    return [
        path for path in sorted(reports.iterdir())
        if any(mark in path.read_text(errors="replace") for mark in kind.report_marks)
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
