"""Plans of writes: what a request that was carried out says about all that differ in values only.

The straight way (straight_writes.pyx) runs them. A plan may only be made of a request whose
expressions the long way has taken without a complaint; whether its condition was true of the item
does not matter.

Pure functions; callable from any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynalsm.api.parameters import Parameters
from dynalsm.api.plans import MAX_PLANS, MAX_VALUES, Slots, has_long_names
from dynalsm.api.straight_writes import WritePlan, plan_key
from dynalsm.expressions import Placeholders
from dynalsm.expressions.ast import Slot
from dynalsm.expressions.bind import condition_with_slots
from dynalsm.expressions.update import UpdateTemplate, update_with_slots
from dynalsm.model.catalog import TableHandle
from dynalsm.model.settings import Settings
from dynalsm.values import Form

Request = Mapping[str, Any]


def keep(
    parameters: Parameters, request: Request, form: Form, settings: Settings, handle: TableHandle
) -> None:
    """Let requests with the same expressions take the straight way from now on."""
    key = plan_key(request)
    if key is None or key in handle.plans:
        return
    if len(request.get("ExpressionAttributeValues") or ()) > MAX_VALUES or has_long_names(request):
        return
    if len(handle.plans) >= MAX_PLANS:
        handle.plans.clear()
    handle.plans[key] = _plan(request, parameters.placeholders(request, form, settings), handle)


def _plan(request: Request, placeholders: Placeholders, handle: TableHandle) -> WritePlan | None:
    """Return the plan of a request; None when its condition is not compiled."""
    slots = Slots(request.get("ExpressionAttributeValues") or {})
    update = condition = None
    text = request.get("UpdateExpression")
    if text is not None:
        names, template = update_with_slots(text, placeholders)
        places = slots.places(names)
        slots.add_checks(template.checks, places)
        slots.types += _index_types(template, places, handle)
        update = template, places
    text = request.get("ConditionExpression")
    if text is not None:
        names, judged = condition_with_slots(text, placeholders, "ConditionExpression")
        places = slots.places(names)
        slots.add_checks(judged.checks, places)
        program = judged.program(len(names))
        if program is None:
            return None
        condition = program, places
    return WritePlan(slots.values(), condition=condition, update=update)


def _index_types(
    template: UpdateTemplate, places: list[int], handle: TableHandle
) -> list[tuple[int, frozenset[str]]]:
    """Return the types of values that become index keys (items.check_update)."""
    kinds = handle.schema.attributes
    names = {name for index in handle.written_indexes for name in index.schema.key_names}
    return [
        (places[action.value.index], frozenset((kinds[action.path.steps[0]],)))
        for action in template.actions
        if isinstance(action.value, Slot)
        and len(action.path.steps) == 1
        and action.path.steps[0] in names
    ]
