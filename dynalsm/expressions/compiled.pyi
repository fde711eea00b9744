from collections.abc import Iterable
from typing import Any, final

@final
class Program:
    """A condition tree as instructions; belongs to the tree, not to a request."""

    constants: tuple[bytes, ...]
    slot_count: int

@final
class Judge:
    """A program with the encoded values of one request."""

    def __init__(self, program: Program, values: Iterable[bytes]) -> None: ...
    def holds(self, item: bytes) -> bool:
        """Judge an encoded item."""

def compile_program(tree: Any, slot_count: int) -> Program | None:
    """Return the program of a bound tree; None when only closures can judge it."""
