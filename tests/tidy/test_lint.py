"""ruff, mypy and cython-lint find nothing: style is enforced by a test, not by asking."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, (result.stdout + result.stderr)[-4000:]


def test_ruff() -> None:
    pytest.importorskip("ruff")
    run("ruff", "check", "dynalsm", "tests", "bench", "examples", "setup.py")


def test_mypy() -> None:
    pytest.importorskip("mypy")
    run("mypy", "dynalsm")


def test_cython_lint() -> None:
    pytest.importorskip("cython_lint")
    run("cython_lint.cython_lint", *map(str, sorted((ROOT / "dynalsm").rglob("*.p[yx][xd]"))))
