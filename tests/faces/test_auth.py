"""Signatures and rights. botocore signs, so the canonical form is not our own reading of it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from dynalsm import errors
from dynalsm.server.auth import (
    AccessKey,
    AnonymousVerifier,
    Verifier,
    authorize,
    load_keys,
    table_names,
)
from dynalsm.server.wire import Request

KEY = AccessKey("AKID", "secret")
BODY = b'{"TableName": "Music"}'


def signed(
    secret: str = "secret", key: str = "AKID", region: str = "eu-west-1", service: str = "dynamodb"
) -> Request:
    """Return a request as botocore sends it, at the present time."""
    request = AWSRequest(
        "POST",
        "http://localhost:8000/",
        headers={
            "Host": "localhost:8000",
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": "DynamoDB_20120810.DescribeTable",
        },
        data=BODY,
    )
    SigV4Auth(Credentials(key, secret), service, region).add_auth(request)
    headers = {
        name.lower().encode(): (value if isinstance(value, bytes) else value.encode())
        for name, value in request.headers.items()
    }
    return Request(b"POST", b"/", headers, BODY)


def verify(request: Request, **options: Any) -> AccessKey:
    return Verifier([KEY], **options).verify(request)


def test_a_good_signature_gives_its_key() -> None:
    verifier = Verifier([KEY, AccessKey("OTHER", "x")])
    assert verifier.verify(signed()) is KEY
    assert verifier.verify(signed()) is KEY  # the second time from the cache of signing keys


@pytest.mark.parametrize("header", [None, b"Basic abc"])
def test_no_signature(header: bytes | None) -> None:
    request = signed()
    del request.headers[b"authorization"]
    if header is not None:
        request.headers[b"authorization"] = header
    with pytest.raises(errors.MissingAuthenticationTokenException) as caught:
        verify(request)
    assert caught.value.message == "Request is missing Authentication Token"


def test_header_and_query_together() -> None:
    request = signed()
    request.url = b"/?X-Amz-Algorithm=AWS4-HMAC-SHA256"
    with pytest.raises(errors.InvalidSignatureException, match="Found both 'X-Amz-Algorithm'"):
        verify(request)


def test_missing_parts_are_named() -> None:
    request = signed()
    request.headers[b"authorization"] = b"AWS4-HMAC-SHA256 Credential=a/b"
    del request.headers[b"x-amz-date"]
    with pytest.raises(errors.IncompleteSignatureException) as caught:
        verify(request)
    assert caught.value.message == (
        "Authorization header requires 'Signature' parameter. "
        "Authorization header requires 'SignedHeaders' parameter. "
        "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. "
        "Authorization=AWS4-HMAC-SHA256 Credential=a/b"
    )


def test_a_short_credential() -> None:
    request = signed()
    request.headers[b"authorization"] = (
        b"AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host;x-amz-target, Signature=0"
    )
    with pytest.raises(errors.IncompleteSignatureException, match="exactly 5 slash-delimited"):
        verify(request)


def test_blanks_commas_or_both_stand_between_the_parts() -> None:
    # observed (alternator): all of them are taken.
    for between in (b" ", b",", b" , ", b",\t"):
        request = signed()
        header = request.headers[b"authorization"]
        assert header.count(b", ") == 2
        request.headers[b"authorization"] = header.replace(b", ", between)
        assert verify(request) is KEY


def test_another_algorithm() -> None:
    request = signed()
    header = request.headers[b"authorization"].replace(b"SHA256", b"SHA1", 1)
    request.headers[b"authorization"] = header
    with pytest.raises(errors.IncompleteSignatureException, match="'AWS4-HMAC-SHA1'"):
        verify(request)


def test_a_signature_is_too_old_before_anything_else_is_wrong_with_it() -> None:
    request = signed(service="s3", key="NOBODY")
    request.headers[b"authorization"] = request.headers[b"authorization"].replace(b"host;", b"")
    with pytest.raises(errors.InvalidSignatureException, match="Signature expired"):
        verify(request, clock=lambda: time.time() + 3600)
    with pytest.raises(errors.InvalidSignatureException, match="must be a 'SignedHeader'"):
        verify(request)


def test_a_verifier_that_knows_nobody_checks_the_form() -> None:
    # Neither the key nor the scope: a local endpoint has no name that a client could sign for.
    assert AnonymousVerifier().verify(signed(key="NOBODY", service="s3")).id == "NOBODY"
    with pytest.raises(errors.InvalidSignatureException, match="Signature expired"):
        AnonymousVerifier(clock=lambda: time.time() + 3600).verify(signed())


def test_a_signature_in_the_query_must_be_whole() -> None:
    request = signed()
    del request.headers[b"authorization"]
    request.url = b"/?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=a&X-Amz-Date=b"
    with pytest.raises(errors.IncompleteSignatureException) as caught:
        verify(request)
    assert caught.value.message == (
        "AWS query-string parameters must include 'X-Amz-Signature'. AWS query-string parameters "
        "must include 'X-Amz-SignedHeaders'. Re-examine the query-string parameters."
    )


def test_another_service() -> None:
    with pytest.raises(errors.InvalidSignatureException, match="correct service: 'dynamodb'"):
        verify(signed(service="s3"))


def test_an_unknown_key() -> None:
    with pytest.raises(errors.UnrecognizedClientException, match="security token"):
        verify(signed(key="NOBODY"))


@pytest.mark.parametrize("change", ["secret", "body", "header", "region"])
def test_a_changed_request_does_not_match(change: str) -> None:
    request = signed(secret="wrong" if change == "secret" else "secret")
    if change == "body":
        request.body = BODY.replace(b"Music", b"Other")
    elif change == "header":
        request.headers[b"x-amz-target"] = b"DynamoDB_20120810.DeleteTable"
    elif change == "region":
        request.headers[b"authorization"] = request.headers[b"authorization"].replace(
            b"eu-west-1", b"us-east-1"
        )
    with pytest.raises(errors.InvalidSignatureException, match="does not match"):
        verify(request)


@pytest.mark.parametrize("name", ["host", "x-amz-target"])
def test_what_decides_the_operation_must_be_signed(name: str) -> None:
    request = signed()
    header = request.headers[b"authorization"].decode()
    names = header.partition("SignedHeaders=")[2].partition(",")[0]
    fewer = ";".join(one for one in names.split(";") if one != name)
    request.headers[b"authorization"] = header.replace(names, fewer).encode()
    with pytest.raises(
        errors.InvalidSignatureException, match=f"'{name}' must be a 'SignedHeader'"
    ):
        verify(request)


@pytest.mark.parametrize(
    ("minutes", "text"), [(16, "Signature expired"), (-16, "Signature not yet current")]
)
def test_the_clock(minutes: int, text: str) -> None:
    with pytest.raises(errors.InvalidSignatureException, match=text):
        verify(signed(), clock=lambda: time.time() + minutes * 60)
    verify(signed(), clock=lambda: time.time() + (minutes - minutes // abs(minutes) * 2) * 60)


def allowed(key: AccessKey, operation: str, parameters: Any) -> bool:
    try:
        authorize(key, operation, parameters, "us-east-1", "123456789012")
    except errors.AccessDeniedException:
        return False
    return True


def test_a_read_only_key_reads() -> None:
    key = AccessKey("R", "s", read_only=True)
    assert allowed(key, "GetItem", {"TableName": "A"})
    assert allowed(key, "ListTables", {})
    assert not allowed(key, "PutItem", {"TableName": "A"})
    assert not allowed(key, "ExecuteStatement", {"Statement": "SELECT * FROM A"})


def test_a_limited_key_touches_its_tables_only() -> None:
    key = AccessKey("L", "s", tables=("Music", "Log*"))
    arn = "arn:aws:dynamodb:us-east-1:123456789012:table/"
    assert allowed(key, "GetItem", {"TableName": "Log1"})
    assert allowed(key, "GetItem", {"TableName": f"{arn}Music"})
    assert not allowed(key, "GetItem", {"TableName": f"{arn}Other"})
    assert allowed(key, "BatchGetItem", {"RequestItems": {"Music": {}, "Log2": {}}})
    assert not allowed(key, "BatchGetItem", {"RequestItems": {"Music": {}, "Other": {}}})
    actions = [{"Put": {"TableName": "Music"}}, {"Delete": {"TableName": "Other"}}]
    assert not allowed(key, "TransactWriteItems", {"TransactItems": actions})
    assert allowed(key, "TransactWriteItems", {"TransactItems": actions[:1]})
    # What names no table could be any table.
    assert not allowed(key, "ListTables", {})
    assert not allowed(key, "ExecuteStatement", {"Statement": "SELECT * FROM Music"})
    assert allowed(key, "DescribeLimits", {})


def test_a_member_that_the_operation_ignores_opens_no_door() -> None:
    key = AccessKey("L", "s", tables=("Music",))
    assert table_names("GetRecords", {"ShardIterator": "x", "TableName": "Music"}) == set()
    assert not allowed(key, "GetRecords", {"ShardIterator": "x", "TableName": "Music"})


def test_load_keys(tmp_path: Path) -> None:
    path = key_file(
        tmp_path,
        json.dumps({"keys": [{"id": "A", "secret": "s", "read_only": True, "tables": ["T"]}]}),
    )
    assert load_keys(path) == [AccessKey("A", "s", True, ("T",))]


def key_file(place: Path, text: str, mode: int = 0o600) -> Path:
    path = place / "keys.json"
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"keys": [{}]}', '{"keys": []}',
        '{"keys": [{"id": "A", "secret": ""}]}', '{"keys": [{"id": 1, "secret": "s"}]}',
    ],
)  # fmt: skip
def test_a_bad_key_file_says_so(tmp_path: Path, text: str) -> None:
    path = key_file(tmp_path, text)
    with pytest.raises(ValueError, match=r"keys\.json"):
        load_keys(path)
    with pytest.raises(ValueError, match="cannot read"):
        load_keys(tmp_path / "missing.json")


@pytest.mark.parametrize("mode", [0o602, 0o620, 0o666])
def test_a_key_file_that_others_can_change_is_refused(tmp_path: Path, mode: int) -> None:
    text = json.dumps({"keys": [{"id": "A", "secret": "s"}]})
    with pytest.raises(ValueError, match=r"can be changed by others.*chmod 600 .*keys\.json"):
        load_keys(key_file(tmp_path, text, mode))


@pytest.mark.parametrize(
    ("mode", "warns"),
    [(0o600, False), (0o400, False), (0o640, False), (0o644, True), (0o604, True)],
)
def test_a_key_file_that_all_can_read_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, warns: bool
) -> None:
    text = json.dumps({"keys": [{"id": "A", "secret": "s"}]})
    assert load_keys(key_file(tmp_path, text, mode))
    assert ("can be read by every user" in caplog.text) is warns


@pytest.mark.parametrize(
    ("entry", "may"),
    [
        ({}, True),
        ({"read_only": True}, True),
        ({"tables": ["Music"]}, False),
        ({"tables": [], "metrics": True}, True),
        ({"metrics": False}, False),
    ],
)
def test_who_may_see_metrics(tmp_path: Path, entry: dict[str, Any], may: bool) -> None:
    text = json.dumps({"keys": [{"id": "A", "secret": "s", **entry}]})
    [key] = load_keys(key_file(tmp_path, text))
    assert key.may_see_metrics is may
