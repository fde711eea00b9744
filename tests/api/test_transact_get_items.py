"""TransactGetItems: validation, order of replies, capacity."""

from __future__ import annotations

from typing import Any

from tests.support.store import PAIRS, SIMPLE, N, S, Store


def get(name: str, key: Any, **more: Any) -> dict[str, Any]:
    return {"Get": {"TableName": name, "Key": key, **more}}


def run(store: Store, *gets: Any, **more: Any) -> dict[str, Any]:
    return store("TransactGetItems", TransactItems=list(gets), **more)


def refused(store: Store, *gets: Any, code: str = "ValidationException") -> Any:
    return store.refused("TransactGetItems", code, TransactItems=list(gets))


def test_number_of_gets(store: Store) -> None:
    many = [get(SIMPLE, {"p": S(str(number))}) for number in range(101)]
    assert "less than or equal to 100" in refused(store, *many).message
    assert len(run(store, *many[:100])["Responses"]) == 100
    assert "ransactItems" in refused(store).message


def test_expressions_fail_the_request(store: Store) -> None:
    names = {"ExpressionAttributeNames": {"#x": "x", "#q": "q"}}
    bad = get(SIMPLE, {"p": S("x")}, ProjectionExpression="#x", **names)
    assert "unused in expressions: keys: {#q}" in refused(store, bad).message
    bad = get("nowhere", {"p": S("x")}, ProjectionExpression="#zz")
    assert "#zz" in refused(store, bad).message


def test_duplicates_and_tables(store: Store) -> None:
    one = get(SIMPLE, {"p": S("x")})
    assert "multiple operations on one item" in refused(store, one, one).message
    refused(store, one, get("nowhere", {"p": S("x")}), code="ResourceNotFoundException")


def test_bad_key_cancels(store: Store) -> None:
    error = refused(
        store,
        get(SIMPLE, {"p": S("x")}),
        get(SIMPLE, {"p": N(1)}),
        code="TransactionCanceledException",
    )
    assert error.response["CancellationReasons"] == [
        {"Code": "None"},
        {
            "Code": "ValidationError",
            "Message": "The provided key element does not match the schema",
        },
    ]


def test_replies_come_in_order(store: Store) -> None:
    p = store.key()
    one = store.put(SIMPLE, p=p, a=N(1), b=N(2))
    two = store.put(PAIRS, p=p, s=S("x"))
    reply = run(
        store,
        get(PAIRS, {"p": p, "s": S("x")}),
        get(SIMPLE, {"p": store.key()}),
        get(SIMPLE, {"p": p}, ProjectionExpression="#b", ExpressionAttributeNames={"#b": "b"}),
        ReturnConsumedCapacity="TOTAL",
    )
    assert reply["Responses"] == [{"Item": two}, {}, {"Item": {"b": one["b"]}}]
    assert reply["ConsumedCapacity"] == [
        {"TableName": PAIRS, "CapacityUnits": 2.0, "ReadCapacityUnits": 2.0},
        {"TableName": SIMPLE, "CapacityUnits": 4.0, "ReadCapacityUnits": 4.0},
    ]


def test_projection_without_match_has_no_item(store: Store) -> None:
    p = store.key()
    store.put(SIMPLE, p=p)
    reply = run(store, get(SIMPLE, {"p": p}, ProjectionExpression="zz"))
    assert reply == {"Responses": [{}]}
