"""What `dynalsm serve` promises, held against a real process over real sockets."""

from __future__ import annotations

import gzip
import http.client
import json
import ssl
import subprocess
import threading
import urllib.request
import zlib
from pathlib import Path
from typing import Any

import pytest

import dynalsm
from tests.faces.conftest import MUSIC
from tests.support.processes import ServeProcess

TARGET = "DynamoDB_20120810."
HEADERS = {"Content-Type": "application/x-amz-json-1.0"}


class Client:
    """A connection that sends operations as they are."""

    def __init__(self, url: str) -> None:
        self.connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)

    def call(
        self, operation: str, body: Any, encode: Any = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Send one request; returns (status, headers in lower case, body)."""
        data = body if isinstance(body, bytes) or hasattr(body, "__next__") else _text(body)
        extra = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(
            "POST", "/", data if encode is None else encode(data),
            {**HEADERS, "X-Amz-Target": TARGET + operation, **extra},
        )  # fmt: skip
        reply = self.connection.getresponse()
        named = {name.lower(): value for name, value in reply.getheaders()}
        return reply.status, named, reply.read()


def _text(body: Any) -> bytes:
    return json.dumps(body).encode()


def put(title: str, **attributes: Any) -> dict[str, Any]:
    item = {"Artist": {"S": "a"}, "SongTitle": {"S": title}, **attributes}
    return {"TableName": "Music", "Item": item}


def test_bodies_packed_and_in_chunks(tmp_path: Path) -> None:
    """One kept connection: plain, gzip, deflate and chunked requests, packed and plain replies."""
    with ServeProcess(tmp_path / "shop.db") as server:
        client = Client(server.url)
        assert client.call("CreateTable", MUSIC)[0] == 200
        text = {"Text": {"S": "x" * 20_000}}
        assert client.call("PutItem", put("gzip", **text), gzip.compress,
                           Content_Encoding="gzip")[0] == 200  # fmt: skip
        assert client.call("PutItem", put("deflate", **text), zlib.compress,
                           Content_Encoding="deflate")[0] == 200  # fmt: skip
        whole = _text(put("chunked", **text))
        # http.client sends what has no length in chunks.
        chunks = iter([whole[at : at + 999] for at in range(0, len(whole), 999)])
        assert client.call("PutItem", chunks)[0] == 200
        status, _, broken = client.call("PutItem", put("x"), Content_Encoding="gzip")
        assert (status, json.loads(broken)["__type"].rpartition("#")[2]) == (
            500, "InternalServerError",
        )  # fmt: skip
        unpack = {"gzip": gzip.decompress, "deflate": zlib.decompress}
        plain = client.call("Scan", {"TableName": "Music"})
        assert json.loads(plain[2])["Count"] == 3
        assert int(plain[1]["x-amz-crc32"]) == zlib.crc32(plain[2])
        for encoding, undo in unpack.items():
            status, headers, body = client.call(
                "Scan", {"TableName": "Music"}, Accept_Encoding=encoding
            )
            assert (status, headers["content-encoding"]) == (200, encoding)
            assert undo(body) == plain[2]
            assert headers["x-amz-crc32"] == plain[1]["x-amz-crc32"]
            assert headers["x-amzn-requestid"] != plain[1]["x-amzn-requestid"]


def test_the_health_check(tmp_path: Path) -> None:
    with (
        ServeProcess(tmp_path / "shop.db", "--region", "eu-west-1") as server,
        urllib.request.urlopen(server.url, timeout=30) as reply,
    ):
        assert reply.read() == b"healthy: dynamodb.eu-west-1.amazonaws.com "


def test_sigterm_while_clients_write(tmp_path: Path) -> None:
    """Every request either gets its reply, and then is in the database, or a closed connection."""
    path = tmp_path / "shop.db"
    acknowledged: list[str] = []
    refused: list[int] = []
    with ServeProcess(path) as server:
        assert Client(server.url).call("CreateTable", MUSIC)[0] == 200
        enough = threading.Event()

        def write(number: int) -> None:
            client = Client(server.url)
            for count in range(100_000):
                title = f"{number}-{count}"
                try:
                    status, _, _ = client.call("PutItem", put(title))
                except (OSError, http.client.HTTPException):
                    return
                if status != 200:
                    refused.append(status)
                    return
                acknowledged.append(title)
                if len(acknowledged) >= 200:
                    enough.set()

        writers = [threading.Thread(target=write, args=(number,)) for number in range(8)]
        for writer in writers:
            writer.start()
        assert enough.wait(60)
        code, printed = server.stop()
        for writer in writers:
            writer.join(30)
    assert (code, refused) == (0, [])
    assert printed.strip() == "stopped; the database is closed"
    with dynalsm.open(path, read_only=True) as database:
        found = {item["SongTitle"] for item in database.Table("Music").scan_items()}
    assert found >= set(acknowledged)


def test_rights_of_keys(tmp_path: Path) -> None:
    """A key for one table reads it and no other, in batches and transactions neither."""
    boto3 = pytest.importorskip("boto3")
    from botocore.exceptions import ClientError

    keys = tmp_path / "keys.json"
    entries = [
        {"id": "ALL", "secret": "w"},
        {"id": "ONE", "secret": "r", "tables": ["Music"]},
        {"id": "READ", "secret": "r", "read_only": True},
    ]
    keys.write_text(json.dumps({"keys": entries}))
    keys.chmod(0o600)
    with ServeProcess(tmp_path / "shop.db", "--auth", str(keys)) as server:

        def client(key: str, secret: str) -> Any:
            return boto3.client(
                "dynamodb", endpoint_url=server.url, region_name="us-east-1",
                aws_access_key_id=key, aws_secret_access_key=secret,
            )  # fmt: skip

        every, one, read = client("ALL", "w"), client("ONE", "r"), client("READ", "r")
        for name in ("Music", "Other"):
            every.create_table(**{**MUSIC, "TableName": name})
        item, other = put("x"), {**put("x"), "TableName": "Other"}
        key = {"Artist": {"S": "a"}, "SongTitle": {"S": "x"}}
        one.put_item(**item)
        assert read.get_item(TableName="Music", Key=key)["Item"] == item["Item"]
        for ask in (
            lambda: one.put_item(**other),
            lambda: one.get_item(TableName="Other", Key=key),
            lambda: one.transact_write_items(TransactItems=[{"Put": item}, {"Put": other}]),
            lambda: one.batch_get_item(RequestItems={"Other": {"Keys": [key]}}),
            lambda: one.execute_statement(Statement='SELECT * FROM "Other"'),
            lambda: one.create_table(**{**MUSIC, "TableName": "Third"}),
            lambda: read.put_item(**item),
            lambda: read.delete_table(TableName="Music"),
            lambda: read.execute_statement(Statement="DELETE FROM \"Music\" WHERE Artist = 'a'"),
        ):
            with pytest.raises(ClientError) as caught:
                ask()
            assert caught.value.response["Error"]["Code"] == "AccessDeniedException"
        assert every.scan(TableName="Other")["Count"] == 0


def test_https_from_the_command_line(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "1", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        capture_output=True, check=False,
    )  # fmt: skip
    if made.returncode != 0:
        pytest.skip("needs the openssl command to make a certificate")
    options = ("--tls-cert", str(certificate), "--tls-key", str(key))
    with ServeProcess(tmp_path / "shop.db", *options) as server:
        assert server.url.startswith("https://")
        context = ssl.create_default_context(cafile=certificate)
        with urllib.request.urlopen(server.url, context=context, timeout=30) as reply:
            assert reply.read().startswith(b"healthy: dynamodb.us-east-1")


@pytest.mark.parametrize("name", ["../../etc", "/etc/passwd", "a/../../b", "x\x00y", "..%2f..%2f"])
def test_no_request_reads_outside_of_the_directory(tmp_path: Path, name: str) -> None:
    """Names and paths that lead elsewhere are refused; nothing is made there either."""
    (tmp_path / "secret").write_text("secret")
    with ServeProcess(tmp_path / "shop.db", "--bucket-root", str(tmp_path / "buckets")) as server:
        client = Client(server.url)
        source = {
            "S3BucketSource": {"S3Bucket": name, "S3KeyPrefix": "secret"},
            "InputFormat": "CSV",
            "TableCreationParameters": {
                "TableName": "Loot", "BillingMode": "PAY_PER_REQUEST",
                "KeySchema": MUSIC["KeySchema"][:1],
                "AttributeDefinitions": MUSIC["AttributeDefinitions"][:1],
            },
        }  # fmt: skip
        for operation, request in (
            ("CreateTable", {**MUSIC, "TableName": name}),
            ("DescribeTable", {"TableName": name}),
            ("CreateBackup", {"TableName": name, "BackupName": "b"}),
            ("ImportTable", source),
        ):
            status, _, body = client.call(operation, request)
            assert status == 400, (operation, body)
        path = urllib.request.quote(name)
        client.connection.request("GET", f"/{path}")
        reply = client.connection.getresponse()
        reply.read()
        assert reply.status == 404
    assert sorted(each.name for each in tmp_path.iterdir()) == ["secret", "shop.db"]
