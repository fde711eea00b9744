"""Plans of Queries: what a request that was answered says about all that differ in values only.

The straight way (straight.pyx) runs them. A plan repeats, as conditions on types and places of
values, what the long way (query.py) has checked with the values themselves; so it may only be made
of a request that the long way has taken without a complaint.

Pure functions; callable from any thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from dynalsm.api import straight
from dynalsm.api.plan_values import PlanValues
from dynalsm.expressions import Placeholders
from dynalsm.expressions.ast import Slot
from dynalsm.expressions.bind import TypeChecks, condition_with_slots
from dynalsm.expressions.keycondition import KeyTemplate, key_condition_with_slots
from dynalsm.model.catalog import IndexHandle, TableHandle

# What a plan cannot do, or what is not worth one.
_MEMBERS: Final = frozenset(
    "TableName IndexName KeyConditionExpression FilterExpression ExpressionAttributeNames "
    "ExpressionAttributeValues Limit ScanIndexForward ConsistentRead".split()
)
MAX_VALUES: Final = 32
NAMES_MAX_CHARACTERS: Final = 16_384
MAX_PLANS: Final = 256  # of a handle; then they are made anew

_TYPES: Final[dict[type, tuple[str, ...]]] = {
    str: ("S",),
    Decimal: ("N",),
    bytes: ("B",),
    bool: ("BOOL",),
    type(None): ("NULL",),
    list: ("L",),
    dict: ("M",),
    frozenset: ("SS", "NS", "BS"),
}


def is_missing(request: Mapping[str, Any], handle: TableHandle) -> bool:
    """Return whether a plan for requests like this one is worth making."""
    if not _MEMBERS.issuperset(request):
        return False
    if not 0 < len(request.get("ExpressionAttributeValues") or ()) <= MAX_VALUES:
        return False
    if has_long_names(request):
        return False
    key = straight.plan_key(request)
    return key is not None and key not in handle.plans


def has_long_names(request: Mapping[str, Any]) -> bool:
    """Return whether names take room of the 2 MB that names and values have together.

    The straight way counts values only, and stays far enough from the limit for other names.
    """
    names = request.get("ExpressionAttributeNames") or {}
    return sum(map(len, names.values())) > NAMES_MAX_CHARACTERS


def keep(
    request: Mapping[str, Any],
    placeholders: Placeholders,
    handle: TableHandle,
    index: IndexHandle | None,
    *,
    is_single: bool,
) -> None:
    """Let requests like this one, which was found good, take the straight way from now on."""
    if len(handle.plans) >= MAX_PLANS:
        handle.plans.clear()
    plan = _plan(request, placeholders, handle, index, is_single)
    handle.plans[straight.plan_key(request)] = plan


class Slots:
    """The values of a plan, and where those of each expression are among them."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.names = list(given)
        self.types: list[tuple[int, frozenset[str]]] = []
        self.ranges: list[tuple[int, int]] = []
        self.tags: list[int] = []

    def places(self, names: Sequence[str]) -> list[int]:
        return [self.names.index(name) for name in names]

    def add_checks(self, checks: TypeChecks, places: list[int]) -> None:
        for slot, allowed in checks.types:
            names = frozenset(name for kind in allowed for name in _TYPES[kind])
            self.types.append((places[slot], names))
        self.ranges += [(places[lower], places[upper]) for lower, upper in checks.ranges]
        self.tags += [places[slot] for slot in checks.tags]

    def values(self, filled: Sequence[int] = ()) -> PlanValues:
        """Return what has been collected; `filled`: values that must not be empty."""
        return PlanValues(
            self.names, types=self.types, ranges=self.ranges, tags=self.tags, filled=filled
        )


def _plan(
    request: Mapping[str, Any],
    placeholders: Placeholders,
    handle: TableHandle,
    index: IndexHandle | None,
    is_single: bool,
) -> straight.QueryPlan | None:
    """Return the plan of a request; None when its filter is not compiled."""
    hash_names, range_names = handle.keys.names[:1], handle.keys.names[1:]
    if index is not None:
        hash_names, range_names = index.schema.hash_key, index.schema.range_key
    slots = Slots(request["ExpressionAttributeValues"])
    names, template = key_condition_with_slots(request["KeyConditionExpression"], placeholders)
    places = slots.places(names)
    slots.add_checks(template.checks, places)
    operands = _operands(template, places)
    kinds = handle.schema.attributes
    for name, (_, values) in operands.items():
        slots.types += [(place, frozenset((kinds[name],))) for place in values]
    compiled = None
    text = request.get("FilterExpression")
    if text is not None:
        names, condition = condition_with_slots(text, placeholders, "FilterExpression")
        places = slots.places(names)
        slots.add_checks(condition.checks, places)
        program = condition.program(len(names))
        if program is None:
            return None
        compiled = (program, places)
    equalities, operator, last = _sort_condition(operands, range_names)
    return straight.QueryPlan(
        handle if index is None else index,
        slots.values(filled=[place for _, values in operands.values() for place in values]),
        hashes=[operands[name][1][0] for name in hash_names],
        equalities=equalities,
        operator=operator,
        operands=last,
        filter=compiled,
        is_single=is_single,
        may_be_consistent=index is None or index.kind == "LSI",
    )


_Operands = dict[str, tuple[str, list[int]]]


def _operands(template: KeyTemplate, places: list[int]) -> _Operands:
    """Return operator and places of the operands by key attribute."""
    return {
        name: (operator, [places[node.index] for node in nodes if isinstance(node, Slot)])
        for name, operator, nodes in template.clauses
    }


def _sort_condition(
    operands: _Operands, range_names: Sequence[str]
) -> tuple[list[int], str | None, list[int]]:
    """Return the equalities on the first range attributes, and the condition on the next."""
    equalities: list[int] = []
    for name in range_names:
        operator, places = operands.get(name, (None, []))
        if operator != "=":
            return equalities, operator, places
        equalities += places
    return equalities, None, []
