"""The README's Python runs as it stands, from top to bottom, in one namespace.

Blocks marked `python server` run against a real `dynalsm serve`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("boto3")

from dynalsm.cli.app import app
from tests.support.processes import ServeProcess

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.M | re.S)


def blocks() -> Iterator[tuple[str, str, str, int]]:
    """Yield (language, mark, text, line of the first text line)."""
    for match in BLOCK.finditer(README):
        line = README.count("\n", 0, match.start(3)) + 1
        yield match[1], match[2].strip(), match[3], line


@pytest.fixture
def in_directory(tmp_path: Path) -> Iterator[Path]:
    before = Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


def test_the_python_blocks_run(in_directory: Path) -> None:
    namespace: dict[str, object] = {}
    ran = 0
    for language, mark, text, line in blocks():
        if language != "python":
            continue
        # Line numbers of a failure are those of the README.
        code = compile("\n" * (line - 1) + text, str(ROOT / "README.md"), "exec")
        if mark == "server":
            with ServeProcess(in_directory / "shop.db") as server:
                address = text.replace("http://127.0.0.1:8000", server.url)
                code = compile("\n" * (line - 1) + address, str(ROOT / "README.md"), "exec")
                exec(code, namespace)
                assert server.stop()[0] == 0
        else:
            exec(code, namespace)
        ran += 1
    assert ran >= 8


def test_the_two_commands_stand_at_the_top() -> None:
    head = "\n".join(README.splitlines()[:45])
    assert "$ pip install '.[all]' && dynalsm demo" in head
    assert "$ pip install '.[all]' && pytest" in head


def test_the_commands_exist() -> None:
    known = {command.name or command.callback.__name__ for command in app.registered_commands}  # type: ignore[union-attr]
    used = set(re.findall(r"^\$ (?:.* && )?dynalsm (\w+)", README, re.M))
    assert used <= known
    assert len(used) >= 7


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([\w./-]+)\)", README):
        assert (ROOT / target).exists(), target
