"""Start Python and the command line as users do: in processes of their own.

They import the same dynalsm as the tests (installed or built in place), whatever the working
directory is.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

import dynalsm

URL = re.compile(r"https?://\S+")


def environment() -> dict[str, str]:
    """Return the environment of a child process: same package and `tests`, plain wide output."""
    home = str(Path(dynalsm.__file__).parents[1])
    inherited = os.environ.get("PYTHONPATH")
    path = home if not inherited else os.pathsep.join([home, inherited])
    return {**os.environ, "PYTHONPATH": path, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}


def run_cli(*arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run `dynalsm ...` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "dynalsm", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment(),
        cwd=tempfile.gettempdir(),
    )


class ServeProcess:
    """`dynalsm serve PATH --port 0 ...` until the block ends."""

    def __init__(self, path: Path, *options: str) -> None:
        self._command = [sys.executable, "-m", "dynalsm", "serve", str(path), "--port", "0"]
        self._command += options
        self.url = ""
        self.process: subprocess.Popen[str]

    def __enter__(self) -> ServeProcess:
        self.process = subprocess.Popen(
            self._command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            cwd=tempfile.gettempdir(),
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = URL.search(line)
        assert found, f"no URL in {line!r}: {self.process.communicate(timeout=30)[1]}"
        self.url = found.group()
        return self

    def stop(self) -> tuple[int, str]:
        """Send SIGTERM and return the exit code and what was printed after the first line."""
        self.process.terminate()
        printed, complaints = self.process.communicate(timeout=60)
        return self.process.returncode, printed + complaints

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
