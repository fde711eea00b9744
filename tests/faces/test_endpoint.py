"""The HTTP endpoint over real sockets: framing, order, shared waits for the disk, limits."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dynalsm import errors
from dynalsm.server import ServeError, ServerThread, endpoint, wire
from dynalsm.server.auth import AccessKey, Verifier
from tests.faces.fakes import FakeDatabase


class Client:
    """One connection, bytes in and out."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.buffer = b""

    def send(self, operation: str, body: Any = None, **headers: str) -> None:
        self.socket.sendall(request_bytes(operation, body, **headers))

    def receive(self) -> tuple[int, dict[str, str], bytes]:
        while b"\r\n\r\n" not in self.buffer:
            self._more()
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])
        }
        length = int(headers.get("content-length", "0"))
        while len(self.buffer) < length:
            self._more()
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        return int(lines[0].split()[1]), headers, body

    def _more(self) -> None:
        data = self.socket.recv(65536)
        if not data:
            raise EOFError
        self.buffer += data

    def is_closed(self) -> bool:
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


def request_bytes(operation: str, body: Any = None, **headers: str) -> bytes:
    text = json.dumps(body if body is not None else {}).encode()
    named = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return (
        f"POST / HTTP/1.1\r\nHost: x\r\nX-Amz-Target: DynamoDB_20120810.{operation}\r\n"
        f"Content-Type: application/x-amz-json-1.0\r\n{named}Content-Length: {len(text)}\r\n\r\n"
    ).encode() + text


class Fixture:
    """A server on a fake database: PutItem commits, CreateTable takes until `gate` is set."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.calls: list[str] = []
        self.threads: list[str] = []
        self.query_seconds = 0.02
        self.database = FakeDatabase(self.call)
        self.server = ServerThread(self.database)  # type: ignore[arg-type]

    def call(self, operation: str, parameters: dict[str, Any], form: Any) -> dict[str, Any]:
        self.calls.append(operation)
        if operation == "PutItem":
            self.database.commit()
        elif operation == "CreateTable":
            assert self.gate.wait(10)
        elif operation == "Query":
            self.threads.append(threading.current_thread().name)
            time.sleep(self.query_seconds)
        elif operation == "ListTables":
            return {"TableNames": ["x" * parameters.get("Limit", 1)]}
        return {"Did": operation}

    @property
    def port(self) -> int:
        return int(self.server.url.rpartition(":")[2])

    def connect(self) -> Client:
        return Client(self.port)


@pytest.fixture
def fixture() -> Iterator[Fixture]:
    fixture = Fixture()
    with fixture.server:
        yield fixture
        fixture.gate.set()
        fixture.database.engine.disk_is_ready.set()


def test_a_reply_has_its_headers(fixture: Fixture) -> None:
    client = fixture.connect()
    client.send("GetItem")
    status, headers, body = client.receive()
    assert (status, json.loads(body)) == (200, {"Did": "GetItem"})
    assert headers["content-type"] == "application/x-amz-json-1.0"
    assert headers["x-amz-crc32"] == str(zlib.crc32(body))
    assert len(headers["x-amzn-requestid"]) == 52
    assert headers["date"].endswith("GMT")


def test_a_connection_is_kept_and_can_be_given_up(fixture: Fixture) -> None:
    client = fixture.connect()
    for _ in range(3):
        client.send("GetItem")
        assert client.receive()[0] == 200
    client.send("GetItem", Connection="close")
    assert client.receive()[1]["connection"] == "close"
    assert client.is_closed()


def test_a_request_in_single_bytes_and_in_chunks(fixture: Fixture) -> None:
    client = fixture.connect()
    for byte in request_bytes("GetItem"):
        client.socket.sendall(bytes([byte]))
    assert client.receive()[0] == 200
    client.socket.sendall(
        b"POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.GetItem\r\n"
        b"Content-Type: application/x-amz-json-1.0\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n"
    )
    assert client.receive()[0] == 200


def test_a_commit_is_answered_after_the_disk_has_it(fixture: Fixture) -> None:
    fixture.database.engine.disk_is_ready.clear()
    client, other = fixture.connect(), fixture.connect()
    client.send("PutItem")
    other.send("GetItem")  # a read on another connection does not wait
    assert other.receive()[0] == 200
    client.socket.settimeout(0.05)
    with pytest.raises(TimeoutError):
        client.receive()
    fixture.database.engine.disk_is_ready.set()
    client.socket.settimeout(10)
    assert client.receive()[0] == 200


def test_commits_that_arrive_together_share_a_wait(fixture: Fixture) -> None:
    """20 connections commit while the disk is busy with one: two waits are enough for all."""
    engine = fixture.database.engine
    engine.disk_is_ready.clear()
    first = fixture.connect()
    first.send("PutItem")
    until(lambda: len(engine.waits) == 1)
    clients = [fixture.connect() for _ in range(20)]
    for client in clients:
        client.send("PutItem")
    until(lambda: fixture.calls.count("PutItem") == 21)
    engine.disk_is_ready.set()
    for client in (first, *clients):
        assert client.receive()[0] == 200
    assert engine.waits == [1, 21]


@pytest.mark.parametrize("is_fast", [True, False])
def test_a_fast_disk_is_waited_for_by_the_loop_and_a_slow_one_by_a_thread(
    fixture: Fixture, is_fast: bool
) -> None:
    """Pipelined commits, one of whose waits fails: the replies are the same both ways."""
    engine = fixture.database.engine
    engine.mean_sync_seconds = 0.0001 if is_fast else 0.01
    client = fixture.connect()
    for _ in range(3):
        client.socket.sendall(request_bytes("PutItem") + request_bytes("GetItem"))
        assert [client.receive()[2] for _ in range(2)] == [
            b'{"Did":"PutItem"}',
            b'{"Did":"GetItem"}',
        ]
    engine.error = errors.PoisonedError("fsync failed", path="/x/wal")
    client.send("PutItem")
    assert client.receive()[0] == 500
    engine.error = None
    client.send("PutItem")
    assert client.receive()[0] == 200
    assert engine.waits == [1, 2, 3, 4, 5]
    assert {name == "dynalsm-sync" for name in engine.waiters} == {not is_fast}


def test_what_is_durable_already_is_not_waited_for(fixture: Fixture) -> None:
    fixture.database.engine.durable_seqno = 100
    client = fixture.connect()
    client.send("PutItem")
    assert client.receive()[0] == 200
    assert fixture.database.engine.waits == []


def test_replies_keep_the_order_of_their_requests(fixture: Fixture) -> None:
    """A read behind a write on one connection waits for it; also behind a worker's job."""
    fixture.database.engine.disk_is_ready.clear()
    client = fixture.connect()
    client.socket.sendall(
        request_bytes("PutItem") + request_bytes("GetItem") + request_bytes("CreateTable")
        + request_bytes("DeleteItem") + request_bytes("Query")
    )  # fmt: skip
    until(lambda: "CreateTable" in fixture.calls)
    # What comes behind a worker's job does not start before it has ended.
    assert fixture.calls == ["PutItem", "GetItem", "CreateTable"]
    fixture.gate.set()
    fixture.database.engine.disk_is_ready.set()
    order = [json.loads(client.receive()[2])["Did"] for _ in range(5)]
    assert order == ["PutItem", "GetItem", "CreateTable", "DeleteItem", "Query"]


def test_long_operations_do_not_stop_others(fixture: Fixture) -> None:
    slow, quick = fixture.connect(), fixture.connect()
    slow.send("CreateTable")
    until(lambda: fixture.calls == ["CreateTable"])
    quick.send("GetItem")
    assert quick.receive()[0] == 200
    fixture.gate.set()
    assert slow.receive()[0] == 200


def test_a_page_that_was_slow_goes_to_a_worker_the_next_time(fixture: Fixture) -> None:
    """And comes back to the loop once it is quick again."""
    client, other = fixture.connect(), fixture.connect()
    client.send("Query", {"TableName": "T"})  # 20 ms, on the loop
    client.receive()
    assert fixture.threads.pop() == "dynalsm-server"
    client.send("Query", {"TableName": "T"})
    client.receive()
    assert fixture.threads.pop().startswith("dynalsm-worker")
    for body in ({"TableName": "T", "IndexName": "I"}, {"TableName": "T", "Limit": 5}):
        other.send("Query", body)
        other.receive()
        assert fixture.threads.pop() == "dynalsm-server"
    fixture.query_seconds = 0.0
    for expected in ("dynalsm-worker", "dynalsm-server"):
        client.send("Query", {"TableName": "T"})
        client.receive()
        assert fixture.threads.pop().startswith(expected)


def test_a_failing_disk_turns_the_reply_into_an_error(fixture: Fixture) -> None:
    fixture.database.engine.error = errors.PoisonedError("fsync failed", path="/x/wal")
    client = fixture.connect()
    client.send("PutItem")
    status, _, body = client.receive()
    assert status == 500
    assert "fsync failed" in json.loads(body)["message"]


@pytest.mark.parametrize(
    "head",
    [
        b"POST / HTTP/1.1\r\nContent-Length: 16777217\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1000001\r\n" + b" " * 16777217,
    ],
)
def test_a_body_over_16_megabytes_is_refused(fixture: Fixture, head: bytes) -> None:
    client = fixture.connect()
    client.socket.sendall(head)
    status, headers, _ = client.receive()
    assert (status, headers["connection"]) == (413, "close")
    assert fixture.calls == []


def test_a_body_of_16_megabytes_is_taken(fixture: Fixture) -> None:
    client = fixture.connect()
    body = b"{}" + b" " * (wire.BODY_LIMIT_BYTES - 2)
    head = request_bytes("GetItem").replace(b"Length: 2", b"Length: %d" % len(body))[:-2]
    client.socket.sendall(head + body)
    assert client.receive()[0] == 200


@pytest.mark.parametrize(
    "garbage",
    [
        b"nonsense\r\n\r\n",
        b"POST / HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n",
        b"POST / HTTP/1.1\r\n" + b"".join(b"X%d: y\r\n" % n for n in range(5000)),  # no end
        b"POST /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused_and_others_go_on(fixture: Fixture, garbage: bytes) -> None:
    client, other = fixture.connect(), fixture.connect()
    client.socket.sendall(garbage)
    assert client.receive()[0] == 400
    other.send("GetItem")
    assert other.receive()[0] == 200


def test_expect_100_continue(fixture: Fixture) -> None:
    client = fixture.connect()
    head, _, body = request_bytes("GetItem", Expect="100-continue").partition(b"\r\n\r\n")
    client.socket.sendall(head + b"\r\n\r\n")
    assert client.receive()[0] == 100
    client.socket.sendall(body)
    assert client.receive()[0] == 200


def test_health_cors_and_head(fixture: Fixture) -> None:
    client = fixture.connect()
    client.socket.sendall(b"GET / HTTP/1.1\r\nOrigin: http://x\r\n\r\n")
    status, headers, body = client.receive()
    assert (status, body) == (200, b"healthy: dynamodb.us-east-1.amazonaws.com ")
    assert headers["access-control-allow-origin"] == "*"
    assert "x-amzn-RequestId" in headers["access-control-expose-headers"]
    client.socket.sendall(b"GET /other HTTP/1.1\r\n\r\n")
    assert client.receive()[0] == 404


@pytest.mark.parametrize("kind", ["application/json", "application/x-amz-json-1.0"])
def test_a_reply_has_the_content_type_of_its_request(fixture: Fixture, kind: str) -> None:
    client = fixture.connect()
    text = request_bytes("ListTables", {})
    client.socket.sendall(text.replace(b"application/x-amz-json-1.0", kind.encode()))
    assert client.receive()[1]["content-type"] == kind


def test_a_large_reply_is_compressed_when_asked(fixture: Fixture) -> None:
    client = fixture.connect()
    client.send("ListTables", {"Limit": 10_000}, Accept_Encoding="gzip")
    _, headers, body = client.receive()
    assert headers["content-encoding"] == "gzip"
    # Of several lines the first one counts (observed: alternator).
    text = request_bytes("ListTables", {"Limit": 10_000}, Accept_Encoding="identity")
    client.socket.sendall(text.replace(b"\r\n", b"\r\nAccept-Encoding: deflate\r\n", 1))
    assert client.receive()[1]["content-encoding"] == "deflate"
    client.socket.sendall(text.replace(b"identity", b"identity\r\nAccept-Encoding: deflate"))
    assert "content-encoding" not in client.receive()[1]
    plain = zlib.decompress(body, 31)
    assert headers["x-amz-crc32"] == str(zlib.crc32(plain))


def test_a_client_that_does_not_read_is_not_read_either(fixture: Fixture) -> None:
    """10,000 pipelined requests with large replies: the server stops taking more of them."""
    client = fixture.connect()
    client.socket.setblocking(False)
    one = request_bytes("ListTables", {"Limit": 100_000})
    sent = 0
    until_full = time.monotonic() + 5
    while sent < 10_000 and time.monotonic() < until_full:
        try:
            client.socket.send(one)
            sent += 1
        except BlockingIOError:
            time.sleep(0.01)
            if len(fixture.calls) < sent // 2:
                break
    assert len(fixture.calls) < 2000
    other = fixture.connect()
    other.send("GetItem")
    assert other.receive()[0] == 200


def test_a_client_that_leaves_while_its_reply_waits(fixture: Fixture) -> None:
    fixture.database.engine.disk_is_ready.clear()
    client = fixture.connect()
    client.send("PutItem")
    until(lambda: bool(fixture.database.engine.waits))
    client.socket.close()
    fixture.database.engine.disk_is_ready.set()
    other = fixture.connect()
    other.send("PutItem")
    assert other.receive()[0] == 200


def test_stop_answers_what_is_under_way() -> None:
    fixture = Fixture()
    fixture.server.start()
    fixture.database.engine.disk_is_ready.clear()
    writer, creator, idle = fixture.connect(), fixture.connect(), fixture.connect()
    writer.send("PutItem")
    creator.send("CreateTable")
    until(lambda: len(fixture.calls) == 2)
    stopper = threading.Thread(target=fixture.server.stop)
    stopper.start()
    fixture.gate.set()
    fixture.database.engine.disk_is_ready.set()
    assert writer.receive()[0] == 200
    assert creator.receive()[0] == 200
    stopper.join(10)
    assert not stopper.is_alive()
    assert idle.is_closed()
    with pytest.raises(ConnectionRefusedError):
        fixture.connect()


def test_silent_and_slow_connections_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endpoint, "SWEEP_SECONDS", 0.02)
    monkeypatch.setattr(endpoint, "IDLE_LIMIT_SECONDS", 0.1)
    monkeypatch.setattr(endpoint, "REQUEST_LIMIT_SECONDS", 0.1)
    fixture = Fixture()
    with fixture.server:
        silent, slow = fixture.connect(), fixture.connect()
        slow.socket.sendall(b"POST / HTTP/1.1\r\nX:")
        assert slow.receive()[0] == 400
        assert silent.is_closed()


def test_a_network_address_needs_keys_or_a_flag() -> None:
    database: Any = FakeDatabase(lambda *_: {})
    with pytest.raises(ServeError, match="--allow-anonymous"):
        ServerThread(database, "0.0.0.0")
    ServerThread(database, "0.0.0.0", verifier=Verifier([AccessKey("A", "s")]))
    ServerThread(database, "0.0.0.0", allow_anonymous=True)


def test_a_port_in_use_is_named(fixture: Fixture) -> None:
    second = ServerThread(FakeDatabase(lambda *_: {}), port=fixture.port)  # type: ignore[arg-type]
    with pytest.raises(ServeError, match=f"port {fixture.port} of 127.0.0.1 is in use"):
        second.start()


def test_https(tmp_path: Path) -> None:
    from dynalsm.server.run import tls_context

    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "1", "-subj", "/CN=localhost", "-keyout", key, "-out", certificate],
        capture_output=True, check=False,
    )  # fmt: skip
    if made.returncode != 0:
        pytest.skip("needs the openssl command to make a certificate")
    database: Any = FakeDatabase(lambda *_: {})
    with ServerThread(database, tls=tls_context(str(certificate), str(key))) as server:
        assert server.url.startswith("https://")
        context = ssl.create_default_context(cafile=certificate)
        context.check_hostname = False
        port = int(server.url.rpartition(":")[2])
        with context.wrap_socket(socket.create_connection(("127.0.0.1", port))) as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 200 OK")
    with pytest.raises(ServeError, match="cannot use the certificate"):
        tls_context(str(key), str(key))


def until(reached: Any) -> None:
    """Wait for something that another thread brings about."""
    deadline = time.monotonic() + 10
    while not reached():
        assert time.monotonic() < deadline, "it did not happen within 10 s"
        time.sleep(0.001)
