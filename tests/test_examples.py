"""The examples run, as they stand, in processes of their own."""

from __future__ import annotations

import configparser
import importlib.util
import json
import re
import shlex
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from dynalsm.cli import serving
from tests.support.processes import environment

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
# What an example needs besides dynalsm.
NEEDS = {
    "pynamodb_models": ("pynamodb", "boto3"),
    "langgraph_memory": ("langgraph_checkpoint_aws", "langgraph", "boto3"),
}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hot_key", "the new price was seen"),
        ("time_series", "and brought back: "),
        ("derived_view", "view: {"),
        ("pynamodb_models", "Song 05"),
        ("langgraph_memory", "you have said 5 things"),
    ],
)
def test_an_example(name: str, said: str, tmp_path: Path) -> None:
    for package in NEEDS.get(name, ()):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        capture_output=True, text=True, timeout=120, check=False, env=environment(), cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert said in ran.stdout
    assert list(tmp_path.iterdir()) == []  # it cleans up behind itself


def test_the_web_service(tmp_path: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "web_service.py"), str(tmp_path / "links.db"), "0"],
        stdout=subprocess.PIPE, text=True, env=environment(), cwd=tmp_path,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()

        def ask(path: str, body: str | None = None) -> tuple[int, str, str]:
            class Stay(urllib.request.HTTPRedirectHandler):
                def redirect_request(self, *_arguments: object) -> None:
                    return None

            opener = urllib.request.build_opener(Stay)
            try:
                reply = opener.open(url + path, None if body is None else body.encode(), timeout=30)
            except urllib.error.HTTPError as error:
                reply = error
            with reply:
                return reply.status, reply.headers.get("Location", ""), reply.read().decode()

        target = "https://example.com/a"
        names = [ask("/links", target)[2].strip() for _ in range(3)]
        for count, name in enumerate(names):
            for _ in range(count):
                assert ask(f"/{name}")[:2] == (302, target)
        assert json.loads(ask("/top")[2])[:2] == [
            {"name": names[2], "count": 2}, {"name": names[1], "count": 1},
        ]  # fmt: skip
        assert ask("/nothing")[0] == 404
        assert ask("/links", "nonsense")[0] == 400
    finally:
        server.kill()
        server.communicate()


def test_every_example_is_listed() -> None:
    listed = set(re.findall(r"\]\(([\w.]+)\)", (EXAMPLES / "README.md").read_text()))
    there = {path.name for path in EXAMPLES.iterdir() if path.is_file()} - {"README.md"}
    assert listed == there


def test_the_commands_of_container_and_unit_are_understood() -> None:
    """Their `dynalsm serve ...` has only options that there are."""
    unit = configparser.ConfigParser(strict=False, interpolation=None, comment_prefixes="#")
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string((EXAMPLES / "dynalsm.service").read_text())
    program, command, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert (Path(program).name, command) == ("dynalsm", "serve")
    assert serving.parser().parse_args(arguments).path == "/var/lib/dynalsm/shop.db"
    text = (EXAMPLES / "Containerfile").read_text()
    parts = [
        json.loads(found) for found in re.findall(r"^(?:ENTRYPOINT|CMD) (\[.*\])$", text, re.M)
    ]
    options = serving.parser().parse_args([*parts[0][2:], *parts[1]])
    assert (options.path, options.host, str(options.auth)) == (
        "/data/shop.db", "0.0.0.0", "/keys.json",
    )  # fmt: skip
