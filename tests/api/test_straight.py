"""The straight way answers as the long way does, and leaves to it what it is not sure of."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dynalsm.api import OPERATIONS, straight
from dynalsm.values import JSON, NATIVE, WIRE, Form
from tests.support.store import BLOBS, INDEXED, NUMBERS, PAIRS, SIMPLE, B, N, S, Store, table

WAYS = {"GetItem": straight.get_item, "Query": straight.query}


def long_way(store: Store, operation: str, request: Any, form: Form = WIRE) -> Any:
    entry = OPERATIONS[operation]
    straight_way, entry.straight = entry.straight, None
    try:
        return store.database.call(operation, request, form)
    finally:
        entry.straight = straight_way


def outcome(run: Any, *arguments: Any) -> Any:
    """A reply, or what an error says."""
    try:
        reply = run(*arguments)
    except Exception as error:
        return type(error), str(error)
    return orjson.loads(orjson.dumps(reply)) if arguments[-1] is JSON else reply


def both(store: Store, operation: str, is_straight: bool, form: Form = WIRE, **request: Any) -> Any:
    """Go both ways and compare; returns the outcome."""
    expected = outcome(long_way, store, operation, request, form)
    assert outcome(store.database.call, operation, request, form) == expected
    taken = WAYS[operation](store.database, request, form)
    assert (taken is not None) is is_straight
    return expected


@pytest.fixture(scope="module")
def numbers(store: Store) -> dict[str, Any]:
    """A partition of NUMBERS with sort keys 0..49, m = s modulo 3."""
    p = store.key()
    for number in range(50):
        store.put(NUMBERS, p=p, s=N(number), m=N(number % 3), t=S("x" * number))
    return p


def request_of(p: Any, **more: Any) -> dict[str, Any]:
    given = more.pop("values", {})
    return {
        "TableName": NUMBERS,
        "KeyConditionExpression": "p = :p AND s BETWEEN :low AND :high",
        "FilterExpression": "m = :m",
        "ExpressionAttributeValues": {":p": p, ":low": N(3), ":high": N(40), ":m": N(1), **given},
        **more,
    }


def planned(store: Store, p: Any, **more: Any) -> dict[str, Any]:
    """A request that there is a plan for."""
    request = request_of(p, **more)
    store("Query", **request)
    return request


# --- GetItem ---------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [WIRE, JSON, NATIVE], ids=["wire", "json", "native"])
def test_get_item(store: Store, form: Form) -> None:
    p = store.key()
    store.put(PAIRS, p=p, s=S("a"), l={"L": [N(1), {"M": {"x": {"NULL": True}}}]}, d=S("text"))
    text = p["S"]
    for s, has_item in (("a", True), ("b", False)):
        key: Any = {"p": S(text), "s": S(s)} if form is not NATIVE else {"p": text, "s": s}
        reply = both(store, "GetItem", True, form, TableName=PAIRS, Key=key)
        assert ("Item" in reply) is has_item
        for consistent in (True, False):
            both(store, "GetItem", True, form, TableName=PAIRS, Key=key, ConsistentRead=consistent)


def test_get_item_of_other_keys(store: Store) -> None:
    store.put(SIMPLE, p=S("only"), a=N(1))
    both(store, "GetItem", True, TableName=SIMPLE, Key={"p": S("only")})
    p = store.put(BLOBS, p=B(b"\x00\xff"), s=B(b"x"))
    both(store, "GetItem", True, TableName=BLOBS, Key=p)
    # Members that are None are no members; somebody else counts them.
    both(store, "GetItem", False, TableName=BLOBS, Key=p, ProjectionExpression=None)


@pytest.mark.parametrize(
    "change",
    [
        {"TableName": "missing"},
        {"TableName": "x"},
        {"TableName": 5},
        {"TableName": None},
        {"Key": None},
        {"Key": []},
        {"Key": {}},
        {"Key": {"p": S("a")}},
        {"Key": {"p": S("a"), "s": S("b"), "t": S("c")}},
        {"Key": {"p": S("a"), "s": N(1)}},
        {"Key": {"p": S(""), "s": S("b")}},
        {"Key": {"p": S("x" * 2049), "s": S("b")}},
        {"Key": {"p": S("a"), "s": S("b" * 1025)}},
        {"Key": {"p": S("a"), "s": {"S": "b", "N": "1"}}},
        {"Key": {"p": S("a"), "s": {}}},
        {"Key": {"p": S("a"), "s": {"N": "1e999"}}},
        {"Key": {"p": S("a"), "s": "b"}},
        {"Key": {"p": S("a"), "s": S("\ud800")}},
        {"ConsistentRead": "true"},
        {"ConsistentRead": 1},
        {"ProjectionExpression": "a"},
        {"AttributesToGet": ["a"]},
        {"ReturnConsumedCapacity": "TOTAL"},
        {"ExpressionAttributeNames": {"#a": "a"}},
        {"Unknown": 1},
    ],
)
def test_get_item_takes_the_long_way(store: Store, change: dict[str, Any]) -> None:
    request = {"TableName": PAIRS, "Key": {"p": S("a"), "s": S("b")}, **change}
    both(store, "GetItem", False, **request)


# --- Query -----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [WIRE, JSON, NATIVE], ids=["wire", "json", "native"])
def test_query(store: Store, numbers: Any, form: Form) -> None:
    given: Any = {":p": numbers, ":low": N(3), ":high": N(40), ":m": N(1)}
    if form is NATIVE:
        given = {":p": numbers["S"], ":low": 3, ":high": Decimal("40"), ":m": 1}
    request = request_of(numbers, ExpressionAttributeValues=given)
    store.database.call("Query", request, form)
    reply = both(store, "Query", True, form, **request)
    assert (reply["Count"], reply["ScannedCount"]) == (13, 38)
    for more in (
        {"Limit": 5},
        {"ScanIndexForward": False, "Limit": 7},
        {"ScanIndexForward": True},
        {"ConsistentRead": True},
        {"ConsistentRead": False, "Limit": 38},
    ):
        both(store, "Query", True, form, **{**request, **more})
    both(store, "Query", False, form, **{**request, "Limit": 1000, "IndexName": None})


@pytest.mark.parametrize(
    "condition",
    [
        "p = :p",
        "p = :p AND s = :v",
        "s = :v AND p = :p",
        "p = :p AND s < :v",
        ":v > s AND p = :p",
        "p = :p AND s <= :v",
        "p = :p AND s > :v",
        "p = :p AND s >= :v",
        "p = :p AND s BETWEEN :v AND :w",
        "(p = :p) AND (s BETWEEN :v AND :v)",
    ],
)
def test_every_key_condition(store: Store, numbers: Any, condition: str) -> None:
    for low, high in ((3, 9), (0, 0), (49, 60), (-5, 100)):
        given = {":p": numbers, ":v": N(low), ":w": N(high)}
        request: dict[str, Any] = {
            "TableName": NUMBERS,
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": {k: v for k, v in given.items() if k in condition},
        }
        store("Query", **request)
        both(store, "Query", True, **request)
        both(store, "Query", True, **request, Limit=2, ScanIndexForward=False)


def test_begins_with_and_names(store: Store) -> None:
    p = store.key()
    for s in ("a", "ab", "abc", "b"):
        store.put(PAIRS, p=p, s=S(s), size=N(len(s)))
    request: dict[str, Any] = {
        "TableName": PAIRS,
        "KeyConditionExpression": "#p = :p AND begins_with(#s, :s)",
        "FilterExpression": "#size > :n AND attribute_type(#size, :t) AND size(:s) < :n",
        "ExpressionAttributeNames": {"#p": "p", "#s": "s", "#size": "size"},
        "ExpressionAttributeValues": {":p": p, ":s": S("a"), ":n": N(2), ":t": S("N")},
    }
    for _ in range(2):
        assert store("Query", **request)["Count"] == 1
    both(store, "Query", True, **request)
    # Other names are another plan, as are the same with other meanings.
    names = {"#p": "p", "#s": "s", "#size": "other"}
    changed = {**request, "ExpressionAttributeNames": names}
    store("Query", **changed)
    assert both(store, "Query", True, **changed)["Count"] == 0
    both(store, "Query", False, **{**request, "ExpressionAttributeNames": {**names, "#x": "y"}})
    bad = {**request["ExpressionAttributeValues"], ":t": S("NOTYPE")}
    both(store, "Query", False, **{**request, "ExpressionAttributeValues": bad})


def test_indexes(store: Store) -> None:
    p, g = store.key(), store.key()
    for number in range(6):
        store.put(
            INDEXED, p=p, s=S(f"s{number}"), l=S(f"l{number}"), k=N(number), g=g, h=N(number % 3)
        )
    for name, condition, some in (
        ("by-l", "p = :p AND begins_with(l, :v)", {":p": p, ":v": S("l")}),
        ("by-k", "p = :p AND k > :v", {":p": p, ":v": N(2)}),
        ("by-g", "g = :p", {":p": g}),
        ("by-gh", "g = :p AND h = :v", {":p": g, ":v": N(1)}),
    ):
        request: dict[str, Any] = {
            "TableName": INDEXED,
            "IndexName": name,
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": some,
        }
        store("Query", **request)
        assert both(store, "Query", True, **request)["Count"] > 0
        assert "LastEvaluatedKey" in both(store, "Query", True, **request, Limit=1)
        is_local = name in ("by-l", "by-k")
        both(store, "Query", is_local, **request, ConsistentRead=True)
        both(store, "Query", False, **{**request, "IndexName": "missing"})
        both(store, "Query", False, **{**request, "IndexName": 5})


# With a plan there, what must not be answered by it.
@pytest.mark.parametrize(
    "change",
    [
        {"values": {":p": N(1)}},
        {"values": {":p": S("")}},
        {"values": {":p": S("x" * 2049)}},
        {"values": {":low": S("1")}},
        {"values": {":low": N(41)}},
        {"values": {":high": {"BOOL": True}}},
        {"values": {":low": {"N": "x"}}},
        {"values": {":low": {}}},
        {"values": {":low": "1"}},
        {"values": {":extra": N(1)}},
        {"ExpressionAttributeValues": {}},
        {"ExpressionAttributeValues": None},
        {"ExpressionAttributeValues": []},
        {"ExpressionAttributeValues": {":p": S("a"), ":low": N(1), ":high": N(2)}},
        {"ExpressionAttributeValues": {":p": S("a"), ":low": N(1), ":high": N(2), ":x": N(1)}},
        {"ExpressionAttributeNames": {"#a": "a"}},
        {"ExpressionAttributeNames": {}},
        {"FilterExpression": ""},
        {"FilterExpression": 5},
        {"FilterExpression": "p = :m"},
        {"KeyConditionExpression": None},
        {"KeyConditionExpression": 7},
        {"TableName": "missing"},
        {"Limit": 0},
        {"Limit": True},
        {"Limit": "1"},
        {"Limit": 1 << 40},
        {"ScanIndexForward": "false"},
        {"ConsistentRead": 1},
        {"Select": "COUNT"},
        {"ProjectionExpression": "t"},
        {"ReturnConsumedCapacity": "TOTAL"},
        {"ExclusiveStartKey": {"p": S("a"), "s": N(5)}},
        {"KeyConditions": {}},
    ],
)
def test_query_takes_the_long_way(store: Store, numbers: Any, change: dict[str, Any]) -> None:
    planned(store, numbers)
    both(store, "Query", False, **request_of(numbers, **change))


def test_sort_keys_that_are_too_long_or_empty(store: Store) -> None:
    p = store.key()
    request: dict[str, Any] = {
        "TableName": PAIRS,
        "KeyConditionExpression": "p = :p AND s > :s",
    }
    good = {":p": p, ":s": S("x")}
    store("Query", **request, ExpressionAttributeValues=good)
    both(store, "Query", True, **request, ExpressionAttributeValues=good)
    for s in ("", "x" * 1025):
        both(store, "Query", False, **request, ExpressionAttributeValues={":p": p, ":s": S(s)})


def test_native_values_that_are_refused(store: Store, numbers: Any) -> None:
    request = request_of(numbers)
    for bad in (1.5, object(), {1, "a"}, set()):
        given = {":p": numbers["S"], ":low": 3, ":high": 4, ":m": bad}
        both(store, "Query", False, NATIVE, **{**request, "ExpressionAttributeValues": given})


def test_requests_that_are_no_plain_dicts(store: Store, numbers: Any) -> None:
    class Own(dict[str, Any]):
        pass

    request = Own(planned(store, numbers))
    assert straight.query(store.database, request, WIRE) is None
    assert store.database.call("Query", request)["Count"] == 13
    key = Own({"TableName": NUMBERS, "Key": {"p": numbers, "s": N(3)}})
    assert straight.get_item(store.database, key, WIRE) is None
    assert store.database.call("GetItem", key)["Item"]["m"] == N(0)


def test_many_values_and_odd_filters_make_no_plan(store: Store, numbers: Any) -> None:
    options = {f":v{i}": N(i) for i in range(40)}
    text = f"m IN ({', '.join(options)})"
    many = request_of(numbers, FilterExpression=text)
    many["ExpressionAttributeValues"] = {**options, ":p": numbers, ":low": N(1), ":high": N(4)}
    store("Query", **many)
    both(store, "Query", False, **many)


def test_plans_end_with_the_table_they_were_made_for(store: Store) -> None:
    definition = table("planned", "p s", "p:S s:N")
    given = {":p": S("a"), ":s": N(1)}
    request: dict[str, Any] = {
        "TableName": "planned",
        "KeyConditionExpression": "p = :p AND s > :s",
        "ExpressionAttributeValues": given,
    }
    for _ in range(2):
        store("CreateTable", **definition)
        store.put("planned", p=S("a"), s=N(2))
        assert straight.query(store.database, request, WIRE) is None
        store("Query", **request)
        both(store, "Query", True, **request)
        store("DeleteTable", TableName="planned")
        both(store, "Query", False, **request)
    definition = table("planned", "p t", "p:S t:N")
    store("CreateTable", **definition)
    both(store, "Query", False, **request)
    store("DeleteTable", TableName="planned")


def test_a_handle_keeps_a_bounded_number_of_plans(store: Store, numbers: Any) -> None:
    handle = store.database.catalog.get(NUMBERS)
    assert handle is not None
    for number in range(300):
        store("Query", **request_of(numbers, FilterExpression=f"m = :m AND x{number} <> :m"))
    assert 0 < len(handle.plans) <= 256


numbers_and_texts = st.one_of(
    st.integers(-3, 60).map(N), st.sampled_from(["", "a", "x"]).map(S), st.just({"BOOL": True})
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    low=numbers_and_texts,
    high=numbers_and_texts,
    m=numbers_and_texts,
    limit=st.one_of(st.none(), st.integers(1, 60)),
    forward=st.booleans(),
)
def test_any_values(
    store: Store, numbers: Any, low: Any, high: Any, m: Any, limit: int | None, forward: bool
) -> None:
    planned(store, numbers)
    request = request_of(
        numbers, values={":low": low, ":high": high, ":m": m}, ScanIndexForward=forward
    )
    if limit is not None:
        request["Limit"] = limit
    expected = outcome(long_way, store, "Query", request, WIRE)
    assert outcome(store.database.call, "Query", request, WIRE) == expected


def test_at_a_snapshot(store: Store, numbers: Any) -> None:
    request = planned(store, numbers)
    with store.database.snapshot() as then:
        store.put(NUMBERS, p=numbers, s=N("3.5"), m=N(1))
        for _ in range(2):
            assert then.call("Query", request)["Count"] == 13
        assert straight.query(then, request, WIRE) == then.call("Query", request)
        key = {"TableName": NUMBERS, "Key": {"p": numbers, "s": N("3.5")}}
        assert straight.get_item(then, key, WIRE) == {}
    assert store("Query", **request)["Count"] == 14
    store("DeleteItem", TableName=NUMBERS, Key={"p": numbers, "s": N("3.5")})


@pytest.mark.parametrize(
    "more",
    [
        {"ExpressionAttributeNames": {"#a": ["list"]}},
        {"ExpressionAttributeNames": {"#a": {}}},
        {"IndexName": ["list"]},
    ],
)
def test_names_of_a_wrong_type(store: Store, numbers: Any, more: dict[str, Any]) -> None:
    """They cannot even be looked up among the plans."""
    both(store, "Query", False, **request_of(numbers, **more))
