"""Query: validation, ranges, pages, selection, indexes, capacity."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.store import BLOBS, INDEXED, NUMBERS, PAIRS, SIMPLE, B, N, S, Store

INVALID = "One or more parameter values were invalid: "
NUMBER_KEYS = ["-1e125", "-100", "-1.5", "-1e-130", "0", "1e-130", "0.1", "2", "10", "1e125"]


@pytest.fixture(scope="module")
def numbers(store: Store) -> dict[str, Any]:
    """A partition of NUMBERS with sort keys 0..19, and attribute m = s modulo 3."""
    p = store.key()
    for number in range(20):
        store.put(NUMBERS, p=p, s=N(number), m=N(number % 3))
    return p


def sort_keys(items: list[dict[str, Any]]) -> list[int]:
    return [int(item["s"]["N"]) for item in items]


def refused(store: Store, p: Any, name: str = NUMBERS, **more: Any) -> str:
    given = more.pop("ExpressionAttributeValues", {})
    return store.refused(
        "Query",
        TableName=name,
        KeyConditionExpression=more.pop("KeyConditionExpression", "p = :p"),
        ExpressionAttributeValues={":p": p, **given},
        **more,
    ).message


# What can be said without the table.


def test_a_key_condition_is_needed(store: Store) -> None:
    error = store.refused("Query", TableName=NUMBERS)
    assert error.message == (
        "Either the KeyConditions or KeyConditionExpression parameter must be specified in the "
        "request."
    )


def test_limit_zero(store: Store) -> None:
    assert "greater than or equal to 1" in refused(store, S("x"), Limit=0)


def test_mixing(store: Store) -> None:
    text = refused(store, S("x"), QueryFilter={}, AttributesToGet=["a"], ProjectionExpression="a")
    assert "{AttributesToGet, QueryFilter} Expression parameters: " in text
    assert "{ProjectionExpression, KeyConditionExpression}" in text


def test_key_conditions_may_go_with_expressions(store: Store, numbers: Any) -> None:
    reply = store(
        "Query",
        TableName=NUMBERS,
        KeyConditions={"p": {"AttributeValueList": [numbers], "ComparisonOperator": "EQ"}},
        FilterExpression="m = :m",
        ExpressionAttributeValues={":m": N(0)},
    )
    assert reply["Count"] == 7


def test_select_and_projection_must_agree(store: Store) -> None:
    text = refused(store, S("x"), Select="SPECIFIC_ATTRIBUTES")
    assert text.endswith("when choosing to get SPECIFIC_ATTRIBUTES")
    text = refused(store, S("x"), Select="COUNT", ProjectionExpression="a")
    assert text == "Cannot specify the ProjectionExpression when choosing to get COUNT"
    text = refused(store, S("x"), Select="ALL_PROJECTED_ATTRIBUTES")
    assert text.endswith("can be used only when Querying using an IndexName")


def test_expressions_before_the_table(store: Store) -> None:
    text = refused(store, S("x"), name="nowhere", KeyConditionExpression="p = :p OR p = :p")
    assert text == "Invalid operator used in KeyConditionExpression: OR"
    text = refused(store, S("x"), KeyConditionExpression="p = :p OR p = :p", FilterExpression="")
    assert text == "Invalid FilterExpression: The expression can not be empty;"
    store.refused(
        "Query",
        "ResourceNotFoundException",
        TableName="nowhere",
        KeyConditionExpression="p = :p",
        ExpressionAttributeValues={":p": N(1)},
    )


# Against the key schema.


@pytest.mark.parametrize(
    ("condition", "values", "text"),
    [
        ("s = :s", {":s": N(1)}, "Query condition missed key schema element: p"),
        ("p < :p", {":p": S("x")}, "Query key condition not supported"),
        (
            "p = :p AND z = :p",
            {":p": S("x")},
            "Query condition missed key schema element: s",
        ),
        (
            "p = :p",
            {":p": N(1)},
            INVALID + "Condition parameter type does not match schema type",
        ),
    ],
)
def test_conditions_must_fit(
    store: Store, condition: str, values: dict[str, Any], text: str
) -> None:
    error = store.refused(
        "Query",
        TableName=NUMBERS,
        KeyConditionExpression=condition,
        ExpressionAttributeValues=values,
    )
    assert error.message == text


def test_filter_may_not_name_keys(store: Store) -> None:
    text = refused(store, S("x"), FilterExpression="s = :p")
    assert text == (
        "Filter Expression can only contain non-primary key attributes: Primary key attribute: s"
    )
    error = store.refused(
        "Query",
        TableName=NUMBERS,
        KeyConditions={"p": {"AttributeValueList": [S("x")], "ComparisonOperator": "EQ"}},
        QueryFilter={"p": {"AttributeValueList": [S("x")], "ComparisonOperator": "EQ"}},
    )
    assert error.message.startswith("QueryFilter can only contain non-primary key attributes")


def test_filter_may_name_table_keys_on_an_index(store: Store) -> None:
    g = store.key()
    for name in ("a", "b"):
        store.put(INDEXED, p=S(name), s=S(name), g=g)
    reply = store.query(
        INDEXED,
        g,
        IndexName="by-g",
        KeyConditionExpression="g = :p",
        FilterExpression="s = :b",
        ExpressionAttributeValues={":b": S("b")},
    )
    assert (reply["Count"], reply["ScannedCount"]) == (1, 2)
    text = refused(
        store,
        g,
        name=INDEXED,
        IndexName="by-g",
        KeyConditionExpression="g = :p",
        FilterExpression="g = :p",
    )
    assert "Primary key attribute: g" in text


def test_unknown_index_and_consistent_global_index(store: Store) -> None:
    text = refused(store, S("x"), name=INDEXED, IndexName="nix")
    assert text == "The table does not have the specified index: nix"
    text = refused(store, S("x"), name=INDEXED, IndexName="by-g", ConsistentRead=True)
    assert text == "Consistent reads are not supported on global secondary indexes"


# Order and ranges.


def test_number_order(store: Store) -> None:
    p = store.key()
    for text in reversed(NUMBER_KEYS):
        store.put(NUMBERS, p=p, s=N(text))
    found = [float(item["s"]["N"]) for item in store.query(NUMBERS, p)["Items"]]
    assert found == [float(text) for text in NUMBER_KEYS]


def test_string_order_is_that_of_utf8(store: Store) -> None:
    p = store.key()
    texts = ["\x00", "\x00a", "A", "Z", "a", "a\x00", "ab", "z", "é", "\uffff", "\U00010000"]
    for text in reversed(texts):
        store.put(PAIRS, p=p, s=S(text))
    assert [item["s"]["S"] for item in store.query(PAIRS, p)["Items"]] == texts


def test_binary_order_is_unsigned(store: Store) -> None:
    p = B(store.key()["S"].encode())
    blobs = [b"\x00", b"\x00\x00", b"\x00\xff", b"\x7f", b"\x80", b"\xff", b"\xff\x00"]
    for blob in reversed(blobs):
        store.put(BLOBS, p=p, s=B(blob))
    assert [item["s"]["B"] for item in store.query(BLOBS, p)["Items"]] == blobs


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("s = :a", [5]),
        ("s < :a", list(range(5))),
        ("s <= :a", list(range(6))),
        ("s > :a", list(range(6, 20))),
        (":a < s", list(range(6, 20))),
        ("s >= :a", list(range(5, 20))),
        ("s BETWEEN :a AND :b", [5, 6, 7, 8]),
    ],
)
def test_ranges_in_both_directions(
    store: Store, numbers: Any, condition: str, expected: list[int]
) -> None:
    values = {":a": N(5)} | ({":b": N("8.5")} if ":b" in condition else {})
    more = {
        "KeyConditionExpression": f"p = :p AND {condition}",
        "ExpressionAttributeValues": values,
    }
    assert sort_keys(store.query(NUMBERS, numbers, **more)["Items"]) == expected
    backward = store.query(NUMBERS, numbers, **more, ScanIndexForward=False)
    assert sort_keys(backward["Items"]) == expected[::-1]


def test_begins_with(store: Store) -> None:
    p = store.key()
    for text in ("a", "ab", "ab\uffff", "ac", "b"):
        store.put(PAIRS, p=p, s=S(text))
    reply = store.query(
        PAIRS,
        p,
        KeyConditionExpression="p = :p AND begins_with(s, :a)",
        ExpressionAttributeValues={":a": S("ab")},
    )
    assert [item["s"]["S"] for item in reply["Items"]] == ["ab", "ab\uffff"]


def test_partitions_do_not_leak(store: Store) -> None:
    """Keys of which one is a prefix of the other stay apart."""
    base = store.key()["S"]
    for suffix in ("", "x", "xx"):
        store.put(PAIRS, p=S(base + suffix), s=S("s"))
    assert store.query(PAIRS, S(base + "x"))["Items"] == [{"p": S(base + "x"), "s": S("s")}]


def test_table_without_sort_key(store: Store) -> None:
    p = store.key()
    item = store.put(SIMPLE, p=p, a=N(1))
    reply = store.query(SIMPLE, p, Limit=1)
    assert reply == {"Items": [item], "Count": 1, "ScannedCount": 1}
    text = refused(store, p, name=SIMPLE, ExclusiveStartKey={"p": p})
    assert text == (
        "The provided exclusive start key is invalid: ExclusiveStartKey: "
        f"{{p=AttributeValue: {{S:{p['S']}}}}}"
    )


# Pages.


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("limit", [1, 3, 19, 20, 21])
def test_paging_with_limit(store: Store, numbers: Any, limit: int, forward: bool) -> None:
    items = store.all_pages(
        "Query",
        TableName=NUMBERS,
        KeyConditionExpression="p = :p",
        ExpressionAttributeValues={":p": numbers},
        Limit=limit,
        ScanIndexForward=forward,
    )
    assert sort_keys(items) == list(range(20))[:: 1 if forward else -1]


def test_no_look_ahead(store: Store, numbers: Any) -> None:
    """A page that Limit ended names its last key although nothing follows."""
    reply = store.query(NUMBERS, numbers, Limit=20)
    assert reply["LastEvaluatedKey"] == {"p": numbers, "s": N(19)}
    rest = store.query(NUMBERS, numbers, ExclusiveStartKey=reply["LastEvaluatedKey"])
    assert rest == {"Items": [], "Count": 0, "ScannedCount": 0}
    assert "LastEvaluatedKey" not in store.query(NUMBERS, numbers, Limit=21)


def test_one_row_queries_are_never_restarted(store: Store, numbers: Any) -> None:
    reply = store.query(
        NUMBERS,
        numbers,
        KeyConditionExpression="p = :p AND s = :s",
        ExpressionAttributeValues={":s": N(3)},
        Limit=1,
    )
    assert reply["Count"] == 1
    assert "LastEvaluatedKey" not in reply


def test_limit_counts_evaluated_items(store: Store, numbers: Any) -> None:
    reply = store.query(
        NUMBERS,
        numbers,
        Limit=5,
        FilterExpression="m = :m",
        ExpressionAttributeValues={":m": N(2)},
    )
    assert (reply["Count"], reply["ScannedCount"]) == (1, 5)
    assert reply["LastEvaluatedKey"]["s"] == N(4)
    empty = store.query(NUMBERS, numbers, Limit=2, FilterExpression="attribute_exists(zz)")
    assert (empty["Items"], empty["LastEvaluatedKey"]["s"]) == ([], N(1))


def test_starting_key_need_not_exist(store: Store, numbers: Any) -> None:
    start = {"p": numbers, "s": N("7.5")}
    reply = store.query(NUMBERS, numbers, ExclusiveStartKey=start, Limit=2)
    assert sort_keys(reply["Items"]) == [8, 9]
    reply = store.query(NUMBERS, numbers, ExclusiveStartKey=start, Limit=2, ScanIndexForward=False)
    assert sort_keys(reply["Items"]) == [7, 6]


@pytest.mark.parametrize(
    ("start", "text"),
    [
        ({"p": S("x")}, "The provided starting key is invalid"),
        ({"p": S("x"), "s": N(1), "z": N(1)}, "The provided starting key is invalid"),
        (
            {"p": S("x"), "s": S("1")},
            "The provided key element does not match the schema",
        ),
        (
            {"p": S("y"), "s": N(1)},
            "The provided starting key is outside query boundaries based on provided conditions",
        ),
        ({"p": S("x"), "s": N("1x")}, "cannot be converted to a numeric value: 1x"),
        (
            {"p": {"NULL": False}, "s": N(1)},
            f"The provided starting key is invalid: {INVALID}"
            "Null attribute value types must have the value of true",
        ),
    ],
)
def test_invalid_starting_keys(store: Store, start: dict[str, Any], text: str) -> None:
    found = refused(store, S("x"), ExclusiveStartKey=start)
    assert found == text or (text.startswith("cannot") and found.endswith(text))


def test_starting_key_and_conditions_are_checked_attribute_by_attribute(store: Store) -> None:
    """Partition key, its condition, the other conditions, sort key (observed: dynalite)."""
    start = {"p": S("x"), "s": S("wrong type")}
    text = refused(store, S("x"), KeyConditionExpression="s = :p", ExclusiveStartKey=start)
    assert text == "Query condition missed key schema element: p"
    start = {"p": N(1), "s": N(1)}
    text = refused(store, S("x"), KeyConditionExpression="s = :p", ExclusiveStartKey=start)
    assert text == "The provided key element does not match the schema"


def test_table_key_inside_a_starting_key_of_an_index(store: Store) -> None:
    more = {"name": INDEXED, "IndexName": "by-g", "KeyConditionExpression": "g = :p"}
    for start in ({"g": S("x"), "p": N(1), "s": S("y")}, {"g": S("x"), "y": N(1), "z": N(1)}):
        text = refused(store, S("x"), **more, ExclusiveStartKey=start)
        assert text == (
            "The provided starting key is invalid: "
            "The provided key element does not match the schema"
        )


def test_starting_key_outside_the_sort_condition(store: Store) -> None:
    more = {
        "KeyConditionExpression": "p = :p AND s > :s",
        "ExpressionAttributeValues": {":s": N(5)},
    }
    text = refused(store, S("x"), **more, ExclusiveStartKey={"p": S("x"), "s": N(5)})
    assert text == "The provided starting key does not match the range key predicate"
    text = refused(store, S("x"), **more, ExclusiveStartKey={"p": S("y"), "s": N(6)})
    assert text == "The query can return at most one row and cannot be restarted"


def test_page_ends_at_one_megabyte(store: Store) -> None:
    """The item that crosses the mark is part of the page, in both directions."""
    p = store.key()
    # Each item counts exactly 128 KiB, so eight of them reach the mark.
    fill = 131_072 - len(p["S"]) - len("p" + "s" + "a") - 2
    for number in range(1, 10):
        store.put(NUMBERS, p=p, s=N(number), a=S("x" * fill))
    first = store.query(NUMBERS, p, ReturnConsumedCapacity="TOTAL")
    assert (first["Count"], first["LastEvaluatedKey"]["s"]) == (8, N(8))
    assert first["ConsumedCapacity"]["CapacityUnits"] == 128
    second = store.query(NUMBERS, p, ExclusiveStartKey=first["LastEvaluatedKey"])
    assert sort_keys(second["Items"]) == [9]
    assert "LastEvaluatedKey" not in second
    counted = store.query(NUMBERS, p, Select="COUNT", ScanIndexForward=False, Limit=100)
    assert (counted["Count"], counted["LastEvaluatedKey"]["s"]) == (8, N(2))


# Selection and indexes.


def test_select_count(store: Store, numbers: Any) -> None:
    reply = store.query(
        NUMBERS,
        numbers,
        Select="COUNT",
        FilterExpression="m = :m",
        ExpressionAttributeValues={":m": N(2)},
    )
    assert reply == {"Count": 6, "ScannedCount": 20}


def test_projection_and_filter_on_other_attributes(store: Store, numbers: Any) -> None:
    reply = store.query(
        NUMBERS,
        numbers,
        FilterExpression="m = :m",
        ExpressionAttributeValues={":m": N(2)},
        ProjectionExpression="s",
        Limit=4,
    )
    assert reply["Items"] == [{"s": N(2)}]
    older = store(
        "Query",
        TableName=NUMBERS,
        KeyConditions={
            "p": {"AttributeValueList": [numbers], "ComparisonOperator": "EQ"},
            "s": {"AttributeValueList": [N(1), N(2)], "ComparisonOperator": "BETWEEN"},
        },
        QueryFilter={"m": {"AttributeValueList": [N(2)], "ComparisonOperator": "EQ"}},
        AttributesToGet=["m", "zz"],
    )
    assert older["Items"] == [{"m": N(2)}]


@pytest.fixture(scope="module")
def indexed(store: Store) -> dict[str, Any]:
    """A partition of INDEXED: s = a..e, l and k reversed, three items in each global index."""
    p = store.key()
    for position, name in enumerate("abcde"):
        extra = {"g": p, "h": N(position)} if position < 3 else {}
        store.put(
            INDEXED,
            p=p,
            s=S(name),
            l=S("edcba"[position]),
            k=N(-position),
            a=N(position),
            b=N(position),
            **extra,
        )
    return p


def test_local_index_order_and_projection(store: Store, indexed: Any) -> None:
    whole = store.query(INDEXED, indexed, IndexName="by-l", ConsistentRead=True)["Items"]
    assert [item["s"]["S"] for item in whole] == list("edcba")
    assert whole[4]["b"] == N(0)
    keys = store.query(INDEXED, indexed, IndexName="by-k")["Items"]
    assert keys[0] == {"p": indexed, "s": S("e"), "k": N(-4)}
    assert (
        store.query(INDEXED, indexed, IndexName="by-k", Select="ALL_PROJECTED_ATTRIBUTES")["Items"]
        == keys
    )


def test_local_index_fetches_what_it_does_not_hold(store: Store, indexed: Any) -> None:
    more = {"IndexName": "by-k", "Limit": 3, "ReturnConsumedCapacity": "INDEXES"}
    reply = store.query(INDEXED, indexed, **more, Select="ALL_ATTRIBUTES")
    assert reply["Items"][0]["b"] == N(4)
    capacity = reply["ConsumedCapacity"]
    assert capacity["CapacityUnits"] == 2.0
    assert capacity["Table"] == {"CapacityUnits": 1.5}
    assert capacity["LocalSecondaryIndexes"] == {"by-k": {"CapacityUnits": 0.5}}
    reply = store.query(INDEXED, indexed, **more, ProjectionExpression="s, b")
    assert reply["Items"][0] == {"s": S("e"), "b": N(4)}
    assert reply["ConsumedCapacity"]["Table"] == {"CapacityUnits": 1.5}
    reply = store.query(INDEXED, indexed, **more, ProjectionExpression="s, k")
    assert reply["ConsumedCapacity"]["Table"] == {"CapacityUnits": 0.0}


def test_global_index_holds_what_it_projects(store: Store, indexed: Any) -> None:
    more = {"IndexName": "by-gh", "KeyConditionExpression": "g = :p"}
    items = store.query(INDEXED, indexed, **more, ScanIndexForward=False)["Items"]
    assert items[0] == {"p": indexed, "s": S("c"), "g": indexed, "h": N(2), "a": N(2)}
    text = refused(store, indexed, name=INDEXED, **more, Select="ALL_ATTRIBUTES")
    assert "Select type ALL_ATTRIBUTES is not supported for global secondary index by-gh" in text
    text = refused(store, indexed, name=INDEXED, **more, ProjectionExpression="a, b")
    assert text == INVALID + "Global secondary index by-gh does not project [b]"
    whole = store.query(
        INDEXED,
        indexed,
        IndexName="by-g",
        KeyConditionExpression="g = :p",
        Select="ALL_ATTRIBUTES",
    )
    assert whole["Items"][0]["b"] == N(0)


def test_global_index_ranges(store: Store, indexed: Any) -> None:
    reply = store.query(
        INDEXED,
        indexed,
        IndexName="by-gh",
        KeyConditionExpression="g = :p AND h BETWEEN :a AND :b",
        ExpressionAttributeValues={":a": N(1), ":b": N(5)},
        ReturnConsumedCapacity="INDEXES",
    )
    assert [item["h"] for item in reply["Items"]] == [N(1), N(2)]
    capacity = reply["ConsumedCapacity"]
    assert capacity["GlobalSecondaryIndexes"] == {"by-gh": {"CapacityUnits": 0.5}}
    assert capacity["CapacityUnits"] == 0.5


def test_ties_in_an_index_survive_paging(store: Store) -> None:
    g = store.key()
    for number in range(7):
        store.put(INDEXED, p=S(f"{g['S']}-{number % 2}"), s=S(str(number)), g=g, h=N(1))
    for name in ("by-g", "by-gh"):
        items = store.all_pages(
            "Query",
            TableName=INDEXED,
            IndexName=name,
            KeyConditionExpression="g = :g",
            ExpressionAttributeValues={":g": g},
            Limit=2,
        )
        assert sorted(item["s"]["S"] for item in items) == list("0123456")


def test_last_key_of_an_index_has_both_keys(store: Store, indexed: Any) -> None:
    reply = store.query(INDEXED, indexed, IndexName="by-l", Limit=1)
    assert reply["LastEvaluatedKey"] == {"p": indexed, "s": S("e"), "l": S("a")}
    start = {"p": indexed, "l": S("a")}
    text = refused(store, indexed, name=INDEXED, IndexName="by-l", ExclusiveStartKey=start)
    assert text == "The provided starting key is invalid"


def test_units_by_consistency(store: Store, numbers: Any) -> None:
    def units(**more: Any) -> float:
        reply = store.query(NUMBERS, numbers, ReturnConsumedCapacity="TOTAL", **more)
        return reply["ConsumedCapacity"]["CapacityUnits"]

    assert (units(), units(ConsistentRead=True)) == (0.5, 1.0)
    nothing = {"FilterExpression": "attribute_exists(zz)", "ProjectionExpression": "zz"}
    assert units(**nothing) == 0.5


def test_nothing_beside_the_only_key_attribute(store: Store) -> None:
    """The table's key is not a key of the index, nor is any other attribute."""
    for name in ("p", "z"):
        text = refused(
            store,
            S("x"),
            name=INDEXED,
            IndexName="by-g",
            KeyConditionExpression=f"g = :p AND {name} = :p",
        )
        assert text == "Query key condition not supported"
