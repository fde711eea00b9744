"""PartiQL statements: grammar, literals, errors, and what their parts mean."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynalsm.expressions import ExpressionError, error
from dynalsm.expressions.ast import Compare, Constant, Path
from dynalsm.expressions.partiql import (
    Delete,
    Exists,
    Insert,
    Select,
    Update,
    bind_statement,
    choices,
    equalities,
)
from tests.expressions.helpers import number, refused, why

ITEM = {
    "pk": "x", "n": number(5), "s": "abc", "l": [number(1), "a"], "m": {"k": number(1)},
    "ss": frozenset("ab"), "nul": None, "odd name": "q", "select": "w", "Case": "up",
}  # fmt: skip
MALFORMED = "Statement wasn't well formed, can't be processed: "


def where(text: str, *parameters: Any) -> bool:
    statement = bind_statement(f'SELECT * FROM "T" WHERE {text}', parameters)
    assert isinstance(statement, Select) and statement.where is not None
    return statement.where.evaluate(ITEM)


def item_of(literal: str, *parameters: Any) -> dict[str, Any]:
    statement = bind_statement(f'INSERT INTO "T" VALUE {literal}', parameters)
    assert isinstance(statement, Insert)
    return statement.item


def updated(clauses: str, *parameters: Any, item: dict[str, Any] = ITEM) -> dict[str, Any]:
    """Return the attributes an UPDATE changes; None for those that are gone."""
    statement = bind_statement(f"UPDATE \"T\" {clauses} WHERE pk = 'x'", parameters)
    assert isinstance(statement, Update)
    result = statement.update.apply(item)
    return result.assigned | dict.fromkeys(result.removed)


def test_select():
    statement = bind_statement(
        'SELECT pk, "odd name", m.k, l[0] FROM "Tab.le"."in-dex" WHERE pk = ? ORDER BY sk DESC, b;',
        ["x"],
    )
    assert isinstance(statement, Select)
    assert (statement.table, statement.index) == ("Tab.le", "in-dex")
    assert statement.paths == (("pk",), ("odd name",), ("m", "k"), ("l", 0))
    assert statement.order == ((("sk",), True), (("b",), False))
    assert statement.where is not None
    assert statement.where.tree == Compare("=", Path(("pk",)), statement.where.tree.right)
    assert statement.project(ITEM) == {
        "pk": "x", "odd name": "q", "k": number(1), "l[0]": number(1)
    }  # fmt: skip


def test_select_star_without_where():
    statement = bind_statement("select * from Music")
    assert statement == Select("Music", None, None, None, ())
    assert statement.project(ITEM) == ITEM


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("pk = 'x'", []), ("'x' = pk", []), ("pk = ?", ["x"]), ("n > 4 AND n < 6", []),
        ("n BETWEEN 5 AND ?", [number(5)]), ("n IN [1, 5]", []), ("n IN (1, ?)", [number(5)]),
        ("n NOT IN [1, 2]", []), ("n NOT BETWEEN 6 AND 7", []), ("NOT n IN [1]", []),
        ("zz IS MISSING", []), ("pk IS NOT MISSING", []), ("nul IS NULL", []),
        ("pk IS NOT NULL", []), ("begins_with(s, 'a')", []), ("BEGINS_WITH(s, ?)", ["ab"]),
        ("contains(ss, 'a')", []), ("Contains(l, 1)", []), ("attribute_type(s, 'S')", []),
        ("attribute_type(s, ?)", ["S"]), ("size(l) = 2", []), ("NOT zz = 1", []),
        ("attribute_exists(nul) AND attribute_not_exists(zz)", []), ("zz <> 1", []),
        ("pk = 'y' OR n = 5 AND s = 'abc'", []), ("((pk = 'x'))", []), ("(pk) = ('x')", []),
        ("NOT (pk = 'y' OR n = 4)", []), ("NOT NOT pk = 'x'", []), ("m.k = l[0]", []),
        ("l = [1, 'a']", []), ("l = [1, ?]", ["a"]), ("m = {'k': 1}", []), ("m = {'k': ?}",
        [number(1)]), ("ss = <<'b', 'a'>>", []), ("\"odd name\" = 'q'", []),
        ('"select" = \'w\'', []), ("Case = 'up' AND \"Case\" = 'up'", []), ("m['k'] = 1", []),
        ("n = 5.0 AND n = 50e-1 AND n > -1 AND n > - .5", []), ("nul = NULL", []),
        ("pk = -- here\n 'x' /* and\n there */", []),
    ],
)  # fmt: skip
def test_true(text, parameters):
    assert where(text, *parameters) is True


@pytest.mark.parametrize(
    "text",
    [
        "pk = 'X'", "case = 'up'", "zz = 1", "zz < 1", "NOT n = 5", "nul IS MISSING", "n IS NULL",
        "zz IS NULL", "zz IN [1]", "pk = 'x' AND n = 4", "n = '5'", "NOT pk = 'x' OR n = 4",
        "begins_with(n, 'a')", "pk = 'it''s'",
    ],
)  # fmt: skip
def test_false(text):
    assert where(text) is False


@pytest.mark.parametrize(
    ("literal", "item"),
    [
        ("{}", {}),
        ("{'a': 'it''s', 'b': -1.50, 'c': TRUE, 'd': null}",
         {"a": "it's", "b": number("-1.5"), "c": True, "d": None}),
        ("{'a': [1, [], {'b': [<<'x', 'y'>>, false]}], 'c': <<1, 2.0>>}",
         {"a": [number(1), [], {"b": [frozenset("xy"), False]}],
          "c": frozenset((number(1), number(2)))}),
        ("{'a': .5, 'b': +1, 'c': 1e3, 'd': 7.}",
         {"a": number("0.5"), "b": number(1), "c": number(1000), "d": number(7)}),
        ("{'': 'empty name', 'x.y': ''}", {"": "empty name", "x.y": ""}),
    ],
)  # fmt: skip
def test_literals(literal, item):
    assert item_of(literal) == item


def test_parameters_anywhere_in_an_item():
    made = item_of("{'a': ?, 'b': [?, {'c': ?}], 'd': 1}", "one", b"two", None)
    assert made == {"a": "one", "b": [b"two", {"c": None}], "d": number(1)}
    other = item_of("{'a': ?, 'b': [?, {'c': ?}], 'd': 1}", "x", "y", "z")
    assert made["b"] is not other["b"]


def test_too_few_parameters_are_refused_and_more_ignored():
    assert where("pk = ? AND n = ?", "x", number(5), "more")
    assert why(lambda: where("pk = ? AND n = ?", "x")) == (
        "Number of parameters in request and statement don't match."
    )
    assert "don't match" in why(lambda: bind_statement("SELECT * FROM T WHERE a = ?", None))


@pytest.mark.parametrize(
    ("clauses", "parameters", "result"),
    [
        ("SET n = 6", [], {"n": number(6)}),
        ("SET n = n + 1, c = ? SET d = n - 2 REMOVE s", ["v"],
         {"n": number(6), "c": "v", "d": number(3), "s": None}),
        ("REMOVE s, l[0]", [], {"s": None, "l": ["a"]}),
        ("SET m.k = 2 REMOVE nul", [], {"m": {"k": number(2)}, "nul": None}),
        ("SET l[9] = 'z'", [], {"l": [number(1), "a", "z"]}),
        ("SET l = list_append(l, ['z', ?])", ["y"], {"l": [number(1), "a", "z", "y"]}),
        ("SET l = LIST_APPEND(?, l)", [["y"]], {"l": ["y", number(1), "a"]}),
        ("SET c = if_not_exists(zz, 7), d = if_not_exists(n, 7)", [],
         {"c": number(7), "d": number(5)}),
        ("SET ss = set_add(ss, <<'c'>>)", [], {"ss": frozenset("abc")}),
        ("SET ss = SET_ADD(ss, ?)", [frozenset("c")], {"ss": frozenset("abc")}),
        ("SET ss = set_delete(ss, <<'a'>>)", [], {"ss": frozenset("b")}),
        ("SET ss = set_delete(ss, <<'a', 'b'>>)", [], {"ss": None}),
        ("SET c = set_add(c, <<1>>)", [], {"c": frozenset((number(1),))}),
        ("SET a = s, s = pk", [], {"a": "abc", "s": "x"}),
    ],
)  # fmt: skip
def test_update(clauses, parameters, result):
    assert updated(clauses, *parameters) == result


def test_update_statement():
    text = "UPDATE T SET a = 1 WHERE pk = 'x' AND n = 5 RETURNING MODIFIED NEW *"
    statement = bind_statement(text)
    assert isinstance(statement, Update)
    assert statement.returning == ("MODIFIED", "NEW") and statement.index is None
    assert equalities(statement.where) == {"pk": "x", "n": number(5)}
    other = bind_statement("FROM T WHERE pk = 'x' SET a = 1 RETURNING ALL OLD *")
    assert isinstance(other, Update) and other.returning == ("ALL", "OLD")
    assert isinstance(bind_statement("FROM T SET a = 1 WHERE pk = 'x'"), Update)
    assert isinstance(bind_statement('UPDATE "T"."i" REMOVE a'), Update)


def test_delete_statement():
    statement = bind_statement('DELETE FROM "T" WHERE pk = ? RETURNING all old *', ["x"])
    assert isinstance(statement, Delete) and statement.returning == ("ALL", "OLD")
    assert statement.where is not None and statement.where.evaluate(ITEM)
    assert why(lambda: bind_statement("DELETE FROM T WHERE a=1 RETURNING MODIFIED OLD *")) == (
        "Invalid returning clause: RETURNING MODIFIED OLD *. "
        "Only RETURNING ALL OLD * is allowed in DELETE statements."
    )


def test_exists_statement():
    statement = bind_statement("EXISTS(SELECT * FROM T WHERE pk = ? AND n = 5)", ["x"])
    assert isinstance(statement, Exists) and statement.select.table == "T"
    assert statement.select.where is not None and statement.select.where.evaluate(ITEM)


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("", "Expected data manipulation"),
        ("MERGE INTO T", "Expected data manipulation"),
        ("UPDATE T WHERE pk = 1", "Expected data manipulation"),
        ("SELECT * FROM T WHERE pk = 1 pk", "Unexpected token after expression"),
        ("SELECT * FROM T; SELECT * FROM T", "Unexpected token after expression"),
        ("SELECT * FROM T LIMIT 1", "Unexpected token after expression"),
        ("SELECT * FROM T WHERE pk = 1 LIMIT 1", "Unexpected token after expression"),
        ("SELECT * FROM T GROUP BY a", "Unexpected token after expression"),
        ("INSERT INTO T VALUE {} RETURNING ALL OLD *", "Unexpected token after expression"),
        ("SELECT * FROM T WHERE a.'b' = 1", "Invalid path dot component"),
        ("SELECT a. FROM T", "Invalid path dot component"),
        ("SELECT * FROM T WHERE a = 'open", ""),
        ('SELECT * FROM "T', ""),
        ("SELECT * FROM T WHERE a = 1 # comment", ""),
        ("SELECT * FROM T WHERE a = /* open", None),
        ("SELECT * FROM T WHERE a = 1e99999999999", ""),
        ("SELECT * FROM T WHERE a = $1", ""),
        ("SELECT * FROM T WHERE a = :p", None),
        ("SELECT * FROM T WHERE a", "Unexpected token after expression"),
        ("SELECT * FROM T WHERE (a = 1", None),
        ("SELECT * FROM T WHERE a = (b = 1)", "Unexpected token after expression"),
        ("SELECT * FROM ? WHERE a = 1", None),
        ("SELECT * FROM T WHERE a IN []", None),
        ("SELECT * FROM T WHERE a IN [1)", None),
        ("SELECT * FROM T WHERE a LIKE 'x'", "Unexpected token after expression"),
        ("SELECT * FROM T WHERE a != 1", ""),
        ("INSERT INTO T VALUE {'a': 1}, {'a': 2}", "Unexpected token after expression"),
        ("INSERT INTO T VALUE {a: 1}", None),
        ("INSERT INTO T VALUE ?", None),
        ("DELETE FROM T WHERE a = 1 RETURNING OLD *", None),
    ],
)
def test_malformed(text, detail):
    caught = refused(lambda: bind_statement(text, ["x"]))
    assert caught.message.startswith(MALFORMED) and caught.kind == error.SYNTAX
    if detail is not None:
        assert caught.message == MALFORMED + detail


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT COUNT(*) FROM T", "Unexpected path component at 1:8:5"),
        ("SELECT a,\n  size(b) FROM T", "Unexpected path component at 2:3:4"),
        ("SELECT a AS b FROM T", "Aliasing is not supported"),
        ("SELECT a b FROM T", "Aliasing is not supported"),
        ("SELECT * FROM T AS t", "Aliasing is not supported"),
        ("SELECT * FROM T t WHERE a = 1", "Aliasing is not supported"),
        ("SELECT * FROM T WHERE exists(a)", "Unrecognized function: exists at 1:23:6"),
        ("SELECT * FROM T WHERE lower(a) = 'x'", "Unrecognized function: lower at 1:23:5"),
        ("UPDATE T SET a = lower(b)", "Unrecognized function: lower at 1:18:5"),
        ('SELECT * FROM T.""', "Path component cannot be an empty string"),
        ("SELECT * FROM a.b.c", "A path may contain at most 2 components in the FROM clause"),
        ('INSERT INTO "T"."i" VALUE {}', "FROM clause may only contain a single table name in data "
         "manipulation statements at 1:13:3"),
        ("INSERT INTO T VALUE {'a': <<>>}", "Empty bags are not supported"),
        ("INSERT INTO T VALUE {'a': <<1, 'x'>>}",
         "DynamoDB only supports either numbers or strings in bags"),
        ("INSERT INTO T VALUE {'a': <<TRUE>>}",
         "DynamoDB only supports either numbers or strings in bags"),
        ("INSERT INTO T VALUE {'a': <<[1]>>}",
         "DynamoDB only supports either numbers or strings in bags"),
        ("INSERT INTO T VALUE {'a': <<?>>}", "Unsupported data type in Bag"),
        ("INSERT INTO T VALUE {'a': set_add(a, <<1>>)}",
         "Unsupported data type: set_add under key root.a at 1:27:7"),
        ("INSERT INTO T VALUE {'a': {'b': 1e126}}", "Number overflow. Attempting to store a number "
         "with magnitude larger than supported range under root.a.b"),
        ("INSERT INTO T VALUE {'a': [1, 1e-131]}", "Number underflow. Attempting to store a number "
         "with magnitude smaller than supported range under root.a[1]"),
        ("SELECT * FROM T WHERE a = 123456789012345678901234567890123456789",
         "Attempting to store more than 38 significant digits in a Number under root"),
        ("UPDATE T SET a = set_add(b, <<1>>)",
         "The first argument to SET_ADD must equal the assignment value at 1:18:7"),
        ("UPDATE T SET a = set_add(a, 1)",
         "The second argument to SET_ADD must be a value with type SET at 1:18:7"),
        ("UPDATE T SET a = set_delete(a)", "SET_DELETE must have exactly two arguments at 1:18:10"),
        ("UPDATE T SET a = list_append(a)", "LIST_APPEND must have exactly two arguments"),
        ("UPDATE T SET a = if_not_exists(1, 2)", "requires a document path"),
        ("UPDATE T SET a = 1, a.b = 2", "Two document paths overlap"),
        ("UPDATE T SET a = b + 'x'", "operator or function: +, operand type: S"),
        ("SELECT * FROM T WHERE a < TRUE", "Incorrect operand type for operator or function; "
         "operator or function: <, operand type: BOOL"),
        ("SELECT * FROM T WHERE a BETWEEN [1] AND [2]", "function: BETWEEN, operand type: L"),
        ("SELECT * FROM T WHERE size(a)", "not allowed to be used this way"),
        ("SELECT * FROM T WHERE contains(a, 1) = TRUE", "function: contains"),
        ("SELECT * FROM T WHERE begins_with(a, 1)", "function: begins_with, operand type: N"),
        ("SELECT * FROM T WHERE begins_with(a)", "number of operands: 1"),
        ("SELECT * FROM T WHERE attribute_type(a, 'Q')", "attribute type name found; type: Q"),
        ("SELECT a" + ".b" * 32 + " FROM T", "nesting levels: 33"),
        ("SELECT a[99999999999] FROM T", "List index is not within the allowable range"),
    ],
)  # fmt: skip
def test_refused(text, message):
    found = why(lambda: bind_statement(text, ["x"]))
    assert message in found and not found.startswith(MALFORMED)


# The same text with other parameters: checked anew, with the reason for the parameter's type.
def test_lone_surrogates_are_malformed():
    for text in ("SELECT * FROM t WHERE a = '\ud800'", 'SELECT "\udfff" FROM t', "\ud800"):
        with pytest.raises(ExpressionError, match="Statement wasn't well formed"):
            bind_statement(text)
    assert bind_statement("SELECT * FROM t WHERE a = '\U0001f600'").table == "t"


def test_parameters_are_checked():
    assert where("n < ?", number(6))
    for value, tag in [(True, "BOOL"), (None, "NULL"), ([], "L"), (frozenset("a"), "SS")]:
        assert why(lambda v=value: where("n < ?", v)).endswith(f"function: <, operand type: {tag}")
    assert why(lambda: where("attribute_type(s, ?)", "Q")).startswith("Invalid attribute type")
    assert "operand type: S" in why(lambda: updated("SET n = n + ?", "1"))
    assert "value with type SET" in why(lambda: updated("SET n = set_add(n, ?)", number(1)))
    assert "list_append, operand type: S" in why(lambda: updated("SET l = list_append(l, ?)", "x"))


@pytest.mark.parametrize(
    ("clauses", "message"),
    [
        ("SET ss = set_add(ss, <<1>>)", "An operand in the update expression has an incorrect"),
        ("SET n = set_delete(n, <<1>>)", "An operand in the update expression has an incorrect"),
        ("SET zz.a = 1", "The document path provided in the update expression is invalid"),
        ("SET n = zz + 1", "refers to an attribute that does not exist in the item"),
    ],
)
def test_errors_of_the_item(clauses, message):
    assert message in why(lambda: updated(clauses))


def test_equalities():
    def of(text: str, *parameters: Any) -> dict[str, Any]:
        return equalities(bind_statement(f"DELETE FROM T WHERE {text}", parameters).where)

    assert of("pk = ? AND 5 = sk AND a > 1", "x") == {"pk": "x", "sk": number(5)}
    assert of("pk = 'x' OR sk = 5") == {} and of("NOT pk = 'x'") == {}
    assert of("pk = sk AND a.b = 1 AND (c = 2)") == {"c": number(2)}
    assert of("pk = 'x' AND pk = 'y'") == {"pk": "x"}
    assert equalities(None) == {}


def test_choices():
    def of(text: str, *parameters: Any) -> list[Any] | None:
        return choices(bind_statement(f"SELECT * FROM T WHERE {text}", parameters).where, "pk")

    assert of("pk = 'x'") == ["x"] and of("'x' = pk AND sk > 1") == ["x"]
    assert of("pk IN ['x', ?] AND sk = 1", "y") == ["x", "y"]
    assert of("pk = 'x' OR pk IN ['y'] OR (pk = 'z' AND sk = 1)") == ["x", "y", "z"]
    assert of("(pk = 'x' OR pk = 'y') AND a = 1") == ["x", "y"]
    for text in ("pk > 'x'", "pk = 'x' OR a = 1", "NOT pk = 'x'", "pk = a", "pk IN ['x', a]",
                 "pk.a = 'x'", "begins_with(pk, 'x')"):  # fmt: skip
        assert of(text) is None
    assert choices(None, "pk") is None


def test_constants_and_templates_in_trees():
    statement = bind_statement(
        "SELECT * FROM T WHERE a = 'v' AND b = [?] AND c = [?, 2]", ["x", "y"]
    )
    assert isinstance(statement, Select) and statement.where is not None
    terms = statement.where.tree.terms
    assert terms[0] == Compare("=", Path(("a",)), Constant("v"))
    assert statement.where.evaluate({"a": "v", "b": ["x"], "c": ["y", number(2)]})


@pytest.mark.parametrize(
    "text",
    ["(" * 3000 + "a = 1" + ")" * 3000, "NOT " * 3000 + "a = 1", "a = " + "[" * 3000 + "]" * 3000,
     "a = " + "{'a':" * 1500 + "1" + "}" * 1500, "size(" * 1500 + "a" + ")" * 1500 + " = 1"],
)  # fmt: skip
def test_deep_nesting_is_an_error(text):
    try:
        where(text)
    except ExpressionError as problem:
        assert "nested too deeply" in problem.message
    else:
        assert text.startswith("NOT")


words = st.sampled_from(
    """SELECT INSERT UPDATE DELETE FROM INTO VALUE SET REMOVE WHERE RETURNING ALL OLD NEW MODIFIED
    EXISTS AND OR NOT IN BETWEEN IS MISSING NULL TRUE a b.c "q" 'v' 1 -1 1e9 ? ( ) [ ] { } << >> , .
    : = <> < <= + - * ; size begins_with contains set_add list_append T "T"."i" ORDER BY DESC AS
    -- /* */ # ! ' " é""".split()
)


@given(st.lists(words, max_size=25).map(" ".join), st.integers(0, 3))
@settings(max_examples=500, deadline=1000)
def test_soup_only_ever_raises_expression_errors(text, count):
    for statement in (text, "SELECT * FROM T WHERE " + text, "UPDATE T SET a = " + text):
        try:
            bind_statement(statement, ["x"] * count)
        except ExpressionError as problem:
            assert problem.message
