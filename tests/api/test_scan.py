"""Scan: validation, pages, segments, selection, indexes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.store import INDEXED, NUMBERS, SIMPLE, N, S, Store, table

PARTITIONS, ROWS = 25, 3


@pytest.fixture(scope="module")
def filled() -> Iterator[Store]:
    """A store of its own: NUMBERS holds 25 partitions of three items."""
    store = Store()
    for partition in range(PARTITIONS):
        for row in range(ROWS):
            store.put(NUMBERS, p=S(f"p{partition}"), s=N(row), m=N(partition % 5))
    yield store
    store.database.close()


def keys_of(items: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(item["p"]["S"], item["s"]["N"]) for item in items]


def everything() -> list[tuple[str, str]]:
    return sorted((f"p{p}", str(s)) for p in range(PARTITIONS) for s in range(ROWS))


# Validation.


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (
            {"Segment": 0},
            "The TotalSegments parameter is required but was not present in the request when "
            "Segment parameter is present",
        ),
        (
            {"TotalSegments": 2},
            "The Segment parameter is required but was not present in the request when parameter "
            "TotalSegments is present",
        ),
        (
            {"Segment": 5, "TotalSegments": 5},
            "The Segment parameter is zero-based and must be less than parameter TotalSegments: "
            "Segment: 5 is not less than TotalSegments: 5",
        ),
        ({"Segment": 0, "TotalSegments": 1_000_001}, "less than or equal to 1000000"),
        ({"Limit": 0}, "greater than or equal to 1"),
        (
            {"Select": "SPECIFIC_ATTRIBUTES"},
            "Must specify the AttributesToGet or ProjectionExpression when choosing to get "
            "SPECIFIC_ATTRIBUTES",
        ),
        (
            {"Select": "ALL_ATTRIBUTES", "AttributesToGet": ["a"]},
            "Cannot specify the AttributesToGet when choosing to get ALL_ATTRIBUTES",
        ),
        (
            {"ExpressionAttributeValues": {":a": N(1)}},
            "ExpressionAttributeValues can only be specified when using expressions: "
            "FilterExpression is null",
        ),
        (
            {"ExclusiveStartKey": {"p": S("x")}},
            "The provided starting key is invalid: "
            "The provided key element does not match the schema",
        ),
        (
            {"ExclusiveStartKey": {"p": S("x"), "s": N(1), "x": N(3)}},
            "The provided starting key is invalid: "
            "The provided key element does not match the schema",
        ),
    ],
)
def test_invalid_requests(store: Store, more: dict[str, Any], text: str) -> None:
    assert store.refused("Scan", TableName=NUMBERS, **more).message.endswith(text)


def test_global_index(store: Store) -> None:
    request = {"TableName": INDEXED, "IndexName": "by-g"}
    error = store.refused("Scan", **request, ConsistentRead=True)
    assert error.message == "Consistent reads are not supported on global secondary indexes"
    error = store.refused("Scan", **request, ExclusiveStartKey={"g": S("x")})
    assert error.message == "The provided starting key is invalid"
    error = store.refused("Scan", TableName=INDEXED, IndexName="nix")
    assert error.message == "The table does not have the specified index: nix"


def test_unknown_table(store: Store) -> None:
    store.refused("Scan", "ResourceNotFoundException", TableName="nowhere")


# Behaviour.


def test_partitions_stay_together_in_sort_order(filled: Store) -> None:
    found = keys_of(filled("Scan", TableName=NUMBERS)["Items"])
    assert sorted(found) == everything()
    for start in range(0, len(found), ROWS):
        rows = found[start : start + ROWS]
        assert [s for _, s in rows] == ["0", "1", "2"]
        assert len({p for p, _ in rows}) == 1


@pytest.mark.parametrize("limit", [1, 2, 7, 75, 76])
def test_paging(filled: Store, limit: int) -> None:
    found = filled.all_pages("Scan", TableName=NUMBERS, Limit=limit)
    assert sorted(keys_of(found)) == everything()


def test_last_key_whenever_the_limit_was_reached(filled: Store) -> None:
    total = PARTITIONS * ROWS
    assert "LastEvaluatedKey" in filled("Scan", TableName=NUMBERS, Limit=total)
    assert "LastEvaluatedKey" not in filled("Scan", TableName=NUMBERS, Limit=total + 1)


@pytest.mark.parametrize("total", [1, 2, 3, 17, 1_000])
def test_segments_are_disjoint_and_complete(filled: Store, total: int) -> None:
    found: list[tuple[str, str]] = []
    for segment in range(total):
        more = {"Segment": segment, "TotalSegments": total, "Limit": 4}
        found += keys_of(filled.all_pages("Scan", TableName=NUMBERS, **more))
    assert sorted(found) == everything()


def test_starting_key_of_another_segment(filled: Store) -> None:
    first = filled("Scan", TableName=NUMBERS, Limit=1)["LastEvaluatedKey"]
    error = filled.refused(
        "Scan", TableName=NUMBERS, Segment=3, TotalSegments=4, ExclusiveStartKey=first
    )
    assert error.message == (
        "The provided starting key is invalid: Invalid ExclusiveStartKey. Please use "
        "ExclusiveStartKey with correct Segment. TotalSegments: 4 Segment: 3"
    )


def test_filter_may_name_keys(filled: Store) -> None:
    reply = filled(
        "Scan",
        TableName=NUMBERS,
        FilterExpression="p = :p AND s > :s",
        ExpressionAttributeValues={":p": S("p7"), ":s": N(0)},
    )
    assert keys_of(reply["Items"]) == [("p7", "1"), ("p7", "2")]
    assert (reply["Count"], reply["ScannedCount"]) == (2, PARTITIONS * ROWS)


def test_older_filter(filled: Store) -> None:
    reply = filled(
        "Scan",
        TableName=NUMBERS,
        ScanFilter={
            "m": {"AttributeValueList": [N(4)], "ComparisonOperator": "EQ"},
            "p": {"AttributeValueList": [S("p4")], "ComparisonOperator": "EQ"},
        },
        ConditionalOperator="OR",
        AttributesToGet=["p"],
    )
    assert reply["Count"] == 15
    assert all(set(item) == {"p"} for item in reply["Items"])


def test_counting(filled: Store) -> None:
    reply = filled(
        "Scan",
        TableName=NUMBERS,
        Select="COUNT",
        FilterExpression="m = :m",
        ExpressionAttributeValues={":m": N(1)},
        ReturnConsumedCapacity="TOTAL",
    )
    assert reply == {
        "Count": 15,
        "ScannedCount": 75,
        "ConsumedCapacity": {"TableName": NUMBERS, "CapacityUnits": 2.0},
    }


def test_every_physical_partition_costs_a_unit(filled: Store) -> None:
    # observed (alternator): an on-demand table begins with four partitions.
    def units(**more: Any) -> float:
        reply = filled("Scan", TableName=NUMBERS, ReturnConsumedCapacity="TOTAL", **more)
        return float(reply["ConsumedCapacity"]["CapacityUnits"])

    assert (units(), units(ConsistentRead=True), units(Select="COUNT", Limit=1000)) == (2, 4, 2)
    assert [units(Segment=number, TotalSegments=4) for number in range(4)] == [0.5] * 4
    assert [units(Segment=number, TotalSegments=2) for number in range(2)] == [1.0] * 2
    assert units(Segment=0, TotalSegments=1000) == 0.5
    assert units(Segment=999, TotalSegments=1000) == 0.5
    assert units(Segment=1, TotalSegments=3) == 1.0  # from within the second to within the third
    pages: list[float] = []
    start: dict[str, Any] = {}
    while True:
        reply = filled(
            "Scan",
            TableName=NUMBERS,
            Limit=1,
            ConsistentRead=True,
            ReturnConsumedCapacity="TOTAL",
            **start,
        )
        pages.append(reply["ConsumedCapacity"]["CapacityUnits"])
        if "LastEvaluatedKey" not in reply:
            break
        start = {"ExclusiveStartKey": reply["LastEvaluatedKey"]}
    # One unit a page, and one more for every partition that a page enters.
    assert sum(pages) == len(pages) + 3


def test_a_provisioned_table_has_the_partitions_that_it_needs(filled: Store) -> None:
    for units, expected in ((1, 1), (1500, 2), (3000, 4)):
        name = f"provisioned-{units}"
        given = {"ReadCapacityUnits": units, "WriteCapacityUnits": units}
        filled(
            "CreateTable",
            **table(name, "p", "p:S", BillingMode="PROVISIONED", ProvisionedThroughput=given),
        )
        reply = filled("Scan", TableName=name, ConsistentRead=True, ReturnConsumedCapacity="TOTAL")
        assert reply["ConsumedCapacity"]["CapacityUnits"] == expected


def test_indexes_are_sparse(filled: Store) -> None:
    for number in range(6):
        extra = {"g": S("G"), "h": N(number)} if number % 2 else {}
        filled.put(INDEXED, p=S("p"), s=S(str(number)), l=S("x"), z=N(1), **extra)
    by_g = filled("Scan", TableName=INDEXED, IndexName="by-gh", ReturnConsumedCapacity="INDEXES")
    assert [item["h"] for item in by_g["Items"]] == [N(1), N(3), N(5)]
    assert "z" not in by_g["Items"][0]
    assert by_g["ConsumedCapacity"]["GlobalSecondaryIndexes"] == {"by-gh": {"CapacityUnits": 0.5}}
    by_l = filled("Scan", TableName=INDEXED, IndexName="by-l", ConsistentRead=True)
    assert by_l["Count"] == 6
    assert filled("Scan", TableName=INDEXED, IndexName="by-k")["Items"] == []


def test_index_pages(filled: Store) -> None:
    for number in range(9):
        filled.put(INDEXED, p=S("pages"), s=S(str(number)), g=S(f"g{number % 4}"))
    found = filled.all_pages("Scan", TableName=INDEXED, IndexName="by-g", Limit=2)
    assert sum(item["p"] == S("pages") for item in found) == 9


def test_empty_table() -> None:
    store = Store()
    assert store("Scan", TableName=SIMPLE) == {"Items": [], "Count": 0, "ScannedCount": 0}


def test_pages_of_one_megabyte() -> None:
    store = Store()
    store("CreateTable", **table("big", "p", "p:N"))
    for number in range(30):
        store.put("big", p=N(number), a=S("x" * 100_000))
    first = store("Scan", TableName="big", ConsistentRead=True)
    assert first["Count"] == 11
    assert len(store.all_pages("Scan", TableName="big")) == 30
