"""Requests with JSON bodies, through the protocol without a network.

An input is JSON: {"operation", "request"}. The answer must be well-formed: status 200 with JSON, or
400 with a type of DynamoDB's; 500 only where the API says InternalServerError on purpose. What goes
wrong inside is logged, and so a fault.
"""

from __future__ import annotations

import base64
import json
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgpack

import dynalsm
from dynalsm import errors
from dynalsm.api.registry import OPERATIONS
from dynalsm.server.wire import CONTENT_TYPE, TARGETS, Reply, Request, Service
from tests.fuzz.expressions import WORDS, fitting
from tests.fuzz.loop import Fault, kind_of_text
from tests.fuzz.mutate import (
    LEAVES,
    NUMBERS,
    dump,
    load,
    mutate,
    mutate_text,
    mutate_tree,
    typed_item,
)
from tests.support.store import INDEXED, PAIRS, SIMPLE, N, S, Store, table
from tests.support.vectors import vector_index, vector_table

TARGET_OF = {name: target for target, name in TARGETS.items()}
STREAMED = "streamed"
KEY = {"p": S("a"), "s": S("s1")}
ITEM = {
    **KEY, "a": N(5), "b": {"L": [N(1), S("x")]}, "c": {"M": {"a": N(2)}}, "l": S("l1"), "k": N(3),
    "g": S("g1"), "h": N(7), "d": {"SS": ["x", "y"]},
}  # fmt: skip


class Requests:
    """What the targets below have in common: a small database and one request at a time."""

    name = ""
    may_log = False
    has_state = True

    def __init__(self, work: Path) -> None:
        self.work = work
        self.opened = 0
        self.open()

    def open(self) -> None:
        """A database with tables, items, indexes and a stream."""
        self.path = self.work / f"database-{self.opened}"
        self.opened += 1
        buckets = self.path.with_suffix(".buckets")
        (buckets / "in").mkdir(parents=True, exist_ok=True)
        (buckets / "in" / "x.json").write_text('{"Item":{"p":{"S":"imported"},"s":{"S":"1"}}}\n')
        self.database = dynalsm.open(
            self.path, durability="os", bucket_root=str(buckets), memory_bytes=32 << 20,
            clock=lambda: 1_700_000_000.0,
        )  # fmt: skip
        store = Store(self.database)
        stream = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
        store("CreateTable", **table(STREAMED, "p s", "p:S s:S", StreamSpecification=stream))
        store("CreateTable", **vector_table(vector_index("near")))
        for name in (PAIRS, INDEXED, STREAMED):
            for number in range(6):
                store.put(name, **{**ITEM, "p": S("ab"[number % 2]), "s": S(f"s{number}")})
        store.put(SIMPLE, p=S("a"), a=N(1))
        self.prepare(store)
        self.service = Service(self.database)

    def prepare(self, store: Store) -> None:
        """What a target needs beyond that."""

    # --- making inputs ------------------------------------------------------------------------

    def requests(self) -> list[tuple[str, dict[str, Any]]]:
        """Good requests."""
        raise NotImplementedError

    def seeds(self) -> list[bytes]:
        return [dump({"operation": name, "request": each}) for name, each in self.requests()]

    def make(self, rng: random.Random, kept: Sequence[bytes]) -> bytes:
        data = rng.choice(kept)
        whole = load(data)
        if not isinstance(whole, dict) or rng.random() < 0.02:
            return mutate(rng, data)
        for _ in range(rng.choice([1, 1, 2])):
            if rng.random() < 0.6:
                changed = self.change_special(rng, whole.get("request"))
                if changed is not None:
                    whole["request"] = changed
                    continue
            whole["request"] = mutate_tree(rng, whole.get("request"), LEAVES)
        return dump(whole)

    # Members whose text has a language of its own, and how that is changed.
    special: ClassVar[dict[str, Callable[[random.Random, str], str]]] = {}

    def change_special(self, rng: random.Random, tree: Any) -> Any:
        """Change one text that has a language of its own; None if there is none."""
        found: list[tuple[Any, Any]] = []
        collect(tree, self.special, found)
        if not found:
            return None
        holder, name = rng.choice(found)
        holder[name] = self.special[name](rng, holder[name])
        return tree

    # --- running them -------------------------------------------------------------------------

    def run(self, data: bytes) -> str:
        whole = load(data)
        if not isinstance(whole, dict) or whole.get("operation") not in OPERATIONS:
            return "no request"
        reply = self.send(whole["operation"], dump(whole.get("request")))
        return f"{whole['operation']}: {check_reply(reply)}"

    def send(self, operation: str, body: bytes) -> Reply:
        headers = {b"content-type": CONTENT_TYPE, b"x-amz-target": TARGET_OF[operation]}
        return self.service.answer(Request(b"POST", b"/", headers, body))

    def reset(self) -> None:
        self.close()
        self.open()

    def close(self) -> None:
        self.database.close()
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.rmtree(self.path.with_suffix(".buckets"), ignore_errors=True)


def check_reply(reply: Reply) -> str:
    """Return what a reply says. Raises: Fault when no client could understand it."""
    if reply.status == 200:
        if reply.body:
            json.loads(reply.body)
        return "done"
    fields = json.loads(reply.body)
    code = fields["__type"].partition("#")[2]
    if code not in errors.API_ERRORS or reply.status not in (400, 500):
        raise Fault(f"status {reply.status}: {reply.body!r}")
    text = fields.get("message", fields.get("Message")) or ""
    return f"{code} {kind_of_text(text)}"


def collect(tree: Any, wanted: dict[str, Any], found: list[tuple[Any, Any]]) -> None:
    """Note the (holder, name) of members with a name that is wanted, as long as they are texts."""
    if isinstance(tree, dict):
        for name, value in tree.items():
            if name in wanted and isinstance(value, str):
                found.append((tree, name))
            collect(value, wanted, found)
    elif isinstance(tree, list):
        for value in tree[:50]:
            collect(value, wanted, found)


# --------------------------------------------------------------------------------------- PartiQL

STATEMENT_WORDS = [
    *WORDS, "SELECT", "FROM", "WHERE", "INSERT", "INTO", "VALUE", "UPDATE", "RETURNING", "ALL",
    "OLD", "NEW", "MODIFIED", "EXISTS", "IS", "MISSING", "NULL", "ORDER BY", "DESC", "?", "'a'",
    '"pairs"', "pairs", '"indexed"."by-g"', "*", "<<", ">>", "{", "}", "'p'", "1", "-1.5e3",
    "true", "list_append", "set_add", "set_delete", "--", "/*", "*/", ";", "''", "LIKE", "p = ?",
]  # fmt: skip


def change_statement(rng: random.Random, text: str) -> str:
    return mutate_text(rng, text, STATEMENT_WORDS)


class PartiQL(Requests):
    """Statements: one, in batches, in transactions."""

    name = "partiql"
    special: ClassVar = {"Statement": change_statement}

    def requests(self) -> list[tuple[str, dict[str, Any]]]:
        statements: list[tuple[str, list[Any]]] = [
            ("SELECT * FROM pairs", []),
            ("SELECT a, c.a, b[0] FROM pairs WHERE p = ? AND s BETWEEN ? AND ?",
             [S("a"), S("s0"), S("s9")]),
            ("SELECT * FROM indexed.\"by-g\" WHERE g = 'g1' AND a > 1 OR NOT a IN [1, 2, 3]", []),
            ("SELECT p FROM \"indexed\".\"by-l\" WHERE p = 'a' AND begins_with(l, 'l')", []),
            ("SELECT * FROM pairs WHERE p IN ['a', 'b'] ORDER BY s DESC", []),
            ("SELECT * FROM pairs WHERE attribute_type(a, 'N') AND size(d) > 1 AND x IS MISSING",
             []),
            ("INSERT INTO pairs VALUE {'p': 'n', 's': 'x', 'l': [1, {'a': <<'x', 'y'>>}], 'n': ?}",
             [N("1.5")]),
            ("UPDATE pairs SET a = a + 1 SET b = list_append(b, [1]) REMOVE c.a "
             "WHERE p = 'a' AND s = 's0' RETURNING ALL NEW *", []),
            ("UPDATE pairs SET d = set_add(d, <<'z'>>) WHERE p = 'a' AND s = 's0' AND a > 0", []),
            ("UPDATE pairs SET x = if_not_exists(x, ?) WHERE p='a' AND s='s2'", [S("v")]),
            ("DELETE FROM pairs WHERE p = 'b' AND s = 's1' RETURNING ALL OLD *", []),
            ("EXISTS(SELECT * FROM pairs WHERE p = 'a' AND s = 's0')", []),
        ]  # fmt: skip
        whole: list[tuple[str, dict[str, Any]]] = []
        for text, given in statements:
            member = {"Statement": text, **({"Parameters": given} if given else {})}
            whole.append(("ExecuteStatement", {**member, "Limit": 3}))
            whole.append(("BatchExecuteStatement", {"Statements": [member, member]}))
            whole.append(("ExecuteTransaction", {"TransactStatements": [member]}))
        return whole


# ---------------------------------------------------------------------------- legacy parameters


class Legacy(Requests):
    """Expected, AttributeUpdates, KeyConditions, QueryFilter, ScanFilter, AttributesToGet."""

    name = "legacy"
    operators = (
        "EQ NE IN LE LT GE GT BETWEEN NOT_NULL NULL CONTAINS NOT_CONTAINS BEGINS_WITH".split()
    )

    def condition(self, rng: random.Random) -> dict[str, Any]:
        operator = rng.choice(self.operators)
        count = {"BETWEEN": 2, "NULL": 0, "NOT_NULL": 0, "IN": rng.randrange(1, 4)}.get(operator, 1)
        listed = [fitting(rng) for _ in range(count)]
        return {"ComparisonOperator": operator, "AttributeValueList": listed}

    def expected(self, rng: random.Random) -> dict[str, Any]:
        way = rng.randrange(4)
        if way == 0:
            return {"Value": fitting(rng), "Exists": True}
        if way == 1:
            return {"Exists": False}
        return {"Value": fitting(rng)} if way == 2 else self.condition(rng)

    def fresh(self, rng: random.Random) -> tuple[str, dict[str, Any]]:
        names = rng.sample(["a", "b", "c", "d", "l", "x"], rng.choice([1, 1, 2, 3]))
        keyed = {"TableName": rng.choice([PAIRS, INDEXED]), "Key": KEY}
        more: dict[str, Any] = {}
        if rng.random() < 0.3:
            more["ConditionalOperator"] = rng.choice(["AND", "OR"])
        expected = {name: self.expected(rng) for name in names}
        filtered = {name: self.condition(rng) for name in names}
        updates = {
            name: {"Action": rng.choice(["PUT", "ADD", "DELETE"]), "Value": fitting(rng)}
            for name in names
        }
        sort = rng.choice([
            {"ComparisonOperator": "BEGINS_WITH", "AttributeValueList": [S("s")]},
            {"ComparisonOperator": "BETWEEN", "AttributeValueList": [S("s0"), S("s9")]},
            {"ComparisonOperator": "LT", "AttributeValueList": [S("s3")]},
        ])  # fmt: skip
        keys = {"p": {"ComparisonOperator": "EQ", "AttributeValueList": [S("a")]}, "s": sort}
        table_name = {"TableName": keyed["TableName"]}
        item = {**KEY, **typed_item(rng), **KEY}
        return rng.choice([
            ("PutItem", {**table_name, "Item": item, "Expected": expected, **more}),
            ("DeleteItem", {**keyed, "Expected": expected, "ReturnValues": "ALL_OLD", **more}),
            ("UpdateItem", {**keyed, "AttributeUpdates": updates, "ReturnValues": "UPDATED_NEW"}),
            ("UpdateItem", {**keyed, "AttributeUpdates": updates, "Expected": expected, **more}),
            ("Query", {**table_name, "KeyConditions": keys, "QueryFilter": filtered, **more}),
            ("Query", {**table_name, "KeyConditions": keys, "AttributesToGet": names}),
            ("Scan", {**table_name, "ScanFilter": filtered, **more, "Limit": 3}),
            ("Scan", {**table_name, "AttributesToGet": names}),
            ("GetItem", {**keyed, "AttributesToGet": names}),
            ("BatchGetItem", {"RequestItems": {PAIRS: {"Keys": [KEY], "AttributesToGet": names}}}),
        ])  # fmt: skip

    def requests(self) -> list[tuple[str, dict[str, Any]]]:
        rng = random.Random(7)
        return [self.fresh(rng) for _ in range(100)]

    def make(self, rng: random.Random, kept: Sequence[bytes]) -> bytes:
        if rng.random() < 0.3:
            operation, request = self.fresh(rng)
            return dump({"operation": operation, "request": request})
        return super().make(rng, kept)


# ---------------------------------------------------------------------------------------- tokens

PACKED_LEAVES = [*LEAVES, float("nan"), float("inf"), -1, b"", b"\xff" * 12, *NUMBERS]


def change_token(rng: random.Random, text: str) -> str:
    """Change a token: its characters, its bytes, or the msgpack value in it."""
    head, mark, body = text.rpartition("|")
    if rng.random() < 0.2:
        return mutate(rng, text.encode(errors="surrogatepass")).decode(errors="replace")
    try:
        packed = base64.urlsafe_b64decode(body)
        for skipped in (0, 12):
            try:
                tree = mutate_tree(rng, msgpack.unpackb(packed[skipped:]), PACKED_LEAVES)
                changed = packed[:skipped] + msgpack.packb(tree)
                break
            except (ValueError, msgpack.UnpackException):
                changed = mutate(rng, packed)
    except (ValueError, OverflowError, TypeError, RecursionError):
        changed = rng.randbytes(rng.randrange(40))
    return head + mark + base64.urlsafe_b64encode(changed).decode()


class Tokens(Requests):
    """Stream iterators, NextToken, ExclusiveStart..., LastEvaluatedKey, client tokens."""

    name = "tokens"
    special: ClassVar = {
        "ShardIterator": change_token, "NextToken": change_token, "StreamArn": change_token,
        "ShardId": change_token, "ExclusiveStartShardId": change_token,
        "SequenceNumber": change_token, "ExclusiveStartStreamArn": change_token,
        "ClientRequestToken": change_token, "ExclusiveStartTableName": change_token,
        "ExclusiveStartBackupArn": change_token,
    }  # fmt: skip

    def prepare(self, store: Store) -> None:
        self.store = store

    def requests(self) -> list[tuple[str, dict[str, Any]]]:
        store = self.store
        arn = store("ListStreams", TableName=STREAMED)["Streams"][0]["StreamArn"]
        place: dict[str, Any] = {}
        iterators: list[str] = []
        for shard in store("DescribeStream", StreamArn=arn)["StreamDescription"]["Shards"]:
            place = {"StreamArn": arn, "ShardId": shard["ShardId"]}
            iterators = [
                store("GetShardIterator", **place, ShardIteratorType=kind)["ShardIterator"]
                for kind in ("TRIM_HORIZON", "LATEST")
            ]
            records = store("GetRecords", ShardIterator=iterators[0], Limit=1)
            iterators.append(records["NextShardIterator"])
            if records["Records"]:
                break
        sequence = records["Records"][0]["dynamodb"]["SequenceNumber"]
        after = {**place, "ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": sequence}
        whole: list[tuple[str, dict[str, Any]]] = [
            *(("GetRecords", {"ShardIterator": each, "Limit": 2}) for each in iterators),
            ("GetShardIterator", after),
            ("GetShardIterator", {**place, "ShardIteratorType": "AT_TIMESTAMP", "Timestamp": 1}),
            ("DescribeStream", {"StreamArn": arn, "ExclusiveStartShardId": place["ShardId"]}),
            ("ListStreams", {"ExclusiveStartStreamArn": arn, "Limit": 1}),
            ("ListTables", {"ExclusiveStartTableName": PAIRS, "Limit": 2}),
            ("ListBackups", {"ExclusiveStartBackupArn": f"{arn.partition('/stream')[0]}/backup/x"}),
        ]
        whole += self.pages(store)
        transaction = [{"Put": {"TableName": PAIRS, "Item": KEY}}]
        token = {"ClientRequestToken": "token", "TransactItems": transaction}
        return [*whole, ("TransactWriteItems", token)]

    def pages(self, store: Store) -> list[tuple[str, dict[str, Any]]]:
        """Reads that go on behind a first page."""
        whole: list[tuple[str, dict[str, Any]]] = []
        statement = {"Statement": "SELECT * FROM pairs WHERE p = 'a'", "Limit": 1}
        token = store("ExecuteStatement", **statement)["NextToken"]
        whole.append(("ExecuteStatement", {**statement, "NextToken": token}))
        query = {
            "KeyConditionExpression": "p = :v", "ExpressionAttributeValues": {":v": S("a")},
        }  # fmt: skip
        global_query = {**query, "KeyConditionExpression": "g = :v"}
        global_query["ExpressionAttributeValues"] = {":v": S("g1")}
        reads: list[tuple[str, dict[str, Any]]] = [
            ("Query", {"TableName": PAIRS, **query}),
            ("Query", {"TableName": INDEXED, "IndexName": "by-l", **query}),
            ("Query", {"TableName": INDEXED, "IndexName": "by-gh", **global_query}),
            ("Query", {"TableName": PAIRS, **query, "ScanIndexForward": False}),
            ("Scan", {"TableName": INDEXED}),
            ("Scan", {"TableName": INDEXED, "IndexName": "by-g"}),
            ("Scan", {"TableName": PAIRS, "TotalSegments": 2, "Segment": 0}),
        ]
        for operation, request in reads:
            last = store(operation, **request, Limit=1).get("LastEvaluatedKey", KEY)
            whole.append((operation, {**request, "Limit": 2, "ExclusiveStartKey": last}))
        return whole
