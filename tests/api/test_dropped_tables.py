"""Operations that have found their table, or index, when another thread deletes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dynalsm
from dynalsm import errors
from dynalsm.database import Database
from tests.support.store import S

NOT_FOUND = "Requested resource not found"
TABLE: dict[str, Any] = {
    "TableName": "Music",
    "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}],
    "AttributeDefinitions": [
        {"AttributeName": "p", "AttributeType": "S"},
        {"AttributeName": "g", "AttributeType": "S"},
    ],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "by-g",
            "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}],
            "Projection": {"ProjectionType": "ALL"},
        }
    ],
    "BillingMode": "PAY_PER_REQUEST",
}
KEY = {"p": S("1")}
ITEM = KEY | {"g": S("x")}
NAMED = {"TableName": "Music"}
BY_P = {"KeyConditionExpression": "p = :v", "ExpressionAttributeValues": {":v": S("1")}}
BY_G = {
    "IndexName": "by-g",
    "KeyConditionExpression": "g = :v",
    "ExpressionAttributeValues": {":v": S("x")},
}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("GetItem", NAMED | {"Key": KEY}),
    ("GetItem", NAMED | {"Key": KEY, "ProjectionExpression": "g"}),
    ("BatchGetItem", {"RequestItems": {"Music": {"Keys": [KEY, {"p": S("2")}]}}}),
    ("Query", NAMED | BY_P),
    ("Query", NAMED | BY_G),
    ("Scan", NAMED),
    ("Scan", NAMED | {"IndexName": "by-g"}),
    ("TransactGetItems", {"TransactItems": [{"Get": NAMED | {"Key": KEY}}]}),
    ("PutItem", NAMED | {"Item": ITEM}),
    ("PutItem", NAMED | {"Item": ITEM, "ConditionExpression": "attribute_exists(p)"}),
    ("UpdateItem", NAMED | {"Key": KEY, "UpdateExpression": "REMOVE g"}),
    ("DeleteItem", NAMED | {"Key": KEY}),
    ("BatchWriteItem", {"RequestItems": {"Music": [{"PutRequest": {"Item": ITEM}}]}}),
    ("TransactWriteItems", {"TransactItems": [{"Put": NAMED | {"Item": ITEM}}]}),
    ("ExecuteStatement", {"Statement": "SELECT * FROM Music WHERE p = '1'"}),
    ("ExecuteStatement", {"Statement": "DELETE FROM Music WHERE p = '1'"}),
    (
        "ExecuteTransaction",
        {"TransactStatements": [{"Statement": "SELECT * FROM Music WHERE p = '1'"}]},
    ),
]


class LateCatalog:
    """Lets something happen after a table has been looked up, once."""

    def __init__(self, catalog: Any, happen: Callable[[], Any]) -> None:
        self._catalog = catalog
        self._happen: Callable[[], Any] | None = happen

    def get(self, name: str) -> Any:
        handle = self._catalog.get(name)
        happen, self._happen = self._happen, None
        if happen is not None:
            happen()
        return handle

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)


@pytest.fixture
def db(tmp_path: Path) -> Any:
    """A table whose items are in files that nobody has open."""
    with dynalsm.open(tmp_path / "one.db", durability="os") as database:
        database.call("CreateTable", TABLE)
        for number in range(3):
            database.call("PutItem", NAMED | {"Item": {"p": S(str(number)), "g": S("x")}})
        database.engine.flush()
    with dynalsm.open(tmp_path / "one.db", durability="os") as database:
        yield database


def during(
    monkeypatch: pytest.MonkeyPatch, db: Database, happen: Callable[[], Any], *call: Any
) -> Any:
    """Call while something else happens, behind the look-up of the table."""
    with monkeypatch.context() as patch:
        catalog = db.catalog

        def restored() -> None:
            patch.setattr(db, "catalog", catalog)  # what happens uses the true one
            happen()
            patch.setattr(db, "catalog", late)

        late = LateCatalog(catalog, restored)
        patch.setattr(db, "catalog", late)
        return db.call(*call)


def delete(db: Database) -> None:
    db.call("DeleteTable", NAMED)


@pytest.mark.parametrize(("operation", "request_"), CALLS, ids=lambda each: str(each)[:20])
@pytest.mark.parametrize("is_known", [False, True])
def test_the_table_goes(
    monkeypatch: pytest.MonkeyPatch, db: Database, operation: str, request_: Any, is_known: bool
) -> None:
    """No item is missing before its table is: not {} but ResourceNotFoundException.

    The second time round the request is known, and takes the straight way.
    """
    if is_known:
        for _ in range(2):
            db.call(operation, request_)
        db.call("PutItem", NAMED | {"Item": ITEM})
    with pytest.raises(errors.ResourceNotFoundException) as caught:
        during(monkeypatch, db, lambda: delete(db), operation, request_)
    assert (caught.value.message, caught.value.operation) == (NOT_FOUND, operation)
    assert db.call("ListTables", {})["TableNames"] == []


def test_a_batch_of_statements_says_it_of_each(
    monkeypatch: pytest.MonkeyPatch, db: Database
) -> None:
    statements = [{"Statement": f"SELECT * FROM Music WHERE p = '{n}'"} for n in range(2)]
    reply = during(
        monkeypatch, db, lambda: delete(db), "BatchExecuteStatement", {"Statements": statements}
    )
    for response in reply["Responses"]:
        assert response == {"Error": {"Code": "ResourceNotFound", "Message": NOT_FOUND}}


@pytest.mark.parametrize("operation", ["Query", "Scan"])
def test_the_index_goes(
    monkeypatch: pytest.MonkeyPatch, db: Database, operation: str
) -> None:
    gone = NAMED | {"GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": "by-g"}}]}
    asked = NAMED | BY_G if operation == "Query" else NAMED | {"IndexName": "by-g"}
    with pytest.raises(errors.ValidationException) as caught:
        during(monkeypatch, db, lambda: db.call("UpdateTable", gone), operation, asked)
    assert caught.value.message == "The table does not have the specified index: by-g"


def test_another_table_takes_its_place(monkeypatch: pytest.MonkeyPatch, db: Database) -> None:
    def again() -> None:
        delete(db)
        db.call("CreateTable", TABLE)
        db.call("PutItem", NAMED | {"Item": KEY | {"is": S("new")}})

    reply = during(monkeypatch, db, again, "GetItem", NAMED | {"Key": KEY})
    assert reply["Item"]["is"] == S("new")


def test_a_table_of_other_keys_takes_its_place(
    monkeypatch: pytest.MonkeyPatch, db: Database
) -> None:
    """What is wrong with the request for the new table is told as for any other."""
    other = {
        "TableName": "Music",
        "KeySchema": [{"AttributeName": "q", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "q", "AttributeType": "S"}],
        "BillingMode": "PAY_PER_REQUEST",
    }

    def again() -> None:
        delete(db)
        db.call("CreateTable", other)

    with pytest.raises(errors.ValidationException) as caught:
        during(monkeypatch, db, again, "GetItem", NAMED | {"Key": KEY})
    assert caught.value.message == "The provided key element does not match the schema"
    assert caught.value.operation == "GetItem"


def test_a_cursor_does_not_end_early(db: Database) -> None:
    """Who walks a tree by hand is told as well, in the middle of it and at its end."""
    tree = db.catalog.get("Music").tree
    with tree.cursor() as cursor:
        assert len(cursor.next_chunk(1)) == 1
        delete(db)
        with pytest.raises(errors.TreeDroppedError):
            while cursor.next_chunk(1):
                pass
    for read in (lambda: tree.get(b"k" * 20), lambda: tree.multi_get([b"k" * 20])):
        with pytest.raises(errors.TreeDroppedError):
            read()
    with pytest.raises(errors.TreeDroppedError):
        tree.put(b"k" * 20, b"v")
