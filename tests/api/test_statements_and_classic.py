"""PartiQL statements against the same operations by the classic API: same items, same refusals.

Each random request is made twice, as a statement on one copy of a table and as the operation it
stands for on another; replies and what the tables hold afterwards have to agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynalsm import errors
from tests.support.store import S, Store, table

PARTITIONS, SORTS = ("a", "b", "c"), tuple("012345")
NAMES = ("x", "y", "z")
KEY_CHECK = "attribute_exists(p)"


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    store = Store()
    for name in ("by_statement", "by_operation"):
        store("CreateTable", **table(name, "p s", "p:S s:S"))
    yield store
    store.database.close()


scalars = st.one_of(
    st.integers(-3, 3).map(lambda number: {"N": str(number)}),
    st.sampled_from(["", "0", "a", "it's", "é"]).map(S),
    st.booleans().map(lambda value: {"BOOL": value}),
    st.just({"NULL": True}),
    st.sets(st.integers(0, 3), min_size=1).map(lambda them: {"NS": [str(one) for one in them]}),
    st.binary(max_size=2).map(lambda value: {"B": value}),
)
attribute_values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2).map(lambda value: {"L": value}),
        st.dictionaries(st.sampled_from(NAMES), inner, max_size=2).map(lambda value: {"M": value}),
    ),
    max_leaves=3,
)
keys = st.tuples(st.sampled_from(PARTITIONS), st.sampled_from(SORTS))
attributes = st.dictionaries(st.sampled_from(NAMES), attribute_values, max_size=3)
# What both languages spell alike, apart from how values are named.
conditions = st.sampled_from(
    [
        "{0} = {v}", "{0} <> {v}", "{0} < {v}", "{v} >= {0}", "{0} BETWEEN {v} AND {v}",
        "attribute_exists({0})", "attribute_not_exists({0})", "size({0}) = {v}",
        "contains({0}, {v})", "NOT {0} = {v}", "NOT (attribute_exists({0}) OR {1} = {v})",
        "{0} = {1}", "({0} = {v} OR {1} = {v})", "{0}[0] = {v}", "{0}.x <> {v}",
    ]
)  # fmt: skip
filters = st.tuples(conditions, st.permutations(NAMES), attribute_values)


def literal(value: dict[str, Any]) -> str | None:
    """Return a value as PartiQL writes it; None for what it cannot write."""
    ((kind, content),) = value.items()
    if kind == "S":
        return f"'{content.replace(chr(39), chr(39) * 2)}'"
    if kind in ("N", "BOOL", "NULL"):
        return {"N": str(content), "BOOL": str(content).lower(), "NULL": "NULL"}[kind]
    if kind == "NS":
        return "<<" + ", ".join(content) + ">>"
    if kind == "B":
        return None
    if kind == "L":
        parts = [literal(one) for one in content]
        return None if None in parts else "[" + ", ".join(map(str, parts)) + "]"
    members = [(name, literal(one)) for name, one in content.items()]
    if any(text is None for _, text in members):
        return None
    return "{" + ", ".join(f"'{name}': {text}" for name, text in members) + "}"


class Both:
    """A condition in both languages, with the values each of them needs."""

    def __init__(self, given: Any, use_literals: bool) -> None:
        template, names, value = given
        text = literal(value) if use_literals else None
        self.statement = template.format(*names, v=text if text is not None else "?")
        self.parameters = [] if text is not None else [value] * template.count("{v}")
        self.operation = template.format(*(f"#{name}" for name in names), v=":v")
        self.members: dict[str, Any] = {
            "ExpressionAttributeNames": {
                f"#{name}": name for name in names if f"#{name}" in self.operation
            }
        }
        if "{v}" in template:
            self.members["ExpressionAttributeValues"] = {":v": value}


def outcome(run: Callable[[], Any]) -> tuple[str, Any]:
    """Return ("ok", reply) or (error code, None); a duplicate is a failed condition."""
    try:
        return "ok", run()
    except errors.ApiError as error:
        code = error.code.replace("DuplicateItemException", "ConditionalCheckFailedException")
        return code, None


def key_of(key: tuple[str, str]) -> dict[str, Any]:
    return {"p": S(key[0]), "s": S(key[1])}


def ordered(items: list[Any]) -> list[str]:
    return sorted(str({name: as_sets(item[name]) for name in sorted(item)}) for item in items)


def as_sets(value: Any) -> Any:
    """Return a value in which members of maps and sets come in one order."""
    if isinstance(value, dict):
        return {name: as_sets(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [as_sets(one) for one in value]
    return value


def check_equal(store: Store) -> None:
    tables = [
        ordered(store("Scan", TableName=name)["Items"]) for name in ("by_statement", "by_operation")
    ]
    assert tables[0] == tables[1]


def insert(store: Store, key: tuple[str, str], item: dict[str, Any]) -> None:
    whole = {**item, **key_of(key)}
    members = ", ".join(f"'{name}': ?" for name in whole)
    one = outcome(
        lambda: store(
            "ExecuteStatement",
            Statement=f"INSERT INTO by_statement VALUE {{{members}}}",
            Parameters=list(whole.values()),
        )["Items"]
    )
    other = outcome(
        lambda: store(
            "PutItem",
            TableName="by_operation",
            Item=whole,
            ConditionExpression="attribute_not_exists(p)",
        )
    )
    assert one[0] == other[0]
    assert one[1] in (None, [])


CHANGES = (
    ("SET {0} = {v}", "SET #t0 = :n"),
    ("SET {0} = {v} SET {1} = {0}", "SET #t0 = :n, #t1 = #t0"),
    ("REMOVE {0}", "REMOVE #t0"),
    ("SET {0}[9] = {v} REMOVE {1}", "SET #t0[9] = :n REMOVE #t1"),
    ("SET {0}.x = {v}", "SET #t0.x = :n"),
    ("SET {0} = {0} + {v}", "SET #t0 = #t0 + :n"),
    ("SET {0} = list_append({0}, {v})", "SET #t0 = list_append(#t0, :n)"),
    ("SET {0} = if_not_exists({1}, {v})", "SET #t0 = if_not_exists(#t1, :n)"),
)


def update(store: Store, key: tuple[str, str], data: Any) -> None:
    (statement, expression), names, value, (kind, image) = data
    text = statement.format(*names, v="?")
    words = f"{'ALL' if kind == 'ALL' else 'MODIFIED'} {image}"
    one = outcome(
        lambda: store(
            "ExecuteStatement",
            Statement=f"UPDATE by_statement {text} WHERE p = ? AND s = ? RETURNING {words} *",
            Parameters=[value] * text.count("?") + list(key_of(key).values()),
        )["Items"]
    )
    members: dict[str, Any] = {
        "ExpressionAttributeNames": {
            f"#t{place}": name for place, name in enumerate(names) if f"#t{place}" in expression
        }
    }
    if ":n" in expression:
        members["ExpressionAttributeValues"] = {":n": value}
    other = outcome(
        lambda: store(
            "UpdateItem",
            TableName="by_operation",
            Key=key_of(key),
            UpdateExpression=expression,
            ConditionExpression=KEY_CHECK,
            ReturnValues=f"{kind}_{image}",
            **members,
        ).get("Attributes")
    )
    assert one[0] == other[0], (one, other)
    if one[0] == "ok":
        assert ordered(one[1]) == ordered([] if other[1] is None else [other[1]])


def delete(store: Store, key: tuple[str, str], both: Both) -> None:
    one = outcome(
        lambda: store(
            "ExecuteStatement",
            Statement="DELETE FROM by_statement WHERE p = ? AND s = ? AND "
            f"({both.statement}) RETURNING ALL OLD *",
            Parameters=[*key_of(key).values(), *both.parameters],
        )["Items"]
    )
    # A missing item is a success for the statement whatever its condition says.
    condition = f"attribute_not_exists(p) OR {both.operation}"
    other = outcome(
        lambda: store(
            "DeleteItem",
            TableName="by_operation",
            Key=key_of(key),
            ConditionExpression=condition,
            ReturnValues="ALL_OLD",
            **both.members,
        ).get("Attributes")
    )
    assert one[0] == other[0], (one, other)
    if one[0] == "ok":
        assert ordered(one[1]) == ordered([] if other[1] is None else [other[1]])


def select(store: Store, partition: str | None, both: Both, limit: int) -> None:
    where, values = both.statement, list(both.parameters)
    if partition is not None:
        where, values = f"p = ? AND {where}", [S(partition), *values]
    request = {"Statement": f"SELECT * FROM by_statement WHERE {where}", "Parameters": values}
    one = outcome(
        lambda: pages(store, "ExecuteStatement", "NextToken", "NextToken", limit, request)
    )
    classic = {"TableName": "by_operation", "FilterExpression": both.operation, **both.members}
    if partition is None:
        operation = "Scan"
    else:
        operation = "Query"
        given = {**both.members.get("ExpressionAttributeValues", {}), ":p": S(partition)}
        classic |= {"KeyConditionExpression": "p = :p", "ExpressionAttributeValues": given}
    other = outcome(
        lambda: pages(store, operation, "LastEvaluatedKey", "ExclusiveStartKey", limit, classic)
    )
    assert one[0] == other[0], (request, classic)
    if one[0] == "ok":
        assert [ordered(page) for page in one[1]] == [ordered(page) for page in other[1]]


def pages(
    store: Store, operation: str, last: str, start: str, limit: int, request: dict[str, Any]
) -> list[Any]:
    request = {name: value for name, value in request.items() if value != []}
    found: list[Any] = []
    more: dict[str, Any] = {}
    while True:
        reply = store(operation, Limit=limit, **request, **more)
        found.append(reply["Items"])
        if last not in reply:
            return found
        more = {start: reply[last]}


changes = st.tuples(
    st.sampled_from(CHANGES),
    st.permutations(NAMES),
    attribute_values,
    st.tuples(st.sampled_from(["ALL", "UPDATED"]), st.sampled_from(["OLD", "NEW"])),
)
steps = st.one_of(
    st.tuples(st.just("insert"), keys, attributes),
    st.tuples(st.just("update"), keys, changes),
    st.tuples(st.just("delete"), keys, filters, st.booleans()),
    st.tuples(
        st.just("select"),
        st.sampled_from([*PARTITIONS, None]),
        filters,
        st.booleans(),
        st.integers(1, 5),
    ),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, min_size=1, max_size=12))
def test_statements_do_what_operations_do(store: Store, history: list[Any]) -> None:
    for kind, key, data, *rest in history:
        if kind == "insert":
            insert(store, key, data)
        elif kind == "update":
            update(store, key, data)
        elif kind == "delete":
            delete(store, key, Both(data, rest[0]))
        else:
            select(store, key, Both(data, rest[0]), rest[1])
    check_equal(store)
