"""Logs of a server: text for people, JSON lines for collectors."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from dynalsm import errors
from dynalsm._core import Engine, background
from dynalsm.cli.logs import JsonFormatter
from dynalsm.server import wire
from tests.support.processes import ServeProcess, environment, run_cli


def line(record: logging.LogRecord) -> dict[str, object]:
    text = JsonFormatter().format(record)
    assert "\n" not in text
    read = json.loads(text)
    assert isinstance(read, dict)
    return read


def test_a_line_has_what_the_record_has() -> None:
    try:
        raise KeyError("x")
    except KeyError:
        record = logging.LogRecord("dynalsm.x", 40, "f.py", 1, "a %s\nb", ("c",), sys.exc_info())
    record.operation = "PutItem"
    read = line(record)
    assert (read["level"], read["logger"]) == ("error", "dynalsm.x")
    assert (read["message"], read["operation"]) == ("a c\nb", "PutItem")
    assert "KeyError: 'x'" in str(read["exception"])
    assert str(read["time"]).endswith("+00:00")
    assert set(read) == {"time", "level", "logger", "message", "operation", "exception"}


def test_what_json_cannot_hold_becomes_text() -> None:
    record = logging.makeLogRecord({"msg": "bad \udcff name", "path": Path("/x"), "n": 1})
    read = line(record)
    assert read["message"] == "bad ? name"
    assert read["path"] == "/x"


def test_a_failed_operation_is_named(caplog: pytest.LogCaptureFixture) -> None:
    wire.failure_reply("PutItem", errors.StorageIOError("no space"))
    wire.failure_reply("Query", ZeroDivisionError())
    assert [vars(record)["operation"] for record in caplog.records] == ["PutItem", "Query"]


def test_failed_background_work_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine.open(tmp_path / "e", durability="os", background=False)
    background.Workers(engine)._rest("flush", errors.StorageIOError("no space"), 0.0)
    engine.close()
    (record,) = caplog.records
    assert vars(record)["work"] == "flush"


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_logs_go_to_stderr(log_format: str) -> None:
    program = (
        "import logging, sys; from dynalsm.cli.logs import set_up; set_up(sys.argv[1])\n"
        "logging.getLogger('dynalsm').error('it %s', 'failed', extra={'work': 'flush'})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, log_format],
        capture_output=True, text=True, check=True, env=environment(),
    )  # fmt: skip
    assert done.stdout == ""
    if log_format == "json":
        assert json.loads(done.stderr)["work"] == "flush"
    else:
        assert done.stderr.endswith(" ERROR dynalsm: it failed\n")


def test_serve_takes_the_format(tmp_path: Path) -> None:
    with ServeProcess(tmp_path / "shop.db", "--log-format", "json") as server:
        code, _ = server.stop()
    assert code == 0
    refused = run_cli("serve", tmp_path / "shop.db", "--log-format", "xml")
    assert refused.returncode == 2
    assert "invalid choice" in refused.stderr
