"""The Key and Attr builders, beside boto3's own."""

from __future__ import annotations

import inspect

import pytest
from boto3.dynamodb import conditions as theirs

from dynalsm import conditions as ours
from dynalsm.conditions import Attr, Key, build

# The same condition, made by each library's builders.
MAKERS = [
    lambda K, A: K("a").eq(1),
    lambda K, A: K("a").lt(1) & K("b").lte(2),
    lambda K, A: K("a").gt(1) | K("b").gte(2),
    lambda K, A: ~A("a").ne(1),
    lambda K, A: A("a").is_in([1, 2, 3]),
    lambda K, A: A("a").is_in({"x"}),
    lambda K, A: A("a").between("x", "y") & A("a").begins_with("x"),
    lambda K, A: A("a").exists() & A("b").not_exists(),
    lambda K, A: A("a").contains("x") & A("b").attribute_type("S"),
    lambda K, A: A("a").size().gt(3) & ~A("a").size().between(1, 2),
    lambda K, A: A("a.b[0].c").eq(A("d[1][2].e")),
    lambda K, A: A("a").eq([1, 2]) | (A("b").eq("x") & ~(A("c").eq(None) | A("d").eq(True))),
    lambda K, A: A("with space-and:more").eq(b"bytes"),
    lambda K, A: K("k").eq(K("other")),
]


@pytest.mark.parametrize("make", MAKERS)
def test_build_equals_boto3(make):
    wanted = theirs.ConditionExpressionBuilder().build_expression(make(theirs.Key, theirs.Attr))
    assert build(make(Key, Attr)) == tuple(wanted)
    assert build(make(theirs.Key, theirs.Attr)) == tuple(wanted)


def test_mixed_libraries():
    text, names, values = build(Key("a").eq(1) & theirs.Attr("b").eq(2))
    assert (text, names, values) == (
        "(#n0 = :v0 AND #n1 = :v1)", {"#n0": "a", "#n1": "b"}, {":v0": 1, ":v1": 2}
    )  # fmt: skip


def test_the_surface_is_boto3s():
    for name, cls in inspect.getmembers(theirs, inspect.isclass):
        if cls.__module__ != theirs.__name__:
            continue
        mine = getattr(ours, name)
        for member, _ in inspect.getmembers(cls, inspect.isfunction):
            if not member.startswith("_"):
                assert hasattr(mine, member), f"{name}.{member}"


def test_key_conditions_take_keys_only():
    for key, attr in [(Key, Attr), (theirs.Key, theirs.Attr)]:
        assert build(key("a").eq(1) & key("b").begins_with("x"), is_key_condition=True)
        with pytest.raises(ours.NeedsKeyConditionError):
            build(key("a").eq(1) & attr("b").eq("x"), is_key_condition=True)


@pytest.mark.parametrize("value", [None, "a = b", Attr("a"), theirs.Attr("a"), {}])
def test_build_needs_a_condition(value):
    with pytest.raises(ours.NeedsConditionError):
        build(value)


def test_operators_need_conditions():
    for bad in (Attr("b"), "b", None, 1):
        with pytest.raises(ours.OperationNotSupportedError):
            Attr("a").eq(1) & bad
        with pytest.raises(ours.OperationNotSupportedError):
            Attr("a").eq(1) | bad
    for action in (lambda: Attr("a") & Attr("b"), lambda: Key("a") | Key("b"), lambda: ~Attr("a")):
        with pytest.raises(ours.OperationNotSupportedError):
            action()


def test_equality():
    assert Attr("a").eq(1) == Attr("a").eq(1)
    assert Attr("a").eq(1) != Attr("a").eq(2)
    assert Attr("a").eq(1) != Attr("a").lt(1)
    assert Attr("a") == Attr("a") and Attr("a") != Key("a") and Attr("a") != Attr("b")
    assert Attr("a").size() == Attr("a").size() and Attr("a").size() != Attr("b").size()
    assert (Attr("a").eq(1) & Attr("b").eq(2)) == (Attr("a").eq(1) & Attr("b").eq(2))


# Numbering goes on over several conditions of one request, so that placeholders stay distinct.
def test_builder_goes_on_numbering():
    builder = ours.ConditionExpressionBuilder()
    assert builder.build_expression(Attr("a").eq(1)).condition_expression == "#n0 = :v0"
    assert builder.build_expression(Attr("a").eq(1)).condition_expression == "#n1 = :v1"
    builder.reset()
    assert builder.build_expression(Attr("a").eq(1)).condition_expression == "#n0 = :v0"


def test_boto3_is_not_imported():
    import subprocess
    import sys

    script = "import sys, dynalsm.conditions; sys.exit('boto3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_names_and_lists_are_checked_where_they_are_given():
    for make in (Attr, Key):
        with pytest.raises(TypeError, match="the name of an attribute is a text, not 5"):
            make(5)
    with pytest.raises(TypeError, match="is_in takes several values, as a list, not 5"):
        Attr("a").is_in(5)
