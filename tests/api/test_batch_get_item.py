"""BatchGetItem: validation, behaviour, the size of a reply."""

from __future__ import annotations

from typing import Any

from tests.support.store import NUMBERS, PAIRS, SIMPLE, N, S, Store, table


def test_nothing_requested(store: Store) -> None:
    assert "equestItems" in store.refused("BatchGetItem", RequestItems={}).message


def test_too_many_keys(store: Store) -> None:
    keys = [{"p": S(str(number))} for number in range(101)]
    error = store.refused("BatchGetItem", RequestItems={SIMPLE: {"Keys": keys}})
    assert "Member must have length less than or equal to 100" in error.message
    pairs = [{"p": S(str(number)), "s": S("x")} for number in range(50)]
    request = {SIMPLE: {"Keys": keys[:51]}, PAIRS: {"Keys": pairs}}
    error = store.refused("BatchGetItem", RequestItems=request)
    assert error.message == "Too many items requested for the BatchGetItem call"


def test_duplicates(store: Store) -> None:
    keys = [{"p": S("x"), "s": N("1000")}, {"p": S("x"), "s": N("1000")}]
    error = store.refused("BatchGetItem", RequestItems={NUMBERS: {"Keys": keys}})
    assert error.message == "Provided list of item keys contains duplicates"


def test_one_number_spelt_twice_is_returned_once(store: Store) -> None:
    p = store.key()
    item = store.put(NUMBERS, p=p, s=N(1000))
    keys = [{"p": p, "s": N("1000")}, {"p": p, "s": N("1e3")}]
    reply = store("BatchGetItem", RequestItems={NUMBERS: {"Keys": keys}})
    assert reply["Responses"] == {NUMBERS: [item]}


def test_one_bad_table_or_key_fails_the_call(store: Store) -> None:
    good = {"Keys": [{"p": S("x")}]}
    store.refused(
        "BatchGetItem", "ResourceNotFoundException", RequestItems={SIMPLE: good, "nix": good}
    )
    error = store.refused(
        "BatchGetItem", RequestItems={SIMPLE: good, PAIRS: {"Keys": [{"p": S("x")}]}}
    )
    assert error.message == "The provided key element does not match the schema"


def test_mixing_counts_over_all_tables(store: Store) -> None:
    request = {
        SIMPLE: {"Keys": [{"p": S("x")}], "AttributesToGet": ["a"]},
        PAIRS: {"Keys": [{"p": S("x"), "s": S("y")}], "ProjectionExpression": "a"},
    }
    error = store.refused("BatchGetItem", RequestItems=request)
    assert "Can not use both expression and non-expression parameters" in error.message


def test_unused_names(store: Store) -> None:
    request = {
        SIMPLE: {
            "Keys": [{"p": S("x")}],
            "ProjectionExpression": "#a",
            "ExpressionAttributeNames": {"#a": "a", "#b": "b"},
        }
    }
    assert "keys: {#b}" in store.refused("BatchGetItem", RequestItems=request).message


def test_several_tables(store: Store) -> None:
    p = store.key()
    one = store.put(SIMPLE, p=p, a=N(1), b=N(2))
    pairs = [store.put(PAIRS, p=p, s=S(str(number)), a=N(number)) for number in range(3)]
    request = {
        SIMPLE: {"Keys": [{"p": p}], "ConsistentRead": True},
        PAIRS: {
            "Keys": [{"p": p, "s": S(str(number))} for number in range(5)],
            "ProjectionExpression": "#a",
            "ExpressionAttributeNames": {"#a": "a"},
        },
    }
    reply = store("BatchGetItem", RequestItems=request, ReturnConsumedCapacity="TOTAL")
    assert reply["Responses"] == {SIMPLE: [one], PAIRS: [{"a": pair["a"]} for pair in pairs]}
    assert reply["UnprocessedKeys"] == {}
    # Missing keys are charged; each item rounds up by itself.
    assert reply["ConsumedCapacity"] == [
        {"TableName": SIMPLE, "CapacityUnits": 1.0},
        {"TableName": PAIRS, "CapacityUnits": 2.5},
    ]


def test_table_without_hits_has_an_empty_list(store: Store) -> None:
    reply = store("BatchGetItem", RequestItems={SIMPLE: {"Keys": [{"p": store.key()}]}})
    assert reply == {"Responses": {SIMPLE: []}, "UnprocessedKeys": {}}


def test_reply_stops_before_sixteen_megabytes() -> None:
    """What is left keeps its projection and consistency."""
    store = Store()
    store("CreateTable", **table("big", "p", "p:N"))
    for number in range(45):
        store.put("big", p=N(number), a=S("x" * 400_000), b=N(number))
    wanted: dict[str, Any] = {
        "big": {
            "Keys": [{"p": N(number)} for number in range(45)],
            "ConsistentRead": True,
            "ProjectionExpression": "#b",
            "ExpressionAttributeNames": {"#b": "b"},
        }
    }
    reply = store("BatchGetItem", RequestItems=wanted)
    found = reply["Responses"]["big"]
    assert len(found) == 16 * 1024 * 1024 // 400_006
    left = reply["UnprocessedKeys"]["big"]
    assert left["Keys"] == wanted["big"]["Keys"][len(found) :]
    assert {**left, "Keys": None} == {**wanted["big"], "Keys": None}
    rest = store("BatchGetItem", RequestItems=reply["UnprocessedKeys"])
    assert [item["b"] for item in found + rest["Responses"]["big"]] == [N(n) for n in range(45)]
