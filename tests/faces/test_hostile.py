"""Requests made to break a parser: each is answered at once, with an error of the API.

Through the whole protocol, so that JSON, validation, expressions and values all take part. An
answer 500 would be a mistake of ours; recursion and conversions that grow with the input are what
usually makes one.
"""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest

from dynalsm.server.wire import CONTENT_TYPE, Reply, Request, Service
from tests.support.store import SIMPLE, S, Store

LONGEST_SECONDS = 2.0  # far more than any of them takes


@pytest.fixture(scope="module")
def service() -> Any:
    store = Store()
    store.put(SIMPLE, p=S("x"))
    yield Service(store.database)
    store.database.close()


def send(service: Service, operation: str, body: bytes) -> Reply:
    target = b"DynamoDB_20120810." + operation.encode()
    headers = {b"content-type": CONTENT_TYPE, b"x-amz-target": target}
    started = time.perf_counter()
    reply = service.answer(Request(b"POST", b"/", headers, body))
    assert time.perf_counter() - started < LONGEST_SECONDS
    assert reply.status in (200, 400), reply.body[:300]
    return reply


def refused(service: Service, operation: str, request: Any) -> str:
    body = request if isinstance(request, bytes) else json.dumps(request).encode()
    reply = send(service, operation, body)
    assert reply.status == 400, reply.body[:300]
    fields = json.loads(reply.body)
    return f"{fields['__type'].partition('#')[2]}: {fields.get('message', fields.get('Message'))}"


def nested(levels: int, before: str, after: str) -> bytes:
    value = before * levels + '{"S":"x"}' + after * levels
    return f'{{"TableName":"{SIMPLE}","Item":{{"p":{{"S":"h"}},"a":{value}}}}}'.encode()


@pytest.mark.parametrize("levels", [32, 33, 250, 1000, 100_000])
def test_deep_values(service: Service, levels: int) -> None:
    for before, after in (('{"L":[', "]}"), ('{"M":{"a":', "}}")):
        error = refused(service, "PutItem", nested(levels, before, after))
        assert error.startswith(("ValidationException: Nesting", "SerializationException"))
        assert send(service, "PutItem", nested(31, before, after)).status == 200


@pytest.mark.parametrize(
    "body", [b"[" * 10**6, b'{"a":' * 10**5, b'{"a":[' * 10**5, b"\x00" * 10**6]
)
def test_deep_json(service: Service, body: bytes) -> None:
    assert refused(service, "PutItem", body).startswith("SerializationException")


CONDITIONS = [
    "(" * 4096, "(" * 20_000, "NOT " * 1000 + "a = :v", "NOT (" * 800 + "a = :v" + ")" * 800,
    "a = :v AND " * 360 + "a = :v", "(a = :v) OR " * 300 + "a = :v", "a." * 2000 + "b = :v",
    "a" + "[0]" * 1300 + " = :v", "size(" * 600 + "a" + ")" * 600 + " = :v",
    "a IN (" + ",".join([":v"] * 1000) + ")", "(" * 1500 + "a = :v" + ")" * 1500,
    "attribute_exists(" * 200 + "a" + ")" * 200, "#" * 4000, ":" * 4000, "\x00" * 4000,
    "a = :v" + " " * 5000, "contains(" * 400, "a[" + "9" * 4000 + "] = :v", "é" * 2040,
    "a BETWEEN " * 400, "<>" * 2000, "." * 4096, ")" * 4096, "-" * 4096, "a = :v " * 500,
]  # fmt: skip


@pytest.mark.parametrize("text", CONDITIONS, ids=lambda text: f"{text[:12]!r}-{len(text)}")
def test_conditions(service: Service, text: str) -> None:
    given = {"ExpressionAttributeValues": {":v": {"S": "x"}}}
    put = {"TableName": SIMPLE, "Item": {"p": {"S": "x"}}, "ConditionExpression": text, **given}
    assert refused(service, "PutItem", put).startswith("ValidationException: Invalid Condition")
    scan = {"TableName": SIMPLE, "FilterExpression": text, **given}
    assert refused(service, "Scan", scan).startswith("ValidationException: Invalid Filter")
    query = {"TableName": SIMPLE, "KeyConditionExpression": text, **given}
    assert refused(service, "Query", query).startswith("ValidationException: ")


UPDATES = [
    "SET a = " + "(" * 4000, "SET a = " + "if_not_exists(a," * 230 + ":v" + ")" * 231,
    "SET a = " + "list_append(a," * 250 + ":v" + ")" * 250, "SET a = " + ":v + " * 700 + ":v",
    "SET a[" + "9" * 4000 + "] = :v", "SET " * 1000, "REMOVE " + "a." * 1900 + "b", "ADD " * 1000,
    "SET a[4294967296] = :v", "SET " + ",".join(["a = :v"] * 500), "DELETE a :v " * 300,
]  # fmt: skip


@pytest.mark.parametrize("text", UPDATES, ids=lambda text: f"{text[:12]!r}-{len(text)}")
def test_updates(service: Service, text: str) -> None:
    request = {
        "TableName": SIMPLE,
        "Key": {"p": {"S": "x"}},
        "UpdateExpression": text,
        "ExpressionAttributeValues": {":v": {"S": "x"}},
    }
    assert refused(service, "UpdateItem", request).startswith("ValidationException: Invalid Update")


WHERE = f"SELECT * FROM {SIMPLE} WHERE "
STATEMENTS = [
    WHERE + "(" * 8000, WHERE + "a = " + "[" * 4000, WHERE + "a = " + "<<" * 3900,
    WHERE + "a = " + "[" * 3900 + "]" * 3900, WHERE + "a = " + "{'a':" * 1500, "<<" * 4000,
    WHERE + "a = " + "1 + " * 1900 + "1", WHERE + "begins_with(" * 600, WHERE + "EXISTS(" * 1000,
    "SELECT " + "a." * 4000 + "a", WHERE + "a[" + "9" * 8000 + "] = 1",
    WHERE + "a = 1e" + "9" * 8000, WHERE + "a = 1e-" + "9" * 8000, WHERE + "a = " + "9" * 8000,
    WHERE + "-" * 8000,
    WHERE + "a IN [" + ",".join(["1"] * 3900) + "]", "/*" * 4000, "--" * 4000, "'" * 8191,
    '"' * 8191,
    f"UPDATE {SIMPLE} " + "SET a = 1 " * 700 + "WHERE p = 'x'", "\x00" * 8192, "é" * 8192,
    f"INSERT INTO {SIMPLE} VALUE " + "{'p': " * 1000, WHERE + "a = " + "[1," * 2600, "? " * 4000,
    WHERE + "a IS NOT " * 800, f"SELECT * FROM {SIMPLE}" + "." * 8000, WHERE + "NOT " * 1950,
]  # fmt: skip


@pytest.mark.parametrize("text", STATEMENTS, ids=lambda text: f"{text[26:40]!r}-{len(text)}")
def test_statements(service: Service, text: str) -> None:
    member = {"Statement": text[:8192]}
    assert refused(service, "ExecuteStatement", member).startswith("ValidationException: ")
    transaction = {"TransactStatements": [member]}
    assert refused(service, "ExecuteTransaction", transaction).startswith("ValidationException: ")
    # In a batch each statement has its own error.
    reply = send(service, "BatchExecuteStatement", json.dumps({"Statements": [member]}).encode())
    assert b"ValidationE" in reply.body


@pytest.mark.parametrize(
    "value",
    [
        {"N": "1" * 10**6},
        {"N": "1e" + "1" * 10**6},
        {"N": "-." + "0" * 10**6},
        {"NS": ["x" * 10**6]},
        {"SS": [str(number) for number in range(10**5)]},
        {"B": "A" * 10**6 + "="},
        {"L": [{"NULL": True}] * 10**5 + [{"X": 1}]},
        {"M": {str(number): {"S": ""} for number in range(10**5)}},
        {"x" * 10**6: "y"},
        {"S": "x" * 10**6},
    ],
    ids=lambda value: next(iter(value))[:3],
)
def test_large_values(service: Service, value: Any) -> None:
    request = {"TableName": SIMPLE, "Item": {"p": {"S": "x"}, "a": value}}
    assert refused(service, "PutItem", request)
    key = {"TableName": SIMPLE, "Key": {"p": value}}
    assert refused(service, "GetItem", key)


def test_many_members(service: Service) -> None:
    keys = [{"p": {"S": str(number)}} for number in range(10**4)]
    assert refused(service, "BatchGetItem", {"RequestItems": {SIMPLE: {"Keys": keys}}})
    assert refused(service, "PutItem", {"TableName": "x" * 10**6, "Item": {}})
    names = {f"#{number}": "a" for number in range(10**4)}
    scan = {"TableName": SIMPLE, "FilterExpression": "#1 = #2", "ExpressionAttributeNames": names}
    assert refused(service, "Scan", scan)
    attributes = {f"a{number}": {"N": "1"} for number in range(10**5)}
    assert refused(service, "PutItem", {"TableName": SIMPLE, "Item": attributes})


TOKENS = [
    *"""( ) [ ] { } << >> , . : ; ? ' " # + - * = <> < <= > >= a p x simple 1 .5 1e3 'x' "p" :v #n
    -- /* AND OR NOT IN BETWEEN IS MISSING NULL TRUE SELECT FROM WHERE INSERT INTO VALUE UPDATE
    SET REMOVE DELETE ADD RETURNING ALL OLD MODIFIED NEW ORDER BY ASC DESC EXISTS size( contains(
    begins_with( attribute_exists( if_not_exists( list_append( attribute_type( set_add(""".split(),
    *("\x00", "\n", "é"),
]


@pytest.mark.parametrize("seed", range(8))
def test_nonsense(service: Service, seed: int) -> None:
    """Words of the languages in any order; the seed is in the test's name."""
    source = random.Random(seed)
    for _ in range(150):
        text = " ".join(source.choices(TOKENS, k=source.randrange(1, 25)))
        given = {
            "ExpressionAttributeValues": {":v": {"S": "x"}},
            "ExpressionAttributeNames": {"#n": "n"},
        }
        key = {"p": {"S": "nonsense"}}
        for operation, request in (
            ("ExecuteStatement", {"Statement": text}),
            ("ExecuteStatement", {"Statement": WHERE + text}),
            ("Query", {"TableName": SIMPLE, "KeyConditionExpression": text, **given}),
            ("Scan", {"TableName": SIMPLE, "FilterExpression": text, **given}),
            ("GetItem", {"TableName": SIMPLE, "Key": key, "ProjectionExpression": text}),
            ("UpdateItem", {"TableName": SIMPLE, "Key": key, "UpdateExpression": text, **given}),
        ):
            send(service, operation, json.dumps(request).encode())
