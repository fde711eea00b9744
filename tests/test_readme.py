"""The README's Python runs as it stands, from top to bottom, in one namespace.

Blocks marked `python server` run against a real `dynalsm serve`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("boto3")

from dynalsm.cli.app import app, run
from tests.support.processes import ServeProcess

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.M | re.S)


def blocks() -> Iterator[tuple[str, str, str, int]]:
    """Yield (language, mark, text, line of the first text line)."""
    for match in BLOCK.finditer(README):
        line = README.count("\n", 0, match.start(3)) + 1
        yield match[1], match[2].strip(), match[3], line


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """Run the Python blocks; yields the directory where they ran, and how many there were."""
    directory = tmp_path_factory.mktemp("tour")
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield directory, run_python(directory)
    finally:
        os.chdir(before)


def run_python(directory: Path) -> int:
    namespace: dict[str, object] = {}
    ran = 0
    for language, mark, text, line in blocks():
        if language != "python":
            continue
        # Line numbers of a failure are those of the README.
        code = compile("\n" * (line - 1) + text, str(ROOT / "README.md"), "exec")
        if mark == "server":
            with ServeProcess(directory / "shop.db") as server:
                address = text.replace("http://127.0.0.1:8000", server.url)
                code = compile("\n" * (line - 1) + address, str(ROOT / "README.md"), "exec")
                exec(code, namespace)
                assert server.stop()[0] == 0
        else:
            exec(code, namespace)
        ran += 1
    return ran


def test_the_python_blocks_run(tour: tuple[Path, int]) -> None:
    assert tour[1] >= 8


def test_the_commands_run(tour: tuple[Path, int], capfd: pytest.CaptureFixture[str]) -> None:
    """Those of "The command line", in their order, on the database of the tour."""
    directory, _ = tour
    section = README[README.index("## The command line") :]
    lines = BLOCK.search(section)[3].splitlines()  # type: ignore[index]
    shutil.copytree(directory / "shop.db", directory / "served.db")
    with ServeProcess(directory / "served.db") as server:
        for line in lines:
            if not line.startswith("$ "):
                continue
            program, *arguments = shlex.split(line[2:])
            assert program == "dynalsm"
            if arguments[0] == "replicate" or "--watch" in arguments or arguments == [
                "sql", "shop.db",
            ]:  # fmt: skip
                continue  # these do not end by themselves, or need a second server
            given = [each.replace("http://127.0.0.1:8000", server.url) for each in arguments]
            assert run(given) == 0, (line, capfd.readouterr().err)
    statements = [line.removeprefix("sql> ") for line in lines if line.startswith("sql> ")]
    assert statements
    for statement in statements:
        assert run(["sql", "shop.db", "-c", statement]) == 0
    assert "Still In Love" in capfd.readouterr().out


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
