"""Random expressions and items against slow, obvious models; random text against the parsers."""

from __future__ import annotations

from copy import deepcopy
from decimal import Decimal
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dynalsm.expressions import (
    ExpressionError,
    Placeholders,
    bind_condition,
    bind_key_condition,
    bind_projection,
    bind_update,
)

NAMES = ["a", "b", "c", "m", "l"]

scalars = st.one_of(
    st.sampled_from(["", "a", "ab", "b", "\uffff", "\U00010000"]),
    st.sampled_from([b"", b"a", b"ab", b"\x80"]),
    st.sampled_from([Decimal(n) for n in ("0", "1", "-1", "2", "1.50", "1E+3")]),
    st.booleans(),
    st.none(),
    st.sampled_from(
        [frozenset("a"), frozenset("ab"), frozenset((b"a",)), frozenset((Decimal(1),))]
    ),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=5,
)
items = st.dictionaries(st.sampled_from(NAMES), values, max_size=5)
paths = st.tuples(
    st.sampled_from(NAMES),
    st.lists(st.one_of(st.sampled_from(NAMES), st.integers(0, 3)), max_size=2),
).map(lambda t: (t[0], *t[1]))


def path_source(path: tuple) -> str:
    text = path[0]
    for step in path[1:]:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text


# --- conditions -----------------------------------------------------------------------------

# An operand is ("path", steps), ("value", value) or ("size", operand).
operands = st.one_of(
    st.tuples(st.just("path"), paths),
    st.tuples(st.just("value"), values),
    st.tuples(st.just("size"), st.tuples(st.just("path"), paths)),
)
path_operands = st.tuples(st.just("path"), paths)
leaf_conditions = st.one_of(
    st.tuples(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), operands, operands),
    st.tuples(st.just("between"), operands, operands, operands),
    st.tuples(st.just("in"), operands, st.lists(operands, min_size=1, max_size=3)),
    st.tuples(st.sampled_from(["attribute_exists", "attribute_not_exists"]), path_operands),
    st.tuples(st.sampled_from(["begins_with", "contains"]), operands, operands),
    st.tuples(
        st.just("attribute_type"),
        path_operands,
        st.tuples(st.just("value"), st.sampled_from(["S", "N", "B", "L", "SS", "NS", "NULL"])),
    ),
)
conditions = st.recursive(
    leaf_conditions,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["and", "or"]), inner, inner), st.tuples(st.just("not"), inner)
    ),
    max_leaves=6,
)


class Writer:
    """Writes expressions as text and collects the values they mention."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def operand(self, node: tuple) -> str:
        if node[0] == "path":
            return path_source(node[1])
        if node[0] == "size":
            return f"size({self.operand(node[1])})"
        name = f":v{len(self.values)}"
        self.values[name] = node[1]
        return name

    def condition(self, node: tuple) -> str:
        kind = node[0]
        if kind in ("and", "or"):
            return f"({self.condition(node[1])}) {kind} ({self.condition(node[2])})"
        if kind == "not":
            return f"NOT ({self.condition(node[1])})"
        if kind == "between":
            one, two, three = map(self.operand, node[1:])
            return f"{one} BETWEEN {two} AND {three}"
        if kind == "in":
            return f"{self.operand(node[1])} IN ({', '.join(map(self.operand, node[2]))})"
        if kind in ("=", "<>", "<", "<=", ">", ">="):
            return f"{self.operand(node[1])} {kind} {self.operand(node[2])}"
        return f"{kind}({', '.join(map(self.operand, node[1:]))})"


NOTHING = object()


def tag(value: Any) -> str:
    if isinstance(value, frozenset):
        return {str: "SS", bytes: "BS", Decimal: "NS"}[type(min(value))]
    names = {str: "S", bytes: "B", Decimal: "N", bool: "BOOL", type(None): "NULL", list: "L"}
    return names.get(type(value), "M")


def shape(value: Any) -> Any:
    """Return something plain that is equal exactly for equal values."""
    if isinstance(value, list):
        return ("L", tuple(map(shape, value)))
    if isinstance(value, dict):
        return ("M", tuple(sorted((k, shape(v)) for k, v in value.items())))
    return (tag(value), value)


def same(a: Any, b: Any) -> bool:
    return a is not NOTHING and b is not NOTHING and repr_equal(shape(a), shape(b))


def repr_equal(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(repr_equal(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def look_up(item: dict, path: tuple) -> Any:
    value: Any = item
    for step in path:
        is_member = isinstance(value, dict) and isinstance(step, str) and step in value
        is_element = isinstance(value, list) and isinstance(step, int) and step < len(value)
        if not (is_member or is_element):
            return NOTHING
        value = value[step]
    return value


def model_operand(node: tuple, item: dict) -> Any:
    if node[0] == "path":
        return look_up(item, node[1])
    if node[0] == "value":
        return node[1]
    value = model_operand(node[1], item)
    if value is NOTHING or tag(value) in ("N", "BOOL", "NULL"):
        return NOTHING
    if isinstance(value, str):
        return Decimal(len(value.encode("utf-16-le")) // 2)
    return Decimal(len(value))


def in_order(a: Any, b: Any) -> bool:
    """a <= b where that means something."""
    if a is NOTHING or b is NOTHING or tag(a) != tag(b) or tag(a) not in ("S", "N", "B"):
        return False
    if isinstance(a, str):
        return a.encode() <= b.encode()
    return bool(a <= b)


def model(node: tuple, item: dict) -> bool:
    kind = node[0]
    if kind == "and":
        return model(node[1], item) and model(node[2], item)
    if kind == "or":
        return model(node[1], item) or model(node[2], item)
    if kind == "not":
        return not model(node[1], item)
    if kind == "in":
        wanted = model_operand(node[1], item)
        return any(same(wanted, model_operand(option, item)) for option in node[2])
    found = [model_operand(operand, item) for operand in node[1:]]
    a, b = found[0], found[1] if len(found) > 1 else NOTHING
    if kind == "between":
        return in_order(found[1], a) and in_order(a, found[2])
    if kind in ("attribute_exists", "attribute_not_exists"):
        return (a is not NOTHING) is (kind == "attribute_exists")
    if kind == "attribute_type":
        return a is not NOTHING and tag(a) == b
    if kind == "begins_with":
        return in_order(b, a) and not isinstance(a, Decimal) and a[: len(b)] == b
    if kind == "contains":
        return model_contains(a, b)
    answers = {
        "=": same(a, b),
        "<>": not same(a, b),
        "<": in_order(a, b) and not same(a, b),
        "<=": in_order(a, b),
        ">": in_order(b, a) and not same(a, b),
        ">=": in_order(b, a),
    }
    return answers[kind]


def model_contains(a: Any, b: Any) -> bool:
    if a is NOTHING or b is NOTHING:
        return False
    if isinstance(a, (str, bytes)):
        return type(a) is type(b) and any(
            a[i : i + len(b)] == b for i in range(len(a) - len(b) + 1)
        )
    if isinstance(a, (list, frozenset)):
        return any(same(element, b) for element in a)
    return False


@given(conditions, items)
@settings(max_examples=200, deadline=None)
@example(("=", ("path", ("a",)), ("value", Decimal(1))), {"a": True})
@example(("contains", ("path", ("a",)), ("value", True)), {"a": frozenset((Decimal(1),))})
def test_conditions_against_the_model(node, item):
    writer = Writer()
    text = writer.condition(node)
    try:
        bound = bind_condition(text, Placeholders(None, writer.values or None))
    except ExpressionError as problem:
        assert problem.kind in ("operand", "distinct"), problem.message
        return
    before = deepcopy(item)
    assert bound.evaluate(item) is model(node, item), text
    assert item == before


# --- updates --------------------------------------------------------------------------------

numbers_and_sets = st.one_of(
    st.sampled_from([Decimal(1), Decimal("-2.5")]),
    st.sampled_from([frozenset("ab"), frozenset((Decimal(1),))]),
)
sets_only = st.sampled_from([frozenset("a"), frozenset("ab"), frozenset((Decimal(1),))])
right_sides = st.one_of(
    st.tuples(st.just("value"), values),
    st.tuples(st.just("path"), paths),
    st.tuples(st.just("if_not_exists"), paths, values),
)
actions = st.one_of(
    st.tuples(st.just("SET"), paths, right_sides),
    st.tuples(st.just("REMOVE"), paths),
    st.tuples(st.just("ADD"), paths, numbers_and_sets),
    st.tuples(st.just("DELETE"), paths, sets_only),
)


def clash(a: tuple, b: tuple) -> bool:
    """Overlap or conflict."""
    for x, y in zip(a, b, strict=False):
        if type(x) is not type(y):
            return True
        if x != y:
            return False
    return True


class Failed(Exception):
    pass


def model_new_value(action: tuple, item: dict) -> Any:
    """Return what stands at the target afterwards, NOTHING when it goes."""
    section, path = action[:2]
    if section == "REMOVE":
        return NOTHING
    current = look_up(item, path)
    if section == "SET":
        kind, *rest = action[2]
        value = rest[0] if kind == "value" else look_up(item, rest[0])
        if kind == "if_not_exists" and value is NOTHING:
            value = rest[1]
        if value is NOTHING:
            raise Failed
        return value
    operand = action[2]
    if current is NOTHING:
        return operand if section == "ADD" else NOTHING
    if tag(current) != tag(operand):
        raise Failed
    if section == "ADD":
        return current + operand if isinstance(operand, Decimal) else current | operand
    return (current - operand) or NOTHING


def model_update(chosen: list, item: dict) -> dict:
    """Apply the actions one after the other to a copy in which lists only grow."""
    results = [(action[1], model_new_value(action, item)) for action in chosen]
    new = deepcopy(item)
    longer = []  # (list, index, value) beyond the end
    shorter = []  # (list, index)
    for path, value in results:
        parent = look_up(new, path[:-1]) if len(path) > 1 else new
        last = path[-1]
        if isinstance(last, str) and isinstance(parent, dict):
            if value is NOTHING:
                parent.pop(last, None)
            else:
                parent[last] = value
        elif isinstance(last, int) and isinstance(parent, list):
            if last >= len(parent):
                if value is not NOTHING:
                    longer.append((parent, last, value))
            elif value is NOTHING:
                shorter.append((parent, last))
            else:
                parent[last] = value
        else:
            raise Failed
    for parent, index in sorted(shorter, key=lambda pair: -pair[1]):
        del parent[index]
    for parent, _, value in sorted(longer, key=lambda triple: triple[1]):
        parent.append(value)
    return new


@given(st.lists(actions, min_size=1, max_size=4), items)
@settings(max_examples=200, deadline=None)
@example([("SET", ("l", 3), ("value", "x")), ("REMOVE", ("l", 0))], {"l": ["p", "q"]})
def test_updates_against_the_model(chosen, item):
    # Removing elements moves others, so nested changes inside the same list would make the
    # model's own order matter; targets that clash are another test's business.
    targets = [action[1] for action in chosen]
    if any(clash(a, b) for i, a in enumerate(targets) for b in targets[:i]):
        return
    writer = Writer()
    sections: dict[str, list[str]] = {}
    for action in chosen:
        sections.setdefault(action[0], []).append(action_source(action, writer))
    text = " ".join(f"{name} {', '.join(parts)}" for name, parts in sections.items())
    in_text_order = sorted(chosen, key=lambda action: list(sections).index(action[0]))
    bound = bind_update(text, Placeholders(None, writer.values or None))
    before = deepcopy(item)
    try:
        expected = model_update(in_text_order, item)
    except Failed:
        expected = None
    try:
        result = bound.apply(item).item
    except ExpressionError as problem:
        assert expected is None and problem.kind == "runtime", (text, problem.message)
    else:
        assert expected is not None and same(result, expected), text
    assert same(item, before)


def action_source(action: tuple, writer: Writer) -> str:
    target = path_source(action[1])
    if action[0] == "REMOVE":
        return target
    if action[0] != "SET":
        return f"{target} {writer.operand(('value', action[2]))}"
    kind, *rest = action[2]
    if kind == "if_not_exists":
        default = writer.operand(("value", rest[1]))
        return f"{target} = if_not_exists({path_source(rest[0])}, {default})"
    return f"{target} = {writer.operand(action[2])}"


# --- projections ----------------------------------------------------------------------------


@given(st.lists(paths, min_size=1, max_size=4), items)
@settings(max_examples=200, deadline=None)
def test_projections_keep_exactly_what_is_asked(chosen, item):
    if any(clash(a, b) for i, a in enumerate(chosen) for b in chosen[:i]):
        return
    result = bind_projection(", ".join(map(path_source, chosen)), Placeholders()).apply(item)
    found = [look_up(item, path) for path in chosen]
    assert leaf_count(result, chosen) == sum(value is not NOTHING for value in found)
    for path, value in zip(chosen, found, strict=True):
        if value is not NOTHING and all(isinstance(step, str) for step in path):
            assert same(look_up(result, path), value)
    assert set(result) == {p[0] for p, v in zip(chosen, found, strict=True) if v is not NOTHING}


def leaf_count(value: Any, below: list[tuple]) -> int:
    """Count the selected parts in a projected value, guided by the paths still open."""
    if any(not path for path in below):
        return 1
    if isinstance(value, dict):
        return sum(
            leaf_count(value[name], [p[1:] for p in below if p[0] == name]) for name in value
        )
    indexes = sorted({path[0] for path in below})
    groups = [[p[1:] for p in below if p[0] == index] for index in indexes]
    # Elements are compacted, so pair them with the indexes that can have produced them.
    if len(groups) == len(value):
        return sum(leaf_count(v, g) for v, g in zip(value, groups, strict=True))
    return sum(max(leaf_count_safe(v, g) for g in groups) for v in value)


def leaf_count_safe(value: Any, below: list[tuple]) -> int:
    try:
        return leaf_count(value, below)
    except (TypeError, KeyError, ValueError, IndexError):
        return 0


# --- token soup -----------------------------------------------------------------------------

tokens = st.sampled_from(
    """a b.c #n #undefined :v :undefined ( ( ) ) [ ] [0] [99999999999] . , = <> < <= > >= + - AND
    and OR NOT not BETWEEN IN SET set REMOVE ADD DELETE size attribute_exists attribute_type
    begins_with contains if_not_exists list_append foo name data 1 _ ! " ' # : é \x00""".split(" ")
)
soup = st.one_of(
    st.lists(tokens, max_size=25).map(" ".join),
    st.lists(tokens, max_size=25).map("".join),
    st.text(max_size=60),
)
binders = st.sampled_from([bind_condition, bind_projection, bind_update, bind_key_condition])


@given(binders, soup, values)
@settings(max_examples=500, deadline=1000)
@example(bind_condition, "((((((((((((((((((((((a", None)
@example(bind_update, "SET a=((((((((b))))))))", None)
def test_soup_only_ever_raises_expression_errors(bind, text, value):
    given_ = Placeholders({"#n": "name"}, {":v": value})
    try:
        bound = bind(text, given_)
    except ExpressionError as problem:
        assert problem.message
        return
    item = {"a": value, "b": {"c": [value]}, "name": "x"}
    try:
        {
            bind_condition: lambda: bound.evaluate(item),
            bind_projection: lambda: bound.apply(item),
            bind_update: lambda: bound.apply(item).item,
            bind_key_condition: lambda: bound.resolve(["a"], ["b"], {"a": "S", "b": "N"}),
        }[bind]()
    except ExpressionError as problem:
        assert problem.kind in ("runtime", "key")
