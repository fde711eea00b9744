"""The grammar of UpdateExpression.

Thread safety: a parser object belongs to one call.
"""

from __future__ import annotations

from typing import Any, Final

from dynalsm.expressions import error
from dynalsm.expressions.ast import Action, Arithmetic, Call, Operand
from dynalsm.expressions.grammar import (
    CONDITION_FUNCTIONS,
    LONGEST_KEYWORD,
    UPDATE_FUNCTIONS,
    UPDATE_ORDER,
    Frame,
    GrammarParser,
)
from dynalsm.expressions.lexer import END

SECTIONS: Final = frozenset(("SET", "REMOVE", "ADD", "DELETE"))


class UpdateParser(GrammarParser):
    """`update` of the grammar."""

    grammar = "an update expression"

    def is_keyword(self, token: str) -> bool:
        return len(token) <= LONGEST_KEYWORD and token.upper() in SECTIONS

    def parse(self) -> tuple[Action, ...]:
        actions: list[Action] = []
        seen: set[str] = set()
        while True:
            token = self.tokens[self.position]
            if not self.is_keyword(token):
                self.fail()
            section = token.upper()
            if section in seen:
                self.problem(
                    "section",
                    f'The "{section}" section can only be used once in an update expression;',
                    error.SECTION,
                )
            seen.add(section)
            self.position += 1
            self.section(section, actions)
            if self.tokens[self.position] == END:
                break
        self.raise_problems(UPDATE_ORDER)
        return tuple(actions)

    def section(self, section: str, actions: list[Action]) -> None:
        while True:
            path = self.path()
            value: Any = None
            if section == "SET":
                if self.tokens[self.position] != "=":
                    self.fail()
                self.position += 1
                value = self.assigned()
            elif section != "REMOVE":
                value = self.value()
            actions.append(Action(section, path, value))
            if self.tokens[self.position] != ",":
                return
            self.position += 1

    def assigned(self) -> Operand | Arithmetic:
        """Read the right-hand side of a SET action."""
        self.stack: list[Frame] = []
        self.frame = Frame("root")
        self.in_arithmetic = False
        while True:
            node = self.operand_start()
            if node is None:
                continue
            result = self.operand_end(node)
            if result is not None:
                return result

    def operand_start(self) -> Operand | None:
        token = self.tokens[self.position]
        if token[:1] == ":":
            return self.value()
        if token == "(":
            self.open(Frame("group"))
            return None
        if self.starts_call():
            self.open(Frame("call", token))
            self.position += 1
            return None
        return self.path()

    def open(self, frame: Frame) -> None:
        self.stack.append(self.frame)
        self.frame = frame
        self.position += 1

    def operand_end(self, node: Any) -> Operand | Arithmetic | None:
        grouped = False
        while True:
            token = self.tokens[self.position]
            frame = self.frame
            if token in ("+", "-"):
                self.begin_arithmetic(node, token)
                return None
            if token == "," and frame.kind == "call":
                frame.arguments.append(self.argument(node))
                self.position += 1
                return None
            if token == ")" and self.stack:
                node, grouped = self.close(node, grouped)
            elif self.stack:
                self.fail()
            else:
                result: Operand | Arithmetic = self.complete(node)
                return result

    def begin_arithmetic(self, node: Any, operator: str) -> None:
        """`+` or `-`: once in a value, never inside a function's parentheses."""
        if self.in_arithmetic or any(f.kind == "call" for f in (*self.stack, self.frame)):
            self.fail()
        self.in_arithmetic = True
        self.frame.left = node
        self.frame.operator = operator
        self.count_operator()
        self.position += 1

    def argument(self, node: Any) -> Any:
        """An argument of a call; list_append may not be one (observed: scylladb)."""
        if isinstance(node, Call) and node.function == "list_append":
            self.misused(node.function)
        return node

    def complete(self, node: Any) -> Any:
        frame = self.frame
        if frame.operator:
            node = Arithmetic(frame.operator, frame.left, node)
        return node

    def close(self, node: Any, grouped: bool) -> tuple[Any, bool]:
        frame = self.frame
        if frame.kind == "group":
            if grouped and not frame.operator:
                self.redundant()
            node, grouped = self.complete(node), True
        else:
            frame.arguments.append(self.argument(node))
            depth = len(self.stack)
            node = self.close_call(frame, UPDATE_FUNCTIONS, CONDITION_FUNCTIONS, depth)
            if depth == 1:
                self.count_operator()
            grouped = False
        self.frame = self.stack.pop()
        self.position += 1
        return node, grouped
