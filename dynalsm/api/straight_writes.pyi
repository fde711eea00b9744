from collections.abc import Sequence
from typing import Any, final

from dynalsm.api.plan_values import PlanValues
from dynalsm.expressions.compiled import Program
from dynalsm.expressions.update import UpdateTemplate
from dynalsm.values import Form

@final
class WritePlan:
    """What the expressions of a write come to, apart from their values; belongs to a handle."""

    def __init__(
        self,
        values: PlanValues,
        *,
        condition: tuple[Program, Sequence[int]] | None = None,
        update: tuple[UpdateTemplate, Sequence[int]] | None = None,
    ) -> None: ...

def plan_key(request: Any) -> tuple[Any, ...] | None:
    """Return what a plan for this request is kept under; None when there can be none."""

def put_item(database: Any, request: Any, form: Form) -> dict[str, Any] | None:
    """Answer a PutItem; None when it has to take the long way."""

def update_item(database: Any, request: Any, form: Form) -> dict[str, Any] | None:
    """Answer an UpdateItem that a plan is there for; None when it has to take the long way."""

def delete_item(database: Any, request: Any, form: Form) -> dict[str, Any] | None:
    """Answer a DeleteItem; None when it has to take the long way."""

def batch_write_item(database: Any, request: Any, form: Form) -> dict[str, Any] | None:
    """Answer a BatchWriteItem; None when it has to take the long way."""
