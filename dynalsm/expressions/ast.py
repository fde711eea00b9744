"""The trees all expressions become: conditions, projections, updates.

One set of node classes serves twice. A *parsed* tree has paths whose steps may be `NameRef`
(`#name`) and values that are `ValueRef` (`:value`). A *bound* tree has plain steps only, and its
values are `Slot` (an index into the values of one request) or `Constant` (legacy parameters and
PartiQL literals).

Thread safety: every node is frozen and shared freely between threads.
Invariants: (1) `And` and `Or` have at least two terms and are flat: no `And` directly below an
`And`; (2) list indexes are int, attribute names are str; (3) the depth of a tree is bounded by
MAX_OPERATORS and MAX_CALL_DEPTH, so walking it by recursion is safe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

MAX_EXPRESSION_BYTES: Final = 4096  # AWS, Limits: maximum string length of any expression
MAX_OPERATORS: Final = 300  # AWS, Limits: maximum number of operators or functions
MAX_PATH_DEPTH: Final = 32  # AWS, Limits: nested attribute depth
MAX_LIST_INDEX: Final = 2**31 - 1  # observed: scylladb, 99999999999999 is refused
MAX_IN_OPERANDS: Final = 100  # observed: scylladb, 99 options and the operand before IN
MAX_CALL_DEPTH: Final = 230  # own: 4096 bytes hold no more than 227 if_not_exists


@dataclass(frozen=True, slots=True)
class NameRef:
    """`#name` before binding; `text` includes the sign."""

    text: str


@dataclass(frozen=True, slots=True)
class Path:
    """A document path: attribute name, then map members (str) and list indexes (int)."""

    steps: tuple[Any, ...]  # str | int, and NameRef in a parsed tree


@dataclass(frozen=True, slots=True)
class ValueRef:
    """`:value` before binding; `name` includes the sign."""

    name: str


@dataclass(frozen=True, slots=True)
class Slot:
    """A value of the request, by position in the bound object's `values`."""

    index: int


@dataclass(frozen=True, slots=True)
class Constant:
    """A value written in the tree itself."""

    value: Any


@dataclass(frozen=True, slots=True)
class Call:
    """A function with its arguments, of conditions (`size`) or updates (`list_append`)."""

    function: str
    arguments: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    """`left operator right`; operator is one of = <> < <= > >=."""

    operator: str
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Between:
    """`operand BETWEEN lower AND upper`."""

    operand: Operand
    lower: Operand
    upper: Operand


@dataclass(frozen=True, slots=True)
class In:
    """`operand IN (options)`."""

    operand: Operand
    options: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """`NOT operand`."""

    operand: ConditionNode


@dataclass(frozen=True, slots=True)
class And:
    """All of the terms, in written order."""

    terms: tuple[ConditionNode, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any of the terms, in written order."""

    terms: tuple[ConditionNode, ...]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left + right` or `left - right` in an update."""

    operator: str
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Action:
    """One action of an update. `section` is SET, REMOVE, ADD or DELETE; REMOVE has no value."""

    section: str
    path: Path
    value: Operand | Arithmetic | None


Steps = tuple[str | int, ...]  # of a bound path
Operand = Path | ValueRef | Slot | Constant | Call
ConditionNode = Compare | Between | In | Not | And | Or | Call


def path_text(steps: Steps) -> str:
    """Print a bound path as error messages do: `[a, b, [1]]`."""
    return "[" + ", ".join(f"[{s}]" if isinstance(s, int) else s for s in steps) + "]"
