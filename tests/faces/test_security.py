"""What docs/security.md promises: modes, places, signatures, logs, limits before memory."""

from __future__ import annotations

import hmac
import http.client
import json
import logging
import os
import socket
import stat
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dynalsm
from dynalsm import errors
from dynalsm.database import Database
from dynalsm.server import ServerThread, wire
from dynalsm.server.auth import AccessKey, Verifier
from dynalsm.server.wire import CONTENT_TYPE, Request, Service
from tests.faces.conftest import MUSIC
from tests.faces.test_auth import signed

SECRET = "the-secret-of-the-key"
VALUE = "the-value-of-an-item"
REGION = "arn:aws:dynamodb:us-east-1:123456789012"
ESCAPES = [
    "..", ".", "../../out", "/tmp/out", "a/../../out", "out\x00", "..%2fout", "%2e%2e%2fout",
    "..\\out", "x/../../../out", "%00out", "....//out",
]  # fmt: skip
KEY = AccessKey("AKID", SECRET)
NEW_TABLE = {
    "TableName": "New",
    "KeySchema": MUSIC["KeySchema"],
    "AttributeDefinitions": MUSIC["AttributeDefinitions"][:2],
    "BillingMode": "PAY_PER_REQUEST",
}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Everything that makes files, under a umask that takes nothing away."""
    before = os.umask(0)
    try:
        (tmp_path / "buckets" / "out").mkdir(parents=True)
        root = str(tmp_path / "buckets")
        with dynalsm.open(tmp_path / "test.db", durability="os", bucket_root=root) as database:
            yield database
    finally:
        os.umask(before)


def fill(database: Database) -> None:
    database.call("CreateTable", MUSIC)
    recovery = {"PointInTimeRecoveryEnabled": True}
    database.call(
        "UpdateContinuousBackups",
        {"TableName": "Music", "PointInTimeRecoverySpecification": recovery},
    )
    item = {"Artist": {"S": "x"}, "SongTitle": {"S": VALUE}}
    database.call("PutItem", {"TableName": "Music", "Item": item})


def tree(root: Path) -> set[Path]:
    return set(root.rglob("*"))


def test_modes_under_a_lax_umask(database: Database, tmp_path: Path) -> None:
    fill(database)
    database.call("CreateBackup", {"TableName": "Music", "BackupName": "nightly"})
    bucket = {"TableArn": f"{REGION}:table/Music", "S3Bucket": "out"}
    database.call("ExportTableToPointInTime", bucket)
    (tmp_path / "buckets" / "out" / "bad.json").write_text("no item\n")
    imported: dict[str, Any] = {"S3BucketSource": {"S3Bucket": "out", "S3KeyPrefix": "bad.json"}}
    imported |= {"InputFormat": "DYNAMODB_JSON", "TableCreationParameters": NEW_TABLE}
    database.call("ImportTable", imported)
    (tmp_path / "buckets" / "out" / "bad.json").unlink()
    database.checkpoint(str(tmp_path / "copy.db"))
    for name in ("test.db", "test.db/backups", "test.db/backups/pitr", "copy.db"):
        assert (tmp_path / name).is_dir(), name
    exported = tree(tmp_path / "buckets" / "out")
    assert any(path.name == "manifest-summary.json" for path in exported)
    homes = [tmp_path / "test.db", tmp_path / "copy.db"]
    found = {*homes, *exported, *tree(homes[0]), *tree(homes[1])}
    assert len(found) > 20
    for path in found:
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.lstat().st_mode) == wanted, path


def hostile_calls(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    music = f"{REGION}:table/Music"
    yield "CreateTable", MUSIC | {"TableName": text}
    yield "DescribeTable", {"TableName": text}
    yield "DeleteTable", {"TableName": text}
    yield "CreateBackup", {"TableName": text, "BackupName": "nightly"}
    yield "CreateBackup", {"TableName": "Music", "BackupName": text}
    for arn in (f"{music}/backup/{text}", text):
        yield "DescribeBackup", {"BackupArn": arn}
        yield "DeleteBackup", {"BackupArn": arn}
        yield "RestoreTableFromBackup", {"TargetTableName": "Copy", "BackupArn": arn}
    yield "ExportTableToPointInTime", {"TableArn": music, "S3Bucket": text}
    yield "ExportTableToPointInTime", {"TableArn": music, "S3Bucket": "out", "S3Prefix": text}
    source = {"S3BucketSource": {"S3Bucket": text}, "InputFormat": "DYNAMODB_JSON"}
    yield "ImportTable", source | {"TableCreationParameters": NEW_TABLE}


@pytest.mark.parametrize("text", ESCAPES, ids=ascii)
def test_no_name_leads_out(database: Database, tmp_path: Path, text: str) -> None:
    fill(database)
    service = Service(database)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "kept.json").write_text("{}")
    outside = [tmp_path / "test.db", tmp_path / "buckets"]

    def seen() -> set[Path]:
        return {
            path
            for path in tree(tmp_path)
            if not any(path.is_relative_to(each) for each in outside)
        }

    before, near = seen(), set(os.listdir(tmp_path.parent))
    done = set()
    for operation, call in hostile_calls(text):
        target = b"DynamoDB_20120810." + operation.encode()
        headers = {b"content-type": CONTENT_TYPE, b"x-amz-target": target}
        reply = service.answer(Request(b"POST", b"/", headers, json.dumps(call).encode()))
        assert reply.status in (200, 400), (operation, reply.body)
        if reply.status == 200:
            done.add((operation, "S3Prefix" in call or "BackupName" in call))
    # A prefix is only part of a key: percent signs and backslashes are plain letters in it.
    assert done <= {("ExportTableToPointInTime", True), ("CreateBackup", True)}
    assert seen() == before
    assert set(os.listdir(tmp_path.parent)) == near
    assert not os.path.exists("/tmp/out")


@pytest.mark.parametrize("text", ESCAPES, ids=ascii)
def test_no_url_leads_out(db: Database, text: str) -> None:
    service = Service(db)
    for path in (text, urllib.parse.quote(text, safe=""), f"_console/{text}", f"metrics/{text}"):
        for method in (b"GET", b"POST", b"PUT", b"DELETE"):
            reply = service.answer(Request(method, b"/" + path.encode("latin-1"), {}, b""))
            assert reply.status in (404, 405), (method, path)


@pytest.mark.parametrize(
    ("seconds", "told"), [(20 * 60, "Signature expired"), (-20 * 60, "Signature not yet current")]
)
def test_old_and_future_signatures(seconds: int, told: str) -> None:
    request = signed(secret=SECRET)
    assert Verifier([KEY]).verify(request) is KEY
    with pytest.raises(errors.InvalidSignatureException, match=told):
        Verifier([KEY], clock=lambda: time.time() + seconds).verify(request)


def test_signatures_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    real = hmac.compare_digest

    def compare(one: Any, other: Any) -> bool:
        seen.append((one, other))
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    request = signed(secret=SECRET)
    Verifier([KEY]).verify(request)
    sent = request.headers[b"authorization"].rpartition(b"Signature=")[2]
    assert seen == [(sent, sent)]
    # It alone decides: whatever it says is what happens.
    monkeypatch.setattr(hmac, "compare_digest", lambda one, other: False)
    with pytest.raises(errors.InvalidSignatureException):
        Verifier([KEY]).verify(request)


def test_a_wrong_signature_is_told_without_its_cause() -> None:
    wrong_secret, wrong_body, wrong_last = (signed(secret=text) for text in ("x", SECRET, SECRET))
    wrong_body.body += b" "
    header = wrong_last.headers[b"authorization"]
    wrong_last.headers[b"authorization"] = header[:-1] + (b"1" if header[-1:] == b"0" else b"0")
    told = set()
    for request in (wrong_secret, wrong_body, wrong_last):
        with pytest.raises(errors.InvalidSignatureException) as caught:
            Verifier([KEY]).verify(request)
        told.add(caught.value.message)
    assert len(told) == 1
    right = signed(secret=SECRET).headers[b"authorization"].rpartition(b"=")[2].decode()
    assert right not in told.pop()


@pytest.mark.parametrize(
    "date",
    [
        b"",
        b"x",
        b"\xff",
        b"Fri, 31 Dec 9999 23:59:59 -2359",
        b"Mon, 01 Jan 2020 0:0:0 +" + b"9" * 20,
    ],
    ids=ascii,
)
def test_hostile_dates(date: bytes) -> None:
    request = signed(secret=SECRET)
    request.headers[b"x-amz-date"] = date
    with pytest.raises(errors.IncompleteSignatureException, match="ISO-8601"):
        Verifier([KEY]).verify(request)


def test_no_secrets_in_logs(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="botocore")  # it signs here, and tells how
    caplog.set_level(logging.DEBUG)  # the last call counts for what is captured
    fill(database)
    body = json.dumps({"TableName": "Music", "Item": {"Artist": {"S": VALUE}}}).encode()
    with ServerThread(database, verifier=Verifier([KEY])) as server:
        address = urllib.parse.urlsplit(server.url).netloc
        good, bad = signed(secret=SECRET), signed(secret="x")
        broken = signed(secret=SECRET)
        broken.headers[b"x-amz-date"] = b""
        cut = signed(secret=SECRET)
        cut.headers[b"authorization"] = cut.headers[b"authorization"][:-70]
        for request, text, wanted in (
            (good, good.body, 200), (bad, bad.body, 400), (good, body, 400),
            (broken, body, 400), (cut, body, 400), (good, body + b"}", 400),
        ):  # fmt: skip
            connection = http.client.HTTPConnection(address, timeout=10)
            headers = {name.decode(): value.decode() for name, value in request.headers.items()}
            headers.pop("content-length", None)
            # What was signed names port 8000: the request goes to another, its Host stays.
            connection.request("POST", "/", text, headers)
            assert connection.getresponse().status == wanted
            connection.close()
    # One that fails inside is logged; this proves that the capture works, and what it holds.
    wire.failure_reply("PutItem", RuntimeError("a mistake of ours"))
    logging.getLogger("dynalsm.server").debug("a detail")
    logged = caplog.text + "".join(str(vars(record)) for record in caplog.records)
    assert "a mistake of ours" in logged and "a detail" in logged
    signature = good.headers[b"authorization"].rpartition(b"=")[2].decode()
    for text in (SECRET, VALUE, signature, "AWS4-HMAC"):
        assert text not in logged


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: %d" % (wire.BODY_LIMIT_BYTES + 1),
        b"Content-Length: 99999999999999",
        b"Transfer-Encoding: chunked",
    ],
)
def test_a_large_body_is_refused_before_it_is_read(db: Database, head: bytes) -> None:
    with ServerThread(db) as server:
        address = urllib.parse.urlsplit(server.url)
        with socket.create_connection((address.hostname, address.port), timeout=10) as client:
            client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n\r\n")
            if b"chunked" in head:
                # A chunk of 1 TiB is announced; only one byte above the limit ever comes.
                client.sendall(b"10000000000\r\n" + b" " * (wire.BODY_LIMIT_BYTES + 1))
            reply = client.recv(4096)  # the rest of the body is never sent
    assert reply.startswith(b"HTTP/1.1 413 ")
    assert b"Connection: close" in reply
