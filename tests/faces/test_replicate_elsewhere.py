"""Moving tables to and from DynamoDB-compatible servers that others wrote.

dynalite (npm) has no streams: it is a target, and a source of copies. ministack (PyPI) has. Each is
looked for on PATH: `npm install -g dynalite`, `pip install ministack` in an environment of its own.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("boto3")

import dynalsm
from dynalsm import replicate
from dynalsm.database import Database
from dynalsm.remote import RemoteError
from dynalsm.replicate import ReplicationError, compare
from tests.faces.conftest import MUSIC, fill
from tests.support.processes import run_cli

START_SECONDS = 60.0
ODD = {
    "Artist": "odd", "SongTitle": "é€𝄞", "Year": Decimal("-1.5E-20"), "S": {"x", "y"},
    "B": b"\0\xff", "L": [Decimal(1), {"m": None, "t": True}], "N": {Decimal(1), Decimal("2.5")},
}  # fmt: skip


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(command: list[str], port: int, directory: Path) -> Iterator[str]:
    """Run a server until the block ends; yields its URL once it answers."""
    variables = {"GATEWAY_PORT": str(port), "MINISTACK_REGION": "us-east-1"}
    server = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=directory,
        env={**os.environ, **variables},
    )
    url = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + START_SECONDS
        with dynalsm.open(url) as probe:
            while True:
                try:
                    probe.call("ListTables", {})
                    break
                except RemoteError:
                    assert server.poll() is None, f"{command[0]} has ended"
                    assert time.monotonic() < end, f"{command[0]} does not answer"
                    time.sleep(0.1)
        yield url
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def dynalite(tmp_path: Path) -> Iterator[str]:
    program = shutil.which("dynalite")
    if program is None:
        pytest.skip("needs dynalite on PATH (npm install -g dynalite)")
    port = free_port()
    quick = ["--createTableMs", "20", "--updateTableMs", "20", "--deleteTableMs", "20"]
    with running([program, "--port", str(port), *quick], port, tmp_path) as url:
        yield url


@pytest.fixture
def ministack(tmp_path: Path) -> Iterator[str]:
    program = shutil.which("ministack")
    if program is None:
        pytest.skip("needs ministack on PATH (pip install ministack)")
    port = free_port()
    with running([program], port, tmp_path) as url:
        yield url


def filled(path: Path) -> Any:
    database = dynalsm.open(path, durability="os")
    music = database.create_table(**MUSIC)
    fill(music, 200)
    music.put_item(Item=ODD)
    return database


def check_moves(source: Database, target: Database) -> None:
    """Copy, change everything in some way, go on, and compare."""
    [report] = replicate.run(source, target)
    assert report.items == 201
    assert compare(source, target, "Music").is_equal
    music = source.Table("Music")
    for number in range(0, 200, 3):
        key = {"Artist": "The Acme Band", "SongTitle": f"song {number:03d}"}
        if number % 2:
            music.delete_item(Key=key)
        else:
            music.update_item(Key=key, UpdateExpression="SET Plays = :n REMOVE #y",
                              ExpressionAttributeValues={":n": number},
                              ExpressionAttributeNames={"#y": "Year"})  # fmt: skip
    fill(music, 20, "Somebody new")
    replicate.run(source, target)
    found = compare(source, target, "Music")
    assert found.is_equal, found


def test_to_dynalite(tmp_path: Path, dynalite: str) -> None:
    with filled(tmp_path / "a.db") as source, dynalsm.open(dynalite) as target:
        check_moves(source, target)


def test_to_dynalite_by_command(tmp_path: Path, dynalite: str) -> None:
    filled(tmp_path / "a.db").close()
    done = run_cli("replicate", tmp_path / "a.db", dynalite, "--check")
    assert done.returncode == 0, done.stderr
    assert "201 items compared, 0 missing, 0 different, 0 only in the target" in done.stdout


def test_from_dynalite_without_a_stream(tmp_path: Path, dynalite: str) -> None:
    with filled(tmp_path / "a.db") as here, dynalsm.open(dynalite) as there:
        replicate.run(here, there)
        with dynalsm.open(tmp_path / "b.db", durability="os") as back:
            with pytest.raises(ReplicationError, match="copy_only"):
                replicate.run(there, back, tables=["Music"])
            replicate.run(there, back, tables=["Music"], copy_only=True, restart=True)
            assert compare(here, back, "Music").is_equal


def test_to_ministack(tmp_path: Path, ministack: str) -> None:
    with filled(tmp_path / "a.db") as source, dynalsm.open(ministack) as target:
        check_moves(source, target)


def test_from_ministack_with_its_stream(tmp_path: Path, ministack: str) -> None:
    with dynalsm.open(ministack) as source, dynalsm.open(tmp_path / "b.db") as target:
        music = source.create_table(**MUSIC)
        fill(music, 200)
        music.put_item(Item=ODD)
        check_moves(source, target)
