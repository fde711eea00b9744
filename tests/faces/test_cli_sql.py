"""`dynalsm sql`: statements from -c, from stdin, and at the prompt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dynalsm
from dynalsm.cli import output
from dynalsm.cli.app import run
from dynalsm.cli.sql import Shell, statements
from tests.faces.conftest import MUSIC, fill
from tests.support.processes import run_cli


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output.console, "_width", 200)
    monkeypatch.setattr(output.errors_console, "_width", 200)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with the Music table and 120 songs."""
    path = tmp_path / "shop.db"
    with dynalsm.open(path, durability="os") as database:
        fill(database.create_table(**MUSIC), 120, "a")
    return path


@pytest.fixture
def shell(path: Path) -> Iterator[Shell]:
    with dynalsm.open(path) as database:
        yield Shell(database, json=False, is_timed=False)


@pytest.mark.parametrize(
    ("text", "found", "rest"),
    [
        ("a; b ;c", ["a", "b"], "c"),
        ("a 'x;''y' \"z;\" b;", ["a 'x;''y' \"z;\" b"], ""),
        ("a -- no; end\n b;", ["a \n b"], ""),
        ("\\d\nselect 1;", ["\\d", "select 1"], ""),
        ("a 'open;", [], "a 'open;"),
        (";;  ;", [], "  "),
        ("", [], ""),
    ],
)
def test_where_statements_end(text: str, found: list[str], rest: str) -> None:
    assert [one.strip() for one in statements(text)[0]] == found
    assert statements(text)[1].strip() == rest.strip()


def test_commands_of_the_line(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write = "INSERT INTO \"Music\" VALUE {'Artist': 'b', 'SongTitle': 't;', 'Year': 1999}"
    read = "SELECT SongTitle FROM \"Music\" WHERE Artist = 'b'"
    assert run(["sql", str(path), "-c", write, "-c", read, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"SongTitle": "t;"}
    assert run(["sql", str(path), "--read-only", "-c", read]) == 0
    assert "t;" in capsys.readouterr().out
    assert run(["sql", str(path), "--read-only", "-c", read.replace("'b'", "'none'")]) == 0
    assert capsys.readouterr().out == "no items\n"


def test_statements_of_stdin(path: Path) -> None:
    script = """-- a comment; with a semicolon
        UPDATE "Music" SET Plays = 7 WHERE Artist = 'a' AND SongTitle = 'song 001';
        \\d Music
        SELECT * FROM "Music" WHERE Artist = 'a' AND SongTitle = 'song 001'
    """
    ran = run_cli("sql", path, stdin=script)
    assert ran.returncode == 0, ran.stderr
    assert "Artist (S) + SongTitle (S)" in ran.stdout
    assert "Plays" in ran.stdout
    piped = run_cli("sql", path, "--json", stdin='SELECT * FROM "Music";')
    assert len(piped.stdout.splitlines()) == 120


def test_the_first_failure_ends_the_run(path: Path) -> None:
    script = "DELETE FROM \"Music\" WHERE Artist = 'a' AND SongTitle = 'song 000'; SELEC x; \\nope"
    ran = run_cli("sql", path, stdin=script)
    assert ran.returncode == 1
    assert ran.stderr.startswith("dynalsm: statement 2: ValidationException: Statement wasn't well")
    assert "there is no command \\nope" in run_cli("sql", path, "-c", "\\nope").stderr
    assert run_cli("sql", path / "missing", "-c", "x").returncode == 1


def test_commands_of_the_prompt(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run("\\?\n\\d\n\\json\n\\d Music")
    printed = capsys.readouterr().out
    assert "list the tables" in printed
    assert "Artist + SongTitle" in printed
    assert json.loads(printed.splitlines()[-1])["TableName"] == "Music"
    file = Path(shell.database.path).parent / "script.sql"
    file.write_text("SELECT COUNT(*) FROM x; ")
    with pytest.raises(dynalsm.errors.ValidationException):
        shell.run(f"\\i {file}")
    with pytest.raises(OSError, match=r"missing\.sql"):
        shell.run("\\i missing.sql")


def test_results_come_in_pages(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[bool] = []

    def more() -> bool:
        asked.append(True)
        return len(asked) < 2

    shell.more = more
    shell.run("\\page 50\n\\json\n\\timing\nSELECT * FROM \"Music\" WHERE Artist = 'a';")
    ran = capsys.readouterr()
    assert len(ran.out.splitlines()) == 100  # two pages; the third was not wanted
    assert len(asked) == 2
    assert ran.err.startswith("100 items (")
    shell.run("\\page 0\nSELECT * FROM \"Music\" WHERE Artist = 'a';")
    assert len(capsys.readouterr().out.splitlines()) == 120


class TestPrompt:
    """The prompt itself, driven through a pipe in place of a terminal."""

    @pytest.fixture(autouse=True)
    def needs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("prompt_toolkit")
        monkeypatch.setenv("DYNALSM_HISTORY", str(tmp_path / "state" / "history"))

    def type(self, shell: Shell, text: str) -> None:
        from prompt_toolkit.application import create_app_session
        from prompt_toolkit.input import create_pipe_input
        from prompt_toolkit.output import DummyOutput

        from dynalsm.cli.sql_prompt import prompt

        with create_pipe_input() as keys, create_app_session(keys, DummyOutput()):
            keys.send_text(text)
            prompt(shell, "shop.db")

    def test_a_session(self, shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
        shell.json = True
        self.type(
            shell,
            "SELECT SongTitle FROM \"Music\"\rWHERE Artist = 'a' AND SongTitle = 'song 007';\r"
            "nonsense;\r\\json\r\\q\r",
        )
        ran = capsys.readouterr()
        assert json.loads(ran.out.splitlines()[0]) == {"SongTitle": "song 007"}
        assert "dynalsm: ValidationException" in ran.err  # and the prompt went on
        assert not shell.json

    def test_history_is_kept(self, shell: Shell, tmp_path: Path) -> None:
        self.type(shell, "\\json\r\\q\r")
        history = tmp_path / "state" / "history"
        assert "+\\json" in history.read_text()
        assert history.stat().st_mode & 0o077 == 0
        self.type(shell, "\x1b[A\x1b[A\r\x04")  # up twice: \json again; Ctrl-D ends
        assert not shell.json

    def test_ctrl_c_drops_the_line(self, shell: Shell) -> None:
        self.type(shell, "SELECT\x03\\json\r\x04")
        assert shell.json

    @pytest.mark.parametrize(
        ("text", "expected", "kind"),
        [
            ("SEL", "SELECT", ""),
            ("SELECT * FROM ", '"Music"', "table"),
            ('SELECT * FROM "Mu', '"Music"', "table"),
            ('SELECT * FROM "Music".', '"ByYear"', "index"),
            ('SELECT * FROM "Music" WHERE Son', "SongTitle", "attribute"),
            ("\\d Mu", "Music", "table"),
            ("\\t", "\\timing", "show how long"),
        ],
    )
    def test_completion(self, shell: Shell, text: str, expected: str, kind: str) -> None:
        from prompt_toolkit.document import Document

        from dynalsm.cli.sql_prompt import SqlCompleter

        found: dict[str, Any] = {
            one.text: one for one in SqlCompleter(shell).get_completions(Document(text), object())
        }
        assert expected in found
        assert kind in found[expected].display_meta_text

    @pytest.mark.parametrize(
        ("text", "ends"),
        [("SELECT 1", False), ("SELECT 1;", True), ("\\d", True), ("", True), ("a ';", False)],
    )
    def test_enter_runs_what_is_complete(self, text: str, ends: bool) -> None:
        from dynalsm.cli.sql_prompt import is_complete

        assert is_complete(text) == ends
