"""Text of a condition, projection or update to its parsed tree, cached by text.

What the text alone makes wrong is refused here; what needs names or values is left to bind.py.

Thread safety: the parse functions may be called from any thread; results are immutable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from dynalsm.expressions import error
from dynalsm.expressions.ast import Path
from dynalsm.expressions.cache import ClockCache
from dynalsm.expressions.conditionparser import ConditionParser
from dynalsm.expressions.error import Refusal
from dynalsm.expressions.grammar import CONDITION_ORDER, GrammarParser, check_size
from dynalsm.expressions.lexer import END
from dynalsm.expressions.updateparser import UpdateParser

_CACHE_BYTES: Final = 16 << 20
_ENTRY_BYTES: Final = 1500  # measured: a parsed tree costs about this plus _TOKEN_BYTES per token
_TOKEN_BYTES: Final = 150


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed text: its tree and the placeholders it mentions, in order of first mention."""

    tree: Any  # ConditionNode, tuple[Path, ...] or tuple[Action, ...]
    names: tuple[str, ...]
    values: tuple[str, ...]


_cache: ClockCache[Parsed] = ClockCache(_CACHE_BYTES)


def parse_condition(text: str, label: str = "ConditionExpression") -> Parsed:
    """Parse a condition, filter or key condition. Raises: Refusal."""
    return _parse(text, label, ConditionParser)


def parse_projection(text: str, label: str = "ProjectionExpression") -> Parsed:
    """Parse a projection; the tree is a tuple of paths. Raises: Refusal."""
    return _parse(text, label, ProjectionParser)


def parse_update(text: str, label: str = "UpdateExpression") -> Parsed:
    """Parse an update; the tree is a tuple of actions. Raises: Refusal."""
    return _parse(text, label, UpdateParser)


def _parse(text: str, label: str, parser: Callable[[str, str], GrammarParser]) -> Parsed:
    key = (label, text)
    parsed = _cache.get(key)
    if parsed is None:
        check_size(text)
        if not text:
            raise Refusal("The expression can not be empty;", error.SYNTAX)
        work = parser(text, label)
        tree = work.parse()
        parsed = Parsed(tree, tuple(work.names), tuple(work.values))
        _cache.put(key, parsed, _ENTRY_BYTES + _TOKEN_BYTES * len(work.tokens) + len(text))
    return parsed


class ProjectionParser(GrammarParser):
    """`projection` of the grammar."""

    def parse(self) -> tuple[Path, ...]:
        paths = [self.path()]
        while self.tokens[self.position] == ",":
            self.position += 1
            paths.append(self.path())
        if self.tokens[self.position] != END:
            self.fail()
        self.raise_problems(CONDITION_ORDER)
        return tuple(paths)
