"""Texts to trees: grammar, syntax errors, limits. Nothing here needs names or values."""

from __future__ import annotations

import pytest

from dynalsm.expressions.ast import (
    Action,
    And,
    Arithmetic,
    Between,
    Call,
    Compare,
    In,
    NameRef,
    Not,
    Or,
    Path,
    ValueRef,
)
from dynalsm.expressions.error import Refusal
from dynalsm.expressions.parser import parse_condition, parse_projection, parse_update

A, B, C = (Path((name,)) for name in "abc")
V, W = ValueRef(":v"), ValueRef(":w")


def refusal(parse, text):
    with pytest.raises(Refusal) as caught:
        parse(text)
    return caught.value.message


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a = :v", Compare("=", A, V)),
        (":v<=a", Compare("<=", V, A)),
        ("a<>b", Compare("<>", A, B)),
        ("\ta \r\n>= \n b ", Compare(">=", A, B)),
        ("(a) = (:v)", Compare("=", A, V)),
        ("a.b[1][20].#c = :v", Compare("=", Path(("a", "b", 1, 20, NameRef("#c"))), V)),
        ("a . b [ 1 ] = :v", Compare("=", Path(("a", "b", 1)), V)),
        ("(a.b).c = :v", Compare("=", Path(("a", "b", "c")), V)),
        ("#1 = :1a", Compare("=", Path((NameRef("#1"),)), ValueRef(":1a"))),
        ("a BETWEEN :v AND :w", Between(A, V, W)),
        ("a between b and c AND b = c", And((Between(A, B, C), Compare("=", B, C)))),
        ("a IN (:v)", In(A, (V,))),
        ("a in(:v,b , :w)", In(A, (V, B, W))),
        ("size (a) > :v", Compare(">", Call("size", (A,)), V)),
        ("attribute_exists(a)", Call("attribute_exists", (A,))),
        ("(begins_with(a, :v))", Call("begins_with", (A, V))),
        ("not a = b", Not(Compare("=", A, B))),
        ("NOT NOT a = b", Compare("=", A, B)),
        ("NOT NOT NOT a = b", Not(Compare("=", A, B))),
        ("NOT (NOT a = b)", Compare("=", A, B)),
        ("NOT a = b AND b = c", And((Not(Compare("=", A, B)), Compare("=", B, C)))),
        (
            "a = b OR b = c AND a = c",
            Or((Compare("=", A, B), And((Compare("=", B, C), Compare("=", A, C))))),
        ),
        (
            "(a = b OR b = c) AND a = c",
            And((Or((Compare("=", A, B), Compare("=", B, C))), Compare("=", A, C))),
        ),
        # Nested conjunctions become one flat node, whatever the parentheses.
        (
            "a = b AND (b = c AND a = c)",
            And((Compare("=", A, B), Compare("=", B, C), Compare("=", A, C))),
        ),
        # Names that only look like keywords or functions.
        ("android = order_", Compare("=", Path(("android",)), Path(("order_",)))),
        ("contains = :v", Compare("=", Path(("contains",)), V)),
    ],
)
def test_condition_tree(text, tree):
    assert parse_condition(text).tree == tree


def test_parsed_texts_know_their_placeholders_in_order():
    parsed = parse_condition("#b.#a = :w AND #b > :v AND size(#c) IN (:w)")
    assert parsed.names == ("#b", "#a", "#c")
    assert parsed.values == (":w", ":v")


def test_the_same_text_is_parsed_once():
    assert parse_condition("once = :v").tree is parse_condition("once = :v").tree


@pytest.mark.parametrize(
    ("text", "token", "near"),
    [
        ("things were never going well", "were", "things were never"),
        ("a", "<EOF>", "a"),
        (":v", "<EOF>", ":v"),
        ("NOT a", "<EOF>", "a"),
        ("(a)", "<EOF>", ")"),
        ("a AND b = c", "AND", "a AND b"),
        ("a = b AND", "<EOF>", "AND"),
        ("a = b = c", "=", "b = c"),
        ("(a = b) = c", "=", ") = c"),
        ("a = (b = c)", "=", "b = c"),
        ("a = NOT b", "NOT", "= NOT b"),
        ("a NOT IN (b)", "NOT", "a NOT IN"),
        ("a > 4", "4", "> 4"),
        ("a != b", "!", "a !="),
        ("a == b", "=", "== b"),
        ("a > between", "between", "> between"),
        ("a in b", "b", "in b"),
        ("a in ()", ")", "()"),
        ("a in (b,)", ")", ",)"),
        ("a in (b = c)", "=", "b = c"),
        ("a between b", "<EOF>", "b"),
        ("a between b or c", "or", "b or c"),
        ("a between b and", "<EOF>", "and"),
        ("size()", ")", "()"),
        ("size(a", "<EOF>", "a"),
        ("size(a).b = c", ".", ").b"),
        ("(size(a)).b = c", ".", ").b"),
        ("a..b = c", ".", "..b"),
        ("a.:v = c", ":v", ".:v ="),
        ("a[b] = c", "b", "[b]"),
        ("a[:v] = c", ":v", "[:v]"),
        ("a[#b] = c", "#b", "[#b]"),
        ("a[-1] = c", "-", "[-1"),
        ("a[] = c", "]", "[] ="),
        ("a[1.5] = c", ".", "1.5"),
        ("a[1 = c", "=", "1 = c"),
        ("_a = b", "_", "_a"),
        ("1a = b", "1", "1a"),
        ("a-b = c", "-", "a-b"),
        ("# = a", "#", "# ="),
        (": = a", ":", ": ="),
        ("a#b = c", "#b", "a#b ="),
        ("ü = a", "ü", "ü ="),
        ('"a" = b', '"', '"a'),
        (")", ")", ")"),
        ("a = b)", ")", "b)"),
        ("((a = b)", "<EOF>", ")"),
        ("a = b, c", ",", "b, c"),
        ("=", "=", "="),
        (" ", "<EOF>", ""),
    ],
)
def test_condition_syntax_error(text, token, near):
    assert refusal(parse_condition, text) == f'Syntax error; token: "{token}", near: "{near}"'


@pytest.mark.parametrize(
    ("text", "actions"),
    [
        ("SET a = :v", [Action("SET", A, V)]),
        ("set a=b", [Action("SET", A, B)]),
        ("REMOVE a, b[0]", [Action("REMOVE", A, None), Action("REMOVE", Path(("b", 0)), None)]),
        ("ADD a :v DELETE b :w", [Action("ADD", A, V), Action("DELETE", B, W)]),
        ("SET a = b + :v", [Action("SET", A, Arithmetic("+", B, V))]),
        ("SET a = (b-:v)", [Action("SET", A, Arithmetic("-", B, V))]),
        ("SET a = ((b)+(:v))", [Action("SET", A, Arithmetic("+", B, V))]),
        (
            "SET a = if_not_exists(b, :v) + c",
            [Action("SET", A, Arithmetic("+", Call("if_not_exists", (B, V)), C))],
        ),
        (
            "SET a = list_append(if_not_exists(b, :v), (:w))",
            [Action("SET", A, Call("list_append", (Call("if_not_exists", (B, V)), W)))],
        ),
        (
            "SET a = :v, b = :w REMOVE c",
            [Action("SET", A, V), Action("SET", B, W), Action("REMOVE", C, None)],
        ),
    ],
)
def test_update_tree(text, actions):
    assert list(parse_update(text).tree) == actions


@pytest.mark.parametrize(
    ("text", "token", "near"),
    [
        ("INVALID SYNTAX HERE", "INVALID", "INVALID SYNTAX"),
        ("set", "<EOF>", "set"),
        ("set a", "<EOF>", "a"),
        ("set a =", "<EOF>", "="),
        ("set a = set", "set", "= set"),
        ("set a b", "b", "a b"),
        ("set :a = b", ":a", "set :a ="),
        ("set (a) = b", "(", "set (a"),
        ("set a = b / c", "/", "b / c"),
        ("set a = b + c - d", "-", "c - d"),
        ("set a = b + (c + d)", "+", "c + d"),
        ("set a = (b + c) + d", "+", ") + d"),
        ("set a = (b.c).d", ".", ").d"),
        ("set a = if_not_exists(b, c + d)", "+", "c + d"),
        ("set a = if_not_exists(b, (c + d))", "+", "c + d"),
        ("set a = :v,", "<EOF>", ","),
        ("set a = :v, remove b", "remove", ", remove b"),
        ("set a[1] = 1", "1", "= 1"),
        ("add a", "<EOF>", "a"),
        ("add a b", "b", "a b"),
        ("add a = :v", "=", "a = :v"),
        ("add a f(b)", "f", "a f("),
        ("delete a b", "b", "a b"),
        ("remove a = b", "=", "a = b"),
        ("remove a b", "b", "a b"),
        ("remove :a", ":a", "remove :a"),
        ("ADD hits : incr", ":", "hits : incr"),
        ("SET _123 = :v", "_", "SET _123"),
        ("set a = (b", "<EOF>", "b"),
        ("set a = b)", ")", "b)"),
    ],
)
def test_update_syntax_error(text, token, near):
    assert refusal(parse_update, text) == f'Syntax error; token: "{token}", near: "{near}"'


@pytest.mark.parametrize(
    ("text", "token", "near"),
    [
        ("!!!", "!", "!!"),
        ("a b", "b", "a b"),
        ("a,", "<EOF>", ","),
        (",a", ",", ",a"),
        ("a,,b", ",", ",,b"),
        (":a", ":a", ":a"),
        ("size(a)", "(", "size(a"),
    ],
)
def test_projection_syntax_error(text, token, near):
    assert refusal(parse_projection, text) == f'Syntax error; token: "{token}", near: "{near}"'


def test_projection_tree():
    paths = parse_projection(" a.b , c[3] ").tree
    assert paths == (Path(("a", "b")), Path(("c", 3)))


# Every parser refuses an empty text, but not a blank one, with a message of its own.
@pytest.mark.parametrize("parse", [parse_condition, parse_projection, parse_update])
def test_empty_text(parse):
    assert refusal(parse, "") == "The expression can not be empty;"
    assert refusal(parse, "  ").startswith("Syntax error")


# The size is measured in bytes, before any syntax is looked at.
def test_size_limit_comes_first_and_counts_bytes():
    name = "x" * 4096
    assert parse_projection(name).tree == (Path((name,)),)
    assert refusal(parse_projection, name + "x").endswith("; expression size: 4097")
    assert refusal(parse_condition, "(" * 15000).endswith("; expression size: 15000")
    assert refusal(parse_condition, "é" * 2049).endswith("; expression size: 4098")
    assert refusal(parse_condition, "é" * 2048).startswith("Syntax error")


# 20,000 levels of anything are an error at once: the text is too long to be read.
@pytest.mark.parametrize(
    "text",
    [
        "a<b " + "and (a<b " * 20000 + ")" * 20000,
        "(" * 20000 + "a<b" + ")" * 20000,
        "not " * 20000 + "a<b",
        "a < " + "f(" * 20000 + "b" + ")" * 20000,
    ],
)
def test_huge_nesting(text):
    assert "expression size" in refusal(parse_condition, text)


# Within 4096 bytes nesting costs no stack, and the error is the one DynamoDB gives.
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(" * 4096, "Syntax error"),
        ("(" * 2000 + "a<b" + ")" * 2000, "The expression has redundant parentheses;"),
        ("not " * 1000 + "a<b", "too many operators; operator count: 301"),
        ("a<f(" + "f(" * 1000 + "b" + ")" * 1001, "Invalid function name; function: f"),
        ("a<b or (" * 450 + "a<b" + ")" * 450, "too many operators; operator count: 301"),
    ],
)
def test_deep_nesting(text, message):
    assert message in refusal(parse_condition, text)


# Comparators and AND, OR, NOT count; parentheses and calls inside operands do not.
def test_operator_limit():
    allowed = " or ".join(["a<b"] * 150)  # 150 + 149
    assert len(parse_condition(allowed).tree.terms) == 150
    assert parse_condition("not " + allowed)
    assert "operator count: 301" in refusal(parse_condition, "not not " + allowed)
    assert parse_condition("a<b or (" * 149 + "a<b" + ")" * 149)
    assert parse_condition(" and ".join(["size(a)<b"] * 150))


def test_in_limit():
    options = ",".join(f":v{i}" for i in range(99))
    assert len(parse_condition(f"a in ({options})").tree.options) == 99
    assert "number of operands: 101" in refusal(parse_condition, f"a in ({options},:v)")


def test_path_depth_and_index_limits():
    assert parse_projection("a" + ".b" * 31)
    assert parse_projection("a" + "[0]" * 31)
    assert refusal(parse_projection, "a" + ".b" * 32) == (
        "The document path has too many nesting levels; nesting levels: 33"
    )
    assert parse_projection("a[2147483647], b[0000000000000000001]").tree[1] == Path(("b", 1))
    assert refusal(parse_condition, "a[99999999999999] = :v") == (
        "List index is not within the allowable range; index: [99999999999999]"
    )


@pytest.mark.parametrize(
    "text",
    [
        "a = b and a > ((views))",
        "(a)between(((b.c)).d)and(c)",
        "a > whatever((:things), ((a)))",
        "a = b AND ((a = b OR b = c)) AND a = c",
        "NOT ((a = b))",
        "((size(a))) > :v",
        "((attribute_exists(a)))",
    ],
)
def test_redundant_parentheses(text):
    assert refusal(parse_condition, text) == "The expression has redundant parentheses;"


@pytest.mark.parametrize(
    "text",
    [
        "(a = b)",
        "((a = b) AND b = c)",
        "((a = b) OR (b = c))",
        "(NOT (a = b))",
        "((a) = (b))",
        "(size((a)) > (:v))",
    ],
)
def test_single_parentheses_are_fine(text):
    assert parse_condition(text)


# Reserved words are refused in any case and anywhere in a path, but not behind a placeholder.
@pytest.mark.parametrize(
    ("parse", "text", "word"),
    [
        (parse_condition, ":v < abOrT", "abOrT"),
        (parse_condition, "a.Name = :v", "Name"),
        (parse_condition, "size = :v", "size"),
        (parse_projection, "a, or", "or"),
        (parse_update, "SET status = :v", "status"),
        (parse_update, "SET a = data", "data"),
    ],
)
def test_reserved_words(parse, text, word):
    assert refusal(parse, text) == (
        f"Attribute name is a reserved keyword; reserved keyword: {word}"
    )


# When a text has several faults, the first kind in this order is reported.
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("((data = dog(b))) !", "Syntax error"),
        ("((data = dog(size(contains(a,b)))))", "redundant parentheses"),
        ("data = dog(contains(a, b))", "Invalid function name; function: dog"),
        ("data = contains(a, b)", "not allowed to be used this way"),
        ("data = a", "reserved keyword"),
    ],
)
def test_order_of_condition_faults(text, message):
    assert message in refusal(parse_condition, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("set data = dog(a) set b = c", "reserved keyword"),
        ("set a = dog(b) set b = c", "Invalid function name; function: dog"),
        ("set a = b set b = c", 'The "SET" section can only be used once'),
        ("remove a set b = c remove d", 'The "REMOVE" section can only be used once'),
    ],
)
def test_order_of_update_faults(text, message):
    assert message in refusal(parse_update, text)


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (parse_condition, "whatever(a)", "Invalid function name; function: whatever"),
        (parse_condition, "SIZE(a) > :v", "Invalid function name; function: SIZE"),
        (parse_condition, "if_not_exists(a, b) = c", "not allowed in a condition expression"),
        (parse_condition, "size(a)", "not allowed to be used this way in an expression"),
        (parse_condition, "NOT size(a)", "not allowed to be used this way in an expression"),
        (parse_condition, "a = b OR size(a)", "not allowed to be used this way"),
        (parse_condition, "attribute_exists(a) < b", "this way in an expression; function: attr"),
        (parse_condition, "a in (b, attribute_exists(c))", "function: attribute_exists"),
        (parse_condition, "a between contains(a, b) and c", "function: contains"),
        (parse_condition, "size(contains(a, b)) > c", "function: contains"),
        (parse_update, "set a = size(b)", "not allowed in an update expression; function: size"),
        (parse_update, "set a = LIST_APPEND(a, b)", "Invalid function name; function: LIST_A"),
        (parse_update, "set a = list_append(list_append(a, b), c)", "this way in an expression"),
        (parse_update, "set a = if_not_exists(a, list_append(b, c))", "function: list_append"),
    ],
)
def test_functions_out_of_place(parse, text, message):
    assert message in refusal(parse, text)
