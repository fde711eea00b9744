"""Clients other than boto3, unmodified. Each test says what is missing and skips without it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import ServeProcess


@pytest.mark.slow
def test_the_aws_command_line(tmp_path: Path) -> None:
    aws = shutil.which("aws")
    if aws is None:
        pytest.skip("needs the AWS CLI (pip install awscli)")
    with ServeProcess(tmp_path / "shop.db") as server:
        environment = {
            **os.environ,
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": server.url,
            "AWS_PAGER": "",
        }

        def run(*arguments: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [aws, "dynamodb", *arguments, "--output", "json"],
                capture_output=True, text=True, env=environment, check=False,
            )  # fmt: skip

        created = run(
            "create-table", "--table-name", "Music", "--billing-mode", "PAY_PER_REQUEST",
            "--key-schema", "AttributeName=Artist,KeyType=HASH",
            "--attribute-definitions", "AttributeName=Artist,AttributeType=S",
        )  # fmt: skip
        assert created.returncode == 0, created.stderr
        item = {"Artist": {"S": "a"}, "Tags": {"SS": ["x"]}, "N": {"N": "1.50"}}
        put = run("put-item", "--table-name", "Music", "--item", json.dumps(item))
        assert put.returncode == 0, put.stderr
        found = run("get-item", "--table-name", "Music", "--key", '{"Artist": {"S": "a"}}')
        assert json.loads(found.stdout)["Item"] == {**item, "N": {"N": "1.5"}}
        missing = run("describe-table", "--table-name", "Missing")
        assert missing.returncode != 0
        assert "Requested resource not found: Table: Missing not found" in missing.stderr


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
