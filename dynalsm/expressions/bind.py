"""Names and values into parsed trees; everything that is wrong before an item is read.

Binding has two halves. What depends on the text and the names (resolved paths, compiled closures,
which value must have which type) is a *template*, cached by text and names. What depends on the
values is done per request: pick the values, look at their types. Only a request that fails is
examined clause by clause, in DynamoDB's order, to find the error it has to show.

Thread safety: templates are immutable and shared; a Placeholders object belongs to one request.
Invariants: (1) a template in the cache has passed every check that names and text allow;
(2) when a quick type check of a template fails, the ordered check finds an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from dynalsm.expressions.ast import (
    And,
    Between,
    Call,
    Compare,
    ConditionNode,
    In,
    NameRef,
    Not,
    Or,
    Path,
    Slot,
    Steps,
    ValueRef,
)
from dynalsm.expressions.cache import ClockCache
from dynalsm.expressions.compiled import Judge, Program, compile_program
from dynalsm.expressions.error import Refusal
from dynalsm.expressions.evaluate import ORDERED, TYPE_TAGS, Test, compare, compile_condition
from dynalsm.expressions.parser import Parsed, parse_condition
from dynalsm.expressions.placeholders import Placeholders
from dynalsm.expressions.static import Scope, calls_of, check_condition, leaves, operands
from dynalsm.values.codec import ItemView
from dynalsm.values.encode_python import encode_value

_CACHE_BYTES: Final = 32 << 20
_ENTRY_BYTES: Final = 3000  # measured: a small template
_NODE_BYTES: Final = 600  # measured: per placeholder or path of a template, closures included


@dataclass(frozen=True, slots=True)
class TypeChecks:
    """What the values of a template must be: quick to test, silent about the reason."""

    types: tuple[tuple[int, frozenset[type]], ...] = ()  # (slot, allowed Python types)
    ranges: tuple[tuple[int, int], ...] = ()  # (lower slot, upper slot) of a BETWEEN
    tags: tuple[int, ...] = ()  # slots that must name a type

    def hold(self, values: tuple[Any, ...]) -> bool:
        for slot, allowed in self.types:
            if type(values[slot]) not in allowed:
                return False
        for lower, upper in self.ranges:
            if (compare(values[lower], values[upper]) or 0) > 0 or (
                type(values[lower]) is not type(values[upper])
            ):
                return False
        return all(values[slot] in TYPE_TAGS for slot in self.tags)


NO_CHECKS: Final = TypeChecks()


class ConditionTemplate:
    """A condition whose names are resolved; shared by all requests that differ in values only.

    Both ways of judging are compiled when they are first needed; doing that twice is harmless.
    """

    __slots__ = ("_program", "_test", "attributes", "checks", "paths", "tree")

    def __init__(
        self,
        tree: ConditionNode,
        paths: tuple[Steps, ...],
        attributes: frozenset[str],
        checks: TypeChecks,
    ) -> None:
        self.tree = tree
        self.paths = paths
        self.attributes = attributes
        self.checks = checks
        self._test: Test | None = None
        self._program: Program | bool | None = False  # not looked for

    @property
    def test(self) -> Test:
        """The closures that judge an item of internal values."""
        if self._test is None:
            self._test = compile_condition(self.tree)
        return self._test

    def program(self, value_count: int) -> Program | None:
        """Return what judges encoded items, given so many values; None if nothing can."""
        program = self._program
        if isinstance(program, bool):
            program = self._program = compile_program(self.tree, value_count)
        return program if program is not None and program.slot_count == value_count else None

    def judge(self, values: tuple[bytes, ...]) -> Judge | None:
        """Return a judge of encoded items with these encoded values; None if there is none."""
        program = self.program(len(values))
        return None if program is None else Judge(program, values)


class Condition:
    """A condition ready to judge items.

    `encoded` are the values as encoded bytes, if the caller has them.
    """

    __slots__ = ("_encoded", "_judge", "attributes", "paths", "template", "tree", "values")

    def __init__(
        self,
        template: ConditionTemplate,
        values: tuple[Any, ...],
        encoded: tuple[bytes, ...] | None = None,
    ) -> None:
        self.template = template
        self.tree = template.tree
        self.values = values
        self.paths = template.paths
        self.attributes = template.attributes
        self._encoded = encoded
        self._judge: Judge | bool | None = False  # not made

    @classmethod
    def from_tree(cls, tree: ConditionNode, values: tuple[Any, ...] = ()) -> Condition:
        """Make a condition of a bound tree."""
        return cls(_template(tree, NO_CHECKS), values)

    def evaluate(self, item: Mapping[str, Any]) -> bool:
        """Judge an item; a missing item is an empty mapping."""
        if type(item) is ItemView:
            judge = self.judge
            if judge is not None:
                return judge.holds(item.encoded)
        return self.template.test(item, self.values)

    @property
    def judge(self) -> Judge | None:
        """What judges encoded items; None when only `evaluate` can."""
        judge = self._judge
        if isinstance(judge, bool):
            judge = self._judge = self._make_judge()
        return judge

    def _make_judge(self) -> Judge | None:
        encoded = self._encoded
        if encoded is None:
            try:
                encoded = tuple(map(encode_value, self.values))
            except ValueError:  # of PartiQL: a parameter that no item can hold
                return None
        return self.template.judge(encoded)


_templates: ClockCache[Any] = ClockCache(_CACHE_BYTES)
_T = TypeVar("_T")


def bind_condition(
    text: str, placeholders: Placeholders, kind: str = "ConditionExpression"
) -> Condition:
    """Bind a condition or filter. Raises: ExpressionError."""
    parsed, template, values = bind_template(
        text, placeholders, kind, parse_condition, check_condition, condition_template
    )
    encoded = placeholders.encoded
    if encoded is None:
        return Condition(template, values)
    return Condition(template, values, tuple([encoded[name] for name in parsed.values]))


def condition_with_slots(
    text: str, placeholders: Placeholders, kind: str
) -> tuple[tuple[str, ...], ConditionTemplate]:
    """Return the names of a condition's values, in the order of its slots, and its template."""
    parsed, template, _ = bind_template(
        text, placeholders, kind, parse_condition, check_condition, condition_template
    )
    return parsed.values, template


def bind_template(
    text: str,
    placeholders: Placeholders,
    kind: str,
    parse: Callable[[str, str], Parsed],
    check: Callable[[Any, Scope], None],
    build: Callable[[Any, Resolver], _T],
) -> tuple[Parsed, _T, tuple[Any, ...]]:
    """The way of every expression: parse, find or build the template, check the values.

    `check` refuses in DynamoDB's order, whatever is wrong; `build` may rely on it.
    """
    try:
        parsed = parse(text, kind)
        given = placeholders.values
        names = placeholders.names
        key: Any = (build, kind, text)
        if parsed.names:
            key = (build, kind, text, *[names.get(name) for name in parsed.names])
        template: Any = _templates.get(key)
        try:
            values = tuple([given[name] for name in parsed.values])
        except KeyError:
            values = ()
            template = None
        if template is None or not template.checks.hold(values):
            check(parsed.tree, Scope(names, given))
            template = build(parsed.tree, Resolver(names, parsed.values))
            cost = _ENTRY_BYTES + _NODE_BYTES * (len(parsed.values) + len(template.paths))
            _templates.put(key, template, cost + len(text))
    except Refusal as refusal:
        raise refusal.under(kind) from None
    placeholders.mark(parsed)
    return parsed, template, values


class Resolver:
    """Turns parsed trees into bound ones; every placeholder is known to be defined."""

    __slots__ = ("names", "slots")

    def __init__(self, names: Mapping[str, str], value_names: tuple[str, ...]) -> None:
        self.names = names
        self.slots = {name: index for index, name in enumerate(value_names)}

    def path(self, path: Path) -> Path:
        if all(type(step) is not NameRef for step in path.steps):
            return path
        names = self.names
        return Path(
            tuple(names[step.text] if type(step) is NameRef else step for step in path.steps)
        )

    def slot(self, node: ValueRef) -> Slot:
        return Slot(self.slots[node.name])

    def operand(self, node: Any) -> Any:
        if isinstance(node, Path):
            return self.path(node)
        if isinstance(node, ValueRef):
            return self.slot(node)
        if isinstance(node, Call):
            return Call(node.function, tuple(map(self.operand, node.arguments)))
        return node

    def condition(self, node: Any) -> Any:
        if isinstance(node, (And, Or)):
            return type(node)(tuple(map(self.condition, node.terms)))
        if isinstance(node, Not):
            return Not(self.condition(node.operand))
        if isinstance(node, Compare):
            return Compare(node.operator, self.operand(node.left), self.operand(node.right))
        if isinstance(node, Between):
            return Between(
                self.operand(node.operand), self.operand(node.lower), self.operand(node.upper)
            )
        if isinstance(node, In):
            return In(self.operand(node.operand), tuple(map(self.operand, node.options)))
        return self.operand(node)


def condition_template(tree: ConditionNode, resolver: Resolver) -> ConditionTemplate:
    """Resolve and compile a condition that has passed its checks."""
    bound = resolver.condition(tree)
    return template_of(bound)


def template_of(tree: ConditionNode) -> ConditionTemplate:
    """Compile a bound tree."""
    return _template(tree, _condition_checks(tree))


def _template(bound: ConditionNode, checks: TypeChecks) -> ConditionTemplate:
    paths: dict[Steps, None] = {}
    for leaf in leaves(bound):
        for path in paths_of(leaf):
            paths[path] = None
    heads = frozenset(str(path[0]) for path in paths)
    return ConditionTemplate(bound, tuple(paths), heads, checks)


def paths_of(node: Any) -> Iterator[Steps]:
    """Yield the paths at and below an operand or leaf condition, in written order."""
    if isinstance(node, Path):
        yield node.steps
    else:
        for operand in operands(node):
            yield from paths_of(operand)


_TEXT: Final = frozenset((str, bytes))
_STRING: Final = frozenset((str,))
_SIZED: Final = frozenset((str, bytes, list, dict, frozenset))


def _condition_checks(bound: ConditionNode) -> TypeChecks:
    types: dict[tuple[int, frozenset[type]], None] = {}
    ranges: dict[tuple[int, int], None] = {}
    tags: dict[int, None] = {}

    def require(node: Any, allowed: frozenset[type]) -> None:
        if isinstance(node, Slot):
            types[node.index, allowed] = None

    for leaf in leaves(bound):
        if isinstance(leaf, Between) or (
            isinstance(leaf, Compare) and leaf.operator not in ("=", "<>")
        ):
            for operand in operands(leaf):
                require(operand, ORDERED)
        if (
            isinstance(leaf, Between)
            and isinstance(leaf.lower, Slot)
            and (isinstance(leaf.upper, Slot))
        ):
            ranges[leaf.lower.index, leaf.upper.index] = None
        for call in calls_of(leaf):
            if call.function == "begins_with":
                for argument in call.arguments:
                    require(argument, _TEXT)
            elif call.function == "size":
                require(call.arguments[0], _SIZED)
            elif call.function == "attribute_type" and isinstance(call.arguments[1], Slot):
                require(call.arguments[1], _STRING)
                tags[call.arguments[1].index] = None
    return TypeChecks(tuple(types), tuple(ranges), tuple(tags))
