"""BatchExecuteStatement and ExecuteTransaction."""

from __future__ import annotations

from typing import Any

from tests.support.store import NUMBERS, SIMPLE, N, Store

FAILED = {"Code": "ConditionalCheckFailed", "Message": "The conditional request failed"}
DUPLICATE = {"Code": "DuplicateItem", "Message": "Duplicate primary key exists in table"}


def members(*statements: Any) -> list[dict[str, Any]]:
    return [
        {"Statement": text, **({"Parameters": given} if given else {})}
        for text, *given in statements
    ]


def batch(store: Store, *statements: Any, **more: Any) -> dict[str, Any]:
    return store("BatchExecuteStatement", Statements=members(*statements), **more)


def transact(store: Store, *statements: Any, **more: Any) -> dict[str, Any]:
    return store("ExecuteTransaction", TransactStatements=members(*statements), **more)


def refused(store: Store, *statements: Any) -> str:
    return store.refused("ExecuteTransaction", TransactStatements=members(*statements)).message


# Batches.


def test_batch_is_reads_or_writes(store: Store) -> None:
    error = store.refused(
        "BatchExecuteStatement",
        Statements=members(
            ("SELECT * FROM simple WHERE p = 'x'",), ("DELETE FROM simple WHERE p = 'y'",)
        ),
    )
    assert "does not support both read and write operations" in error.message


def test_batch_names_no_item_twice(store: Store) -> None:
    p = store.key()
    error = store.refused(
        "BatchExecuteStatement",
        Statements=members(
            ("INSERT INTO simple VALUE {'p': ?}", p), ("UPDATE simple SET a = 1 WHERE p = ?", p)
        ),
    )
    assert "duplicates" in error.message
    assert store.get(SIMPLE, p=p) is None


def test_batch_of_reads(store: Store) -> None:
    p = store.key()
    item = store.put(NUMBERS, p=p, s=N(1), a=N(7))
    reply = batch(
        store,
        ("SELECT * FROM numbers WHERE p = ? AND s = 1", p),
        ("SELECT a FROM numbers WHERE s = 2 AND p = ?", p),
        ("SELECT * FROM numbers WHERE p = ?", p),
        ("SELECT * FROM nix WHERE p = ?", p),
        ("SELEKT",),
        ReturnConsumedCapacity="TOTAL",
    )
    found, missing, vague, unknown, unreadable = reply["Responses"]
    assert found == {"TableName": NUMBERS, "Item": item}
    assert missing == {"TableName": NUMBERS}
    assert vague["Error"]["Message"] == (
        "Select statements within BatchExecuteStatement must specify the primary key in the "
        "where clause."
    )
    assert unknown["Error"]["Code"] == "ResourceNotFound"
    assert unreadable["Error"]["Code"] == "ValidationError"
    assert not any("TableName" in failed for failed in (vague, unknown, unreadable))
    assert reply["ConsumedCapacity"] == [{"TableName": NUMBERS, "CapacityUnits": 1.0}]


def test_batch_of_writes_is_independent(store: Store) -> None:
    new, old, gone = store.key(), store.key(), store.key()
    store.put(SIMPLE, p=old, n=N(1))
    reply = batch(
        store,
        ("INSERT INTO simple VALUE {'p': ?}", new),
        ("INSERT INTO simple VALUE {'p': ?}", old),
        ("UPDATE simple SET a = 1 WHERE p = ?", gone),
        ReturnConsumedCapacity="TOTAL",
    )
    assert reply["Responses"] == [
        {"TableName": SIMPLE},
        {"TableName": SIMPLE, "Error": DUPLICATE},
        {"TableName": SIMPLE, "Error": FAILED},
    ]
    # What failed is charged the write it attempted.
    assert reply["ConsumedCapacity"] == [{"TableName": SIMPLE, "CapacityUnits": 3.0}]
    assert store.get(SIMPLE, p=new) == {"p": new}


# Transactions.


def test_transaction_checks_its_members(store: Store) -> None:
    select = ("SELECT * FROM numbers WHERE p = 'x'",)
    delete = ("DELETE FROM simple WHERE p = 'y'",)
    assert "both read and write operations" in refused(store, select, delete)
    assert refused(store, delete, ("DELETE simple",)).startswith(
        "Validation failed in TransactStatements[1]: Statement wasn't well formed"
    )
    assert refused(store, select) == (
        "Validation failed in TransactStatements[0]: Select statements within ExecuteTransaction "
        "must specify the primary key in the where clause."
    )
    assert refused(store, ("EXISTS(SELECT * FROM simple WHERE p = 'x')",)) == (
        "Validation failed in TransactStatements[0]: EXISTS() must contain a single item read "
        "with additional condition"
    )
    returning = ("DELETE FROM simple WHERE p = 'y' RETURNING ALL OLD *",)
    assert refused(store, delete, returning) == (
        "Validation failed in TransactStatements[1]: RETURNING clause is not supported in "
        "ExecuteTransaction."
    )
    assert "multiple operations on one item" in refused(store, delete, delete)


def test_transaction_of_reads(store: Store) -> None:
    p = store.key()
    item = store.put(SIMPLE, p=p, a=N(1), b=N(2))
    reply = transact(
        store,
        ("SELECT b FROM simple WHERE p = ?", p),
        ("SELECT * FROM simple WHERE p = ?", store.key()),
        ReturnConsumedCapacity="TOTAL",
    )
    assert reply["Responses"] == [{"Item": {"b": item["b"]}}, {}]
    assert reply["ConsumedCapacity"] == [
        {"TableName": SIMPLE, "CapacityUnits": 4.0, "ReadCapacityUnits": 4.0}
    ]


def test_transaction_of_writes(store: Store) -> None:
    new, old, checked = store.key(), store.key(), store.key()
    store.put(SIMPLE, p=old, n=N(1))
    store.put(SIMPLE, p=checked, n=N(1))
    statements = [
        ("INSERT INTO simple VALUE {'p': ?}", new),
        ("UPDATE simple SET n = n + 1 WHERE p = ?", old),
        ("EXISTS(SELECT * FROM simple WHERE p = ? AND n = 1)", checked),
    ]
    for _ in range(2):
        reply = transact(store, *statements, ClientRequestToken=new["S"])
        assert reply == {"Responses": [{}, {}, {}]}
    assert store.get(SIMPLE, p=old) == {"p": old, "n": N(2)}
    assert store.get(SIMPLE, p=new) == {"p": new}


def test_transaction_is_cancelled_as_a_whole(store: Store) -> None:
    new, old, checked = store.key(), store.key(), store.key()
    store.put(SIMPLE, p=old, n=N(1))
    error = store.refused(
        "ExecuteTransaction",
        "TransactionCanceledException",
        TransactStatements=members(
            ("INSERT INTO simple VALUE {'p': ?}", new),
            ("INSERT INTO simple VALUE {'p': ?}", old),
            ("EXISTS(SELECT * FROM simple WHERE p = ? AND n = 1)", checked),
        ),
    )
    assert error.response["CancellationReasons"] == [{"Code": "None"}, DUPLICATE, FAILED]
    assert store.get(SIMPLE, p=new) is None
