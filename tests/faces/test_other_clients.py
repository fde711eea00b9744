"""Clients other than boto3, unmodified. Each test says what is missing and skips without it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

from tests.support.clients import node_modules, python_package
from tests.support.processes import ServeProcess

CLIENTS = Path(__file__).with_name("clients")
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "any",
    "AWS_SECRET_ACCESS_KEY": "any",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_REGION": "us-east-1",
}


def run(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a client in a process of its own, which sees none of our packages."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120,
        env={**kept, **CREDENTIALS, **variables},
    )  # fmt: skip


def test_the_aws_command_line(tmp_path: Path) -> None:
    aws = shutil.which("aws")
    command, variables = ([aws] if aws else [sys.executable, "-m", "awscli"]), {}
    if aws is None:
        variables["PYTHONPATH"] = python_package("awscli")
    with ServeProcess(tmp_path / "shop.db") as server:

        def call(operation: str, *arguments: str) -> subprocess.CompletedProcess[str]:
            return run(
                [*command, "dynamodb", operation, "--table-name", "Music", *arguments,
                 "--output", "json", "--endpoint-url", server.url],
                AWS_PAGER="", **variables,
            )  # fmt: skip

        created = call(
            "create-table", "--billing-mode", "PAY_PER_REQUEST",
            "--key-schema", "AttributeName=Artist,KeyType=HASH",
            "--attribute-definitions", "AttributeName=Artist,AttributeType=S",
        )  # fmt: skip
        assert created.returncode == 0, created.stderr
        item = {"Artist": {"S": "a"}, "Tags": {"SS": ["x"]}, "N": {"N": "1.50"}}
        put = call("put-item", "--item", json.dumps(item))
        assert put.returncode == 0, put.stderr
        found = call("get-item", "--key", '{"Artist": {"S": "a"}}')
        assert json.loads(found.stdout)["Item"] == {**item, "N": {"N": "1.5"}}
        refused = call(
            "put-item", "--item", json.dumps(item), "--condition-expression",
            "attribute_not_exists(Artist)",
        )  # fmt: skip
        assert refused.returncode != 0
        assert "The conditional request failed" in refused.stderr


def test_aioboto3(tmp_path: Path) -> None:
    path = python_package("aioboto3")
    with ServeProcess(tmp_path / "shop.db") as server:
        script = str(CLIENTS / "aioboto3_client.py")
        ran = run([sys.executable, script, server.url], PYTHONPATH=path)
    assert (ran.returncode, ran.stdout.strip()) == (0, "done"), ran.stderr


def test_the_javascript_sdk(tmp_path: Path) -> None:
    path = node_modules()
    with ServeProcess(tmp_path / "shop.db", "--table-delay", "0.2") as server:
        ran = run(["node", str(CLIENTS / "sdk.cjs"), server.url], NODE_PATH=path)
    assert (ran.returncode, ran.stdout.strip()) == (0, "done"), ran.stderr + ran.stdout


def test_dynamodb_admin(tmp_path: Path) -> None:
    """Its pages and its own API: tables, items, a query, an edit, a deletion."""
    path = node_modules()
    with ServeProcess(tmp_path / "shop.db") as server:
        port = free_port()
        program = Path(path, "dynamodb-admin", "dist", "dynamodb-admin.js")
        admin = subprocess.Popen(
            ["node", str(program), "--port", str(port), "--dynamo-endpoint", server.url],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, **CREDENTIALS},
        )  # fmt: skip
        try:
            ask = Admin(f"http://127.0.0.1:{port}", admin)
            definition = {
                "TableName": "Music", "HashAttributeName": "Artist", "HashAttributeType": "S",
                "RangeAttributeName": "SongTitle", "RangeAttributeType": "S",
                "ReadCapacityUnits": 5, "WriteCapacityUnits": 5,
            }  # fmt: skip
            ask("POST", "/create-table", {"TableDefinition": definition})
            assert "Music" in ask("GET", "/")
            for number in range(30):
                song = {"Artist": "a", "SongTitle": f"{number:02d}", "Year": number}
                key = ask("PUT", "/tables/Music/add-item", song)
            assert json.loads(key) == {"Artist": "a", "SongTitle": "29"}
            first = json.loads(ask("GET", "/tables/Music/items"))
            assert len(first["Items"]) == 25
            rest = json.loads(ask("GET", f"/tables/Music/items?startKey={first['nextKey']}"))
            assert len(rest["Items"]) == 5
            filters = quote(json.dumps({
                "Artist": {"value": "a", "operator": "=", "type": "S"},
                "SongTitle": {"value": "1", "operator": "begins_with", "type": "S"},
            }))  # fmt: skip
            found = json.loads(
                ask("GET", f"/tables/Music/items?operationType=query&filters={filters}")
            )
            assert [item["Year"] for item in found["Items"]] == list(range(10, 20))
            ask("PUT", "/tables/Music/items/a,00", {"Artist": "a", "SongTitle": "00", "Year": 1999})
            assert "1999" in ask("GET", "/tables/Music/items/a,00")
            ask("DELETE", "/tables/Music/items/a,00")
            for page in ("/tables/Music", "/tables/Music/meta", "/tables/Music/ttl"):
                assert "Music" in ask("GET", page)
            ask("DELETE", "/tables/Music")
            assert json.loads(ask("GET", "/api/tables")) == []
        finally:
            admin.kill()
            admin.communicate()


class Admin:
    """Requests to a dynamodb-admin that may still be starting."""

    def __init__(self, url: str, process: subprocess.Popen[str]) -> None:
        self._url = url
        deadline = time.monotonic() + 60
        while True:
            assert process.poll() is None, process.communicate()[0]
            try:
                self("GET", "/api/tables")
                return
            except URLError:
                assert time.monotonic() < deadline, "dynamodb-admin did not start within a minute"
                time.sleep(0.05)

    def __call__(self, method: str, path: str, body: Any = None) -> str:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = Request(self._url + path, data, headers, method=method)
        with urlopen(request, timeout=30) as reply:
            return str(reply.read().decode())


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_pynamodb(tmp_path: Path) -> None:
    models = pytest.importorskip("pynamodb.models")
    from pynamodb.attributes import (
        BinaryAttribute,
        MapAttribute,
        NumberAttribute,
        UnicodeAttribute,
        UnicodeSetAttribute,
    )
    from pynamodb.exceptions import UpdateError

    with ServeProcess(tmp_path / "shop.db") as server:

        class Thread(models.Model):  # type: ignore[misc, name-defined]
            class Meta:
                table_name = "Thread"
                region = "us-east-1"
                host = server.url
                billing_mode = "PAY_PER_REQUEST"
                aws_access_key_id = "any"
                aws_secret_access_key = "any"

            forum = UnicodeAttribute(hash_key=True)
            subject = UnicodeAttribute(range_key=True)
            views = NumberAttribute(default=0)
            tags = UnicodeSetAttribute(null=True)
            data: Any = MapAttribute(null=True)
            raw = BinaryAttribute(null=True, legacy_encoding=False)

        Thread.create_table(wait=True)
        Thread("f", "s", views=3, tags={"a"}, data={"x": 1}, raw=b"\x00\xff").save()
        thread = Thread.get("f", "s")
        assert (thread.views, thread.tags, thread.raw) == (3, {"a"}, b"\x00\xff")
        assert thread.data.as_dict() == {"x": 1}
        thread.update(actions=[Thread.views.add(2)], condition=Thread.views == 3)
        assert thread.views == 5
        with pytest.raises(UpdateError):
            thread.update(actions=[Thread.views.set(1)], condition=Thread.views == 99)
        with Thread.batch_write() as batch:
            for number in range(60):
                batch.save(Thread("f", f"x{number:02d}"))
        assert len(list(Thread.query("f", Thread.subject.startswith("x")))) == 60
        assert Thread.count() == 61
