"""What the grammars of conditions, projections and updates share.

A parser reads tokens with a position, keeps what is still open in a list of frames (so that
nesting costs no Python frames), and notes what the text alone makes wrong. Such problems are
raised at the end, in DynamoDB's order, because a syntax error anywhere goes before them.

Thread safety: a parser object belongs to one call.
Invariants: (1) a parser never looks behind the END token; (2) every loop consumes a token.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

from dynalsm.expressions import error
from dynalsm.expressions.ast import (
    MAX_CALL_DEPTH,
    MAX_EXPRESSION_BYTES,
    MAX_LIST_INDEX,
    MAX_OPERATORS,
    MAX_PATH_DEPTH,
    Call,
    ConditionNode,
    NameRef,
    Path,
    ValueRef,
)
from dynalsm.expressions.error import Refusal
from dynalsm.expressions.lexer import END, syntax_message, tokenize
from dynalsm.expressions.reserved import is_reserved

# Functions and how many operands they take.
CONDITION_FUNCTIONS: Final = {
    "attribute_exists": 1,
    "attribute_not_exists": 1,
    "attribute_type": 2,
    "begins_with": 2,
    "contains": 2,
    "size": 1,
}
UPDATE_FUNCTIONS: Final = {"if_not_exists": 2, "list_append": 2}

LONGEST_KEYWORD: Final = 7  # BETWEEN

# Problems the text alone shows, first match wins (observed: dynalite; places of the limits: own).
CONDITION_ORDER: Final = ("parentheses", "limit", "function", "misused", "reserved")
UPDATE_ORDER: Final = ("parentheses", "limit", "reserved", "function", "misused", "section")


def check_size(text: str) -> None:
    """Refuse a text over 4096 bytes, before anything else is read of it."""
    size = len(text)
    if size * 4 > MAX_EXPRESSION_BYTES:  # otherwise it fits whatever its characters are
        size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_EXPRESSION_BYTES:
        raise Refusal(
            f"Expression size has exceeded the maximum allowed size; expression size: {size}",
            error.LIMIT,
        )


class Frame:
    """What one pair of parentheses (or the whole text) has gathered so far."""

    __slots__ = ("arguments", "function", "kind", "left", "lower", "nots", "operator", "terms")

    def __init__(self, kind: str, function: str = "") -> None:
        self.kind = kind  # "root", "group", "operand", "call" or "in"
        self.function = function
        self.arguments: list[Any] = []  # of a call or an IN
        self.terms: list[list[ConditionNode]] = [[]]  # OR of ANDs
        self.nots = 0  # NOTs in front of the current term
        self.left: Any = None  # of the comparison being read
        self.operator = ""
        self.lower: Any = None  # of the BETWEEN being read


class GrammarParser:
    """What all grammars share: tokens, paths, placeholders, the list of problems."""

    grammar = ""  # as in "The function is not allowed in ... expression"

    def __init__(self, text: str, label: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.position = 0
        self.names: dict[str, None] = {}
        self.values: dict[str, None] = {}
        self.problems: dict[str, Refusal] = {}
        self.operators = 0

    def parse(self) -> Any:
        raise NotImplementedError

    def fail(self) -> NoReturn:
        """Refuse the token at the current position."""
        raise Refusal(syntax_message(self.text, self.position), error.SYNTAX)

    def problem(self, category: str, message: str, kind: str) -> None:
        """Note a problem; only the first of a category counts."""
        if category not in self.problems:
            self.problems[category] = Refusal(message, kind)

    def raise_problems(self, order: tuple[str, ...]) -> None:
        if self.problems:
            for category in order:
                if category in self.problems:
                    raise self.problems[category]

    def count_operator(self) -> None:
        self.operators += 1
        if self.operators > MAX_OPERATORS:
            self.problem(
                "limit",
                f"The expression contains too many operators; operator count: {self.operators}",
                error.LIMIT,
            )

    def value(self) -> ValueRef:
        """Read the `:value` at the current position."""
        token = self.tokens[self.position]
        if len(token) < 2 or token[0] != ":":
            self.fail()
        self.values[token] = None
        self.position += 1
        return ValueRef(token)

    def path(self) -> Path:
        """Read the path at the current position."""
        steps: list[Any] = [self.name()]
        if self.tokens[self.position] in (".", "["):
            self.path_tail(steps)
        return Path(tuple(steps))

    def path_tail(self, steps: list[Any]) -> None:
        """Read `.name` and `[index]` as long as there are any."""
        tokens = self.tokens
        while True:
            token = tokens[self.position]
            if token == ".":
                self.position += 1
                steps.append(self.name())
            elif token == "[":
                self.position += 1
                steps.append(self.index())
                if tokens[self.position] != "]":
                    self.fail()
                self.position += 1
            else:
                break
        if len(steps) > MAX_PATH_DEPTH:
            self.problem(
                "limit",
                f"The document path has too many nesting levels; nesting levels: {len(steps)}",
                error.LIMIT,
            )

    def index(self) -> int:
        token = self.tokens[self.position]
        if not token[:1].isdigit():
            self.fail()
        self.position += 1
        index = int(token)
        if index > MAX_LIST_INDEX:
            self.problem(
                "limit",
                f"List index is not within the allowable range; index: [{token}]",
                error.LIMIT,
            )
        return index

    def name(self) -> str | NameRef:
        token = self.tokens[self.position]
        first = token[:1]
        if first == "#" and len(token) > 1:
            self.position += 1
            self.names[token] = None
            return NameRef(token)
        if not first.isalpha() or self.is_keyword(token) or not first.isascii():
            self.fail()
        self.position += 1
        if is_reserved(token):
            self.problem(
                "reserved",
                f"Attribute name is a reserved keyword; reserved keyword: {token}",
                error.RESERVED,
            )
        return token

    def is_keyword(self, token: str) -> bool:
        return False

    def starts_call(self) -> bool:
        """Tell whether a bare name with an opening parenthesis behind it stands here."""
        token = self.tokens[self.position]
        return (
            token != END
            and self.tokens[self.position + 1] == "("
            and token[0].isalpha()
            and token[0].isascii()
            and not self.is_keyword(token)
        )

    def close_call(
        self, frame: Frame, known: dict[str, int], other: dict[str, int], depth: int
    ) -> Call:
        """Make the call a frame has gathered; its name is judged here, its operands by bind."""
        function = frame.function
        if function not in known:
            if function in other:
                message = f"The function is not allowed in {self.grammar}; function: {function}"
            else:
                message = f"Invalid function name; function: {function}"
            self.problem("function", message, error.FUNCTION)
        elif depth > MAX_CALL_DEPTH:
            self.misused(function)
        return Call(function, tuple(frame.arguments))

    def misused(self, function: str) -> None:
        self.problem(
            "misused",
            "The function is not allowed to be used this way in an expression; function: "
            f"{function}",
            error.FUNCTION,
        )

    def redundant(self) -> None:
        self.problem("parentheses", "The expression has redundant parentheses;", error.PARENTHESES)
