"""The package as it is shipped: source distribution -> wheel -> import in a clean environment."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import dynalsm

ROOT = Path(__file__).resolve().parents[1]
BUILD_SECONDS = 1500

PROGRAM = """
import dynalsm, sys
from dynalsm.server.console import page_files
with dynalsm.open(sys.argv[1]) as db:
    table = db.create_table(
        TableName="Thing",
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    table.put_item(Item={"k": "x", "v": {"a", "b"}})
    item = table.get_item(Key={"k": "x"})["Item"]
    print(dynalsm.__version__, item["k"], len(page_files()))
"""


def test_the_version_has_one_source() -> None:
    text = (ROOT / "dynalsm" / "_version.py").read_text()
    assert dynalsm.__version__ == re.search(r'"(.+)"', text).group(1)  # type: ignore[union-attr]
    try:
        installed = metadata.version("dynalsm")
    except metadata.PackageNotFoundError:
        pytest.skip("dynalsm is not installed, only built in place")
    assert installed == dynalsm.__version__


def test_the_changelog_is_about_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert f"## [{dynalsm.__version__}]" in text or "## [Unreleased]" in text


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the source distribution from a copy of what git knows."""
    copy = tmp_path_factory.mktemp("source")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("needs the git repository, to know the files of a clone")
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            target = copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
    build = "import setuptools.build_meta as b; print(b.build_sdist('dist'))"
    done = subprocess.run(
        [sys.executable, "-c", build], cwd=copy, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return next((copy / "dist").glob("*.tar.gz"))


@pytest.mark.slow
def test_the_source_distribution_has_every_source(sdist: Path) -> None:
    """Without the .pyx files it would build a package without an engine, successfully."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    sources = {
        str(path.relative_to(ROOT))
        for pattern in ("*.py", "*.py[xi]", "*.pxd", "*.h", "*.txt", "py.typed", "page/*.*")
        for path in (ROOT / "dynalsm").rglob(pattern)
    }
    listed = subprocess.run(
        ["git", "ls-files", "dynalsm"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert sources & set(listed.stdout.split()) <= names
    assert {"README.md", "LICENSE", "CHANGELOG.md", "setup.py", "pyproject.toml"} <= names
    assert not [name for name in names if name.endswith((".c", ".so"))]


@pytest.mark.slow
@pytest.mark.timeout(2 * BUILD_SECONDS)
@pytest.mark.skipif(not os.environ.get("CI"), reason="builds everything again; CI=true runs it")
def test_a_wheel_from_the_source_distribution_works(sdist: Path, tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", tmp_path, sdist],
        capture_output=True, text=True, check=False, timeout=BUILD_SECONDS,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    wheel = next(tmp_path.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert any(re.match(r"dynalsm/_core/engine\..*\.so$", name) for name in names)
    assert {"dynalsm/py.typed", "dynalsm/expressions/words.txt"} <= set(names)
    page = sorted((ROOT / "dynalsm/server/console/page").iterdir())
    assert {str(path.relative_to(ROOT)) for path in page} <= set(names)
    assert not [name for name in names if name.endswith((".pyx", ".pxd", ".c"))]

    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", wheel], check=True, timeout=600)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        [python, "-c", PROGRAM, tmp_path / "test.db"],
        capture_output=True, text=True, check=False, cwd=tmp_path, env=clean,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == [dynalsm.__version__, "x", str(len(page))]
    command = tmp_path / "venv" / "bin" / "dynalsm"
    shown = subprocess.run(
        [command, "tables", tmp_path / "test.db"],
        capture_output=True, text=True, check=False, env=clean,
    )  # fmt: skip
    assert "Thing" in shown.stdout
