"""ExecuteStatement: plans, pages, writes and their errors (the language: tests/expressions)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.store import INDEXED, NUMBERS, SIMPLE, N, S, Store, table


def run(store: Store, text: str, *given: Any, **more: Any) -> dict[str, Any]:
    if given:
        more["Parameters"] = list(given)
    return store("ExecuteStatement", Statement=text, **more)


def refused(store: Store, text: str, *given: Any, code: str = "ValidationException") -> str:
    more = {"Parameters": list(given)} if given else {}
    return store.refused("ExecuteStatement", code, Statement=text, **more).message


@pytest.fixture(scope="module")
def numbers(store: Store) -> dict[str, Any]:
    """A partition of NUMBERS: s = 0..9, m = s modulo 2, d = {"x": [s]}."""
    p = store.key()
    for number in range(10):
        store.put(NUMBERS, p=p, s=N(number), m=N(number % 2), d={"M": {"x": {"L": [N(number)]}}})
    return p


def sort_keys(reply: dict[str, Any]) -> list[int]:
    return [int(item["s"]["N"]) for item in reply["Items"]]


# Errors.


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT * FROM indexed.nix", "The table does not have the specified index"),
        (
            'SELECT * FROM "numbers" ORDER BY s',
            "Must have WHERE clause in the statement when using ORDER BY clause.",
        ),
        (
            "SELECT * FROM numbers WHERE p = 'x' ORDER BY m",
            "Variable reference m in ORDER BY clause must be part of the primary key",
        ),
        (
            "SELECT * FROM numbers WHERE p = 1",
            "Key attribute's data type should match its data type in table's schema",
        ),
        ("SELECT * FROM numbers WHERE p = ?", "parameters in request and statement don't match."),
        ("UPDATE numbers SET a = 1 WHERE p = 'x'", "mandatory equality on all key attributes"),
        ("DELETE FROM numbers WHERE s = 1", "mandatory equality on all key attributes"),
        ("UPDATE simple SET p = 'y' WHERE p = 'x'", "This attribute is part of the key"),
        ("INSERT INTO numbers VALUE {'p': 'x'}", "Missing the key s in the item"),
        ("INSERT INTO simple VALUE {'p': ''}", "cannot contain an empty string value. Key: p"),
        ("INSERT INTO indexed VALUE {'p': 'x', 's': 'y', 'g': 1}", "IndexName: by-g"),
        ("EXISTS(SELECT * FROM simple WHERE p = 'x')", "ExecuteTransaction only"),
        ("SELECT g FROM indexed.\"by-gh\" WHERE g = 'x' AND h < true", "operand type: BOOL"),
    ],
)
def test_errors(store: Store, text: str, message: str) -> None:
    assert message in refused(store, text)


def test_unknown_table(store: Store) -> None:
    for text in ("SELECT * FROM nix", "DELETE FROM nix WHERE p = 'x'"):
        refused(store, text, code="ResourceNotFoundException")


def test_global_index_is_not_consistent_and_holds_what_it_projects(store: Store) -> None:
    error = store.refused(
        "ExecuteStatement",
        Statement="SELECT * FROM indexed.\"by-g\" WHERE g = 'x'",
        ConsistentRead=True,
    )
    assert error.message == (
        "Strongly consistent read is not supported on Global Secondary Indexes"
    )
    text = refused(store, "SELECT a, b FROM indexed.\"by-gh\" WHERE g = 'x'")
    assert text.endswith("Global secondary index by-gh does not project [b]")


# SELECT.


def test_full_key(store: Store, numbers: Any) -> None:
    reply = run(
        store,
        "SELECT * FROM numbers WHERE p = ? AND s = 3",
        numbers,
        ReturnConsumedCapacity="TOTAL",
        Limit=1,
    )
    assert sort_keys(reply) == [3]
    assert "NextToken" not in reply
    assert reply["ConsumedCapacity"] == {"TableName": NUMBERS, "CapacityUnits": 0.5}
    assert run(store, "SELECT * FROM numbers WHERE p = ? AND s = 33", numbers)["Items"] == []


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("", list(range(10))),
        ("AND s > 7", [8, 9]),
        ("AND 7 < s", [8, 9]),
        ("AND s BETWEEN 2 AND 4", [2, 3, 4]),
        ("AND s > 2 AND s < 5", [3, 4]),
        ("AND m = 1 AND s >= 6", [7, 9]),
        ("AND (s = 1 OR s = 4)", [1, 4]),
        ("AND s > 'text'", []),
        ("AND d.x[0] = 5", [5]),
        ("ORDER BY s DESC", list(range(9, -1, -1))),
    ],
)
def test_ranges(store: Store, numbers: Any, condition: str, expected: list[int]) -> None:
    assert sort_keys(run(store, f"SELECT s FROM numbers WHERE p = ? {condition}", numbers)) == (
        expected
    )


def test_several_partitions(store: Store, numbers: Any) -> None:
    other = store.key()
    store.put(NUMBERS, p=other, s=N(3))
    text = "SELECT s FROM numbers WHERE p IN [?, ?] AND s = 3"
    assert sort_keys(run(store, text, numbers, other)) == [3, 3]
    text = "SELECT s FROM numbers WHERE (p = ? OR p = ?) AND s >= 3 AND s <= 4"
    assert sorted(sort_keys(run(store, text, numbers, other))) == [3, 3, 4]


def test_scan(store: Store, numbers: Any) -> None:
    """Other tests filled the table with more than a page."""
    found: list[Any] = []
    more: dict[str, Any] = {}
    while True:
        reply = run(store, "SELECT p FROM numbers WHERE d.x[0] = 4 AND m = 0", **more)
        found += reply["Items"]
        if "NextToken" not in reply:
            break
        more = {"NextToken": reply["NextToken"]}
    assert found == [{"p": numbers}]


def test_projection_names(store: Store, numbers: Any) -> None:
    reply = run(store, "SELECT s, d.x[0], zz FROM numbers WHERE p = ? AND s = 4", numbers)
    assert reply["Items"] == [{"s": N(4), "x[0]": N(4)}]


@pytest.mark.parametrize("limit", [1, 3, 10, 11])
@pytest.mark.parametrize("order", ["ASC", "DESC"])
def test_pages(store: Store, numbers: Any, limit: int, order: str) -> None:
    """Limit counts evaluated items; the token goes on exactly where the page ended."""
    text = f"SELECT s FROM numbers WHERE p = ? AND m = 1 ORDER BY s {order}"
    found: list[int] = []
    more: dict[str, Any] = {}
    while True:
        reply = run(store, text, numbers, Limit=limit, **more)
        found += sort_keys(reply)
        if "NextToken" not in reply:
            break
        assert set(reply["LastEvaluatedKey"]) == {"p", "s"}
        more = {"NextToken": reply["NextToken"]}
    assert found == [1, 3, 5, 7, 9][:: 1 if order == "ASC" else -1]


def test_pages_over_partitions(store: Store, numbers: Any) -> None:
    other = store.key()
    for number in range(3):
        store.put(NUMBERS, p=other, s=N(number))
    text = "SELECT s FROM numbers WHERE p IN (?, ?)"
    found: list[int] = []
    more: dict[str, Any] = {}
    while True:
        reply = run(store, text, numbers, other, Limit=4, **more)
        assert len(reply["Items"]) <= 4
        found += sort_keys(reply)
        if "NextToken" not in reply:
            break
        more = {"NextToken": reply["NextToken"]}
    assert found == [*range(10), *range(3)]


def test_token_belongs_to_its_statement(store: Store, numbers: Any) -> None:
    text = "SELECT s FROM numbers WHERE p = ?"
    token = run(store, text, numbers, Limit=1)["NextToken"]
    for request in (
        {"Statement": text, "Parameters": [S("other")]},
        {"Statement": text + " AND s > 1", "Parameters": [numbers]},
    ):
        error = store.refused("ExecuteStatement", **request, NextToken=token)
        assert error.message == "NextToken does not match request"
    for bad in ("x", "!!!!", "", token[:-8]):
        error = store.refused(
            "ExecuteStatement", Statement=text, Parameters=[numbers], NextToken=bad or "="
        )
        assert error.message in ("Invalid NextToken", "NextToken does not match request")


def test_indexes(store: Store) -> None:
    p = store.key()
    for name in "abc":
        store.put(INDEXED, p=p, s=S(name), l=S("l" + name), k=N(ord(name)), g=p, b=S(name))
    text = 'SELECT s FROM indexed."by-l" WHERE p = ? AND begins_with(l, ?)'
    assert run(store, text, p, S("lb"))["Items"] == [{"s": S("b")}]
    # A local index fetches what it does not hold, a star means what it holds.
    reply = run(
        store,
        'SELECT b FROM "indexed"."by-k" WHERE p = ? AND k > 97',
        p,
        ReturnConsumedCapacity="INDEXES",
    )
    assert reply["Items"] == [{"b": S("b")}, {"b": S("c")}]
    assert reply["ConsumedCapacity"]["Table"] == {"CapacityUnits": 1.0}
    reply = run(store, 'SELECT * FROM "indexed"."by-k" WHERE p = ? AND k = 97', p)
    assert reply["Items"] == [{"p": p, "s": S("a"), "k": N(97)}]
    reply = run(store, 'SELECT s FROM indexed."by-g" WHERE g = ?', p)
    assert len(reply["Items"]) == 3


# INSERT, UPDATE, DELETE.


def test_insert(store: Store) -> None:
    p = store.key()
    reply = run(store, "INSERT INTO simple VALUE {'p': ?, 'a': [1, ?]}", p, S("x"))
    assert reply == {"Items": []}
    assert store.get(SIMPLE, p=p) == {"p": p, "a": {"L": [N(1), S("x")]}}
    text = refused(store, "INSERT INTO simple VALUE {'p': ?}", p, code="DuplicateItemException")
    assert text == "Duplicate primary key exists in table"


def test_update(store: Store) -> None:
    p = store.key()
    store.put(SIMPLE, p=p, n=N(1), m={"M": {"k": N(1)}})
    assert run(store, "UPDATE simple SET n = n + 1 WHERE p = ?", p) == {"Items": []}
    reply = run(store, "UPDATE simple SET m.k = ? WHERE p = ? RETURNING MODIFIED OLD *", N(5), p)
    assert reply["Items"] == [{"m": {"M": {"k": N(1)}}}]
    reply = run(
        store,
        "UPDATE simple SET n = 7 REMOVE m WHERE p = ? AND n = 2 RETURNING ALL NEW *",
        p,
        ReturnConsumedCapacity="TOTAL",
    )
    assert reply["Items"] == [{"p": p, "n": N(7)}]
    assert reply["ConsumedCapacity"]["CapacityUnits"] == 1


def test_update_is_no_upsert(store: Store) -> None:
    p = store.key()
    code = "ConditionalCheckFailedException"
    refused(store, "UPDATE simple SET a = 1 WHERE p = ?", p, code=code)
    item = store.put(SIMPLE, p=p, n=N(1))
    error = store.refused(
        "ExecuteStatement",
        code,
        Statement="UPDATE simple SET a = 1 WHERE p = ? AND n = 2",
        Parameters=[p],
        ReturnValuesOnConditionCheckFailure="ALL_OLD",
    )
    assert error.response["Item"] == item


def test_update_errors_at_run_time(store: Store) -> None:
    p = store.key()
    store.put(SIMPLE, p=p)
    text = refused(store, "UPDATE simple SET a = zz WHERE p = ?", p)
    assert "refers to an attribute that does not exist in the item" in text
    big = S("x" * 409_600)
    text = refused(store, "UPDATE simple SET a = ? WHERE p = ?", big, p)
    assert text == "Item size to update has exceeded the maximum allowed size"


def test_delete(store: Store) -> None:
    p = store.key()
    # A missing item is a success, whatever else WHERE says.
    assert run(store, "DELETE FROM simple WHERE p = ? AND n = 7", p) == {"Items": []}
    item = store.put(SIMPLE, p=p, n=N(1))
    refused(
        store,
        "DELETE FROM simple WHERE p = ? AND n = 7",
        p,
        code="ConditionalCheckFailedException",
    )
    reply = run(store, "DELETE FROM simple WHERE p = ? RETURNING ALL OLD *", p)
    assert reply["Items"] == [item]
    assert store.get(SIMPLE, p=p) is None


# ORDER BY.

ORDERS: list[tuple[str, Any]] = [
    ("s", lambda row: (row[1], "cab".index(row[0]))),
    ("s DESC", lambda row: (-row[1], "cab".index(row[0]))),
    ("p", lambda row: row),
    ("p DESC", lambda row: (-ord(row[0]), row[1])),
    ("p, s DESC", lambda row: (row[0], -row[1])),
    ("s DESC, p", lambda row: (-row[1], row[0])),
    ("s, p DESC", lambda row: (row[1], -ord(row[0]))),
]


@pytest.mark.parametrize(("order", "key"), ORDERS)
def test_several_partitions_in_order(store: Store, order: str, key: Any) -> None:
    """Whatever the page: by sort key over all partitions, or partition by partition."""
    base = store.key()["S"]
    for partition in "abc":
        for number in range(4):
            store.put(NUMBERS, p=S(base + partition), s=N(number))
    given = [S(base + partition) for partition in "cab"]
    for condition, wanted in (
        ("", range(4)),
        ("AND s BETWEEN 1 AND 2", (1, 2)),
        ("AND s = 3", (3,)),
    ):
        rows = sorted(((p, s) for p in "abc" for s in wanted), key=key)
        text = f"SELECT * FROM numbers WHERE p IN [?, ?, ?] {condition} ORDER BY {order}"
        for limit in (1, 2, 5, 12, 100):
            found: list[Any] = []
            more: dict[str, Any] = {}
            while True:
                reply = run(store, text, *given, Limit=limit, **more)
                found += [(item["p"]["S"][-1], int(item["s"]["N"])) for item in reply["Items"]]
                if "NextToken" not in reply:
                    break
                more = {"NextToken": reply["NextToken"]}
            assert found == rows, (condition, limit)


def test_partitions_of_an_index_in_order(store: Store) -> None:
    """A global index's entries are merged by its own sort key; ties by the table's key."""
    groups = [store.key() for _ in range(3)]
    for number in range(12):
        at = {"p": S(f"o{number:02}"), "s": S("s"), "g": groups[number % 3], "h": N(number // 5)}
        store.put(INDEXED, **at)
    text = 'SELECT p, h FROM indexed."by-gh" WHERE g IN [?, ?, ?] ORDER BY h DESC'
    found: list[Any] = []
    more: dict[str, Any] = {}
    while True:
        reply = run(store, text, *groups, Limit=2, **more)
        found += [int(item["h"]["N"]) for item in reply["Items"]]
        if "NextToken" not in reply:
            break
        more = {"NextToken": reply["NextToken"]}
    assert found == sorted((number // 5 for number in range(12)), reverse=True)


def test_values_of_all_hash_attributes_together_are_limited(store: Store) -> None:
    """Four attributes with 50 values each would be six million partitions."""
    keys = [
        {"AttributeName": name, "KeyType": kind}
        for name, kind in (("a", "HASH"), ("b", "HASH"), ("c", "RANGE"), ("d", "RANGE"))
    ]
    wide = {"IndexName": "wide", "KeySchema": keys, "Projection": {"ProjectionType": "ALL"}}
    request = table("wide", "p", "p:S a:S b:S c:S d:S", GlobalSecondaryIndexes=[wide])
    store("CreateTable", **request)
    some = ", ".join(f"'{number}'" for number in range(10))
    for several, count in ((some, 10), ("'1', '2'", 2)):
        text = f"SELECT * FROM wide.wide WHERE a IN [{some}] AND b IN [{several}]"
        if count == 2:
            assert run(store, text)["Items"] == []
        else:
            message = refused(store, text)
            assert message.startswith("The number of values of hash key a, b in the WHERE clause")
    message = refused(store, "SELECT * FROM wide.wide WHERE a='x' AND b='x' ORDER BY c, d DESC")
    assert message == "ORDER BY clause must have one direction for all sort key attributes"
    store("DeleteTable", TableName="wide")
