"""Tokens, paths and literals of PartiQL: what all statements are made of.

A `?` is `Slot(n)`; a literal list or map with a `?` inside is `Slot(-1 - k)`, the k-th *template*
of the statement, whose value is made when the parameters are known.

Thread safety: a parser object belongs to one call.
Invariants: (1) recursion is bounded by MAX_DEPTH; (2) every loop consumes a token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from dynalsm import values
from dynalsm.expressions import error
from dynalsm.expressions import partiqllexer as lexer
from dynalsm.expressions.ast import MAX_LIST_INDEX, Constant, Path, Slot, Steps
from dynalsm.expressions.error import Refusal
from dynalsm.expressions.partiqllexer import Token

MAX_DEPTH: Final = 100  # own: parentheses and nested literals together
MAX_EXPONENT: Final = 2**31 - 1  # observed: an exponent beyond 32 bits cannot be read

_KEYWORDS: Final = frozenset(
    """SELECT FROM WHERE AND OR NOT BETWEEN IN IS MISSING NULL TRUE FALSE SET REMOVE VALUE INSERT
    INTO UPDATE DELETE RETURNING ORDER BY ASC DESC AS EXISTS LIMIT GROUP HAVING JOIN LIKE""".split()
)


def malformed(detail: str = "") -> Refusal:
    """The refusal of a statement that cannot be read."""
    return Refusal(f"Statement wasn't well formed, can't be processed: {detail}", error.SYNTAX)


class PartiQLParser:
    """Reads one statement; `parameters` counts its `?`, `templates` are literals around them."""

    def __init__(self, statement: str) -> None:
        self.statement = statement
        self.tokens = lexer.scan(statement)
        self.place = 0
        self.parameters = 0
        self.templates: list[Any] = []
        self.depth = 0

    # Tokens.

    @property
    def token(self) -> Token:
        return self.tokens[self.place]

    def fail(self, detail: str) -> NoReturn:
        """Refuse the current token; one that cannot be read has no detail (observed)."""
        raise malformed("" if self.token.kind == lexer.UNREADABLE else detail)

    def at(self, token: Token) -> str:
        return "at " + lexer.position(self.statement, token)

    def sign(self, text: str) -> bool:
        """Take a sign if it stands here."""
        if self.token.is_sign(text):
            self.place += 1
            return True
        return False

    def word(self, text: str) -> bool:
        """Take a keyword if it stands here."""
        if self.token.is_word(text):
            self.place += 1
            return True
        return False

    def expect_sign(self, text: str) -> None:
        if not self.sign(text):
            self.fail(f"Expected {text}")

    def expect_word(self, text: str) -> None:
        if not self.word(text):
            self.fail(f"Expected {text}")

    def name(self) -> str | None:
        """Take an identifier if one stands here."""
        token = self.token
        if token.kind == lexer.QUOTED or (
            token.kind == lexer.WORD and token.text.upper() not in _KEYWORDS
        ):
            self.place += 1
            return token.value
        return None

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise malformed("The statement is nested too deeply")

    # Functions.

    def unrecognized(self, start: Token) -> Refusal:
        return Refusal(
            f"Unrecognized function: {start.text.lower()} {self.at(start)}", error.FUNCTION
        )

    def is_call(self) -> bool:
        return self.token.kind == lexer.WORD and self.tokens[self.place + 1].is_sign("(")

    def arguments(self, take: Callable[[], Any]) -> list[Any]:
        """Take `name(argument, ...)`, the name included."""
        self.place += 2
        self.enter()
        arguments = [take()]
        while self.sign(","):
            arguments.append(take())
        self.expect_sign(")")
        self.depth -= 1
        return arguments

    # Operands.

    def operand(self) -> Any:
        """Take a path, a parameter or a literal."""
        token = self.token
        if token.kind == lexer.QUOTED or (
            token.kind == lexer.WORD and token.text.upper() not in _KEYWORDS
        ):
            return Path(self.path())
        if self.sign("?"):
            self.parameters += 1
            return Slot(self.parameters - 1)
        before = self.parameters
        value = self.literal("root")
        if self.parameters == before:
            return Constant(value)
        self.templates.append(value)
        return Slot(-len(self.templates))

    def path(self) -> Steps:
        name = self.name()
        if name is None:
            self.fail("Unexpected term")
        steps: list[str | int] = [name]
        while True:
            if self.sign("."):
                member = self.name()
                if member is None:
                    self.fail("Invalid path dot component")
                steps.append(member)
            elif self.sign("["):
                steps.append(self.index())
                self.expect_sign("]")
            else:
                return tuple(steps)

    def index(self) -> str | int:
        token = self.token
        self.place += 1
        if token.kind == lexer.STRING:
            return token.value
        if token.kind != lexer.NUMBER or not token.text.isdigit():
            self.place -= 1
            self.fail("Unexpected term")
        digits = token.text.lstrip("0") or "0"
        # Its length first: Python refuses to convert thousands of digits.
        if len(digits) > len(str(MAX_LIST_INDEX)) or (index := int(digits)) > MAX_LIST_INDEX:
            raise Refusal(
                f"List index is not within the allowable range; index: [{token.text}]",
                error.LIMIT,
            )
        return index

    # Literals. `where` names the value in errors: root, root.name, root[1].

    def literal(self, where: str) -> Any:
        token = self.token
        if token.kind == lexer.STRING:
            self.place += 1
            return token.value
        if token.kind == lexer.NUMBER or token.text in ("+", "-"):
            return self.number(where)
        for word, value in (("TRUE", True), ("FALSE", False), ("NULL", None)):
            if self.word(word):
                return value
        if self.is_call():
            raise Refusal(
                f"Unsupported data type: {token.text.lower()} under key {where} {self.at(token)}",
                error.OPERAND,
            )
        self.enter()
        result: Any
        if self.sign("["):
            result = self.elements(where)
        elif self.sign("{"):
            result = self.members(where)
        elif self.sign("<<"):
            result = self.bag(where)
        else:
            self.fail("Unexpected term")
        self.depth -= 1
        return result

    def value(self, where: str) -> Any:
        """Take a literal, or a parameter as a Slot."""
        if self.sign("?"):
            self.parameters += 1
            return Slot(self.parameters - 1)
        return self.literal(where)

    def elements(self, where: str) -> list[Any]:
        result: list[Any] = []
        if self.sign("]"):
            return result
        while True:
            result.append(self.value(f"{where}[{len(result)}]"))
            if self.sign("]"):
                return result
            self.expect_sign(",")

    def members(self, where: str) -> dict[str, Any]:
        result: dict[str, Any] = {}
        if self.sign("}"):
            return result
        while True:
            key = self.token
            if key.kind != lexer.STRING:
                self.fail("Expected string literal as tuple key")
            self.place += 1
            self.expect_sign(":")
            result[key.value] = self.value(f"{where}.{key.value}")
            if self.sign("}"):
                return result
            self.expect_sign(",")

    def bag(self, where: str) -> frozenset[Any]:
        if self.sign(">>"):
            raise Refusal("Empty bags are not supported", error.OPERAND)
        members: list[Any] = []
        while True:
            if self.token.is_sign("?"):
                raise Refusal("Unsupported data type in Bag", error.OPERAND)
            members.append(self.literal(f"{where}[{len(members)}]"))
            if self.sign(">>"):
                break
            self.expect_sign(",")
        kinds = {type(member) for member in members}
        if len(kinds) > 1 or values.type_of(values.encode_value(members[0])) not in ("S", "N"):
            raise Refusal("DynamoDB only supports either numbers or strings in bags", error.OPERAND)
        return frozenset(members)

    def number(self, where: str) -> Any:
        text = ""
        if self.token.kind == lexer.SIGN:
            text = self.token.text
            self.place += 1
        token = self.token
        if token.kind != lexer.NUMBER:
            self.fail("Unexpected term")
        self.place += 1
        text += token.text
        exponent = text.lower().partition("e")[2]
        digits = exponent.lstrip("+-").lstrip("0") or "0"
        if len(digits) > len(str(MAX_EXPONENT)) or int(digits) > MAX_EXPONENT:
            raise malformed()
        try:
            return values.parse_number(text)
        except values.ValueProblem as problem:
            raise Refusal(f"{problem} under {where}", error.OPERAND) from None
