"""Placeholders and static checks: what is refused, and in which order."""

from __future__ import annotations

import pytest

from dynalsm.expressions import (
    Placeholders,
    bind_condition,
    bind_projection,
    bind_update,
    error,
)
from tests.expressions.helpers import condition, number, refused, why

UNDEFINED_NAME = "name used in the document path is not defined; attribute name: "
UNDEFINED_VALUE = "value used in expression is not defined; attribute value: "


def test_unused_names_then_values_in_given_order():
    given = Placeholders({"#a": "a", "#c": "c", "#b": "b"}, {":v": "v", ":z": "z", ":y": "y"})
    bind_condition("#a = :v", given)
    assert why(given.check_unused) == (
        "Value provided in ExpressionAttributeNames unused in expressions: keys: {#c, #b}"
    )
    bind_projection("#b, #c", given)
    assert why(given.check_unused) == (
        "Value provided in ExpressionAttributeValues unused in expressions: keys: {:z, :y}"
    )
    bind_update("SET a = :y, b = :z", given)
    given.check_unused()


# Use is syntactic: a cached template, a short circuit or an equal name change nothing.
def test_use_is_syntactic():
    for _ in range(2):
        given = Placeholders({"#a": "a", "#b": "a"}, {":v": "v", ":w": "w"})
        assert bind_condition("#a = :v OR #b = :w", given).evaluate({"a": "v"})
        given.check_unused()


@pytest.mark.parametrize(
    ("names", "values", "message"),
    [
        ({}, None, "ExpressionAttributeNames must not be empty"),
        (None, {}, "ExpressionAttributeValues must not be empty"),
        ({"x": "a"}, None, 'ExpressionAttributeNames contains invalid key: Syntax error; key: "x"'),
        ({"#": "a"}, {}, 'ExpressionAttributeNames contains invalid key: Syntax error; key: "#"'),
        ({"#a-b": "a"}, None, "ExpressionAttributeNames contains invalid key: Syntax error"),
        ({"#é": "a"}, None, "ExpressionAttributeNames contains invalid key: Syntax error"),
        ({"#a\n": "a"}, None, "ExpressionAttributeNames contains invalid key: Syntax error"),
        (None, {"#x": "a"}, "ExpressionAttributeValues contains invalid key: Syntax error"),
        ({"#a": ""}, None, "Empty attribute name"),
        ({"#a": "x" * 65536}, None, "65536"),
        ({"#" + "a" * 255: "a"}, None, "ExpressionAttributeNames contains invalid key"),
    ],
)
def test_bad_placeholders(names, values, message):
    caught = refused(lambda: Placeholders(names, values))
    assert message in caught.message and caught.kind == error.PLACEHOLDER


def test_longest_names_are_fine():
    given = Placeholders({"#" + "a" * 254: "x" * 65535}, {":1": None})
    text = "#" + "a" * 254 + " = :1"
    assert bind_condition(text, given).evaluate({"x" * 65535: None})
    given.check_unused()


# The errors of one condition come in the order names and values, count, distinct, types; a
# condition is finished before the next is looked at.
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("begins_with(:u, #u, :x)", UNDEFINED_VALUE + ":u"),
        ("begins_with(#u, :u, :x)", UNDEFINED_NAME + "#u"),
        ("begins_with(#a, :n, :u)", UNDEFINED_VALUE + ":u"),
        ("size(#a, a) = #u", UNDEFINED_NAME + "#u"),
        ("begins_with(#a, a, :n)", "number of operands: 3"),
        ("size(a, b) < a AND #u = a", "number of operands: 2"),
        ("begins_with(a, #a) AND b < :l", "must be distinct"),
        ("a = b AND #a = a AND #u = :u", "must be distinct"),
        ("b < :l AND #u = :u", "operand type: L"),
        ("NOT (a = b OR (b < :l AND #u = :u))", "operand type: L"),
        ("attribute_type(a, #a)", "must be distinct"),
        ("size(size(a)) = size(:n)", "operator or function: size, operand type: N"),
    ],
)
def test_order_of_faults(text, message):
    action = lambda: condition(text, {":n": number(1), ":l": []}, {"#a": "a"})  # noqa: E731
    assert message in why(action)
    assert message in why(action)  # and not otherwise when asked again


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">=", "BETWEEN"])
@pytest.mark.parametrize(
    ("value", "tag"),
    [(True, "BOOL"), (None, "NULL"), ([], "L"), ({}, "M"), (frozenset("a"), "SS"),
     (frozenset((number(1),)), "NS"), (frozenset((b"a",)), "BS")],
)  # fmt: skip
def test_constants_that_have_no_order(operator, value, tag):
    texts = [f"a {operator} :v", f":v {operator} a"]
    if operator == "BETWEEN":
        texts = ["a BETWEEN :v AND b", "a BETWEEN b AND :v", ":v BETWEEN a AND b"]
    for text in texts:
        assert why(lambda t=text: condition(t, {":v": value})) == (
            "Invalid ConditionExpression: Incorrect operand type for operator or function; "
            f"operator or function: {operator}, operand type: {tag}"
        )
        assert condition(text, {":v": "s"})  # the same text is fine with another value


@pytest.mark.parametrize("text", ["a = :v", "a <> :v", "a IN (:v)", "contains(a, :v)"])
@pytest.mark.parametrize("value", [True, None, [], {}, frozenset("a"), number(1)])
def test_operators_that_take_any_constant(text, value):
    assert condition(text, {":v": value})


@pytest.mark.parametrize(
    ("text", "values", "message"),
    [
        ("begins_with(a, :v)", {":v": number(2)}, "function: begins_with, operand type: N"),
        ("begins_with(:v, a)", {":v": None}, "function: begins_with, operand type: NULL"),
        ("begins_with(a, size(a))", None, "function: begins_with, operand type: N"),
        ("size(:v) > a", {":v": True}, "function: size, operand type: BOOL"),
        ("attribute_type(a, :v)", {":v": b"S"}, "function: attribute_type, operand type: B"),
        ("attribute_type(a, b)", None, "operand type: {NS,SS,L,BS,N,M,B,BOOL,NULL,S}"),
        ("attribute_type(a, size(b))", None, "function: attribute_type, operand type: N"),
        ("attribute_type(a, :v)", {":v": "HELLO"}, "attribute type name found; type: HELLO, "
         "valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}"),
        ("attribute_exists(:v)", {":v": "a"}, "document path; operator or function: attribute_e"),
        ("attribute_not_exists(size(a))", None, "document path; operator or function: attribute_n"),
        ("a BETWEEN :l AND :h", {":l": number(1), ":h": "a"}, "same data type for lower and upper "
         "bounds; lower bound operand: AttributeValue: {N:1}, upper bound operand: "
         "AttributeValue: {S:a}"),
        ("a BETWEEN :l AND :h", {":l": number(5), ":h": number(1)}, "greater than or equal to "
         "lower bound; lower bound operand: AttributeValue: {N:5}, upper bound operand: "
         "AttributeValue: {N:1}"),
        ("a BETWEEN :l AND :h", {":l": b"b", ":h": b"a"}, "AttributeValue: {B:Yg==}"),
        ("a BETWEEN :l AND :h", {":l": number("1E+3"), ":h": number(1)}, "{N:1000}"),
        ("a.b[1].#c <> a.#b[1].c", None, "operator: <>, first operand: [a, b, [1], c]"),
    ],
)  # fmt: skip
def test_static_faults(text, values, message):
    names = {"#b": "b", "#c": "c"} if "#" in text else None
    assert message in why(lambda: condition(text, values, names))


# Values may repeat on both sides, size may be taken of any constant that has one.
@pytest.mark.parametrize(
    ("text", "values"),
    [
        (":v > :v", {":v": "a"}),
        (":v BETWEEN :v AND :v", {":v": "a"}),
        ("size(:v) > a", {":v": frozenset("a")}),
        ("attribute_type(:v, :v)", {":v": "S"}),
        ("a BETWEEN b AND :v", {":v": number(1)}),
        ("begins_with(:v, a)", {":v": b""}),
    ],
)
def test_static_checks_do_not_overreach(text, values):
    assert condition(text, values)


def test_prefix_names_the_parameter():
    for kind in ("ConditionExpression", "FilterExpression"):
        message = why(lambda k=kind: condition("a", kind=k))
        assert message == f'Invalid {kind}: Syntax error; token: "<EOF>", near: "a"'


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("a !", error.SYNTAX),
        ("a[99999999999] = b", error.LIMIT),
        ("((a = b))", error.PARENTHESES),
        ("data = b", error.RESERVED),
        ("foo(b)", error.FUNCTION),
        ("a = :b", error.PLACEHOLDER),
        ("a = a", error.DISTINCT),
        ("attribute_exists(size(a))", error.OPERAND),
    ],
)
def test_kinds(text, kind):
    assert refused(lambda: condition(text)).kind == kind


# A name is one path component whatever it holds, and is resolved anew for other names.
def test_names_are_single_components():
    item = {"a.b": "dotted", "a": {"b": "nested"}}
    for name, value in [("a.b", "dotted"), ("a", {"b": "nested"})]:
        assert condition("#n = :v", {":v": value}, {"#n": name}).evaluate(item)
    assert condition("#n.#m = :v", {":v": "nested"}, {"#n": "a", "#m": "b"}).evaluate(item)
