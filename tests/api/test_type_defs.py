"""The types of requests and replies: as botocore's model has them, as replies are, as mypy sees."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dynalsm import type_defs
from dynalsm.api import _generate_types, shapes
from dynalsm.api._generate_shapes import load_models
from dynalsm.api.registry import OPERATIONS
from dynalsm.api.shapes import snake_case
from dynalsm.client import DynamoDBClient, StreamsClient
from dynalsm.database import Database
from tests.support.databases import memory_database
from tests.support.store import INDEXED, PAIRS, N, S, Store

ROOT = Path(__file__).resolve().parents[2]


def classes_of(text: str) -> dict[str, dict[str, str]]:
    """Return class -> member -> annotation, and class -> method -> signature, of a module."""
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            members = {}
            for part in node.body:
                if isinstance(part, ast.AnnAssign):
                    members[ast.unparse(part.target)] = ast.unparse(part.annotation)
                elif isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                    members[part.name] = (
                        f"({ast.unparse(part.args)}) -> {ast.unparse(part.returns)}"  # type: ignore[arg-type]
                    )
            found[node.name] = members
    return found


OURS = classes_of(Path(type_defs.__file__).read_text())


def test_the_module_is_what_the_installed_model_says() -> None:
    """Or says more, where the model it was made of is the newer one."""
    pytest.importorskip("botocore")
    for name, members in classes_of(_generate_types.render(load_models(None))).items():
        mine = OURS[name]
        for member, hint in members.items():
            assert mine[member].removeprefix("NotRequired[").rstrip("]") == (
                hint.removeprefix("NotRequired[").rstrip("]")
            ), (name, member)


def test_every_operation_has_its_method() -> None:
    for name in OPERATIONS:
        owner = "DynamoDBMethods" if hasattr(DynamoDBClient, snake_case(name)) else "StreamsMethods"
        signature = OURS[owner][snake_case(name)]
        assert signature == OURS[f"Async{owner}"][snake_case(name)]
        request = signature.partition("Unpack[")[2].partition("]")[0]
        assert set(OURS[request]) == set(shapes.input_of(name).members)
        assert hasattr(DynamoDBClient, snake_case(name)) != hasattr(StreamsClient, snake_case(name))


def fits(value: Any, hint: Any, where: str) -> list[str]:
    """Return what is wrong with a value by its type hint."""
    origin, given = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return []
    if origin is typing.NotRequired:
        return fits(value, given[0], where)
    if origin in (typing.Union, types.UnionType):
        found = [fits(value, one, where) for one in given]
        return [] if [] in found else found[0]
    if origin is typing.Literal:
        return [] if value in given else [f"{where}: {value!r} is none of {given}"]
    if typing.is_typeddict(hint):
        members = typing.get_type_hints(hint, include_extras=True)
        unknown = [f"{where}: unknown {name}" for name in value if name not in members]
        missing = [
            f"{where}: no {name}"
            for name, inner in members.items()
            # A reply may lack what was not asked for.
            if where and name not in value and typing.get_origin(inner) is not typing.NotRequired
        ]
        deeper = [
            problem
            for name in value
            if name in members
            for problem in fits(value[name], members[name], f"{where}.{name}")
        ]
        return unknown + missing + deeper
    if isinstance(value, Mapping):
        if origin not in (dict, Mapping):
            return [f"{where}: a mapping"]
        return [p for name in value for p in fits(value[name], given[1], f"{where}.{name}")]
    if isinstance(value, list):
        return [p for one in value for p in fits(one, given[0], f"{where}[]")] if given else []
    kinds = (int, float) if hint is float else hint
    return [] if isinstance(value, kinds) else [f"{where}: {value!r} is no {hint}"]


ASKED = {"ReturnConsumedCapacity": "INDEXES"}
KEY = {"p": S("types"), "s": S("1")}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("put_item", {"TableName": INDEXED, "Item": {**KEY, "l": S("l"), "g": S("g"), "h": N(1)},
                  "ReturnItemCollectionMetrics": "SIZE", "ReturnValues": "ALL_OLD", **ASKED}),
    ("get_item", {"TableName": INDEXED, "Key": KEY, **ASKED}),
    ("get_item", {"TableName": INDEXED, "Key": {**KEY, "s": S("none")}}),
    ("update_item", {"TableName": INDEXED, "Key": KEY, "UpdateExpression": "SET a = p",
                     "ReturnValues": "ALL_NEW", **ASKED}),
    ("query", {"TableName": INDEXED, "IndexName": "by-g", "KeyConditionExpression": "g = :g",
               "ExpressionAttributeValues": {":g": S("g")}, **ASKED}),
    ("scan", {"TableName": PAIRS, "Limit": 1, **ASKED}),
    ("batch_get_item", {"RequestItems": {INDEXED: {"Keys": [KEY]}}, **ASKED}),
    ("batch_write_item", {"RequestItems": {PAIRS: [{"PutRequest": {"Item": KEY}}]}, **ASKED}),
    ("transact_get_items", {"TransactItems": [{"Get": {"TableName": PAIRS, "Key": KEY}}], **ASKED}),
    ("transact_write_items", {"TransactItems": [{"Put": {"TableName": PAIRS, "Item": KEY}}],
                              **ASKED}),
    ("execute_statement", {"Statement": f"SELECT * FROM {PAIRS}", **ASKED}),
    ("batch_execute_statement", {"Statements": [
        {"Statement": f"SELECT * FROM {PAIRS} WHERE p='x' AND s='y'"},
        {"Statement": "SELECT * FROM nowhere WHERE p='x' AND s='y'"}], **ASKED}),
    ("describe_table", {"TableName": INDEXED}),
    ("update_table", {"TableName": PAIRS, "StreamSpecification": {
        "StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}}),
    ("list_tables", {}),
    ("describe_limits", {}),
    ("describe_endpoints", {}),
    ("describe_time_to_live", {"TableName": PAIRS}),
    ("update_time_to_live", {"TableName": PAIRS, "TimeToLiveSpecification": {
        "Enabled": True, "AttributeName": "until"}}),
    ("describe_continuous_backups", {"TableName": PAIRS}),
    ("list_backups", {}),
    ("delete_item", {"TableName": INDEXED, "Key": KEY, "ReturnValues": "ALL_OLD", **ASKED}),
]  # fmt: skip


@pytest.fixture(scope="module")
def database() -> typing.Iterator[Database]:
    with memory_database() as database:
        Store(database)
        yield database


@pytest.mark.parametrize(
    ("method", "request_"), CALLS, ids=lambda one: one if isinstance(one, str) else ""
)
def test_replies_are_of_their_types(database: Database, method: str, request_: Any) -> None:
    signature = OURS["DynamoDBMethods"][method]
    asks = getattr(type_defs, signature.partition("Unpack[")[2].partition("]")[0])
    answers = getattr(type_defs, signature.rpartition("-> ")[2])
    assert fits(request_, asks, "") == []
    assert fits(getattr(database.client, method)(**request_), answers, "") == []


def mypy(tmp_path: Path, text: str) -> list[str]:
    """Return the lines that mypy finds fault with, as "line: message"."""
    program = tmp_path / "program.py"
    program.write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-color-output", "--no-error-summary"]
    result = subprocess.run(
        [*command, "--hide-error-context", "--follow-imports=silent", str(program)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode in (0, 1), result.stdout + result.stderr
    lines = [line for line in result.stdout.splitlines() if ": error: " in line]
    return [line.partition("program.py:")[2] for line in lines]


PROGRAM = """
import dynalsm
from dynalsm.type_defs import AttributeValueTypeDef, GetItemOutputTypeDef, WriteRequestTypeDef

key: dict[str, AttributeValueTypeDef] = {"p": {"S": "x"}}
with dynalsm.open("somewhere") as db:
    db.client.put_item(TableName="t", Item={"p": {"S": "x"}, "n": {"N": "1"}, "b": {"B": b""}})
    reply: GetItemOutputTypeDef = db.client.get_item(TableName="t", Key=key)
    text: str = reply["Item"]["p"]["S"]
    writes: list[WriteRequestTypeDef] = [{"PutRequest": {"Item": key}}]
    unprocessed = db.client.batch_write_item(RequestItems={"t": writes})["UnprocessedItems"]
    db.client.batch_write_item(RequestItems=unprocessed)
    count: int = db.client.query(TableName="t", KeyConditionExpression="p = :p")["Count"]
    records = db.streams.get_records(ShardIterator="x")["Records"]
    db.client.put_item(TableName="t")  # no Item
    db.client.put_item(TableName="t", Item=key, Itme=key)
    db.client.put_item(TableName="t", Item={"p": "x"})
    db.client.scan(TableName="t", Limit="5")
    db.client.scan(TableName="t", Select="EVERYTHING")
    wrong: int = db.client.describe_table(TableName="t")["Table"]["TableName"]
    db.client.frobnicate()
"""


def test_mypy_knows_requests_and_replies(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    found = mypy(tmp_path, PROGRAM)
    first = PROGRAM.splitlines().index('    db.client.put_item(TableName="t")  # no Item') + 1
    assert [int(line.partition(":")[0]) for line in found] == list(range(first, first + 7)), found


THEIRS = """
import dynalsm
from mypy_boto3_dynamodb.type_defs import (
    AttributeValueTypeDef, BatchGetItemOutputTypeDef, DescribeTableOutputTypeDef,
    GetItemOutputTypeDef, QueryOutputTypeDef, TransactWriteItemsOutputTypeDef,
    TableDescriptionTypeDef,
    AttributeDefinitionTypeDef, KeySchemaElementTypeDef, UpdateItemOutputTypeDef,
)

key: dict[str, AttributeValueTypeDef] = {"p": {"S": "x"}}
definitions: list[AttributeDefinitionTypeDef] = [{"AttributeName": "p", "AttributeType": "S"}]
schema: list[KeySchemaElementTypeDef] = [{"AttributeName": "p", "KeyType": "HASH"}]
with dynalsm.open("somewhere") as db:
    client = db.client
    client.create_table(TableName="t", AttributeDefinitions=definitions, KeySchema=schema)
    one: GetItemOutputTypeDef = client.get_item(TableName="t", Key=key)
    found: QueryOutputTypeDef = client.query(TableName="t", ExclusiveStartKey=key)
    batch: BatchGetItemOutputTypeDef = client.batch_get_item(RequestItems={"t": {"Keys": [key]}})
    client.batch_get_item(RequestItems=batch["UnprocessedKeys"])
    table: TableDescriptionTypeDef = client.describe_table(TableName="t")["Table"]
    whole: DescribeTableOutputTypeDef = client.describe_table(TableName="t")
    changed: UpdateItemOutputTypeDef = client.update_item(TableName="t", Key=key)
    done: TransactWriteItemsOutputTypeDef = client.transact_write_items(
        TransactItems=[{"Delete": {"TableName": "t", "Key": key}}]
    )
"""


def test_programs_with_boto3s_types_check_against_our_client(tmp_path: Path) -> None:
    if importlib.util.find_spec("mypy_boto3_dynamodb") is None:
        pytest.skip("needs mypy-boto3-dynamodb")
    assert mypy(tmp_path, THEIRS) == []
