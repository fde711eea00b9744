from collections.abc import Sequence
from typing import Any, final

from dynalsm.api.plan_values import PlanValues
from dynalsm.expressions.compiled import Program
from dynalsm.model.handles import IndexHandle, TableHandle
from dynalsm.values import Form

@final
class QueryPlan:
    """What a Query comes to, apart from its values; belongs to a handle."""

    def __init__(
        self,
        source: TableHandle | IndexHandle,
        values: PlanValues,
        *,
        hashes: Sequence[int],
        equalities: Sequence[int],
        operator: str | None,
        operands: Sequence[int],
        filter: tuple[Program, Sequence[int]] | None,
        is_single: bool,
        may_be_consistent: bool,
    ) -> None: ...

def get_item(database: Any, request: Any, form: Form) -> dict[str, Any] | None:
    """Answer a plain GetItem; None when it has to take the long way."""

def query(database: Any, request: Any, form: Form) -> dict[str, Any] | None:
    """Answer a Query that a plan is there for; None when it has to take the long way."""

def plan_key(request: Any) -> tuple[Any, ...] | None:
    """Return what a plan for this request is kept under; None when there can be none."""
