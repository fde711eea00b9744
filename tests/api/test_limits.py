"""Limits that an option lifts: dynalsm.open(path, limits={...})."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dynalsm
from dynalsm.model.settings import NO_LIMIT, Settings
from tests.support.databases import memory_database
from tests.support.store import NUMBERS, SIMPLE, N, S, Store

LIFTED = {
    "page_bytes": 3 << 20,
    "batch_get_keys": 150,
    "batch_get_bytes": 64 << 20,
    "batch_write_items": 60,
    "batch_statements": 30,
    "transaction_items": 120,
    "transaction_bytes": None,
    "substitution_bytes": 4 << 20,
}


@pytest.fixture(scope="module")
def lifted() -> Any:
    settings = Settings()
    settings.set_limits(LIFTED)
    chosen = {f"limit_{name}": getattr(settings, f"limit_{name}") for name in LIFTED}
    with memory_database(**chosen) as database:
        yield Store(database)


def puts(count: int) -> list[dict[str, Any]]:
    return [{"PutRequest": {"Item": {"p": S(str(number))}}} for number in range(count)]


def test_options_of_open(tmp_path: Path) -> None:
    with dynalsm.open(tmp_path / "x", limits={"gsi": 50, "tables": None}) as db:
        assert (db.settings.limit_gsi, db.settings.limit_tables) == (50, NO_LIMIT)
        assert db.settings.limit_lsi == 5
    with pytest.raises(ValueError, match="limits is a dict of names and whole numbers, not 5"):
        dynalsm.open(tmp_path / "x", limits=5)  # type: ignore[arg-type]
    for size in ("1 GB", -1, 1.5, None):
        with pytest.raises(ValueError, match="memory_bytes is a whole number of bytes, not"):
            dynalsm.open(tmp_path / "x", memory_bytes=size)
    with pytest.raises(ValueError, match="wording is one of classic, 2026, not '2027'"):
        dynalsm.open(tmp_path / "x", wording="2027")
    with pytest.raises(ValueError, match="there is no limit 'items' to set; there are: batch_get"):
        dynalsm.open(tmp_path / "x", limits={"items": 1})
    for value in (0, -1, "9", 1.5, True):
        with pytest.raises(ValueError, match="must be a whole number from 1"):
            dynalsm.open(tmp_path / "x", limits={"gsi": value})


@pytest.mark.parametrize("operation", ["PutItem", "UpdateItem", "DeleteItem", "Query", "Scan"])
def test_substitutions_have_two_megabytes_together(store: Store, operation: str) -> None:
    """Names and values of one request; a value counts as in an item, not as it is encoded."""
    limit_bytes = 2 * 1024**2
    request: dict[str, Any] = {"TableName": SIMPLE, "ExpressionAttributeNames": {"#a": "a"}}
    if operation == "Query":
        request["KeyConditionExpression"] = "p = :p"
        request["FilterExpression"] = "#a = :v"
    else:
        kind = "FilterExpression" if operation == "Scan" else "ConditionExpression"
        request[kind] = "#a = :v OR #a <> :p"
    if operation in ("PutItem", "UpdateItem", "DeleteItem"):
        request["Item" if operation == "PutItem" else "Key"] = {"p": S("substitutions")}

    def ask(value: Any) -> dict[str, Any]:
        return request | {"ExpressionAttributeValues": {":p": S("x"), ":v": value}}

    around = len("#aa") + len(":p") + len("x") + len(":v")
    nulls = (limit_bytes - around - 3) // 2  # of a list: 3 bytes, and 2 for each null
    for most, more in (
        (S("x" * (limit_bytes - around)), S("x" * (limit_bytes - around + 1))),
        (
            {"L": [{"NULL": True}] * nulls},
            {"L": [{"NULL": True}] * (nulls + 1)},
        ),
    ):
        for _ in range(3):  # the first one may leave a plan for the others
            store(operation, **ask(most))
            assert store.refused(operation, **ask(more)).message == (
                "Combined size of ExpressionAttributeNames and ExpressionAttributeValues exceeds "
                "max size"
            )
    assert store.refused(operation, **ask(S("x" * limit_bytes))).message == (
        "ExpressionAttributeValues exceeds max size"
    )


def test_names_alone_have_two_megabytes(store: Store) -> None:
    names = {f"#{number}": "n" * 65_535 for number in range(33)}
    request = {
        "TableName": SIMPLE, "Key": {"p": S("names")}, "ExpressionAttributeNames": names,
        "ProjectionExpression": ", ".join(names),
    }  # fmt: skip
    assert store.refused("GetItem", **request).message == (
        "ExpressionAttributeNames exceeds max size"
    )


def test_a_plan_of_short_values_is_no_door_for_long_names(store: Store) -> None:
    """Requests like earlier ones skip checks; names that fill the limit must not."""
    names = {f"#{number}": "n" * 65_535 for number in range(31)}
    condition = " AND ".join(f"attribute_not_exists({name})" for name in names)
    request: dict[str, Any] = {
        "TableName": SIMPLE, "Item": {"p": S("plan")}, "ExpressionAttributeNames": names,
        "ConditionExpression": condition + " AND q <> :v",
    }  # fmt: skip
    for _ in range(2):
        store("PutItem", **request, ExpressionAttributeValues={":v": S("x" * 1000)})
        values = {":v": S("x" * 100_000)}
        error = store.refused("PutItem", **request, ExpressionAttributeValues=values)
        assert "Combined size" in error.message


def test_batches(store: Store, lifted: Store) -> None:
    request: dict[str, Any] = {"RequestItems": {SIMPLE: puts(26)}}
    assert "less than or equal to 25" in store.refused("BatchWriteItem", **request).message
    lifted("BatchWriteItem", **request)
    request = {"RequestItems": {SIMPLE: puts(61)}}
    assert "less than or equal to 60" in lifted.refused("BatchWriteItem", **request).message
    keys = [{"p": S(str(number))} for number in range(150)]
    request = {"RequestItems": {SIMPLE: {"Keys": keys}}}
    store.refused("BatchGetItem", **request)
    assert len(lifted("BatchGetItem", **request)["Responses"][SIMPLE]) == 26
    keys.append({"p": S("x")})
    assert "less than or equal to 150" in lifted.refused("BatchGetItem", **request).message


def test_batch_limits_count_over_all_tables(lifted: Store) -> None:
    tables = {SIMPLE: puts(40), NUMBERS: []}
    tables[NUMBERS] = [
        {"PutRequest": {"Item": {"p": S("n"), "s": N(number)}}} for number in range(21)
    ]
    error = lifted.refused("BatchWriteItem", RequestItems=tables)
    assert error.message == "Too many items requested for the BatchWriteItem call"
    tables[NUMBERS].pop()
    lifted("BatchWriteItem", RequestItems=tables)


def test_transactions(store: Store, lifted: Store) -> None:
    big = "x" * 100_000
    actions = [
        {"Put": {"TableName": SIMPLE, "Item": {"p": S(f"t{number}"), "f": S(big)}}}
        for number in range(120)
    ]
    assert (
        "less than or equal to 100"
        in store.refused("TransactWriteItems", TransactItems=actions).message
    )
    store.refused("TransactWriteItems", TransactItems=actions[:50])  # 5 MB
    lifted("TransactWriteItems", TransactItems=actions)
    gets = [{"Get": {"TableName": SIMPLE, "Key": {"p": S(f"t{number}")}}} for number in range(120)]
    assert len(lifted("TransactGetItems", TransactItems=gets)["Responses"]) == 120
    statements = [
        {"Statement": f"SELECT * FROM {SIMPLE} WHERE p = 't{number}'"} for number in range(30)
    ]
    assert len(lifted("BatchExecuteStatement", Statements=statements)["Responses"]) == 30
    store.refused("BatchExecuteStatement", Statements=statements)


def test_pages(store: Store, lifted: Store) -> None:
    for number in range(20):
        lifted.put(NUMBERS, p=S("pages"), s=N(number), f=S("x" * 300_000))
    where = {
        "TableName": NUMBERS,
        "KeyConditionExpression": "p = :p",
        "ExpressionAttributeValues": {":p": S("pages")},
    }
    assert lifted("Query", **where)["Count"] == 11  # the first to reach 3 MiB ends the page
    rows = lifted("ExecuteStatement", Statement=f"SELECT * FROM {NUMBERS} WHERE p = 'pages'")
    assert len(rows["Items"]) == 11


def test_items(store: Store) -> None:
    large = S("x" * 500_000)
    store.refused("PutItem", TableName=SIMPLE, Item={"p": S("large"), "f": large})
    with memory_database(limit_item_bytes=1_000_000) as database:
        higher = Store(database)
        key: dict[str, Any] = {"TableName": SIMPLE, "Key": {"p": S("large")}}
        grow: dict[str, Any] = {
            "UpdateExpression": "SET g = :g",
            "ExpressionAttributeValues": {":g": S("x" * 499_985)},
        }
        higher("PutItem", TableName=SIMPLE, Item={"p": S("large"), "f": large})
        higher("UpdateItem", **key, **grow)
        assert len(higher.get(SIMPLE, p=S("large"))["g"]["S"]) == 499_985  # type: ignore[index]
        grow["ExpressionAttributeValues"] = {":g": S("x" * 499_995)}
        higher.refused("UpdateItem", **key, **grow)
        insert = f"INSERT INTO {SIMPLE} VALUE {{'p': 'other', 'f': ?}}"
        higher("ExecuteStatement", Statement=insert, Parameters=[large])
        put: dict[str, Any] = {"Put": {"TableName": SIMPLE, "Item": {"p": S("third"), "f": large}}}
        higher("TransactWriteItems", TransactItems=[put])
        put["Put"]["Item"]["g"] = large
        higher.refused("TransactWriteItems", TransactItems=[put])
        higher.refused("PutItem", **put["Put"])


def test_substitutions_lifted(lifted: Store) -> None:
    values = {":v": S("x" * (3 << 20))}
    lifted("Scan", TableName=SIMPLE, FilterExpression="a = :v", ExpressionAttributeValues=values)
