from collections.abc import Iterable, Sequence
from typing import final

@final
class PlanValues:
    """The values that requests of one plan differ in, told by their place in `names`."""

    def __init__(
        self,
        names: Sequence[str],
        *,
        types: Iterable[tuple[int, frozenset[str]]] = (),
        ranges: Iterable[tuple[int, int]] = (),
        tags: Iterable[int] = (),
        filled: Iterable[int] = (),
    ) -> None: ...
