"""docs/operations.md is true: its metrics are those that there are, its code and commands work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main

import dynalsm
from dynalsm.cli.app import app
from dynalsm.cli.serving import parser
from dynalsm.database import SETTING_NAMES
from dynalsm.server.metrics import Metrics

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "operations.md").read_text()
METRIC = re.compile(r"^\| `(dynalsm_\w+)` \|", re.M)


def test_every_metric_is_listed_and_no_other(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    with dynalsm.open(tmp_path / "test.db") as database:
        metrics = Metrics(database)
        metrics.count("GetItem", 200, 0.001)
        text = metrics.render().decode()
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    names = {name for name in names if not name.endswith("_created")}
    assert set(METRIC.findall(PAGE)) == names


def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, "operations.md", "exec"), {})


def test_commands_options_and_pages_are_there() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    named = set(re.findall(r"`?(?:\$ )?\bdynalsm ([a-z]+) (?:shop|http|dynamodb)", PAGE))
    assert {"checkpoint", "backup", "replicate", "stats"} <= named
    assert named <= set(commands)
    known = {option for action in parser()._actions for option in action.option_strings}
    for command in commands.values():
        known |= {option for parameter in command.params for option in parameter.opts}
    assert set(re.findall(r"(--[a-z][a-z-]+)", PAGE)) <= known
    for page in re.findall(r"\]\((\w+\.md)\)", PAGE):
        assert (Path(__file__).resolve().parents[1] / "docs" / page).exists()


def test_settings_are_there(tmp_path: Path) -> None:
    """Every name that the page gives as an option of open() is one."""
    from dynalsm._core.engine import DEFAULTS

    named = {one for one in re.findall(r"`([a-z]+(?:_[a-z]+)+)`", PAGE) if "dynalsm_" not in one}
    assert {"max_open_files", "stream_retention_seconds"} <= named
    # A figure, one of them, boto3's, one of the open itself.
    others = {"last_seqno", "memory_bytes", "endpoint_url", "encryption_key"}
    assert named - others <= SETTING_NAMES | set(DEFAULTS)
    assert set(re.findall(r"\(path, (\w+)=", PAGE)) <= set(DEFAULTS) | {"read_only"}
