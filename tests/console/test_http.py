"""What the server answers below /_console, without a browser."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

import dynalsm
from dynalsm.cli.serving import parser
from dynalsm.database import Database
from dynalsm.server import ServerThread, console
from dynalsm.server.auth import AccessKey, Verifier
from tests.faces.conftest import MUSIC
from tests.support.processes import ServeProcess

KEYS = [
    AccessKey("ALL", "s1"),
    AccessKey("READER", "s2", read_only=True),
    AccessKey("ONE", "s3", tables=("Mus*",)),
]
MARKUP_FROM_TEXT = (
    "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function",
    "srcdoc", "javascript:",
)  # fmt: skip
CALLS = ("session", "tables", "stats", "partitions")


class Answer:
    """One answer, read to its end."""

    def __init__(self, reply: http.client.HTTPResponse) -> None:
        self.status = reply.status
        self.headers = reply.headers
        self.body = reply.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(url: str, path: str, method: str = "GET", **headers: str) -> Answer:
    """Send a request line as it stands: no client tidies the path up."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    try:
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        return Answer(connection.getresponse())
    finally:
        connection.close()


def signed(url: str, path: str, key: str, secret: str) -> Answer:
    """Ask with a signature by botocore, so that the canonical form is not our own reading."""
    pytest.importorskip("botocore")
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    host = urlsplit(url).netloc
    request = AWSRequest("GET", url + path, headers={"Host": host, "X-Amz-Target": "Dynalsm.x"})
    SigV4Auth(Credentials(key, secret), "dynamodb", "us-east-1").add_auth(request)
    headers = {name.replace("-", "_"): str(value) for name, value in request.headers.items()}
    del headers["Host"]  # http.client sends it by itself
    return ask(url, path, **headers)


@pytest.fixture
def guarded(database: Database, music: Any) -> Iterator[str]:
    """A server that checks keys, on two tables."""
    database.create_table(**{**MUSIC, "TableName": "Secrets"})
    with ServerThread(database, verifier=Verifier(KEYS), has_console=True) as server:
        yield server.url


# --- the page -------------------------------------------------------------------------------


def test_every_file_is_served_with_its_type_and_a_strict_policy(url: str) -> None:
    for path, file in console.page_files().items():
        answer = ask(url, path.decode())
        assert answer.status == 200
        assert answer.body == file.body
        assert answer.headers["Content-Type"] == file.content_type.decode()
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "x-amz-crc32" not in answer.headers
    assert b"<title>dynalsm console</title>" in ask(url, "/_console/").body


def test_the_bare_path_leads_to_the_page(url: str) -> None:
    answer = ask(url, "/_console")
    assert (answer.status, answer.headers["Location"]) == (308, "/_console/")


def test_an_unchanged_file_is_not_sent_again(url: str) -> None:
    first = ask(url, "/_console/app.js")
    again = ask(url, "/_console/app.js", If_None_Match=first.headers["ETag"])
    assert (again.status, again.body) == (304, b"")
    assert ask(url, "/_console/app.js", If_None_Match='"other"').status == 200


def test_files_are_compressed_and_heads_have_no_body(url: str) -> None:
    answer = ask(url, "/_console/values.js", Accept_Encoding="gzip")
    assert answer.headers["Content-Encoding"] == "gzip"
    assert answer.headers["Content-Security-Policy"]
    assert len(answer.body) < len(ask(url, "/_console/values.js").body)
    head = ask(url, "/_console/", "HEAD")
    assert (head.status, head.body) == (200, b"")


@pytest.mark.parametrize(
    "path",
    [
        "/_console/../server/auth.py",
        "/_console/..%2f..%2fauth.py",
        "/_console/%2e%2e/__init__.py",
        "/_console/....//__init__.py",
        "/_console/__init__.py",
        "/_console/figures.py",
        "/_console/page/index.html",
        "/_console//etc/passwd",
        "/_console/..\\..\\auth.py",
        "/_console/%00",
        "/_console/app.js/",
        "/_console/app.js%00.html",
        "/_console/api",
        "/_console/api/",
        "/_console/api/../app.js",
        "/_console/api/..%2fapp.js",
        "/_consolexyz",
    ],
)
def test_nothing_else_can_be_read(url: str, path: str) -> None:
    answer = ask(url, path)
    assert answer.status == 404
    assert len(answer.body) < 100


def test_a_whole_url_and_a_query_name_the_same_file(url: str) -> None:
    assert ask(url, f"{url}/_console/app.js").status == 200
    assert ask(url, "/_console/app.js?x=1").status == 200
    assert ask(url, f"{url}/_console/../auth.py").status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_only_reading_is_possible(url: str, method: str) -> None:
    answer = ask(url, "/_console/", method, Origin="http://evil.example", Content_Length="0")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_the_page_is_whole_in_itself() -> None:
    """No file names another host, makes markup of strings, or imports what is not there."""
    files = {path.decode(): file.body.decode() for path, file in console.page_files().items()}
    page = Path(console.__file__).with_name("page")
    assert len(files) == len(list(page.iterdir()))
    for path, text in files.items():
        others = set(re.findall(r"https?://[^\s\"'`<)]+", text))
        assert others <= {"http://www.w3.org/2000/svg"}, path
        for word in MARKUP_FROM_TEXT:
            assert word not in text, path
        for name in re.findall(r'from "\./([\w.]+)"', text):
            assert f"/_console/{name}" in files, path
    start = files["/_console/"]
    assert not re.findall(r"\s(?:style|on\w+)=", start)
    for name in re.findall(r'(?:src|href)="([\w.]+)"', start):
        assert f"/_console/{name}" in files
    assert "<script>" not in start


# --- the calls ------------------------------------------------------------------------------


def test_the_calls_tell_about_the_database(database: Database, music: Any, url: str) -> None:
    database.flush()
    session = ask(url, "/_console/api/session")
    assert session.headers["Cache-Control"] == "no-store"
    assert session.json | {"path": ""} == {
        "version": dynalsm.__version__, "region": "us-east-1", "needs_keys": False, "path": "",
        "durability": "os", "read_only": False, "key": None,
    }  # fmt: skip
    assert session.json["path"] == database.path

    (table,) = ask(url, "/_console/api/tables").json["tables"]
    assert (table["TableName"], table["ItemCount"]) == ("Music", 61)
    assert table["TimeToLive"] == {"TimeToLiveStatus": "DISABLED"}
    sizes = {one["part"]: one["bytes"] for one in table["Trees"]}
    assert set(sizes) == {"", "ByYear", "changes"}
    assert min(sizes.values()) > 0

    stats = ask(url, "/_console/api/stats").json
    assert stats["engine"]["writes"]["flushes"] == 1
    assert [job["kind"] for job in stats["engine"]["history"]] == ["flush"]
    trees = {(tree["table"], tree["part"]): tree for tree in stats["engine"]["trees"]}
    assert {("Music", ""), ("Music", "ByYear"), ("Music", "changes"), ("", "catalog")} == set(trees)
    assert len(stats["commit_waits"]["buckets"]) == len(stats["bounds"]) + 1

    tree = trees["Music", ""]
    parts = ask(url, f"/_console/api/partitions?tree={tree['tree']}").json["partitions"]
    assert len(parts) == tree["partitions"]
    assert (parts[0]["from"], parts[-1]["to"]) == (0, 1)
    assert sum(part["entries"] for part in parts) == 61
    held = sum(level["bytes"] for part in parts for level in part["levels"])
    assert held == tree["disk_bytes"] > 0


def test_expiring_items_have_a_tree_with_a_name(database: Database, music: Any, url: str) -> None:
    database.client.update_time_to_live(
        TableName="Music", TimeToLiveSpecification={"Enabled": True, "AttributeName": "E"}
    )
    (table,) = ask(url, "/_console/api/tables").json["tables"]
    assert table["TimeToLive"]["AttributeName"] == "E"
    assert "expiry" in {one["part"] for one in table["Trees"]}
    names = {one["part"] for one in ask(url, "/_console/api/stats").json["engine"]["trees"]}
    assert "expiry" in names


def test_commits_and_requests_are_counted(tmp_path: Path) -> None:
    boto3 = pytest.importorskip("boto3")
    with dynalsm.open(tmp_path / "shop.db") as database, ServerThread(database) as server:
        client = boto3.client(
            "dynamodb", endpoint_url=server.url, region_name="us-east-1",
            aws_access_key_id="a", aws_secret_access_key="b",
        )  # fmt: skip
        client.create_table(**MUSIC)
        for title in ("a", "b", "c"):
            item = {"Artist": {"S": "x"}, "SongTitle": {"S": title}}
            client.put_item(TableName="Music", Item=item)
        with pytest.raises(client.exceptions.ResourceNotFoundException):
            client.scan(TableName="Missing")
        stats = ask(server.url, "/_console/api/stats").json
    assert stats["requests"]["PutItem"]["count"] == 3
    assert stats["requests"]["Scan"]["failed"] == 1
    assert sum(stats["requests"]["PutItem"]["buckets"]) == 3
    assert sum(stats["commit_waits"]["buckets"]) == 3
    assert stats["commit_waits"]["seconds"] > 0


def test_a_tree_that_is_not_there(url: str) -> None:
    for query in ("", "?tree=", "?tree=nothing", "?tree=../catalog"):
        answer = ask(url, f"/_console/api/partitions{query}")
        assert answer.status == 400
        assert answer.json["__type"].endswith("#ResourceNotFoundException")


def test_a_failure_is_an_answer(database: Database, music: Any, url: str) -> None:
    database.close()
    answer = ask(url, "/_console/api/stats")
    assert answer.status >= 400
    assert answer.json["__type"]


@pytest.mark.parametrize("name", CALLS)
def test_another_site_is_told_nothing(url: str, name: str) -> None:
    for headers in ({"Origin": "http://evil.example"}, {"Sec_Fetch_Site": "cross-site"}):
        answer = ask(url, f"/_console/api/{name}", **headers)
        assert answer.status == 403
        assert "Access-Control-Allow-Origin" not in answer.headers
    own = ask(url, "/_console/api/session", Origin=url, Sec_Fetch_Site="same-origin")
    assert own.status == 200
    assert "Access-Control-Allow-Origin" not in own.headers


# --- keys -----------------------------------------------------------------------------------


def test_without_a_signature_nothing_is_told(guarded: str) -> None:
    assert ask(guarded, "/_console/").status == 200
    assert set(ask(guarded, "/_console/api/session").json) == {"version", "region", "needs_keys"}
    for name in CALLS[1:]:
        answer = ask(guarded, f"/_console/api/{name}?tree=catalog")
        assert answer.status == 400
        assert answer.json["__type"].endswith("#MissingAuthenticationTokenException")
        assert b"Music" not in answer.body


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_signature_is_refused(guarded: str, name: str) -> None:
    answer = signed(guarded, f"/_console/api/{name}", "ALL", "wrong")
    assert answer.json["__type"].endswith("#InvalidSignatureException")
    answer = signed(guarded, f"/_console/api/{name}", "NOBODY", "s1")
    assert answer.json["__type"].endswith("#UnrecognizedClientException")


def test_the_query_is_part_of_what_is_signed(guarded: str) -> None:
    answer = signed(guarded, "/_console/api/partitions?tree=catalog", "ALL", "s1")
    assert answer.status == 200


def test_a_key_for_everything_sees_everything(guarded: str) -> None:
    session = signed(guarded, "/_console/api/session", "READER", "s2").json
    assert session["read_only"]
    assert session["key"] == {"id": "READER", "tables": ["*"]}
    assert session["path"]
    tables = signed(guarded, "/_console/api/tables", "READER", "s2").json["tables"]
    assert [table["TableName"] for table in tables] == ["Music", "Secrets"]
    trees = signed(guarded, "/_console/api/stats", "READER", "s2").json["engine"]["trees"]
    assert {"Music", "Secrets", ""} == {tree["table"] for tree in trees}


def test_a_limited_key_sees_its_tables_alone(database: Database, guarded: str) -> None:
    database.Table("Secrets").put_item(Item={"Artist": "a", "SongTitle": "b"})
    database.flush()
    database.compact()
    secret = database.catalog.get("Secrets")
    assert secret is not None
    for name in CALLS[:3]:
        answer = signed(guarded, f"/_console/api/{name}", "ONE", "s3")
        assert answer.status == 200
        for word in ("Secrets", secret.schema.id, database.path, "catalog"):
            assert word.encode() not in answer.body, (name, word)
    for tree in (secret.tree.name, "catalog"):
        answer = signed(guarded, f"/_console/api/partitions?tree={quote(tree, '')}", "ONE", "s3")
        assert answer.json["__type"].endswith("#ResourceNotFoundException")
    session = signed(guarded, "/_console/api/session", "ONE", "s3").json
    assert (session["path"], session["read_only"]) == ("", False)


def test_why_work_fails_is_for_those_who_see_all(
    database: Database, music: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = database.stats() | {"failures": {"flush": "/secret/place: no space"}}
    monkeypatch.setattr(database, "stats", lambda: dict(figures))
    with ServerThread(database, verifier=Verifier(KEYS), has_console=True) as server:
        full = signed(server.url, "/_console/api/stats", "ALL", "s1").json["engine"]
        part = signed(server.url, "/_console/api/stats", "ONE", "s3").json["engine"]
    assert full["failures"] == {"flush": "/secret/place: no space"}
    assert part["failures"] == {"flush": ""}


# --- on and off -----------------------------------------------------------------------------


def test_it_can_be_switched_off(database: Database) -> None:
    with ServerThread(database, has_console=False) as server:
        for path in ("/_console", "/_console/", "/_console/api/session"):
            assert ask(server.url, path).status == 404


def test_other_machines_get_it_only_when_that_is_said(database: Database) -> None:
    for wanted, status in ((None, 404), (True, 200)):
        with ServerThread(
            database, host="0.0.0.0", allow_anonymous=True, has_console=wanted
        ) as server:
            port = urlsplit(server.url).port
            assert ask(f"http://127.0.0.1:{port}", "/_console/").status == status


def test_metrics_and_console_are_switched_one_by_one(database: Database, music: Any) -> None:
    with ServerThread(database, has_metrics=False) as server:
        assert ask(server.url, "/metrics").status == 404
        assert "requests" in ask(server.url, "/_console/api/stats").json


def test_the_options_of_serve(tmp_path: Path) -> None:
    assert parser().parse_args(["x"]).console is None
    with ServeProcess(tmp_path / "on.db") as server:
        assert ask(server.url, "/_console/api/session").json["durability"] == "commit"
    with ServeProcess(tmp_path / "off.db", "--no-console") as server:
        assert ask(server.url, "/_console/").status == 404
