"""What each instrumented build needs: how it is compiled, what surrounds it, what cannot run in it.

Reports go to files, not to standard error: many tests start processes whose output they swallow,
or expect to die, and a fault in one of those must not be lost.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent

# What no instrumented process can do, with the reason. Paths and names as pytest's --deselect and
# --ignore take them.
FOREIGN = {
    "tests/console/test_browser.py": "Chromium does not start with a preloaded runtime",
    "tests/console/test_modules.py": "runs Node.js, which nothing here is compiled into",
    "tests/tidy": "reads the source; nothing compiled is run",
    "tests/faces/test_other_clients.py": "clients in other languages, from other processes",
}


@dataclass(frozen=True)
class Kind:
    """One way to build and run."""

    build: dict[str, str]
    preload: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    wrapper: tuple[str, ...] = ()
    tests: tuple[str, ...] = ("tests",)
    skipped: dict[str, str] = field(default_factory=dict)
    timeout_seconds: int = 1200
    report_marks: tuple[str, ...] = ()

    def start(self, reports: Path) -> tuple[list[str], dict[str, str]]:
        """The words before `python`, and the environment, for reports in that directory."""
        made = {name: value.replace("{reports}", str(reports)).replace("{here}", str(HERE))
                for name, value in self.environment.items()}  # fmt: skip
        if self.preload:
            made["LD_PRELOAD"] = " ".join(runtime(name) for name in self.preload)
        return [word.replace("{reports}", str(reports)).replace("{here}", str(HERE))
                for word in self.wrapper], made  # fmt: skip


def runtime(name: str) -> str:
    """The path of one of the compiler's libraries."""
    compiler = shutil.which("gcc") or "cc"
    found = subprocess.run(
        [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(found).is_absolute():
        raise SystemExit(f"{compiler} has no {name}")
    return found


# CPython's own allocator hides the ends of its blocks from every tool: malloc for everything.
PLAIN_MALLOC = {"PYTHONMALLOC": "malloc"}

KINDS = {
    # Leaks are not looked for: CPython leaves most of its own memory to the end of the process.
    # A huge allocation that fails is an answer the tests ask for, not a fault.
    "address": Kind(
        build={"DYNALSM_SANITIZE": "address"},
        preload=("libasan.so",),
        environment={
            **PLAIN_MALLOC,
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:"
            "log_path={reports}/address:handle_abort=1:quarantine_size_mb=64",
        },
        report_marks=("ERROR: AddressSanitizer",),
    ),
    "undefined": Kind(
        build={"DYNALSM_SANITIZE": "undefined"},
        environment={
            **PLAIN_MALLOC,
            "UBSAN_OPTIONS": "print_stacktrace=1:log_path={reports}/undefined",
        },
        report_marks=("runtime error:",),
    ),
    "thread": Kind(
        build={"DYNALSM_SANITIZE": "thread"},
        preload=("libtsan.so",),
        environment={
            **PLAIN_MALLOC,
            "TSAN_OPTIONS": "log_path={reports}/thread:suppressions={here}/thread.supp:"
            "report_thread_leaks=0:report_signal_unsafe=0:history_size=4:exitcode=0",
        },
        tests=("tests/core", "tests/kv"),
        report_marks=("WARNING: ThreadSanitizer",),
    ),
    # 0xDD over what is freed, other bytes than zeros in what is fresh: see debug.pxd.
    "debug": Kind(
        build={"DYNALSM_DEBUG": "1"}, environment={**PLAIN_MALLOC, "MALLOC_PERTURB_": "221"}
    ),
    "valgrind": Kind(
        build={"DYNALSM_DEBUG": "1"},
        environment=PLAIN_MALLOC,
        wrapper=(
            "valgrind", "--tool=memcheck", "--error-exitcode=99", "--quiet",
            "--suppressions={here}/valgrind.supp", "--log-file={reports}/valgrind.%p",
            "--num-callers=24", "--read-var-info=no", "--max-stackframe=4194304",
        ),
        tests=("tests/core", "tests/kv"),
        timeout_seconds=3600,
        report_marks=("== Invalid", "== Conditional", "== Use of uninit", "uninitialised byte",
                      "Mismatched free", "overlap in"),
    ),
}  # fmt: skip


def kind_of(name: str) -> Kind:
    """The kind of that name, or what two sanitizers are together. Raises KeyError."""
    first, *others = (KINDS[part] for part in name.split(","))
    return functools.reduce(both, others, first)


def both(one: Kind, other: Kind) -> Kind:
    """Two sanitizers in one build: half the time, and each watches over the other's tests."""
    switch = "DYNALSM_SANITIZE"
    return replace(
        one,
        build={switch: f"{one.build[switch]},{other.build[switch]}"},
        preload=one.preload + other.preload,
        environment={**one.environment, **other.environment},
        skipped={**one.skipped, **other.skipped},
        report_marks=one.report_marks + other.report_marks,
    )
