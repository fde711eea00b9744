"""Writes that go straight do what the long way does, and leave to it what they are not sure of.

Every request runs on two databases with the same history; on one of them nothing goes straight.
Outcomes, items and index entries must be the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dynalsm import errors
from dynalsm.api import OPERATIONS, plans
from dynalsm.database import Database, open_path
from dynalsm.model.settings import Settings
from dynalsm.values import JSON, NATIVE, WIRE, Form
from tests.support.memory_engine import MemoryEngine
from tests.support.store import BLOBS, INDEXED, NUMBERS, PAIRS, SIMPLE, B, N, S, Store

NAMES = ("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems")


class Twins:
    """Two stores; `straight` may take the straight way, `long` may not."""

    def __init__(self, straight: Store, long: Store) -> None:
        self.straight = straight
        self.long = long
        self.taken: list[bool] = []  # whether each request of `straight` went straight

    def __call__(
        self, operation: str, is_straight: bool | None, form: Form = WIRE, **request: Any
    ) -> Any:
        """Run a request on both; returns the outcome. is_straight None: either will do."""
        entry = OPERATIONS[operation]
        entry.load()
        way = entry.straight
        assert way is not None
        entry.straight = None
        try:
            expected = outcome(self.long.database, operation, request, form)
        finally:
            entry.straight = way
        taken: list[bool] = []

        def watched(*arguments: Any) -> Any:
            taken.append(True)  # also when it raises: that is an answer
            reply = way(*arguments)
            if reply is None:
                taken.pop()
            return reply

        entry.straight = watched
        try:
            found = outcome(self.straight.database, operation, request, form)
        finally:
            entry.straight = way
        assert found == expected
        if is_straight is not None:
            assert bool(taken) is is_straight
        return found

    def check_same_items(self) -> None:
        for name in (SIMPLE, PAIRS, NUMBERS, BLOBS, INDEXED):
            assert contents(self.straight, name) == contents(self.long, name)
        for index in ("by-l", "by-k", "by-g", "by-gh"):
            assert contents(self.straight, INDEXED, IndexName=index) == contents(
                self.long, INDEXED, IndexName=index
            )
        for name in (SIMPLE, PAIRS, INDEXED):
            one, other = (store.database.catalog.get(name) for store in (self.straight, self.long))
            assert one is not None
            assert other is not None
            assert one.statistics.items == other.statistics.items
            assert one.statistics.bytes == other.statistics.bytes


def contents(store: Store, name: str, **more: Any) -> list[Any]:
    return sorted(store.all_pages("Scan", TableName=name, **more), key=repr)


def outcome(database: Database, operation: str, request: Any, form: Form) -> Any:
    """A reply, or what an error says."""
    try:
        reply = database.call(operation, request, form)
    except errors.ApiError as error:
        return type(error), str(error), plain(error.response, form)
    except Exception as error:
        return type(error), str(error)
    return plain(reply, form)


def plain(reply: Any, form: Form) -> Any:
    return orjson.loads(orjson.dumps(reply, default=str)) if form is JSON else reply


def database(path: Path | None, **more: Any) -> Database:
    if path is not None:
        return open_path(str(path), clock=lambda: 1.0e9, **more)
    return Database(MemoryEngine(), Settings(clock=lambda: 1.0e9, **more))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def twins() -> Iterator[Twins]:
    """On the engine of the tests; what they leave behind is compared at the end."""
    pair = Twins(Store(database(None)), Store(database(None)))
    yield pair
    pair.check_same_items()


P = S("one")
COUNT: dict[str, Any] = {
    "UpdateExpression": "SET n = n + :one",
    "ConditionExpression": "n < :limit",
    "ExpressionAttributeValues": {":one": N(1), ":limit": N(100)},
}


# --- one item ----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [WIRE, JSON, NATIVE], ids=["wire", "json", "native"])
def test_put_item(twins: Twins, form: Form) -> None:
    binary = "Ynl0ZXM=" if form is JSON else b"bytes"
    item: Any = {"p": S("put"), "s": S("x"), "n": N(5), "b": {"B": binary}, "m": {"M": {"a": N(1)}}}
    if form is NATIVE:
        item = {"p": "put", "s": "x", "n": 5, "b": b"bytes", "m": {"a": Decimal(1)}}
    assert twins("PutItem", True, form, TableName=PAIRS, Item=item) == {}
    assert twins("PutItem", True, form, TableName=PAIRS, Item=item, ReturnValues="NONE") == {}
    reply = twins("PutItem", True, form, TableName=PAIRS, Item=item, ReturnValues="ALL_OLD")
    assert reply["Attributes"]["n"] == item["n"]


def test_update_needs_a_plan_first(twins: Twins) -> None:
    twins("PutItem", True, TableName=SIMPLE, Item={"p": P, "n": N(1)})
    request = {"TableName": SIMPLE, "Key": {"p": P}, **COUNT}
    twins("UpdateItem", False, **request)
    twins("UpdateItem", True, **request)
    for returns in ("NONE", "ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"):
        twins("UpdateItem", True, ReturnValues=returns, **request)
    assert twins("UpdateItem", True, ReturnValues="ALL_NEW", **request)["Attributes"]["n"] == N(9)


def test_false_conditions(twins: Twins) -> None:
    key = {"p": S("false")}
    twins("PutItem", True, TableName=SIMPLE, Item={**key, "n": N(200)})
    request = {"TableName": SIMPLE, "Key": key, **COUNT}
    twins("UpdateItem", None, **request)  # it leaves a plan although it fails
    code, *_ = twins("UpdateItem", True, **request)
    assert code is errors.ConditionalCheckFailedException
    _, _, response = twins(
        "UpdateItem", True, ReturnValuesOnConditionCheckFailure="ALL_OLD", **request
    )
    assert response["Item"]["n"] == N(200)
    # There is no item, so nothing is less than the limit.
    code, *_ = twins("UpdateItem", True, **{**request, "Key": {"p": S("nobody")}})
    assert code is errors.ConditionalCheckFailedException


def test_conditions_of_put_and_delete(twins: Twins) -> None:
    """Both share the plan, since they ask the same."""
    key = {"p": S("shared"), "s": S("x")}
    ask = {
        "ConditionExpression": "attribute_not_exists(#p) OR n = :n",
        "ExpressionAttributeNames": {"#p": "p"},
        "ExpressionAttributeValues": {":n": N(1)},
    }
    assert twins("PutItem", False, TableName=PAIRS, Item={**key, "n": N(1)}, **ask) == {}
    assert twins("PutItem", True, TableName=PAIRS, Item={**key, "n": N(2)}, **ask) == {}
    code, *_ = twins("DeleteItem", True, TableName=PAIRS, Key=key, **ask)
    assert code is errors.ConditionalCheckFailedException
    ask["ExpressionAttributeValues"] = {":n": N(2)}
    assert twins("DeleteItem", True, TableName=PAIRS, Key=key, **ask) == {}
    assert twins("DeleteItem", True, TableName=PAIRS, Key=key) == {}


def test_what_an_item_makes_wrong(twins: Twins) -> None:
    """Errors of the item are raised on the straight way, in the same words."""
    key = {"p": S("wrong"), "s": S("x")}
    twins("PutItem", True, TableName=INDEXED, Item={**key, "n": S("text"), "k": N(1)})
    request = {
        "TableName": INDEXED,
        "Key": key,
        "UpdateExpression": "SET n = n + :v",
        "ExpressionAttributeValues": {":v": N(1)},
    }
    twins("UpdateItem", None, **request)
    other = {**request, "Key": {"p": S("wrong"), "s": S("y")}}
    twins("PutItem", True, TableName=INDEXED, Item={**other["Key"], "n": N(1)})
    twins("UpdateItem", None, **other)
    kind, text, _ = twins("UpdateItem", True, **request)
    assert kind is errors.ValidationException
    assert "incorrect data type" in text
    twins("UpdateItem", True, **{**request, "Key": {"p": S("wrong"), "s": S("z")}})
    big = {**request, "UpdateExpression": "SET n = :v"}
    twins("UpdateItem", False, **big)
    big["ExpressionAttributeValues"] = {":v": S("x" * 409_600)}
    kind, *_ = twins("UpdateItem", None, **big)
    assert kind is errors.ValidationException


def test_index_keys_in_updates(twins: Twins) -> None:
    """A value of a wrong type for an index key is refused before anything is looked at."""
    request = {
        "TableName": INDEXED,
        "Key": {"p": S("index"), "s": S("x")},
        "UpdateExpression": "SET g = :g, h = :h",
        "ExpressionAttributeValues": {":g": S("a"), ":h": N(1)},
    }
    twins("UpdateItem", False, **request)
    twins("UpdateItem", True, **request)
    for given_values in (
        {":g": N(1), ":h": N(1)},
        {":g": S("a"), ":h": S("1")},
        {":g": {"NULL": True}, ":h": N(1)},
    ):
        kind, *_ = twins(
            "UpdateItem", False, **{**request, "ExpressionAttributeValues": given_values}
        )
        assert kind is errors.ValidationException
    # An empty text is known to be wrong when the entry is made, on both ways.
    empty = {**request, "ExpressionAttributeValues": {":g": S(""), ":h": N(1)}}
    kind, *_ = twins("UpdateItem", True, **empty)
    assert kind is errors.ValidationException


@pytest.mark.parametrize(
    "changes",
    [
        {":one": S("1"), ":limit": N(100)},
        {":one": N(1), ":limit": {"BOOL": True}},
        {":one": N(1)},
        {":one": N(1), ":limit": N(1), ":more": N(1)},
        {":one": N(1), ":other": N(1)},
        {":one": N("1e200"), ":limit": N(1)},
        {":one": {}, ":limit": N(1)},
        {":one": 5, ":limit": N(1)},
        {},
    ],
)
def test_values_that_need_a_closer_look(twins: Twins, changes: dict[str, Any]) -> None:
    twins("PutItem", True, TableName=SIMPLE, Item={"p": P, "n": N(1)})
    request = {"TableName": SIMPLE, "Key": {"p": P}, **COUNT}
    twins("UpdateItem", None, **request)
    twins("UpdateItem", False, **{**request, "ExpressionAttributeValues": changes})


ITEM = {"p": S("closer"), "s": S("x")}


@pytest.mark.parametrize(
    "request_",
    [
        {"Item": ITEM, "ReturnValues": "ALL_NEW"},
        {"Item": ITEM, "ReturnValues": "SOMETHING"},
        {"Item": ITEM, "ReturnValues": ["NONE"]},
        {"Item": ITEM, "ReturnValuesOnConditionCheckFailure": "ALL_NEW"},
        {"Item": ITEM, "ReturnConsumedCapacity": "TOTAL"},
        {"Item": ITEM, "ReturnItemCollectionMetrics": "SIZE"},
        {"Item": ITEM, "Expected": {"p": {"Exists": False}}},
        {"Item": ITEM, "ConditionExpression": "attribute_exists("},
        {"Item": ITEM, "ConditionExpression": ["p"]},
        {"Item": ITEM, "ExpressionAttributeValues": {":v": N(1)}},
        {"Item": ITEM, "ExpressionAttributeNames": {"#v": "v"}},
        {"Item": {"p": S("closer")}},
        {"Item": {"p": S("closer"), "s": N(1)}},
        {"Item": {"p": S(""), "s": S("x")}},
        {"Item": {**ITEM, "a": {"S": "x", "N": "1"}}},
        {"Item": {**ITEM, "a": S("x" * 410_000)}},
        {"Item": {**ITEM, "": S("x")}},
        {"Item": [("p", S("x"))]},
        {"Item": None},
        {},
    ],
)
def test_puts_that_need_a_closer_look(twins: Twins, request_: dict[str, Any]) -> None:
    twins("PutItem", False, TableName=PAIRS, **request_)


@pytest.mark.parametrize(
    "request_",
    [
        {"Key": {"p": S("x")}},
        {"Key": {**ITEM, "a": N(1)}},
        {"Key": {"p": S("x"), "s": N(1)}},
        {"Key": ITEM, "ReturnValues": "ALL_NEW"},
        {"Key": ITEM, "UpdateExpression": "SET a = b"},
        {"Key": "x"},
        {},
    ],
)
def test_deletes_that_need_a_closer_look(twins: Twins, request_: dict[str, Any]) -> None:
    twins("DeleteItem", False, TableName=PAIRS, **request_)


@pytest.mark.parametrize("name", ["nowhere", "x", 5, None, ["simple"]])
def test_tables_that_need_a_closer_look(twins: Twins, name: Any) -> None:
    twins("PutItem", False, TableName=name, Item={"p": P})
    twins("BatchWriteItem", False, RequestItems={str(name): [{"PutRequest": {"Item": {"p": P}}}]})
    twins(
        "TransactWriteItems",
        False,
        TransactItems=[{"Put": {"TableName": name, "Item": {"p": P}}}],
    )


@pytest.mark.parametrize(
    "text",
    ["SET m.a = :v", "SET l[0] = :v, b = :v", "REMOVE m.b SET c = :v", "ADD m.c :v"],
)
def test_updates_below_attributes(twins: Twins, text: str) -> None:
    """They go straight too; only applying them is left to closures."""
    key = {"p": S("below"), "s": S(text)}
    item = {**key, "m": {"M": {"a": N(1), "b": N(2)}}, "l": {"L": [N(1)]}}
    twins("PutItem", True, TableName=PAIRS, Item=item)
    request = {
        "TableName": PAIRS,
        "Key": key,
        "UpdateExpression": text,
        "ExpressionAttributeValues": {":v": N(7)},
    }
    twins("UpdateItem", False, **request)
    twins("UpdateItem", True, ReturnValues="ALL_NEW", **request)
    twins("UpdateItem", True, ReturnValues="UPDATED_NEW", **request)
    other = {**request, "Key": {"p": S("below"), "s": S("missing")}}
    twins("UpdateItem", True, ReturnValues="UPDATED_NEW", **other)


@pytest.mark.parametrize(
    "text", ["REMOVE a, b", "DELETE t :t", "REMOVE a DELETE t :t", "SET a = p"]
)
def test_updates_of_missing_items(twins: Twins, text: str) -> None:
    request: dict[str, Any] = {
        "TableName": SIMPLE,
        "Key": {"p": S("missing")},
        "UpdateExpression": text,
    }
    if ":t" in text:
        request["ExpressionAttributeValues"] = {":t": {"SS": ["a"]}}
    for is_straight in (False, True, True):
        twins("UpdateItem", is_straight, ReturnValues="ALL_NEW", **request)
        twins("DeleteItem", True, TableName=SIMPLE, Key={"p": S("missing")})


def test_plans_do_not_pile_up(twins: Twins, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynalsm.api.write_plans.MAX_PLANS", 3)
    handle = twins.straight.database.catalog.get(SIMPLE)
    assert handle is not None
    for number in range(8):
        twins(
            "UpdateItem",
            None,
            TableName=SIMPLE,
            Key={"p": P},
            UpdateExpression=f"SET a{number} = p",
        )
        assert len(handle.plans) <= max(3, plans.MAX_PLANS)
    assert len(handle.plans) <= 3


def test_many_values_have_no_plan(twins: Twins) -> None:
    names = [f":v{number}" for number in range(40)]
    request = {
        "TableName": SIMPLE,
        "Key": {"p": P},
        "UpdateExpression": "SET " + ", ".join(f"a{name[1:]} = {name}" for name in names),
        "ExpressionAttributeValues": {name: N(1) for name in names},
    }
    twins("UpdateItem", False, **request)
    twins("UpdateItem", False, **request)


def test_a_changed_table_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever finds its handle stale starts over, on the long way."""
    twins = Twins(Store(database(None)), Store(database(None)))
    catalog = twins.straight.database.catalog
    is_current = catalog.is_current
    answers = iter([False])
    monkeypatch.setattr(
        catalog, "is_current", lambda handle: next(answers, True) and is_current(handle)
    )
    put = {"Put": {"TableName": SIMPLE, "Item": {"p": P}}}
    for operation, request in (
        ("PutItem", {"TableName": SIMPLE, "Item": {"p": P}}),
        ("BatchWriteItem", {"RequestItems": {SIMPLE: [{"PutRequest": {"Item": {"p": P}}}]}}),
        ("TransactWriteItems", {"TransactItems": [put]}),
        ("TransactWriteItems", {"TransactItems": [put], "ClientRequestToken": "stale"}),
    ):
        answers = iter([False])
        twins(operation, False, **request)
        assert next(answers, None) is None
        twins(operation, True, **request)


# --- several items -----------------------------------------------------------------------------


@pytest.mark.parametrize("form", [WIRE, JSON], ids=["wire", "json"])
def test_batch_write_item(twins: Twins, form: Form) -> None:
    puts = [
        {"PutRequest": {"Item": {"p": S("batch"), "s": S(f"{i}"), "n": N(i)}}} for i in range(12)
    ]
    single = [{"PutRequest": {"Item": {"p": S(f"batch {i}")}}} for i in range(3)]
    reply = twins("BatchWriteItem", True, form, RequestItems={PAIRS: puts, SIMPLE: single})
    assert reply == {"UnprocessedItems": {}}
    deletes = [
        {"DeleteRequest": {"Key": {"p": S("batch"), "s": S(f"{i}")}}} for i in range(0, 12, 2)
    ]
    twins("BatchWriteItem", True, form, RequestItems={PAIRS: [*deletes, puts[1]]})
    twins.check_same_items()


PUT = {"PutRequest": {"Item": {"p": S("b")}}}


@pytest.mark.parametrize(
    "tables",
    [
        {},
        {SIMPLE: []},
        {SIMPLE: [PUT, PUT]},
        {SIMPLE: [PUT, {"DeleteRequest": {"Key": {"p": S("b")}}}]},
        {SIMPLE: [{"PutRequest": {"Item": {"p": S(f"b{i}")}}} for i in range(26)]},
        {SIMPLE: [{}]},
        {SIMPLE: [{**PUT, "DeleteRequest": {"Key": {"p": S("b")}}}]},
        {SIMPLE: [{"PutRequest": {}}]},
        {SIMPLE: [{"PutRequest": {"Item": {"p": S("b")}, "Key": {}}}]},
        {SIMPLE: [{"PutRequest": {"Item": {"q": S("b")}}}]},
        {SIMPLE: [{"Put": {"Item": {"p": S("b")}}}]},
        {SIMPLE: [PUT, "x"]},
        {SIMPLE: "x"},
        {SIMPLE: [PUT], "nowhere": [PUT]},
        {INDEXED: [{"PutRequest": {"Item": {"p": S("b"), "s": S("c"), "k": S("text")}}}]},
        [SIMPLE],
    ],
)
def test_batches_that_need_a_closer_look(twins: Twins, tables: Any) -> None:
    twins("BatchWriteItem", False, RequestItems=tables)


def test_equal_keys_of_two_tables(twins: Twins) -> None:
    item = {"p": S("two"), "s": S("tables")}
    request = {name: [{"PutRequest": {"Item": item}}] for name in (PAIRS, INDEXED)}
    assert twins("BatchWriteItem", False, RequestItems=request) == {"UnprocessedItems": {}}


def actions(p: str, **more: Any) -> list[dict[str, Any]]:
    """One action of each kind."""
    key = {"p": S(p)}
    return [
        {"Put": {"TableName": SIMPLE, "Item": {"p": S(f"{p} put"), "n": N(1)}}},
        {
            "Update": {
                "TableName": SIMPLE,
                "Key": key,
                "UpdateExpression": "ADD #n :v",
                "ExpressionAttributeNames": {"#n": "n"},
                "ExpressionAttributeValues": {":v": N(1)},
                **more,
            }
        },
        {"Delete": {"TableName": PAIRS, "Key": {"p": S(p), "s": S("x")}}},
        {
            "ConditionCheck": {
                "TableName": PAIRS,
                "Key": {"p": S(p), "s": S("y")},
                "ConditionExpression": "attribute_not_exists(p)",
            }
        },
    ]


@pytest.mark.parametrize("form", [WIRE, JSON], ids=["wire", "json"])
def test_transact_write_items(twins: Twins, form: Form) -> None:
    twins("TransactWriteItems", None, form, TransactItems=actions("t"))
    assert twins("TransactWriteItems", True, form, TransactItems=actions("t")) == {}
    assert twins("TransactWriteItems", True, form, TransactItems=actions("u")) == {}
    twins.check_same_items()


def test_cancelled_transactions(twins: Twins) -> None:
    twins("TransactWriteItems", None, TransactItems=actions("c"))
    twins("PutItem", True, TableName=PAIRS, Item={"p": S("c"), "s": S("y"), "n": N(7)})
    kind, text, _ = twins("TransactWriteItems", True, TransactItems=actions("c"))
    assert kind is errors.TransactionCanceledException
    assert "[None, None, None, ConditionalCheckFailed]" in text
    some = actions("c")
    some[3]["ConditionCheck"]["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    _, _, response = twins("TransactWriteItems", True, TransactItems=some)
    assert response["CancellationReasons"][3]["Item"]["n"] == N(7)
    # An update that does not fit its item cancels too.
    twins("PutItem", True, TableName=SIMPLE, Item={"p": S("d"), "n": S("text")})
    kind, text, _ = twins("TransactWriteItems", True, TransactItems=actions("d"))
    assert kind is errors.TransactionCanceledException
    assert "ValidationError" in text


def test_tokens_of_both_ways(twins: Twins) -> None:
    """A token knows its transaction again, whichever way that goes."""
    twins("TransactWriteItems", None, TransactItems=actions("k"))
    store = twins.straight
    for token, ways in (
        ("token one", (True, True)),
        ("token two", (False, True)),
        ("token three", (True, False)),
    ):
        before = store.database.engine.last_seqno
        for is_straight in ways:
            entry = OPERATIONS["TransactWriteItems"]
            way = entry.straight
            if not is_straight:
                entry.straight = None
            try:
                store("TransactWriteItems", TransactItems=actions(token), ClientRequestToken=token)
            finally:
                entry.straight = way
        item = store.get(SIMPLE, p=S(token))
        assert item is not None
        assert item["n"] == N(1), token
        assert store.database.engine.last_seqno > before
        other = actions(token)
        other[0]["Put"]["Item"]["n"] = N(2)
        store.refused(
            "TransactWriteItems",
            "IdempotentParameterMismatchException",
            TransactItems=other,
            ClientRequestToken=token,
        )
    for token in (
        "token one",
        "token two",
        "token three",
    ):  # on the other store, so that both stay the same
        twins.long("TransactWriteItems", TransactItems=actions(token))


@pytest.mark.parametrize(
    "request_",
    [
        {"TransactItems": []},
        {"TransactItems": actions("x") * 2},
        {"TransactItems": [{}]},
        {"TransactItems": [{**actions("x")[0], **actions("x")[1]}]},
        {"TransactItems": [{"Get": {"TableName": SIMPLE, "Key": {"p": P}}}]},
        {"TransactItems": [{"Put": {"TableName": SIMPLE}}]},
        {"TransactItems": [{"Put": {"Item": {"p": P}}}]},
        {"TransactItems": [{"Delete": {"TableName": SIMPLE, "Key": {"q": P}}}]},
        {"TransactItems": [{"ConditionCheck": {"TableName": SIMPLE, "Key": {"p": P}}}]},
        {"TransactItems": actions("x", ConditionExpression="n = :n")},
        {"TransactItems": [{"Put": "x"}]},
        {"TransactItems": ["x"]},
        {"TransactItems": "x"},
        {"TransactItems": [actions("x")[0]], "ReturnConsumedCapacity": "TOTAL"},
        {"TransactItems": [actions("x")[0]], "ClientRequestToken": ""},
        {"TransactItems": [actions("x")[0]], "ClientRequestToken": "x" * 37},
        {"TransactItems": [actions("x")[0]], "ClientRequestToken": 5},
        {
            "TransactItems": [
                {
                    "Put": {
                        "TableName": PAIRS,
                        "Item": {"p": P, "s": S(f"{i}"), "a": S("x" * 390_000)},
                    }
                }
                for i in range(11)
            ]
        },
    ],
)
def test_transactions_that_need_a_closer_look(twins: Twins, request_: dict[str, Any]) -> None:
    twins("TransactWriteItems", False, **request_)


# --- on the engine itself ----------------------------------------------------------------------


def test_on_disk(tmp_path: Path) -> None:
    """What stands on the stand-in for the engine stands on the engine as well."""
    straight = Store(database(tmp_path / "straight"))
    twins = Twins(straight, Store(database(tmp_path / "long")))
    for number in range(3):
        item = {"p": S("disk"), "s": S(f"{number}"), "g": S("g"), "h": N(number), "l": S("l")}
        twins("PutItem", True, TableName=INDEXED, Item=item)
        request = {"TableName": INDEXED, "Key": {"p": item["p"], "s": item["s"]}}
        twins(
            "UpdateItem",
            number > 0,
            **request,
            UpdateExpression="ADD h :v REMOVE l",
            ConditionExpression="g = :g",
            ExpressionAttributeValues={":v": N(1), ":g": S("g")},
            ReturnValues="ALL_NEW",
        )
    twins("TransactWriteItems", None, TransactItems=actions("disk"))
    twins("TransactWriteItems", True, TransactItems=actions("disk"))
    twins("DeleteItem", True, TableName=INDEXED, Key={"p": S("disk"), "s": S("1")})
    twins.check_same_items()
    straight.database.close()
    twins.long.database.close()


# --- at random ---------------------------------------------------------------------------------

some_values = st.one_of(
    st.sampled_from([S("a"), S(""), N(0), N(7), N("-1.5"), {"BOOL": True}, {"NULL": True}]),
    st.sampled_from(
        [{"SS": ["a", "b"]}, {"NS": ["1"]}, {"L": [N(1)]}, {"M": {"a": N(1)}}, B(b"x")]
    ),
)
keys = st.builds(
    lambda p, s: {"p": S(p), "s": S(s)}, st.sampled_from("ab"), st.sampled_from(["x", "y"])
)
attributes = st.dictionaries(
    st.sampled_from(["a", "n", "l", "k", "g", "h"]), some_values, max_size=4
)
updates = st.sampled_from(
    [
        "SET a = :v",
        "SET n = n + :v",
        "SET a = if_not_exists(a, :v), n = :v",
        "SET k = :v",
        "SET g = :v REMOVE h",
        "ADD n :v",
        "DELETE a :v",
        "SET a = list_append(a, :v)",
        "SET m.x = :v",
    ]
)
conditions = st.sampled_from([None, "attribute_exists(p)", "a = :v", "n > :v", "size(a) < :v"])


@st.composite
def written(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    kind = draw(st.sampled_from(["Put", "Delete", "Update", "ConditionCheck"]))
    members: dict[str, Any] = {"TableName": draw(st.sampled_from([PAIRS, INDEXED]))}
    key = draw(keys)
    if kind == "Put":
        members["Item"] = {**draw(attributes), **key}
    else:
        members["Key"] = key
    texts = [draw(conditions)]
    if kind == "Update":
        members["UpdateExpression"] = draw(updates)
        texts.append(members["UpdateExpression"])
    if texts[0] is not None:
        members["ConditionExpression"] = texts[0]
    if any(":v" in text for text in texts if text):
        members["ExpressionAttributeValues"] = {":v": draw(some_values)}
    return kind, members


@pytest.fixture(scope="module")
def used() -> Twins:
    return Twins(Store(database(None)), Store(database(None)))


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.one_of(written(), st.lists(written(), min_size=1, max_size=3)), min_size=1, max_size=8
    )
)
def test_random_histories(used: Twins, history: list[Any]) -> None:
    for step in history:
        if isinstance(step, list):
            parts = [{kind: members} for kind, members in step]
            used("TransactWriteItems", None, TransactItems=parts)
        elif step[0] != "ConditionCheck":
            used(f"{step[0]}Item", None, **step[1])
    used.check_same_items()
