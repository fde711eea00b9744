"""Hostile texts and numbers in every place of the API that takes one, natively and by the protocol.

Each is refused at once: the time bound is a hundred times what the slowest of them takes, and far
below what reading the input in quadratic time would.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from dynalsm import errors
from dynalsm.database import Database
from dynalsm.server import ServerThread
from dynalsm.server.wire import CONTENT_TYPE, Request, Service
from tests.support.databases import memory_database
from tests.support.store import NUMBERS, PAIRS, N, S, Store

LONGEST_SECONDS = 5.0
REFUSALS = ("ValidationException", "SerializationException")
KEY = {"p": S("x"), "s": S("x")}
VALUES = {":v": S("x")}


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with memory_database() as database:
        store = Store(database)
        store.put(PAIRS, **KEY)
        store.put(NUMBERS, p=S("x"), s=N(1))
        yield database


def check_refused(database: Database, operation: str, request: dict[str, Any]) -> None:
    started = time.perf_counter()
    with pytest.raises(errors.ApiError) as caught:
        database.call(operation, request)
    assert caught.value.code in REFUSALS, caught.value
    target = b"DynamoDB_20120810." + operation.encode()
    headers = {b"content-type": CONTENT_TYPE, b"x-amz-target": target}
    body = json.dumps(request).encode()
    reply = Service(database).answer(Request(b"POST", b"/", headers, body))
    assert reply.status == 400, reply.body[:300]
    assert json.loads(reply.body)["__type"].partition("#")[2] in REFUSALS
    assert time.perf_counter() - started < LONGEST_SECONDS


TEXTS = {
    "parentheses": "(" * 4_000_000,
    "NOT": "NOT " * 1_000_000,
    "20,000 deep": "(" * 20_000 + "a = :v" + ")" * 20_000,
    "path": "a." * 20_000 + "b",
    "indexes": "a" + "[0]" * 20_000,
    "index": "a[" + "9" * 1_000_000 + "]",
    "names": ",".join(["a"] * 100_000),
    "quotes": "'" * 1_000_000,
    "spaces": " " * 1_000_000,
    "not ASCII": "é" * 1_000_000,
    "digits": "a = " + "9" * 1_000_000,
    "name": "a" * 1_000_000,
    "placeholder": "#" + "a" * 1_000_000,
    "OR": "a = :v OR " * 100_000 + "a = :v",
}


def transaction(kind: str, **members: Any) -> dict[str, Any]:
    return {"TransactItems": [{kind: {"TableName": PAIRS, **members}}]}


def places_of_text(text: str) -> list[tuple[str, dict[str, Any]]]:
    table = {"TableName": PAIRS}
    update = {**table, "Key": KEY, "ExpressionAttributeValues": VALUES}
    condition = {"ConditionExpression": text, "ExpressionAttributeValues": VALUES}
    query = {**table, "KeyConditionExpression": "p = :v", "ExpressionAttributeValues": VALUES}
    equal = {"ComparisonOperator": "EQ", "AttributeValueList": [S("x")]}
    return [
        ("PutItem", {**table, "Item": KEY, **condition}),
        ("DeleteItem", {**table, "Key": KEY, **condition}),
        ("UpdateItem", {**update, "UpdateExpression": text}),
        ("UpdateItem", {**update, "UpdateExpression": "SET " + text}),
        ("UpdateItem", {**update, "UpdateExpression": "SET q = " + text}),
        ("UpdateItem", {**update, "UpdateExpression": "SET q = :v", "ConditionExpression": text}),
        ("GetItem", {**table, "Key": KEY, "ProjectionExpression": text}),
        ("Scan", {**table, "FilterExpression": text, "ExpressionAttributeValues": VALUES}),
        ("Scan", {**table, "ProjectionExpression": text}),
        ("Query", {**query, "KeyConditionExpression": text}),
        ("Query", {**query, "FilterExpression": text}),
        ("Query", {**query, "ProjectionExpression": text}),
        ("BatchGetItem", {"RequestItems": {PAIRS: {"Keys": [KEY], "ProjectionExpression": text}}}),
        ("TransactGetItems", transaction("Get", Key=KEY, ProjectionExpression=text)),
        ("TransactWriteItems", transaction("Put", Item=KEY, **condition)),
        ("TransactWriteItems", transaction("Delete", Key=KEY, **condition)),
        ("TransactWriteItems", transaction("ConditionCheck", Key=KEY, **condition)),
        ("TransactWriteItems", transaction("Update", Key=KEY, UpdateExpression=text)),
        ("ExecuteStatement", {"Statement": text}),
        ("ExecuteStatement", {"Statement": f"SELECT * FROM {PAIRS} WHERE {text}"}),
        ("ExecuteTransaction", {"TransactStatements": [{"Statement": text}]}),
        ("ExecuteStatement", {"Statement": f"SELECT * FROM {PAIRS}", "NextToken": text}),
        (
            "Scan",
            {**table, "FilterExpression": "a = :v", "ExpressionAttributeValues": {text: N(1)}},
        ),
        ("Scan", {**table, "FilterExpression": "#a = p", "ExpressionAttributeNames": {text: "a"}}),
        ("GetItem", {**table, "Key": {text: S("x")}}),
        ("GetItem", {"TableName": text, "Key": KEY}),
        ("Scan", {**table, "IndexName": text}),
        ("Scan", {**table, "Select": text}),
        ("Scan", {**table, "ExclusiveStartKey": {text: S("x")}}),
        ("Query", {**table, "KeyConditions": {text: equal}}),
        ("Query", {**table, "KeyConditions": {"p": {**equal, "ComparisonOperator": text}}}),
        ("TransactWriteItems", {**transaction("Put", Item=KEY), "ClientRequestToken": text}),
    ]


@pytest.mark.parametrize("name", TEXTS)
def test_texts(database: Database, name: str) -> None:
    for operation, request in places_of_text(TEXTS[name]):
        check_refused(database, operation, request)


NUMERALS = {
    "large exponent": "1e999999999",
    "small exponent": "1e-999999999",
    "zero with an exponent": "0e999999999",
    "digits": "9" * 1_000_000,
    "exponent of digits": "1e" + "9" * 1_000_000,
    "fraction": "0." + "0" * 1_000_000 + "1",
    "signs": "-" * 1_000_000,
    "points": "." * 1_000_000,
    "other digits": "\u0663",
    "underscore": "1_000",
    "hexadecimal": "0x1",
    "infinity": "Infinity",
    "line": "1\n",
}


def places_of_value(value: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    pairs, numbers = {"TableName": PAIRS}, {"TableName": NUMBERS}
    key = {"p": S("x"), "s": value}
    equal = {"ComparisonOperator": "EQ", "AttributeValueList": [value]}
    item = {**KEY, "a": value}
    given = {"ExpressionAttributeValues": {":v": value}}
    here = {"ComparisonOperator": "EQ", "AttributeValueList": [S("x")]}
    return [
        ("PutItem", {**pairs, "Item": item}),
        ("PutItem", {**numbers, "Item": key}),
        ("GetItem", {**numbers, "Key": key}),
        ("UpdateItem", {**pairs, "Key": KEY, "UpdateExpression": "SET a = :v", **given}),
        ("UpdateItem", {**pairs, "Key": KEY, "AttributeUpdates": {"a": {"Value": value}}}),
        ("PutItem", {**pairs, "Item": KEY, "Expected": {"a": {"Value": value}}}),
        ("PutItem", {**pairs, "Item": KEY, "Expected": {"a": equal}}),
        ("Scan", {**numbers, "ExclusiveStartKey": key}),
        ("Scan", {**numbers, "FilterExpression": "a = :v", **given}),
        ("Scan", {**numbers, "ScanFilter": {"a": equal}}),
        ("Query", {**numbers, "KeyConditionExpression": "p = :v", **given}),
        ("Query", {**numbers, "KeyConditions": {"p": here, "s": equal}}),
        ("BatchWriteItem", {"RequestItems": {PAIRS: [{"PutRequest": {"Item": item}}]}}),
        ("BatchGetItem", {"RequestItems": {NUMBERS: {"Keys": [key]}}}),
        ("TransactWriteItems", transaction("Put", Item=item)),
        ("TransactGetItems", {"TransactItems": [{"Get": {**numbers, "Key": key}}]}),
        (
            "ExecuteStatement",
            {"Statement": "SELECT * FROM pairs WHERE a = ?", "Parameters": [value]},
        ),
    ]


@pytest.mark.parametrize("name", NUMERALS)
def test_numbers(database: Database, name: str) -> None:
    number = {"N": NUMERALS[name]}
    for value in (number, {"NS": [NUMERALS[name]]}, {"L": [number]}, {"M": {"a": number}}):
        for operation, request in places_of_value(value):
            check_refused(database, operation, request)


def test_over_http(database: Database) -> None:
    """The same through sockets and buffers: megabytes of nothing that could be a request."""
    deep = b'{"TableName":"pairs","Item":' + b'{"a":{"L":[' * 100_000
    text = json.dumps(dict(places_of_text("(" * 4_000_000))["Scan"]).encode()
    bodies = [deep, b"[" * 4_000_000, text, b'{"TableName":' + b"9" * 4_000_000 + b"}"]
    with ServerThread(database) as server:
        for body in bodies:
            request = urllib.request.Request(server.url, body)
            request.add_header("Content-Type", "application/x-amz-json-1.0")
            request.add_header("X-Amz-Target", "DynamoDB_20120810.Scan")
            request.add_header("Authorization", "AWS4-HMAC-SHA256 Credential=x")
            started = time.perf_counter()
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(request, timeout=30)
            assert caught.value.code == 400
            assert time.perf_counter() - started < LONGEST_SECONDS
