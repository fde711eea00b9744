"""ProjectionExpression and the path trees under it."""

from __future__ import annotations

import pytest

from dynalsm.expressions import Placeholders, Projection, bind_projection
from dynalsm.expressions.error import Refusal
from dynalsm.expressions.paths import build_tree
from tests.expressions.helpers import number, why

ITEM = {
    "p": "x",
    "a": {"b": [number(2), number(4), {"x": "hi", "y": "yo"}], "c": number(5)},
    "b": "hello",
    "l": [[number(1), number(2)], {"p": number(3), "q": number(4)}, "end"],
    "nul": None,
    "a.b": "dotted",
}


def project(text: str, names: dict[str, str] | None = None) -> dict:
    return bind_projection(text, Placeholders(names)).apply(ITEM)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("b", {"b": "hello"}),
        ("p,b", {"p": "x", "b": "hello"}),
        ("nul", {"nul": None}),
        ("zz", {}),
        ("a.c", {"a": {"c": number(5)}}),
        ("a.b[0]", {"a": {"b": [number(2)]}}),
        ("a.b[2].y", {"a": {"b": [{"y": "yo"}]}}),
        ("a.b[0], a.c, b", {"a": {"b": [number(2)], "c": number(5)}, "b": "hello"}),
        # Indexes are compacted in ascending order, whatever order they are written in.
        ("a.b[2], a.b[0]", {"a": {"b": [number(2), {"x": "hi", "y": "yo"}]}}),
        # Members below one index are one element.
        ("l[1].q, l[1].p", {"l": [{"p": number(3), "q": number(4)}]}),
        ("l[0][1], l[2]", {"l": [[number(2)], "end"]}),
        # What does not exist leaves no empty shells behind.
        ("a.b[3]", {}),
        ("a.x, a.b[7].x", {}),
        ("a.b[3], a.b[1]", {"a": {"b": [number(4)]}}),
        ("l[1].z, l[2]", {"l": ["end"]}),
        # Wrong shapes select nothing.
        ("a[0]", {}),
        ("a.b.x", {}),
        ("a.b[0].x", {}),
        ("a.b[0][0]", {}),
        ("b.c", {}),
        ("nul.x", {}),
        ("l[2].x", {}),
    ],
)
def test_projection(text, result):
    assert project(text) == result


def test_names_with_dots_are_literal():
    assert project("#n", {"#n": "a.b"}) == {"a.b": "dotted"}
    assert project("#a.#c", {"#a": "a", "#c": "c"}) == {"a": {"c": number(5)}}


def test_what_a_projection_knows():
    made = bind_projection("a, #n.b[1], c", Placeholders({"#n": "n"}))
    assert made.paths == (("a",), ("n", "b", 1), ("c",))
    assert made.attributes == {"a", "n", "c"} and not made.is_top_level
    assert bind_projection("a, b", Placeholders()).is_top_level
    assert bind_projection("a, b", Placeholders()) is bind_projection("a, b", Placeholders())


@pytest.mark.parametrize(
    ("text", "one", "two"),
    [
        ("a, a", "[a]", "[a]"),
        ("a, a.b[0]", "[a]", "[a, b, [0]]"),
        ("b, a.b.c, a.b", "[a, b, c]", "[a, b]"),
        ("a[1], c, a[1]", "[a, [1]]", "[a, [1]]"),
        ("#x.b, a.b", "[a, b]", "[a, b]"),
        # An overlap is reported before a conflict, wherever the two stand.
        ("a.b, a[1], c, c", "[c]", "[c]"),
    ],
)
def test_overlap(text, one, two):
    names = {"#x": "a"} if "#x" in text else None
    assert why(lambda: project(text, names)) == (
        "Invalid ProjectionExpression: Two document paths overlap with each other; must remove or "
        f"rewrite one of these paths; path one: {one}, path two: {two}"
    )


@pytest.mark.parametrize(
    ("text", "one", "two"),
    [
        ("a.b, a[1]", "[a, b]", "[a, [1]]"),
        ("a[1], a.b", "[a, [1]]", "[a, b]"),
        ("c, a.b.c, a.d, a.b[1].x", "[a, b, c]", "[a, b, [1], x]"),
    ],
)
def test_conflict(text, one, two):
    assert why(lambda: project(text)) == (
        "Invalid ProjectionExpression: Two document paths conflict with each other; must remove "
        f"or rewrite one of these paths; path one: {one}, path two: {two}"
    )


@pytest.mark.parametrize("text", ["a, b", "a.b, a.c", "a.b.d, a.b.e", "a[1], a[2]", "a.b, a.c[2]"])
def test_neither(text):
    assert project(text) is not None


# A text of 4096 bytes holds 2000 paths; finding their clash must not take time squared.
def test_many_paths():
    names = [f"{a}{b}" for a in "abcdefghijklmnopqrstuvwxyz" for b in "abcdefghijklmnopqrstuvwxyz"]
    paths = [(name, "x", index) for name in names for index in range(3)]
    assert len(build_tree(paths)) == 676
    with pytest.raises(Refusal, match=r"overlap.*\[zz, x, \[0\]\], path two: \[zz\]"):
        build_tree([*paths, ("zz",)])


def test_undefined_name():
    assert "not defined; attribute name: #q" in why(lambda: project("a, #q", {"#a": "a"}))


def test_from_paths():
    assert Projection.from_paths((("a", "c"), ("p",))).apply(ITEM) == {
        "a": {"c": number(5)}, "p": "x"
    }  # fmt: skip
