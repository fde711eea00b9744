"""Expected, filters, KeyConditions, AttributeUpdates, AttributesToGet."""

from __future__ import annotations

import pytest

from dynalsm.expressions import (
    bind_attribute_updates,
    bind_attributes_to_get,
    bind_expected,
    bind_filter,
    bind_key_conditions,
)
from tests.expressions.helpers import number, why

INVALID = "One or more parameter values were invalid: "
ITEM = {
    "n": number(5), "s": "hello", "b": b"\x01\x02", "l": [number(2), "x"], "m": {"k": "v"},
    "ss": frozenset(("a", "b")), "ns": frozenset((number(4),)), "t": True, "nul": None,
    "a.b": "dotted",
}  # fmt: skip


def term(operator: str, *values):
    return {"ComparisonOperator": operator, "AttributeValueList": list(values)}


def expected(conditions, operator=None) -> bool:
    made = bind_expected(conditions, operator)
    assert made is not None
    return made.evaluate(ITEM)


@pytest.mark.parametrize(
    ("name", "condition", "result"),
    [
        ("n", term("EQ", number(5)), True),
        ("m", term("EQ", {"k": "v"}), True),
        ("t", term("EQ", number(1)), False),
        ("zz", term("EQ", number(5)), False),
        ("n", term("NE", number(5)), False),
        ("zz", term("NE", number(5)), True),
        ("n", term("NE", "5"), True),
        ("n", term("LT", number(6)), True),
        ("n", term("GE", number(6)), False),
        ("s", term("LE", "hello"), True),
        ("b", term("GT", b"\x01"), True),
        ("l", term("LT", number(6)), False),
        ("n", term("BETWEEN", number(5), number(6)), True),
        ("s", term("IN", "x", "hello"), True),
        ("s", term("IN", "x"), False),
        ("s", term("BEGINS_WITH", "he"), True),
        ("n", term("BEGINS_WITH", "5"), False),
        ("s", term("CONTAINS", "ell"), True),
        ("ns", term("CONTAINS", number(4)), True),
        ("l", term("CONTAINS", number(2)), True),
        ("s", term("NOT_CONTAINS", "x"), True),
        ("s", term("NOT_CONTAINS", "ell"), False),
        ("n", term("NOT_CONTAINS", "x"), True),
        # NOT_CONTAINS, unlike NE, is false for a missing attribute.
        ("zz", term("NOT_CONTAINS", "x"), False),
        ("nul", term("NOT_NULL"), True),
        ("nul", term("NULL"), False),
        ("zz", term("NULL"), True),
        # Names are literal.
        ("a.b", term("EQ", "dotted"), True),
        ("m.k", term("NOT_NULL"), False),
    ],
)
def test_operators(name, condition, result):
    assert expected({name: condition}) is result
    made = bind_filter({name: condition})
    assert made is not None and made.evaluate(ITEM) is result


@pytest.mark.parametrize(
    ("condition", "result"),
    [
        ({"Value": number(5)}, True),
        ({"Value": number(6)}, False),
        ({"Exists": True, "Value": number(5)}, True),
        ({"Exists": False}, False),
        ({"ComparisonOperator": "GT", "Value": number(4)}, True),
        ({"ComparisonOperator": "NOT_NULL"}, True),
        ({"Value": None}, False),
    ],
)
def test_expected_by_value(condition, result):
    assert expected({"n": condition}) is result


def test_several_attributes():
    yes, no = {"Value": number(5)}, {"Exists": False}
    assert expected({"n": yes, "zz": no}) is True
    assert expected({"n": yes, "s": no}) is False
    assert expected({"n": yes, "s": no}, "AND") is False
    assert expected({"s": no, "n": yes}, "OR") is True
    assert expected({"s": term("NOT_CONTAINS", "ell"), "n": yes}, "OR") is True
    assert expected({"s": term("NOT_CONTAINS", "x"), "n": yes, "t": no}, "AND") is False


def test_nothing_expected():
    assert bind_expected(None) is None and bind_expected({}) is None and bind_filter({}) is None


@pytest.mark.parametrize("conditions", [None, {}])
def test_conditional_operator_needs_conditions(conditions):
    for bind in (bind_expected, bind_filter):
        assert "ConditionalOperator cannot be used without" in why(
            lambda b=bind: b(conditions, "OR")
        )
        assert "two or more elements" in why(lambda b=bind: b({"a": term("NULL")}, "AND"))


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ({"Value": "x", "AttributeValueList": ["x"]},
         "Value and AttributeValueList cannot be used together for Attribute: a"),
        ({"Exists": False, "ComparisonOperator": "EQ", "AttributeValueList": ["x"]},
         "Exists and ComparisonOperator cannot be used together for Attribute: a"),
        ({"ComparisonOperator": "EQ"},
         "Value or AttributeValueList must be used with ComparisonOperator: EQ for Attribute: a"),
        ({"AttributeValueList": ["x"]},
         "AttributeValueList can only be used with a ComparisonOperator for Attribute: a"),
        ({"Exists": True}, "Value must be provided when Exists is true for Attribute: a"),
        ({}, "Value must be provided when Exists is null for Attribute: a"),
        ({"Exists": False, "Value": None},
         "Value cannot be used when Exists is false for Attribute: a"),
    ],
)  # fmt: skip
def test_expected_members(condition, message):
    assert why(lambda: bind_expected({"a": condition})) == INVALID + message


COUNT = "Invalid number of argument(s) for the {} ComparisonOperator"


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (term("EQ"), COUNT.format("EQ")),
        (term("EQ", "x", "y"), COUNT.format("EQ")),
        (term("NULL", "x"), COUNT.format("NULL")),
        (term("IN"), COUNT.format("IN")),
        (term("BETWEEN", "x"), COUNT.format("BETWEEN")),
        (term("BETWEEN", "x", "y", "z"), COUNT.format("BETWEEN")),
        (term("IN", "x", number(1)), "AttributeValues inside AttributeValueList must be of same "
         "type"),
        (term("LT", []), "ComparisonOperator LT is not valid for L AttributeValue type"),
        (term("IN", frozenset("a")), "ComparisonOperator IN is not valid for SS AttributeValue "
         "type"),
        (term("CONTAINS", True), "ComparisonOperator CONTAINS is not valid for BOOL "
         "AttributeValue type"),
        (term("NOT_CONTAINS", None), "NOT_CONTAINS is not valid for NULL AttributeValue type"),
        (term("BEGINS_WITH", number(1)), "BEGINS_WITH is not valid for N AttributeValue type"),
    ],
)  # fmt: skip
def test_wrong_values(condition, message):
    for bind in (bind_expected, bind_filter, bind_key_conditions):
        found = why(lambda b=bind: b({"a": condition}))
        assert found.startswith(INVALID) and found.endswith(message)


def test_reversed_between():
    assert why(lambda: bind_filter({"a": term("BETWEEN", number(2), number(1))})) == (
        "The BETWEEN condition was provided a range where the lower bound is greater than the "
        "upper bound"
    )


def test_key_conditions():
    types = {"pk": "S", "sk": "N"}
    made = bind_key_conditions({"sk": term("BETWEEN", number(1), number(2)), "pk": term("EQ", "a")})
    assert made.resolve(["pk"], ["sk"], types) == (["a"], [], ("BETWEEN", [number(1), number(2)]))
    for operator, sign in [("LT", "<"), ("LE", "<="), ("GT", ">"), ("GE", ">=")]:
        made = bind_key_conditions({"pk": term("EQ", "a"), "sk": term(operator, number(1))})
        assert made.resolve(["pk"], ["sk"], types) == (["a"], [], (sign, [number(1)]))
    for operator, values in [("NE", ["a"]), ("IN", ["a"]), ("CONTAINS", ["a"]), ("NULL", [])]:
        made = bind_key_conditions({"pk": term(operator, *values)})
        assert why(lambda m=made: m.resolve(["pk"], ["sk"], types)) == (
            "Attempted conditional constraint is not an indexable operation"
        )
    assert why(lambda: bind_key_conditions({})) == "Conditions can be of length 1 or 2 only"
    made = bind_key_conditions({"pk": term("BEGINS_WITH", "a")})
    assert "not supported" in why(lambda: made.resolve(["pk"], ["sk"], types))


@pytest.mark.parametrize(
    ("updates", "result"),
    [
        ({"n": {"Value": "new"}}, {"n": "new"}),
        ({"n": {"Value": None, "Action": "PUT"}}, {"n": None}),
        ({"n": {"Action": "DELETE"}}, {"n": "gone"}),
        ({"n": {"Value": number(2), "Action": "ADD"}}, {"n": number(7)}),
        ({"c": {"Value": number(2), "Action": "ADD"}}, {"c": number(2)}),
        ({"ss": {"Value": frozenset("c"), "Action": "ADD"}}, {"ss": frozenset("abc")}),
        ({"l": {"Value": ["x", "y"], "Action": "ADD"}}, {"l": [number(2), "x", "x", "y"]}),
        ({"c": {"Value": ["x"], "Action": "ADD"}}, {"c": ["x"]}),
        ({"ss": {"Value": frozenset("bz"), "Action": "DELETE"}}, {"ss": frozenset("a")}),
        ({"ss": {"Value": frozenset("ab"), "Action": "DELETE"}}, {"ss": "gone"}),
        ({"c": {"Value": frozenset("ab"), "Action": "DELETE"}}, {}),
        ({"a.b": {"Value": "x"}, "l[0]": {"Value": "y"}}, {"a.b": "x", "l[0]": "y"}),
        ({}, {}),
    ],
)
def test_attribute_updates(updates, result):
    new = bind_attribute_updates(updates).apply(ITEM).item
    changed = {k: v for k, v in new.items() if k not in ITEM or ITEM[k] != v}
    changed |= {k: "gone" for k in ITEM if k not in new}
    assert changed == result


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ({}, INVALID + "Only DELETE action is allowed when no attribute value is specified"),
        ({"Action": "ADD"}, INVALID + "Only DELETE action is allowed when no attribute value is "
         "specified"),
        ({"Action": "DELETE", "Value": "x"},
         INVALID + "DELETE action with value is not supported for the type S"),
        ({"Action": "DELETE", "Value": []},
         INVALID + "DELETE action with value is not supported for the type L"),
        ({"Action": "ADD", "Value": {}}, INVALID + "ADD action is not supported for the type M"),
        ({"Action": "ADD", "Value": "x"}, INVALID + "ADD action is not supported for the type S"),
        ({"Action": "ADD", "Value": frozenset("x")}, "Type mismatch for attribute to update"),
        ({"Action": "DELETE", "Value": frozenset("x")}, "Type mismatch for attribute to update"),
    ],
)  # fmt: skip
def test_attribute_updates_refused(update, message):
    assert why(lambda: bind_attribute_updates({"n": update}).apply(ITEM)) == message


def test_attribute_updates_on_a_missing_item():
    made = bind_attribute_updates({"a": {"Action": "DELETE"}})
    assert made.only_removes and made.apply(None).item == {}
    assert not bind_attribute_updates({}).only_removes
    assert bind_attribute_updates({"a": {"Value": "x"}}).apply(None).item == {"a": "x"}


def test_attribute_updates_returned():
    made = bind_attribute_updates({"n": {"Value": "x"}, "c": {"Value": "y"}})
    assert made.updated_old(ITEM) == {"n": number(5)}
    assert made.updated_new(made.apply(ITEM).item) == {"n": "x", "c": "y"}


@pytest.mark.parametrize(
    ("name", "message"), [("", "Empty attribute name"), ("x" * 65536, "65536")]
)
def test_names(name, message):
    for action in (
        lambda: bind_attributes_to_get([name]),
        lambda: bind_attribute_updates({name: {"Value": "x"}}),
        lambda: bind_expected({name: term("NULL")}),
        lambda: bind_filter({name: term("NULL")}),
    ):
        assert message in why(action)
    assert bind_attributes_to_get(["x" * 65535])


def test_attributes_to_get():
    made = bind_attributes_to_get(["n", "a.b", "zz"])
    assert made.apply(ITEM) == {"n": number(5), "a.b": "dotted"} and made.is_top_level
    assert why(lambda: bind_attributes_to_get(["n", "s", "n"])) == (
        INVALID + "Duplicate value in attribute name: n"
    )
