"""Clients from PyPI and npm that are no dependency of ours: installed once, beside everything else.

They go to $DYNALSM_CLIENT_CACHE, or to a directory of the user's own under the system's temporary
one, and stay there for the next run. What cannot be installed skips the test that asked for it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

INSTALL_LIMIT_SECONDS = 240
JAVASCRIPT = ("@aws-sdk/client-dynamodb@3", "@aws-sdk/lib-dynamodb@3", "dynamodb-admin@5")
NODE_MAJOR = 20


def python_package(name: str) -> str:
    """Return a PYTHONPATH with one package and what it needs, apart from those installed here."""

    def install(directory: Path) -> list[str]:
        return [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(directory), name]

    label = f"{name}-py{sys.version_info[0]}{sys.version_info[1]}"
    return str(_installed(label, install, f"pip cannot install {name}"))


def node_modules() -> str:
    """Return a NODE_PATH with the JavaScript SDK and dynamodb-admin."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("needs Node.js 20 and npm (apt-get install nodejs npm)")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True)
    if int(version.stdout.lstrip("v").split(".")[0]) < NODE_MAJOR:
        pytest.skip(f"needs Node.js {NODE_MAJOR} or newer, there is {version.stdout.strip()}")

    def install(directory: Path) -> list[str]:
        quiet = ("--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error")
        return [npm, "install", *quiet, "--prefix", str(directory), *JAVASCRIPT]

    return str(_installed("node", install, "npm cannot install the SDK") / "node_modules")


def cache() -> Path:
    """Return the directory of all installations; it belongs to this user alone."""
    named = os.environ.get("DYNALSM_CLIENT_CACHE")
    path = Path(named or Path(tempfile.gettempdir(), f"dynalsm-clients-{os.getuid()}"))
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_uid != os.getuid():
        pytest.skip(f"{path} belongs to somebody else; name another one in DYNALSM_CLIENT_CACHE")
    return path


def _installed(label: str, install: Callable[[Path], list[str]], complaint: str) -> Path:
    home = cache() / label
    if home.exists():
        return home
    # Whole or not at all: another run may be installing the same.
    beside = Path(tempfile.mkdtemp(prefix=f"{label}-", dir=cache()))
    try:
        ran = subprocess.run(
            install(beside), capture_output=True, text=True, check=False,
            timeout=INSTALL_LIMIT_SECONDS, cwd=beside,
        )  # fmt: skip
        if ran.returncode != 0:
            pytest.skip(f"{complaint}: {(ran.stderr or ran.stdout).strip()[-300:]}")
        try:
            beside.rename(home)
        except OSError:
            assert home.exists()
    except subprocess.TimeoutExpired:
        pytest.skip(f"{complaint} within {INSTALL_LIMIT_SECONDS} s")
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return home
