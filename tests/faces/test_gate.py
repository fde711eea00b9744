"""Web pages and a server without keys: who is let in by Origin and Host."""

from __future__ import annotations

import base64
import json
import socket
import urllib.error
import urllib.request
from typing import Any

import pytest

pytest.importorskip("httptools")
pytest.importorskip("prometheus_client")

from dynalsm import errors
from dynalsm.database import Database
from dynalsm.server import ServerThread
from dynalsm.server.auth import AccessKey, Verifier
from dynalsm.server.gate import Gate, host_name
from dynalsm.server.wire import CONTENT_TYPE, Request
from tests.faces.conftest import MUSIC
from tests.faces.test_auth import signed

EVIL = "https://evil.example"
PUT = {"TableName": "Music", "Item": {"Artist": {"S": "a"}, "SongTitle": {"S": "b"}}}


def request(host: str | None = "127.0.0.1:8000", origin: str | None = None) -> Request:
    headers = {}
    if host is not None:
        headers[b"host"] = host.encode("latin-1")
    if origin is not None:
        headers[b"origin"] = origin.encode("latin-1")
    return Request(b"POST", b"/", headers, b"{}")


def passes(gate: Gate, *place: str | None) -> bool:
    try:
        gate.check(request(*place))
    except errors.AccessDeniedException:
        return False
    return True


@pytest.mark.parametrize(
    "host",
    [
        None, "127.0.0.1", "127.0.0.1:8000", "localhost:8000", "LocalHost", "localhost.:8000",
        "app.localhost:8000", "[::1]:8000", "::1", "192.0.2.7:8000", "dynamodb", "dynamodb:8000",
        "host.docker.internal:8000", socket.gethostname(),
    ],
)  # fmt: skip
def test_hosts_that_nobody_can_lead_here(host: str | None) -> None:
    gate = Gate()
    assert passes(gate, host)
    assert passes(gate, host), "the second time it is remembered"


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example",
        "evil.localhost.example:80", "evilinternal.example", "127.0.0.1@evil.example", "x.local",
    ],
)  # fmt: skip
def test_a_name_that_was_led_here_is_refused(host: str) -> None:
    gate = Gate()
    for _ in range(2):
        with pytest.raises(errors.AccessDeniedException, match=f"--allow-host {host_name(host)}"):
            gate.check(request(host))
    # With its own name for an origin, as a page of that name would have.
    assert not passes(gate, host, f"http://{host}")


def test_further_hosts() -> None:
    gate = Gate(["db.example.", "*.svc.cluster.local"])
    assert passes(gate, "db.example:8000")
    assert passes(gate, "one.two.svc.cluster.local")
    assert not passes(gate, "xdb.example")
    assert not passes(gate, "svc.cluster.local.evil.example")


@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost:3000", "https://localhost", "http://127.0.0.1:8000", "http://[::1]:5173",
        "http://app.localhost:3000", "http://127.0.0.1:8000/",
    ],
)  # fmt: skip
def test_pages_of_this_machine_may_ask(origin: str) -> None:
    assert passes(Gate(), "127.0.0.1:8000", origin)


@pytest.mark.parametrize(
    "origin",
    [
        EVIL, "null", "", "http://", "http://localhost.evil.example", "http://localhost@evil.example",
        "file://localhost", "chrome-extension://localhost", "http://192.0.2.7:8000",
        "http://[::1", "http://evil.example:localhost", "localhost",
    ],
)  # fmt: skip
def test_pages_of_others_may_not(origin: str) -> None:
    assert not passes(Gate(), "127.0.0.1:8000", origin)


def test_further_origins() -> None:
    assert passes(Gate((), [EVIL + "/"]), "127.0.0.1", EVIL)
    assert not passes(Gate((), [EVIL]), "127.0.0.1", "https://other.example")
    assert not passes(Gate((), [EVIL]), "127.0.0.1", EVIL + ":8443")
    for origin in (EVIL, "null"):
        assert passes(Gate((), ["*"]), "127.0.0.1", origin)
    # The console's own page, where the server is reached by an address or a known name.
    assert passes(Gate(), "192.0.2.7:8000", "http://192.0.2.7:8000")
    assert not passes(Gate(), "192.0.2.7:8000", "http://192.0.2.7:9000")


def test_the_remembered_hosts_do_not_grow_for_ever() -> None:
    gate = Gate()
    for number in range(300):
        gate.check(request(f"host{number}"))
    assert len(gate._passed) <= 100


# --- through a socket ---------------------------------------------------------------------------


def call(url: str, operation: str, body: Any, **headers: str) -> tuple[int, dict[str, Any], Any]:
    fields = {
        "Content-Type": CONTENT_TYPE.decode(),
        "X-Amz-Target": f"DynamoDB_20120810.{operation}",
        **headers,
    }
    return fetch(urllib.request.Request(url, json.dumps(body).encode(), fields))


def fetch(asked: urllib.request.Request) -> tuple[int, dict[str, Any], Any]:
    try:
        with urllib.request.urlopen(asked) as reply:
            return reply.status, dict(reply.headers), reply.read()
    except urllib.error.HTTPError as problem:
        return problem.code, dict(problem.headers), problem.read()


def test_a_foreign_page_reads_and_writes_nothing(disk_db: Database) -> None:
    disk_db.create_table(**MUSIC)
    with ServerThread(disk_db) as server:
        for headers in ({"Origin": EVIL}, {"Host": "evil.example"}, {"Origin": "null"}):
            for operation, body in (("PutItem", PUT), ("ListTables", {})):
                status, _, text = call(server.url, operation, body, **headers)
                assert status == 400
                assert json.loads(text)["__type"].endswith("#AccessDeniedException")
            status, _, text = fetch(urllib.request.Request(f"{server.url}/metrics", None, headers))
            assert (status, b"dynalsm_" in text) == (400, False)
        assert disk_db.Table("Music").scan()["Count"] == 0
        assert call(server.url, "PutItem", PUT)[0] == 200
        assert call(server.url, "PutItem", PUT, Origin="http://localhost:3000")[0] == 200


def test_preflights_are_answered_as_on_aws_and_the_refusal_can_be_read(disk_db: Database) -> None:
    asked = {
        "Origin": EVIL,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "x-amz-target",
    }
    with ServerThread(disk_db) as server:
        preflight = urllib.request.Request(server.url, None, asked, method="OPTIONS")
        status, headers, _ = fetch(preflight)
        assert (status, headers["Access-Control-Allow-Origin"]) == (200, "*")
        assert headers["Access-Control-Allow-Headers"] == "x-amz-target"
        _, headers, text = call(server.url, "ListTables", {}, Origin=EVIL)
        assert headers["Access-Control-Allow-Origin"] == "*"
        assert b"--allow-origin https://evil.example" in text


def test_options_let_pages_and_names_in(disk_db: Database) -> None:
    with ServerThread(disk_db, allow_hosts=["db.example"], allow_origins=[EVIL]) as server:
        assert call(server.url, "ListTables", {}, Origin=EVIL)[0] == 200
        assert call(server.url, "ListTables", {}, Host="db.example:8000")[0] == 200
        assert call(server.url, "ListTables", {}, Origin="https://other.example")[0] == 400


def test_the_console_is_not_for_pages_that_were_led_here(disk_db: Database) -> None:
    with ServerThread(disk_db, has_console=True) as server:
        page = f"{server.url}/_console/"
        assert fetch(urllib.request.Request(page))[0] == 200
        for path in ("", "api/session"):
            led = urllib.request.Request(page + path, None, {"Host": "evil.example:8000"})
            status, _, text = fetch(led)
            assert (status, b"does not know the host name" in text) == (400, True)


def test_with_keys_a_signature_decides(disk_db: Database) -> None:
    """A page of any site and a name of any kind may try, as on AWS: it has no key."""
    verifier = Verifier([AccessKey("AKID", "secret")])
    with ServerThread(disk_db, verifier=verifier) as server:
        asked = signed()
        status, _, text = fetch(
            urllib.request.Request(
                server.url, asked.body,
                {name.decode(): value.decode() for name, value in asked.headers.items()}
                | {"Origin": EVIL},
            )
        )  # fmt: skip
        assert (status, b"ResourceNotFoundException" in text) == (400, True)
        _, _, text = call(server.url, "ListTables", {}, Origin=EVIL)
        assert b"MissingAuthenticationTokenException" in text


# --- metrics and keys ---------------------------------------------------------------------------


def basic(text: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(text.encode()).decode()}


def test_metrics_ask_for_a_key_where_keys_are_set(disk_db: Database) -> None:
    verifier = Verifier(
        [
            AccessKey("AKID", "sec:ret"),
            AccessKey("ONE", "secret", tables=("Music",)),
            AccessKey("WATCH", "secret", tables=(), metrics=True),
        ]
    )
    with ServerThread(disk_db, verifier=verifier) as server:

        def page(headers: dict[str, str]) -> tuple[int, dict[str, Any], bytes]:
            return fetch(urllib.request.Request(f"{server.url}/metrics", None, headers))

        for headers in (
            {}, basic("AKID:wrong"), basic("AKID:"), basic("NOBODY:"), basic("AKID"), basic(":"),
            {"Authorization": "Basic ***"}, {"Authorization": "Bearer sec:ret"},
            {"Authorization": basic("AKID:sec:ret")["Authorization"].replace("Basic", "Digest")},
        ):  # fmt: skip
            status, reply, text = page(headers)
            assert (status, b"dynalsm_engine" in text) == (401, False), headers
            assert reply["WWW-Authenticate"] == 'Basic realm="dynalsm metrics"'
        status, _, text = page(basic("ONE:secret"))
        assert (status, b"dynalsm_engine" in text) == (403, False)
        for right in ("AKID:sec:ret", "WATCH:secret"):
            status, _, text = page(basic(right))
            assert (status, b"dynalsm_engine" in text) == (200, True)


def test_a_page_may_not_read_metrics_by_their_headers(disk_db: Database) -> None:
    """Even a page that is let in gets them without a word that scripts may read them."""
    with ServerThread(disk_db) as server:
        asked = urllib.request.Request(
            f"{server.url}/metrics", None, {"Origin": "http://localhost:3000"}
        )
        status, headers, _ = fetch(asked)
    assert (status, "Access-Control-Allow-Origin" in headers) == (200, False)
