"""Observed numbers, sizes, units, conditions and updates, each through whole operations.

The tables are facts recorded on DynamoDB (reference, appendix A.1 to A.6).
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest

from tests.support.store import SIMPLE, N, S, Store

# Written -> stored. A.1.
NUMBERS_STORED = """
    007=7 001.23=1.23 00=0 +3=3 +1.5=1.5 1.0=1 1.10=1.1 100.000=100 0.10=0.1
    1e3=1000 1E+3=1000 1.0e3=1000 -3e2=-300 1.23e4=12300 1e-3=0.001 123e-2=1.23 1.23e-1=0.123
    -0=0 -0.0=0 0e5=0 0e-5=0 .5=0.5 -.5=-0.5 1e20=100000000000000000000
    1e-20=0.00000000000000000001 0042.1200=42.12
""".split()


@pytest.mark.parametrize("pair", [*NUMBERS_STORED, "1e125=1" + 125 * "0"])
def test_stored_number(store: Store, pair: str) -> None:
    written, _, stored = pair.partition("=")
    p = store.key()
    store.put(SIMPLE, p=p, n=N(written), s={"NS": [written, "77"]}, l={"L": [N(written)]})
    item = store.get(SIMPLE, p=p)
    assert item is not None
    assert (item["n"], item["l"]) == (N(stored), {"L": [N(stored)]})
    assert stored in item["s"]["NS"]
    found = store(
        "Scan",
        TableName=SIMPLE,
        FilterExpression="p = :p AND n = :n AND contains(s, :n)",
        ExpressionAttributeValues={":p": p, ":n": N(written)},
    )
    assert found["Count"] == 1


OVERFLOW, UNDERFLOW = "Number overflow", "Number underflow"
PRECISION, NO_NUMBER = "Attempting to store more than 38", "cannot be converted to a numeric value"
NUMBERS_REFUSED = [
    *[(text, OVERFLOW) for text in ("1e126", "-1e126", "1e99999999999", "1e2147483648", "0e126")],
    *[(text, UNDERFLOW) for text in ("1e-131", "1e-99999999999", "-1e-131", "0e-131")],
    *[(text, PRECISION) for text in (39 * "1", "0." + 39 * "1", "1" + 37 * "0" + "1")],
    *[(text, NO_NUMBER) for text in ("abc", " 1", "1 ", "0x10", "1e", "1.2.3", "NaN", "Infinity")],
    *[(text, NO_NUMBER) for text in ("", "1e9223372036854775808", "1_0", "1,0", "--1", "+", ".")],
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), NUMBERS_REFUSED)
def test_refused_number(store: Store, text: str, message: str) -> None:
    p = store.key()
    for value in (N(text), {"NS": ["1", text]}, {"M": {"a": {"L": [N(text)]}}}):
        error = store.refused("PutItem", TableName=SIMPLE, Item={"p": p, "n": value})
        assert message in error.message


@pytest.mark.parametrize(
    ("stored", "added"), [("9e125", "9e125"), ("1e50", "1"), ("-9e125", "-9e125")]
)
def test_sums_are_exact_or_refused(store: Store, stored: str, added: str) -> None:
    p = store.key()
    store.put(SIMPLE, p=p, n=N(stored))
    for expression in ("SET n = n + :a", "ADD n :a"):
        error = store.refused(
            "UpdateItem",
            TableName=SIMPLE,
            Key={"p": p},
            UpdateExpression=expression,
            ExpressionAttributeValues={":a": N(added)},
        )
        assert OVERFLOW in error.message
    assert store.get(SIMPLE, p=p) == {"p": p, "n": N(f"{Decimal(stored):f}")}


# Attributes beside p -> bytes of the item with p = "a". A.3.
SIZES: list[tuple[dict[str, Any], int]] = [
    ({}, 2),
    ({"n": N(123456)}, 7),
    ({"l": {"L": [S("xy"), N(1)]}}, 12),
    ({"m": {"M": {"k": {"BOOL": True}}}}, 9),
    ({"ss": {"SS": ["ab", "c"]}}, 7),
    ({"z": {"NULL": True}}, 4),
    ({"é": S("é")}, 6),
]


@pytest.mark.parametrize(("attributes", "size"), SIZES, ids=str)
def test_item_size(store: Store, attributes: dict[str, Any], size: int) -> None:
    """Seen from outside: filled up to whole units of 1,024 bytes, and with one byte more."""
    p = S("a")
    for extra, units in ((0, 3.0), (1, 4.0)):
        filling = S("x" * (3 * 1024 - size - 1 + extra))
        reply = store(
            "PutItem",
            TableName=SIMPLE,
            Item={"p": p, **attributes, "f": filling},
            ReturnConsumedCapacity="TOTAL",
        )
        assert reply["ConsumedCapacity"]["CapacityUnits"] == units
        store("DeleteItem", TableName=SIMPLE, Key={"p": p})


# Units. A.4.


def sized(store: Store, size: int) -> dict[str, Any]:
    """Return an item of so many bytes with a new key."""
    p = store.key()
    return {"p": p, "f": S("x" * (size - 2 - len(p["S"])))}


def units(reply: dict[str, Any]) -> float:
    consumed = reply["ConsumedCapacity"]
    [one] = consumed if isinstance(consumed, list) else [consumed]
    return float(one["CapacityUnits"])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [(0, 1024, 1), (0, 1025, 2), (3072, 100, 3), (100, 3072, 3), (3072, 3073, 4), (1, 1, 1)],
)
def test_units_of_a_put(store: Store, old: int, new: int, expected: float) -> None:
    item = sized(store, max(new, 20))
    total = {"ReturnConsumedCapacity": "TOTAL"}
    if old:
        before = {**item, "f": S("x" * (max(old, 20) - 2 - len(item["p"]["S"])))}
        store("PutItem", TableName=SIMPLE, Item=before)
    assert units(store("PutItem", TableName=SIMPLE, Item=item, **total)) == expected


def test_units_of_other_operations(store: Store) -> None:
    total: dict[str, Any] = {"TableName": SIMPLE, "ReturnConsumedCapacity": "TOTAL"}
    item, missing = sized(store, 3072), store.key()
    key = {"p": item["p"]}

    def again() -> None:
        store("PutItem", TableName=SIMPLE, Item=item)

    def transact(**action: Any) -> float:
        [(kind, member)] = action.items()
        member = {"TableName": SIMPLE, **member}
        return units(
            store(
                "TransactWriteItems", TransactItems=[{kind: member}], ReturnConsumedCapacity="TOTAL"
            )
        )

    again()
    assert units(store("DeleteItem", Key=key, **total)) == 3
    assert units(store("DeleteItem", Key=key, **total)) == 1
    again()
    assert transact(Delete={"Key": key}) == 6
    check = {"ConditionExpression": "attribute_not_exists(q)"}
    assert transact(ConditionCheck={"Key": {"p": missing}, **check}) == 2
    again()
    assert transact(ConditionCheck={"Key": key, **check}) == 6
    large = sized(store, 4097)
    store("PutItem", TableName=SIMPLE, Item=large)
    large_key = {"p": large["p"]}
    assert units(store("GetItem", Key=large_key, **total)) == 1.0
    assert units(store("GetItem", Key=large_key, ConsistentRead=True, **total)) == 2
    assert units(store("GetItem", Key={"p": missing}, **total)) == 0.5
    assert units(store("GetItem", Key={"p": missing}, ConsistentRead=True, **total)) == 1
    small = sized(store, 100)
    store("PutItem", TableName=SIMPLE, Item=small)
    gets = [{"Get": {"TableName": SIMPLE, "Key": {"p": small["p"]}}}]
    reply = store("TransactGetItems", TransactItems=gets, ReturnConsumedCapacity="TOTAL")
    assert units(reply) == 2


# Conditions on one item. A.5.

CONDITION_ITEM: dict[str, Any] = {
    "n": N(5),
    "s": S("abc"),
    "l": {"L": [N(1), S("a")]},
    "m": {"M": {"k": N(1)}},
    "m2": {"M": {"k": N(1)}},
    "ss": {"SS": ["a", "b"]},
    "nul": {"NULL": True},
}
CONDITION_VALUES: dict[str, Any] = {
    ":any": S("any"), ":str": S("x"), ":str5": S("5"), ":NULL": S("NULL"), ":one": N(1),
    ":a": S("a"), ":bc": S("bc"), ":k": S("k"), ":zero": N(0), ":list": {"L": []}, ":num": N(7),
    ":t": {"BOOL": True}, ":five": N(5), ":ss": {"SS": ["b", "a"]}, ":m": {"M": {"k": N("1.0")}},
    ":bin": {"B": b"a"}, ":type": S("HELLO"), ":nul": {"NULL": True},
}  # fmt: skip
TRUE = [
    "zz <> :any", "zz <> yy", "n <> :str", "attribute_exists(nul)", "attribute_type(nul, :NULL)",
    "contains(l, :one)", "contains(ss, :a)", "contains(s, :bc)", "size(m) = :one", "NOT zz = :any",
    "l[0] < n", "ss = :ss", "m = :m", "m = m2", "attribute_not_exists(zz)",
    "attribute_not_exists(l[2])", "nul = :nul", "n IN (:str, :five)", "n BETWEEN :one AND :num",
    "contains(l, :a)",
    "begins_with(s, :a)", "NOT NOT n = :five", "(n = :five) AND (s <> :a OR zz = :any)",
    "size(ss) > :one", "size(s) <> n",
]  # fmt: skip
FALSE = [
    "zz = yy", "zz < n", "n = :str5", "s < n", "m < m2", "contains(m, :k)", "size(n) > :zero",
    "begins_with(n, s)", "zz IN (:a)", "n BETWEEN s AND s", "contains(ss, :one)", "s = :bin",
    "contains(n, :five)", "attribute_exists(m.x)", "size(zz) = :zero",
        "n < :bin", "contains(s, :bin)",
]  # fmt: skip
REFUSED = [
    "n < :list", "begins_with(s, :num)", "size(:num) > :zero", "contains(s, s)", "n = n", "size(s)",
    "attribute_exists(n) = :t", "n BETWEEN :five AND :one", "n BETWEEN :one AND :str",
    "((n = :five))", "n IN ()", "n != :five", "foo(n)", "size = :one", "attribute_type(n, :type)",
    "attribute_type(n, s)", "attribute_exists(:five)", "n = :undefined", "#u = :five", "", "n",
    "n = :five AND", "if_not_exists(n, :five) = :five", "n BETWEEN :t AND :t", "_n = :five",
]  # fmt: skip


def used(text: str, known: dict[str, Any]) -> dict[str, Any]:
    """Return the member with the values that an expression names, as far as they are known."""
    names = set(re.findall(r":\w+", text))
    values = {name: known[name] for name in names if name in known}
    return {"ExpressionAttributeValues": values} if values else {}


@pytest.fixture(scope="module")
def item(store: Store) -> dict[str, Any]:
    return store.put(SIMPLE, p=store.key(), **CONDITION_ITEM)


@pytest.mark.parametrize(
    ("text", "expected"), [*((text, True) for text in TRUE), *((text, False) for text in FALSE)]
)
def test_condition(store: Store, item: dict[str, Any], text: str, expected: bool) -> None:
    """As a condition of a write, of a transaction, and as a filter of Scan."""
    key = {"p": item["p"]}
    put = {
        "TableName": SIMPLE,
        "Item": item,
        "ConditionExpression": text,
        **used(text, CONDITION_VALUES),
    }
    check = {
        "TableName": SIMPLE,
        "Key": key,
        "ConditionExpression": text,
        **used(text, CONDITION_VALUES),
    }
    if expected:
        store("PutItem", **put)
        store("TransactWriteItems", TransactItems=[{"ConditionCheck": check}])
    else:
        store.refused("PutItem", "ConditionalCheckFailedException", **put)
        store.refused(
            "TransactWriteItems",
            "TransactionCanceledException",
            TransactItems=[{"ConditionCheck": check}],
        )
    given = used(text, CONDITION_VALUES).get("ExpressionAttributeValues", {})
    found = store(
        "Scan",
        TableName=SIMPLE,
        FilterExpression=f"p = :key AND ({text})",
        ExpressionAttributeValues={":key": item["p"], **given},
    )
    assert found["Count"] == expected


@pytest.mark.parametrize("text", REFUSED)
def test_refused_condition(store: Store, text: str) -> None:
    """Before any table is looked at, wherever a condition may stand."""
    more = used(text, CONDITION_VALUES)
    table = {"TableName": "nowhere"}
    for kind in ("PutItem", "DeleteItem", "UpdateItem"):
        target = "Item" if kind == "PutItem" else "Key"
        request = {target: {"p": S("x")}, "ConditionExpression": text, **table, **more}
        error = store.refused(kind, **request)
        assert error.message.startswith("Invalid ConditionExpression: ")
    error = store.refused("Scan", FilterExpression=text, **table, **more)
    assert error.message.startswith("Invalid FilterExpression: ")


# Updates of {a: 1, l: [10, 20, 30], m: {k: 1}, ss: {a}}. A.6.

UPDATE_ITEM: dict[str, Any] = {
    "a": N(1),
    "l": {"L": [N(10), N(20), N(30)]},
    "m": {"M": {"k": N(1)}},
    "ss": {"SS": ["a"]},
}
V, W = S("v"), S("w")
UPDATE_VALUES: dict[str, Any] = {
    ":v": V, ":w": W, ":zero": N(0), ":one": N(1), ":two": N(2), ":a": {"SS": ["a"]},
    ":b": {"SS": ["b"]}, ":x": {"SS": ["x"]}, ":l": {"L": [N(7)]}, ":n": {"NS": ["1"]},
}  # fmt: skip


def L(*numbers: Any) -> dict[str, Any]:
    return {"L": [number if isinstance(number, dict) else N(number) for number in numbers]}


UPDATES: list[tuple[str, dict[str, Any]]] = [
    ("SET a = :two, b = a", {"a": N(2), "b": N(1)}),
    ("SET l[7] = :v", {"l": L(10, 20, 30, V)}),
    ("SET l[9] = :v, l[7] = :w", {"l": L(10, 20, 30, W, V)}),
    ("REMOVE l[0], l[1]", {"l": L(30)}),
    ("REMOVE l[1] SET l[0] = :v", {"l": L(V, 30)}),
    ("SET c = if_not_exists(c, :zero) + :one", {"c": N(1)}),
    ("SET a = a - :two", {"a": N(-1)}),
    ("SET a = :one - a", {"a": N(0)}),
    ("ADD c :one", {"c": N(1)}),
    ("ADD a :two", {"a": N(3)}),
    ("ADD ss :b", {"ss": {"SS": ["a", "b"]}}),
    ("ADD fresh :b", {"fresh": {"SS": ["b"]}}),
    ("ADD m.k :two", {"m": {"M": {"k": N(3)}}}),
    ("DELETE ss :a", {"ss": None}),
    ("DELETE ss :b", {}),
    ("DELETE zz :b", {}),
    ("REMOVE zz, l[9]", {}),
    ("REMOVE a SET b = a", {"a": None, "b": N(1)}),
    ("SET l = list_append(l, :l)", {"l": L(10, 20, 30, 7)}),
    ("SET l = list_append(:l, l)", {"l": L(7, 10, 20, 30)}),
    ("SET fresh = list_append(if_not_exists(fresh, :l), :l)", {"fresh": L(7, 7)}),
    ("SET m.kk = :v REMOVE m.k", {"m": {"M": {"kk": V}}}),
    ("SET a = (a + :one)", {"a": N(2)}),
    ("set a = :v remove ss add c :one", {"a": V, "ss": None, "c": N(1)}),
]
REFUSED_UPDATES = [
    ("SET m.z.y = :v", "The document path provided in the update expression is invalid for update"),
    ("REMOVE q.r", "The document path provided in the update expression is invalid for update"),
    ("SET a.b = :v", "The document path provided in the update expression is invalid for update"),
    ("SET m[0] = :v", "The document path provided in the update expression is invalid for update"),
    ("SET c = c + :one", "The provided expression refers to an attribute that does not exist"),
    ("SET c = zz", "The provided expression refers to an attribute that does not exist"),
    ("ADD a :x", "An operand in the update expression has an incorrect data type"),
    ("ADD m :one", "An operand in the update expression has an incorrect data type"),
    ("ADD ss :n", "An operand in the update expression has an incorrect data type"),
    ("DELETE ss :n", "An operand in the update expression has an incorrect data type"),
    ("SET a = ss + :one", "An operand in the update expression has an incorrect data type"),
    ("SET l = list_append(l, a)", "An operand in the update expression has an incorrect data type"),
    ("SET m.k = :v, m = :w", "Two document paths overlap"),
    ("SET m.k = :v REMOVE m.k", "Two document paths overlap"),
    ("SET m.k = :v, m[0] = :w", "Two document paths conflict"),
    ("SET p = :v", "Cannot update attribute p. This attribute is part of the key"),
    ("REMOVE p", "Cannot update attribute p. This attribute is part of the key"),
    ("ADD a :v", "operator: ADD, operand type: STRING"),
    ("DELETE ss :one", "operator: DELETE, operand type: NUMBER"),
    ("SET a = :v + :one", "operator or function: +, operand type: S"),
    ("SET a = :one SET c = :two", 'The "SET" section can only be used once'),
    ("SET a = if_not_exists(:v, :w)", "Operator or function requires a document path"),
    ("SET l = list_append(list_append(l, :l), :l)", "not allowed to be used this way"),
    ("SET a = a + :one + :two", "Syntax error"),
    ("SET a = size(a)", "The function is not allowed in an update expression; function: size"),
    ("SET", "Syntax error"),
]  # fmt: skip


def update(p: dict[str, Any], text: str) -> dict[str, Any]:
    more = used(text, UPDATE_VALUES)
    return {"TableName": SIMPLE, "Key": {"p": p}, "UpdateExpression": text, **more}


@pytest.mark.parametrize(("text", "changes"), UPDATES)
def test_update(store: Store, text: str, changes: dict[str, Any]) -> None:
    """As UpdateItem and in a transaction."""
    for kind in ("UpdateItem", "TransactWriteItems"):
        p = store.key()
        before = store.put(SIMPLE, p=p, **UPDATE_ITEM)
        request = update(p, text)
        if kind == "UpdateItem":
            store(kind, **request)
        else:
            store(kind, TransactItems=[{"Update": request}])
        expected = {**before, **changes}
        expected = {name: value for name, value in expected.items() if value is not None}
        assert store.get(SIMPLE, p=p) == expected


@pytest.mark.parametrize(("text", "message"), REFUSED_UPDATES)
def test_refused_update(store: Store, text: str, message: str) -> None:
    p = store.key()
    before = store.put(SIMPLE, p=p, **UPDATE_ITEM)
    assert message in store.refused("UpdateItem", **update(p, text)).message
    assert store.get(SIMPLE, p=p) == before


def test_what_a_missing_item_becomes(store: Store) -> None:
    p = store.key()
    for text in ("REMOVE a", "REMOVE a.b.c", "DELETE ss :a"):
        store("UpdateItem", **update(p, text))
        assert store.get(SIMPLE, p=p) is None
    store("UpdateItem", TableName=SIMPLE, Key={"p": p})
    assert store.get(SIMPLE, p=p) == {"p": p}
