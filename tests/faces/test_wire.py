"""The JSON 1.0 protocol without a network: layers, errors, encodings (reference 12)."""

from __future__ import annotations

import gzip
import json
import time
import zlib
from typing import Any

import pytest

from dynalsm import errors
from dynalsm.server import wire
from dynalsm.server.wire import Reply, Request, Service
from tests.faces.fakes import FakeDatabase

TARGET = b"DynamoDB_20120810.ListTables"
SERIALIZATION = "com.amazon.coral.service#SerializationException"


def service(reply: dict[str, Any] | Exception | None = None) -> Service:
    def call(operation: str, parameters: dict[str, Any], form: Any) -> dict[str, Any]:
        if isinstance(reply, Exception):
            raise reply
        return reply if reply is not None else {"Operation": operation, "Got": parameters}

    return Service(FakeDatabase(call))  # type: ignore[arg-type]


def post(body: bytes = b"{}", target: bytes = TARGET, **headers: bytes) -> Request:
    named = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    return Request(
        b"POST",
        b"/",
        {b"content-type": wire.CONTENT_TYPE, b"x-amz-target": target, **named},
        body,
    )


def fields(reply: Reply) -> Any:
    return json.loads(reply.body)


def test_an_operation_runs_with_its_parameters() -> None:
    reply = service().answer(post(b'{"Limit": 3}'))
    assert reply.status == 200
    assert fields(reply) == {"Operation": "ListTables", "Got": {"Limit": 3}}


def test_streams_operations_have_their_own_target() -> None:
    right = service().answer(post(target=b"DynamoDBStreams_20120810.ListStreams"))
    assert right.status == 200
    wrong = service().answer(post(target=b"DynamoDB_20120810.ListStreams"))
    assert fields(wrong) == {"__type": "com.amazon.coral.service#UnknownOperationException"}


@pytest.mark.parametrize("target", [b"", b"DynamoDB_20120810", b"DynamoDB_20111205.GetItem"])
def test_an_unknown_target_is_no_operation(target: bytes) -> None:
    reply = service().answer(post(target=target))
    assert reply.status == 400
    assert fields(reply) == {"__type": "com.amazon.coral.service#UnknownOperationException"}


@pytest.mark.parametrize("body", [b"{", b"\xff", b'{"a": NaN}', b"{}x"])
def test_a_body_that_is_no_json_is_a_serialization_error_without_text(body: bytes) -> None:
    reply = service().answer(post(body, target=b"nonsense"))  # JSON comes before the target
    assert (reply.status, fields(reply)) == (400, {"__type": SERIALIZATION})


def test_no_body_comes_after_the_target_and_the_signature() -> None:
    # observed (dynalite, alternator); a signature that nobody checks must still look like one.
    empty = service().answer(post(b"", target=b"nonsense"))
    assert fields(empty)["__type"].endswith("#UnknownOperationException")
    request = post(b"")
    assert fields(service().answer(request))["message"] == "Request is missing Authentication Token"
    request.headers[b"authorization"] = b"AWS4-"
    assert fields(service().answer(request))["__type"].endswith("#IncompleteSignatureException")
    request.headers |= signed(b"20170101T000000Z")
    assert fields(service().answer(request))["message"].startswith("Signature expired: ")
    request.headers |= signed(b"29990101T000000Z")
    assert fields(service().answer(request))["message"].startswith("Signature not yet current: ")
    request.headers |= signed(time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()).encode())
    assert fields(service().answer(request)) == {"__type": SERIALIZATION}


def signed(date: bytes) -> dict[bytes, bytes]:
    scope = b"any/%s/us-east-1/dynamodb/aws4_request" % date[:8]
    names = b"host;x-amz-target"
    text = b"AWS4-HMAC-SHA256 Credential=%s,SignedHeaders=%s,Signature=0" % (scope, names)
    return {b"x-amz-date": date, b"authorization": text}


def test_another_path_is_no_operation() -> None:
    def answer(url: bytes) -> int:
        return service().answer(Request(b"POST", url, post().headers, b"{}")).status

    assert [answer(url) for url in (b"/x", b"/x?y", b"x", b"//")] == [404] * 4
    assert [answer(url) for url in (b"/", b"/?x=/y", b"http://h:1/", b"http://h")] == [200] * 4


def test_without_a_body_the_content_type_does_not_matter() -> None:
    reply = service().answer(Request(b"POST", b"/", {}, b""))
    assert fields(reply)["__type"].endswith("#UnknownOperationException")


def test_json_that_is_no_object_is_a_serialization_error() -> None:
    assert fields(service().answer(post(b"[]")))["__type"] == SERIALIZATION


@pytest.mark.parametrize("kind", [b"", b"text/plain", b"application/x-amz-json-1.1"])
def test_another_content_type_finds_nothing(kind: bytes) -> None:
    request = post(b"{")
    request.headers[b"content-type"] = kind
    reply = service().answer(request)
    assert (reply.status, reply.body) == (404, b"<UnknownOperationException/>\n")


@pytest.mark.parametrize(
    "kind",
    [b"application/json", b"application/x-amz-json-1.0; charset=utf-8", b"Application/JSON"],
)
def test_accepted_content_types(kind: bytes) -> None:
    request = post()
    request.headers[b"content-type"] = kind
    assert service().answer(request).status == 200


def test_get_is_the_health_check_at_the_root_only() -> None:
    reply = service().answer(Request(b"GET", b"/", {}, b""))
    assert reply.body == b"healthy: dynamodb.us-east-1.amazonaws.com "
    assert len(reply.body) == 42
    assert service().answer(Request(b"GET", b"/x", {}, b"")).status == 404
    assert service().answer(Request(b"PUT", b"/", {}, b"")).status == 404


def test_options_echoes_what_was_asked() -> None:
    asked = {
        b"origin": b"http://x",
        b"access-control-request-headers": b"x-amz-target",
        b"access-control-request-method": b"POST",
    }
    reply = service().answer(Request(b"OPTIONS", b"/", asked, b""))
    assert dict(reply.headers) == {
        b"Access-Control-Allow-Headers": b"x-amz-target",
        b"Access-Control-Allow-Methods": b"POST",
        b"Access-Control-Max-Age": b"172800",
    }
    # Without an origin it is no question of a browser.
    assert service().answer(Request(b"OPTIONS", b"/", {}, b"")).status == 404


@pytest.mark.parametrize(
    ("error", "body"),
    [
        (
            errors.ResourceNotFoundException("Requested resource not found"),
            {
                "__type": "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException",
                "message": "Requested resource not found",
            },
        ),
        (
            errors.ValidationException("The provided key element does not match the schema"),
            {
                "__type": "com.amazon.coral.validate#ValidationException",
                "message": "The provided key element does not match the schema",
            },
        ),
        (
            errors.SerializationException("NUMBER_VALUE cannot be converted to String"),
            {"__type": SERIALIZATION, "Message": "NUMBER_VALUE cannot be converted to String"},
        ),
        (
            errors.ConditionalCheckFailedException(
                "The conditional request failed", Item={"pk": {"S": "x"}}
            ),
            {
                "__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",
                "message": "The conditional request failed",
                "Item": {"pk": {"S": "x"}},
            },
        ),
        (
            errors.TransactionCanceledException("why", CancellationReasons=[{"Code": "None"}]),
            {
                "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
                "Message": "why",
                "CancellationReasons": [{"Code": "None"}],
            },
        ),
    ],
)
def test_errors_have_their_wire_form(error: errors.ApiError, body: dict[str, Any]) -> None:
    reply = service(error).answer(post())
    assert (reply.status, fields(reply)) == (400, body)


def test_a_failed_engine_is_an_internal_error_with_its_text() -> None:
    failure = errors.CorruptionError("bad block", path="/x/000001.sst", offset=7)
    reply = service(failure).answer(post())
    assert reply.status == 500
    assert fields(reply)["__type"].endswith("#InternalServerError")
    assert "bad block" in fields(reply)["message"]


def test_a_mistake_of_ours_tells_the_client_nothing() -> None:
    reply = service(ZeroDivisionError("secret")).answer(post())
    assert reply.status == 500
    assert fields(reply)["message"] == "Internal server error"


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        (b"gzip", gzip.compress(b'{"Limit": 1}')),
        # A gzip file may have several members, even empty ones.
        (b"gzip", b"".join(map(gzip.compress, (b'{"Lim', b"", b'it": 1}')))),
        (b" GZIP ", gzip.compress(b'{"Limit": 1}')),
        (b"deflate", zlib.compress(b'{"Limit": 1}')),
        (b"identity", b'{"Limit": 1}'),
    ],
)
def test_compressed_requests(encoding: bytes, body: bytes) -> None:
    reply = service().answer(post(body, content_encoding=encoding))
    assert fields(reply)["Got"] == {"Limit": 1}


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        (b"gzip", b"not gzip"),
        (b"gzip", gzip.compress(b"{}")[:-3]),  # cut off
        (b"gzip", gzip.compress(b"{}") + b"x"),  # more behind it
        (b"gzip", gzip.compress(b"{}") + gzip.compress(b" ")[:-1]),
        (b"gzip", b""),
        (b"deflate", b""),
        (b"deflate", zlib.compress(b"{") + zlib.compress(b"}")),  # zlib has no members
        (b"deflate", b"\x00\x01"),
        (b"br", b"{}"),
    ],
)
def test_broken_compression_is_an_internal_error(encoding: bytes, body: bytes) -> None:
    reply = service().answer(post(body, content_encoding=encoding))
    assert reply.status == 500
    assert fields(reply) == {"__type": "com.amazonaws.dynamodb.v20120810#InternalServerError"}


def test_a_body_that_unpacks_beyond_the_limit_is_too_large() -> None:
    bomb = gzip.compress(b" " * (wire.BODY_LIMIT_BYTES + 1))
    assert service().answer(post(bomb, content_encoding=b"gzip")).status == 413
    halves = gzip.compress(b" " * (wire.BODY_LIMIT_BYTES // 2)) * 2 + gzip.compress(b"{}")
    assert service().answer(post(halves, content_encoding=b"gzip")).status == 413
    full = gzip.compress(b"{}" + b" " * (wire.BODY_LIMIT_BYTES - 2))
    assert service().answer(post(full, content_encoding=b"gzip")).status == 200


@pytest.mark.parametrize(
    ("accepted", "encoding", "undo"),
    [
        (b"gzip, deflate", b"gzip", gzip.decompress),
        (b"deflate", b"deflate", zlib.decompress),
    ],
)
def test_large_replies_are_compressed_when_asked(
    accepted: bytes, encoding: bytes, undo: Any
) -> None:
    plain = Reply(200, b"x" * wire.COMPRESS_FROM_BYTES)
    reply = wire.compressed(plain, accepted)
    assert undo(reply.body) == plain.body
    # The checksum is that of the plain body.
    assert dict(reply.headers) == {
        b"Content-Encoding": encoding,
        b"x-amz-crc32": str(zlib.crc32(plain.body)).encode(),
    }


@pytest.mark.parametrize(("size", "accepted"), [(4095, b"gzip"), (10_000, b"identity")])
def test_other_replies_stay_as_they_are(size: int, accepted: bytes) -> None:
    plain = Reply(200, b"x" * size)
    assert wire.compressed(plain, accepted) is plain


@pytest.mark.parametrize(
    ("accepted", "chosen"),
    [
        ("", None),
        ("br, zstd, x-gzip", None),
        ("identity", None),
        ("Deflate , GZIP", "deflate"),  # the first one of those liked equally
        (",,gzip;q=0.4,deflate;q=0.7", "deflate"),
        ("gzip;q=0", None),
        ("deflate;q=0,gzip;q=0.001", "gzip"),
        ("identity;q=1,gzip;q=0.1", "gzip"),  # no compression is never liked better
        ("*", "gzip"),
        ("*;q=0", None),
        ("*,gzip;q=0", "deflate"),  # what is named does not count under the star
        ("deflate,*", "deflate"),
        ("gzip;q=0,deflate;q=0,*", None),
        ("gzip;q=0, gzip", "gzip"),
        ('"gzip"', None),
        ("gzip deflate", None),
        # Weights as DynamoDB reads them.
        ("deflate;q=7,gzip;q=9", "deflate"),
        ("gzip;q=-1,deflate;q=0.1", "deflate"),
        ("deflate;q=0.9,gzip;q=much", "gzip"),
        ("deflate;q=0.9,gzip; q=1.;q=0", "gzip"),
        ("gzip;level=1;q=0", None),
        ("gzip;xq=0", None),
    ],
)
def test_the_encoding_that_a_client_likes_best(accepted: str, chosen: str | None) -> None:
    found = wire.chosen_encoding(accepted.encode())
    assert found == (chosen.encode() if chosen else None)


def test_request_ids_are_52_characters_and_differ() -> None:
    ids = {wire.request_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(len(one) == 52 and one.isalnum() and one == one.upper() for one in ids)
