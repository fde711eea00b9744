"""TransactWriteItems: validation, atomicity, cancellation reasons, client tokens."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from dynalsm.model import writes as writes_module
from tests.support.databases import memory_database
from tests.support.store import INDEXED, NUMBERS, PAIRS, SIMPLE, N, S, Store

CANCELED = "TransactionCanceledException"
FAILED = {"Code": "ConditionalCheckFailed", "Message": "The conditional request failed"}
FINE = {"Code": "None"}


def put(name: str, condition: str | None = None, **item: Any) -> dict[str, Any]:
    more = {} if condition is None else {"ConditionExpression": condition}
    return {"Put": {"TableName": name, "Item": item, **more}}


def check(name: str, condition: str, **key: Any) -> dict[str, Any]:
    return {"ConditionCheck": {"TableName": name, "Key": key, "ConditionExpression": condition}}


def delete(name: str, **key: Any) -> dict[str, Any]:
    return {"Delete": {"TableName": name, "Key": key}}


def update(name: str, key: Any, expression: str, **more: Any) -> dict[str, Any]:
    return {"Update": {"TableName": name, "Key": key, "UpdateExpression": expression, **more}}


def run(store: Store, *actions: Any, **more: Any) -> dict[str, Any]:
    return store("TransactWriteItems", TransactItems=list(actions), **more)


def reasons(store: Store, *actions: Any) -> list[dict[str, Any]]:
    error = store.refused("TransactWriteItems", CANCELED, TransactItems=list(actions))
    found: list[dict[str, Any]] = error.response["CancellationReasons"]
    codes = ", ".join(reason["Code"] for reason in found)
    assert error.message == (
        f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]"
    )
    return found


def refused(store: Store, *actions: Any, code: str = "ValidationException") -> str:
    return store.refused("TransactWriteItems", code, TransactItems=list(actions)).message


# Errors of the request.


def test_number_of_actions(store: Store) -> None:
    assert "ransactItems" in refused(store)
    many = [put(SIMPLE, p=S(str(number))) for number in range(101)]
    assert "less than or equal to 100" in refused(store, *many)


def test_exactly_one_action_each(store: Store) -> None:
    p = S("x")
    text = "TransactItems can only contain one of Check, Put, Update or Delete"
    assert refused(store, {}) == text
    assert refused(store, {**put(SIMPLE, p=p), **delete(SIMPLE, p=p)}) == text


def test_check_needs_a_condition(store: Store) -> None:
    action = {"ConditionCheck": {"TableName": SIMPLE, "Key": {"p": S("x")}}}
    assert "onditionExpression" in refused(store, action)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"ConditionExpression": "hello!"}, "Syntax error"),
        ({"ConditionExpression": "attribute_exists(#xyz)"}, "#xyz"),
        ({"ConditionExpression": "p = :xyz"}, ":xyz"),
        (
            {"ConditionExpression": "attribute_exists(p)", "ExpressionAttributeNames": {"#x": "x"}},
            "unused in expressions: keys: {#x}",
        ),
        (
            {
                "ConditionExpression": "attribute_exists(p)",
                "ExpressionAttributeValues": {":x": N(7)},
            },
            "unused in expressions: keys: {:x}",
        ),
        ({"ReturnValuesOnConditionCheckFailure": "dog"}, "eturnValuesOnConditionCheckFailure"),
    ],
)
def test_bad_expressions_are_errors_of_the_request(
    store: Store, more: dict[str, Any], text: str
) -> None:
    action = put(SIMPLE, p=S("x"))
    action["Put"].update(more)
    assert text in refused(store, put(SIMPLE, p=S("y")), action)


def test_same_item_twice(store: Store) -> None:
    text = "Transaction request cannot include multiple operations on one item"
    p = store.key()
    assert refused(store, put(SIMPLE, p=p), put(SIMPLE, p=p, a=N(1))) == text
    assert refused(store, delete(SIMPLE, p=p), check(SIMPLE, "attribute_exists(p)", p=p)) == text
    one, two = {"p": p, "s": N("1")}, {"p": p, "s": N("1.0")}
    assert refused(store, put(NUMBERS, **one), delete(NUMBERS, **two)) == text
    run(store, put(SIMPLE, p=p), put(PAIRS, p=p, s=S("x")), put(PAIRS, p=p, s=S("y")))


def test_order_of_checks(store: Store) -> None:
    """Expressions, then duplicates, then tables, then the actions against their tables."""
    twice = [put(SIMPLE, p=S("x")), put(SIMPLE, p=S("x"))]
    nowhere = put("nowhere", p=S("x"))
    bad_key = put(SIMPLE, p=N(1))
    assert "Syntax error" in refused(store, *twice, put(SIMPLE, "!", p=S("y")))
    assert "multiple operations" in refused(store, nowhere, bad_key, *twice)
    assert refused(store, bad_key, nowhere, code="ResourceNotFoundException") == (
        "Requested resource not found"
    )


def test_empty_keys_and_large_items_are_errors_of_the_request(store: Store) -> None:
    good = put(SIMPLE, p=store.key())
    assert "empty string value. Key: p" in refused(store, good, put(SIMPLE, p=S("")))
    assert "empty string value. Key: p" in refused(store, good, delete(SIMPLE, p=S("")))
    large = put(SIMPLE, p=S("x"), a=S("y" * 409_600))
    assert refused(store, good, large) == "Item size has exceeded the maximum allowed size"
    empty_index_key = put(INDEXED, p=S("x"), s=S("y"), g=S(""))
    assert "IndexName: by-g, IndexKey: g" in refused(store, good, empty_index_key)


def test_size_of_the_request_is_limited(store: Store) -> None:
    p = store.key()["S"]
    actions = [put(SIMPLE, p=S(f"{p} {number}"), a=S("x" * 100_000)) for number in range(42)]
    assert "size cannot exceed" in refused(store, *actions)
    run(store, *actions[:40])
    # What is deleted does not count.
    run(store, *[delete(SIMPLE, p=S(f"{p} {number}")) for number in range(40)])


# Behaviour.


def test_all_kinds_at_once(store: Store) -> None:
    a, b, c, d = (store.key() for _ in range(4))
    store.put(SIMPLE, p=b, n=N(1))
    store.put(SIMPLE, p=c)
    reply = run(
        store,
        put(SIMPLE, "attribute_not_exists(p)", p=a),
        update(SIMPLE, {"p": b}, "ADD n :n", ExpressionAttributeValues={":n": N(2)}),
        delete(SIMPLE, p=c),
        check(SIMPLE, "attribute_not_exists(p)", p=d),
        put(PAIRS, p=a, s=S("x")),
    )
    assert reply == {}
    assert [store.get(SIMPLE, p=p) for p in (a, b, c, d)] == [
        {"p": a},
        {"p": b, "n": N(3)},
        None,
        None,
    ]
    assert store.get(PAIRS, p=a, s=S("x")) is not None


def test_all_failed_conditions_are_reported_in_order(store: Store) -> None:
    keys = [store.key() for _ in range(4)]
    found = reasons(
        store,
        put(SIMPLE, p=keys[0]),
        put(SIMPLE, "attribute_not_exists(p)", p=keys[1]),
        check(SIMPLE, "attribute_exists(p)", p=keys[2]),
        put(SIMPLE, "attribute_exists(p)", p=keys[3]),
    )
    assert found == [FINE, FINE, FAILED, FAILED]
    assert all(store.get(SIMPLE, p=key) is None for key in keys)


def test_failed_condition_shows_the_item_on_request(store: Store) -> None:
    p = store.key()
    item = store.put(SIMPLE, p=p, x=N(42))
    action = update(
        SIMPLE,
        {"p": p},
        "SET x = x + :one",
        ConditionExpression="x = :y",
        ExpressionAttributeValues={":y": N(43), ":one": N(1)},
        ReturnValuesOnConditionCheckFailure="ALL_OLD",
    )
    assert reasons(store, action) == [{**FAILED, "Item": item}]
    action["Update"]["ReturnValuesOnConditionCheckFailure"] = "NONE"
    assert reasons(store, action) == [FAILED]


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (put(SIMPLE, p=N(7)), "Type mismatch for key p expected: S actual: N"),
        (put(PAIRS, p=S("x")), "Missing the key s in the item"),
        (delete(SIMPLE, p=N(7)), "The provided key element does not match the schema"),
        (
            put(INDEXED, p=S("x"), s=S("y"), g=N(1)),
            "Type mismatch for Index Key g Expected: S Actual: N IndexName: by-g",
        ),
        (update(SIMPLE, {"p": S("x")}, "REMOVE p"), "This attribute is part of the key"),
        (
            update(SIMPLE, {"p": S("nothing here")}, "SET a = b"),
            "refers to an attribute that does not exist in the item",
        ),
    ],
)
def test_bad_action_cancels(store: Store, action: Any, text: str) -> None:
    """Conditions are not looked at any more, so the false one is not reported."""
    p, q = store.key(), store.key()
    unmet = put(SIMPLE, "attribute_exists(p)", p=q)
    found = reasons(store, put(SIMPLE, p=p), action, unmet)
    assert [found[0], found[2]] == [FINE, FINE]
    assert found[1]["Code"] == "ValidationError"
    assert text in found[1]["Message"]
    assert store.get(SIMPLE, p=p) is None


def test_only_the_first_bad_action_is_reported(store: Store) -> None:
    found = reasons(store, put(SIMPLE, p=N(7)), put(SIMPLE, p=N(8)))
    assert [reason["Code"] for reason in found] == ["ValidationError", "None"]


def test_update_that_grows_too_large_cancels(store: Store) -> None:
    p = store.key()
    store.put(SIMPLE, p=p, a=S("x" * 300_000))
    action = update(
        SIMPLE, {"p": p}, "SET b = :b", ExpressionAttributeValues={":b": S("y" * 200_000)}
    )
    [reason] = reasons(store, action)
    assert reason == {
        "Code": "ValidationError",
        "Message": "Item size to update has exceeded the maximum allowed size",
    }


def test_units(store: Store) -> None:
    a, b, c = (store.key() for _ in range(3))
    store.put(SIMPLE, p=b, a=S("x" * 2900))
    reply = run(
        store,
        put(INDEXED, p=a, s=S("x"), l=S("l")),
        delete(SIMPLE, p=b),
        check(SIMPLE, "attribute_not_exists(p)", p=c),
        ReturnConsumedCapacity="INDEXES",
        ReturnItemCollectionMetrics="SIZE",
    )
    one, two = reply["ConsumedCapacity"]
    assert one["TableName"] == INDEXED
    assert one["Table"] == {"CapacityUnits": 2.0, "WriteCapacityUnits": 2.0}
    assert one["LocalSecondaryIndexes"]["by-l"]["CapacityUnits"] == 1.0
    assert one["CapacityUnits"] == one["WriteCapacityUnits"] == 3.0
    assert two["CapacityUnits"] == 6.0 + 2.0
    assert [key["ItemCollectionKey"] for key in reply["ItemCollectionMetrics"][INDEXED]] == [
        {"p": a}
    ]


# Client tokens.


def counter(p: Any) -> dict[str, Any]:
    return update(SIMPLE, {"p": p}, "ADD x :one", ExpressionAttributeValues={":one": N(1)})


def test_same_token_runs_once(store: Store) -> None:
    p = store.key()
    for _ in range(2):
        reply = run(store, counter(p), ClientRequestToken=p["S"], ReturnConsumedCapacity="TOTAL")
    assert store.get(SIMPLE, p=p) == {"p": p, "x": N(1)}
    # The second reply speaks of reads.
    assert reply["ConsumedCapacity"] == [
        {"TableName": SIMPLE, "CapacityUnits": 2.0, "ReadCapacityUnits": 2.0}
    ]
    run(store, counter(p), ClientRequestToken="another" + p["S"])
    assert store.get(SIMPLE, p=p) == {"p": p, "x": N(2)}


def test_token_with_another_request(store: Store) -> None:
    p = store.key()
    run(store, counter(p), ClientRequestToken=p["S"])
    for other in (put(SIMPLE, p=p), counter(store.key())):
        store.refused(
            "TransactWriteItems",
            "IdempotentParameterMismatchException",
            TransactItems=[other],
            ClientRequestToken=p["S"],
        )


def test_length_of_a_token(store: Store) -> None:
    run(store, counter(store.key()), ClientRequestToken="x" * 36)
    error = store.refused(
        "TransactWriteItems", TransactItems=[counter(S("x"))], ClientRequestToken="y" * 37
    )
    assert "lientRequestToken" in error.message


def test_cancelled_transaction_frees_its_token(store: Store) -> None:
    p = store.key()
    action = put(SIMPLE, "attribute_exists(p)", p=p)
    for _ in range(2):
        store.refused(
            "TransactWriteItems", CANCELED, TransactItems=[action], ClientRequestToken=p["S"]
        )
    store.put(SIMPLE, p=p)
    run(store, action, ClientRequestToken=p["S"])


def test_token_expires_after_ten_minutes() -> None:
    now = [1000.0]
    store = Store(memory_database(clock=lambda: now[0]))
    p = store.key()
    run(store, counter(p), ClientRequestToken="token")
    now[0] += 599
    run(store, counter(p), ClientRequestToken="token")
    assert store.get(SIMPLE, p=p) == {"p": p, "x": N(1)}
    now[0] += 1
    run(store, counter(p), ClientRequestToken="token")
    assert store.get(SIMPLE, p=p) == {"p": p, "x": N(2)}
    # Expired records go as others come.
    now[0] += 600
    for number in range(3):
        run(store, counter(p), ClientRequestToken=f"other {number}")
    tree = store.database.catalog.tree
    assert len(list(tree.cursor(b"token\0", b"token\1"))) == 3


def test_running_token_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a transaction runs, the same request with its token is told so."""
    p = store.key()
    request = {"TransactItems": [counter(p)], "ClientRequestToken": p["S"]}
    original = store.database.writes.run_all

    def run_all(*arguments: Any, **more: Any) -> int:
        monkeypatch.undo()
        store.refused("TransactWriteItems", "TransactionInProgressException", **request)
        return original(*arguments, **more)

    monkeypatch.setattr(store.database.writes, "run_all", run_all)
    store("TransactWriteItems", **request)
    assert store.get(SIMPLE, p=p) == {"p": p, "x": N(1)}


def test_conflict_after_waiting(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another transaction holds the item for too long."""
    p = store.key()
    monkeypatch.setattr("dynalsm.api.transactions.CONFLICT_SECONDS", 0.01)
    assert writes_module.CONFLICT_SECONDS > 1
    tree_key = store.database.catalog.get(SIMPLE).keys.encode  # type: ignore[union-attr]
    from dynalsm.values import WIRE

    key = tree_key(WIRE.encode_item({"p": p}))
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with store.database.writes.locked([key]):
            held.set()
            done.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    [reason] = reasons(store, put(SIMPLE, p=p))
    done.set()
    thread.join()
    assert reason == {
        "Code": "TransactionConflict",
        "Message": "Transaction is ongoing for the item",
    }
