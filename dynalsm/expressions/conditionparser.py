"""The grammar of ConditionExpression, FilterExpression and KeyConditionExpression.

Precedence, from strong to weak: comparison, BETWEEN, IN and functions; NOT; AND; OR. Parentheses
may hold an operand or a condition, and which it is shows only behind them; so nodes of both kinds
are read alike, and every place that needs one kind checks for it.

Thread safety: a parser object belongs to one call.
"""

from __future__ import annotations

from typing import Any, Final

from dynalsm.expressions import error
from dynalsm.expressions.ast import (
    MAX_IN_OPERANDS,
    And,
    Between,
    Call,
    Compare,
    ConditionNode,
    In,
    Not,
    Operand,
    Or,
    Path,
    ValueRef,
)
from dynalsm.expressions.grammar import (
    CONDITION_FUNCTIONS,
    CONDITION_ORDER,
    LONGEST_KEYWORD,
    UPDATE_FUNCTIONS,
    Frame,
    GrammarParser,
)
from dynalsm.expressions.lexer import END

COMPARATORS: Final = frozenset(("=", "<>", "<", "<=", ">", ">="))
_CONDITION_KEYWORDS: Final = frozenset(("AND", "OR", "NOT", "BETWEEN", "IN"))
_OPERAND_FRAMES: Final = frozenset(("call", "in", "operand"))  # no condition can begin in these


class ConditionParser(GrammarParser):
    """`condition` of the grammar; used by ConditionExpression, FilterExpression, key conditions."""

    def __init__(self, text: str, label: str) -> None:
        super().__init__(text, label)
        self.grammar = (
            "a filter expression" if label == "FilterExpression" else ("a condition expression")
        )

    def is_keyword(self, token: str) -> bool:
        return len(token) <= LONGEST_KEYWORD and token.upper() in _CONDITION_KEYWORDS

    def parse(self) -> ConditionNode:
        self.stack: list[Frame] = []
        self.frame = Frame("root")
        self.calls = 0  # nesting of calls around the current token
        while True:
            node = self.operand_start()
            if node is None:
                continue
            result = self.operand_end(node)
            if result is not None:
                self.raise_problems(CONDITION_ORDER)
                return result

    def operand_start(self) -> Operand | None:
        """Read one thing where an operand must begin; None when more must follow first."""
        token = self.tokens[self.position]
        first = token[:1]
        frame = self.frame
        if first == ":":
            return self.value()
        if token == "(":
            only_operand = frame.operator or frame.kind in _OPERAND_FRAMES
            self.open(Frame("operand" if only_operand else "group"))
            return None
        if self.starts_call():
            self.open(Frame("call", token))
            self.position += 1
            self.calls += 1
            return None
        if first.isalpha() and self.is_keyword(token):
            if token.upper() != "NOT" or frame.operator or frame.kind in _OPERAND_FRAMES:
                self.fail()
            frame.nots += 1
            self.count_operator()
            self.position += 1
            return None
        return self.path()

    def open(self, frame: Frame) -> None:
        self.stack.append(self.frame)
        self.frame = frame
        self.position += 1

    def operand_end(self, node: Any) -> ConditionNode | None:
        """Read what may follow a complete node; returns the tree at the end of the text."""
        grouped = False  # node stands in parentheses of its own
        while True:
            token = self.tokens[self.position]
            frame = self.frame
            if token in COMPARATORS:
                self.begin_comparison(node, token)
                return None
            if token == ")":
                node, grouped = self.close(node, grouped)
            elif token == "," and frame.kind in ("call", "in"):
                frame.arguments.append(self.argument(node))
                self.position += 1
                return None
            elif token == END:
                if self.stack:
                    self.fail()
                return self.finish(node)
            elif grouped and token in (".", "[") and isinstance(node, Path):
                steps = list(node.steps)
                self.path_tail(steps)
                node, grouped = Path(tuple(steps)), False
            elif self.keyword(node, token.upper()):
                return None
            else:
                self.fail()

    def keyword(self, node: Any, word: str) -> bool:
        """Handle AND, OR, BETWEEN, IN behind a node; False when it is none of them."""
        frame = self.frame
        if frame.kind in _OPERAND_FRAMES:
            return False
        if word == "AND":
            if frame.operator == "BETWEEN" and frame.lower is None:
                frame.lower = self.operand(node)
            else:
                self.count_operator()
                frame.terms[-1].append(self.term(node))
        elif word == "OR":
            self.count_operator()
            frame.terms[-1].append(self.term(node))
            frame.terms.append([])
        elif word == "BETWEEN":
            self.begin_comparison(node, word)
            return True
        elif word == "IN":
            self.begin_comparison(node, word)
            if self.tokens[self.position] != "(":
                self.fail()
            self.open(Frame("in"))
            return True
        else:
            return False
        self.position += 1
        return True

    def begin_comparison(self, node: Any, operator: str) -> None:
        frame = self.frame
        if frame.operator or frame.kind in _OPERAND_FRAMES:
            self.fail()
        frame.left = self.operand(node)
        frame.operator = operator
        self.count_operator()
        self.position += 1

    def operand(self, node: Any) -> Any:
        """Refuse a condition where an operand must stand."""
        if not isinstance(node, (Path, ValueRef, Call)):
            self.fail()
        return node

    def argument(self, node: Any) -> Any:
        """An operand of a call or of IN; the only call it may be is size."""
        if isinstance(self.operand(node), Call) and node.function != "size":
            self.misused(node.function)
        return node

    def close(self, node: Any, grouped: bool) -> tuple[Any, bool]:
        """Handle the closing parenthesis at the current position."""
        frame = self.frame
        if not self.stack:
            self.fail()
        if frame.kind in ("group", "operand"):
            if not (frame.operator or frame.nots or len(frame.terms) > 1 or frame.terms[0]):
                if grouped:
                    self.redundant()
            else:
                node = self.disjunction(node)
            self.frame = self.stack.pop()
            self.position += 1
            return node, True
        frame.arguments.append(self.argument(node))
        if frame.kind == "call":
            node = self.close_call(frame, CONDITION_FUNCTIONS, UPDATE_FUNCTIONS, self.calls)
            self.calls -= 1
            self.frame = self.stack.pop()
        else:
            self.frame = self.stack.pop()
            node = self.comparison_in(frame.arguments)
        self.position += 1
        return node, False

    def comparison_in(self, options: list[Any]) -> In:
        frame = self.frame
        if len(options) + 1 > MAX_IN_OPERANDS:
            self.problem(
                "limit",
                "The IN operator is provided with too many operands; number of operands: "
                f"{len(options) + 1}",
                error.LIMIT,
            )
        node = In(self.argument(frame.left), tuple(options))
        frame.left, frame.operator = None, ""
        return node

    def term(self, node: Any) -> ConditionNode:
        """Complete the condition that ends with `node` in the current frame."""
        frame = self.frame
        if frame.operator:
            right = self.argument(node)
            if frame.operator == "BETWEEN":
                if frame.lower is None:
                    self.fail()
                node = Between(self.argument(frame.left), self.argument(frame.lower), right)
            else:
                node = Compare(frame.operator, self.argument(frame.left), right)
            frame.left, frame.operator, frame.lower = None, "", None
        elif isinstance(node, Call):
            if node.function == "size":
                self.misused(node.function)
            self.count_operator()
        elif isinstance(node, (Path, ValueRef)):
            self.fail()
        if frame.nots % 2:
            node = node.operand if isinstance(node, Not) else Not(node)
        frame.nots = 0
        return node  # type: ignore[no-any-return]

    def disjunction(self, node: Any) -> ConditionNode:
        """Complete everything in the current frame."""
        terms = self.frame.terms
        terms[-1].append(self.term(node))
        return _flat(Or, [_flat(And, ands) for ands in terms])

    def finish(self, node: Any) -> ConditionNode:
        return self.disjunction(node)


def _flat(kind: type[And] | type[Or], terms: list[ConditionNode]) -> ConditionNode:
    if len(terms) == 1:
        return terms[0]
    flat: list[ConditionNode] = []
    for term in terms:
        if isinstance(term, kind):
            flat.extend(term.terms)
        else:
            flat.append(term)
    return kind(tuple(flat))
