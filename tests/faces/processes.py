"""Start the command line as users do: in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import TracebackType

URL = re.compile(r"https?://\S+")


def run_cli(*arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run `dynalsm ...` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "dynalsm", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=_environment(),
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
            env=_environment(),
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


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
