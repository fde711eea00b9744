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

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeVar

from dynalsm.expressions import error
from dynalsm.expressions.ast import (
    And,
    Between,
    Call,
    Compare,
    ConditionNode,
    Constant,
    In,
    NameRef,
    Not,
    Operand,
    Or,
    Path,
    Slot,
    ValueRef,
    path_text,
)
from dynalsm.expressions.cache import ClockCache
from dynalsm.expressions.error import ExpressionError, Refusal
from dynalsm.expressions.evaluate import (
    ORDERED,
    TYPE_TAGS,
    Test,
    compare,
    compile_condition,
    type_tag,
)
from dynalsm.expressions.parser import CONDITION_FUNCTIONS, Parsed, parse_condition

Steps = tuple[str | int, ...]

MAX_ATTRIBUTE_NAME_BYTES: Final = 65535  # observed: scylladb, 65536 is refused
MAX_PLACEHOLDER_BYTES: Final = 255  # AWS, Limits: expression attribute names and values

_NAME_KEY: Final = re.compile(r"#[0-9A-Za-z_]+", re.ASCII)
_VALUE_KEY: Final = re.compile(r":[0-9A-Za-z_]+", re.ASCII)
_CACHE_BYTES: Final = 32 << 20
_ENTRY_BYTES: Final = 3000  # measured: a small template
_NODE_BYTES: Final = 600  # measured: per placeholder or path of a template, closures included


class Placeholders:
    """The ExpressionAttributeNames and -Values of one request, and which of them were used.

    Raises: ExpressionError when a map is empty or a key is no placeholder.
    """

    __slots__ = ("_used_names", "_used_values", "names", "values")

    def __init__(
        self, names: Mapping[str, str] | None = None, values: Mapping[str, Any] | None = None
    ) -> None:
        check_placeholder_keys(names, values)
        self.names: Mapping[str, str] = names if names is not None else {}
        self.values: Mapping[str, Any] = values if values is not None else {}
        self._used_names: set[str] = set()
        self._used_values: set[str] = set()

    def mark(self, parsed: Parsed) -> None:
        """Count every placeholder a text mentions as used."""
        if parsed.names:
            self._used_names.update(parsed.names)
        if parsed.values:
            self._used_values.update(parsed.values)

    def check_unused(self) -> None:
        """Refuse names, then values, that no bound expression mentions."""
        if len(self._used_names) < len(self.names):
            self._raise_unused("Names", self.names, self._used_names)
        if len(self._used_values) < len(self.values):
            self._raise_unused("Values", self.values, self._used_values)

    @staticmethod
    def _raise_unused(which: str, given: Mapping[str, Any], used: set[str]) -> None:
        unused = ", ".join(key for key in given if key not in used)
        raise ExpressionError(
            f"Value provided in ExpressionAttribute{which} unused in expressions: "
            f"keys: {{{unused}}}",
            error.UNUSED,
        )


def check_placeholder_keys(
    names: Mapping[str, str] | None, values: Mapping[str, Any] | None
) -> None:
    """Check the keys of both maps, and the names; values are not looked at, in whatever form."""
    if names is not None:
        _check_keys("Names", names, _NAME_KEY)
        for key, name in names.items():
            if not name:
                raise _invalid_name("Empty attribute name", key)
            if len(name) * 4 > MAX_ATTRIBUTE_NAME_BYTES and (
                len(name.encode("utf-8", "surrogatepass")) > MAX_ATTRIBUTE_NAME_BYTES
            ):
                raise _invalid_name(
                    "Attribute name is too large, must be less than "
                    f"{MAX_ATTRIBUTE_NAME_BYTES + 1} bytes",
                    key,
                )
    if values is not None:
        _check_keys("Values", values, _VALUE_KEY)


def _invalid_name(why: str, key: str) -> ExpressionError:
    return ExpressionError(
        f"ExpressionAttributeNames contains invalid value: {why} for key {key}", error.PLACEHOLDER
    )


def _check_keys(which: str, given: Mapping[str, Any], form: re.Pattern[str]) -> None:
    if not given:
        raise ExpressionError(f"ExpressionAttribute{which} must not be empty", error.PLACEHOLDER)
    for key in given:
        if form.fullmatch(key) is None:
            raise ExpressionError(
                f'ExpressionAttribute{which} contains invalid key: Syntax error; key: "{key}"',
                error.PLACEHOLDER,
            )
        if len(key) > MAX_PLACEHOLDER_BYTES:
            raise ExpressionError(
                f"ExpressionAttribute{which} contains invalid key: The expression attribute key "
                f'is longer than {MAX_PLACEHOLDER_BYTES} bytes; key: "{key}"',
                error.PLACEHOLDER,
            )


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


@dataclass(frozen=True, slots=True)
class ConditionTemplate:
    """A condition whose names are resolved; shared by all requests that differ in values only."""

    tree: ConditionNode
    paths: tuple[Steps, ...]
    attributes: frozenset[str]
    checks: TypeChecks
    test: Test


class Condition:
    """A condition ready to judge items."""

    __slots__ = ("_test", "attributes", "paths", "tree", "values")

    def __init__(self, template: ConditionTemplate, values: tuple[Any, ...]) -> None:
        self.tree = template.tree
        self.values = values
        self.paths = template.paths
        self.attributes = template.attributes
        self._test = template.test

    @classmethod
    def from_tree(cls, tree: ConditionNode, values: tuple[Any, ...] = ()) -> Condition:
        """Make a condition of a bound tree."""
        return cls(_template(tree, NO_CHECKS), values)

    def evaluate(self, item: Mapping[str, Any]) -> bool:
        """Judge an item; a missing item is an empty mapping."""
        return self._test(item, self.values)


_templates: ClockCache[Any] = ClockCache(_CACHE_BYTES)
_T = TypeVar("_T")


def bind_condition(
    text: str, placeholders: Placeholders, kind: str = "ConditionExpression"
) -> Condition:
    """Bind a condition or filter. Raises: ExpressionError."""
    _, template, values = bind_template(
        text, placeholders, kind, parse_condition, check_condition, condition_template
    )
    return Condition(template, values)


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


class Scope:
    """The names and values of a request, as the ordered checks see them."""

    __slots__ = ("names", "values")

    def __init__(self, names: Mapping[str, str], values: Mapping[str, Any]) -> None:
        self.names = names
        self.values = values

    def require_name(self, ref: str) -> str:
        name = self.names.get(ref)
        if name is None:
            raise Refusal(
                "An expression attribute name used in the document path is not defined; "
                f"attribute name: {ref}",
                error.PLACEHOLDER,
            )
        return name

    def require_value(self, ref: str) -> Any:
        if ref not in self.values:
            raise Refusal(
                "An expression attribute value used in expression is not defined; "
                f"attribute value: {ref}",
                error.PLACEHOLDER,
            )
        return self.values[ref]

    def steps(self, path: Path) -> Steps:
        return tuple(
            self.require_name(step.text) if type(step) is NameRef else step for step in path.steps
        )

    def static_type(self, node: Any) -> str | None:
        """The type of an operand as far as it is known without an item."""
        if isinstance(node, ValueRef):
            return type_tag(self.values[node.name])
        if isinstance(node, Constant):
            return type_tag(node.value)
        if isinstance(node, Call):
            return "N" if node.function == "size" else None
        return None


def check_condition(tree: ConditionNode, scope: Scope) -> None:
    """Refuse what names and values make wrong: condition by condition, in written order."""
    for leaf in leaves(tree):
        _check_references(leaf, scope)
        calls = list(_calls(leaf))
        for call in calls:
            _check_operand_count(call)
        for call in calls:
            if len(call.arguments) == 2:
                _check_distinct(call.function, call.arguments[0], call.arguments[1], scope)
        if isinstance(leaf, Compare):
            _check_distinct(leaf.operator, leaf.left, leaf.right, scope)
        for call in calls:
            _check_call_types(call, scope)
        _check_types(leaf, scope)


def leaves(tree: ConditionNode) -> Iterator[ConditionNode]:
    """Yield the conditions below AND, OR and NOT, in written order."""
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, (And, Or)):
            stack.extend(reversed(node.terms))
        elif isinstance(node, Not):
            stack.append(node.operand)
        else:
            yield node


def operands(leaf: Any) -> tuple[Operand, ...]:
    """Return the direct operands of a leaf condition or call, in written order."""
    if isinstance(leaf, Compare):
        return (leaf.left, leaf.right)
    if isinstance(leaf, Between):
        return (leaf.operand, leaf.lower, leaf.upper)
    if isinstance(leaf, In):
        return (leaf.operand, *leaf.options)
    if isinstance(leaf, Call):
        return leaf.arguments
    return ()


def _check_references(node: Any, scope: Scope) -> None:
    for operand in operands(node):
        if isinstance(operand, Path):
            scope.steps(operand)
        elif isinstance(operand, ValueRef):
            scope.require_value(operand.name)
        else:
            _check_references(operand, scope)


def _calls(node: Any) -> Iterator[Call]:
    """Yield the calls at and below a node, inner ones first."""
    for operand in operands(node):
        if isinstance(operand, Call):
            yield from _calls(operand)
    if isinstance(node, Call):
        yield node


def _check_operand_count(call: Call) -> None:
    if CONDITION_FUNCTIONS[call.function] != len(call.arguments):
        raise Refusal(
            "Incorrect number of operands for operator or function; operator or function: "
            f"{call.function}, number of operands: {len(call.arguments)}",
            error.FUNCTION,
        )


def _check_distinct(name: str, left: Operand, right: Operand, scope: Scope) -> None:
    if isinstance(left, Path) and isinstance(right, Path):
        steps = scope.steps(left)
        if steps == scope.steps(right):
            raise Refusal(
                "The first operand must be distinct from the remaining operands for this operator "
                f"or function; operator: {name}, first operand: {path_text(steps)}",
                error.DISTINCT,
            )


def incorrect_type(name: str, tag: str) -> Refusal:
    """The refusal of a constant whose type an operator or function cannot take."""
    return Refusal(
        "Incorrect operand type for operator or function; operator or function: "
        f"{name}, operand type: {tag}",
        error.OPERAND,
    )


def path_required(function: str) -> Refusal:
    """The refusal of a value where only a path may stand."""
    return Refusal(
        "Operator or function requires a document path; operator or function: " + function,
        error.OPERAND,
    )


def _check_call_types(call: Call, scope: Scope) -> None:
    function = call.function
    if function in ("attribute_exists", "attribute_not_exists"):
        if not isinstance(call.arguments[0], Path):
            raise path_required(function)
    elif function == "begins_with":
        for argument in call.arguments:
            tag = scope.static_type(argument)
            if tag is not None and tag not in ("S", "B"):
                raise incorrect_type(function, tag)
    elif function == "attribute_type":
        wanted = call.arguments[1]
        tag = scope.static_type(wanted)
        if tag != "S":
            raise incorrect_type(function, tag or "{NS,SS,L,BS,N,M,B,BOOL,NULL,S}")
        name = wanted.value if isinstance(wanted, Constant) else scope.values[wanted.name]  # type: ignore[union-attr]
        if name not in TYPE_TAGS:
            raise Refusal(
                f"Invalid attribute type name found; type: {name}, "
                "valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}",
                error.OPERAND,
            )
    elif function == "size":
        tag = scope.static_type(call.arguments[0])
        if tag in ("N", "BOOL", "NULL"):
            raise incorrect_type(function, tag)


def _check_types(leaf: ConditionNode, scope: Scope) -> None:
    if isinstance(leaf, Compare) and leaf.operator not in ("=", "<>"):
        _check_ordered(leaf.operator, operands(leaf), scope)
    elif isinstance(leaf, Between):
        _check_ordered("BETWEEN", operands(leaf), scope)
        if isinstance(leaf.lower, ValueRef) and isinstance(leaf.upper, ValueRef):
            _check_range(scope.values[leaf.lower.name], scope.values[leaf.upper.name])


def _check_ordered(name: str, nodes: tuple[Operand, ...], scope: Scope) -> None:
    for node in nodes:
        tag = scope.static_type(node)
        if tag is not None and tag not in ("S", "N", "B"):
            raise incorrect_type(name, tag)


def _check_range(lower: Any, upper: Any) -> None:
    if type(lower) is not type(upper):
        what = "same data type for lower and upper bounds"
    elif lower > upper:
        what = "upper bound to be greater than or equal to lower bound"
    else:
        return
    raise Refusal(
        f"The BETWEEN operator requires {what}; lower bound operand: AttributeValue: "
        f"{{{value_text(lower)}}}, upper bound operand: AttributeValue: {{{value_text(upper)}}}",
        error.OPERAND,
    )


def value_text(value: Any) -> str:
    """Print an S, N or B as error messages do: `N:5`."""
    if isinstance(value, Decimal):
        return f"N:{value:f}"
    if isinstance(value, bytes):
        return f"B:{base64.b64encode(value).decode()}"
    return f"S:{value}"


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
    return _template(bound, _condition_checks(bound))


def _template(bound: ConditionNode, checks: TypeChecks) -> ConditionTemplate:
    paths: dict[Steps, None] = {}
    for leaf in leaves(bound):
        for path in paths_of(leaf):
            paths[path] = None
    heads = frozenset(str(path[0]) for path in paths)
    return ConditionTemplate(bound, tuple(paths), heads, checks, compile_condition(bound))


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
        for call in _calls(leaf):
            if call.function == "begins_with":
                for argument in call.arguments:
                    require(argument, _TEXT)
            elif call.function == "size":
                require(call.arguments[0], _SIZED)
            elif call.function == "attribute_type" and isinstance(call.arguments[1], Slot):
                require(call.arguments[1], _STRING)
                tags[call.arguments[1].index] = None
    return TypeChecks(tuple(types), tuple(ranges), tuple(tags))
