"""UpdateExpression: an old item to a new one.

Every right-hand side and every read path sees the item as it was; then all targets change at
once. Below one attribute the targets form a path tree whose leaves are what happens there, so
list indexes mean the original positions, and appended elements land in the order of their indexes.

Thread safety: an Update is immutable; applying it touches nothing but new objects.
Invariants: (1) targets neither overlap nor conflict; (2) the old item and the values inside it
are never changed, only shared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from dynalsm.expressions import error
from dynalsm.expressions.ast import Action, Arithmetic, Call, Path, Slot, Steps, ValueRef
from dynalsm.expressions.bind import Resolver, TypeChecks, bind_template, paths_of
from dynalsm.expressions.changes import ChangeProgram, Changer, compile_changes
from dynalsm.expressions.error import ExpressionError, Refusal
from dynalsm.expressions.evaluate import (
    MISSING,
    Fetch,
    Item,
    Values,
    compile_operand,
    fetch,
    type_tag,
)
from dynalsm.expressions.grammar import UPDATE_FUNCTIONS
from dynalsm.expressions.parser import parse_update
from dynalsm.expressions.paths import PathTree, build_tree, project
from dynalsm.expressions.placeholders import Placeholders
from dynalsm.expressions.static import Scope, incorrect_type, path_required
from dynalsm.values import ValueProblem, number
from dynalsm.values.decode import decode_value

_LONG_NAMES: Final = {
    "S": "STRING",
    "N": "NUMBER",
    "B": "BINARY",
    "NULL": "NULL",
    "BOOL": "BOOLEAN",
    "L": "LIST",
    "M": "MAP",
}
_NUMBER: Final = frozenset((Decimal,))
_SET: Final = frozenset((frozenset,))
_LIST: Final = frozenset((list,))
_ADDABLE: Final = frozenset((Decimal, frozenset))

INVALID_PATH: Final = "The document path provided in the update expression is invalid for update"
NO_ATTRIBUTE: Final = (
    "The provided expression refers to an attribute that does not exist in the item"
)
WRONG_TYPE: Final = "An operand in the update expression has an incorrect data type"


def _runtime(message: str) -> ExpressionError:
    return ExpressionError(message, error.RUNTIME)


def add(a: Decimal, b: Decimal) -> Decimal:
    """Add exactly. Raises: ExpressionError beyond 38 digits or DynamoDB's range."""
    try:
        return number.add(a, b)
    except ValueProblem as problem:
        raise _runtime(str(problem)) from None


def subtract(a: Decimal, b: Decimal) -> Decimal:
    """Subtract exactly. Raises: as add."""
    try:
        return number.subtract(a, b)
    except ValueProblem as problem:
        raise _runtime(str(problem)) from None


class Set:
    """A leaf of the change tree: put this value here."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


REMOVE: Final = object()  # leaf: take what is here away
KEEP: Final = object()  # leaf: nothing happens here, but the way to it must exist

# What happens at one target: (old item, values) -> Set, REMOVE or KEEP.
Effect = Callable[[Item, Values], Any]


@dataclass(frozen=True, slots=True)
class UpdateTemplate:
    """An update whose names are resolved."""

    actions: tuple[Action, ...]
    targets: tuple[Steps, ...]
    paths: tuple[Steps, ...]  # targets and read paths
    attributes: frozenset[str]  # top-level names of the targets
    tree: PathTree
    effects: tuple[tuple[Steps, Effect], ...]
    only_removes: bool
    checks: TypeChecks
    program: ChangeProgram | None = None  # what applies it to encoded items, if anything can

    def bound(self, encoded: tuple[bytes, ...]) -> Update:
        """Return the update with these encoded values, which have passed the checks."""
        return Update(self, None, encoded)


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """What an update does to an item, by top-level attribute."""

    old: Mapping[str, Any]
    assigned: dict[str, Any]  # attribute -> its whole new value
    removed: frozenset[str]  # attributes that are gone

    @property
    def item(self) -> dict[str, Any]:
        """The whole new item (without keys when there was no old item)."""
        new = dict(self.old)
        new.update(self.assigned)
        for name in self.removed:
            new.pop(name, None)
        return new


class Update:
    """An update ready to apply.

    Of `values` and `encoded`, the same as encoded bytes, one may be missing.
    """

    __slots__ = ("_encoded", "_values", "template")

    def __init__(
        self,
        template: UpdateTemplate,
        values: Values | None,
        encoded: tuple[bytes, ...] | None = None,
    ) -> None:
        self.template = template
        self._values = values
        self._encoded = encoded

    @property
    def values(self) -> Values:
        """The values of the template's slots."""
        if self._values is None:
            self._values = tuple(map(decode_value, self._encoded or ()))
        return self._values

    def changer(self) -> Changer | None:
        """Return what applies the update to encoded items; None when only `apply` can."""
        program = self.template.program
        if program is None or self._encoded is None:
            return None
        return Changer(program, self._encoded)

    @property
    def actions(self) -> tuple[Action, ...]:
        return self.template.actions

    @property
    def targets(self) -> tuple[Steps, ...]:
        """The paths that are written, in written order."""
        return self.template.targets

    @property
    def paths(self) -> tuple[Steps, ...]:
        """Every path mentioned: targets and what is read."""
        return self.template.paths

    @property
    def attributes(self) -> frozenset[str]:
        """The top-level attributes that are written."""
        return self.template.attributes

    @property
    def only_removes(self) -> bool:
        """True when there is nothing but REMOVE and DELETE: a missing item stays missing."""
        return self.template.only_removes

    def apply(self, item: Mapping[str, Any] | None) -> UpdateResult:
        """Compute the new item; None is an item that does not exist.

        Raises: ExpressionError for what only the item can make wrong.
        """
        old: Mapping[str, Any] = {} if item is None else item
        values = self.values
        assigned: dict[str, Any] = {}
        removed: list[str] = []
        changes: dict[str, PathTree] = {}
        for steps, effect in self.template.effects:
            change = effect(old, values)
            if len(steps) > 1:
                _insert(changes, steps, change)
            elif change is REMOVE:
                removed.append(steps[0])  # type: ignore[arg-type]
            elif change is not KEEP:
                assigned[steps[0]] = change.value  # type: ignore[index]
        for name, tree in changes.items():
            value = old.get(name, MISSING)
            if value is not MISSING:
                assigned[name] = _rebuild(value, tree)
            elif item is not None or not self.only_removes:
                raise _runtime(INVALID_PATH)
        return UpdateResult(old, assigned, frozenset(removed))

    def updated_old(self, old: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the targets as they were (ReturnValues UPDATED_OLD); {} for nothing."""
        return project(old, self.template.tree) if old is not None else {}

    def updated_new(self, new: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the targets as they are now (ReturnValues UPDATED_NEW); {} for nothing.

        Paths are looked up literally in the new item: an element appended beyond the end is not
        found, the element that moved to a removed index is (observed: scylladb).
        """
        return project(new, self.template.tree) if new is not None else {}


def _insert(changes: dict[str, PathTree], steps: Steps, change: Any) -> None:
    node: Any = changes
    for step in steps[:-1]:
        node = node.setdefault(step, {})
    node[steps[-1]] = change


def _rebuild(value: Any, tree: PathTree) -> Any:
    """Return a changed copy of a map or list; everything unchanged is shared with the old one."""
    if type(next(iter(tree))) is str:
        return _rebuild_map(value, tree)
    return _rebuild_list(value, tree)


def _rebuild_map(value: Any, tree: PathTree) -> dict[str, Any]:
    if type(value) is not dict:
        raise _runtime(INVALID_PATH)
    new = dict(value)
    for name, change in tree.items():
        if type(change) is dict:
            if name not in value:
                raise _runtime(INVALID_PATH)
            new[name] = _rebuild(value[name], change)
        elif change is REMOVE:
            new.pop(name, None)
        elif change is not KEEP:
            new[name] = change.value
    return new


def _rebuild_list(value: Any, tree: PathTree) -> list[Any]:
    if type(value) is not list:
        raise _runtime(INVALID_PATH)
    new = list(value)
    gone = False
    for index in sorted(tree):
        change = tree[index]
        if type(change) is dict:
            if index >= len(value):
                raise _runtime(INVALID_PATH)
            new[index] = _rebuild(value[index], change)
        elif change is REMOVE:
            if index < len(value):
                new[index] = REMOVE
                gone = True
        elif change is not KEEP:
            if index < len(value):
                new[index] = change.value
            else:
                new.append(change.value)
    return [element for element in new if element is not REMOVE] if gone else new


def bind_update(text: str, placeholders: Placeholders, kind: str = "UpdateExpression") -> Update:
    """Bind an update. Raises: ExpressionError."""
    parsed, template, values = bind_template(
        text, placeholders, kind, parse_update, _check, update_template
    )
    encoded = placeholders.encoded
    if encoded is None:
        return Update(template, values, None if parsed.values else ())
    return Update(template, values, tuple([encoded[name] for name in parsed.values]))


def update_with_slots(
    text: str, placeholders: Placeholders
) -> tuple[tuple[str, ...], UpdateTemplate]:
    """Return the names of an update's values, in the order of its slots, and its template."""
    parsed, template, _ = bind_template(
        text, placeholders, "UpdateExpression", parse_update, _check, update_template
    )
    return parsed.values, template


def _check(actions: tuple[Action, ...], scope: Scope) -> None:
    """Refuse in order: names, values, overlap and conflict, ADD/DELETE operands, functions."""
    targets = []
    for action in actions:
        targets.append(scope.steps(action.path))
        for path in _parsed_paths(action.value):
            scope.steps(path)
    for action in actions:
        _check_values(action.value, scope)
    build_tree(targets)
    for action in actions:
        if action.section in ("ADD", "DELETE"):
            _check_operand(action, scope)
    for action in actions:
        check_functions(action.value, scope)


def _children(node: Any) -> tuple[Any, ...]:
    if isinstance(node, Arithmetic):
        return (node.left, node.right)
    if isinstance(node, Call):
        return node.arguments
    return ()


def _parsed_paths(node: Any) -> list[Path]:
    if isinstance(node, Path):
        return [node]
    return [path for child in _children(node) for path in _parsed_paths(child)]


def _check_values(node: Any, scope: Scope) -> None:
    if isinstance(node, ValueRef):
        scope.require_value(node.name)
    for child in _children(node):
        _check_values(child, scope)


def _check_operand(action: Action, scope: Scope) -> None:
    tag = scope.static_type(action.value)
    if tag in _LONG_NAMES and not (action.section == "ADD" and tag == "N"):
        raise Refusal(
            f"Incorrect operand type for operator or function; operator: {action.section}, "
            f"operand type: {_LONG_NAMES[tag]}",
            error.OPERAND,
        )


def check_functions(node: Any, scope: Scope) -> None:
    """Check calls and arithmetic, inner ones first."""
    for child in _children(node):
        check_functions(child, scope)
    if isinstance(node, Arithmetic):
        _check_constants(node.operator, (node.left, node.right), "N", scope)
    elif isinstance(node, Call):
        if len(node.arguments) != UPDATE_FUNCTIONS[node.function]:
            raise Refusal(
                "Incorrect number of operands for operator or function; operator or function: "
                f"{node.function}, number of operands: {len(node.arguments)}",
                error.FUNCTION,
            )
        if node.function == "list_append":
            _check_constants(node.function, node.arguments, "L", scope)
        elif not isinstance(node.arguments[0], Path):
            raise path_required(node.function)


def _check_constants(name: str, nodes: tuple[Any, ...], wanted: str, scope: Scope) -> None:
    for node in nodes:
        value = scope.constant(node)
        if value is not MISSING and type_tag(value) != wanted:
            raise incorrect_type(name, type_tag(value))


def update_template(actions: tuple[Action, ...], resolver: Resolver) -> UpdateTemplate:
    """Resolve and compile an update that has passed its checks."""
    bound = tuple(
        Action(action.section, resolver.path(action.path), _resolve(action.value, resolver))
        for action in actions
    )
    return replace(compile_update(bound), program=compile_changes(bound, len(resolver.slots)))


def _resolve(node: Any, resolver: Resolver) -> Any:
    if isinstance(node, Arithmetic):
        return Arithmetic(node.operator, resolver.operand(node.left), resolver.operand(node.right))
    return resolver.operand(node) if node is not None else None


def compile_update(
    actions: tuple[Action, ...], compile_action: Callable[[Action], Effect] | None = None
) -> UpdateTemplate:
    """Compile bound actions. Raises: Refusal when targets overlap or conflict."""
    compiler = compile_action or _compile_action
    targets = tuple(action.path.steps for action in actions)
    paths: dict[Steps, None] = dict.fromkeys(targets)
    for action in actions:
        for part in (
            _children(action.value) if isinstance(action.value, Arithmetic) else (action.value,)
        ):
            paths.update(dict.fromkeys(paths_of(part)))
    return UpdateTemplate(
        actions=actions,
        targets=targets,
        paths=tuple(paths),
        attributes=frozenset(str(steps[0]) for steps in targets),
        tree=build_tree(targets),
        effects=tuple((action.path.steps, compiler(action)) for action in actions),
        only_removes=bool(actions)
        and all(action.section in ("REMOVE", "DELETE") for action in actions),
        checks=_type_checks(actions),
    )


def _type_checks(actions: tuple[Action, ...]) -> TypeChecks:
    types: dict[tuple[int, frozenset[type]], None] = {}

    def visit(node: Any) -> None:
        allowed = _NUMBER if isinstance(node, Arithmetic) else _LIST
        for child in _children(node):
            visit(child)
            if isinstance(child, Slot) and (
                isinstance(node, Arithmetic) or node.function == "list_append"
            ):
                types[child.index, allowed] = None

    for action in actions:
        if action.section == "SET":
            visit(action.value)
        elif isinstance(action.value, Slot):
            types[action.value.index, _ADDABLE if action.section == "ADD" else _SET] = None
    return TypeChecks(tuple(types))


def _compile_action(action: Action) -> Effect:
    steps = action.path.steps
    if action.section == "REMOVE":
        return lambda item, values: REMOVE
    assert action.value is not None
    value = _compile_value(action.value)
    if action.section == "SET":
        return lambda item, values: Set(value(item, values))
    change = _added if action.section == "ADD" else _deleted
    return lambda item, values: change(fetch(item, steps), value(item, values))


def _added(current: Any, operand: Any) -> Any:
    if current is MISSING:
        return Set(operand)
    if type(current) is Decimal and type(operand) is Decimal:
        return Set(add(current, operand))
    if type(current) is frozenset and type_tag(current) == type_tag(operand):
        return Set(current | operand)
    raise _runtime(WRONG_TYPE)


def _deleted(current: Any, operand: Any) -> Any:
    if current is MISSING:
        return KEEP
    if type(current) is not frozenset or type_tag(current) != type_tag(operand):
        raise _runtime(WRONG_TYPE)
    rest = current - operand
    return Set(rest) if rest else REMOVE


def _compile_value(node: Any) -> Fetch:
    """Compile a right-hand side; unlike in a condition, a missing path is an error."""
    if isinstance(node, Arithmetic):
        return _compile_arithmetic(node)
    if isinstance(node, Call):
        return _compile_call(node)
    if not isinstance(node, Path):
        return compile_operand(node)
    steps = node.steps

    def read(item: Item, values: Values) -> Any:
        value = fetch(item, steps)
        if value is MISSING:
            raise _runtime(NO_ATTRIBUTE)
        return value

    return read


def _compile_arithmetic(node: Arithmetic) -> Fetch:
    left, right = _compile_value(node.left), _compile_value(node.right)
    combine = add if node.operator == "+" else subtract

    def calculate(item: Item, values: Values) -> Decimal:
        a = left(item, values)
        b = right(item, values)
        if type(a) is not Decimal or type(b) is not Decimal:
            raise _runtime(WRONG_TYPE)
        return combine(a, b)

    return calculate


def _compile_call(node: Call) -> Fetch:
    if node.function == "if_not_exists":
        path = node.arguments[0]
        assert isinstance(path, Path)
        steps = path.steps
        default = _compile_value(node.arguments[1])

        def existing(item: Item, values: Values) -> Any:
            value = fetch(item, steps)
            return value if value is not MISSING else default(item, values)

        return existing
    first, second = map(_compile_value, node.arguments)

    def joined(item: Item, values: Values) -> list[Any]:
        a = first(item, values)
        b = second(item, values)
        if type(a) is not list or type(b) is not list:
            raise _runtime(WRONG_TYPE)
        return a + b

    return joined
