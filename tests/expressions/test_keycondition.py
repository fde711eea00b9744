"""KeyConditionExpression: allowed shapes, and how they fit a key schema."""

from __future__ import annotations

import pytest

from dynalsm.expressions import Placeholders, bind_key_condition
from tests.expressions.helpers import number, why

TYPES = {"pk": "S", "sk": "N", "bin": "B", "h1": "S", "h2": "N", "r1": "S", "r2": "S", "r3": "N"}
VALUES = {
    ":p": "a", ":n": number(5), ":m": number(9), ":b": b"x", ":t": True, ":empty": "",
    ":eb": b"", ":q": "b",
}  # fmt: skip


def bound(text: str, names: dict[str, str] | None = None):
    used = {k: v for k, v in VALUES.items() if k in text.replace(",", " ").replace(")", " ")}
    return bind_key_condition(text, Placeholders(names, used or None))


def resolved(text: str, hashes=("pk",), ranges=("sk",)):
    return bound(text).resolve(hashes, ranges, TYPES)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("pk = :p", (["a"], [], None)),
        (":p = pk", (["a"], [], None)),
        ("pk = :p AND sk = :n", (["a"], [number(5)], None)),
        ("sk < :n AND pk = :p", (["a"], [], ("<", [number(5)]))),
        ("pk = :p AND :n < sk", (["a"], [], (">", [number(5)]))),
        ("pk = :p AND :n >= sk", (["a"], [], ("<=", [number(5)]))),
        ("pk = :p and sk between :n and :m", (["a"], [], ("BETWEEN", [number(5), number(9)]))),
        ("((sk >= :n) AND (pk = :p))", (["a"], [], (">=", [number(5)]))),
    ],
)
def test_resolve(text, result):
    assert resolved(text) == result


def test_begins_with_and_names():
    made = bind_key_condition(
        "#p = :p AND begins_with(#s, :x)", Placeholders({"#p": "pk", "#s": "bin"}, {":p": "a",
        ":x": b"y"})
    )  # fmt: skip
    assert made.clauses == {"pk": ("=", ["a"]), "bin": ("begins_with", [b"y"])}
    assert made.attributes == {"pk", "bin"}
    assert made.resolve(["pk"], ["bin"], TYPES) == (["a"], [], ("begins_with", [b"y"]))


# What no key condition may be, whatever the table: refused when bound.
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pk = :p OR sk = :n", "Invalid operator used in KeyConditionExpression: OR"),
        ("NOT sk = :n AND pk = :p", "Invalid operator used in KeyConditionExpression: NOT"),
        ("pk = :p AND sk <> :n", "Invalid operator used in KeyConditionExpression: <>"),
        ("pk = :p AND sk IN (:n)", "Invalid operator used in KeyConditionExpression: IN"),
        ("pk = :p AND attribute_exists(sk)",
         "Invalid operator used in KeyConditionExpression: attribute_exists"),
        ("contains(pk, :p)", "Invalid operator used in KeyConditionExpression: contains"),
        ("pk = :p AND size(sk) = :n", "KeyConditionExpressions cannot contain nested operations"),
        ("pk = :p AND sk.a = :n", "Invalid KeyConditionExpression: KeyConditionExpressions cannot "
         "have conditions on nested attributes"),
        ("pk = :p AND sk[0] = :n", "Invalid KeyConditionExpression: KeyConditionExpressions cannot "
         "have conditions on nested attributes"),
        ("pk = :p AND pk = :p", "Invalid KeyConditionExpression: KeyConditionExpressions must only "
         "contain one condition per key"),
        ("pk = :p AND sk > :n AND sk < :m", "must only contain one condition per key"),
        ("pk = sk", "Invalid condition in KeyConditionExpression: Multiple attribute names used in "
         "one condition"),
        ("pk = :p AND sk BETWEEN bin AND :m", "Multiple attribute names used in one condition"),
        (":p = :q", "Invalid condition in KeyConditionExpression: No key attribute specified"),
        ("pk = :p AND :n BETWEEN sk AND :m", "Invalid condition in KeyConditionExpression: BETWEEN "
         "operator must have the key attribute as its first operand"),
        ("pk = :p AND begins_with(:p, pk)", "Invalid condition in KeyConditionExpression: "
         "begins_with operator must have the key attribute as its first operand"),
        # The checks of every condition come first.
        ("pk != :p", "Invalid KeyConditionExpression: Syntax error"),
        ("", "Invalid KeyConditionExpression: The expression can not be empty;"),
        ("((pk = :p))", "Invalid KeyConditionExpression: The expression has redundant "
         "parentheses;"),
        ("pk = :p AND dog(sk)", "Invalid KeyConditionExpression: Invalid function name; function: "
         "dog"),
        ("pk = :u", "attribute value used in expression is not defined; attribute value: :u"),
        ("pk = :p AND begins_with(sk, :n)", "Invalid KeyConditionExpression: Incorrect operand "
         "type for operator or function; operator or function: begins_with, operand type: N"),
        ("pk = :p AND sk < :t", "operator or function: <, operand type: BOOL"),
        ("pk = :p AND sk BETWEEN :t AND :t", "operator or function: BETWEEN, operand type: BOOL"),
        ("pk = :p AND sk BETWEEN :m AND :n", "Invalid KeyConditionExpression: The BETWEEN operator "
         "requires upper bound to be greater"),
        ("begins_with(sk, :n) OR :u = pk", "operand type: N"),
    ],
)  # fmt: skip
def test_refused_without_a_table(text, message):
    assert why(lambda: bound(text)).startswith(message) or message in why(lambda: bound(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sk = :n", "Query condition missed key schema element: pk"),
        ("bin = :b", "Query condition missed key schema element: pk"),
        ("pk > :p", "Query key condition not supported"),
        ("pk BETWEEN :p AND :q", "Query key condition not supported"),
        ("begins_with(pk, :p) AND sk = :n", "Query key condition not supported"),
        ("pk = :p AND bin > :b", "Query condition missed key schema element: sk"),
        ("pk = :p AND sk = :n AND bin = :b", "The number of query conditions (3) exceeds the "
         "number of key attributes defined in the schema (2)"),
        ("pk = :n", "One or more parameter values were invalid: Condition parameter type does not "
         "match schema type"),
        ("pk = :p AND sk = :p", "Condition parameter type does not match schema type"),
        ("pk = :t", "Condition parameter type does not match schema type"),
        ("pk = :p AND begins_with(sk, :p)", "Condition parameter type does not match schema type"),
        ("pk = :empty", "One or more parameter values are not valid. The AttributeValue for a key "
         "attribute cannot contain an empty string value. Key: pk"),
    ],
)  # fmt: skip
def test_refused_by_the_schema(text, message):
    assert message in why(lambda: resolved(text))


def test_hash_only_table():
    assert bound("pk = :p").resolve(["pk"], [], TYPES) == (["a"], [], None)
    assert why(lambda: bound("pk = :p AND sk = :n").resolve(["pk"], [], TYPES)) == (
        "Query key condition not supported"
    )
    assert "missed key schema element: pk" in why(
        lambda: bound("sk = :n").resolve(["pk"], [], TYPES)
    )


def test_empty_binary_key():
    assert "an empty binary value. Key: bin" in why(
        lambda: bound("pk = :p AND bin = :eb").resolve(["pk"], ["bin"], TYPES)
    )


# Indexes with several key attributes: equality on all of HASH, equality on a prefix of RANGE,
# then at most one other condition on the next.
HASHES, RANGES = ("h1", "h2"), ("r1", "r2", "r3")


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("h1 = :p AND h2 = :n", (["a", number(5)], [], None)),
        ("h2 = :n AND r1 = :q AND h1 = :p", (["a", number(5)], ["b"], None)),
        ("h2 = :n AND r1 > :q AND h1 = :p", (["a", number(5)], [], (">", ["b"]))),
        ("r2 < :q AND h1 = :p AND r1 = :p AND h2 = :n", (["a", number(5)], ["a"], ("<", ["b"]))),
        ("h1 = :p AND h2 = :n AND r1 = :p AND r2 = :q AND r3 BETWEEN :n AND :m",
         (["a", number(5)], ["a", "b"], ("BETWEEN", [number(5), number(9)]))),
        ("h1 = :p AND h2 = :n AND r1 = :p AND begins_with(r2, :q)",
         (["a", number(5)], ["a"], ("begins_with", ["b"]))),
    ],
)  # fmt: skip
def test_multiple_key_attributes(text, result):
    assert bound(text).resolve(HASHES, RANGES, TYPES) == result


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("h1 = :p", "HASH key attributes h2 must have equality conditions"),
        ("h1 = :p AND h2 > :n", "HASH key attributes h2 must have equality conditions"),
        ("h1 = :n AND h2 = :n", "does not match schema type"),
        ("h1 = :p AND h2 = :n AND r2 = :q", "RANGE key attributes r1 must have equality conditions "
         "specified in the query because a condition is present on key attribute r2"),
        ("h1 = :p AND h2 = :n AND r1 > :p AND r2 = :q", "RANGE key attributes r1 must have"),
        ("h1 = :p AND h2 = :n AND r3 = :n", "RANGE key attributes r1, r2 must have equality"),
        ("h1 = :p AND h2 = :n AND r1 = :p AND r3 = :n", "RANGE key attributes r2 must have"),
        ("h1 = :p AND h2 = :n AND zz = :p", "Query condition missed key schema element: r1"),
    ],
)  # fmt: skip
def test_multiple_key_attributes_refused(text, message):
    assert message in why(lambda: bound(text).resolve(HASHES, RANGES, TYPES))
