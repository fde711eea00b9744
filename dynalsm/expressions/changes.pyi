from collections.abc import Iterable, Sequence
from typing import final

from dynalsm.expressions.ast import Action

@final
class ChangeProgram:
    """An update as changes of attributes; belongs to its template, not to a request."""

    constants: tuple[bytes, ...]
    slot_count: int

@final
class Changer:
    """A program with the encoded values of one request."""

    def __init__(self, program: ChangeProgram, values: Iterable[bytes]) -> None: ...
    def changed(self, item: bytes) -> tuple[bytes, int] | None:
        """Return a changed encoded item, and by how many bytes it grew; None when it is left."""

def compile_changes(actions: Sequence[Action], slot_count: int) -> ChangeProgram | None:
    """Return the program of bound actions; None when only closures can apply them."""
