"""Mistakes on the command line: each gets one line that says where it is and what to do."""

from __future__ import annotations

import json
import signal
import struct
import urllib.request
from pathlib import Path
from typing import Any

import crc32c
import pytest

import dynalsm
from dynalsm import errors
from dynalsm.cli.app import run
from dynalsm.cli.failures import one_line
from tests.faces.conftest import MUSIC, fill
from tests.support.processes import ServeProcess, run_cli

KEY = '{"Artist": "a", "SongTitle": %s}'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with the Music table and two songs."""
    path = tmp_path / "shop.db"
    with dynalsm.open(path, durability="os") as database:
        fill(database.create_table(**MUSIC), 2, "a")
    return path


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """Run a command that must fail; return what it says on stderr."""
    assert run([str(argument) for argument in arguments]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    return err.strip()


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("stats", "http://127.0.0.1:1 cannot be reached: [Errno 111] Connection refused"),
        ("compact", "is an address; compact needs a database directory"),
    ],
)
def test_an_address_where_only_a_directory_will_do(
    capsys: pytest.CaptureFixture[str], command: str, complaint: str
) -> None:
    assert complaint in refused(capsys, command, "http://127.0.0.1:1")


@pytest.mark.parametrize("option", ["read_only", "create", "durability"])
def test_options_of_a_directory_on_an_address(option: str) -> None:
    with pytest.raises(ValueError, match=f"which has no option '{option}'; it takes: region"):
        dynalsm.open("http://127.0.0.1:1", **{option: True})


@pytest.mark.parametrize(
    ("number", "complaint"),
    [
        ("NaN", "the number NaN at column 30: DynamoDB has no such number"),
        ("-Infinity", "the number -Infinity at column 30: DynamoDB has no such number"),
        ("1e400", "the number 1e400 at column 30: Number overflow"),
        ("1e-400", "the number 1e-400 at column 30: Number underflow"),
        ("9" * 39, "at column 30: Attempting to store more than 38 significant digits"),
        ("9" * 5000, "at column 30: Number overflow"),
    ],
    ids=["nan", "infinity", "huge", "tiny", "digits", "long"],
)
def test_numbers_that_no_item_can_hold(
    capsys: pytest.CaptureFixture[str], path: Path, number: str, complaint: str
) -> None:
    for command in ("get", "put", "delete"):
        assert complaint in refused(capsys, command, path, "Music", KEY % number)
    assert "--values: the number" in refused(
        capsys, "query", path, "Music", "a", "--filter", "a > :a", "--values", f'{{":a": {number}}}'
    )


@pytest.mark.parametrize(
    ("lines", "options", "complaint"),
    [
        (KEY % '"x"' + "\n" + KEY % "", (), "line 2 is no JSON: Expecting value at column 30"),
        (KEY % '"x"' + "\n\n" + '{"Artist": "a"}', (), "line 3: ValidationException: One or more"),
        (KEY % '"x"' + "\n[1]", (), "line 2 must be a JSON object"),
        (KEY % '"x"' + "\n" + KEY % "1e999", (), "line 2: the number 1e999 at column 30: Number"),
        ('{"Artist": {"S": "a"}, "SongTitle": {"S": "x"}}\n{"Artist": {"X": "a"}}', ("--typed",),
         "line 2: ValidationException: Supplied AttributeValue"),
    ],
)  # fmt: skip
def test_a_wrong_line_of_a_file(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    path: Path,
    lines: str,
    options: tuple[str, ...],
    complaint: str,
) -> None:
    """The line and the column are named; what stands before it is written, and that is said."""
    file = tmp_path / "songs.jsonl"
    file.write_text(lines)
    told = refused(capsys, "put", path, "Music", f"@{file}", *options).replace("\n", " ")
    assert told.startswith("1 item written")
    assert f"{file} {complaint}" in told
    with dynalsm.open(path, read_only=True) as database:
        assert "Item" in database.Table("Music").get_item(Key={"Artist": "a", "SongTitle": "x"})


def test_a_file_that_is_no_text(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, path: Path
) -> None:
    file = tmp_path / "songs.jsonl"
    file.write_bytes(b'{"Artist": "\xff"}')
    assert f"{file} line 1 is no UTF-8 text: byte 0xff at column 13" in refused(
        capsys, "put", path, "Music", f"@{file}"
    )


def test_get_takes_json_as_every_command_does(
    capsys: pytest.CaptureFixture[str], path: Path
) -> None:
    assert run(["get", str(path), "Music", KEY % '"song 001"', "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["Year"] == 1991


@pytest.mark.parametrize("command", ["serve", "import"])
def test_new_databases_make_no_chain_of_directories(tmp_path: Path, command: str) -> None:
    source = tmp_path / "x.json"
    source.write_text("")
    rest = ("T", str(source), "--key", "a:S") if command == "import" else ()
    mistyped = tmp_path / "no" / "such" / "shop.db"
    ran = run_cli(command, mistyped, *rest)
    assert ran.returncode == 1
    assert f"there is no directory {mistyped.parent} to make shop.db in" in ran.stderr
    assert not (tmp_path / "no").exists()


def test_a_terminal_that_goes_away_closes_the_database(tmp_path: Path) -> None:
    with ServeProcess(tmp_path / "shop.db") as server:
        server.process.send_signal(signal.SIGHUP)
        printed, complaints = server.process.communicate(timeout=60)
    assert (server.process.returncode, complaints) == (0, "")
    assert "stopped; the database is closed" in printed


def test_nohup_is_respected(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # what nohup does; children inherit it
    try:
        with ServeProcess(tmp_path / "shop.db") as server:
            server.process.send_signal(signal.SIGHUP)
            with urllib.request.urlopen(server.url, timeout=30) as reply:
                assert reply.status == 200
            assert server.stop()[0] == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_database_in_another_process(tmp_path: Path) -> None:
    with ServeProcess(tmp_path / "shop.db") as server:
        pid = server.process.pid
        ran = run_cli("compact", tmp_path / "shop.db")
    assert ran.returncode == 1
    assert f"is open for writing in process {pid}" in ran.stderr
    assert "stop that process first, or give the URL that its server has" in ran.stderr


def test_a_newer_format(capsys: pytest.CaptureFixture[str], path: Path) -> None:
    """The manifest's head names the oldest version that can read it; a checksum covers the head."""
    (manifest,) = path.glob("MANIFEST-*")
    head = list(struct.unpack("<8sIIIIQI", manifest.read_bytes()[:36]))
    head[1] = head[2] = head[3] = 99  # format, reader, writer
    packed = struct.pack("<8sIIIIQI", *head)
    packed += struct.pack("<I", crc32c.crc32c(packed))
    manifest.write_bytes(packed + manifest.read_bytes()[40:])
    for command in ("tables", "stats", "compact"):
        told = refused(capsys, command, path)
        assert "newer" in told
        assert "install the dynalsm that wrote it, or a newer one" in told


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (errors.NoSpaceError("no space left", path="x"), "make room and try again"),
        (errors.CorruptionError("checksum", path="x", offset=7), "docs/operations.md"),
        (errors.FormatError("there is no database here", path="x"), "check the path"),
        (errors.FormatError("this is a file; a database is a directory", path="x"), "directory"),
    ],
)
def test_what_to_do_is_said(problem: Any, words: str) -> None:
    assert words in one_line(problem)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("scan", "x.db", "Music", "--limt", "1"), "No such option: --limt"),
        (("scan", "x.db"), "Missing argument"),
        (("scan", "x.db", "Music", "--limit", "0"), "Invalid value for '--limit'"),
        (("serve", "x.db", "--nope"), "unrecognized arguments: --nope"),
        (("serve", "x.db", "--port", "http"), "invalid int value: 'http'"),
    ],
)
def test_wrong_flags_end_with_code_2(
    capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], complaint: str
) -> None:
    assert run(list(arguments)) == 2
    assert complaint in capfd.readouterr().err
